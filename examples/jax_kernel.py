"""A JAX kernel for ai.onnx/DequantizeLinear-25 with uint8 or int8 codes and float32 or bfloat16 scales.

XLA treats subnormal numbers as zero on CPUs, operands and results alike. So its gate has an option for that:

    xverify gate --kernel examples/jax_kernel.py:dequantize --x-dtypes int8,uint8 --scale-dtypes float32,bfloat16 \\
        --denormals flush-inputs
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp

Array = np.ndarray[Any, Any]

SMALLEST_BUCKET = 256
"""XLA compiles once for each shape, so arrays are flat and as long as a power of two."""


@partial(jax.jit, static_argnames=("output",))
def _dequantize(x: Any, zero_point: Any, scale: Any, output: str) -> Any:
    # float32 holds the difference of two 8-bit codes, and also its product with a bfloat16 scale. So the result is rounded once.
    difference = x.astype(jnp.float32) - zero_point.astype(jnp.float32)
    return (difference * scale.astype(jnp.float32)).astype(output)


def dequantize(
    x: Array,
    scale: Array,
    zero_point: Array | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    out_dtype: Any = None,
) -> Any:
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
    if block_size < 0:
        raise ValueError("block_size must not be negative")
    output = np.dtype(out_dtype or scale.dtype).name
    if x.dtype.name not in ("int8", "uint8") or (scale.dtype.name, output) not in (
        ("float32", "float32"),
        ("bfloat16", "bfloat16"),
        ("bfloat16", "float32"),
    ):
        raise NotImplementedError(f"{x.dtype}, {scale.dtype}, {output}")
    offsets = np.zeros_like(scale, x.dtype) if zero_point is None else zero_point
    parts = [x, *(_expanded(each, x.shape, axis, block_size) for each in (offsets, scale))]
    return _dequantize(*map(_in_bucket, parts), output)[: x.size].reshape(x.shape)


def _in_bucket(array: Array) -> Array:
    """The elements in C order, and zeros up to a power of two."""
    flat = np.zeros(max(SMALLEST_BUCKET, 1 << max(0, array.size - 1).bit_length()), array.dtype)
    flat[: array.size] = array.reshape(-1)
    return flat


def _expanded(parameter: Array, shape: tuple[int, ...], axis: int, block_size: int) -> Array:
    """A scale or zero point in the shape of x."""
    if parameter.ndim == 0:
        return np.broadcast_to(parameter, shape)
    if not -len(shape) <= axis < len(shape):
        raise ValueError(f"axis {axis} is outside [-{len(shape)}, {len(shape) - 1}]")
    axis %= len(shape)
    extent = shape[axis]
    if block_size and parameter.ndim == len(shape):
        if parameter.shape != (*shape[:axis], -(-extent // block_size), *shape[axis + 1 :]):
            raise ValueError(
                "a blocked scale has one element for each block along axis, and the extents of x elsewhere"
            )
        return np.take(parameter, np.arange(extent) // block_size, axis)
    if parameter.shape != (extent,):
        raise ValueError("a scale of rank 1 has one element for each index along axis")
    return np.broadcast_to(parameter.reshape([-1 if i == axis else 1 for i in range(len(shape))]), shape)
