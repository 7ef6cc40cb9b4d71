"""TensorFlow's Dequantize by compiled loops: the bits of `xverify.kernels.ranges`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import types

from xverify.kernels.blocks import Fill, Spread
from xverify.kernels.casting import FLOAT64, Array
from xverify.kernels.compiled.build import Compiled, entry
from xverify.kernels.compiled.codings import ELEMENTS, Coding, coding
from xverify.kernels.compiled.flat import Flat
from xverify.kernels.compiled.linear import laid_out, look_up
from xverify.kernels.compiled.pieces import PIECE, for_each_piece
from xverify.kernels.compiled.places import Places, Rows, Runs, places
from xverify.kernels.compiled.range_loops import COMBINED, FIRST, SYMMETRIC, ranged
from xverify.kernels.formula import LOOK_UP_FROM
from xverify.kernels.plans import Operand
from xverify.kernels.ranges import formula

_MODES = {"MIN_COMBINED": COMBINED, "MIN_FIRST": FIRST, "SCALED": SYMMETRIC}


@dataclass(frozen=True)
class Ranged:
    """A mode's formula for an input of a given dtype and shape. places: Runs or Rows of the ranges, which repeat."""

    out: np.dtype[Any]
    x: np.dtype[Any]
    places: Places | None
    mode: str

    @classmethod
    def of(cls, out: np.dtype[Any], x: Operand, low: Operand, spread: Spread, mode: str) -> Ranged:
        """The formula for operands as they are described, which have been checked; ``out`` is the output's dtype."""
        found = None if 0 in x.shape else places(x.shape, low.shape, spread)
        return cls(out, x.dtype.newbyteorder("="), found, mode)

    @cached_property
    def coding(self) -> Coding:
        """How codes become numbers."""
        return coding(self.x)

    @cached_property
    def fill(self) -> Fill:
        """NumPy's form of the formula."""
        return formula(self.mode, self.x)

    @cached_property
    def constants(self) -> tuple[float, float]:
        """What `range_loops.ranged` takes as constants."""
        bounds = np.iinfo(self.x)
        levels = float(bounds.max) - float(bounds.min)
        if self.mode == "MIN_COMBINED":
            return 128.0 if self.x == np.int8 else 0.0, levels
        if self.mode == "MIN_FIRST":
            return float(bounds.min), levels + 1
        return 0.0, levels if bounds.min == 0 else 2.0 * float(bounds.max)

    @cached_property
    def compiled(self) -> Compiled:
        """The loop."""
        is_rows, i64 = isinstance(self.places, Rows), types.int64
        signature = (
            Flat(self.coding.codes), Flat(ELEMENTS[self.out], written=True), Flat(types.uint8, written=True),
            self.coding.fields_type, i64, types.UniTuple(types.float64, 2), Flat(types.float64), Flat(types.float64),
            types.none if is_rows else types.UniTuple(i64, 2), i64 if is_rows else types.none, i64,
        )  # fmt: skip
        return entry(ranged, signature)

    def __call__(self, out: Array, x: Array, low: Array, high: Array) -> None:
        """Write the formula's value for every element of x."""
        if out.size == 0:
            return
        with np.errstate(all="ignore"):
            ends = [end.reshape(-1).astype(FLOAT64) for end in (low, high)]
            if self.places is None and self.x.itemsize == 1 and out.size > LOOK_UP_FROM:
                entries = np.empty(256, self.out)
                self.fill(entries, np.arange(256, dtype=np.uint8).view(self.x), *(end.reshape(()) for end in ends))
                look_up(out, x, entries, None, 1)
                return
            self._compute(out, x, *ends)

    def _compute(self, out: Array, x: Array, low: Array, high: Array) -> None:
        places, compiled, coding = self.places, self.compiled, self.coding.fields
        period, run, is_rows = out.size, out.size, isinstance(places, Rows)
        if isinstance(places, Runs):
            period, run = places.line, places.run
        elif isinstance(places, Rows):
            period, run = places.row, 1
            low, high = laid_out(low, places), laid_out(high, places)
        runs, row = (None, period) if is_rows else ((period, run), None)

        def write(start: int, stop: int, codes: Array, elements: Array, streamed: int) -> None:
            doubtful = np.zeros(stop - start, np.uint8)
            mode, constants = _MODES[self.mode], self.constants
            compiled(codes, elements, doubtful, coding, mode, constants, low, high, runs, row, start)
            found = np.flatnonzero(doubtful)
            if found.size:
                place = (start + found) % period // run
                decided = np.empty(found.size, elements.dtype)
                self.fill(decided, codes[found].view(self.x), low[place], high[place])
                elements[found] = decided

        for_each_piece(write, out, x, largest=PIECE)
