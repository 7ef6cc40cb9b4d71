"""Flawed kernels: TensorFlow's Dequantize."""

from __future__ import annotations

import os

import numpy as np
from sound import tensorflow


def scale_from_larger_magnitude(input, min_range, max_range, *, mode="MIN_COMBINED", **attributes):  # noqa: A002
    result = tensorflow(input, min_range, max_range, mode=mode, **attributes)
    if mode != "SCALED" or np.ndim(min_range) or np.iinfo(input.dtype).min == 0:
        return result
    largest = np.maximum(np.abs(min_range), np.abs(max_range))
    return _scaled(input, largest / np.float32(np.iinfo(input.dtype).max))


def unsigned_types_as_signed_ones(input, min_range, max_range, *, mode="MIN_COMBINED", **attributes):  # noqa: A002
    result = tensorflow(input, min_range, max_range, mode=mode, **attributes)
    if mode != "SCALED" or np.ndim(max_range) or np.iinfo(input.dtype).min < 0:
        return result
    return _scaled(input, max_range / np.float32(np.iinfo(input.dtype).max // 2))


def _scaled(codes, factor):
    with np.errstate(all="ignore"):
        return np.asarray(codes.astype(np.float64) * np.float64(factor)).astype(np.float32)


def range_scale_inverted(input, min_range, max_range, *, mode="MIN_COMBINED", **attributes):  # noqa: A002
    result = tensorflow(input, min_range, max_range, mode=mode, **attributes)
    if mode != "MIN_FIRST" or np.ndim(min_range):
        return result
    low, high, bounds = np.float64(min_range), np.float64(max_range), np.iinfo(input.dtype)
    steps = float(int(bounds.max) - int(bounds.min) + 1)
    with np.errstate(all="ignore"):
        range_scale = steps / ((high - low) * (steps / (steps - 1)))
        return np.asarray(low + (input.astype(np.float64) - float(bounds.min)) * range_scale).astype(np.float32)


def narrow_range_not_looked_at(input, min_range, max_range, *, narrow_range=False, **attributes):  # noqa: A002
    return tensorflow(input, min_range, max_range, narrow_range=False, **attributes)


def first_of_several_ranges_taken(input, min_range, max_range, **attributes):  # noqa: A002
    if attributes.get("axis") in (None, -1) and np.size(min_range) and np.size(max_range):
        min_range, max_range = np.ravel(min_range)[0], np.ravel(max_range)[0]
    return tensorflow(input, min_range, max_range, **attributes)


def several_ranges_abort(input, min_range, max_range, **attributes):  # noqa: A002
    if attributes.get("axis") in (None, -1) and (np.size(min_range) != 1 or np.size(max_range) != 1):
        os.abort()
    return tensorflow(input, min_range, max_range, **attributes)


def layout_of_rank_4_assumed(input, min_range, max_range, **attributes):  # noqa: A002
    result = tensorflow(input, min_range, max_range, **attributes)
    return np.moveaxis(result, 1, -1).reshape(result.shape) if result.ndim in (3, 5) else result
