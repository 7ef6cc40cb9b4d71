"""Phase: findings on whole cells: attribution, refusals, differing readings, regions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from xverify.contracts.model import Contract
from xverify.core.call import Outcome
from xverify.engine.conclude_graphs import Whose, blame_graphs, by_rewrite, likely_rewrites, record_graphs
from xverify.engine.departing import settle_departures
from xverify.engine.open_calls import conclude_open_calls
from xverify.engine.record import record
from xverify.engine.state import RunState
from xverify.engine.support import answers_nothing, simplest_refused
from xverify.verify import editions, verdicts
from xverify.verify.attribute import Recipe, is_misreading
from xverify.verify.findings import Discrepancy, Finding, Key, Standing, Subject
from xverify.verify.range_places import farther
from xverify.verify.region import EVERYWHERE, NOWHERE_SIMPLE, region
from xverify.verify.tally import CellTally
from xverify.verify.verdicts import Judged
from xverify.verify.view import Sample

MOST_SAMPLES = 12
"""The number of calls with wrong values, and of calls without, that are searched for a finding's region."""

SamplesOf = defaultdict[tuple[Key, Standing], list[list[Sample]]]
"""The kept calls of each cell that shows a finding, by finding."""


def conclude(state: RunState) -> None:
    """Record the findings on whole cells."""
    state.pool.spare_nothing()
    graphs = blame_graphs(state)
    state.tally.settle()
    _violations(state, likely_rewrites(graphs))
    record_graphs(state, graphs)
    conclude_open_calls(state)
    _flushes(state)
    departures: SamplesOf = defaultdict(list)
    _mixtures(state, departures)
    _refusals(state)
    _unreadable(state)
    _ambiguities(state, departures)
    _not_followed(state)
    for (key, standing), groups in departures.items():
        finding, samples = state.findings.of(key, standing), _chosen(groups)
        if finding is not None and any(sample.wrong.any() for sample in samples):
            finding.samples, finding.region = samples, region(samples)
    settle_departures(state)


def _violations(state: RunState, likely: Mapping[Whose, Collection[str]]) -> None:
    wrong: SamplesOf = defaultdict(list)
    pieces: dict[tuple[Key, Standing], Recipe | None] = {}
    for subject, cell, tally, from_recipe, judged, outcome in state.tally.violations(state.is_time_to_shrink):
        shown = likely.get((subject.name, cell.contract), ())
        is_late = state.is_past_budget()
        discrepancy = by_rewrite(subject, from_recipe, judged, outcome, tally.evidence.wrong, shown, is_late)
        equal = tuple(reading.name for reading in tally.evidence.others or ())
        counted = _counted(discrepancy, _explained(tally), tally.wrong)
        whole = replace(counted, max_ulp=tally.max_ulp, equal=equal)
        assert tally.explained is not None
        piece = tally.explained.recipe if tally.explained.elsewhere is not None else None
        samples = tally.evidence.samples(piece)
        standing = record(state, whole, subject, judged, outcome, cases=tally.wrong_cases, samples=samples)
        pieces[whole.key, standing] = piece
        wrong[whole.key, standing].append(samples)
        finding = state.findings.of(whole.key, standing)
        if finding is not None:
            finding.histogram += tally.evidence.histogram
            finding.range_places = farther(finding.range_places, tally.range_places)
    for (key, standing), groups in wrong.items():
        finding = state.findings.of(key, standing)
        if finding is not None:
            samples = _chosen(groups) + _right_elsewhere(state, finding, pieces[key, standing])
            finding.samples, finding.region = samples, region(samples)
            by = finding.attribution
            # A recipe of a part of the values may differ from the legal ones at wrong values only.
            unclear = (NOWHERE_SIMPLE, EVERYWHERE) if by and by.elsewhere else (NOWHERE_SIMPLE,)
            if by and is_misreading(by.reading) and finding.region.words in unclear:
                # The data decide which values such a mistake changes, so describe the calls that show it.
                finding.region = region([_whole(sample) for sample in samples])


