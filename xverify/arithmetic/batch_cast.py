"""The final cast of many recipes' results in batches.

A probe has few values, so the cost of a NumPy call outweighs the cost of its work. One call therefore casts many results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic.reading import Codes
from xverify.core.bits import canonical

BATCH = 1 << 14
"""Approximate number of values in a batch."""


def batch_cast(
    results: Iterable[tuple[tuple[Any, ...], NDArray[Any]]],
    shape: tuple[int, ...],
    dtype: str,
    cast: Callable[..., Codes],
) -> list[Codes]:
    """Cast results to codes, with every NaN made canonical.

    Args:
        results: The parameters of the cast and the numbers of each result. The numbers broadcast to ``shape``.
        shape: The shape of each result.
        dtype: The output dtype.
        cast: A function of numbers of shape (n, *shape) and of the parameters. It returns codes, value by value.

    Returns:
        The codes of each result, in the order of ``results``.
    """
    size = max(1, math.prod(shape))
    pending: dict[tuple[np.dtype[Any], tuple[Any, ...]], list[tuple[int, NDArray[Any]]]] = {}
    codes: dict[int, Codes] = {}

    def flush(rows: list[tuple[int, NDArray[Any]]], parameters: tuple[Any, ...]) -> None:
        stack = np.empty((len(rows), *shape), rows[0][1].dtype)
        for row, (_, numbers) in enumerate(rows):
            stack[row] = numbers
        batch = canonical(cast(stack, *parameters), dtype)
        codes.update((index, batch[row, ...]) for row, (index, _) in enumerate(rows))
        rows.clear()

    for index, (parameters, numbers) in enumerate(results):
        rows = pending.setdefault((numbers.dtype, parameters), [])
        rows.append((index, numbers))
        if len(rows) * size >= BATCH:
            flush(rows, parameters)
    for (_, parameters), rows in pending.items():
        if rows:
            flush(rows, parameters)
    return [codes[index] for index in range(len(codes))]
