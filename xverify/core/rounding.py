"""Single roundings: exact products and quotients, and casts of float64 to narrower floats.

Casts round to nearest, ties to even. They keep subnormals and overflow to infinity. NaN becomes the quiet NaN of the type.
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
    """Cast float64 to float32 with one rounding."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return numbers.astype(np.float32)


def cast(numbers: F64, dtype: str) -> NDArray[Any]:
    """Cast float64 numbers to codes of float32, float16 or bfloat16 with one rounding."""
    if dtype == "float32":
        codes: NDArray[Any] = np.asarray(to_float32(numbers)).view(np.uint32)
    elif dtype in ("float16", "bfloat16"):
        codes = _to_16_bits(np.asarray(numbers), dtype)
    else:
        raise ValueError(f"there is no cast to {dtype}; expected float32, float16 or bfloat16")
    nan = np.isnan(numbers)
    return np.where(nan, codes.dtype.type(_QUIET_NAN[dtype]), codes) if nan.any() else codes


def _to_16_bits(numbers: F64, dtype: str) -> NDArray[np.uint16]:
    """Codes of numbers that are not NaN.

    NumPy's own float16 is slow where numbers overflow or underflow, since it raises a flag for each. ml_dtypes' bfloat16
    rounds twice: 1 + 2^-8 + 2^-40 becomes 1.

    With m bits of mantissa, numbers in [2^e, 2^(e+1)) are multiples of 2^(e-m), and subnormals have the least e. float64 rounds
    the sum of such a number and 2^(e-m+52) to a multiple of 2^(e-m), ties to even. The last bits of the sum hold the multiple.
    Numbers beyond the largest one have codes beyond that of infinity.

    Source: IEEE 754-2019, 3.4 and 4.3.1.
    """
    mantissa, least = MANTISSA_BITS[dtype], 1023 + MIN_EXPONENT[dtype]
    infinity = 0x7FFF & ~((1 << mantissa) - 1)
    magnitude = np.asarray(np.abs(numbers))
    exponent = np.minimum(np.maximum(magnitude.view(np.int64) >> 52, least), least + (infinity >> mantissa))
    unit = np.asarray((exponent + (52 - mantissa)) << 52)
    with np.errstate(invalid="ignore"):  # A signalling NaN warns.
        multiples = np.asarray(magnitude + unit.view(np.float64)).view(np.int64) - unit
    codes = np.minimum(((exponent - least) << mantissa) + multiples, infinity)
    return np.asarray(codes | ((numbers.view(np.int64) >> 63) & 0x8000)).astype(np.uint16)


def cast_toward_zero(numbers: F64, dtype: str) -> NDArray[Any]:
    """Cast float64 numbers to codes, rounding toward zero. Finite numbers stay finite."""
    nearest = cast(numbers, dtype)
    too_far = np.abs(floats(dtype, nearest)) > np.abs(numbers)
    return np.asarray(nearest - too_far.astype(nearest.dtype))


