"""Readings of TensorFlow's Dequantize: recipes of arithmetic on triples (input, min_range, max_range)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic.reading import Operands
from xverify.core.call import BITS
from xverify.core.dtypes import SIGNED, floats, integer_range, integers
from xverify.core.rounding import cast, fraction_to_odd, product_to_odd

F64 = NDArray[np.float64]
Precision = Literal["exact", "float32", "float64"]


@dataclass(frozen=True)
class Inputs:
    """The operands decoded: input as integers and the range's ends as float64, of equal shape."""

    codes: NDArray[np.int64]
    low: F64
    high: F64
    dtype: str

    @property
    def levels(self) -> int:
        """range(T): highest minus lowest value of the input type."""
        return (1 << BITS[self.dtype]) - 1


def decoded(operands: Operands) -> Inputs:
    """The operands of a range call as numbers."""
    dtype = operands.dtypes["input"]
    codes, low, high = np.broadcast_arrays(
        integers(dtype, operands.codes["input"]),
        floats("float32", operands.codes["min_range"]),
        floats("float32", operands.codes["max_range"]),
    )
    return Inputs(codes, low, high, dtype)


def _round_once(estimate: F64, error: F64, exact: Callable[[tuple[int, ...]], Fraction], out: str) -> NDArray[Any]:
    """Codes of the exact values, given a float64 estimate and a bound of its error.

    Where both ends of the interval round to the same code, that is the code; elsewhere ``exact(index)`` decides.
    """
    below, above = cast(estimate - error, out), cast(estimate + error, out)
    codes = np.array(below)
    doubtful = below != above
    if doubtful.any():
        known: dict[Fraction, Any] = {}
        for index in zip(*np.nonzero(np.atleast_1d(doubtful)), strict=True):
            place = index if doubtful.ndim else ()
            value = exact(place)
            if value not in known:
                known[value] = cast(np.array([fraction_to_odd(value)]), out)[0]
            codes[place] = known[value]
    return codes


_REAL: dict[str, Any] = {"exact": np.float64, "float32": np.float32, "float64": np.float64}
"""The type in which a precision computes; for the exact one, that of its first estimate."""


def _as(real: Any, *arrays: NDArray[Any]) -> list[Any]:
    return [np.asarray(array).astype(real) for array in arrays]


class AsItIs:
    """A recipe of which no stage can be left out."""

    def simplified(self, operands: Operands) -> Self:
        return self


@dataclass(frozen=True)
class MinCombined(AsItIs):
    """min + (in * range) / R, or min + in * (range / R), in one precision.

    Source: TensorFlow's Dequantize, mode MIN_COMBINED; the second association is the text's own "multiply by 6 / 255".
    Half the range is added to the input of int8 only, as the text says.
    """

    precision: Precision
    factor_first: bool = False

    @property
    def name(self) -> str:
        order = "" if self.precision == "exact" else "-factor-first" if self.factor_first else "-product-first"
        return f"min-combined-{self.precision}{order}"

    @property
    def words(self) -> str:
        if self.precision == "exact":
            return "rounds the exact value of min + in * range / R once"
        order = "in * (range / R)" if self.factor_first else "(in * range) / R"
        return f"computes min + {order}, each step in {self.precision}"

    def evaluate(self, operands: Operands) -> NDArray[Any]:
        given = decoded(operands)
        shifted = given.codes + (128 if given.dtype == "int8" else 0)
        out = operands.output_dtype
        real = _REAL[self.precision]
        with np.errstate(all="ignore"):
            x, low, high = _as(real, shifted, given.low, given.high)
            levels = real(given.levels)
            span = high - low
            term = x * (span / levels) if self.factor_first else (x * span) / levels
            result = np.asarray(low + term).astype(np.float64)
        if self.precision != "exact":
            return np.broadcast_to(cast(result, out), operands.shape)
        return np.broadcast_to(exact_line(result, shifted, given, out), operands.shape)


def exact_line(estimate: F64, shifted: NDArray[np.int64], given: Inputs, out: str) -> NDArray[Any]:
    """Codes of min + shifted * (max - min) / R, rounded once. estimate: the same in float64, each step rounded."""

    def exact(index: tuple[int, ...]) -> Fraction:
        ends = Fraction(float(given.low[index])), Fraction(float(given.high[index]))
        return ends[0] + int(shifted[index]) * (ends[1] - ends[0]) / given.levels

    regular = np.isfinite(given.low) & np.isfinite(given.high)
    low, high = np.abs(np.where(regular, given.low, 0.0)), np.abs(np.where(regular, given.high, 0.0))
    # Six roundings at most, each of 2^-53 of a partial result that this sum bounds; 2^-49 is ample.
    error = 2.0**-49 * (low + (np.abs(shifted) / given.levels) * (low + high))
    codes = _round_once(np.where(regular, estimate, 0.0), error, exact, out)
    # Of a sum of two zeros only IEEE 754 knows the sign; a cancellation is +0.
    zero = regular & (estimate == 0.0) & (given.low == 0.0)
    return np.where(~regular | zero, cast(estimate, out), codes)


