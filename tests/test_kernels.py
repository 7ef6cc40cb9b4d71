"""The in-house kernels, bit for bit against rational arithmetic, and each of their refusals."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import exact
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xverify
from xverify.contracts import get
from xverify.kernels import casting
from xverify.kernels.blocks import BLOCK, blocks

Array = np.ndarray[Any, Any]

INTEGERS = ("int2", "uint2", "int4", "uint4", "int8", "uint8")
SMALL_FLOATS = ("float4_e2m1fn", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
WIDTHS = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4_e2m1fn": 4}
SCALES = {
    "float32": (0x3DCCCCCD, 0xBF99999A, 1, 0x80000003, 0x7F7FFFFF, 0x00800001, 0, 0x80000000, 0x7F800000, 0x7FC00000),
    "float16": (0x2E66, 0xBCCD, 0x0001, 0x8003, 0x7BFF, 0x0401, 0, 0x8000, 0x7C00, 0x7E00),
    "bfloat16": (0x3DCD, 0xBF9A, 0x0001, 0x8003, 0x7F7F, 0x0081, 0, 0x8000, 0x7F80, 0x7FC0),
    "float8_e8m0fnu": (0, 1, 126, 127, 130, 254, 255),
}
"""Ordinary, negative, subnormal, huge, zero, infinite, NaN, in each type's codes."""

NEWEST = "ai.onnx/DequantizeLinear-25"
MULTIPLY, DIVIDE = "onednn/DynamicDequantize-1@multiply", "onednn/DynamicDequantize-1@divide"
SEED, INSTALLED = "tensorflow/Dequantize@seed", "tensorflow/Dequantize@installed"


def dtype_of(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name))


def coded(name: str, codes: Any) -> Array:
    """The array of a dtype with these codes."""
    dtype = dtype_of(name)
    return np.asarray(np.asarray(codes).astype(f"u{dtype.itemsize}")).view(dtype)


def codes_of(array: Array) -> list[int]:
    """The codes of float results in C order, with every NaN made the exact oracle's."""
    name = array.dtype.name
    canonical = np.where(np.isnan(array.astype(np.float64)), coded(name, exact.NAN[name]), array)
    return [int(code) for code in canonical.astype(array.dtype).view(f"u{array.itemsize}").ravel()]


def all_codes(name: str) -> Array:
    return coded(name, np.arange(1 << WIDTHS.get(name, 8)))


def expected(x: Array, scale: Array, zero_point: Array | None, out: str, by_division: bool = False) -> list[int]:
    """The exact oracle's codes; scale and zero point are broadcast to x."""

    def listed(array: Array) -> list[int]:
        return [int(code) for code in np.broadcast_to(array.view(f"u{array.itemsize}"), x.shape).ravel()]

    offsets: list[Any] = [None] * x.size if zero_point is None else listed(zero_point)
    z_name = "" if zero_point is None else zero_point.dtype.name
    return [
        exact.linear(x.dtype.name, a, scale.dtype.name, s, z_name, z, out, by_division)
        for a, s, z in zip(listed(x), listed(scale), offsets, strict=True)
    ]


