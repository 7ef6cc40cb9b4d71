"""A history in text: the overview, one cause, and the comparison of runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from xverify.core.severity import Severity
from xverify.history.presence import CauseHistory
from xverify.history.store import Run
from xverify.report import summary
from xverify.report.presence import LEGEND, Change, Difference, State, Strip

MOST_RUNS = 30
"""Number of runs in a strip of text, the newest ones."""

TEXTS = "the documents"
"""Heading of causes in texts."""


def labels(runs: Sequence[Run]) -> dict[int, str]:
    """The id of each run, in order."""
    return {run.number: run.id for run in runs}


def overview(runs: Sequence[Run], causes: Sequence[CauseHistory]) -> Iterator[str]:
    """Yield lines: the runs, then for each implementation its causes, worst first, with their strips."""
    width = max(len(run.id) for run in runs)
    yield f"{summary.plural(len(runs), 'run')}, oldest first"
    for run in runs:
        facts = (
            run.started[:16].replace("T", " "),
            summary.plural(run.calls, "call"),
            summary.plural(run.causes, "cause"),
            ", ".join(run.implementations),
            "" if run.is_complete else "interrupted",
        )
        yield f"{run.id:<{width}}  {'; '.join(filter(None, facts))}"
    shown = labels(runs[-MOST_RUNS:])
    rows: dict[str, list[tuple[CauseHistory, Strip]]] = defaultdict(list)
    for cause in causes:
        for strip in cause.strips(shown):
            name = TEXTS if cause.is_text else strip.name if strip.name != "runs" else ", ".join(cause.families)
            rows[name].append((cause, strip))
    yield ""
    yield f"Causes, worst first. {LEGEND}; a cause is unknown where too few calls could show it."
    for name in sorted(rows, key=lambda name: (name == TEXTS, name)):
        yield ""
        for strip_name, group in _by_columns(rows[name]).items():
            across = ", ".join(square.label for square in group[0][1].squares)
            what = "runs, oldest first" if strip_name == "runs" else f"versions {across}"
            yield f"{name}, by {what}"
            for cause, strip in sorted(group, key=lambda row: _rank(row[0], shown)):
                sight = cause.last_sight(shown) or list(cause.sights.values())[-1]
                yield f"  {strip.marks}  {cause.id}  {strip.since or 'unknown'}: {sight.sentence}"


def _by_columns(rows: Sequence[tuple[CauseHistory, Strip]]) -> Mapping[str, list[tuple[CauseHistory, Strip]]]:
    groups: dict[str, list[tuple[CauseHistory, Strip]]] = defaultdict(list)
    for cause, strip in rows:
        groups[strip.name].append((cause, strip))
    return groups


def _rank(cause: CauseHistory, runs: Mapping[int, str]) -> tuple[bool, int, str]:
    """The place of a cause: present ones first, then by severity."""
    sight = cause.last_sight(runs)
    return (
        cause.last_known(runs) is not State.PRESENT,
        Severity(sight.severity).rank if sight else len(Severity),
        cause.id,
    )


def one_cause(cause: CauseHistory, runs: Sequence[Run]) -> Iterator[str]:
    """Yield lines: the cause, its presence in each version and in each run, and a call that shows it."""
    names = labels(runs)
    newest = max((run for run in names if run in cause.sights), key=list(names).index)
    sight = cause.sights[newest]
    yield f"{cause.id}: {sight.sentence}"
    yield f"severity: {Severity(sight.severity).words}"
    for strip in cause.over_versions():
        yield ""
        yield f"versions of {strip.name}" + (f": {strip.since}" if strip.since else "")
        for square in strip.squares:
            yield f"  {square.state.mark} {square.words}"
    yield ""
    over_runs = cause.over_runs(names)
    yield "runs" + (f": {over_runs.since}" if over_runs.since else "")
    for run, square in zip(runs, over_runs.squares, strict=True):
        yield f"  {square.state.mark} {square.words}; {run.started[:16].replace('T', ' ')}, {run.processor}"
    if sight.line:
        yield ""
        yield f"A call that shows it, from run {names[newest]}:"
        yield sight.line


def difference(compared: Difference) -> Iterator[str]:
    """Yield lines: each part of a comparison with its causes."""
    yield from parts(compared, [changes for _, changes in compared.parts()], "no difference")
    if compared.left_out:
        yield f"{summary.plural(compared.left_out, 'cause')} of implementations or documents that {compared.run} does not have"
    yield f"{summary.plural(compared.same, 'cause')} as before: {compared.run} compared with {compared.since}"


def parts(compared: Difference, wanted: Sequence[Sequence[Change]], nothing: str) -> Iterator[str]:
    """Yield lines: some parts of a comparison with their causes.

    Args:
        compared: The comparison.
        wanted: The parts to list.
        nothing: The line if all of them are empty.
    """
    listed = [(heading, changes) for heading, changes in compared.parts() if changes in wanted]
    for heading, changes in listed:
        yield f"{summary.plural(len(changes), 'cause')} {heading}:"
        yield from (f"  {change.cause}  {_words(change)}" for change in changes)
    if not listed:
        yield f"{nothing}: {compared.run} compared with {compared.since}"


def _words(change: Change) -> str:
    return f"{change.before} before, now {change.severity}: {change.sentence}" if change.before else change.sentence
