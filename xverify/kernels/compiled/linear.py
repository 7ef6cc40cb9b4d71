"""(x - zero_point) * scale, and / scale, by compiled loops: the bits of `xverify.kernels.linear`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import ml_dtypes
import numpy as np
from numba import types

from xverify.kernels.blocks import Spread
from xverify.kernels.casting import FLOAT32, FLOAT64, Array, code_values, numbers
from xverify.kernels.compiled.build import Compiled, entry
from xverify.kernels.compiled.loops import linear
from xverify.kernels.compiled.pieces import Read, Write, for_each_piece
from xverify.kernels.compiled.places import Places, Rows, Runs, places
from xverify.kernels.linear import _SINGLE_LIMIT, _WIDE_FLOATS

_CODES = {1: types.uint8, 2: types.uint16, 4: types.int32}
_ELEMENTS = {"float32": types.float32, "float16": types.uint16, "bfloat16": types.int16}

_LOOK_UP_FROM = 1024
"""From this size on, an output for each code is computed once and looked up, where decoding takes a table anyway."""


@dataclass(frozen=True)
class Coding:
    """How codes become numbers: by a table of 256 float32, or as ((code & keep) ^ flip) - flip; int32 are numbers."""

    codes: Any
    table: Array | None
    keep: int
    flip: int


@lru_cache(maxsize=64)
def coding(dtype: np.dtype[Any]) -> Coding:
    """The coding of a quantized dtype."""
    codes = _CODES[dtype.itemsize]
    try:
        limits = ml_dtypes.iinfo(dtype)
    except ValueError:
        return Coding(codes, code_values(dtype), 0, 0)
    if dtype.itemsize == 4:
        return Coding(codes, None, 0, 0)
    return Coding(codes, None, (1 << limits.bits) - 1, 1 << (limits.bits - 1) if limits.min < 0 else 0)


def signature(
    codes: Any, element: str, table: Any, real: Any, spread: Places | None, by_division: bool = False
) -> tuple[Any, ...]:
    """The types with which `loops.linear` is compiled; ``real`` None looks up in a table of elements."""

    def array(of: Any) -> Any:
        return types.Array(of, 1, "C")

    parameter = types.none if real is None else real if spread is None else array(real)
    runs = types.UniTuple(types.int64, 4) if isinstance(spread, Runs) else types.none
    rows = types.none if spread is None or isinstance(spread, Runs) else types.UniTuple(types.int64, 5)
    return (
        array(codes), array(_ELEMENTS[element]), types.none if table is None else array(table), types.int32, types.int32,
        parameter, parameter, types.boolean if by_division else types.none, runs, rows, types.int64, types.boolean,
    )  # fmt: skip


@dataclass(frozen=True)
class Linear:
    """The compiled formula for operands of given dtypes and shapes, which have been checked."""

    x: np.dtype[Any]
    out: np.dtype[Any]
    by_division: bool
    spread: Places | None
    has_zero_point: bool

    @cached_property
    def coding(self) -> Coding:
        return coding(self.x)

    @cached_property
    def is_wide(self) -> bool:
        """Whether differences, or the products that are rounded twice, need float64."""
        if self.x.itemsize == 4 or (self.has_zero_point and self.x in _WIDE_FLOATS):
            return True
        return self.out != FLOAT32 and (self.by_division or self.coding.table is not None)

    @cached_property
    def single(self) -> Compiled:
        return self._compiled(types.float32)

    @cached_property
    def double(self) -> Compiled:
        return self._compiled(types.float64)

    def _compiled(self, real: Any) -> Compiled:
        table = None if self.coding.table is None else types.float32
        return entry(linear, signature(self.coding.codes, self.out.name, table, real, self.spread, self.by_division))

    def __call__(self, out: Array, x: Array, scale: Array, zero_point: Array | None, read: Read | None = None) -> None:
        """Write the formula's value for every element of x, or of the codes that ``read`` gives."""
        if out.size == 0:
            return
        is_wide = self.is_wide or not _is_narrow(zero_point)
        if self.spread is not None:
            write = self._with_arrays(is_wide, scale, zero_point)
        else:
            write = self._with_numbers(is_wide, scale, zero_point)
            if out.size >= _LOOK_UP_FROM and self.x.itemsize == 1 and (is_wide or self.coding.table is not None):
                entries = np.empty(256, self.out)
                write(0, 256, np.arange(256, dtype=np.uint8), entries, False)
                look_up(out, x, entries, read)
                return
        for_each_piece(write, out, x, read)

    def _with_numbers(self, is_wide: bool, scale: Array, zero_point: Array | None) -> Write:
        """One scale and one zero point for all."""
        compiled = self.double if is_wide else self.single
        table, keep, flip = self.coding.table, self.coding.keep, self.coding.flip
        divides = True if self.by_division else None
        factor, offset = float(scale.item()), 0.0 if zero_point is None else float(zero_point.item())

        def write(start: int, stop: int, codes: Array, elements: Array, streamed: bool) -> None:
            compiled(codes, elements, table, keep, flip, factor, offset, divides, None, None, 0, streamed)

        return write

    def _with_arrays(self, is_wide: bool, scale: Array, zero_point: Array | None) -> Write:
        """Parameters by their places; each piece is given those that it needs, in the type that it computes in."""
        compiled, real = (self.double, FLOAT64) if is_wide else (self.single, FLOAT32)
        table, keep, flip = self.coding.table, self.coding.keep, self.coding.flip
        divides = True if self.by_division else None
        places = self.spread
        assert places is not None
        scales, offsets = scale.reshape(-1), None if zero_point is None else zero_point.reshape(-1)
        if isinstance(places, Rows) and places.repeats * places.tiles > 1:
            scales = np.tile(np.repeat(_real(scales, real), places.repeats), places.tiles)
            if offsets is not None:
                offsets = np.tile(np.repeat(_real(offsets, real), places.repeats), places.tiles)

        def write(start: int, stop: int, codes: Array, elements: Array, streamed: bool) -> None:
            low, high = places.reach(start, stop)
            factors = _real(scales[low:high], real)
            zeros = np.zeros(high - low, real) if offsets is None else _real(offsets[low:high], real)
            runs, rows = places.arguments(low)
            compiled(codes, elements, table, keep, flip, factors, zeros, divides, runs, rows, start, streamed)

        return write


