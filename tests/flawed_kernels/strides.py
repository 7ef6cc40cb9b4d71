"""Flawed kernels: strides of one tensor, or of one kind of layout, are ignored.

Elements are read from the tensor's own memory only: a kernel that ignores strides reads within what they span.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import as_strided
from sound import onnx


def spans_its_elements(array):
    """Return True if reading as many elements from the first one on stays within the array's memory."""
    return array.size > 0 and all(
        stride >= inner for stride, inner in zip(array.strides, _compact(array.shape, array.itemsize), strict=True)
    )


def read_compact(array):
    """Return the array's elements, read as if it were contiguous in row-major order."""
    raw = array.view(f"u{array.itemsize}")
    return as_strided(raw, array.shape, _compact(array.shape, array.itemsize)).copy().view(array.dtype)


def _compact(shape, itemsize):
    return tuple(itemsize * int(np.prod(shape[i + 1 :], dtype=np.int64)) for i in range(len(shape)))


def last_stride_of_1_taken_as_contiguous(x, scale, zero_point=None, **attributes):
    onnx(x, scale, zero_point, **attributes)
    if x.ndim > 1 and spans_its_elements(x) and x.strides[-1] == x.itemsize:
        x = read_compact(x)
    return onnx(x, scale, zero_point, **attributes)


def contiguous_matrices_taken_as_contiguous(x, scale, zero_point=None, **attributes):
    onnx(x, scale, zero_point, **attributes)
    if x.ndim > 2 and spans_its_elements(x) and x[(0,) * (x.ndim - 2)].flags.c_contiguous:
        x = read_compact(x)
    return onnx(x, scale, zero_point, **attributes)


def pitch_of_scale_ignored(x, scale, zero_point=None, **attributes):
    onnx(x, scale, zero_point, **attributes)
    if scale.ndim > 1 and spans_its_elements(scale) and scale.strides[-1] == scale.itemsize:
        scale = read_compact(scale)
    return onnx(x, scale, zero_point, **attributes)


def stride_of_scale_ignored(x, scale, zero_point=None, **attributes):
    onnx(x, scale, zero_point, **attributes)
    if scale.ndim == 1 and spans_its_elements(scale):
        scale = read_compact(scale)
    return onnx(x, scale, zero_point, **attributes)


def transposed_scale_read_as_stored(x, scale, zero_point=None, **attributes):
    onnx(x, scale, zero_point, **attributes)
    if scale.ndim > 1 and scale.size and scale.flags.f_contiguous:
        scale = scale.ravel(order="K").reshape(scale.shape)
    return onnx(x, scale, zero_point, **attributes)


def strides_of_zero_point_from_shape(x, scale, zero_point=None, **attributes):
    onnx(x, scale, zero_point, **attributes)
    if zero_point is not None and zero_point.ndim and spans_its_elements(zero_point):
        zero_point = read_compact(zero_point)
    return onnx(x, scale, zero_point, **attributes)


def channels_last_written_as_channels_first(x, scale, zero_point=None, **attributes):
    result = onnx(x, scale, zero_point, **attributes)
    if x.ndim != 4 or x.flags.c_contiguous or not x.transpose(0, 2, 3, 1).flags.c_contiguous:
        return result
    return np.ascontiguousarray(result.transpose(0, 2, 3, 1)).reshape(result.shape)


def reversed_rows_read_forwards(x, scale, zero_point=None, **attributes):
    onnx(x, scale, zero_point, **attributes)
    if x.size:
        x = x[tuple(slice(None, None, -1 if stride < 0 else 1) for stride in x.strides)]
    return onnx(x, scale, zero_point, **attributes)
