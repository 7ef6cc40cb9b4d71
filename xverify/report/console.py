"""The report in a terminal, and the progress of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from xverify.engine.events import (
    Event,
    FaultSeen,
    FindingFound,
    FindingShrunk,
    Progressed,
    ShrinkStarted,
    SweepFinished,
    SweepStarted,
    WorkerFailed,
    WorkerReady,
)
from xverify.report import matrix as matrices
from xverify.report import summary
from xverify.report.causes import Cause, causes, sentence
from xverify.report.changes import History, histories
from xverify.report.summary import Json

_STYLES = {"good": "green", "quiet": "dim", "open": "yellow", "warn": "dark_orange3", "bad": "red"}

_DEFAULT_RUNS = Path("reports", "runs")

MOST_CAUSES = 12
"""Number of causes that are listed."""

LEAST_CAUSES = 3
"""Number of causes that are listed however many lines the rest needs."""

MOST_LINES_IN_TERMINAL, MOST_LINES_IN_LOG = 52, 46
"""Number of lines of a summary. A log also has lines of progress; together a sweep has at most 60."""

MOST_LINES_OF_MATRIX = 24
"""Number of lines of the matrix, before editions share rows."""

MOST_LINES_OF_CAUSE = 3
"""Number of lines of one cause in a terminal. A log gets one long line."""

MOST_SENTENCES = 3
"""Number of lines on each kind of trouble: implementations that failed, and editions that were left out."""

QUIET_SECONDS = 10.0
"""Least seconds between two lines of progress where the output is not a terminal."""

LONGEST_SECONDS = 300.0
"""Most seconds between two such lines. Between both, the time grows with the run."""


def print_summary(report: Json, console: Console, file: Path | None = None) -> None:
    """Print the matrix of implementations and editions, the worst causes, and where to find the rest.

    Args:
        report: The report.
        console: Where to print.
        file: The report for people, which has everything.
    """
    listed = causes(report)
    parts: list[Renderable] = [Text()]
    matrix = matrices.matrix(report, console.width, MOST_LINES_OF_MATRIX)
    for table in matrix.tables:
        parts += [_table(table), Text()]
    agreeing = [*matrix.agreeing, *([summary.plural(matrix.agreed, "more edition")] if matrix.agreed else [])]
    if agreeing:
        parts += [Text(f"without a difference: {', '.join(agreeing)}", style="green"), Text()]
    parts += [part for history in histories(report) for part in (_history(history), Text())]
    after = _after(report, listed, file)
    heading = Text(_heading(report, listed), style="bold")
    most_lines = MOST_LINES_IN_TERMINAL if console.is_terminal else MOST_LINES_IN_LOG
    left = most_lines - sum(_height(part, console) for part in (*parts, heading, *after)) - 2
    shown = _causes(listed, left, console)
    more = len(listed) - len(shown)
    rest = [Text(f"and {summary.plural(more, 'more cause')}, in the report", style="dim")] if more else []
    for part in (*parts, heading, *shown, *rest, Text(), *after):
        _print(part, console)


Renderable = Text | Table
"""A part of the summary."""


def _print(part: Renderable, console: Console) -> None:
    console.print(part, soft_wrap=isinstance(part, Text) and not console.is_terminal)


def _height(part: Renderable, console: Console) -> int:
    """The number of lines of a part."""
    if isinstance(part, Text) and not console.is_terminal:
        return 1
    return len(console.render_lines(part, pad=False))


def _table(table: matrices.Table) -> Table:
    """Editions down, and across the implementations."""
    made = Table(box=None, pad_edge=False, padding=(0, matrices.GAP, 0, 0), header_style="bold")
    made.add_column("", no_wrap=True)
    for column in table.columns:
        made.add_column(Text("\n".join(column.heading)), no_wrap=True, min_width=column.width)
    for row in table.rows:
        fields = (Text("-", style="dim") if f is None else Text(f.words, style=_STYLES[f.tone]) for f in row.fields)
        made.add_row(Text(row.label), *fields)
    return made


def _history(history: History) -> Table:
    """The changes between versions of one implementation, with the versions across."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), header_style="bold", show_edge=False)
    table.add_column(Text(f"{history.name}: what changed"), overflow="fold")
    for version in history.versions:
        table.add_column(Text(version), overflow="fold")
    for row in history.rows:
        fields = (
            Text(", ".join(f.words for f in fields), style=_STYLES[fields[0].tone]) if fields else Text("")
            for fields in row.fields
        )
        table.add_row(Text(row.heading), *fields)
    return table


