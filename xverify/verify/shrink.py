"""Shrinking a finding's witness to the smallest call that keeps its key, with Hypothesis."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

import numpy as np
from hypothesis import HealthCheck, Phase, Verbosity, find, settings
from hypothesis.errors import HypothesisException

from xverify.contracts.model import Contract
from xverify.core.bits import canonical
from xverify.core.call import AT_RUN, Call, Outcome
from xverify.core.verdict import Verdict
from xverify.strategies.plainer import plainer_calls, plainness
from xverify.strategies.smaller import less_around, smaller_calls, squeezed
from xverify.verify import changes, editions, equivalence, variants, verdicts
from xverify.verify.attribute import codes_of, gives, named, of_one_operand
from xverify.verify.findings import Discrepancy, Finding
from xverify.verify.graph_recipes import recipes_named, violates_by_recipe
from xverify.verify.rewrites import explanations, violates_in_graph
from xverify.verify.rewritten_graphs import is_rewrite
from xverify.verify.shown import shown as departures_shown
from xverify.verify.verdicts import Judged

Ask = Callable[[Call], Outcome]
AskAll = Callable[[Sequence[Call]], Sequence[Outcome]]

MOST_EVALUATIONS = 320
"""Evaluations for one finding. A strategy with more draws than today's reached its minimum within 318."""

MOST_PLAINER = 160
"""Further evaluations for one finding, on calls of the smallest shape with plainer types and numbers."""

TOGETHER = 12
"""Calls of one pass that are made together, since most passes try all of them."""

MOST_DEATHS = 40
"""Calls for one finding that end a process, also in another way than the finding. Each costs a new process, and a hang costs its
limit. For each of 20 modelled crashes, 11 were enough.
"""


@dataclass(frozen=True, eq=False)
class Shrunk:
    """The result of shrinking."""

    call: Call
    """The smallest call."""
    outcome: Outcome | None
    """The outcome that shows the finding."""
    discrepancy: Discrepancy
    """The finding on that call."""
    evaluations: int
    """The number of calls that were made."""
    minimal: bool
    """False if the evaluations or the time ended first."""


def reproduces(
    finding: Finding,
    contract: Contract,
    call: Call,
    ask: Ask,
    ask_reference: Ask | None = None,
    is_judged: bool = False,
) -> tuple[Discrepancy, Outcome | None] | None:
    """The discrepancy of a finding on another call, with the outcome that shows it; None if it is absent.

    ``is_judged`` tells if wrong values of the reference are violations of their own, see `variants.differences`.
    """
    judged = verdicts.judge(contract, call)
    key, label = finding.key, finding.key.subject
    if key.verdict == Verdict.CONFLICT:
        conflicts = [d for rival in editions.rivals(contract) if (d := editions.conflict(judged, rival))]
        return next(((d, None) for d in conflicts if d.key == key), None)
    outcome = ask(call)
    if finding.outcome is not None and finding.outcome.stage == AT_RUN != outcome.stage:
        return None  # a refusal before the run is another mistake, or none
    for discrepancy in _discrepancies(finding, judged, label, outcome, ask, ask_reference, is_judged):
        if discrepancy is not None and discrepancy.key == key:
            return discrepancy, outcome
    return None


def faults(finding: Finding, judged: Judged, outcome: Outcome, ask: Ask) -> list[Discrepancy]:
    """All faults of one call's outcome: first those that the finding's verdict and readings show."""
    discrepancies = [
        discrepancy
        for discrepancy in _discrepancies(finding, judged, finding.key.subject, outcome, ask, None)
        if discrepancy is not None
    ]
    comparison = verdicts.compared(judged, outcome)
    if comparison is not None and not any(
        discrepancy.key.verdict == Verdict.VIOLATION for discrepancy in discrepancies
    ):
        unexplained = verdicts.violates(judged, finding.key.subject, outcome, comparison, None)
        discrepancies += [] if unexplained is None else [unexplained]
    return [discrepancy for discrepancy in discrepancies if discrepancy.key.verdict.is_fault]


