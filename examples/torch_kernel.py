"""A PyTorch kernel for ai.onnx/DequantizeLinear-25 with uint8 or int8 codes and float32 scales, per tensor or per axis.

xverify passes NumPy arrays and expects one. Gate it where PyTorch is installed:

    xverify gate --kernel examples/torch_kernel.py:dequantize --x-dtypes int8,uint8 --scale-dtypes float32
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

Array = np.ndarray[Any, Any]


def dequantize(
    x: Array,
    scale: Array,
    zero_point: Array | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    out_dtype: Any = None,
) -> Array:
    """Dequantize with PyTorch's own subtraction and multiplication.

    Args:
        x: Quantized codes of any rank.
        scale: A scalar, or a vector along the axis.
        zero_point: An array like scale with the type of x, or None for 0.
        axis: Axis of the vector; negative values count from the end.
        block_size: Elements in a block; only 0 is supported.
        out_dtype: Type of the output; None means the type of scale.

    Raises:
        ValueError: The specification forbids the call.
        NotImplementedError: The specification allows the call, but this kernel does not support it.
    """
    if block_size < 0:
        raise ValueError("block_size must not be negative")
    if zero_point is not None and (zero_point.dtype != x.dtype or zero_point.shape != scale.shape):
        raise ValueError("zero_point must have the type of x and the shape of scale")
    if (
        x.dtype not in (np.int8, np.uint8)
        or scale.dtype != np.float32
        or np.dtype(out_dtype or scale.dtype) != np.float32
    ):
        raise NotImplementedError(f"{x.dtype}, {scale.dtype}, {out_dtype}")
    if scale.ndim > 1 or (scale.ndim and block_size):
        raise NotImplementedError("blocks")
    shape = [1] * x.ndim
    if scale.ndim:
        if not -x.ndim <= axis < x.ndim or scale.size != x.shape[axis]:
            raise ValueError("scale must have one element for each index along axis")
        shape[axis] = -1
    # PyTorch has no negative strides and warns of read-only memory, so it gets copies.
    difference = torch.from_numpy(x.copy()).to(torch.float32)
    if zero_point is not None:
        difference = difference - torch.from_numpy(zero_point.copy()).to(torch.float32).reshape(
            shape if scale.ndim else ()
        )
    return (difference * torch.from_numpy(scale.copy()).reshape(shape if scale.ndim else ())).numpy()
