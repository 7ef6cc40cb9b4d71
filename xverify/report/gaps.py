"""Gaps: allowed calls that an implementation refuses, and cells that no finding explains.

Both are read from a report alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from xverify.core.verdict import Verdict

Report = Mapping[str, Any]
CellRow = Mapping[str, Any]
Condition = tuple[str, tuple[str, ...]]
"""A property of cells and the values that it has: ("x_dtype", ("int2", "uint2"))."""

PROPERTIES = ("x_dtype", "scale_dtype", "zero_point", "zero_point_dtype", "out_dtype", "granularity", "variant")
"""The properties of a pattern. "zero_point" is its presence, "yes" or "no"."""

_CELL = ("contract", "x_dtype", "scale_dtype", "zero_point_dtype", "out_dtype", "granularity", "variant")
_WORDS = {"x_dtype": "x", "scale_dtype": "scale", "zero_point_dtype": "zero point", "out_dtype": "output"}


@dataclass(frozen=True)
class Gap:
    """Cells of one edition that an implementation refuses, with the smallest pattern of their types."""

    implementation: str
    version: str
    edition: str
    pattern: tuple[Condition, ...]
    """The conditions, all of which hold; empty if the whole edition is refused."""
    cells: int
    whole: bool
    """True if no call of these cells is answered; False if some are."""
    error: str
    """The type of the commonest exception."""
    message: str
    """The beginning of its message for the smallest call."""

    @property
    def words(self) -> str:
        """The pattern for people: "x int2 or uint2, per axis". "everything" for a whole edition."""
        return ", ".join(_condition_words(name, values) for name, values in self.pattern) or "everything"


def gaps(report: Report) -> list[Gap]:
    """The gaps of a report, by implementation and edition.

    A cell is a gap if each path of the implementation refuses it entirely. Then come the cells of which it refuses some calls.
    A cell whose refusals are a finding is no gap.
    """
    names = _names(report)
    rows: defaultdict[tuple[str, str, str], defaultdict[tuple[str, ...], list[CellRow]]]
    rows = defaultdict(lambda: defaultdict(list))
    for row in report["coverage"]["cells"]:
        if row["status"] != "unspecified":  # other rows hold the allowed calls of a cell
            owner = _name(row, names), str(row.get("version", "")), row["contract"]
            rows[owner][tuple(row[name] for name in _CELL)].append(row)
    reported = _cells_of(report, [Verdict.WRONGLY_REJECTED])
    listed_gaps: list[Gap] = []
    for (name, version, edition), cells in sorted(rows.items()):
        kept = {
            key: _shown(listed, (name, *key) in reported) for key, listed in cells.items() if any(map(_tells, listed))
        }
        for whole in (True, False):
            refused = [row for row, state in kept.values() if state == ("refused" if whole else "partly")]
            others = [row for row, state in kept.values() if state != ("refused" if whole else "partly")]
            listed_gaps += [
                _gap(name, version, edition, pattern, covered, whole) for pattern, covered in _patterns(refused, others)
            ]
    return listed_gaps


def unreported(report: Report) -> list[CellRow]:
    """The rows of cells that differ from their edition without a finding that contains them.

    There must be none.
    """
    names = _names(report)
    covered = _cells_of(report, list(Verdict))
    return [
        row
        for row in report["coverage"]["cells"]
        if row["status"] in DIFFERS and (_name(row, names), *(row[name] for name in _CELL)) not in covered
    ]


DIFFERS = frozenset(
    [*(verdict.value for verdict in Verdict if verdict.is_fault), "ambiguous", "not-judged-differs"],
)
"""The statuses of cells that differ from their edition."""


def _cells_of(report: Report, verdicts: Container[str]) -> set[tuple[str, ...]]:
    """The implementation and the cell of each finding with one of the verdicts."""
    return {
        (finding["subject"]["name"], *(cell[name] for name in _CELL))
        for finding in report["findings"]
        if finding["verdict"] in verdicts
        for cell in finding["cells"]
    }


def _names(report: Report) -> list[str]:
    """The names of the implementations, the longest first, since a name can begin with another one."""
    return sorted({str(worker["name"]) for worker in report["run"]["workers"]}, key=len, reverse=True)


def _name(row: CellRow, names: Sequence[str]) -> str:
    """The name of a cell's implementation, without the path."""
    label = str(row["subject"])
    return next((name for name in names if label == name or label.startswith(f"{name}[")), label.partition("[")[0])


