"""Phase: shrink the witness of each finding, then send it to the other implementations."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from xverify import contracts
from xverify.contracts.model import Contract
from xverify.core.call import RUNS_FROM, Call, Outcome
from xverify.core.verdict import Verdict
from xverify.engine.deaths import DEATHS, UNCONFIRMED, Confirming, learn_if_breach_kills, shrink_death
from xverify.engine.events import FindingShrunk, ShrinkStarted
from xverify.engine.needed import learn_need
from xverify.engine.plan import derived_seed
from xverify.engine.state import RunState
from xverify.engine.store import ask_others, shown_first
from xverify.engine.witness_region import settle_region
from xverify.verify import changes
from xverify.verify import shrink as shrinking
from xverify.verify.editions import by_formula
from xverify.verify.findings import Finding, Subject
from xverify.verify.legal import legal_set

REPORT_SECONDS = 3.0
"""Seconds of the budget for sending the witnesses to other implementations, and for writing."""


SHARE = 0.25
"""Largest share of the time left that one finding takes. Each death of a slow framework may take seconds."""


def shrink_findings(state: RunState) -> None:
    """Shrink within the rest of the budget. After an interruption, do nothing."""

    def seconds_left() -> float:
        return state.options.budget - REPORT_SECONDS - state.elapsed() if state.options.cases is None else math.inf

    if state.complete:
        shrink_all(state, lambda: state.interrupted.is_set() or seconds_left() < 0, seconds_left=seconds_left)


def shrink_all(
    state: RunState,
    out_of_time: Callable[[], bool],
    grace: float = 0.0,
    seconds_left: Callable[[], float] = lambda: math.inf,
) -> None:
    """Shrink every witness while there is time, then send it to the other implementations.

    Args:
        state: the run.
        out_of_time: true if the search must end.
        grace: the least time for shrinking in seconds, so that the first findings have small calls.
        seconds_left: the time for all findings.
    """
    findings = in_turn(state)
    state.emit(ShrinkStarted(len(findings)))
    least = time.monotonic() + grace

    def is_over(until: float) -> bool:
        now = time.monotonic()
        return now > until or (out_of_time() and (now > least or state.interrupted.is_set()))

    confirming = Confirming(state)
    try:
        for finding in findings:
            if state.interrupted.is_set():
                state.complete = False
                break
            until = time.monotonic() + SHARE * max(0.0, seconds_left())
            _shrink(state, finding, partial(is_over, until), confirming)
    finally:
        confirming.stop()
    for finding in findings:
        if finding.call is not None and not state.interrupted.is_set():
            contract = state.contract_of(finding)
            ask = partial(_ask_within, state, contract, finding.subject)
            settle_region(finding, contract, ask)
            learn_need(finding, contract, ask)
        if finding.key.verdict == Verdict.CRASH:
            learn_if_breach_kills(state, finding)
        if finding.key.verdict not in DEATHS and "hang" not in changes.deaths(finding):
            finding.others = ask_others(state, finding)
            if finding.call is not None and finding.call.around:
                path = replace(finding.subject, options=finding.lowest or finding.subject.options)
                finding.rewrite = state.pool.rewrite(path, finding.call)


def in_turn(state: RunState) -> list[Finding]:
    """Sort findings for shrinking.

    New ones come before known ones, and the finding of each cause whose witness reports show before the others. Of these, deaths
    come first. The order is then by urgency.
    """
    findings = state.findings.sorted()
    shown = shown_first(state)

    def order(finding: Finding) -> tuple[bool, bool, bool, int]:
        verdict, is_shown = finding.key.verdict, finding.id in shown
        return finding.standing.state == "known", not is_shown, not (is_shown and verdict in DEATHS), verdict.urgency

    return sorted(findings, key=order)


def _shrink(state: RunState, finding: Finding, out_of_time: Callable[[], bool], confirming: Confirming) -> None:
    contract = None if finding.call is None else state.contract_of(finding)
    if contract is None or not _is_shrinkable(finding, contract):
        finding.shrunk = "not shrinkable"
        return
    if out_of_time():
        return
    reference, seed = finding.reference, derived_seed(state.options.seed, finding.id) % 2**63
    if finding.key.verdict in DEATHS:
        result = shrink_death(state, finding, contract, seed, out_of_time, confirming)
        if result is None and state.pool.is_lost(finding.subject.name):
            return
        finding.unconfirmed = result is None
        finding.summary += UNCONFIRMED if finding.unconfirmed else ""
    else:
        result = shrinking.shrink(
            finding,
            contract,
            partial(_ask_within, state, contract, finding.subject),
            partial(state.pool.ask, reference) if reference is not None else None,
            seed,
            out_of_time,
            _asking_all(state, finding, contract),
            is_judged=reference is not None and state.pool.judges(contract, reference.name),
            known=_known(state, finding),
        )
    if result is None:
        lost = state.pool.is_lost(finding.subject.name) or (
            reference is not None and state.pool.is_lost(reference.name)
        )
        finding.shrunk = finding.shrunk if lost else "not shrinkable"
        return
    assert finding.call is not None
    finding.call = replace(result.call, origin=finding.call.origin)
    finding.outcome = result.outcome if finding.key.verdict != "conflict" else _outcome_of_rival(finding)
    finding.summary = result.discrepancy.summary
    finding.shrunk = "minimal" if result.minimal else "not reached"
    _on_default_level(state, finding)
    _note_lowest_level(state, finding)
    state.emit(FindingShrunk(finding.id, result.evaluations, result.minimal))


def _known(state: RunState, finding: Finding) -> list[str]:
    """The recipes that violations of the same implementation and edition show in whole cells, by name."""
    whose = finding.key.subject, finding.key.contract, Verdict.VIOLATION
    keyed = [(other.key, other) for other in state.findings.sorted()]
    others = [other for key, other in keyed if (key.subject, key.contract, key.verdict) == whose]
    attributions = [other.attribution for other in others]
    return [by.reading for by in attributions if by is not None and by.elsewhere is None]


def _ask_within(state: RunState, contract: Contract, subject: Subject, call: Call) -> Outcome:
    """The outcome of a call; "unasked" outside the limits that the user stated."""
    return state.pool.ask(subject, call) if state.admits(contract, call) else Outcome("unasked")


def _asking_all(state: RunState, finding: Finding, contract: Contract) -> shrinking.AskAll | None:
    """A function that makes several calls at once; None if they may end the process, or need no answer."""
    if changes.deaths(finding) or finding.key.verdict == Verdict.CONFLICT:
        return None
    return partial(_ask_all_within, state, contract, finding.subject)


def _ask_all_within(state: RunState, contract: Contract, subject: Subject, calls: Sequence[Call]) -> list[Outcome]:
    """The outcomes of several calls, made at once; "unasked" outside the limits that the user stated."""
    admitted = [state.admits(contract, call) for call in calls]
    pairs = [(subject, call) for call, within in zip(calls, admitted, strict=True) if within]
    outcomes = iter(state.pool.ask_each(pairs, state.interrupted))
    return [next(outcomes) if within else Outcome("unasked") for within in admitted]


def _is_shrinkable(finding: Finding, contract: Contract) -> bool:
    """False for findings that appear by chance, need a hang for each evaluation, or are on the text alone.

    Calls of more than 2^30 elements are not shrinkable either, since they would not fit into memory.
    """
    by_chance = finding.key.verdict == "nondeterministic" and finding.reference is None
    if finding.call is None or finding.call.values >= RUNS_FROM or by_chance or "hang" in changes.deaths(finding):
        return False
    return finding.key.verdict != "conflict" or contract.judge(finding.call).verdict == "allowed"


def _on_default_level(state: RunState, finding: Finding) -> None:
    """Choose the path that most people run for a finding in surroundings; else the least optimised."""
    contract, call = state.contract_of(finding), finding.call
    if call is None or finding.key.verdict == "hang":  # each path would cost its limit
        return
    for subject in state.pool.plainer_paths(finding.subject, call):
        reproduced = shrinking.reproduces(finding, contract, call, partial(state.pool.ask, subject))
        if reproduced is not None:
            finding.subject, finding.outcome = subject, reproduced[1]
            finding.paths.add(subject.options)
            return


def _note_lowest_level(state: RunState, finding: Finding) -> None:
    """Find the least optimised path that shows a finding in surroundings."""
    contract, call = state.contract_of(finding), finding.call
    paths = state.pool.surrounded.get(finding.subject.name, ())
    if call is None or not call.around or finding.subject not in paths or finding.key.verdict == "hang":
        return
    for subject in paths[: paths.index(finding.subject)]:
        if shrinking.reproduces(finding, contract, call, partial(state.pool.ask, subject)) is not None:
            finding.lowest = subject.options
            finding.paths.add(subject.options)
            return
    finding.lowest = finding.subject.options


def _outcome_of_rival(finding: Finding) -> Outcome:
    """The result of the edition that conflicts with the finding's, for its witness."""
    assert finding.call is not None
    rival = contracts.get(finding.key.subject)
    return by_formula(rival, legal_set(rival, finding.call.under(rival.id)))
