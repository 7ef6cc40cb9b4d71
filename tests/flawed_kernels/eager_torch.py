"""A right kernel in PyTorch: int8 and uint8, the scale's type as output. It returns PyTorch's tensors."""

from __future__ import annotations

import numpy as np
import torch
from arguments import check, spread, support

torch.set_num_threads(1)


def _tensor(array):
    array = np.array(array, order="C")
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def dequantize(x, scale, zero_point=None, *, axis=1, block_size=0, out_dtype=None):
    output = support(x, scale, out_dtype, ("int8", "uint8"))
    granularity = check(x, scale, zero_point, axis, block_size)
    difference = _tensor(x).to(torch.int32)
    if zero_point is not None:
        difference = difference - _tensor(spread(zero_point, x, granularity, axis, block_size)).to(torch.int32)
    factor = _tensor(spread(scale, x, granularity, axis, block_size)).to(torch.float32)
    return (difference.to(torch.float32) * factor).to(getattr(torch, output.name))
