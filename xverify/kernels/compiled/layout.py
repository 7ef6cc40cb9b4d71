"""Parameter layout: which scale and zero point serve which elements, and the cache of converted parameters."""

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
"""Short runs or rows from which on it pays to lay parameters out anew, so that there are fewer."""


@dataclass(frozen=True)
class Runs:
    """Every ``run`` elements of a line of ``line`` share a parameter; ``stride`` parameters lie between two lines'."""

    line: int
    run: int
    stride: int

    def reach(self, start: int, stop: int) -> tuple[int, int]:
        """The first parameter that elements start ... stop - 1 need, and the one after the last."""
        first, last = start // self.line, (stop - 1) // self.line
        if first != last and self.stride == 0:
            return 0, -(-self.line // self.run)
        low = first * self.stride + start % self.line // self.run
        return low, last * self.stride + (stop - 1) % self.line // self.run + 1

    def cuts(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Parts of that range which need parameters that lie together, and not many more than they have elements."""
        return _within_lines(self.line, start, stop) if self.stride == 0 else [(start, stop)]

    def arguments(self, origin: int) -> tuple[tuple[int, ...], None]:
        """``runs`` and ``rows`` for parameters of which the first is number ``origin``."""
        return (origin, self.line, self.run, self.stride), None


@dataclass(frozen=True)
class Rows:
    """Each element of a row has a parameter of its own; ``run`` of a line's ``in_line`` rows share theirs; ``stride`` rows of
    parameters lie between two lines'. ``repeats``, ``tiles``: how often each parameter, and then all, are laid out anew first.
    """

    row: int
    in_line: int = 1
    run: int = 1
    stride: int = 0
    repeats: int = 1
    tiles: int = 1

    @property
    def is_laid_out(self) -> bool:
        """Whether the parameters are laid out anew."""
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
    """The end of a long line and the beginning of the next need parameters that lie apart."""
    if line <= BLOCK:
        return [(start, stop)]
    ends = [start, *range(start - start % line + line, stop, line), stop]
    return list(pairwise(ends))


def layout_of(shape: tuple[int, ...], parameter: tuple[int, ...], spread: Spread) -> Layout | None:
    """How parameters of that shape serve a tensor in C order that is not empty; None where one serves all."""
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
        # Where no block is cut short all lines are one.
        return Runs(extent, spread.run, count) if extent % spread.run else Runs(size, spread.run, 0)
    period = extent * inner
    parts, is_short = size // (extent if inner == 1 else inner), inner < CHUNK if inner > 1 else period < _LONG_ROW
    if parts >= _WORTH_EXPANDING and period <= BLOCK and is_short:
        tiles = -(-_LONG_ROW // period)
        return Rows(period * tiles, repeats=inner, tiles=tiles)
    return Rows(extent) if inner == 1 else Runs(period, inner, 0)


CACHED = 4096
"""Numbers of scales that are kept, and as many of offsets: few enough to stay in a core's first cache with what is read and
written meanwhile."""

ROWS_AT_ONCE = 32
"""Rows that are done together where they are longer than CACHED: enough for what is done once to be little beside, few enough for
their codes to be found near."""

RUNS_AT_ONCE = 128
"""Scales and offsets of short runs that are converted together. A number that was just written in a vector with others is slow to
read alone, so these are many."""


@intrinsic  # type: ignore[untyped-decorator]
def parameter_cache(context: Any, like: Any) -> Generated:
    """The address of room for the numbers of CACHED scales, and then of as many offsets, in the float type of ``like``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ptrtoint(room_for(builder, arguments[0].type, 2 * CACHED, LINE), I64)

    return types.int64(like), generate


@intrinsic  # type: ignore[untyped-decorator]
def cache_chunk(
    context: Any, room: Any, place: Any, coding: Any, zero: Any, divides: Any, scales: Any, offsets: Any, parameter: Any
) -> Generated:
    """Put the numbers of scales[parameter] and on, CHUNK of them, in a room from that place on, and of the offsets. Returns what
    `gives_normals` says of all these scales."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        room_, place_, coding_, zero_, _, scales_, offsets_, parameter_ = arguments
        arrays = scales, scales_, offsets, offsets_
        return cache_values(context, builder, room_, place_, coding_, zero_.type, divides, arrays, parameter_)

    return types.boolean(room, types.intp, coding, zero, divides, scales, offsets, types.intp), generate


def cache_values(
    context: Any, builder: Any, room: Any, place: Any, coding: Any, real: Any, divides: Any, arrays: Any, parameter: Any
) -> Any:
    """As `cache_chunk`. real: the type of the numbers. arrays: scales and offsets, each Numba's type and what has it."""
    scales, scales_, offsets, offsets_ = arrays
    scale, offset = parameter_values_at(context, builder, coding, real, scales, scales_, offsets, offsets_, parameter)
    known = normals_at(context, builder, scales, scales_, parameter, divides)
    store_cached(builder, room, place, (scale, offset))
    return ir.Constant(I1, 0) if known is None else all_of(builder, known)


def store_cached(builder: Any, room: Any, place: Any, parameters: tuple[Any, Any]) -> None:
    """Put vectors of numbers of scales and of offsets in a room from that place on."""
    for numbers, address in zip(parameters, _cache_addresses(builder, room, place, parameters[0].type), strict=True):
        builder.store(numbers, address, align=2)


def load_cached(builder: Any, room: Any, place: Any, kind: Any) -> tuple[Any, Any]:
    """What was put there: vectors of that type."""
    scale, offset = (builder.load(address, align=2) for address in _cache_addresses(builder, room, place, kind))
    return scale, offset


def _cache_addresses(builder: Any, room: Any, place: Any, kind: Any) -> list[Any]:
    start = builder.inttoptr(room, kind.element.as_pointer())
    at = [builder.add(place, ir.Constant(I64, part)) for part in (0, CACHED)]
    return [builder.bitcast(builder.gep(start, [one]), kind.as_pointer()) for one in at]


@intrinsic  # type: ignore[untyped-decorator]
def cache_value(context: Any, room: Any, place: Any, number: Any) -> Generated:
    """Put one number in a room: a scale, or from CACHED on an offset."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        room_, place_, number_ = arguments
        builder.store(number_, builder.gep(builder.inttoptr(room_, number_.type.as_pointer()), [place_]))
        return context.get_dummy_value()

    return types.void(room, types.intp, number), generate


@intrinsic  # type: ignore[untyped-decorator]
def cached_value(context: Any, room: Any, place: Any, like: Any) -> Generated:
    """The number at that place of a room."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        room_, place_, like_ = arguments
        return builder.load(builder.gep(builder.inttoptr(room_, like_.type.as_pointer()), [place_]))

    return like(room, types.intp, like), generate
