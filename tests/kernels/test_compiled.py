"""The kernels that Numba compiles, on every path: each gives the bits of the NumPy kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_arrays import (
    DIVIDE,
    INSTALLED,
    INTEGERS,
    SCALES,
    SEED,
    SMALL_FLOATS,
    Array,
    all_codes,
    both,
    coded,
    codes_of,
    drawn,
    dtype_of,
    expected,
    same_bits,
    some_zero_points,
)
from watched_loops import calls_given, fit

import xverify
from xverify.kernels.checks import linear_plan

numba = pytest.importorskip("numba")

from xverify.kernels.compiled import linear, lookup, tiles  # noqa: E402

OUTPUTS = ("float32", "float16", "bfloat16")


@pytest.mark.parametrize("name", [*INTEGERS, *SMALL_FLOATS])
def test_every_code_of_the_small_types(name: str) -> None:
    x = all_codes(name)
    for scale_name, codes in SCALES.items():
        for number, code in enumerate(codes):
            zero_points = some_zero_points(name)
            zero = zero_points[number % len(zero_points)]
            zero_point = None if zero is None else coded(name, zero)
            scale, out = coded(scale_name, code), OUTPUTS[number % 3]
            got = xverify.dequantize_linear(x, scale, zero_point, out_dtype=out, backend="numba")
            assert codes_of(got) == expected(x, scale, zero_point, out)
            wide = np.tile(x, 2500 // x.size + 1)
            both(wide, scale, zero_point, out_dtype=out)
            both(wide.reshape(-1, x.size), np.tile(scale, x.size), None, out_dtype=out)


@pytest.mark.parametrize("name", ["int16", "uint16", "int32", "float8_e5m2", "float8_e4m3fn"])
def test_differences_of_many_bits(name: str) -> None:
    """Random triples, and triples whose product is a tie in the output type or one unit off."""
    rng = np.random.default_rng(4)
    x, zero_point = drawn(name, (6, 400), 1), drawn(name, (400,), 2)
    near_one = rng.integers(0x3F800000, 0x40000000, 400)
    any_at_all = rng.integers(0, 1 << 32, 400, np.uint64)
    tiny = np.concatenate([np.arange(1, 201), np.arange(0x00800000, 0x008000C8)])
    for codes in (near_one, any_at_all, tiny):
        for out in OUTPUTS:
            both(x, coded("float32", codes), zero_point, out_dtype=out)
            got = xverify.dequantize_linear(x, coded("float32", codes), zero_point, out_dtype=out, backend="numba")
            assert codes_of(got[0]) == expected(x[0], coded("float32", codes), zero_point, out)


@pytest.mark.parametrize("scale_name", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["int8", "int16", "int32", "float8_e4m3fn", "float8_e5m2fnuz"])
def test_products_with_scales_of_16_bits(name: str, scale_name: str) -> None:
    """Many products are exact in float32, so the loop does not look at their error.

    Some of them underflow. Each element has its own scale, or each row has one.
    """
    x = all_codes(name) if dtype_of(name).itemsize == 1 else drawn(name, (256,), 3)
    scale = np.repeat(coded(scale_name, np.arange(5, 1 << 16, 37))[:, None], x.size, axis=1)
    zero_point = drawn(name, scale.shape, 5) if name.startswith("int") else None
    for out in ("float32", scale_name):
        both(np.tile(x, (len(scale), 1)), scale, zero_point, axis=1, block_size=1, out_dtype=out)
        of_rows = None if zero_point is None else np.ascontiguousarray(zero_point[:, 0])
        both(np.tile(x, (len(scale), 1)), np.ascontiguousarray(scale[:, 0]), of_rows, axis=0, out_dtype=out)


SIZES = (0, 1, 15, 16, 17, 63, 64, 65, 2047, 2048, 2049, 4100)


@pytest.mark.usefixtures("treated")
@pytest.mark.parametrize("out_dtype", OUTPUTS)
def test_tails_and_starts(out_dtype: str) -> None:
    """Partial vectors, and outputs at every offset from a cache line; no byte outside the output changes."""
    memory = drawn("uint8", (5000,))
    itemsize = dtype_of(out_dtype).itemsize
    for number, size in enumerate(SIZES):
        for start in (0, 1, 7 + number):
            x, room = memory[start : start + size], np.full(size + 64, 0x55, f"u{itemsize}")
            out = room[start : start + size].view(dtype_of(out_dtype))
            kept = room.copy()
            scale, zero_point = coded("float32", 0x3DCCCCCD + number), np.uint8(number)
            want = xverify.dequantize_linear(x, scale, zero_point, out_dtype=out_dtype, backend="numpy")
            got = xverify.dequantize_linear(x, scale, zero_point, out_dtype=out_dtype, out=out, backend="numba")
            assert got is out
            assert out.tobytes() == want.tobytes()
            kept[start : start + size] = room[start : start + size]
            assert kept.tobytes() == room.tobytes()


@pytest.mark.usefixtures("treated")
@pytest.mark.parametrize("out_dtype", OUTPUTS)
@pytest.mark.parametrize("run", [16, 32, 48, 56, 0])
def test_runs_of_whole_chunks(out_dtype: str, run: int) -> None:
    """Whole chunks bypass the caches if the output is aligned to a cache line or a part of one."""
    x, itemsize = drawn("uint8", (12, 480)), dtype_of(out_dtype).itemsize
    extents = (12, -(-480 // run)) if run else (12,)
    scale, zero_point = (np.random.default_rng(2).random(extents) + 0.1).astype(np.float32), drawn("uint8", extents)
    keywords = {"axis": 1 if run else 0, "block_size": run, "out_dtype": out_dtype}
    want = xverify.dequantize_linear(x, scale, zero_point, backend="numpy", **keywords)
    room = np.empty(x.size * itemsize + 192, np.uint8)
    for beside in (0, 1, 4, 5, 8, 16):
        start = -room.ctypes.data % 64 + beside * itemsize
        room[:] = 0x55
        out = room[start : start + x.size * itemsize].view(want.dtype).reshape(x.shape)
        xverify.dequantize_linear(x, scale, zero_point, out=out, backend="numba", **keywords)
        assert out.tobytes() == want.tobytes()
        assert (room[:start] == 0x55).all()
        assert (room[start + x.size * itemsize :] == 0x55).all()


@pytest.mark.usefixtures("treated")
@pytest.mark.parametrize(
    ("name", "out_dtype"),
    [
        ("uint8", "float32"), ("uint8", "float16"), ("uint8", "bfloat16"), ("int16", "float16"), ("int32", "float32"),
        ("int32", "bfloat16"), ("float8_e4m3fn", "float32"), ("float8_e4m3fn", "float16"), ("float8_e5m2fnuz", "bfloat16"),
    ],
)  # fmt: skip
def test_rows_of_whole_chunks(name: str, out_dtype: str) -> None:
    """Whole chunks bypass the caches also if each element of a row has its own parameters."""
    x, itemsize = drawn(name, (12, 480)), dtype_of(out_dtype).itemsize
    room = np.empty(x.size * itemsize + 192, np.uint8)
    for extents, axis, run in (((480,), 1, 0), ((3, 480), 0, 5)):
        scale = (np.random.default_rng(3).random(extents) * 3 - 1).astype(dtype_of(out_dtype))
        zero_point = drawn(name, extents) if name in ("uint8", "int16") else None
        keywords = {"axis": axis, "block_size": run}
        want = xverify.dequantize_linear(x, scale, zero_point, backend="numpy", **keywords)
        for beside in (0, 1, 4, 8, 16):
            start = -room.ctypes.data % 64 + beside * itemsize
            room[:] = 0x55
            out = room[start : start + want.nbytes].view(want.dtype).reshape(x.shape)
            xverify.dequantize_linear(x, scale, zero_point, out=out, backend="numba", **keywords)
            same_bits(want, out)
            assert (room[:start] == 0x55).all()
            assert (room[start + want.nbytes :] == 0x55).all()


LARGE = (13 << 20) + 77
"""A number of float32 elements that bypass the caches even where runs cut chunks.

