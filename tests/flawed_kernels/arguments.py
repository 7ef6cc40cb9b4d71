"""Checks of arguments by ai.onnx DequantizeLinear 25, for kernels with arithmetic of their own.

It shares nothing with the in-house kernels and the contracts.
"""

from __future__ import annotations

import numpy as np

SMALL_INTEGERS = ("int8", "uint8", "int4", "uint4")
FLOATS = ("float32", "float16", "bfloat16")


def check(x, scale, zero_point, axis, block_size):
    """Refuse a forbidden call. Return its granularity.

    Raises:
        ValueError: The text forbids the shapes, the axis, the block size or the zero point.
    """
    if zero_point is not None and (zero_point.dtype != x.dtype or zero_point.shape != scale.shape):
        raise ValueError("the zero point needs the type of x and the shape of the scale")
    if block_size < 0:
        raise ValueError("the block size is negative")
    if scale.ndim == 0:
        return "per tensor"
    in_range = -x.ndim <= axis < x.ndim
    if scale.ndim == x.ndim and (block_size or x.ndim > 1):
        if not block_size or not in_range:
            raise ValueError("a blocked call needs a block size and an axis in range")
        if x.ndim == 1 and scale.shape == x.shape:
            return "per axis"
        along = axis % x.ndim
        blocks = tuple(-(-extent // block_size) if i == along else extent for i, extent in enumerate(x.shape))
        if scale.shape != blocks:
            raise ValueError(f"the scale needs the shape {blocks}")
        return "blocked"
    if scale.ndim != 1 or not in_range or scale.shape[0] != x.shape[axis]:
        raise ValueError("the scale needs one element for each index along the axis")
    return "per axis"


def support(x, scale, out_dtype, x_types=SMALL_INTEGERS, floats=FLOATS):
    """Return the output type, that of the scale.

    Raises:
        NotImplementedError: A type is not one of those named, or the output has another type than the scale.
    """
    output = scale.dtype if out_dtype is None else np.dtype(out_dtype)
    if x.dtype.name not in x_types or scale.dtype.name not in floats or output != scale.dtype:
        raise NotImplementedError(f"{x.dtype} and {scale.dtype} to {output}")
    return output


def spread(parameter, x, granularity, axis, block_size):
    """Return a parameter in a shape that broadcasts with x."""
    if granularity == "per tensor":
        return parameter
    if granularity == "blocked":
        return np.repeat(parameter, block_size, axis)[
            tuple(slice(extent) if i == axis % x.ndim else slice(None) for i, extent in enumerate(x.shape))
        ]
    return parameter.reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])
