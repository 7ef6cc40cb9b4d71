"""The admitted readings of TensorFlow's Dequantize, on triples (input, min_range, max_range)."""

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
    """The operands as numbers: the input as integers, and the ends of the range as float64. All have one shape."""

    codes: NDArray[np.int64]
    low: F64
    high: F64
    dtype: str

    @property
    def levels(self) -> int:
        """The text's range(T): highest minus lowest value of the input type."""
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
    """Codes of the exact values, from an estimate in float64 and a bound of its error.

    Where both ends of the interval round to the same code, that is the code. Elsewhere ``exact(index)`` decides.
    """
    below, above = cast(estimate - error, out), cast(estimate + error, out)
    codes = np.array(below)
    doubtful = below != above
    if doubtful.any():
        rounded: dict[Fraction, Any] = {}
        for index in zip(*np.nonzero(np.atleast_1d(doubtful)), strict=True):
            element = index if doubtful.ndim else ()
            value = exact(element)
            if value not in rounded:
                rounded[value] = cast(np.array([fraction_to_odd(value)]), out)[0]
            codes[element] = rounded[value]
    return codes


_REAL: dict[str, Any] = {"exact": np.float64, "float32": np.float32, "float64": np.float64}
"""The type in which a precision computes. An exact reading makes its first estimate in it."""


def _as(real: Any, *arrays: NDArray[Any]) -> list[Any]:
    return [np.asarray(array).astype(real) for array in arrays]


class Irreducible:
    """A recipe in which every stage matters for all types."""

    def simplified(self, operands: Operands) -> Self:
        """The recipe itself."""
        return self


@dataclass(frozen=True)
class MinCombined(Irreducible):
    """min + (in * range) / R, or min + in * (range / R), in one precision.

    Half the range is added to the input of int8 only, as the text says.

    Source: TensorFlow's Dequantize, mode MIN_COMBINED. The second association is the text's own "multiply by 6 / 255".
    """

    precision: Precision
    factor_first: bool = False
    """True for the second association."""

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
        inputs = decoded(operands)
        shifted = inputs.codes + (128 if inputs.dtype == "int8" else 0)
        out = operands.output_dtype
        real = _REAL[self.precision]
        with np.errstate(all="ignore"):
            x, low, high = _as(real, shifted, inputs.low, inputs.high)
            levels = real(inputs.levels)
            span = high - low
            term = x * (span / levels) if self.factor_first else (x * span) / levels
            result = np.asarray(low + term).astype(np.float64)
        if self.precision != "exact":
            return np.broadcast_to(cast(result, out), operands.shape)
        return np.broadcast_to(exact_line(result, shifted, inputs, out), operands.shape)


def exact_line(estimate: F64, shifted: NDArray[np.int64], inputs: Inputs, out: str) -> NDArray[Any]:
    """Codes of min + shifted * (max - min) / R, rounded once.

    estimate: The same in float64, each step rounded.
    """

    def exact(index: tuple[int, ...]) -> Fraction:
        ends = Fraction(float(inputs.low[index])), Fraction(float(inputs.high[index]))
        return ends[0] + int(shifted[index]) * (ends[1] - ends[0]) / inputs.levels

    regular = np.isfinite(inputs.low) & np.isfinite(inputs.high)
    low, high = np.abs(np.where(regular, inputs.low, 0.0)), np.abs(np.where(regular, inputs.high, 0.0))
    # At most six roundings, each by at most 2^-53 of a partial result that this sum bounds. 2^-49 is ample.
    error = 2.0**-49 * (low + (np.abs(shifted) / inputs.levels) * (low + high))
    codes = _round_once(np.where(regular, estimate, 0.0), error, exact, out)
    # A fraction has no signed zero, so IEEE 754 arithmetic gives the sign of a sum of two zeros. A cancellation is +0.
    zero = regular & (estimate == 0.0) & (inputs.low == 0.0)
    return np.where(~regular | zero, cast(estimate, out), codes)


