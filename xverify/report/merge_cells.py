"""The cells of several runs, joined: what all of them together say that an implementation computes.

A run names the simplest recipe that gives every value of a cell, and those that the values did not exclude. A recipe remains
if no run excluded it; a run that could not list all of its remaining recipes excludes none that it did not list.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from xverify.report.summary import STATUSES, Json, base

MOST_OTHERS = 64

_TYPES = ("contract", "x_dtype", "scale_dtype", "zero_point_dtype", "out_dtype", "granularity", "variant")

_SILENT = ("unsupported", "unspecified", "crash", "hang")
"""Statuses of cells of which nothing may have been answered, so that no recipe is excluded."""

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
    told = [cell for cell in listed if not _is_silent(cell)]
    apart = sorted({name for cell in told for name in _recipes(cell)})
    found: dict[str, Any] = {
        "cases": sum(cell["cases"] for cell in listed),
        "values": sum(cell["values"] for cell in listed),
        "status": status,
        "reading": _common([cell["reading"] for cell in told]),
    }
    if not any("attribution" in cell for cell in listed):
        return found
    described = [cell for cell in told if "attribution" in cell]
    left, more = _remaining(described)
    found |= {"attribution": None, "remaining": None}
    if left:
        found |= _attributed(described, left, more, found["reading"])
    elif len(apart) > 1:
        # Each run has a recipe, and none is that of all.
        found["across_runs"] = apart
        found["status"] = min(status, "mixed", key=STATUSES.index)
    elif apart and len(described) > 1:
        found["across_runs"] = apart
    return found


def _is_silent(cell: Json) -> bool:
    return (
        cell["status"] in _SILENT
        and not cell["reading"]
        and not cell.get("attribution")
        and not cell.get("across_runs")
    )


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
    """The recipes that may be a cell's, its own first, and how many there are besides."""
    by, left = cell.get("attribution"), cell.get("remaining")
    own = [by["reading"]] if by else []
    return (own, 0) if left is None else ([*own, *left["others"]], left["more"])


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
    known = {cell["attribution"]["reading"]: cell["attribution"] for cell in cells if cell.get("attribution")}
    # One that the text admits before others, and one that a run named before others.
    chosen = min(left, key=lambda name: (name not in admitted, name not in known, left.index(name)))
    named = [cell for cell in cells if cell.get("attribution") and cell["attribution"]["reading"] == chosen]
    by = {
        "reading": chosen,
        "words": max((cell["attribution"]["words"] for cell in named), default=chosen),
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
