"""Kernels that take few calls, by limits that the gate learns or the user states."""

from __future__ import annotations

import numpy as np
import pytest

from xverify.core.errors import UsageError
from xverify.testing import KernelError, verify_kernel

DOMAIN = {
    "contract": "ai.onnx/DequantizeLinear-21",
    "x_dtypes": ["int8"],
    "scale_dtypes": ["float32"],
    "granularity": ["blocked"],
    "budget": "40s",
}


def rows(x, scale, zero_point=None, *, axis=1, block_size=0, out_dtype=None):
    """Blocks of 32 on the last axis of whole rows only."""
    takes = block_size == 32 and axis in (-1, x.ndim - 1) and x.shape[-1] % 32 == 0 and scale.shape[:-1] == x.shape[:-1]
    if not takes or np.dtype(out_dtype or scale.dtype) != np.float32 or scale.shape[-1] * 32 != x.shape[-1]:
        raise NotImplementedError
    if zero_point is not None and (zero_point.shape != scale.shape or zero_point.dtype != x.dtype):
        raise ValueError
    if x.dtype != np.int8 or scale.dtype != np.float32:
        raise ValueError
    q = x.astype(np.int32).reshape(*scale.shape, 32)
    zero = 0 if zero_point is None else zero_point.astype(np.int32)[..., None]
    return ((q - zero).astype(np.float32) * scale[..., None]).reshape(x.shape)


def late(x, scale, zero_point=None, **attributes):
    """The last block of a row of at least three has the scale of the one before."""
    scale = scale.copy()
    if scale.ndim and scale.shape[-1] > 2:
        scale[..., -1] = scale[..., -2]
    return rows(x, scale, zero_point, **attributes)


def test_a_fault_within_learnt_limits_is_found() -> None:
    verify_kernel(rows, **DOMAIN)
    with pytest.raises(KernelError, match="violation"):
        verify_kernel(late, **DOMAIN)


def careless(x, scale, zero_point=None, *, axis=1, block_size=0, out_dtype=None):
    """Right for blocks of 32 on the last axis; it checks nothing."""
    assert block_size == 32
    assert axis in (-1, x.ndim - 1)
    assert x.ndim < 3
    assert x.flags.c_contiguous
    repeated = np.repeat(scale, 32, -1)[..., : x.shape[-1]]
    zero = 0 if zero_point is None else np.repeat(zero_point.astype(np.int32), 32, -1)[..., : x.shape[-1]]
    product = (x.astype(np.int32) - zero).astype(np.float64) * repeated.astype(np.float64)
    return product.astype(out_dtype or scale.dtype)


def test_no_call_outside_stated_limits_is_made() -> None:
    limits = {"block_sizes": [32], "axes": [-1], "ranks": ["1-2"], "contiguous": True, "values_only": True}
    with pytest.raises(KernelError):
        verify_kernel(careless, **DOMAIN)
    verify_kernel(careless, **DOMAIN, **limits, threads=False)
    with pytest.raises(UsageError, match="not a rank"):
        verify_kernel(careless, **DOMAIN, ranks=["few"])
