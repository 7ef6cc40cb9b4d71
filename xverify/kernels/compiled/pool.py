"""A few threads that share the pieces of one call. They start when the first large call comes, and anew in a forked child.

Not Numba's own threads: its portable layer ends the process when two Python threads use it at once, and kernels are called from
several. A function compiled with ``nogil`` runs beside others in ordinary threads.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from array import array
from collections.abc import Callable, Sequence
from functools import cache
from queue import SimpleQueue
from threading import Lock, Thread
from time import perf_counter

from numba import types

from xverify.kernels.compiled.build import entry
from xverify.kernels.compiled.sharing import COUNT, INSIDE, NEXT, depart, finish, linger, take

_NEXT, _COUNT, _INSIDE = NEXT // 8, COUNT // 8, INSIDE // 8

Task = Callable[[int], None]

Work = Callable[[int, bool], None]
"""work(shared, helps): do pieces of a call until all are taken, which are ``shared`` as `sharing` says. helps: whether the call
is another thread's."""


class _Job:
    """A call's pieces. core: the caller's, -1 where not known. bell: the address of what tells helpers that a call begins. looks:
    how often one who waits looks before it sleeps.

    A helper enters a call before it does any of it, and leaves when it holds nothing of it any more; the caller closes it: then
    none enters, and those inside are waited for (see `share`).
    """

    def __init__(self, work: Work, ends: Sequence[int], core: int, bell: int, looks: int) -> None:
        pieces = len(ends) - 1
        self.core = core
        self.work: Work | None = work
        self.words = array("q", [0, pieces, pieces, bell, 0, looks, *ends])
        self.shared, _ = self.words.buffer_info()
        self.error: BaseException | None = None
        self.counting = Lock()
        self.is_awaited = False
        self.left = Lock()
        self.left.acquire()

    def help(self, heard: Callable[[], int]) -> None:
        """Do pieces of another thread's call until all have been taken, unless it is over, and wait a while for the next. heard:
        what gives the bell's word, once all of this call is done."""
        with self.counting:
            work = self.work
            if work is None:
                return
            self.words[_INSIDE] += 1
        try:
            work(self.shared, True)
        except BaseException as error:  # The one who waits is told; a thread that serves goes on.
            self.error = error.with_traceback(None)  # whose frames hold the arrays
            self.words[_NEXT] = self.words[_COUNT]
        del work
        _departing()(self.shared, heard())
        with self.counting:
            if self.is_awaited and self.words[_INSIDE] == 0 and self.left.locked():
                self.left.release()


@cache
def _departing() -> Callable[[int, int], None]:
    return entry(depart.py_func, (types.int64, types.int64))


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


def leave(core: int) -> None:
    """Have the calling thread run on other cores of the process, if it runs on that one.

    Linux wakes a thread where its waker runs, which goes on working there: two threads of one call would share a core for longer
    than the call lasts, beside another that is idle.
    """
    if core >= 0 and _current_core()() == core:
        with contextlib.suppress(OSError):  # there is no other
            os.sched_setaffinity(0, os.sched_getaffinity(os.getpid()) - {core})


PATIENCE = 2e-4
"""Seconds for which a thread that has nothing to do looks before it sleeps: a caller comes with the next of many calls in them,
and nobody is late who is not kept from running."""


def looks_in(seconds: float) -> int:
    """How often a thread that waits looks in that time: x86's ``pause`` takes ten cycles, or as many as 140.

    Source: Intel 64 and IA-32 Architectures Optimization Reference Manual, on the latency of PAUSE in Skylake Client.
    """
    lingers = entry(linger.py_func, (types.int64,))
    words = array("q", [0, 1, 1, 0, 0, _SOME_LOOKS, 0, 0])  # a piece that is never done
    took = []
    for _ in range(5):
        began = perf_counter()
        lingers(words.buffer_info()[0])
        took.append(perf_counter() - began)
    return round(_SOME_LOOKS * seconds / min(took))


_SOME_LOOKS = 2048


class _Helpers:
    """So many threads, or as many as can be had, which live as long as the process. bell: the word that changes when a call
    begins. looks: see `looks_in`."""

    def __init__(self, count: int) -> None:
        self.jobs: SimpleQueue[_Job] = SimpleQueue()
        self._words = array("q", [0])
        self.bell, _ = self._words.buffer_info()
        self.looks = looks_in(PATIENCE)
        self.count = 0
        with contextlib.suppress(RuntimeError):  # no more threads can be started
            for number in range(count):
                Thread(target=self._serve, name=f"xverify-{number}", daemon=True).start()
                self.count += 1

    def _serve(self) -> None:
        while True:
            job = self.jobs.get()
            leave(job.core)
            job.help(self._heard)
            del job

    def _heard(self) -> int:
        """What the bell says; where a call waits already, something that it does not say."""
        heard = self._words[0]
        return heard if self.jobs.empty() else -1


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

    A thread that is late finds nothing left, so that a busy core delays nobody; where several calls wait already for every
    helper, none is asked.
    """
    helpers = _helpers(threads() - 1)
    job = _Job(work, ends, _current_core()(), helpers.bell, helpers.looks)
    interrupted: BaseException | None = None
    try:
        for _ in range(min(helpers.count, len(ends) - 2)):
            if helpers.jobs.qsize() < _WAITING * helpers.count:
                helpers.jobs.put(job)
        work(job.shared, False)
    finally:
        # No other thread may touch the arrays, or hold them, when this call is over: also not where it is broken off, by Ctrl-C
        # while it waits, or where no further Python function can be called, so that none is.
        while True:
            try:
                with job.counting:
                    job.is_awaited = bool(job.words[_INSIDE])
                    job.work = None
                    job.words[_NEXT] = job.words[_COUNT]
                while job.is_awaited and job.words[_INSIDE]:
                    job.left.acquire(timeout=_LOOK_SECONDS)
                break
            except BaseException as error:
                interrupted = error
    if interrupted is not None:
        raise interrupted
    if job.error is not None:
        raise job.error


_LOOK_SECONDS = 1.0
"""How often one who waits looks by itself: a lock that was had as Ctrl-C came is not given again."""

_WAITING = 4
"""Calls for each helper that may wait."""


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
            task(piece)
            finished(shared)

    share(work, range(pieces + 1))
