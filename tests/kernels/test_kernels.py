"""The in-house kernels, bit for bit against exact fractions, and each of their refusals."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import exact
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_arrays import (
    DIVIDE,
    INTEGERS,
    MULTIPLY,
    NUMPY,
    SCALES,
    SEED,
    SMALL_FLOATS,
    WIDTHS,
    Array,
    all_codes,
    coded,
    codes_of,
    dtype_of,
    expected,
    some_zero_points,
)

from xverify.kernels import casting
from xverify.kernels.blocks import BLOCK


@pytest.mark.parametrize("name", [*INTEGERS, *SMALL_FLOATS])
@pytest.mark.parametrize("scale_name", SCALES)
def test_every_code_of_the_small_types(name: str, scale_name: str) -> None:
    """The kernel computes each code, and looks it up in tensors of more than 256 elements.

    Half of the types meet every other scale, and the rest the scales between them.
    """
    x = all_codes(name)
    is_odd = [*INTEGERS, *SMALL_FLOATS].index(name) % 2
    for number, scale_code in enumerate(SCALES[scale_name][is_odd::2], is_odd):
        zero_points = some_zero_points(name)
        code = zero_points[number % len(zero_points)]
        outs = ("float32", "float16", "bfloat16")
        out = outs[number % 3] if scale_name == "float8_e8m0fnu" else (scale_name, *outs)[number % 4]
        scale, zero_point = coded(scale_name, scale_code), None if code is None else coded(name, code)
        want = expected(x, scale, zero_point, out)
        got = NUMPY.dequantize_linear(x, scale, zero_point, out_dtype=out)
        assert got.dtype == dtype_of(out)
        assert codes_of(got) == want
        repeated = np.tile(x.view(np.uint8), 300).view(x.dtype)
        assert codes_of(NUMPY.dequantize_linear(repeated, scale, zero_point, out_dtype=out)) == want * 300


@pytest.mark.parametrize("name", ["float8_e5m2", "float8_e5m2fnuz", "float8_e4m3fn"])
def test_every_pair_of_float8_codes(name: str) -> None:
    """A difference of float8_e5m2 has 33 bits and the product 57: more than float64 holds."""
    x = np.tile(np.arange(256, dtype=np.uint8), (8, 1))
    for first in range(0, 256, 64):
        zero_point = coded(name, np.arange(first, first + 64, 8))
        scale = coded("float32", np.linspace(0x3F800001, 0x3FFFFFFF, 8).astype(np.uint32))
        got = NUMPY.dequantize_linear(x.view(dtype_of(name)), scale, zero_point, axis=0)
        want = expected(x.view(dtype_of(name)), scale[:, None], zero_point[:, None], "float32")
        assert codes_of(got) == want


float32_codes = st.one_of(
    st.integers(0, 0xFFFFFFFF), st.integers(0x3F000000, 0x40FFFFFF), st.sampled_from(SCALES["float32"])
)
wide_integers = st.one_of(st.integers(-(2**31), 2**31 - 1), st.sampled_from([-(2**31), 2**31 - 1, 0, 2**24 + 1]))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(wide_integers, min_size=1, max_size=30),
    wide_integers,
    float32_codes,
    st.sampled_from(["float32", "float16", "bfloat16"]),
)
def test_int32_is_exact_where_float64_is_not(xs: list[int], zero: int, scale: int, out: str) -> None:
    x, zero_point = np.array(xs, np.int32), np.array(zero, np.int32)
    for offset in (None, zero_point):
        got = NUMPY.dequantize_linear(x, coded("float32", scale), offset, out_dtype=out)
        assert codes_of(got) == expected(x, coded("float32", scale), offset, out)


def test_an_output_of_the_same_dtype_by_another_object_is_taken() -> None:
    out = np.zeros(3, np.dtype(np.float32, metadata={"made": "elsewhere"}))
    assert NUMPY.dequantize_linear(np.arange(3, dtype=np.uint8), np.float32(2), out=out) is out
    assert out.tolist() == [0, 2, 4]


def test_tables_that_are_kept_are_float32_and_cannot_be_written() -> None:
    table = casting.code_values(dtype_of("float8_e5m2"))
    assert table.dtype == np.float32
    assert table.shape == (256,)
    assert not table.flags.writeable


def test_figures_that_went_wrong_elsewhere() -> None:
    """57-bit products, and a float16 result of a product that others round to float32 first."""
    got = NUMPY.dequantize_linear(np.int32(1347502757), np.float32(16045357))
    assert codes_of(got) == [exact.round_to("float32", Fraction(1347502757 * 16045357))]
    scale = np.float32(float.fromhex("0x1.ebc2p-21"))
    assert float(NUMPY.dequantize_linear(np.int32(1829207725), scale, out_dtype="float16")) == 1675.0
    got = casting.cast(np.array([1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8, 2.0**-134, 2.0**-134 * 1.01]), casting.BFLOAT16)
    assert got.view(np.uint16).tolist() == [0x3F81, 0x3F80, 0, 1]


def test_products_of_41_bits_by_24_are_exact_but_for_the_last_bit() -> None:
    """Differences and scales use all their bits, as with an int64 zero point.

    Products are one off a float64, so only exact partial products tell on which side they lie.
    """
    generator = np.random.default_rng(3)
    difference = generator.integers(1 << 39, 1 << 40, 500) * 2.0 + generator.choice([-1, 1], 500)
    upper = generator.integers(1 << 11, 1 << 12, 500) * 4096.0
    scale = upper + [
        pow(int(one), -1, 4096) * int(sign) % 4096
        for one, sign in zip(difference, generator.choice([-1, 1], 500), strict=True)
    ]
    got = casting.multiply(difference, scale)
    for one, a, b in zip(got.tolist(), difference.tolist(), scale.tolist(), strict=True):
        exact_value = Fraction(a) * Fraction(b)
        step = Fraction(np.spacing(abs(one)))
        is_odd = bool(np.float64(one).view(np.int64) & 1)
        assert Fraction(one) == exact_value or (is_odd and abs(Fraction(one) - exact_value) < step)


@settings(max_examples=100, deadline=None)
@given(st.integers(-32768, 65535), st.integers(-32768, 65535), float32_codes, st.sampled_from(["float16", "bfloat16"]))
def test_16_bit_integers(a: int, b: int, scale: int, out: str) -> None:
    name = "int16" if min(a, b) < 0 else "uint16"
    x, zero_point = np.array([a, b, 0], np.int64).astype(name), np.array(b, np.int64).astype(name)
    for out_name in ("float32", out):
        got = NUMPY.dequantize_linear(x, coded("float32", scale), zero_point, out_dtype=out_name)
        assert codes_of(got) == expected(x, coded("float32", scale), zero_point, out_name)


@settings(max_examples=100, deadline=None)
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
    got = NUMPY.dynamic_dequantize(src, scales, zps, contract=DIVIDE if by_division else MULTIPLY)
    assert got.dtype == np.float32
    assert codes_of(got) == expected(src, scales, zps, "float32", by_division)


@pytest.mark.parametrize("wide", [(1 << 24) + 1, -(1 << 24) - 1, (1 << 30) + 5])
def test_one_wide_zero_point_among_narrow_ones(wide: int) -> None:
    """Only the differences of some channels need more than float32 holds."""
    src, scales = np.arange(-40, 40, dtype=np.int8).reshape(4, 20), np.float32([0.1, 0.3, 0.7, 1.1])
    zps = np.array([0, wide, 0, wide + 2], np.int32)
    for contract in (MULTIPLY, DIVIDE):
        got = NUMPY.dynamic_dequantize(src, scales, zps, qtype="per_channel", axis=0, contract=contract)
        for row, *one in zip(got, src, scales[:, None], zps[:, None], strict=True):
            assert codes_of(row) == expected(*one, "float32", contract == DIVIDE)


def test_quotients_near_ties() -> None:
    """Differences of 33 bits divided by odd numbers. float64's rounding would decide some of them wrongly."""
    generator = np.random.default_rng(5)
    src = generator.integers(0, 256, (1, 400), np.uint8)
    zps = generator.integers(-(2**31), 2**31, 400).astype(np.int32)
    scales = coded("float32", generator.integers(0x3F800000, 0x40000000, 400))
    got = NUMPY.dynamic_dequantize(src, scales, zps, qtype="per_channel", contract=DIVIDE)
    assert codes_of(got) == expected(src, scales, zps, "float32", True)
    # D / s with D = (2^24 + 1) * q: the quotient needs 25 bits and is a tie in float32.
    tie = NUMPY.dynamic_dequantize(
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
@pytest.mark.parametrize("name", ["int4", "float8_e5m2", "int32"])
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
                got = NUMPY.dequantize_linear(given_x, scale, zero_point, axis=axis, block_size=block_size)
                assert got.shape == shape
                assert codes_of(got) == want
    scale, zero_point = np.array(0.3, np.float32), draw(())
    for given_x in layouts(x):
        for axis in (0, 1, -9, 9):
            got = NUMPY.dequantize_linear(given_x, scale, zero_point, axis=axis)
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
        got = NUMPY.dequantize_linear(x, scale, zero_point, axis=axis, block_size=block_size)
        assert got.tobytes() == want.astype(np.float32).tobytes()


@pytest.mark.parametrize("size", [5, 1000, BLOCK + 3])
@pytest.mark.parametrize("name", ["uint8", "int4", "int32"])
def test_out_is_written_and_returned(size: int, name: str) -> None:
    x = coded(name, np.arange(size) % 16)
    scale = np.float32(0.1)
    want = codes_of(NUMPY.dequantize_linear(x, scale, out_dtype="float16"))
    for stride in (1, 3, -2):
        memory = np.full(abs(stride) * size, 7, np.float16)
        out = memory[::stride]
        untouched = np.ones(memory.shape, bool)
        untouched[::stride] = False
        before = x.tobytes()
        assert NUMPY.dequantize_linear(x, scale, out_dtype="float16", out=out) is out
        assert codes_of(out) == want
        assert (memory[untouched] == 7).all()
        assert x.tobytes() == before
    memory32 = np.zeros(size, np.float32)
    assert NUMPY.dynamic_dequantize(np.zeros(size, np.int8), np.array([1], np.float32), out=memory32) is memory32
    assert NUMPY.dequantize_range(np.zeros(size, np.int8), scale, scale + 1, out=memory32, contract=SEED) is memory32


@pytest.mark.parametrize("shape", [(7, 9), (3, BLOCK), (40, 20, 100)])
@pytest.mark.parametrize("granularity", ["per_tensor", "per_axis", "blocked"])
def test_out_may_lie_in_memory_as_it_will(shape: tuple[int, ...], granularity: str) -> None:
    rng = np.random.default_rng(len(shape))
    x = rng.integers(0, 256, shape).astype(np.uint8)
    extents = {"per_tensor": (), "per_axis": (shape[1],), "blocked": (shape[0], -(-shape[1] // 4), *shape[2:])}
    scale = rng.random(extents[granularity]).astype(np.float32)
    block_size = 4 if granularity == "blocked" else 0
    want = NUMPY.dequantize_linear(x, scale, axis=1, block_size=block_size)
    for out in (np.empty(shape, np.float32, "F"), np.empty((*shape[:-1], 2 * shape[-1]), np.float32)[..., ::-2]):
        NUMPY.dequantize_linear(x, scale, axis=1, block_size=block_size, out=out)
        assert out.tobytes() == want.tobytes()


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
            NUMPY.dequantize_linear(x, scale, out=out)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="overlaps an input"):
        NUMPY.dequantize_linear(memory.view(np.uint8)[:4], scale, out=memory[:4])
    with pytest.raises(ValueError, match="overlaps an input"):
        NUMPY.dequantize_linear(x, memory[0:1].reshape(()), out=memory[:4])
    # The other operands are checked even if x and out share no memory.
    out = np.zeros(4, np.float32)
    with pytest.raises(ValueError, match="overlaps an input"):
        NUMPY.dequantize_linear(x, out[0:1].reshape(()), out=out)
    with pytest.raises(ValueError, match="overlaps an input"):
        NUMPY.dequantize_linear(x, scale, out.view(np.uint8)[0:1].reshape(()), out=out)


def test_out_between_the_elements_of_an_input() -> None:
    """The call reads every other row of an array and writes the others."""
    memory = np.arange(48, dtype=np.int32).reshape(6, 8)
    x, out, before = memory[::2], memory[1::2].view(np.float32), memory.copy()
    want = NUMPY.dequantize_linear(x.copy(), np.float32(0.1))
    assert NUMPY.dequantize_linear(x, np.float32(0.1), out=out) is out
    assert (out.tobytes(), memory[::2].tobytes()) == (want.tobytes(), before[::2].tobytes())
    with pytest.raises(ValueError, match="overlaps an input"):
        NUMPY.dequantize_linear(memory[::3], np.float32(0.1), out=memory[2:4].view(np.float32))


def test_bytes_of_4_and_2_bit_types_with_any_high_bits() -> None:
    for name in ("int4", "uint4", "int2", "uint2", "float4_e2m1fn"):
        bits = WIDTHS[name]
        x = np.arange(256, dtype=np.uint8).view(dtype_of(name))
        want = [float(exact.decode(name, code % (1 << bits))) for code in range(256)]
        assert NUMPY.dequantize_linear(x, np.float32(1)).tolist() == want
        assert NUMPY.dequantize_linear(np.concatenate([x, x]), np.float32(1)).tolist() == want * 2


def test_foreign_byte_order() -> None:
    x, scale = np.arange(-5, 5, dtype=">i4"), np.array(0.1, ">f4")
    want = NUMPY.dequantize_linear(x.astype(np.int32), scale.astype(np.float32))
    got = NUMPY.dequantize_linear(x, scale, np.array(0, ">i4"))
    assert got.dtype.isnative
    assert got.tobytes() == want.tobytes()
