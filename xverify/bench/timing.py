"""Seconds of one call, from many."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from statistics import median
from time import perf_counter
from typing import Any

SAMPLE_SECONDS = 0.0005
"""Calls are counted together until they take so long; a clock's reading costs little beside that."""


LONG_SECONDS = 0.05
"""A call that takes so long is timed once: what it finds in the caches no longer matters."""


def seconds_per_call(run: Callable[[], Any], seconds: float) -> float:
    """The median over samples taken for so many seconds, at least one. Of short calls the first, which finds cold caches, is
    left out."""
    first = _sample(run, 1)
    if first >= LONG_SECONDS:
        return first
    end = perf_counter() + seconds
    first = _sample(run, 1)
    if first >= SAMPLE_SECONDS:
        samples, calls = [first], 1
    else:
        calls = max(1, round(SAMPLE_SECONDS / max(first, 1e-9)))
        calls = max(1, round(SAMPLE_SECONDS / max(_sample(run, calls), 1e-9)))
        samples = [_sample(run, calls)]
    while perf_counter() < end:
        samples.append(_sample(run, calls))
    return median(samples)


def _sample(run: Callable[[], Any], calls: int) -> float:
    """Seconds of one of so many calls."""
    start = perf_counter()
    for _ in repeat(None, calls):
        run()
    return (perf_counter() - start) / calls
