"""Phase: calls that distinguish the readings that remain for a cell.

Each implementation gets only calls that distinguish its own remaining readings. This phase therefore begins when all batches
are answered: the order in which outcomes arrive must not change the calls.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from xverify.arithmetic.reading import Reading
from xverify.contracts.model import Cell, Contract
from xverify.core.call import Call, encode_call
from xverify.engine.plan import derived_seed
from xverify.engine.record import record
from xverify.engine.state import RunState
from xverify.strategies import simplest
from xverify.strategies.disambiguate import cell_call, distinguishing_calls, simplified_for_cell
from xverify.verify.evidence import BEYOND
from xverify.verify.findings import Subject
from xverify.verify.tally import CellTally
from xverify.verify.verdicts import Judged, judge

ROUNDS = 3
"""Rounds of calls for the remaining readings of a cell, each with other triples of operands."""

CELLS = 32
"""Cells whose calls go out together."""


@dataclass(frozen=True, eq=False)
class _Question:
    """Calls for one implementation."""

    subject: Subject
    contract: Contract
    calls: tuple[tuple[bytes, Call], ...]
    """Each call with its encoded form."""


JudgedCalls = dict[str, dict[bytes, Judged]]
"""The calls of this phase, numbered within their edition: by its id, and by the encoded call."""


def classes(
    contract: Contract, cell: Cell, readings: Sequence[Reading], call: Call | None = None
) -> list[list[Reading]]:
    """Group readings that are proven equal on a cell; groups and readings keep their order.

    Args:
        call: A call of the cell, if one was made already.
    """
    if len(readings) < 2:
        return [[reading] for reading in readings]
    call = call or cell_call(contract, cell)
    groups: dict[Reading, list[Reading]] = {}
    for reading in readings:
        groups.setdefault(simplified_for_cell(contract, call, reading), []).append(reading)
    return list(groups.values())


def remaining(state: RunState, cell: Cell, tally: CellTally) -> list[Reading]:
    """The readings that give every value of a cell so far: the admitted ones, then the others."""
    admitted = state.readings_of(state.contract(cell.contract))
    alive = [reading for reading in admitted if reading.name in (tally.alive or ())]
    # A reading that admits a flushed value does not give it.
    return [*([] if tally.flushed else alive), *(tally.evidence.others or ())]


def disambiguate(state: RunState) -> None:
    """Distinguish remaining readings within this phase's share of the budget."""
    tell_apart(state, partial(state.out_of, 1 - state.end_share))


def tell_apart(state: RunState, limit: Callable[[], bool]) -> None:
    """Send calls that distinguish the remaining readings of each implementation and cell.

    It runs when no batch is under way, and before the run concludes. An interrupted run sends fewer calls.

    Args:
        limit: True if no further calls are to be sent.
    """
    state.tally.settle()
    is_overdue = state.overdue(limit, state.patience)
    judged_calls: JudgedCalls = defaultdict(dict)
    settled: set[tuple[Subject, Cell]] = set()
    # An edition has another round only if its own last one sent a call, whatever the others did.
    open_editions = {contract.id for contract in state.options.contracts}
    for turn in range(ROUNDS):
        sent_editions: set[str] = set()
        before: list[tuple[str, list[_Question]]] = []
        cells = [entry for entry in _cells(state, settled) if entry[1].contract in open_editions]
        for start in range(0, len(cells), CELLS):
            if limit() or state.interrupted.is_set():
                _receive(state, before, judged_calls, is_overdue)
                return
            sent = _send(state, _questions(state, cells[start : start + CELLS], turn, settled))
            _receive(state, before, judged_calls, is_overdue)
            before = sent
            sent_editions |= {question.contract.id for _, listed in sent for question in listed}
        _receive(state, before, judged_calls, is_overdue)
        open_editions = sent_editions


OpenCell = tuple[Subject, Cell, CellTally]


def _cells(state: RunState, settled: set[tuple[Subject, Cell]]) -> list[OpenCell]:
    """The cells that may have more than one reading left, in a fixed order."""
    cells = [
        (subject, cell, tally)
        for (subject, cell), tally in state.tally.cells.items()
        if (subject, cell) not in settled
        and not tally.open
        and tally.answered
        and tally.evidence.values
        and state.tally.judged_by[subject, cell.contract]
        and subject.name not in state.pool.failures
    ]
    return sorted(cells, key=lambda entry: (entry[1].sort_key(), entry[0].label))


def _questions(
    state: RunState, cells: Sequence[OpenCell], turn: int, settled: set[tuple[Subject, Cell]]
) -> Iterator[_Question]:
    for subject, cell, tally in cells:
        contract = state.contract(cell.contract)
        left = remaining(state, cell, tally)
        call = cell_call(contract, cell) if len(left) > 1 else None
        groups = classes(contract, cell, left, call)
        if call is None or len(groups) < 2:
            settled.add((subject, cell))
            continue
        # An implementation that refuses some calls of the cell may answer those whose zero point is 0.
        call = simplest(contract, cell) if tally.rejected and turn else call
        seed = _seed(state, contract, turn)
        made = distinguishing_calls(contract, call, tuple(group[0] for group in groups), seed)
        allowed = [call for call in made.calls if contract.judge(call).verdict == "allowed"]
        if not allowed:
            tally.evidence.tried += made.tried
            continue
        yield _Question(subject, contract, tuple((encode_call(call), call) for call in allowed))


def _seed(state: RunState, contract: Contract, turn: int) -> int:
    """The seed of a round. Each slice of an edition has its own."""
    purpose = state.options.part(contract).slice.purpose
    return (derived_seed(state.options.seed, turn, *purpose) if purpose else state.options.seed * ROUNDS + turn) % 2**32


def _send(state: RunState, questions: Iterator[_Question]) -> list[tuple[str, list[_Question]]]:
    """Send each implementation its questions.

    Returns:
        The questions of each implementation, in the order of their answers.
    """
    to: dict[str, list[_Question]] = {}
    for question in questions:
        to.setdefault(question.subject.name, []).append(question)
    for name, listed in to.items():
        requests = [
            (encode_call(call.under(question.contract.asked_as)), question.subject.options)
            for question in listed
            for _, call in question.calls
        ]
        state.pool.workers[name].submit(requests)
    return list(to.items())


def _receive(
    state: RunState,
    sent: Sequence[tuple[str, list[_Question]]],
    judged_calls: JudgedCalls,
    is_overdue: Callable[[], bool],
) -> None:
    for name, questions in sent:
        outcomes = state.pool.collect_oldest(name, state.interrupted, is_overdue)
        sent_calls = [(question, blob, call) for question in questions for blob, call in question.calls]
        for (question, blob, call), outcome in zip(sent_calls, outcomes, strict=False):
            if outcome.kind == "spared":
                state.spared_calls[question.subject.label] += 1
                continue
            of_edition = judged_calls[question.contract.id]
            if blob not in of_edition:
                of_edition[blob] = judge(question.contract, call, BEYOND + len(of_edition))
            judged, subject = of_edition[blob], question.subject
            is_judged = state.pool.judges(question.contract, subject.name)
            for discrepancy in state.tally.observe(judged, subject, outcome, is_judged):
                record(state, discrepancy, subject, judged, outcome)
