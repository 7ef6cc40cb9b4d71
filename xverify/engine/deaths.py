"""Witnesses of crashes and hangs: shrunk by calls that end a process, and confirmed in a new process.

Each evaluation that shows the finding costs a process. A forked one (see `xverify.workers.fork_server`) costs milliseconds. A
hang costs its time limit, which is therefore lowered while shrinking. The result may hold only in the process that showed it,
so the smallest call is repeated in a process that has made no call, with the limits of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from xverify.contracts.model import Contract
from xverify.core.call import Call, Outcome, encode_call
from xverify.core.errors import WorkerFailedError
from xverify.engine.state import RunState
from xverify.verify import shrink as shrinking
from xverify.verify.findings import Finding, Subject
from xverify.workers.phase_timer import WAITING
from xverify.workers.worker import Worker

DEATHS = ("crash", "hang")

HURRY_SECONDS = 2.0
"""Time limit of a call while a death is shrunk."""

HURRY_TIMES = 3.0
"""The time limit is at least this many times the duration of the slowest answer."""

UNCONFIRMED = "; asked alone in a new process it does not"


def learn_if_breach_kills(state: RunState, finding: Finding) -> None:
    """Send the nearest allowed call for a death on a call that the text forbids or leaves open.

    A clause is to blame only if the implementation survives the allowed call.
    """
    contract, call = state.contract_of(finding), finding.call
    if call is None or contract.judge(call).verdict == "allowed" or state.interrupted.is_set():
        return
    repaired = state.repair(contract)(call)
    if repaired is not None:
        outcome = state.pool.ask(finding.subject, repaired)
        if outcome.kind != "unasked":
            finding.survives_without_breach = outcome.kind not in DEATHS


class Confirming:
    """Confirms deaths in new processes, which start when first needed.

    Each kind of death of an implementation under an edition must show once in a process that was started, not forked. After that,
    forked processes are enough: they are there at once. A run with a time budget does not wait for a framework to start.
    """

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._workers: dict[str, Worker] = {}
        self._alike: set[tuple[str, str, str]] = set()

    def stop(self) -> None:
        """End the processes."""
        for worker in self._workers.values():
            worker.stop()

    def shows(self, finding: Finding, contract: Contract, call: Call) -> shrinking.Shrunk | None:
        """The finding on the call as a new process shows it; None if it does not."""
        alike = (finding.subject.name, finding.key.verdict, contract.id)
        forked = self._shown(finding, contract, call, self._state.pool.workers[finding.subject.name])
        if forked is None or alike in self._alike or not self._forks(finding.subject):
            return forked
        if not self._started(finding.subject).ready and self._state.options.cases is None:
            return forked
        started = self._shown(finding, contract, call, self._started(finding.subject))
        if started is None and self._started(finding.subject).failed is not None:
            return forked  # this process cannot confirm anything
        if started is not None:
            self._alike.add(alike)
        return started

    def _shown(self, finding: Finding, contract: Contract, call: Call, worker: object) -> shrinking.Shrunk | None:
        if not isinstance(worker, Worker):
            return None
        worker.renew()
        reproduced = shrinking.reproduces(
            finding, contract, call, partial(_ask, self._state, worker, contract, finding.subject)
        )
        if reproduced is None:
            return None
        discrepancy, outcome = reproduced
        return shrinking.Shrunk(call, outcome, discrepancy, 0, False)

    def _forks(self, subject: Subject) -> bool:
        worker = self._state.pool.workers[subject.name]
        return isinstance(worker, Worker) and worker.forks

    def _started(self, subject: Subject) -> Worker:
        if subject.name not in self._workers:
            journal = self._state.pool.journal
            worker = Worker(
                self._state.pool.oracles[subject.name],
                self._state.options.directory / "workers",
                limits=self._state.options.limits,
                forks=False,
                journal=None if journal is None else journal.of(subject.name, "confirming"),
            )
            worker.start()
            self._workers[subject.name] = worker
        return self._workers[subject.name]


def shrink_death(
    state: RunState,
    finding: Finding,
    contract: Contract,
    seed: int,
    out_of_time: Callable[[], bool],
    confirming: Confirming,
) -> shrinking.Shrunk | None:
    """Find the smallest call that a new process does not survive; None if it survives even the witness."""
    worker, witness = state.pool.workers[finding.subject.name], finding.call
    assert witness is not None
    result = None
    if isinstance(worker, Worker):
        with hurried(worker):
            ask = partial(_ask, state, worker, contract, finding.subject)
            result = shrinking.shrink(finding, contract, ask, None, seed, out_of_time)
    evaluations = 0 if result is None else result.evaluations
    if result is not None:
        confirmed = confirming.shows(finding, contract, result.call)
        if confirmed is not None:
            return replace(confirmed, evaluations=evaluations, minimal=result.minimal)
    confirmed = confirming.shows(finding, contract, witness)
    return None if confirmed is None else replace(confirmed, evaluations=evaluations)


@contextmanager
def hurried(worker: Worker) -> Iterator[None]:
    """Shorten the time limit of the worker's calls while a death is shrunk.

    A call that damages the heap may wait forever for its lock instead of ending the process. The limit is never below
    `HURRY_TIMES` times the duration of the slowest answer.
    """
    before = worker.limits
    worker.limits = replace(before, call=min(before.call, max(HURRY_SECONDS, HURRY_TIMES * worker.slowest)))
    try:
        yield
    finally:
        worker.limits = before


def _ask(state: RunState, worker: Worker, contract: Contract, subject: Subject, call: Call) -> Outcome:
    """The outcome of one call; "unasked" without a process or outside the stated limits."""
    if not state.admits(contract, call):
        return Outcome("unasked")
    try:
        with state.timer.on(WAITING):
            return worker.ask(encode_call(call.under(contract.asked_as)), subject.options)
    except WorkerFailedError as error:
        return Outcome("unasked", message=str(error))
