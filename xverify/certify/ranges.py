"""Sets of whole numbers as half-open ranges, in order, with gaps between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xverify.core.shard import Shard

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


def share(requested: Mapping[int, Ranges], step: int, shard: Shard) -> dict[int, Ranges]:
    """Return the units of one shard, by slice.

    The shards of a request are disjoint, and together they are the request. A shard is a contiguous part of it. The
    sizes of two shards differ by less than two steps. A shard is empty if there are more shards than steps.

    Args:
        requested: Units to divide, by slice, in the order of the proof.
        step: Number of units in a request to the kernel. Shards begin at multiples of it.
        shard: The shard.
    """
    total = sum(map(count, requested.values()))
    lower, upper = (total * number // shard.count for number in (shard.index - 1, shard.index))
    units: dict[int, Ranges] = {}
    before = 0
    for part, wanted in requested.items():
        pieces = []
        for start, stop in wanted:
            first, last = (_cut(start, stop, step, position - before) for position in (lower, upper))
            if first < last:
                pieces.append((first, last))
            before += stop - start
        if pieces:
            units[part] = tuple(pieces)
    return units


def _cut(start: int, stop: int, step: int, position: int) -> int:
    """Return the place of a cut in a range: a multiple of ``step`` or an end of the range."""
    if position >= stop - start:
        return stop
    return max(start, (start + position) // step * step)
