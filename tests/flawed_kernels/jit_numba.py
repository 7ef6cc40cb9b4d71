"""A right kernel in Numba: int8 and uint8 to float32."""

from __future__ import annotations

import numba
import numpy as np
from arguments import check, spread, support


@numba.njit
def _loop(x, zero_point, scale, output):
    for i in range(x.size):
        output[i] = np.float32(np.int32(x[i]) - np.int32(zero_point[i])) * scale[i]


def dequantize(x, scale, zero_point=None, *, axis=1, block_size=0, out_dtype=None):
    support(x, scale, out_dtype, ("int8", "uint8"), ("float32",))
    granularity = check(x, scale, zero_point, axis, block_size)
    if zero_point is None:
        zero_point = np.zeros(scale.shape, x.dtype)
    output = np.empty(x.size, np.float32)
    flat = [
        np.ascontiguousarray(np.broadcast_to(spread(array, x, granularity, axis, block_size), x.shape)).reshape(-1)
        for array in (zero_point, scale)
    ]
    _loop(np.ascontiguousarray(x).reshape(-1), *flat, output)
    return output.reshape(x.shape)
