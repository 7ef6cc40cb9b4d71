"""A runtime with packed int4 for ai.onnx/DequantizeLinear-25: int4 or uint4 codes, float32 or float16 scales, blocks of a row.

xverify passes int4 codes one a byte, as ml_dtypes arrays. The runtime's own function takes two codes a byte, as its files store
them. `dequantize` stands between the two: it packs what xverify passes. Gate it:

    xverify gate --kernel examples/packed_int4_kernel.py:dequantize --x-dtypes int4,uint4 --scale-dtypes float32,float16

A kernel with the C interface needs no such function: it gets codes of fewer than 8 bits packed (oracles/native/xverify_kernel.h).
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def dequantize_rows(
    weights: Array, scale: Array, zero_points: Array | None, columns: int, block: int, signed: bool
) -> Array:
    """The runtime's function: rows of packed codes, with a scale for each block of a row.

    Args:
        weights: Bytes [rows, ceil(columns / 2)]; the code with the lower index is in the low bits.
        scale: float32 or float16, [rows, ceil(columns / block)].
        zero_points: Bytes [rows, ceil(blocks / 2)], packed like the weights; None for 0.
        columns: Codes in a row.
        block: Codes in a block.
        signed: True for int4.
    """
    difference = _unpacked(weights, columns, signed)
    if zero_points is not None:
        offsets = _unpacked(zero_points, scale.shape[1], signed)
        difference = difference - np.repeat(offsets, block, axis=1)[:, :columns]
    # A difference has 5 bits. Its product with a float16 scale is exact in float32, so the result is rounded once.
    product = difference.astype(np.float32) * np.repeat(scale.astype(np.float32), block, axis=1)[:, :columns]
    return product.astype(scale.dtype)


def _unpacked(packed: Array, columns: int, signed: bool) -> Array:
    codes = np.stack([packed & 15, packed >> 4], axis=2).astype(np.int8)
    codes = codes.reshape(packed.shape[0], 2 * packed.shape[1])[:, :columns]
    return np.where(codes > 7, codes - 16, codes) if signed else codes


def dequantize(
    x: Array,
    scale: Array,
    zero_point: Array | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    out_dtype: Any = None,
) -> Array:
    """Pack the codes of a call, and pass them to the runtime.

    Args:
        x: Codes of int4 or uint4, one a byte.
        scale: An array of x's rank with one element for each block.
        zero_point: An array like scale with the type of x, or None for 0.
        axis: Axis of the blocks; only the last one is supported.
        block_size: Elements in a block.
        out_dtype: Type of the output; None means the type of scale.

    Raises:
        ValueError: The specification forbids the call.
        NotImplementedError: The specification allows the call, but the runtime has only blocks on the last axis.
    """
    if block_size < 0:
        raise ValueError("block_size must not be negative")
    if zero_point is not None and (zero_point.dtype != x.dtype or zero_point.shape != scale.shape):
        raise ValueError("zero_point must have the type of x and the shape of scale")
    if scale.ndim:
        if not -x.ndim <= axis < x.ndim:
            raise ValueError("axis is out of range")
        axis %= x.ndim
        is_blocked = block_size > 0 and scale.ndim == x.ndim
        blocks = -(-x.shape[axis] // block_size) if is_blocked else 0
        if scale.shape != ((*x.shape[:axis], blocks, *x.shape[axis + 1 :]) if is_blocked else (x.shape[axis],)):
            raise ValueError("scale has another shape than its granularity needs")
    if scale.ndim == 0 or not is_blocked or axis != x.ndim - 1:
        raise NotImplementedError("the runtime has blocks on the last axis only")
    types = (x.dtype.name in ("int4", "uint4"), scale.dtype.name in ("float32", "float16"))
    if not all(types) or np.dtype(out_dtype or scale.dtype) != scale.dtype:
        raise NotImplementedError(f"{x.dtype}, {scale.dtype}, {out_dtype}")
    columns = x.shape[-1]
    block = min(block_size, max(1, columns))
    offsets = None if zero_point is None else _packed(zero_point)
    y = dequantize_rows(_packed(x), _rows(scale), offsets, columns, block, x.dtype.name == "int4")
    return y.reshape(x.shape)


def _rows(array: Array) -> Array:
    return array.reshape(int(np.prod(array.shape[:-1], dtype=np.int64)), array.shape[-1])


def _packed(codes: Array) -> Array:
    """Rows of codes as bytes: two codes a byte, the first one in the low bits."""
    rows = _rows(codes.astype(np.int8)).astype(np.uint8) & 15
    rows = np.pad(rows, ((0, 0), (0, rows.shape[1] % 2)))
    return rows[:, ::2] | rows[:, 1::2] << 4
