"""(x - zero_point) * scale, and / scale, by compiled loops, with the bits of `xverify.kernels.linear`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numba import types

from xverify.kernels.blocks import BLOCK, Spread
from xverify.kernels.casting import FLOAT32, FLOAT64, Array, numbers
from xverify.kernels.compiled.build import Compiled, entry
from xverify.kernels.compiled.decode import ELEMENTS, Coding, coding
from xverify.kernels.compiled.layout import Layout, Rows, Runs, layout_of
from xverify.kernels.compiled.loops import by_rows, by_runs, by_table, of_one
from xverify.kernels.compiled.memory import Flat, codes_of, is_plain
from xverify.kernels.compiled.tiles import (
    PIECE,
    THREADS_FROM,
    Read,
    Write,
    for_all_pieces,
    for_each_piece,
    packed_reader,
)
from xverify.kernels.formula import SINGLE_LIMIT, WIDE_FLOATS, lie_within
from xverify.kernels.plans import Operand, Small

_EVERY_CODE = {
    1: np.arange(256, dtype=np.uint8),
    2: np.array([0x11 * (i % 16) + 0x10 for i in range(0, 256, 2)], np.uint8),
    4: np.full(64, 0b11_10_01_00, np.uint8),
}
"""256 codes, by codes in a byte: each code of a type, repeated."""

_LOOK_UP_FROM = 2048
"""Elements from which on an output that is computed in float64 is computed once for each code and looked up."""


def signature(
    codes: Any,
    out: np.dtype[Any],
    coding: Any,
    real: Any,
    scale: Any,
    offset: Any,
    spread: Layout | None,
    by_division: bool = False,
    in_byte: int = 1,
) -> tuple[Any, ...]:
    """Numba's types of the arguments of a loop of `loops`.

    Args:
        codes: the element type of x.
        out: the output's dtype.
        coding: the type of the coding, or of the table.
        real: the float type of the arithmetic.
        scale: the type of scales.
        offset: the type of offsets.
        spread: the parameter layout.
        by_division: True for a quotient.
        in_byte: codes in a byte of x.
    """
    runs = types.UniTuple(types.int64, 4) if isinstance(spread, Runs) else types.none
    rows = types.UniTuple(types.int64, 5) if isinstance(spread, Rows) else types.none
    return (
        codes_of(codes, in_byte), Flat(ELEMENTS[out], written=True), coding, real, scale, offset,
        types.boolean if by_division else types.none, runs, rows, types.int64, types.int64,
        types.int64, types.boolean,
    )  # fmt: skip


def loop_of(spread: Layout | None) -> Callable[..., Any]:
    """The loop for that parameter layout."""
    if spread is None:
        return of_one
    return by_runs if isinstance(spread, Runs) else by_rows


@dataclass(frozen=True)
class Linear:
    """The compiled formula for operands of given dtypes and shapes, which have been checked."""

    out: np.dtype[Any]
    """The output's dtype."""

    coding: Coding
    """The coding of the codes of x."""

    scale: np.dtype[Any]
    """The dtype of scales in the loops."""

    layout: Layout | None
    """The parameter layout; None if one scale serves all elements."""

    divides: bool | None
    """True for a quotient, None for a product."""

    is_wide: bool
    """True if differences, or products that would be rounded twice, need float64."""

    zero_points_decide: bool
    """True for zero points of 4 bytes or more, whose values may need float64."""

    offsets: str | None
    """The form of zero points in the loops: None without them, "codes" of the dtype of x, or "numbers"."""

    is_direct: bool
    """True if the loops take all contiguous operands without a conversion."""

    in_byte: int
    """Codes in a byte of x."""

    offsets_in_byte: int
    """Codes in a byte of zero points, which have rank 1 if these are several."""

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
        """The formula for operands that have been checked; ``out`` is the output's dtype."""
        code = coding(x.dtype.newbyteorder("="))
        is_wide = code.codes == types.int32 or (zero_point is not None and x.dtype in WIDE_FLOATS)
        # Most scales have the output's dtype, and are not converted. Any other dtype would be one more compilation.
        is_rare = scale.dtype != out or (code.is_float and zero_point is not None)
        scale_dtype = FLOAT32 if is_rare else out
        # The error of a product of floats may underflow in float32; a product of few bits has none.
        rounds_twice = out != FLOAT32 and (by_division or (code.is_float and scale_dtype == FLOAT32))
        layout = None if 0 in x.shape else layout_of(x.shape, scale.shape, spread)
        decide = zero_point is not None and zero_point.dtype.itemsize >= 4
        kind = None if zero_point is None else "codes" if zero_point.dtype == x.dtype else "numbers"
        is_laid_out = isinstance(layout, Rows) and layout.is_laid_out
        # A dtype that equals one in this machine's byte order has that order.
        is_direct = x.dtype.isnative and scale.dtype == scale_dtype and kind != "numbers" and not is_laid_out
        divides = True if by_division else None
        in_byte = x.in_byte, 1 if zero_point is None else zero_point.in_byte
        is_wide = is_wide or rounds_twice
        return cls(out, code, scale_dtype, layout, divides, is_wide, decide and not is_wide, kind, is_direct, *in_byte)

    @cached_property
    def single(self) -> Compiled:
        """The loop that computes in float32."""
        return self._compiled(types.float32)

    @cached_property
    def double(self) -> Compiled:
        """The loop that computes in float64."""
        return self._compiled(types.float64)

    def _compiled(self, real: Any) -> Compiled:
        rank = 0 if self.layout is None else 1
        scale = Flat(ELEMENTS[self.scale], rank)
        codes, fields, by_division = self.coding.codes, self.coding.fields_type, self.divides is not None
        in_byte = 1 if isinstance(self.layout, Rows) and self.layout.is_laid_out else self.offsets_in_byte
        offset = {None: real, "codes": codes_of(codes, in_byte, rank), "numbers": Flat(real, rank)}[self.offsets]
        argument_types = signature(codes, self.out, fields, real, scale, offset, self.layout, by_division, self.in_byte)
        return entry(loop_of(self.layout), argument_types)

    @cached_property
    def unpacked(self) -> Linear:
        """The formula for codes of x that are one a byte."""
        return replace(self, in_byte=1)

    @cached_property
    def _given(self) -> tuple[Any, ...]:
        """Arguments that are the same in every call: coding, divides, runs and rows."""
        runs, rows = (None, None) if self.layout is None else self.layout.arguments(0)
        return tuple(self.coding.fields), self.divides, runs, rows

    def for_small(self, shape: tuple[int, ...]) -> Small | None:
        """A fast form of ``__call__`` for a small tensor of that shape.

        The loop checks the arrays itself, since a microsecond counts here.

        Returns:
            The function, or None if more than one loop call is needed.
        """
        size, compiled = prod(shape), self.double if self.is_wide else self.single
        is_small = 0 < size * self.out.itemsize < THREADS_FROM
        if self.is_looked_up(size, self.is_wide) or not self.is_direct or not is_small:
            return None
        fields, divides, runs, rows = self._given

        def small(out: Array, x: Array, scale: Array, zero_point: Array | None) -> bool:
            offset = 0.0 if zero_point is None else zero_point
            try:
                done: bool = compiled(x, out, fields, 0.0, scale, offset, divides, runs, rows, 0, False, 0, False)
            except TypeError:  # An array that `Flat` does not take.
                return False
            return done

        return small

    def is_looked_up(self, size: int, is_wide: bool) -> bool:
        """True if an output is computed for each code first: many are needed, and one is expensive."""
        return self.layout is None and is_wide and self.coding.codes == types.uint8 and size >= _LOOK_UP_FROM

    def __call__(self, out: Array, x: Array, scale: Array, zero_point: Array | None, read: Read | None = None) -> None:
        """Write the formula's value for every element of x, or of the codes that ``read`` returns."""
        if out.size == 0:
            return
        is_wide = self.is_wide or (
            self.zero_points_decide and zero_point is not None and not lie_within(zero_point, SINGLE_LIMIT)
        )
        prepared = self._prepared(is_wide, scale, zero_point)
        if self.in_byte > 1 and (prepared is None or not (is_plain(x) and is_plain(out))):
            self.unpacked(out, x, scale, zero_point, packed_reader(x, self.in_byte))
            return
        compiled = self.double if is_wide else self.single
        fields, divides, runs, rows = self._given
        if prepared is None:
            for_each_piece(self._in_parts(compiled, is_wide, scale, zero_point), out, x, read, PIECE)
            return
        factor, offset = prepared

        def write(start: int, codes: Array, elements: Array, streamed: int, shared: int, helps: bool) -> None:
            compiled(codes, elements, fields, 0.0, factor, offset, divides, runs, rows, start, streamed, shared, helps)

        if self.is_looked_up(out.size, is_wide):
            entries = np.empty(256, self.out)
            write(0, _EVERY_CODE[self.in_byte], entries, False, 0, False)
            look_up(out, x, entries, read, self.in_byte)
        else:
            for_all_pieces(write, out, x, read, self.in_byte)

    def _prepared(self, is_wide: bool, scale: Array, zero_point: Array | None) -> tuple[Array, Any] | None:
        """All scales and zero points as the loops take them; None if that takes more memory than a block."""
        layout = self.layout
        is_ready = isinstance(scale, np.ndarray) and scale.dtype == self.scale and is_plain(scale)  # not `Computed`
        is_ready = is_ready and (zero_point is None or (self.offsets == "codes" and is_plain(zero_point)))
        if not is_ready and scale.size > BLOCK:
            return None
        factors, offsets = self._scales(scale), self._offsets(zero_point, is_wide)
        if isinstance(layout, Rows) and layout.is_laid_out:
            if self.offsets_in_byte > 1:
                offsets = packed_reader(offsets, self.offsets_in_byte)(0, scale.size)
            factors, offsets = lay_out(factors, layout), offsets if zero_point is None else lay_out(offsets, layout)
        return factors, offsets

    def _scales(self, scale: Array) -> Array:
        """Contiguous scales of the dtype that the loops take."""
        return _real(scale, FLOAT32) if self.scale == FLOAT32 else _native(scale)

    def _offsets(self, zero_point: Array | None, is_wide: bool) -> Any:
        """Contiguous zero points: codes in this machine's byte order, or values."""
        if zero_point is None:
            return 0.0
        if self.offsets == "numbers":
            return _real(zero_point, FLOAT64 if is_wide else FLOAT32)
        return _native(zero_point)

    def _in_parts(self, compiled: Compiled, is_wide: bool, scale: Array, zero_point: Array | None) -> Write:
        """A function that writes a piece with the parameters that the piece needs."""
        fields, divides, *_ = self._given
        layout, in_byte = self.layout, self.offsets_in_byte
        assert layout is not None

        def write(start: int, stop: int, codes: Array, elements: Array, streamed: int) -> None:
            for first, last in layout.cuts(start, stop):
                low, high = layout.reach(first, last)
                low -= low % in_byte
                factors = self._scales(part_of(scale, low, high))
                bytes_of = low // in_byte, -(-high // in_byte)
                offsets = self._offsets(None if zero_point is None else part_of(zero_point, *bytes_of), is_wide)
                part = slice(first - start, last - start)
                compiled(
                    codes[part], elements[part], fields, 0.0, factors, offsets, divides, *layout.arguments(low),
                    first, streamed, 0, False,
                )  # fmt: skip

        return write


