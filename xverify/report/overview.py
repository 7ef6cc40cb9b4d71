"""Overviews of a report: the grid of causes by effect, and the map of editions by implementation."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from xverify.core.dtypes import common_first
from xverify.core.severity import Severity
from xverify.oracles.releases import OLD_YEARS, age_in_years
from xverify.report import summary
from xverify.report.causes import Cause
from xverify.report.summary import Json
from xverify.verify.cause_keys import is_in_house

DOCUMENTS = "the documents"
"""Name of the row, and of the filter's choice, for causes in texts that no implementation is blamed for."""


@dataclass(frozen=True)
class Effect:
    """A column of the grid."""

    key: str
    """Name in the address and in attributes of the page."""
    heading: str
    tone: str
    severities: tuple[Severity, ...]


CHANGES = Effect("changes", "changes of versions", "quiet", ())
"""The column of causes that two versions of one implementation differ in. Reports of one version have none."""

EFFECTS = (
    Effect("process", "ends the process", "bad", (Severity.ENDS_PROCESS,)),
    Effect("values", "wrong values", "bad", (Severity.WRONG, Severity.LAST_PLACES)),
    Effect("refusals", "refusals", "warn", (Severity.REFUSES,)),
    Effect("texts", "texts", "open", (Severity.OPEN,)),
    Effect("forbidden", "forbidden calls", "quiet", (Severity.NO_VALIDATION,)),
)
"""The columns of the grid, worst first. Every severity belongs to one."""

_KIND_OF_CHANGES = "change"


def effect(cause: Cause) -> Effect:
    """Return the column of the grid in which a cause is counted."""
    if cause.kind == _KIND_OF_CHANGES:
        return CHANGES
    return next(column for column in EFFECTS if cause.severity in column.severities)


def columns(causes: Sequence[Cause]) -> tuple[Effect, ...]:
    """Return the columns of the grid. A report without changes of versions has no column for them."""
    return (*EFFECTS, CHANGES) if any(effect(cause) == CHANGES for cause in causes) else EFFECTS


def subjects(cause: Cause) -> tuple[str, ...]:
    """Return the implementations of a cause without their options, or `DOCUMENTS` if it names none."""
    return tuple(dict.fromkeys(map(summary.base, cause.implementations))) or (DOCUMENTS,)


@dataclass(frozen=True)
class Row:
    """One implementation in the grid."""

    name: str
    release: str
    """Version as upstream names it, or the version of the package."""
    age: str
    """Age of the release in words; empty if it is less than a year or unknown."""
    is_old: bool
    counts: tuple[int, ...]
    """Number of causes in each of the `columns`."""


def grid(report: Json, causes: Sequence[Cause]) -> list[Row]:
    """Return the implementations that answered, with the worst first and the documents last.

    xverify's own kernels have a row only if they have a cause.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for cause in causes:
        for name in subjects(cause):
            counts[name][effect(cause).key] += 1
    workers = {str(worker["name"]): worker for worker in report["run"]["workers"]}
    names = [name for name, worker in workers.items() if worker["calls"] and not is_in_house(worker)]
    names += [name for name in counts if name not in names]
    keys = [column.key for column in columns(causes)]
    rows = [_row(report, name, workers.get(name), tuple(counts[name][key] for key in keys)) for name in names]
    rows.sort(key=lambda row: (row.name == DOCUMENTS, [-count for count in row.counts], row.name))
    return rows


def unblamed(report: Json, causes: Sequence[Cause]) -> list[str]:
    """Return xverify's own kernels that answered and that no cause names."""
    named = {name for cause in causes for name in subjects(cause)}
    workers = report["run"]["workers"]
    return [w["name"] for w in workers if w["calls"] and is_in_house(w) and w["name"] not in named]


def _row(report: Json, name: str, worker: Json | None, counts: tuple[int, ...]) -> Row:
    if worker is None:
        return Row(name, "", "", False, counts)
    release = str(worker.get("release") or worker["version"])
    years = age_in_years(release, _day(report)) or 0
    words = summary.plural(years, "year") + " old" if years else ""
    return Row(name, release, words, years >= OLD_YEARS, counts)