def _discrepancies(
    finding: Finding,
    judged: Judged,
    label: str,
    outcome: Outcome,
    ask: Ask,
    ask_reference: Ask | None,
    is_judged: bool = False,
) -> list[Discrepancy | None]:
    discrepancies: list[Discrepancy | None] = [
        verdicts.died(judged, label, outcome),
        *verdicts.noted(judged, label, outcome),
        verdicts.accepted(judged, label, outcome),
        verdicts.rejected(judged, label, outcome),
        verdicts.unreadable(judged, label, outcome),
        verdicts.shape_or_type(judged, label, outcome),
    ]
    verdict = finding.key.verdict
    if variants.setting_of(label) and ask_reference:
        between = variants.differences(judged, label, ask_reference(judged.call), outcome, is_judged)
        discrepancies = [*between, *discrepancies]
    elif verdict == Verdict.NONDETERMINISTIC:
        discrepancies.append(verdicts.nondeterministic(judged, label, outcome, ask(judged.call)))
    if (
        verdict == Verdict.AMBIGUITY
        and judged.judgement.verdict == "unspecified"
        and ask_reference
        and finding.reference
    ):
        other = ask_reference(judged.call)
        recipes_of_both = [named(judged.contract, name) for name in finding.readings]
        discrepancies.append(
            verdicts.disagrees(judged, label, outcome, finding.reference.label, other, recipes_of_both)
        )
    if verdict == Verdict.NOT_FOLLOWED:
        discrepancies.append(verdicts.not_followed(judged, label, outcome))
    if verdict == Verdict.CHANGED and ask_reference:
        discrepancies.append(changes.reproduced(finding, judged, outcome, ask_reference(judged.call)))
    comparison = verdicts.compared(judged, outcome)
    if comparison is not None:
        discrepancies.append(verdicts.flushed(judged, label, outcome, comparison))
        in_graph = judged.legal is not None and judged.legal.in_graph
        if verdict == Verdict.VIOLATION and (in_graph or any(map(is_rewrite, finding.readings))):
            rewrite = finding.readings[0] if finding.readings else None
            assert outcome.tensor is not None
            if rewrite is None or is_rewrite(rewrite):
                discrepancies.append(violates_in_graph(judged, label, outcome.tensor, comparison, rewrite))
            else:
                discrepancies.append(violates_by_recipe(judged, label, outcome.tensor, comparison, rewrite))
        elif verdict == Verdict.VIOLATION:
            recipes = [named(judged.contract, name) for name in finding.readings]
            elsewhere = judged.contract.readings(judged.call)[0] if len(recipes) > 1 else None
            recipe = recipes[0] if recipes else None
            discrepancies.append(verdicts.violates(judged, label, outcome, comparison, recipe, elsewhere))
        if verdict == Verdict.MIXED:
            discrepancies.append(equivalence.reproduced(finding, judged, outcome, ask))
            by = finding.attribution
            recipe = named(judged.contract, by.reading) if by is not None and by.elsewhere is None else None
            discrepancies.append(verdicts.mixed(judged, label, outcome, comparison, finding.readings, recipe))
        if verdict == Verdict.AMBIGUITY and finding.readings:
            discrepancies.append(verdicts.departs(judged, label, outcome, finding.readings[0]))
    return discrepancies


def focus(
    finding: Finding,
    contract: Contract,
    ask: Ask,
    ask_reference: Ask | None = None,
    is_judged: bool = False,
    known: Sequence[str] = (),
) -> tuple[int, ...]:
    """The index of the first value that shows the finding; zeros if no single value does.

    Wrong values that one of the recipes ``known`` gives come last.
    """
    call, outcome = finding.call, finding.outcome
    assert call is not None
    nowhere = (0,) * len(call.data.shape)
    if outcome is None or outcome.tensor is None or not call.values:
        return nowhere
    judged = verdicts.judge(contract, call)
    if finding.key.verdict == Verdict.CHANGED and ask_reference:
        return changes.first_difference(finding, judged, outcome, ask_reference(call)) or nowhere
    if finding.key.verdict == Verdict.NONDETERMINISTIC and ask_reference:
        return variants.first_difference(judged, ask_reference(call), outcome, is_judged) or nowhere
    comparison = verdicts.compared(judged, outcome)
    if comparison is None or judged.legal is None:
        return nowhere
    index = equivalence.first_difference(finding, judged, outcome, ask)
    if index is not None:
        return index
    shown = comparison.wrong if comparison.wrong.any() else comparison.flushed
    if known and not judged.legal.in_graph:
        codes = canonical(outcome.tensor.codes, outcome.tensor.dtype)
        by_others = [codes_of(contract, call, recipe) == codes for recipe in recipes_named(contract, known)]
        unexplained = shown & ~np.logical_or.reduce(by_others)
        shown = unexplained if unexplained.any() else shown
    if not shown.any():
        shown = np.asarray(canonical(outcome.tensor.codes, outcome.tensor.dtype) != judged.legal.codes(0))
    if not shown.any():
        return nowhere
    # The result of a graph may have another shape than x. Then the index is a guess.
    first = int(np.argmax(shown)) % call.values
    return tuple(int(i) for i in np.unravel_index(first, call.data.shape))


