"""A peer's own process: it prepares a case, checks and measures what it takes, and times calls when it is asked."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

from xverify.bench.cases import Case
from xverify.bench.data import other_bits, read
from xverify.bench.memory import as_after_long_use, peak_beyond
from xverify.bench.problem import Problem, Solve, Way
from xverify.bench.timing import LONG_SECONDS, seconds_per_call
from xverify.oracles.timing import aligned

TRIAL_SECONDS = 0.004

HOPELESS = 2.5
"""A way that took so many times as long as the fastest in its trial is not timed any more."""

MOST_CHARACTERS = 300


@dataclass(frozen=True)
class Prepared:
    """What is known of a way before it is timed. other_bits: None for the limit, which computes nothing."""

    name: str
    peak_bytes: int | None
    other_bits: int | None


def serve(channel: Any, settings: dict[str, Any]) -> None:
    """Answer messages until the channel is closed: (request, arguments) by ("done", result) or ("refused", sentence)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted, and tells
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
    desk = _Desk(solve, settings["checks"])
    requests: dict[str, Callable[..., Any]] = {"prepare": desk.prepare, "time": desk.time}
    channel.send(("done", None))
    for request, arguments in channel:
        try:
            channel.send(("done", requests[request](*arguments)))
        except Exception as error:
            channel.send(("refused", _sentence(error)))


class _Desk:
    """The ways of the case at hand."""

    def __init__(self, solve: Solve, checks: bool) -> None:
        self._solve, self._checks = solve, checks
        self._ways: list[Way] = []
        self._problem: Problem | None = None  # its memory lives as long as the ways that point to it

    def prepare(self, wire: dict[str, Any], folder: str) -> list[dict[str, Any]]:
        """Take up a case: the ways that are worth timing. An exception where there is none."""
        self._ways, self._problem = [], None  # so that the memory of the case before is free
        case = Case(**wire)
        x, scale, zero_point = read(case, Path(folder))
        self._problem = problem = Problem(case, x, scale, zero_point, aligned(case.shape, case.out_dtype))
        errors: list[Exception] = []
        found: list[tuple[Way, Prepared, float]] = []
        for way in self._solve(problem):
            try:
                found.append((way, *self._prepared(way, problem, Path(folder))))
            except Exception as error:
                errors.append(error)
        if not found:
            raise errors[0] if errors else NotImplementedError("it has no way of doing this")
        right = [entry for entry in found if not entry[1].other_bits] or found
        limit = HOPELESS * min(took for _, _, took in right)
        self._ways = [way for way, _, took in right if took <= limit]
        return [asdict(prepared) for _, prepared, took in right if took <= limit]

    def _prepared(self, way: Way, problem: Problem, folder: Path) -> tuple[Prepared, float]:
        """What is known of a way, and how long a call takes, roughly."""
        case = problem.case
        returned = way.run()
        others = None
        if self._checks:
            others = other_bits(case, folder, problem.out if way.read is None else way.read(returned))
        del returned
        # By now what is made once is made: compiled code, threads, pools.
        start = perf_counter()
        peak = peak_beyond(way.run)
        took = perf_counter() - start
        if peak is not None and way.owns_output:
            peak = max(0, peak - case.bytes_written)
        if took < LONG_SECONDS:
            took = seconds_per_call(way.run, TRIAL_SECONDS)
        return Prepared(way.name, peak, others), took

    def time(self, seconds: float) -> dict[str, float]:
        """Seconds of one call in each way, so many seconds being spent on all."""
        return {way.name: seconds_per_call(way.run, seconds / len(self._ways)) for way in self._ways}


def _sentence(error: Exception) -> str:
    said = " ".join(str(error).split())
    if not isinstance(error, NotImplementedError) or not said:
        said = f"{type(error).__name__}: {said}"
    return said[:MOST_CHARACTERS]
