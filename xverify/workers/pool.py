"""The workers of a run: batches of calls go out to them, and outcomes come back when they are ready.

A slow implementation, or one whose process died and is replaced, delays only the batches that need it.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

from xverify import __version__
from xverify.contracts import get
from xverify.contracts.model import Contract
from xverify.core.call import Call, Outcome, decode_call, encode_call
from xverify.core.errors import WorkerFailedError
from xverify.core.machine import MISSING
from xverify.oracles import answers, installed_version
from xverify.oracles.protocol import REWRITTEN, Oracle
from xverify.oracles.protocol import Path as OraclePath
from xverify.verify.findings import Subject
from xverify.workers.case import Case
from xverify.workers.events import WorkerConsumer, WorkerFailed, WorkerReady
from xverify.workers.journal import Journal
from xverify.workers.phase_timer import WAITING, PhaseTimer
from xverify.workers.process import Limits
from xverify.workers.worker import Worker

BATCHES_PER_CONTRACT = 2
"""The largest number of batches of one contract under way: enough that no worker waits for the planner."""

MOST_BATCHES = 12
"""The largest number of batches under way, over all contracts."""

DRAIN_SECONDS = 5.0
"""Seconds for which an interrupted run waits for the calls under way."""

ALL_PROBES = 0.1
"""Paths with at least this share of the calls get every call of the lap over the cells."""


class AnyWorker(Protocol):
    """The methods of `xverify.workers.worker.Worker` that a pool uses."""

    failed: str | None
    likeness: Callable[[bytes], Hashable] | None
    calls: int
    seconds: float
    restarts: int

    @property
    def ready(self) -> bool: ...
    @property
    def pending(self) -> int: ...
    def start(self) -> None: ...
    def submit(self, requests: Sequence[tuple[bytes, str]]) -> None: ...
    def done(self) -> bool: ...
    def collect(self) -> list[Outcome]: ...
    def ask(self, blob: bytes, options: str = "") -> Outcome: ...
    def abandon(self) -> None: ...
    def stop(self) -> None: ...


MakeWorker = Callable[..., AnyWorker]
"""Makes a worker that is not started yet: make(oracle, directory, bell=..., likeness=..., limits=...)

