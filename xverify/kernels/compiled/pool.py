"""A few threads that share the pieces of one call. They start when the first large call comes, and anew in a forked child.

Not Numba's own threads: its portable layer ends the process when two Python threads use it at once, and kernels are called from
several. A function compiled with ``nogil`` runs beside others in ordinary threads.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable, Sequence, Set
from functools import cache
from queue import SimpleQueue
from threading import Lock, Thread

import numpy as np
from numba import types

from xverify.kernels.compiled.build import entry
from xverify.kernels.compiled.sharing import LEFT, WAITS, finish, take

Task = Callable[[int], None]

Work = Callable[[int, bool], None]
"""work(shared, helps): do pieces of a call until all are taken, which are ``shared`` as `sharing` says. helps: whether the call
is another thread's."""


class _Job:
    """A call's pieces. core: the caller's, -1 where not known. bell: the address of what tells helpers that a call begins."""

    def __init__(self, work: Work, ends: Sequence[int], core: int, bell: int) -> None:
        self.core = core
        pieces = len(ends) - 1
        self._words = np.array([0, pieces, pieces, bell, 0, *ends], np.int64)
        self._shared = self._words.__array_interface__["data"][0]
        self._work = work
        self._error: BaseException | None = None
        self._counting = Lock()
        self._is_told = False
        self._done = Lock()
        self._done.acquire()

    def work(self, helps: bool) -> None:
        """Do pieces until all have been taken."""
        while True:
            try:
                self._work(self._shared, helps)
                return
            except BaseException as error:  # The one who waits is told; a thread that serves goes on.
                self._error = error

    def help(self) -> None:
        """The same for another thread, which is woken when all have been done."""
        self.work(True)
        with self._counting:
            if self._words[_LEFT] == 0 and not self._is_told:
                self._is_told = True
                self._done.release()

    def wait(self) -> None:
        """Return when all pieces have been done; raises what one of them raised."""
        if self._words[_LEFT] != 0:
            self._words[_WAITS] = 1
            self._done.acquire()
        if self._error is not None:
            raise self._error


_LEFT, _WAITS = LEFT // 8, WAITS // 8


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


class _Helpers:
    """So many threads, which live as long as the process. bell: the word that changes when a call begins."""

    def __init__(self, count: int) -> None:
        self.jobs: SimpleQueue[_Job] = SimpleQueue()
        self._words = np.array([0])
        self.bell = self._words.__array_interface__["data"][0]
        self._cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
        for number in range(count):
            Thread(target=self._serve, name=f"xverify-{number}", daemon=True).start()

    def _serve(self) -> None:
        while True:
            job = self.jobs.get()
            leave(job.core, self._cores)
            job.help()
            del job  # and with it the arrays


_helpers = cache(_Helpers)

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.cache_clear)


@cache
def threads() -> int:
    """Threads that share a large call, the calling one among them."""
    return usable_cores()


def share(work: Work, ends: Sequence[int]) -> None:
    """Call ``work`` on as many threads as there are cores, or pieces; the caller's is one of them. ends: where pieces begin, and
    where the last ends.

    A thread that is late finds nothing left, so that a busy core delays nobody.
    """
    helpers = _helpers(threads() - 1)
    job = _Job(work, ends, _current_core()(), helpers.bell)
    for _ in range(min(threads(), len(ends) - 1) - 1):
        helpers.jobs.put(job)
    job.work(False)
    job.wait()


def each(task: Task, pieces: int) -> None:
    """Call task(0) ... task(pieces - 1), each once, on as many threads as there are cores."""
    if min(threads(), pieces) < 2:
        for piece in range(pieces):
            task(piece)
        return
    taken, finished = (entry(function.py_func, (types.int64,)) for function in (take, finish))

    def work(shared: int, helps: bool) -> None:
        while True:
            piece, end = taken(shared)
            if piece == end:
                return
            try:
                task(piece)
            finally:
                finished(shared)

    share(work, range(pieces + 1))
