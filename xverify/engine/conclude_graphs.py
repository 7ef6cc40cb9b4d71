"""Findings on calls among neighbours that change values: the operator's own fault, or a rewrite of the graph."""

from __future__ import annotations

from dataclasses import dataclass

from xverify.contracts.model import Cell
from xverify.core.call import Call, Outcome
from xverify.core.verdict import Verdict
from xverify.engine.record import record
from xverify.engine.state import RunState
from xverify.verify import verdicts
from xverify.verify.findings import Discrepancy, Subject
from xverify.verify.rewrites import Rewrite, explain, follows, violates_in_graph, without_changes
from xverify.verify.verdicts import Judged


@dataclass(frozen=True, eq=False)
class GraphFault:
    """A call whose graph gave wrong values."""

    subject: Subject
    cell: Cell
    judged: Judged
    outcome: Outcome
    lone: Cell | None
    """The cell of the lone call if its wrong result leads to the graph's; None if the graph was rewritten."""
    rewrite: Rewrite | None = None
    """The rewrite that explains the values; None if none does."""


def blame_graphs(state: RunState) -> list[GraphFault]:
    """Ask for the lone call of each graph with wrong values, and count its wrong values among those of lone calls."""
    return [
        _blamed(state, subject, cell, judged, outcome)
        for subject, cell, tally in state.tally.in_graphs()
        for judged, outcome in tally.graphs
    ]


def _blamed(state: RunState, subject: Subject, cell: Cell, judged: Judged, outcome: Outcome) -> GraphFault:
    contract, got = judged.contract, outcome.tensor
    assert got is not None
    lone, answer = _lone(state, subject, judged)
    own = None if answer is None else verdicts.compared(lone, answer)
    is_wrong = own is not None and own.wrong_values > 0
    if is_wrong and answer and answer.tensor and follows(contract, judged.call, got, answer.tensor):
        state.tally.observe(lone, subject, answer, is_judged=True)
        return GraphFault(subject, cell, judged, outcome, lone.cell)
    return GraphFault(subject, cell, judged, outcome, None, explain(contract, judged.call, got))


def _lone(state: RunState, subject: Subject, judged: Judged) -> tuple[Judged, Outcome | None]:
    """The call without the words that change values, and its outcome; None if the worker is lost."""
    call: Call = without_changes(judged.call)
    lone = verdicts.judge(judged.contract, call, judged.number)
    return lone, None if subject.name in state.pool.failures else state.pool.ask(subject, call)


def record_graphs(state: RunState, faults: list[GraphFault]) -> None:
    """Record a finding for each rewrite. A cell whose values follow from lone calls joins their finding."""
    for fault in faults:
        if fault.lone is not None:
            _join(state, fault, fault.lone)
            continue
        comparison, got = verdicts.compared(fault.judged, fault.outcome), fault.outcome.tensor
        assert comparison is not None
        assert got is not None
        name = None if fault.rewrite is None else fault.rewrite.name
        discrepancy = violates_in_graph(fault.judged, fault.subject.name, got, comparison, name)
        if discrepancy is not None:
            record(state, discrepancy, fault.subject, fault.judged, fault.outcome)


def by_rewrite(subject: Subject, discrepancy: Discrepancy, judged: Judged, outcome: Outcome) -> Discrepancy:
    """The discrepancy of a graph that moves data, by the rewrite that explains it if no recipe does."""
    got = outcome.tensor
    if discrepancy.attribution is not None or not judged.call.around or got is None:
        return discrepancy
    rewrite, comparison = explain(judged.contract, judged.call, got), verdicts.compared(judged, outcome)
    if rewrite is None or comparison is None:
        return discrepancy
    return violates_in_graph(judged, subject.name, got, comparison, rewrite.name) or discrepancy


def _join(state: RunState, fault: GraphFault, lone: Cell) -> None:
    for finding in state.findings.sorted():
        key = finding.key
        if (key.subject, key.verdict) == (fault.subject.name, Verdict.VIOLATION) and lone in finding.cells:
            finding.cells.add(fault.cell)
            return
