"""Checks of Python functions under test for faults of memory, repeatability and threads.

Each fault is written anew in these tests.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from python_calls import ONNX, a_call, notes_of, plain

import xverify
from xverify import contracts
from xverify.core.call import AT_RUN, LAYOUTS, Call, Outcome, Tensor, decode_outcome, encode_call, encode_outcome
from xverify.oracles import python_kernel, several_threads
from xverify.oracles.arrays import UnreadableResultError, numpy_dtype
from xverify.oracles.protocol import Loaded, at_run
from xverify.oracles.python_kernel import answerer, load
from xverify.strategies.walk import walk
from xverify.workers.child import run_call

# -- a sound kernel ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["", "threads"])
def test_a_sound_kernel_has_no_notes_and_its_own_bits(path: str) -> None:
    kernel = partial(xverify.dequantize_linear, backend="numpy")  # which compiles nothing
    answer = answerer(kernel)
    answered = 0
    for number, call in enumerate(walk(contracts.get(ONNX))):
        if number % (97 if path else 23) or call.values > 4096:
            continue
        arrays = {role: t.codes.view(numpy_dtype(t.dtype)) for role, t in call.tensors.items()}
        _, keywords = python_kernel.arguments(call, arrays)
        expected = kernel(**arrays, **keywords)
        outcome = answer(call, path)
        assert isinstance(outcome, Outcome)
        assert outcome.notes == ()
        assert outcome.tensor is not None
        assert outcome.tensor.dtype == expected.dtype.name
        assert outcome.tensor.codes.tobytes() == expected.tobytes()
        answered += 1
    assert answered > 30


def test_what_a_sound_kernel_may_give() -> None:
    """Results may be read-only, Fortran-ordered, broadcast, scalars, views, or slices of one buffer."""
    arena = np.zeros(1 << 16, np.float32)
    free = [0]

    def from_arena(x: Any, scale: Any, zero_point: Any) -> Any:
        start, free[0] = free[0], free[0] + x.size
        place = arena[start : free[0]].reshape(x.shape)
        place[...] = plain(x, scale, zero_point)
        return place

    def read_only(x: Any, scale: Any, zero_point: Any) -> Any:
        made = plain(x, scale, zero_point)
        made.flags.writeable = False
        return made

    x = [[1, 2, 3], [4, 5, 6]]
    for function in (
        from_arena,
        read_only,
        lambda *given: np.asfortranarray(plain(*given)),
        lambda *given: np.repeat(plain(*given), 2, axis=-1)[..., ::2],
        lambda *given: np.broadcast_to(plain(*given)[:1], (2, 3)),
    ):
        assert notes_of(function, a_call(x), a_call(x), a_call()) == [(), (), ()]
    assert notes_of(lambda *given: plain(*given)[()], a_call(3)) == [()]


def test_not_a_number_is_any_not_a_number() -> None:
    signs = iter((0x7FC00000, 0xFFC00001) * 20)

    def function(x: Any, scale: Any, zero_point: Any) -> Any:
        return np.array([next(signs), 0x3F800000], np.uint32).view(np.float32)

    assert notes_of(function) == [()]
    assert notes_of(function, path="threads") == [()]


# -- memory -----------------------------------------------------------------------------------------------


def test_inputs_written_to_or_given_back() -> None:
    def in_place(x: Any, scale: Any, zero_point: Any) -> Any:
        x -= zero_point
        return x.astype(np.float32) * scale

    for layout in LAYOUTS:
        if layout == "read-only":
            with pytest.raises(ValueError, match="read-only"):
                answerer(in_place)(a_call(layout=layout), "")
        else:
            assert notes_of(in_place, a_call([[3, 3], [3, 3]], layout=layout)) == [("input-written",)]
    assert notes_of(lambda x, scale, zero_point: x[1:]) == [("output-aliases-input",)]


def test_only_the_second_call_writes_to_its_inputs() -> None:
    turn = iter(range(9))

    def function(x: Any, scale: Any, zero_point: Any) -> Any:
        made = plain(x, scale, zero_point)
        if next(turn):
            scale[...] = 7
        return made

    assert notes_of(function) == [("input-written",)]


def test_one_buffer_for_all_results() -> None:
    buffer = np.zeros(100, np.float32)

    def function(x: Any, scale: Any, zero_point: Any) -> Any:
        return np.copyto(buffer[: x.size], plain(x, scale, zero_point)) or buffer[: x.size]

    assert notes_of(function) == [("outputs-share-memory",)]


@pytest.mark.parametrize(("buffers", "seen"), [(2, True), (4, True), (9, False)])
def test_buffers_by_turns(buffers: int, seen: bool) -> None:
    """The last four results are remembered."""
    ring = deque(np.zeros(100, np.float32) for _ in range(buffers))

    def function(x: Any, scale: Any, zero_point: Any) -> Any:
        ring.rotate()
        return np.copyto(ring[0][: x.size], plain(x, scale, zero_point)) or ring[0][: x.size]

    found = {note for notes in notes_of(function, a_call(), a_call([1, 2]), a_call()) for note in notes}
    assert found == ({"outputs-share-memory"} if seen else set())


def test_an_earlier_result_is_changed_once_told() -> None:
    """The function's third call writes to the result of its second. No memory is shared."""
    given: list[Any] = []

    def function(x: Any, scale: Any, zero_point: Any) -> Any:
        made = plain(x, scale, zero_point)
        if len(given) == 2:
            given[1] += 1
        given.append(made)
        return made

    assert notes_of(function, a_call(), a_call(), a_call()) == [(), ("earlier-result-changed",), ()]


