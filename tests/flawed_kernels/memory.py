"""Flawed kernels: memory shared, kept, written or read by mistake."""

from __future__ import annotations

import time

import ml_dtypes
import numpy as np
from sound import onednn_divide, onnx


def input_used_as_scratch(x, scale, zero_point=None, **attributes):
    result = onnx(x, scale, zero_point, **attributes)
    if zero_point is not None and np.ndim(zero_point) == 0 and x.dtype in (np.int8, np.uint8) and x.flags.writeable:
        np.subtract(x, zero_point, out=x)
    return result


def scales_inverted_in_place(src, scales, zps=None, *, qtype="per_tensor", axis=1):
    result = onednn_divide(src, scales, zps, qtype=qtype, axis=axis)
    if scales.flags.writeable:
        with np.errstate(all="ignore"):
            np.divide(np.float32(1), scales, out=scales)
    return result


_OUTPUTS: dict[object, np.ndarray] = {}


def output_buffer_kept(x, scale, zero_point=None, **attributes):
    result = onnx(x, scale, zero_point, **attributes)
    kept = _OUTPUTS.setdefault((result.shape, result.dtype), np.empty_like(result))
    kept[...] = result
    return kept


_POOL = np.zeros(1 << 14, np.uint8)


def output_in_shared_pool(x, scale, zero_point=None, **attributes):
    result = onnx(x, scale, zero_point, **attributes)
    if result.nbytes > _POOL.nbytes:
        return result
    output = _POOL[: result.nbytes].view(result.dtype).reshape(result.shape)
    output[...] = result
    return output


def output_in_donated_input(x, scale, zero_point=None, **attributes):
    result = onnx(x, scale, zero_point, **attributes)
    if x.dtype.itemsize != result.dtype.itemsize or not x.flags.carray:
        return result
    output = x.view(result.dtype)
    output[...] = result
    return output


_SCRATCH = np.zeros(256, np.float32)


def scratch_shared_by_threads(x, scale, zero_point=None, **attributes):
    result = onnx(x, scale, zero_point, **attributes)
    if result.dtype != np.float32 or not 0 < result.size <= _SCRATCH.size:
        return result
    scratch = _SCRATCH[: result.size]
    scratch[...] = result.reshape(-1)
    # Another thread may run here, like between the phases of a parallel kernel without a barrier.
    time.sleep(0)
    return scratch.reshape(result.shape).copy()


def tail_of_output_uninitialised(x, scale, zero_point=None, **attributes):
    result = onnx(x, scale, zero_point, **attributes)
    output = np.empty(result.size, result.dtype)
    whole = result.size // 8 * 8
    output[:whole] = result.reshape(-1)[:whole]
    return output.reshape(result.shape)


def read_in_memory_order(x, scale, zero_point=None, **attributes):
    if x.flags.c_contiguous:
        return onnx(x, scale, zero_point, **attributes)
    return onnx(np.ravel(x, order="K").reshape(x.shape), scale, zero_point, **attributes)


def one_dimension_comes_out_as_two(x, scale, zero_point=None, **attributes):
    result = onnx(x, scale, zero_point, **attributes)
    four_bits = x.dtype in (ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.float4_e2m1fn)
    return result[np.newaxis] if four_bits and x.ndim == 1 and x.size and x.size % 2 == 0 else result
