"""What threads tell each other of the pieces of one call, and who waits for whom."""

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, current_thread
from time import perf_counter, sleep

import numpy as np
import pytest

pytest.importorskip("numba")

from numba import types

from xverify.kernels.compiled import pool, sharing
from xverify.kernels.compiled.build import entry

pytestmark = pytest.mark.usefixtures("no_endless_wait")


def test_each_piece_is_taken_once() -> None:
    """By threads that take, and say what is done, at the same time."""
    taken, finished = (entry(f.py_func, (types.int64,)) for f in (sharing.take, sharing.finish))
    bell = np.zeros(1, np.int64)
    count = 20_000
    words = np.array([0, count, count, bell.ctypes.data, 0, *range(5, 3 * count + 6, 3)])
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
    words = np.array([number, 3, 3, bell.ctypes.data, 0, 0, 10, 20, 30])
    piece = entry(sharing.take.py_func, (types.int64,))(words.ctypes.data)
    assert piece == ((10 * number, 10 * number + 10) if number < 3 else (0, 0))
    assert (bell[0], words[0]) == (number == 0, number + 1)


@pytest.mark.parametrize(
    ("helps", "left", "waits", "heard", "is_short"),
    [(False, 0, 0, 7, True), (False, 1, 0, 6, False), (False, 1, 1, 6, False), (True, 0, 0, 7, False), (True, 0, 0, 6, True),
     (True, 1, 1, 7, True), (True, 1, 0, 7, False)],
)  # fmt: skip
def test_how_long_a_thread_looks(helps: bool, left: int, waits: int, heard: int, is_short: bool) -> None:
    """A caller for pieces that others do; a helper for a call, unless this one's caller sleeps. Neither for long."""
    lingers = entry(sharing.linger.py_func, (types.int64, types.boolean, types.int64))
    bell = np.array([7])
    words = np.array([9, left, 8, bell.ctypes.data, waits])
    took = []
    for _ in range(20):
        began = perf_counter()
        lingers(words.ctypes.data, helps, heard)
        took.append(perf_counter() - began)
    assert (min(took) < 5e-6) is is_short
    assert min(took) < 5e-3


def test_a_caller_that_sleeps_is_woken_once_and_when_all_is_done() -> None:
    """Not by a helper that finds nothing to take while another still works, and by one of several that find all done."""
    told: list[bool] = []
    job = pool._Job(lambda shared, helps: told.append(helps), [0, 5], -1, np.zeros(1, np.int64).ctypes.data)
    finished = entry(sharing.finish.py_func, (types.int64,))
    job.help()
    assert job._done.locked()
    finished(job._shared)
    job.help()
    assert not job._done.locked()
    job.wait()
    job._done.acquire()
    job.help()
    assert job._done.locked()
    assert told == [True] * 3


def test_helpers_are_told_that_the_caller_sleeps() -> None:
    job = pool._Job(lambda shared, helps: None, [0, 5], -1, np.zeros(1, np.int64).ctypes.data)
    finished = entry(sharing.finish.py_func, (types.int64,))
    waits = job._words[sharing.WAITS // 8 :]
    assert waits[0] == 0
    with ThreadPoolExecutor(1) as one:
        caller = one.submit(job.wait)
        while not waits[0]:
            sleep(1e-3)
        assert not caller.done()
        finished(job._shared)
        job.help()
        caller.result(timeout=10)
    assert waits.tolist() == [1, 0, 5]


def test_the_cores_of_this_process_are_those_to_choose_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {process + 5}, raising=False)
    assert pool._Helpers(0)._cores == {5}


@pytest.mark.parametrize("who", ["caller", "helper"])
def test_who_is_late_is_waited_for(who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For longer than anybody looks without sleeping."""
    monkeypatch.setattr(pool, "threads", lambda: 2)
    for _ in range(3):
        done, both_there = [], Barrier(2, timeout=10)

        def task(piece: int) -> None:
            both_there.wait()  # noqa: B023
            if (current_thread().name == "xverify-0") is (who == "helper"):
                sleep(0.05)
            done.append(piece)  # noqa: B023

        pool.each(task, 2)
        assert sorted(done) == [0, 1]