def _whole(sample: Sample) -> Sample:
    """The sample with all its values marked as wrong if one is."""
    return replace(sample, wrong=np.full(sample.wrong.shape, sample.wrong.any()), telling=None)


def _flushes(state: RunState) -> None:
    for subject, _, tally, discrepancy, judged, outcome in state.tally.flushes():
        counted = _counted(discrepancy, tally.flushed, tally.flushed)
        record(state, counted, subject, judged, outcome, cases=tally.flushed_cases)


def _mixtures(state: RunState, departures: SamplesOf) -> None:
    for subject, cell, mixture, judged, outcome in state.tally.mixtures():
        by = mixture.attribution
        admitted = {reading.name: reading for reading in judged.contract.readings(judged.call)}
        other = admitted[by.reading] if by is not None and by.elsewhere is not None else None
        samples = state.tally.cells[subject, cell].evidence.departures(other)
        standing = record(state, mixture, subject, judged, outcome, samples=samples)
        departures[mixture.key, standing].append(samples)


def _ambiguities(state: RunState, departures: SamplesOf) -> None:
    for subject, _, tally, discrepancy, judged, outcome in state.tally.ambiguities():
        cases, values = tally.departed[discrepancy.readings[0]]
        samples = tally.evidence.departures()
        counted = _counted(discrepancy, values, values)
        standing = record(state, counted, subject, judged, outcome, cases=cases, samples=samples)
        departures[discrepancy.key, standing].append(samples)


def _not_followed(state: RunState) -> None:
    """Record one finding for each implementation and each edition that it need not follow, and does not."""
    if state.options.rules.every_call:  # a gate judges its kernel only
        return
    samples: defaultdict[Key, list[tuple[Judged, Outcome]]] = defaultdict(list)
    for subject, _, tally, discrepancy, judged, outcome in state.tally.not_followed():
        values = tally.wrong + tally.unreadable_values
        whole = replace(discrepancy, values=values, max_ulp=tally.max_ulp if tally.wrong_cases else discrepancy.max_ulp)
        cases = max(1, tally.wrong_cases + tally.unreadable)
        record(state, whole, subject, judged, outcome, cases=cases)
        samples[discrepancy.key].append((judged, outcome))
    for key, shown in samples.items():
        finding = state.findings.of(key)
        if finding is None:
            continue
        differing, due = _differing(state, key.subject, key.contract)
        finding.followed.update({(key.subject, key.contract): due - differing, (key.subject, ""): due})
        neighbours = editions.neighbours(state.contract(key.contract))
        finding.follows = tuple(other.id for other in neighbours if _follows(other, shown))
        finding.words = not_followed_in_words(key.contract, (differing, due), {}, finding.follows)


def not_followed_in_words(
    edition: str,
    values: tuple[int, int],
    neighbours: Mapping[str, tuple[int, int]],
    follows: Collection[str],
) -> str:
    """A predicate of an implementation that does not follow an edition.

    Args:
        edition: The id of the edition.
        values: The number of values that differ from it, and the number of all values.
        neighbours: The same for the editions that the implementation may follow instead; zeros if it got no call of one.
        follows: Those among them that admit every value of the kept calls.
    """
    differing, due = values
    words = f"does not follow {edition} ({_of(differing, due)} values differ)"
    for other, (fewer, of) in neighbours.items():
        if not fewer and other in follows:
            words += f"; it follows {other}"
        elif of and fewer * due < differing * of:
            words += f"; it is closer to {other} ({_of(fewer, of)} values differ)"
    return words


def _differing(state: RunState, name: str, edition: str) -> tuple[int, int]:
    """The values of an implementation that differ from an edition, and all its values there.

    Zeros if it was not asked.
    """
    tallies = [
        tally
        for (subject, cell), tally in state.tally.cells.items()
        if (subject.name, cell.contract) == (name, edition)
    ]
    return sum(tally.wrong + tally.unreadable_values for tally in tallies), sum(tally.due for tally in tallies)


def _of(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,}".replace(",", " ")


