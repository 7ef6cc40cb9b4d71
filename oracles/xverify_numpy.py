"""The in-house kernel: `xverify.dequantize_linear` and its sisters, with NumPy."""

from __future__ import annotations

from typing import Any, Callable

from oracles.arrays import answered, hand_out
from oracles.protocol import Loaded, Oracle
from oracles.python_kernel import arguments, watched
from xverify.core.call import Call, Outcome

ORACLES = (
    Oracle(
        name="xverify-numpy",
        distribution="xverify",
        contracts=("*",),
        ships=("*",),
        module=__name__,
        role="kernel",
        needs_xverify=True,
    ),
)


def load() -> Loaded:
    """The in-house kernel, called once for each call."""
    invoke = _invoke()

    def answer(call: Call, path: str) -> Outcome:
        arrays = hand_out(call)
        return answered(invoke(call, arrays), call, arrays)

    return Loaded(answer)


def load_watched() -> Loaded:
    """The same under the gate: watched for what it does besides, as a user's kernel is."""
    return Loaded(watched(_invoke()), fatal=(MemoryError,))


def _invoke() -> Callable[[Call, dict[str, Any]], Any]:
    """Import the public functions; each family of contracts has one."""
    import xverify

    functions: dict[str, Callable[..., Any]] = {
        "ai.onnx": xverify.dequantize_linear,
        "com.microsoft": xverify.dequantize_linear,
        "tensorflow": xverify.dequantize_range,
        "onednn": xverify.dynamic_dequantize,
    }

    def invoke(call: Call, arrays: dict[str, Any]) -> Any:
        operands, keywords = arguments(call, arrays)
        if "axis" in call.attributes:
            keywords["axis"] = call.attributes[
                "axis"
            ]  # as it was given: -1 too is an attribute, which an edition may lack
        return functions[call.contract.partition("/")[0]](*operands, contract=call.contract, **keywords)

    return invoke
