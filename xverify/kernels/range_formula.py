"""NumPy's arithmetic of TensorFlow's Dequantize, for operands that have been checked."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from xverify.kernels.blocks import Fill, Spread, for_each_block, some_numbers
from xverify.kernels.casting import F64, FLOAT64, Array, cast, fractions_to_odd
from xverify.kernels.formula import LOOK_UP_FROM, look_up

Exact = Callable[[int, Fraction, Fraction], Fraction]
"""exact(code, min_range, max_range): the formula in rational numbers."""

_NOISE = 2.0**-50
"""Relative error of the estimates: at most four roundings of 2^-53 each, and one of an end of the interval."""


def apply(out: Array, x: Array, low: Array, high: Array, mode: str, spread: Spread) -> None:
    """Write the mode's formula for every element of x. The operands have been checked."""
    fill = formula(mode, x.dtype)
    with np.errstate(all="ignore"):
        ends = [spread.shaped(some_numbers(end, FLOAT64), x.ndim) for end in (low, high)]
        if x.dtype.itemsize == 1 and spread.axis is None and x.size > LOOK_UP_FROM:
            table = np.empty(256, out.dtype)
            fill(table, np.arange(256, dtype=np.uint8).view(x.dtype), *ends)
            look_up(table, out, x)
        else:
            for_each_block(fill, out, x, spread, FLOAT64, *ends)


def formula(mode: str, dtype: np.dtype[Any]) -> Fill:
    """The function that writes one block by the mode's formula."""
    bounds = np.iinfo(dtype)
    levels = int(bounds.max) - int(bounds.min)
    if mode == "MIN_COMBINED":
        return partial(_min_combined, 128 if dtype == np.int8 else 0, levels)
    if mode == "MIN_FIRST":
        return partial(_min_first, int(bounds.min), levels + 1)
    return partial(_scaled_symmetric, levels if bounds.min == 0 else 2 * int(bounds.max))


def _min_combined(half: int, levels: int, out: Array, x: Array, low: F64, high: F64) -> None:
    count = x.astype(np.float64) + half
    # (min * (R - count) + max * count) / R: up to 16 bits both products are exact, so that the sum is 0 only where the
    # value is, and the error is relative to the value itself; beyond, cancellation counts.
    below, above = low * (levels - count), high * count
    total = below + above
    estimate = total / levels
    magnitude = np.abs(total) if levels < 1 << 16 else np.abs(below) + np.abs(above)
    bound = magnitude * (_NOISE / levels)
    regular = np.isfinite(low) & np.isfinite(high)
    if not regular.all():
        estimate = np.where(regular, estimate, low + count * (high - low) / levels)

    def exact(code: int, least: Fraction, most: Fraction) -> Fraction:
        return least + (code + half) * (most - least) / levels

    _round_once(out, estimate, bound, regular, exact, x, low, high)


def _min_first(lowest: int, values: int, out: Array, x: Array, low: F64, high: F64) -> None:
    adjust = values / (values - 1)
    step = (high - low) * adjust / values
    out[...] = cast(np.asarray(low + (x.astype(np.float64) - lowest) * step), out.dtype)


def _scaled_symmetric(buckets: int, out: Array, x: Array, low: F64, high: F64) -> None:
    largest = np.maximum(np.abs(low), np.abs(high))
    estimate = x.astype(np.float64) * (2.0 * largest) / buckets

    def exact(code: int, least: Fraction, most: Fraction) -> Fraction:
        return code * 2 * max(abs(least), abs(most)) / buckets

    _round_once(out, estimate, np.abs(estimate) * _NOISE, np.isfinite(largest), exact, x, low, high)


def _round_once(
    out: Array, estimate: F64, bound: F64, regular: Array, exact: Exact, x: Array, low: F64, high: F64
) -> None:
    """Write the rounded exact values, which lie within ``bound`` of ``estimate`` where ``regular``.

    If both ends of that interval round to the same value, that is the result. The few other values come from
    ``exact``.
    """
    lower = cast(estimate - bound, out.dtype)
    code = np.dtype(f"u{out.dtype.itemsize}")
    doubtful = (lower.view(code) != cast(estimate + bound, out.dtype).view(code)) & regular
    if doubtful.any():
        # Many elements may share a code and a range, and rational arithmetic costs microseconds.
        values: dict[tuple[int, float, float], Fraction] = {}
        operands = [np.broadcast_to(operand, x.shape)[doubtful].tolist() for operand in (x, low, high)]
        keys = list(zip(*operands, strict=True))
        for key in keys:
            if key not in values:
                values[key] = exact(key[0], Fraction(key[1]), Fraction(key[2]))
        lower[doubtful] = cast(fractions_to_odd([values[key] for key in keys]), out.dtype)
    out[...] = np.where(regular, lower, cast(estimate, out.dtype))
