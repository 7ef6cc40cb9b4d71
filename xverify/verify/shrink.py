"""Shrinking a finding's witness to the smallest call that keeps its key, with Hypothesis."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from hypothesis import HealthCheck, Phase, Verbosity, find, settings
from hypothesis.errors import HypothesisException

from xverify.contracts.model import Contract
from xverify.core.bits import canonical
from xverify.core.call import Call, Outcome
from xverify.core.verdict import Verdict
from xverify.strategies.smaller import less_around, smaller_calls
from xverify.verify import changes, editions, equivalence, variants, verdicts
from xverify.verify.attribute import named
from xverify.verify.findings import Discrepancy, Finding
from xverify.verify.verdicts import Judged

Ask = Callable[[Call], Outcome]

MOST_EVALUATIONS = 320
"""Of one finding's shrinking; a strategy with more draws than the one of today reached its minimum within 318."""

MOST_DEATHS = 40
"""Evaluations that end a process, each of which costs a new one, and of a hang its limit; 11 were enough for each of 20 modelled
crashes."""


@dataclass(frozen=True, eq=False)
class Shrunk:
    call: Call
    outcome: Outcome | None
    discrepancy: Discrepancy
    evaluations: int
    minimal: bool


def reproduces(
    finding: Finding, contract: Contract, call: Call, ask: Ask, ask_reference: Ask | None = None
) -> tuple[Discrepancy, Outcome | None] | None:
    """The same discrepancy on another call, with the outcome that shows it; None when it does not show there."""
    judged = verdicts.judge(contract, call)
    key, label = finding.key, finding.key.subject
    if key.verdict == Verdict.CONFLICT:
        found = [d for rival in editions.rivals(contract) if (d := editions.conflict(judged, rival))]
        return next(((d, None) for d in found if d.key == key), None)
    outcome = ask(call)
    for discrepancy in _discrepancies(finding, judged, label, outcome, ask, ask_reference):
        if discrepancy is not None and discrepancy.key == key:
            return discrepancy, outcome
    return None


def faults(finding: Finding, judged: Judged, outcome: Outcome, ask: Ask) -> list[Discrepancy]:
    """Everything that one call's outcome is at fault for: first what the finding's verdict and readings say, then the rest."""
    found = [one for one in _discrepancies(finding, judged, finding.key.subject, outcome, ask, None) if one is not None]
    comparison = verdicts.compared(judged, outcome)
    if comparison is not None and not any(one.key.verdict == Verdict.VIOLATION for one in found):
        whatever = verdicts.violates(judged, finding.key.subject, outcome, comparison, None)
        found += [] if whatever is None else [whatever]
    return [one for one in found if one.key.verdict.is_fault]


def _discrepancies(
    finding: Finding, judged: Judged, label: str, outcome: Outcome, ask: Ask, ask_reference: Ask | None
) -> list[Discrepancy | None]:
    found: list[Discrepancy | None] = [
        verdicts.died(judged, label, outcome),
        *verdicts.noted(judged, label, outcome),
        verdicts.accepted(judged, label, outcome),
        verdicts.rejected(judged, label, outcome),
        verdicts.shape_or_type(judged, label, outcome),
    ]
    verdict = finding.key.verdict
    if variants.setting_of(label) and ask_reference:
        found = [*variants.differences(judged, label, ask_reference(judged.call), outcome), *found]
    elif verdict == Verdict.NONDETERMINISTIC:
        found.append(verdicts.nondeterministic(judged, label, outcome, ask(judged.call)))
    if (
        verdict == Verdict.AMBIGUITY
        and judged.judgement.verdict == "unspecified"
        and ask_reference
        and finding.reference
    ):
        other = ask_reference(judged.call)
        known = [named(judged.contract, name) for name in finding.readings]
        found.append(verdicts.disagrees(judged, label, outcome, finding.reference.label, other, known))
    if verdict == Verdict.CHANGED and ask_reference:
        found.append(changes.reproduced(finding, judged, outcome, ask_reference(judged.call)))
    comparison = verdicts.compared(judged, outcome)
    if comparison is not None:
        found.append(verdicts.flushed(judged, label, comparison))
        if verdict == Verdict.VIOLATION:
            recipes = [named(judged.contract, name) for name in finding.readings]
            elsewhere = judged.contract.readings(judged.call)[0] if len(recipes) > 1 else None
            recipe = recipes[0] if recipes else None
            found.append(verdicts.violates(judged, label, outcome, comparison, recipe, elsewhere))
        if verdict == Verdict.MIXED:
            found.append(equivalence.reproduced(finding, judged, outcome, ask))
            by = named(judged.contract, finding.attribution.reading) if finding.attribution else None
            found.append(verdicts.mixed(judged, label, outcome, comparison, finding.readings, by))
        if verdict == Verdict.AMBIGUITY and finding.readings:
            found.append(verdicts.departs(judged, label, outcome, finding.readings[0]))
    return found


