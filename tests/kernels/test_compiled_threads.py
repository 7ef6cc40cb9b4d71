"""The threads that share a large tensor's pieces."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from threading import Barrier, current_thread
from types import SimpleNamespace

import numpy as np
import pytest
from kernel_arrays import both, drawn

import xverify

pytest.importorskip("numba")

from numba import types

from xverify.kernels.compiled import threads as threads_module
from xverify.kernels.compiled import tiles
from xverify.kernels.compiled.build import entry
from xverify.kernels.compiled.tiles import ALL, WHOLE

CHOOSES = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2, reason="a thread cannot choose its core"
)


pytestmark = pytest.mark.usefixtures("no_endless_wait")


def test_one_element_more_than_one_thread_takes() -> None:
    size = tiles.THREADS_FROM // 4 + 1
    x = drawn("int8", (size,))
    both(x, np.float32(0.1), np.int8(5))
    both(x.reshape(1, -1), np.linspace(0.1, 1, -(-size // 100), dtype=np.float32)[None], None, axis=1, block_size=100)


@pytest.mark.parametrize("step", [1, 2], ids=["without gaps", "with gaps"])
@pytest.mark.parametrize("size", [1, 1000, tiles.PIECE, tiles.PIECE + 1, tiles.THREADS_FROM // 4 + 1])
def test_each_piece_is_given_its_elements_and_no_more(size: int, step: int) -> None:
    """This holds for the codes, also where a reader provides them, and for the output."""
    x = np.arange(size * step, dtype=np.uint32)[::step].view(np.int32)
    for out_step, read in ((1, None), (2, None), (1, lambda start, stop: x[start:stop].copy())):
        out = np.zeros(size * out_step, np.float64)[::out_step]

        def write(start: int, stop: int, codes: np.ndarray, elements: np.ndarray, streamed: int) -> None:
            assert codes.shape == elements.shape == (stop - start,)
            elements[:] = codes

        tiles.for_each_piece(write, out, x, read, tiles.PIECE)
        assert (out == x).all()


def test_several_threads_at_once() -> None:
    size = tiles.THREADS_FROM
    x = drawn("uint8", (size,))
    scales = [np.float32(0.1 * (i + 1)) for i in range(6)]
    want = [xverify.dequantize_linear(x, scale, backend="numpy").tobytes() for scale in scales]
    with ThreadPoolExecutor(6) as callers:
        for _ in range(3):
            got = callers.map(lambda scale: xverify.dequantize_linear(x, scale, backend="numba").tobytes(), scales)
            assert list(got) == want


def on_two_threads() -> set[str]:
    """Return the names of two threads that each computed a piece at the same time."""
    names: set[str] = set()
    both_there = Barrier(2, timeout=10)

    def task(piece: int) -> None:
        names.add(current_thread().name)
        both_there.wait()

    threads_module.run_each(task, 2)
    return names


def test_a_helper_works_beside_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads_module, "threads", lambda: 2)
    assert on_two_threads() == {current_thread().name, "xverify-0"}


@pytest.mark.parametrize(("threads", "pieces_", "woken"), [(4, 3, 2), (4, 4, 3), (4, 9, 3), (2, 9, 1), (4, 2, 1)])
def test_no_more_helpers_are_woken_than_have_a_piece(
    threads: int, pieces_: int, woken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bell = np.zeros(1, np.int64)
    nobody = SimpleNamespace(jobs=SimpleQueue(), bell=bell.ctypes.data, looks=0, count=threads - 1)
    helpers: list[int] = []
    monkeypatch.setattr(threads_module, "threads", lambda: threads)
    monkeypatch.setattr(threads_module, "_helpers", lambda count: helpers.append(count) or nobody)
    done: list[int] = []
    threads_module.run_each(done.append, pieces_)
    assert (sorted(done), nobody.jobs.qsize(), helpers) == (list(range(pieces_)), woken, [threads - 1])
    assert bell == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_after_a_fork() -> None:
    """The child cannot use the parent's threads. It starts its own."""
    x = drawn("uint8", (tiles.THREADS_FROM,))
    want = xverify.dequantize_linear(x, np.float32(0.1), backend="numba").tobytes()
    child = os.fork()
    if child == 0:
        try:
            same = xverify.dequantize_linear(x, np.float32(0.1), backend="numba").tobytes() == want
            os._exit(0 if same and (threads_module.threads() < 2 or len(on_two_threads()) == 2) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_what_a_thread_raises_reaches_the_caller_and_the_threads_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads_module, "threads", lambda: 3)
    for _ in range(5):
        done = []

        def task(piece: int) -> None:
            if piece == 7:
                raise MemoryError("no more")
            done.append(piece)  # noqa: B023

        with pytest.raises(MemoryError, match="no more"):
            threads_module.run_each(task, 20)
        assert set(range(7)) <= set(done) <= set(range(20)) - {7}, "what comes behind it need not be done"
    done = []
    threads_module.run_each(done.append, 50)
    assert sorted(done) == list(range(50))


