"""The SQLite file that keeps runs.

A transaction adds a run, so a file holds all of a run or nothing of it. Two writers wait for each other. No file stays beside it.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import Self

from xverify.core.errors import DamagedFileError, UnableError, UsageError
from xverify.core.near import nearest
from xverify.history.presence import CauseHistory, Observation, Sight
from xverify.history.rows import CELL, Cell, Facts, Unit, facts
from xverify.report.summary import Json

HISTORY = Path("reports", "history.sqlite")
"""The file by default, below the current directory."""

APPLICATION = 0x78766879
"""SQLite's application_id of the file: "xvhy"."""

VERSION = 1
"""Version of the tables, which SQLite keeps as user_version."""

PATIENCE = 60.0
"""Time that a command waits for another one that writes, in seconds."""

WITHOUT_VALUES = ("crash", "hang", "memory", "refusal", "validation", "unreadable")
"""Kinds of causes that a call can show without a value to compare."""

WITHOUT_RESULT = ("wrongly-rejected", "crash", "hang")
"""Statuses of cells that may have no value to compare, since the implementation may have refused every call that matters."""

COMPARISONS = ("open", "text", "change")
"""Kinds of causes that show only where the same implementations answer together."""


@dataclass(frozen=True)
class Run:
    """A run of the history."""

    number: int
    id: str
    started: str
    command: str
    seed: int
    seconds: float
    is_complete: bool
    processor: str
    """Processor and its vector instructions."""
    calls: int
    values: int
    implementations: tuple[str, ...]
    """Each implementation with its version."""
    causes: int
    """Number of causes."""


@dataclass(frozen=True)
class Added:
    """The outcome of adding a run."""

    run: str
    """Id of the run."""
    before: str
    """Id of the run that the file has already; empty if the run was added."""

    @property
    def words(self) -> str:
        """The outcome in words."""
        if not self.before:
            return f"run {self.run} added"
        if self.before == self.run:
            return f"run {self.run} is there already; nothing added"
        return f"run {self.run} is there already, as a part of or together with {self.before}; nothing added"


