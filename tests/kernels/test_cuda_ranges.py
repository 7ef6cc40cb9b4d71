"""TensorFlow's ranges on CUDA, against NumPy's bits and exact fractions.

With the fake CuPy, and on a card with the real one too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import exact
import numpy as np
import pytest
from cuda_arrays import guarded, launches_of, on_device, random, refused_alike
from cuda_on_cpu import FakeCuPy
from kernel_arrays import INSTALLED, SEED, Array, coded, codes_of, dtype_of

import xverify
from xverify.kernels.cuda import dequantize_linear, dequantize_range, ranges

INPUTS = ("int8", "uint8", "int16", "uint16", "int32")
WAYS = (
    (SEED, {"mode": "MIN_COMBINED"}), (INSTALLED, {"mode": "MIN_COMBINED", "out_dtype": "bfloat16"}),
    (SEED, {"mode": "MIN_FIRST"}), (SEED, {"mode": "SCALED"}), (INSTALLED, {"mode": "SCALED"}),
    (INSTALLED, {"mode": "SCALED", "narrow_range": True}),
)  # fmt: skip
ENDS = (
    (-1.1, 3.3), (-7.5, 2.25), (-2.0, 2.0), (0.0, 1.0), (-0.0, -0.0), (0.0, -0.0), (-1e-39, 2e-39), (-1e-45, 0.0),
    (-3.4e38, 3.4e38), (2.0, -1.0), (0.0, np.inf), (-np.inf, 1.0), (-np.inf, np.inf), (np.nan, 1.0), (-1.0, np.nan),
)  # fmt: skip
"""Ends that a range may have, and ends that it may not."""


def computed(x: Array, low: Any, high: Any, start: int = 0, **keywords: Any) -> Array:
    """Compute into memory ``start`` elements after a boundary. Check that the bytes around it stay."""
    with np.errstate(over="ignore"):
        ends = [on_device(np.array(end, np.float64).astype(np.float32)) for end in (low, high)]

    def compute(out: Any) -> None:
        dequantize_range(on_device(x, start), *ends, out=out, **keywords)

    return guarded(x.shape, dtype_of(keywords.get("out_dtype", "float32")), start, compute)


def check(x: Array, low: Any, high: Any, start: int = 0, **keywords: Any) -> None:
    """Assert that the kernel gives the bits of NumPy's."""
    with np.errstate(all="ignore"):
        want = xverify.dequantize_range(x, *np.array([low, high], np.float32), backend="numpy", **keywords)
    assert codes_of(computed(x, low, high, start, **keywords)) == codes_of(want)


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize(("contract", "keywords"), WAYS)
def test_every_mode(any_cupy: Any, name: str, contract: str, keywords: dict[str, Any]) -> None:
    x = random(name, (37,), 1) if dtype_of(name).itemsize > 1 else coded(name, np.arange(256))
    for low, high in ENDS:
        check(x, low, high, contract=contract, **keywords)
        if contract == INSTALLED:
            check(
                random(name, (5, 3), 2),
                [low, -1.5, high],
                [high, 0.25, 2 * high],
                axis=1,
                contract=contract,
                **keywords,
            )
    assert not any(launch.misaligned for launch in launches_of(any_cupy))


def test_shapes_and_starts(any_cupy: Any) -> None:
    cases: list[tuple[tuple[int, ...], int | None]] = [
        *(((size,), None) for size in (*range(10), 67, 300)), *(((size,), 0) for size in (1, 3, 17, 130)),
        *(((5, 7, inner), 1) for inner in (1, 2, 4, 8, 16)), ((6, 13), 1), ((13, 24), 0), ((2, 3, 64), 2), ((0, 3), 1),
        ((), None),
    ]  # fmt: skip
    for number, (shape, axis) in enumerate(cases):
        extent = () if axis is None else (shape[axis],)
        low = -1 - np.random.default_rng(number).random(extent).astype(np.float32)
        for name in ("uint8", "int16", "int32"):
            for out in ("float32", "bfloat16"):
                x, start = random(name, shape, number), (0, 1, 3, 8, 5)[number % 5]
                check(x, low, low + np.float32(2.9), start, axis=axis, out_dtype=out)
    assert not any(launch.misaligned for launch in launches_of(any_cupy))
    if isinstance(any_cupy, FakeCuPy):
        assert {launch.macros["SPREAD"] for launch in any_cupy.launches} == set("01234")


