"""Counts of allowed calls by property: answered ones, and those refused as not implemented."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from xverify.core.call import Call, Outcome
from xverify.strategies.learnt import Row, row_of
from xverify.strategies.limits import granularity_of

MOST_SAMPLES = 4
"""The most sample calls of each granularity."""

MOST_ELEMENTS = 4096
"""The largest number of elements of a sample call."""


@dataclass(eq=False)
class Reach:
    """The calls of one edition to the kernel under test."""

    records: dict[Row, list[int]] = field(default_factory=dict)
    """The number of answered and of refused allowed calls, by properties. Only refusals as not implemented count."""

    answered: int = 0
    """Allowed calls that gave a tensor."""

    refused: int = 0
    """Allowed calls that were refused as not implemented."""

    probes: int = 0
    """The number of calls that were made to learn what the kernel takes."""

    walks: int = 0
    """The number of walks within what was learnt."""

    samples: dict[str, list[Call]] = field(default_factory=lambda: defaultdict(list))
    """A few answered calls of each granularity. Larger calls replace those below 64 elements."""

    def count(self, call: Call, verdict: str, outcome: Outcome) -> None:
        """Count one call and its outcome."""
        if verdict != "allowed" or outcome.kind not in ("tensor", "unsupported"):
            return
        is_answered = outcome.kind == "tensor"
        row = self.records.setdefault(row_of(call), [0, 0])
        row[0 if is_answered else 1] += 1
        self.answered += is_answered
        self.refused += not is_answered
        if is_answered and 0 < call.values <= MOST_ELEMENTS:
            samples = self.samples[granularity_of(call)]
            if len(samples) < MOST_SAMPLES:
                samples.append(call)
            elif min(other.values for other in samples) < min(call.values, 64):
                samples.remove(min(samples, key=lambda other: other.values))
                samples.append(call)
