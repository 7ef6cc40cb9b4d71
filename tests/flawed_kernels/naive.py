"""Right kernels in NumPy, as somebody writes them first.

They take 8-bit and 4-bit integers, and give the scale's type. Those with limits say "not implemented" outside of them.
"""

from __future__ import annotations

import numpy as np
from arguments import SMALL_INTEGERS, check, spread, support


def whole(x, scale, zero_point=None, *, axis=1, block_size=0, out_dtype=None):
    """Every granularity and layout."""
    output = support(x, scale, out_dtype)
    granularity = check(x, scale, zero_point, axis, block_size)
    difference = x.astype(np.float32)
    if zero_point is not None:
        difference = difference - spread(zero_point.astype(np.float32), x, granularity, axis, block_size)
    with np.errstate(all="ignore"):
        return np.asarray(difference * spread(scale.astype(np.float32), x, granularity, axis, block_size)).astype(
            output
        )


def blocks_of_32(x, scale, zero_point=None, *, axis=1, block_size=0, out_dtype=None):
    """Only whole blocks of 32 along the last axis."""
    whole_blocks = block_size == 32 and x.ndim > 0 and scale.ndim == x.ndim and x.shape[-1] % 32 == 0
    if not whole_blocks or axis not in (-1, x.ndim - 1):
        raise NotImplementedError("blocks of 32 along the last axis")
    return whole(x, scale, zero_point, axis=axis, block_size=block_size, out_dtype=out_dtype)


def per_tensor(x, scale, zero_point=None, *, axis=1, block_size=0, out_dtype=None):
    """Only one scale for the whole tensor."""
    if scale.ndim:
        raise NotImplementedError("one scale")
    return whole(x, scale, zero_point, axis=axis, block_size=block_size, out_dtype=out_dtype)


def per_axis_1(x, scale, zero_point=None, *, axis=1, block_size=0, out_dtype=None):
    """Only scales along axis 1, without blocks."""
    if scale.ndim != 1 or axis != 1 or block_size:
        raise NotImplementedError("a scale for each index along axis 1")
    return whole(x, scale, zero_point, axis=axis, block_size=block_size, out_dtype=out_dtype)


def contiguous(x, scale, zero_point=None, *, axis=1, block_size=0, out_dtype=None):
    """Only tensors that are contiguous in row-major order."""
    if not all(array is None or array.flags.c_contiguous for array in (x, scale, zero_point)):
        raise NotImplementedError("contiguous tensors")
    return whole(x, scale, zero_point, axis=axis, block_size=block_size, out_dtype=out_dtype)


def matrices(x, scale, zero_point=None, *, axis=1, block_size=0, out_dtype=None):
    """Only an x of rank 2."""
    if x.ndim != 2:
        raise NotImplementedError("rank 2")
    return whole(x, scale, zero_point, axis=axis, block_size=block_size, out_dtype=out_dtype)


def float32_only(x, scale, zero_point=None, *, axis=1, block_size=0, out_dtype=None):
    """Only float32 scales and results."""
    support(x, scale, out_dtype, SMALL_INTEGERS, ("float32",))
    return whole(x, scale, zero_point, axis=axis, block_size=block_size, out_dtype=out_dtype)


def symmetric(x, scale, zero_point=None, *, axis=1, block_size=0, out_dtype=None):
    """No zero points."""
    if zero_point is not None:
        raise NotImplementedError("no zero point")
    return whole(x, scale, zero_point, axis=axis, block_size=block_size, out_dtype=out_dtype)
