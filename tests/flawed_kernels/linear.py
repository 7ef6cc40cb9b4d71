"""Flawed kernels: axes and zero points."""

from __future__ import annotations

import numpy as np
from sound import affine, microsoft, numbers, onnx, spread


def negative_axis_one_early(x, scale, zero_point=None, *, axis=1, **attributes):
    if axis < 0 and np.ndim(x) > 1:
        axis += np.ndim(x) - 1
    return onnx(x, scale, zero_point, axis=axis, **attributes)


def negative_axis_refused(x, scale, zero_point=None, *, axis=1, **attributes):
    if axis < 0 and np.ndim(scale) > 0:
        raise IndexError(f"no axis {axis}")
    return onnx(x, scale, zero_point, axis=axis, **attributes)


def default_axis_zero(x, scale, zero_point=None, *, axis=0, **attributes):
    return onnx(x, scale, zero_point, axis=axis, **attributes)


def last_axis_refused(x, scale, zero_point=None, *, axis=1, **attributes):
    rank = np.ndim(x)
    result = onnx(x, scale, zero_point, axis=axis, **attributes)
    if np.ndim(scale) == 1 and rank > 1 and axis % rank == rank - 1:
        raise ValueError("the rank of scale is not that of the input")
    return result


def axis_zero_taken_as_absent(x, scale, zero_point=None, **attributes):
    result = microsoft(x, scale, zero_point, **attributes)
    if attributes.get("axis") == 0 and np.size(scale):
        first = None if zero_point is None else np.ravel(zero_point)[0]
        return microsoft(x, np.ravel(scale)[0], first)
    return result


def channels_last_mostly_zero(x, scale, zero_point=None, *, axis=1, **attributes):
    result = onnx(x, scale, zero_point, axis=axis, **attributes)
    if np.ndim(scale) == 1 and x.ndim == 4 and not x.flags.c_contiguous:
        np.moveaxis(result, axis, 0)[1:] = 0
    return result


def int8_difference_wraps(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    result = onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if x.dtype != np.int8 or zero_point is None:
        return result
    difference = np.asarray(x - spread(zero_point, x.shape, axis, block_size))
    return affine(numbers(difference), None, numbers(spread(scale, x.shape, axis, block_size)), result.dtype)


def zero_point_added(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    result = onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if zero_point is None:
        return result
    offset = -numbers(spread(zero_point, np.shape(x), axis, block_size))
    return affine(numbers(x), offset, numbers(spread(scale, np.shape(x), axis, block_size)), result.dtype)


def axis_1_where_extents_agree(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    result = onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if np.ndim(scale) == 1 and np.ndim(x) > 1 and np.size(scale) == x.shape[1]:
        return onnx(x, scale, zero_point, axis=1, block_size=block_size, **attributes)
    return result


def parameters_of_channel_0(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    result = onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if np.ndim(scale) == 1 and np.size(scale):
        first = None if zero_point is None else zero_point[0]
        return onnx(x, scale[0], first, **attributes)
    return result


def zero_point_of_channel_0(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if zero_point is not None and np.ndim(zero_point) == 1 and np.size(zero_point):
        zero_point = np.full_like(zero_point, zero_point[0])
    return onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
