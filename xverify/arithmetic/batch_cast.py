"""Casting the results of many recipes together, to be compared: for the few values of a probe, an operation costs what its
call costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic.reading import Codes
from xverify.core.bits import canonical

TOGETHER = 1 << 14
"""Results that are cast together, about."""


def cast_together(
    results: Iterable[tuple[tuple[Any, ...], NDArray[Any]]],
    shape: tuple[int, ...],
    dtype: str,
    cast: Callable[..., Codes],
) -> list[Codes]:
    """The codes of each result in that shape and dtype, NaN made canonical.

    results: how each is cast, and its numbers, broadcastable to the shape. cast: gives the codes of (n, *shape) numbers that
    are cast in the same way, value by value.
    """
    size = max(1, math.prod(shape))
    waiting: dict[tuple[np.dtype[Any], tuple[Any, ...]], list[tuple[int, NDArray[Any]]]] = {}
    codes: dict[int, Codes] = {}

    def settle(rows: list[tuple[int, NDArray[Any]]], way: tuple[Any, ...]) -> None:
        stack = np.empty((len(rows), *shape), rows[0][1].dtype)
        for row, (_, numbers) in enumerate(rows):
            stack[row] = numbers
        given = canonical(cast(stack, *way), dtype)
        codes.update((place, given[row, ...]) for row, (place, _) in enumerate(rows))
        rows.clear()

    for place, (way, numbers) in enumerate(results):
        rows = waiting.setdefault((numbers.dtype, way), [])
        rows.append((place, numbers))
        if len(rows) * size >= TOGETHER:
            settle(rows, way)
    for (_, way), rows in waiting.items():
        if rows:
            settle(rows, way)
    return [codes[place] for place in range(len(codes))]
