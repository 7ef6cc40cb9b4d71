"""Running a sweep: calls go out to all implementations in batches, outcomes are judged as they come back.

One process plans and judges; each implementation answers in a process of its own. While they answer a batch, the next
is made. What is found does not depend on which contract's batch comes back first.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

from oracles import answers, installed_version
from oracles.protocol import Oracle
from xverify.contracts.model import Cell, Contract, Reading
from xverify.core.call import Call, Outcome, decode_call, encode_call
from xverify.engine.events import Consumer, FindingFound, Progressed, SweepStarted, WorkerFailed, WorkerReady
from xverify.engine.plan import Case, batches
from xverify.engine.trust import Trust
from xverify.engine.workers import Worker, WorkerFailedError
from xverify.verify import editions, verdicts
from xverify.verify.attribute import Attribution
from xverify.verify.findings import Discrepancy, Finding, Findings, Subject
from xverify.verify.legal import legal_set
from xverify.verify.tally import Tally
from xverify.verify.verdicts import Judged

DEPTH = 2
"""Batches of one contract under way: enough that no worker waits for the planner."""

IN_ALL = 12
"""Batches under way in all; one whose implementation died and restarts does not hold up the others."""

REPEAT_EACH = 40
"""Every so many calls one is asked twice, to see whether the answer is the same."""

CONFLICT_EACH = 6
"""Every so many allowed calls one is also judged by the rival editions."""

DRAIN_SECONDS = 5.0
"""How long an interrupted run waits for the calls that are under way."""

SHRINK_SHARE = 0.25
"""Share of the budget kept for shrinking."""


@dataclass(frozen=True)
class Options:
    """What a sweep was asked for. budget in seconds, or cases; with cases the result depends on the seed only."""

    contracts: tuple[Contract, ...]
    oracles: tuple[Oracle, ...]
    directory: Path
    run_id: str
    command: str
    seed: int = 0
    budget: float = 60.0
    cases: int | None = None


@dataclass(eq=False)
class _Asked:
    """Requests of one batch to one implementation: for each, the case's place in the batch and the subject; repeats are
    marked."""

    oracle: Oracle
    places: list[tuple[int, Subject, bool]] = field(default_factory=list)
    requests: list[tuple[bytes, str]] = field(default_factory=list)
    outcomes: Sequence[Outcome] | None = None


@dataclass(eq=False)
class _Batch:
    contract: Contract
    cases: list[Case]
    asked: list[_Asked]


class Sweep:
    """The state of one run; `explore` fills it, `shrink` and `store` use it."""

    def __init__(self, options: Options, emit: Consumer) -> None:
        self.options = options
        self.emit = emit
        self.started = time.time()
        self._clock = time.monotonic()
        self.workers: dict[str, Worker] = {}
        self.subjects: dict[str, tuple[Subject, ...]] = {}
        self.oracles = {oracle.name: oracle for oracle in options.oracles}
        self.tally = Tally()
        self.findings = Findings()
        self.trust = Trust()
        self.phases: Counter[str] = Counter()
        self.clause_cases: Counter[str] = Counter()
        self.values = 0
        self.complete = True
        self.interrupted = threading.Event()
        self.failures: dict[str, str] = {}
        self.readings: dict[str, dict[str, Reading]] = {}
        self.spared: Counter[str] = Counter()
        self._under_way: list[_Batch] = []
        self._supported: dict[tuple[Subject, Cell], bool] = {}
        self._open_refusals: list[tuple[Discrepancy, Subject, Judged, Outcome, Subject]] = []
        self._bell = threading.Event()

    # -- the parts of a run ---------------------------------------------------------------------------

    def start(self) -> None:
        """Start every worker; each imports its framework while the others work."""
        for oracle in self.options.oracles:
            version = installed_version(oracle) or "not installed"
            if oracle.distribution == "xverify":
                from xverify import __version__ as version
            self.subjects[oracle.name] = tuple(
                Subject(oracle.name, version, oracle.role, path.options) for path in oracle.paths
            )
            worker = Worker(oracle, self.options.directory / "workers", bell=self._bell, likeness=self._likeness)
            worker.start()
            self.workers[oracle.name] = worker
        names = tuple(subject.label for subjects in self.subjects.values() for subject in subjects)
        contracts = tuple(contract.id for contract in self.options.contracts)
        self.emit(SweepStarted(self.options.run_id, contracts, names, self.options.budget, self.options.cases))

    def elapsed(self) -> float:
        return time.monotonic() - self._clock

    def explore(self) -> None:
        """Make calls and judge the outcomes until the budget ends; then what can be said only at the end."""
        for contract in self.options.contracts:
            for discrepancy, call in editions.contradictions(contract):
                self.findings.add(discrepancy, editions.edition_subject(contract), call, None, None, 0)
        try:
            for contract, cases in self._turns():
                self._under_way.append(self._send(contract, cases))
                self._receive_done()
                while len(self._under_way) >= IN_ALL:
                    self._wait()
                    self._receive_done()
            while self._under_way:
                self._receive_done()
                self._wait()
        except KeyboardInterrupt:
            self.complete = False
            self._drain()
        self._conclude()

    def _drain(self) -> None:
        """After ^C: judge what is under way if it comes soon, so that nothing that was answered is lost."""
        until = time.monotonic() + DRAIN_SECONDS
        while self._under_way and time.monotonic() < until:
            self._receive_done()
            self._wait()
        if self._under_way:
            for asked in (asked for batch in self._under_way for asked in batch.asked):
                self.workers[asked.oracle.name].stop()
                self.failures.setdefault(asked.oracle.name, "it did not answer before the run was interrupted")
            self._under_way.clear()

    def _receive_done(self) -> bool:
        """Judge the batches that every implementation has answered; whether there were any."""
        self._gather()
        done = self._answered()
        for batch in done:
            self._under_way.remove(batch)
            self._receive(batch)
        return bool(done)

    def _gather(self) -> None:
        """Take from each worker what it has answered; it answers in the order in which it was asked."""
        behind = set()
        for asked in (asked for batch in self._under_way for asked in batch.asked if asked.outcomes is None):
            name = asked.oracle.name
            if name not in behind and self.workers[name].done():
                asked.outcomes = self._collect(asked)
            else:
                behind.add(name)

    def _answered(self) -> list[_Batch]:
        """The batches that are answered whole, and no earlier one of their contract is not: what is said of a cell may
        depend on the order of its calls."""
        done, waiting = [], set()
        for batch in self._under_way:
            if batch.contract.id not in waiting and all(asked.outcomes is not None for asked in batch.asked):
                done.append(batch)
            else:
                waiting.add(batch.contract.id)
        return done

    def _wait(self) -> None:
        """Wait a moment for an answer, if there is nothing else to do."""
        self._gather()
        if self._under_way and not self._answered():
            self._bell.wait(0.05)
            self._bell.clear()

    def stop(self) -> None:
        for worker in self.workers.values():
            worker.stop()
        with suppress(OSError):
            (self.options.directory / "workers").rmdir()

    # -- planning -------------------------------------------------------------------------------------

    def _turns(self) -> Iterator[tuple[Contract, list[Case]]]:
        """Batches over the contracts in turn; those whose workers are still starting come later."""
        options = self.options
        streams = {contract.id: batches(contract, options.seed) for contract in options.contracts}
        weights = {contract.id: _weight(contract) for contract in options.contracts}
        quota = dict.fromkeys(streams, 2**62)
        if options.cases is not None:
            quota = _shares(options.cases, weights)
        limit = options.budget * (1 - SHRINK_SHARE)
        announced: set[str] = set()
        made: Counter[str] = Counter()
        while any(quota.values()) and (options.cases is not None or self.elapsed() < limit):
            if self.interrupted.is_set():
                raise KeyboardInterrupt
            self._announce(announced)
            free = [c for c in options.contracts if quota[c.id] and self._free(c)]
            if not free:
                if not self._receive_done():
                    self._bell.wait(0.02)
                    self._bell.clear()
                continue
            # The contract that is farthest behind: one whose worker had to be replaced catches up.
            contract = min(free, key=lambda c: made[c.id] / weights[c.id])
            cases = next(streams[contract.id])[: quota[contract.id]]
            quota[contract.id] -= len(cases)
            made[contract.id] += len(cases)
            yield contract, cases

    def _answering(self, contract: Contract) -> list[Oracle]:
        return [o for o in self.options.oracles if self.can_answer(o, contract.id)]

    def _free(self, contract: Contract) -> bool:
        """Whether the contract's implementations are ready for another batch."""
        if sum(batch.contract is contract for batch in self._under_way) >= DEPTH:
            return False
        workers = [self.workers[oracle.name] for oracle in self._answering(contract)]
        return all(worker.failed or (worker.ready and worker.pending < IN_ALL) for worker in workers)

    def _likeness(self, blob: bytes) -> tuple[str, ...]:
        """What a call that ends a process has in common with others that would. The report counts those that were spared."""
        call = decode_call(blob)
        judgement = self._contract(call.contract).judge(call)
        kind = "empty" if call.values == 0 else "not empty"
        allowed = judgement.verdict == "allowed"
        values = (call.data.dtype, str(call.attributes.get("mode", ""))) if allowed else ()
        return (call.contract, kind, judgement.verdict, *values, *judgement.clauses)

    def _announce(self, announced: set[str]) -> None:
        for name, worker in self.workers.items():
            if name in announced:
                continue
            if worker.failed:
                announced.add(name)
                self._lost(name)
            elif worker.ready:
                announced.add(name)
                self.emit(WorkerReady(name, self.subjects[name][0].version))

    def _lost(self, name: str) -> None:
        if name not in self.failures:
            self.failures[name] = self.workers[name].failed or f"{name} was lost"
            self.emit(WorkerFailed(name, self.failures[name]))

    # -- sending and receiving ------------------------------------------------------------------------

    def _send(self, contract: Contract, cases: list[Case]) -> _Batch:
        blobs = [encode_call(case.call) for case in cases]
        asked = []
        for oracle in self._answering(contract):
            one = _Asked(oracle)
            for place, (case, blob) in enumerate(zip(cases, blobs, strict=True)):
                for path, subject in zip(oracle.paths, self.subjects[oracle.name], strict=True):
                    if int((case.number + 1) * path.share) == int(case.number * path.share):
                        continue
                    one.places.append((place, subject, False))
                    one.requests.append((blob, path.options))
                    if case.number % REPEAT_EACH == 0 and not path.options:
                        one.places.append((place, subject, True))
                        one.requests.append((blob, path.options))
            self.workers[oracle.name].submit(one.requests)
            asked.append(one)
        return _Batch(contract, cases, asked)

    def _receive(self, batch: _Batch) -> None:
        judged = [verdicts.judge(batch.contract, case.call, case.number, case.legal) for case in batch.cases]
        outcomes: list[dict[Subject, Outcome]] = [{} for _ in judged]
        for asked in batch.asked:
            for (place, subject, repeated), outcome in zip(asked.places, asked.outcomes or (), strict=False):
                if outcome.kind == "spared":
                    self.spared[subject.label] += 1
                elif repeated:
                    if subject not in outcomes[place]:
                        continue
                    found = verdicts.nondeterministic(judged[place], subject.name, outcomes[place][subject], outcome)
                    if found is not None:
                        self._add(found, subject, judged[place], outcome)
                else:
                    outcomes[place][subject] = outcome
        for one, given in zip(judged, outcomes, strict=True):
            self._observe(one, given)
        for case in batch.cases:
            self.phases[case.phase] += 1
            self.values += case.call.values
        cases = sum(self.phases.values())
        self.emit(Progressed(batch.cases[-1].phase, cases, self.values, len(self.findings), self.elapsed()))

    def _collect(self, asked: _Asked) -> Sequence[Outcome]:
        """The outcomes of one batch; none when the worker was given up."""
        try:
            return self.workers[asked.oracle.name].collect()
        except WorkerFailedError:
            self._lost(asked.oracle.name)
            return ()

    # -- judging --------------------------------------------------------------------------------------

    def is_judged(self, oracle_name: str, contract: Contract) -> bool:
        """Whether that edition judges the implementation: its package carries it, or it is the kernel under test."""
        oracle = self.oracles[oracle_name]
        return oracle.role == "kernel" or any(fnmatchcase(contract.id, pattern) for pattern in oracle.ships)

    def _observe(self, judged: Judged, outcomes: dict[Subject, Outcome]) -> None:
        contract = judged.contract
        self.trust.count(judged, outcomes.values())
        if judged.legal is not None:
            known = self.readings.setdefault(contract.id, {})
            known.update({reading.name: reading for reading in judged.legal.readings})
        for clause in verdicts.tested(judged):
            self.clause_cases[clause] += 1
        for subject, outcome in outcomes.items():
            is_judged = self.is_judged(subject.name, contract)
            for found in self.tally.observe(judged, subject, outcome, is_judged):
                self._add(found, subject, judged, outcome)
        if judged.judgement.verdict == "unspecified":
            self._compare_open(judged, outcomes)
        elif judged.legal is not None and judged.number % CONFLICT_EACH == 0:
            for rival in editions.rivals(contract):
                conflict = editions.conflict(judged, rival)
                if conflict is not None:
                    legal = legal_set(rival, judged.call.under(rival.id))
                    self._add(conflict, editions.edition_subject(rival), judged, editions.by_formula(rival, legal))

    def _compare_open(self, judged: Judged, outcomes: dict[Subject, Outcome]) -> None:
        """Where the text leaves a call open, the first implementation that is judged by it is the one compared with."""
        judged_ones = [s for s in outcomes if self.is_judged(s.name, judged.contract)]
        if not judged_ones:
            return
        reference = judged_ones[0]
        for subject in judged_ones[1:]:
            found = verdicts.disagrees(judged, subject.name, outcomes[subject], reference.name, outcomes[reference])
            if found is None:
                continue
            if outcomes[subject].refused or outcomes[reference].refused:
                # Said only at the end, when it is known whether the one that refuses supports the cell at all.
                self._open_refusals.append((found, subject, judged, outcomes[subject], reference))
            else:
                self._add(found, subject, judged, outcomes[subject], reference)

    def _add(
        self,
        found: Discrepancy,
        subject: Subject,
        judged: Judged,
        outcome: Outcome | None,
        reference: Subject | None = None,
        cases: int = 1,
    ) -> None:
        new = self.findings.add(
            found, subject, judged.call, outcome, judged.cell, judged.number, None, reference, cases
        )
        if new:
            key = found.key
            self.emit(FindingFound(key.id(), key.verdict, key.subject, key.contract, found.summary))

    def _conclude(self) -> None:
        """What can be said only when all outcomes are in: refusals, and readings that differ between
        implementations."""
        for worker in self.workers.values():
            worker.likeness = None  # from here on calls are asked one by one, on purpose
        for disagreement, subject, judged, outcome, reference in self._open_refusals:
            if self._supports(subject if outcome.refused else reference, judged):
                self._add(disagreement, subject, judged, outcome, reference)
        for subject, _, tally, found, judged, outcome in self.tally.violations():
            by = found.attribution
            if by is not None:
                by = Attribution(by.reading, by.words, tally.wrong, tally.wrong)
            whole = replace(found, attribution=by, values=tally.wrong, max_ulp=tally.max_ulp)
            self._add(whole, subject, judged, outcome, cases=tally.wrong_cases)
        for subject, _, mixture, judged, outcome in self.tally.mixtures():
            self._add(mixture, subject, judged, outcome)
        for subject, cell, tally in self.tally.refusals():
            if not tally.answered and subject.name in self.failures:
                continue  # nobody left to ask whether the cell is supported
            contract = self._contract(cell.contract)
            if not tally.answered:
                tally.simplest_refused = self._refuses_simplest(subject, contract, cell)
            if tally.refusal is not None and not tally.simplest_refused:
                judged, outcome = tally.refusal
                refusal = verdicts.rejected(judged, subject.name, outcome)
                if refusal is not None:
                    self._add(refusal, subject, judged, outcome, cases=tally.rejected)
        for subject, _, tally, found, judged, outcome in self.tally.ambiguities():
            cases, values = tally.departed[found.readings[0]]
            by = found.attribution
            if by is not None:
                by = Attribution(by.reading, by.words, values, values)
            self._add(replace(found, attribution=by, values=values), subject, judged, outcome, cases=cases)

    def _supports(self, subject: Subject, judged: Judged) -> bool:
        """Whether the implementation answers allowed calls of the cell to which a call that is left open belongs."""
        cell = judged.contract.cell(judged.call)
        tally = self.tally.cells.get((subject, cell))
        if tally is not None and tally.answered:
            return True
        known = (subject, cell)
        if known not in self._supported:
            self._supported[known] = not self._refuses_simplest(subject, judged.contract, cell)
        return self._supported[known]

    def _refuses_simplest(self, subject: Subject, contract: Contract, cell: Cell) -> bool:
        from strategies import simplest

        return self.ask(subject, simplest(contract, cell)).kind != "tensor"

    def _contract(self, identity: str) -> Contract:
        return next(contract for contract in self.options.contracts if contract.id == identity)

    def readings_of(self, contract: Contract) -> tuple[Reading, ...]:
        """Every reading that the edition admits for some cell that was met, first readings first."""
        return tuple(self.readings.get(contract.id, {}).values())

    def can_answer(self, oracle: Oracle, contract: str) -> bool:
        """Whether the implementation takes calls of that edition, and still runs."""
        return oracle.name not in self.failures and answers(oracle, contract)

    def contract_of(self, finding: Finding) -> Contract:
        """The contract that a finding is about."""
        return self._contract(finding.key.contract)

    def ask(self, subject: Subject, call: Call) -> Outcome:
        """One implementation's outcome of one call, when no batch is under way; "hang" when the worker is lost."""
        try:
            return self.workers[subject.name].ask(encode_call(call), subject.options)
        except WorkerFailedError as error:
            self._lost(subject.name)
            return Outcome("hang", message=str(error))


def _weight(contract: Contract) -> float:
    """A contract's share of the calls: the square root of its types times granularities times modes, so that a large domain
    gets more and a small one is not forgotten."""
    domain = contract.domain
    return math.sqrt(len(domain.x_dtypes) * len(domain.granularities) * max(1, len(domain.modes)))


def _shares(cases: int, weights: Mapping[str, float]) -> dict[str, int]:
    """Cases divided by weight into whole numbers that add up, the first contracts taking what is left over."""
    total = sum(weights.values())
    shares = {name: int(cases * weight / total) for name, weight in weights.items()}
    left = cases - sum(shares.values())
    return {name: share + (i < left) for i, (name, share) in enumerate(shares.items())}