This does not hold on a processor with a larger last-level cache.
"""


@pytest.mark.slow
@pytest.mark.parametrize("inner", [147, 1001, 4096])
@pytest.mark.parametrize("axis", [0, 1])
def test_outputs_that_leave_the_caches(axis: int, inner: int) -> None:
    """The real thresholds and threads, for whole and cut chunks at three alignments."""
    x = drawn("uint8", (LARGE // inner, inner))
    scale, zero_point = coded("float32", np.arange(x.shape[axis]) + 0x3E000001), drawn("uint8", (x.shape[axis],))
    want = xverify.dequantize_linear(x, scale, zero_point, axis=axis, backend="numpy")
    room = np.empty(want.nbytes + 192, np.uint8)
    for beside in (0, 4, 16):
        start = -room.ctypes.data % 64 + beside
        room[:] = 0x55
        out = room[start : start + want.nbytes].view(np.float32).reshape(want.shape)
        xverify.dequantize_linear(x, scale, zero_point, axis=axis, out=out, backend="numba")
        np.testing.assert_array_equal(out.view(np.uint32), want.view(np.uint32))
        assert (room[:start] == 0x55).all()
        assert (room[start + want.nbytes :] == 0x55).all()


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("out_dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", [*INTEGERS, *SMALL_FLOATS])
def test_long_runs_are_looked_up(name: str, out_dtype: str, streamed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """All codes in any order, one scale for all or for each row, and every kind of remainder."""
    if streamed:
        monkeypatch.setattr(tiles, "leaves_caches", lambda read, written: written >= 1000)
    rng, codes = np.random.default_rng(7), SCALES[out_dtype]
    for size in (lookup.LONG_RUN - 1, lookup.LONG_RUN, lookup.LONG_RUN + 16, lookup.LONG_RUN + 51):
        rows = np.array([rng.permutation(np.resize(all_codes(name).view(np.uint8), size)) for _ in codes])
        x, scale = coded(name, rows), coded(out_dtype, codes)
        zero_point = drawn(name, scale.shape) if name in INTEGERS else None
        want = xverify.dequantize_linear(x, scale, zero_point, axis=0, backend="numpy")
        memory = np.zeros(x.size + 64, want.dtype)
        for start in (0, 3, 8, 16):
            out = memory[-memory.ctypes.data % 64 // 2 + start :][: x.size].reshape(x.shape)
            xverify.dequantize_linear(x, scale, zero_point, axis=0, out=out, backend="numba")
            same_bits(want, out)
        for row, one in zip(x, scale, strict=True):
            both(row, one, None if zero_point is None else zero_point[0])


SHAPES = [(), (7,), (0, 3), (40, 70), (3, 5, 7), (9, 2, 130), (4, 2, 3, 50), (4100, 3), (2, 49, 17), (33, 1, 64)]


TYPES_OF_LAYOUTS = (
    ("uint8", "float32", True), ("int4", "float16", True), ("float8_e4m3fnuz", "bfloat16", False), ("int8", "float32", False),
)  # fmt: skip
"""Types of x and scale, and whether there is a zero point. Each is compiled for every layout, so they are few."""


@pytest.mark.usefixtures("treated")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_granularities_and_layouts(shape: tuple[int, ...]) -> None:
    for axis in range(len(shape)):
        for number, run in enumerate((0, 1, 3, 16, 32, 1000)):
            extent = -(-shape[axis] // run) if run else shape[axis]
            extents = (*shape[:axis], extent, *shape[axis + 1 :]) if run else (extent,)
            name, scale_name, has_zero_point = TYPES_OF_LAYOUTS[(number + axis) % len(TYPES_OF_LAYOUTS)]
            scale = (np.random.default_rng(1).random(extents) + 0.1).astype(dtype_of(scale_name))
            zero_point = drawn(name, extents) if has_zero_point else None
            x = drawn(name, shape)
            for given in laid_out(x):
                both(given, scale, zero_point, axis=axis, block_size=run)
            strided = np.zeros((*extents[:-1], 2 * extents[-1]), scale.dtype)[..., ::2]
            strided[...] = scale
            both(x, strided, zero_point, axis=axis, block_size=run)
    both(drawn("int8", shape), np.float32(0.3), np.int8(-3))


def laid_out(x: Array) -> list[Array]:
    """Yield the same values with other strides, read-only, in foreign byte order, and unaligned."""
    reversed_twice = np.ascontiguousarray(x[..., ::-1])[..., ::-1]
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1] + 1), x.dtype)
    wide[..., 1::2] = x
    fixed = x.copy()
    fixed.flags.writeable = False
    room = np.zeros(x.nbytes + 1, np.uint8)
    room[1:] = np.frombuffer(x.tobytes(), np.uint8)
    shifted = room[1:].view(x.dtype).reshape(x.shape)
    return [x, reversed_twice, wide[..., 1::2], fixed, shifted, x.astype(x.dtype.newbyteorder(">"))]


def test_broadcast_x_and_strided_out() -> None:
    x = np.broadcast_to(drawn("uint8", (70,)), (50, 70))
    scale, zero_point = np.linspace(0.1, 1, 70, dtype=np.float32), drawn("uint8", (70,))
    both(x, scale, zero_point)
    want = xverify.dequantize_linear(x, scale, zero_point, backend="numpy")
    for given in (x, x.copy()):
        for out in (np.empty((50, 70), np.float32, "F"), np.empty((100, 140), np.float32)[::-2, ::2]):
            assert xverify.dequantize_linear(given, scale, zero_point, out=out, backend="numba") is out
            assert out.tobytes() == want.tobytes()


def test_onednn_division_and_wide_zero_points() -> None:
    rng = np.random.default_rng(2)
    src = drawn("uint8", (40, 30))
    for limit in (200, 1 << 24, 1 << 31):
        scales, zps = (rng.random(30) + 0.1).astype(np.float32), rng.integers(-limit, limit, 30).astype(np.int32)
        for contract in (DIVIDE, DIVIDE.replace("divide", "multiply")):
            want, got = (
                xverify.dynamic_dequantize(src, scales, zps, qtype="per_channel", contract=contract, backend=b)
                for b in ("numpy", "numba")
            )
            assert got.tobytes() == want.tobytes()
            one = [
                xverify.dynamic_dequantize(np.tile(src, 3), scales[:1], zps[:1], contract=contract, backend=b).tobytes()
                for b in ("numpy", "numba")
            ]
            assert one[0] == one[1]


@pytest.mark.parametrize(("name", "out_dtype"), [("int32", "float32"), ("int32", "float16"), ("int16", "bfloat16")])
def test_more_codes_than_a_table_has(name: str, out_dtype: str) -> None:
    """One scale for enough elements that the loop looks up 8-bit codes in a table."""
    x, zero_point = drawn(name, (5000,), 1), drawn(name, (), 2)
    both(x, coded("float32", 0x3F9D70A4), zero_point, out_dtype=out_dtype)


@pytest.mark.parametrize("beside", [[], [0, 5]])
@pytest.mark.parametrize("far", [(1 << 24) + 1, -(1 << 24) - 1])
def test_a_zero_point_that_is_far_off(far: int, beside: list[int]) -> None:
    zps = np.array([far, *beside], np.int32)
    src, scales = np.tile(all_codes("uint8"), (zps.size, 1)), np.ones(zps.size, np.float32)
    got = xverify.dynamic_dequantize(src, scales, zps, qtype="per_channel", axis=0, contract=DIVIDE, backend="numba")
    assert got.tolist() == [[float(np.float32(code - zero)) for code in range(256)] for zero in zps.tolist()]


def test_one_value_in_foreign_bytes_to_where_it_is_not_aligned() -> None:
    room = np.zeros(9, np.uint8)
    out = room[1:5].view(np.float32).reshape(())
    x, scale = np.array(-3, ">i2"), np.array(0.5, np.float32)
    assert xverify.dequantize_linear(x, scale, out=out, backend="numba") is out
    assert out == -1.5
    assert not room[5:].any()


@pytest.mark.parametrize(
    ("shape", "parameter", "keywords"),
    [
        ((40,), (), {}),
        ((3, 40), (), {}),
        ((3, 40), (1,), {"contract": "ai.onnx/DequantizeLinear-13"}),
        ((3, 40), (3,), {"axis": 0}),
        ((1, 20), (1, 1), {"axis": 1, "block_size": 32}),
        ((3, 20), (3, 1), {"axis": 1, "block_size": 32}),
        ((3, 40), (3, 2), {"axis": 1, "block_size": 32}),
    ],
)
def test_loops_are_given_what_they_are_compiled_for(
    shape: tuple[int, ...], parameter: tuple[int, ...], keywords: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loops do not check this: smaller elements would let them access memory behind the array."""
    calls = calls_given(linear, monkeypatch)
    linear_plan.cache_clear()
    x = drawn("uint8", (*shape[:-1], 2 * shape[-1]))
    for given in (x[..., : shape[-1]].copy(), x[..., ::2]):
        both(given, np.full(parameter, 0.3, np.float32), np.full(parameter, 7, np.uint8), **keywords)
    linear_plan.cache_clear()
    assert calls
    assert fit(calls)


