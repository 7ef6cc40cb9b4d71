"""Findings on calls among neighbours that change values: the operator's fault, or a rewrite."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from xverify.contracts.model import Cell
from xverify.core.call import Outcome, Tensor
from xverify.core.verdict import Verdict
from xverify.engine.record import record
from xverify.engine.state import RunState
from xverify.verify import verdicts
from xverify.verify.attribute import CheckedResult, Zeros, is_misreading
from xverify.verify.findings import Discrepancy, Subject
from xverify.verify.graph_recipes import explain_by_recipe, violates_by_recipe
from xverify.verify.rewrites import (
    Explanation,
    differs_where_wrong,
    explain,
    explanations,
    follows,
    violates_in_graph,
    without_changes,
)
from xverify.verify.rewritten_graphs import Rewrite, is_zeroed
from xverify.verify.verdicts import Judged

MOST_REPETITIONS = 3
"""Number of times that a call is made again if nothing explains its values. Memory that was never written may differ."""


Whose = tuple[str, str]
"""An implementation and an edition, by name. What an edition shows must not depend on the other editions of a session."""


@dataclass(frozen=True, eq=False)
class GraphFault:
    """A call whose graph gave wrong values."""

    subject: Subject
    cell: Cell
    judged: Judged
    outcome: Outcome
    lone: Cell | None
    """The cell of the lone call if its wrong result leads to the graph's; None if the graph was rewritten."""
    suspect: Cell | None = None
    """The cell of the lone call if the graph is wrong only where the lone call is."""
    rewrite: Rewrite | None = None
    """The rewrite that explains the values; None if none does."""
    explanations: tuple[Explanation, ...] = ()
    """Every rewrite that explains the values, the simplest first."""

    @property
    def whose(self) -> Whose:
        return self.subject.name, self.cell.contract


def blame_graphs(state: RunState) -> list[GraphFault]:
    """Ask for the lone call of each faulty graph, and count its wrong values among those of lone calls.

    Often several rewrites explain a graph. The one that explains most graphs of the implementation under the edition is taken.
    Past the budget, only rewrites are tried that earlier graphs showed clearly.
    """
    faults: list[GraphFault] = []
    clear: defaultdict[Whose, set[str]] = defaultdict(set)
    for subject, cell, tally in state.tally.in_graphs():
        for judged, outcome in tally.graphs:
            whose = subject.name, cell.contract
            among = clear[whose] if state.is_past_budget() else None
            faults.append(_blamed(state, subject, cell, judged, outcome, among))
            clear[whose].update(each.rewrite.name for each in faults[-1].explanations if each.is_strong)
    shown = shown_rewrites(faults)
    return [
        replace(fault, rewrite=likeliest(fault.explanations, shown[fault.whose])) if fault.explanations else fault
        for fault in faults
    ]


def shown_rewrites(faults: Sequence[GraphFault]) -> defaultdict[Whose, Counter[str]]:
    """The number of graphs that each rewrite explains, by implementation and edition.

    Rewrites that no graph shows clearly, alone or before another mistake, are left out.
    """
    counts: defaultdict[Whose, Counter[str]] = defaultdict(Counter)
    clear: defaultdict[Whose, set[str]] = defaultdict(set)
    for fault in faults:
        counts[fault.whose].update(each.rewrite.name for each in fault.explanations)
        clear[fault.whose].update(each.rewrite.name for each in fault.explanations if each.is_strong)
    for whose, counter in counts.items():
        for rewrite in list(counter):
            if not any(shown == rewrite or shown.startswith(f"{rewrite}:") for shown in clear[whose]):
                del counter[rewrite]
    return counts


def likeliest(explanations: Sequence[Explanation], shown: Counter[str]) -> Rewrite | None:
    """The rewrite that explains most graphs of an implementation; None if none is shown clearly.

    Args:
        explanations: The rewrites that explain a graph, the simplest first.
        shown: The number of graphs that each rewrite explains.
    """
    rewrites = [each.rewrite for each in explanations if each.rewrite.name in shown]
    return max(rewrites, key=lambda rewrite: shown[rewrite.name], default=None)


def likely_rewrites(faults: Sequence[GraphFault]) -> defaultdict[Whose, set[str]]:
    """The names of the rewrites that explain graphs, by implementation and edition."""
    likely: defaultdict[Whose, set[str]] = defaultdict(set)
    for fault in faults:
        likely[fault.whose].update([] if fault.rewrite is None else [fault.rewrite.name])
    return likely


@dataclass(frozen=True, eq=False)
class _Alone:
    """A lone call with wrong values."""

    judged: Judged
    outcome: Outcome
    result: Tensor
    wrong: NDArray[np.bool_]


