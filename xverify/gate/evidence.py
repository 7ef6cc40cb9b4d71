"""The evidence that a gate needs for a pass, cell by cell.

A cell that the kernel implements needs answered ordinary calls in two ranks, and one with more elements than a vector. One rank
is enough if the edition or the kernel admits only one. After the walk, the gate sends further calls to cells that lack evidence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from xverify.contracts.model import Cell, Contract, Domain
from xverify.core.verdict import Verdict
from xverify.engine.asking import Limit, ask
from xverify.engine.gate_plan import CHUNK, EVIDENCE
from xverify.engine.plan import numbered
from xverify.engine.state import RunState
from xverify.report.decision import KEY, cells_in_words
from xverify.report.summary import plural
from xverify.strategies.learnt import holds_for
from xverify.strategies.limits import CallLimits, listed
from xverify.strategies.ordinary import SHAPES, ordinary_calls
from xverify.strategies.structures import Linear, build
from xverify.strategies.walk import VECTOR, cell_structures
from xverify.verify.ordinary import ENOUGH_RANKS, OrdinaryCalls, together
from xverify.verify.tally import CellTally
from xverify.workers.case import Case

PATIENCE = 2.0
"""Seconds that a call may take after the time for calls is over."""

MANY = 12
"""The number of different answered calls of a granularity from which the limits that the gate learnt excuse a missing rank."""

Tallies = Mapping[Cell, Sequence[CellTally]]
"""The tallies of a kernel by cell, one for each of its paths."""

_WITHOUT_RESULT = (Verdict.CRASH, Verdict.HANG, Verdict.UNREADABLE, Verdict.WRONGLY_REJECTED)
"""Verdicts on calls without a result. Where a ledger accepts them, nothing shows that the cell is computed."""

_NOT_ALLOWED = "the edition allows none of the calls that were made"

_ONLY = {
    "empty": "only calls with an empty x were answered",
    "special": "only calls with zero, infinite or NaN parameters were answered",
    "constant": "only calls with a single code of x were answered",
}


@dataclass(frozen=True)
class Lack:
    """Cells that lack the same evidence."""

    cells: tuple[Cell, ...]
    missing: str
    """The missing evidence, as a clause."""


def tallies_of(run: RunState, kernel: str) -> Tallies:
    """The tallies of a kernel's cells with allowed calls."""
    tallies: dict[Cell, list[CellTally]] = defaultdict(list)
    for (subject, cell), tally in run.tally.cells.items():
        if subject.name == kernel and not tally.open:
            tallies[cell].append(tally)
    return tallies


def cells_of(contract: Contract, within: Domain, answered: Container[Cell] = ()) -> list[Cell]:
    """The cells of an edition in a domain, each once.

    Args:
        contract: The edition.
        within: The domain.
        answered: Cells that the run has met. Each other cell costs a call, which is made but not sent.
    """
    cells: dict[Cell, None] = {}
    for structure in cell_structures(replace(contract, domain=within)):
        if isinstance(structure, Linear):
            types = structure.x_dtype, structure.scale_dtype, structure.zero_point_dtype
            out = structure.output_dtype or structure.scale_dtype
            usual = Cell(contract.id, *types, out, structure.granularity, "")
            if usual in answered:
                cells[usual] = None
                continue
            structure = replace(structure, shape=(2,) if structure.granularity == "per_tensor" else (2, 2))
        # The cell function of a user's edition may raise for a call that the edition forbids.
        with suppress(Exception):
            cells[contract.cell(build(contract, structure))] = None
    return list(cells)