def focus(finding: Finding, contract: Contract, ask: Ask, ask_reference: Ask | None = None) -> tuple[int, ...]:
    """The index of the first value that shows the finding; zeros where no single value does."""
    call, outcome = finding.call, finding.outcome
    assert call is not None
    nowhere = (0,) * len(call.data.shape)
    if outcome is None or outcome.tensor is None or not call.values:
        return nowhere
    judged = verdicts.judge(contract, call)
    if finding.key.verdict == Verdict.CHANGED and ask_reference:
        return changes.place(finding, judged, outcome, ask_reference(call)) or nowhere
    if finding.key.verdict == Verdict.NONDETERMINISTIC and ask_reference:
        return variants.place(ask_reference(call), outcome) or nowhere
    comparison = verdicts.compared(judged, outcome)
    if comparison is None or judged.legal is None:
        return nowhere
    place = equivalence.place(finding, judged, outcome, ask)
    if place is not None:
        return place
    shown = comparison.wrong | comparison.flushed
    if not shown.any():
        shown = np.asarray(canonical(outcome.tensor.codes, outcome.tensor.dtype) != judged.legal.codes(0))
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(shown)), shown.shape)) if shown.any() else nowhere


def shrink(
    finding: Finding,
    contract: Contract,
    ask: Ask,
    ask_reference: Ask | None,
    seed: int,
    out_of_time: Callable[[], bool] = lambda: False,
) -> Shrunk | None:
    """The smallest call found that keeps the finding's key; None when not even the witness shows it again.

    minimal is False when the evaluations or the time ran out first.
    """
    call = finding.call
    assert call is not None
    deadly = finding.key.verdict in ("crash", "hang") or bool(changes.deaths(finding))
    evaluations = deaths = 0
    best: tuple[tuple[int, ...], Call, Discrepancy, Outcome | None] | None = None
    ended_early = False
    known: dict[str, bool] = {}

    def shows(candidate: Call) -> bool:
        nonlocal evaluations, deaths, best, ended_early
        digest = candidate.digest()
        if digest in known:
            return known[digest]
        if evaluations >= MOST_EVALUATIONS or deaths >= MOST_DEATHS or out_of_time():
            ended_early = True
            return False
        evaluations += 1
        found = reproduces(finding, contract, candidate, ask, ask_reference)
        known[digest] = found is not None
        deaths += deadly and found is not None
        if found is not None:
            size = _size(candidate)
            if best is None or size < best[0]:
                best = (size, candidate, found[0], found[1])
        return found is not None

    def leave_out_surroundings() -> None:
        # Each that shows it is smaller than the best so far, so it is the best from then on.
        while best is not None and any(shows(candidate) for candidate in less_around(best[1])):
            pass

    if not shows(call):
        return None
    leave_out_surroundings()
    assert best is not None
    # No draw keeps it (NoSuchExample), or Hypothesis gives up: then the best call seen stands.
    with suppress(HypothesisException):
        find(
            smaller_calls(best[1], focus(finding, contract, ask, ask_reference)),
            shows,
            settings=settings(
                max_examples=MOST_EVALUATIONS,
                database=None,
                deadline=None,
                phases=(Phase.generate, Phase.shrink),
                suppress_health_check=list(HealthCheck),
                verbosity=Verbosity.quiet,
            ),
            random=random.Random(seed),
        )
    leave_out_surroundings()
    return Shrunk(best[1], best[3], best[2], evaluations, not ended_early)


def _size(call: Call) -> tuple[int, ...]:
    """How large a call is: what stands around it, values, rank, parameters, then how far its codes are from 0."""
    parameters = [t for t in call.tensors.values() if t is not call.data]
    spread = sum(int(np.count_nonzero(t.codes)) for t in call.tensors.values())
    return (
        len(call.around),
        call.values,
        len(call.data.shape),
        sum(t.size for t in parameters),
        spread,
        sum(tensor.layout != "C" for tensor in call.tensors.values()),
        len(call.attributes),
        sum(not word.endswith(":0") for word in call.around),
    )
