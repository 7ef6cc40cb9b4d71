"""What each implementation computes under each edition: its cells, gathered by the recipe that gives every value."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xverify.report import summary
from xverify.report.summary import Json

MOST_NAMES = 6
"""Names of recipes that are listed for a cell; the rest is counted, and in the report."""

_ROW = ("x_dtype", "scale_dtype", "zero_point_dtype", "out_dtype", "variant")


@dataclass(frozen=True)
class Row:
    """Cells that differ in granularity only: the head's five fields, and the cell of each granularity or None."""

    head: tuple[str, ...]
    cells: tuple[Json | None, ...]


@dataclass(frozen=True)
class Recipe:
    """Cells of one status and one recipe. words: the recipe as a sentence's predicate, empty where there is none."""

    status: str
    words: str
    name: str
    legal: bool
    equal: int
    granularities: tuple[str, ...]
    rows: tuple[Row, ...]
    cells: int
    values: int


@dataclass(frozen=True)
class Characterised:
    """One implementation under one edition: its recipes, the worst status first, and of how many cells each is."""

    subject: str
    recipes: tuple[Recipe, ...]
    statuses: tuple[tuple[str, int], ...]


def characterise(report: Json) -> dict[str, list[Characterised]]:
    """Every implementation that has cells, by edition, in the report's order."""
    cells: dict[tuple[str, str], list[Json]] = defaultdict(list)
    for cell in report["coverage"]["cells"]:
        cells[cell["contract"], cell["subject"]].append(cell)
    words = {e["id"]: {r["name"]: r["words"] for r in e["readings"]} for e in report["editions"]}
    found = {}
    for contract in summary.contracts(report):
        subjects = [subject for subject in summary.subjects(report) if (contract, subject) in cells]
        if subjects:
            readings = words.get(contract, {})
            found[contract] = [_characterised(s, cells[contract, s], readings) for s in subjects]
    return found


def _characterised(subject: str, cells: Sequence[Json], readings: Mapping[str, str]) -> Characterised:
    groups: dict[tuple[str, str, str, bool, int], list[Json]] = defaultdict(list)
    for cell in cells:
        name, words, legal = _recipe(cell, readings)
        groups[cell["status"], words, name, legal, (cell.get("remaining") or {"equal": 0})["equal"]].append(cell)
    recipes = [_gathered(key, listed) for key, listed in groups.items()]
    recipes.sort(key=lambda r: (summary.STATUSES.index(r.status), -r.values, r.words, r.equal))
    counts = {name: sum(r.cells for r in recipes if r.status == name) for name in summary.STATUSES}
    return Characterised(subject, tuple(recipes), tuple((name, n) for name, n in counts.items() if n))


def _recipe(cell: Json, readings: Mapping[str, str]) -> tuple[str, str, bool]:
    """Name and words of a cell's recipe, and whether the text admits it; of a report that does not say which it is,
    the first reading that explains every value."""
    by = cell.get("attribution")
    if by is not None:
        return by["reading"], by["words"], by["legal"]
    if cell["reading"] and "attribution" not in cell:
        name = cell["reading"][0]
        return name, readings.get(name, name), True
    return "", "", False


def _gathered(key: tuple[str, str, str, bool, int], cells: Sequence[Json]) -> Recipe:
    status, words, name, legal, equal = key
    order = ("per_tensor", "per_axis", "blocked")
    present = {cell["granularity"] for cell in cells}
    granularities = tuple(sorted(present, key=lambda g: (order.index(g) if g in order else len(order), g)))
    rows: dict[tuple[str, ...], dict[str, Json]] = defaultdict(dict)
    for cell in cells:
        rows[tuple(cell[part] for part in _ROW)][cell["granularity"]] = cell
    return Recipe(
        status,
        words,
        name,
        legal,
        equal,
        granularities,
        tuple(Row(head, tuple(rows[head].get(g) for g in granularities)) for head in sorted(rows)),
        len(cells),
        sum(cell["values"] for cell in cells),
    )


def undistinguished(cell: Json) -> str:
    """The recipes that the values of a cell did not exclude, named; empty when there is none."""
    left = cell.get("remaining")
    if left is None or not (left["others"] or left["more"]):
        return ""
    more = left["more"] + len(left["others"][MOST_NAMES:])
    names = ", ".join(left["others"][:MOST_NAMES]) + (f" and {summary.grouped(more)} more" if more else "")
    by = left.get("values", cell["attribution"]["values"] if cell.get("attribution") else cell["values"])
    return f"not distinguished by {summary.plural(by, 'value')}: {names}"


def indistinguishable(equal: int) -> str:
    """What is said of recipes that are proven equal on a cell's types; empty when there is none."""
    return f"indistinguishable here: {summary.plural(equal, 'equal recipe')}" if equal else ""
