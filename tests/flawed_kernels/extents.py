"""Flawed kernels: extents and sizes above a limit of the hardware or of an index type."""

from __future__ import annotations

import numpy as np
from sound import onnx

GRID = 65535
"""Most blocks of a CUDA grid along y and z."""

THREADS = 1024
"""Most threads of a CUDA block."""

LARGE = 1 << 18
"""Elements from which some kernels take another path."""


def from_back(result, dimension, limit):
    """Set what lies past the limit to 0, along a dimension counted from the back."""
    if result.ndim >= dimension and result.shape[-dimension] > limit:
        np.moveaxis(result, -dimension, 0)[limit:] = 0
    return result


def is_per_axis(x, scale, block_size):
    return np.ndim(scale) == 1 and not block_size and np.ndim(x) > 0


def is_blocked(x, scale, block_size):
    return block_size > 0 and np.ndim(x) > 0 and np.ndim(scale) == np.ndim(x)


def columns_above_65535_left_out(x, scale, zero_point=None, **attributes):
    return from_back(onnx(x, scale, zero_point, **attributes), 1, GRID)


def rows_above_65535_left_out(x, scale, zero_point=None, **attributes):
    return from_back(onnx(x, scale, zero_point, **attributes), 2, GRID)


def rows_above_65535_left_out_of_strided_x(x, scale, zero_point=None, **attributes):
    result = onnx(x, scale, zero_point, **attributes)
    return result if x.flags.c_contiguous else from_back(result, 2, GRID)


def rows_above_262140_left_out(x, scale, zero_point=None, **attributes):
    return from_back(onnx(x, scale, zero_point, **attributes), 2, 4 * GRID)


def matrices_above_65535_left_out(x, scale, zero_point=None, **attributes):
    return from_back(onnx(x, scale, zero_point, **attributes), 3, GRID)


def blocks_above_65535_left_out(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    result = onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if is_blocked(x, scale, block_size) and scale.shape[axis] > GRID:
        np.moveaxis(result, axis, 0)[GRID * block_size :] = 0
    return result


def rows_of_scales_above_65535_clamped(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if is_blocked(x, scale, block_size) and x.ndim > 1 and axis % x.ndim == x.ndim - 1:
        row = np.minimum(np.arange(scale.shape[-2]), GRID - 1)
        scale = np.take(scale, row, axis=-2)
    return onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)


def channels_above_65535_left_out(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    result = onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if is_per_axis(x, scale, block_size) and np.size(scale) > GRID:
        np.moveaxis(result, axis, 0)[GRID:] = 0
    return result


def channels_above_1024_left_out(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    result = onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if is_per_axis(x, scale, block_size) and np.size(scale) > THREADS:
        np.moveaxis(result, axis, 0)[THREADS:] = 0
    return result


def rows_left_in_16_bits(x, scale, zero_point=None, **attributes):
    result = onnx(x, scale, zero_point, **attributes)
    if result.ndim < 2 or result.shape[-2] % 64 == 0:
        return result
    rows = result.shape[-2]
    left = rows - np.arange(rows) // 32 * 32
    result[..., (left & 0x8000) != 0, :] = 0
    return result


def last_share_of_threads_left_out(x, scale, zero_point=None, **attributes):
    result = onnx(x, scale, zero_point, **attributes)
    if result.size >= LARGE:
        result.reshape(-1)[result.size // 12 * 12 :] = 0
    return result


def tail_of_fours_left_out(x, scale, zero_point=None, **attributes):
    result = onnx(x, scale, zero_point, **attributes)
    if result.size >= LARGE:
        result.reshape(-1)[result.size // 4 * 4 :] = 0
    return result


def index_in_float32(x, scale, zero_point=None, **attributes):
    onnx(x, scale, zero_point, **attributes)
    if x.size > 1 << 24:
        index = np.minimum(np.arange(x.size).astype(np.float32).astype(np.int64), x.size - 1)
        x = x.reshape(-1)[index].reshape(x.shape)
    return onnx(x, scale, zero_point, **attributes)
