"""The cells that an implementation supports, found with the simplest call of a cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xverify.contracts.model import Cell
from xverify.core.call import Call
from xverify.engine.state import RunState
from xverify.strategies import simplest
from xverify.verify.findings import Subject
from xverify.verify.verdicts import Judged


def answers_nothing(state: RunState, name: str) -> bool:
    """True if an implementation that must take every allowed call answered no call of the walk."""
    return state.options.rules.every_call and state.cases_by_phase["walk"] > 0 and name not in state.tally.answering


def supports(state: RunState, subject: Subject, judged: Judged) -> bool:
    """True if the implementation answers allowed calls of the cell that an open call belongs to."""
    cell = judged.contract.cell(judged.call)
    if _answered(state, (subject, cell)):
        return True
    learn_support(state, [(subject, judged)])
    return state.support.get((subject, cell), False)


def learn_support(state: RunState, pairs: Sequence[tuple[Subject, Judged]]) -> None:
    """Test at once all cells that `supports` would test one by one."""
    cells = [(subject, judged.contract.cell(judged.call)) for subject, judged in pairs]
    running = [pair for pair in cells if pair[0].name not in state.pool.failures]
    unknown = [pair for pair in running if pair not in state.support and not _answered(state, pair)]
    state.support.update({pair: not refused for pair, refused in simplest_refused(state, unknown).items()})


def simplest_refused(state: RunState, pairs: Iterable[tuple[Subject, Cell]]) -> dict[tuple[Subject, Cell], bool]:
    """For each implementation and cell, True if the simplest allowed call of the cell gives no tensor."""
    unique = list(dict.fromkeys(pairs))
    calls = [(subject, _simplest(state, cell)) for subject, cell in unique]
    outcomes = state.pool.ask_each(calls, state.interrupted)
    return {pair: outcome.kind != "tensor" for pair, outcome in zip(unique, outcomes, strict=True)}


def _simplest(state: RunState, cell: Cell) -> Call:
    """The simplest call of a cell, within the limits of the run if some call is."""
    contract = state.contract(cell.contract)
    call = simplest(contract, cell)
    return state.repair(contract)(call) or call


def _answered(state: RunState, pair: tuple[Subject, Cell]) -> bool:
    tally = state.tally.cells.get(pair)
    return tally is not None and bool(tally.answered)
