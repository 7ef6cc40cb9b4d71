"""The code of a peer's own process: it prepares a case, checks the result, and times calls."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

from xverify.bench.cases import Case
from xverify.bench.data import Value, other_bits, read, some_others
from xverify.bench.memory import as_after_long_use, peak_beyond
from xverify.bench.problem import Problem, Solve, Way
from xverify.bench.timing import LONG_SECONDS, seconds_per_call
from xverify.oracles.timing import aligned

TRIAL_SECONDS = 0.004
"""Seconds in which a way is tried before the rounds."""

HOPELESS = 2.5
"""A way that took this many times as long as the fastest in its trial is not timed further."""

MOST_CHARACTERS = 300
"""The length at which an error's text is cut."""


@dataclass(frozen=True)
class Prepared:
    """A way and what its trial showed."""

    name: str
    peak_bytes: int | None
    """Bytes of memory that a call takes; None where the platform does not report it."""
    other_bits: int | None
    """The number of values whose bits differ from the in-house kernel's; None for the limit."""
    allocates: bool = False
    """True if each call allocates its output."""
    others: list[Value] = field(default_factory=list)
    """Some of the values with other bits, of a kernel that is judged."""


def serve(channel: Any, settings: dict[str, Any]) -> None:
    """Answer requests until the channel is closed.

    A message is (request, arguments). The answer is ("done", result) or ("refused", sentence).
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles the interruption
    log = os.open(settings["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    as_after_long_use()
    try:
        solve: Solve = getattr(import_module(settings["module"]), settings["load"])(
            settings["threads"], *settings["arguments"]
        )
    except Exception as error:
        channel.send(("refused", _sentence(error)))
        return
    desk = _Desk(solve, settings["checks"], settings["judged"])
    requests: dict[str, Callable[..., Any]] = {"prepare": desk.prepare, "time": desk.time}
    channel.send(("done", None))
    for request, arguments in channel:
        try:
            channel.send(("done", requests[request](*arguments)))
        except Exception as error:
            channel.send(("refused", _sentence(error)))


class _Desk:
    """The current case and its ways."""

    def __init__(self, solve: Solve, checks: bool, judged: bool = False) -> None:
        self._solve, self._checks, self._judged = solve, checks, judged
        self._ways: list[Way] = []
        self._problem: Problem | None = None  # its memory lives as long as the ways that point to it

    def prepare(self, wire: dict[str, Any], folder: str) -> list[dict[str, Any]]:
        """Prepare a case, and return the ways that are worth timing.

        Raises:
            Exception: No way works; the first error, or NotImplementedError.
        """
        self._ways, self._problem = [], None  # frees the memory of the previous case
        case = Case(**wire)
        x, scale, zero_point = read(case, Path(folder))
        self._problem = problem = Problem(case, x, scale, zero_point, aligned(case.shape, case.out_dtype))
        errors: list[Exception] = []
        tried: list[tuple[Way, Prepared, float]] = []
        for way in self._solve(problem):
            try:
                tried.append((way, *self._prepared(way, problem, Path(folder))))
            except Exception as error:
                errors.append(error)
        if not tried:
            raise errors[0] if errors else NotImplementedError("it has no way of doing this")
        right = [entry for entry in tried if not entry[1].other_bits] or tried
        limit = HOPELESS * min(took for _, _, took in right)
        self._ways = [way for way, _, took in right if took <= limit]
        return [asdict(prepared) for _, prepared, took in right if took <= limit]

    def _prepared(self, way: Way, problem: Problem, folder: Path) -> tuple[Prepared, float]:
        """Try a way. Return what the trial showed, and roughly the seconds of a call."""
        case = problem.case
        returned = way.run()
        others, values = None, []
        if self._checks:
            got = problem.out if way.read is None else way.read(returned)
            others = other_bits(case, folder, got)
            values = some_others(case, folder, problem, got) if others and self._judged else []
            del got
        del returned
        # Compiled code, threads and pools exist by now.
        start = perf_counter()
        peak = peak_beyond(way.run)
        took = perf_counter() - start
        if peak is not None and way.owns_output:
            peak = max(0, peak - case.bytes_written)
        if took < LONG_SECONDS:
            took = seconds_per_call(way.run, TRIAL_SECONDS)
        return Prepared(way.name, peak, others, way.owns_output, values), took

    def time(self, seconds: float) -> dict[str, float]:
        """Seconds of one call in each way, with this number of seconds shared by all ways."""
        return {way.name: seconds_per_call(way.run, seconds / len(self._ways)) for way in self._ways}


def _sentence(error: Exception) -> str:
    text = " ".join(str(error).split())
    if not isinstance(error, NotImplementedError) or not text:
        text = f"{type(error).__name__}: {text}"
    return text[:MOST_CHARACTERS]
