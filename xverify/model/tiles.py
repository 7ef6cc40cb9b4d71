"""Parts of a tensor with scales along an axis: tiles of x, and the scales that belong to each."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

Slices = tuple[slice, ...]


def tiles(shape: tuple[int, ...], axis: int, block: int, most: int) -> Iterator[Slices]:
    """Cut a shape into tiles, the later axes last. Blocks stay whole.

    Args:
        shape: The extents of x.
        axis: The axis of the scale, counted from the front; -1 for one scale of the whole tensor.
        block: The block size; 0 without blocks.
        most: The largest number of values of a tile, unless one block has more.
    """
    if math.prod(shape) == 0:
        yield whole(shape)
        return
    sizes = list(shape)
    for i in range(len(sizes)):
        least, rest = block if block and i == axis else 1, math.prod(sizes[i + 1 :])
        if sizes[i] * rest > most:
            sizes[i] = min(sizes[i], max(least, most // rest // least * least))
    for starts in product(*(range(0, extent, size) for extent, size in zip(shape, sizes, strict=True))):
        yield tuple(slice(a, min(a + size, n)) for a, size, n in zip(starts, sizes, shape, strict=True))


def beside(tile: Slices, scale: tuple[int, ...], axis: int, block: int) -> Slices:
    """The part of the scale that belongs to a tile of x.

    Args:
        tile: The tile.
        scale: The extents of the scale.
        axis: See `tiles`.
        block: See `tiles`.
    """
    if axis < 0:
        return whole(scale)
    along = tile[axis]
    if not block:
        return (along,)
    blocks = slice(along.start // block, -(-along.stop // block))
    return tuple(blocks if i == axis else each for i, each in enumerate(tile))


def whole(shape: tuple[int, ...]) -> Slices:
    """The slices of all elements."""
    return tuple(slice(0, extent) for extent in shape)
