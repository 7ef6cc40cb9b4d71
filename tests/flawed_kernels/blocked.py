"""Flawed kernels: blocked quantization."""

from __future__ import annotations

import numpy as np
from sound import affine, numbers, onnx


def is_blocked(x, scale, block_size):
    return block_size > 0 and np.ndim(x) > 0 and np.ndim(scale) == np.ndim(x) and np.size(x) > 0


def by_index(x, scale, zero_point, axis, index, dtype, zero_point_index=None):
    """Dequantize each position along the axis with the block of that index.

    An index past the last block has a scale of 0.
    """
    blocks = np.shape(scale)[axis]
    factor = np.take(numbers(scale), np.minimum(index, blocks - 1), axis=axis)
    factor = factor * (index < blocks).reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])
    offset = None
    if zero_point is not None:
        index = index if zero_point_index is None else zero_point_index
        offset = np.take(numbers(zero_point), np.minimum(index, blocks - 1), axis=axis)
    return affine(numbers(x), offset, factor, dtype)


def blocks_interleaved(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    result = onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if not is_blocked(x, scale, block_size) or axis % x.ndim == 0:
        return result
    index = np.arange(x.shape[axis]) % np.shape(scale)[axis]
    return by_index(x, scale, zero_point, axis, index, result.dtype)


def zero_point_blocks_alternate(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    result = onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if not is_blocked(x, scale, block_size) or zero_point is None:
        return result
    along = np.arange(x.shape[axis])
    blocks = np.shape(scale)[axis]
    return by_index(x, scale, zero_point, axis, along // block_size, result.dtype, along % blocks)


def block_of_flat_index(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    result = onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if not is_blocked(x, scale, block_size) or axis % x.ndim != x.ndim - 1:
        return result
    block = np.minimum(np.arange(x.size) // block_size, np.size(scale) - 1).reshape(x.shape)
    offset = None if zero_point is None else numbers(zero_point).reshape(-1)[block]
    return affine(numbers(x), offset, numbers(scale).reshape(-1)[block], result.dtype)


def one_dimensional_blocks_per_axis(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    result = onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if not is_blocked(x, scale, block_size) or x.ndim != 1:
        return result
    return by_index(x, scale, zero_point, 0, np.arange(x.size), result.dtype)


def blocks_beyond_axis_1_refused(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    result = onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if is_blocked(x, scale, block_size) and axis % x.ndim > 1:
        raise ValueError("an axis above 1 isn't supported")
    return result


def block_size_from_shapes(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    result = onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if not is_blocked(x, scale, block_size):
        return result
    run = max(1, x.shape[axis] // np.shape(scale)[axis])
    index = np.minimum(np.arange(x.shape[axis]) // run, np.shape(scale)[axis] - 1)
    return by_index(x, scale, zero_point, axis, index, result.dtype)


def partial_block_refused(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    result = onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if is_blocked(x, scale, block_size) and x.shape[axis] % block_size:
        raise ValueError(f"cannot reshape an extent of {x.shape[axis]} to blocks of {block_size}")
    return result


def partial_block_has_scale_before(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    result = onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if not is_blocked(x, scale, block_size) or x.shape[axis] < block_size:
        return result
    index = np.minimum(np.arange(x.shape[axis]) // block_size, x.shape[axis] // block_size - 1)
    return by_index(x, scale, zero_point, axis, index, result.dtype)


def blocks_of_at_most_1024(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    result = onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if not is_blocked(x, scale, block_size) or block_size <= 1024:
        return result
    index = np.minimum(np.arange(x.shape[axis]) // 1024, np.shape(scale)[axis] - 1)
    return by_index(x, scale, zero_point, axis, index, result.dtype)
