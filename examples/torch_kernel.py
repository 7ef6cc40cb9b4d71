"""A PyTorch kernel for ai.onnx/DequantizeLinear-25 with uint8 or int8 codes and float32 or bfloat16 scales.

xverify passes NumPy arrays, and reads the result through DLPack. Gate both functions where PyTorch is installed; torch.compile
also needs a C++ compiler:

    xverify gate --kernel examples/torch_kernel.py:dequantize --x-dtypes int8,uint8 --scale-dtypes float32,bfloat16
    xverify gate --kernel examples/torch_kernel.py:dequantize_compiled --x-dtypes int8,uint8 \\
        --scale-dtypes float32,bfloat16 --timeout 60
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import torch

Array = np.ndarray[Any, Any]


COMPILER = threading.Lock()
"""Threads that compile for the same types at once would use up the 8 versions that PyTorch keeps of a function."""

LEAST_SIZE = 2
"""PyTorch compiles sizes 0 and 1 separately, so that shorter arrays are filled up to this size."""


def dequantize(
    x: Array,
    scale: Array,
    zero_point: Array | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    out_dtype: Any = None,
) -> torch.Tensor:
    """Dequantize with PyTorch's own subtraction and multiplication.

    Args:
        x: Quantized codes of any rank.
        scale: A scalar, a vector along the axis, or an array of x's rank with one element for each block.
        zero_point: An array like scale with the type of x, or None for 0.
        axis: Axis of the vector or of the blocks; negative values count from the end.
        block_size: Elements in a block; 0 if the scale is not blocked.
        out_dtype: Type of the output; None means the type of scale.

    Raises:
        ValueError: The specification forbids the call.
        NotImplementedError: The specification allows the call, but this kernel does not support its types.
    """
    return _formula(*_operands(x, scale, zero_point, axis, block_size, out_dtype))


def dequantize_compiled(
    x: Array,
    scale: Array,
    zero_point: Array | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    out_dtype: Any = None,
) -> torch.Tensor:
    """Dequantize with what torch.compile makes of the same formula. Arguments and exceptions are those of `dequantize`."""
    difference, offset, factor, output = _operands(x, scale, zero_point, axis, block_size, out_dtype)
    flat = [_flat(each.expand(x.shape)) for each in (difference, offset, factor)]
    with COMPILER:
        return _compiled(*flat, output)[: x.size].reshape(x.shape)


def _formula(x: torch.Tensor, zero_point: torch.Tensor, scale: torch.Tensor, output: torch.dtype) -> torch.Tensor:
    # float32 holds the difference of two 8-bit codes, and also its product with a bfloat16 scale. So the result is rounded once.
    difference = x.to(torch.float32) - zero_point.to(torch.float32)
    return (difference * scale.to(torch.float32)).to(output)


_compiled = torch.compile(_formula, dynamic=True, fullgraph=True)
"""The compiled formula. It compiles once for each combination of types, and then takes vectors of any size."""


def _operands(
    x: Array, scale: Array, zero_point: Array | None, axis: int, block_size: int, out_dtype: Any
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.dtype]:
    """Check a call. Return x, zero point and scale as tensors that broadcast, and the type of the output."""
    if block_size < 0:
        raise ValueError("block_size must not be negative")
    if zero_point is not None and (zero_point.dtype != x.dtype or zero_point.shape != scale.shape):
        raise ValueError("zero_point must have the type of x and the shape of scale")
    output = np.dtype(out_dtype or scale.dtype).name
    if x.dtype.name not in ("int8", "uint8") or (scale.dtype.name, output) not in (
        ("float32", "float32"),
        ("bfloat16", "bfloat16"),
        ("bfloat16", "float32"),
    ):
        raise NotImplementedError(f"{x.dtype}, {scale.dtype}, {output}")
    offset = np.zeros_like(scale, x.dtype) if zero_point is None else zero_point
    parameters = [_expanded(each, x.shape, axis, block_size) for each in (offset, scale)]
    return _tensor(x), parameters[0], parameters[1], getattr(torch, output)


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """The elements as a vector of at least `LEAST_SIZE`."""
    flat = tensor.reshape(-1)
    return torch.nn.functional.pad(flat, (0, max(0, LEAST_SIZE - flat.numel()))).contiguous()


def _tensor(array: Array) -> torch.Tensor:
    """A copy as a tensor. PyTorch has no negative strides, and NumPy has no bfloat16 of its own."""
    copy = np.array(array, order="C")
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(copy.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(copy)


def _expanded(parameter: Array, shape: tuple[int, ...], axis: int, block_size: int) -> torch.Tensor:
    """A scale or zero point in a shape that broadcasts with x."""
    tensor = _tensor(parameter)
    if tensor.ndim == 0:
        return tensor
    if not -len(shape) <= axis < len(shape):
        raise ValueError(f"axis {axis} is outside [-{len(shape)}, {len(shape) - 1}]")
    axis %= len(shape)
    extent = shape[axis]
    if block_size and tensor.ndim == len(shape):
        if parameter.shape != (*shape[:axis], -(-extent // block_size), *shape[axis + 1 :]):
            raise ValueError(
                "a blocked scale has one element for each block along axis, and the extents of x elsewhere"
            )
        return tensor.index_select(axis, torch.arange(extent) // block_size)
    if parameter.shape != (extent,):
        raise ValueError("a scale of rank 1 has one element for each index along axis")
    return tensor.reshape([-1 if i == axis else 1 for i in range(len(shape))])
