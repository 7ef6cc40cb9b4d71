"""Parts of a tensor that a compiled loop computes, and the parameters that serve them."""

from __future__ import annotations

from typing import Any

import numpy as np

from xverify.kernels.compiled.layout import Layout, Runs

Array = np.ndarray[Any, Any]


def parameters(places: Layout | None, size: int) -> Array:
    """Return the parameter of each element by the formula of `xverify.kernels.compiled.loops`."""
    element = np.arange(size)
    if places is None:
        return 0 * element
    if isinstance(places, Runs):
        line, within = np.divmod(element, places.line)
        return line * places.stride + within // places.run
    row, within = np.divmod(element, places.row)
    line, of_line = np.divmod(row, places.in_line)
    return (line * places.stride + of_line // places.run) * places.row + within


def some_parts(size: int) -> list[tuple[int, int]]:
    """Return starts and stops: nearly all elements, few, many, and parts that begin and end at chunks."""
    rng = np.random.default_rng(1)
    anywhere = np.sort(rng.integers(0, size + 1, (12, 2)))
    of_chunks = np.sort(rng.integers(0, size // 16 + 1, (6, 2))) * 16
    short = np.add.outer(rng.integers(0, size - 40, 6), (0, 40))
    drawn_parts = np.concatenate([anywhere, of_chunks, short])
    # An output three 16-bit elements off has 29 elements before its first cache line; two parts end before that.
    return [*((start, size) for start in (0, 1, 29)), (7, 9), *((int(start), int(stop)) for start, stop in drawn_parts)]