def test_one_block_that_is_longer_than_its_tensor() -> None:
    both(drawn("uint8", (1, 20)), np.full((1, 1), 0.3, np.float32), np.full((1, 1), 7, np.uint8), axis=1, block_size=32)


@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16", "int32"])
def test_ranges(name: str) -> None:
    rng = np.random.default_rng(6)
    for mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED"):
        for contract, axes in ((SEED, (None,)), (INSTALLED, (None, 0, 1))):
            for shape in ((3, 40), (300, 5), (2, 600)):
                for axis in axes:
                    extents = () if axis is None else (shape[axis],)
                    ends = [np.asarray(rng.integers(-9, 9, extents) * np.float32(0.1), np.float32) for _ in range(2)]
                    ends[1] = np.asarray(np.where(rng.random(extents) < 0.1, np.inf, ends[1]), np.float32)
                    want, got = (
                        xverify.dequantize_range(
                            drawn(name, shape), *ends, mode=mode, axis=axis, contract=contract, backend=b
                        )
                        for b in ("numpy", "numba")
                    )
                    assert codes_of(got) == codes_of(want)


def test_values_that_float64_does_not_decide() -> None:
    """Ties of float32: each code has an exact value midway between two numbers, or slightly off."""
    low, high = np.float32(1), np.float32(float.fromhex("0x1.000002p+0"))
    x = drawn("int16", (3000,))
    for mode in ("MIN_COMBINED", "SCALED"):
        for ends in ((low, high), (np.float32(-1), low), (np.float32(0), np.float32(2.0**-149))):
            want, got = (
                xverify.dequantize_range(x, *ends, mode=mode, contract=SEED, backend=b) for b in ("numpy", "numba")
            )
            assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("shape", [(6, 8), (6, 1 << 19), (1 << 12, 256)])