def _shown(rows: Sequence[CellRow], is_reported: bool) -> tuple[CellRow, str]:
    """One cell's row to show, and its state over all paths: "refused", "partly" or "answered"."""
    rows = list(filter(_tells, rows))
    refusing = [row for row in rows if "refusal" in row]
    if not refusing or is_reported:
        return rows[0], "answered"
    whole = len(refusing) == len(rows) and all(row["refusal"]["all"] for row in rows)
    return refusing[0], "refused" if whole else "partly"


def _tells(row: CellRow) -> bool:
    """False for a path that only refused calls in graphs: another operator may be the cause."""
    return "refusal" in row or row["status"] != "unsupported"


def _value(row: CellRow, name: str) -> str:
    if name == "zero_point":
        return "yes" if row["zero_point_dtype"] else "no"
    return str(row[name])


def _patterns(
    refused: Sequence[CellRow], others: Sequence[CellRow]
) -> list[tuple[tuple[Condition, ...], list[CellRow]]]:
    """Cover all refused rows by patterns of few conditions that hold of no other row."""
    left = list(refused)
    patterns: list[tuple[tuple[Condition, ...], list[CellRow]]] = []
    for size in range(len(PROPERTIES) + 1):
        while left:
            best = max((_largest(names, left, others) for names in combinations(PROPERTIES, size)), key=_coverage)
            pattern, covered = best
            if not covered:
                break
            patterns.append((pattern, covered))
            left = [row for row in left if not any(row is other for other in covered)]
    return _merged(patterns)


def _coverage(candidate: tuple[tuple[Condition, ...], list[CellRow]]) -> int:
    return len(candidate[1])


def _largest(
    names: Sequence[str], left: Sequence[CellRow], others: Iterable[CellRow]
) -> tuple[tuple[Condition, ...], list[CellRow]]:
    """The values of these properties that hold of most of the rows and of no other row."""
    taken = {tuple(_value(row, name) for name in names) for row in others}
    groups: defaultdict[tuple[str, ...], list[CellRow]] = defaultdict(list)
    for row in left:
        values = tuple(_value(row, name) for name in names)
        if values not in taken:
            groups[values].append(row)
    if not groups:
        return (), []
    values, covered = max(groups.items(), key=lambda item: len(item[1]))
    return tuple((name, (value,)) for name, value in zip(names, values, strict=True)), covered


def _merged(
    patterns: Sequence[tuple[tuple[Condition, ...], list[CellRow]]],
) -> list[tuple[tuple[Condition, ...], list[CellRow]]]:
    """Join patterns with the same exception that differ in the values of one property."""
    joined = list(patterns)
    for name in PROPERTIES:
        groups: dict[Hashable, tuple[tuple[Condition, ...], list[CellRow]]] = {}
        for pattern, covered in joined:
            rest = tuple(condition for condition in pattern if condition[0] != name)
            has = len(rest) < len(pattern)
            key: Hashable = (rest, _commonest(covered)["refusal"]["error"]) if has else (pattern, id(covered))
            if key in groups:
                before, rows = groups[key]
                groups[key] = (_joined(before, pattern, name), [*rows, *covered])
            else:
                groups[key] = (pattern, covered)
        joined = list(groups.values())
    return joined


def _joined(a: tuple[Condition, ...], b: tuple[Condition, ...], name: str) -> tuple[Condition, ...]:
    values = tuple(dict.fromkeys([*dict(a)[name], *dict(b)[name]]))
    return tuple((each, values if each == name else listed) for each, listed in a)


def _commonest(rows: Sequence[CellRow]) -> CellRow:
    """A row with the commonest exception."""
    errors = Counter(row["refusal"]["error"] for row in rows)
    error = errors.most_common(1)[0][0]
    return next(row for row in rows if row["refusal"]["error"] == error)


def _gap(
    name: str, version: str, edition: str, pattern: tuple[Condition, ...], covered: Sequence[CellRow], whole: bool
) -> Gap:
    refusal = _commonest(covered)["refusal"]
    return Gap(name, version, edition, pattern, len(covered), whole, refusal["error"], refusal["message"])


def _condition_words(name: str, values: Sequence[str]) -> str:
    if name == "zero_point":
        return "with a zero point" if "yes" in values else "without a zero point"
    listed = " or ".join(value.replace("_", " ") if name == "granularity" else value or "none" for value in values)
    return f"{_WORDS[name]} {listed}" if name in _WORDS else listed
