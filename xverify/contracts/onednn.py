"""oneDNN DynamicDequantize-1: two documents without a release, and the developer guide.

The formulas of the first two disagree: one multiplies by the scale, and the other divides. From release 3.7 on, the guide
lists more types.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from xverify.arithmetic.reading import Operands, Reading
from xverify.arithmetic.readings import EXACT, EXACT_QUOTIENT, FLOAT32, FLOAT32_QUOTIENT
from xverify.contracts import onednn_guide
from xverify.contracts.model import Cell, Clause, Contract, Domain, Judgement, judged
from xverify.contracts.onednn_guide import SILENT, judge_types_and_axis, overflows, per_channel
from xverify.core.call import Call

_NAME = "onednn/DynamicDequantize-1"

_DOCUMENTS = {
    "multiply": "oneDNN specification, DynamicDequantize (SPDX 2020-2022)",
    "divide": "oneDNN developer guide, DynamicDequantize-1",
    "3.0": onednn_guide.document(f"{_NAME}@3.0"),
    "3.7": onednn_guide.document(f"{_NAME}@3.7"),
}
_CLAUSES: dict[str, dict[str, str]] = {
    "multiply": {
        "formula": "dst = (src - zps)*scales",
        "rounding": "Rounding mode is library-implementation defined.",
        "src-type": "DynamicDequantize operation converts a quantized (s8 or u8) tensor to a f32 tensor.",
        "scales-type": "``scales`` is a f32 1D tensor to be applied to the de-quantization formula.",
        "scales-shape": (
            "For ``qtype`` = ``per-tensor``, there should be only one element in the scales tensor. For ``qtype`` = "
            "``per-channel``, the element number should be equal to the element number of src tensor along the dimension axis."
        ),
        "zps-type": (
            "DynamicDequantize operation supports the following data type combinations. ... Src Dst Scales Zps ... "
            "s8 f32 f32 s8, u8, s32 u8 f32 f32 s8, u8, s32"
        ),
        "zps-shape": (
            "``zps`` is a 1D tensor with offset values that map to zero. For ``qtype`` = ``per-tensor``, there should be only "
            "one element in the zps tensor. For ``qtype`` = ``per-channel``, the element number should be equal to the "
            "element number of input tensor along the dimension axis."
        ),
        "qtype": "Specifies which de-quantization type is used ... ``per_tensor`` (default), ``per_channel``",
        "axis-range": "A s64 value in the range of [-r, r-1] where r = rank(src), ``1`` by default",
    },
    "divide": {
        "formula": "output_{i} = (input_{i} - zp) / scale",
        "rounding": "Rounding mode is library-implementation defined.",
        "src-type": "**T1**: s8, u8.",
        "scales-type": "``scales`` - f32 1D tensor to be applied to the quantization formula.",
        "scales-shape": (
            "For qtype = per-tensor, there should be only one element in the scales tensor. For qtype = per-channel, the "
            "element number should be equal to the element number of input tensor along the dimension *axis*."
        ),
        "zps-type": "**T3**: s8, u8, s32.",
        "zps-shape": (
            "``zps`` - u8/s8/s32 1D tensor with offset values that map to zero. For qtype = per-tensor, there should be only "
            "one element in the zps tensor. For qtype = per-channel, the element number should be equal to the element "
            "number of input tensor along the dimension *axis*."
        ),
        "qtype": '**Range of values**: "per_tensor" or "per_channel"',
        "axis-range": "**Range of values**: integers in [-r, r-1] where r = rank(input).",
        "axis-per-tensor": 'The attributes is valid only when *qtype* is "per_channel".',
    },
    "3.0": {
        "formula": r"For per-tensor de-quantization \f[ dst = (src - zps)*scales \f]",
        "formula-per-channel": (
            r"For per-channel de-quantization, taking channel axis = 1 as an example: \f[ {dst}_{\cdots,i,\cdots,\cdots} = "
            r"(src_{\cdots,i,\cdots,\cdots} - zps_i)*scales_i,i\in [0,channelNum-1] \f]"
        ),
        "rounding": "Rounding mode is library-implementation defined.",
        "src-type": "DynamicDequantize operation converts a quantized (s8 or u8) tensor to a f32 tensor.",
        "scales-type": "`scales` is a f32 1D tensor to be applied to the de-quantization formula.",
        "scales-shape": (
            "For `qtype` = `per-tensor`, there should be only one element in the scales tensor. For `qtype` = `per-channel`, "
            "the element number should be equal to the element number of src tensor along the dimension axis."
        ),
        "zps-type": "s8 | f32 | f32 | ... s8, u8, s32 ... u8 | f32 | f32 | ... s8, u8, s32",
        "zps-shape": (
            "`zps` is a 1D tensor with offset values that map to zero. For `qtype` = `per-tensor`, there should be only one "
            "element in the zps tensor. For `qtype` = `per-channel`, the element number should be equal to the element number "
            "of input tensor along the dimension axis."
        ),
        "zps-absent": "2 | `zps` | Optional",
        "qtype": "Specifies which de-quantization type is used. ... `per_tensor` (default), `per_channel`",
        "axis-range": (
            "A s64 value in the range of [-r, r-1] where r = rank(src), `1` by default. Negative value means counting the "
            "dimension backwards from the end."
        ),
    },
    "3.7": {
        "formula": r"For per-tensor de-quantization \f[ dst = (src - zps)*scales \f]",
        "formula-per-channel": (
            r"For per-channel de-quantization, taking channel axis = 1 as an example: \f[ {dst}_{\cdots,i,\cdots,\cdots} = "
            r"(src_{\cdots,i,\cdots,\cdots} - zps_i)*scales_i,i\in [0,channelNum-1] \f]"
        ),
        "rounding": "The rounding mode is defined by the library implementation.",
        "src-type": (
            "The Dynamic Dequantize operation converts a quantized (`s4`, `u4`, `s8`, or `u8`) tensor to ... `bf16`, `f16` or "
            "`f32` tensor."
        ),
        "scales-type": "`scales` is a `bf16`/`f16`/`f32` tensor to be applied to the de-quantization formula.",
        "output-type": "It's expected that the data types of scales and dst should be the same.",
        "scales-shape": (
            "For `qtype` = `per-tensor`, there should be only one element in the `scales` tensor. For `qtype` = "
            "`per-channel`, the element number should be equal to the element number of the src tensor along the dimension "
            "axis."
        ),
        "zps-type": (
            "| s8  | f16, bf16, f32 | f16, bf16, f32 | s8, u8, s32 | | u8  | f16, bf16, f32 | f16, bf16, f32 | s8, u8, s32 | "
            "| s4  | f16, bf16, f32 | f16, bf16, f32 | s4, u4, s32 | | u4  | f16, bf16, f32 | f16, bf16, f32 | s4, u4, s32 |"
        ),
        "zps-shape": (
            "For `qtype` = `per-tensor`, there should be only one element in the `zps` tensor. For `qtype` = `per-channel`, "
            "the element number should be equal to the element number of input tensor along the dimension axis."
        ),
        "zps-absent": "If omitted, the `zps` values are assumed to be zero.",
        "qtype": "Specifies which de-quantization type is used. ... `per_tensor` (default), `per_channel`",
        "axis-range": "An s64 value in the range of [-r, r-1] where r = rank(src), `1` by default.",
    },
}
_SILENT = {
    **SILENT,
    "qtype-spelling": (
        "sentences on scales and zps say `qtype` = `per-tensor` and `per-channel`, the values of qtype are spelled with _"
    ),
}
_SILENT_FROM_3_7 = {
    **_SILENT,
    "scales-rank": "no sentence says any more that scales and zps are 1D tensors, though both count elements only",
    "qtype-per-group": "sentences describe `qtype` = `per-group`, which the values of qtype do not list",
}


@dataclass(frozen=True)
class _ByWidth(Domain):
    """A domain whose 4-bit types have zero points of 4 bits instead of 8."""

    def zero_points_for(self, x_dtype: str) -> tuple[str, ...]:
        return ("int4", "uint4", "int32") if x_dtype in ("int4", "uint4") else super().zero_points_for(x_dtype)


_DOMAIN = Domain(
    family="linear",
    x_dtypes=("int8", "uint8"),
    scale_dtypes=("float32",),
    output_dtypes=("float32",),
    granularities=("per_tensor", "per_axis"),
    zero_point_dtypes=("int8", "uint8", "int32"),
    attributes=("axis", "qtype"),
)
_DOMAIN_FROM_3_7 = _ByWidth(
    family="linear",
    x_dtypes=("int8", "uint8", "int4", "uint4"),
    scale_dtypes=("float32", "float16", "bfloat16"),
    output_dtypes=("float32", "float16", "bfloat16"),
    granularities=("per_tensor", "per_axis"),
    zero_point_dtypes=("int8", "uint8", "int32"),
    attributes=("axis", "qtype"),
)


def _judge(edition: str, call: Call) -> Judgement:
    x, scale, zero_point = call.tensors["x"], call.tensors["scale"], call.tensors.get("zero_point")
    newer = edition == "3.7"
    domain = _DOMAIN_FROM_3_7 if newer else _DOMAIN
    expected, forbidden, unspecified = judge_types_and_axis(domain, call)
    if zero_point is not None and zero_point.dtype not in domain.zero_points_for(x.dtype):
        forbidden.append("zps-type")
    qtype = call.attributes.get("qtype", "per_tensor")
    if newer and qtype == "per_group":
        expected = None
        unspecified.append("qtype-per-group")
    elif qtype in ("per-tensor", "per-channel"):
        unspecified.append("qtype-spelling")
    elif qtype not in ("per_tensor", "per_channel"):
        forbidden.append("qtype")
    if edition == "divide" and "axis" in call.attributes and not per_channel(call):
        unspecified.append("axis-per-tensor")
    if expected is not None:
        for parameter, clause in ((scale, "scales-shape"), (zero_point, "zps-shape")):
            if parameter is not None and parameter.shape != (expected,):
                counted = newer and parameter.size == expected
                (unspecified if counted else forbidden).append("scales-rank" if counted else clause)
    if (
        not forbidden
        and expected is not None
        and zero_point is not None
        and zero_point.dtype == "int32"
        and overflows(_operands(call))
    ):
        unspecified.append("int32-overflow")
    return judged(f"{_NAME}@{edition}", forbidden, list(dict.fromkeys(unspecified)))


def _cell(edition: str, call: Call) -> Cell:
    return onednn_guide.cell(f"{_NAME}@{edition}", call, call.tensors["scale"].dtype)


def _operands(call: Call) -> Operands:
    return onednn_guide.operands(call, call.tensors["scale"].dtype)


def _readings(edition: str, call: Call) -> tuple[Reading, ...]:
    return (EXACT_QUOTIENT, FLOAT32_QUOTIENT) if edition == "divide" else (EXACT, FLOAT32)


def _value_clause(edition: str, call: Call, reading: str | None) -> str:
    apart = per_channel(call) and "formula-per-channel" in _CLAUSES[edition]
    return f"{_NAME}@{edition}/formula{'-per-channel' if apart else ''}"


def contract(edition: str) -> Contract:
    """The edition onednn/DynamicDequantize-1@<edition>.

    edition: "multiply", "divide", "3.0" or "3.7".
    """
    identity = f"{_NAME}@{edition}"
    document = _DOCUMENTS[edition]
    newer = edition == "3.7"
    clauses = [Clause(f"{identity}/{name}", text, document) for name, text in _CLAUSES[edition].items()]
    silent = _SILENT_FROM_3_7 if newer else _SILENT
    clauses += [
        Clause(f"{identity}/{name}", "", document, note)
        for name, note in silent.items()
        if name not in _CLAUSES[edition]
    ]
    which = (
        f"the guide from release {edition} on"
        if identity in onednn_guide.RELEASES
        else f"the document that says {edition}"
    )
    return Contract(
        id=identity,
        title=f"oneDNN DynamicDequantize, {which}",
        document=document,
        domain=_DOMAIN_FROM_3_7 if newer else _DOMAIN,
        clauses={clause.id: clause for clause in clauses},
        judge=partial(_judge, edition),
        cell=partial(_cell, edition),
        operands=_operands,
        readings=partial(_readings, edition),
        value_clause=partial(_value_clause, edition),
    )
