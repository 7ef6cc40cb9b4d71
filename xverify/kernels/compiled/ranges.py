"""TensorFlow's Dequantize by compiled loops, with the bits of `xverify.kernels.ranges`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import types

from xverify.kernels.blocks import BLOCK, Fill, Spread
from xverify.kernels.casting import FLOAT64, Array
from xverify.kernels.compiled.build import Compiled, entry
from xverify.kernels.compiled.decode import ELEMENTS, Coding, coding
from xverify.kernels.compiled.layout import Layout, Rows, layout_of
from xverify.kernels.compiled.linear import lay_out, look_up
from xverify.kernels.compiled.loops import COMBINED, FIRST, SYMMETRIC, by_range
from xverify.kernels.compiled.memory import Flat
from xverify.kernels.compiled.tiles import Write, for_each_piece
from xverify.kernels.formula import LOOK_UP_FROM
from xverify.kernels.plans import Operand
from xverify.kernels.range_formula import formula

_MODES = {"MIN_COMBINED": COMBINED, "MIN_FIRST": FIRST, "SCALED": SYMMETRIC}

_ENDLESS = 1 << 62
"""More elements than any tensor has: one range serves all."""


@dataclass(frozen=True)
class Ranged:
    """A mode's formula for an input of a given dtype and shape."""

    out: np.dtype[Any]
    """The output's dtype."""

    x: np.dtype[Any]
    """The input's dtype."""

    layout: Layout | None
    """The layout of ranges, which repeat; None if one range serves all elements."""

    mode: str
    """MIN_COMBINED, MIN_FIRST or SCALED."""

    @classmethod
    def of(cls, out: np.dtype[Any], x: Operand, low: Operand, spread: Spread, mode: str) -> Ranged:
        """The formula for operands that have been checked; ``out`` is the output's dtype."""
        layout = None if 0 in x.shape else layout_of(x.shape, low.shape, spread)
        return cls(out, x.dtype.newbyteorder("="), layout, mode)

    @cached_property
    def coding(self) -> Coding:
        """The coding of the input's codes."""
        return coding(self.x)

    @cached_property
    def fill(self) -> Fill:
        """NumPy's form of the formula."""
        return formula(self.mode, self.x)

    @cached_property
    def constants(self) -> tuple[float, float]:
        """The argument ``constants`` of `loops.by_range`."""
        bounds = np.iinfo(self.x)
        levels = float(bounds.max) - float(bounds.min)
        if self.mode == "MIN_COMBINED":
            return 128.0 if self.x == np.int8 else 0.0, levels
        if self.mode == "MIN_FIRST":
            return float(bounds.min), levels + 1
        return 0.0, levels if bounds.min == 0 else 2.0 * float(bounds.max)

    @cached_property
    def line_and_run(self) -> tuple[int, int]:
        """The number of elements of a line and of a run.

        The ranges repeat after a line. The adjacent elements of a run share a range.
        """
        if self.layout is None:
            return _ENDLESS, _ENDLESS
        return (self.layout.row, 1) if isinstance(self.layout, Rows) else (self.layout.line, self.layout.run)

    @cached_property
    def compiled(self) -> Compiled:
        """The loop."""
        is_rows, i64 = isinstance(self.layout, Rows), types.int64
        signature = (
            Flat(self.coding.codes), Flat(ELEMENTS[self.out], written=True), Flat(types.uint8, written=True),
            self.coding.fields_type, i64, types.UniTuple(types.float64, 2), Flat(types.float64), Flat(types.float64),
            types.none if is_rows else types.UniTuple(i64, 2), i64 if is_rows else types.none, i64,
        )  # fmt: skip
        return entry(by_range, signature)

    def __call__(self, out: Array, x: Array, low: Array, high: Array) -> None:
        """Write the formula's value for every element of x."""
        if out.size == 0:
            return
        with np.errstate(all="ignore"):
            if self.layout is None and self.x.itemsize == 1 and out.size > LOOK_UP_FROM:
                entries = np.empty(256, self.out)
                ends = (end.reshape(()).astype(FLOAT64) for end in (low, high))
                self.fill(entries, np.arange(256, dtype=np.uint8).view(self.x), *ends)
                look_up(out, x, entries, None, 1)
            elif self.layout is None or low.size <= BLOCK:
                for_each_piece(self._whole(low, high), out, x)
            else:
                for_each_piece(self._in_parts(self.layout, low, high), out, x, largest=BLOCK)

    def _whole(self, low: Array, high: Array) -> Write:
        """A function that writes a piece with all ranges, which are converted once."""
        ends = [end.reshape(-1).astype(FLOAT64) for end in (low, high)]
        if isinstance(self.layout, Rows):
            ends = [lay_out(end, self.layout) for end in ends]

        def write(start: int, stop: int, codes: Array, elements: Array, streamed: int) -> None:
            self._compute(codes, elements, ends[0], ends[1], start)

        return write

    def _in_parts(self, layout: Layout, low: Array, high: Array) -> Write:
        """A function that writes a piece and converts only the ranges that it needs.

        It is for ranges that are too many to convert at once.
        """
        line, run = self.line_and_run

        def write(start: int, stop: int, codes: Array, elements: Array, streamed: int) -> None:
            for first, last in layout.cuts(start, stop):
                since, until = layout.reach(first, last)
                ends = [end[since:until].astype(FLOAT64) for end in (low, high)]
                part = slice(first - start, last - start)
                self._compute(codes[part], elements[part], ends[0], ends[1], first % line - since * run)

        return write

    def _compute(self, codes: Array, elements: Array, low: Array, high: Array, position: int) -> None:
        """Write elements. position: the index of the first one among those that the ranges serve."""
        line, run = self.line_and_run
        runs, row = (None, line) if isinstance(self.layout, Rows) else ((line, run), None)
        doubtful = np.zeros(elements.size, np.uint8)
        mode, constants = _MODES[self.mode], self.constants
        self.compiled(codes, elements, doubtful, self.coding.fields, mode, constants, low, high, runs, row, position)
        undecided = np.flatnonzero(doubtful)
        if undecided.size:
            range_index = (position + undecided) % line // run
            decided = np.empty(undecided.size, elements.dtype)
            self.fill(decided, codes[undecided].view(self.x), low[range_index], high[range_index])
            elements[undecided] = decided
