"""Judgement of answered batches: each outcome is compared with the legal set of its call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from xverify.core.call import Outcome
from xverify.engine import variant_differences
from xverify.engine.events import Progressed
from xverify.engine.record import record, record_fault
from xverify.engine.state import OpenCall, RunState
from xverify.verify import editions, verdicts
from xverify.verify.findings import Subject
from xverify.verify.legal import legal_set
from xverify.verify.verdicts import Judged
from xverify.workers.pool import Batch

CONFLICT_EACH = 6
"""One allowed call in this many is also judged by the rival editions."""


def judge_batch(state: RunState, batch: Batch) -> None:
    """Judge the outcomes of an answered batch."""
    for sent in batch.requests:
        for origin, outcome in zip(sent.origins, sent.outcomes or (), strict=False):
            state.options.rules.learn(batch.cases[origin.index].call, origin.subject, outcome)
    answered = _not_refused(state, batch)
    judged = [
        replace(
            verdicts.judge(batch.contract, case.call, case.number, case.legal, index not in answered),
            places=case.places,
            more=case.more,
        )
        for index, case in enumerate(batch.cases)
    ]
    by_case = _outcomes(state, batch, judged)
    for case, outcomes in zip(judged, by_case, strict=True):
        variant_differences.compare(state, case, outcomes)
        _observe(state, case, outcomes)
    if state.first_verdict is None and any(by_case):
        state.first_verdict = state.elapsed()
    for made in batch.cases:
        state.cases_by_phase[made.phase] += 1
        state.values += made.call.values
    cases = sum(state.cases_by_phase.values())
    state.emit(Progressed(batch.cases[-1].phase, cases, state.values, len(state.findings), state.elapsed()))


def _not_refused(state: RunState, batch: Batch) -> set[int]:
    """The indices of the cases that need a legal set.

    In a gate, a case that is refused as not implemented needs none.
    """
    if not state.options.rules.every_call:
        return set(range(len(batch.cases)))
    return {
        origin.index
        for sent in batch.requests
        for origin, outcome in zip(sent.origins, sent.outcomes or (), strict=False)
        if outcome.kind != "unsupported"
    }


def _outcomes(state: RunState, batch: Batch, judged: list[Judged]) -> list[dict[Subject, Outcome]]:
    """The first outcome of each implementation, by case.

    A repetition is only compared with the first outcome.
    """
    outcomes: list[dict[Subject, Outcome]] = [{} for _ in judged]
    for sent in batch.requests:
        for origin, outcome in zip(sent.origins, sent.outcomes or (), strict=False):
            index, subject = origin.index, origin.subject
            if outcome.kind == "spared":
                state.spared_calls[subject.label] += 1
            elif outcome.kind == "unasked":
                state.unasked_calls += 1
            elif not origin.is_repetition:
                outcomes[index][subject] = outcome
            elif subject in outcomes[index]:
                first = outcomes[index][subject]
                discrepancy = verdicts.nondeterministic(judged[index], subject.name, first, outcome)
                if discrepancy is not None:
                    variant_differences.note(state, discrepancy, subject, judged[index], outcome)
    return outcomes


def _observe(state: RunState, judged: Judged, outcomes: dict[Subject, Outcome]) -> None:
    """Count the outcomes of one call, and record what is wrong with them."""
    contract = judged.contract
    state.coverage.count(judged, outcomes.values())
    if judged.legal is not None and not judged.legal.in_graph:
        readings = state.readings.setdefault(contract.id, {})
        readings.update({reading.name: reading for reading in judged.legal.readings})
    tested = verdicts.tested(judged)
    for clause in tested:
        state.clause_cases[clause] += 1
    at_fault = set()
    for subject, outcome in outcomes.items():
        # A forbidden call puts its clause to the test by being refused, an allowed one by being answered.
        decided = outcome.refused or outcome.kind == "tensor"
        if decided and outcome.refused == (judged.judgement.verdict == "forbidden"):
            for clause in tested:
                state.clause_answers[clause, subject.name] += 1
        is_judged = state.pool.judges(contract, subject.name)
        if state.options.rules.every_call and subject == state.pool.subjects[state.options.oracles[0].name][0]:
            state.reach[contract.id].count(judged.call, judged.judgement.verdict, outcome)
        discrepancies = state.tally.observe(judged, subject, outcome, is_judged)
        for discrepancy in discrepancies:
            record(state, discrepancy, subject, judged, outcome)
        if state.tally.last_was_wrong or any(each.key.verdict.is_fault for each in discrepancies):
            at_fault.add(subject)
        is_wrong = state.tally.last_was_wrong or _wrongly_refused(state, judged, subject, outcome)
        if is_judged and is_wrong and not state.fault_seen:
            record_fault(state, judged, subject)
    state.options.rules.watch(judged, outcomes, at_fault)
    state.changes.observe(judged, outcomes)
    if judged.judgement.verdict == "unspecified":
        _compare_open(state, judged, outcomes)
    elif (
        state.options.rules.on_texts
        and judged.legal is not None
        and not judged.call.around  # texts differ about a lone call, and under another edition the words may make another graph
        and judged.number % CONFLICT_EACH == 0
    ):
        _compare_editions(state, judged, outcomes)


def _wrongly_refused(state: RunState, judged: Judged, subject: Subject, outcome: Outcome) -> bool:
    """True if the implementation must take every allowed call, and refuses this one.

    An implementation that answered no call so far may not work at all. That is no fault of single calls.
    """
    is_refused = outcome.kind == "rejected" and judged.judgement.verdict == "allowed"
    return state.options.rules.every_call and is_refused and subject.name in state.tally.answering


def _compare_open(state: RunState, judged: Judged, outcomes: Mapping[Subject, Outcome]) -> None:
    """Compare implementations with the first judged one on a call that the text leaves open.

    Differences are kept until the end: they become findings only when it is known how allowed calls are treated.
    """
    subjects = [s for s in outcomes if state.pool.judges(judged.contract, s.name) and not s.is_own]
    for subject in subjects[1:]:
        reference = subjects[0]
        outcome, other = outcomes[subject], outcomes[reference]
        if verdicts.disagrees(judged, subject.name, outcome, reference.name, other) is not None:
            state.open_calls.append(OpenCall(judged, subject, outcome, reference, other))


def _compare_editions(state: RunState, judged: Judged, outcomes: Mapping[Subject, Outcome]) -> None:
    """Record where a rival edition has no legal result in common, and who follows which edition there."""
    for rival in editions.rivals(judged.contract):
        conflict = editions.conflict(judged, rival)
        if conflict is None:
            continue
        legal = legal_set(rival, judged.call.under(rival.id))
        record(state, conflict, editions.edition_subject(rival), judged, editions.by_formula(rival, legal))
        finding = state.findings.of(conflict.key)
        for subject, outcome in outcomes.items():
            if finding is not None and not subject.options:
                finding.followed.update(editions.followed(judged, rival, subject.label, outcome))
