"""Running a sweep: calls go out to all implementations in batches, outcomes are judged as they come back.

One process plans and judges; each implementation answers in a process of its own. While they answer a batch, the next
is made. What is found does not depend on which contract's batch comes back first.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from xverify.arithmetic.reading import Reading
from xverify.contracts.model import Cell, Contract
from xverify.core.call import Outcome
from xverify.engine import disambiguate, equivalences, vary
from xverify.engine.changes import changes_of, conclude_changes
from xverify.engine.conclude import conclude, simplest_refused
from xverify.engine.coverage import Trust
from xverify.engine.events import Consumer, FaultSeen, FindingFound, Progressed, SweepStarted
from xverify.engine.open_calls import Open
from xverify.engine.options import Options
from xverify.engine.plan import Case, batches
from xverify.engine.pool import DRAIN_SECONDS, IN_ALL, Batch, Fleet
from xverify.strategies.walk import scale_outputs
from xverify.verify import editions, verdicts
from xverify.verify.findings import Discrepancy, Finding, Findings, Standing, Subject
from xverify.verify.legal import legal_set
from xverify.verify.tally import Tally
from xverify.verify.verdicts import Judged
from xverify.verify.view import Sample
from xverify.workers.phase_timer import Spent

Streams = Mapping[str, Iterator[list[Case]]]
"""For each contract, by its id, batches of cases."""

Limit = Callable[[], bool]
"""Whether nothing more is to be asked."""

CONFLICT_EACH = 6
"""Every so many allowed calls one is also judged by the rival editions."""

LAST_SHARE = 0.1
"""Share of the budget for what is asked when exploring is over: the same in several ways, and what tells the remaining readings
apart; half of it each."""

SHRINK_SHARE = 0.25
"""Share of the budget kept for shrinking."""


class Sweep:
    """The state of one run; `explore` fills it, `shrink` and `store` use it."""

    def __init__(self, options: Options, emit: Consumer) -> None:
        self.options = options
        self.emit = emit
        self.started = time.time()
        self._clock = time.monotonic()
        self.spent = Spent()
        directory, repeat_each = options.directory / "workers", options.rules.repeat_each
        self.fleet = Fleet(
            options.oracles,
            options.texts or options.contracts,
            directory,
            emit,
            repeat_each,
            options.limits,
            options.worker,
            self.spent,
        )
        self.tally = Tally(options.rules.characterise)
        self.findings = Findings()
        self.changes = changes_of(self)
        self.varied: vary.Differences = {}
        self.trust = Trust()
        self.phases: Counter[str] = Counter()
        self.clause_cases: Counter[str] = Counter()
        self.clause_answers: Counter[tuple[str, str]] = Counter()
        self.values = 0
        self.complete = True
        self.interrupted = threading.Event()
        self.readings: dict[str, dict[str, Reading]] = {}
        self.spared: Counter[str] = Counter()
        self.unasked = 0
        self.first_verdict: float | None = None
        self.first_fault: float | None = None
        self._supported: dict[tuple[Subject, Cell], bool] = {}
        self.open_calls: list[Open] = []

    # -- the parts of a run ---------------------------------------------------------------------------

    def start(self) -> None:
        """Start the workers."""
        with self.spent.on("starting processes"):
            self.fleet.start()
        names = tuple(subject.label for subjects in self.fleet.subjects.values() for subject in subjects)
        contracts = tuple(contract.id for contract in self.options.contracts)
        self.emit(SweepStarted(self.options.run_id, contracts, names, self.options.budget, self.options.cases))

    def elapsed(self) -> float:
        return time.monotonic() - self._clock

    def explore(self) -> None:
        """Make calls and judge the outcomes until the budget ends; then what can be said only at the end."""
        options = self.options
        for contract in options.contracts:
            for discrepancy, call in editions.contradictions(contract):
                self.findings.add(discrepancy, editions.edition_subject(contract), call, None, None, 0)
        with self.interruptible():
            streams = {c.id: batches(c, options.seed, self.fleet.surrounds(c)) for c in options.contracts}
            self.ask(streams, partial(self.out_of, 1 - SHRINK_SHARE - LAST_SHARE), options.cases)
            with self.spent.on("telling readings apart"):
                equivalences.check(self, partial(self.out_of, 1 - SHRINK_SHARE - LAST_SHARE / 2))
                disambiguate.tell_apart(self, partial(self.out_of, 1 - SHRINK_SHARE))
        with self.spent.on("judging"):
            conclude(self)
            conclude_changes(self)
            vary.conclude_variants(self)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """What is asked inside ends with ^C; what is under way then is judged if it comes soon."""
        try:
            yield
            if self.interrupted.is_set():
                raise KeyboardInterrupt
        except KeyboardInterrupt:
            self.complete = False
            self._drain()

    def ask(self, streams: Streams, limit: Limit, cases: int | None = None, patience: float = math.inf) -> bool:
        """Ask what the streams of batches hold, until they end, or the limit is reached, or so many cases are made; then wait
        for the answers, but no longer than ``patience`` seconds past the limit. Whether all streams came to their end and
        were answered."""
        remaining, unasked = dict(streams), self.unasked
        for contract, batch in self._turns(remaining, limit, cases):
            with self.spent.on("sending calls"):
                self.fleet.send(contract, batch)
            self._receive_done()
            while len(self.fleet.under_way) >= IN_ALL and (patience == math.inf or not limit()):
                self._receive_done(wait=0.05)
        until = math.inf
        while self.fleet.under_way:
            self._receive_done(wait=0.05)
            if patience < math.inf and limit():
                until = min(until, time.monotonic() + patience)
            if time.monotonic() > until:
                self.fleet.abandon()
        return not remaining and self.unasked == unasked

    def stop(self) -> None:
        self.fleet.stop()

    def out_of(self, share: float) -> bool:
        """Whether that share of the budget is spent, or nothing more is to be asked for another reason."""
        return self.ended() or (self.options.cases is None and self.elapsed() > self.options.budget * share)

    @property
    def fault_seen(self) -> bool:
        """Whether an implementation was seen to be wrong in what is not known."""
        return self.first_fault is not None

    def ended(self) -> bool:
        """Whether the first fault was seen that ends the run."""
        return self.fault_seen and self.options.rules.fail_fast

    def _drain(self) -> None:
        """After ^C: judge what is under way if it comes soon, so that nothing that was answered is lost."""
        until = time.monotonic() + DRAIN_SECONDS
        while self.fleet.under_way and time.monotonic() < until:
            self._receive_done(wait=0.05)
        self.fleet.give_up("it did not answer before the run was interrupted")

    def _receive_done(self, wait: float = 0.0) -> None:
        """Judge the batches that every implementation has answered, waiting so long for one at most."""
        with self.spent.on("taking answers in"):
            answered = self.fleet.take_answered(wait)
        for batch in answered:
            with self.spent.on("judging"):
                self._receive(batch)

    # -- planning -------------------------------------------------------------------------------------

    def _turns(
        self, streams: dict[str, Iterator[list[Case]]], limit: Limit, cases: int | None
    ) -> Iterator[tuple[Contract, list[Case]]]:
        """Batches over the contracts in turn; those whose workers are still starting come later. A stream that has ended is
        removed."""
        contracts = [contract for contract in self.options.contracts if contract.id in streams]
        weights = {contract.id: _weight(contract) for contract in contracts}
        quota = dict.fromkeys(streams, 2**62) if cases is None else _shares(cases, weights)
        made: Counter[str] = Counter()
        while any(quota[name] for name in streams):
            if limit():
                return
            if self.interrupted.is_set():
                raise KeyboardInterrupt
            self.fleet.announce()
            free = [c for c in contracts if c.id in streams and quota[c.id] and self.fleet.free(c)]
            if not free:
                self._receive_done(wait=0.02)
                continue
            # The contract that is farthest behind: one whose worker had to be replaced catches up.
            contract = min(free, key=lambda c: made[c.id] / weights[c.id])
            with self.spent.on("making calls"):
                batch = next(streams[contract.id], [])[: quota[contract.id]]
            if not batch:
                del streams[contract.id]
                continue
            quota[contract.id] -= len(batch)
            made[contract.id] += len(batch)
            yield contract, batch

    # -- judging --------------------------------------------------------------------------------------

    def _receive(self, batch: Batch) -> None:
        for asked in batch.asked:
            for (place, subject, _), outcome in zip(asked.places, asked.outcomes or (), strict=False):
                self.options.rules.learn(batch.cases[place].call, subject, outcome)
        judged = [
            replace(verdicts.judge(batch.contract, c.call, c.number, c.legal), places=c.places, more=c.more)
            for c in batch.cases
        ]
        outcomes: list[dict[Subject, Outcome]] = [{} for _ in judged]
        for asked in batch.asked:
            for (place, subject, repeated), outcome in zip(asked.places, asked.outcomes or (), strict=False):
                if outcome.kind == "spared":
                    self.spared[subject.label] += 1
                elif outcome.kind == "unasked":
                    self.unasked += 1
                elif repeated:
                    if subject not in outcomes[place]:
                        continue
                    found = verdicts.nondeterministic(judged[place], subject.name, outcomes[place][subject], outcome)
                    if found is not None:
                        vary.note(self, found, subject, judged[place], outcome)
                else:
                    outcomes[place][subject] = outcome
        for one, given in zip(judged, outcomes, strict=True):
            vary.compare(self, one, given)
            self._observe(one, given)
        if self.first_verdict is None and any(outcomes):
            self.first_verdict = self.elapsed()
        for case in batch.cases:
            self.phases[case.phase] += 1
            self.values += case.call.values
        cases = sum(self.phases.values())
        self.emit(Progressed(batch.cases[-1].phase, cases, self.values, len(self.findings), self.elapsed()))

    def _observe(self, judged: Judged, outcomes: dict[Subject, Outcome]) -> None:
        contract = judged.contract
        self.trust.count(judged, outcomes.values())
        if judged.legal is not None:
            known = self.readings.setdefault(contract.id, {})
            known.update({reading.name: reading for reading in judged.legal.readings})
        tested = verdicts.tested(judged)
        for clause in tested:
            self.clause_cases[clause] += 1
        for subject, outcome in outcomes.items():
            # A forbidden call puts its clause to the test by being refused, an allowed one by being answered.
            if outcome.refused == (judged.judgement.verdict == "forbidden") and outcome.kind not in ("crash", "hang"):
                for clause in tested:
                    self.clause_answers[clause, subject.name] += 1
            is_judged = self.fleet.judges(contract, subject.name)
            for found in self.tally.observe(judged, subject, outcome, is_judged):
                self.add(found, subject, judged, outcome)
            if is_judged and not self.fault_seen and (self.tally.last_was_wrong or self._refuses(judged, outcome)):
                self.fault(judged, subject)
        self.changes.observe(judged, outcomes)
        if judged.judgement.verdict == "unspecified":
            self._compare_open(judged, outcomes)
        elif self.options.rules.on_texts and judged.legal is not None and judged.number % CONFLICT_EACH == 0:
            for rival in editions.rivals(contract):
                conflict = editions.conflict(judged, rival)
                if conflict is not None:
                    legal = legal_set(rival, judged.call.under(rival.id))
                    self.add(conflict, editions.edition_subject(rival), judged, editions.by_formula(rival, legal))
                    finding = self.findings.of(conflict.key)
                    for subject, outcome in outcomes.items():
                        if finding is not None and not subject.options:
                            finding.followed.update(editions.followed(judged, rival, subject.label, outcome))

    def _compare_open(self, judged: Judged, outcomes: dict[Subject, Outcome]) -> None:
        """Where the text leaves a call open, the first implementation that is judged by it is the one compared with. What comes
        of it is said only at the end, when it is known what they do with allowed calls."""
        judged_ones = [s for s in outcomes if self.fleet.judges(judged.contract, s.name) and not s.is_own]
        for subject in judged_ones[1:]:
            reference = judged_ones[0]
            one, other = outcomes[subject], outcomes[reference]
            if verdicts.disagrees(judged, subject.name, one, reference.name, other) is not None:
                self.open_calls.append(Open(judged, subject, one, reference, other))

    def add(
        self,
        found: Discrepancy,
        subject: Subject,
        judged: Judged,
        outcome: Outcome | None,
        reference: Subject | None = None,
        cases: int = 1,
        samples: Sequence[Sample] = (),
    ) -> Standing:
        """Fold a discrepancy into the findings; what is known of it."""
        standing = self.options.rules.standing(found, judged, samples)
        new = self.findings.add(
            found, subject, judged.call, outcome, judged.cell, judged.number, None, reference, cases, standing
        )
        if new:
            finding, key = self.findings.of(found.key, standing), found.key
            assert finding is not None
            self.emit(FindingFound(finding.id, key.verdict, key.subject, key.contract, found.summary))
        if standing.state != "known" and found.key.verdict.is_fault:
            self.fault(judged, subject)
        return standing

    def _refuses(self, judged: Judged, outcome: Outcome) -> bool:
        """Whether an allowed call is refused by an implementation that must take every one."""
        return self.options.rules.every_call and outcome.kind == "rejected" and judged.judgement.verdict == "allowed"

    def fault(self, judged: Judged, subject: Subject) -> None:
        """Note that an implementation is wrong, when that is seen for the first time."""
        if self.first_fault is None and not self.options.rules.might_be_known(judged):
            self.first_fault = self.elapsed()
            self.emit(FaultSeen(subject.label, judged.contract.id, judged.call.origin, self.first_fault))

    def learn_support(self, asked: Sequence[tuple[Subject, Judged]]) -> None:
        """Ask all at once what `supports` would ask one by one."""
        open_ones = [(subject, judged.contract.cell(judged.call)) for subject, judged in asked]
        running = [key for key in open_ones if key[0].name not in self.fleet.failures]
        unknown = [key for key in running if key not in self._supported and not self._answered(key)]
        self._supported.update({key: not refused for key, refused in simplest_refused(self, unknown).items()})

    def _answered(self, key: tuple[Subject, Cell]) -> bool:
        tally = self.tally.cells.get(key)
        return tally is not None and bool(tally.answered)

    def supports(self, subject: Subject, judged: Judged) -> bool:
        """Whether the implementation answers allowed calls of the cell to which a call that is left open belongs."""
        cell = judged.contract.cell(judged.call)
        if self._answered((subject, cell)):
            return True
        self.learn_support([(subject, judged)])
        return self._supported.get((subject, cell), False)

    def contract(self, identity: str) -> Contract:
        return next(contract for contract in self.options.contracts if contract.id == identity)

    def readings_of(self, contract: Contract) -> tuple[Reading, ...]:
        """Every reading that the edition admits for some cell that was met, first readings first."""
        return tuple(self.readings.get(contract.id, {}).values())

    def contract_of(self, finding: Finding) -> Contract:
        """The contract that a finding is about."""
        return self.contract(finding.key.contract)


def _weight(contract: Contract) -> float:
    """A contract's share of the calls: the square root of its types times granularities, so that a large domain gets more
    and a small one is not forgotten; more for scale and output types, so that the lap over its cells is done within a default
    sweep; and more for modes, since each is a formula of its own."""
    domain = contract.domain
    spread = math.sqrt(len(domain.x_dtypes) * len(domain.granularities)) * math.pow(len(scale_outputs(domain)), 0.25)
    return spread * math.pow(max(1, len(domain.modes)), 1.2)


def _shares(cases: int, weights: Mapping[str, float]) -> dict[str, int]:
    """Cases divided by weight into whole numbers that add up, the first contracts taking what is left over."""
    total = sum(weights.values())
    shares = {name: int(cases * weight / total) for name, weight in weights.items()}
    left = cases - sum(shares.values())
    return {name: share + (i < left) for i, (name, share) in enumerate(shares.items())}
