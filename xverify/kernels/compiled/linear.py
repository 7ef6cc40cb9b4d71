"""(x - zero_point) * scale, and / scale, by compiled loops: the bits of `xverify.kernels.linear`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import ml_dtypes
import numpy as np
from numba import types

from xverify.kernels.blocks import Spread
from xverify.kernels.casting import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, Array, code_values, numbers
from xverify.kernels.compiled.build import Compiled, entry
from xverify.kernels.compiled.loops import linear
from xverify.kernels.compiled.pieces import Read, Write, for_each_piece, is_plain
from xverify.kernels.compiled.places import Places, Rows, Runs, places
from xverify.kernels.linear import _SINGLE_LIMIT, _WIDE_FLOATS
from xverify.kernels.plans import Operand

_CODES = {1: types.uint8, 2: types.uint16, 4: types.int32}
ELEMENTS = {FLOAT32: types.float32, FLOAT16: types.uint16, BFLOAT16: types.int16}
"""The element type under which a compiled loop writes each output dtype."""

_EVERY_BYTE = np.arange(256, dtype=np.uint8)

_LOOK_UP_FROM = 2048
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
    codes: Any, out: np.dtype[Any], table: Any, real: Any, spread: Places | None, by_division: bool = False
) -> tuple[Any, ...]:
    """The types with which `loops.linear` is compiled; ``real`` None looks up in a table of elements."""

    def array(of: Any) -> Any:
        return types.Array(of, 1, "C")

    parameter = types.none if real is None else real if spread is None else array(real)
    runs = types.UniTuple(types.int64, 4) if isinstance(spread, Runs) else types.none
    rows = types.none if spread is None or isinstance(spread, Runs) else types.UniTuple(types.int64, 5)
    return (
        array(codes), array(ELEMENTS[out]), types.none if table is None else array(table), types.int32, types.int32,
        parameter, parameter, types.boolean if by_division else types.none, runs, rows, types.int64, types.boolean,
    )  # fmt: skip


@dataclass(frozen=True)
class Linear:
    """The compiled formula for operands of given dtypes and shapes, which have been checked.

    divides: True, or None. is_wide: whether differences, or products that would be rounded twice, need float64. So may zero
    points of 4 bytes or more, by their values: ``zero_points_decide``.
    """

    out: np.dtype[Any]
    coding: Coding
    places: Places | None
    divides: bool | None
    is_wide: bool
    zero_points_decide: bool

    @classmethod
    def of(
        cls,
        out: np.dtype[Any],
        x: Operand,
        scale: Operand,
        zero_point: Operand | None,
        spread: Spread,
        by_division: bool,
    ) -> Linear:
        """The formula for operands as they are described; ``out`` is the output's dtype."""
        code = coding(x.dtype.newbyteorder("="))
        is_wide = code.codes == types.int32 or (zero_point is not None and x.dtype in _WIDE_FLOATS)
        rounds_twice = out != FLOAT32 and (by_division or code.table is not None)
        found = None if 0 in x.shape else places(x.shape, scale.shape, spread)
        decide = zero_point is not None and zero_point.dtype.itemsize >= 4
        return cls(out, code, found, True if by_division else None, is_wide or rounds_twice, decide)

    @cached_property
    def single(self) -> Compiled:
        """The loop that computes in float32."""
        return self._compiled(types.float32)

    @cached_property
    def double(self) -> Compiled:
        """The loop that computes in float64."""
        return self._compiled(types.float64)

    def _compiled(self, real: Any) -> Compiled:
        table = None if self.coding.table is None else types.float32
        return entry(linear, signature(self.coding.codes, self.out, table, real, self.places, self.divides is not None))

    def __call__(self, out: Array, x: Array, scale: Array, zero_point: Array | None, read: Read | None = None) -> None:
        """Write the formula's value for every element of x, or of the codes that ``read`` gives."""
        if out.size == 0:
            return
        is_wide = self.is_wide or (self.zero_points_decide and not _is_narrow(zero_point))
        if self.places is not None:
            for_each_piece(self._with_arrays(is_wide, scale, zero_point), out, x, read)
            return
        factor, offset = float(scale.item()), 0.0 if zero_point is None else float(zero_point.item())
        compiled, coding = self.double if is_wide else self.single, self.coding
        if out.size < _LOOK_UP_FROM and read is None and is_plain(x) and is_plain(out):
            # What the rest comes to for a small tensor, where a microsecond counts.
            codes, elements = x if x.ndim == 1 else x.reshape(-1), out if out.ndim == 1 else out.reshape(-1)
            table, keep, flip = coding.table, coding.keep, coding.flip
            compiled(codes, elements, table, keep, flip, factor, offset, self.divides, None, None, 0, False)
            return
        write = self._with_numbers(compiled, factor, offset)
        if out.size >= _LOOK_UP_FROM and coding.codes == types.uint8 and (is_wide or coding.table is not None):
            entries = np.empty(256, self.out)
            write(0, 256, _EVERY_BYTE, entries, False)
            look_up(out, x, entries, read)
        else:
            for_each_piece(write, out, x, read)

    def _with_numbers(self, compiled: Compiled, factor: float, offset: float) -> Write:
        """One scale and one zero point serve all."""
        table, keep, flip, divides = self.coding.table, self.coding.keep, self.coding.flip, self.divides

        def write(start: int, stop: int, codes: Array, elements: Array, streamed: bool) -> None:
            compiled(codes, elements, table, keep, flip, factor, offset, divides, None, None, 0, streamed)

        return write

    def _with_arrays(self, is_wide: bool, scale: Array, zero_point: Array | None) -> Write:
        """Parameters by their places: each piece is given those that it needs, in the type that it computes in."""
        compiled, real = (self.double, FLOAT64) if is_wide else (self.single, FLOAT32)
        table, keep, flip, divides = self.coding.table, self.coding.keep, self.coding.flip, self.divides
        places = self.places
        assert places is not None
        scales, offsets = scale.reshape(-1), None if zero_point is None else zero_point.reshape(-1)
        if isinstance(places, Rows) and places.repeats * places.tiles > 1:
            scales = laid_out(_real(scales, real), places)
            offsets = None if offsets is None else laid_out(_real(offsets, real), places)

        def write(start: int, stop: int, codes: Array, elements: Array, streamed: bool) -> None:
            for first, last in places.cuts(start, stop):
                low, high = places.reach(first, last)
                factors = _real(scales[low:high], real)
                zeros = np.zeros(high - low, real) if offsets is None else _real(offsets[low:high], real)
                part = slice(first - start, last - start)
                runs, rows = places.arguments(low)
                compiled(
                    codes[part], elements[part], table, keep, flip, factors, zeros, divides, runs, rows, first, streamed
                )

        return write


def laid_out(parameters: Array, places: Rows) -> Array:
    """The parameters as often as the rows ask for."""
    if places.repeats * places.tiles == 1:
        return parameters
    return np.tile(np.repeat(parameters, places.repeats), places.tiles)


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
    compiled = entry(linear, signature(types.uint8, out.dtype, ELEMENTS[out.dtype], None, None))

    def write(start: int, stop: int, codes: Array, elements: Array, streamed: bool) -> None:
        compiled(codes, elements, entries, 0, 0, None, None, None, None, None, 0, streamed)

    for_each_piece(write, out, x, read)
