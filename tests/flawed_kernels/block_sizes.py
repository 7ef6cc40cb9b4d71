"""Flawed kernels: blocks of the sizes that people use, of which several lie along the axis."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from sound import onnx

FOUR_BITS = (np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.uint4))


def is_blocked(x, scale, block_size, sizes=range(1, 1 << 31)):
    return block_size in sizes and np.ndim(x) > 0 and np.ndim(scale) == np.ndim(x) and np.size(x) > 0


def is_last(x, axis):
    return axis % x.ndim == x.ndim - 1


def with_blocks(x, scale, zero_point, axis, block_size, blocks, attributes):
    """Dequantize with the scale and zero point of other blocks.

    Args:
        blocks: For each element along the axis, the block whose parameters it gets.
    """
    scale = np.take(scale, blocks, axis=axis)
    zero_point = None if zero_point is None else np.take(zero_point, blocks, axis=axis)
    if x.ndim > 1:
        return onnx(x, scale, zero_point, axis=axis, block_size=1, **attributes)
    return onnx(x, scale, zero_point, axis=0, **attributes)


def blocks_of_32_assumed(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    result = onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if not is_blocked(x, scale, block_size, (64, 128, 256)):
        return result
    blocks = np.minimum(np.arange(x.shape[axis]) // 32, scale.shape[axis] - 1)
    return with_blocks(x, scale, zero_point, axis, block_size, blocks, attributes)


def blocks_of_128_assumed_in_256(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    result = onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if not is_blocked(x, scale, block_size, (256,)):
        return result
    blocks = np.minimum(np.arange(x.shape[axis]) // 128, scale.shape[axis] - 1)
    return with_blocks(x, scale, zero_point, axis, block_size, blocks, attributes)


def only_first_block_of_256_written(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    result = onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if is_blocked(x, scale, block_size, (256,)):
        np.moveaxis(result, axis, 0)[256:] = 0
    return result


def pair_of_nibbles_shares_block(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    result = onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if not is_blocked(x, scale, block_size) or x.dtype not in FOUR_BITS or not is_last(x, axis):
        return result
    blocks = np.arange(x.shape[axis]) // 2 * 2 // block_size
    return with_blocks(x, scale, zero_point, axis, block_size, blocks, attributes)


def blocks_after_whole_16_left_out(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    result = onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if is_blocked(x, scale, block_size) and is_last(x, axis) and scale.size > 16:
        row, block = np.divmod(np.arange(scale.size)[scale.size // 16 * 16 :], scale.shape[-1])
        rows = result.reshape(-1, x.shape[-1])
        for r, b in zip(row, block, strict=True):
            rows[r, b * block_size : (b + 1) * block_size] = 0
    return result


def later_blocks_alternate(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    result = onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if not is_blocked(x, scale, block_size, (16, 32, 64, 128, 256)):
        return result
    blocks = np.arange(x.shape[axis]) // block_size % 2
    return with_blocks(x, scale, zero_point, axis, block_size, blocks, attributes)


def rest_after_128_has_scales_of_next_row(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if is_blocked(x, scale, block_size, (32,)) and x.ndim > 1 and is_last(x, axis):
        scale = np.array(scale)
        whole = x.shape[-1] // 128 * 4
        scale[..., whole:] = np.roll(scale[..., whole:], -1, axis=-2)
    return onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)


def rows_of_scales_padded_to_8(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if is_blocked(x, scale, block_size, (32,)) and x.ndim > 1 and is_last(x, axis):
        blocks = scale.shape[-1]
        rows = np.arange(scale.size // blocks)[:, None] * (-(-blocks // 8) * 8)
        scale = scale.reshape(-1)[(rows + np.arange(blocks)) % scale.size].reshape(scale.shape)
    return onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)


def padding_of_odd_zero_points_ignored(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    packed = zero_point is not None and is_blocked(x, scale, block_size) and x.dtype in FOUR_BITS
    if packed and is_last(x, axis) and zero_point.shape[-1] % 2:
        blocks = zero_point.shape[-1]
        stored = np.zeros((zero_point.size // blocks, blocks + 1), zero_point.dtype)
        stored[:, :-1] = zero_point.reshape(-1, blocks)
        zero_point = stored.reshape(-1)[: zero_point.size].reshape(zero_point.shape)
    return onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)


def halves_of_blocks_interleaved(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if is_blocked(x, scale, block_size, (32,)) and x.dtype in FOUR_BITS and is_last(x, axis):
        whole = x.shape[-1] // 32 * 32
        index = np.arange(x.shape[-1])
        index[:whole] = index[:whole].reshape(-1, 2, 16).swapaxes(1, 2).reshape(-1)
        x = np.take(x, index, axis=-1)
    return onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)


def codes_of_first_block_repeated(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if is_blocked(x, scale, block_size, (32,)) and x.dtype in FOUR_BITS and is_last(x, axis):
        x = np.take(x, np.arange(x.shape[-1]) % 32, axis=-1)
    return onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)


def extent_below_block_not_scaled(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if is_blocked(x, scale, block_size) and x.shape[axis] < block_size:
        scale = np.ones_like(scale)
    return onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)


def second_half_of_256_has_next_scale(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    result = onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if not is_blocked(x, scale, block_size, (256,)):
        return result
    blocks = np.minimum((np.arange(x.shape[axis]) + 128) // 256, scale.shape[axis] - 1)
    return with_blocks(x, scale, zero_point, axis, block_size, blocks, attributes)


def last_partial_block_left_out(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    result = onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if is_blocked(x, scale, block_size, (16, 32, 64, 128, 256)):
        whole = x.shape[axis] // block_size * block_size
        if whole:
            np.moveaxis(result, axis, 0)[whole:] = 0
    return result
