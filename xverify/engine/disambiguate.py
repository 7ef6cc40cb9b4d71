"""Calls that tell apart the readings that remain for a cell, at the end of a run.

Each implementation is asked only what tells apart its own remaining readings, so this comes when all batches are in: the
order in which outcomes arrive must not change what is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xverify.arithmetic.reading import Reading
from xverify.contracts.model import Cell, Contract
from xverify.core.call import Call, encode_call
from xverify.strategies import simplest
from xverify.strategies.disambiguate import cell_call, distinguishing_calls, simplified_for_cell
from xverify.verify.findings import Subject
from xverify.verify.tally import CellTally
from xverify.verify.verdicts import Judged, judge

if TYPE_CHECKING:
    from xverify.engine.run import Sweep  # which calls `tell_apart`

ROUNDS = 3
"""How often a cell's remaining readings are looked at again, with other triples."""

CELLS = 32
"""Cells whose calls go out together."""

BEYOND = 1 << 40
"""Numbers of these calls are higher than those of all others, which are earlier witnesses."""


@dataclass(frozen=True, eq=False)
class _Question:
    """Calls that one implementation is asked, in their wire form."""

    subject: Subject
    contract: Contract
    calls: tuple[tuple[bytes, Call], ...]


def classes(
    contract: Contract, cell: Cell, readings: Sequence[Reading], call: Call | None = None
) -> list[list[Reading]]:
    """The readings grouped by what is proven equal on the cell; groups and readings in the order given. call: the cell's, if
    it was made already."""
    if len(readings) < 2:
        return [[reading] for reading in readings]
    call = call or cell_call(contract, cell)
    groups: dict[Reading, list[Reading]] = {}
    for reading in readings:
        groups.setdefault(simplified_for_cell(contract, call, reading), []).append(reading)
    return list(groups.values())


def remaining(sweep: Sweep, cell: Cell, tally: CellTally) -> list[Reading]:
    """The readings that give every value of a cell so far: the admitted ones, then the others."""
    admitted = sweep.readings_of(sweep.contract(cell.contract))
    alive = [reading for reading in admitted if reading.name in (tally.alive or ())]
    # A reading that admits a flushed value does not give it.
    return [*([] if tally.flushed else alive), *(tally.evidence.others or ())]


def tell_apart(sweep: Sweep, limit: Callable[[], bool]) -> None:
    """Ask what tells apart the readings that remain for each implementation and cell, and count the answers.

    To be called when no batch is under way, and before the run concludes. limit: whether the time has run out; an
    interrupted run, or one out of time, asks less.
    """
    sweep.tally.settle()
    known: dict[bytes, Judged] = {}
    told: set[tuple[Subject, Cell]] = set()
    for turn in range(ROUNDS):
        seed = (sweep.options.seed * ROUNDS + turn) % 2**32
        asked = False
        before: list[tuple[str, list[_Question]]] = []
        cells = _cells(sweep, told)
        for start in range(0, len(cells), CELLS):
            if limit() or sweep.interrupted.is_set():
                _receive(sweep, before, known)
                return
            sent = _send(sweep, _questions(sweep, cells[start : start + CELLS], seed, turn, told))
            _receive(sweep, before, known)
            before, asked = sent, asked or bool(sent)
        _receive(sweep, before, known)
        if not asked:
            return


Place = tuple[Subject, Cell, CellTally]


def _cells(sweep: Sweep, told: set[tuple[Subject, Cell]]) -> list[Place]:
    """What may have more than one reading left, in a fixed order."""
    places = [
        (subject, cell, tally)
        for (subject, cell), tally in sweep.tally.cells.items()
        if (subject, cell) not in told
        and not tally.open
        and tally.answered
        and tally.evidence.values
        and sweep.tally.judged_by[subject, cell.contract]
        and subject.name not in sweep.fleet.failures
    ]
    return sorted(places, key=lambda place: (place[1], place[0].label))


def _questions(
    sweep: Sweep, places: Sequence[Place], seed: int, turn: int, told: set[tuple[Subject, Cell]]
) -> Iterator[_Question]:
    for subject, cell, tally in places:
        contract = sweep.contract(cell.contract)
        left = remaining(sweep, cell, tally)
        call = cell_call(contract, cell) if len(left) > 1 else None
        groups = classes(contract, cell, left, call)
        if call is None or len(groups) < 2:
            told.add((subject, cell))
            continue
        # An implementation that refuses some calls of the cell may answer those whose zero point is 0.
        call = simplest(contract, cell) if tally.rejected and turn else call
        found = distinguishing_calls(contract, call, tuple(group[0] for group in groups), seed)
        allowed = [call for call in found.calls if contract.judge(call).verdict == "allowed"]
        if not allowed:
            tally.evidence.tried += found.tried
            continue
        yield _Question(subject, contract, tuple((encode_call(call), call) for call in allowed))


def _send(sweep: Sweep, questions: Iterator[_Question]) -> list[tuple[str, list[_Question]]]:
    """Send each implementation its questions; who was asked what, in the order in which they are answered."""
    to: dict[str, list[_Question]] = {}
    for question in questions:
        to.setdefault(question.subject.name, []).append(question)
    for name, listed in to.items():
        requests = [
            (encode_call(call.under(question.contract.asked_as)), question.subject.options)
            for question in listed
            for _, call in question.calls
        ]
        sweep.fleet.workers[name].submit(requests)
    return list(to.items())


def _receive(sweep: Sweep, sent: Sequence[tuple[str, list[_Question]]], known: dict[bytes, Judged]) -> None:
    for name, questions in sent:
        outcomes = sweep.fleet.oldest(name, sweep.interrupted)
        asked = [(question, blob, call) for question in questions for blob, call in question.calls]
        for (question, blob, call), outcome in zip(asked, outcomes, strict=False):
            if outcome.kind == "spared":
                sweep.spared[question.subject.label] += 1
                continue
            if blob not in known:
                known[blob] = judge(question.contract, call, BEYOND + len(known))
            judged, subject = known[blob], question.subject
            is_judged = sweep.fleet.judges(question.contract, subject.name)
            for found in sweep.tally.observe(judged, subject, outcome, is_judged):
                sweep.add(found, subject, judged, outcome)