def some_zero_points(name: str) -> tuple[int | None, ...]:
    top = (1 << WIDTHS.get(name, 8)) - 1
    return (None, 0, 1, top, top // 2, top // 2 + 1)


@pytest.mark.parametrize("name", [*INTEGERS, *SMALL_FLOATS])
@pytest.mark.parametrize("scale_name", SCALES)
def test_every_code_of_the_small_types(name: str, scale_name: str) -> None:
    """Directly and by the lookup table: the table serves tensors of more than 256 elements."""
    x = all_codes(name)
    for number, scale_code in enumerate(SCALES[scale_name]):
        zero_points = some_zero_points(name)
        code = zero_points[number % len(zero_points)]
        outs = ("float32", "float16", "bfloat16")
        out = outs[number % 3] if scale_name == "float8_e8m0fnu" else (scale_name, *outs)[number % 4]
        scale, zero_point = coded(scale_name, scale_code), None if code is None else coded(name, code)
        want = expected(x, scale, zero_point, out)
        got = xverify.dequantize_linear(x, scale, zero_point, out_dtype=out)
        assert got.dtype == dtype_of(out)
        assert codes_of(got) == want
        repeated = np.tile(x.view(np.uint8), 300).view(x.dtype)
        assert codes_of(xverify.dequantize_linear(repeated, scale, zero_point, out_dtype=out)) == want * 300


@pytest.mark.parametrize("name", ["float8_e5m2", "float8_e5m2fnuz", "float8_e4m3fn"])
def test_every_pair_of_float8_codes(name: str) -> None:
    """A difference of float8_e5m2 has 33 bits and the product 57: more than float64 holds."""
    x = np.tile(np.arange(256, dtype=np.uint8), (8, 1))
    for first in range(0, 256, 64):
        zero_point = coded(name, np.arange(first, first + 64, 8))
        scale = coded("float32", np.linspace(0x3F800001, 0x3FFFFFFF, 8).astype(np.uint32))
        got = xverify.dequantize_linear(x.view(dtype_of(name)), scale, zero_point, axis=0)
        want = expected(x.view(dtype_of(name)), scale[:, None], zero_point[:, None], "float32")
        assert codes_of(got) == want


float32_codes = st.one_of(
    st.integers(0, 0xFFFFFFFF), st.integers(0x3F000000, 0x40FFFFFF), st.sampled_from(SCALES["float32"])
)
wide_integers = st.one_of(st.integers(-(2**31), 2**31 - 1), st.sampled_from([-(2**31), 2**31 - 1, 0, 2**24 + 1]))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(wide_integers, min_size=1, max_size=30),
    wide_integers,
    float32_codes,
    st.sampled_from(["float32", "float16", "bfloat16"]),
)
def test_int32_is_exact_where_float64_is_not(xs: list[int], zero: int, scale: int, out: str) -> None:
    x, zero_point = np.array(xs, np.int32), np.array(zero, np.int32)
    for offset in (None, zero_point):
        got = xverify.dequantize_linear(x, coded("float32", scale), offset, out_dtype=out)
        assert codes_of(got) == expected(x, coded("float32", scale), offset, out)


def test_figures_that_went_wrong_elsewhere() -> None:
    """FACTS: 57-bit products, and float16 of a product that stopped in float32."""
    got = xverify.dequantize_linear(np.int32(1347502757), np.float32(16045357))
    assert codes_of(got) == [exact.round_to("float32", Fraction(1347502757 * 16045357))]
    scale = np.float32(float.fromhex("0x1.ebc2p-21"))
    assert float(xverify.dequantize_linear(np.int32(1829207725), scale, out_dtype="float16")) == 1675.0
    got = casting.cast(np.array([1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8, 2.0**-134, 2.0**-134 * 1.01]), casting.BFLOAT16)
    assert got.view(np.uint16).tolist() == [0x3F81, 0x3F80, 0, 1]


@settings(max_examples=300, deadline=None)
@given(st.integers(-32768, 65535), st.integers(-32768, 65535), float32_codes, st.sampled_from(["float16", "bfloat16"]))
def test_16_bit_integers(a: int, b: int, scale: int, out: str) -> None:
    name = "int16" if min(a, b) < 0 else "uint16"
    x, zero_point = np.array([a, b, 0], np.int64).astype(name), np.array(b, np.int64).astype(name)
    for out_name in ("float32", out):
        got = xverify.dequantize_linear(x, coded("float32", scale), zero_point, out_dtype=out_name)
        assert codes_of(got) == expected(x, coded("float32", scale), zero_point, out_name)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.integers(0, 255), min_size=1, max_size=20),
    st.sampled_from(["int8", "uint8"]),
    st.sampled_from(["int8", "uint8", "int32", ""]),
    wide_integers,
    float32_codes,
    st.booleans(),
)
def test_onednn(xs: list[int], name: str, z_name: str, zero: int, scale: int, by_division: bool) -> None:
    src, scales = coded(name, xs), coded("float32", [scale])
    zps = np.array([zero]).astype(z_name) if z_name else None
    got = xverify.dynamic_dequantize(src, scales, zps, contract=DIVIDE if by_division else MULTIPLY)
    assert got.dtype == np.float32
    assert codes_of(got) == expected(src, scales, zps, "float32", by_division)