@pytest.mark.parametrize(
    ("asked", "cores"), [("", 4), ("1", 1), ("2", 2), ("4", 4), ("9", 4), ("0", 1), ("-1", 4), ("many", 4)]
)
def test_as_many_threads_as_cores_or_as_asked(asked: str, cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_NUM_THREADS", asked)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 2, 4, 6} if process == 0 else {}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert threads_module.usable_cores() == threads_module.threads.__wrapped__() == cores


@pytest.mark.parametrize(("counted", "cores"), [(8, 8), (None, 1)])
def test_as_many_threads_as_the_machine_has_cores(
    counted: int | None, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: counted)
    assert threads_module.usable_cores() == cores


@CHOOSES
def test_a_helper_leaves_the_callers_core(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = os.sched_getaffinity(0)

    def in_a_thread() -> None:
        core = threads_module._current_core()()
        threads_module.avoid_core(-1)
        assert os.sched_getaffinity(0) == cores
        threads_module.avoid_core(core)
        assert os.sched_getaffinity(0) == cores - {core}
        assert threads_module._current_core()() != core
        threads_module.avoid_core(core)  # the process already runs on another core
        assert os.sched_getaffinity(0) == cores - {core}
        monkeypatch.setattr(os, "sched_getaffinity", lambda process: {threads_module._current_core()()})
        threads_module.avoid_core(threads_module._current_core()())  # there is no other core
        monkeypatch.undo()
        assert os.sched_getaffinity(0) == cores - {core}

    with ThreadPoolExecutor(1) as one:
        one.submit(in_a_thread).result()


@pytest.mark.parametrize(
    ("callers", "own", "leaves"), [(0, 0, True), (3, 3, True), (0, 3, False), (3, 0, False), (-1, -1, False)]
)
def test_a_helper_stays_where_the_caller_is_not(
    callers: int, own: int, leaves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[tuple[int, set[int]]] = []
    monkeypatch.setattr(threads_module, "_current_core", lambda: lambda: own)
    monkeypatch.setattr(os, "sched_setaffinity", lambda thread, cores: chosen.append((thread, cores)), raising=False)
    monkeypatch.setattr(
        os, "sched_getaffinity", lambda process: {0, 1, 3} if process == os.getpid() else {9}, raising=False
    )
    threads_module.avoid_core(callers)
    assert chosen == ([(0, {0, 1, 3} - {own})] if leaves else [])


@CHOOSES
def test_helpers_are_told_the_callers_core(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    monkeypatch.setattr(threads_module, "threads", lambda: 2)
    monkeypatch.setattr(threads_module, "_current_core", lambda: lambda: 77)
    monkeypatch.setattr(threads_module, "avoid_core", told.append)
    done: list[int] = []
    while not told:
        threads_module.run_each(done.append, 3)
    assert told[0] == 77


def test_where_no_system_says_which_core_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads_module.ctypes, "PyDLL", lambda name: object())
    assert threads_module._current_core.__wrapped__()() == -1
    monkeypatch.undo()
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    assert threads_module._current_core.__wrapped__()() == -1


@pytest.mark.parametrize("size", [1, 63, tiles.THREADS_FROM, (1 << 24) + 5, 1 << 26, 3 << 24, 1 << 34])
@pytest.mark.parametrize("sharers", [2, 3, 16])
def test_pieces_become_smaller(size: int, sharers: int) -> None:
    ends = np.array(tiles._ends(size, sharers))
    sizes = np.diff(ends)
    assert (ends[0], ends[-1]) == (0, size)
    assert (sizes > 0).all()
    assert (sizes[:-1] % 64 == 0).all()
    assert (np.diff(sizes) <= 0).all()
    assert (sizes[:-1] >= tiles.LEAST_PIECE).all()
    assert sizes[-1] <= tiles.LEAST_PIECE
    share = 2 * size / (3 * sharers)
    assert sizes[0] <= max(tiles.LEAST_PIECE, share + 64)
    if share > tiles.LEAST_PIECE:
        assert share <= sizes[0] < share + 64
    assert ends.dtype.kind == "i"


def all_pieces(size: int, read: bool, gaps: int) -> list[tuple[int, int, int, int, bool]]:
    """Return the calls of a loop that takes pieces itself: start, count, streamed, shared words, helper.

    All codes together are the whole tensor.
    """
    x = np.arange(size * gaps, dtype=np.uint32)[::gaps].view(np.int32)
    out, asked, given = np.zeros(size, np.float64), [], []

    def write(start: int, codes: np.ndarray, elements: np.ndarray, streamed: int, shared: int, helps: bool) -> None:
        assert codes.size == elements.size
        asked.append((start, codes.size, streamed, shared, helps))
        elements[:] = codes
        given.append(codes.size)
        while shared and (piece := taken(shared))[0] < piece[1]:
            finished(shared)

    taken, finished = (
        entry(f.py_func, (types.int64,)) for f in (threads_module.take_piece, threads_module.finish_piece)
    )
    tiles.for_all_pieces(write, out, x, (lambda start, stop: x[start:stop].copy()) if read else None)
    assert (out == x).all()
    return asked


def test_a_loop_is_given_what_one_thread_does_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "threads", lambda: 1)
    monkeypatch.setattr(threads_module, "threads", lambda: 1)
    small, large = tiles.THREADS_FROM // 8 - 1, tiles.THREADS_FROM // 8
    monkeypatch.setattr(
        tiles, "past_caches", lambda read, written: ALL if (read, written) == (4 * large, 8 * large) else 0
    )
    assert all_pieces(small, False, 1) == [(0, small, 0, 0, False)]
    assert all_pieces(large, False, 1) == [(0, large, ALL, 0, False)]
    monkeypatch.setattr(tiles, "LARGE_PIECE", 1 << 17)
    assert all_pieces(large, False, 1) == [(0, 1 << 17, ALL, 0, False), (1 << 17, large - (1 << 17), ALL, 0, False)]
    monkeypatch.setattr(tiles, "PIECE", 1 << 16)
    parts = [(start, min(tiles.PIECE, small - start), 0, 0, False) for start in range(0, small, tiles.PIECE)]
    assert all_pieces(small, True, 1) == parts
    assert {how for *_, how in all_pieces(small, False, 2)} == {False}


def test_a_loop_is_given_all_that_threads_share(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (tiles, threads_module):
        monkeypatch.setattr(module, "threads", lambda: 2)
    large, nobody = (
        tiles.THREADS_FROM // 8,
        SimpleNamespace(jobs=SimpleQueue(), bell=np.zeros(1, np.int64).ctypes.data, looks=0, count=1),
    )
    monkeypatch.setattr(threads_module, "_helpers", lambda count: nobody)
    monkeypatch.setattr(
        tiles, "past_caches", lambda read, written: WHOLE if (read, written) == (4 * large + 4, 8 * large + 8) else 0
    )
    for size, span, expected in (
        (large - 1, large, [(0, large - 1, 0)]), (large, large, [(0, large, 0)]),
        (large + 1, large, [(0, large, WHOLE), (large, 1, WHOLE)]),
    ):  # fmt: skip
        monkeypatch.setattr(tiles, "SHARED", span)
        asked = all_pieces(size, False, 1)
        assert [(start, count, streamed) for start, count, streamed, *_ in asked] == expected
        assert all(bool(shared) is (size >= large) and not helps for *_, shared, helps in asked)


@pytest.mark.parametrize(
    ("said", "size"),
    [("32768K\n", 32 << 20), ("480K", 480 << 10), ("32769K", None), ("260M", None), (OSError("no file"), None)],
)  # fmt: skip
def test_a_last_cache_that_is_large_is_shared_with_others(
    said: str | OSError, size: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(path: Path) -> str:
        assert path.name == "size"
        if isinstance(said, OSError):
            raise said
        return said

    monkeypatch.setattr(tiles.Path, "read_text", read)
    assert tiles.own_cache.__wrapped__() == size


@pytest.mark.parametrize(
    ("cache", "read", "most"),
    [(None, 0, (24 << 20) - 1), (None, 1 << 40, (24 << 20) - 1), (1000, 0, 1600), (1000, 300, 1000), (1000, 800, 0)],
)
def test_outputs_that_bypass_the_caches(
    cache: int | None, read: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``most`` is the size in bytes of the largest output that stays in the caches."""
    monkeypatch.setattr(tiles, "own_cache", lambda: cache)
    assert [tiles.leaves_caches(read, written) for written in (0, most, most + 1, 1 << 40)] == [
        False,
        False,
        True,
        True,
    ]


def test_cut_chunks_bypass_the_caches_in_outputs_twice_as_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "own_cache", lambda: None)
    room = 24 << 20
    sizes = (0, room - 1, room, 2 * room - 1, 2 * room, 1 << 40)
    assert [tiles.past_caches(0, written) for written in sizes] == [0, 0, WHOLE, WHOLE, ALL, ALL]
    monkeypatch.setattr(tiles, "own_cache", lambda: 1000)
    sizes = (1000, 1001, 2601, 2602)
    assert [tiles.past_caches(300, written) for written in sizes] == [0, WHOLE, WHOLE, ALL]


@pytest.mark.parametrize(("threads", "count"), [(1, 3), (4, 1), (4, 0)])
def test_the_caller_alone_needs_no_queue(threads: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads_module, "threads", lambda: threads)
    monkeypatch.delattr(threads_module, "_helpers")
    done: list[int] = []
    threads_module.run_each(done.append, count)
    assert done == list(range(count))
