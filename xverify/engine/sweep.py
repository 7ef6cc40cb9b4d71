"""A sweep: its phases in order, and the report at the end."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from xverify.core.errors import NoSpaceError
from xverify.engine.asking import interruptible, start
from xverify.engine.changes import conclude_changes
from xverify.engine.conclude import conclude
from xverify.engine.disambiguate import disambiguate
from xverify.engine.equivalences import check_equivalences
from xverify.engine.events import Consumer, SweepFinished
from xverify.engine.explore import explore
from xverify.engine.options import Options
from xverify.engine.shrink import shrink_findings
from xverify.engine.state import RunState, new_run
from xverify.engine.store import on_disk_first, report, write_json
from xverify.engine.texts import check_texts
from xverify.engine.variant_differences import conclude_variants
from xverify.workers.journal import FULL
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
    Phase(conclude, "judging"),
    Phase(conclude_changes, "judging"),
    Phase(conclude_variants, "judging"),
    Phase(shrink_findings, "shrinking"),
)


def sweep(options: Options, emit: Consumer) -> dict[str, Any]:
    """Run a sweep, and write ``report.json`` into its directory.

    Each finding is in ``findings.jsonl`` before it is announced, so that a killed run leaves its findings.
    A run that ^C interrupts reports what it has. So does a run in which a phase fails, before the exception passes.

    Returns:
        The report as data.

    Raises:
        OSError: The directory cannot be written.
        NoSpaceError: The disk is full.
    """
    options.directory.mkdir(parents=True, exist_ok=True)
    state = new_run(options, lambda event: announce(event))
    announce = on_disk_first(state, emit)
    try:
        with handling_interrupts(state):
            with reporting_failures(state):
                start(state)
                for phase in PHASES:
                    run_phase(state, phase)
                if state.pool.journal is not None:
                    state.pool.journal.check()
            result = report(state)
    finally:
        state.pool.stop()
        if state.pool.journal is not None:
            state.pool.journal.close()
    write_json(options.directory / "report.json", result)
    emit(SweepFinished(options.directory / "report.json"))
    return result


def run_phase(state: RunState, phase: Phase) -> None:
    """Run one phase, unless an interruption has made it pointless."""
    if not phase.interruptible:
        with state.timer.on(phase.purpose):
            phase.run(state)
    elif state.complete:
        with interruptible(state), state.timer.on(phase.purpose):
            phase.run(state)


@contextmanager
def reporting_failures(state: RunState) -> Iterator[None]:
    """Write the report of what the run has before an exception passes, unless the disk is full."""
    try:
        yield
    except Exception as error:
        if isinstance(error, NoSpaceError) or (isinstance(error, OSError) and error.errno in FULL):
            raise
        state.complete = False
        first_line = (str(error).strip() or "no message").splitlines()[0]
        state.troubles.append(
            f"the run failed ({type(error).__name__}: {first_line}); the report covers what was done before"
        )
        write_json(state.options.directory / "report.json", report(state))
        raise


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
