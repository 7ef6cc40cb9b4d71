"""The protocol by which threads share the pieces of one call and wait for each other."""

import subprocess
import sys
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Barrier, current_thread
from time import perf_counter, sleep
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")

from numba import types

from xverify.kernels.compiled import threads as threads_module
from xverify.kernels.compiled.build import entry

pytestmark = pytest.mark.usefixtures("no_endless_wait")


def test_each_piece_is_taken_once() -> None:
    """Threads take pieces and report them as done at the same time."""
    taken, finished = (
        entry(f.py_func, (types.int64,)) for f in (threads_module.take_piece, threads_module.finish_piece)
    )
    bell = np.zeros(1, np.int64)
    count = 20_000
    words = np.array([0, count, count, bell.ctypes.data, 0, 0, *range(5, 3 * count + 6, 3)])
    address, all_there = words.ctypes.data, Barrier(4, timeout=10)

    def take_all(_: int) -> list[tuple[int, int]]:
        own = []
        all_there.wait()
        while (piece := taken(address))[0] < piece[1]:
            own.append(piece)
            finished(address)
        return own

    with ThreadPoolExecutor(4) as threads:
        found = sorted(piece for own in threads.map(take_all, range(4)) for piece in own)
    assert found == [(start, start + 3) for start in range(5, 3 * count + 5, 3)]
    assert words[:3].tolist() == [count + 4, 0, count]
    assert bell == 1


@pytest.mark.parametrize("number", range(4))
def test_only_the_first_piece_is_told_to_those_who_listen(number: int) -> None:
    bell = np.zeros(1, np.int64)
    words = np.array([number, 3, 3, bell.ctypes.data, 0, 0, 0, 10, 20, 30])
    piece = entry(threads_module.take_piece.py_func, (types.int64,))(words.ctypes.data)
    assert piece == ((10 * number, 10 * number + 10) if number < 3 else (0, 0))
    assert (bell[0], words[0]) == (number == 0, number + 1)


SECONDS = 1e-3


def shortest(looks: Callable[[], None]) -> float:
    """Return the shortest of several timings, in seconds."""
    took = []
    for _ in range(20):
        began = perf_counter()
        looks()
        took.append(perf_counter() - began)
    return min(took)


@pytest.mark.parametrize(
    ("left", "inside", "is_short"), [(0, 0, True), (1, 0, False), (0, 1, False), (1, 1, False)]
)  # fmt: skip
def test_how_long_a_caller_looks(left: int, inside: int, is_short: bool) -> None:
    """It waits a short time for pieces of other threads, and for the threads to leave."""
    lingers = entry(threads_module.wait_for_others.py_func, (types.int64,))
    words = np.array([9, left, 8, 0, inside, threads_module.polls_in(SECONDS)])
    took = shortest(lambda: lingers(words.ctypes.data))
    assert (took < SECONDS / 10) is is_short
    assert is_short or SECONDS / 2 < took < 10 * SECONDS


@pytest.mark.parametrize(("heard", "is_short"), [(7, False), (6, True)])
def test_how_long_a_helper_that_left_looks_for_the_next_call(heard: int, is_short: bool) -> None:
    departs = entry(threads_module.leave_call.py_func, (types.int64, types.int64))
    bell = np.array([7])
    looks = threads_module.polls_in(SECONDS)
    words = np.array([9, 0, 8, bell.ctypes.data, 20, looks])
    took = shortest(lambda: departs(words.ctypes.data, heard))
    assert (took < SECONDS / 10) is is_short
    assert is_short or SECONDS / 2 < took < 10 * SECONDS
    assert words.tolist() == [9, 0, 8, bell.ctypes.data, 0, looks]
    assert bell == 7


def test_threads_look_for_a_fraction_of_a_millisecond() -> None:
    lingers = entry(threads_module.wait_for_others.py_func, (types.int64,))
    words = np.array([9, 1, 8, 0, 0, threads_module._Helpers(0).looks])
    assert 5e-5 < shortest(lambda: lingers(words.ctypes.data)) < 1e-3


def a_job(work: Any, ends: Sequence[int] = (0, 5)) -> threads_module._Job:
    bell = np.array([0])
    job = threads_module._Job(work, ends, -1, bell.ctypes.data, 0)
    job.bell_word = bell  # type: ignore[attr-defined]
    return job


