"""The arguments and results of the compiled loops for TensorFlow's ranges."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import xverify

pytest.importorskip("numba")

import exact
from kernel_arrays import INSTALLED, SEED, drawn, same_bits
from watched_loops import calls_given, fit

from xverify.kernels.blocks import BLOCK, Spread
from xverify.kernels.casting import BFLOAT16, FLOAT32
from xverify.kernels.compiled import ranges
from xverify.kernels.compiled.layout import Layout, Rows, Runs
from xverify.kernels.compiled.ranges import Ranged
from xverify.kernels.compiled.threads import threads
from xverify.kernels.compiled.tiles import PIECE
from xverify.kernels.plans import Operand

ENDS = (
    (-1.1, 3.3), (-7.5, 2.25), (-2.0, 2.0), (-0.0, -0.0), (0.0, np.inf), (-np.inf, 1.0), (-np.inf, np.inf), (np.nan, 1.0),
    (-1.0, np.nan),
)  # fmt: skip
"""Ends that a range may have, and ends that it may not."""

FAR = 1 << 33
"""More elements than 32 bits count."""


@pytest.mark.parametrize("shape", [(1,), (7,), (1, 7), (7, 1), (3, 1, 5), (0, 3), (3, 0), (2, 0, 3)])
def test_extents_of_one_and_of_none(shape: tuple[int, ...]) -> None:
    for axis in range(len(shape)):
        low = np.linspace(-3, -1, shape[axis], dtype=np.float32)
        for x in (drawn("int8", shape), drawn("int32", shape)):
            both(x, low, low + np.float32(4.5), axis=axis)


def test_ranges_of_short_rows_are_laid_out_anew() -> None:
    low = np.array([-3, -0.5, -1], np.float32)
    for name in ("int8", "uint16"):
        both(drawn(name, (5000, 3)), low, low + np.float32(4.5), axis=1)


@pytest.mark.parametrize(("shape", "axis"), [((3, BLOCK + 5), 1), ((BLOCK + 5, 3), 0), ((2, BLOCK + 5, 3), 1)])
@pytest.mark.parametrize("mode", ["MIN_COMBINED", "MIN_FIRST", "SCALED"])
def test_of_a_long_axis_each_piece_is_given_its_own_ranges(mode: str, shape: tuple[int, ...], axis: int) -> None:
    low = np.linspace(-3, -1, shape[axis], dtype=np.float32)
    for name in ("uint8", "int32"):
        both(drawn(name, shape), low, low[::-1] + np.float32(4.5), mode=mode, axis=axis)


@pytest.mark.parametrize("axis", [None, 1])
def test_outputs_of_bfloat16(axis: int | None) -> None:
    """Each value is rounded once. One NaN would become -0 if it were rounded up."""
    for low, high in ((-1.1, 3.3), (-1e-39, 2e-39), (-3e38, 3e38), (-np.inf, 1.0), (-1.0, np.nan)):
        ends = np.array([low, high], np.float32)
        ends.view(np.uint32)[np.isnan(ends)] = 0x7FFFFFFF
        given = ends if axis is None else np.repeat(ends[:, None], 5, axis=1)
        for name in ("uint8", "int16"):
            both(drawn(name, (700, 5)), *given, axis=axis, out_dtype="bfloat16")


@pytest.mark.parametrize(
    ("contract", "mode"),
    [
        (INSTALLED, "MIN_COMBINED"),
        (INSTALLED, "MIN_FIRST"),
        (INSTALLED, "SCALED"),
        (SEED, "MIN_FIRST"),
        (SEED, "SCALED"),
    ],
)
def test_every_mode(contract: str, mode: str) -> None:
    for name in ("uint8", "int16", "int32"):
        for low, high in ENDS:
            ends, keywords = (np.float32(low), np.float32(high)), {"mode": mode, "contract": contract}
            both(drawn(name, (37,)), *ends, **keywords)
            if contract == INSTALLED:
                both(drawn(name, (5, 3)), *(np.full(3, end) for end in ends), axis=1, **keywords)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("mode", ["MIN_COMBINED", "MIN_FIRST"])
@pytest.mark.parametrize("name", ["int8", "uint8"])
def test_each_range_has_a_table_of_its_own(name: str, mode: str) -> None:
    """Ranges follow one another, so that a stale table shows. Infinite ranges give no warning."""
    x = drawn(name, (400,))
    keywords = {"mode": mode, "contract": INSTALLED}
    ends = [(np.float32(low), np.float32(high)) for low, high in ENDS]
    want = [xverify.dequantize_range(x, *given, backend="numpy", **keywords) for given in ends]
    got = [xverify.dequantize_range(x, *given, backend="numba", **keywords) for given in ends]
    for one, other in zip(want, got, strict=True):
        same_bits(one, other)


@pytest.mark.parametrize("name", ["int16", "int32"])
def test_values_near_zero_of_ranges_about_it(name: str) -> None:
    """The two terms cancel, which shows float64's error; the loop must mark these values as doubtful."""
    rng = np.random.default_rng(11)
    count = 1 << 12
    low, high = ((sign * (1 + rng.random(count))).astype(np.float32) for sign in (-1, 1))
    high = np.maximum(high, -low * np.float32(1.5))  # so that the code of zero fits into the type
    first, last = low.astype(float), high.astype(float)
    levels = (1 << 8 * np.dtype(name).itemsize) - 1
    x = (np.rint(-first / (last - first) * levels) + rng.integers(-40, 41, count)).astype(name)
    plain = (first + x * ((last - first) / levels)).astype(np.float32)
    want = [
        exact.min_combined(name, int(one), *ends)
        for one, *ends in zip(x, low.view(np.uint32).tolist(), high.view(np.uint32).tolist(), strict=True)
    ]
    got = xverify.dequantize_range(x, low, high, mode="MIN_COMBINED", contract=INSTALLED, axis=0, backend="numba")
    assert got.view(np.uint32).tolist() == want
    assert plain.view(np.uint32).tolist() != want


