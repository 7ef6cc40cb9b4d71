"""Sets of whole numbers as half-open ranges, in order, with gaps between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Range = tuple[int, int]
Ranges = tuple[Range, ...]


def united(ranges: Iterable[Sequence[int]]) -> Ranges:
    """Return all numbers that are in some of the ranges."""
    merged: list[Range] = []
    for start, stop in sorted((int(a), int(b)) for a, b in ranges):
        if start >= stop:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], stop))
        else:
            merged.append((start, stop))
    return tuple(merged)


def without(ranges: Iterable[Range], taken: Iterable[Range]) -> Ranges:
    """Return the numbers in ``ranges`` that are in none of ``taken``. Both are in order."""
    left: list[Range] = []
    holes = list(taken)
    for start, stop in ranges:
        for first, last in holes:
            if last <= start or first >= stop:
                continue
            if start < first:
                left.append((start, first))
            start = last
        if start < stop:
            left.append((start, stop))
    return tuple(left)


def count(ranges: Iterable[Range]) -> int:
    """Return the number of numbers."""
    return sum(stop - start for start, stop in ranges)


def in_steps(ranges: Iterable[Range], step: int) -> Iterable[Range]:
    """Divide ranges into pieces that end at multiples of ``step``, wherever an earlier run stopped."""
    for start, stop in ranges:
        while start < stop:
            end = min(stop, (start // step + 1) * step)
            yield start, end
            start = end
