"""The strictness of a run: a sweep describes implementations, a gate decides if a kernel is right."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from xverify.core.call import Call, Outcome
from xverify.verify.findings import NEW, Discrepancy, Standing, Subject
from xverify.verify.verdicts import Judged
from xverify.verify.view import Sample

StandingOf = Callable[[Discrepancy, Judged, Sequence[Sample]], Standing]
"""standing(discrepancy, judged call, kept calls of its cell) returns the discrepancy's standing in the ledger."""


def always_new(discrepancy: Discrepancy, judged: Judged, samples: Sequence[Sample]) -> Standing:
    """The standing of every discrepancy in a run without a ledger."""
    return NEW


@dataclass(frozen=True)
class Rules:
    """The rules of a run. The defaults are a sweep's."""

    every_call: bool = False
    """A refused allowed call is a finding even if the whole cell is refused."""

    on_texts: bool = True
    """Calls are compared under rival editions, to find conflicts between documents."""

    characterise: bool = True
    """The readings that give all values are also searched for cells without a fault."""

    repeat_each: int = 40
    """One call in this many is sent again at the end of its batch."""

    saves_time_to_shrink: bool = True
    """Searches that take seconds end in time for shrinking. Other runs take the time that they need to name every mistake."""

    fail_fast: bool = False
    """The run ends with the first fault that is not known."""

    standing: StandingOf = always_new

    might_be_known: Callable[[Judged], bool] = lambda judged: False
    """might_be_known(judged call): coarser than ``standing``, for faults whose attribution comes when a run concludes."""

    learn: Callable[[Call, Subject, Outcome], None] = lambda call, subject, outcome: None
    """learn(call, subject, outcome): called with every outcome before it is judged."""

    watch: Callable[[Judged, Mapping[Subject, Outcome], Collection[Subject]], None] = lambda judged, outcomes, wrong: (
        None
    )
    """watch(judged call, outcomes, subjects at fault in it): called for every call after it is judged."""
