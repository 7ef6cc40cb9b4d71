"""A sweep: its phases in order, and the report at the end."""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

from xverify.arithmetic.kept import searches_in
from xverify.engine.asking import interruptible, start
from xverify.engine.changes import conclude_changes
from xverify.engine.combine import Session, combined
from xverify.engine.conclude import conclude
from xverify.engine.disambiguate import disambiguate
from xverify.engine.enrich import enrich
from xverify.engine.equivalences import check_equivalences
from xverify.engine.events import Consumer, Event, Progressed, SweepFinished, SweepStarted
from xverify.engine.explore import explore
from xverify.engine.options import Options
from xverify.engine.resume import is_full_disk
from xverify.engine.shard_results import SESSIONS, copy_calls, sessions_of, write_shard
from xverify.engine.shrink import shrink_findings
from xverify.engine.state import RunState, new_run
from xverify.engine.store import on_disk_first, result_of, write_json
from xverify.engine.texts import check_texts
from xverify.engine.variant_differences import conclude_variants
from xverify.workers.phase_timer import ELSE


@dataclass(frozen=True)
class Phase:
    """One phase of a sweep."""

    run: Callable[[RunState], None]

    purpose: str = ELSE
    """The purpose under which the report counts its seconds; a phase without one counts the parts itself."""

    interruptible: bool = False
    """True if ^C ends the phase early. After an interruption, such a phase is left out."""


PHASES = (
    Phase(check_texts),
    Phase(explore, interruptible=True),
    Phase(check_equivalences, "telling readings apart", interruptible=True),
    Phase(disambiguate, "telling readings apart", interruptible=True),
    Phase(enrich, "telling readings apart", interruptible=True),
    Phase(conclude, "judging"),
    Phase(conclude_changes, "judging"),
    Phase(conclude_variants, "judging"),
    Phase(shrink_findings, "shrinking"),
)


def sweep(options: Options, emit: Consumer) -> dict[str, Any]:
    """Run a sweep or one shard of it, and write ``report.json`` into its directory.

    Each finding is in ``findings.jsonl`` before it is announced, so that a killed run leaves its findings.
    A run that ^C interrupts reports what it has. So does a run in which a phase fails, before the exception passes.
    A shard also writes ``shard.json``, which `xverify.engine.shard_results` reads.

    Returns:
        The report as data.

    Raises:
        OSError: The directory cannot be written.
        NoSpaceError: The disk is full.
    """
    options.directory.mkdir(parents=True, exist_ok=True)
    results: list[Session] = []
    failure: Exception | None = None
    emit = as_one_run(emit)
    for number, session in enumerate(sessions_of(options), 1):
        if results and not results[-1].report["run"]["complete"]:
            break
        left = options.budget
        if results and options.cases is None:
            left = max(1.0, left - sum(result.report["run"]["seconds"] for result in results))
        result, failure = _run_session(replace(session, budget=left, session=number), emit)
        results.append(result)
    whole = combined(results)
    whole["run"]["budget"] = options.budget
    if options.shard is not None and failure is None:
        whole["run"]["shard"] = write_shard(options, results)
    if options.shard is None:
        copy_calls(whole, [(each, options.directory) for each in results], options.directory)
        shutil.rmtree(options.directory / SESSIONS, ignore_errors=True)
    write_json(options.directory / "report.json", whole)
    if failure is not None:
        raise failure
    emit(SweepFinished(options.directory / "report.json"))
    return whole


def as_one_run(emit: Consumer) -> Consumer:
    """A consumer of the events of several sessions, which passes them on as those of one run.

    The run starts once, and counts go on.
    """
    has_started = False
    last = before = Progressed("", 0, 0, 0, 0.0)

    def pass_on(event: Event) -> None:
        nonlocal has_started, last, before
        if isinstance(event, SweepStarted):
            if has_started:
                before = last
                return
            has_started = True
        elif isinstance(event, Progressed):
            event = last = Progressed(
                event.phase,
                before.cases + event.cases,
                before.values + event.values,
                before.findings + event.findings,
                before.elapsed + event.elapsed,
            )
        emit(event)

    return pass_on


def _run_session(options: Options, emit: Consumer) -> tuple[Session, Exception | None]:
    """The result of a session, and the exception of the phase that failed, if one did."""
    state = new_run(options, lambda event: announce(event))
    announce = on_disk_first(state, emit)
    failure = None
    try:
        with handling_interrupts(state), searches_in(options.cache):
            try:
                start(state)
                for phase in PHASES:
                    run_phase(state, phase)
                if state.pool.journal is not None:
                    state.pool.journal.check()
            except Exception as error:
                if is_full_disk(error):
                    raise  # there is no room for a report
                failure = error
                note_failure(state, error)
            result = result_of(state)
    finally:
        state.pool.stop()
        if state.pool.journal is not None:
            state.pool.journal.close()
    folder = "" if options.scripts is None else options.scripts.parent.relative_to(options.directory).as_posix()
    return replace(result, folder=folder), failure


def note_failure(state: RunState, error: Exception) -> None:
    """Say in the report that a phase failed, so that the report covers only what was done before."""
    state.complete = False
    first_line = (str(error).strip() or "no message").splitlines()[0]
    state.troubles.append(
        f"the run failed ({type(error).__name__}: {first_line}); the report covers what was done before"
    )


def run_phase(state: RunState, phase: Phase) -> None:
    """Run one phase, unless an interruption has made it pointless."""
    if not phase.interruptible:
        with state.timer.on(phase.purpose):
            phase.run(state)
    elif state.complete:
        with interruptible(state), state.timer.on(phase.purpose):
            phase.run(state)


@contextmanager
def handling_interrupts(state: RunState) -> Iterator[None]:
    """Set a flag at the first ^C, raise KeyboardInterrupt at the second.

    An exception that arrives while the interpreter collects garbage is lost, a flag is not.
    """

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        if state.interrupted.is_set():
            raise KeyboardInterrupt
        state.interrupted.set()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def new_run_id() -> str:
    """A run's name: the time when it began, in UTC."""
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime())


def run_directory(runs: Path, run_id: str) -> Path:
    """Make a directory of that name, or with a number after it if another run has taken the name.

    Making it decides whose it is, so runs that start at once never share one.
    """
    directory, number = runs / run_id, 2
    while True:
        try:
            directory.mkdir(parents=True)
        except FileExistsError:
            directory, number = runs / f"{run_id}-{number}", number + 1
        else:
            return directory
