"""Compiled loops on packed codes: the bits of the NumPy kernels, and no read outside the packed bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from compiled_alone import applied
from kernel_arrays import NUMPY, WIDTHS, Array, dtype_of, same_bits, shared_words
from tensor_parts import parameters, some_parts

pytest.importorskip("numba")

from llvmlite import ir
from numba import types

import xverify
from xverify.kernels.casting import BFLOAT16, FLOAT16, FLOAT32
from xverify.kernels.compiled import lookup, rounding
from xverify.kernels.compiled import memory as memory_module
from xverify.kernels.compiled.build import entry
from xverify.kernels.compiled.decode import ELEMENTS, coding
from xverify.kernels.compiled.layout import Layout, Rows, Runs
from xverify.kernels.compiled.linear import loop_of, signature
from xverify.kernels.compiled.memory import Flat, Packed, codes_of
from xverify.kernels.compiled.tiles import ALL, WHOLE
from xverify.kernels.compiled.vectors import shuffled
from xverify.oracles.arrays import pack

LONG = 3 * lookup.LONG_RUN


def some_codes(name: str, shape: tuple[int, ...], seed: int = 1) -> Array:
    """Draw any codes. Types of few bits have zeros above them."""
    return np.random.default_rng(seed).integers(0, 1 << WIDTHS.get(name, 8), shape, np.uint8)


def with_gaps(array: Array) -> Array:
    """Return the same values as every other element of a larger array."""
    larger = np.full((*array.shape[:-1], 2 * array.shape[-1]), 0x55, array.dtype)
    larger[..., ::2] = array
    return larger[..., ::2]


@pytest.mark.parametrize(
    ("places", "size", "name", "out"),
    [
        (None, LONG, "uint4", FLOAT16), (Runs(480, 32, 15), 3000, "int4", BFLOAT16),
        (Runs(60, 5, 12), 3000, "uint2", FLOAT32), (Rows(33, 5, 2, 3), 3000, "int4", FLOAT16),
        (Runs(9600, 64, 0), LONG, "float4_e2m1fn", BFLOAT16), (Runs(500, 33, 16), 3000, "int2", FLOAT16),
        # Two of every four chunks begin within a cache line.
        (Runs(480, 48, 10), 3000, "int4", FLOAT16),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.usefixtures("no_endless_wait")
def test_a_part_of_a_tensor(
    places: Layout | None, size: int, name: str, out: np.dtype, beside_a_page: Callable[[Array, bool], Array]
) -> None:
    """A part begins at a whole byte, its pieces anywhere, and its memory at a page boundary."""
    bits, in_byte = WIDTHS[name], 8 // WIDTHS[name]
    rank, kind = 0 if places is None else 1, coding(dtype_of(name))
    of_offsets = types.float32 if kind.is_float else codes_of(types.uint8, in_byte, rank)
    of_scales = Flat(ELEMENTS[out], rank)
    given = signature(kind.codes, out, kind.fields_type, types.float32, of_scales, of_offsets, places, in_byte=in_byte)
    fill = entry(loop_of(places), given)
    which, x = parameters(places, size), some_codes(name, (size,))
    scale = (np.random.default_rng(2).random(which.max() + 1) + 0.1).astype(out)
    zero_point = None if kind.is_float else some_codes(name, scale.shape, 3)
    each_zero_point = None if zero_point is None else zero_point[which].view(dtype_of(name))
    want = NUMPY.dequantize_linear(x.view(dtype_of(name)), scale[which], each_zero_point, axis=0)
    memory = np.zeros(size + 128, out)

    def ask(start: int, stop: int, beside: int, streamed: int, shared: int = 0) -> Array:
        low, high = (which[start:stop].min(), which[start:stop].max() + 1) if start < stop else (0, 1)
        part_of_scale = scale[low:high] if places else scale.reshape(())
        packed = [
            pack(array, bits) for array in (x[start:stop], *([] if zero_point is None else [zero_point[low:high]]))
        ]
        codes, *offset = (beside_a_page(array, beside == 3) for array in packed)
        if places is None:
            offset = [array.reshape(()) for array in offset]
        arguments = (None, None) if places is None else places.arguments(int(low))
        begins = -memory.ctypes.data % 64 // out.itemsize + 32 + beside
        memory[:] = 0x55
        part = memory[begins : begins + stop - start]
        fill(
            codes, part, tuple(kind.fields), 0.0, part_of_scale, *(offset or [0.0]), None, *arguments, start, streamed,
            shared, True,
        )  # fmt: skip
        assert (memory[:begins] == 0x55).all()
        assert (memory[begins + part.size :] == 0x55).all()
        return part

    for start, stop in some_parts(size):
        start -= start % in_byte
        for beside, streamed in ((0, WHOLE), (0, ALL), (3, ALL), (8, WHOLE), (3, 0)):
            same_bits(want[start:stop], ask(start, stop, beside, streamed))
    ends = [0, 1, 63, 64, 512, 515, 1999, 2048, size]
    for taken, streamed in ((0, 0), (0, WHOLE), (0, ALL), (3, ALL), (5, 0)):
        bell = np.array([7])
        words = shared_words(taken, ends, bell.ctypes.data, inside=1)
        for beside in (0, 3):
            words[:2] = taken, 8
            part = ask(0, size, beside, streamed, words.ctypes.data)
            same_bits(want[ends[taken] :], part[ends[taken] :])
            assert (part[: ends[taken]] == 0x55).all()


CALLS = {
    "one scale": ("uint4", (2999,), None, 0, "float32", "float32"),
    "blocks that begin within a byte": ("int2", (3, 37), 1, 5, "bfloat16", "bfloat16"),
    "looked up": ("float4_e2m1fn", (4100,), None, 0, "float32", "float16"),
    "short rows, laid out": ("uint4", (5000, 3), 1, 0, "float16", "float16"),
    "blocks of rows": ("int4", (70, 33), 0, 32, "float32", "float32"),
    "a zero point in each row": ("uint4", (5, 641), 0, 0, "float16", "float32"),
}


@pytest.mark.usefixtures("treated")
@pytest.mark.parametrize("call", CALLS)
def test_calls(call: str) -> None:
    """Packed and unpacked zero points, operands with gaps, small tensors and large ones."""
    name, shape, axis, block_size, scale_name, out_name = CALLS[call]
    extents: tuple[int, ...] = () if axis is None else (shape[axis],)
    if axis is not None and block_size:
        extents = tuple(-(-n // block_size) if i == axis else n for i, n in enumerate(shape))
    codes, dtype, bits = some_codes(name, shape), dtype_of(name), WIDTHS[name]
    scale = np.asarray(np.random.default_rng(2).random(extents) + 0.1).astype(dtype_of(scale_name))
    zeros = None if name.startswith("float") else some_codes(name, extents, 3)
    keywords: dict[str, Any] = {"axis": axis, "block_size": block_size or None, "out_dtype": out_name}
    want = NUMPY.dequantize_linear(codes.view(dtype), scale, None if zeros is None else zeros.view(dtype), **keywords)
    packed = pack(codes, bits)
    packed_zeros = [] if zeros is None else [pack(zeros, bits), with_gaps(pack(zeros, bits)), zeros.view(dtype)]
    for given in (packed, with_gaps(packed)):
        for zero_point in packed_zeros or [None]:
            for scales in (scale, with_gaps(scale)) if scale.ndim else (scale,):
                for out in (None, np.zeros(shape, want.dtype), with_gaps(np.zeros(shape, want.dtype))):
                    got = xverify.dequantize_packed(
                        given, scales, zero_point, dtype=name, shape=shape, out=out, backend="numba", **keywords
                    )
                    same_bits(want, got)
                    assert out is None or got is out


def test_the_types_are_told_apart() -> None:
    """Numba tells them apart, and so do the names of functions, by which LLVM knows them."""
    kinds = [Flat(types.uint8), Packed(2), Packed(4), Packed(2, 0)]
    assert len(set(kinds)) == len({str(kind) for kind in kinds}) == 4
    assert len({str((type(kind).__name__, kind.mangling_args)) for kind in kinds}) == 4
    assert Packed(2) == kinds[1]
    assert [kind.ndim for kind in kinds] == [1, 1, 1, 0]
    assert codes_of(types.uint16, 1) == Flat(types.uint16)
    assert codes_of(types.uint8, 4, 0) == Packed(4, 0)


def test_calls_that_look_up_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the byte lookup instruction, 16-bit results of packed codes are looked up.

    With only the lesser instruction, other results are looked up too if few codes occur.
    """
    rest = None, types.none, None, None
    cases = [(kind, Flat(out)) for kind in (Packed(2), Packed(4), Flat(types.uint8)) for out in ELEMENTS.values()]
    packed = [False, True, True] * 2 + [False] * 3
    none, others = [False] * 9, [False] * 7 + [True] * 2
    for features, expected, may in (
        ({"avx512bw"}, packed, none),
        ({"avx2"}, packed, others),
        ({"avx2", "avx512bw", "avx512vbmi"}, packed, none),
        (set(), none, none),
    ):
        for module in (lookup,):
            monkeypatch.setattr(module, "has", features.__contains__)
        assert [lookup.looks_up_packed(rounding.Kinds(*kinds, *rest)) for kinds in cases] == expected
        assert [lookup.may_look_up_narrow(rounding.Kinds(*kinds, *rest)) for kinds in cases] == may


