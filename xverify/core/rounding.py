"""Roundings that happen once: exact products and quotients, and casts of float64 to narrower floats.

Conventions: nearest, ties to even; subnormals kept; overflow to infinity; NaN becomes the quiet NaN of the type.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.core.call import code_dtype
from xverify.core.dtypes import MANTISSA_BITS, MIN_EXPONENT, floats

_QUIET_NAN = {"float32": 0x7FC00000, "float16": 0x7E00, "bfloat16": 0x7FC0}
F64 = NDArray[np.float64]


def to_float32(numbers: F64) -> NDArray[np.float32]:
    """float64 to float32, rounded once."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return numbers.astype(np.float32)


def cast(numbers: F64, dtype: str) -> NDArray[Any]:
    """Codes of float64 numbers in float32, float16 or bfloat16, rounded once.

    bfloat16 is rounded in integers from a float32 that was rounded to odd, since ml_dtypes rounds twice
    (1 + 2^-8 + 2^-40 becomes 1). Rounding to odd first is innocuous with two spare bits: Boldo and Melquiond,
    "Emulation of a FMA and correctly rounded sums", theorem 2.
    """
    if dtype == "float32":
        codes: NDArray[Any] = np.asarray(to_float32(numbers)).view(np.uint32)
    elif dtype == "float16":
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            codes = np.asarray(numbers.astype(np.float16)).view(np.uint16)
    elif dtype == "bfloat16":
        codes = float32_to_bfloat16(float32_to_odd(numbers))
    else:
        raise ValueError(f"no cast to {dtype}")
    nan = np.isnan(numbers)
    return np.where(nan, codes.dtype.type(_QUIET_NAN[dtype]), codes) if nan.any() else codes


def cast_toward_zero(numbers: F64, dtype: str) -> NDArray[Any]:
    """Codes of float64 numbers, truncated; so what is finite stays finite."""
    if dtype == "bfloat16":
        codes: NDArray[Any] = (float32_to_odd(numbers) >> np.uint32(16)).astype(np.uint16)
    else:
        codes = cast(numbers, dtype)
        too_far = np.abs(floats(dtype, codes)) > np.abs(numbers)
        codes = codes - too_far.astype(codes.dtype)
    nan = np.isnan(numbers)
    return np.where(nan, codes.dtype.type(_QUIET_NAN[dtype]), codes) if nan.any() else codes


def cast_saturated(numbers: F64, dtype: str) -> NDArray[Any]:
    """Codes of float64 numbers, rounded to nearest, with the largest finite number in the place of infinity."""
    codes = cast(numbers, dtype)
    sign = codes.dtype.type(1 << (8 * codes.dtype.itemsize - 1))
    infinity = codes.dtype.type(((1 << (8 * codes.dtype.itemsize - 1)) - 1) & ~((1 << MANTISSA_BITS[dtype]) - 1))
    return np.where((codes & ~sign) == infinity, codes - codes.dtype.type(1), codes)


def float32_to_odd(numbers: F64) -> NDArray[np.uint32]:
    """Codes of float64 numbers in float32, rounded to odd: truncated, the last bit set when inexact."""
    nearest = to_float32(numbers)
    codes = np.asarray(nearest).view(np.uint32).copy()
    back = nearest.astype(np.float64)
    too_far = (np.abs(back) > np.abs(numbers)).astype(np.uint32)
    inexact = ((back != numbers) & ~np.isnan(numbers)).astype(np.uint32)
    return np.asarray((codes - too_far) | inexact)


