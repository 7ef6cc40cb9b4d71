"""The report in a terminal, and the progress of a run."""

from __future__ import annotations

from collections.abc import Iterable
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
from xverify.report import summary
from xverify.report.changes import History, histories
from xverify.report.summary import Json

_STYLES = {"good": "green", "quiet": "dim", "open": "yellow", "warn": "dark_orange3", "bad": "red"}

MOST_FINDINGS = 24
"""Number of findings listed in a terminal, worst first. A log gets all."""

QUIET_SECONDS = 10.0
"""Seconds between two lines of progress where the output is not a terminal."""


def print_summary(report: Json, console: Console) -> None:
    """Print the matrix of implementations and editions, the findings, and the coverage."""
    console.print()
    for operator, contracts in summary.operators(report).items():
        _print_table(report, operator, contracts, console)
    for history in histories(report):
        _print_history(history, console)
    _print_workers(report["run"]["workers"], console)
    _print_findings(summary.findings(report), console)
    _print_trust(report, console)
    for name, share in summary.shares(report):
        _line(console, Text(f"{name}: {share}", style="dim"))


def _print_table(report: Json, operator: str, contracts: list[str], console: Console) -> None:
    """Print one operator: editions down, and across the implementations that have a result."""
    matrix = summary.matrix(report, merged=True)
    names = list(dict.fromkeys(summary.base(subject) for subject in summary.subjects(report)))
    present = [name for name in names if any((contract, name) in matrix for contract in contracts)]
    if not present:
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), header_style="bold", show_edge=False)
    table.add_column(Text(operator), no_wrap=True)
    for name in present:
        table.add_column(Text(name), min_width=8, overflow="fold")
    for contract in contracts:
        row = [Text("  " + (contract[len(operator) :].lstrip("-") or contract))]
        for name in present:
            entry = matrix.get((contract, name))
            row.append(Text("-", style="dim") if entry is None else _entry(entry))
        table.add_row(*row)
    console.print(table)
    console.print()


def _entry(entry: summary.Entry) -> Text:
    text = "\n".join(entry.headlines)
    if not entry.verdicts and entry.tone == "good":
        text += f" {summary.short(entry.values)}"
    return Text(text, style=_STYLES[entry.tone])


def _print_history(history: History, console: Console) -> None:
    """Print the changes between versions of one implementation, with the versions across."""
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
    console.print(table)
    console.print()


def _print_workers(workers: Iterable[Json], console: Console) -> None:
    for worker in workers:
        if worker["status"] != "answered":
            # A reason may begin with the name, as in "onednn could not be run".
            reason = worker["status"].removeprefix(f"{worker['name']} ")
            separator = ": " if reason == worker["status"] else " "
            _line(console, Text.assemble((f"{worker['name']}{separator}", "bold"), (reason, "yellow")))


def _print_findings(findings: list[Json], console: Console) -> None:
    """Print a table in a terminal, and one finding per line elsewhere."""
    in_ledger = sum(finding["known"] for finding in findings)
    heading = f"{summary.plural(len(findings), 'finding')}" + (
        f", {in_ledger} of them in the ledger" if in_ledger else ""
    )
    _line(console, Text(heading, style="bold"))
    if not console.is_terminal:
        for finding in findings:
            _line(console, Text(f"{finding['id']}  {finding['contract']}  {_sentence(finding)}"))
        console.print()
        return
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0), collapse_padding=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", ratio=1)
    for finding in findings[:MOST_FINDINGS]:
        verdict = Text(summary.words(finding["verdict"]), style=_STYLES[summary.tone(finding["verdict"])])
        about = Text(_sentence(finding))
        about.append(f"\n{finding['contract']}  {finding['id']}", style="dim")
        table.add_row(verdict, about)
    console.print(table)
    if len(findings) > MOST_FINDINGS:
        _line(console, Text(f"and {len(findings) - MOST_FINDINGS} more, in the report", style="dim"))
    console.print()


def _print_trust(report: Json, console: Console) -> None:
    coverage, trust = report["coverage"], report["coverage"]["trust"]
    _line(
        console,
        Text(
            f"{summary.plural(coverage['cases'], 'call')}, {summary.plural(coverage['values'], 'value')} "
            f"in {summary.plural(len(coverage['cells']), 'cell')}, {report['run']['seconds']} s"
        ),
    )
    clauses = sum(not clause["tested"] for clause in summary.clauses(report).values())
    if clauses:
        _line(console, Text(f"clauses without a test: {clauses}", style="yellow"))
    for sentence in report["run"].get("left_out", ()):
        _line(console, Text(sentence, style="yellow"))
    # An item that needs an option of the gate is none that a sweep could test.
    missing = ", ".join(name for name in trust["not_met"] if "(--" not in name)
    untested = f"not tested: {missing}; raise --budget to test more"
    _line(console, Text(untested if missing else "everything on the coverage list was tested", style="dim"))


def _line(console: Console, text: Text) -> None:
    console.print(text, soft_wrap=not console.is_terminal)


def _sentence(finding: Json) -> str:
    """Return the summary of a finding with its region."""
    where = summary.region(finding)
    return _one_line(finding["summary"] + (f" ({where})" if where else ""))


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
        self._found = 0
        self._shrunk = 0

    def __call__(self, event: Event) -> None:
        match event:
            case SweepStarted():
                self._start(event)
            case WorkerReady(name, version):
                self._say(f"{name} {version} is ready", quiet=True)
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
            self._say(f"{self._name} {event.run_id}: {editions}, {', '.join(names)}")
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
            if event.elapsed - self._printed >= QUIET_SECONDS:
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
