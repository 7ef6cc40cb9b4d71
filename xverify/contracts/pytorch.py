"""PyTorch: three operators of ``torch.ops.quantized_decomposed``, and ``Tensor.dequantize``.

The text of an operator is its docstring, its schema, and the lists of types in its module. For all of them it is also the
formula in the docstring of ``torch.fake_quantize_per_tensor_affine``. The bodies of the functions are an implementation, and no
text.

The sentences are quoted here, so that the editions exist without PyTorch. An edition has the name of a release that was read. It
judges every installed release that has all its sentences (`carried`).

A call has the numbers of its parameters as tensors: the scale as float32, and the zero point in the type of x, or as int8 beside
float8. The attribute axis is the argument ``axis``, block_size is ``group_size``, and output_dtype is ``out_dtype`` or
``output_dtype``. The scales of groups have the shape (M, ceil(N / group_size)). In row-major order they are the list of the text.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from xverify.arithmetic.linear_operands import ceil_div, linear_operands, normal_axis
from xverify.arithmetic.reading import Operands, Reading
from xverify.arithmetic.readings import EXACT, FLOAT32, OUTPUT, Stepwise
from xverify.contracts.documents import quotes, torch_text
from xverify.contracts.model import (
    Cell,
    Clause,
    Contract,
    Domain,
    Granularity,
    Judgement,
    OfficialCase,
    TextCheck,
    judged,
)
from xverify.core.call import Call
from xverify.core.dtypes import INTEGERS, tensor
from xverify.core.errors import DocumentError

PER_TENSOR, PER_CHANNEL, GROUP, TENSOR = OPERATORS = (
    "dequantize_per_tensor",
    "dequantize_per_channel",
    "dequantize_per_channel_group",
    "Tensor.dequantize",
)
RELEASE = "2.13"
"""The release whose texts were read. Releases 2.13 and 2.14 have every sentence."""

_INTEGER_DTYPES = ("uint8", "int8", "uint16", "int16", "int32")
_FLOAT_DTYPES = ("float8_e5m2", "float8_e4m3fn")

_FORMULA = (
    r"\text{output} = ( min( \text{quant\_max}, max( \text{quant\_min}, \text{std::nearby\_int}(\text{input} / \text{scale}) + "
    r"\text{zero\_point} ) ) - \text{zero\_point} ) \times \text{scale}"
)
_FORMULA_NOTE = (
    "the docstring of torch.fake_quantize_per_tensor_affine, which quantizes and dequantizes; the docstrings of the "
    "operators write no formula"
)
_DTYPES = (
    "_INTEGER_DTYPES = [torch.uint8, torch.int8, torch.uint16, torch.int16, torch.int32] ... "
    "_FLOAT_DTYPES = [torch.float8_e5m2, torch.float8_e4m3fn]"
)
_DTYPES_NOTE = "the lists in the operators' module; the docstring names one type, as an example"
_TO_FLOAT = (
    "Affine dequantization for the Tensor using the same quantization parameters to map from quantized values to floating point "
    "values"
)
_MAPS_TO_ZERO = "zero_point (int or Tensor): offset in integer value that maps to float zero"
_SCALES = "scales (torch.Tensor): a list of scale quantization parameter for affine quantization, one per channel"
_ZERO_POINTS = (
    "zero_points (torch.Tensor): a list of zero_point quantization parameter for affine quantization, one per channel"
)
_PER_TENSOR_SCHEMA = (
    "dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, "
    "ScalarType? out_dtype=None) -> Tensor"
)
_PER_CHANNEL_SCHEMA = (
    "dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int quant_max, "
    "ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"
)
_GROUP_SCHEMA = (
    "dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? zero_points, int quant_min, int quant_max, "
    "ScalarType dtype, int group_size, ScalarType output_dtype) -> Tensor"
)
_OUT_DTYPE = "out_dtype (torch.dtype?): optional dtype for output Tensor ... dequantized float32 Tensor"

_SILENT = {
    "intermediate": (
        "no sentence says in which type the difference and the product are computed, or how often they are rounded: exact ones "
        "are admitted, and those of float32 or of the output type, whether or not x, the zero point and the scale are cast first"
    ),
    "output-shape": "no sentence says that the output has the shape of the input",
    "subnormal": "no sentence mentions subnormal results: whether they are kept or flushed to zero is open",
    "any-scale": "no sentence says if a scale may be negative, zero, infinite or NaN: the formula applies to each",
    "zero-point-dtype": (
        "no sentence says if a zero point may be outside the range of the quantized values: here it has the type of x, and is an "
        "int8 beside float8; other integers are left open"
    ),
}
_SILENT_AXIS = "no sentence gives the range of the axis, or says what a negative axis means"
_SILENT_OUT = "no sentence lists the output types: float32, float16 and bfloat16 are judged, others are left open"

_CLAUSES: Mapping[str, Mapping[str, tuple[str, str]]] = {
    PER_TENSOR: {
        "formula": (_FORMULA, _FORMULA_NOTE),
        "affine": (_TO_FLOAT, "the formula of this map is the clause formula"),
        "x-type": (_DTYPES, _DTYPES_NOTE),
        "scale-dtype": (_PER_TENSOR_SCHEMA, "a float of a schema has 64 bits; calls here have scales that are float32 numbers"),
        "zero-point-required": (_PER_TENSOR_SCHEMA, "the argument has no default value"),
        "granularity": (_PER_TENSOR_SCHEMA, "the scale and the zero point are one number each"),
        "zero-point-shape": (_PER_TENSOR_SCHEMA, "the zero point is one number"),
        "output-dtype": (_OUT_DTYPE, _SILENT_OUT),
        "attributes": (_PER_TENSOR_SCHEMA, ""),
    },
    PER_CHANNEL: {
        "formula": (_FORMULA, _FORMULA_NOTE),
        "affine": (
            "Affine per channel dequantization for the Tensor using the same quantization parameters for each channel/axis to "
            "map from quantized values to floating point values",
            "the formula of this map is the clause formula",
        ),
        "x-type": (_DTYPES, _DTYPES_NOTE),
        "scale-dtype": (_SCALES, "the text names no type: scales of float32 are judged, others are left open"),
        "granularity": (_SCALES, ""),
        "zero-point-shape": (_ZERO_POINTS, ""),
        "axis-required": (_PER_CHANNEL_SCHEMA, "the argument axis has no default value"),
        "axis": ("", _SILENT_AXIS),
        "output-dtype": (_OUT_DTYPE, _SILENT_OUT),
        "attributes": (_PER_CHANNEL_SCHEMA, ""),
    },
    GROUP: {
        "formula": (_FORMULA, _FORMULA_NOTE),
        "affine": (
            "Groupwise dequantization within each channel for ... 2-d Tensor using the quantization parameters ... scales "
            "(float32 torch.Tensor): quantization parameter for per channel group affine quantization",
            "the formula of affine quantization is the clause formula",
        ),
        "data-type": (
            "input (torch.Tensor): quantized Tensor (uint8/int8 etc.)",
            "the two types that the text names are judged; which others it means is open",
        ),
        "scale-type": ("scales (float32 torch.Tensor): quantization parameter for per channel group affine quantization", ""),
        "rank": (
            "Groupwise dequantization within each channel for ... 2-d Tensor ... for each row of a 2-d Tensor (M, N), we "
            "calculate scales/zero_points for each `group_size` elements",
            "",
        ),
        "block-size": (_GROUP_SCHEMA, "the argument group_size has no default value, and counts elements"),
        "block-size-1": ("", "no sentence gives the least group_size: one element a group is left open"),
        "block-shape": (
            "The dimension for scales/zero_points will be (M * ceil(N, group_size),)",
            "ceil(N, group_size) is read as the number of groups in a row, the last of which may be partial",
        ),
        "zero-point-shape": ("The dimension for scales/zero_points will be (M * ceil(N, group_size),)", ""),
        "output-dtype": ("dequantized Tensor with dtype `output_dtype`", _SILENT_OUT),
        "attributes": (_GROUP_SCHEMA, ""),
    },
    TENSOR: {
        "formula": (_FORMULA, _FORMULA_NOTE),
        "dequantize": ("Given a quantized Tensor, dequantize it and return the dequantized float Tensor.", ""),
        "zero": (_MAPS_TO_ZERO, ""),
        "x-type": (
            "Has to be one of the quantized dtypes: ``torch.quint8``, ``torch.qint8``, ``torch.qint32``",
            "the docstrings of torch.quantize_per_tensor and torch.quantize_per_channel, which make quantized tensors",
        ),
        "scale-dtype": (
            "scale (float or Tensor): scale to apply in quantization formula ... scales (Tensor): float 1D tensor of "
            "scales to use",
            "the text names no width: scales of float32 are judged, others are left open",
        ),
        "zero-point-required": (_MAPS_TO_ZERO, "a quantized tensor always has a zero point"),
        "granularity": (
            "scales (Tensor): float 1D tensor of scales to use, size should match ``input.size(axis)``",
            "the docstring of torch.quantize_per_channel; without an axis the scale is one number",
        ),
        "zero-point-shape": (
            "zero_points (int): integer 1D tensor of offset to use, size should match ``input.size(axis)``",
            "",
        ),
        "axis": ("axis (int): dimension on which apply per-channel quantization", _SILENT_AXIS),
        "output-type": ("Returns an fp32 Tensor by dequantizing a quantized Tensor", ""),
        "attributes": ("dequantize() -> Tensor", "the axis belongs to the tensor; there are no other attributes"),
    },
}  # fmt: skip


@dataclass(frozen=True)
class _WholeZeroPoints(Domain):
    """A domain whose zero points are integers of the type of x, and int8 beside float8."""

    def zero_points_for(self, x_dtype: str) -> tuple[str, ...]:
        return (x_dtype if x_dtype in INTEGERS else "int8",)


def _domain(
    granularities: tuple[Granularity, ...],
    attributes: tuple[str, ...],
    x_dtypes: tuple[str, ...] = (*_INTEGER_DTYPES, *_FLOAT_DTYPES),
    default_axis: int | None = None,
    zero_point_required: bool = False,
    ranks: tuple[int, ...] = (),
) -> Domain:
    outputs = ("float32", "float16", "bfloat16") if "output_dtype" in attributes else ("float32",)
    return _WholeZeroPoints(
        family="linear",
        x_dtypes=x_dtypes,
        scale_dtypes=("float32",),
        output_dtypes=outputs,
        granularities=granularities,
        zero_point_required=zero_point_required,
        attributes=attributes,
        default_axis=default_axis,
        ranks=ranks,
    )


_DOMAINS: Mapping[str, Domain] = {
    PER_TENSOR: _domain(("per_tensor",), ("output_dtype",), zero_point_required=True),
    PER_CHANNEL: _domain(("per_axis",), ("axis", "output_dtype")),
    GROUP: _domain(("blocked",), ("block_size", "output_dtype"), ("uint8", "int8"), default_axis=1, ranks=(2,)),
    TENSOR: _domain(("per_tensor", "per_axis"), ("axis",), ("uint8", "int8", "int32"), zero_point_required=True),
}


def edition(operator: str) -> str:
    """The id of the edition of an operator."""
    return f"pytorch/{operator}@{RELEASE}"


def _output_dtype(call: Call) -> str:
    return str(call.attributes.get("output_dtype", "float32"))


def _judge_shapes(operator: str, call: Call) -> tuple[list[str], list[str]]:
    """The clauses on shapes, axis and groups that forbid the call, and those that leave it open."""
    x, scale = call.tensors["x"], call.tensors["scale"]
    axis = call.attributes.get("axis")
    if operator == GROUP:
        return _judge_groups(call)
    if operator == PER_TENSOR or (operator == TENSOR and axis is None):
        return ([], []) if scale.shape == () else (["granularity"], [])
    if axis is None:
        return ["axis-required"], []
    if len(scale.shape) != 1:
        return ["granularity"], []
    from_front = normal_axis(int(axis), len(x.shape))
    if from_front is None or int(axis) < 0:
        return [], ["axis"]
    return ([], []) if scale.shape[0] == x.shape[from_front] else (["granularity"], [])


def _judge_groups(call: Call) -> tuple[list[str], list[str]]:
    x, scale = call.tensors["x"], call.tensors["scale"]
    size = int(call.attributes.get("block_size", 0))
    if len(x.shape) != 2:
        return ["rank"], []
    if size < 1:
        return ["block-size"], []
    if scale.shape != (x.shape[0], ceil_div(x.shape[1], size)):
        return ["block-shape"], []
    return [], ["block-size-1"] if size == 1 else []


def _judge(operator: str, call: Call) -> Judgement:
    domain, x, zero_point = _DOMAINS[operator], call.tensors["x"], call.tensors.get("zero_point")
    forbidden, unspecified = _judge_shapes(operator, call)
    if x.dtype not in domain.x_dtypes:
        if operator == GROUP:
            unspecified.append("data-type")
        else:
            forbidden.append("x-type")
    if call.tensors["scale"].dtype not in domain.scale_dtypes:
        if operator == GROUP:
            forbidden.append("scale-type")
        else:
            unspecified.append("scale-dtype")
    if any(name not in domain.attributes for name in call.attributes):
        forbidden.append("attributes")
    elif _output_dtype(call) not in domain.output_dtypes:
        unspecified.append("output-dtype")
    if zero_point is None:
        if domain.zero_point_required:
            forbidden.append("zero-point-required")
    else:
        if zero_point.dtype not in domain.zero_points_for(x.dtype):
            unspecified.append("zero-point-dtype")
        if zero_point.shape != call.tensors["scale"].shape:
            forbidden.append("zero-point-shape")
    return judged(edition(operator), forbidden, unspecified)


def _cell(operator: str, call: Call) -> Cell:
    tensors = call.tensors
    zero_point = tensors["zero_point"].dtype if "zero_point" in tensors else ""
    granularity = "blocked" if operator == GROUP else "per_axis" if "axis" in call.attributes else "per_tensor"
    types = tensors["x"].dtype, tensors["scale"].dtype, zero_point, _output_dtype(call)
    return Cell(edition(operator), *types, granularity, "")


def _operands(operator: str, call: Call) -> Operands:
    if operator == GROUP:
        return linear_operands(call, _output_dtype(call), 1, int(call.attributes.get("block_size", 0)))
    axis = call.attributes.get("axis")
    return linear_operands(call, _output_dtype(call), None if axis is None else int(axis))


_SINGLE: tuple[Reading, ...] = (EXACT, FLOAT32, Stepwise("operands-float32", "float32", precision="float32"))
_OUTPUT: tuple[Reading, ...] = (
    *OUTPUT,
    Stepwise(difference="output", precision="float32"),
    Stepwise("operands-output", "output", precision="float32"),
)
"""Readings with a difference in the output type. A product in float32 is rounded a second time, to the output type."""


def _readings(call: Call) -> tuple[Reading, ...]:
    """The readings that the silence on intermediate results admits, see the clause intermediate."""
    return _SINGLE if _output_dtype(call) == "float32" else (*_SINGLE, *_OUTPUT)


def _value_clause(operator: str, call: Call, reading: str | None) -> str:
    return f"{edition(operator)}/formula"


def _text_checks(operator: str) -> tuple[TextCheck, ...]:
    """Sentences of a docstring that do not fit its operator."""
    result = "the text says that the result is a float32 Tensor, and that out_dtype is its type"
    checks = {
        PER_TENSOR: ("output-dtype", "float32-result", result),
        PER_CHANNEL: ("output-dtype", "float32-result", result),
        GROUP: (
            "block-shape",
            "ceil-of-two",
            "the text gives the number of scales as (M * ceil(N, group_size),): ceil has one argument, so that "
            "M * ceil(N / group_size) seems to be meant",
        ),
    }
    if operator not in checks:
        return ()
    clause, name, summary = checks[operator]
    return (TextCheck(f"{edition(operator)}/{clause}", name, summary),)


@dataclass(frozen=True)
class Example:
    """An example of a docstring that prints codes and the numbers that they stand for."""

    name: str
    """The function of the docstring."""
    sentence: str
    """The printed text. PyTorch prints a number without decimals only if all numbers of the tensor are integers."""
    codes: list[Any]
    """The codes, of torch.quint8."""
    scale: float | list[float]
    zero_point: int | list[int]
    attributes: Mapping[str, int]
    due: list[Any]
    """The printed numbers."""


EXAMPLES = (
    Example(
        "torch.quantize_per_tensor",
        "tensor([-1., 0., 1., 2.], size=(4,), dtype=torch.quint8, quantization_scheme=torch.per_tensor_affine, scale=0.1, "
        "zero_point=10) ... tensor([ 0, 10, 20, 30], dtype=torch.uint8)",
        [0, 10, 20, 30],
        0.1,
        10,
        {},
        [-1, 0, 1, 2],
    ),
    Example(
        "torch.quantize_per_channel",
        "torch.quantize_per_channel(x, torch.tensor([0.1, 0.01]), torch.tensor([10, 0]), 0, torch.quint8) "
        "tensor([[-1., 0.], [ 1., 2.]], size=(2, 2), dtype=torch.quint8, ... tensor([[ 0, 10], [100, 200]], dtype=torch.uint8)",
        [[0, 10], [100, 200]],
        [0.1, 0.01],
        [10, 0],
        {"axis": 0},
        [[-1, 0], [1, 2]],
    ),
)
"""The examples that state codes and numbers. The scales 0.1 and 0.01 are float32 numbers here, as in every call."""


@cache
def _official_cases(operator: str) -> tuple[OfficialCase, ...]:
    if operator != TENSOR:
        return ()
    return tuple(
        OfficialCase(
            example.name,
            f"the docstring of {example.name} in torch {RELEASE}",
            Call(
                edition(operator),
                {
                    "x": tensor("uint8", example.codes),
                    "scale": tensor("float32", example.scale),
                    "zero_point": tensor("uint8", example.zero_point),
                },
                example.attributes,
                f"official: {example.name}",
            ),
            tensor("float32", example.due),
        )
        for example in EXAMPLES
    )


def contract(operator: str) -> Contract:
    """The edition of an operator, one of `OPERATORS`."""
    identity = edition(operator)
    name = f"torch.{operator}" if operator == TENSOR else f"torch.ops.quantized_decomposed.{operator}"
    document = f"docstring and schema of {name} in torch {RELEASE}"
    clauses = {**_CLAUSES[operator], **{name: ("", note) for name, note in _SILENT.items()}}
    named = [Clause(f"{identity}/{clause}", text, document, note) for clause, (text, note) in clauses.items()]
    return Contract(
        id=identity,
        title=f"PyTorch {name}, release {RELEASE}",
        document=document,
        domain=_DOMAINS[operator],
        clauses={clause.id: clause for clause in named},
        judge=partial(_judge, operator),
        cell=partial(_cell, operator),
        operands=partial(_operands, operator),
        readings=_readings,
        value_clause=partial(_value_clause, operator),
        text_checks=partial(_text_checks, operator),
        official_cases=partial(_official_cases, operator),
    )


def carried(identity: str, distribution: str, python: str = sys.executable) -> bool:
    """True if the torch of a Python has every sentence of an edition.

    Raises:
        DocumentError: That Python has no torch.
    """
    operator = identity.removeprefix("pytorch/").rpartition("@")[0]
    text = torch_text(operator, python)
    return all(quotes(text, clause) for clause, _ in _CLAUSES[operator].values())


def judging_installed() -> tuple[str, ...]:
    """The editions that judge the installed torch: none if there is no torch."""
    try:
        return tuple(identity for identity in map(edition, OPERATORS) if carried(identity, "torch"))
    except DocumentError:
        return ()
