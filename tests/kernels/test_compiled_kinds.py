"""Each kind of compiled arithmetic on all codes, also for processors with fewer instructions.

As few loops as possible cover all kinds, so that a fault shows soon.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from kernel_arrays import (
    DIVIDE,
    MULTIPLY,
    SCALES,
    WIDTHS,
    Array,
    all_codes,
    both,
    coded,
    codes_of,
    drawn,
    dtype_of,
    expected,
    same_bits,
)

import xverify

pytest.importorskip("numba")

from xverify.kernels.compiled import lookup
from xverify.kernels.compiled.vectors import has
from xverify.oracles.arrays import pack

KINDS = (
    ("int8", "float32", "float32"),
    ("float8_e4m3fn", "float16", "float16"),
    ("float8_e5m2fnuz", "bfloat16", "bfloat16"),
    ("uint4", "float32", "float16"),
    ("int16", "float32", "float32"),
    ("int32", "float32", "bfloat16"),
    ("float4_e2m1fn", "float32", "float32"),
    ("float8_e5m2", "float32", "float16"),
    ("float8_e5m2fnuz", "float32", "bfloat16"),
    ("uint16", "float16", "float16"),
    ("int16", "bfloat16", "bfloat16"),
    ("int2", "bfloat16", "bfloat16"),
    ("uint8", "float16", "float16"),
    ("uint16", "float32", "bfloat16"),
    ("int32", "float32", "float32"),
    ("int32", "float16", "float16"),
)
"""Types of x, scale and output."""

TYPES_OF_A_BYTE = ("uint2", "int4", "uint8", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")

ONE = {"float32": 0x3F800000, "float16": 0x3C00, "bfloat16": 0x3F80}
"""The code of 1.0."""

_HASWELL = "+sse,+sse2,+sse3,+ssse3,+sse4.1,+sse4.2,+avx,+avx2,+fma,+bmi,+bmi2,+f16c,+popcnt,+lzcnt,+movbe"
LESSER = {
    "generic": "",
    "haswell": _HASWELL,
    "skylake-avx512": f"{_HASWELL},+avx512f,+avx512cd,+avx512bw,+avx512dq,+avx512vl",
}
"""LLVM's names of processors, and their features.

