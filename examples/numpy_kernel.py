"""A NumPy kernel for ai.onnx/DequantizeLinear-25 with uint8 or int8 codes and float32 scales.

Gate it:

    xverify gate --kernel examples/numpy_kernel.py:dequantize --x-dtypes int8,uint8 --scale-dtypes float32
"""

from __future__ import annotations

from typing import Any

import numpy as np

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
    """Dequantize per tensor, per axis or per block.

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
    if zero_point is not None and (zero_point.dtype != x.dtype or zero_point.shape != scale.shape):
        raise ValueError("zero_point must have the type of x and the shape of scale")
    if (
        x.dtype not in (np.int8, np.uint8)
        or scale.dtype != np.float32
        or np.dtype(out_dtype or scale.dtype) != np.float32
    ):
        raise NotImplementedError(f"{x.dtype}, {scale.dtype}, {out_dtype}")
    if block_size < 0:
        raise ValueError("block_size must not be negative")
    # The difference of two 8-bit numbers needs 9 bits, so float32 holds it exactly and only the product is rounded.
    difference = x.astype(np.float32)
    if zero_point is not None:
        difference = difference - _expanded(zero_point, x.shape, axis, block_size).astype(np.float32)
    with np.errstate(all="ignore"):  # overflow to infinity is a legal result
        return np.asarray(difference * _expanded(scale, x.shape, axis, block_size))


def _expanded(parameter: Array, shape: tuple[int, ...], axis: int, block_size: int) -> Array:
    """A scale or zero point in a shape that broadcasts with x."""
    if parameter.ndim == 0:
        return parameter
    if not -len(shape) <= axis < len(shape):
        raise ValueError(f"axis {axis} is outside [-{len(shape)}, {len(shape) - 1}]")
    axis %= len(shape)
    extent = shape[axis]
    if block_size and parameter.ndim == len(shape):
        blocks = -(-extent // block_size)
        if parameter.shape != (*shape[:axis], blocks, *shape[axis + 1 :]):
            raise ValueError(
                "a blocked scale has one element for each block along axis, and the extents of x elsewhere"
            )
        return np.take(parameter, np.arange(extent) // block_size, axis)
    if parameter.shape != (extent,):
        raise ValueError("a scale of rank 1 has one element for each index along axis")
    return parameter.reshape([-1 if i == axis else 1 for i in range(len(shape))])