def test_a_result_is_changed_by_the_very_next_call() -> None:
    last = [np.zeros(1, np.float32)]

    def function(x: Any, scale: Any, zero_point: Any) -> Any:
        last[0][:1] = 77
        last[0] = plain(x, scale, zero_point)
        return last[0]

    assert notes_of(function) == [("earlier-result-changed",)]


def test_a_kept_result_is_an_internal_buffer() -> None:
    """The receiver's data comes back. Afterwards the kernel's buffer is restored."""
    kept: dict[bytes, Any] = {}

    def function(x: Any, scale: Any, zero_point: Any) -> Any:
        key = x.tobytes() + scale.tobytes() + zero_point.tobytes()
        return kept.setdefault(key, plain(x, scale, zero_point))

    assert notes_of(function, a_call(), a_call([1, 2])) == [("internal-buffer",)] * 2
    assert kept.popitem()[1].tolist() == [0.0, 0.5]
    assert kept.popitem()[1].tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]


def test_a_view_of_a_table_is_an_internal_buffer() -> None:
    table = np.arange(-128, 128, dtype=np.float32)

    def function(x: Any, scale: Any, zero_point: Any) -> Any:
        return table[127:129] if x.tolist() == [-1, 0] else plain(x, scale, zero_point)

    call = a_call([-1, 0], 1.0, 0)
    assert notes_of(function, call, a_call()) == [("internal-buffer",), ()]
    assert table.tolist() == list(range(-128, 128))


# -- the same bits each time ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "differs", [lambda turn: turn % 2, lambda turn: turn == 0, lambda turn: turn], ids=["alternating", "first", "each"]
)
def test_another_result_the_second_time(differs: Callable[[int], float]) -> None:
    turns = iter(range(99))

    def function(x: Any, scale: Any, zero_point: Any) -> Any:
        return plain(x, scale, zero_point) + np.float32(differs(next(turns)))

    assert notes_of(function) == [("second-call-differs",)]
    assert notes_of(function, path="threads") == [("second-call-differs",) if differs(3) != differs(4) else ()]


def test_a_refusal_the_second_time() -> None:
    turns = iter(range(99))

    def function(x: Any, scale: Any, zero_point: Any) -> Any:
        if next(turns):
            raise ValueError("not again")
        return plain(x, scale, zero_point)

    assert notes_of(function) == [("second-call-differs",)]


def test_another_type_or_shape_the_second_time() -> None:
    for change in (lambda y: y.astype(np.float64), lambda y: y[None]):
        turns = iter(range(99))
        assert notes_of(
            lambda *given, turns=turns, change=change: change(plain(*given)) if next(turns) else plain(*given)
        ) == [("second-call-differs",)]


def shared_scratch() -> Any:
    scratch = np.zeros(64, np.float32)

    def function(x: Any, scale: Any, zero_point: Any) -> Any:
        part = scratch[: x.size]
        part[...] = x
        part -= zero_point
        part *= scale
        return part.copy()

    return function


def test_a_scratch_buffer_that_threads_share() -> None:
    """The remembered calls have other values; alone, each call writes the same bytes every time."""
    calls = [a_call([number] * 60) for number in (9, 4, 7)]
    assert notes_of(shared_scratch(), *calls) == [()] * 3
    found = notes_of(shared_scratch(), *calls * 3, path="threads")
    assert found.count(("threads-differ",)) > 2


