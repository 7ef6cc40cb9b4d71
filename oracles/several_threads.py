"""Comparison of a Python function's results when several threads call it at once.

Threads seldom meet inside a function of a few microseconds, because Python lets each run for milliseconds. In every other
round a thread therefore pauses between random instructions of the function.
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
"""differs(function) makes one call of the function with its own arguments.

It returns True if the result is wrong.
"""

THREADS = 4
PAUSE_SECONDS = 1e-6
"""The requested pause. The system makes it 50 microseconds, in which the other threads run."""

PAUSES = 12
"""The number of pauses in one call, one after another, from a random line on.

Watching every instruction would cost more than the pauses.
"""

ONE_IN = 6
"""The average number of instructions between two pauses."""

MOST_LINES = 400
"""The first paused line is one of this number of lines."""


def threads_differ(function: Function, cases: Sequence[Differs], rounds: int, seed: int) -> bool:
    """True if a case differs in some thread, in a round that all threads begin together.

    Rounds alternate: all threads make the first case, or each thread makes another case. Exceptions of ``differs`` pass through.
    """
    together = threading.Barrier(THREADS)
    differing: List[bool] = []
    failures: List[BaseException] = []
    lines = [1]

    def work(number: int) -> None:
        try:
            for turn in range(rounds):
                case = cases[(number + turn) % len(cases) if turn % 4 < 2 else 0]
                first = random.Random(
                    seed * rounds + turn
                ).random()  # equal in all threads, so that they meet near that line
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
    """The function, with pauses between instructions of its Python code after its ``first`` lines.

    Code of ``xverify.oracles`` has no pauses. The thread that calls it must not be traced.

    Args:
        lines: The numbers of lines that earlier calls ran at least. Each call adds its own.
    """

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
