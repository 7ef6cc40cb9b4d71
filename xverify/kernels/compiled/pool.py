"""A few threads that share the pieces of one call. They start when the first large call comes, and anew in a forked child.

Not Numba's own threads: its portable layer ends the process when two Python threads use it at once, and kernels are called from
several. A function compiled with ``nogil`` runs beside others in ordinary threads.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable, Set
from functools import cache
from itertools import count
from queue import SimpleQueue
from threading import Lock, Thread

Task = Callable[[int], None]


class _Job:
    """``pieces`` calls of a task, of which each thread that comes takes the next. core: the caller's, -1 where not known."""

    def __init__(self, task: Task, pieces: int, core: int) -> None:
        self.core = core
        self._task = task
        self._pieces = pieces
        self._next = count()
        self._left = pieces
        self._error: BaseException | None = None
        self._counting = Lock()
        self._done = Lock()
        self._done.acquire()

    def work(self) -> None:
        """Do pieces until all have been taken."""
        while (piece := next(self._next)) < self._pieces:
            try:
                self._task(piece)
            except BaseException as error:  # The one who waits is told; a thread that serves goes on.
                self._error = error
            with self._counting:
                self._left -= 1
                if self._left == 0:
                    self._done.release()

    def wait(self) -> None:
        """Return when all pieces have been done; raises what one of them raised."""
        self._done.acquire()
        if self._error is not None:
            raise self._error


def usable_cores() -> int:
    """Cores that this process may use, or fewer, as the environment variable NUMBA_NUM_THREADS says."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("NUMBA_NUM_THREADS", "")
    return max(1, min(cores, int(asked))) if asked.isdigit() else cores


@cache
def _current_core() -> Callable[[], int]:
    """What tells the core on which the calling thread runs: -1 where the system does not say, or lets no thread choose."""
    try:
        function: Callable[[], int] = ctypes.PyDLL(None).sched_getcpu
    except (AttributeError, OSError, TypeError):
        return lambda: -1
    return function if hasattr(os, "sched_setaffinity") else lambda: -1


def leave(core: int, cores: Set[int]) -> None:
    """Have the calling thread run on other ones of these cores, if it runs on that one.

    Linux wakes a thread where its waker runs, which goes on working there: two threads of one call would share a core for longer
    than the call lasts, beside another that is idle.
    """
    if core >= 0 and _current_core()() == core:
        with contextlib.suppress(OSError):  # the process may have been given fewer cores since
            os.sched_setaffinity(0, cores - {core})


@cache
def _jobs(helpers: int) -> SimpleQueue[_Job]:
    """The queue of that many threads, which live as long as the process."""
    queue: SimpleQueue[_Job] = SimpleQueue()
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()

    def serve() -> None:
        while True:
            job = queue.get()
            leave(job.core, cores)
            job.work()
            del job  # and with it the arrays

    for number in range(helpers):
        Thread(target=serve, name=f"xverify-{number}", daemon=True).start()
    return queue


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_jobs.cache_clear)


@cache
def threads() -> int:
    """Threads that share a large call, the calling one among them."""
    return usable_cores()


def each(task: Task, pieces: int) -> None:
    """Call task(0) ... task(pieces - 1), each once, on as many threads as there are cores; the caller's is one of them.

    A thread that is late finds nothing left, so that a busy core delays nobody.
    """
    helpers = min(threads(), pieces) - 1
    if helpers < 1:
        for piece in range(pieces):
            task(piece)
        return
    job = _Job(task, pieces, _current_core()())
    queue = _jobs(threads() - 1)
    for _ in range(helpers):
        queue.put(job)
    job.work()
    job.wait()
