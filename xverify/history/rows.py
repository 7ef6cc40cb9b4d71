"""The facts of a report that a history keeps."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xverify.core.codec import call_from_json
from xverify.core.line import call_to_line
from xverify.report.causes import causes, plain, sentence
from xverify.report.summary import Json, base
from xverify.verify.cause_keys import UNEXPLAINED, family_in, keys_of
from xverify.verify.causes import identity
from xverify.verify.changes import base_name

Cell = tuple[str, ...]
"""A cell: `CELL`, and the implementation with its path, such as "onnxruntime[optimization=off]"."""

CELL = ("contract", "x_dtype", "scale_dtype", "zero_point_dtype", "out_dtype", "granularity", "variant")
"""Keys of a cell in a report."""

UNANSWERED = "unsupported"
"""Status of cells in which an implementation answers no call. A history does not keep them."""

MOST_LINE = 4096
"""Length of the longest call line that a history keeps, in characters."""


@dataclass(frozen=True)
class Unit:
    """A version of an implementation, or of an edition's document."""

    family: str
    """The implementation with all its front ends; the id of an edition."""
    version: str


@dataclass
class Answers:
    """The answers of a unit in one run."""

    name: str
    calls: int = 0
    seconds: float = 0.0
    is_edition: bool = False
    cells: dict[Cell, tuple[int, int, str]] = field(default_factory=dict)
    """Calls, values and status of each cell that it answered."""
    follows: set[str] = field(default_factory=set)
    """Ids of clauses."""


@dataclass
class Seen:
    """A cause in one run."""

    kind: str
    severity: str
    sentence: str
    line: str
    calls: dict[Unit, int] = field(default_factory=lambda: defaultdict(int))
    cells: set[Cell] = field(default_factory=set)
    clauses: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)
    """Ids of causes that the same findings have in reports of other implementations."""


@dataclass(frozen=True)
class Facts:
    """A run."""

    digest: str
    """Digest of what tells the run from others."""
    run: Json
    """The entry "run" of the report."""
    parts: tuple[str, ...]
    """Ids of the runs that were merged into it; its own id if none were."""
    calls: int
    values: int
    units: dict[Unit, Answers]
    causes: dict[str, Seen]


def facts(report: Json) -> Facts:
    """Collect what a history keeps of a report."""
    run = report["run"]
    coverage = report["coverage"]
    names = ("id", "started", "command", "seed", "cases", "machine", "versions")
    facts_of_run = [*(run[name] for name in names), coverage["cases"], coverage["values"]]
    digest = hashlib.sha256(json.dumps(facts_of_run, sort_keys=True).encode()).hexdigest()[:16]
    units = _units(report)
    return Facts(
        digest,
        run,
        tuple(part["id"] for part in run.get("merged", (run,))),
        coverage["cases"],
        coverage["values"],
        units,
        _causes(report, units),
    )


def _units(report: Json) -> dict[Unit, Answers]:
    by_name: dict[str, list[Unit]] = defaultdict(list)
    units: dict[Unit, Answers] = {}
    for worker in report["run"]["workers"]:
        if worker["calls"]:
            name = str(worker["name"])
            unit = Unit(str(worker.get("family") or base_name(name)), str(worker["version"]))
            by_name[name].append(unit)
            answers = units.setdefault(unit, Answers(base_name(name)))
            answers.calls += worker["calls"]
            answers.seconds += worker["seconds"]
    for cell in report["coverage"]["cells"]:
        name, bracket, path = str(cell["subject"]).partition("[")
        for unit in by_name[name] if cell["status"] != UNANSWERED else ():
            if cell.get("version", unit.version) == unit.version:
                key = (*(str(cell[column]) for column in CELL), base_name(name) + bracket + path)
                calls, values, _ = units[unit].cells.get(key, (0, 0, ""))
                units[unit].cells[key] = (calls + cell["cases"], values + cell["values"], str(cell["status"]))
    for edition in report["editions"]:
        units[Unit(edition["id"], str(edition["document"]))] = Answers(edition["id"], is_edition=True)
        for clause in edition["clauses"]:
            for name in clause.get("follow", ()):
                for unit in by_name[base(name)]:
                    units[unit].follows.add(clause["id"])
    return units


def _causes(report: Json, units: dict[Unit, Answers]) -> dict[str, Seen]:
    documents = {edition["id"]: str(edition["document"]) for edition in report["editions"]}
    own = {plain(entry["id"]) for entry in report["causes"]}
    seen: dict[str, Seen] = {}
    for cause in causes(report):
        lines = (line for finding in cause.findings if (line := _line(finding)))
        entry = seen.setdefault(
            cause.plain_id, Seen(cause.kind, cause.severity.value, sentence(cause), next(lines, ""))
        )
        for finding in cause.findings:
            unit = _unit(finding, documents)
            units.setdefault(unit, Answers(base_name(finding["subject"]["name"])))
            entry.calls[unit] += max(1, finding["cases"])
            entry.clauses.add(finding["clause"])
            entry.cells |= set(_cells(finding, units[unit], units))
            keys = {plain(identity(key)) for key in keys_of(finding) if key.mistake != UNEXPLAINED}
            entry.keys |= keys & {cause.plain_id} or keys - own
    return seen


def _unit(finding: Json, documents: dict[str, str]) -> Unit:
    subject = finding["subject"]
    if subject["role"] == "edition":
        return Unit(str(subject["name"]), documents.get(subject["name"], str(subject["version"])))
    family = str(subject.get("family") or base_name(family_in(finding)))
    return Unit(family, str(subject["version"]))


def _cells(finding: Json, answers: Answers, units: dict[Unit, Answers]) -> Iterator[Cell]:
    """Yield the cells of a finding on each of its paths, as far as the report counts calls there.

    A finding in a text is about the answers of all implementations.
    """
    keys = {tuple(str(cell.get(column, "")) for column in CELL) for cell in finding["cells"]}
    if answers.is_edition:
        yield from (cell for each in units.values() for cell in each.cells if cell[:-1] in keys)
        return
    subject = finding["subject"]
    for path in subject.get("paths", (subject["options"],)):
        label = base_name(subject["name"]) + (f"[{path}]" if path else "")
        yield from (cell for key in keys if (cell := (*key, label)) in answers.cells)


def _line(finding: Json) -> str:
    """The call of a finding's witness as a line; empty if it is large or damaged."""
    call: Any = (finding["witness"] or {}).get("call")
    if call is None or any("hex" not in tensor for tensor in call["tensors"].values()):
        return ""
    try:
        line = call_to_line(call_from_json(call, Path()))
    except ValueError:
        return ""
    return line if len(line) <= MOST_LINE else ""