A run with a journal adds journal=..."""


@dataclass(frozen=True)
class Origin:
    """The case that a request belongs to, and the implementation that answers it."""

    index: int
    """Index of the case in its batch."""

    subject: Subject

    is_repetition: bool
    """True if the same call was sent before in this batch, to see if the answer changes."""


@dataclass(eq=False)
class RequestBatch:
    """The requests of one batch to one implementation."""

    oracle: Oracle

    origins: list[Origin] = field(default_factory=list)
    """One for each request."""

    requests: list[tuple[bytes, str]] = field(default_factory=list)
    """Encoded calls, each with the options of its path."""

    outcomes: Sequence[Outcome] | None = None
    """One for each request; None until they have arrived; empty if the worker was lost."""

    def add(self, origin: Origin, blob: bytes) -> None:
        """Append a request."""
        self.origins.append(origin)
        self.requests.append((blob, origin.subject.options))


@dataclass(eq=False)
class Batch:
    """Cases of one contract that went out together."""

    contract: Contract
    cases: list[Case]
    requests: list[RequestBatch]
    """One for each implementation that answers the contract."""

    @property
    def answered(self) -> bool:
        """True if no implementation still owes outcomes."""
        return all(sent.outcomes is not None for sent in self.requests)


class WorkerPool:
    """The workers of a run and the batches that are under way with them.

    Args:
        oracles: The implementations; each gets one worker.
        contracts: The editions under which calls are sent.
        directory: Where the workers keep their files.
        emit: Takes an event when a worker is ready or lost.
        repeat_each: One call in this many is sent again at the end of its batch.
        make: Makes a worker; see `MakeWorker`.
        timer: Counts the seconds in which the run only waits for answers.
        journal: Has the answers of the run so far, and keeps the new ones. None keeps nothing.
    """

    def __init__(
        self,
        oracles: Sequence[Oracle],
        contracts: Sequence[Contract],
        directory: Path,
        emit: WorkerConsumer,
        repeat_each: int = 40,
        limits: Limits | None = None,
        make: MakeWorker = Worker,
        timer: PhaseTimer | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.oracles = {oracle.name: oracle for oracle in oracles}
        #: By implementation, one subject for each path that plain calls take.
        self.subjects = {oracle.name: _subjects(oracle, oracle.paths) for oracle in oracles}
        #: The same for calls in surroundings.
        self.surrounded = {oracle.name: _subjects(oracle, oracle.surrounded) for oracle in oracles}
        self.workers: dict[str, AnyWorker] = {}
        #: By implementation that was lost, a sentence that says why.
        self.failures: dict[str, str] = {}
        self.under_way: list[Batch] = []
        self._contracts = {contract.id: contract for contract in contracts}
        for other in {contract.like for contract in contracts} - {"", *self._contracts}:
            self._contracts[other] = get(other)
        self._directory = directory
        self._emit = emit
        self._repeat_each = repeat_each
        self._limits = limits or Limits()
        self._make = make
        self._timer = timer or PhaseTimer()
        self.journal = journal
        self._announced: set[str] = set()
        self._bell = threading.Event()

    def start(self) -> None:
        """Start every worker; each imports its framework while the others work."""
        for name, oracle in self.oracles.items():
            journal = {} if self.journal is None else {"journal": self.journal.of(name)}
            self.workers[name] = self._make(
                oracle, self._directory, bell=self._bell, likeness=self._likeness, limits=self._limits, **journal
            )
            self.workers[name].start()

    def stop(self) -> None:
        """End every worker."""
        for worker in self.workers.values():
            worker.stop()
        with suppress(OSError):
            self._directory.rmdir()

    def give_up(self, sentence: str) -> None:
        """Stop the workers that still owe outcomes, and drop all batches under way."""
        for name in self._owing():
            self.workers[name].stop()
            self.failures.setdefault(name, sentence)
        self.under_way.clear()
        for name, worker in self.workers.items():  # a phase that ended early leaves batches of its own
            worker.abandon()
            while worker.pending:
                self._collect(name)

    def abandon(self) -> None:
        """Cancel the calls under way.

        Unanswered ones get the outcome "unasked". New processes take over.
        """
        for name in self._owing():
            self.workers[name].abandon()

    def _owing(self) -> list[str]:
        """The implementations that still owe outcomes."""
        owing = (sent.oracle.name for batch in self.under_way for sent in batch.requests if sent.outcomes is None)
        return list(dict.fromkeys(owing))

    # -- who answers which calls -------------------------------------------------------------------------

    def judges(self, contract: Contract, name: str) -> bool:
        """True if the edition judges the implementation.

        That is so if `Oracle.judged_by` names the edition, or if the implementation is the kernel under test.
        """
        oracle = self.oracles[name]
        return oracle.role == "kernel" or any(fnmatchcase(contract.id, pattern) for pattern in oracle.judged_by)

    def answering(self, contract: str) -> list[Oracle]:
        """The running implementations that take calls of an edition, or of the edition that it is like."""
        known_as = self._known_as(contract)
        return [o for o in self.oracles.values() if o.name not in self.failures and answers(o, known_as)]

    def _known_as(self, contract: str) -> str:
        """The id under which implementations know an edition."""
        own = self._contracts.get(contract)
        return contract if own is None else own.asked_as

    def has_room(self, contract: Contract) -> bool:
        """True if the contract's implementations are ready for another batch of it."""
        if sum(batch.contract is contract for batch in self.under_way) >= BATCHES_PER_CONTRACT:
            return False
        workers = [self.workers[oracle.name] for oracle in self.answering(contract.id)]
        return all(worker.failed or (worker.ready and worker.pending < MOST_BATCHES) for worker in workers)

    def announce(self) -> None:
        """Emit an event for each worker that has become ready or was lost."""
        for name, worker in self.workers.items():
            if name not in self._announced and worker.failed:
                self._lost(name)
            elif name not in self._announced and worker.ready:
                self._announced.add(name)
                self._emit(WorkerReady(name, self.subjects[name][0].version))

    def is_lost(self, name: str) -> bool:
        """True if the worker cannot answer any more."""
        return name in self.workers and self.workers[name].failed is not None

    def was_ready(self, name: str) -> bool:
        """True if the worker became ready and was not lost since."""
        return name in self._announced and name not in self.failures

    def _lost(self, name: str) -> None:
        self._announced.add(name)
        if name not in self.failures:
            self.failures[name] = self.workers[name].failed or f"{name} was lost"
            self._emit(WorkerFailed(name, self.failures[name]))

    def _likeness(self, blob: bytes) -> tuple[str, ...]:
        """The properties that a call which ends a process shares with others that would end it too."""
        call = decode_call(blob)
        contract = self._contracts[call.contract]
        judgement = contract.judge(call)
        kind = "empty" if call.values == 0 else "not empty"
        allowed = judgement.verdict == "allowed"
        values: tuple[str, ...] = ()
        if allowed:
            # Each is often code of its own: oneDNN 3.2 dies of zero points per channel, and of axes from the back.
            offset = "zero point" if "zero_point" in call.tensors else ""
            axis = "axis from the back" if int(call.attributes.get("axis", 0)) < 0 else ""
            mode = str(call.attributes.get("mode", ""))
            values = call.data.dtype, mode, contract.cell(call).granularity, offset, axis
        around = sorted({word.partition(":")[0] for word in call.around})
        return (call.contract, kind, judgement.verdict, *values, *judgement.clauses, *around)

    def plainer_paths(self, subject: Subject, call: Call) -> list[Subject]:
        """The paths that come before ``subject`` in a report of a call in surroundings, the plainest first.

        For a call without surroundings, the plain path is the first. Then comes the path with the default optimisation, which is
        the last of `Oracle.surrounded`, and then those that change less about the call. There are none if ``subject`` is not a
        path for calls in surroundings.
        """
        paths = list(self.surrounded.get(subject.name, ()))
        if subject not in paths:
            return []
        plain = [] if call.around else [self.subjects[subject.name][0]]
        return plain if subject == paths[-1] else [*plain, paths[-1], *paths[: paths.index(subject)]]

    def surrounds(self, contract: Contract) -> bool:
        """True if some implementation takes calls of that edition in surroundings, and is judged by it.

        Where an edition does not judge an implementation, wrong values of a graph say nothing: another operator may be to
        blame. The same graphs count under the editions that do judge it.
        """
        return any(
            self.surrounded[oracle.name] and self.judges(contract, oracle.name)
            for oracle in self.answering(contract.id)
        )

    def untold(self, oracle: Oracle, contract: Contract, call: Call) -> bool:
        """True if a call is forbidden only by clauses that the implementation cannot see (`Oracle.untold`)."""
        judgement = self._contracts[contract.id].judge(call)
        names = {clause.removeprefix(contract.id + "/") for clause in judgement.clauses}
        return judgement.verdict == "forbidden" and names <= set(oracle.untold)

    # -- batches -----------------------------------------------------------------------------------------

    def send(self, contract: Contract, cases: list[Case]) -> None:
        """Send a batch to every implementation that answers the contract. Each path gets its share."""
        blobs = [encode_call(case.call.under(contract.asked_as)) for case in cases]
        batch = Batch(contract, cases, [])
        # An in-house kernel is called under another edition: it cannot know what only this one forbids.
        beyond = {case.number for case in cases if contract.like and contract.judge(case.call).verdict == "forbidden"}
        for oracle in self.answering(contract.id):
            sent = RequestBatch(oracle)
            for index, (case, blob) in enumerate(zip(cases, blobs, strict=True)):
                if case.number in beyond and oracle.distribution == "xverify":
                    continue
                if oracle.untold and self.untold(oracle, contract, case.call):
                    continue
                for subject in self._paths_for(oracle, contract, case):
                    sent.add(Origin(index, subject, False), blob)
            # Repeated after the others and in another order, so that state that an earlier call left behind shows.
            plain = self.subjects[oracle.name][0]
            indices_sent = {origin.index for origin in sent.origins if origin.subject == plain}
            for index in reversed(range(len(cases))):
                if cases[index].number % self._repeat_each == 0 and index in indices_sent:
                    sent.add(Origin(index, plain, True), blobs[index])
            self.workers[oracle.name].submit(sent.requests)
            batch.requests.append(sent)
        self.under_way.append(batch)

    def _paths_for(self, oracle: Oracle, contract: Contract, case: Case) -> list[Subject]:
        """The paths of an implementation that a case takes; each path takes its share of the cases."""
        if case.call.around and not self.judges(contract, oracle.name):
            return []
        if case.call.around:
            # Offset by the path's index, so that equal shares do not take the same calls.
            surrounded = zip(oracle.surrounded, self.surrounded[oracle.name], strict=True)
            return [s for offset, (path, s) in enumerate(surrounded) if _in_share(case.number + offset, path.share)]
        return [
            subject
            for path, subject in zip(oracle.paths, self.subjects[oracle.name], strict=True)
            if _in_share(case.number, path.share)
            or 0 < path.large <= case.call.values
            or (case.places is not None and path.share >= ALL_PROBES)
        ]

    def collect_answered(self, wait: float = 0.0) -> list[Batch]:
        """Take the batches that every implementation has answered. They are then no longer under way.

        Args:
            wait: The most seconds to wait for one.
        """
        done = self._answered()
        if not done and wait:
            with self._waiting():
                self._bell.wait(wait)
            self._bell.clear()
            done = self._answered()
        self.under_way = [batch for batch in self.under_way if batch not in done]
        return done

    def _answered(self) -> list[Batch]:
        """Batches that are answered and have no unanswered predecessor of their contract.

        The findings on a cell may depend on the order of its calls.
        """
        behind = set()
        for sent in (sent for batch in self.under_way for sent in batch.requests if sent.outcomes is None):
            name = sent.oracle.name
            if name not in behind and self.workers[name].done():
                sent.outcomes = self._collect(name)
            else:
                behind.add(name)
        done, waiting = [], set()
        for batch in self.under_way:
            if batch.contract.id not in waiting and batch.answered:
                done.append(batch)
            else:
                waiting.add(batch.contract.id)
        return done

    def _collect(self, name: str) -> Sequence[Outcome]:
        """The outcomes of a worker's oldest batch; none if the worker was given up."""
        try:
            return self.workers[name].collect()
        except WorkerFailedError:
            self._lost(name)
            return ()

    def collect_oldest(
        self, name: str, interrupted: threading.Event, is_overdue: Callable[[], bool] = lambda: False
    ) -> Sequence[Outcome]:
        """Wait for the outcomes of a worker's oldest batch.

        Empty if the worker was lost, if it did not answer within `DRAIN_SECONDS` of an interruption, or if its calls were
        cancelled because they are overdue.
        """
        worker = self.workers[name]
        until = math.inf
        while not worker.done():
            if interrupted.is_set():
                until = min(until, time.monotonic() + DRAIN_SECONDS)
            if time.monotonic() > until:
                worker.stop()
            elif is_overdue():
                worker.abandon()
            with self._waiting():
                self._bell.wait(0.05)
            self._bell.clear()
        outcomes = self._collect(name)
        return () if any(outcome.kind == "unasked" for outcome in outcomes) else outcomes

    def _waiting(self) -> AbstractContextManager[None]:
        return self._timer.on(WAITING)

    # -- single calls, when no batch is under way --------------------------------------------------------

    def spare_nothing(self) -> None:
        """From now on send also those calls that are expected to end a process."""
        for worker in self.workers.values():
            worker.likeness = None

    def ask_each(self, pairs: Sequence[tuple[Subject, Call]], interrupted: threading.Event) -> list[Outcome]:
        """The outcome of each call from its implementation; all implementations work at once.

        The outcome is "unasked" where the worker is lost, or given up after an interruption.
        """
        indices: dict[str, list[int]] = {}
        for index, (subject, _) in enumerate(pairs):
            indices.setdefault(subject.name, []).append(index)
        for name, listed in indices.items():
            self.workers[name].submit([self._request(*pairs[index]) for index in listed])
        outcomes = [Outcome("unasked", message="the worker was lost")] * len(pairs)
        for name, listed in indices.items():
            for index, outcome in zip(listed, self.collect_oldest(name, interrupted), strict=False):
                outcomes[index] = outcome
        return outcomes

    def ask(self, subject: Subject, call: Call) -> Outcome:
        """The outcome of one call from one implementation; "unasked" if the worker is lost."""
        try:
            with self._waiting():
                return self.workers[subject.name].ask(*self._request(subject, call))
        except WorkerFailedError as error:
            self._lost(subject.name)
            return Outcome("unasked", message=str(error))

    def rewrite(self, subject: Subject, call: Call) -> str:
        """The rewrite of a call's graph on a path, as a predicate of the implementation; "" if unknown."""
        outcome = self.ask(replace(subject, options=REWRITTEN + subject.options), call)
        return outcome.message if outcome.kind == "rewrite" else ""

    def _request(self, subject: Subject, call: Call) -> tuple[bytes, str]:
        return encode_call(call.under(self._known_as(call.contract))), subject.options


def _subjects(oracle: Oracle, paths: Sequence[OraclePath]) -> tuple[Subject, ...]:
    """One subject for each path of an implementation."""
    version = __version__ if oracle.distribution == "xverify" else installed_version(oracle) or MISSING
    return tuple(Subject(oracle.name, version, oracle.role, path.options, path.share >= ALL_PROBES) for path in paths)


def _in_share(number: int, share: float) -> bool:
    """True if the case of that number belongs to a share of all cases."""
    return int((number + 1) * share) != int(number * share)