def test_values_that_float32_would_put_between_two_outputs() -> None:
    """In float32 they are midpoints of bfloat16, and the nearer of the two outputs is lost."""
    rng = np.random.default_rng(3)
    high = (1 + rng.random(1 << 22)).astype(np.float32)
    count = rng.integers(1, 1 << 16, 1 << 22)
    value = count * high.astype(float) / 65535
    single = value.astype(np.float32)
    places = np.flatnonzero((single.view(np.uint32) & 0xFFFF == 0x8000) & (single != value))
    x, high = count[places].astype(np.uint16), high[places]
    both(x, np.zeros_like(high), high, axis=0, out_dtype="bfloat16")
    want = xverify.dequantize_range(x, np.zeros_like(high), high, axis=0, out_dtype="bfloat16", backend="numpy")
    assert 0 < np.count_nonzero(want != single[places].astype(BFLOAT16)) < places.size


def test_no_more_memory_than_the_output_and_a_few_pieces() -> None:
    x = drawn("int16", (1 << 22,))
    out, ends = np.empty(x.shape, np.float32), (np.float32(-1), np.float32(2))
    keywords = {"mode": "MIN_COMBINED", "contract": INSTALLED, "out": out, "backend": "numba"}
    xverify.dequantize_range(x, *ends, **keywords)  # compiles
    tracemalloc.start()
    xverify.dequantize_range(x, *ends, **keywords)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * PIECE * (threads() + 1)


def both(x: np.ndarray, *ends: np.ndarray, **keywords: Any) -> None:
    keywords = {"contract": INSTALLED, **keywords}
    want = xverify.dequantize_range(x, *ends, backend="numpy", **keywords)
    # A new array could reuse memory in which NumPy has just computed the same values.
    got = xverify.dequantize_range(x, *ends, backend="numba", out=np.full_like(want, 77), **keywords)
    assert want.shape == x.shape
    same_bits(want, got)


@pytest.mark.parametrize(
    ("places", "runs", "row", "position"),
    [(Runs(FAR, FAR // 4, 0), (FAR, FAR // 4), None, 2 * FAR + FAR // 4 - 8), (Rows(12), None, 12, FAR + 7)],
)
def test_parts_of_tensors_of_more_than_2_to_the_31_elements(
    places: Layout, runs: tuple[int, int] | None, row: int | None, position: int
) -> None:
    found = Ranged(FLOAT32, np.dtype(np.int16), places, "SCALED")
    x, out, doubtful = np.arange(16, dtype=np.int16), np.zeros(16, np.float32), np.zeros(16, np.uint8)
    low, high = -np.linspace(2.5, 0.5, 12), np.linspace(1, 2, 12)
    mode = ranges._MODES[found.mode]
    found.compiled(x, out, doubtful, found.coding.fields, mode, found.constants, low, high, runs, row, position)
    line, run = runs or (12, 1)
    place = np.array([(position + i) % line // run for i in range(16)])
    assert len(set(place.tolist())) > 1
    want = np.zeros(16, np.float32)
    found.fill(want, x, low[place], high[place])
    assert not doubtful.any()
    assert out.tolist() == want.tolist()


def test_loops_are_given_what_they_are_compiled_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops do not check this: smaller elements would let them access memory behind the array."""
    calls = calls_given(ranges, monkeypatch)
    x, low = drawn("int16", (3, 4)), np.linspace(-3, -1, 4, dtype=np.float32)
    for spread, ends in ((Spread(1), low), (Spread(), np.float32(-1))):
        ends = np.asarray(ends)
        made = Ranged.of(FLOAT32, Operand(x.dtype, x.shape), Operand(ends.dtype, ends.shape), spread, "MIN_COMBINED")
        made(np.empty(x.shape, np.float32), x, ends, -ends)
    assert calls
    assert fit(calls)
    assert all(kind.ndim == 1 for call in calls for kind, given in call if isinstance(given, np.ndarray))
