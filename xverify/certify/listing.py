"""The list of domains, and the progress of a proof, in a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from xverify.certify.domains import FLOAT32, WIDE, named, names, size

RATE = 100e6
"""Triples that one core computes and compares in a second, measured with a slow compiled kernel."""

QUIET_SECONDS = 10.0
"""Seconds between two lines of progress where the output is not a terminal."""


def print_domains(console: Console, workers: int) -> None:
    """Print every domain with its units, its triples and the time that a compiled kernel takes."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for heading in ("domain", "units", "triples", f"{workers} workers"):
        table.add_column(heading, no_wrap=True, justify="left" if heading == "domain" else "right")
    for name in names():
        domain = named(name, scales=(0,) if name.startswith(WIDE) else ())
        times = f"{len(domain.slices)} x " if len(domain.slices) > 1 else ""
        total = size(domain)
        took = _length(total / RATE / workers)
        units = "2^32" if domain.units == FLOAT32 else grouped(domain.units)
        table.add_row(Text(name), times + units, f"{total:.2e}", took)
    console.print(table)
    console.print(
        "A domain holds all codes of x, all zero points, and all scales of the type; for float32 scales, a slice for each "
        "difference x - zero point, or a spread of scales; 16-bit types are for each --scale. A unit, in which --range counts, "
        "is a scale, of 16-bit types a zero point.\n"
        f"Times are for a compiled kernel, {RATE / 1e6:g} million triples a second and core."
    )


def grouped(number: int) -> str:
    """Return a whole number with a space between thousands."""
    return f"{number:_}".replace("_", " ")


def _length(seconds: float) -> str:
    for limit, unit, of in ((90, "s", 1), (5400, "min", 60), (172800, "h", 3600)):
        if seconds < limit:
            return f"{max(1.0, seconds / of):.0f} {unit}"
    return f"{seconds / 86400:.0f} days"


@contextmanager
def progress(console: Console, total: int) -> Iterator[Callable[[int], None]]:
    """Show progress inside this context.

    Args:
        console: Where to print.
        total: Number of triples to prove.

    Yields:
        A function that takes the number of triples proven so far.
    """
    if not console.is_terminal:
        yield _Lines(console, total)
        return
    columns = (
        BarColumn(),
        TextColumn("{task.percentage:5.1f} %"),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total, rate="")
        began = time.monotonic()

        def show(done: int) -> None:
            bar.update(task, completed=done, rate=f"{done / max(time.monotonic() - began, 1e-9) / 1e6:.0f} M triples/s")

        yield show


class _Lines:
    """Progress as a line now and then."""

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        self._total = total
        self._began = self._said = time.monotonic()

    def __call__(self, done: int) -> None:
        now = time.monotonic()
        if now - self._said < QUIET_SECONDS or not done:
            return
        self._said = now
        remaining = (now - self._began) * (self._total - done) / done
        self._console.print(f"{100 * done / self._total:.1f} %, {_length(remaining)} left", highlight=False)