@dataclass(frozen=True)
class MinFirst(Irreducible):
    """MIN_FIRST with a real quotient: min + (in - lowest) * step, in one precision, cast once.

    Source: TensorFlow's Dequantize, mode MIN_FIRST. Its ``const double offset_input`` is not used by the line of the result.
    range_adjust, range and range_scale have no type, and the operands are floats.
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
        inputs, out = decoded(operands), operands.output_dtype
        moved, real = inputs.codes - integer_range(inputs.dtype)[0], _REAL[self.precision]
        with np.errstate(all="ignore"):
            offset, low, high = _as(real, moved, inputs.low, inputs.high)
            values_of_type = real(inputs.levels + 1)
            adjust = values_of_type / (values_of_type - real(1.0))
            step = ((high - low) * adjust) / values_of_type
            result = np.asarray(low + offset * step).astype(np.float64)
        if self.precision != "exact":
            return np.broadcast_to(cast(result, out), operands.shape)
        return np.broadcast_to(exact_line(result, moved, inputs, out), operands.shape)


@dataclass(frozen=True)
class ScaledSymmetric(Irreducible):
    """SCALED in the older text: input * s, where s = 2 m / (max_fixed - min_fixed) and m = max(|min|, |max|).

    Source: TensorFlow 1's Dequantize, mode SCALED. The fixed range of a signed type is symmetric (-127..127), as its prose
    says.
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
        inputs = decoded(operands)
        out = operands.output_dtype
        lowest, highest = integer_range(inputs.dtype)
        buckets = 2 * highest if lowest < 0 else highest
        real = _REAL[self.precision]
        with np.errstate(all="ignore"):
            codes, largest = _as(real, inputs.codes, np.maximum(np.abs(inputs.low), np.abs(inputs.high)))
            scale = (real(2.0) * largest) / real(buckets)
            result = np.asarray(codes * scale).astype(np.float64)
        if self.precision != "exact":
            return np.broadcast_to(cast(result, out), operands.shape)

        def exact(index: tuple[int, ...]) -> Fraction:
            return int(inputs.codes[index]) * 2 * Fraction(float(largest[index])) / buckets

        finite = np.isfinite(result)
        safe = np.where(finite, result, 0.0)
        rounded = _round_once(safe, np.abs(safe) * 2.0**-50, lambda i: exact(i) if finite[i] else Fraction(0), out)
        return np.broadcast_to(np.where(finite & (result != 0.0), rounded, cast(result, out)), operands.shape)


@dataclass(frozen=True)
class ScaledByFloat(Irreducible):
    """SCALED in the newer text: input times a ``const float`` scale_factor.

    The factor is max / max_T for unsigned types, else the larger of min / min_T and max / max_T. It is declared as float32.

    Source: TensorFlow 2's Dequantize, mode SCALED.
    """

    input_rounded: bool
    """True if the input is rounded to float32 and the product is taken there. False: the exact product is rounded once."""

    @property
    def name(self) -> str:
        return "scaled-float32" if self.input_rounded else "scaled-float32-factor"

    @property
    def words(self) -> str:
        how = "rounds the input to float32 and multiplies there" if self.input_rounded else "rounds the product once"
        return f"takes the scale factor in float32, {how}"

    def evaluate(self, operands: Operands) -> NDArray[Any]:
        inputs = decoded(operands)
        factor = scale_factor(inputs.dtype, inputs.low, inputs.high, bool(operands.options.get("narrow_range", False)))
        with np.errstate(all="ignore"):
            # float64 holds the product exactly unless the input is int32: 32 and 24 bits make 56.
            if self.input_rounded:
                result = (inputs.codes.astype(np.float32) * factor).astype(np.float64)
            elif inputs.dtype == "int32":
                result = product_to_odd(inputs.codes.astype(np.float64), 0, factor.astype(np.float64))
            else:
                result = inputs.codes.astype(np.float64) * factor.astype(np.float64)
        return np.broadcast_to(cast(np.asarray(result), operands.output_dtype), operands.shape)


def scale_factor(dtype: str, low: F64, high: F64, narrow_range: bool) -> NDArray[np.float32]:
    """The newer text's ``scale_factor`` in float32, see `ScaledByFloat`."""
    lowest, highest = integer_range(dtype)
    with np.errstate(all="ignore"):
        above = np.asarray(high.astype(np.float32) / np.float32(highest), np.float32)
        if dtype not in SIGNED:
            return above
        below = np.asarray(low.astype(np.float32) / np.float32(lowest + int(narrow_range)), np.float32)
        # C++'s std::max keeps the first of two equal values, so the sign of the first of two zeros.
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