def test_out_between_the_elements_of_an_input(shape: tuple[int, int]) -> None:
    """The call reads every other row of an array and writes the others. Rows are long, or many and short."""
    memory = np.random.default_rng(1).integers(-1000, 1000, shape, np.int32)
    x, out, before = memory[::2], memory[1::2].view(np.float32), memory.copy()
    want = xverify.dequantize_linear(x.copy(), np.float32(0.1), backend="numpy")
    assert xverify.dequantize_linear(x, np.float32(0.1), out=out) is out
    assert (out == want).all()
    assert (memory[::2] == before[::2]).all()
    third = memory[::3]
    on_it = memory[1 : 2 * len(third) : 2].view(np.float32)
    with pytest.raises(ValueError, match="overlaps an input"):
        xverify.dequantize_linear(third, np.float32(0.1), out=on_it)


def test_checks_hold_for_calls_like_the_last() -> None:
    x, scale, zero_point = np.zeros((2, 3), np.uint8), np.ones(3, np.float32), np.zeros(3, np.uint8)
    out = np.empty((2, 3), np.float32)
    for _ in range(2):
        xverify.dequantize_linear(x, scale, zero_point, axis=1, out=out)
    with pytest.raises(TypeError, match="axis is True"):
        xverify.dequantize_linear(x, scale, zero_point, axis=True)
    with pytest.raises(TypeError, match=r"axis is 1\.0"):
        xverify.dequantize_linear(x, scale, zero_point, axis=1.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="axis is"):
        xverify.dequantize_linear(x, scale, zero_point, axis=[1])  # type: ignore[arg-type]
    fixed = out.copy()
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        xverify.dequantize_linear(x, scale, zero_point, axis=1, out=fixed)
    for name, wrong in (("x", out.view(np.uint8)[:, :3]), ("zero_point", out.view(np.uint8)[0, :3])):
        operands = {"x": x, "scale": scale, "zero_point": zero_point, name: wrong}
        with pytest.raises(ValueError, match="overlaps an input"):
            xverify.dequantize_linear(**operands, axis=1, out=out)
    with pytest.raises(ValueError, match="overlaps an input"):
        xverify.dequantize_linear(x, out[0], zero_point, axis=1, out=out)
    one = np.ones(1, np.float32)
    for scale_there in (one, one.reshape(())):
        with pytest.raises(ValueError, match="overlaps an input"):
            xverify.dequantize_linear(x[0, :1], scale_there, axis=0, out=one)
