"""The ledger as a list on the terminal: what is accepted, why, and until when."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from rich.console import Console
from rich.text import Text

from xverify.gate.ledger import Entry, Ledger
from xverify.gate.scope import Condition
from xverify.report import summary
from xverify.report.decision import plain

SOON = 14
"""Days before its expiry from which an entry is highlighted."""

MOST_WORDS = 8
"""The largest number of words of one condition that are shown."""

_LABEL = 11


def print_ledger(ledger: Ledger, path: Path, today: date, console: Console) -> None:
    """Print every entry with its name and state, in the order of the file."""
    if not ledger.entries:
        console.print(Text(f"{path}: no known findings; a gate fails on everything that it finds"), soft_wrap=True)
        return
    expired = sum(entry.expires is not None and today >= entry.expires for entry in ledger.entries)
    counted = summary.plural(len(ledger.entries), "known finding")
    console.print(Text(f"{path}: {counted}" + (f", {expired} expired" if expired else "")), soft_wrap=True)
    for entry in ledger.entries:
        _print_entry(entry, today, console)


def _print_entry(entry: Entry, today: date, console: Console) -> None:
    state, style = _state(entry, today)
    console.print()
    console.print(Text.assemble((entry.name, "bold"), "  ", (state, style)), soft_wrap=True)
    recipes = entry.recipes
    elsewhere = f", and {recipes.elsewhere} elsewhere" if recipes and recipes.elsewhere else ""
    rows = [
        ("what", f"{summary.words(entry.verdict)}: {entry.summary or entry.finding or 'no summary'}"),
        ("of", f"{entry.subject} under {entry.contract}"),
        ("clause", "" if entry.clause == "*" else entry.clause),
        ("gives", f"{recipes.reading}{elsewhere}" if recipes else ""),
        ("scope", scope_in_words(entry)),
        ("reason", entry.reason),
        ("accepted", f"{entry.accepted}{f' by {entry.owner}' if entry.owner else ', nobody owns it'}"),
    ]
    for label, text in rows:
        if text:
            console.print(Text.assemble(f"  {label.ljust(_LABEL)}", plain(text)), soft_wrap=True)


def _state(entry: Entry, today: date) -> tuple[str, str]:
    if entry.expires is None:
        return "active, never expires", "green"
    left = (entry.expires - today).days
    if left <= 0:
        return f"expired on {entry.expires}: a gate fails on it", "red"
    return f"active, expires in {summary.plural(left, 'day')} ({entry.expires})", "yellow" if left <= SOON else "green"


def scope_in_words(entry: Entry) -> str:
    """The calls that an entry is about: "x_dtype int8 or uint8; rank 2 to 7; where y is subnormal"."""
    parts = [_condition(condition) for condition in entry.scope]
    return "; ".join([*parts, *([f"where {entry.region}"] if entry.region else [])]) or "every call"


def _condition(condition: Condition) -> str:
    if condition.among:
        words = [str(word) if word != "" else "none" for word in condition.among]
        more = [f"{len(words) - MOST_WORDS} more"] if len(words) > MOST_WORDS else []
        return f"{condition.field} {' or '.join([*words[:MOST_WORDS], *more])}"
    least, most = condition.least, condition.most
    if least is None:
        return f"{condition.field} at most {most}"
    return f"{condition.field} at least {least}" if most is None else f"{condition.field} {least} to {most}"
