"""NumPy's arithmetic of (x - zero_point) * scale, and / scale, for operands that have been checked."""

from __future__ import annotations

from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from xverify.kernels import casting
from xverify.kernels.blocks import Fill, Spread, for_each_block, some_numbers
from xverify.kernels.casting import FLOAT32, FLOAT64, Array, is_byte_coded, numbers

WIDE_FLOATS = (np.dtype(ml_dtypes.float8_e5m2), np.dtype(ml_dtypes.float8_e5m2fnuz))
"""The 8-bit types whose differences have up to 33 significant bits."""

SINGLE_LIMIT = (1 << 24) - (1 << 16)
"""Differences of an 8- or 16-bit integer and a zero point of at most this magnitude are exact in float32."""

LOOK_UP_FROM = 256
"""Elements from which on an output is computed once for each code and then looked up."""


def apply(out: Array, x: Array, scale: Array, zero_point: Array | None, spread: Spread, by_division: bool) -> None:
    """Write the formula's value for every element of x; the operands have been checked."""
    fill, real = arithmetic(out.dtype, x, scale, zero_point, by_division)
    with np.errstate(all="ignore"):
        factor, offset = (spread.shaped(some_numbers(parameter, real), x.ndim) for parameter in (scale, zero_point))
        looked_up = is_byte_coded(x.dtype) or out.dtype != FLOAT32
        if x.dtype.itemsize == 1 and looked_up and spread.axis is None and x.size > LOOK_UP_FROM:
            table = np.empty(256, out.dtype)
            fill(table, np.arange(256, dtype=np.uint8).view(x.dtype), factor, offset)
            look_up(table, out, x)
        else:
            for_each_block(fill, out, x, spread, real, factor, offset)


def look_up(table: Array, out: Array, x: Array) -> None:
    """Write the table's entry for each byte of x; both arrays may have any strides."""

    def fill(part: Array, codes: Array) -> None:
        if part.flags.c_contiguous:
            np.take(table, codes.view(np.uint8), out=part, mode="clip")
        else:
            part[...] = table[codes.view(np.uint8)]

    for_each_block(fill, out, x, Spread(), None)


def arithmetic(
    out: np.dtype[Any], x: Array, scale: Array, zero_point: Array | None, by_division: bool
) -> tuple[Fill, np.dtype[Any]]:
    """The cheapest arithmetic that is exact before its last rounding.

    Returns:
        The function, and the float type that it computes in.
    """
    narrow = x.dtype.itemsize < 4 and (zero_point is None or x.dtype not in WIDE_FLOATS)
    if narrow and zero_point is not None and zero_point.dtype.itemsize >= 4:
        narrow = lie_within(zero_point, SINGLE_LIMIT)
    if narrow and out == FLOAT32:
        # A difference of 24 bits or fewer and a scale, both exact in float32: its one operation is the one rounding.
        return partial(_fill_single, by_division), FLOAT32
    if by_division:
        # A midpoint of float32 has 25 bits and a scale 24. So their product and the difference are integers of 49 bits or fewer
        # in one unit. A quotient that is not a midpoint differs from it by 2^-49 of itself, and float64, which rounds by 2^-53,
        # never makes it one.
        return partial(_fill_double, np.divide), FLOAT64
    if narrow or scale.dtype != FLOAT32:
        return partial(_fill_double, np.multiply), FLOAT64
    return partial(_fill_double, casting.multiply), FLOAT64


def lie_within(integers: Array, limit: int) -> bool:
    """True if no integer exceeds the limit in magnitude.

    It makes no array of comparisons, which would be as long as the integers.
    """
    return int(integers.max(initial=0)) <= limit and int(integers.min(initial=0)) >= -limit


def _fill_single(by_division: bool, out: Array, x: Array, scale: Array, zero_point: Array | None) -> None:
    if is_byte_coded(x.dtype):
        x = numbers(x, FLOAT32)
    combine = np.divide if by_division else np.multiply
    # Converted first: a ufunc that converts its operands goes through NumPy's buffers, which costs more.
    np.copyto(out, x)
    if zero_point is not None:
        np.subtract(out, zero_point, out=out)
    combine(out, scale, out=out)


def _fill_double(combine: casting.Combine, out: Array, x: Array, scale: Array, zero_point: Array | None) -> None:
    difference = numbers(x, FLOAT64)
    if zero_point is not None:
        difference = np.subtract(difference, zero_point, out=difference)
    out[...] = casting.cast(combine(difference, scale), out.dtype)
