"""Readings of y = (x - zero point) * scale: recipes of arithmetic on triples (x, zero point, scale)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from xverify.contracts.model import Operands
from xverify.core.call import BITS
from xverify.core.dtypes import INTEGERS, MANTISSA_BITS, UNIT_EXPONENT, integer_range, values
from xverify.core.rounding import cast, product_to_odd, quotient_to_odd, to_dtype, to_float32

F64 = NDArray[np.float64]
Subtraction = Literal["exact", "operands-output", "ignored", "wrap-x", "wrap-int32"]
Difference = Literal["exact", "float32", "output"]
Rounding = Literal["once", "float32"]

_SUBTRACTION = {
    "exact": "subtracts exactly",
    "operands-output": "casts x and the zero point to the output type and subtracts there",
    "ignored": "ignores the zero point",
    "wrap-x": "subtracts in the type of x with wrap-around",
    "wrap-int32": "subtracts in int32 with wrap-around",
}
_DIFFERENCE = {
    "exact": "",
    "float32": ", rounds the difference to float32",
    "output": ", rounds the difference to the output type",
}


@dataclass(frozen=True)
class Stepwise:
    """A difference, a scale, and their product or quotient, each rounded as its stage says.

    subtraction: exact, or of operands cast to the output type first, or (never legal) with the zero point ignored or
    with wrap-around. difference: kept, or rounded to float32 or to the output type. scale_cast: the scale is cast to the
    output type first. rounding: of the product, once to the output type, or to float32 and then cast to it. divide: by
    the scale.
    """

    name: str
    subtraction: Subtraction = "exact"
    difference: Difference = "exact"
    scale_cast: bool = False
    rounding: Rounding = "once"
    divide: bool = False

    @property
    def words(self) -> str:
        scale = ", casts the scale to the output type" if self.scale_cast else ""
        what = "quotient by the scale" if self.divide else "product"
        where = "once to the output type" if self.rounding == "once" else "to float32, then casts to the output type"
        start = _SUBTRACTION[self.subtraction] + _DIFFERENCE[self.difference]
        return f"{start}{scale}, rounds the {what} {where}"

    def simplified(self, operands: Operands) -> Stepwise:
        """An equal reading with the stages left out that cannot change a value of these types, by their bit lengths.

        Readings whose simplified forms are equal give the same bits for every value of the types.
        """
        dtypes, out = operands.dtypes, operands.output_dtype
        x, zero_point, scale = dtypes["x"], dtypes.get("zero_point", ""), dtypes["scale"]
        precision = MANTISSA_BITS[out] + 1
        operand = max(_significant_bits(x), _significant_bits(zero_point))
        whole = operand
        if zero_point and self.subtraction != "ignored":
            # Of integers the difference has one bit more; of small floats it is not bounded by their own precision.
            whole = operand + 1 if x in INTEGERS else 64
        changes: dict[str, Any] = {"name": ""}
        if self.scale_cast and _fits(scale, out):
            changes["scale_cast"] = False
        if self.subtraction == "operands-output" and operand <= precision:
            changes["subtraction"] = "exact"
        if self.difference != "exact" and whole <= (24 if self.difference == "float32" else precision):
            changes["difference"] = "exact"
        if self.rounding == "float32" and out == "float32":
            changes["rounding"] = "once"
        return replace(self, **changes)

    def evaluate(self, operands: Operands) -> NDArray[Any]:
        out = operands.output_dtype
        difference = self._difference(operands)
        scale = values(operands.dtypes["scale"], operands.codes["scale"])
        if self.scale_cast:
            scale = to_dtype(scale, out)
        combine = quotient_to_odd if self.divide else product_to_odd
        if self.rounding == "float32" and self.difference == "float32":
            single = np.asarray(to_float32(difference), np.float32), np.asarray(to_float32(scale), np.float32)
            with np.errstate(all="ignore"):
                result = (np.divide if self.divide else np.multiply)(*single).astype(np.float64)
        elif self.divide or _is_wide(operands):
            exponent = UNIT_EXPONENT.get(operands.dtypes["x"], 0)
            result = combine(difference, exponent, scale)
        else:
            with np.errstate(all="ignore"):
                result = difference * scale
        if self.rounding == "float32":
            # Where the difference was not rounded to float32 it may have more than 24 bits: only its product is rounded.
            result = np.asarray(to_float32(np.asarray(result)), np.float64)
        return np.broadcast_to(cast(np.asarray(result), out), operands.shape)

    def _difference(self, operands: Operands) -> F64:
        out = operands.output_dtype
        x = values(operands.dtypes["x"], operands.codes["x"])
        zero_point: F64 | float = 0.0
        if "zero_point" in operands.codes and self.subtraction != "ignored":
            zero_point = values(operands.dtypes["zero_point"], operands.codes["zero_point"])
        if self.subtraction == "operands-output":
            x, zero_point = to_dtype(x, out), to_dtype(np.asarray(zero_point), out)
        with np.errstate(all="ignore"):
            # Exact: integers differ by at most 34 bits, small floats by at most 35 units.
            difference = np.asarray(x - zero_point)
        if self.subtraction.startswith("wrap") and operands.dtypes["x"] in INTEGERS:
            difference = _wrapped(difference, operands.dtypes["x"] if self.subtraction == "wrap-x" else "int32")
        if self.difference == "float32":
            return np.asarray(to_float32(difference), np.float64)
        return to_dtype(difference, out) if self.difference == "output" else difference


def _significant_bits(dtype: str) -> int:
    """Bits of the largest magnitude of an integer type, or of the significand of a small float type. Every output type has
    the range for them: those of all small floats lie between 2^-17 and 57344, those of integers of 11 bits below 2048."""
    if not dtype:
        return 0
    return BITS[dtype] if dtype in INTEGERS else 4


def _fits(scale: str, out: str) -> bool:
    """Whether every value of a scale type is one of the output type."""
    return scale == out or (out == "float32" and scale in ("float16", "bfloat16", "float8_e8m0fnu"))


def _wrapped(difference: F64, dtype: str) -> F64:
    """Integer differences modulo the width of an integer type."""
    lowest, highest = integer_range(dtype)
    return np.asarray(np.mod(difference - lowest, float(highest - lowest + 1)) + lowest)


def _is_wide(operands: Operands) -> bool:
    """Whether difference times a 24-bit scale may need more than float64's 53 bits."""
    dtypes = operands.dtypes
    return "int32" in (dtypes["x"], dtypes.get("zero_point")) or dtypes["x"].startswith("float8_e5m2")