def lacks(tallies: Tallies, cells: Sequence[Cell], ranks: Mapping[str, Set[int]] | None = None) -> list[Lack]:
    """The cells that lack evidence, grouped by what they lack, the largest group first.

    Args:
        tallies: The tallies of the kernel.
        cells: The cells that need evidence, unless the kernel does not implement them.
        ranks: The ranks within the limits that the gate learnt, by contract. A contract without an entry has no such limit.
    """
    ordinary = {cell: together(tally.ordinary for tally in listed) for cell, listed in tallies.items()}
    by_kind: dict[tuple[str, str], list[OrdinaryCalls]] = defaultdict(list)
    for cell, parts in tallies.items():
        if any(tally.answered for tally in parts):
            by_kind[cell.contract, cell.granularity].append(ordinary[cell])
    kinds = {kind: together(calls) for kind, calls in by_kind.items()}
    by_lack: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        missing = _NOT_ALLOWED
        if cell in tallies:
            kind = kinds.get((cell.contract, cell.granularity), OrdinaryCalls())
            missing = _missing(tallies[cell], ordinary[cell], kind, (ranks or {}).get(cell.contract))
        if missing:
            by_lack[missing].append(cell)
    return [Lack(tuple(listed), missing) for missing, listed in sorted(by_lack.items(), key=lambda item: -len(item[1]))]


def _missing(tallies: Sequence[CellTally], calls: OrdinaryCalls, kind: OrdinaryCalls, ranks: Set[int] | None) -> str:
    """The evidence that a cell lacks; "" if it has enough, or if the kernel does not implement it.

    Args:
        tallies: The tallies of the cell.
        calls: The ordinary calls of the cell.
        kind: The ordinary calls of all cells of its granularity that the kernel implements.
        ranks: The ranks that the kernel takes; None for all.
    """
    answered = sum(tally.answered for tally in tallies)
    if not answered:
        return "" if any(tally.unsupported for tally in tallies) else "no call was answered"
    if not calls.answered:
        others = [reason for reason, count in calls.others.items() if count]
        return _ONLY[others[0]] if len(others) == 1 else "no call with ordinary values was answered"
    if calls.largest <= min(VECTOR, kind.largest_sent - 1):
        return f"no answered call has more than {VECTOR} elements"
    # A rank is not needed if the kernel does not implement it in this cell, or in any cell of the granularity.
    possible = kind.sent - kind.declared() - calls.declared()
    if ranks is not None and kind.different() >= MANY:
        possible = possible & ranks
    if len(calls.answered) < min(ENOUGH_RANKS, len(possible)):
        rank = min(calls.answered)
        return f"only calls of rank {rank} were answered, not of rank {listed(sorted(possible - {rank}))}"
    return ""


def ask_for_evidence(run: RunState, kernel: str, domains: Mapping[str, Domain], limit: Limit) -> None:
    """Send ordinary calls of the cells that lack evidence, rank after rank.

    Args:
        run: The run.
        kernel: The name of the kernel.
        domains: The tested domain of each edition.
        limit: Sending ends when it returns True.
    """
    for rank in SHAPES:
        tallies = tallies_of(run, kernel)
        needed = {name: cells_of(run.contract(name), domain, tallies) for name, domain in domains.items()}
        ranks = learnt_ranks(run)
        own = {name: {cell: tallies[cell] for cell in tallies if cell.contract == name} for name in needed}
        lacking = {
            name: [cell for lack in lacks(own[name], cells, ranks) for cell in lack.cells]
            for name, cells in needed.items()
        }
        if limit() or not any(lacking.values()):
            return
        streams = {
            name: numbered(_batches(run, name, cells, rank), EVIDENCE + (rank << 20))
            for name, cells in lacking.items()
            if cells
        }
        ask(run, streams, limit, patience=PATIENCE)


