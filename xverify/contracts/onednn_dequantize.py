"""oneDNN Dequantize-1, the static operation: scales and zero points are attributes of it, and not operands.

In a call they are the tensors scale and zero_point, 1-D, as for DynamicDequantize-1. The list zps holds s64: a call has
its numbers as int32, whose differences the arithmetic here is exact for, or as int64 where they are wider.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xverify.contracts.linear import linear_operands, normal_axis
from xverify.contracts.model import Cell, Clause, Contract, Domain, Judgement, Operands, Reading, TextCheck, judged
from xverify.contracts.readings import EXACT, FLOAT32
from xverify.core.call import Call
from xverify.core.dtypes import integer_range, integers, tensor

_NAME = "onednn/Dequantize-1"
_DOCUMENT = "oneDNN developer guide 3.13, Dequantize"

_CLAUSES = {
    "formula": (
        r"For per-tensor de-quantization: \f[ \dst_{i} = round((\src_{i} - zps) \times scale) \f]"
    ),
    "formula-per-channel": (
        r"For per-channel de-quantization, taking channel axis = 1 as an example: "
        r"\f[ dst_{\cdots,i,\cdots,\cdots} = (\src_{\cdots,i,\cdots,\cdots} - zps_i) \times scale_i, i \in {[0, ic-1]} \f]"
    ),
    "rounding": "Rounding mode is library-implementation defined.",
    "src-type": (
        "Dequantize operation converts a quantized (`u8`/`s8`/`f8_e4m3`/`f8_e5m2`) tensor to an `f32` tensor. ... "
        "| s8, u8, f8_e4m3, f8_e5m2 | f32 |"
    ),
    "scales-type": "Scalings applied on the src data. ... |f32 ... | A f32 list",
    "scales-shape": (
        r"i \in {[0, ic-1]} ... where \f$ic\f$ is the number of channels. ... A f32 list (only contain one element if qtype "
        "is `per_tensor`)"
    ),
    "zps-type": "Offset values that maps to float zero. ... |s64 ... | A s64 list",
    "zps-shape": (
        r"i \in {[0, ic-1]} ... where \f$ic\f$ is the number of channels. ... A s64 list (only contain one element if qtype "
        "is `per_tensor`)."
    ),
    "zps-float8": (
        "Zero points (`zps` in the attribute table) are not supported for `f8_e4m3` and `f8_e5m2` dequantization."
    ),
    "zps-absent": "If omitted, zps values are assumed to be zero.",
    "qtype": "Specifies which de-quantization type is used. ... `per_tensor` (default), `per_channel`",
    "axis-range": "A s64 value in the range of [-r, r-1] where r = rank(src), `1` by default",
}  # fmt: skip
_SILENT = {
    "output-shape": "no sentence says that the output has the shape of the input",
    "axis-per-tensor": "no sentence says whether the axis' range holds where the axis is not used",
    "int32-overflow": "no sentence says in which type the difference is taken when it leaves the range of s32",
    "subnormal": "no sentence mentions subnormal results: whether they are kept or flushed to zero is open",
}

_FLOAT8 = ("float8_e4m3fn", "float8_e5m2")


@dataclass(frozen=True)
class _OnlyIntegersHaveZeroPoints(Domain):
    """A domain whose float8 types have none."""

    def zero_points_for(self, x_dtype: str) -> tuple[str, ...]:
        return () if x_dtype in _FLOAT8 else super().zero_points_for(x_dtype)


_DOMAIN = _OnlyIntegersHaveZeroPoints(
    family="linear",
    x_dtypes=("int8", "uint8", *_FLOAT8),
    scale_dtypes=("float32",),
    output_dtypes=("float32",),
    granularities=("per_tensor", "per_axis"),
    zero_point_dtypes=("int32",),
    attributes=("axis", "qtype"),
)


def _per_channel(call: Call) -> bool:
    return call.attributes.get("qtype", "per_tensor") == "per_channel"


def _judge(call: Call) -> Judgement:
    x, scale, zero_point = call.tensors["x"], call.tensors["scale"], call.tensors.get("zero_point")
    forbidden: list[str] = []
    unspecified: list[str] = []
    if x.dtype not in _DOMAIN.x_dtypes:
        forbidden.append("src-type")
    if scale.dtype not in _DOMAIN.scale_dtypes:
        forbidden.append("scales-type")
    if zero_point is not None and x.dtype in _FLOAT8:
        forbidden.append("zps-float8")
    if zero_point is not None and zero_point.dtype not in ("int32", "int64"):
        forbidden.append("zps-type")
    if call.attributes.get("qtype", "per_tensor") not in ("per_tensor", "per_channel"):
        forbidden.append("qtype")
    place = normal_axis(int(call.attributes.get("axis", 1)), len(x.shape))
    expected: int | None = 1
    if _per_channel(call):
        expected = None if place is None else x.shape[place]
        if place is None:
            forbidden.append("axis-range")
    elif "axis" in call.attributes and place is None:
        unspecified.append("axis-per-tensor")
    if expected is not None:
        if scale.shape != (expected,):
            forbidden.append("scales-shape")
        if zero_point is not None and zero_point.shape != (expected,):
            forbidden.append("zps-shape")
    if not forbidden and zero_point is not None and _overflows(call):
        unspecified.append("int32-overflow")
    return judged(_NAME, forbidden, unspecified)


def _overflows(call: Call) -> bool:
    """Whether some difference of this call leaves the range of int32."""
    operands = _operands(call)
    x = integers(operands.dtypes["x"], operands.codes["x"])
    # A zero point that alone is far outside stays so; without this its difference could leave int64.
    zero_point = np.clip(integers(operands.dtypes["zero_point"], operands.codes["zero_point"]), -(2**40), 2**40)
    lowest, highest = integer_range("int32")
    difference = x - zero_point
    return bool(np.any((difference < lowest) | (difference > highest)))


def _cell(call: Call) -> Cell:
    zero_point = call.tensors["zero_point"].dtype if "zero_point" in call.tensors else ""
    granularity = "per_axis" if _per_channel(call) else "per_tensor"
    return Cell(_NAME, call.tensors["x"].dtype, call.tensors["scale"].dtype, zero_point, "float32", granularity, "")


def _operands(call: Call) -> Operands:
    axis = int(call.attributes.get("axis", 1)) if _per_channel(call) else None
    return linear_operands(call, "float32", axis)


def _readings(call: Call) -> tuple[Reading, ...]:
    """``round`` in the first formula is taken for the rounding to f32, which the second has not either: see
    `_text_checks`."""
    return EXACT, FLOAT32


def _value_clause(call: Call, reading: str | None) -> str:
    return f"{_NAME}/formula-per-channel" if _per_channel(call) else f"{_NAME}/formula"


def _text_checks() -> tuple[TextCheck, ...]:
    """One scale for the whole tensor, and that scale for its only channel, are the same; the formulas are not."""
    call = Call(_NAME, {"x": tensor("int8", [[1]]), "scale": tensor("float32", [0.25])})
    summary = (
        "the formula for one scale rounds its result, round((src - zps) x scale), and the one for a scale a channel does not: "
        "of src 1 and scale 0.25 the first, read as it stands, gives 0, and the second 0.25"
    )
    return (TextCheck(f"{_NAME}/formula", summary, call),)


def contract() -> Contract:
    """onednn/Dequantize-1."""
    clauses = [Clause(f"{_NAME}/{name}", text, _DOCUMENT) for name, text in _CLAUSES.items()]
    clauses += [Clause(f"{_NAME}/{name}", "", _DOCUMENT, note) for name, note in _SILENT.items()]
    return Contract(
        id=_NAME,
        title="oneDNN Dequantize, whose scales and zero points are attributes",
        document=_DOCUMENT,
        domain=_DOMAIN,
        clauses={clause.id: clause for clause in clauses},
        judge=_judge,
        cell=_cell,
        operands=_operands,
        readings=_readings,
        value_clause=_value_clause,
        text_checks=_text_checks,
    )
