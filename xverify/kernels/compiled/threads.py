"""Threads that share the pieces of one call.

The module has compiled bookkeeping in shared memory, and a pool of helper threads.
Threads are not Numba's own. Its portable layer ends the process if two Python threads use it at once, and several
Python threads call kernels. A function that is compiled with ``nogil`` runs beside others in ordinary threads.
Helpers start with the first large call, and again in a forked child.

All threads see the state of a call, so that none needs the interpreter between two pieces, and a waiting thread
reacts at once. The caller waits until all helpers have left its call, since they hold its arrays until then.

``shared``: the address of int64 words, at the offsets below. The last words are the boundaries of the pieces.
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
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from xverify.kernels.compiled.build import entry
from xverify.kernels.compiled.vectors import I64, Generated, is_x86, of_x86

NEXT, LEFT, COUNT, BELL, INSIDE, POLLS, ENDS = range(0, 56, 8)
"""Offsets of the words, in bytes.

NEXT: the next piece. LEFT: pieces that are not done. COUNT: all pieces. BELL: the address of the word that changes
when a call
begins. INSIDE: helpers in the call. POLLS: how often an idle thread polls before it sleeps. ENDS: the boundaries of
pieces.
"""


@intrinsic  # type: ignore[untyped-decorator]
def atomic_add(context: Any, address: Any, number: Any) -> Generated:
    """Add to the word at an address atomically, and return the old word."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = builder.inttoptr(arguments[0], I64.as_pointer())
        return builder.atomic_rmw("add", word, arguments[1], "seq_cst")

    return types.int64(types.int64, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def atomic_load(context: Any, address: Any) -> Generated:
    """The word at an address, read atomically."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(builder.inttoptr(arguments[0], I64.as_pointer()), "seq_cst", 8)

    return types.int64(types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def pause(context: Any) -> Generated:
    """Yield execution units to the other thread of the core for a moment."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if is_x86():
            of_x86(builder, "sse2.pause", ir.VoidType())
        return context.get_dummy_value()

    return types.void(), generate


@njit(error_model="numpy")  # type: ignore[untyped-decorator]
def take_piece(shared: Any) -> Any:
    """The boundaries of the next piece; 0, 0 if all are taken. Taking the first piece rings the bell."""
    number = atomic_add(shared + NEXT, 1)
    if number == 0:
        atomic_add(atomic_load(shared + BELL), 1)
    if number >= atomic_load(shared + COUNT):
        return 0, 0
    place = shared + ENDS + 8 * number
    return atomic_load(place), atomic_load(place + 8)


@njit(error_model="numpy")  # type: ignore[untyped-decorator]
def finish_piece(shared: Any) -> None:
    """Count a piece as done."""
    atomic_add(shared + LEFT, -1)


@njit(error_model="numpy")  # type: ignore[untyped-decorator]
def wait_for_others(shared: Any) -> None:
    """Poll for a while, until other threads have done their pieces and left."""
    for _ in range(atomic_load(shared + POLLS)):
        if atomic_load(shared + LEFT) == 0 and atomic_load(shared + INSIDE) == 0:
            return
        pause()


@njit(error_model="numpy")  # type: ignore[untyped-decorator]
def leave_call(shared: Any, heard: Any) -> None:
    """Leave a call, and poll for the next one until the bell differs from ``heard``.

    Both happen without the interpreter, which the caller needs as soon as all have left.
    """
    bell, looks = atomic_load(shared + BELL), atomic_load(shared + POLLS)
    atomic_add(shared + INSIDE, -1)
    for _ in range(looks):
        if atomic_load(bell) != heard:
            return
        pause()


_NEXT, _COUNT, _INSIDE = NEXT // 8, COUNT // 8, INSIDE // 8

Task = Callable[[int], None]

Work = Callable[[int, bool], None]
"""work(shared, helps): do pieces of a call until all are taken. helps: True in a helper thread."""


class _Job:
    """The pieces of one call.

    A helper enters a call before it does a piece, and leaves when it holds no more of it. The caller closes the call:
    then no helper
    enters, and the caller waits for those inside (see `run_shared`).

    Args:
        work: the function that does pieces.
        ends: the boundaries of the pieces.
        core: the caller's core; -1 if it is not known.
        bell: the address of the word that tells helpers that a call begins.
        looks: how often a waiting thread polls before it sleeps.
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
        """Do pieces of another thread's call until all are taken, then wait a while for the next call.

        This does nothing if the call is over. heard: returns the word of the bell, once all pieces are done.
        """
        with self.counting:
            work = self.work
            if work is None:
                return
            self.words[_INSIDE] += 1
        try:
            work(self.shared, True)
        except BaseException as error:  # The caller raises it; the helper goes on.
            self.error = error.with_traceback(None)  # whose frames hold the arrays
            self.words[_NEXT] = self.words[_COUNT]
        del work
        _compiled_leave_call()(self.shared, heard())
        with self.counting:
            if self.is_awaited and self.words[_INSIDE] == 0 and self.left.locked():
                self.left.release()


@cache
def _compiled_leave_call() -> Callable[[int, int], None]:
    return entry(leave_call.py_func, (types.int64, types.int64))


def usable_cores() -> int:
    """Cores that this process may use, or fewer if NUMBA_NUM_THREADS says so."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get("NUMBA_NUM_THREADS", "")
    return max(1, min(cores, int(limit))) if limit.isdigit() else cores


@cache
def _current_core() -> Callable[[], int]:
    """A function that returns the core of the calling thread; -1 if the system does not tell or set it."""
    try:
        function: Callable[[], int] = ctypes.PyDLL(None).sched_getcpu
    except (AttributeError, OSError, TypeError):
        return lambda: -1
    return function if hasattr(os, "sched_setaffinity") else lambda: -1


def avoid_core(core: int) -> None:
    """Move the calling thread to other cores of the process if it runs on that core.

    Linux wakes a thread on the core of the thread that wakes it, which goes on working there. The two threads of a
    call would share
    a core for longer than the call lasts, beside an idle core.
    """
    if core >= 0 and _current_core()() == core:
        with contextlib.suppress(OSError):  # there is no other core
            os.sched_setaffinity(0, os.sched_getaffinity(os.getpid()) - {core})


PATIENCE = 2e-4
"""Seconds for which an idle thread polls before it sleeps.

The next of many calls comes within this time, unless a thread is kept from running.
"""


def polls_in(seconds: float) -> int:
    """The number of polls that a waiting thread makes in that time.

    x86's ``pause`` takes 10 to 140 cycles.

    Source:
        Intel 64 and IA-32 Architectures Optimization Reference Manual, on the latency of PAUSE in Skylake Client.
    """
    lingers = entry(wait_for_others.py_func, (types.int64,))
    words = array("q", [0, 1, 1, 0, 0, _SOME_POLLS, 0, 0])  # a piece that is never done
    took = []
    for _ in range(5):
        began = perf_counter()
        lingers(words.buffer_info()[0])
        took.append(perf_counter() - began)
    return round(_SOME_POLLS * seconds / min(took))


_SOME_POLLS = 2048


class _Helpers:
    """Helper threads, as many as could be started, that live as long as the process.

    ``bell`` is the address of the word that changes when a call begins. ``looks`` is the result of `polls_in`.
    """

    def __init__(self, count: int) -> None:
        self.jobs: SimpleQueue[_Job] = SimpleQueue()
        self._words = array("q", [0])
        self.bell, _ = self._words.buffer_info()
        self.looks = polls_in(PATIENCE)
        self.count = 0
        with contextlib.suppress(RuntimeError):  # no more threads can be started
            for number in range(count):
                Thread(target=self._serve, name=f"xverify-{number}", daemon=True).start()
                self.count += 1

    def _serve(self) -> None:
        while True:
            job = self.jobs.get()
            avoid_core(job.core)
            job.help(self._heard)
            del job

    def _heard(self) -> int:
        """The word of the bell; another word if a call already waits."""
        heard = self._words[0]
        return heard if self.jobs.empty() else -1


_helpers = cache(_Helpers)

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.cache_clear)