def shrink(
    finding: Finding,
    contract: Contract,
    ask: Ask,
    ask_reference: Ask | None,
    seed: int,
    out_of_time: Callable[[], bool] = lambda: False,
    ask_all: AskAll | None = None,
    is_judged: bool = False,
    known: Sequence[str] = (),
) -> Shrunk | None:
    """Search the smallest call that keeps the finding's key.

    Args:
        finding: the finding with its witness.
        contract: its edition.
        ask: makes a call of the implementation.
        ask_reference: makes a call of the implementation or version that it is compared with; None without one.
        seed: the seed of the search.
        out_of_time: tells if the search must end.
        ask_all: makes several calls of the implementation at once; None to make them one by one.
        is_judged: true if wrong values of what it is compared with are violations of their own.
        known: names of the recipes that other findings show. A finding without a recipe does not shrink to a call that one
            of them explains. One of a mistake in all parameters does not shrink to a call that shows it in one of them.

    Returns:
        None if not even the witness shows the finding again.
    """
    call = finding.call
    assert call is not None
    evaluations = deaths = 0
    best: tuple[tuple[int, ...], Call, Discrepancy, Outcome | None] | None = None
    ended_early, most = False, MOST_EVALUATIONS
    is_allowed = contract.judge(call).verdict == "allowed"
    needed = _shown(finding, contract, call, finding.outcome)
    others: Sequence[str] = ()
    if finding.key.verdict == Verdict.VIOLATION:
        if not finding.readings:
            others = known
        elif finding.attribution is not None:
            others = of_one_operand(finding.attribution.reading)
        others = () if is_explained(contract, call, finding.outcome, others) else others
    shown: dict[str, bool] = {}
    answered: dict[str, Outcome] = {}

    def counted(outcome: Outcome) -> Outcome:
        nonlocal deaths
        deaths += outcome.kind in ("crash", "hang")
        return outcome

    def asked(candidate: Call) -> Outcome:
        # A second question for the same call is a new one: some findings are answers that change.
        outcome = answered.pop(candidate.digest(), None) if answered else None
        return counted(ask(candidate) if outcome is None else outcome)

    compared_with = None if ask_reference is None else lambda candidate: counted(ask_reference(candidate))

    def together(candidates: Iterable[Call]) -> Iterator[Call]:
        """The same calls, several of them made at once."""
        rest = iter(candidates)
        while group := list(islice(rest, TOGETHER)):
            left = [candidate for candidate in group if candidate.digest() not in shown]
            if ask_all is not None and len(left) > 1 and not out_of_time():
                answered.update(zip((each.digest() for each in left), ask_all(left), strict=True))
            yield from group

    def shows(candidate: Call) -> bool:
        nonlocal evaluations, best, ended_early
        digest = candidate.digest()
        if digest in shown:
            return shown[digest]
        # What an allowed call shows must not end as a call that nobody may make.
        if is_allowed and contract.judge(candidate).verdict != "allowed":
            return False
        if evaluations >= most or deaths >= MOST_DEATHS or out_of_time():
            ended_early = True
            return False
        evaluations += 1
        reproduced = reproduces(finding, contract, candidate, asked, compared_with, is_judged)
        # A call that shows one of several mistakes would be no witness of the others.
        if reproduced is not None and not needed <= _shown(finding, contract, candidate, reproduced[1]):
            reproduced = None
        if reproduced is not None and is_explained(contract, candidate, reproduced[1], others):
            reproduced = None
        shown[digest] = reproduced is not None
        if reproduced is not None:
            size = _size(candidate)
            if best is None or size < best[0]:
                best = (size, candidate, reproduced[0], reproduced[1])
        return reproduced is not None

    def leave_out_surroundings() -> None:
        def less(size: tuple[int, ...], call: Call) -> Iterator[Call]:
            return (candidate for candidate in less_around(call) if _size(candidate) < size)

        # A candidate that shows the finding is smaller than the best call, so it becomes the best.
        while best is not None and any(map(shows, together(less(best[0], best[1])))):
            pass

    def plainer() -> None:
        nonlocal ended_early, most
        assert best is not None
        # The search for plainer calls says nothing about the size of the shape.
        before, most = ended_early, evaluations + MOST_PLAINER
        for candidates in plainer_calls(best[1]):
            size, plainest = best[0], best[1]
            smaller = (candidate for candidate in candidates(plainest) if _size(candidate) < size)
            seen = (candidate for candidate in smaller if _is_where_seen(finding, contract, candidate))
            any(shows(candidate) for candidate in together(seen))
            answered.clear()
        # Without its attributes, a call of one axis may be one of rank 0.
        if _size(flat := squeezed(best[1])) < best[0]:
            shows(flat)
        ended_early = before

    if not shows(call):
        return None
    leave_out_surroundings()
    assert best is not None
    # If no draw shows it (NoSuchExample), or Hypothesis gives up, the best call so far stands.
    with suppress(HypothesisException):
        find(
            smaller_calls(best[1], focus(finding, contract, ask, ask_reference, is_judged, others)),
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
    plainer()
    return Shrunk(best[1], best[3], best[2], evaluations, not ended_early)


def is_explained(contract: Contract, call: Call, outcome: Outcome | None, known: Sequence[str]) -> bool:
    """True if one of these recipes or rewrites gives every value of a call."""
    if not known or outcome is None or outcome.tensor is None:
        return False
    judged, got = verdicts.judge(contract, call), outcome.tensor
    comparison = verdicts.compared(judged, outcome)
    if judged.legal is None or comparison is None:
        return False
    recipes = list(recipes_named(contract, known))
    if not judged.legal.in_graph:
        return any(gives(contract, call, got, recipe) for recipe in recipes)
    if any(violates_by_recipe(judged, "", got, comparison, recipe.name) for recipe in recipes):
        return True
    rewrites = set(filter(is_rewrite, known))
    return bool(rewrites) and any(each.rewrite.name in rewrites for each in explanations(contract, call, got))


def _shown(finding: Finding, contract: Contract, call: Call, outcome: Outcome | None) -> frozenset[str]:
    """The tokens of the departures of a violation's recipe that a call shows."""
    if finding.key.verdict != Verdict.VIOLATION or finding.attribution is None or outcome is None:
        return frozenset()
    masks = departures_shown(verdicts.judge(contract, call), outcome, finding.attribution.reading)
    return frozenset(token for token, mask in masks.items() if mask.any())


def _is_where_seen(finding: Finding, contract: Contract, call: Call) -> bool:
    """True if a call lies in a cell that shows the finding. A ledger's entry covers these cells."""
    judgement = contract.judge(call)
    if finding.cells and judgement.verdict == "allowed":
        return verdicts.cell_of(contract, call) in finding.cells
    return judgement.verdict != "allowed" and call.data.dtype in contract.domain.x_dtypes


def _size(call: Call) -> tuple[int, ...]:
    """The sort key of calls: surroundings, sizes, layouts, plainness, then codes other than 0."""
    parameters = [t for t in call.tensors.values() if t is not call.data]
    spread = sum(int(np.count_nonzero(t.codes)) for t in call.tensors.values())
    return (
        len(call.around),
        call.values,
        len(call.data.shape),
        sum(t.size for t in parameters),
        sum(tensor.layout != "C" for tensor in call.tensors.values()),
        *plainness(call),
        spread,
        sum(not word.endswith(":0") for word in call.around),
        sum(int(digit) for word in call.around for digit in word.rpartition(":")[2] if digit.isdecimal()),
    )