@pytest.mark.parametrize("in_byte", [2, 4])
def test_bytes_become_codes(in_byte: int) -> None:
    bits = 8 // in_byte
    packed = np.arange(256, dtype=np.uint8)
    want = packed[:, None] >> np.arange(0, 8, bits) & ((1 << bits) - 1)

    def write(builder: Any, vector: Any) -> Any:
        codes = memory_module.unpack_codes(builder, vector, in_byte)
        return builder.bitcast(codes, ir.VectorType(ir.IntType(8 * in_byte), vector.type.count))

    for lanes in (4, 8, 16, 32):
        got = applied(write, f"u{in_byte}", packed, lanes=lanes)
        assert (got.view(np.uint8).reshape(want.shape) == want).all()
    for place in range(in_byte):
        index = np.full(256, 1000 * in_byte + place, np.uint32)

        def one(builder: Any, byte: Any, at: Any) -> Any:
            return memory_module.extract_code(builder, in_byte, byte, at)

        assert (applied(one, "u1", packed, index, lanes=1) == want[:, place]).all()


@pytest.mark.parametrize("in_byte", [2, 4])
def test_bytes_become_places_in_a_table(in_byte: int) -> None:
    """The low bits of each index select the entry."""
    bits = 8 // in_byte
    packed = np.arange(256, dtype=np.uint8)
    want = packed[:, None] >> np.arange(0, 8, bits) & ((1 << bits) - 1)

    def write(builder: Any, vector: Any) -> Any:
        return builder.bitcast(
            memory_module.table_indices(builder, vector, in_byte),
            ir.VectorType(ir.IntType(16 * in_byte), vector.type.count),
        )

    got = applied(write, f"u{2 * in_byte}", packed, lanes=32 // in_byte).view(np.uint16).reshape(want.shape)
    assert (got & ((1 << bits) - 1) == want).all()

    # No type has 128 bits, so this takes two words of each byte, for a whole vector or for one half after the other.
    for part in range(in_byte // 2):
        for count in (16, 32):

            def half(builder: Any, vector: Any, part: int = part, count: int = count) -> Any:
                words = [
                    memory_module.long_table_indices(builder, vector, in_byte, first, 16)
                    for first in range(0, count, 16)
                ]
                kept = [in_byte * i + 2 * part + j for i in range(vector.type.count) for j in range(2)]
                return builder.bitcast(
                    shuffled(builder, words[0], words[-1], kept), ir.VectorType(ir.IntType(64), vector.type.count)
                )

            got = applied(half, "u8", packed, lanes=count // in_byte).view(np.uint32).reshape(256, 2)
            assert (got & ((1 << bits) - 1) == want[:, 2 * part : 2 * part + 2]).all()


@pytest.mark.parametrize("scale_name", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["int8", "float8_e5m2", "int4", "uint2"])
def test_rows_of_every_scale(name: str, scale_name: str) -> None:
    """Ordinary scales beside ones that give subnormals, infinities and NaN. Rows begin within a byte."""
    scale = np.random.default_rng(5).permutation(np.arange(1 << 16, dtype=np.uint16))[:-3].view(dtype_of(scale_name))
    codes = some_codes(name, (9, scale.size))
    zeros = None if name.startswith("float") else some_codes(name, scale.shape, 3)
    dtype = dtype_of(name)
    given = codes.view(dtype), scale, None if zeros is None else zeros.view(dtype)
    for out_name in ("float32", "float16", "bfloat16") if name == "int4" else ("float32", scale_name):
        want = NUMPY.dequantize_linear(*given, axis=1, out_dtype=out_name)
        same_bits(want, xverify.dequantize_linear(*given, axis=1, out_dtype=out_name, backend="numba"))
        if bits := WIDTHS.get(name):
            packed = pack(codes, bits), scale, None if zeros is None else pack(zeros, bits)
            keywords = {"dtype": name, "shape": codes.shape, "axis": 1, "out_dtype": out_name}
            same_bits(want, xverify.dequantize_packed(*packed, **keywords, backend="numba"))


@pytest.mark.parametrize("lanes", [4, 8, 16, 32])
def test_bytes_from_within_a_byte_on(lanes: int) -> None:
    drawn = np.random.default_rng(1).integers(0, 256, 64 * (lanes + 1), np.uint8).reshape(64, lanes + 1)
    read, behind = (np.ascontiguousarray(part).reshape(-1) for part in (drawn[:, :-1], drawn[:, 1:]))
    for bits in (2, 4, 6):

        def write(builder: Any, low: Any, high: Any) -> Any:
            return memory_module.shift_down(builder, low, high, ir.Constant(ir.IntType(64), bits))  # noqa: B023

        got = applied(write, "u1", read, behind, lanes=lanes).reshape(64, lanes)
        whole = [int.from_bytes(row.tobytes(), "little") >> bits for row in drawn]
        assert [int.from_bytes(row.tobytes(), "little") for row in got] == [n % (1 << 8 * lanes) for n in whole]
