"""What the loops decide before they are compiled."""

from __future__ import annotations

import pytest

pytest.importorskip("numba")

from numba import types

from xverify.kernels.compiled import loops, tables
from xverify.kernels.compiled.linear import array_of

BYTES, FLOATS, HALVES = array_of(types.uint8), array_of(types.float32), array_of(types.uint16)
TUPLE = types.UniTuple(types.int64, 4)
ONE, MANY = array_of(types.float32, 0), array_of(types.float32)


def is_direct(out: types.Type, scale: types.Type, runs: types.Type, rows: types.Type, *given: object) -> bool:
    decides = loops._is_direct_version(BYTES, out, scale, runs, rows, types.int64)
    return bool(decides(None, None, None, *given))


def test_what_is_in_whole_chunks_is_stored_past_the_caches_at_once() -> None:
    for out in (FLOATS, HALVES):
        assert is_direct(out, types.none, types.none, types.none, None, None, 3) == tables.pays(types.uint8, out.dtype)
    assert is_direct(FLOATS, ONE, types.none, types.none, None, None, 3)


@pytest.mark.parametrize(
    ("line", "run", "start", "expected"),
    [(96, 32, 48, True), (96, 32, 40, False), (96, 24, 48, False), (72, 32, 48, False), (96, 32, 33, False), (97, 32, 48, False),
     (96, 33, 48, False), (96, 32, 0, True)],
)  # fmt: skip
def test_runs_and_rows_in_whole_chunks(line: int, run: int, start: int, expected: bool) -> None:
    """Of runs the line and the run count, of rows the row: what stands beside them does not."""
    assert is_direct(FLOATS, MANY, TUPLE, types.none, (5, line, run, 7), None, start) == expected
    if run == 32:
        assert is_direct(FLOATS, MANY, types.none, TUPLE, None, (5, line, 7, 9), start) == expected


def test_which_loop_is_compiled() -> None:
    given = BYTES, *(types.int64,) * 2, FLOATS, types.int64, TUPLE, types.float32
    for scale, runs, expected in (
        (types.none, types.none, loops._look_up), (ONE, types.none, loops._whole), (MANY, types.none, loops._by_rows),
        (MANY, TUPLE, loops._by_runs),
    ):  # fmt: skip
        rest = types.float64, types.none, runs, TUPLE, types.int64, types.boolean
        assert loops._version(*given, scale, *rest) is expected
