"""LiteRT: the operator DEQUANTIZE by LiteRT's 8-bit quantization specification.

The specification is a page of LiteRT's site, and quantization_spec.md in its sources. It has no release, and the package does not
contain it. The operator's input is a tensor with quantization parameters. A call has them as the tensors scale and zero_point and
the attribute axis, which is ``quantized_dimension``.
"""

from __future__ import annotations

import numpy as np

from xverify.arithmetic.linear_operands import linear_operands, normal_axis
from xverify.arithmetic.reading import Operands, Reading
from xverify.arithmetic.readings import EXACT, FLOAT32, Stepwise
from xverify.contracts.model import Cell, Clause, Contract, Domain, Judgement, judged
from xverify.core.call import Call, Tensor
from xverify.core.dtypes import MIN_EXPONENT, floats, integer_range, values

ID = "litert/Dequantize@spec"
_DOCUMENT = "LiteRT 8-bit quantization specification"

_SLICES = (
    "Per-tensor quantization means that there will be one scale and/or zero-point per entire tensor. Per-axis quantization means "
    "that there will be one scale and/or `zero_point` per slice in the `quantized_dimension`."
)
_SLICES_NOTE = (
    "the text's example is a tensor with three scales and the zero points 1, 2 and 3; weights have zero points of 0, but a call "
    "does not say that its tensor is a weight"
)
_CLAUSES = {
    "formula": (
        r"8-bit quantization approximates floating point values using the following formula. ... "
        r"real\_value = (int8\_value - zero\_point) \times scale",
        "",
    ),
    "deviations": (
        "We also understand different hardware may have preferences and restrictions that may cause slight deviations when "
        "implementing the spec that result in implementations that are not bit-exact.",
        "the text gives no bound; admitted are the exact value rounded once, float32 arithmetic in the order of the formula, and "
        "int8_value * scale - zero_point * scale in float32, with and without a fused multiply-add",
    ),
    "data-type": (
        "Per-axis (aka per-channel in Conv ops) or per-tensor weights are represented by `int8` two’s complement values in the "
        "range `[-127, 127]` with zero-point equal to 0. Per-tensor activations/inputs are represented by `int8` two’s "
        "complement values in the range `[-128, 127]`, with a zero-point in range `[-128, 127]`.",
        "the text covers int8 only: other types are left open",
    ),
    "zero-point-range": (
        "Activations are asymmetric: they can have their zero-point anywhere within the signed `int8` range `[-128, 127]`.",
        "no sentence gives the type that holds a zero point: int8 is judged, other types are left open",
    ),
    "granularity": (_SLICES, _SLICES_NOTE),
    "zero-point-shape": (_SLICES, _SLICES_NOTE),
    "axis": (
        "The quantized dimension specifies the dimension of the Tensor's shape that the scales and zero-points correspond to.",
        "no sentence gives its range, or says what a negative one means",
    ),
}
_SILENT = {
    "scale-dtype": "no sentence gives the type of the scale: the schema of a model file has float32",
    "scale-value": (
        "no sentence says if a scale may be negative, zero, subnormal, infinite or NaN: calls with such a scale are left open"
    ),
    "output-type": "no sentence gives the floating-point type of the result: the operator's output is float32",
    "output-shape": "no sentence says that the output has the shape of the input",
    "arguments": "no sentence lists arguments: a tensor has scales, zero points and a quantized dimension",
    "subnormal": "no sentence mentions subnormal results: whether they are kept or flushed to zero is open",
}
_DOMAIN = Domain(
    family="linear",
    x_dtypes=("int8",),
    scale_dtypes=("float32",),
    output_dtypes=("float32",),
    granularities=("per_tensor", "per_axis"),
    attributes=("axis",),
    default_axis=None,
)


def _is_usual(scale: Tensor) -> bool:
    """True if each scale is a normal number above zero."""
    numbers = floats("float32", scale.codes)
    return bool(np.all(np.isfinite(numbers) & (numbers >= 2.0 ** MIN_EXPONENT["float32"])))


def _is_int8(zero_point: Tensor) -> bool:
    """True if each zero point is a number that int8 has."""
    numbers = values(zero_point.dtype, zero_point.codes)
    lowest, highest = integer_range("int8")
    return bool(np.all((numbers >= lowest) & (numbers <= highest) & (numbers == np.rint(numbers))))


def _judge(call: Call) -> Judgement:
    x, scale, zero_point = call.tensors["x"], call.tensors["scale"], call.tensors.get("zero_point")
    forbidden: list[str] = []
    unspecified: list[str] = []
    axis = call.attributes.get("axis")
    if axis is None:
        if scale.shape != ():
            forbidden.append("granularity")
    elif len(scale.shape) != 1:
        forbidden.append("granularity")
    else:
        from_front = normal_axis(int(axis), len(x.shape))
        if from_front is None or int(axis) < 0:
            unspecified.append("axis")
        elif scale.shape[0] != x.shape[from_front]:
            forbidden.append("granularity")
    if x.dtype != "int8":
        unspecified.append("data-type")
    if scale.dtype != "float32":
        unspecified.append("scale-dtype")
    elif not _is_usual(scale):
        unspecified.append("scale-value")
    if any(name != "axis" for name in call.attributes):
        unspecified.append("arguments")
    if zero_point is not None:
        if x.dtype == "int8" and zero_point.dtype != "int8":
            (unspecified if _is_int8(zero_point) else forbidden).append("zero-point-range")
        if zero_point.shape != scale.shape:
            forbidden.append("zero-point-shape")
    return judged(ID, forbidden, unspecified)


def _cell(call: Call) -> Cell:
    tensors = call.tensors
    zero_point = tensors["zero_point"].dtype if "zero_point" in tensors else ""
    granularity = "per_axis" if "axis" in call.attributes else "per_tensor"
    return Cell(ID, tensors["x"].dtype, tensors["scale"].dtype, zero_point, "float32", granularity, "")


def _operands(call: Call) -> Operands:
    axis = call.attributes.get("axis")
    return linear_operands(call, "float32", None if axis is None else int(axis))


_FOLDED = Stepwise(operation="folded", precision="float32")
_FUSED = Stepwise(operation="fused", precision="float32")


def _readings(call: Call) -> tuple[Reading, ...]:
    """The readings of the formula, and the slight deviations that the clause deviations lists."""
    return EXACT, FLOAT32, _FOLDED, _FUSED


def _value_clause(call: Call, reading: str | None) -> str:
    return f"{ID}/formula"


def contract() -> Contract:
    """The edition litert/Dequantize@spec."""
    clauses = {**_CLAUSES, **{name: ("", note) for name, note in _SILENT.items()}}
    named = [Clause(f"{ID}/{name}", text, _DOCUMENT, note) for name, (text, note) in clauses.items()]
    return Contract(
        id=ID,
        title="LiteRT DEQUANTIZE, by the 8-bit quantization specification",
        document=_DOCUMENT,
        domain=_DOMAIN,
        clauses={clause.id: clause for clause in named},
        judge=_judge,
        cell=_cell,
        operands=_operands,
        readings=_readings,
        value_clause=_value_clause,
    )


def carried(identity: str, distribution: str, python: str) -> bool:
    """True for the edition of the published specification, which names no release."""
    return identity == ID
