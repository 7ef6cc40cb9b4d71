"""All implementations of a run, each in its worker: batches go out to them, outcomes come back in their own time.

A slow implementation, or one whose process died and is replaced, holds up only the batches that need it.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

from xverify.contracts import get
from xverify.contracts.model import Contract
from xverify.core.call import Call, Outcome, decode_call, encode_call
from xverify.core.errors import WorkerFailedError
from xverify.core.machine import MISSING
from xverify.engine.events import Consumer, WorkerFailed, WorkerReady
from xverify.engine.plan import Case
from xverify.oracles import answers, installed_version
from xverify.oracles.protocol import Oracle
from xverify.oracles.protocol import Path as Way
from xverify.verify.findings import Subject
from xverify.workers.phase_timer import WAITING, Spent
from xverify.workers.process import Limits
from xverify.workers.worker import Worker

DEPTH = 2
"""Batches of one contract under way: enough that no worker waits for the planner."""

IN_ALL = 12
"""Batches under way in all."""

DRAIN_SECONDS = 5.0
"""How long an interrupted run waits for the calls that are under way."""

ALL_PROBES = 0.1
"""Paths that get at least this share of the calls get every call of the lap over the cells."""


class Answering(Protocol):
    """What a fleet wants of a worker; `xverify.workers.worker.Worker` says what each part is."""

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


MakeWorker = Callable[..., Answering]
"""make(oracle, directory, bell=..., likeness=..., limits=...): a worker that is not started yet."""


@dataclass(eq=False)
class Asked:
    """Requests of one batch to one implementation: for each, the case's place in the batch, the subject, and whether it is a
    repetition. outcomes: None until they are there."""

    oracle: Oracle
    places: list[tuple[int, Subject, bool]] = field(default_factory=list)
    requests: list[tuple[bytes, str]] = field(default_factory=list)
    outcomes: Sequence[Outcome] | None = None


@dataclass(eq=False)
class Batch:
    contract: Contract
    cases: list[Case]
    asked: list[Asked]


class Fleet:
    """The workers of a run, and what is under way with them. failures: for each that was lost, a sentence. make: what makes a
    worker of each. spent: where the seconds are counted in which nothing is done but to wait for them."""

    def __init__(
        self,
        oracles: Sequence[Oracle],
        contracts: Sequence[Contract],
        directory: Path,
        emit: Consumer,
        repeat_each: int = 40,
        limits: Limits | None = None,
        make: MakeWorker = Worker,
        spent: Spent | None = None,
    ) -> None:
        self.oracles = {oracle.name: oracle for oracle in oracles}
        self.subjects = {oracle.name: _subjects(oracle, oracle.paths) for oracle in oracles}
        self.surrounded = {oracle.name: _subjects(oracle, oracle.surrounded) for oracle in oracles}
        self.workers: dict[str, Answering] = {}
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
        self._spent = spent or Spent()
        self._announced: set[str] = set()
        self._bell = threading.Event()

    def start(self) -> None:
        """Start every worker; each imports its framework while the others work."""
        for name, oracle in self.oracles.items():
            self.workers[name] = self._make(
                oracle, self._directory, bell=self._bell, likeness=self._likeness, limits=self._limits
            )
            self.workers[name].start()

    def stop(self) -> None:
        for worker in self.workers.values():
            worker.stop()
        with suppress(OSError):
            self._directory.rmdir()

    def give_up(self, sentence: str) -> None:
        """Stop the workers that something is still under way with, and forget it."""
        for asked in (asked for batch in self.under_way for asked in batch.asked if asked.outcomes is None):
            self.workers[asked.oracle.name].stop()
            self.failures.setdefault(asked.oracle.name, sentence)
        self.under_way.clear()

    def abandon(self) -> None:
        """Ask no more of what is under way: its outcome is "unasked", unless it was answered; new processes take over."""
        for name in {asked.oracle.name for batch in self.under_way for asked in batch.asked if asked.outcomes is None}:
            self.workers[name].abandon()

    # -- who answers what -----------------------------------------------------------------------------

    def judges(self, contract: Contract, name: str) -> bool:
        """Whether that edition judges the implementation: its package carries it, or it is the kernel under test."""
        oracle = self.oracles[name]
        return oracle.role == "kernel" or any(fnmatchcase(contract.id, pattern) for pattern in oracle.ships)

    def answering(self, contract: str) -> list[Oracle]:
        """The implementations that take calls of that edition (or of the one it is like), and still run."""
        asked_as = self._asked_as(contract)
        return [o for o in self.oracles.values() if o.name not in self.failures and answers(o, asked_as)]

    def _asked_as(self, contract: str) -> str:
        known = self._contracts.get(contract)
        return contract if known is None else known.asked_as

    def free(self, contract: Contract) -> bool:
        """Whether the contract's implementations are ready for another batch of it."""
        if sum(batch.contract is contract for batch in self.under_way) >= DEPTH:
            return False
        workers = [self.workers[oracle.name] for oracle in self.answering(contract.id)]
        return all(worker.failed or (worker.ready and worker.pending < IN_ALL) for worker in workers)

    def announce(self) -> None:
        """Say which workers have become ready, or were lost."""
        for name, worker in self.workers.items():
            if name not in self._announced and worker.failed:
                self._lost(name)
            elif name not in self._announced and worker.ready:
                self._announced.add(name)
                self._emit(WorkerReady(name, self.subjects[name][0].version))

    def was_ready(self, name: str) -> bool:
        """Whether a worker was once ready."""
        return name in self._announced and name not in self.failures

    def _lost(self, name: str) -> None:
        self._announced.add(name)
        if name not in self.failures:
            self.failures[name] = self.workers[name].failed or f"{name} was lost"
            self._emit(WorkerFailed(name, self.failures[name]))

    def _likeness(self, blob: bytes) -> tuple[str, ...]:
        """What a call that ends a process has in common with others that would."""
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

    # -- batches --------------------------------------------------------------------------------------

    def send(self, contract: Contract, cases: list[Case]) -> None:
        """Send a batch to every implementation that answers the contract: each path takes its share of the calls."""
        blobs = [encode_call(case.call.under(contract.asked_as)) for case in cases]
        batch = Batch(contract, cases, [])
        # A kernel of ours is asked as another edition: what only this one forbids it cannot know.
        beyond = {case.number for case in cases if contract.like and contract.judge(case.call).verdict == "forbidden"}
        for oracle in self.answering(contract.id):
            one = Asked(oracle)
            for place, (case, blob) in enumerate(zip(cases, blobs, strict=True)):
                if case.number in beyond and oracle.distribution == "xverify":
                    continue
                if oracle.untold and self.untold(oracle, contract, case.call):
                    continue
                if case.call.around:
                    for subject in self._in_surroundings(oracle, case):
                        one.places.append((place, subject, False))
                        one.requests.append((blob, subject.options))
                    continue
                for path, subject in zip(oracle.paths, self.subjects[oracle.name], strict=True):
                    in_turn = _in_turn(case.number, path.share) or 0 < path.large <= case.call.values
                    if not in_turn and (case.places is None or path.share < ALL_PROBES):
                        continue
                    one.places.append((place, subject, False))
                    one.requests.append((blob, path.options))
            # Asked again after the others and in another order, so that what an earlier call left behind shows.
            again = [place for place, case in enumerate(cases) if case.number % self._repeat_each == 0]
            first = dict(zip(((place, subject) for place, subject, _ in one.places), one.requests, strict=True))
            plain = self.subjects[oracle.name][0]
            for place in reversed(again):
                if (place, plain) in first:
                    one.places.append((place, plain, True))
                    one.requests.append(first[place, plain])
            self.workers[oracle.name].submit(one.requests)
            batch.asked.append(one)
        self.under_way.append(batch)

    def _in_surroundings(self, oracle: Oracle, case: Case) -> list[Subject]:
        """The paths that a call in surroundings takes, each its share of such calls; not the same call for equal shares."""
        paths = zip(oracle.surrounded, self.surrounded[oracle.name], strict=True)
        return [subject for n, (path, subject) in enumerate(paths) if _in_turn(case.number + n, path.share)]

    def simpler(self, subject: Subject, call: Call) -> list[Subject]:
        """The paths that change less about a call than ``subject``, if that is one for calls in surroundings, the least first.
        Where nothing stands around the call, the plain path is one of them."""
        paths = list(self.surrounded.get(subject.name, ()))
        if subject not in paths:
            return []
        plain = [] if call.around else [self.subjects[subject.name][0]]
        return plain + paths[: paths.index(subject)]

    def surrounds(self, contract: Contract) -> bool:
        """Whether some implementation takes calls of that edition in surroundings."""
        return any(self.surrounded[oracle.name] for oracle in self.answering(contract.id))

    def untold(self, oracle: Oracle, contract: Contract, call: Call) -> bool:
        """Whether all clauses that forbid the call are such that the implementation cannot know."""
        judgement = self._contracts[contract.id].judge(call)
        names = {clause.removeprefix(contract.id + "/") for clause in judgement.clauses}
        return judgement.verdict == "forbidden" and names <= set(oracle.untold)

    def take_answered(self, wait: float = 0.0) -> list[Batch]:
        """The batches that are answered whole, waiting so long for one at most, and no longer under way."""
        done = self._answered()
        if not done and wait:
            with self._waiting():
                self._bell.wait(wait)
            self._bell.clear()
            done = self._answered()
        self.under_way = [batch for batch in self.under_way if batch not in done]
        return done

    def _answered(self) -> list[Batch]:
        """Batches that are answered whole, and no earlier one of their contract is not: what is said of a cell may depend on
        the order of its calls."""
        behind = set()
        for asked in (asked for batch in self.under_way for asked in batch.asked if asked.outcomes is None):
            name = asked.oracle.name
            if name not in behind and self.workers[name].done():
                asked.outcomes = self._collect(name)
            else:
                behind.add(name)
        done, waiting = [], set()
        for batch in self.under_way:
            if batch.contract.id not in waiting and all(asked.outcomes is not None for asked in batch.asked):
                done.append(batch)
            else:
                waiting.add(batch.contract.id)
        return done

    def _collect(self, name: str) -> Sequence[Outcome]:
        """The outcomes of a worker's oldest batch; none when it was given up."""
        try:
            return self.workers[name].collect()
        except WorkerFailedError:
            self._lost(name)
            return ()

    def oldest(self, name: str, interrupted: threading.Event) -> Sequence[Outcome]:
        """The outcomes of a worker's oldest batch, when they are there; none when the worker was lost, or given up because
        they did not come soon after ^C."""
        worker = self.workers[name]
        until = math.inf
        while not worker.done():
            if interrupted.is_set():
                until = min(until, time.monotonic() + DRAIN_SECONDS)
            if time.monotonic() > until:
                worker.stop()
            with self._waiting():
                self._bell.wait(0.05)
            self._bell.clear()
        return self._collect(name)

    def _waiting(self) -> AbstractContextManager[None]:
        return self._spent.on(WAITING)

    # -- one call at a time ---------------------------------------------------------------------------

    def spare_nothing(self) -> None:
        """From here on calls are asked one by one, on purpose, also those that end a process."""
        for worker in self.workers.values():
            worker.likeness = None

    def ask_each(self, asked: Sequence[tuple[Subject, Call]], interrupted: threading.Event) -> list[Outcome]:
        """What each implementation answers to its call, when no batch is under way; all of them work at once. "hang" where the
        worker is lost, or given up after ^C."""
        places: dict[str, list[int]] = {}
        for place, (subject, _) in enumerate(asked):
            places.setdefault(subject.name, []).append(place)
        for name, listed in places.items():
            calls = [(asked[place][0].options, asked[place][1]) for place in listed]
            blobs = [(encode_call(call.under(self._asked_as(call.contract))), options) for options, call in calls]
            self.workers[name].submit(blobs)
        outcomes = [Outcome("hang", message="the worker was lost")] * len(asked)
        for name, listed in places.items():
            for place, outcome in zip(listed, self.oldest(name, interrupted), strict=False):
                outcomes[place] = outcome
        return outcomes

    def ask(self, subject: Subject, call: Call) -> Outcome:
        """One implementation's outcome of one call, when no batch is under way; "hang" when the worker is lost."""
        asked = call.under(self._asked_as(call.contract))
        try:
            with self._waiting():
                return self.workers[subject.name].ask(encode_call(asked), subject.options)
        except WorkerFailedError as error:
            self._lost(subject.name)
            return Outcome("hang", message=str(error))


def _subjects(oracle: Oracle, paths: Sequence[Way]) -> tuple[Subject, ...]:
    """An implementation once for each of its paths."""
    version = installed_version(oracle) or MISSING
    if oracle.distribution == "xverify":
        from xverify import __version__ as version
    return tuple(Subject(oracle.name, version, oracle.role, path.options, path.share >= ALL_PROBES) for path in paths)


def _in_turn(number: int, share: float) -> bool:
    """Whether the case of that number is one of the share."""
    return int((number + 1) * share) != int(number * share)
