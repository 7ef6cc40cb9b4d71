"""Phase: differences between an implementation and its variants, which run with another setting.

A variant gets every call that the usual setting gets. No edition judges it; it is only compared with the usual setting, so that
nothing is reported twice.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import replace

from xverify.core.call import Outcome
from xverify.engine.record import record
from xverify.engine.state import RunState, VariantDifference
from xverify.verify import verdicts
from xverify.verify.findings import Discrepancy, Subject, witness_order
from xverify.verify.variants import differences
from xverify.verify.verdicts import Judged

REPETITIONS = 6
"""The number of times that the usual setting repeats a call before a difference is attributed to another setting."""


def compare(state: RunState, judged: Judged, outcomes: MutableMapping[Subject, Outcome]) -> None:
    """Remove the variants' outcomes of one call, and record where one differs from the usual setting.

    Differing values are kept for `conclude_variants`, because the usual setting may be nondeterministic.
    """
    for subject in [subject for subject in outcomes if state.pool.oracles[subject.name].variant_of]:
        outcome, usual = outcomes.pop(subject), _usual(state, subject)
        if usual not in outcomes:
            continue
        is_judged = state.pool.judges(judged.contract, usual.name)
        for discrepancy in differences(judged, subject.name, outcomes[usual], outcome, is_judged):
            if discrepancy.key.verdict == "nondeterministic":
                note(state, discrepancy, subject, judged, outcome)
            else:
                record(state, discrepancy, subject, judged, outcome, usual)


def note(state: RunState, discrepancy: Discrepancy, subject: Subject, judged: Judged, outcome: Outcome) -> None:
    """Record that an implementation gave two outcomes for one call.

    For a variant, it is kept for `conclude_variants`.
    """
    if not state.pool.oracles[subject.name].variant_of:
        record(state, discrepancy, subject, judged, outcome)
        return
    new = VariantDifference(discrepancy, subject, _usual(state, subject), judged, outcome)
    kept = state.variant_differences.setdefault((discrepancy.key, judged.cell), new)
    if witness_order(judged.call, judged.number) < witness_order(kept.judged.call, kept.judged.number):
        kept.discrepancy, kept.judged, kept.outcome = discrepancy, judged, outcome
    kept.cases += 1
    kept.values += discrepancy.values


def _usual(state: RunState, subject: Subject) -> Subject:
    """The same path of the implementation that a variant is compared with."""
    oracle = state.pool.oracles[state.pool.oracles[subject.name].variant_of]
    return replace(subject, name=oracle.name)


def conclude_variants(state: RunState) -> None:
    """Record the differences that a setting causes.

    If the usual setting itself gives different outcomes for the call, that is recorded instead. It runs when no batch is under
    way.
    """
    ordered = sorted(state.variant_differences.items(), key=lambda item: (item[0][0].id(), str(item[0][1])))
    for _, kept in ordered:
        answers = [state.pool.ask(kept.usual, kept.judged.call) for _ in range(REPETITIONS)]
        apart = [verdicts.nondeterministic(kept.judged, kept.usual.name, answers[0], other) for other in answers[1:]]
        unsteady = next((discrepancy for discrepancy in apart if discrepancy is not None), None)
        if unsteady is not None:
            record(state, unsteady, kept.usual, kept.judged, answers[0])
            continue
        whole = replace(kept.discrepancy, values=kept.values)
        record(state, whole, kept.subject, kept.judged, kept.outcome, kept.usual, kept.cases)
