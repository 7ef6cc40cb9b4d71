"""Packed codes of fewer than 8 bits, as ONNX stores them: without gaps, the first in the lowest bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import gcd, prod
from operator import index as as_integer
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from xverify.kernels.backends import chosen
from xverify.kernels.blocks import BLOCK, Spread, block_size, blocks, some_numbers
from xverify.kernels.casting import Array
from xverify.kernels.checks import linear_plan
from xverify.kernels.formula import arithmetic
from xverify.kernels.linear import evaluated
from xverify.kernels.plans import Plan, remembered

WIDTHS = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2, "float6_e2m3fn": 6, "float6_e3m2fn": 6}
"""Bits of the dtypes that are packed."""

BYTE = np.dtype(np.uint8)
"""The dtype of memory that holds packed codes."""


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
    contract: str = "ai.onnx/DequantizeLinear",
    backend: str | None = None,
) -> Array:
    """`xverify.dequantize_linear` of packed codes.

    Elements are in C order, the first of a byte in its lowest bits. Four codes of 6 bits fill 3 bytes. Unused bits of the last
    byte are ignored.
    Compiled loops read packed codes of 4 and 2 bits directly. NumPy unpacks other codes of x a block at a time, and all their
    zero points first.

    Args:
        x: the bytes: uint8, 1-D, ceil(elements * bits / 8) of them.
        scale: as for `xverify.dequantize_linear`.
        zero_point: packed bytes too (uint8, 1-D), for as many codes as scale has elements; or an array of ``dtype`` and of
            scale's shape; None is 0.
        dtype: the dtype of the codes, one of `WIDTHS`, as a name or as ml_dtypes' dtype.
        shape: the shape of the tensor.
        axis, block_size, out_dtype, out, contract, backend: as for `xverify.dequantize_linear`.

    Returns:
        An array of ``shape``.

    Raises:
        TypeError: as `xverify.dequantize_linear`, and for the dtype of x, ``dtype`` and ``shape``.
        ValueError: as `xverify.dequantize_linear`, and for the shape of x and ``shape``.

    Source:
        "Packed 4-bit elements" and "Packed 2-bit elements" of ONNX (IR specification); TensorProto's raw_data for 6 bits.
    """
    if type(x) is not np.ndarray:
        x = np.asarray(x)
    if type(scale) is not np.ndarray:
        scale = np.asarray(scale)
    if zero_point is not None and type(zero_point) is not np.ndarray:
        zero_point = np.asarray(zero_point)
    if type(shape) is not tuple or not _INT.issuperset(
        map(type, shape)
    ):  # as keys of cached plans, 1.0 and True equal 1
        shape = _extents(shape)
    plan = packed_plan(
        contract,
        x.dtype,
        x.shape,
        scale.dtype,
        scale.shape,
        None if zero_point is None else zero_point.dtype,
        None if zero_point is None else zero_point.shape,
        shape,
        dtype if type(dtype) is str else _packed_dtype(dtype).name,
        axis,
        block_size,
        out_dtype,
        backend,
    )
    return evaluated(plan, out, shape, x, scale, zero_point)


@partial(remembered, attributes=8)
def packed_plan(
    contract: str,
    x_dtype: np.dtype[Any],
    x_shape: tuple[int, ...],
    scale_dtype: np.dtype[Any],
    scale_shape: tuple[int, ...],
    zero_point_dtype: np.dtype[Any] | None,
    zero_point_shape: tuple[int, ...] | None,
    shape: tuple[int, ...],
    dtype: str,
    axis: int | None,
    block_size: int | None,
    out_dtype: DTypeLike | None,
    backend: str | None,
) -> Plan:
    """Check a call of `dequantize_packed`, and plan it. x_dtype and x_shape are those of the bytes."""
    unpacked, extents = _packed_dtype(dtype), _extents(shape)
    bits = WIDTHS[unpacked.name]
    _require_bytes("x", x_dtype, x_shape, prod(extents), bits)
    has_packed_zero_points = False
    if zero_point_dtype == BYTE:
        has_packed_zero_points = True
        _require_bytes("zero_point", zero_point_dtype, zero_point_shape, prod(scale_shape), bits)
        zero_point_dtype, zero_point_shape = unpacked, scale_shape
    in_byte = 1 if 8 % bits else 8 // bits  # Compiled loops take codes across bytes one a byte.
    zero_points_in_byte = in_byte if has_packed_zero_points else 1
    described = (unpacked, extents, scale_dtype, scale_shape, zero_point_dtype, zero_point_shape)
    plan = linear_plan(contract, *described, axis, block_size, out_dtype, backend, in_byte, zero_points_in_byte)
    is_compiled = chosen(backend) == "numba"
    if is_compiled and in_byte > 1:
        return plan
    write = _read_unpacked if is_compiled else _unpacked
    return replace(plan, apply=partial(write, plan, unpacked, has_packed_zero_points), small=None)


def _unpacked(
    plan: Plan,
    dtype: np.dtype[Any],
    has_packed_zero_points: bool,
    out: Array,
    packed: Array,
    scale: Array,
    zero_point: Array | None,
) -> None:
    """Compute the formula with NumPy.

    Unpack the zero points, and the codes of x by blocks if they are many.
    """
    bits = WIDTHS[dtype.name]
    zero_point = _zero_points(dtype, has_packed_zero_points, scale, zero_point)
    if out.size <= BLOCK:
        plan.apply(out, unpack(packed, bits, 0, out.size).view(dtype).reshape(out.shape), scale, zero_point)
    else:
        _in_blocks(out, dtype, packed, scale, zero_point, plan.spread)


def _read_unpacked(
    plan: Plan,
    dtype: np.dtype[Any],
    has_packed_zero_points: bool,
    out: Array,
    packed: Array,
    scale: Array,
    zero_point: Array | None,
) -> None:
    """Compute the formula with compiled loops, for which NumPy unpacks the codes piece by piece."""
    zero_point = _zero_points(dtype, has_packed_zero_points, scale, zero_point)
    plan.apply(out, packed, scale, zero_point, partial(unpack, packed, WIDTHS[dtype.name]))


def _zero_points(dtype: np.dtype[Any], are_packed: bool, scale: Array, zero_point: Array | None) -> Array | None:
    """The zero points, one a byte."""
    if zero_point is None or not are_packed:
        return zero_point
    return unpack(zero_point, WIDTHS[dtype.name], 0, scale.size).view(dtype).reshape(scale.shape)


def _in_blocks(
    out: Array, dtype: np.dtype[Any], packed: Array, scale: Array, zero_point: Array | None, spread: Spread
) -> None:
    """Compute the formula with NumPy, unpacking one block of codes at a time."""
    fill, real = arithmetic(out.dtype, np.empty(0, dtype), scale, zero_point, False)
    start = 0
    with np.errstate(all="ignore"):
        factor, offset = (spread.shaped(some_numbers(parameter, real), out.ndim) for parameter in (scale, zero_point))
        for index in blocks(out.shape, block_size(real)):
            part = out[index]
            codes = unpack(packed, WIDTHS[dtype.name], start, start + part.size).view(dtype)
            fill(part, codes.reshape(part.shape), spread.at(factor, index, real), spread.at(offset, index, real))
            start += part.size


def unpack(packed: Array, bits: int, start: int, stop: int) -> Array:
    """Codes start ... stop - 1, one a byte, with zeros above. bits: bits of a code."""
    in_group = 8 // gcd(bits, 8)  # the fewest codes that fill whole bytes
    of_bytes = in_group * bits // 8
    first = start // in_group
    part = packed[first * of_bytes : -(-stop // in_group) * of_bytes]
    if part.size % of_bytes:  # the last group, without the bytes that have no codes
        part = np.append(part, np.zeros(-part.size % of_bytes, np.uint8))
    codes: Array = np.empty(part.size // of_bytes * in_group, np.uint8)
    for position in range(in_group):
        byte, shift = divmod(position * bits, 8)
        of_position = codes[position::in_group]
        np.right_shift(part[byte::of_bytes], np.uint8(shift), out=of_position)
        if shift + bits > 8:
            of_position |= part[byte + 1 :: of_bytes] << np.uint8(8 - shift)
    codes &= np.uint8((1 << bits) - 1)
    return codes[start - first * in_group : stop - first * in_group]


_INT = frozenset((int,))


def _extents(shape: Any) -> tuple[int, ...]:
    try:
        extents = tuple(map(as_integer, shape))
    except TypeError:
        raise TypeError(f"shape is {shape}; expected integers") from None
    if any(extent < 0 for extent in extents):
        raise ValueError(f"shape is {extents}; expected no negative extent")
    return extents


def _packed_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    try:
        packed = np.dtype(getattr(ml_dtypes, dtype, dtype) if isinstance(dtype, str) else dtype)
    except TypeError:
        raise TypeError(f"dtype is {dtype!r}; expected {' or '.join(WIDTHS)}") from None
    if packed.name not in WIDTHS:
        raise TypeError(f"dtype is {packed}; expected {' or '.join(WIDTHS)}")
    return packed


def _require_bytes(where: str, dtype: np.dtype[Any], shape: tuple[int, ...] | None, elements: int, bits: int) -> None:
    if dtype != BYTE:
        raise TypeError(f"the dtype of {where} is {dtype}; expected packed codes in uint8")
    expected = (elements * bits + 7) // 8
    if shape != (expected,):
        raise ValueError(
            f"the shape of {where} is {shape}; expected ({expected},), for {elements} codes of {bits} bits"
        )
