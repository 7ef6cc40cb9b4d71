"""The matrix of a report in few lines: editions down, implementations across, causes counted."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xverify.core.severity import Severity
from xverify.report import summary
from xverify.report.causes import Cause, causes
from xverify.report.summary import Json

GAP = 2
"""Blanks between two columns."""

NARROW = 12
"""Characters to which the name of an implementation is folded if the whole name does not fit."""

MOST_ROWS = 14
"""Number of rows above which those without a difference are left out."""

_SEVERITIES: Mapping[Severity, str] = {
    Severity.ENDS_PROCESS: "fatal",
    Severity.WRONG: "wrong",
    Severity.LAST_PLACES: "last-place",
    Severity.REFUSES: "refused",
    Severity.OPEN: "open",
    Severity.NO_VALIDATION: "unchecked",
}
"""One word for causes of each severity."""

_AGREEING = {"good", "quiet"}
"""Tones of fields without a difference."""

_STATUSES = {"not-judged-differs": "differs", "not-judged-agrees": "agrees", "unspecified": "left open"}
"""Short words of statuses that have longer ones elsewhere."""


@dataclass(frozen=True)
class Field:
    """The worst of one implementation in some editions."""

    words: str
    tone: str


@dataclass(frozen=True)
class Row:
    """Editions of one operator with equal fields."""

    label: str
    fields: tuple[Field | None, ...]
    """One for each implementation; None where it takes no calls."""


@dataclass(frozen=True)
class Column:
    """One implementation."""

    heading: tuple[str, ...]
    """The lines of its name."""
    width: int


@dataclass(frozen=True)
class Table:
    """Rows under columns that fit side by side."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    @property
    def height(self) -> int:
        """The number of lines, with the blank line after the table."""
        return max(len(column.heading) for column in self.columns) + len(self.rows) + 1


@dataclass(frozen=True)
class Matrix:
    """The matrix of a report in as many tables as its width needs."""

    tables: tuple[Table, ...]
    agreeing: tuple[str, ...] = ()
    """Implementations without a column, as they agree with every edition that they answer. Empty if all have one."""
    agreed: int = 0
    """Number of editions without a row, as every implementation agrees with them. 0 if all have one."""


def matrix(report: Json, width: int, most_lines: int) -> Matrix:
    """Make the matrix.

    Consecutive editions with equal rows share a row. If there are many rows, those without a difference are left out. If the
    columns do not fit side by side, implementations that agree everywhere lose theirs. If there are still too many lines, each
    operator has one row.

    Args:
        report: The report.
        width: Characters in a line.
        most_lines: Number of lines that all tables may have.
    """
    grid = _Grid(report)
    by_edition = grid.rows_of_equal_editions()
    agreed = 0
    if len(by_edition) > MOST_ROWS and not all(map(grid.is_agreed, by_edition)):
        agreed = sum(len(line.contracts) for line in by_edition if grid.is_agreed(line))
        by_edition = [line for line in by_edition if not grid.is_agreed(line)]
    whole = tuple(_side_by_side(grid, grid.names, by_edition, width))
    if len(whole) <= 1 and sum(table.height for table in whole) <= most_lines:
        return Matrix(whole, agreed=agreed)
    agreeing = tuple(name for name in grid.names if grid.agrees(name))
    names = [name for name in grid.names if name not in agreeing]
    for lines in (by_edition, grid.rows_of_operators()):
        made = _by_domains(grid, names, lines, width)
        if sum(table.height for table in made) <= most_lines:
            break
    return Matrix(tuple(made), agreeing, agreed)


@dataclass(frozen=True)
class _Line:
    """The editions of one row, before it is known which columns fit."""

    operator: str
    label: str
    contracts: tuple[str, ...]
    counted: tuple[str, ...]
    """The editions whose causes are counted: all of them, or one of several that are equal."""