def _batches(run: RunState, name: str, cells: Sequence[Cell], rank: int) -> Iterator[list[Case]]:
    # The calls come from the edition itself, also if an implementation to match judges them.
    text = next(text for text in run.options.texts or run.options.contracts if text.id == name)
    repair, stated = run.repair(text), run.scopes[name].stated if name in run.scopes else CallLimits()
    batch: list[Case] = []
    for cell in cells:
        # A call outside the limits that the gate learnt still shows what the kernel does not implement.
        within = ordinary_calls(text, cell, rank, repair)
        call = next(within, None) or next(filter(stated.holds, ordinary_calls(text, cell, rank)), None)
        batch += [] if call is None else [Case(call, 0, "evidence")]
        if len(batch) == CHUNK:
            yield batch
            batch = []
    if batch:
        yield batch


def learnt_ranks(run: RunState) -> dict[str, frozenset[int]]:
    """The ranks that the kernel takes, for each edition whose calls it takes by rank.

    Limits that the gate learnt count only if the kernel answers most calls within them.
    """
    ranks: dict[str, frozenset[int]] = {}
    for name, scope in run.scopes.items():
        taken = frozenset(rank for rank in scope.limits.values("rank") if isinstance(rank, int))
        if not taken or name not in run.reach:
            continue
        rows = [counts for row, counts in run.reach[name].records.items() if holds_for(scope.limits, row)]
        if sum(answered for answered, _ in rows) > max(1, sum(refused for _, refused in rows)):
            ranks[name] = taken
    return ranks


def excused(run: RunState, kernel: str) -> set[Cell]:
    """The cells whose calls the kernel refuses, or in which it dies, by findings that the ledger accepts."""
    return {
        cell
        for finding in run.findings.sorted()
        if finding.key.subject == kernel
        and finding.standing.state == "known"
        and finding.key.verdict in _WITHOUT_RESULT
        for cell in finding.cells
    }


def evidence_of(run: RunState, kernel: str, domains: Mapping[str, Domain], is_like: bool) -> dict[str, Any]:
    """The evidence of a run as data, for ``report["gate"]["evidence"]``.

    Args:
        run: The run.
        kernel: The name of the kernel.
        domains: The tested domain of each edition.
        is_like: True if an implementation stands for the editions. It may refuse whole cells.
    """
    tallies, accepted = tallies_of(run, kernel), excused(run, kernel)
    every = [cell for name, domain in domains.items() for cell in cells_of(run.contract(name), domain, tallies)]
    # An implementation to match, and limits that the user stated, may leave out whole cells.
    partial = {name for name in domains if is_like or (name in run.scopes and run.scopes[name].stated)}
    cells = [cell for cell in every if cell not in accepted and (cell in tallies or cell.contract not in partial)]
    everywhere = {_key(cell) for cell in (*tallies, *cells)}
    return {
        "allowed_calls": sum(tally.cases for listed in tallies.values() for tally in listed),
        "answered_calls": sum(tally.answered for listed in tallies.values() for tally in listed),
        "unsupported_calls": sum(tally.unsupported for listed in tallies.values() for tally in listed),
        "cells": len(cells),
        "lacking": [
            {
                "cells": len(lack.cells),
                "where": "; ".join(cells_in_words({_key(cell) for cell in lack.cells}, everywhere)),
                "missing": lack.missing,
            }
            for lack in lacks(tallies, cells, learnt_ranks(run))
        ],
    }


def _key(cell: Cell) -> tuple[str, ...]:
    return tuple(getattr(cell, field) for field in KEY)


def sentence(evidence: Mapping[str, Any]) -> str:
    """The reason why a gate without enough evidence cannot decide; "" if there is enough."""
    lacking = evidence["lacking"]
    if not lacking:
        return ""
    count = sum(group["cells"] for group in lacking)
    first = lacking[0]
    more = f"; and {plural(len(lacking) - 1, 'other group')}" if len(lacking) > 1 else ""
    return (
        f"{count} of {plural(evidence['cells'], 'cell')} {'lacks' if count == 1 else 'lack'} evidence: "
        f"{first['where']}: {first['missing']}{more}; to leave them out, refuse all of their calls with NotImplementedError, "
        "or test less (--x-dtypes, --scale-dtypes, --granularity)"
    )
