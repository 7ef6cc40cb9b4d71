"""What can be said only when all outcomes of a run are in: attribution of whole cells, refusals, differing readings, regions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from xverify.contracts.model import Cell
from xverify.engine.open_calls import conclude_open_calls
from xverify.strategies import simplest
from xverify.verify import verdicts
from xverify.verify.attribute import Recipe
from xverify.verify.findings import Finding, Key, Standing, Subject
from xverify.verify.region import region
from xverify.verify.tally import CellTally
from xverify.verify.view import Sample

if TYPE_CHECKING:
    from xverify.engine.run import Sweep  # which calls `conclude`

MOST_SAMPLES = 12
"""Calls with wrong values, and calls without, among which a finding's region is searched."""


def conclude(sweep: Sweep) -> None:
    """Add to the run's findings what is said of whole cells."""
    sweep.fleet.spare_nothing()
    sweep.tally.settle()
    _violations(sweep)
    conclude_open_calls(sweep)
    for subject, _, tally, found, judged, outcome in sweep.tally.flushes():
        by = found.attribution
        if by is not None:
            by = replace(by, explained=tally.flushed, values=tally.flushed)
        sweep.add(
            replace(found, attribution=by, values=tally.flushed), subject, judged, outcome, cases=tally.flushed_cases
        )
    departures: dict[tuple[Key, Standing], list[list[Sample]]] = defaultdict(list)
    for subject, cell, mixture, judged, outcome in sweep.tally.mixtures():
        samples = sweep.tally.cells[subject, cell].evidence.departures()
        standing = sweep.add(mixture, subject, judged, outcome, samples=samples)
        departures[mixture.key, standing].append(samples)
    _refusals(sweep)
    for subject, _, tally, found, judged, outcome in sweep.tally.ambiguities():
        cases, values = tally.departed[found.readings[0]]
        by = found.attribution
        if by is not None:
            by = replace(by, explained=values, values=values)
        samples = tally.evidence.departures()
        departing = replace(found, attribution=by, values=values)
        standing = sweep.add(departing, subject, judged, outcome, cases=cases, samples=samples)
        departures[found.key, standing].append(samples)
    for (key, standing), groups in departures.items():
        finding, samples = sweep.findings.of(key, standing), _chosen(groups)
        if finding is not None and any(sample.wrong.any() for sample in samples):
            finding.region = region(samples)


def _violations(sweep: Sweep) -> None:
    wrong: dict[tuple[Key, Standing], list[list[Sample]]] = defaultdict(list)
    pieces: dict[tuple[Key, Standing], Recipe | None] = {}
    for subject, _, tally, found, judged, outcome in sweep.tally.violations():
        by = found.attribution
        if by is not None:
            by = replace(by, explained=_explained(tally), values=tally.wrong)
        equal = tuple(reading.name for reading in tally.evidence.others or ())
        whole = replace(found, attribution=by, values=tally.wrong, max_ulp=tally.max_ulp, equal=equal)
        assert tally.explained is not None
        piece = tally.explained.recipe if tally.explained.elsewhere is not None else None
        samples = tally.evidence.samples(piece)
        standing = sweep.add(whole, subject, judged, outcome, cases=tally.wrong_cases, samples=samples)
        pieces[whole.key, standing] = piece
        wrong[whole.key, standing].append(samples)
        finding = sweep.findings.of(whole.key, standing)
        if finding is not None:
            finding.histogram += tally.evidence.histogram
    for (key, standing), groups in wrong.items():
        finding = sweep.findings.of(key, standing)
        if finding is not None:
            finding.region = region(_chosen(groups) + _agreeing(sweep, finding, pieces[key, standing]))


def _explained(tally: CellTally) -> int:
    """How many of a cell's wrong values were held against its recipe: those since it was found and those that were kept."""
    if tally.evidence.others:
        return min(tally.wrong, tally.evidence.wrong_held)
    return sum(int(seen.wrong.sum()) for _, seen in tally.evidence.wrong)


def _chosen(groups: Sequence[Sequence[Sample]]) -> list[Sample]:
    """Samples of all cells in turn, as many with wrong values as without."""
    found: list[Sample] = []
    for has_wrong in (True, False):
        queues = [[sample for sample in group if sample.wrong.any() == has_wrong] for group in groups]
        turns = [
            queue[turn] for turn in range(max(map(len, queues), default=0)) for queue in queues if turn < len(queue)
        ]
        found += turns[:MOST_SAMPLES]
    return found


def _agreeing(sweep: Sweep, finding: Finding, piece: Recipe | None) -> list[Sample]:
    """Calls of other cells of the same implementation and edition, all of whose values are right."""
    right = [
        (cell, subject.label, tally)
        for (subject, cell), tally in sweep.tally.cells.items()
        if subject.name == finding.key.subject and cell.contract == finding.key.contract and not tally.wrong
    ]
    right.sort(key=lambda item: item[:2])
    stride = max(1, len(right) // MOST_SAMPLES)
    return _chosen([tally.evidence.samples(piece) for _, _, tally in right[::stride]])


def _refusals(sweep: Sweep) -> None:
    def is_open(subject: Subject, tally: CellTally) -> bool:
        return not tally.answered and subject.name not in sweep.fleet.failures

    # Of those that are not judged no finding is made; but a cell that is refused whole is not one in which values differ.
    asked = [(s, cell, tally) for s, cell, tally in sweep.tally.refusals(judged=False) if is_open(s, tally)]
    if not sweep.options.rules.every_call:
        asked += [(s, cell, tally) for s, cell, tally in sweep.tally.refusals() if is_open(s, tally)]
    refused = simplest_refused(sweep, [(subject, cell) for subject, cell, _ in asked])
    for subject, cell, tally in asked:
        tally.simplest_refused = refused[subject, cell]
    for subject, _, tally in sweep.tally.refusals():
        if not tally.answered and subject.name in sweep.fleet.failures:
            continue  # nobody left to ask whether the cell is supported
        if tally.refusal is not None and not tally.simplest_refused:
            judged, outcome = tally.refusal
            refusal = verdicts.rejected(judged, subject.name, outcome)
            if refusal is not None:
                sweep.add(refusal, subject, judged, outcome, cases=tally.rejected)


def simplest_refused(sweep: Sweep, asked: Iterable[tuple[Subject, Cell]]) -> dict[tuple[Subject, Cell], bool]:
    """Whether each implementation gives no tensor for the simplest allowed call of its cell."""
    pairs = list(dict.fromkeys(asked))
    calls = [(subject, simplest(sweep.contract(cell.contract), cell)) for subject, cell in pairs]
    outcomes = sweep.fleet.ask_each(calls, sweep.interrupted)
    return {pair: outcome.kind != "tensor" for pair, outcome in zip(pairs, outcomes, strict=True)}
