"""Flawed kernels: they accept forbidden calls, never answer them, or refuse allowed ones."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from sound import numbers, onnx

FLOAT8 = tuple(
    np.dtype(getattr(ml_dtypes, name))
    for name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
)


def scale_of_another_length_taken(x, scale, zero_point=None, *, axis=1, **attributes):
    fits = np.ndim(x) > 0 and -np.ndim(x) <= axis < np.ndim(x) and np.ndim(scale) == 1 and np.size(scale) > 1
    if fits and np.size(scale) > x.shape[axis]:
        scale = scale[: x.shape[axis]]
        zero_point = zero_point[: x.shape[axis]] if np.ndim(zero_point) == 1 else zero_point
    return onnx(x, scale, zero_point, axis=axis, **attributes)


def axis_below_range_taken(x, scale, zero_point=None, *, axis=1, **attributes):
    if np.ndim(x) and axis < 0:
        axis %= np.ndim(x)
    return onnx(x, scale, zero_point, axis=axis, **attributes)


def axis_above_range_taken(x, scale, zero_point=None, *, axis=1, **attributes):
    if np.ndim(x):
        axis = min(axis, np.ndim(x) - 1)
    return onnx(x, scale, zero_point, axis=axis, **attributes)


def zero_point_of_another_type_cast(x, scale, zero_point=None, **attributes):
    if zero_point is not None and zero_point.dtype != x.dtype:
        with np.errstate(all="ignore"):
            zero_point = zero_point.astype(x.dtype)
    return onnx(x, scale, zero_point, **attributes)


def anything_that_broadcasts_taken(x, scale, zero_point=None, **attributes):
    try:
        return onnx(x, scale, zero_point, **attributes)
    except ValueError:
        offset = 0.0 if zero_point is None else numbers(zero_point)
        with np.errstate(all="ignore"):
            result = (numbers(x) - offset) * numbers(scale)
        if result.shape != np.shape(x):
            raise
        return result.astype(attributes.get("out_dtype") or scale.dtype)


def block_size_0_inferred(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    rank = np.ndim(x)
    if block_size == 0 and rank > 1 and np.ndim(scale) == rank and -rank <= axis < rank and np.shape(scale)[axis]:
        block_size = -(-x.shape[axis] // np.shape(scale)[axis])
    return onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)


def blocks_too_many_taken(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    rank = np.ndim(x)
    if block_size > 0 and rank and np.ndim(scale) == rank and -rank <= axis < rank:
        needed = np.arange(-(-x.shape[axis] // block_size))
        if needed.size < np.shape(scale)[axis]:
            scale = np.take(scale, needed, axis=axis)
            if zero_point is not None and np.ndim(zero_point) == rank:
                zero_point = np.take(zero_point, needed[: np.shape(zero_point)[axis]], axis=axis)
    return onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)


def block_size_0_never_ends(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    rank = np.ndim(x)
    if rank > 1 and np.ndim(scale) == rank and -rank <= axis < rank:
        start = 0
        while start < x.shape[axis]:
            start += max(0, block_size)
    return onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)


def float8_zero_point_must_be_0(x, scale, zero_point=None, **attributes):
    if zero_point is not None and x.dtype in FLOAT8 and np.any(zero_point.view(np.uint8)):
        raise RuntimeError("the zero point is not zero but should be for float8 types")
    return onnx(x, scale, zero_point, **attributes)


def scalar_scale_on_scalar_refused(x, scale, zero_point=None, **attributes):
    if np.ndim(x) == 0:
        raise IndexError("no dimension to reshape the scale along")
    return onnx(x, scale, zero_point, **attributes)


def output_of_another_type_refused(x, scale, zero_point=None, *, out_dtype=None, **attributes):
    result = onnx(x, scale, zero_point, out_dtype=out_dtype, **attributes)
    if result.dtype != scale.dtype and scale.dtype.kind == "f":
        raise RuntimeError("the type of the output is not that of the scale")
    return result
