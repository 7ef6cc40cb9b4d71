"""The in-house range kernel, bit for bit against exact fractions."""

from __future__ import annotations

from functools import partial

import exact
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_arrays import (
    INSTALLED,
    NUMPY,
    SEED,
    Array,
    coded,
    codes_of,
    dtype_of,
)

import xverify
from xverify.kernels import ranges
from xverify.kernels.blocks import Spread

RANGES = (
    (0xBFA66666, 0x402CCCCD),
    (0, 0x40C00000),
    (0xC3000000, 0x42FE0000),
    (0x00000001, 0x00000009),
    (0x80000000, 0x3F800000),
    (0xFF7FFFFF, 0x7F7FFFFF),
    (0xC0400000, 0xBF800000),
    (0x80800000, 0x00000001),
)
"""Ends as float32 codes: -1.3..2.7, 0..6, -128..127, subnormal, -0..1, all of float32, below 0, and tiny."""


def ends(low: int, high: int) -> tuple[Array, Array]:
    return coded("float32", low), coded("float32", high)


def range_inputs(name: str) -> Array:
    info = np.iinfo(name)
    if name in ("int8", "uint8"):
        return np.arange(info.min, info.max + 1).astype(name)
    edges = [info.min, info.min + 1, 0, 1, info.max // 2, info.max // 2 + 1, info.max - 1, info.max]
    return np.array(edges + np.random.default_rng(3).integers(info.min, info.max, 60).tolist()).astype(name)


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        (name, *ends)
        for number, ends in enumerate(RANGES)
        for name in (("int8", "uint16", "int32"), ("uint8", "int16", "int32"))[number % 2]
    ],
)
def test_ranges(name: str, low: int, high: int) -> None:
    x = range_inputs(name)
    codes = [int(c) for c in x.view(f"u{x.itemsize}")]
    for contract, mode, out, formula in (
        (SEED, "MIN_COMBINED", None, exact.min_combined),
        (INSTALLED, "MIN_COMBINED", "bfloat16", partial(exact.min_combined, out="bfloat16")),
        (SEED, "MIN_FIRST", None, exact.min_first),
        (SEED, "SCALED", None, exact.scaled_symmetric),
        (INSTALLED, "SCALED", None, exact.scaled_factor),
    ):
        want = [formula(name, code, low, high) for code in codes]
        got = NUMPY.dequantize_range(x, *ends(low, high), mode=mode, out_dtype=out, contract=contract)
        assert codes_of(got) == want, (contract, mode)
        many = np.tile(x, 300)
        got = NUMPY.dequantize_range(many, *ends(low, high), mode=mode, out_dtype=out, contract=contract)
        assert codes_of(got) == want * 300, (contract, mode)


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(["int8", "uint16", "int32"]),
    st.integers(0, 2**32 - 1),
    st.floats(-100, 100, width=32),
    st.floats(-100, 100, width=32),
    st.booleans(),
)
def test_drawn_ranges(name: str, code: int, a: float, b: float, narrow: bool) -> None:
    x = coded(name, [code % (1 << (8 * dtype_of(name).itemsize))])
    low, high = sorted((a, b))
    low, high = (low, high) if low < high else (low, np.nextafter(np.float32(high), np.float32(np.inf)))
    pair = np.array([low, high], np.float32)
    first, second = (int(c) for c in pair.view(np.uint32))
    raw = int(x.view(f"u{x.itemsize}")[0])
    got = NUMPY.dequantize_range(x, pair[0], pair[1])
    assert codes_of(got) == [exact.min_combined(name, raw, first, second)]
    got = NUMPY.dequantize_range(x, pair[0], pair[1], mode="SCALED", narrow_range=narrow)
    assert codes_of(got) == [exact.scaled_factor(name, raw, first, second, narrow)]


@pytest.mark.parametrize("mode", ["MIN_COMBINED", "MIN_FIRST", "SCALED"])
def test_ranges_along_an_axis(mode: str) -> None:
    x = np.random.default_rng(2).integers(-128, 128, (3, 4, 2)).astype(np.int8)
    for axis in (0, 1, 2, -2, -3):
        low = -np.arange(1, x.shape[axis] + 1, dtype=np.float32)
        high = np.float32(3) - low
        got = NUMPY.dequantize_range(x, low, high, mode=mode, axis=axis)
        for i in range(x.shape[axis]):
            one = NUMPY.dequantize_range(x.take(i, axis), low[i], high[i], mode=mode)
            assert got.take(i, axis).tobytes() == one.tobytes()
    scalar = NUMPY.dequantize_range(x, np.float32(-1), np.float32(1), mode=mode)
    assert NUMPY.dequantize_range(x, np.float32(-1), np.float32(1), mode=mode, axis=-1).tobytes() == scalar.tobytes()


@pytest.mark.parametrize("name", ["int8", "int16", "int32"])
@pytest.mark.parametrize("mode", ["MIN_COMBINED", "MIN_FIRST", "SCALED"])
@pytest.mark.parametrize("contract", [SEED, INSTALLED])
@pytest.mark.parametrize(
    ("low", "high"), [(1, -1), (0, 0), (-0.0, -0.0), (2, 2), (np.nan, 1), (-np.inf, np.inf), (0, np.inf)]
)
def test_ranges_outside_the_text_are_answered(contract: str, mode: str, name: str, low: float, high: float) -> None:
    x = np.arange(-100, 100, dtype=name)
    got = NUMPY.dequantize_range(x, np.float32(low), np.float32(high), mode=mode, contract=contract)
    assert got.shape == x.shape
    assert np.isfinite([low, high]).all() == np.isfinite(got).all()


