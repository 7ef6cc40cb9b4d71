"""The proof: workers compute range after range of units, and results are compared.

Each worker has a thread that sends requests, compares results and records them. NumPy compares without holding the
interpreter's lock, so the threads run in parallel. Ranges are sent in order and end at fixed places. So an interrupted
and continued run makes the same certificate.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.certify import ranges
from xverify.certify.bulk import Bulk, Sources, Through
from xverify.certify.certificate import Book
from xverify.certify.domains import Columns, triples_of_unit
from xverify.certify.identity import changed_files, subject
from xverify.certify.judging import Judge
from xverify.certify.ranges import Range, Ranges
from xverify.certify.witness import counterexample, is_tensor
from xverify.core.bits import subnormals_work
from xverify.core.call import Outcome
from xverify.core.errors import FlushingError, RefusedError, UnableError, WorkerFailedError
from xverify.oracles.protocol import Oracle
from xverify.workers.process import Limits

Piece = tuple[int, Range]
"""A slice, and a range of its units."""

FIRST_TIMES = 4.0
"""Ratio between the longest first call of other processes and the measured first call."""

READY_SECONDS = 0.05
"""Seconds between two checks for a started worker."""

ONCE_SECONDS = 0.1
"""Shortest measurement, in seconds, that is not repeated."""

LEAST_COLUMNS = 16
"""Number of columns in the first request, which shows if a worker answers at all."""


@dataclass(frozen=True)
class Estimate:
    """Seconds that one core takes for one triple."""

    answered: float
    """Time to compute it, with the exchange of operands and results."""
    compared: float
    """Time to compare it."""

    def seconds(self, triples: int, cores: int) -> float:
        """Return the time for a number of triples, in seconds."""
        return triples * (self.answered + self.compared) / cores


@dataclass(frozen=True, eq=False)
class Task:
    """A proof to make."""

    book: Book
    """The certificate."""
    judge: Judge
    asked: Mapping[int, Ranges]
    """Units to prove, by slice."""
    keep_going: bool = False
    """True to continue after a counterexample."""
    until: float = float("inf")
    """Time to stop at, by time.monotonic()."""


def left(task: Task) -> dict[int, Ranges]:
    """Return the requested units that are neither proven nor refuted, by slice."""
    book = task.book
    units = {}
    for part, wanted in task.asked.items():
        done = ranges.united([*book.proven.get(part, ()), *book.refuted(part)])
        if remaining := ranges.without(wanted, done):
            units[part] = remaining
    return units


def triples_left(task: Task) -> int:
    """Return the number of triples that are neither proven nor refuted."""
    return sum(map(ranges.count, left(task).values())) * triples_of_unit(task.book.domain)


def try_out(bulk: Bulk, judge: Judge, asked: Mapping[int, Ranges]) -> Estimate:
    """Send a few columns to a started worker, then one request, and measure the time.

    A crash, a hang or wrong values are left for the proof to find. Then the estimate is 0.

    Args:
        bulk: The worker.
        judge: The comparison.
        asked: Units to prove, by slice.

    Raises:
        RefusedError: The implementation refuses all calls.
        WorkerFailedError: There is no worker.
    """
    through, domain = bulk.through, bulk.through.domain
    part, ((start, stop), *_) = next(iter(asked.items()))
    columns = domain.columns(part, start, min(stop, start + through.units_of_request))
    few = columns.some(slice(0, min(LEAST_COLUMNS, through.each)), slice(None))
    while not bulk.worker.ready and bulk.worker.failed is None:
        time.sleep(READY_SECONDS)
    begin = time.perf_counter()
    outcome, _ = bulk.ask(few)
    bulk.patience = FIRST_TIMES * (time.perf_counter() - begin)
    if outcome.refused and all(bulk.ask(other)[0].refused for other in _others(through, asked)):
        raise RefusedError(
            f"{bulk.oracle.name} refuses calls of this domain by {through.granularity}: {outcome.error}: {outcome.message}"
        )
    if not is_tensor(outcome):
        return Estimate(0.0, 0.0)
    outcome, y, took = _timed(bulk, columns)
    if took < ONCE_SECONDS:  # it may have been mostly compilation for this shape
        outcome, y, took = _timed(bulk, columns)
    begin = time.perf_counter()
    if is_tensor(outcome):
        judge.explaining(judge.readings[:1], columns, y, whole=True)
    compared = time.perf_counter() - begin
    return Estimate(took / columns.size, compared / columns.size)


def _others(through: Through, asked: Mapping[int, Ranges]) -> Iterator[Columns]:
    """Yield a few columns from the middle and from the end of the requested units.

    A refusal of only some columns is a counterexample, not a refusal of the domain.
    """
    part, units = list(asked.items())[-1]
    for unit in ((units[0][0] + units[-1][1]) // 2, units[-1][1] - 1):
        columns = through.domain.columns(part, unit, unit + 1)
        yield columns.some(slice(0, min(LEAST_COLUMNS, through.each)), slice(None))


def _timed(bulk: Bulk, columns: Columns) -> tuple[Outcome, NDArray[Any], float]:
    begin = time.perf_counter()
    outcome, y = bulk.ask(columns)
    return outcome, y, time.perf_counter() - begin


def prove(task: Task, workers: list[Bulk], show: Callable[[int], None] = lambda triples: None) -> None:
    """Prove the remaining units of a task.

    Args:
        task: The proof.
        workers: Started workers.
        show: Called by any thread with the number of triples proven in all.

    Raises:
        WorkerFailedError: There is no worker.
        FlushingError: This process takes subnormal numbers for zero, so its comparisons prove nothing.
        KeyboardInterrupt: The user interrupted. Requests in progress are recorded first.
    """
    if not subnormals_work():
        raise FlushingError("this process takes subnormal numbers for zero: something that it loaded was built so")
    run = _Run(task, show)
    threads = [threading.Thread(target=run.work, args=(bulk,), daemon=True) for bulk in workers]
    for thread in threads:
        thread.start()
    try:
        while any(thread.is_alive() for thread in threads):
            for thread in threads:
                thread.join(0.1)
    except KeyboardInterrupt:
        run.stop.set()
        for thread in threads:
            thread.join()
        raise
    for failure in run.failures:
        raise failure
    run.conclude(workers[0])
    if not subnormals_work():
        raise FlushingError("subnormal numbers are taken for zero since the proof began: nothing of this run counts")


@dataclass(frozen=True, eq=False)
class _Fault:
    """Columns with their outcome."""

    columns: Columns
    outcome: Outcome
    y: NDArray[Any]


def _by_calls(bulk: Bulk, columns: Columns) -> tuple[Outcome, NDArray[Any], Columns]:
    """Repeat columns one call at a time, each with the time limit of a request.

    Many calls may take long without a hang. If some call gives no tensor, return the first of these and its columns.
    """
    results = []
    for first in range(0, columns.scale.size, bulk.through.each):
        some = columns.some(slice(first, first + bulk.through.each), slice(None))
        outcome, y = bulk.ask(some)
        if not is_tensor(outcome):
            return outcome, y, some
        results.append(y.copy())
    return outcome, np.concatenate(results), columns


@dataclass(eq=False)
class _Run:
    """The state of a proof that the threads share."""

    task: Task
    show: Callable[[int], None]
    stop: threading.Event = field(default_factory=threading.Event)
    failures: list[BaseException] = field(default_factory=list)
    faults: dict[Piece, _Fault] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._pieces = self._in_order()

    def _in_order(self) -> Iterator[Piece]:
        step = self.task.book.through.units_of_request
        for part, remaining in left(self.task).items():
            for units in ranges.in_steps(remaining, step):
                yield part, units

    def _next(self) -> Piece | None:
        with self._lock:
            if self.stop.is_set() or time.monotonic() >= self.task.until:
                return None
            return next(self._pieces, None)

    def work(self, bulk: Bulk) -> None:
        """Prove ranges with one worker until none is left."""
        under_way: deque[tuple[Piece, Columns]] = deque()
        try:
            while True:
                while not bulk.full and (piece := self._next()) is not None:
                    columns = bulk.through.domain.columns(piece[0], *piece[1])
                    bulk.submit(columns)
                    under_way.append((piece, columns))
                if not under_way:
                    return
                self._collect(bulk, under_way)
        except BaseException as error:
            self.failures.append(error)
            self.stop.set()

    def _collect(self, bulk: Bulk, under_way: deque[tuple[Piece, Columns]]) -> None:
        (part, units), columns = under_way.popleft()
        task, book = self.task, self.task.book
        outcome, y = bulk.collect()
        if outcome.kind == "hang":
            while under_way:
                self._collect(bulk, under_way)
            outcome, y, columns = _by_calls(bulk, columns)
        names = book.compared(part, units)
        explaining = task.judge.explaining(names, columns, y, whole=True) if is_tensor(outcome) else ()
        if explaining and book.add(part, units, explaining):
            self.show(book.triples())
            return
        fault = _Fault(columns, outcome, y.copy())
        if not task.keep_going:
            self.stop.set()
            self.faults[part, units] = fault
            return
        while under_way:  # only an idle worker can shrink a counterexample
            self._collect(bulk, under_way)
        self._refute(bulk, part, units, fault)

    def conclude(self, bulk: Bulk) -> None:
        """Record the first of the faults that stopped the run, whatever else was in progress."""
        if self.faults:
            order = {part: number for number, part in enumerate(self.task.book.domain.slices)}
            part, units = min(self.faults, key=lambda piece: (order[piece[0]], piece[1]))
            self._refute(bulk, part, units, self.faults[part, units])

    def _refute(self, bulk: Bulk, part: int, units: Range, fault: _Fault) -> None:
        book, judge = self.task.book, self.task.judge
        entry = counterexample(bulk, judge, book.explaining, part, units, fault.columns, fault.outcome, fault.y)
        book.refute(entry)


def seal(
    book: Book, oracle: Oracle, sources: Sources, workers: Sequence[Bulk], before: Mapping[str, Any] | None
) -> None:
    """Record the files that the subject has loaded by the end of the run.

    Args:
        book: The certificate.
        oracle: The subject.
        sources: Files and packages at the beginning of the run.
        workers: Idle workers.
        before: The certificate that the run continued, or None.

    Raises:
        UnableError: A file changed during the run. A restarted worker may have imported the new one, so the certificate
            is restored.
    """
    began = book.head["subject"]
    files, imported = dict(sources.files), dict(sources.versions)
    for bulk in workers:
        with suppress(WorkerFailedError):
            later = bulk.sources()
            files.update(later.files)
            imported.update(later.versions)
    now = subject(oracle, files, began["sources"])
    if changed := changed_files(began, now):
        book.take_back(before)
        raise UnableError(
            f"{', '.join(changed)} changed while {oracle.name} was proven: nothing of this run counts. Run it again"
        )
    earlier = before["subject"]["sources"] if before is not None else {}
    versions = {**(before["versions"] if before is not None else {}), **imported, **book.head["versions"]}
    book.head = {**book.head, "subject": subject(oracle, files, {**earlier, **began["sources"]}), "versions": versions}
    book.write()


def start(oracle: Oracle, through: Through, directory: Path, limits: Limits, count: int) -> list[Bulk]:
    """Start workers."""
    workers = [Bulk(oracle, through, directory, limits) for _ in range(count)]
    for bulk in workers:
        bulk.start()
    return workers


__all__ = [
    "Estimate",
    "FlushingError",
    "RefusedError",
    "Task",
    "WorkerFailedError",
    "left",
    "prove",
    "seal",
    "start",
    "try_out",
]