class History:
    """An open history. It is a context manager."""

    def __init__(self, path: Path | None, create: bool = False) -> None:
        """Open a file.

        Args:
            path: The file; None for a history in memory.
            create: Make the file if there is none.

        Raises:
            UsageError: There is no such file.
            DamagedFileError: It is no history, or a newer version of xverify wrote it.
            UnableError: It cannot be opened.
        """
        self.path = path
        if path is not None and not create and not path.is_file():
            raise UsageError(f"there is no history at {path}; make one with: xverify history record RUN")
        if path is not None and create:
            path.parent.mkdir(parents=True, exist_ok=True)
        with self._in_words():
            self._database = sqlite3.connect(
                ":memory:" if path is None else path, timeout=PATIENCE, isolation_level=None
            )
        try:
            with self._in_words():
                self._prepare()
        except BaseException:
            self._database.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _prepare(self) -> None:
        """Check the file's marks, and make the tables in a new file."""
        (version,) = self._database.execute("PRAGMA user_version").fetchone()
        (application,) = self._database.execute("PRAGMA application_id").fetchone()
        (tables,) = self._database.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if application == APPLICATION and version > VERSION:
            raise DamagedFileError(
                f"{self.path} is a history of a newer xverify: its version is {version}, and this xverify reads {VERSION}; "
                "use the newer one, or name another file with --file"
            )
        if application != APPLICATION and (tables or version or application):
            raise DamagedFileError(f"{self.path} is not a history of xverify; name another file with --file")
        if application != APPLICATION:
            with self._transaction():
                (tables,) = self._database.execute("SELECT count(*) FROM sqlite_schema").fetchone()
                for statement in _statements() if not tables else ():
                    self._database.execute(statement)
                self._database.execute(f"PRAGMA application_id = {APPLICATION}")
                self._database.execute(f"PRAGMA user_version = {VERSION}")

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        """Turn errors of SQLite into one sentence."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise UnableError(
                    f"{self.path} is in use by another command for more than {PATIENCE:.0f} s; try again later"
                ) from None
            raise UnableError(f"{self.path} cannot be used: {error}; check its folder and its permissions") from None
        except sqlite3.DatabaseError as error:
            raise DamagedFileError(
                f"{self.path} is damaged or not a history of xverify: {error}; restore it, or name another file with --file"
            ) from None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    # -- writing -------------------------------------------------------------------------------------------

    def record(self, report: Json) -> Added:
        """Add the run of a report, unless the file has it already, alone or as a part of a merged run."""
        collected = facts(report)
        with self._in_words(), self._transaction():
            if same := self._same(collected):
                return Added(str(collected.run["id"]), same)
            self._add(collected)
        return Added(str(collected.run["id"]), "")

    def _same(self, collected: Facts) -> str:
        """The id of the recorded run that is this one, contains it, or is a part of it; empty without one."""
        same = self._database.execute(
            "SELECT id FROM runs WHERE digest = ? UNION ALL "
            f"SELECT runs.id FROM parts JOIN runs USING (run) WHERE part IN ({_marks(collected.parts)}) "
            "AND (? OR (SELECT count(*) FROM parts whole WHERE whole.run = runs.run) > 1) LIMIT 1",
            (collected.digest, *collected.parts, len(collected.parts) > 1),
        ).fetchone()
        return str(same[0]) if same else ""

    def _add(self, collected: Facts) -> None:
        execute, many = self._database.execute, self._database.executemany
        run, machine = collected.run, collected.run["machine"]
        number = execute(
            "INSERT INTO runs (digest, id, started, command, seed, budget, cases, seconds, is_complete, machine, "
            "processor, instructions, calls, vals) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                collected.digest,
                run["id"],
                run["started"],
                run["command"],
                run["seed"],
                run["budget"],
                run["cases"],
                run["seconds"],
                run["complete"],
                " ".join(str(machine[key]) for key in ("system", "architecture") if machine.get(key)),
                str(machine.get("processor") or ""),
                str(machine.get("instructions") or ""),
                collected.calls,
                collected.values,
            ),
        ).lastrowid
        many("INSERT INTO packages VALUES (?, ?, ?)", [(number, *item) for item in run["versions"].items()])
        many("INSERT INTO parts VALUES (?, ?)", [(number, part) for part in collected.parts])
        names = _Names(self._database)
        for unit, answers in collected.units.items():
            of_unit = names.unit(unit)
            execute(
                "INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?)",
                (number, of_unit, answers.name, answers.is_edition, answers.calls, answers.seconds),
            )
            rows = [(number, of_unit, names.cell(cell), *counts) for cell, counts in answers.cells.items()]
            many("INSERT INTO cells VALUES (?, ?, ?, ?, ?, ?)", rows)
            many("INSERT INTO follows VALUES (?, ?, ?)", [(number, of_unit, names.clause(c)) for c in answers.follows])
        for cause, seen in collected.causes.items():
            execute("INSERT OR IGNORE INTO causes VALUES (?, ?)", (cause, seen.kind))
            execute(
                "INSERT INTO sights VALUES (?, ?, ?, ?, ?)", (number, cause, seen.severity, seen.sentence, seen.line)
            )
            shown = [(number, cause, names.unit(unit), calls) for unit, calls in seen.calls.items()]
            many("INSERT INTO sightings VALUES (?, ?, ?, ?)", shown)
            pairs = [(cause, names.cell(cell)) for cell in seen.cells]
            many("INSERT OR IGNORE INTO cause_cells VALUES (?, ?)", pairs)
            pairs = [(cause, names.clause(clause)) for clause in seen.clauses]
            many("INSERT OR IGNORE INTO cause_clauses VALUES (?, ?)", pairs)
            many("INSERT OR IGNORE INTO cause_keys VALUES (?, ?)", [(cause, key) for key in seen.keys])

    # -- reading -------------------------------------------------------------------------------------------

    def runs(self) -> list[Run]:
        """The runs in the order in which they started."""
        with self._in_words():
            implementations: dict[int, dict[str, None]] = defaultdict(dict)
            for number, name, version in self._database.execute(
                "SELECT run, name, version FROM answers JOIN units USING (unit) WHERE NOT is_edition AND calls > 0 "
                "ORDER BY run, name"
            ):
                implementations[number][f"{name} {version}"] = None
            rows = self._database.execute(
                "SELECT run, id, started, command, seed, seconds, is_complete, processor, instructions, calls, vals, "
                "(SELECT count(*) FROM sights WHERE sights.run = runs.run) FROM runs ORDER BY started, id"
            ).fetchall()
        return [
            Run(
                number=row[0],
                id=row[1],
                started=row[2],
                command=row[3],
                seed=row[4],
                seconds=row[5],
                is_complete=bool(row[6]),
                processor=", ".join(filter(None, row[7:9])),
                calls=row[9],
                values=row[10],
                implementations=tuple(implementations[row[0]]),
                causes=row[11],
            )
            for row in rows
        ]

    def number_of(self, run: str) -> int:
        """The number of the run with an id.

        Raises:
            UsageError: The history has no such run, or several.
        """
        numbers = [each.number for each in self.runs() if each.id == run]
        if not numbers:
            raise UsageError(f"{self.path} has no run {run!r}{nearest(run, [each.id for each in self.runs()])}")
        if len(numbers) > 1:
            raise UsageError(
                f"{self.path} has {len(numbers)} runs with the id {run}, from several machines; name another run"
            )
        return numbers[0]

    def causes(self) -> list[CauseHistory]:
        """All causes with what each run says about them."""
        with self._in_words():
            return _histories(self._database)


def _histories(database: sqlite3.Connection) -> list[CauseHistory]:
    kinds = dict(database.execute("SELECT cause, kind FROM causes ORDER BY cause"))
    plans = {
        run: "" if cases is None else f"{seed}/{cases}"
        for run, seed, cases in database.execute("SELECT run, seed, cases FROM runs")
    }
    units = {unit: Unit(family, version) for unit, family, version in database.execute("SELECT * FROM units")}
    present: dict[int, list[tuple[int, bool]]] = defaultdict(list)
    for run, unit, is_edition in database.execute("SELECT DISTINCT run, unit, is_edition FROM answers"):
        present[run].append((unit, bool(is_edition)))
    edition_units = {unit for listed in present.values() for unit, is_edition in listed if is_edition}
    sightings: dict[str, dict[tuple[int, int], int]] = defaultdict(dict)
    for run, cause, unit, calls in database.execute("SELECT * FROM sightings"):
        sightings[cause][run, unit] = calls
    sights: dict[str, dict[int, Sight]] = defaultdict(dict)
    for run, cause, severity, sentence, line, *processor in database.execute(
        "SELECT sights.*, processor, instructions FROM sights JOIN runs USING (run) ORDER BY started, id"
    ):
        sights[cause][run] = Sight(severity, sentence, line, ", ".join(filter(None, processor)))
    tested, by_contract = _tested(database)
    followed = {
        (cause, run, unit)
        for cause, run, unit in database.execute(
            "SELECT DISTINCT cause, run, unit FROM cause_clauses JOIN follows USING (clause) "
            "WHERE cause NOT IN (SELECT cause FROM cause_cells)"
        )
    }
    with_cells = {cause for (cause,) in database.execute("SELECT DISTINCT cause FROM cause_cells")}
    others = _others(database)
    together = {
        run: frozenset(units[unit].family for unit, is_edition in listed if not is_edition)
        for run, listed in present.items()
    }
    result = []
    for cause, kind in kinds.items():
        families = {units[unit].family for _, unit in sightings[cause]}
        is_text = all(unit in edition_units for _, unit in sightings[cause])
        needed = [together[run] for run in sights[cause]] if kind in COMPARISONS and not is_text else [frozenset[str]()]
        observations = []
        for run, listed in present.items():
            shows = any(needs <= together[run] for needs in needed)
            for unit, is_edition in listed:
                if units[unit].family not in families:
                    continue
                calls = sum(sightings[each].get((run, unit), 0) for each in (cause, *others.get(cause, ())))
                if is_edition:
                    count = by_contract[cause, run, units[unit].family]
                    is_decided = cause not in with_cells
                else:
                    count = tested[cause, run, unit] if shows else 0
                    is_decided = shows and (cause, run, unit) in followed
                observations.append(
                    Observation(
                        run, units[unit].family, units[unit].version, calls, max(calls, count), is_decided, plans[run]
                    )
                )
        result.append(CauseHistory(cause, kind, is_text, sights[cause], tuple(observations)))
    return result


def _tested(
    database: sqlite3.Connection,
) -> tuple[Mapping[tuple[str, int, int], int], Mapping[tuple[str, int, str], int]]:
    """The number of calls in the cells of each cause, by unit and by edition.

    A cell with refusals does not count for a cause of values. If most calls are in such cells, none counts: the
    implementation may refuse exactly the calls that would show the cause.
    """
    by_unit: dict[tuple[str, int, int], int] = defaultdict(int)
    by_contract: dict[tuple[str, int, str], int] = defaultdict(int)
    for cause, run, unit, contract, calls, every in database.execute(
        "SELECT cause_cells.cause, cells.run, cells.unit, contract, sum(CASE "
        f"WHEN kind IN ({_marks(WITHOUT_VALUES)}) OR status NOT IN ({_marks(WITHOUT_RESULT)}) THEN cells.calls ELSE 0 END), "
        "sum(cells.calls) "
        "FROM cause_cells JOIN causes USING (cause) JOIN cells USING (cell) JOIN cell_names USING (cell) "
        "WHERE status NOT LIKE 'not-judged%' "
        "GROUP BY cause_cells.cause, cells.run, cells.unit, contract",
        (*WITHOUT_VALUES, *WITHOUT_RESULT),
    ):
        if 2 * calls >= every:
            by_unit[cause, run, unit] += calls
            by_contract[cause, run, contract] += calls
    return by_unit, by_contract


def _marks(values: Sequence[str]) -> str:
    """The question marks of an SQL list."""
    return ",".join("?" * len(values))


def _others(database: sqlite3.Connection) -> Mapping[str, Sequence[str]]:
    """The other ids of each cause, where reports of other implementations group its findings differently."""
    others: dict[str, list[str]] = defaultdict(list)
    for cause, other in database.execute(
        "SELECT DISTINCT a.cause, b.cause FROM cause_keys a JOIN cause_keys b ON a.key = b.key AND a.cause <> b.cause"
    ):
        others[cause].append(other)
    return others


class _Names:
    """The numbers of units, cells and clauses, which the tables hold once."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._numbers: dict[tuple[str, tuple[str, ...]], int] = {}

    def unit(self, unit: Unit) -> int:
        return self._number("units", "unit", ("family", "version"), (unit.family, unit.version))

    def cell(self, cell: Cell) -> int:
        return self._number("cell_names", "cell", (*CELL, "subject"), cell)

    def clause(self, clause: str) -> int:
        return self._number("clauses", "clause", ("name",), (clause,))

    def _number(self, table: str, key: str, columns: tuple[str, ...], values: tuple[str, ...]) -> int:
        # Only the names of tables and columns are in the statements; they are written in this file.
        if (table, values) not in self._numbers:
            listed, marks = ", ".join(columns), ", ".join("?" * len(columns))
            self._database.execute(f"INSERT OR IGNORE INTO {table} ({listed}) VALUES ({marks})", values)
            where = " AND ".join(f"{column} = ?" for column in columns)
            (number,) = self._database.execute(f"SELECT {key} FROM {table} WHERE {where}", values).fetchone()
            self._numbers[table, values] = number
        return self._numbers[table, values]


def _statements() -> Iterable[str]:
    text = files("xverify.history").joinpath("tables.sql").read_text("utf-8")
    return (statement for statement in text.split(";") if statement.strip())
