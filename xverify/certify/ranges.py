"""Sets of whole numbers as half-open ranges, in order, with gaps between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xverify.core.shard import Shard

Range = tuple[int, int]
Ranges = tuple[Range, ...]

MOST_ROUNDS = 16
"""Largest number of contiguous parts of a shard. Each part is a range in its certificate."""


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

    The shards of a request are disjoint, and together they are the request. All have about the same number of units. A
    shard is empty if there are more shards than steps.

    The request is divided into rounds, and each round into one contiguous part for each shard. So each shard has units
    from everywhere, because some units cost more: NumPy takes 15 times as long for results that overflow float16.

    Args:
        requested: Units to divide, by slice, in the order of the proof.
        step: Number of units in a request to the kernel. Parts begin at multiples of it.
        shard: The shard.
    """
    total = sum(map(count, requested.values()))
    rounds = min(MOST_ROUNDS, max(1, total // (step * shard.count)))
    parts = rounds * shard.count
    # Each round begins with the next shard, so that rounding favours none.
    numbers = [number * shard.count + (shard.index - 1 + number) % shard.count for number in range(rounds)]
    spans = [(total * number // parts, total * (number + 1) // parts) for number in numbers]
    units: dict[int, Ranges] = {}
    before = 0
    for part, wanted in requested.items():
        pieces = []
        for start, stop in wanted:
            pieces += [tuple(_cut(start, stop, step, position - before) for position in span) for span in spans]
            before += stop - start
        if mine := united(pieces):
            units[part] = mine
    return units


def _cut(start: int, stop: int, step: int, position: int) -> int:
    """Return the place of a cut in a range: a multiple of ``step`` or an end of the range."""
    if position >= stop - start:
        return stop
    return max(start, (start + position) // step * step)