@pytest.mark.parametrize("name", ["uint8", "int16", "uint16"])
def test_values_that_float64_leaves_open(any_cupy: Any, name: str) -> None:
    """Beside a midpoint of float32 the kernel compares the exact sum, of which the value is a quotient."""
    rng, count = np.random.default_rng(11), 1 << 20
    low, high = ((sign * (1 + rng.random(count))).astype(np.float32) for sign in (-1, 1))
    low *= np.exp2(rng.integers(-20, 1, count)).astype(np.float32)
    bounds = np.iinfo(name)
    x, levels = rng.integers(bounds.min, bounds.max + 1, count).astype(name), int(bounds.max) - int(bounds.min)
    lengths = x.astype(float)
    value = (low.astype(float) * (levels - lengths) + high.astype(float) * lengths) / levels
    beside = (value.view(np.int64) & (1 << 29) - 1) - (1 << 28)
    places = np.flatnonzero(np.abs(beside) < 1 << 12)
    assert places.size > 10
    assert codes_of(computed(x[places], low[places], high[places], axis=0)) == combined(
        x[places], low[places], high[places]
    )


def test_int32_near_zero_of_ranges_about_it(any_cupy: Any) -> None:
    """The two terms cancel, so float64's error decides."""
    rng, count, levels = np.random.default_rng(11), 1 << 13, (1 << 32) - 1
    low, high = ((sign * (1 + rng.random(count))).astype(np.float32) for sign in (-1, 1))
    low *= np.exp2(rng.integers(-30, 0, count)).astype(np.float32)
    first, last = low.astype(float), high.astype(float)
    x = (np.rint(-first / (last - first) * levels) + rng.integers(-40, 41, count)).clip(0, 2**31 - 1).astype(np.int32)
    want = combined(x, low, high)
    assert codes_of(computed(x, low, high, axis=0)) == want
    plain = (first * (levels - x.astype(float)) + last * x) / levels
    assert codes_of(plain.astype(np.float32)) != want


