"""Witnesses of crashes and hangs: shrunk by asking again what ends a process, and confirmed in a new one.

Each evaluation that shows the finding costs a process; one that was forked (see `xverify.workers.fork_server`) costs milliseconds. A hang
costs its limit, which is therefore lowered while shrinking. What was found is true only of the process that showed it, so the
smallest call is asked once more: of a process that has made no call, with the limits of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from xverify.contracts.model import Contract
from xverify.core.call import Call, Outcome, encode_call
from xverify.core.errors import WorkerFailedError
from xverify.engine.run import Sweep
from xverify.verify import shrink as shrinking
from xverify.verify.findings import Finding, Subject
from xverify.workers.phase_timer import WAITING
from xverify.workers.worker import Worker

DEATHS = ("crash", "hang")

HURRY_SECONDS = 1.0
"""While a hang is shrunk, this is taken for one, or so many times what the slowest answer took."""
HURRY_TIMES = 3.0

UNCONFIRMED = "; asked alone in a new process it does not"


class Confirming:
    """New processes of a run's implementations, started when first needed, to ask single calls of.

    That a crash, or a hang, of an implementation shows in a process that was started and in one that was forked is seen
    once of each; after that a forked one, which is there at once, is as good. A run whose time is limited does not wait for
    the start of a framework either.
    """

    def __init__(self, run: Sweep) -> None:
        self._run = run
        self._workers: dict[str, Worker] = {}
        self._alike: set[tuple[str, str]] = set()

    def stop(self) -> None:
        for worker in self._workers.values():
            worker.stop()

    def shows(self, finding: Finding, contract: Contract, call: Call) -> shrinking.Shrunk | None:
        """The finding on the call as a new process shows it; None when it does not."""
        alike = (finding.subject.name, finding.key.verdict)
        forked = self._seen(finding, contract, call, self._run.fleet.workers[finding.subject.name])
        if forked is None or alike in self._alike or not self._forks(finding.subject):
            return forked
        if not self._started(finding.subject).ready and self._run.options.cases is None:
            return forked
        started = self._seen(finding, contract, call, self._started(finding.subject))
        if started is not None:
            self._alike.add(alike)
        return started

    def _seen(self, finding: Finding, contract: Contract, call: Call, worker: object) -> shrinking.Shrunk | None:
        if not isinstance(worker, Worker):
            return None
        worker.renew()
        found = shrinking.reproduces(
            finding, contract, call, partial(_ask, self._run, worker, contract, finding.subject)
        )
        return None if found is None else shrinking.Shrunk(call, found[1], found[0], 0, False)

    def _forks(self, subject: Subject) -> bool:
        worker = self._run.fleet.workers[subject.name]
        return isinstance(worker, Worker) and worker.forks

    def _started(self, subject: Subject) -> Worker:
        if subject.name not in self._workers:
            run = self._run
            worker = Worker(
                run.fleet.oracles[subject.name],
                run.options.directory / "workers",
                limits=run.options.limits,
                forks=False,
            )
            worker.start()
            self._workers[subject.name] = worker
        return self._workers[subject.name]


def shrink_death(
    run: Sweep,
    finding: Finding,
    contract: Contract,
    seed: int,
    out_of_time: Callable[[], bool],
    confirming: Confirming,
) -> shrinking.Shrunk | None:
    """The smallest call found that a new process does not survive; None when it survives even the witness."""
    worker, witness = run.fleet.workers[finding.subject.name], finding.call
    assert witness is not None
    result = None
    if isinstance(worker, Worker):
        with hurried(worker, finding.key.verdict == "hang"):
            ask = partial(_ask, run, worker, contract, finding.subject)
            result = shrinking.shrink(finding, contract, ask, None, seed, out_of_time)
    evaluations = 0 if result is None else result.evaluations
    if result is not None:
        confirmed = confirming.shows(finding, contract, result.call)
        if confirmed is not None:
            return replace(confirmed, evaluations=evaluations, minimal=result.minimal)
    confirmed = confirming.shows(finding, contract, witness)
    return None if confirmed is None else replace(confirmed, evaluations=evaluations)


@contextmanager
def hurried(worker: Worker, hang: bool) -> Iterator[None]:
    """Within, if it is to find a hang, the worker's calls have less time; never less than several times what an answer took."""
    before = worker.limits
    if hang:
        worker.limits = replace(before, call=min(before.call, max(HURRY_SECONDS, HURRY_TIMES * worker.slowest)))
    try:
        yield
    finally:
        worker.limits = before


def _ask(run: Sweep, worker: Worker, contract: Contract, subject: Subject, call: Call) -> Outcome:
    """One call's outcome; "unasked" when there is no process to ask."""
    try:
        with run.spent.on(WAITING):
            return worker.ask(encode_call(call.under(contract.asked_as)), subject.options)
    except WorkerFailedError as error:
        return Outcome("unasked", message=str(error))
