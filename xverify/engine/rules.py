"""How strictly a run holds its implementations to the text: a sweep asks what they do, a gate whether that is right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xverify.core.call import Call, Outcome
from xverify.verify.findings import NEW, Discrepancy, Standing, Subject
from xverify.verify.verdicts import Judged
from xverify.verify.view import Sample

StandingOf = Callable[[Discrepancy, Judged, Sequence[Sample]], Standing]
"""standing(discrepancy, judged call, kept calls of its cell): whether the discrepancy is known already."""


def always_new(found: Discrepancy, judged: Judged, samples: Sequence[Sample]) -> Standing:
    """Nothing is known."""
    return NEW


@dataclass(frozen=True)
class Rules:
    """The defaults are a sweep's.

    every_call: an allowed call that is refused is a finding also where the whole cell is refused. on_texts: conflicts between
    editions are looked for. characterise: readings are searched for that give the values of cells where nothing is wrong.
    repeat_each: every so many calls one is asked again, after its batch. fail_fast: asking ends with
    the first fault that is not known. standing: what is known of a discrepancy; might_be_known(judged call): coarser, for
    what is said of whole cells only at the end. learn(call, subject, outcome): told of every outcome before it is judged.
    """

    every_call: bool = False
    on_texts: bool = True
    characterise: bool = True
    repeat_each: int = 40
    fail_fast: bool = False
    standing: StandingOf = always_new
    might_be_known: Callable[[Judged], bool] = lambda judged: False
    learn: Callable[[Call, Subject, Outcome], None] = lambda call, subject, outcome: None
