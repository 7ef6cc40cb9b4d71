"""Causes in a report: groups of findings that one fix would remove, for every format."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xverify.core.dtypes import common_first
from xverify.core.verdict import Verdict
from xverify.report import summary
from xverify.report.summary import Json
from xverify.verify.causes import CauseKey, cause_key, grouped, order_in_cause

MOST_TYPES = 3
"""Number of types of x that a line names."""

MOST_CLAUSES = 3
"""Number of clauses that a sentence names."""

_GRANULARITIES = ("per tensor", "per axis")
"""Granularities that a line names first, in this order."""


@dataclass(frozen=True)
class Cause:
    """The findings that one fix would remove."""

    findings: tuple[Json, ...]
    """The findings: the worst verdict first, then the commonest types. There is at least one."""

    @property
    def first(self) -> Json:
        """The finding whose witness is shown."""
        return self.findings[0]

    @property
    def verdict(self) -> Verdict:
        return Verdict(self.first["verdict"])


def causes(findings: Iterable[Json]) -> list[Cause]:
    """Group findings by cause: the worst verdict first, then the cause with the commonest types.

    Findings that differ in their ledger state or ledger entry are not grouped.
    """
    by_standing: dict[tuple[str, str], list[Json]] = {}
    for finding in findings:
        ledger = finding.get("ledger", {"state": "", "entry": ""})
        by_standing.setdefault((ledger["state"], ledger["entry"]), []).append(finding)
    groups = [group for listed in by_standing.values() for group in grouped(listed, _key, summary.region)]
    return sorted((Cause(tuple(sorted(group, key=_order))) for group in groups), key=lambda cause: _order(cause.first))


def _key(finding: Json) -> CauseKey:
    by = finding["attribution"]
    return cause_key(
        finding["subject"]["name"],
        finding["verdict"],
        _detail(finding),
        "" if by is None else by["reading"],
        summary.region(finding),
    )


def _detail(finding: Json) -> str:
    """Return the detail; the id in reports of earlier versions, which have no detail."""
    return str(finding.get("detail", finding["id"]))


def _order(finding: Json) -> tuple[int | bool | str, ...]:
    recipe = "" if finding["attribution"] is None else finding["attribution"]["reading"]
    types = finding["x_dtype"], finding["scale_dtype"]
    return order_in_cause(finding["verdict"], recipe, *types, len(finding["cells"]), finding["id"])


def sentence(cause: Cause) -> str:
    """Describe a cause: the summary of its first finding, without the types that others do not share."""
    first = cause.first
    if len(cause.findings) == 1:
        return str(first["summary"])
    name = first["subject"]["name"]
    if cause.verdict == Verdict.WRONGLY_ACCEPTED:
        clauses = list(dict.fromkeys(_detail(finding) for finding in cause.findings))
        return f"{name} computes calls that {summary.plural(len(clauses), 'clause')} forbid: {_some(clauses, MOST_CLAUSES)}"
    if cause.verdict == Verdict.WRONGLY_REJECTED:
        return f"{name} refuses allowed calls ({first['detail'].rpartition(':')[2]})"
    if _detail(first).startswith("types:"):
        clause = first["clause"].removeprefix(f"{first['contract']}/")
        return f"{name} gives values that no known recipe explains, which contradicts {clause!r}"
    return str(first["summary"])


def types(cause: Cause) -> str:
    """List the types and granularities that show a cause.

    For example "uint8, int8, int4 and 9 more types; per tensor and per axis".
    Empty if there is only one type of x, since the call shows it.
    """
    cells = [cell for finding in cause.findings for cell in finding["cells"]]
    x_dtypes = sorted({cell["x_dtype"] for cell in cells}, key=common_first)
    if len(x_dtypes) < 2:
        return ""
    granularities = {cell["granularity"].replace("_", " ") for cell in cells}
    every = sorted(granularities, key=lambda name: _GRANULARITIES.index(name) if name in _GRANULARITIES else len(name))
    return f"{_some(x_dtypes, MOST_TYPES, 'type')}; {_some(every, len(every))}"


def seen(cause: Cause) -> str:
    """Count the findings, calls, values and cells of a cause."""
    first, findings = cause.first, cause.findings
    cells = {tuple(sorted(cell.items())) for finding in findings for cell in finding["cells"]}
    values = sum(finding["values"] for finding in findings)
    largest = -1 if any(finding["max_ulp"] < 0 for finding in findings) else max(f["max_ulp"] for f in findings)
    parts = [
        summary.plural(sum(finding["cases"] for finding in findings), "call"),
        summary.plural(values, "value") if values else "",
        summary.plural(len(cells), "cell") if cells else "",
        f"up to {summary.grouped(largest)} ULP" if largest > 0 else "",
    ]
    small = {"not reached": "; not reduced to the smallest call"}.get(first["shrunk"], "")
    return ", ".join(filter(None, parts)) + small


def _some(names: Sequence[str], most: int, noun: str = "") -> str:
    """Join names. If there are more than ``most``, count the rest."""
    rest = len(names) - most
    if rest <= 0:
        return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return f"{', '.join(names[:most])} and {rest} more{f' {noun}' + 's' * (rest > 1) if noun else ''}"
