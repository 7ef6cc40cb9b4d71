"""Codes of fewer than 8 bits, packed into bytes: the same bits as unpacked codes, from every backend."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from kernel_arrays import WIDTHS, dtype_of

import xverify
from xverify.kernels import blocks
from xverify.kernels.packed import unpack
from xverify.oracles.arrays import pack

pytest.importorskip("numba")

from xverify.kernels.compiled import tiles as packed_pieces


@pytest.mark.parametrize("name", WIDTHS)
def test_packed_codes(name: str) -> None:
    bits = WIDTHS[name]
    for shape in ((), (5,), (3, 7), (2, 0), (7, 9, 1100)):
        codes = np.asarray(np.random.default_rng(1).integers(0, 1 << bits, shape, np.uint8))
        packed = pack(codes, bits)
        if codes.size * bits % 8:  # bits after the last element do not matter
            packed[-1] |= np.uint8((0xFF << (codes.size * bits % 8)) & 0xFF)
        for axis in (None, *range(len(shape))):
            extents = () if axis is None else (shape[axis],)
            scale, zeros = np.full(extents, 0.3, np.float32), np.full(extents, 1, np.uint8)
            want = xverify.dequantize_linear(
                codes.view(dtype_of(name)), scale, zeros.view(dtype_of(name)), axis=axis, backend="numpy"
            )
            for backend in ("numpy", "numba"):
                # Unpacked zero points are compiled for one type only; test_compiled_packed.py tests others.
                unpacked = [zeros.view(dtype_of(name))] if backend == "numpy" or name == "int4" else []
                for zero_point in (pack(zeros, bits), *unpacked):
                    got = xverify.dequantize_packed(
                        packed, scale, zero_point, dtype=name, shape=shape, axis=axis, backend=backend
                    )
                    assert got.shape == shape
                    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("backend", ["numpy", "numba"])
@pytest.mark.parametrize("shape", [(4, 6), (3, blocks.BLOCK)])
def test_zero_points_of_blocks(shape: tuple[int, int], backend: str) -> None:
    random = np.random.default_rng(1)
    blocked = (shape[0], -(-shape[1] // 4))
    codes, zeros = (random.integers(0, 16, each, np.uint8) for each in (shape, blocked))
    scale = random.random(blocked, np.float32)
    given = {"axis": 1, "block_size": 4, "backend": backend}
    want = xverify.dequantize_linear(codes.view(ml_dtypes.uint4), scale, zeros.view(ml_dtypes.uint4), **given)
    got = xverify.dequantize_packed(pack(codes, 4), scale, pack(zeros, 4), dtype="uint4", shape=shape, **given)
    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_packed_codes_beyond_a_block(backend: str, recwarn: pytest.WarningsRecorder) -> None:
    """Lines begin within a byte, and one scale is a signalling NaN, with and without a zero point."""
    shape = (3, blocks.BLOCK + 1)
    codes = np.random.default_rng(1).integers(0, 16, shape, np.uint8)
    scale = np.array([0x3E99999A, 0x7F800001, 0x3F800000], np.uint32).view(np.float32)
    for zero_point in (None, np.array([1, 2, 3], np.uint8)):
        given = None if zero_point is None else zero_point.view(ml_dtypes.uint4)
        want = xverify.dequantize_linear(codes.view(ml_dtypes.uint4), scale, given, axis=0, out_dtype="float16")
        got = xverify.dequantize_packed(
            pack(codes, 4), scale, None if zero_point is None else pack(zero_point, 4), dtype=ml_dtypes.uint4,
            shape=[np.int64(n) for n in shape], axis=0, out_dtype="float16", backend=backend,
        )  # fmt: skip
        np.testing.assert_array_equal(got, want)
        assert np.isnan(got[1]).all()
        assert not np.isnan(got[::2]).any()
    # A file of another test may be closed by the garbage collector meanwhile.
    assert not [warning for warning in recwarn if not issubclass(warning.category, ResourceWarning)]


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_packed_codes_to_an_output_with_gaps(backend: str) -> None:
    shape = (3, blocks.BLOCK + 1)
    codes = np.random.default_rng(1).integers(0, 16, shape, np.uint8)
    scale, out = np.array([0.5, 2, 3], np.float32), np.zeros((3, 2 * shape[1]), np.float32)[:, ::2]
    given = {"dtype": "uint4", "shape": shape, "axis": 0}
    assert xverify.dequantize_packed(pack(codes, 4), scale, **given, out=out, backend=backend) is out
    np.testing.assert_array_equal(out, codes * scale[:, None])


def test_a_shape_that_looks_like_one_before_is_checked() -> None:
    one = xverify.dequantize_packed(np.zeros(4, np.uint8), np.float32(1), dtype="int4", shape=(1, 8))
    with pytest.raises(TypeError, match=r"shape is \(1.0, 8\); expected integers"):
        xverify.dequantize_packed(np.zeros(4, np.uint8), np.float32(1), dtype="int4", shape=(1.0, 8), out=one)  # type: ignore[arg-type]
    like = xverify.dequantize_packed(np.zeros(4, np.uint8), np.float32(1), dtype="int4", shape=(np.int64(1), True * 8))
    assert like.shape == (1, 8)


def test_packed_codes_are_checked() -> None:
    four = [np.uint8(0x21), np.uint8(0x43)]
    got = xverify.dequantize_packed(four, np.ones((), np.float32), [np.uint8(1)], dtype="uint4", shape=(4,))
    assert got.tolist() == [0, 1, 2, 3]
    got = xverify.dequantize_packed(four, [np.float32(2)] * 4, dtype="uint4", shape=[4], axis=0)
    assert got.tolist() == [2, 4, 6, 8]
    for packed, dtype, shape, kind, match in (
        (np.zeros(2, np.uint8), "int8", (4,), TypeError, "dtype is int8"),
        (np.zeros(2, np.uint8), "int5", (4,), TypeError, "dtype is 'int5'"),
        (np.zeros(2, np.int8), "int4", (4,), TypeError, "the dtype of x is int8"),
        (np.zeros(3, np.uint8), "int4", (4,), ValueError, r"the shape of x is \(3,\); expected \(2,\)"),
        (np.zeros(3, np.uint8), "int4", (-4,), ValueError, "shape is"),
        (np.zeros(0, np.uint8), "int4", (-1,), ValueError, "expected no negative extent"),
        (np.zeros(2, np.uint8), "int4", (2, 2.0), TypeError, r"shape is \(2, 2.0\); expected integers"),
        (np.zeros(2, np.uint8), "int4", 4, TypeError, "shape is 4; expected integers"),
    ):
        with pytest.raises(kind, match=match):
            xverify.dequantize_packed(packed, np.float32(1), dtype=dtype, shape=shape)
    with pytest.raises(ValueError, match=r"the shape of zero_point is \(2,\); expected \(1,\), for 1 codes of 4 bits"):
        xverify.dequantize_packed(np.zeros(2, np.uint8), np.float32(1), np.zeros(2, np.uint8), dtype="int4", shape=(4,))


@pytest.mark.parametrize("backend", ["numpy", "numba"])
@pytest.mark.parametrize("given", ["x", "zero_point"])
def test_an_output_in_the_memory_of_packed_codes_is_refused(given: str, backend: str) -> None:
    memory = np.zeros(4, np.uint8)
    operands = {"x": np.zeros(1, np.uint8), "zero_point": np.zeros(1, np.uint8)} | {given: memory[3:]}
    with pytest.raises(ValueError, match="overlap"):
        xverify.dequantize_packed(
            **operands, scale=np.float16(1), dtype="uint4", shape=(2,), out=memory.view(np.float16), backend=backend
        )


def test_codes_are_unpacked_with_zeros_above() -> None:
    packed = np.array([0b11_10_01_00, 0b11_11_11_11], np.uint8)
    assert unpack(packed, 2, 0, 8).tolist() == [0, 1, 2, 3, 3, 3, 3, 3]
    assert unpack(packed, 2, 2, 5).tolist() == [2, 3, 3]
    assert unpack(packed, 4, 0, 4).tolist() == [0b0100, 0b1110, 0b1111, 0b1111]
    assert unpack(packed, 4, 3, 4).tolist() == [0b1111]
    sixes = np.arange(40, dtype=np.uint8) * 5 % 64
    for start, stop in ((0, 40), (0, 5), (1, 4), (6, 7), (35, 37), (4, 4)):
        assert unpack(pack(sixes[:37], 6), 6, start, min(stop, 37)).tolist() == sixes[start : min(stop, 37)].tolist()


@pytest.mark.parametrize("bits", [2, 4])
def test_parts_that_compiled_loops_unpack(bits: int) -> None:
    """A longer part would be written behind the output. Little more than the part is unpacked."""
    in_byte = 8 // bits
    packed = np.random.default_rng(2).integers(0, 256, 40, np.uint8)
    every = unpack(packed, bits, 0, packed.size * in_byte).tolist()
    read = packed_pieces.packed_reader(packed, in_byte)
    for start, stop in ((0, 1), (0, 40), (1, 2), (7, 7 + in_byte), (33, 38), (40, 40 * in_byte - 1), (5, 40 * in_byte)):
        part = read(start, stop)
        assert part.tolist() == every[start:stop]
        assert part.base.size < stop - start + 2 * in_byte