def cast_by_last_bit(numbers: F64) -> NDArray[Any]:
    """Cast float64 numbers to float32 and these to bfloat16, with half of the last kept bit added.

    The usual cast adds a half, less one part if the last kept bit is 0. Without that half, even numbers are truncated, and odd
    ones are rounded up from a half on. ``(u + ((u & 0x10000) >> 1)) >> 16`` is code of this kind.
    """
    bits = cast(numbers, "float32").astype(np.uint32)
    codes = (bits + ((bits & np.uint32(0x10000)) >> np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(numbers), cast(numbers, "bfloat16"), codes.astype(np.uint16))


def cast_saturated(numbers: F64, dtype: str) -> NDArray[Any]:
    """Cast float64 numbers to the nearest codes, with the largest finite number for infinity."""
    codes = cast(numbers, dtype)
    sign = codes.dtype.type(1 << (8 * codes.dtype.itemsize - 1))
    infinity = codes.dtype.type(((1 << (8 * codes.dtype.itemsize - 1)) - 1) & ~((1 << MANTISSA_BITS[dtype]) - 1))
    return np.where((codes & ~sign) == infinity, codes - codes.dtype.type(1), codes)


def cast_clamped(numbers: F64, dtype: str) -> NDArray[Any]:
    """Cast float64 numbers as `cast_saturated` does, with the largest finite number for NaN, too.

    ``min(x, largest)`` gives its second operand on x86 if the first is NaN.
    """
    infinite = np.where(np.isnan(numbers), np.inf, numbers)
    return cast_saturated(infinite, dtype)


def to_dtype(numbers: F64, dtype: str) -> F64:
    """Round float64 numbers to ``dtype`` once. The result is float64."""
    return floats(dtype, cast(numbers, dtype))


def product_to_odd(difference: F64, exponent: int, factor: F64) -> F64:
    """difference * factor as float64, exact or rounded to odd, so that one more rounding is harmless.

    Zeros, infinities and NaN follow IEEE 754.

    Args:
        difference: Integers below 2^35 times 2**exponent, or numbers that are not finite.
        exponent: The exponent of the unit of the differences.
        factor: Values of float32 or a narrower type. float64 holds their products with each half of the integer.
    """
    with np.errstate(all="ignore"):
        plain = np.asarray(difference * factor)
        upper = np.rint(difference * 2.0 ** -(exponent + 16)) * 2.0 ** (exponent + 16)
        odd = _to_odd(*_two_sum(upper * factor, (difference - upper) * factor))
    return np.where(np.isfinite(plain) & (plain != 0.0), odd, plain)


def quotient_to_odd(difference: F64, exponent: int, divisor: F64) -> F64:
    """difference / divisor as float64, exact or rounded to odd. Operands as in `product_to_odd`."""
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


def exact_difference(a: F64, b: F64) -> NDArray[Any]:
    """a - b without any rounding, as complex numbers where float64 cannot hold it.

    Returns:
        float64 differences if all are exact. Otherwise the real part is the difference rounded to nearest, and the imaginary
        part is the exact rest.
    """
    with np.errstate(all="ignore"):
        total, rest = _two_sum(a, -b)
    rest = np.where(np.isfinite(total), rest, 0.0)
    if not rest.any():
        return total
    pair = np.empty(total.shape, np.complex128)
    pair.real, pair.imag = total, rest
    return pair


def difference_to_odd(difference: NDArray[Any]) -> F64:
    """A result of `exact_difference` as float64, exact or rounded to odd.

    One more rounding is then harmless.
    """
    return _to_odd(difference.real, difference.imag) if np.iscomplexobj(difference) else difference


def difference_times(difference: NDArray[Any], factor: F64) -> F64:
    """The product of an exact difference and a factor, exact or rounded to odd.

    The difference is a result of `exact_difference`, and the factor has at most 26 bits.
    Zeros, infinities and NaN follow IEEE 754.

    Source: Dekker's product and Knuth's TwoSum give the exact errors. Only the sign of the last sum matters.
    """
    near, rest = _parts(difference)
    with np.errstate(all="ignore"):
        plain = np.asarray(near * factor)
        product, error = _two_product(near, factor)
        second, last = _two_product(rest, factor)
        middle, low = _two_sum(error, second)
        total, high = _two_sum(product, middle)
        odd = _to_odd(total, high + (low + last))
    return np.where(np.isfinite(plain) & (plain != 0.0), odd, plain)


def difference_over(difference: NDArray[Any], divisor: F64) -> F64:
    """The quotient of an exact difference and a divisor, exact or rounded to odd.

    The difference is a result of `exact_difference`, and the divisor has at most 26 bits.
    Zeros, infinities and NaN follow IEEE 754.
    """
    near, rest = _parts(difference)
    with np.errstate(all="ignore"):
        plain = np.asarray(near / divisor)
        # The remainder is exact up to its last sum, which has the right sign. It moves the quotient to the nearest number.
        quotient = plain + _remainder(near, rest, plain, divisor) / divisor
        odd = _to_odd(quotient, _remainder(near, rest, quotient, divisor) * np.sign(divisor))
    return np.where(np.isfinite(plain) & (plain != 0.0), odd, plain)


def _remainder(near: F64, rest: F64, quotient: F64, divisor: F64) -> F64:
    product, error = _two_product(quotient, divisor)
    return np.asarray(((near - product) - error) + rest)


def _parts(difference: NDArray[Any]) -> tuple[F64, F64]:
    """The two numbers whose exact sum is the difference."""
    if np.iscomplexobj(difference):
        return difference.real, difference.imag
    return difference, np.zeros_like(difference)


def _two_product(a: F64, b: F64) -> tuple[F64, F64]:
    """a * b rounded to nearest, and its exact error. b has at most 26 bits."""
    bits = np.asarray(a, np.float64).view(np.int64) & ~((1 << 27) - 1)
    upper = np.asarray(bits.view(np.float64))
    return _two_sum(upper * b, (a - upper) * b)


def sum_to_odd(a: F64, b: F64, c: F64) -> F64:
    """a + b + c as float64, exact or rounded to odd, so that one more rounding is harmless.

    The result is not finite where an operand is not.

    Source: Knuth's TwoSum gives the exact error of each sum.
    """
    return sums(a, b, c)[1]


def sums(a: F64, b: F64, c: F64) -> tuple[F64, F64]:
    """a + b + c as float64, rounded to nearest, and rounded to odd as in `sum_to_odd`.

    The first is right if the sum needs at most 64 bits.
    """
    first, low = _two_sum(a, b)
    second, rest = _two_sum(first, c)
    third, last = _two_sum(second, low)
    fourth, least = _two_sum(last, rest)
    total, error = _two_sum(third, fourth)
    return total, _to_odd(total, error + least)


def _to_odd(total: F64, error: F64) -> F64:
    """total + error rounded to odd, where total is the sum rounded to nearest and error is its exact rest."""
    bits = np.asarray(total, np.float64).view(np.int64)
    even = (bits & 1) == 0
    # One unit toward the error. The code of a negative number grows away from zero.
    toward = np.where((error > 0) == (total > 0), 1, -1)
    odd = np.where((error != 0) & even & np.isfinite(total), bits + toward, bits)
    return np.asarray(odd.view(np.float64))


def _two_sum(a: F64, b: F64) -> tuple[F64, F64]:
    total = np.asarray(a + b)
    back = total - a
    return total, np.asarray((a - (total - back)) + (b - back))


def fraction_to_odd(value: Fraction) -> float:
    """A fraction as float64, exact or rounded to odd. It must be in the normal range of float64."""
    numerator, denominator = abs(value.numerator), value.denominator
    if numerator == 0:
        return 0.0
    shift = 54 - (numerator.bit_length() - denominator.bit_length())
    quotient, rest = divmod(numerator << max(shift, 0), denominator << max(-shift, 0))
    drop = quotient.bit_length() - 53
    odd = (quotient >> drop) | bool(rest or quotient & ((1 << drop) - 1))
    return math.copysign(math.ldexp(odd, drop - shift), value.numerator)


def is_subnormal(codes: NDArray[Any], dtype: str) -> NDArray[np.bool_]:
    """True for each code of an output dtype that is subnormal. Zero is not subnormal."""
    code = code_dtype(dtype).type
    magnitude = np.asarray(codes & code((1 << (8 * codes.dtype.itemsize - 1)) - 1))
    magnitude -= code(1)  # zero wraps around to the largest number
    return np.asarray(magnitude < code((1 << MANTISSA_BITS[dtype]) - 1))


def smallest_normal(dtype: str) -> float:
    """The smallest positive normal number of an output dtype."""
    return float(2.0 ** MIN_EXPONENT[dtype])