def _heading(report: Json, listed: Sequence[Cause]) -> str:
    if not listed:
        return "no cause of a difference was found"
    accepted = sum(cause.first["known"] for cause in listed)
    in_ledger = f"; {accepted} of them in the ledger" if accepted else ""
    counts = f"{summary.plural(len(listed), 'cause')} of {summary.plural(len(report['findings']), 'finding')}"
    return f"{counts}, worst first{in_ledger}"


def _causes(listed: Sequence[Cause], most_lines: int, console: Console) -> list[Renderable]:
    """The worst causes, each with its id: as many as fit."""
    made: list[Renderable] = []
    lines = 0
    for cause in listed[:MOST_CAUSES]:
        part = _cause(cause, console)
        lines += _height(part, console)
        if lines > most_lines and len(made) >= LEAST_CAUSES:
            break
        made.append(part)
    return made


def _cause(cause: Cause, console: Console) -> Renderable:
    tone = "quiet" if cause.first["known"] else cause.severity.tone
    if not console.is_terminal:
        return Text(f"{cause.id}  {_one_line(sentence(cause))}")
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0), collapse_padding=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", ratio=1)
    # A word that does not fit goes to the next line, so a line is seldom full.
    room = MOST_LINES_OF_CAUSE * (console.width - len(cause.id) - 2) * 9 // 10
    table.add_row(Text(cause.id, style=_STYLES[tone]), Text(_shortened(cause, room)))
    return table


def _shortened(cause: Cause, most: int) -> str:
    """The sentence of a cause in so many characters. Its title is cut, and not the numbers."""
    whole, numbers = _one_line(sentence(cause)), _one_line(f": {cause.effect}" if cause.effect else "")
    if len(whole) <= most:
        return whole
    head = whole.removesuffix(numbers)
    return head[: max(40, most - len(numbers) - 4)].rstrip() + " ..." + numbers


def _after(report: Json, listed: Sequence[Cause], file: Path | None) -> list[Renderable]:
    """Lines on the extent of a run, on trouble, and on where to find the rest."""
    run, coverage = report["run"], report["coverage"]
    extent = (
        f"{summary.plural(coverage['cases'], 'call')}, {summary.plural(coverage['values'], 'value')} "
        f"in {summary.plural(len(coverage['cells']), 'cell')}, {run['seconds']} s"
    )
    lines: list[Renderable] = [Text(extent)]
    failed = [
        # A reason may begin with the name, as in "onednn could not be run".
        worker["status"]
        if worker["status"].startswith(f"{worker['name']} ")
        else f"{worker['name']}: {worker['status']}"
        for worker in run["workers"]
        if worker["status"] != "answered"
    ]
    for sentences in (failed, summary.left_out(run.get("left_out", ()))):
        lines += [Text(_one_line(sentence), style="yellow") for sentence in sentences[:MOST_SENTENCES]]
        if len(sentences) > MOST_SENTENCES:
            lines.append(Text(f"and {len(sentences) - MOST_SENTENCES} more, in the report", style="yellow"))
    lines.append(Text(_untested(report), style="dim"))
    if file is not None:
        lines.append(Text(f"report: {file}"))
        # Without a run, both commands look in the default folder.
        run_of_report, run_of_replay = (
            ("", "") if file.parent.parent == _DEFAULT_RUNS else (f" {file.parent}", f" --run {file.parent}")
        )
        if listed:
            lines.append(Text(f"an issue about a cause: xverify report{run_of_report} --issue {listed[0].id}"))
            lines.append(Text(f"its call again: xverify replay {listed[0].id}{run_of_replay}"))
    return lines


def _untested(report: Json) -> str:
    """List what the run did not test: items of the coverage list, and clauses."""
    # An item that needs an option of the gate is none that a sweep could test.
    missing = [name for name in report["coverage"]["trust"]["not_met"] if "(--" not in name]
    clauses = sum(not clause["tested"] for clause in summary.clauses(report).values())
    named = missing[:MOST_SENTENCES] + ([f"{len(missing) - MOST_SENTENCES} more"] if missing[MOST_SENTENCES:] else [])
    parts = [*named, *([f"clauses without a test: {clauses}"] if clauses else [])]
    return f"not tested: {', '.join(parts)}; raise --budget" if parts else "everything on the coverage list was tested"


