"""The result of a bisection, for the terminal and as JSON."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from xverify.engine.bisect import Bisection, Edge, Trial

_WORDS = {"shows": "shows it", "does not": "does not", "not tried": "not tested"}
_STYLES = {"shows": "red", "does not": "green", "not tried": "yellow"}


def print_bisection(result: Bisection, package: str, finding: str, offered: int, console: Console) -> None:
    """Print a table of the tested versions, then the answer and its limits.

    Args:
        result: The result.
        package: Name of the package whose versions were tested.
        finding: Id of the finding.
        offered: Number of versions that were available.
        console: Where to print.
    """
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column(Text(package), no_wrap=True)
    table.add_column(Text(finding), no_wrap=True)
    table.add_column(Text("what it gives, or why it could not be tested"), overflow="fold")
    for trial in result.trials:
        words = " ".join(trial.words.split())
        table.add_row(trial.version, Text(_WORDS[trial.state], style=_STYLES[trial.state]), Text(words))
    console.print(table)
    console.print()
    _line(console, Text(f"{package}: {result.answer}.", style="bold"))
    for sentence in _besides(result, offered):
        _line(console, Text(sentence, style="dim"))


def _line(console: Console, text: Text) -> None:
    console.print(text, soft_wrap=True, highlight=False)


def _besides(result: Bisection, offered: int) -> list[str]:
    """List the limits of the answer."""
    sentences = [f"{len(result.tried)} of {offered} versions were tested."]
    if result.edges:
        sentences.append(
            "The versions on both sides of the change were tested. The search assumes that there is only one change."
        )
    elif len(result.tried) > 1:
        sentences.append("The versions between them were not tested and could differ.")
    if result.failed:
        sentences.append("These could not be tested: " + ", ".join(trial.version for trial in result.failed) + ".")
    return sentences


def bisection_to_json(
    result: Bisection, package: str, finding: str, offered: list[str], seconds: float
) -> dict[str, Any]:
    """Return the result as JSON data.

    Args:
        result: The result.
        package: Name of the package whose versions were tested.
        finding: Id of the finding.
        offered: Versions that were available, oldest first.
        seconds: Duration of the search.
    """
    return {
        "schema": "xverify.bisection/1",
        "finding": finding,
        "package": package,
        "offered": offered,
        "trials": [_trial(trial) for trial in result.trials],
        "edges": [_edge(edge) for edge in result.edges],
        "answer": result.answer,
        "seconds": round(seconds, 1),
    }


def _trial(trial: Trial) -> dict[str, Any]:
    return {"version": trial.version, "state": trial.state, "words": trial.words, "seconds": trial.seconds}


def _edge(edge: Edge) -> dict[str, Any]:
    return {
        "appears": edge.appears,
        "before": edge.before.version,
        "after": edge.after.version,
        "not_tried_between": list(edge.between),
    }