EXACT = Stepwise("exact")
FLOAT32 = Stepwise("float32", difference="float32", rounding="float32")
OUTPUT = (
    Stepwise("output", difference="output"),
    Stepwise("output-scale-cast", difference="output", scale_cast=True),
    Stepwise("operands-output", "operands-output", "output"),
    Stepwise("operands-output-scale-cast", "operands-output", "output", scale_cast=True),
)
EXACT_QUOTIENT = Stepwise("exact-quotient", divide=True)
FLOAT32_QUOTIENT = Stepwise("float32-quotient", difference="float32", rounding="float32", divide=True)

_ADMITTED = (EXACT, FLOAT32, *OUTPUT, EXACT_QUOTIENT, FLOAT32_QUOTIENT)


def _composed() -> tuple[Stepwise, ...]:
    """Every other composition of the stages, those that depart least first."""
    stages = product(get_args(Subtraction), get_args(Difference), (False, True), get_args(Rounding), (False, True))
    made = []
    for subtraction, difference, scale_cast, rounding, divide in stages:
        parts = (
            subtraction,
            f"difference-{difference}" * (difference != "exact"),
            "scale-cast" * scale_cast,
            f"product-{rounding}",
            "divided" * divide,
        )
        reading = Stepwise("-".join(filter(None, parts)), subtraction, difference, scale_cast, rounding, divide)
        if all(replace(reading, name=known.name) != known for known in _ADMITTED):
            made.append(reading)
    return tuple(
        sorted(made, key=lambda r: (r.divide, r.scale_cast, r.subtraction == "exact", r.difference == "output"))
    )


LINEAR_READINGS = (*_ADMITTED, *_composed())
"""Every reading of a linear formula known here, legal or not; attribution searches them in this order."""