@cache
def threads() -> int:
    """The number of threads that share a large call, the calling thread included."""
    return usable_cores()


def run_shared(work: Work, ends: Sequence[int]) -> None:
    """Call ``work`` on as many threads as there are cores, or pieces; one of them is the caller's.

    A late thread finds nothing left to do, so that a busy core delays nobody. If several calls already wait for every
    helper, no
    helper is added.

    Args:
        work: does pieces until all are taken.
        ends: the boundaries of the pieces.

    Raises:
        BaseException: the error of a piece, or an interrupt of the wait, such as KeyboardInterrupt.
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
        # No other thread may use or hold the arrays after this call. That includes a call that Ctrl-C interrupts while it waits,
        # or one at a point where no Python function can be called. So none is called here.
        while True:
            try:
                with job.counting:
                    job.is_awaited = bool(job.words[_INSIDE])
                    job.work = None
                    job.words[_NEXT] = job.words[_COUNT]
                while job.is_awaited and job.words[_INSIDE]:
                    job.left.acquire(timeout=_POLL_SECONDS)
                break
            except BaseException as error:
                interrupted = error
    if interrupted is not None:
        raise interrupted
    if job.error is not None:
        raise job.error


_POLL_SECONDS = 1.0
"""Seconds after which a waiting caller checks by itself. A lock that was acquired as Ctrl-C came is not released again."""

_WAITING = 4
"""Waiting calls for each helper from which on no more are queued."""


def run_each(task: Task, pieces: int) -> None:
    """Call task(0) ... task(pieces - 1), each once, on as many threads as there are cores."""
    if min(threads(), pieces) < 2:
        for piece in range(pieces):
            task(piece)
        return
    taken, finished = (entry(function.py_func, (types.int64,)) for function in (take_piece, finish_piece))

    def work(shared: int, helps: bool) -> None:
        while True:
            piece, end = taken(shared)
            if piece == end:
                return
            task(piece)
            finished(shared)

    run_shared(work, range(pieces + 1))
