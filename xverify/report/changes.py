"""Changes between versions of an implementation, as a table: versions across, changes down."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from xverify.report import summary
from xverify.report.summary import Json
from xverify.verify.changes import base_name, version_order

WORDS = {"fixed": "fixed", "broken": "broken", "supported": "new", "dropped": "gone", "other": "differs"}
"""Words for each kind of change in a field of the table."""

TONES = {"fixed": "good", "broken": "bad", "supported": "good", "dropped": "warn", "other": "open"}
"""Tone of each kind of change, as in `summary.tone`."""


@dataclass(frozen=True)
class Field:
    """A change that came with one version."""

    kind: str
    """Key of `WORDS`."""
    finding: str
    """Id of the finding that reports the change."""

    @property
    def words(self) -> str:
        return WORDS[self.kind]

    @property
    def tone(self) -> str:
        return TONES[self.kind]


@dataclass(frozen=True)
class Row:
    """One thing that changed."""

    what: str
    """Description of the change."""
    clause: str
    """Name of the clause, without its edition."""
    editions: tuple[str, ...]
    """Ids of the editions that show it."""
    fields: tuple[tuple[Field, ...], ...]
    """For each version of the table, the changes in it."""

    @property
    def heading(self) -> str:
        """The change and the edition, with the number of further editions."""
        first, more = self.editions[0], len(self.editions) - 1
        where = f"{first}{f' and {more} more' if more else ''}"
        return where if self.what == first else f"{self.what} ({where}, {self.clause})"


@dataclass(frozen=True)
class History:
    """The changes of one implementation."""

    name: str
    versions: tuple[str, ...]
    """Versions, oldest first."""
    rows: tuple[Row, ...]
    """Changes, in the order of the version in which they appear."""


def histories(report: Json) -> list[History]:
    """Return the history of each implementation that changed between the versions in the report."""
    changed = [finding for finding in summary.findings(report) if finding.get("change")]
    names = dict.fromkeys(finding["change"]["name"] for finding in changed)
    return [
        _history(report, name, [finding for finding in changed if finding["change"]["name"] == name]) for name in names
    ]


def _history(report: Json, name: str, changed: list[Json]) -> History:
    versions = _versions(report, name, changed)
    groups: dict[tuple[str, str, str], list[Json]] = defaultdict(list)
    for finding in changed:
        operator = finding["contract"].partition("-")[0]
        clause = finding["clause"].rpartition("/")[2]
        groups[operator, finding["change"]["what"], clause].append(finding)
    rows = [_row(what, clause, versions, findings) for (_, what, clause), findings in groups.items()]
    rows.sort(key=lambda row: ([not fields for fields in row.fields], row.editions, row.what))
    return History(name, versions, tuple(rows))


def _versions(report: Json, name: str, changed: list[Json]) -> tuple[str, ...]:
    """List the versions that answered, oldest first, with those in which nothing changed."""
    versions = {finding["change"][which] for finding in changed for which in ("older", "newer")}
    for worker in report["run"]["workers"]:
        worker_name = str(worker["name"])
        if base_name(worker_name) == name and worker_name not in versions and worker["status"] == "answered":
            versions.add(worker["version"])
    return tuple(sorted(versions, key=version_order))


def _row(what: str, clause: str, versions: tuple[str, ...], findings: list[Json]) -> Row:
    fields: Mapping[str, list[Field]] = defaultdict(list)
    for finding in findings:
        fields[finding["change"]["newer"]].append(Field(finding["change"]["kind"], finding["id"]))
    editions = {finding["contract"] for finding in findings}
    editions |= {cell["contract"] for finding in findings for cell in finding["cells"]}
    return Row(what, clause, tuple(sorted(editions)), tuple(tuple(fields.get(version, ())) for version in versions))
