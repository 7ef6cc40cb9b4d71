"""Conversion of numbers that a user types to the bits of a dtype: decimals, C hex floats, bits.

Each number is rounded once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from xverify.core.call import BITS, code_dtype
from xverify.core.dtypes import (
    FLOATS,
    INTEGERS,
    MANTISSA_BITS,
    MIN_EXPONENT,
    decimal,
    encode,
    integer_range,
    is_float,
    values,
)
from xverify.core.errors import UsageError

_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e(?P<exponent>[+-]?\d+))?")
_HEX = re.compile(r"(?P<sign>[+-]?)0x(?P<whole>[0-9a-f]*)\.?(?P<part>[0-9a-f]*)(p(?P<exponent>[+-]?\d+))?")
_SPECIAL = re.compile(r"(?P<sign>[+-]?)(?P<name>nan|inf|infinity)")

MOST_CHARACTERS, MOST_EXPONENT = 1000, 5000
"""The largest length and exponent of a number: far beyond every dtype, and quick to read exactly."""


@dataclass(frozen=True)
class Numeral:
    """A number as the user typed it."""

    text: str

    value: Fraction | None = None
    """The exact number; None for bits, infinities and NaN."""

    bits: int | None = None
    """The bits, if the user typed bits."""

    @property
    def negative(self) -> bool:
        return self.text.startswith("-")


def numeral(text: str, role: str) -> Numeral:
    """Parse a number such as "0.1", "1e-3", "0x1.ec2efap+2", "bits:0x3f800000", "nan", "-inf" or "-0.0".

    Args:
        role: Names the number in errors.

    Raises:
        UsageError: The text is none of these.
    """
    plain = text.strip().lower()
    if plain.startswith("bits:"):
        try:
            return Numeral(plain, bits=int(plain.removeprefix("bits:"), 0))
        except ValueError:
            raise UsageError(f"{role}: after bits: comes a whole number such as 0x3f800000, not {text[5:]!r}") from None
    if _SPECIAL.fullmatch(plain):
        return Numeral(plain)
    parts = _DECIMAL.fullmatch(plain) or _HEX.fullmatch(plain)
    if not parts:
        raise UsageError(
            f"{role} is a number such as 218, 0.1, 1e-3, 0x1.ec2efap+2, nan, -inf, or the bits as bits:0x3f800000, "
            f"not {text[:60]!r}"
        )
    if len(plain) > MOST_CHARACTERS or abs(int(parts["exponent"] or 0)) > MOST_EXPONENT:
        raise UsageError(f"{role}: {text[:60]!r} has more digits, or a larger exponent, than any number here")
    if parts.re is _DECIMAL:
        return Numeral(plain, Fraction(plain))
    digits = parts["whole"] + parts["part"]
    if not digits:
        raise UsageError(f"{role}: {text[:60]!r} has no digits")
    value = Fraction(int(digits, 16)) * Fraction(2) ** (int(parts["exponent"] or 0) - 4 * len(parts["part"]))
    return Numeral(plain, -value if parts["sign"] == "-" else value)


def code_of(number: Numeral, dtype: str, role: str) -> int:
    """The code of a number in a dtype. Floats are rounded once, to nearest even.

    Args:
        role: Names the number in errors.

    Raises:
        UsageError: The dtype has no such bits, infinity or NaN; the number is out of its range; or the dtype is an integer type
            and the number a fraction.

    Source:
        IEEE 754-2019, 4.3.1.
    """
    if number.bits is not None:
        if not 0 <= number.bits < 1 << BITS[dtype]:
            raise UsageError(f"{role}: {number.text} is not one of the {BITS[dtype]}-bit codes of {dtype}")
        return number.bits
    if number.value is None:
        return _special(number, dtype, role)
    if dtype in INTEGERS:
        lowest, highest = integer_range(dtype)
        if number.value.denominator != 1:
            raise UsageError(f"{role}: {dtype} holds whole numbers from {lowest} to {highest}, not {number.text}")
        if not lowest <= number.value <= highest:
            raise UsageError(f"{role}: {number.text} is outside the range of {dtype}, {lowest} to {highest}")
        return int(number.value) & ((1 << BITS[dtype]) - 1)
    code = _nearest(abs(number.value), dtype) if number.value >= 0 or _has_sign(dtype) else None
    if code is None:
        raise UsageError(f"{role}: {number.text} is outside the finite range of {dtype}, {_range(dtype)}")
    if not number.negative or not _has_sign(dtype) or (code == 0 and dtype.endswith("fnuz")):
        return code
    return code | (1 << (BITS[dtype] - 1))


def holds(number: Numeral, dtype: str) -> bool:
    """True if the dtype has exactly that number, or those bits."""
    try:
        code = code_of(number, dtype, "")
    except UsageError:
        return False
    return number.value is None or dtype in INTEGERS or exact(dtype, code) == number.value


def exact(dtype: str, code: int) -> Fraction | None:
    """The value of a code; None for NaN and infinities."""
    value = float(values(dtype, np.array([code], code_dtype(dtype)))[0])
    return Fraction(value) if np.isfinite(value) else None


def _special(number: Numeral, dtype: str, role: str) -> int:
    if is_float(dtype):
        wanted = float(number.text)
        code = int(np.asarray(encode(dtype, wanted)).reshape(()))
        got = float(values(dtype, np.array([code], code_dtype(dtype)))[0])
        if got == wanted or (np.isnan(got) and np.isnan(wanted)):
            return code
    what = "NaN" if "nan" in number.text else "infinity"
    raise UsageError(f"{role}: {dtype} has no {what}")


def _has_sign(dtype: str) -> bool:
    return dtype != "float8_e8m0fnu"


def _largest(dtype: str) -> int:
    """The code of the largest finite number of a float type."""
    if dtype not in FLOATS:
        return _magnitudes(dtype)[-1][1]
    return (((1 << (BITS[dtype] - 1)) - 1) >> MANTISSA_BITS[dtype] << MANTISSA_BITS[dtype]) - 1


def _range(dtype: str) -> str:
    highest = decimal(dtype, _largest(dtype))
    lowest = f"-{highest}" if _has_sign(dtype) else decimal(dtype, _magnitudes(dtype)[0][1])
    return f"{lowest} to {highest}"


def _nearest(magnitude: Fraction, dtype: str) -> int | None:
    """The code of the nearest number, ties to even; None if it is beyond the finite numbers.

    For float32, float16 and bfloat16: the nearest multiple of the unit in the last place of the binade (IEEE 754).
    """
    if dtype not in FLOATS:
        return _nearest_listed(magnitude, dtype)
    if not magnitude:
        return 0
    mantissa, lowest = MANTISSA_BITS[dtype], MIN_EXPONENT[dtype]
    exponent = max(_floor_log2(magnitude), lowest)
    code = round(magnitude / Fraction(2) ** (exponent - mantissa)) + ((exponent - lowest) << mantissa)
    return code if code <= _largest(dtype) else None


def _floor_log2(magnitude: Fraction) -> int:
    guess = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    return guess if magnitude >= Fraction(2) ** guess else guess - 1


@cache
def _magnitudes(dtype: str) -> tuple[tuple[Fraction, int], ...]:
    """Every finite magnitude of a float of 8 bits or fewer with its code, in ascending order."""
    count = 1 << (BITS[dtype] - _has_sign(dtype))
    numbers = ((exact(dtype, code), code) for code in range(count))
    return tuple(sorted((value, code) for value, code in numbers if value is not None))


def _nearest_listed(magnitude: Fraction, dtype: str) -> int | None:
    magnitudes = _magnitudes(dtype)
    largest, below = magnitudes[-1][0], magnitudes[-2][0]
    if magnitude - largest >= (largest - below) / 2 or (not _has_sign(dtype) and magnitude <= 0):
        return None
    return min(magnitudes, key=lambda entry: (abs(entry[0] - magnitude), entry[1] & 1))[1]