The first two have no AVX-512, and the first no float16 conversion either. The third has AVX-512,
but no byte tables, no bfloat16 and no conversion from float64 to float16.
"""


@pytest.fixture(scope="module", autouse=True)
def as_it_was_asked_for() -> None:
    """Check that a process takes its processor for the lesser one that the environment names."""
    asked = os.environ.get("NUMBA_CPU_NAME")
    if asked in LESSER:
        assert not any(map(has, ("avx512vbmi", "avx512bf16", "avx512fp16")))
        assert has("avx512f") == ("+avx512f" in LESSER[asked])
        assert has("f16c") == ("+f16c" in LESSER[asked])


def codes_of_kind(name: str) -> Array:
    return all_codes(name) if dtype_of(name).itemsize == 1 else drawn(name, (256,), 3)


def zero_points_of_kind(name: str, shape: tuple[int, ...], seed: int) -> Array | None:
    """Draw any zero points for integers. Return None for floats."""
    return drawn(name, shape, seed) if name.startswith(("int", "uint")) else None


def scales_of_kind(name: str, count: int) -> Array:
    """Mix special scales, any scales, and scales near 1 with many bits."""
    rng, bits = np.random.default_rng(5), 8 * dtype_of(name).itemsize
    special = (*SCALES[name], (1 << (bits - 1)) - 1)  # the last is a NaN that rounding up would make -0
    about_one = ONE[name] + rng.integers(0, ONE[name] >> 6, count)
    kinds = np.stack([rng.choice(special, count), rng.integers(0, 1 << bits, count), about_one])
    return coded(name, kinds[rng.integers(0, 3, count), np.arange(count)])


@pytest.mark.parametrize(("name", "scale_name", "out_dtype"), KINDS)
def test_every_element_has_a_scale_of_its_own(name: str, scale_name: str, out_dtype: str) -> None:
    codes = codes_of_kind(name)
    x = np.tile(codes, (30720 // codes.size, 1))
    scale = scales_of_kind(scale_name, x.size).reshape(x.shape)
    zero_point = zero_points_of_kind(name, x.shape, 7)
    both(x, scale, zero_point, axis=1, block_size=1, out_dtype=out_dtype)


@pytest.mark.parametrize(("name", "out_dtype"), [("uint16", "float16"), ("int16", "bfloat16")])
def test_long_codes_without_zero_points(name: str, out_dtype: str) -> None:
    """All codes, with scales of as many bits as the output has."""
    x = coded(name, np.arange(1 << 16))
    scale = scales_of_kind(out_dtype, x.size)
    both(x, scale, axis=0)


@pytest.mark.parametrize("name", ["int16", "uint16", "int32"])
def test_long_codes_with_one_scale(name: str) -> None:
    """Products at or near a midpoint of two results: often, seldom and never. Some may be subnormal."""
    out_dtype = "float32" if name == "int32" else "float16"
    drawn_ones = drawn(name, (1 << 16,), 6)
    x = coded(name, np.concatenate([np.arange(1 << 16), drawn_ones.view(f"u{drawn_ones.itemsize}")]))
    one, rng = ONE[out_dtype], np.random.default_rng(17)
    exponent, sign = one & -one, 1 << (8 * dtype_of(out_dtype).itemsize - 1)
    bits = [*(one + rng.integers(0, exponent, 12)), one, one + 1, one + exponent // 2, sign | one, 1, one >> 4]
    for number, scale in enumerate(coded(out_dtype, np.array(bits))):
        both(x, scale, zero_points_of_kind(name, (), number) if number % 2 else None)


@pytest.mark.parametrize("name", TYPES_OF_A_BYTE)
def test_codes_of_a_byte(name: str) -> None:
    """These types share a loop and differ only in its arguments."""
    for scale in (np.float32(0.1), np.float32(-3), np.float32(2.0**-140)):
        both(all_codes(name), scale)


@pytest.mark.parametrize("run", [16, 32, 48, 64, 192, 4096])
@pytest.mark.parametrize("name", ["uint8", *TYPES_OF_A_BYTE[3:], "float8_e4m3fn", "float4_e2m1fn"])
def test_codes_of_a_byte_in_runs(name: str, run: int) -> None:
    """Runs long enough for lookup, and an odd number of them, more than the loop starts together."""
    x = np.resize(all_codes(name).view(np.uint8), (3, 137 * run if run < 4096 else 2 * run)).view(dtype_of(name))
    for out_dtype in ("float16", "bfloat16"):
        scale = scales_of_kind(out_dtype, 3 * x.shape[1] // run).reshape(3, -1)
        both(x, scale, zero_points_of_kind(name, scale.shape, 5), axis=1, block_size=run)


@pytest.mark.parametrize(
    ("name", "out_dtype"),
    [("uint4", "float16"), ("int4", "bfloat16"), ("int2", "float16"), ("float4_e2m1fn", "bfloat16")],
)
def test_long_runs_of_few_codes(name: str, out_dtype: str) -> None:
    """Runs just long enough for lookup of results; unpacked with stray upper bits, and packed."""
    x = drawn(name, (2, lookup.LONG_RUN + 93), 4)
    scale, few = scales_of_kind(out_dtype, 2), (1 << WIDTHS[name]) - 1
    zero_point = zero_points_of_kind(name, (2,), 6)
    both(x, scale, zero_point, axis=0)
    codes = x.view(np.uint8)[0, :-1] & few
    zeros = None if zero_point is None else zero_point[0]
    for own in (scale[1], coded(out_dtype, ONE[out_dtype] + 5)):
        both(x[0], own, zeros)
        packed = xverify.dequantize_packed(
            pack(codes, WIDTHS[name]), own, zeros, dtype=name, shape=codes.shape, backend="numba"
        )
        same_bits(xverify.dequantize_linear(codes.view(x.dtype), own, zeros, backend="numpy"), packed)


@pytest.mark.parametrize("out_dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["uint4", "int4", "int2", "float4_e2m1fn"])
def test_short_runs_of_few_codes(name: str, out_dtype: str) -> None:
    """Stray bits lie above the codes."""
    x = drawn(name, (3, 137 * 32 + 16), 8)
    scale = scales_of_kind(out_dtype, 3 * 138).reshape(3, -1)
    both(x, scale, zero_points_of_kind(name, scale.shape, 9), axis=1, block_size=32)


@pytest.mark.parametrize("out_dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"])
def test_long_runs_of_float_codes(name: str, out_dtype: str) -> None:
    """Some, all or no results are subnormal or infinite.

    NaN results have the same bits as those of short runs, where a short run can tell which NaN is right.
    """
    one = ONE[out_dtype]
    fractions = one & -one
    about_all = np.arange(0, 1 << 15, fractions) + np.random.default_rng(13).integers(
        0, fractions, (1 << 15) // fractions
    )
    about_all[::4] |= 0x8000
    scale = np.concatenate([coded(out_dtype, about_all), scales_of_kind(out_dtype, 20)])
    x = np.resize(all_codes(name).view(np.uint8), (scale.size, lookup.LONG_RUN + 93)).view(dtype_of(name))
    both(x, scale, axis=0)
    long, short = (xverify.dequantize_linear(x[:, :end], scale, axis=0, backend="numba") for end in (None, 256))
    numbers = ~np.isnan(scale.astype(np.float32))
    assert long[numbers, :256].tobytes() == short[numbers].tobytes()
    x, scale = x[-20:], scale[-20:]
    zero_point = np.resize(all_codes(name).view(np.uint8)[1:], scale.size).view(x.dtype)
    both(x, scale, zero_point, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("out_dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"])
def test_long_runs_of_float_codes_with_every_scale(name: str, out_dtype: str) -> None:
    """Rows are long, so each call takes a part of the scales."""
    x = np.resize(all_codes(name).view(np.uint8), (1 << 10, lookup.LONG_RUN + 32)).view(dtype_of(name))
    for scales in np.arange(1 << 16).reshape(-1, len(x)):
        both(x, coded(out_dtype, scales), axis=0)


@pytest.mark.parametrize(
    ("name", "scale_name"), [(name, scale_name) for name, scale_name, out_dtype in KINDS if out_dtype == "bfloat16"]
)
def test_one_scale_of_which_products_may_be_subnormals(name: str, scale_name: str) -> None:
    """The bfloat16 instruction flushes float32 subnormals. The loop checks for them once a scale."""
    x, one = codes_of_kind(name), ONE[scale_name]
    exponent = one & -one  # in both types, the lowest bit of the exponent field
    for code in range(0, 30 * exponent, exponent):
        for fraction in (0, exponent - 1):
            scale = coded(scale_name, code + fraction)
            both(x, scale, zero_points_of_kind(name, (), 1), out_dtype="bfloat16")


@pytest.mark.parametrize(("out_dtype", "bits"), [("float32", 24), ("float16", 11), ("bfloat16", 8)])
def test_products_that_float64_would_round_to_a_midpoint(out_dtype: str, bits: int) -> None:
    """Products of 56 bits that are half a unit of the output's last bit, or a little more or less."""
    half = 1 << (55 - bits)
    odd = np.arange((1 << 23) + 1, 1 << 24, 2, np.uint64)
    inverse = odd.copy()
    for _ in range(5):  # each step doubles the correct bits, from 3 up to 64
        inverse *= np.uint64(2) - odd * inverse
    pairs = []
    for product in (half - 3, half - 1, half + 1, half + 3):
        difference = np.uint64(product) * inverse & np.uint64(2 * half - 1)
        chosen = (difference < 1 << 32) & (difference * odd >> np.uint64(55) == 1)
        pairs.append(np.stack([difference[chosen], odd[chosen]])[:, :100])
    differences, factors = np.concatenate(pairs, axis=1)
    x, scale = (differences.astype(np.int64) - 2**31).astype(np.int32), (factors * 2.0**-44).astype(np.float32)
    zero_point = np.full(x.size, -(2**31), np.int32)
    want = expected(x, scale, zero_point, out_dtype)
    twice = ((x - zero_point.astype(np.float64)) * scale).astype(dtype_of(out_dtype))
    assert (np.array(codes_of(twice)) != want).sum() > 3
    got = xverify.dequantize_linear(x, scale, zero_point, axis=0, out_dtype=out_dtype, backend="numba")
    assert codes_of(got) == want


