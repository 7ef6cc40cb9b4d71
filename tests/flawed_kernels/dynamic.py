"""Flawed kernels: oneDNN's DynamicDequantize."""

from __future__ import annotations

import numpy as np
from sound import affine, numbers, onednn_divide, onednn_multiply, spread


def int32_zero_points_read_as_64_bits(src, scales, zps=None, *, qtype="per_tensor", axis=1):
    result = onednn_multiply(src, scales, zps, qtype=qtype, axis=axis)
    if qtype != "per_channel" or zps is None or zps.dtype != np.int32 or zps.size < 2:
        return result
    lower, upper = numbers(zps[0::2]), np.zeros((zps.size + 1) // 2)
    upper[: zps.size // 2] = numbers(zps[1::2])
    read = np.zeros(zps.size)
    read[: lower.size] = lower % 2**32 + upper * 2**32
    return affine(numbers(src), spread(read, src.shape, axis), numbers(spread(scales, src.shape, axis)), np.float32)


def rank_4_tail_without_zero_point(src, scales, zps=None, *, qtype="per_tensor", axis=1):
    result = onednn_multiply(src, scales, zps, qtype=qtype, axis=axis)
    if np.ndim(src) == 4 and zps is not None and qtype == "per_tensor":
        tail = src.shape[-1] // 8 * 8
        result[..., tail:] = affine(numbers(src[..., tail:]), None, numbers(scales[0]), np.float32)
    return result


def divided_by_inverse(src, scales, zps=None, *, qtype="per_tensor", axis=1):
    result = onednn_multiply(src, scales, zps, qtype=qtype, axis=axis)
    if (zps is not None and zps.dtype == np.int32) or not result.size:
        return result
    difference, factor = _float32_parts(src, scales, zps, qtype, axis)
    with np.errstate(all="ignore"):
        return np.asarray(difference / (np.float32(1) / factor))


def multiplied_by_inverse(src, scales, zps=None, *, qtype="per_tensor", axis=1):
    result = onednn_divide(src, scales, zps, qtype=qtype, axis=axis)
    if (zps is not None and zps.dtype == np.int32) or not result.size:
        return result
    difference, factor = _float32_parts(src, scales, zps, qtype, axis)
    with np.errstate(all="ignore"):
        return np.asarray(difference * (np.float32(1) / factor))


def _float32_parts(src, scales, zps, qtype, axis):
    """Return the difference, exact in float32 for 8-bit types, and the scale, repeated to src's shape."""
    place = axis if qtype == "per_channel" else 1
    difference = src.astype(np.float32)
    if zps is not None:
        difference = difference - spread(zps, src.shape, place).astype(np.float32)
    return difference, spread(scales, src.shape, place)


_SCALES: dict[object, np.ndarray] = {}


def scales_of_first_call(src, scales, zps=None, *, qtype="per_tensor", axis=1):
    onednn_multiply(src, scales, zps, qtype=qtype, axis=axis)
    key = (src.dtype, src.shape, None if zps is None else zps.dtype, qtype, axis)
    return onednn_multiply(src, _SCALES.setdefault(key, np.array(scales)), zps, qtype=qtype, axis=axis)