class _Grid:
    """The fields of a report."""

    def __init__(self, report: Json) -> None:
        self._report = report
        self._entries = summary.matrix(report, merged=True)
        self._causes: dict[tuple[str, str], dict[str, Cause]] = defaultdict(dict)
        for cause in causes(report):
            for finding in cause.findings:
                if not summary.on_texts(finding):
                    where = finding["contract"], summary.base(summary.label(finding["subject"]))
                    self._causes[where][cause.id] = cause
        self.names = list(dict.fromkeys(summary.base(name) for name in summary.subjects(report)))

    def field(self, contracts: Sequence[str], name: str) -> Field | None:
        """Count the causes of the worst severity. Without causes, give the worst status of the cells."""
        by_id = {i: cause for contract in contracts for i, cause in self._causes[contract, name].items()}
        new = [cause for cause in by_id.values() if not cause.first["known"]]
        if new:
            worst = min((cause.severity for cause in new), key=lambda severity: severity.rank)
            return Field(f"{sum(c.severity == worst for c in new)} {_SEVERITIES[worst]}", worst.tone)
        if by_id:
            return Field(f"{len(by_id)} in ledger", "quiet")
        entries = [self._entries[contract, name] for contract in contracts if (contract, name) in self._entries]
        if not entries:
            return None
        status = summary.worst(entry.status for entry in entries)
        return Field(_STATUSES.get(status, summary.words(status)), summary.tone(status))

    def fields(self, contracts: Sequence[str], names: Sequence[str] | None = None) -> tuple[Field | None, ...]:
        return tuple(self.field(contracts, name) for name in (self.names if names is None else names))

    def is_agreed(self, line: _Line) -> bool:
        """True if every implementation that answers these editions agrees with them."""
        return all(field is None or field.tone in _AGREEING for field in self.fields(line.counted))

    def agrees(self, name: str) -> bool:
        """True if an implementation agrees with every edition that it answers."""
        fields = (self.field([contract], name) for contract in summary.contracts(self._report))
        tones = {field.tone for field in fields if field is not None}
        return "good" in tones and tones <= _AGREEING

    def rows_of_equal_editions(self) -> list[_Line]:
        lines = []
        for operator, contracts in summary.operators(self._report).items():
            groups: list[list[str]] = []
            for contract in contracts:
                if not any(self.fields([contract])):
                    continue
                if groups and self.fields(groups[-1][-1:]) == self.fields([contract]):
                    groups[-1].append(contract)
                else:
                    groups.append([contract])
            lines += [_Line(operator, _suffixes(operator, group), tuple(group), (group[0],)) for group in groups]
        return lines

    def rows_of_operators(self) -> list[_Line]:
        return [
            line
            for operator, contracts in summary.operators(self._report).items()
            if (present := [contract for contract in contracts if any(self.fields([contract]))])
            if not self.is_agreed(
                line := _Line(operator, f"({summary.plural(len(present), 'edition')})", (*present,), (*present,))
            )
        ]


def _suffixes(operator: str, contracts: Sequence[str]) -> str:
    """Name the editions of an operator: "10, 13", "19 to 25"."""
    names = [contract[len(operator) :].lstrip("-") or contract for contract in contracts]
    return f"{names[0]} to {names[-1]}" if len(names) > 3 else ", ".join(names)


# -- columns that fit ------------------------------------------------------------------------------------------


def _by_domains(grid: _Grid, names: Sequence[str], lines: Sequence[_Line], width: int) -> list[Table]:
    """Make tables of domains: of several as far as all their columns fit side by side."""
    domains = dict.fromkeys(line.operator.partition("/")[0] for line in lines)
    groups: list[list[_Line]] = []
    for domain in domains:
        own = [line for line in lines if line.operator.partition("/")[0] == domain]
        if groups and len(list(_side_by_side(grid, names, groups[-1] + own, width))) == 1:
            groups[-1] += own
        else:
            groups.append(own)
    return [table for group in groups for table in _side_by_side(grid, names, group, width)]


def _side_by_side(grid: _Grid, names: Sequence[str], lines: Sequence[_Line], width: int) -> Iterator[Table]:
    """Yield tables of rows, each with as many columns as fit."""
    fields = [grid.fields(line.counted, names) for line in lines]
    present = [index for index in range(len(names)) if any(row[index] for row in fields)]
    labels = _labels(lines)
    room = width - max(map(len, labels), default=0)
    columns = {i: _column(names[i], [row[i] for row in fields], folded=False) for i in present}
    if sum(column.width + GAP for column in columns.values()) > room:
        columns = {i: _column(names[i], [row[i] for row in fields], folded=True) for i in present}
    chunks: list[list[int]] = []
    left = -1
    for index in present:
        needed = columns[index].width + GAP
        if not chunks or needed > left:
            chunks.append([])
            left = room
        chunks[-1].append(index)
        left -= needed
    for chunk in chunks:
        rows = tuple(Row(label, tuple(row[i] for i in chunk)) for label, row in zip(labels, fields, strict=True))
        yield Table(tuple(columns[i] for i in chunk), rows)


def _labels(lines: Sequence[_Line]) -> list[str]:
    """Name the operator in its first row, and only the editions in the others."""
    labels = []
    for before, line in zip((None, *lines), lines, strict=False):
        again = before is not None and before.operator == line.operator
        labels.append((" " * len(line.operator) if again else line.operator) + " " + line.label)
    return labels


def _column(name: str, fields: Sequence[Field | None], folded: bool) -> Column:
    needed = max((len(field.words) for field in fields if field is not None), default=1)
    heading = textwrap.wrap(name, max(NARROW, needed)) if folded else [name]
    return Column(tuple(heading), max(needed, *map(len, heading)))
