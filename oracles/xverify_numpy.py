"""The in-house kernel: `xverify.dequantize_linear` and its sisters, with NumPy."""

from __future__ import annotations

from typing import Any, Callable

from oracles.arrays import answered, hand_out, numpy_dtype
from oracles.protocol import Loaded, Oracle
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

OPERANDS = ("x", "scale", "zero_point", "input", "min_range", "max_range")


def load() -> Loaded:
    """Import the public functions; each family of contracts has one."""
    import xverify

    functions: dict[str, Callable[..., Any]] = {
        "ai.onnx": xverify.dequantize_linear,
        "com.microsoft": xverify.dequantize_linear,
        "tensorflow": xverify.dequantize_range,
        "onednn": xverify.dynamic_dequantize,
    }

    def answer(call: Call, path: str) -> Outcome:
        arrays = hand_out(call)
        keywords: dict[str, Any] = dict(call.attributes, contract=call.contract)
        for name in ("output_dtype", "dtype"):
            if name in keywords:
                keywords["out_dtype"] = numpy_dtype(keywords.pop(name))
        family = call.contract.partition("/")[0]
        if family == "com.microsoft":
            keywords.setdefault("axis", None)
        operands = [arrays[name] for name in OPERANDS if name in arrays]
        return answered(functions[family](*operands, **keywords), call, arrays)

    return Loaded(answer)
