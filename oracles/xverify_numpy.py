"""The in-house kernels: `xverify.dequantize_linear` and its sisters, with NumPy and compiled by Numba."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from oracles.arrays import answered, hand_out
from oracles.protocol import Loaded, Oracle
from oracles.python_kernel import arguments, watched
from xverify.core.call import Call, Outcome

ORACLES = tuple(
    Oracle(
        name="xverify-" + backend,
        distribution="xverify",
        contracts=("*",),
        ships=("*",),
        module=__name__,
        role="kernel",
        arguments=(backend,),
        needs_xverify=True,
        needs=() if backend == "numpy" else (backend,),
    )
    for backend in ("numpy", "numba")
)


def load(backend: str = "numpy") -> Loaded:
    """The in-house kernel, called once for each call."""
    invoke = _invoke(backend)

    def answer(call: Call, path: str) -> Outcome:
        arrays = hand_out(call)
        return answered(invoke(call, arrays), call, arrays)

    return Loaded(answer)


def load_watched(backend: str = "numpy") -> Loaded:
    """The same under the gate: watched for what it does besides, as a user's kernel is."""
    return Loaded(watched(_invoke(backend)), fatal=(MemoryError,))


def _invoke(backend: str) -> Callable[[Call, dict[str, Any]], Any]:
    """Import the public functions; each family of contracts has one."""
    import xverify

    # A first call imports what the backend needs, here and not in each child that answers.
    xverify.dequantize_linear(np.zeros(1, np.uint8), np.float32(1), backend=backend)
    functions: dict[str, Callable[..., Any]] = {
        "ai.onnx": xverify.dequantize_linear,
        "com.microsoft": xverify.dequantize_linear,
        "tensorflow": xverify.dequantize_range,
        "onednn": xverify.dynamic_dequantize,
    }

    def invoke(call: Call, arrays: dict[str, Any]) -> Any:
        operands, keywords = arguments(call, arrays)
        if "axis" in call.attributes:
            # As it was given: -1 too is an attribute, which an edition may lack.
            keywords["axis"] = call.attributes["axis"]
        function = functions[call.contract.partition("/")[0]]
        return function(*operands, contract=call.contract, backend=backend, **keywords)

    return invoke