def _blamed(
    state: RunState, subject: Subject, cell: Cell, judged: Judged, outcome: Outcome, among: Collection[str] | None
) -> GraphFault:
    """The fault of a graph. A lone call that shows it too is counted as a call of its cell.

    Args:
        state: the run.
        subject: the implementation.
        cell: the graph's cell.
        judged: the call.
        outcome: its outcome.
        among: names of the rewrites to try; None for every one.
    """
    alone = _alone(state, subject, judged)
    if not _follows(judged, outcome, alone):
        # Other words may have made other mistakes.
        judged, outcome = _fewest_words(state, subject, judged, outcome)
        alone = _alone(state, subject, judged)
    if alone is not None and _follows(judged, outcome, alone):
        state.tally.observe(alone.judged, subject, alone.outcome, is_judged=True)
        return GraphFault(subject, cell, judged, outcome, alone.judged.cell)
    assert outcome.tensor is not None
    suspect = None
    if alone is not None and differs_where_wrong(
        judged.contract, judged.call, outcome.tensor, alone.result, alone.wrong
    ):
        state.tally.observe(alone.judged, subject, alone.outcome, is_judged=True)
        suspect = alone.judged.cell
    every = explanations(judged.contract, judged.call, outcome.tensor, among)
    if suspect is not None:  # the lone call may give these zeros
        every = [each for each in every if not is_zeroed(each.rewrite.name)]
    return GraphFault(subject, cell, judged, outcome, None, suspect, explanations=tuple(every))


def _follows(judged: Judged, outcome: Outcome, alone: _Alone | None) -> bool:
    """True if the lone call is wrong, and its result leads to the graph's."""
    assert outcome.tensor is not None
    return alone is not None and follows(judged.contract, judged.call, outcome.tensor, alone.result)


def _fewest_words(state: RunState, subject: Subject, judged: Judged, outcome: Outcome) -> tuple[Judged, Outcome]:
    """The same operands in the smallest surroundings that still give wrong values.

    An explanation of fewer operators is likelier to be the right one, and tells apart what each operator does wrong.
    """
    smaller = True
    while smaller and subject.name not in state.pool.failures and not (state.ended() or state.is_time_to_shrink()):
        smaller = False
        for index in range(len(judged.call.around)):
            around = (*judged.call.around[:index], *judged.call.around[index + 1 :])
            candidate = verdicts.judge(judged.contract, replace(judged.call, around=around), judged.number)
            if candidate.legal is None or not candidate.legal.in_graph:
                continue
            answer = state.pool.ask(subject, candidate.call)
            comparison = verdicts.compared(candidate, answer)
            if comparison is not None and comparison.wrong_values:
                judged, outcome, smaller = candidate, answer, True
                break
    return judged, outcome


def _alone(state: RunState, subject: Subject, judged: Judged) -> _Alone | None:
    """The call without the words that change values; None if its values are right, or the worker is lost.

    The call goes without any words if the others are refused, as an optimiser's mistake may do.
    """
    for call in (without_changes(judged.call), replace(judged.call, around=())):
        if subject.name in state.pool.failures:
            return None
        lone = verdicts.judge(judged.contract, call, judged.number)
        answer = state.pool.ask(subject, call)
        if answer.tensor is not None or not call.around:
            break
    comparison = verdicts.compared(lone, answer)
    if comparison is None or not comparison.wrong_values or answer.tensor is None:
        return None
    return _Alone(lone, answer, answer.tensor, comparison.wrong)


def record_graphs(state: RunState, faults: list[GraphFault]) -> None:
    """Record a finding for each rewrite, or for each recipe of the operator that lone calls do not show.

    A cell whose values follow from lone calls joins their finding. So does a cell that nothing explains, and that is wrong only
    where lone calls are. A graph that nothing explains is nondeterministic if it gives other values the next time.
    """
    # Recipes that some graphs show clearly explain others of few values.
    left = [fault for fault in faults if not _record_named(state, fault)]
    for fault in left:
        if not _record_named(state, fault) and not (fault.suspect is not None and _joins(state, fault, fault.suspect)):
            discrepancy = _not_repeated(state, fault) or _unexplained(fault)
            if discrepancy is not None:
                record(state, discrepancy, fault.subject, fault.judged, fault.outcome)