def part_of(parameters: Array, first: int, last: int) -> Array:
    """Parameters first ... last - 1 in C order: a view if they are adjacent, else a copy of these alone."""
    if parameters.ndim == 1:  # also `Computed`, which has one dimension at first
        return parameters[first:last]
    try:
        return parameters.reshape(-1, copy=False)[first:last]
    except ValueError:
        return parameters.flat[first:last]  # a new iterator, since threads would move a shared one


def lay_out(parameters: Array, layout: Rows) -> Array:
    """The parameters, repeated in memory as the layout requires."""
    if not layout.is_laid_out:
        return parameters
    return np.tile(np.repeat(parameters, layout.repeats), layout.tiles)


def _real(array: Array, real: np.dtype[Any]) -> Array:
    """The values as float32 or float64, contiguous and of any rank.

    The result is the array itself if that already has this form.
    """
    if array.dtype == real and is_plain(array):
        return array
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(numbers(array, real))


def _native(array: Array) -> Array:
    """The array, contiguous and in this machine's byte order: itself if it is that already."""
    return array if is_plain(array) else np.array(array, array.dtype.newbyteorder("="), order="C")


def look_up(out: Array, x: Array, entries: Array, read: Read | None, in_byte: int) -> None:
    """Write the table's entry for each code of x, or of those that ``read`` returns.

    Args:
        in_byte: the number of codes in a byte of x.
    """
    argument_types = types.uint8, out.dtype, Flat(ELEMENTS[out.dtype]), types.float32, types.none, types.none, None
    compiled = entry(by_table, signature(*argument_types, in_byte=in_byte))

    def write(start: int, codes: Array, elements: Array, streamed: int, shared: int, helps: bool) -> None:
        compiled(codes, elements, entries, 0.0, None, None, None, None, None, 0, streamed, shared, helps)

    for_all_pieces(write, out, x, read, in_byte)
