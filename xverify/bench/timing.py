"""Seconds of one call, measured over many."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from statistics import median
from time import perf_counter
from typing import Any

SAMPLE_SECONDS = 0.0005
"""Shorter calls are timed together until they take this long, so that reading the clock costs little."""


LONG_SECONDS = 0.05
"""A call of at least this length is timed once: the state of the caches no longer matters."""


def seconds_per_call(run: Callable[[], Any], seconds: float) -> float:
    """The median time of a call, over samples taken for this number of seconds, at least one sample.

    The first short call is left out, because its data is not yet in the caches.
    """
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
    """Seconds of one call, averaged over this number of calls."""
    start = perf_counter()
    for _ in repeat(None, calls):
        run()
    return (perf_counter() - start) / calls
