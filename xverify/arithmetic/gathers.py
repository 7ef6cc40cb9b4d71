"""The placement of a scale or zero point along x, and wrong gathers of its elements.

Each gather gives codes that broadcast to the shape of x, or None where it cannot be made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic.linear_operands import ceil_div, normal_axis, repeated
from xverify.arithmetic.reading import Codes, Operands
from xverify.core.call import Call

Index = NDArray[np.intp]
MAX_RANK = 6


@dataclass(frozen=True, eq=False)
class Placement:
    """The placement of a parameter of several elements along x."""

    codes: Codes
    """The elements in the rank of x. Per axis, every other axis has extent 1."""
    shape: tuple[int, ...]
    """The shape of x."""
    axis: int
    """The axis, counted from the front."""
    block: int
    """The number of values along the axis that share an element: 1 if the parameter is per axis."""
    blocked: bool
    """True for a blocked parameter, False for one that is per axis."""
    attribute: int
    """The axis as the call has it, which may be negative."""

    @property
    def extent(self) -> int:
        """The extent of x along the axis."""
        return self.shape[self.axis]

    @property
    def count(self) -> int:
        """The number of elements along the axis."""
        return int(self.codes.shape[self.axis])

    def along(self, index: Index) -> Codes:
        """The elements at these indices along the axis. An index outside means the nearest end."""
        return self.codes.take(index, self.axis, mode="clip")

    def flat(self, index: Index) -> Codes:
        """The elements at these indices in C order, one for each value of x.

        An index outside means the nearest end.
        """
        return self.codes.reshape(-1).take(index, mode="clip").reshape(self.shape)


def placement_of(call: Call, right: Operands, role: str) -> Placement | None:
    """The placement of a parameter, or None where no index can be wrong: one element, or an empty x."""
    codes, shape = call.tensors[role].codes, right.shape
    rank = len(shape)
    if codes.size < 2 or 0 in shape:
        return None
    block, attribute = int(call.attributes.get("block_size", 0)), int(call.attributes.get("axis", 1))
    if block > 0 and codes.ndim == rank:
        axis = normal_axis(attribute, rank)
        return None if axis is None else Placement(codes, shape, axis, block, True, attribute)
    spread = right.codes[role].shape
    if len(spread) != rank or prod(spread) != codes.size:
        return None
    axis = spread.index(codes.size)
    return Placement(codes.reshape(spread), shape, axis, 1, False, attribute)


Gather = Callable[[Placement], Codes | None]


# -- another axis -----------------------------------------------------------------------------------------

AxisRule = Callable[[int, int], int]
"""A function of the right axis and the rank. It gives the wrong axis, outside [0, rank - 1] where there is none."""


def _other_axis(rule: AxisRule, placement: Placement) -> Codes | None:
    """The parameters along another axis.

    Per axis, an index past the last element wraps around. Blocked, the elements in C order become the blocks along the other
    axis, if there are enough of them.
    """
    rank = len(placement.shape)
    axis = rule(placement.axis, rank)
    if not 0 <= axis < rank or axis == placement.axis:
        return None
    extent = placement.shape[axis]
    elements = placement.codes.reshape(-1)
    if not placement.blocked:
        shape = [extent if i == axis else 1 for i in range(rank)]
        # NumPy's mode "wrap" subtracts the count once for each time around.
        return elements.take(np.arange(extent) % elements.size).reshape(shape)
    blocks = [ceil_div(e, placement.block) if i == axis else e for i, e in enumerate(placement.shape)]
    if prod(blocks) > elements.size:
        return None
    return repeated(elements[: prod(blocks)].reshape(blocks), axis, placement.block, extent)


def _fixed_axis(number: int, axis: int, rank: int) -> int:
    return number


def _absolute_axis(placement: Placement) -> Codes | None:
    """The parameters along the axis whose number is that of a negative axis without its sign."""
    axis = -placement.attribute
    return _other_axis(partial(_fixed_axis, axis), placement) if axis > 0 else None


_AXES: tuple[tuple[str, str, AxisRule], ...] = (
    ("last-axis", "the last axis", lambda axis, rank: rank - 1),
    *((f"other-axis-{n}", f"axis {n}", partial(_fixed_axis, n)) for n in range(MAX_RANK)),
    ("axis-from-other-end", "the axis counted from the other end", lambda axis, rank: rank - 1 - axis),
    ("next-axis", "the next axis", lambda axis, rank: axis + 1),
    ("previous-axis", "the previous axis", lambda axis, rank: axis - 1),
)


# -- another index along the right axis -------------------------------------------------------------------

IndexRule = Callable[[Index, Placement], Index]
"""A function of the indices along the axis of x. It gives the indices of the elements."""

_LENGTH = "takes as block length the extent divided by the number of blocks"


def _full_blocks(index: Index, placement: Placement) -> Index:
    return np.minimum(index // placement.block, placement.extent // placement.block - 1)


def _remainder_first(index: Index, placement: Placement) -> Index:
    return index // placement.block % max(placement.extent // placement.block, 1)


_CHANNELS: tuple[tuple[str, str, IndexRule], ...] = (
    ("channel-index-plus-one", "takes each channel's parameters from the next channel", lambda i, p: i + 1),
    ("channel-index-minus-one", "takes each channel's parameters from the previous channel", lambda i, p: i - 1),
    ("channels-reversed", "takes the channels' parameters in reverse order", lambda i, p: p.count - 1 - i),
)

_BLOCKS: tuple[tuple[str, str, IndexRule], ...] = (
    ("remainder-as-previous-block", "takes the partial last block's parameters from the block before it", _full_blocks),
    ("remainder-as-first-block", "takes the partial last block's parameters from the first block", _remainder_first),
    ("block-index-plus-one", "takes each block's parameters from the next block", lambda i, p: i // p.block + 1),
    ("block-index-minus-one", "takes each block's parameters from the previous block", lambda i, p: i // p.block - 1),
    ("block-size-ignored", "takes the block size as 1", lambda i, p: i),
    ("blocks-tiled", "repeats the row of parameters instead of each parameter", lambda i, p: i % p.count),
    ("block-length-rounded-down", f"{_LENGTH}, rounded down", lambda i, p: i // (p.extent // p.count)),
    ("block-length-rounded-up", f"{_LENGTH}, rounded up", lambda i, p: i // ceil_div(p.extent, p.count)),
    ("blocks-reversed", "takes the blocks' parameters in reverse order", lambda i, p: p.count - 1 - i // p.block),
    ("first-block", "takes the first block's parameters for all blocks along the axis", lambda i, p: i * 0),
)


def _reindexed(rule: IndexRule, blocked: bool, placement: Placement) -> Codes | None:
    return placement.along(rule(np.arange(placement.extent), placement)) if placement.blocked == blocked else None


# -- another order of the elements in memory --------------------------------------------------------------


def _first(placement: Placement) -> Codes:
    return placement.codes.reshape(-1)[:1].reshape(())


def _flat_modulo(placement: Placement) -> Codes:
    return placement.flat(np.arange(prod(placement.shape)) % placement.codes.size)


def _flat_chunks(placement: Placement) -> Codes:
    values_each = max(prod(placement.shape) // placement.codes.size, 1)
    return placement.flat(np.arange(prod(placement.shape)) // values_each)


def _row_chunks(placement: Placement) -> Codes | None:
    """The elements of a parameter per axis, as if it had blocks along the last axis of x.

    The first block of a row is the one at the row's position in memory, rounded down.
    """
    if placement.blocked:
        return None
    last = placement.shape[-1]
    block = max(prod(placement.shape) // placement.codes.size, 1)
    row, column = np.ogrid[: prod(placement.shape[:-1]), :last]
    return placement.flat((row * last // block + column // block).reshape(-1))


def _flat_blocks(placement: Placement) -> Codes | None:
    return placement.flat(np.arange(prod(placement.shape)) // placement.block) if placement.blocked else None


def _full_blocks_stride(placement: Placement) -> Codes | None:
    """The elements read with a stride that counts full blocks only, for the axes before the blocked one."""
    if not placement.blocked:
        return None
    shape, axis = placement.shape, placement.axis
    outer, inner = prod(shape[:axis]), prod(shape[axis + 1 :])
    before, along, after = np.ogrid[:outer, : placement.extent, :inner]
    full = max(placement.extent // placement.block, 1)
    return placement.flat(((before * full + along // placement.block) * inner + after).reshape(-1))


Order = Literal["C", "F"]


def _reordered(stored: Order, read: Order, placement: Placement) -> Codes | None:
    """The elements of a blocked parameter, stored in one order (C or F) and read in the other."""
    if not placement.blocked:
        return None
    codes = placement.codes.ravel(order=stored).reshape(placement.codes.shape, order=read)
    return repeated(codes, placement.axis, placement.block, placement.extent)


def _first_slice(placement: Placement) -> Codes | None:
    if not placement.blocked:
        return None
    first = tuple(slice(None) if i == placement.axis else slice(0, 1) for i in range(len(placement.shape)))
    return repeated(placement.codes[first], placement.axis, placement.block, placement.extent)


_MEMORY: tuple[tuple[str, str, Gather], ...] = (
    ("flat-blocks", "counts blocks through the whole tensor, not anew in each row", _flat_blocks),
    ("full-blocks-stride", "counts only the full blocks in the stride of the parameters", _full_blocks_stride),
    ("parameters-read-transposed", "reads the parameters as in column order", partial(_reordered, "C", "F")),
    ("parameters-transposed", "reads the parameters after they were transposed", partial(_reordered, "F", "C")),
    ("first-slice", "takes the blocks' parameters of the first row along the axis for all rows", _first_slice),
    ("flat-position-modulo-count", "takes the parameters by the position in x modulo their number", _flat_modulo),
    ("flat-chunks", "divides x into as many runs in memory as there are parameters", _flat_chunks),
    ("row-chunks", "takes the parameters of an axis as those of blocks along the last axis", _row_chunks),
)

GATHERS: tuple[tuple[str, str, Gather], ...] = (
    ("as-per-tensor", "takes the first parameters for the whole tensor", _first),
    *((name, f"takes the parameters along {words}", partial(_other_axis, rule)) for name, words, rule in _AXES),
    ("absolute-axis", "takes a negative axis for its absolute value", _absolute_axis),
    *((name, words, partial(_reindexed, rule, True)) for name, words, rule in _BLOCKS),
    *((name, words, partial(_reindexed, rule, False)) for name, words, rule in _CHANNELS),
    *_MEMORY,
)
"""Name, words (a sentence's predicate) and function of every wrong gather, the likeliest first."""
