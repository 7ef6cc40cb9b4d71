"""Recipes that each implementation computes under each edition.

Cells with the same status and the same recipe are shown together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xverify.report import summary
from xverify.report.summary import Json

MOST_NAMES = 6
"""Number of recipe names that are listed for a cell. The rest is counted."""

_ROW = ("x_dtype", "scale_dtype", "zero_point_dtype", "out_dtype", "variant")
"""Fields of a cell that stand at the head of a row."""


@dataclass(frozen=True)
class Row:
    """Cells that differ in granularity only."""

    head: tuple[str, ...]
    """Values of the fields in `_ROW`."""
    cells: tuple[Json | None, ...]
    """The cell of each granularity, or None."""


@dataclass(frozen=True)
class Recipe:
    """Cells that have the same status and the same recipe."""

    status: str
    words: str
    """Description of the recipe, as a predicate; empty if no recipe is known."""
    name: str
    """Name of the recipe; empty if none is known."""
    legal: bool
    """True if the edition admits the recipe."""
    equal: int
    """Number of recipes that are proven equal on these types."""
    granularities: tuple[str, ...]
    """Granularities of the columns of `rows`."""
    rows: tuple[Row, ...]
    cells: int
    """Number of cells."""
    values: int
    """Number of compared values."""


@dataclass(frozen=True)
class Characterised:
    """The recipes of one implementation under one edition."""

    subject: str
    """Label of the implementation."""
    recipes: tuple[Recipe, ...]
    """Recipes, worst status first."""
    statuses: tuple[tuple[str, int], ...]
    """Number of cells of each status."""


def characterise(report: Json) -> dict[str, list[Characterised]]:
    """Return the recipes of every implementation that has cells, by edition, in the order of the report."""
    cells: dict[tuple[str, str], list[Json]] = defaultdict(list)
    for cell in report["coverage"]["cells"]:
        cells[cell["contract"], cell["subject"]].append(cell)
    words = {e["id"]: {r["name"]: r["words"] for r in e["readings"]} for e in report["editions"]}
    by_contract = {}
    for contract in summary.contracts(report):
        subjects = [subject for subject in summary.subjects(report) if (contract, subject) in cells]
        if subjects:
            readings = words.get(contract, {})
            by_contract[contract] = [_characterised(s, cells[contract, s], readings) for s in subjects]
    return by_contract


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
    """Return name and words of a cell's recipe, and True if the edition admits it.

    A report that names no recipe may list the readings that explain every value. Then the first of them counts.
    """
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
    """List the recipes that the values of a cell did not exclude; empty if there is none."""
    left = cell.get("remaining")
    if left is None or not (left["others"] or left["more"]):
        return ""
    more = left["more"] + len(left["others"][MOST_NAMES:])
    names = ", ".join(left["others"][:MOST_NAMES]) + (f" and {summary.grouped(more)} more" if more else "")
    by = left.get("values", cell["attribution"]["values"] if cell.get("attribution") else cell["values"])
    return f"not distinguished by {summary.plural(by, 'value')}: {names}"


def indistinguishable(equal: int) -> str:
    """Count the recipes that are proven equal on the types of a cell; empty if there is none."""
    return f"indistinguishable here: {summary.plural(equal, 'equal recipe')}" if equal else ""
