"""The parameter layout, and the cache of converted parameters.

A layout tells which scale and zero point serve which elements.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from xverify.kernels.blocks import BLOCK, Spread
from xverify.kernels.compiled.decode import parameter_values_at
from xverify.kernels.compiled.memory import LINE
from xverify.kernels.compiled.rounding import all_of, normals_at
from xverify.kernels.compiled.vectors import CHUNK, I1, I64, Generated, room_for

_LONG_ROW = 512
"""Elements of a row from which on the work between two rows does not count."""

_WORTH_EXPANDING = 1 << 12
"""Short runs or rows from which on it pays to repeat parameters in memory, so that there are fewer and longer rows."""


@dataclass(frozen=True)
class Runs:
    """A parameter for every ``run`` elements of a line."""

    line: int
    """Elements of a line."""

    run: int
    """Elements that share a parameter; the last run of a line may be shorter."""

    stride: int
    """Parameters from the first of a line to the first of the next."""

    def reach(self, start: int, stop: int) -> tuple[int, int]:
        """The first parameter that elements start ... stop - 1 need, and the one after the last."""
        first, last = start // self.line, (stop - 1) // self.line
        if first != last and self.stride == 0:
            return 0, -(-self.line // self.run)
        low = first * self.stride + start % self.line // self.run
        return low, last * self.stride + (stop - 1) % self.line // self.run + 1

    def cuts(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Subranges whose parameters are adjacent, and not many more than the elements."""
        return _within_lines(self.line, start, stop) if self.stride == 0 else [(start, stop)]

    def arguments(self, origin: int) -> tuple[tuple[int, ...], None]:
        """The loop arguments ``runs`` and ``rows``.

        Args:
            origin: the index of the first parameter that the loop gets.
        """
        return (origin, self.line, self.run, self.stride), None


