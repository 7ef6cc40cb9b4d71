"""The report as one HTML file that needs no network and no other file.

All text in it is escaped. A content security policy names the digests of the file's own style and script, so nothing
else runs even if escaping fails.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined, Template

from xverify.core.dtypes import common_first
from xverify.core.severity import Severity
from xverify.core.verdict import Verdict
from xverify.report import causes as of_causes
from xverify.report import decision, overview, sentences, summary
from xverify.report import model as of_model
from xverify.report.causes import Cause
from xverify.report.changes import histories
from xverify.report.characterisation import characterise, indistinguishable, undistinguished
from xverify.report.decision import SHORT_LINE, replay_line
from xverify.report.gaps import gaps
from xverify.report.overview import CHANGES, EFFECTS, Effect
from xverify.report.picture import Picture, picture
from xverify.report.presence import Difference, Strip
from xverify.report.short_script import short_script
from xverify.report.summary import Json

WORST = 5
"""Number of causes in sentences on the first screen."""

MOST_QUOTES = 2
"""Number of sentences of the texts that a cause quotes. The others are named."""

MOST_PLACES = 12
"""Number of result elements compared with their legal values."""

MOST_SHOWN = 64
"""Number of tensor values shown. The rest is in the report."""


def render(report: Json, since: Difference | None = None, strips: Mapping[str, Sequence[Strip]] | None = None) -> str:
    """Return the HTML file.

    It shows the short form of each script. The complete scripts are files beside it.

    Args:
        report: The report.
        since: Comparison with an older run.
        strips: Presence of each cause over versions, by its id.
    """
    ordered = summary.findings(report)
    listed = of_causes.causes(report)
    cards = _cards(report, listed)
    shown = {finding["id"] for card in cards for finding in card.findings}
    return _template().render(
        report=report,
        run=report["run"],
        decided=_decided(report) if "gate" in report else None,
        model=_checked(report) if "model" in report else None,
        trust=report["coverage"]["trust"],
        own_time=summary.own_time(report),
        grid=overview.grid(report, listed),
        unblamed=overview.unblamed(report, listed),
        effects=overview.columns(listed),
        worst=listed[:WORST],
        heat=overview.heat_map(report, listed),
        gaps=gaps(report),
        causes=cards,
        since=since,
        strips=strips or {},
        own={cause.plain_id: cause.id for cause in listed},
        other_findings=[finding for finding in ordered if finding["id"] not in shown],
        choices=_choices(report, cards),
        tables=sentences.tables(report),
        standings=sentences.STANDINGS,
        histories=histories(report),
        clauses=summary.clauses(report),
        most_places=MOST_PLACES,
        answers=summary.answers(report),
        characterisation=characterise(report),
        scripts={finding["id"]: script for finding in ordered if (script := short_script(finding)) is not None},
    )


@dataclass(frozen=True)
class Card:
    """One cause in the list."""

    cause: Cause
    effect: Effect
    subjects: tuple[str, ...]
    """Names that the filter of implementations knows."""
    editions: str
    """The editions in short names."""
    quoted: tuple[str, ...]
    """Ids of the clauses that are quoted."""
    named: tuple[str, ...]
    """Ids of the other clauses, which are named only."""
    picture: Picture | None
    findings: tuple[Json, ...]
    """The findings whose cards are here. A finding has one card, in its worst cause."""
    elsewhere: tuple[Json, ...]
    """The findings whose cards are in a worse cause."""
    text: str
    """The text that the search looks through."""


def _cards(report: Json, causes: list[Cause]) -> list[Card]:
    clauses, shown = summary.clauses(report), set[str]()
    short = _short_editions(report)
    cards = []
    for cause in causes:
        here = tuple(finding for finding in cause.findings if finding["id"] not in shown)
        elsewhere = tuple(finding for finding in cause.findings if finding["id"] in shown)
        shown |= {finding["id"] for finding in here}
        cited = list(dict.fromkeys(finding["clause"] for finding in cause.findings))
        if cause.verdict == Verdict.CONFLICT and cause.first.get("detail") in clauses:
            cited.insert(1, cause.first["detail"])
        by_text = {clauses[c]["text"] or c if c in clauses else c: c for c in reversed(cited)}
        once = [clause for clause in cited if clause in by_text.values()]
        cards.append(
            Card(
                cause,
                overview.effect(cause),
                overview.subjects(cause),
                _editions(cause, short),
                tuple(once[:MOST_QUOTES]),
                tuple(once[MOST_QUOTES:]),
                picture(cause.findings),
                here,
                elsewhere,
                _searched(cause),
            )
        )
    return cards


def _short_editions(report: Json) -> dict[str, tuple[str, list[str], str]]:
    """Return operator, short names of all its editions, and short name of every edition."""
    result: dict[str, tuple[str, list[str], str]] = {}
    for operator, contracts in summary.operators(report).items():
        name = operator.rpartition("/")[2]
        order = [overview.short_name(contract, name) for contract in contracts]
        result |= {contract: (operator, order, own) for contract, own in zip(contracts, order, strict=True)}
    return result


def _editions(cause: Cause, short: Mapping[str, tuple[str, list[str], str]]) -> str:
    """List the editions of a cause by operator: "ai.onnx/DequantizeLinear 19 to 25"."""
    operators: dict[str, list[str]] = {}
    unknown = [document for document in cause.documents if document not in short]
    for document in cause.documents:
        if document in short:
            operators.setdefault(short[document][0], []).append(document)
    parts = [
        f"{operator} {sentences.ranges([short[d][2] for d in documents], short[documents[0]][1])}"
        for operator, documents in operators.items()
    ]
    return "; ".join([*parts, *unknown])


def _searched(cause: Cause) -> str:
    words = {cause.id: None, of_causes.sentence(cause): None}
    for finding in cause.findings:
        version = finding["subject"].get("version", "")
        for text in (finding["id"], finding["clause"], finding["verdict"], version, finding["variant"]):
            words[text] = None
    return " ".join(words)


def _choices(report: Json, cards: list[Card]) -> dict[str, list[tuple[str, str]]]:
    """Return the choices of each filter: value and words."""
    counts = Counter(card.effect.key for card in cards)
    names = dict.fromkeys(name for card in cards for name in card.subjects)
    x_dtypes = {x_dtype for card in cards for x_dtype in card.cause.entry["x_dtypes"]}
    documents = {document for card in cards for document in card.cause.documents}
    contracts = [contract for contract in summary.contracts(report) if contract in documents]
    return {
        "implementation": [(name, name) for name in sorted(names, key=lambda n: (n == overview.DOCUMENTS, n))],
        "effect": [(e.key, f"{e.heading} ({counts[e.key]})") for e in (*EFFECTS, CHANGES) if counts[e.key]],
        "type": [(name, name) for name in sorted(x_dtypes, key=lambda name: (common_first(name), name))],
        "edition": [(contract, contract) for contract in contracts],
    }


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
    failing: list[Cause]
    known: list[Cause]
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
        failing=decision.failing_causes(report),
        known=of_causes.causes(report, decision.known(report)),
        stale=report["gate"]["stale"],
        unsupported=decision.unsupported(report),
        replays={
            finding["id"]: replay_line(report, finding, most=SHORT_LINE) for finding in mine if finding["witness"]
        },
    )


@dataclass(frozen=True)
class Checked:
    """The check of a model."""

    word: str
    """PASS, FAIL or UNABLE."""
    tone: str
    sentence: str
    """The rest of the decision."""
    failing: Sequence[tuple[Cause, Sequence[str]]]
    """The causes of wrong values of nodes alone, each with the names of the nodes."""
    groups: Sequence[of_model.Group]
    """Differences in the model."""
    faults: Sequence[of_model.Group]
    """Those of them that are faults."""
    columns: Sequence[tuple[str, str]]
    rows: Sequence[of_model.Row]
    notes: Sequence[str]
    words: Mapping[str, str]
    """The checks in words."""


def _checked(report: Json) -> Checked:
    word, groups = of_model.word(report), of_model.groups(report)
    return Checked(
        word=word,
        tone={"PASS": "good", "FAIL": "bad", "UNABLE": "warn"}[word],
        sentence=of_model.sentence(report),
        failing=[(cause, of_model.nodes_showing(report, cause)) for cause in of_model.failing_causes(report)],
        groups=groups,
        faults=[group for group in groups if group.first["is_fault"]],
        columns=of_model.columns(report),
        rows=of_model.rows(report),
        notes=of_model.notes(report),
        words=of_model.WORDS,
    )


_SEVERITIES = {
    Severity.ENDS_PROCESS: "ends the process",
    Severity.WRONG: "wrong values",
    Severity.LAST_PLACES: "last places",
    Severity.REFUSES: "refuses",
    Severity.OPEN: "left open",
    Severity.NO_VALIDATION: "not validated",
}
"""Severities in at most three words."""

_KINDS = {"change": "changed", "not-followed": "not followed", "text": "text"}
"""Words for kinds of causes that say more than the severity."""


def _short_effect(cause: Cause) -> str:
    return _KINDS.get(cause.kind) or _SEVERITIES[cause.severity]


@cache
def _template() -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(
        unbroken=_unbroken,
        grouped=lambda number: _unbroken(summary.grouped(number)),
        plural=lambda number, *nouns: _unbroken(summary.plural(number, *nouns)),
        short=summary.short,
        sentence=of_causes.sentence,
        types=of_causes.types,
        seen=of_causes.seen,
        severity=_short_effect,
        lines="\n".join,
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
