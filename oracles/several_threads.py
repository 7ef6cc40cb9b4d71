"""Comparison of a Python function's results when several threads call it at once.

Threads seldom meet inside a function of a few microseconds, since Python lets each run for milliseconds. In every other
round a thread therefore pauses between instructions of the function, at drawn places.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from types import FrameType
from typing import Any, Callable, Iterable, List, Sequence

Function = Callable[..., Any]
Differs = Callable[[Function], bool]
"""differs(function): makes one call of the function on arguments of its own; whether its result is not as due."""

THREADS = 4
PAUSE_SECONDS = 1e-6
"""The requested pause. The system makes 50 microseconds of it, in which the other threads run."""

PAUSES = 12
"""In one call, one after another, from a drawn line on: watching every instruction would cost more than the pauses."""

ONE_IN = 6
"""Instructions, on average, from one pause to the next."""

MOST_LINES = 400
"""The lines of a call from which the first paused line is drawn."""


def threads_differ(function: Function, cases: Sequence[Differs], rounds: int, seed: int) -> bool:
    """True if a case differs in some thread, in some of the rounds that all threads begin together.

    In turns, all threads make the first case, and each thread makes another. Exceptions of ``differs`` pass through.
    """
    together = threading.Barrier(THREADS)
    differing: List[bool] = []
    failures: List[BaseException] = []
    lines = [1]

    def work(number: int) -> None:
        try:
            for turn in range(rounds):
                case = cases[(number + turn) % len(cases) if turn % 4 < 2 else 0]
                first = random.Random(seed * rounds + turn).random()  # the same for all: they meet near that line
                drawn = random.Random(number)
                paused = function if turn % 2 else interrupted(function, int(first * max(lines)), drawn, lines)
                together.wait()
                differing.append(case(paused))
        except threading.BrokenBarrierError:
            pass
        except BaseException as error:
            failures.append(error)
            together.abort()

    run_all(threading.Thread(target=work, args=(number,), daemon=True) for number in range(THREADS))
    if failures:
        raise failures[0]
    return any(differing)


def run_all(threads: Iterable[threading.Thread]) -> None:
    """Start the threads and wait for them."""
    started = list(threads)
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


def interrupted(function: Function, first: int, drawn: random.Random, lines: List[int]) -> Function:
    """The function, pausing between instructions of its Python code, but not of ours, after its ``first`` lines; the
    thread that calls it must not be traced. lines: how many lines earlier calls ran at least, to which this one adds."""

    def paused(*operands: Any, **keywords: Any) -> Any:
        seen, left = 0, PAUSES

        def pause(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal seen, left
            if str(frame.f_globals.get("__name__")).startswith("xverify.oracles."):
                return None
            seen += event == "line"
            if seen > first and left:
                frame.f_trace_opcodes = True
                if drawn.randrange(ONE_IN) == 0:
                    time.sleep(PAUSE_SECONDS)
                    left -= 1
            else:
                frame.f_trace_opcodes = False
            if seen == MOST_LINES:
                sys.settrace(None)
            return pause

        sys.settrace(pause)
        try:
            return function(*operands, **keywords)
        finally:
            sys.settrace(None)
            lines.append(seen)

    return paused
