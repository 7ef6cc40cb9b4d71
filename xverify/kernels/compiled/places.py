"""Which parameters serve a piece of a tensor, as `xverify.kernels.compiled.loops` takes it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod

from xverify.kernels.blocks import BLOCK, Spread
from xverify.kernels.compiled.vectors import CHUNK

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


Places = Runs | Rows


def _within_lines(line: int, start: int, stop: int) -> list[tuple[int, int]]:
    """The end of a long line and the beginning of the next need parameters that lie apart."""
    if line <= BLOCK:
        return [(start, stop)]
    ends = [start, *range(start - start % line + line, stop, line), stop]
    return list(pairwise(ends))


def places(shape: tuple[int, ...], parameter: tuple[int, ...], spread: Spread) -> Places | None:
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
