"""Flawed kernels: products formed or rounded wrongly, or in the wrong type."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from sound import affine, microsoft, numbers, onnx, onnx_with, spread

SMALLEST_NORMAL = float(np.finfo(np.float32).smallest_normal)


def zero_point_folded(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    result = onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if zero_point is None or result.dtype != np.float32 or x.dtype not in (np.int8, np.uint8):
        return result
    factor = spread(scale, x.shape, axis, block_size).astype(np.float32)
    offset = spread(zero_point, x.shape, axis, block_size).astype(np.float32)
    with np.errstate(all="ignore"):
        return np.asarray(x.astype(np.float32) * factor - offset * factor)


def scale_near_zero_taken_as_zero(x, scale, zero_point=None, **attributes):
    return onnx_with(x, scale, zero_point, as_scale=_without_tiny, **attributes)


def _without_tiny(scale):
    read = numbers(scale)
    return np.where(np.abs(read) < 1e-32, 0.0, read)


def scale_at_least_smallest_normal(x, scale, zero_point=None, **attributes):
    return onnx_with(x, scale, zero_point, as_scale=_at_least_smallest_normal, **attributes)


def _at_least_smallest_normal(scale):
    return np.fmax(numbers(scale), SMALLEST_NORMAL)


def zero_without_sign(x, scale, zero_point=None, **attributes):
    result = onnx(x, scale, zero_point, **attributes)
    return np.where(result == 0, result.dtype.type(0), result)


def bfloat16_truncated(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    result = onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if result.dtype != ml_dtypes.bfloat16:
        return result
    upper = (_product(x, scale, zero_point, axis, block_size).view(np.uint32) >> 16).astype(np.uint16)
    return np.where(np.isnan(result), result, upper.view(result.dtype))


def bfloat16_rounded_twice(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    result = onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if result.dtype != ml_dtypes.bfloat16:
        return result
    return _product(x, scale, zero_point, axis, block_size).astype(result.dtype)


def float16_rounded_twice(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    result = onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if result.dtype != np.float16:
        return result
    with np.errstate(all="ignore"):
        return _product(x, scale, zero_point, axis, block_size).astype(np.float16)


def _product(x, scale, zero_point, axis, block_size):
    """Return the product rounded to float32."""
    offset = None if zero_point is None else numbers(spread(zero_point, np.shape(x), axis, block_size))
    return affine(numbers(x), offset, numbers(spread(scale, np.shape(x), axis, block_size)), np.float32)


def always_float32(x, scale, zero_point=None, **attributes):
    return onnx(x, scale, zero_point, **attributes).astype(np.float32)


def half_operands_overflow(x, scale, zero_point=None, *, axis=None, **attributes):
    result = microsoft(x, scale, zero_point, **attributes, **({} if axis is None else {"axis": axis}))
    if result.dtype != np.float16:
        return result
    place = 1 if axis is None else axis
    with np.errstate(all="ignore"):
        difference = np.asarray(x).astype(np.float16)
        if zero_point is not None:
            difference = difference - spread(zero_point, np.shape(x), place).astype(np.float16)
        return np.asarray(difference * spread(scale, np.shape(x), place))


def fixed_point_on_odd_extents(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    result = onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if result.dtype != np.float32 or not x.ndim or x.shape[-1] % 2 == 0:
        return result
    factor = numbers(spread(scale, x.shape, axis, block_size))
    ordinary = (np.abs(factor) >= 2.0**-16) & (np.abs(factor) < 2.0**16)
    factor = np.rint(factor * 2**15) / 2**15
    offset = None if zero_point is None else numbers(spread(zero_point, x.shape, axis, block_size))
    return np.where(ordinary, affine(numbers(x), offset, factor, np.float32), result)


def bfloat16_through_float16(x, scale, zero_point=None, *, out_dtype=None, **attributes):
    result = onnx(x, scale, zero_point, out_dtype=out_dtype, **attributes)
    if result.dtype != ml_dtypes.bfloat16:
        return result
    with np.errstate(all="ignore"):
        return onnx(x, scale, zero_point, out_dtype="float16", **attributes).astype(result.dtype)


def float32_through_scale_type(x, scale, zero_point=None, *, out_dtype=None, **attributes):
    result = onnx(x, scale, zero_point, out_dtype=out_dtype, **attributes)
    if result.dtype != np.float32 or scale.dtype != np.float16:
        return result
    return onnx(x, scale, zero_point, **attributes).astype(np.float32)


def product_of_zero_point_in_float16(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    result = onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    if zero_point is None or result.dtype != np.float16 or x.dtype != np.uint8:
        return result
    factor, offset = (numbers(spread(array, x.shape, axis, block_size)) for array in (scale, zero_point))
    with np.errstate(all="ignore"):
        product = (offset * factor).astype(np.float16).astype(np.float64)
        return np.asarray(numbers(x) * factor - product).astype(np.float16)


def scale_0_taken_as_epsilon(x, scale, zero_point=None, **attributes):
    return onnx_with(x, scale, zero_point, as_scale=_epsilon_for_0, **attributes)


def _epsilon_for_0(scale):
    read = numbers(scale)
    return np.where(read == 0, 1e-8, read)


def nan_scale_gives_0(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    result = onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    unordered = np.isnan(numbers(spread(scale, np.shape(x), axis, block_size)))
    return np.where(unordered, result.dtype.type(0), result)


def infinite_scale_times_0_gives_0(x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    result = onnx(x, scale, zero_point, axis=axis, block_size=block_size, **attributes)
    infinite = np.isinf(numbers(spread(scale, np.shape(x), axis, block_size)))
    return np.where(infinite & np.isnan(result) & ~np.isnan(numbers(x)), result.dtype.type(0), result)


def sign_of_blocked_scale_lost(x, scale, zero_point=None, **attributes):
    onnx(x, scale, zero_point, **attributes)
    if attributes.get("block_size", 0) and np.ndim(scale) == np.ndim(x) > 0 and scale.dtype.kind == "f":
        scale = np.abs(scale)
    return onnx(x, scale, zero_point, **attributes)