def test_quotients_near_ties() -> None:
    """Quotients by odd divisors of differences of 33 bits, among which float64's own rounding would decide wrongly."""
    generator = np.random.default_rng(5)
    src = generator.integers(0, 256, (1, 400), np.uint8)
    zps = generator.integers(-(2**31), 2**31, 400).astype(np.int32)
    scales = coded("float32", generator.integers(0x3F800000, 0x40000000, 400))
    got = xverify.dynamic_dequantize(src, scales, zps, qtype="per_channel", contract=DIVIDE)
    assert codes_of(got) == expected(src, scales, zps, "float32", True)
    # D / s with D = (2^24 + 1) * q: the quotient needs 25 bits and is a tie in float32.
    tie = xverify.dynamic_dequantize(
        np.zeros(1, np.uint8), np.array([2], np.float32), np.array([-(2**25 + 2)], np.int32), contract=DIVIDE
    )
    assert codes_of(tie) == [exact.round_to("float32", Fraction(2**24 + 1))]


def layouts(array: Array) -> Iterator[Array]:
    yield array
    yield np.asfortranarray(array.view(f"u{array.itemsize}")).view(array.dtype) if array.ndim else array
    if array.ndim:
        wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1] + 1), array.dtype)
        wide[..., 1::2] = array
        yield wide[..., 1::2]
        yield np.ascontiguousarray(array[..., ::-1])[..., ::-1]
    fixed = array.copy()
    fixed.flags.writeable = False
    yield fixed


SHAPES = [
    (),
    (1,),
    (7,),
    (0,),
    (3, 0, 2),
    (2, 3),
    (5, 1, 3),
    (2, 3, 2, 3),
    (1, 2, 1, 3, 2),
    (2, 1, 2, 3, 1, 2),
    (2, 1, 2, 1, 3, 1, 2),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ["int8", "int4", "float8_e5m2", "int32"])