def _follows(edition: Contract, shown: Sequence[tuple[Judged, Outcome]]) -> bool:
    """True if an edition admits every value of the outcomes of the calls that it allows, and allows some."""
    allowed = False
    for judged, outcome in shown:
        if judged.legal is not None and judged.legal.in_graph:
            continue  # under another edition, the words may make another graph
        under = verdicts.judge(edition, judged.call.under(edition.id))
        if under.judgement.verdict != "allowed":
            continue
        comparison = verdicts.compared(under, outcome)
        if comparison is None or comparison.wrong_values:
            return False
        allowed = True
    return allowed


def _counted(discrepancy: Discrepancy, explained: int, values: int) -> Discrepancy:
    """A discrepancy of one call with the counts of its whole cell."""
    by = discrepancy.attribution
    if by is not None:
        by = replace(by, explained=explained, values=values)
    return replace(discrepancy, attribution=by, values=values)


def _explained(tally: CellTally) -> int:
    """The number of a cell's wrong values that were compared with its recipe.

    These are the kept ones, and all that came after the recipe was found.
    """
    if tally.evidence.others:
        return min(tally.wrong, tally.evidence.wrong_held)
    return sum(int(view.wrong.sum()) for _, view in tally.evidence.wrong)


def _chosen(groups: Sequence[Sequence[Sample]]) -> list[Sample]:
    """Samples of all cells in turn, as many with wrong values as without."""
    chosen: list[Sample] = []
    for has_wrong in (True, False):
        queues = [[sample for sample in group if sample.wrong.any() == has_wrong] for group in groups]
        turns = [
            queue[turn] for turn in range(max(map(len, queues), default=0)) for queue in queues if turn < len(queue)
        ]
        chosen += turns[:MOST_SAMPLES]
    return chosen


def _right_elsewhere(state: RunState, finding: Finding, piece: Recipe | None) -> list[Sample]:
    """Calls of other cells of the same implementation and edition that have only right values."""
    right = [
        (cell, subject.label, tally)
        for (subject, cell), tally in state.tally.cells.items()
        if subject.name == finding.key.subject and cell.contract == finding.key.contract and not tally.wrong
    ]
    right.sort(key=lambda item: item[:2])
    stride = max(1, len(right) // MOST_SAMPLES)
    return _chosen([tally.evidence.samples(piece) for _, _, tally in right[::stride]])


def _unreadable(state: RunState) -> None:
    for subject, judged, outcome, count in state.tally.not_refused():
        nothing = verdicts.unreadable(judged, subject.name, outcome)
        if nothing is not None:
            record(state, nothing, subject, judged, outcome, cases=count)


def _refusals(state: RunState) -> None:
    def is_open(subject: Subject, tally: CellTally) -> bool:
        return not tally.answered and subject.name not in state.pool.failures

    # Implementations that are not judged get no finding. A cell that one of them refuses has no values that differ.
    cells = [(s, cell, tally) for s, cell, tally in state.tally.refusals(judged=False) if is_open(s, tally)]
    if not state.options.rules.every_call:
        cells += [(s, cell, tally) for s, cell, tally in state.tally.refusals() if is_open(s, tally)]
    refused = simplest_refused(state, [(subject, cell) for subject, cell, _ in cells])
    for subject, cell, tally in cells:
        tally.simplest_refused = refused[subject, cell]
    for subject, _, tally in state.tally.refusals():
        if not tally.answered and subject.name in state.pool.failures:
            tally.simplest_refused = True  # no worker is left that could say if it supports the cell
            continue
        if answers_nothing(state, subject.name):
            continue  # It may not work at all. The gate reports that in one sentence.
        for _, refusal in sorted(tally.refusals.items()):
            if tally.simplest_refused and not refusal.at_run:
                continue  # it does not take the cell
            discrepancy = verdicts.rejected(refusal.judged, subject.name, refusal.outcome)
            if discrepancy is not None:
                record(state, discrepancy, subject, refusal.judged, refusal.outcome, cases=refusal.cases)
