"""Packed 4- and 2-bit codes, as ONNX stores them: several in a byte, the first in the lowest bits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from xverify.kernels.backends import chosen
from xverify.kernels.blocks import BLOCK, Spread, block_size, blocks, some_numbers
from xverify.kernels.casting import Array
from xverify.kernels.checks import linear_plan
from xverify.kernels.editions import output
from xverify.kernels.formula import arithmetic
from xverify.kernels.linear import evaluated

WIDTHS = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}
"""Bits of the dtypes that are packed."""

BYTE = np.dtype(np.uint8)
"""Of memory that holds packed codes. NumPy's own object, which most arrays have, is known by its identity."""


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

    Compiled loops read packed codes as they are. NumPy unpacks those of x a block at a time, and all zero points first.

    Returns an array of ``shape``. Raises TypeError or ValueError, those of `xverify.dequantize_linear`, and for x, dtype, shape.
    """
    named = dtype if type(dtype) is str else _packed_dtype(dtype)
    unpacked, bits, shape, elements = _described(named, tuple(shape))
    is_compiled = chosen(backend) == "numba"
    packed = x if type(x) is np.ndarray else np.asarray(x)
    if type(scale) is not np.ndarray:
        scale = np.asarray(scale)
    _require_bytes("x", packed, elements, bits)
    in_byte, zero_points_in_byte = 8 // bits, 1
    zero_dtype, zero_shape = None, None
    if zero_point is not None:
        if type(zero_point) is not np.ndarray:
            zero_point = np.asarray(zero_point)
        zero_dtype, zero_shape = zero_point.dtype, zero_point.shape
        if zero_dtype is BYTE or zero_dtype == BYTE:
            _require_bytes("zero_point", zero_point, scale.size, bits)
            zero_dtype, zero_shape = unpacked, scale.shape
            if is_compiled:
                zero_points_in_byte = in_byte
            else:
                zero_point = unpack(zero_point, bits, 0, scale.size).view(unpacked).reshape(scale.shape)
    plan = linear_plan(
        contract,
        unpacked,
        shape,
        scale.dtype,
        scale.shape,
        zero_dtype,
        zero_shape,
        axis,
        block_size,
        out_dtype,
        backend,
        in_byte,
        zero_points_in_byte,
    )
    if is_compiled:
        return evaluated(plan, out, shape, packed, scale, zero_point)
    out = output(out, shape, plan.dtype, packed, scale, zero_point)
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
        factor, offset = (spread.shaped(some_numbers(given, real), out.ndim) for given in (scale, zero_point))
        for index in blocks(out.shape, block_size(real)):
            part = out[index]
            codes = unpack(packed, WIDTHS[dtype.name], start, start + part.size).view(dtype)
            fill(part, codes.reshape(part.shape), spread.at(factor, index, real), spread.at(offset, index, real))
            start += part.size


def unpack(packed: Array, bits: int, start: int, stop: int) -> Array:
    """Codes start ... stop - 1, one a byte, with zeros above."""
    per_byte = 8 // bits
    first = start // per_byte
    part = packed[first : -(-stop // per_byte)]
    codes: Array = np.empty(part.size * per_byte, np.uint8)
    for place in range(per_byte):
        np.right_shift(part, np.uint8(place * bits), out=codes[place::per_byte])
    codes &= np.uint8((1 << bits) - 1)
    return codes[start - first * per_byte : stop - first * per_byte]


@lru_cache(maxsize=1024)
def _described(dtype: str | np.dtype[Any], shape: tuple[Any, ...]) -> tuple[np.dtype[Any], int, tuple[int, ...], int]:
    """What codes are, of how many bits, the tensor's shape, and how many elements it has."""
    extents = tuple(int(extent) for extent in shape)
    if any(extent < 0 for extent in extents):
        raise ValueError(f"shape is {extents}; expected no negative extent")
    unpacked = _packed_dtype(dtype)
    return unpacked, WIDTHS[unpacked.name], extents, prod(extents)


def _packed_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    try:
        found = np.dtype(getattr(ml_dtypes, dtype, dtype) if isinstance(dtype, str) else dtype)
    except TypeError:
        raise TypeError(f"dtype is {dtype!r}; expected {' or '.join(WIDTHS)}") from None
    if found.name not in WIDTHS:
        raise TypeError(f"dtype is {found}; expected {' or '.join(WIDTHS)}")
    return found


def _require_bytes(where: str, packed: Array, elements: int, bits: int) -> None:
    if packed.dtype is not BYTE and packed.dtype != BYTE:
        raise TypeError(f"the dtype of {where} is {packed.dtype}; expected packed codes in uint8")
    expected = (elements * bits + 7) // 8
    if packed.shape != (expected,):
        raise ValueError(
            f"the shape of {where} is {packed.shape}; expected ({expected},), for {elements} codes of {bits} bits"
        )
