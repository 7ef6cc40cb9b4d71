"""Shards as child processes of this machine."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType

from xverify.shards.task import END, FINISH, GOES_ON, Done, Task, run_task

MEMORY_OF_SHARD = 4 << 30
"""Bytes of memory that ``-n auto`` counts for a shard: its planner and a process for each implementation."""

ATTEMPTS = 2
"""Most attempts at a shard."""


def cores_of_machine() -> list[int]:
    """The processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def number_for(cores: int, memory: int) -> int:
    """The number of shards that ``-n auto`` means.

    Args:
        cores: Cores of the machine.
        memory: Bytes of memory of the machine.
    """
    return max(1, min(cores, memory // MEMORY_OF_SHARD))


def shares(cores: Sequence[int], count: int) -> list[list[int]]:
    """Cores of each shard: equal parts, or all cores for each if there are more shards than cores."""
    if count > len(cores):
        return [[] for _ in range(count)]
    return [list(cores[k * len(cores) // count : (k + 1) * len(cores) // count]) for k in range(count)]


class Interrupts:
    """The wish of a user who presses ^C: once to finish with the results so far, twice to end at once."""

    def __init__(self) -> None:
        self.presses = 0

    def wish(self) -> int:
        return (GOES_ON, FINISH, END)[min(self.presses, 2)]

    def press(self, number: int = 0, frame: FrameType | None = None) -> None:
        self.presses += 1

    @contextlib.contextmanager
    def handled(self) -> Iterator[None]:
        """Count ^C instead of raising KeyboardInterrupt."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGINT, self.press)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def run_here(
    tasks: Sequence[Task],
    folder: Path,
    announce: Callable[[Done], None],
    on_line: Callable[[str, str], None],
    interrupts: Interrupts,
    restarted: Callable[[str], None],
) -> list[Done]:
    """Run all shards at the same time, and one that dies once more.

    Args:
        tasks: The shards.
        folder: The directory for their results.
        announce: Called with the end of each shard, after its result is on disk.
        on_line: Called with a shard's key and a line of its events, from a thread of the shard.
        interrupts: The user's ^C.
        restarted: Called with the key of a shard that begins again.

    Returns:
        The ends of the shards, in the order of the tasks.
    """
    ends: queue.SimpleQueue[Done | BaseException] = queue.SimpleQueue()
    parts = shares(cores_of_machine(), len(tasks))

    def work(task: Task, cores: list[int]) -> None:
        try:
            for attempt in range(ATTEMPTS):
                if attempt:
                    restarted(task.key)
                done = run_task(task, folder, lambda line: on_line(task.key, line), interrupts.wish, cores)
                if done.result is not None or done.is_hopeless or done.met_full_disk or interrupts.presses:
                    break
            ends.put(done)
        except BaseException as error:  # the thread that waits raises it
            ends.put(error)

    gathered: dict[str, Done] = {}
    with interrupts.handled(), ThreadPoolExecutor(len(tasks)) as threads:
        for task, cores in zip(tasks, parts, strict=True):
            threads.submit(work, task, cores)
        while len(gathered) < len(tasks):
            end = _next(ends)
            if isinstance(end, BaseException):
                interrupts.presses = 2
                raise end
            gathered[end.key] = end
            announce(end)
    if interrupts.presses > 1:
        raise KeyboardInterrupt
    return [gathered[task.key] for task in tasks]


def _next(ends: queue.SimpleQueue[Done | BaseException]) -> Done | BaseException:
    """The next end. It waits in short turns, so that ^C is handled at once."""
    while True:
        with contextlib.suppress(queue.Empty):
            return ends.get(timeout=0.5)
