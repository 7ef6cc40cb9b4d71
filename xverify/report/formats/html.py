"""The report as one HTML file that needs no network and no other file.

All text in it is escaped. A content security policy names the digests of the file's own style and script, so nothing
else runs even if escaping fails.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined, Template

from xverify.core.verdict import Verdict
from xverify.report import decision, summary
from xverify.report.changes import histories
from xverify.report.characterisation import characterise, indistinguishable, undistinguished
from xverify.report.decision import SHORT_LINE, replay_line
from xverify.report.short_script import short_script
from xverify.report.summary import Json

MOST_PLACES = 12
"""Number of result elements compared with their legal values."""

MOST_SHOWN = 64
"""Number of tensor values shown. The rest is in the report."""


def render(report: Json) -> str:
    """Return the HTML file.

    It shows the short form of each script. The complete scripts are files beside it.
    """
    ordered = summary.findings(report)
    return _template().render(
        report=report,
        run=report["run"],
        decided=_decided(report) if "gate" in report else None,
        trust=report["coverage"]["trust"],
        own_time=summary.own_time(report),
        headline=summary.headline(report),
        subjects=[name for name in summary.subjects(report) if _answers(report, name)],
        contracts=summary.contracts(report),
        matrix=_matrix(report),
        histories=histories(report),
        findings=[finding for finding in ordered if not summary.on_texts(finding)],
        texts=[finding for finding in ordered if summary.on_texts(finding)],
        verdicts=_verdicts(ordered),
        clauses=summary.clauses(report),
        most_places=MOST_PLACES,
        answers=summary.answers(report),
        characterisation=characterise(report),
        scripts={finding["id"]: script for finding in ordered if (script := short_script(finding)) is not None},
    )


@dataclass(frozen=True)
class Decided:
    """The decision of a gate."""

    word: str
    """PASS, FAIL or UNABLE."""
    tone: str
    sentence: str
    """The rest of the decision; it follows the kernel's name."""
    besides: str
    """Reason why a failing gate could not do the rest of its work; empty if it did."""
    failing: list[Json]
    known: list[Json]
    stale: list[str]
    unsupported: list[str]
    replays: Mapping[str, str]
    """Command that repeats each finding, by id."""


def _decided(report: Json) -> Decided:
    word = decision.outcome(report)
    mine = [finding for finding in report["findings"] if finding["subject"]["name"] == report["gate"]["kernel"]]
    return Decided(
        word=word,
        tone={"PASS": "good", "FAIL": "bad", "UNABLE": "warn"}[word],
        sentence=decision.predicate(report),
        besides=decision.besides(report),
        failing=decision.failing(report),
        known=decision.known(report),
        stale=report["gate"]["stale"],
        unsupported=decision.unsupported(report),
        replays={
            finding["id"]: replay_line(report, finding, most=SHORT_LINE) for finding in mine if finding["witness"]
        },
    )


def _answers(report: Json, subject: str) -> bool:
    labels = (summary.label(finding["subject"]) for finding in report["findings"])
    return any(cell["subject"] == subject for cell in report["coverage"]["cells"]) or subject in labels


def _verdicts(findings: list[Json]) -> list[tuple[str, int]]:
    counts = Counter(finding["verdict"] for finding in findings)
    return [(verdict.value, counts[verdict]) for verdict in Verdict if verdict in counts]


@dataclass(frozen=True)
class Field:
    """An entry of the matrix with the finding that it links to."""

    entry: summary.Entry
    subject: str
    finding: str
    """Id of its own first finding, or of the first finding on the implementation's default path."""


@dataclass(frozen=True)
class Matrix:
    """One operator: editions down, and across the implementations that have a result."""

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


@cache
def _template() -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(
        unbroken=_unbroken,
        grouped=lambda number: _unbroken(summary.grouped(number)),
        plural=lambda number, *nouns: _unbroken(summary.plural(number, *nouns)),
        counted=lambda number, verdict: Verdict(verdict).counted(number),
        short=summary.short,
        words=summary.words,
        tone=summary.tone,
        label=summary.label,
        base=summary.base,
        shown=_shown,
        clause_name=lambda identity: identity.rpartition("/")[2],
        around=summary.around,
        in_memory=summary.in_memory,
        region=summary.region,
        state=decision.state,
        standing=decision.standing,
        distance=summary.distance,
        follows=summary.follows,
        undistinguished=undistinguished,
        indistinguishable=indistinguishable,
        csp_digest=_csp_digest,
    )
    return environment.from_string(files("xverify.report.formats").joinpath("report.html").read_text("utf-8"))


def _unbroken(text: str) -> str:
    """Keep a number and its noun on one line."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def _shown(tensor: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the first values of an inline tensor, in decimal and in hexadecimal."""
    return list(zip(tensor["data"], tensor["hex"], strict=False))[:MOST_SHOWN]


def _csp_digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
