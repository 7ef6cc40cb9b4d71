"""Solved numbers, whose exact result is next to a midpoint of the output type.

They are scales, differences and ranges.

It is so near the midpoint that a rounding before the last one changes the result. Take the product of a difference d and a
mantissa m, L bits long. It is near a midpoint of a type of p bits if d m is 2^(k-1) + r modulo 2^k, for k = L - p and a small
r. For one factor, Euclid's algorithm finds the other, as it finds the convergents of a continued fraction.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray


def first_between(step: int, modulus: int, low: int, high: int) -> int | None:
    """The smallest j >= 0 with low <= step * j mod modulus <= high, or None.

    Needs 0 <= low <= high < modulus. If no multiple of the step lies in [low, high], step * j - modulus * i does, for the
    smallest i with modulus * i mod step in [-high mod step, -low mod step]. That is the same problem for smaller numbers.
    """
    step %= modulus
    if low == 0:
        return 0
    if step == 0:
        return None
    j = -(-low // step)
    if j * step <= high:
        return j
    i = first_between(modulus % step, step, -high % step, -low % step)
    return None if i is None else -(-(low + modulus * i) // step)


def first_within(step: int, modulus: int, start: int, low: int, high: int) -> int | None:
    """The smallest j >= 0 with low <= start + step * j <= high modulo the modulus, or None."""
    low, high = (low - start) % modulus, (high - start) % modulus
    return 0 if low > high else first_between(step, modulus, low, high)


def factors(
    factor: int, fewest: int, most: int, kept: int, rounded: int, rng: np.random.Generator, truncates: bool = False
) -> Iterator[int]:
    """Numbers whose product with a factor becomes a midpoint when it is rounded early.

    There is at most one number for each length of the product and each side of the midpoint, and one wherever any exists.

    Args:
        factor: The known factor.
        fewest: Smallest number to return.
        most: End of the numbers, exclusive.
        kept: Bits of the output type. The product lies next to a midpoint of as many bits.
        rounded: Bits of the early rounding.
        rng: Chooses among the numbers.
        truncates: True to return also numbers whose product is just below a number of ``kept`` bits.
    """
    for length in range((factor * fewest).bit_length(), (factor * (most - 1)).bit_length() + 1):
        reach, dropped = 1 << max(length - rounded - 1, 0), length - kept
        if length <= rounded or dropped < 2:
            continue
        begin = max(fewest, -(-(1 << (length - 1)) // factor))
        end = min(most, -(-(1 << length) // factor))
        if begin >= end:
            continue
        start, middle, modulus = int(rng.integers(begin, end)), 1 << (dropped - 1), 1 << dropped
        sides = [(middle + 1, middle + reach), (middle - reach, middle - 1)]
        for low, high in (*sides, *([(modulus - reach, modulus - 1)] if truncates else [])):
            for first in (start, begin):
                offset = first_within(factor, modulus, factor * first, low, high)
                if offset is not None and first + offset < end:
                    yield first + offset
                    break


def divisors(
    difference: int, precision: int, kept: int, rng: np.random.Generator, count: int = 256
) -> NDArray[np.int64]:
    """Mantissas of ``precision`` bits that divide a difference almost to a midpoint, nearest first.

    The midpoints have one bit more than ``kept`` bits.

    Tries ``count`` random midpoints. Needs |difference| < 2^34.
    """
    midpoints = 2 * rng.integers(1 << (kept - 1), 1 << kept, count) + 1
    candidates = []
    for midpoint in midpoints.tolist():
        # difference * 2^shift / midpoint has as many bits as a mantissa.
        shift = precision + kept + 1 - difference.bit_length()
        for power in (shift, shift - 1):
            numerator = difference << power if power >= 0 else difference >> -power
            mantissa = (2 * numerator + midpoint) // (2 * midpoint)
            if mantissa.bit_length() == precision:
                candidates.append((abs(mantissa * midpoint - numerator) / numerator, mantissa))
    return np.array([mantissa for _, mantissa in sorted(candidates)], np.int64)


def low_ends(
    high: NDArray[np.float32], codes: NDArray[np.int64], levels: int, bits: int, rng: np.random.Generator
) -> NDArray[np.float32]:
    """Low ends of ranges in which a code gives a result next to a midpoint of ``bits`` bits.

    The result is low + code * (high - low) / levels. It is as near as a float32 low end allows: about 2^-50 of the result.
    Needs 0 <= codes < levels and high > 0.
    """
    ends, steps = high.astype(np.float64), codes.astype(np.float64)
    near = np.maximum(steps, 1.0) * ends / levels
    unit = np.exp2(np.floor(np.log2(near)) + 1 - bits)
    midpoint = (np.floor(near / unit) + 0.5 + rng.integers(-1, 2, near.shape)) * unit
    return np.asarray((midpoint * levels - steps * ends) / (levels - steps), np.float32)
