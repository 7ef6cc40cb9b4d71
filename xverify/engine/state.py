"""The data of one run.

The phases are functions that take it; `xverify.engine.sweep` lists them.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from xverify.arithmetic.reading import Reading
from xverify.contracts.model import Cell, Contract
from xverify.core.call import Call, Outcome
from xverify.engine.coverage import Coverage
from xverify.engine.events import Consumer
from xverify.engine.gate_plan import Scope
from xverify.engine.options import Options
from xverify.engine.reach import Reach
from xverify.oracles import answers
from xverify.strategies.repair import Repair
from xverify.verify.changes import Changes
from xverify.verify.findings import Discrepancy, Finding, Findings, Key, Subject
from xverify.verify.tally import Tally
from xverify.verify.verdicts import Judged
from xverify.workers.journal import Journal
from xverify.workers.phase_timer import PhaseTimer
from xverify.workers.pool import WorkerPool

END_SHARE, END_SECONDS = 0.4, 30.0
"""The largest share of the budget, and the most seconds, that are kept for conclusions and shrinking."""

SHRINK_SHARE = 0.6
"""Share of that time which belongs to shrinking. Searches that take seconds do not begin in it."""

PATIENCE = 0.02
"""Share of the budget for calls that are under way at the end of a phase."""

FINAL_SHARE = 0.08
"""Share of the budget for the two phases after exploring, half each: equivalences, and remaining readings."""


@dataclass(frozen=True, eq=False)
class OpenCall:
    """A call that the text leaves open and that two implementations treat differently."""

    judged: Judged
    subject: Subject
    outcome: Outcome

    reference: Subject
    """The implementation that the subject is compared with."""

    other: Outcome
    """The outcome of the reference."""

    @property
    def refusing(self) -> Subject | None:
        """The implementation that refuses the call, if one does."""
        return self.subject if self.outcome.refused else self.reference if self.other.refused else None


@dataclass(eq=False)
class VariantDifference:
    """Calls of one cell on which a variant differs from the usual setting.

    It holds their counts, and the smallest call with its outcome.
    """

    discrepancy: Discrepancy
    subject: Subject

    usual: Subject
    """The same path of the implementation without the setting."""

    judged: Judged
    outcome: Outcome
    cases: int = 0
    values: int = 0


@dataclass(eq=False)
class RunState:
    """The data of one run. Made by `new_run`, filled by the phases, read by the report."""

    options: Options

    emit: Consumer
    """Takes every event of the run."""

    timer: PhaseTimer
    """Seconds of this process, by purpose."""

    pool: WorkerPool
    """The implementations, each in its worker."""

    tally: Tally
    """Counts and remaining readings of each implementation in each cell."""

    changes: Changes
    """Differences between the versions of one implementation."""

    findings: Findings = field(default_factory=Findings)

    coverage: Coverage = field(default_factory=Coverage)
    """Structures, numbers and codes that the calls contained."""

    variant_differences: dict[tuple[Key, Cell | None], VariantDifference] = field(default_factory=dict)
    """Differences between variants of one implementation, until a phase concludes them."""

    open_calls: list[OpenCall] = field(default_factory=list)
    """Differences on calls that the text leaves open, until a phase concludes them."""

    readings: dict[str, dict[str, Reading]] = field(default_factory=dict)
    """The readings that an edition admits for some cell of the run, by contract and name."""

    support: dict[tuple[Subject, Cell], bool] = field(default_factory=dict)
    """True if the simplest call of a cell was answered. Only cells that had to be tested are here."""

    cases_by_phase: Counter[str] = field(default_factory=Counter)
    """Judged cases, by the phase of the plan that made them."""

    values: int = 0
    """Values in all judged calls."""

    clause_cases: Counter[str] = field(default_factory=Counter)
    """The number of calls that put a clause to the test, by clause."""

    clause_answers: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The number of calls that put a clause to the test and whose outcome follows it, by clause and implementation."""

    reach: dict[str, Reach] = field(default_factory=lambda: defaultdict(Reach))
    """The counts of a gate's calls by property, for each edition. A sweep does not count them."""

    scopes: dict[str, Scope] = field(default_factory=dict)
    """The calls that a gate makes, by edition. A sweep has no scopes, since it makes all calls."""

    spared_calls: Counter[str] = field(default_factory=Counter)
    """The number of calls that were not sent because similar ones had ended the process, by implementation and path."""

    unasked_calls: int = 0
    """Calls that were cancelled before they were answered."""

    impossible: str = ""
    """A sentence that says why a check that the user asked for was impossible."""

    first_verdict: float | None = None
    """Seconds from the start of the run to the first judged batch."""

    first_fault: float | None = None
    """Seconds from the start of the run to the first fault that is not known."""

    interrupted: threading.Event = field(default_factory=threading.Event)
    """Set by the first ^C: no further calls are to be sent."""

    complete: bool = True
    """False if the run was interrupted, or a phase failed."""

    troubles: list[str] = field(default_factory=list)
    """A sentence for each phase that failed."""

    started: float = field(default_factory=time.time)
    """When the run began, in seconds since 1970."""

    clock_start: float = field(default_factory=time.monotonic)
    """The same on the clock that measures budgets."""

    def elapsed(self) -> float:
        """Seconds since the run began. In a resumed run, those in which it did not run do not count."""
        return time.monotonic() - self.clock_start if self.pool.journal is None else self.pool.journal.elapsed()

    @property
    def end_share(self) -> float:
        """The share of the budget that is kept for conclusions and shrinking."""
        return min(END_SHARE, END_SECONDS / self.options.budget) if self.options.budget else END_SHARE

    def out_of(self, share: float) -> bool:
        """True if that share of the budget is used up, or the run has ended at its first fault."""
        return self.ended() or (self.options.cases is None and self.elapsed() > self.options.budget * share)

    def is_time_to_shrink(self) -> bool:
        """True if only the time for shrinking is left of the budget of a run that saves such time."""
        return self._is_past(1 - self.end_share * SHRINK_SHARE)

    def is_past_budget(self) -> bool:
        """True if the budget of a run that saves time to shrink is used up."""
        return self._is_past(1.0)

    def _is_past(self, share: float) -> bool:
        saves = self.options.cases is None and self.options.rules.saves_time_to_shrink
        return saves and self.elapsed() > self.options.budget * share

    @property
    def patience(self) -> float:
        """Seconds past a limit after which calls under way are cancelled.

        They are infinite in a run of a fixed number of cases. A slow implementation has hundreds of calls under way, which would
        take the time for conclusions and shrinking.
        """
        return min(self.options.limits.call, PATIENCE * self.options.budget) if self.options.cases is None else math.inf

    def overdue(self, limit: Callable[[], bool], patience: float) -> Callable[[], bool]:
        """A function that is True when ``limit()`` has been True for longer than ``patience`` seconds."""
        until = math.inf

        def is_overdue() -> bool:
            nonlocal until
            if until == math.inf and limit():
                until = time.monotonic() + patience
            return time.monotonic() > until

        return is_overdue

    @property
    def fault_seen(self) -> bool:
        """True if an implementation showed a fault that is not known."""
        return self.first_fault is not None

    def ended(self) -> bool:
        """True if a fault was seen and the first fault ends the run."""
        return self.fault_seen and self.options.rules.fail_fast

    def contract(self, identity: str) -> Contract:
        """The contract of the run with that id."""
        return next(contract for contract in self.options.editions if contract.id == identity)

    def contract_of(self, finding: Finding) -> Contract:
        """The contract that a finding is about."""
        return self.contract(finding.key.contract)

    def repair(self, contract: Contract) -> Repair:
        """The repair of the calls that the run makes of an edition."""
        return self.scopes[contract.id].repair(contract) if contract.id in self.scopes else Repair(contract)

    def admits(self, contract: Contract, call: Call) -> bool:
        """True if the run may make a call: it is within the limits that the user stated."""
        return contract.id not in self.scopes or self.scopes[contract.id].admits(contract, call)

    def readings_of(self, contract: Contract) -> tuple[Reading, ...]:
        """The readings that the edition admits for some cell of the run, first readings first."""
        return tuple(self.readings.get(contract.id, {}).values())


def new_run(options: Options, emit: Consumer) -> RunState:
    """The state of a run that has sent nothing yet. Its workers are not started.

    Raises:
        NoSpaceError: The disk is full.
    """
    timer = PhaseTimer()
    journal = (
        Journal(options.directory / f"answers-{options.session}.journal", options.journal) if options.journal else None
    )
    pool = WorkerPool(
        options.oracles,
        options.texts or options.editions,
        options.directory / "workers",
        emit,
        options.rules.repeat_each,
        options.limits,
        options.worker,
        timer,
        journal,
    )
    started = time.time() if options.started is None else options.started
    return RunState(options, emit, timer, pool, Tally(options.rules.characterise), _changes(pool), started=started)


def _changes(pool: WorkerPool) -> Changes:
    def expected(subject: Subject, judged: Judged) -> bool:
        return subject.name not in pool.failures and answers(pool.oracles[subject.name], judged.contract.asked_as)

    def judges(subject: Subject, judged: Judged) -> bool:
        return pool.judges(judged.contract, subject.name)

    return Changes([subject for paths in pool.subjects.values() for subject in paths], expected, judges)
