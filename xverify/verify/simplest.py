"""The simplest number between two, which a person would call the bound."""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Decimal

_EXPONENTS = (-149, -133, -126, -24, -14, 7, 8, 11, 15, 16, 24, 31, 32)
"""Exponents of powers of two at which types end: the smallest subnormal and normal numbers of float32, bfloat16 and float16, the
integers that floats hold exactly, and the ranges of integer types.
"""

_LARGEST = (65504.0, float.fromhex("0x1.fep127"), float.fromhex("0x1.fffffep127"))
"""The largest finite numbers of float16, bfloat16 and float32."""


def simplest(low: float, high: float, near: float, whole: bool = False) -> float:
    """The simplest number in (low, high], or low itself if that is simple.

    The order of preference: 0; a power of two at which a type ends; any power of two; the largest number of a type; the decimal
    with the fewest digits. Among equals, the one nearest to ``near`` wins, so that the region claims least.

    Args:
        low: the lower end; not NaN.
        high: the upper end, above ``low``; not NaN.
        near: one of the two ends.
        whole: True to admit only integers, and not ``low``.
    """

    def fits(number: float) -> bool:
        return low < number <= high and number.is_integer() if whole else low <= number <= high

    finite = near if math.isfinite(near) else low if math.isfinite(low) else high

    def nearest(numbers: list[float]) -> list[float]:
        return sorted((n for n in numbers if fits(n)), key=lambda n: abs(n - finite))

    powers = [sign * 2.0**exponent for exponent in _EXPONENTS for sign in (1, -1)]
    ends = [n for n in (low, high) if math.isfinite(n) and n]
    around = [math.copysign(2.0**e, n) for n in ends for e in _around(n)]
    for numbers in ([0.0], powers, around, [*_LARGEST, *(-n for n in _LARGEST)]):
        candidates = nearest(numbers)
        if candidates:
            return candidates[0]
    return _fewest_digits(low, high, near == low)


def _around(number: float) -> list[int]:
    """Exponents of the powers of two on either side of a number's magnitude."""
    exponent = math.frexp(number)[1]
    return [e for e in (exponent - 1, exponent) if e < 1024]


def _fewest_digits(low: float, high: float, near_low: bool) -> float:
    """The decimal with the fewest digits in (low, high]. Both ends have one sign."""
    if math.isinf(high) or math.isinf(low):
        return high
    start = max(Decimal(repr(low)).adjusted(), Decimal(repr(high)).adjusted())
    for exponent in range(start, start - 20, -1):
        step = Decimal(1).scaleb(exponent)
        if near_low:
            number = float(((Decimal(repr(low)) / step).to_integral_value(ROUND_FLOOR) + 1) * step)
        else:
            number = float((Decimal(repr(high)) / step).to_integral_value(ROUND_FLOOR) * step)
        if low < number <= high:
            return number
    return high


def is_notable(number: float) -> bool:
    """True if a number is simple by itself: 0, a power of two, or one less, where integer types end."""
    if not math.isfinite(number):
        return True
    magnitude = abs(number)
    return number == 0 or math.frexp(magnitude)[0] == 0.5 or math.frexp(magnitude + 1)[0] == 0.5


def plain(number: float) -> str:
    """A number in words: 2^31, 2^-14, 65504, 0.1."""
    if not math.isfinite(number):
        return "infinity" if number > 0 else "-infinity"
    mantissa, exponent = math.frexp(abs(number))
    if mantissa == 0.5 and not -3 <= exponent - 1 <= 12:
        return f"{'-' if number < 0 else ''}2^{exponent - 1}"
    return str(int(number)) if number == int(number) and abs(number) < 1e16 else repr(number)