@pytest.mark.parametrize("name", ["int8", "uint16", "int32"])
def test_an_infinite_range_spoils_its_own_channel_only(name: str) -> None:
    x = np.arange(8, dtype=name).reshape(2, 4)
    low, high = np.array([-1, -np.inf], np.float32), np.array([2, 1], np.float32)
    got = NUMPY.dequantize_range(x, low, high, axis=0)
    assert got[0].tobytes() == NUMPY.dequantize_range(x[0], low[0], high[0]).tobytes()
    assert not np.isfinite(got[1, 1:]).any()


@pytest.mark.parametrize("mode", ["MIN_COMBINED", "MIN_FIRST"])
def test_ranges_that_are_infinite_are_computed_in_float64(mode: str) -> None:
    x = np.arange(-2, 6, dtype=np.int16).reshape(4, 2)
    low, high = np.array([[-1, -np.inf, 0, 1]], np.float32).T, np.array([[2, 1, np.inf, 3]], np.float32).T
    with np.errstate(invalid="ignore"):
        first, last = low.astype(float), high.astype(float)
        step = (
            (x + 0.0) * (last - first) / 65535 if mode == "MIN_COMBINED" else (x + 32768.0) * ((last - first) / 65535)
        )
        want = (first + step).astype(np.float32)
    got = NUMPY.dequantize_range(x, low[:, 0], high[:, 0], mode=mode, axis=0)
    np.testing.assert_array_equal(got[1:3], want[1:3])


def test_values_that_float64_would_round_wrongly() -> None:
    """Near zero the two terms cancel, so float64's error decides."""
    rng = np.random.default_rng(5)
    low, high = (
        (sign * (1 + rng.random(1 << 22)) * np.exp2(rng.integers(-12, 3, 1 << 22))).astype(np.float32)
        for sign in (-1, 1)
    )
    first, last = low.astype(float), high.astype(float)
    code = np.rint(-first / (last - first) * 65535) + rng.integers(-9, 10, low.shape)
    plain = (first + code * (last - first) / 65535).astype(np.float32)
    careful = ((first * (65535 - code) + last * code) / 65535).astype(np.float32)
    for name in ("uint16", "int16"):
        places = np.flatnonzero((plain != careful) & (code >= 0) & (code <= np.iinfo(name).max))
        assert places.size > 10
        x, raw = code[places].astype(name), code[places].astype(int).tolist()
        ends = zip(low[places].view(np.uint32).tolist(), high[places].view(np.uint32).tolist(), strict=True)
        want = [exact.min_combined(name, one, *pair) for one, pair in zip(raw, ends, strict=True)]
        assert codes_of(NUMPY.dequantize_range(x, low[places], high[places], axis=0)) == want
        assert plain[places].view(np.uint32).tolist() != want


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (-1.0, 0.25), (-0.25, 1.0)])
def test_scaled_values_beside_ties(low: float, high: float) -> None:
    """The remainder of x * m / highest is about half of highest, so float64 rounds most to the wrong side."""
    highest, wrong = (1 << 31) - 1, 0
    for mantissa in np.random.default_rng(8).integers(1 << 23, 1 << 24, 40).tolist():
        for above in (0, 1):
            x = (highest // 2 + above) * pow(mantissa, -1, highest) % highest
            if x * mantissa // highest < 1 << 23:
                continue
            pair = np.array([low, high], np.float32) * np.float32(mantissa * 2.0**-23)
            wrong += int(np.float32(float(x) * (2.0 * mantissa) / (2 * highest))) != x * mantissa // highest + above
            for signed in (x, -x):
                want = [exact.scaled_symmetric("int32", signed % (1 << 32), *pair.view(np.uint32).tolist())]
                for backend in ("numpy", None):
                    keywords = {"mode": "SCALED", "contract": SEED, "backend": backend}
                    assert codes_of(xverify.dequantize_range(np.array([signed], np.int32), *pair, **keywords)) == want
    assert wrong > 10


def test_the_backend_that_is_named_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    def unexpected(*_: object, **__: object) -> None:
        raise AssertionError("NumPy was not asked for")

    monkeypatch.setattr(ranges, "apply", unexpected)
    x, ends = np.zeros((3, 1, 7), np.uint8), (np.float32(-1), np.float32(2))
    with pytest.raises(AssertionError, match="NumPy was not asked for"):
        xverify.dequantize_range(x, *ends, backend="numpy")
    pytest.importorskip("numba")
    assert (xverify.dequantize_range(x, *ends, backend="numba") == -1).all()


def test_the_end_whose_shape_is_wrong_is_named() -> None:
    one, two = np.ones(1, np.float32), np.ones(2, np.float32)
    for low, high, name in ((one, two, "min_range"), (two, one, "max_range")):
        with pytest.raises(ValueError, match=f"the shape of {name} is"):
            NUMPY.dequantize_range(np.zeros(2, np.int8), low, high, axis=0)


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_a_plan_says_how_ranges_spread(backend: str) -> None:
    """A caller with other arithmetic takes the placement from the plan."""
    if backend == "numba":
        pytest.importorskip("numba")
    for mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED"):
        for shape, axis in (((), None), ((4,), 1)):
            x, end = (np.dtype(np.int16), (3, 4)), (np.dtype(np.float32), shape)
            plan = ranges.range_plan(INSTALLED, *x, *end, *end, mode, None, axis, None, backend)
            assert plan.spread == Spread(axis)