@dataclass(frozen=True)
class Rows:
    """A parameter for each element of a row."""

    row: int
    """Elements of a row."""

    in_line: int = 1
    """Rows of a line."""

    run: int = 1
    """Rows of a line that share their parameters."""

    stride: int = 0
    """Rows of parameters from the first of a line to the first of the next."""

    repeats: int = 1
    """Copies in memory of each parameter."""

    tiles: int = 1
    """Copies in memory of all parameters, after that."""

    @property
    def is_laid_out(self) -> bool:
        """True if the parameters are repeated in memory first."""
        return self.repeats * self.tiles > 1

    def reach(self, start: int, stop: int) -> tuple[int, int]:
        """As `Runs.reach`."""
        first, last = start // self.row, (stop - 1) // self.row
        low, high = self._base(first), self._base(last)
        if first == last:
            return low + start % self.row, high + (stop - 1) % self.row + 1
        return low, high + self.row

    def cuts(self, start: int, stop: int) -> list[tuple[int, int]]:
        """As `Runs.cuts`."""
        return _within_lines(self.row, start, stop)

    def _base(self, row: int) -> int:
        return (row // self.in_line * self.stride + row % self.in_line // self.run) * self.row

    def arguments(self, origin: int) -> tuple[None, tuple[int, ...]]:
        """As `Runs.arguments`."""
        return None, (origin, self.row, self.in_line, self.run, self.stride)


Layout = Runs | Rows


def _within_lines(line: int, start: int, stop: int) -> list[tuple[int, int]]:
    """Cut a range at the ends of long lines.

    The end of a line and the beginning of the next need parameters that lie far apart.
    """
    if line <= BLOCK:
        return [(start, stop)]
    ends = [start, *range(start - start % line + line, stop, line), stop]
    return list(pairwise(ends))


def layout_of(shape: tuple[int, ...], parameter: tuple[int, ...], spread: Spread) -> Layout | None:
    """The layout of parameters for a tensor in C order that is not empty.

    Args:
        shape: the shape of the tensor.
        parameter: the shape of scales.
        spread: the axis and the block size.

    Returns:
        The layout, or None if one parameter serves all elements.
    """
    if spread.axis is None or prod(parameter) == 1:
        return None
    extent, inner, size = shape[spread.axis], prod(shape[spread.axis + 1 :]), prod(shape)
    blocked = len(parameter) == len(shape) and (len(shape) > 1 or spread.run > 1)
    if blocked and spread.run == 1:
        return Rows(size)
    if blocked:
        count = -(-extent // spread.run)
        if inner > 1:
            return Rows(inner, extent, spread.run, count)
        # If no block is partial, all lines form one.
        return Runs(extent, spread.run, count) if extent % spread.run else Runs(size, spread.run, 0)
    period = extent * inner
    row_count, is_short = size // (extent if inner == 1 else inner), inner < CHUNK if inner > 1 else period < _LONG_ROW
    if row_count >= _WORTH_EXPANDING and period <= BLOCK and is_short:
        tiles = -(-_LONG_ROW // period)
        return Rows(period * tiles, repeats=inner, tiles=tiles)
    return Rows(extent) if inner == 1 else Runs(period, inner, 0)


CACHED = 4096
"""Scales that the cache holds, and as many offsets: few enough to stay in the first-level cache beside inputs and
outputs.
"""

ROWS_AT_ONCE = 32
"""Rows that share one pass over cached parameters if they are longer than CACHED.

Enough to make the conversion a small part, and few enough for their codes to stay near.
"""

RUNS_AT_ONCE = 128
"""Scales and offsets of short runs that are converted together.

Reading a single number that was just written as part of a vector is slow, so these are many.
"""


@intrinsic  # type: ignore[untyped-decorator]
def parameter_cache(context: Any, like: Any) -> Generated:
    """The address of stack memory for CACHED scales, then as many offsets, in the float type of ``like``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ptrtoint(room_for(builder, arguments[0].type, 2 * CACHED, LINE), I64)

    return types.int64(like), generate


@intrinsic  # type: ignore[untyped-decorator]
def cache_chunk(
    context: Any, room: Any, index: Any, coding: Any, zero: Any, divides: Any, scales: Any, offsets: Any, parameter: Any
) -> Generated:
    """Convert CHUNK scales and offsets, and store them in the cache.

    Args:
        index: the index in the cache to store from.
        parameter: the index of the first scale and offset.

    Returns:
        True if `chunks.gives_normals` holds for all these scales.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        room_, index_, coding_, zero_, _, scales_, offsets_, parameter_ = arguments
        arrays = scales, scales_, offsets, offsets_
        return cache_values(context, builder, room_, index_, coding_, zero_.type, divides, arrays, parameter_)

    return types.boolean(room, types.intp, coding, zero, divides, scales, offsets, types.intp), generate


def cache_values(
    context: Any, builder: Any, room: Any, index: Any, coding: Any, real: Any, divides: Any, arrays: Any, parameter: Any
) -> Any:
    """As `cache_chunk`, in LLVM.

    Args:
        real: LLVM's float type of the values.
        arrays: Numba's type and LLVM's value of scales, then of offsets.
    """
    scales, scales_, offsets, offsets_ = arrays
    scale, offset = parameter_values_at(context, builder, coding, real, scales, scales_, offsets, offsets_, parameter)
    flags = normals_at(context, builder, scales, scales_, parameter, divides)
    store_cached(builder, room, index, (scale, offset))
    return ir.Constant(I1, 0) if flags is None else all_of(builder, flags)


def store_cached(builder: Any, room: Any, index: Any, parameters: tuple[Any, Any]) -> None:
    """Store vectors of scales and offsets in the cache from index ``index`` on."""
    for numbers, address in zip(parameters, _cache_addresses(builder, room, index, parameters[0].type), strict=True):
        builder.store(numbers, address, align=2)


def load_cached(builder: Any, room: Any, index: Any, kind: Any) -> tuple[Any, Any]:
    """Vectors of scales and offsets from the cache. kind: LLVM's vector type."""
    scale, offset = (builder.load(address, align=2) for address in _cache_addresses(builder, room, index, kind))
    return scale, offset


def _cache_addresses(builder: Any, room: Any, index: Any, kind: Any) -> list[Any]:
    start = builder.inttoptr(room, kind.element.as_pointer())
    at = [builder.add(index, ir.Constant(I64, part)) for part in (0, CACHED)]
    return [builder.bitcast(builder.gep(start, [position]), kind.as_pointer()) for position in at]


@intrinsic  # type: ignore[untyped-decorator]
def cache_value(context: Any, room: Any, index: Any, number: Any) -> Generated:
    """Store one value in the cache: a scale, or from index CACHED on an offset."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        room_, index_, number_ = arguments
        builder.store(number_, builder.gep(builder.inttoptr(room_, number_.type.as_pointer()), [index_]))
        return context.get_dummy_value()

    return types.void(room, types.intp, number), generate


@intrinsic  # type: ignore[untyped-decorator]
def cached_value(context: Any, room: Any, index: Any, like: Any) -> Generated:
    """The value at that index of the cache."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        room_, index_, like_ = arguments
        return builder.load(builder.gep(builder.inttoptr(room_, like_.type.as_pointer()), [index_]))

    return like(room, types.intp, like), generate