def _one_line(text: str) -> str:
    return " ".join(text.split())


class ConsoleProgress:
    """A consumer of events that shows progress: a bar in a terminal, and a line now and then elsewhere."""

    def __init__(self, console: Console | None = None, task: str = "sweep") -> None:
        """Start without output.

        Args:
            console: Where to print.
            task: "sweep" or "gate". A gate announces the first fault at once, because its user waits for it.
        """
        self._console = console or Console()
        self._name = task
        self._live = self._console.is_terminal
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._started: SweepStarted | None = None
        self._last: Progressed | None = None
        self._printed = 0.0
        self._ready: list[str] = []
        self._found = 0
        self._shrunk = 0

    def __call__(self, event: Event) -> None:
        match event:
            case SweepStarted():
                self._start(event)
            case WorkerReady(name, version):
                self._ready.append(f"{name} {version}")
            case WorkerFailed(name, sentence):
                if self._name == "gate" and self._started is not None and name in self._started.subjects:
                    return  # the gate's last line repeats it
                self._say(sentence if sentence.startswith(name) else f"{name}: {sentence}")
            case Progressed():
                self._progressed(event)
            case FaultSeen(subject, contract, _, seconds):
                if self._name == "gate":
                    self._say(f"fault seen after {seconds:.1f} s: {subject} under {contract}")
            case FindingFound():
                self._found += 1
            case ShrinkStarted(count):
                self._start_shrinking(count)
            case FindingShrunk():
                self._shrunk += 1
                self._update(completed=self._shrunk)
            case SweepFinished():
                self.close()

    def close(self) -> None:
        """Restore the terminal. May be called more than once, also after Ctrl-C."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _start(self, event: SweepStarted) -> None:
        self._started = event
        if not self._live:
            names = dict.fromkeys(summary.base(name) for name in event.subjects)
            count = summary.plural(len(event.contracts), "edition")
            editions = count if self._name == "sweep" else ", ".join(event.contracts)
            self._say(f"{self._name} {event.run_id}: {', '.join(filter(None, [editions, *names]))}")
            return
        self._bar = Progress(
            SpinnerColumn(style="dim"),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[counts]}", markup=False),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )
        self._task = self._bar.add_task("starting", total=None, counts=summary.plural(len(event.contracts), "edition"))
        self._bar.start()

    def _progressed(self, event: Progressed) -> None:
        self._last, started = event, self._started
        if not self._live:
            self._say_ready()
            wait = min(max(QUIET_SECONDS, self._printed / 2), LONGEST_SECONDS)
            if event.elapsed - self._printed >= wait:
                self._printed = event.elapsed
                self._say(f"{event.elapsed:4.0f} s  {event.phase}: {self._counts(event)}")
            return
        total: float | None = None
        completed: float = event.elapsed
        if started is not None:
            total = started.budget if started.cases is None else started.cases
            completed = event.elapsed if started.cases is None else event.cases
        limited = completed if total is None else min(completed, total)
        self._update(description=event.phase, total=total, completed=limited, counts=self._counts(event))

    def _say_ready(self) -> None:
        """Print the implementations that have become ready since the last time, in one line."""
        if self._ready:
            self._say(f"ready: {', '.join(self._ready)}")
            self._ready.clear()

    def _counts(self, event: Progressed) -> str:
        findings = summary.plural(event.findings, "finding")
        return f"{summary.grouped(event.cases)} calls, {summary.short(event.values)} values, {findings}"

    def _start_shrinking(self, count: int) -> None:
        if not count and self._name == "gate":
            return
        self._say(f"shrinking {summary.plural(count, 'finding')}", quiet=self._live)
        self._update(description="shrinking", total=count, completed=0, counts=summary.plural(count, "finding"))

    def _update(self, **changes: Any) -> None:
        if self._bar is not None:
            self._bar.update(self._task, **changes)

    def _say(self, sentence: str, quiet: bool = False) -> None:
        """Print a line above the bar. Quiet lines are printed only where there is no bar."""
        if not (quiet and self._live):
            self._console.print(Text(_one_line(sentence)), soft_wrap=True)
