"""TensorFlow's modes in float64, as `xverify.kernels.ranges` computes them, and which of the values float64 does not decide.

An exact value that is rounded once lies between estimate - bound and estimate + bound; where both round to the same element it is
that one, and where they do not, ``doubtful`` says 1.

Arguments as in `xverify.kernels.compiled.loops`; ``low`` and ``high`` are float64. ``runs`` (line, run): every ``run`` elements
of a line have a range of their own, and lines have the same. ``row``: so many elements have one each, and then the same again.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

import numpy as np
from numba import njit, types
from numba.extending import overload

from xverify.kernels.compiled.scalars import differ, element, get, number, origin, put

COMBINED, FIRST, SYMMETRIC = 0, 1, 2
"""MIN_COMBINED, MIN_FIRST and SCALED of the seed."""

_NOISE = 2.0**-50


@njit(error_model="numpy")
def _value(x, i, coding, like):
    return number(get(x, i), coding, like) - origin(coding, like)


@njit(error_model="numpy")
def _min_combined(x, i, out, to, doubtful, coding, constants, low, high):
    half, levels = constants
    count = _value(x, i, coding, low) + half
    below, above = low * (levels - count), high * count
    total = below + above
    estimate = total / levels + 0.0
    magnitude = abs(total) if levels < 65536.0 else abs(below) + abs(above)
    bound = magnitude * (_NOISE / levels)
    if not (np.isfinite(low) and np.isfinite(high)):
        estimate = low + count * (high - low) / levels
        bound = 0.0
    least = element(estimate - bound, out)
    put(out, to, least)
    put(doubtful, to, differ(least, element(estimate + bound, out)))


@njit(error_model="numpy")
def _min_first(x, i, out, to, doubtful, coding, constants, low, high):
    lowest, values = constants
    step = (high - low) * (values / (values - 1.0)) / values
    put(out, to, element(low + (_value(x, i, coding, low) - lowest) * step, out))


@njit(error_model="numpy")
def _scaled_symmetric(x, i, out, to, doubtful, coding, constants, low, high):
    _, buckets = constants
    # Like NumPy's maximum: a NaN in either is the result.
    largest = abs(low) if abs(low) > abs(high) or np.isnan(low) else abs(high)
    estimate = _value(x, i, coding, low) * (2.0 * largest) / buckets
    bound = abs(estimate) * _NOISE if np.isfinite(largest) else 0.0
    least = element(estimate - bound, out)
    put(out, to, least)
    put(doubtful, to, differ(least, element(estimate + bound, out)))


@njit(error_model="numpy")
def _of_one(x, first, count, out, to, doubtful, coding, mode, constants, low, high):
    """``count`` elements with one range."""
    if mode == COMBINED:
        for i in range(count):
            _min_combined(x, first + i, out, to + i, doubtful, coding, constants, low, high)
    elif mode == FIRST:
        for i in range(count):
            _min_first(x, first + i, out, to + i, doubtful, coding, constants, low, high)
    else:
        for i in range(count):
            _scaled_symmetric(x, first + i, out, to + i, doubtful, coding, constants, low, high)


def _by_runs(x, out, doubtful, coding, mode, constants, low, high, runs, row, position):
    line, run = runs
    first, within = 0, position % line
    while first < x.size:
        count = min(run - within % run, x.size - first)
        place = within // run
        _of_one(x, first, count, out, first, doubtful, coding, mode, constants, get(low, place), get(high, place))
        first += count
        within = (within + count) % line


def _by_rows(x, out, doubtful, coding, mode, constants, low, high, runs, row, position):
    first, within = 0, position % row
    while first < x.size:
        count = min(row - within, x.size - first)
        if mode == COMBINED:
            for i in range(count):
                ends = get(low, within + i), get(high, within + i)
                _min_combined(x, first + i, out, first + i, doubtful, coding, constants, ends[0], ends[1])
        elif mode == FIRST:
            for i in range(count):
                ends = get(low, within + i), get(high, within + i)
                _min_first(x, first + i, out, first + i, doubtful, coding, constants, ends[0], ends[1])
        else:
            for i in range(count):
                ends = get(low, within + i), get(high, within + i)
                _scaled_symmetric(x, first + i, out, first + i, doubtful, coding, constants, ends[0], ends[1])
        first += count
        within = 0


def _fill(x, out, doubtful, coding, mode, constants, low, high, runs, row, position):
    raise NotImplementedError


@overload(_fill)
def _version(x, out, doubtful, coding, mode, constants, low, high, runs, row, position):
    return _by_rows if isinstance(runs, types.NoneType) else _by_runs


def ranged(x, out, doubtful, coding, mode, constants, low, high, runs, row, position):
    """Write the mode's values, and which are doubtful.

    constants: two numbers, of MIN_COMBINED what is added to a code, and 2^bits - 1; of MIN_FIRST the lowest code, and 2^bits; of
    SCALED nothing, and the extent of the fixed range.
    """
    _fill(x, out, doubtful, coding, mode, constants, low, high, runs, row, position)
