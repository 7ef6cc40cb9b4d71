"""(x - zero_point) * scale, and / scale, by compiled loops: the bits of `xverify.kernels.linear`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import ml_dtypes
import numpy as np
from numba import types

from xverify.kernels.blocks import BLOCK, Spread
from xverify.kernels.casting import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, Array, code_values, numbers
from xverify.kernels.compiled.build import Compiled, entry
from xverify.kernels.compiled.loops import linear
from xverify.kernels.compiled.pieces import THREADS_FROM, Read, Write, for_each_piece, is_plain
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


def array_of(element: Any) -> Any:
    """Numba's type of a flat, contiguous array."""
    return types.Array(element, 1, "C")


def signature(
    codes: Any,
    out: np.dtype[Any],
    table: Any,
    real: Any,
    scale: Any,
    offset: Any,
    spread: Places | None,
    by_division: bool = False,
) -> tuple[Any, ...]:
    """The types with which `loops.linear` is compiled, given those of elements and of its parameters."""
    runs = types.UniTuple(types.int64, 4) if isinstance(spread, Runs) else types.none
    rows = types.UniTuple(types.int64, 5) if isinstance(spread, Rows) else types.none
    return (
        array_of(codes), array_of(ELEMENTS[out]), types.none if table is None else array_of(table), types.int32, types.int32,
        real, scale, offset, types.boolean if by_division else types.none, runs, rows, types.int64, types.boolean,
    )  # fmt: skip


