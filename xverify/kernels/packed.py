"""Packed 4- and 2-bit codes, as ONNX stores them: several in a byte, the first in the lowest bits."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from xverify.kernels.backends import chosen
from xverify.kernels.blocks import BLOCK, Spread, blocks
from xverify.kernels.casting import Array, numbers
from xverify.kernels.checks import linear_plan
from xverify.kernels.editions import output
from xverify.kernels.formula import arithmetic

WIDTHS = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}
"""Bits of the dtypes that are packed."""


def dequantize_packed(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: DTypeLike,
    shape: Sequence[int],
    axis: int | None = None,
    block_size: int | None = None,
    out_dtype: DTypeLike | None = None,
    out: Array | None = None,
    contract: str = "ai.onnx/DequantizeLinear-25",
    backend: str | None = None,
) -> Array:
    """`xverify.dequantize_linear` of codes that are packed.

    Source: "Packed 4-bit elements" and "Packed 2-bit elements" of ONNX (IR specification, and TensorProto's raw_data): elements
    in C order, the first of a byte in its lowest bits; what the last byte has too much is not looked at.

    x: bytes, uint8, 1-D, ceil(elements * bits / 8) of them. dtype: what the codes are: int4, uint4, float4_e2m1fn, int2 or
    uint2, as a name or as ml_dtypes' dtype. shape: the tensor's. zero_point: None is 0; packed bytes too (uint8, 1-D), for as
    many codes as scale has elements, or an array of ``dtype`` and of scale's shape. The others: as `xverify.dequantize_linear`,
    of which this has the refusals.

    Returns an array of ``shape``. Raises TypeError or ValueError, those of `xverify.dequantize_linear`, and for x, dtype, shape.
    """
    unpacked = _packed_dtype(dtype)
    bits = WIDTHS[unpacked.name]
    shape = tuple(int(extent) for extent in shape)
    if any(extent < 0 for extent in shape):
        raise ValueError(f"shape is {shape}; expected no negative extent")
    packed, scale = np.asarray(x), np.asarray(scale)
    _require_bytes("x", packed, prod(shape), bits)
    if zero_point is not None:
        zero_point = np.asarray(zero_point)
        if zero_point.dtype == np.uint8:
            _require_bytes("zero_point", zero_point, scale.size, bits)
            zero_point = unpack(zero_point, bits, 0, scale.size).view(unpacked).reshape(scale.shape)
    plan = linear_plan(
        contract,
        unpacked,
        shape,
        scale.dtype,
        scale.shape,
        None if zero_point is None else zero_point.dtype,
        None if zero_point is None else zero_point.shape,
        axis,
        block_size,
        out_dtype,
        backend,
    )
    out = output(out, shape, plan.dtype, packed, scale, zero_point)
    if chosen(backend) == "numba":
        from xverify.kernels.compiled.packed import reading

        # The tensor's dtype and shape are in the plan: only where its codes lie is another.
        plan.apply(out, packed, scale, zero_point, reading(np.ascontiguousarray(packed), bits))
        return out
    if out.size <= BLOCK:
        plan.apply(out, unpack(packed, bits, 0, out.size).view(unpacked).reshape(shape), scale, zero_point)
        return out
    _in_blocks(out, unpacked, packed, scale, zero_point, plan.spread)
    return out


def _in_blocks(
    out: Array, dtype: np.dtype[Any], packed: Array, scale: Array, zero_point: Array | None, spread: Spread
) -> None:
    """The formula with NumPy, without all codes unpacked at once."""
    fill, real = arithmetic(out.dtype, np.empty(0, dtype), scale, zero_point, False)
    start = 0
    with np.errstate(all="ignore"):
        factor = spread.shaped(numbers(scale, real), out.ndim)
        offset = spread.shaped(None if zero_point is None else numbers(zero_point, real), out.ndim)
        for index in blocks(out.shape):
            part = out[index]
            codes = unpack(packed, WIDTHS[dtype.name], start, start + part.size).view(dtype)
            fill(part, codes.reshape(part.shape), spread.at(factor, index), spread.at(offset, index))
            start += part.size


def unpack(packed: Array, bits: int, start: int, stop: int) -> Array:
    """Codes start ... stop - 1, one a byte, with zeros above."""
    per_byte = 8 // bits
    first = start // per_byte
    part = packed[first : -(-stop // per_byte)]
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    codes: Array = ((part[:, None] >> shifts) & np.uint8((1 << bits) - 1)).ravel()
    return codes[start - first * per_byte : stop - first * per_byte]


def _packed_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    try:
        found = np.dtype(getattr(ml_dtypes, dtype, dtype) if isinstance(dtype, str) else dtype)
    except TypeError:
        raise TypeError(f"dtype is {dtype!r}; expected {' or '.join(WIDTHS)}") from None
    if found.name not in WIDTHS:
        raise TypeError(f"dtype is {found}; expected {' or '.join(WIDTHS)}")
    return found


def _require_bytes(where: str, packed: Array, elements: int, bits: int) -> None:
    if packed.dtype != np.uint8:
        raise TypeError(f"the dtype of {where} is {packed.dtype}; expected packed codes in uint8")
    expected = -(-elements * bits // 8)
    if packed.shape != (expected,):
        raise ValueError(
            f"the shape of {where} is {packed.shape}; expected ({expected},), for {elements} codes of {bits} bits"
        )