def test_only_the_threads_of_the_path_are_paused() -> None:
    seen = []

    def function(*given: Any) -> Any:
        seen.append(sys.gettrace() is not None and threading.current_thread() is not threading.main_thread())
        return plain(*given)

    before = sys.gettrace()
    assert notes_of(function, path="threads") == [()]
    assert (seen.count(True), seen[0]) == (python_kernel.ROUNDS * several_threads.THREADS // 2, False)
    assert sys.gettrace() is before


def test_calls_that_disturb_only_each_other() -> None:
    """Equal calls leave equal state behind, so only another call in between causes a fault."""
    left = [0]

    def function(x: Any, scale: Any, zero_point: Any) -> Any:
        left[0] = zero_point
        for _ in range(60):
            pass
        return plain(x, scale, left[0])

    assert notes_of(function, a_call(), a_call(), path="threads") == [(), ()]
    calls = [a_call(zero_point=number) for number in range(8)]
    found = notes_of(function, *calls, path="threads")
    assert found[0] == ()
    assert ("threads-differ",) in found


def test_earlier_results_are_looked_at_on_every_path() -> None:
    given: list[Any] = []

    def function(x: Any, scale: Any, zero_point: Any) -> Any:
        given.append(plain(x, scale, zero_point))
        if len(given) == 3:
            given[0][0] = 5
        return given[-1]

    answer = answerer(function)
    outcomes = [answer(a_call(), path) for path in ("", "threads")]
    assert [outcome.notes for outcome in outcomes if isinstance(outcome, Outcome)] == [(), ("earlier-result-changed",)]


def test_an_exception_that_only_threads_meet() -> None:
    busy = threading.Lock()

    def function(x: Any, scale: Any, zero_point: Any) -> Any:
        if not busy.acquire(blocking=False):
            raise RuntimeError("busy")
        time.sleep(0.001)
        busy.release()
        return plain(x, scale, zero_point)

    assert notes_of(function) == [()]
    assert notes_of(function, path="threads") == [("threads-differ",)]


def test_a_slow_call_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_kernel, "ONCE_SECONDS", 0.01)
    made = []

    def function(*given: Any) -> Any:
        made.append(given)
        time.sleep(0.02)
        return plain(*given)

    assert notes_of(function) == notes_of(function, path="threads") == [()]
    assert len(made) == 2


# -- refusals and results of no use -----------------------------------------------------------------------


def test_a_refusal_is_what_the_function_raises() -> None:
    def function(*given: Any) -> Any:
        raise NotImplementedError("not yet")

    for path in ("", "threads"):
        with pytest.raises(NotImplementedError, match="not yet"):
            answerer(function)(a_call(), path)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (None, "the result is None; return a NumPy array, or a tensor in main memory"),
        ([1.0, 2.0], "the result is of type list; return a NumPy array"),
        (1.5, "the result is of type float; return"),
        (np.array([True]), "the result has the dtype bool; return an array of the output type"),
        (np.array(["a"]), "the result has the dtype <U1"),
        (np.array([None]), "the result has the dtype object"),
        (np.array([1.0], ">f4"), "the result has the dtype >f4; .* in the byte order of this machine"),
    ],
)
def test_a_result_that_is_no_array_of_a_known_type(result: Any, words: str) -> None:
    with pytest.raises(UnreadableResultError, match=words):
        answerer(lambda *operands: result)(a_call(), "")
    outcome = run_call(Loaded(answerer(lambda *operands: result)), encode_call(a_call()), "")
    assert (outcome.kind, outcome.refused) == ("unreadable", False)


def test_a_failure_after_a_model_was_accepted_is_marked_through_the_wire() -> None:
    def answer(call: Call, path: str) -> Tensor:
        with at_run():
            raise (ValueError if path else NotImplementedError)("x")

    asked = [run_call(Loaded(answer), encode_call(a_call()), path) for path in ("run", "")]
    passed = [decode_outcome(encode_outcome(outcome)) for outcome in asked]
    assert [(each.kind, each.stage) for each in passed] == [("rejected", AT_RUN), ("unsupported", "")]


def test_what_can_be_made_an_array_is_one() -> None:
    class Foreign:
        def __init__(self, array: Any) -> None:
            self.array = array

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return self.array

    assert notes_of(lambda *given: Foreign(plain(*given))) == [()]
    assert notes_of(lambda x, scale, zero_point: Foreign(x)) == [("output-aliases-input",)]


@pytest.mark.parametrize(("path", "turn"), [("", 0), ("", 1), ("threads", 0), ("threads", 1), ("threads", 5)])
def test_no_memory_ends_the_process(path: str, turn: int, tmp_path: Path) -> None:
    """MemoryError ends the process in any of the calls. Another test covers the parent's message."""
    turns = iter(range(99))

    def function(*given: Any) -> Any:
        if next(turns) == turn:
            raise MemoryError("16 EiB")
        return plain(*given)

    with pytest.raises(MemoryError, match="16 EiB"):
        answerer(function)(a_call(), path)
    (tmp_path / "kernels.py").write_text("def dequantize(*given, **more): pass\n")
    assert load(str(tmp_path / "kernels.py") + ":dequantize").fatal == (MemoryError,)


def test_warnings_and_floating_point_errors_are_not_told(tmp_path: Path) -> None:
    def function(x: Any, scale: Any, zero_point: Any) -> Any:
        return np.float32(1) / np.zeros(x.shape, np.float32)

    with np.errstate(all="raise"):
        assert notes_of(function) == notes_of(function, path="threads") == [()]
    (tmp_path / "noisy.py").write_text("import warnings\nwarnings.warn('noise')\n")
    source = (
        "import sys, warnings; from xverify.oracles.python_kernel import load; load(sys.argv[1]); warnings.warn('loud')"
    )
    target = f"{tmp_path / 'noisy.py'}:warnings.warn"
    done = subprocess.run([sys.executable, "-c", source, target], capture_output=True, text=True, check=True)
    assert done.stderr == ""