def _day(report: Json) -> date:
    """Return the day of the run; the first day of all if the report spells it in another way."""
    try:
        return date.fromisoformat(str(report["run"]["started"])[:10])
    except ValueError:
        return date.min


# -- the map -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Field:
    """One implementation under one edition."""

    causes: int
    tone: str
    """Tone of the worst cause. Without a cause, the tone of the worst status."""
    words: str
    """The worst effect, or the worst status."""
    types: tuple[tuple[str, tuple[str, ...]], ...]
    """Types of x by the worst status of their cells, worst first."""


@dataclass(frozen=True)
class Group:
    """The editions of one operator."""

    operator: str
    rows: tuple[tuple[str, str, tuple[Field | None, ...]], ...]
    """Edition, its short name, and its field for each implementation."""


@dataclass(frozen=True)
class HeatMap:
    """Editions by implementations."""

    subjects: tuple[str, ...]
    groups: tuple[Group, ...]


def heat_map(report: Json, causes: Sequence[Cause]) -> HeatMap:
    """Return the number and the worst of the causes for every pair of edition and implementation."""
    by_pair: dict[tuple[str, str], list[Cause]] = defaultdict(list)
    for cause in causes:
        by_subject = [(summary.base(f["subject"]["name"]), f) for f in cause.findings if not summary.on_texts(f)]
        pairs = {(contract, name) for name, f in by_subject for contract in _contracts(f)}
        for pair in pairs:
            by_pair[pair].append(cause)
    cells: dict[tuple[str, str], list[Json]] = defaultdict(list)
    for cell in report["coverage"]["cells"]:
        cells[cell["contract"], summary.base(cell["subject"])].append(cell)
    present = {name for _, name in (*by_pair, *cells)}
    own = {worker["name"] for worker in report["run"]["workers"] if is_in_house(worker)}
    names = tuple(n for n in dict.fromkeys(map(summary.base, summary.subjects(report))) if n in present)
    names = tuple(sorted(names, key=own.__contains__))
    groups = []
    for operator, contracts in summary.operators(report).items():
        name = operator.rpartition("/")[2]
        rows = tuple(
            (contract, short_name(contract, name), tuple(_field(by_pair, cells, (contract, n)) for n in names))
            for contract in contracts
        )
        groups.append(Group(operator, tuple(row for row in rows if any(row[2]))))
    return HeatMap(names, tuple(group for group in groups if group.rows))


def _contracts(finding: Json) -> set[str]:
    return {finding["contract"], *(cell["contract"] for cell in finding["cells"])}


def short_name(contract: str, operator: str) -> str:
    """Return an edition's name without its operator: "21", "1@seed"."""
    return contract.rpartition("/")[2].removeprefix(operator).lstrip("-") or contract


def _field(
    by_pair: dict[tuple[str, str], list[Cause]], cells: dict[tuple[str, str], list[Json]], pair: tuple[str, str]
) -> Field | None:
    causes, listed = by_pair.get(pair, []), cells.get(pair, [])
    if not causes and not listed:
        return None
    worst_of: dict[str, str] = {}
    for cell in listed:
        status = str(cell["status"])
        worst_of[cell["x_dtype"]] = summary.worst((status, worst_of.get(cell["x_dtype"], status)))
    by_status: dict[str, list[str]] = defaultdict(list)
    for x_dtype in sorted(worst_of, key=lambda dtype: (common_first(dtype), dtype)):
        by_status[worst_of[x_dtype]].append(x_dtype)
    types = tuple((status, tuple(by_status[status])) for status in summary.STATUSES if status in by_status)
    if causes:
        worst = min(causes, key=lambda cause: cause.severity.rank)
        return Field(len(causes), worst.severity.tone, effect(worst).heading, types)
    whole = summary.worst(worst_of.values())
    return Field(0, summary.tone(whole), summary.words(whole), types)