def _real(array: Array, real: np.dtype[Any]) -> Array:
    """The values as float32 or float64: the array itself, where it has them so."""
    if array.dtype == real and array.flags.c_contiguous and array.flags.aligned:
        return array
    with np.errstate(all="ignore"):
        return numbers(array, real)


def _is_narrow(zero_point: Array | None) -> bool:
    """Whether differences with these zero points are exact in float32, if one with a zero point of x's type is."""
    if zero_point is None or zero_point.dtype.itemsize < 4:
        return True
    return bool((zero_point <= _SINGLE_LIMIT).all() and (zero_point >= -_SINGLE_LIMIT).all())


def look_up(out: Array, x: Array, entries: Array, read: Read | None = None) -> None:
    """out = the table's entry for each byte of x."""
    element = _ELEMENTS[out.dtype.name]
    compiled = entry(linear, signature(types.uint8, out.dtype.name, element, None, None))

    def write(start: int, stop: int, codes: Array, elements: Array, streamed: bool) -> None:
        compiled(codes, elements, entries, 0, 0, None, None, None, None, None, 0, streamed)

    for_each_piece(write, out, x, read)


@lru_cache(maxsize=1024)
def prepared(
    x: np.dtype[Any],
    out: np.dtype[Any],
    shape: tuple[int, ...],
    scale: tuple[int, ...],
    spread: Spread,
    by_division: bool,
    has_zero_point: bool,
) -> Linear:
    """The compiled formula for these dtypes and shapes."""
    found = None if 0 in shape else places(shape, scale, spread)
    return Linear(x.newbyteorder("="), out, by_division, found, has_zero_point)


def apply(
    out: Array, x: Array, scale: Array, zero_point: Array | None, spread: Spread, *, by_division: bool = False
) -> None:
    """As `xverify.kernels.linear.apply`."""
    prepared(x.dtype, out.dtype, x.shape, scale.shape, spread, by_division, zero_point is not None)(
        out, x, scale, zero_point
    )