def combined(x: Array, low: Array, high: Array, out: str = "float32") -> list[int]:
    """Compute MIN_COMBINED in exact fractions."""
    ends = zip(low.view(np.uint32).tolist(), high.view(np.uint32).tolist(), strict=True)
    codes = x.view(f"u{x.itemsize}").tolist()
    return [exact.min_combined(x.dtype.name, code, *pair, out=out) for code, pair in zip(codes, ends, strict=True)]


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (-1.0, 0.25), (-0.25, 1.0)])
def test_scaled_values_beside_ties(any_cupy: Any, low: float, high: float) -> None:
    """The remainder of x * m / highest is about half of highest, so float64 rounds most to the wrong side."""
    highest, codes, factors, want = (1 << 31) - 1, [], [], []
    for mantissa in np.random.default_rng(8).integers(1 << 23, 1 << 24, 40).tolist():
        for above in (0, 1):
            x = (highest // 2 + above) * pow(mantissa, -1, highest) % highest
            for signed in (x, -x) if x * mantissa // highest >= 1 << 23 else ():
                codes.append(signed)
                factors.append(mantissa * 2.0**-23)
    x, pairs = np.array(codes, np.int32), np.array([low, high], np.float32)[:, None] * np.array(factors, np.float32)
    for code, *pair in zip(codes, *pairs.view(np.uint32).tolist(), strict=True):
        want.append(exact.scaled_symmetric("int32", code % (1 << 32), *pair))
    got = np.array([computed(x[i : i + 1], *pairs[:, i], mode="SCALED", contract=SEED)[0] for i in range(x.size)])
    assert codes_of(got) == want
    plain = x * (2 * np.abs(pairs).max(axis=0).astype(float)) / (2 * highest)
    assert np.count_nonzero(plain.astype(np.float32) != got) > 10


THIRDS = {
    "uint8": (85, 170),
    "int8": (-43, 42),
    "uint16": (21845, 43690),
    "int16": (21845, None),
    "int32": (0x55555555, None),
}
"""The codes at one third of the range, and at two thirds if the type has that code."""


@pytest.mark.parametrize(("out", "bits"), [("float32", 24), ("bfloat16", 8)])
@pytest.mark.parametrize("name", INPUTS)
def test_exact_ties_go_to_the_even_one(any_cupy: Any, name: str, out: str, bits: int) -> None:
    """Values have one bit more than the output."""
    rng, count = np.random.default_rng(4), 50
    middle = (1 << bits) + 1 + 2 * rng.integers(0, 1 << bits - 2, count)
    third = 1 + 2 * rng.integers(1 << bits - 3, 1 << bits - 2, count)
    low, high = (middle - 2 * third).astype(np.float32), (middle + third).astype(np.float32)
    for code, ends in zip(THIRDS[name], ((-high, -low), (low, high)), strict=True):
        if code is not None:
            x = np.full(count, code, name)
            want = combined(x, *ends, out)
            assert codes_of(computed(x, *ends, axis=0, out_dtype=out)) == want
            assert (np.abs(np.abs(coded(out, want).astype(np.float64)) - middle) == 1).all()


@pytest.mark.parametrize("low", [-(2.0**127), -3.4028234663852886e38])
def test_values_that_round_to_infinity(any_cupy: Any, low: float) -> None:
    """Signed codes of the symmetric mode exceed the range. bfloat16's largest number is below float32's."""
    check(np.array([-128, -127, 127], np.int8), low, 3.4028234663852886e38, mode="SCALED", contract=SEED)
    check(np.array([-(2**31), -(2**31) + 1], np.int32), low, 3.4028234663852886e38, mode="SCALED", contract=SEED)
    for high in (3.3895313892515355e38, 3.39e38, 3.3961775292304957e38, 3.397e38, 3.4028234663852886e38):
        check(np.array([0, 254, 255], np.uint8), low, high, out_dtype="bfloat16")


def test_values_beside_the_middle_of_the_largest_number_and_infinity(any_cupy: Any) -> None:
    """Code 65534 of 65535: one 65535th of the value is the lower end, which varies in steps of 2^-49."""
    unit, middle, length = 2.0**104, (1 << 24) - (1 << 15), 65534
    low = np.float32((middle - 255 * length) * unit)
    lows = np.array([low, np.nextafter(low, np.float32(0)), np.nextafter(low, np.float32(np.inf))])
    highs, x = np.full(3, (middle + 255) * unit, np.float32), np.full(3, length, np.uint16)
    want = combined(x, lows, highs, "bfloat16")
    assert want == [0x7F80, 0x7F7F, 0x7F80]
    assert codes_of(computed(x, lows, highs, axis=0, out_dtype="bfloat16")) == want


@pytest.fixture
def _looked_up_early(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(ranges, "LOOK_UP_FROM", 300)
    ranges.range_plan.cache_clear()
    yield
    ranges.range_plan.cache_clear()


@pytest.mark.usefixtures("_looked_up_early")
def test_large_tensors_of_8_bits_are_looked_up(cupy: FakeCuPy) -> None:
    for contract, keywords in WAYS:
        for name in ("int8", "uint8"):
            for start in (0, 3):
                cupy.launches.clear()
                check(coded(name, np.arange(300) % 256), -1.1, 3.3, start, contract=contract, **keywords)
                assert [launch.macros["FORMULA"] for launch in cupy.launches][1:] == ["TABLE"]
                cupy.launches.clear()
                check(coded(name, np.arange(299) % 256), -1.1, 3.3, start, contract=contract, **keywords)
                assert len(cupy.launches) == 1
    cupy.launches.clear()
    check(random("int16", (301,), 1), -1.1, 3.3)
    check(random("int8", (301,), 1), np.full(301, -1.1), np.full(301, 3.3), axis=0)
    assert [launch.macros["FORMULA"] for launch in cupy.launches] == ["MIN_COMBINED"] * 2


def test_refusals_are_those_of_the_other_kernels(cupy: FakeCuPy) -> None:
    x, one = np.zeros((2, 3), np.uint8), np.ones((), np.float32)
    for operands, keywords in (
        ((x, one, np.ones(3, np.float32)), {}), ((x, one, one), {"axis": 0}), ((x, one, one), {"mode": "MAX"}),
        ((x.astype(np.float32), one, one), {}), ((x, one.astype(np.float16), one), {}), ((x, one, one), {"axis": 2}),
        ((x, one, one), {"mode": "SCALED", "out_dtype": "bfloat16"}), ((x, one, one), {"contract": SEED, "narrow_range": True}),
        ((x, one, one), {"contract": "ai.onnx/DequantizeLinear-25"}),
    ):  # fmt: skip
        refused_alike(xverify.dequantize_range, dequantize_range, operands, keywords)
    with pytest.raises(TypeError, match="min_range is ndarray, not on a CUDA device"):
        dequantize_range(on_device(x), one, one)
    with pytest.raises(ValueError, match="is the contract of another function"):
        dequantize_linear(on_device(x), on_device(one), contract=SEED)
    assert cupy.launches == []


def test_small_lower_ends_and_scales_of_zero_take_the_fast_path(cupy: FakeCuPy) -> None:
    """Elements of other small factors are written alone, and never past the caches."""
    x = random("int16", (40_000,), 1)
    check(x, -1e-35, 1.0, mode="MIN_COMBINED", out_dtype="bfloat16", contract=INSTALLED)
    zero = on_device(np.zeros((), np.uint16))
    dequantize_linear(on_device(x), zero, scale_dtype="bfloat16")
    assert [launch.streamed for launch in cupy.launches] == [40_000 // 8] * 2
