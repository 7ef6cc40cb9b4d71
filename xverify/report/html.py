"""The report as one HTML file that needs nothing else: no network, no other file.

All text in it is escaped. A content security policy that names the file's own style and script by their digests
keeps anything else from running, should escaping ever fail.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined, Template

from xverify.report import summary
from xverify.report.script import scripts_of
from xverify.report.summary import Json

MOST_SHOWN = 64
"""Values of a tensor that are shown; the rest is in the report."""


def render(report: Json, scripts: Mapping[str, str] | None = None) -> str:
    """The whole file. ``scripts``: by finding id, see `xverify.report.render`."""
    ordered = summary.findings(report)
    return _template().render(
        report=report,
        run=report["run"],
        trust=report["coverage"]["trust"],
        headline=summary.headline(report),
        subjects=[name for name in summary.subjects(report) if _answers(report, name)],
        contracts=summary.contracts(report),
        matrix=_matrix(report),
        findings=[finding for finding in ordered if not summary.on_texts(finding)],
        texts=[finding for finding in ordered if summary.on_texts(finding)],
        verdicts=_verdicts(ordered),
        clauses=summary.clauses(report),
        characterisation=_characterisation(report),
        scripts=scripts_of(report) if scripts is None else scripts,
    )


def _answers(report: Json, subject: str) -> bool:
    found = (summary.label(finding["subject"]) for finding in report["findings"])
    return any(cell["subject"] == subject for cell in report["coverage"]["cells"]) or subject in found


def _verdicts(findings: list[Json]) -> list[tuple[str, int]]:
    counts = Counter(finding["verdict"] for finding in findings)
    return [(name, counts[name]) for name in summary.VERDICTS if name in counts]


@dataclass(frozen=True)
class Field:
    """An entry, and the finding that it leads to: its own first, or that of the implementation's default path."""

    entry: summary.Entry
    subject: str
    finding: str


@dataclass(frozen=True)
class Matrix:
    """One operator: its editions down, across the implementations that have something to say of them."""

    domain: str
    name: str
    subjects: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Field | None, ...]], ...]


def _matrix(report: Json) -> list[Matrix]:
    entries = summary.matrix(report)
    tables = []
    for operator, contracts in summary.operators(report).items():
        subjects = tuple(s for s in summary.subjects(report) if any((contract, s) in entries for contract in contracts))
        if subjects:
            rows = tuple((c, tuple(_field(entries, c, subject) for subject in subjects)) for c in contracts)
            domain, _, name = operator.rpartition("/")
            tables.append(Matrix(domain, name, subjects, rows))
    return tables


def _field(entries: Mapping[tuple[str, str], summary.Entry], contract: str, subject: str) -> Field | None:
    entry = entries.get((contract, subject))
    if entry is None:
        return None
    plain = entries.get((contract, summary.base(subject)))
    if not entry.findings and plain is not None and entry.tone not in ("good", "quiet"):
        return Field(entry, plain.subject, next(iter(plain.findings), ""))
    return Field(entry, subject, next(iter(entry.findings), ""))


@dataclass(frozen=True)
class Characterised:
    """One edition's cells as a table: a row for each cell, a column for each implementation."""

    contract: str
    subjects: tuple[str, ...]
    rows: tuple[tuple[Json, tuple[Json | None, ...]], ...]
    statuses: tuple[tuple[str, int], ...]


_KEY = ("x_dtype", "scale_dtype", "zero_point_dtype", "out_dtype", "granularity", "variant")


def _characterisation(report: Json) -> list[Characterised]:
    cells: dict[str, dict[tuple[str, ...], dict[str, Json]]] = defaultdict(lambda: defaultdict(dict))
    for cell in report["coverage"]["cells"]:
        cells[cell["contract"]][tuple(cell[name] for name in _KEY)][cell["subject"]] = cell
    tables = []
    for contract in summary.contracts(report):
        rows = cells.get(contract)
        if not rows:
            continue
        present = {subject for row in rows.values() for subject in row}
        subjects = tuple(subject for subject in summary.subjects(report) if subject in present)
        statuses = Counter(cell["status"] for row in rows.values() for cell in row.values())
        tables.append(
            Characterised(
                contract,
                subjects,
                tuple(
                    (dict(zip(_KEY, key, strict=True)), tuple(rows[key].get(subject) for subject in subjects))
                    for key in sorted(rows)
                ),
                tuple((name, statuses[name]) for name in summary.STATUSES if name in statuses),
            )
        )
    return tables


@cache
def _template() -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(
        unbroken=_unbroken,
        grouped=lambda number: _unbroken(summary.grouped(number)),
        plural=lambda number, *nouns: _unbroken(summary.plural(number, *nouns)),
        counted=summary.counted,
        short=summary.short,
        words=summary.words,
        tone=summary.tone,
        label=summary.label,
        base=summary.base,
        shown=_shown,
        clause_name=lambda identity: identity.rpartition("/")[2],
        csp_digest=_csp_digest,
    )
    return environment.from_string(files("xverify.report").joinpath("report.html").read_text("utf-8"))


def _unbroken(text: str) -> str:
    """A number and its noun stay on one line."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def _shown(tensor: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The first values of an inline tensor, in decimal and bits."""
    return list(zip(tensor["data"], tensor["hex"], strict=False))[:MOST_SHOWN]


def _csp_digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