def test_shapes_axes_and_layouts(shape: tuple[int, ...], name: str) -> None:
    generator = np.random.default_rng(len(shape))
    itemsize = dtype_of(name).itemsize
    size = int(np.prod(shape))

    def draw(extents: tuple[int, ...]) -> Array:
        raw = generator.integers(0, 1 << (8 * itemsize - 1), extents, np.int64)
        return coded(name, raw & 15 if name == "int4" else raw)

    x = draw(shape)
    for axis in range(-len(shape), len(shape)):
        place = axis % len(shape)
        for block_size in (0, 1, 2, 5):
            if block_size == 0:
                extents: tuple[int, ...] = (shape[axis],)
                across = tuple(shape[axis] if i == place else 1 for i in range(len(shape)))
            else:
                extents = (*shape[:place], -(-shape[place] // block_size), *shape[place + 1 :])
                across = ()
            scale = (generator.random(extents) * 3 - 1).astype(np.float32)
            zero_point = draw(extents)

            def wide(
                parameter: Array, across: tuple[int, ...] = across, run: int = block_size, at: int = place
            ) -> Array:
                return parameter.reshape(across) if across else parameter.repeat(run, at).take(range(shape[at]), at)

            want = expected(x, wide(scale), wide(zero_point), "float32") if size else []
            for given_x in layouts(x):
                got = xverify.dequantize_linear(given_x, scale, zero_point, axis=axis, block_size=block_size)
                assert got.shape == shape
                assert codes_of(got) == want
    scale, zero_point = np.array(0.3, np.float32), draw(())
    for given_x in layouts(x):
        for axis in (0, 1, -9, 9):
            got = xverify.dequantize_linear(given_x, scale, zero_point, axis=axis)
            assert codes_of(got) == expected(x, scale, zero_point, "float32")


@pytest.mark.parametrize("shape", [(3, BLOCK + 5), (BLOCK + 5, 3), (2, 3, 40_000), (5, BLOCK), (300, 500, 1)], ids=str)
@pytest.mark.parametrize("block_size", [0, 1, 7, 1000, BLOCK + 9])
def test_seams_between_blocks(shape: tuple[int, ...], block_size: int) -> None:
    generator = np.random.default_rng(1)
    x = generator.integers(0, 256, shape, np.uint8)
    for axis in range(len(shape)):
        run = block_size or 1
        extents = list(shape) if block_size else [1] * len(shape)
        extents[axis] = -(-shape[axis] // run)
        scale, zero_point = generator.random(extents, np.float32), generator.integers(0, 256, extents, np.uint8)
        index = np.arange(shape[axis]) // run
        # 8-bit integers with float32: NumPy's own float32 product is exact before its one rounding.
        want = (x.astype(np.float32) - zero_point.take(index, axis)) * scale.take(index, axis)
        if not block_size:
            scale, zero_point = scale.reshape(-1), zero_point.reshape(-1)
        got = xverify.dequantize_linear(x, scale, zero_point, axis=axis, block_size=block_size)
        assert got.tobytes() == want.astype(np.float32).tobytes()


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.integers(1, 50))
@settings(max_examples=200, deadline=None)
def test_blocks_cover_each_element_once(shape: list[int], limit: int) -> None:
    seen = np.zeros(shape, int)
    for index in blocks(tuple(shape), limit):
        assert 0 < seen[index].size <= limit
        seen[index] += 1
    assert (seen == 1).all()


@pytest.mark.parametrize("size", [5, 1000, BLOCK + 3])
@pytest.mark.parametrize("name", ["uint8", "int4", "int32"])
def test_out_is_written_and_returned(size: int, name: str) -> None:
    x = coded(name, np.arange(size) % 16)
    scale = np.float32(0.1)
    want = codes_of(xverify.dequantize_linear(x, scale, out_dtype="float16"))
    for stride in (1, 3, -2):
        memory = np.full(abs(stride) * size, 7, np.float16)
        out = memory[::stride]
        untouched = np.ones(memory.shape, bool)
        untouched[::stride] = False
        before = x.tobytes()
        assert xverify.dequantize_linear(x, scale, out_dtype="float16", out=out) is out
        assert codes_of(out) == want
        assert (memory[untouched] == 7).all()
        assert x.tobytes() == before
    memory32 = np.zeros(size, np.float32)
    assert xverify.dynamic_dequantize(np.zeros(size, np.int8), np.array([1], np.float32), out=memory32) is memory32
    assert xverify.dequantize_range(np.zeros(size, np.int8), scale, scale + 1, out=memory32, contract=SEED) is memory32


def test_out_is_checked() -> None:
    x, scale = np.zeros(4, np.uint8), np.float32(1)
    memory = np.zeros(8, np.float32)
    fixed = np.zeros(4, np.float32)
    fixed.flags.writeable = False
    for out, kind in (
        (np.zeros(4, np.float64), TypeError),
        (np.zeros(4, ">f4"), TypeError),
        ([0.0] * 4, TypeError),
        (np.zeros(5, np.float32), ValueError),
        (fixed, ValueError),
    ):
        with pytest.raises(kind, match="out"):
            xverify.dequantize_linear(x, scale, out=out)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="overlaps an input"):
        xverify.dequantize_linear(memory.view(np.uint8)[:4], scale, out=memory[:4])
    with pytest.raises(ValueError, match="overlaps an input"):
        xverify.dequantize_linear(x, memory[0:1].reshape(()), out=memory[:4])


def test_bytes_of_4_and_2_bit_types_with_any_high_bits() -> None:
    for name in ("int4", "uint4", "int2", "uint2"):
        bits = WIDTHS[name]
        x = np.arange(256, dtype=np.uint8).view(dtype_of(name))
        want = [float(exact.decode(name, code % (1 << bits))) for code in range(256)]
        assert xverify.dequantize_linear(x, np.float32(1)).tolist() == want
        assert xverify.dequantize_linear(np.concatenate([x, x]), np.float32(1)).tolist() == want * 2


def test_foreign_byte_order() -> None:
    x, scale = np.arange(-5, 5, dtype=">i4"), np.array(0.1, ">f4")
    want = xverify.dequantize_linear(x.astype(np.int32), scale.astype(np.float32))
    got = xverify.dequantize_linear(x, scale, np.array(0, ">i4"))
    assert got.dtype.isnative
    assert got.tobytes() == want.tobytes()


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


@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16", "int32"])
@pytest.mark.parametrize(("low", "high"), RANGES)
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
        got = xverify.dequantize_range(x, *ends(low, high), mode=mode, out_dtype=out, contract=contract)
        assert codes_of(got) == want, (contract, mode)
        many = np.tile(x, 300)
        got = xverify.dequantize_range(many, *ends(low, high), mode=mode, out_dtype=out, contract=contract)
        assert codes_of(got) == want * 300, (contract, mode)


@settings(max_examples=200, deadline=None)
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
    got = xverify.dequantize_range(x, pair[0], pair[1])
    assert codes_of(got) == [exact.min_combined(name, raw, first, second)]
    got = xverify.dequantize_range(x, pair[0], pair[1], mode="SCALED", narrow_range=narrow)
    assert codes_of(got) == [exact.scaled_factor(name, raw, first, second, narrow)]


@pytest.mark.parametrize("mode", ["MIN_COMBINED", "MIN_FIRST", "SCALED"])
def test_ranges_along_an_axis(mode: str) -> None:
    x = np.random.default_rng(2).integers(-128, 128, (3, 4, 2)).astype(np.int8)
    for axis in (0, 1, 2, -2, -3):
        low = -np.arange(1, x.shape[axis] + 1, dtype=np.float32)
        high = np.float32(3) - low
        got = xverify.dequantize_range(x, low, high, mode=mode, axis=axis)
        for i in range(x.shape[axis]):
            one = xverify.dequantize_range(x.take(i, axis), low[i], high[i], mode=mode)
            assert got.take(i, axis).tobytes() == one.tobytes()
    scalar = xverify.dequantize_range(x, np.float32(-1), np.float32(1), mode=mode)
    assert xverify.dequantize_range(x, np.float32(-1), np.float32(1), mode=mode, axis=-1).tobytes() == scalar.tobytes()


@pytest.mark.parametrize("name", ["int8", "int16", "int32"])
@pytest.mark.parametrize("mode", ["MIN_COMBINED", "MIN_FIRST", "SCALED"])
@pytest.mark.parametrize("contract", [SEED, INSTALLED])
@pytest.mark.parametrize(
    ("low", "high"), [(1, -1), (0, 0), (-0.0, -0.0), (2, 2), (np.nan, 1), (-np.inf, np.inf), (0, np.inf)]
)
def test_ranges_outside_the_text_are_answered(contract: str, mode: str, name: str, low: float, high: float) -> None:
    x = np.arange(-100, 100, dtype=name)
    got = xverify.dequantize_range(x, np.float32(low), np.float32(high), mode=mode, contract=contract)
    assert got.shape == x.shape
    assert np.isfinite([low, high]).all() == np.isfinite(got).all()


@pytest.mark.parametrize("name", ["int8", "uint16", "int32"])
def test_an_infinite_range_spoils_its_own_channel_only(name: str) -> None:
    x = np.arange(8, dtype=name).reshape(2, 4)
    low, high = np.array([-1, -np.inf], np.float32), np.array([2, 1], np.float32)
    got = xverify.dequantize_range(x, low, high, axis=0)
    assert got[0].tobytes() == xverify.dequantize_range(x[0], low[0], high[0]).tobytes()
    assert not np.isfinite(got[1, 1:]).any()


u8, f32 = np.zeros((2, 3), np.uint8), np.float32(1)
f32x3, u8x3 = np.ones(3, np.float32), np.zeros(3, np.uint8)
blocked = np.ones((2, 2), np.float32)

LINEAR_REFUSALS: list[tuple[str, str, type[Exception], tuple[Any, ...], dict[str, Any]]] = [
    ("x-type", NEWEST, TypeError, (u8.astype(np.int64), f32), {}),
    ("x-type", "ai.onnx/DequantizeLinear-13", TypeError, (u8.astype(np.int16), f32), {}),
    ("x-type", "ai.onnx/DequantizeLinear-24", TypeError, (u8.astype(ml_dtypes.int2), f32), {}),
    (
        "x-type",
        "com.microsoft/DequantizeLinear-1@seed",
        TypeError,
        (u8.astype(np.int32), f32, np.int32(0)),
        {"axis": None},
    ),
    ("scale-type", NEWEST, TypeError, (u8, np.float64(1)), {}),
    ("scale-type", "ai.onnx/DequantizeLinear-13", TypeError, (u8, np.float16(1)), {}),
    ("scale-type", "com.microsoft/DequantizeLinear-1", TypeError, (u8, f32.astype(ml_dtypes.bfloat16)), {}),
    ("zero-point-type", NEWEST, TypeError, (u8, f32, np.int8(0)), {}),
    ("zero-point-shape", NEWEST, ValueError, (u8, f32, np.zeros(1, np.uint8)), {}),
    ("zero-point-shape", NEWEST, ValueError, (u8, f32x3, np.uint8(0)), {}),
    ("zero-point-shape", "ai.onnx/DequantizeLinear-10", ValueError, (u8, f32, u8x3), {}),
    ("zero-point-required", "com.microsoft/DequantizeLinear-1@seed", TypeError, (u8, f32), {}),
    ("output-type", NEWEST, TypeError, (u8, f32), {"out_dtype": "float64"}),
    ("output-type", NEWEST, TypeError, (u8, f32), {"out_dtype": "nonsense"}),
    ("output-type", NEWEST, TypeError, (u8, f32.astype(ml_dtypes.float8_e8m0fnu)), {}),
    ("attributes", "ai.onnx/DequantizeLinear-21", TypeError, (u8, f32), {"out_dtype": "float16"}),
    ("attributes", "ai.onnx/DequantizeLinear-19", TypeError, (u8, f32), {"block_size": 2}),
    ("attributes", "ai.onnx/DequantizeLinear-10", TypeError, (u8, f32), {"axis": 1}),
    ("attributes", "com.microsoft/DequantizeLinear-1", TypeError, (u8, f32), {"block_size": 0}),
    ("granularity", "ai.onnx/DequantizeLinear-10", ValueError, (u8, f32x3), {}),
    ("granularity", "ai.onnx/DequantizeLinear-13", ValueError, (u8, f32x3), {"axis": 0}),
    ("granularity", "ai.onnx/DequantizeLinear-19", ValueError, (u8, blocked), {}),
    ("granularity", NEWEST, ValueError, (u8, np.ones((2, 3, 1), np.float32)), {"block_size": 2}),
    ("granularity", NEWEST, ValueError, (u8, np.ones((1, 1, 1), np.float32)), {}),
    ("granularity", "com.microsoft/DequantizeLinear-1", ValueError, (u8, f32x3), {}),
    ("granularity", "com.microsoft/DequantizeLinear-1", ValueError, (u8, f32), {"axis": 1}),
    ("granularity", "com.microsoft/DequantizeLinear-1", ValueError, (u8, f32x3), {"axis": 0}),
    ("axis", "com.microsoft/DequantizeLinear-1", ValueError, (u8, f32x3), {"axis": 2}),
    ("axis-range", NEWEST, ValueError, (u8, f32x3), {"axis": 2}),
    ("axis-range", NEWEST, ValueError, (u8, f32x3), {"axis": -3}),
    ("axis-range", NEWEST, ValueError, (u8x3, f32x3), {}),
    ("axis-range", NEWEST, ValueError, (u8x3[0].reshape(()), f32x3[:1]), {"axis": 0}),
    ("axis-range", NEWEST, ValueError, (u8, blocked), {"axis": 2, "block_size": 2}),
    ("axis-range", NEWEST, TypeError, (u8, f32x3), {"axis": 1.0}),
    ("axis-range", NEWEST, TypeError, (u8, f32x3), {"axis": True}),
    ("block-size", NEWEST, ValueError, (u8, blocked), {}),
    ("block-size", NEWEST, ValueError, (u8, blocked), {"block_size": -2}),
    ("block-size", NEWEST, TypeError, (u8, blocked), {"block_size": "2"}),
    ("block-shape", NEWEST, ValueError, (u8, blocked), {"block_size": 1}),
    ("block-shape", NEWEST, ValueError, (u8, blocked), {"block_size": 3}),
    ("block-shape", NEWEST, ValueError, (u8, blocked), {"block_size": 2, "axis": 0}),
    ("block-shape", NEWEST, ValueError, (u8x3, f32x3), {"block_size": 2, "axis": 0}),
]
ONEDNN_REFUSALS: list[tuple[str, type[Exception], tuple[Any, ...], dict[str, Any]]] = [
    ("src-type", TypeError, (u8.astype(np.int32), f32x3[:1]), {}),
    ("scales-type", TypeError, (u8, np.ones(1, np.float16)), {}),
    ("scales-shape", ValueError, (u8, f32), {}),
    ("scales-shape", ValueError, (u8, f32x3), {}),
    ("scales-shape", ValueError, (u8, f32x3[:1]), {"qtype": "per_channel"}),
    ("scales-shape", ValueError, (u8, f32x3), {"qtype": "per_channel", "axis": -2}),
    ("zps-type", TypeError, (u8, f32x3[:1], np.zeros(1, np.int16)), {}),
    ("zps-shape", ValueError, (u8, f32x3[:1], np.uint8(0)), {}),
    ("zps-shape", ValueError, (u8, f32x3, u8x3[:1]), {"qtype": "per_channel"}),
    ("qtype", ValueError, (u8, f32x3[:1]), {"qtype": "per_row"}),
    ("axis-range", ValueError, (u8, f32x3), {"qtype": "per_channel", "axis": 2}),
    ("axis-range", TypeError, (u8, f32x3), {"qtype": "per_channel", "axis": None}),
]
RANGE_REFUSALS: list[tuple[str, str, type[Exception], tuple[Any, ...], dict[str, Any]]] = [
    ("input-type", SEED, TypeError, (u8.astype(np.uint32), f32, f32), {}),
    ("range-type", SEED, TypeError, (u8, np.float64(0), f32), {}),
    ("range-type", SEED, TypeError, (u8, f32, 1.0), {}),
    ("range-shape", SEED, ValueError, (u8, f32x3, f32x3), {}),
    ("range-shape", INSTALLED, ValueError, (u8, f32x3, f32x3), {"axis": 0}),
    ("range-shape", INSTALLED, ValueError, (u8, f32, f32x3), {"axis": 1}),
    ("mode", SEED, ValueError, (u8, f32, f32), {"mode": "MIN"}),
    ("attributes", SEED, TypeError, (u8, f32, f32), {"axis": 0}),
    ("attributes", SEED, TypeError, (u8, f32, f32), {"narrow_range": False}),
    ("attributes", SEED, TypeError, (u8, f32, f32), {"out_dtype": "float32"}),
    ("output-type", INSTALLED, TypeError, (u8, f32, f32), {"out_dtype": "float16"}),
    ("bfloat16-mode", INSTALLED, ValueError, (u8, f32, f32), {"out_dtype": "bfloat16", "mode": "SCALED"}),
    ("axis", INSTALLED, ValueError, (u8, f32x3, f32x3), {"axis": 2}),
    ("axis", INSTALLED, TypeError, (u8, f32x3, f32x3), {"axis": 1.0}),
]


def refused(function: Callable[..., Any], clause: str, contract: str, kind: type[Exception], *given: Any) -> None:
    operands, attributes = given
    full = get(contract).id
    with pytest.raises(kind) as caught:
        function(*operands, **attributes, contract=contract)
    assert str(caught.value).startswith(f"{full}/{clause}: ")
    assert "; expected " in str(caught.value)
    if clause != "attributes":  # the contract of TensorFlow's seed does not list the one that it judges by
        assert f"{full}/{clause}" in get(contract).clauses


@pytest.mark.parametrize("refusal", LINEAR_REFUSALS, ids=lambda r: f"{r[1]}/{r[0]}")
def test_linear_refusals(refusal: tuple[Any, ...]) -> None:
    refused(xverify.dequantize_linear, *refusal)


@pytest.mark.parametrize("contract", [MULTIPLY, DIVIDE])
@pytest.mark.parametrize("refusal", ONEDNN_REFUSALS, ids=lambda r: r[0])
def test_onednn_refusals(refusal: tuple[Any, ...], contract: str) -> None:
    refused(xverify.dynamic_dequantize, refusal[0], contract, *refusal[1:])


@pytest.mark.parametrize("refusal", RANGE_REFUSALS, ids=lambda r: f"{r[1]}/{r[0]}")
def test_range_refusals(refusal: tuple[Any, ...]) -> None:
    refused(xverify.dequantize_range, *refusal)


def test_contracts_of_other_functions_are_refused() -> None:
    for function, contract in (
        (xverify.dequantize_linear, MULTIPLY),
        (xverify.dequantize_linear, SEED),
        (xverify.dynamic_dequantize, NEWEST),
        (xverify.dequantize_range, NEWEST),
        (xverify.dequantize_linear, "ai.onnx/DequantizeLinear-11"),
    ):
        with pytest.raises(ValueError, match="contract"):
            function(u8, f32, f32, contract=contract)


def test_what_the_texts_leave_open_has_its_natural_meaning() -> None:
    x = np.arange(6, dtype=np.uint8).reshape(2, 3)
    plain = xverify.dequantize_linear(x, np.float32(0.3), np.uint8(4)).tobytes()
    one, zero = np.array([0.3], np.float32), np.array([4], np.uint8)
    silent: list[tuple[str, dict[str, Any]]] = [
        ("ai.onnx/DequantizeLinear-10", {}),
        ("ai.onnx/DequantizeLinear-13", {"axis": -1}),
        ("ai.onnx/DequantizeLinear-19", {}),
        (NEWEST, {"block_size": 2}),
        ("com.microsoft/DequantizeLinear-1", {}),
        ("com.microsoft/DequantizeLinear-1", {"axis": 1}),
    ]
    for contract, attributes in silent:
        assert xverify.dequantize_linear(x, one, zero, contract=contract, **attributes).tobytes() == plain
    assert xverify.dequantize_linear(x, one[0], zero[0], axis=9, block_size=7).tobytes() == plain
    opset_19 = "ai.onnx/DequantizeLinear-19"
    assert xverify.dequantize_linear(x[0], one, zero, contract=opset_19).tobytes() == plain[:12]
    row = xverify.dequantize_linear(x[0], np.ones(3, np.float32), contract=opset_19)
    assert row.tolist() == [0, 1, 2]
    empty = xverify.dequantize_linear(np.zeros((2, 0), np.uint8), np.zeros((2, 0), np.float32), axis=1, block_size=4)
    assert empty.shape == (2, 0)


@pytest.mark.filterwarnings("error")
def test_signalling_nans_pass_without_a_warning() -> None:
    """0x7F800001 is a NaN that raises the invalid flag when it is converted."""
    nan = coded("float32", 0x7F800001)
    for x in (np.arange(4, dtype=np.uint8), np.arange(4, dtype=np.int32)):
        assert np.isnan(xverify.dequantize_linear(x, nan, out_dtype="float16")).all()
        assert np.isnan(xverify.dynamic_dequantize(x.astype(np.int8), nan.reshape(1), contract=DIVIDE)).all()
        for mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED"):
            for contract in (SEED, INSTALLED):
                got = xverify.dequantize_range(x, nan, np.float32(1), mode=mode, contract=contract)
                assert got.shape == (4,)


def test_importing_xverify_imports_nothing_else() -> None:
    script = (
        "import sys, xverify; assert 'numpy' not in sys.modules; assert xverify.__version__; "
        "assert callable(xverify.dequantize_linear); assert 'dequantize_range' in dir(xverify); "
        "assert not {'onnx', 'tensorflow', 'onnxruntime'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = xverify.nonsense
