"""The table of a bench in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from xverify.bench import present
from xverify.bench.cases import Case
from xverify.bench.present import Group, Json
from xverify.bench.result import Measured

LEGEND = (
    "Gelem/s: 10⁹ elements per second, medians. Below: as many times as fast as the fastest peer that computes the same "
    "bits; part of the limit. Both are medians over rounds. ~: unreliable, the machine's speed changed meanwhile."
)


class TableProgress:
    """A progress bar that names the current case."""

    def __init__(self, console: Console) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=console, transient=True)
        self._task = self._bar.add_task("starting the implementations", total=None)
        self._bar.start()

    def begin(self, cases: int) -> None:
        self._bar.update(self._task, total=cases)

    def case(self, case: Case) -> None:
        self._bar.update(self._task, description=escape(str(case)))

    def done(self, measured: Measured) -> None:
        self._bar.advance(self._task)

    def close(self) -> None:
        """Remove the bar."""
        self._bar.stop()


def print_bench(bench: Json, console: Console) -> None:
    """Print the tables and their notes."""
    for group in present.groups(bench):
        _print_group(group, console)
    _print_single(present.single_calls(bench), console)
    for peer in bench["peers"]:
        if peer["reason"]:
            console.print(f"{escape(peer['name'])}: {escape(peer['reason'])}", style="yellow")
    console.print(LEGEND, style="dim")
    if sentence := present.fastest(bench):
        console.print(escape(sentence))


def _print_group(group: Group, console: Console) -> None:
    table = Table(title=escape(group.title), title_justify="left", title_style="bold")
    table.add_column("Gelem/s", no_wrap=True)
    for case in group.measured:
        table.add_column(present.sizes(case["elements"]), justify="right", no_wrap=True)
    for name in group.peers:
        lines = [present.line_of(case, name) for case in group.measured]
        role = next(line["role"] for line in lines if line is not None)
        label = f"[bold]{escape(name)}[/]" if role == "kernel" else escape(name)
        label += "\n[dim]allocates its output[/]" if present.allocates(group, name) else ""
        table.add_row(label, *map(_cell, lines))
    console.print(table if group.peers else escape(group.title), style=None if group.peers else "bold")
    for sentence in present.notes(group):
        console.print(f"  {escape(sentence)}", style="dim")
    console.print()


def _cell(line: Json | None) -> str:
    if line is None or "seconds" not in line:
        return "-"
    mark = present.mark(line)
    star = f"[red]{mark}[/]" if mark else ""
    if line["role"] == "limit":
        return present.speed(line)
    return f"{present.speed(line)}{star}\n[dim]{present.ratio(line)} {present.part(line).replace(' ', '')}[/]"


def _print_single(cases: Sequence[Json], console: Console) -> None:
    if not cases:
        return
    names = dict.fromkeys(line["peer"] for case in cases for line in case["lines"] if line["role"] != "limit")
    table = Table(title="A call of one element", title_justify="left", title_style="bold")
    table.add_column("microseconds", no_wrap=True)
    for name in names:
        table.add_column(escape(name), justify="right", overflow="fold", min_width=_NUMBER)
    for case in cases:
        lines = [present.line_of(case, name) for name in names]
        cells = [present.microseconds(line) if line and "seconds" in line else "-" for line in lines]
        table.add_row(f"{present.x_in_words(case)} to {case['out_dtype']}", *cells)
    console.print(table)
    console.print()


_NUMBER = 6
"""Characters that a number of microseconds needs, in a column whose heading is folded."""
