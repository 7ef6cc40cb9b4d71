"""oneDNN Dequantize-1, the static operation, whose scales and zero points are attributes.

In a call they are the 1-D tensors scale and zero_point, as for DynamicDequantize-1. The list zps holds s64. A call has its
numbers as int32, for which the arithmetic here is exact, or as int64 where they are wider.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from xverify.arithmetic.reading import Operands, Reading
from xverify.arithmetic.readings import EXACT, FLOAT32
from xverify.contracts import onednn_guide
from xverify.contracts.model import Cell, Clause, Contract, Domain, Judgement, TextCheck, judged
from xverify.contracts.onednn_guide import SILENT, judge_types_and_axis, overflows, per_channel
from xverify.core.call import Call
from xverify.core.dtypes import tensor

_NAME = "onednn/Dequantize-1"

_IN_ALL = {
    "formula": (
        r"For per-tensor de-quantization: \f[ \dst_{i} = round((\src_{i} - zps) \times scale) \f]"
    ),
    "formula-per-channel": (
        r"For per-channel de-quantization, taking channel axis = 1 as an example: "
        r"\f[ dst_{\cdots,i,\cdots,\cdots} = (\src_{\cdots,i,\cdots,\cdots} - zps_i) \times scale_i, i \in {[0, ic-1]} \f]"
    ),
    "rounding": "Rounding mode is library-implementation defined.",
    "scales-type": "Scalings applied on the src data. ... |f32 ... | A f32 list",
    "scales-shape": (
        r"i \in {[0, ic-1]} ... where \f$ic\f$ is the number of channels. ... A f32 list (only contain one element if qtype "
        "is `per_tensor`)"
    ),
    "zps-type": "Offset values that maps to float zero. ... |s64 ... | A s64 list",
    "zps-shape": (
        r"i \in {[0, ic-1]} ... where \f$ic\f$ is the number of channels. ... A s64 list (only contain one element if qtype "
        "is `per_tensor`)"
    ),
    "qtype": "Specifies which de-quantization type is used. ... `per_tensor` (default), `per_channel`",
    "axis-range": "A s64 value in the range of [-r, r-1] where r = rank(src), `1` by default",
}  # fmt: skip
_CLAUSES: Mapping[str, Mapping[str, str]] = {
    "3.0": {
        **_IN_ALL,
        "src-type": "Dequantize operation converts a quantized (u8 or s8) tensor to a f32 tensor.",
        "zero-point-required": "A s64 list (only contain one element if qtype is `per_tensor`) | Required",
    },
    "3.5": {
        **_IN_ALL,
        "src-type": (
            "Dequantize operation converts a quantized (`u8`/`s8`/`f8_e4m3`/`f8_e5m2`) tensor to an `f32` tensor. ... "
            "| s8, u8, f8_e4m3, f8_e5m2 | f32 |"
        ),
        "zps-float8": (
            "Zero points (`zps` in the attribute table) are not supported for `f8_e4m3` and `f8_e5m2` dequantization."
        ),
        "zps-absent": "If omitted, zps values are assumed to be zero.",
    },
}

_FLOAT8 = ("float8_e4m3fn", "float8_e5m2")


@dataclass(frozen=True)
class _OnlyIntegersHaveZeroPoints(Domain):
    """A domain whose float8 types have no zero points."""

    def zero_points_for(self, x_dtype: str) -> tuple[str, ...]:
        return () if x_dtype in _FLOAT8 else super().zero_points_for(x_dtype)


_DOMAIN = Domain(
    family="linear",
    x_dtypes=("int8", "uint8"),
    scale_dtypes=("float32",),
    output_dtypes=("float32",),
    granularities=("per_tensor", "per_axis"),
    zero_point_dtypes=("int32",),
    zero_point_required=True,
    attributes=("axis", "qtype"),
)
_DOMAIN_FROM_3_5 = _OnlyIntegersHaveZeroPoints(
    family="linear",
    x_dtypes=("int8", "uint8", *_FLOAT8),
    scale_dtypes=("float32",),
    output_dtypes=("float32",),
    granularities=("per_tensor", "per_axis"),
    zero_point_dtypes=("int32",),
    attributes=("axis", "qtype"),
)


def _judge(edition: str, call: Call) -> Judgement:
    x, scale, zero_point = call.tensors["x"], call.tensors["scale"], call.tensors.get("zero_point")
    domain = _DOMAIN_FROM_3_5 if edition == "3.5" else _DOMAIN
    expected, forbidden, unspecified = judge_types_and_axis(domain, call)
    if zero_point is None and domain.zero_point_required:
        forbidden.append("zero-point-required")
    if zero_point is not None and not domain.zero_points_for(x.dtype):
        forbidden.append("zps-float8")
    if zero_point is not None and zero_point.dtype not in ("int32", "int64"):
        forbidden.append("zps-type")
    if call.attributes.get("qtype", "per_tensor") not in ("per_tensor", "per_channel"):
        forbidden.append("qtype")
    if expected is not None:
        if scale.shape != (expected,):
            forbidden.append("scales-shape")
        if zero_point is not None and zero_point.shape != (expected,):
            forbidden.append("zps-shape")
    if not forbidden and zero_point is not None and overflows(_operands(call)):
        unspecified.append("int32-overflow")
    return judged(f"{_NAME}@{edition}", forbidden, unspecified)


def _cell(edition: str, call: Call) -> Cell:
    return onednn_guide.cell(f"{_NAME}@{edition}", call, "float32")


def _operands(call: Call) -> Operands:
    return onednn_guide.operands(call, "float32")


def _readings(call: Call) -> tuple[Reading, ...]:
    """The admitted readings. ``round`` in the first formula counts as the rounding to f32.

    The second formula does not write that rounding, see `_text_checks`.
    """
    return EXACT, FLOAT32


def _value_clause(edition: str, call: Call, reading: str | None) -> str:
    return f"{_NAME}@{edition}/formula{'-per-channel' if per_channel(call) else ''}"


def _text_checks(edition: str) -> tuple[TextCheck, ...]:
    """Compare the formulas for one scale and for a scale per channel, which should agree for one channel."""
    identity = f"{_NAME}@{edition}"
    tensors = {"x": tensor("int8", [[1]]), "scale": tensor("float32", [0.25]), "zero_point": tensor("int32", [0])}
    summary = (
        "the formula for one scale rounds its result, round((src - zps) x scale), and the one for a scale a channel does not: "
        "of src 1, zps 0 and scale 0.25 the first, read as it stands, gives 0, and the second 0.25"
    )
    return (TextCheck(f"{identity}/formula", "rounding-per-tensor", summary, Call(identity, tensors)),)


def contract(edition: str) -> Contract:
    """The edition onednn/Dequantize-1@<edition>.

    edition: "3.0" or "3.5".
    """
    identity = f"{_NAME}@{edition}"
    document = onednn_guide.document(identity)
    clauses = [Clause(f"{identity}/{name}", text, document) for name, text in _CLAUSES[edition].items()]
    clauses += [Clause(f"{identity}/{name}", "", document, note) for name, note in SILENT.items()]
    return Contract(
        id=identity,
        title=f"oneDNN Dequantize, whose scales and zero points are attributes, the guide from release {edition} on",
        document=document,
        domain=_DOMAIN_FROM_3_5 if edition == "3.5" else _DOMAIN,
        clauses={clause.id: clause for clause in clauses},
        judge=partial(_judge, edition),
        cell=partial(_cell, edition),
        operands=_operands,
        readings=_readings,
        value_clause=partial(_value_clause, edition),
        text_checks=partial(_text_checks, edition),
    )
