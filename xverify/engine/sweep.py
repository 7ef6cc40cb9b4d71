"""A whole sweep: explore, shrink, write the report; and the replay of one finding."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from xverify.engine.deaths import DEATHS, UNCONFIRMED, Confirming, shrink_death
from xverify.engine.events import Consumer, Event, FindingFound, FindingShrunk, ShrinkStarted, SweepFinished
from xverify.engine.options import Options
from xverify.engine.plan import derived_seed
from xverify.engine.run import Sweep
from xverify.engine.store import append_finding, ask_others, report, write_json
from xverify.verify import changes
from xverify.verify import shrink as shrinking
from xverify.verify.findings import Finding

REPORT_SECONDS = 3.0
"""Kept of the budget for asking the others about the witnesses and for writing."""


def sweep(options: Options, emit: Consumer) -> dict[str, Any]:
    """Run a sweep, and write ``report.json`` into its directory; the report as data.

    Each finding is in ``findings.jsonl`` there before it is announced, so that a run that is killed leaves what it
    found.

    Interrupted by ^C it reports what it has. Raises OSError when the directory cannot be written.
    """
    options.directory.mkdir(parents=True, exist_ok=True)
    run = Sweep(options, lambda event: announce(event))
    announce = on_disk_first(run, emit)

    def out_of_time() -> bool:
        timed = options.cases is None
        return run.interrupted.is_set() or (timed and run.elapsed() > options.budget - REPORT_SECONDS)

    try:
        with handling_interrupts(run):
            run.start()
            run.explore()
            if run.complete:
                with run.spent.on("shrinking"):
                    shrink_all(run, out_of_time)
            result = report(run)
    finally:
        run.stop()
    write_json(options.directory / "report.json", result)
    emit(SweepFinished(options.directory / "report.json"))
    return result


def on_disk_first(run: Sweep, emit: Consumer) -> Consumer:
    """A consumer that writes each finding to the run's directory before it passes the event on."""

    def announce(event: Event) -> None:
        if isinstance(event, FindingFound):
            append_finding(run, run.findings.by_id(event.id))
        emit(event)

    return announce


@contextmanager
def handling_interrupts(run: Sweep) -> Iterator[None]:
    """The first ^C asks the run to end, the second raises: an exception that arrives while the interpreter collects garbage
    is dropped, a flag is not."""

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        if run.interrupted.is_set():
            raise KeyboardInterrupt
        run.interrupted.set()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def shrink_all(run: Sweep, out_of_time: Callable[[], bool]) -> None:
    """Shrink every finding's witness while there is time, then ask the other implementations about it."""
    findings = in_turn(run.findings.sorted())
    run.emit(ShrinkStarted(len(findings)))
    confirming = Confirming(run)
    try:
        for finding in findings:
            if run.interrupted.is_set():
                run.complete = False
                break
            _shrink(run, finding, out_of_time, confirming)
    finally:
        confirming.stop()
    for finding in findings:
        if finding.key.verdict not in DEATHS and "hang" not in changes.deaths(finding):
            finding.others = ask_others(run, finding)


def in_turn(findings: Sequence[Finding]) -> list[Finding]:
    """In the order in which they are shrunk: what is new before what is known; one death of each implementation, then by
    urgency."""
    first = {f.key.subject: f for f in reversed(findings) if f.key.verdict in DEATHS}

    def place(finding: Finding) -> tuple[bool, bool, int]:
        later = first.get(finding.key.subject) is not finding
        return finding.standing.state == "known", later, finding.key.verdict.urgency

    return sorted(findings, key=place)


def _shrink(run: Sweep, finding: Finding, out_of_time: Callable[[], bool], confirming: Confirming) -> None:
    verdict = finding.key.verdict
    by_chance = verdict == "nondeterministic" and finding.reference is None
    if finding.call is None or by_chance or "hang" in changes.deaths(finding):
        finding.shrunk = "not shrinkable"
        return
    contract = run.contract_of(finding)
    if finding.key.verdict == "conflict" and contract.judge(finding.call).verdict != "allowed":
        finding.shrunk = "not shrinkable"
        return
    if out_of_time():
        return
    reference, seed = finding.reference, derived_seed(run.options.seed, finding.id) % 2**63
    if verdict in DEATHS:
        result = shrink_death(run, finding, contract, seed, out_of_time, confirming)
        finding.summary += UNCONFIRMED if result is None else ""
    else:
        result = shrinking.shrink(
            finding,
            contract,
            partial(run.fleet.ask, finding.subject),
            partial(run.fleet.ask, reference) if reference is not None else None,
            seed,
            out_of_time,
        )
    if result is None:
        finding.shrunk = "not shrinkable"
        return
    finding.call = replace(result.call, origin=finding.call.origin)
    finding.outcome = result.outcome if finding.key.verdict != "conflict" else _other_edition(run, finding)
    finding.summary = result.discrepancy.summary
    finding.shrunk = "minimal" if result.minimal else "not reached"
    _least_optimised(run, finding)
    run.emit(FindingShrunk(finding.id, result.evaluations, result.minimal))


def _least_optimised(run: Sweep, finding: Finding) -> None:
    """Of a finding in surroundings, the path that changes least of the graph and still shows it."""
    contract, call = run.contract_of(finding), finding.call
    if call is None or finding.key.verdict == "hang":  # each path would cost its limit
        return
    for subject in run.fleet.simpler(finding.subject, call):
        found = shrinking.reproduces(finding, contract, call, partial(run.fleet.ask, subject))
        if found is not None:
            finding.subject, finding.outcome = subject, found[1]
            finding.paths.add(subject.options)
            return


def _other_edition(run: Sweep, finding: Finding) -> Any:
    from xverify import contracts
    from xverify.verify.editions import by_formula
    from xverify.verify.legal import legal_set

    assert finding.call is not None
    rival = contracts.get(finding.key.subject)
    return by_formula(rival, legal_set(rival, finding.call.under(rival.id)))


def new_run_id() -> str:
    """A run's name: when it began, in UTC."""
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime())


def run_directory(runs: Path, run_id: str) -> Path:
    """A directory of that name that does not exist yet."""
    directory, number = runs / run_id, 2
    while directory.exists():
        directory, number = runs / f"{run_id}-{number}", number + 1
    return directory
