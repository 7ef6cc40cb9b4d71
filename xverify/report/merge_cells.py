"""The cells of several runs, joined: what all of them together say that an implementation computes.

A run names the simplest recipe that gives every value of a cell, and those that the values did not exclude. A recipe remains
if no run excluded it; a run that could not list all of its remaining recipes excludes none that it did not list.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from xverify.arithmetic import range_lattice, readings
from xverify.arithmetic.reading import Operands
from xverify.arithmetic.simplify import Types, simplified
from xverify.report.summary import STATUSES, Json, base

MOST_OTHERS = 64

_TYPES = ("contract", "x_dtype", "scale_dtype", "zero_point_dtype", "out_dtype", "granularity", "variant")

_SILENT = ("unsupported", "unspecified", "crash", "hang")
"""Statuses of cells of which nothing may have been answered, so that no reading is excluded."""

_DIFFERS = ("violation", "mixed", "not-judged-differs")
"""Statuses of cells of which it is known, if no recipe is named, that none gives every value."""

_Key = tuple[str, ...]


def versions_of(reports: Sequence[Json]) -> Mapping[str, set[str]]:
    """The versions of each implementation that the reports are about."""
    found: dict[str, set[str]] = defaultdict(set)
    for report in reports:
        for worker in report["run"]["workers"]:
            found[worker["name"]].add(worker["version"])
    return found


def merged_cells(reports: Sequence[Json], versions: Mapping[str, set[str]]) -> list[dict[str, Any]]:
    """The cells of all reports, those of the same types, implementation and version joined. versions: see `versions_of`."""
    groups: dict[_Key, list[Json]] = defaultdict(list)
    for report in reports:
        own = {worker["name"]: worker["version"] for worker in report["run"]["workers"]}
        for cell in report["coverage"]["cells"]:
            version = cell.get("version", own.get(base(cell["subject"]), ""))
            groups[(*(cell[name] for name in _TYPES), cell["subject"], version)].append(cell)
    cells = []
    for key, listed in sorted(groups.items()):
        *types, subject, version = key
        cell = {**dict(zip(_TYPES, types, strict=True)), "subject": subject, **_joined(listed)}
        if len(versions.get(base(subject), ())) > 1:
            cell["version"] = version
        cells.append(cell)
    return cells


def _joined(listed: Sequence[Json]) -> dict[str, Any]:
    status = min((cell["status"] for cell in listed), key=STATUSES.index)
    described = [cell for cell in listed if _is_described(cell)]
    apart = sorted({name for cell in described for name in _recipes(cell)})
    found: dict[str, Any] = {
        "cases": sum(cell["cases"] for cell in listed),
        "values": sum(cell["values"] for cell in listed),
        "status": status,
        "reading": _common(
            [c["reading"] for c in listed if c["reading"] or c["status"] not in _SILENT or c in described]
        ),
    }
    if not any("attribution" in cell for cell in listed):
        return found
    left, more = _remaining(described)
    found |= {"attribution": None, "remaining": None}
    if left:
        return found | _attributed(described, left, more, found["reading"])
    if len(apart) > 1:
        # Runs name different recipes, and none is that of all.
        found["status"] = min(status, "mixed", key=STATUSES.index)
    if apart or (described and status in _SILENT):
        found["across_runs"] = apart
    return found


def _is_described(cell: Json) -> bool:
    """Whether it is known which recipes give a cell's values, be it that there is none."""
    if "attribution" not in cell:
        return False
    return bool(cell["attribution"]) or "across_runs" in cell or cell["status"] in _DIFFERS


def _recipes(cell: Json) -> list[str]:
    """The recipes that a cell names: its own, or those of the runs that were merged into it and had none in common."""
    by = cell.get("attribution")
    return [by["reading"]] if by else list(cell.get("across_runs", ()))


def _common(lists: Sequence[Sequence[str]]) -> list[str]:
    """What is in all lists; their order is the edition's, so it is the same in all."""
    if not lists:
        return []
    return [name for name in min(lists, key=lambda names: (len(names), names)) if all(name in one for one in lists)]


def _candidates(cell: Json) -> tuple[list[str], int]:
    """The recipes that may be a cell's, its own first, and how many there are besides; by the names of their simplified forms,
    since runs may name those that are proven equal by different names."""
    by, left = cell.get("attribution"), cell.get("remaining")
    names = [by["reading"]] if by else []
    names += [] if left is None else left["others"]
    return list(dict.fromkeys(_simplest_name(cell, name) for name in names)), 0 if left is None else left["more"]


def _simplest_name(cell: Json, name: str) -> str:
    """The name of a recipe's simplified form on a cell's types; of recipes that are not known here, the name itself."""
    try:
        types = Types(cell["x_dtype"], cell["zero_point_dtype"], cell["scale_dtype"], cell["out_dtype"])
        return simplified(readings.by_name(name), types).name
    except KeyError:
        pass
    try:
        narrow = {"narrow_range": cell["variant"].endswith(" narrow")}
        operands = Operands({}, {"input": cell["x_dtype"]}, cell["out_dtype"], (), narrow)
        return range_lattice.by_name(name).simplified(operands).name
    except KeyError:
        return name


def _remaining(cells: Sequence[Json]) -> tuple[list[str], int]:
    """The recipes that no cell excludes, and how many there may be besides."""
    every = [_candidates(cell) for cell in cells]
    closed = [names for names, more in every if not more]
    if closed:
        return _common(closed), 0
    if not every:
        return [], 0
    names = dict.fromkeys(name for names, _ in sorted(every, key=lambda one: (len(one[0]), one[0])) for name in names)
    return list(names), min(more for _, more in every)


def _attributed(cells: Sequence[Json], left: Sequence[str], more: int, admitted: Sequence[str]) -> dict[str, Any]:
    """Attribution and remaining of joined cells. left: the recipes that remain."""
    known = {_simplest_name(c, c["attribution"]["reading"]) for c in cells if c.get("attribution")}
    admitted = [_simplest_name(cells[0], name) for name in admitted]
    # One that the text admits before others, and one that a run named before others.
    chosen = min(left, key=lambda name: (name not in admitted, name not in known, left.index(name)))
    named = [c for c in cells if c.get("attribution") and _simplest_name(c, c["attribution"]["reading"]) == chosen]
    shown = [(len(c["attribution"]["reading"]), c["attribution"]["reading"], c["attribution"]["words"]) for c in named]
    _, name, words = min(shown, default=(0, chosen, chosen))
    by = {
        "reading": name,
        "words": words,
        "values": sum(cell["attribution"]["values"] for cell in cells if cell.get("attribution")),
        "legal": any(cell["attribution"]["legal"] for cell in named) if named else chosen in admitted,
    }
    stated = [cell["remaining"] for cell in cells if cell.get("remaining")]
    if len(stated) < len(cells):
        return {"attribution": by, "remaining": None}
    others = [name for name in left if name != chosen]
    equal = [cell["remaining"]["equal"] for cell in named if cell.get("remaining")]
    remaining = {
        "equal": min(equal, default=0),
        "others": others[:MOST_OTHERS],
        "more": more + len(others[MOST_OTHERS:]),
    }
    if any("tried" in one for one in stated):
        remaining["tried"] = sum(one.get("tried", 0) for one in stated)
    return {"attribution": by, "remaining": remaining}
