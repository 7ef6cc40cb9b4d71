"""torchao: the function ``torchao.quantization.quant_primitives.dequantize_affine``.

The text is the docstrings of the function, of quantize_affine and of ZeroPointDomain, and the tables of types in the same module.
The bodies of the functions are an implementation, and no text.

The sentences are quoted here, so that the edition exists without torchao. It has the name of a release that was read. It judges
every installed release that has all its sentences (`carried`).

A call has no argument block_size of a size for each axis. It has the attributes of ONNX instead: without an axis the call is
per tensor, with an axis per axis, and with block_size per group along that axis. int4, uint4, int2 and uint2 stand for an int8 or
uint8 with the range of these types as quant_min and quant_max.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path

from xverify.arithmetic.linear_operands import ceil_div, linear_operands, normal_axis
from xverify.arithmetic.reading import Operands, Reading
from xverify.arithmetic.readings import EXACT, FLOAT32, OUTPUT, Stepwise
from xverify.contracts.documents import package_directory, quotes
from xverify.contracts.model import Cell, Clause, Contract, Domain, Judgement, TextCheck, judged
from xverify.core.call import Call
from xverify.core.dtypes import INTEGERS
from xverify.core.errors import DocumentError

RELEASE = "0.18"
"""The release whose text was read."""

ID = f"torchao/dequantize_affine@{RELEASE}"

_MODULE = "quantization/quant_primitives.py"
_PARTS = (
    r"_DTYPE_TO_QVALUE_BOUNDS: .*?\}",
    r"^FP8_TYPES = \{.*?\}",
    r'^class ZeroPointDomain\(.*?""".*?"""',
    r'^def quantize_affine\(.*?""".*?"""',
    r'^def dequantize_affine\(.*?""".*?"""',
)
"""Patterns of the parts of the module that are text."""

_FORMULA = "integer domain: quantized_val = (float_val / scale) (integer) + zero_point (integer)"
_DOMAIN = (
    "Default value for zero_point is in integer domain, zero point is added to the quantized integer value during "
    "quantization"
)
_SHARED = (
    "this means the size of the tensor elements that's sharing the same qparam e.g. when size is the same as the input tensor "
    "dimension, we are using per tensor quantization"
)
_TABLE = (
    "per_tensor | (3, 3, 10, 10) ... per_axis (axis=0) | (1, 3, 10, 10) ... per_axis (axis=1) | (3, 1, 10, 10) ... "
    "per_group (groupsize=2) | (3, 3, 10, 2)"
)
_TYPES = (
    "torch.uint8: (0, 255), torch.int8: (-128, 127), torch.int16: (-(2**15), 2**15 - 1), torch.int32: (-(2**31), 2**31 - 1) ... "
    "torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz"
)
_PARAMETER = "scale (Tensor): quantization parameter for affine quantization"

_CLAUSES: Mapping[str, tuple[str, str]] = {
    "formula": (
        _FORMULA,
        "the docstring of ZeroPointDomain; it quantizes, and dequantization gives the float_val: (x - zero_point) * scale",
    ),
    "zero-point-domain": (_DOMAIN, "so the formula is the one for the integer domain"),
    "x-type": (
        f"{_TYPES} ... input (torch.Tensor): quantized tensor, should match the dtype `dtype` argument ... "
        "input_dtype (torch.dtype): requested dtype (e.g. torch.uint8) for output Tensor",
        "the tables of types in the module; the docstring names one type, as an example",
    ),
    "granularity": (
        f"{_SHARED} ... {_TABLE} ... per_group (groupsize=2) for axis = 3 | (3, 3, 2, 10)",
        "the number of scales is that of the groups; the docstring of quantize_affine",
    ),
    "zero-point-shape": (
        "zero_point (Tensor): quantization parameter for affine quantization",
        "the zero point is a qparam, which the same elements share as the scale",
    ),
    "axis-required": (_TABLE, "a group size belongs to an axis"),
    "block-size": (_SHARED, "block_size has a positive size for each axis of the tensor"),
    "scale-dtype": (
        _PARAMETER,
        "the text names no type: scales of float32 are judged, others are left open",
    ),
    "output-dtype": (
        "output_dtype (torch.dtype): dtype for output Tensor, default is fp32 ... dequantized Tensor, with requested "
        "dtype or fp32",
        "no sentence lists the output types: float32, float16 and bfloat16 are judged, others are left open",
    ),
    "attributes": (
        "input: torch.Tensor, block_size: Tuple[int, ...], scale: torch.Tensor, zero_point: Optional[torch.Tensor]",
        "",
    ),
    "partial-block": ("", "no sentence says if the last group of an axis may be shorter"),
    "qparam-shape": ("", "no sentence gives the shape of scale and zero_point; here it is that of ONNX"),
    "zero-point-dtype": (
        "",
        "no sentence gives the type of a zero point: here it is that of x, and int8 beside float8; others are left open",
    ),
    "intermediate": (
        "",
        "no sentence says in which type the difference and the product are computed, or how often they are rounded: exact ones "
        "are admitted, and those of float32 or of the output type, whether or not x, the zero point and the scale are cast first",
    ),
    "output-shape": ("", "no sentence says that the output has the shape of the input"),
    "subnormal": ("", "no sentence mentions subnormal results: whether they are kept or flushed to zero is open"),
    "any-scale": (
        "",
        "no sentence says if a scale may be negative, zero, infinite or NaN: the formula applies to each",
    ),
}


@dataclass(frozen=True)
class _Domain(Domain):
    """A domain whose zero points are integers of the type of x, and int8 beside float8."""

    def zero_points_for(self, x_dtype: str) -> tuple[str, ...]:
        return (x_dtype if x_dtype in INTEGERS else "int8",)


_FLOATS = ("float32", "float16", "bfloat16")

DOMAIN = _Domain(
    family="linear",
    x_dtypes=(
        *("uint8", "int8", "int16", "int32", "uint4", "int4", "uint2", "int2"),
        *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"),
    ),
    scale_dtypes=("float32",),
    output_dtypes=_FLOATS,
    granularities=("per_tensor", "per_axis", "blocked"),
    attributes=("axis", "block_size", "output_dtype"),
    default_axis=None,
    whole_blocks=True,
)


def _output_dtype(call: Call) -> str:
    return str(call.attributes.get("output_dtype", "float32"))


def _axis(call: Call) -> int | None:
    axis = call.attributes.get("axis")
    return None if axis is None else int(axis)


def _block_size(call: Call) -> int:
    return int(call.attributes.get("block_size", 0))


def _judge_shapes(call: Call) -> tuple[list[str], list[str]]:
    """The clauses on granularity that forbid the call, and those that leave it open."""
    x, scale, axis, size = call.tensors["x"], call.tensors["scale"], _axis(call), _block_size(call)
    expected: tuple[int, ...] = ()
    unspecified: list[str] = []
    if axis is None and size:
        return ["axis-required"], []
    if axis is not None:
        from_front = normal_axis(axis, len(x.shape))
        if from_front is None or size < 0:
            return ["block-size"], []
        extent = x.shape[from_front]
        expected = (extent,)
        if size:
            expected = tuple(ceil_div(n, size) if i == from_front else n for i, n in enumerate(x.shape))
            unspecified += ["partial-block"] if extent % size else []
    if scale.codes.size != prod(expected):
        return ["granularity"], []
    return [], [*unspecified, *(["qparam-shape"] if scale.shape != expected else [])]


def _judge(call: Call) -> Judgement:
    x, scale, zero_point = call.tensors["x"], call.tensors["scale"], call.tensors.get("zero_point")
    forbidden, unspecified = _judge_shapes(call)
    if x.dtype not in DOMAIN.x_dtypes:
        forbidden.append("x-type")
    if scale.dtype not in DOMAIN.scale_dtypes:
        unspecified.append("scale-dtype")
    if any(name not in DOMAIN.attributes for name in call.attributes):
        forbidden.append("attributes")
    elif _output_dtype(call) not in DOMAIN.output_dtypes:
        unspecified.append("output-dtype")
    if zero_point is not None:
        if zero_point.dtype not in DOMAIN.zero_points_for(x.dtype):
            unspecified.append("zero-point-dtype")
        if zero_point.codes.size != scale.codes.size:
            forbidden.append("zero-point-shape")
        elif zero_point.shape != scale.shape:
            unspecified.append("qparam-shape")
    return judged(ID, forbidden, unspecified)


def _cell(call: Call) -> Cell:
    tensors = call.tensors
    zero_point = tensors["zero_point"].dtype if "zero_point" in tensors else ""
    granularity = "blocked" if _block_size(call) else "per_tensor" if _axis(call) is None else "per_axis"
    return Cell(ID, tensors["x"].dtype, tensors["scale"].dtype, zero_point, _output_dtype(call), granularity, "")


def _operands(call: Call) -> Operands:
    return linear_operands(call, _output_dtype(call), _axis(call), _block_size(call))


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


def _value_clause(call: Call, reading: str | None) -> str:
    return f"{ID}/formula"


_TEXT_CHECKS = (
    TextCheck(
        f"{ID}/x-type",
        "no-argument-dtype",
        "the text says that the input should match the dtype of the argument `dtype`, and that input_dtype is the dtype for the "
        "output: there is no argument `dtype`, and input_dtype seems to be meant",
    ),
    TextCheck(
        f"{ID}/granularity",
        "axis-of-groups",
        "the table counts axes from 0 in its rows per_axis, but calls the groups (3, 3, 2, 10) those of axis 3, which is axis 2",
    ),
)
"""Sentences that contradict each other."""


def contract() -> Contract:
    """The edition."""
    document = f"docstrings and types of torchao/{_MODULE} in torchao {RELEASE}"
    named = [Clause(f"{ID}/{name}", text, document, note) for name, (text, note) in _CLAUSES.items()]
    return Contract(
        id=ID,
        title=f"torchao.quantization.quant_primitives.dequantize_affine, release {RELEASE}",
        document=document,
        domain=DOMAIN,
        clauses={clause.id: clause for clause in named},
        judge=_judge,
        cell=_cell,
        operands=_operands,
        readings=_readings,
        value_clause=_value_clause,
        text_checks=lambda: _TEXT_CHECKS,
    )


@cache
def text(python: str = sys.executable) -> str:
    """The parts of the module of a Python's torchao that are text. It is not imported.

    Raises:
        DocumentError: torchao is not installed, or its sources cannot be read.
    """
    directory = package_directory("torchao", python)
    if directory is None:
        raise DocumentError("torchao is not installed, so its docstrings cannot be read; pip install torchao")
    try:
        source = Path(directory, _MODULE).read_text(encoding="utf-8")
    except OSError as error:
        raise DocumentError(f"torchao's docstrings cannot be read: {error.strerror}") from None
    return "\n".join(part for each in _PARTS for part in re.findall(each, source, re.MULTILINE | re.DOTALL))


def carried(identity: str, distribution: str, python: str = sys.executable) -> bool:
    """True if the torchao of a Python has every sentence of the edition.

    Raises:
        DocumentError: That Python has no torchao.
    """
    return all(quotes(text(python), clause) for clause, _ in _CLAUSES.values())


def judging_installed() -> tuple[str, ...]:
    """The editions that judge the installed torchao: none if there is no torchao."""
    try:
        return (ID,) if carried(ID, "torchao") else ()
    except DocumentError:
        return ()
