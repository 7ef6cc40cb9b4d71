"""oneDNN DynamicDequantize-1: two documents whose formulas disagree, since one multiplies and one divides, and the developer
guide of release 3.13, which knows more types.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from xverify.contracts.linear import linear_operands, normal_axis
from xverify.contracts.model import Cell, Clause, Contract, Domain, Judgement, Operands, Reading, judged
from xverify.contracts.readings import EXACT, EXACT_QUOTIENT, FLOAT32, FLOAT32_QUOTIENT
from xverify.core.call import Call
from xverify.core.dtypes import integer_range, integers

_NAME = "onednn/DynamicDequantize-1"
_RELEASE = "3.13"

_DOCUMENTS = {
    "multiply": "oneDNN specification, DynamicDequantize (SPDX 2020-2022)",
    "divide": "oneDNN developer guide, DynamicDequantize-1",
    _RELEASE: "oneDNN developer guide 3.13, DynamicDequantize",
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
    },
    _RELEASE: {
        "formula": r"For per-tensor de-quantization \f[ dst = (src - zps)*scales \f]",
        "formula-per-channel": (
            r"For per-channel de-quantization, taking channel axis = 1 as an example: \f[ {dst}_{\cdots,i,\cdots,\cdots} = "
            r"(src_{\cdots,i,\cdots,\cdots} - zps_i)*scales_i,i\in [0,channelNum-1] \f]"
        ),
        "rounding": "The rounding mode is defined by the library implementation.",
        "src-type": (
            "The Dynamic Dequantize operation converts a quantized (`s4`, `u4`, `s8`, or `u8`) tensor to a `bf16`, `f16` or "
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
    "output-shape": "no sentence says that the output has the shape of the input",
    "axis-per-tensor": "no sentence says whether the axis' range holds where the axis is not used",
    "int32-overflow": "no sentence says in which type the difference is taken when it leaves the range of s32",
    "subnormal": "no sentence mentions subnormal results: whether they are kept or flushed to zero is open",
}
_SILENT_OF_RELEASE = {
    **_SILENT,
    "scales-rank": "no sentence says any more that scales and zps are 1D tensors, though both count elements only",
    "qtype-per-group": "sentences describe `qtype` = `per-group`, which the values of qtype do not list",
}


@dataclass(frozen=True)
class _ByWidth(Domain):
    """A domain whose 4-bit types have zero points of 4 bits in place of those of 8."""

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
_DOMAIN_OF_RELEASE = _ByWidth(
    family="linear",
    x_dtypes=("int8", "uint8", "int4", "uint4"),
    scale_dtypes=("float32", "float16", "bfloat16"),
    output_dtypes=("float32", "float16", "bfloat16"),
    granularities=("per_tensor", "per_axis"),
    zero_point_dtypes=("int8", "uint8", "int32"),
    attributes=("axis", "qtype"),
)


def _per_channel(call: Call) -> bool:
    return call.attributes.get("qtype", "per_tensor") == "per_channel"


def _judge(edition: str, call: Call) -> Judgement:
    x, scale, zero_point = call.tensors["x"], call.tensors["scale"], call.tensors.get("zero_point")
    forbidden: list[str] = []
    unspecified: list[str] = []
    release = edition == _RELEASE
    domain = _DOMAIN_OF_RELEASE if release else _DOMAIN
    if x.dtype not in domain.x_dtypes:
        forbidden.append("src-type")
    if scale.dtype not in domain.scale_dtypes:
        forbidden.append("scales-type")
    if zero_point is not None and zero_point.dtype not in domain.zero_points_for(x.dtype):
        forbidden.append("zps-type")
    if release and call.attributes.get("qtype") == "per_group":
        unspecified.append("qtype-per-group")
    elif call.attributes.get("qtype", "per_tensor") not in ("per_tensor", "per_channel"):
        forbidden.append("qtype")
    axis = int(call.attributes.get("axis", 1))
    place = normal_axis(axis, len(x.shape))
    expected: int | None = 1
    if _per_channel(call):
        expected = None if place is None else x.shape[place]
        if place is None:
            forbidden.append("axis-range")
    elif "axis" in call.attributes and place is None:
        unspecified.append("axis-per-tensor")
    if expected is not None:
        for parameter, clause in ((scale, "scales-shape"), (zero_point, "zps-shape")):
            if parameter is not None and parameter.shape != (expected,):
                counted = release and parameter.size == expected
                (unspecified if counted else forbidden).append("scales-rank" if counted else clause)
    if not forbidden and zero_point is not None and zero_point.dtype == "int32" and _overflows(call):
        unspecified.append("int32-overflow")
    return judged(f"{_NAME}@{edition}", forbidden, list(dict.fromkeys(unspecified)))


def _overflows(call: Call) -> bool:
    """Whether some difference of this call leaves the range of int32."""
    operands = _operands(call)
    x = integers(operands.dtypes["x"], operands.codes["x"])
    difference = x - integers(operands.dtypes["zero_point"], operands.codes["zero_point"])
    lowest, highest = integer_range("int32")
    return bool(np.any((difference < lowest) | (difference > highest)))


def _cell(edition: str, call: Call) -> Cell:
    zero_point = call.tensors["zero_point"].dtype if "zero_point" in call.tensors else ""
    granularity = "per_axis" if _per_channel(call) else "per_tensor"
    x, scale = call.tensors["x"].dtype, call.tensors["scale"].dtype
    return Cell(f"{_NAME}@{edition}", x, scale, zero_point, scale, granularity, "")


def _operands(call: Call) -> Operands:
    axis = int(call.attributes.get("axis", 1)) if _per_channel(call) else None
    # What counts is how many elements the parameters have.
    flat = {role: replace(t, codes=t.codes.reshape(-1)) for role, t in call.tensors.items() if role != "x"}
    flattened = replace(call, tensors={**call.tensors, **flat})
    return linear_operands(flattened, call.tensors["scale"].dtype, axis)


def _readings(edition: str, call: Call) -> tuple[Reading, ...]:
    return (EXACT_QUOTIENT, FLOAT32_QUOTIENT) if edition == "divide" else (EXACT, FLOAT32)


def _value_clause(edition: str, call: Call, reading: str | None) -> str:
    per_channel = "-per-channel" if edition == _RELEASE and _per_channel(call) else ""
    return f"{_NAME}@{edition}/formula{per_channel}"


def contract(edition: str) -> Contract:
    """onednn/DynamicDequantize-1@multiply, @divide or @3.13."""
    identity = f"{_NAME}@{edition}"
    document = _DOCUMENTS[edition]
    clauses = [Clause(f"{identity}/{name}", text, document) for name, text in _CLAUSES[edition].items()]
    silent = _SILENT_OF_RELEASE if edition == _RELEASE else _SILENT
    clauses += [Clause(f"{identity}/{name}", "", document, note) for name, note in silent.items()]
    return Contract(
        id=identity,
        title=f"oneDNN DynamicDequantize, the document {'of' if edition == _RELEASE else 'that says'} {edition}",
        document=document,
        domain=_DOMAIN_OF_RELEASE if edition == _RELEASE else _DOMAIN,
        clauses={clause.id: clause for clause in clauses},
        judge=partial(_judge, edition),
        cell=partial(_cell, edition),
        operands=_operands,
        readings=partial(_readings, edition),
        value_clause=partial(_value_clause, edition),
    )