def _record_named(state: RunState, fault: GraphFault) -> bool:
    """Record a graph by its lone call, a rewrite or a recipe; False if none explains it."""
    if fault.lone is not None and _joins(state, fault, fault.lone):
        return True
    judged, name = fault.judged, fault.subject.name
    comparison, got = verdicts.compared(judged, fault.outcome), fault.outcome.tensor
    assert comparison is not None
    assert got is not None
    discrepancy = None
    if fault.rewrite is not None:
        discrepancy = violates_in_graph(judged, name, got, comparison, fault.rewrite.name)
    elif by := explain_by_recipe(
        judged.contract, judged.call, got, _recipes(state, fault.whose), others=not state.is_past_budget()
    ):
        discrepancy = violates_by_recipe(judged, name, got, comparison, by.recipe.name, by.equal)
    if discrepancy is not None and not _shown_alone(state, fault, discrepancy):
        record(state, discrepancy, fault.subject, judged, fault.outcome)
    return discrepancy is not None


def _unexplained(fault: GraphFault) -> Discrepancy | None:
    comparison, got = verdicts.compared(fault.judged, fault.outcome), fault.outcome.tensor
    assert comparison is not None
    assert got is not None
    return violates_in_graph(fault.judged, fault.subject.name, got, comparison, None)


def _not_repeated(state: RunState, fault: GraphFault) -> Discrepancy | None:
    """The discrepancy of a graph that gives another result the next time; None if it does not."""
    for _ in range(MOST_REPETITIONS):
        if fault.subject.name in state.pool.failures:
            break
        again = state.pool.ask(fault.subject, fault.judged.call)
        unlike = verdicts.nondeterministic(fault.judged, fault.subject.name, fault.outcome, again)
        if unlike is not None:
            return unlike
    return None


def _recipes(state: RunState, whose: Whose) -> list[str]:
    """The names of the recipes that explain findings of an implementation and edition, commonest first."""
    counts: Counter[str] = Counter()
    for finding in state.findings.sorted():
        if (finding.key.subject, finding.key.contract) == whose and finding.attribution is not None:
            counts.update({finding.attribution.reading, *finding.equal})
    return sorted(counts, key=lambda recipe: (-counts[recipe], recipe))


def _shown_alone(state: RunState, fault: GraphFault, discrepancy: Discrepancy) -> bool:
    """Add the cell to the finding of lone calls with the same recipe; False if there is none."""
    finding = state.findings.of(discrepancy.key)
    if finding is None or finding.call is None or without_changes(finding.call) != finding.call:
        return False
    finding.cells.add(fault.cell)
    return True


def by_rewrite(
    subject: Subject,
    discrepancy: Discrepancy,
    judged: Judged,
    outcome: Outcome,
    wrong: Sequence[tuple[Judged, CheckedResult]] = (),
    likely: Collection[str] = (),
    is_late: bool = False,
) -> Discrepancy:
    """The discrepancy of a graph that moves data, by the rewrite that explains it if no recipe does.

    Args:
        subject: the implementation.
        discrepancy: the discrepancy by a recipe, if one is known.
        judged: the call that shows it.
        outcome: its outcome.
        wrong: the kept calls of the cell with wrong values.
        likely: names of rewrites that other graphs of the implementation and the edition show.
        is_late: True to try only the likely rewrites. Others take time.
    """
    got = outcome.tensor
    if is_late and not likely:
        return discrepancy
    if not judged.call.around or got is None or not (discrepancy.attribution is None or _in_graphs(discrepancy, wrong)):
        return discrepancy
    comparison = verdicts.compared(judged, outcome)
    if comparison is None:
        return discrepancy
    among = likely if is_late else None
    explained = [explanations(each.contract, each.call, seen.got, among) for each, seen in wrong]
    clear = {each.rewrite.name for every in explained for each in every if each.is_strong}.union(likely)
    rewrite = explain(judged.contract, judged.call, got, clear, among)
    if rewrite is None:
        return discrepancy
    if discrepancy.attribution is not None:
        rewritten = [every for every in explained if any(each.rewrite.name in clear for each in every)]
        if 2 * len(rewritten) < len(wrong):
            return discrepancy
    return violates_in_graph(judged, subject.name, got, comparison, rewrite.name) or discrepancy


def _in_graphs(discrepancy: Discrepancy, wrong: Sequence[tuple[Judged, CheckedResult]]) -> bool:
    """True if graphs alone show zeros, an indexing mistake or a recipe of some values.

    An added pair of uint8 looks like these.
    """
    by = discrepancy.attribution
    is_doubtful = by is not None and (by.reading == Zeros.name or is_misreading(by.reading) or by.elsewhere is not None)
    return is_doubtful and bool(wrong) and all(each.call.around for each, _ in wrong)


def _joins(state: RunState, fault: GraphFault, lone: Cell) -> bool:
    """Add the cell to the finding of the lone call's cell; False if there is none.

    The graph then needs a finding of its own.
    """
    for finding in state.findings.sorted():
        key = finding.key
        if (key.subject, key.verdict) == (fault.subject.name, Verdict.VIOLATION) and lone in finding.cells:
            finding.cells.add(fault.cell)
            return True
    return False
