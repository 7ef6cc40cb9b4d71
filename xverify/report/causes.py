"""Causes in a report, for every format: what one fix would remove, worst first."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xverify.core.dtypes import common_first
from xverify.core.errors import UsageError
from xverify.core.severity import Severity
from xverify.core.verdict import Verdict
from xverify.report import summary
from xverify.report.summary import Json
from xverify.verify.cause_keys import INSIDE, alike, standing
from xverify.verify.cause_titles import some

MOST_TYPES = 3
"""Number of types of x that a line names."""

MOST_SUBJECTS = 3
"""Number of implementations that a sentence names."""

_GRANULARITIES = ("per tensor", "per axis")
"""Granularities that a line names first, in this order."""


_PLAIN = re.compile(r"cause-[0-9a-f]{10}")


def plain(cause: str) -> str:
    """The id of a cause without what a ledger says about it."""
    match = _PLAIN.match(cause)
    return match[0] if match else cause


@dataclass(frozen=True)
class Cause:
    """The findings that one fix would remove."""

    entry: Json
    """The entry of the report."""
    findings: tuple[Json, ...]
    """The findings; there is at least one. The first is the one whose witness is shown."""

    @property
    def id(self) -> str:
        return str(self.entry["id"])

    @property
    def plain_id(self) -> str:
        """The id without what a ledger says about the cause."""
        return plain(self.id)

    @property
    def kind(self) -> str:
        return str(self.entry["kind"])

    @property
    def severity(self) -> Severity:
        return Severity(self.entry["severity"])

    @property
    def title(self) -> str:
        """A predicate of the implementations; a sentence for a cause in a text."""
        return str(self.entry["title"])

    @property
    def is_sentence(self) -> bool:
        """True if the title is a sentence and no predicate of the implementations."""
        return self.kind == "text" or (self.kind == "open" and not self.title.startswith("flushes"))

    @property
    def effect(self) -> str:
        """A wrong value in plain numbers; empty if there is none."""
        return str(self.entry["effect"])

    @property
    def implementations(self) -> tuple[str, ...]:
        """The implementations that show it; empty for a cause in a text."""
        return tuple(self.entry["implementations"])

    @property
    def documents(self) -> tuple[str, ...]:
        """The editions in which it was seen."""
        return tuple(self.entry["documents"])

    @property
    def first(self) -> Json:
        """The finding whose witness is shown."""
        return self.findings[0]

    @property
    def verdict(self) -> Verdict:
        return Verdict(self.first["verdict"])


def causes(report: Json, findings: Iterable[Json] | None = None) -> list[Cause]:
    """List the causes of a report, worst first.

    Args:
        report: The report.
        findings: Findings of the report. Causes without any of them are left out, and so are the other findings of a cause.
            The default is all findings.
    """
    chosen = report["findings"] if findings is None else findings
    by_id = {finding["id"]: finding for finding in chosen}
    listed = []
    for entry in report["causes"]:
        own = tuple(by_id[identity] for identity in entry["findings"] if identity in by_id)
        if own:
            listed.append(Cause(entry, own))
    return listed


def findings_of(report: Json, identity: str) -> list[Json]:
    """Return the findings of the cause with an id, or the finding with that id.

    The first is the one whose witness is shown.

    Raises:
        UsageError: The report has neither. The message names the nearest ids.
    """
    by_id = {finding["id"]: finding for finding in report["findings"]}
    of_causes = {entry["id"]: entry["findings"] for entry in report["causes"]}
    if identity in of_causes:
        return [by_id[finding] for finding in of_causes[identity]]
    if identity in by_id:
        return [by_id[identity]]
    near = difflib.get_close_matches(identity, [*of_causes, *by_id], 3, 0.4)
    there = f"the nearest are {', '.join(near)}" if near else f"it has {summary.plural(len(by_id), 'finding')}"
    raise UsageError(f"the report of run {report['run']['id']} has no cause or finding {identity!r}; {there}")


def sentence(cause: Cause) -> str:
    """Describe a cause in one sentence: implementations, difference, and a wrong value in numbers."""
    head = cause.title if cause.is_sentence else f"{named(cause)} {cause.title}"
    return f"{head}: {cause.effect}" if cause.effect else head


def named(cause: Cause) -> str:
    """Name the implementations as a singular subject: "tensorflow (and tensorflow-function)"."""
    first, *others = cause.implementations
    return f"{first} (and {some(others, MOST_SUBJECTS - 1)})" if others else first


def types(cause: Cause) -> str:
    """List the types and granularities that show a cause.

    For example "uint8, int8, int4 and 9 more types; per tensor and per axis".
    Empty if there is only one type of x, since the call shows it.
    """
    cells = [cell for finding in alike(cause.findings) for cell in finding["cells"]]
    x_dtypes = sorted({cell["x_dtype"] for cell in cells}, key=common_first)
    if len(x_dtypes) < 2:
        return ""
    every = _granularities(cells)
    return f"{_counted(x_dtypes, MOST_TYPES, 'type')}; {some(every, len(every))}"


_OPERANDS = (("", "x_dtype"), ("scale ", "scale_dtype"), ("zero point ", "zero_point_dtype"), ("output ", "out_dtype"))
"""The words for the types of a cell, and their fields."""


def types_in_words(findings: Sequence[Json]) -> str:
    """List the types and granularities of the cells of findings; empty if they have no cells.

    For example "int32, scale float32 or float16, zero point int32, output float32 or float16, per tensor or per axis".
    """
    cells = [cell for finding in findings for cell in finding["cells"]]
    listed = []
    for name, key in _OPERANDS:
        dtypes = sorted({cell[key] for cell in cells} - {""}, key=common_first)
        listed += [name + _counted(dtypes, MOST_TYPES, "type", "or")] if dtypes else []
    every = _granularities(cells)
    return ", ".join([*listed, some(every, len(every), "or")]) if cells else ""


def _granularities(cells: Iterable[Json]) -> list[str]:
    """The granularities of cells in words, the commonest first."""
    names = {cell["granularity"].replace("_", " ") for cell in cells}
    return sorted(names, key=lambda name: _GRANULARITIES.index(name) if name in _GRANULARITIES else len(name))


def seen(cause: Cause) -> str:
    """Count the calls, values and cells of a cause, and apart those of which the text says something else."""
    others = beside(cause.findings)
    return counts(alike(cause.findings)) + (f"; also {some(others, len(others))}" if others else "")


def beside(findings: Sequence[Json]) -> list[str]:
    """Count in words the findings of which the text says something else than of the first."""
    counted = {finding["id"] for finding in alike(findings)}
    calls: Counter[str] = Counter()
    values: Counter[str] = Counter()
    for finding in findings:
        if finding["id"] not in counted:
            is_inside = standing(finding) == standing(findings[0]) and finding["verdict"] in INSIDE
            words = INSIDE[finding["verdict"]] if is_inside else f" that the text {standing(finding)}"
            calls[words] += finding["cases"]
            values[words] += finding["values"] if is_inside else 0
    return [
        (f"{summary.plural(values[words], 'value')} in " if values[words] else "")
        + f"{summary.plural(number, 'call')}{words}"
        for words, number in calls.items()
        if number
    ]


def counts(findings: Sequence[Json]) -> str:
    """Count the calls, values and cells of findings, and name the processors if runs had several.

    The first finding says if its call was reduced.
    """
    cells = {tuple(sorted(cell.items())) for finding in findings for cell in finding["cells"]}
    values = sum(finding["values"] for finding in findings)
    largest = -1 if any(finding["max_ulp"] < 0 for finding in findings) else max(f["max_ulp"] for f in findings)
    parts = [
        summary.plural(sum(finding["cases"] for finding in findings), "call"),
        summary.plural(values, "value") if values else "",
        summary.plural(len(cells), "cell") if cells else "",
        f"up to {summary.grouped(largest)} ULP" if largest > 0 else "",
    ]
    processors = sorted({name for finding in findings for name in finding.get("processors", ())})
    on = f"; seen on {some(processors, len(processors))}" if processors else ""
    small = {"not reached": "; not reduced to the smallest call"}.get(findings[0]["shrunk"], "")
    return ", ".join(filter(None, parts)) + on + small


def _counted(names: Sequence[str], most: int, noun: str, conjunction: str = "and") -> str:
    """Join names. If there are more than ``most``, count the rest with their noun."""
    rest, joined = len(names) - most, some(names, most, conjunction)
    return joined if rest <= 0 else f"{joined} {noun}{'s' * (rest > 1)}"