@dataclass(frozen=True)
class Linear:
    """The compiled formula for operands of given dtypes and shapes, which have been checked.

    arguments: of `loops.linear`, table, keep and flip; and runs and rows, where all parameters are given. divides: True, or None.
    is_wide: whether differences, or products that would be rounded twice, need float64. So may zero points of 4 bytes or more,
    by their values: ``zero_points_decide``. offsets: what they are given as: None where there are none, "codes" of x's dtype,
    else "numbers".
    """

    out: np.dtype[Any]
    coding: Coding
    places: Places | None
    divides: bool | None
    is_wide: bool
    zero_points_decide: bool
    offsets: str | None

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
        kind = None if zero_point is None else "codes" if zero_point.dtype == x.dtype else "numbers"
        return cls(out, code, found, True if by_division else None, is_wide or rounds_twice, decide, kind)

    @cached_property
    def single(self) -> Compiled:
        """The loop that computes in float32."""
        return self._compiled(types.float32)

    @cached_property
    def double(self) -> Compiled:
        """The loop that computes in float64."""
        return self._compiled(types.float64)

    def _compiled(self, real: Any) -> Compiled:
        scale, offset = real, real
        if self.places is not None:
            scale = array_of(types.float32)
            offset = {None: real, "codes": array_of(self.coding.codes), "numbers": array_of(real)}[self.offsets]
        table = None if self.coding.table is None else types.float32
        by_division = self.divides is not None
        return entry(
            linear, signature(self.coding.codes, self.out, table, real, scale, offset, self.places, by_division)
        )

    @cached_property
    def _given(self) -> tuple[Any, ...]:
        """What every call gives: table, keep, flip, divides, runs and rows."""
        runs, rows = (None, None) if self.places is None else self.places.arguments(0)
        return self.coding.table, self.coding.keep, self.coding.flip, self.divides, runs, rows

    def __call__(self, out: Array, x: Array, scale: Array, zero_point: Array | None, read: Read | None = None) -> None:
        """Write the formula's value for every element of x, or of the codes that ``read`` gives."""
        size = out.size
        if size == 0:
            return
        is_wide = self.is_wide or (self.zero_points_decide and not _is_narrow(zero_point))
        compiled = self.double if is_wide else self.single
        table, keep, flip, divides, runs, rows = self._given
        factor: Any
        offset: Any
        if self.places is None:
            factor, offset = scale.item(), 0.0 if zero_point is None else zero_point.item()
            if type(factor) is not float:
                factor = float(factor)
            if size >= _LOOK_UP_FROM and (is_wide or table is not None) and self.coding.codes == types.uint8:
                entries = np.empty(256, self.out)
                compiled(
                    _EVERY_BYTE, entries, table, keep, flip, 0.0, factor, float(offset), divides, None, None, 0, False
                )
                look_up(out, x, entries, read)
                return
            offset = float(offset)
        else:
            prepared = self._prepared(is_wide, scale, zero_point)
            if prepared is None:
                for_each_piece(self._in_parts(compiled, is_wide, scale, zero_point), out, x, read)
                return
            factor, offset = prepared
        if size < THREADS_FROM and read is None and is_plain(x) and is_plain(out):
            # What the rest comes to, without it: for a small tensor a microsecond counts.
            codes, elements = x if x.ndim == 1 else x.reshape(-1), out if out.ndim == 1 else out.reshape(-1)
            compiled(codes, elements, table, keep, flip, 0.0, factor, offset, divides, runs, rows, 0, False)
            return

        def write(start: int, stop: int, codes: Array, elements: Array, streamed: bool) -> None:
            compiled(codes, elements, table, keep, flip, 0.0, factor, offset, divides, runs, rows, start, streamed)

        for_each_piece(write, out, x, read)

    def _prepared(self, is_wide: bool, scale: Array, zero_point: Array | None) -> tuple[Array, Any] | None:
        """All scales and zero points as the loops take them, where that takes no more memory than a block."""
        places = self.places
        if scale.dtype == FLOAT32 and is_plain(scale) and (zero_point is None or self._is_direct(zero_point)):
            factors: Array = scale.reshape(-1)
            offsets: Any = 0.0 if zero_point is None else zero_point.reshape(-1)
        elif scale.size <= BLOCK:
            factors, offsets = _real(scale.reshape(-1), FLOAT32), self._offsets(zero_point, is_wide)
        else:
            return None
        if isinstance(places, Rows) and places.repeats * places.tiles > 1:
            factors = laid_out(factors, places)
            offsets = offsets if zero_point is None else laid_out(offsets, places)
        return factors, offsets

    def _is_direct(self, zero_point: Array) -> bool:
        return self.offsets == "codes" and is_plain(zero_point)

    def _offsets(self, zero_point: Array | None, is_wide: bool) -> Any:
        """Zero points in a flat array: codes in this machine's byte order, or numbers."""
        if zero_point is None:
            return 0.0
        if self.offsets == "codes":
            return np.array(zero_point, zero_point.dtype.newbyteorder("="), order="C").reshape(-1)
        return _real(zero_point.reshape(-1), FLOAT64 if is_wide else FLOAT32)

    def _in_parts(self, compiled: Compiled, is_wide: bool, scale: Array, zero_point: Array | None) -> Write:
        """Each piece is given the parameters that it needs, as the loops take them."""
        table, keep, flip, divides, *_ = self._given
        places = self.places
        assert places is not None
        scales, zero_points = scale.reshape(-1), None if zero_point is None else zero_point.reshape(-1)

        def write(start: int, stop: int, codes: Array, elements: Array, streamed: bool) -> None:
            for first, last in places.cuts(start, stop):
                low, high = places.reach(first, last)
                factors = _real(scales[low:high], FLOAT32)
                offsets = self._offsets(None if zero_points is None else zero_points[low:high], is_wide)
                part = slice(first - start, last - start)
                compiled(
                    codes[part], elements[part], table, keep, flip, 0.0, factors, offsets, divides, *places.arguments(low),
                    first, streamed,
                )  # fmt: skip

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
    compiled = entry(
        linear, signature(types.uint8, out.dtype, ELEMENTS[out.dtype], types.float32, types.none, types.none, None)
    )

    def write(start: int, stop: int, codes: Array, elements: Array, streamed: bool) -> None:
        compiled(codes, elements, entries, 0, 0, 0.0, None, None, None, None, None, 0, streamed)

    for_each_piece(write, out, x, read)