def test_a_helper_is_inside_while_it_works_and_holds_nothing_afterwards() -> None:
    inside: list[tuple[bool, int]] = []
    array = np.zeros(3)

    def work(shared: int, helps: bool, array: np.ndarray = array) -> None:
        inside.append((helps, int(job.words[threads_module._INSIDE])))

    job = a_job(work)
    held = sys.getrefcount(array)
    for _ in range(2):
        job.help(lambda: -1)
    assert inside == [(True, 1)] * 2
    assert (job.words[threads_module._INSIDE], job.left.locked(), job.error) == (0, True, None)
    assert sys.getrefcount(array) == held
    job.work = None
    job.help(lambda: -1)
    assert len(inside) == 2, "the call is over"
    assert (job.words[threads_module._INSIDE], job.error) == (0, None)


def test_a_caller_that_waits_is_woken_by_the_last_that_leaves() -> None:
    job = a_job(lambda shared, helps: None)
    job.is_awaited = True
    job.words[threads_module._INSIDE] = 1
    job.help(lambda: -1)
    assert job.left.locked(), "another is inside"
    job.words[threads_module._INSIDE] = 0
    for _ in range(2):
        job.help(lambda: -1)
        assert not job.left.locked()


def test_an_exception_of_a_helper_ends_the_call() -> None:
    def work(shared: int, helps: bool) -> None:
        raise MemoryError("no more")

    job = a_job(work, (0, 5, 10))
    job.help(lambda: -1)
    assert isinstance(job.error, MemoryError)
    assert job.error.__traceback__ is None
    assert job.words[:3].tolist() == [2, 2, 2], "nothing more is taken"


def test_helpers_are_counted() -> None:
    assert threads_module._Helpers(2).count == 2


def test_where_no_thread_can_be_started_the_caller_does_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unstartable:
        def __init__(self, **_: object) -> None:
            pass

        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads_module, "Thread", Unstartable)
    helpers = threads_module._Helpers(3)
    assert helpers.count == 0
    monkeypatch.setattr(threads_module, "_helpers", lambda count: helpers)
    monkeypatch.setattr(threads_module, "threads", lambda: 4)
    done: list[int] = []
    threads_module.run_each(done.append, 5)
    assert (done, helpers.jobs.qsize()) == ([0, 1, 2, 3, 4], 0)


def test_calls_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """If helpers do not run, at most `_WAITING` calls wait for each."""
    bell = np.zeros(1, np.int64)
    nobody = SimpleNamespace(jobs=SimpleQueue(), bell=bell.ctypes.data, looks=0, count=2)
    monkeypatch.setattr(threads_module, "_helpers", lambda count: nobody)
    monkeypatch.setattr(threads_module, "threads", lambda: 3)
    kept: list[weakref.ref[np.ndarray]] = []
    for _ in range(50):
        array = np.zeros(9)
        kept.append(weakref.ref(array))
        threads_module.run_each(lambda piece, array=array: None, 5)  # type: ignore[misc]
        del array
    assert nobody.jobs.qsize() == 2 * threads_module._WAITING
    assert not any(one() is not None for one in kept), "a call that waits to be looked at holds no array"


@pytest.mark.parametrize("step", [1, 2], ids=["without gaps", "with gaps"])
def test_ctrl_c_ends_a_call_when_no_thread_writes_any_more(step: int) -> None:
    """A process of its own gets twenty interrupts. No thread writes after the call has ended."""
    code = f"""
import os, random, signal, threading, time, numpy as np, xverify
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's job in the background ignores it
x, out = np.ones({step << 21}, np.uint8)[::{step}], np.zeros(1 << 21, np.float32)
call = lambda: xverify.dequantize_linear(x, np.float32(2), out=out, backend="numba")
call()
interrupted = 0
for _ in range(20):
    def interrupt():
        time.sleep(random.uniform(0, 3e-3))
        os.kill(os.getpid(), signal.SIGINT)
    thread = threading.Thread(target=interrupt)
    try:
        try:
            thread.start()
            while thread.is_alive():
                call()
        finally:
            out[:] = 5
            thread.join()
    except KeyboardInterrupt:
        interrupted += 1
        out[:] = 5
    time.sleep(1e-3)
    assert (out == 5).all()
call()
assert (out == 2).all()
print(interrupted)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0


@pytest.mark.parametrize("who", ["caller", "helper"])
def test_late_threads_are_waited_for(who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The delay is longer than any thread spins without sleeping."""
    monkeypatch.setattr(threads_module, "threads", lambda: 2)
    for _ in range(3):
        done, both_there = [], Barrier(2, timeout=10)

        def task(piece: int) -> None:
            both_there.wait()  # noqa: B023
            if (current_thread().name == "xverify-0") is (who == "helper"):
                sleep(0.05)
            done.append(piece)  # noqa: B023

        threads_module.run_each(task, 2)
        assert sorted(done) == [0, 1]