@pytest.mark.parametrize(("out_dtype", "bits"), [("float16", 11), ("bfloat16", 8)])
def test_products_that_float32_would_round_to_a_midpoint(out_dtype: str, bits: int) -> None:
    """Products of 28 bits that are half a unit of the output's last bit, or a little more or less."""
    half = 1 << (27 - bits)
    pairs = [
        (digit, (1 << 23) + upper * 2 * half + product * pow(digit, -1, 2 * half) % (2 * half))
        for digit in (9, 11, 13, 15)
        for product in (half - 3, half - 1, half + 1, half + 3)
        for upper in range((1 << 22) // half)
    ]
    differences, factors = np.array([pair for pair in pairs if pair[0] * pair[1] >= 1 << 27]).T
    x, zero_point = coded("uint4", differences), coded("uint4", 0 * differences)
    scale = (factors * 2.0**-24).astype(np.float32)
    want = expected(x, scale, zero_point, out_dtype)
    twice = (differences.astype(np.float32) * scale).astype(dtype_of(out_dtype))
    assert (np.array(codes_of(twice)) != want).sum() > 3
    got = xverify.dequantize_linear(x, scale, zero_point, axis=0, out_dtype=out_dtype, backend="numba")
    assert codes_of(got) == want


def test_zero_points_of_another_type() -> None:
    """Small zero points, and ones where float64 would round a 55-bit product to a midpoint of float32."""
    src = np.tile(all_codes("uint8"), 4)
    odd = np.random.default_rng(13).integers(1 << 23, 1 << 24, src.size) | 1
    far = [((1 << 30) + 1) * pow(factor, -1, 1 << 31) % (1 << 31) for factor in odd.tolist()]
    zps = np.where(np.arange(src.size) < 100, np.arange(src.size), src.astype(np.int64) - far).astype(np.int32)
    scales = odd.astype(np.float32)
    want = expected(src, scales, zps, "float32")
    twice = ((src - zps.astype(np.float64)) * scales).astype(np.float32)
    assert (np.array(codes_of(twice)) != want).sum() > 30
    for some in (slice(None), slice(100)):
        operands = src[some], scales[some], zps[some]
        got = xverify.dynamic_dequantize(*operands, qtype="per_channel", axis=0, contract=MULTIPLY, backend="numba")
        assert codes_of(got) == want[some]


def test_division() -> None:
    src, rng = np.tile(all_codes("uint8"), 2), np.random.default_rng(9)
    for limit in (200, 1 << 31):
        scales, zps = (rng.random(src.size) + 0.1).astype(np.float32), rng.integers(-limit, limit, src.size)
        want, got = (
            xverify.dynamic_dequantize(
                src, scales, zps.astype(np.int32), qtype="per_channel", axis=0, contract=DIVIDE, backend=backend
            )
            for backend in ("numpy", "numba")
        )
        assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize(("name", "scale_name", "out_dtype"), KINDS)
def test_one_scale_for_all(name: str, scale_name: str, out_dtype: str) -> None:
    codes = codes_of_kind(name)
    x = np.concatenate([codes, codes[:7]])
    for number, scale in enumerate(scales_of_kind(scale_name, 40)):
        both(x, scale, zero_points_of_kind(name, (), number), out_dtype=out_dtype)


def run_for_processor(processor: str, tests: Sequence[str]) -> None:
    """Run tests in a process that compiles every loop again for that processor."""
    features = LESSER[processor]
    if "NUMBA_CPU_NAME" in os.environ or not all(has(feature[1:]) for feature in features.split(",") if feature):
        pytest.skip("this processor has not these instructions, or is already taken for another")
    if processor == "haswell" and not has("avx512f"):
        pytest.skip("this processor is like that one: all other tests compile the same instructions")
    environment = {**os.environ, "NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": features}
    command = [sys.executable, "-m", "pytest", "-n0", "-x", "-q", "-p", "no:cacheprovider", "--tb=short", *tests]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "skipped" not in done.stdout


def test_two_loops_for_a_processor_without_the_newest_instructions() -> None:
    names = ("products_that_float32_would_round_to_a_midpoint", "codes_of_a_byte")
    run_for_processor("haswell", [f"{__file__}::test_{name}" for name in names])


@pytest.mark.slow
@pytest.mark.parametrize("processor", LESSER)
def test_for_a_processor_with_fewer_instructions(processor: str) -> None:
    tests = [f"{Path(__file__).with_name('test_compiled_rows.py')}::test_rows_that_share_their_scales"]
    tests += [
        f"{__file__}::test_{name}"
        for name in (
            "every_element_has_a_scale_of_its_own", "products_that_float32_would_round_to_a_midpoint", "one_scale_for_all",
            "long_codes_with_one_scale", "codes_of_a_byte", "long_runs_of_few_codes", "short_runs_of_few_codes",
            "long_runs_of_float_codes", "division",
        )
    ]  # fmt: skip
    run_for_processor(processor, tests)