def float32_to_bfloat16(codes: NDArray[np.uint32]) -> NDArray[np.uint16]:
    """bfloat16 codes of float32 codes, to nearest even, in integers."""
    odd = (codes >> np.uint32(16)) & np.uint32(1)
    rounded = ((codes + np.uint32(0x7FFF) + odd) >> np.uint32(16)).astype(np.uint16)
    is_nan = (codes & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    return np.where(is_nan, np.uint16(_QUIET_NAN["bfloat16"]), rounded)


def to_dtype(numbers: F64, dtype: str) -> F64:
    """The float64 numbers, each rounded once to ``dtype``."""
    return floats(dtype, cast(numbers, dtype))


def product_to_odd(difference: F64, exponent: int, factor: F64) -> F64:
    """difference * factor as float64, exact or rounded to odd; so one more rounding is harmless.

    difference is an integer below 2^35 times 2**exponent, or not finite; factor is a float32 or narrower: the
    product of the integers has at most 59 bits, which int64 holds. Zeros, infinities and NaN follow IEEE 754.
    """
    with np.errstate(all="ignore"):
        plain = difference * factor
    finite = np.isfinite(plain) & (plain != 0.0)
    units = np.ldexp(np.where(finite, difference, 0.0), -exponent).astype(np.int64)
    mantissa, power = np.frexp(np.where(finite, factor, 0.0))
    wide = units * np.ldexp(mantissa, 24).astype(np.int64)
    odd = (wide >> np.int64(8)) | ((wide & np.int64(0xFF)) != 0)
    long = np.abs(wide) >= np.int64(1 << 53)
    kept = np.where(long, odd, wide).astype(np.float64)
    exact = np.ldexp(kept, power - 24 + exponent + np.where(long, 8, 0))
    return np.where(finite, exact, plain)


def quotient_to_odd(difference: F64, exponent: int, divisor: F64) -> F64:
    """difference / divisor as float64, exact or rounded to odd; operands as in `product_to_odd`."""
    with np.errstate(all="ignore"):
        plain = difference / divisor
    regular = np.isfinite(plain) & (plain != 0.0)
    units = np.abs(np.ldexp(np.where(regular, difference, 1.0), -exponent)).astype(np.int64)
    mantissa, power = np.frexp(np.where(regular, divisor, 1.0))
    whole = np.ldexp(np.abs(mantissa), 24).astype(np.int64)
    up = 61 - np.frexp(units.astype(np.float64))[1]
    numerator = units << up
    quotient = numerator // whole
    odd = quotient | (numerator != quotient * whole)
    # The quotient has 37 to 39 bits, so its conversion to float64 is exact.
    exact = np.ldexp(odd.astype(np.float64), 24 - power - up + exponent)
    return np.where(regular, np.copysign(exact, plain), plain)


def sum_to_odd(a: F64, b: F64, c: F64) -> F64:
    """a + b + c as float64, exact or rounded to odd; so one more rounding is harmless.

    The errors of the sums are exact (Knuth's TwoSum); not finite where an operand is not.
    """
    return sums(a, b, c)[1]


def sums(a: F64, b: F64, c: F64) -> tuple[F64, F64]:
    """a + b + c as float64: to nearest, where it needs no more than 64 bits; and to odd, see `sum_to_odd`."""
    first, low = _two_sum(a, b)
    second, rest = _two_sum(first, c)
    third, last = _two_sum(second, low)
    total, error = _two_sum(third, last + rest)
    bits = np.array(total, np.float64).view(np.int64)
    even = (bits & 1) == 0
    # One unit toward the error where it was rounded away from it; the code of a negative number grows away from zero.
    toward = np.where((error > 0) == (total > 0), 1, -1)
    odd = np.where((error != 0) & even & np.isfinite(total), bits + toward, bits)
    return total, np.asarray(odd.view(np.float64))


def _two_sum(a: F64, b: F64) -> tuple[F64, F64]:
    total = np.asarray(a + b)
    back = total - a
    return total, np.asarray((a - (total - back)) + (b - back))


def fraction_to_odd(value: Fraction) -> float:
    """A fraction as float64, exact or rounded to odd. The value must be in float64's normal range."""
    numerator, denominator = abs(value.numerator), value.denominator
    if numerator == 0:
        return 0.0
    shift = 54 - (numerator.bit_length() - denominator.bit_length())
    quotient, rest = divmod(numerator << max(shift, 0), denominator << max(-shift, 0))
    drop = quotient.bit_length() - 53
    odd = (quotient >> drop) | bool(rest or quotient & ((1 << drop) - 1))
    return math.copysign(math.ldexp(odd, drop - shift), value.numerator)


def is_subnormal(codes: NDArray[Any], dtype: str) -> NDArray[np.bool_]:
    """Which codes of an output dtype are subnormal numbers (zero is not)."""
    code = code_dtype(dtype).type
    magnitude = np.asarray(codes & code((1 << (8 * codes.dtype.itemsize - 1)) - 1))
    magnitude -= code(1)  # then zero is the largest number of all
    return np.asarray(magnitude < code((1 << MANTISSA_BITS[dtype]) - 1))


def smallest_normal(dtype: str) -> float:
    """The smallest positive normal number of an output dtype."""
    return float(2.0 ** MIN_EXPONENT[dtype])