@dataclass(frozen=True)
class MinFirst(AsItIs):
    """MIN_FIRST with a real quotient: min + (in - lowest) * step, in one precision, cast once.

    Source: TensorFlow's Dequantize, mode MIN_FIRST. It declares a ``const double offset_input``, which the line of the result
    does not use; range_adjust, range and range_scale have no type, and the operands are floats.
    """

    precision: Precision = "float64"

    @property
    def name(self) -> str:
        return f"min-first-{self.precision}"

    @property
    def words(self) -> str:
        if self.precision == "exact":
            return "rounds the exact value of MIN_FIRST's formula once"
        return f"computes MIN_FIRST's formula in {self.precision} and casts the result once"

    def evaluate(self, operands: Operands) -> NDArray[Any]:
        given, out = decoded(operands), operands.output_dtype
        moved, real = given.codes - integer_range(given.dtype)[0], _REAL[self.precision]
        with np.errstate(all="ignore"):
            offset, low, high = _as(real, moved, given.low, given.high)
            values_of_type = real(given.levels + 1)
            adjust = values_of_type / (values_of_type - real(1.0))
            step = ((high - low) * adjust) / values_of_type
            result = np.asarray(low + offset * step).astype(np.float64)
        if self.precision != "exact":
            return np.broadcast_to(cast(result, out), operands.shape)
        return np.broadcast_to(exact_line(result, moved, given, out), operands.shape)


@dataclass(frozen=True)
class ScaledSymmetric(AsItIs):
    """SCALED as the older text has it: s = 2 m / (max_fixed - min_fixed), m = max(|min|, |max|); result = input * s.

    Source: TensorFlow 1's Dequantize, mode SCALED; the fixed range of a signed type is symmetric (-127..127), as its
    prose says.
    """

    precision: Precision

    @property
    def name(self) -> str:
        return f"scaled-symmetric-{self.precision}"

    @property
    def words(self) -> str:
        how = "rounds the exact product once" if self.precision == "exact" else f"each step in {self.precision}"
        return f"scales by 2 max(|min|, |max|) / (max_fixed - min_fixed), {how}"

    def evaluate(self, operands: Operands) -> NDArray[Any]:
        given = decoded(operands)
        out = operands.output_dtype
        lowest, highest = integer_range(given.dtype)
        buckets = 2 * highest if lowest < 0 else highest
        real = _REAL[self.precision]
        with np.errstate(all="ignore"):
            codes, largest = _as(real, given.codes, np.maximum(np.abs(given.low), np.abs(given.high)))
            scale = (real(2.0) * largest) / real(buckets)
            result = np.asarray(codes * scale).astype(np.float64)
        if self.precision != "exact":
            return np.broadcast_to(cast(result, out), operands.shape)

        def exact(index: tuple[int, ...]) -> Fraction:
            return int(given.codes[index]) * 2 * Fraction(float(largest[index])) / buckets

        finite = np.isfinite(result)
        safe = np.where(finite, result, 0.0)
        rounded = _round_once(safe, np.abs(safe) * 2.0**-50, lambda i: exact(i) if finite[i] else Fraction(0), out)
        return np.broadcast_to(np.where(finite & (result != 0.0), rounded, cast(result, out)), operands.shape)


@dataclass(frozen=True)
class ScaledByFloat(AsItIs):
    """SCALED as the newer text has it: input times a ``const float`` scale_factor.

    The factor is max / max_T for unsigned types, else the larger of min / min_T and max / max_T, in float32 as it is
    declared;
    the product is rounded once, or taken in float32 after the input was rounded to it.
    """

    input_rounded: bool

    @property
    def name(self) -> str:
        return "scaled-float32" if self.input_rounded else "scaled-float32-factor"

    @property
    def words(self) -> str:
        how = "rounds the input to float32 and multiplies there" if self.input_rounded else "rounds the product once"
        return f"takes the scale factor in float32, {how}"

    def evaluate(self, operands: Operands) -> NDArray[Any]:
        given = decoded(operands)
        factor = scale_factor(given.dtype, given.low, given.high, bool(operands.options.get("narrow_range", False)))
        with np.errstate(all="ignore"):
            # Exact in float64 but for int32, whose 32 bits and the factor's 24 make 56.
            if self.input_rounded:
                result = (given.codes.astype(np.float32) * factor).astype(np.float64)
            elif given.dtype == "int32":
                result = product_to_odd(given.codes.astype(np.float64), 0, factor.astype(np.float64))
            else:
                result = given.codes.astype(np.float64) * factor.astype(np.float64)
        return np.broadcast_to(cast(np.asarray(result), operands.output_dtype), operands.shape)


def scale_factor(dtype: str, low: F64, high: F64, narrow_range: bool) -> NDArray[np.float32]:
    """The installed text's ``scale_factor`` in float32; see `ScaledByFloat`."""
    lowest, highest = integer_range(dtype)
    with np.errstate(all="ignore"):
        above = np.asarray(high.astype(np.float32) / np.float32(highest), np.float32)
        if dtype not in SIGNED:
            return above
        below = np.asarray(low.astype(np.float32) / np.float32(lowest + int(narrow_range)), np.float32)
        # As C++'s std::max, which keeps the first of two that are equal: of two zeros, its sign.
        return np.where(below < above, above, below)


MIN_COMBINED = (
    MinCombined("exact"),
    MinCombined("float32"),
    MinCombined("float32", factor_first=True),
    MinCombined("float64"),
    MinCombined("float64", factor_first=True),
)
MIN_FIRST = (MinFirst(), MinFirst("float32"), MinFirst("exact"))
SCALED_SYMMETRIC = (ScaledSymmetric("exact"), ScaledSymmetric("float32"), ScaledSymmetric("float64"))
SCALED_FLOAT = (ScaledByFloat(input_rounded=False), ScaledByFloat(input_rounded=True))
