"""Lookup of results and of code values: where loops use it, and the entry for each byte."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernel_arrays import Array, all_codes, coded, drawn, dtype_of, same_bits

pytest.importorskip("numba")

from compiled_alone import applied
from llvmlite import ir
from numba import types

import xverify
from xverify.kernels.compiled import lookup, tiles
from xverify.kernels.compiled.decode import Float16Coding, FloatCoding, IntegerCoding, coding
from xverify.kernels.compiled.linear import look_up

INTEGER, HALF, FLOAT = (
    types.UniTuple(types.int32, len(kind._fields)) for kind in (IntegerCoding, Float16Coding, FloatCoding)
)


@pytest.mark.parametrize("features", [(), ("avx2",), ("avx2", "avx512vbmi")])
def test_where_results_and_numbers_are_looked_up(monkeypatch: pytest.MonkeyPatch, features: tuple[str, ...]) -> None:
    for module in (lookup,):
        monkeypatch.setattr(module, "has", features.__contains__)
    is_quick = "avx512vbmi" in features
    for codes in (types.uint8, types.uint16, types.int32):
        for out in (types.float32, types.uint16, types.int16):
            is_short = out != types.float32
            assert lookup.looks_up_results(codes, out) is (is_quick and codes == types.uint8 and is_short)
            for fields, pays in (
                (INTEGER, False),
                (HALF, is_quick or ("avx2" in features and is_short)),
                (FLOAT, "avx2" in features),
            ):
                assert lookup.looks_up_values(codes, out, fields) is (pays and codes == types.uint8)


@pytest.mark.parametrize("features", [(), ("avx2",), ("avx2", "avx512vbmi")])
def test_where_results_of_few_codes_are_looked_up(monkeypatch: pytest.MonkeyPatch, features: tuple[str, ...]) -> None:
    """The processor looks up 16 bytes at once and not 64."""
    for module in (lookup,):
        monkeypatch.setattr(module, "has", features.__contains__)
    for codes in (types.uint8, types.uint16, types.int32):
        for out in (types.float32, types.uint16, types.int16):
            wanted = features == ("avx2",) and codes == types.uint8 and out != types.float32
            assert lookup.looks_up_narrow(codes, out) is wanted


@pytest.mark.skipif(not lookup.has_byte_shuffle(), reason="this processor has no such instruction")
def test_entries_of_few_codes() -> None:
    """Each bit of each entry counts, at every position."""
    rng = np.random.default_rng(9)
    entries, codes = rng.integers(0, 1 << 16, 16).astype(np.uint16), rng.integers(0, 16, 1 << 10).astype(np.uint8)

    def write(builder: Any, code: Any) -> Any:
        given = ir.Constant(ir.VectorType(ir.IntType(16), 16), entries.tolist())
        found = lookup.shuffle_narrow(builder, given, code)
        return builder.shuffle_vector(*found, ir.Constant(ir.VectorType(ir.IntType(32), 32), list(range(32))))

    assert (applied(write, "u2", codes, lanes=lookup.CODES_256) == entries[codes]).all()


ROOM = ir.IntType(16).as_pointer()
SIXTEENS = pytest.mark.skipif(not lookup.has_float_shuffle(), reason="this processor has no such instruction")
FREE = (0, 1, 7)
"""Sixteens of codes that may have tables of their own."""


def entries_at(builder: Any, address: Any, code: Any) -> Any:
    """Load the entries of a vector of codes from an array at an address."""
    start, result = builder.inttoptr(address, ROOM), ir.Constant(ir.VectorType(ir.IntType(16), 16), ir.Undefined)
    for place in (ir.Constant(ir.IntType(32), i) for i in range(16)):
        at = builder.gep(start, [builder.zext(builder.extract_element(code, place), ir.IntType(64))])
        result = builder.insert_element(result, builder.load(at), place)
    return result


def entries_of_floats(single: int) -> Array:
    """Return the entries of all codes, of which ``single`` differs in more than its sign.

    The sixteens of FREE and one other have random entries. The rest follow from that one.
    """
    rng = np.random.default_rng(11)
    entries = rng.integers(0, 1 << 15, (8, 16)).astype(np.uint16)
    for sixteen in set(range(8)) - {*FREE, 3}:
        entries[sixteen] = entries[3] + np.uint16((sixteen - 3) * 0x0300 % (1 << 16))
    both = np.concatenate([entries.ravel(), entries.ravel() ^ 0x8000])
    both[single] ^= 0xC9A7
    return both


@SIXTEENS
@pytest.mark.parametrize("single", [0x80, 0xFF])
def test_entries_of_float_codes(single: int) -> None:
    entries = entries_of_floats(single)
    codes = np.resize(np.random.default_rng(12).permutation(256).astype(np.uint8), 1 << 9)

    def write(builder: Any, code: Any) -> Any:
        address = ir.Constant(ir.IntType(64), entries.ctypes.data)
        made = lookup.shuffle_entries(builder, lambda some: entries_at(builder, address, some))
        found = lookup.shuffle_floats(builder, lookup.shuffle_tables(builder, made, FREE)[0], code)
        return builder.shuffle_vector(*found, ir.Constant(ir.VectorType(ir.IntType(32), 32), list(range(32))))

    assert (applied(write, "u2", codes, lanes=lookup.CODES_256) == entries[codes]).all()


def which_hold(variants: Array, apart: tuple[int, ...]) -> list[bool]:
    """Return, for each array of entries of all codes, whether `lookup.shuffle_tables` reproduces it."""

    def write(builder: Any, address: Any) -> Any:
        made = lookup.shuffle_entries(builder, lambda code: entries_at(builder, address, code))
        return builder.zext(lookup.shuffle_tables(builder, made, apart)[1], ir.IntType(8))

    size = np.uint64(variants.strides[0])
    addresses = np.uint64(variants.ctypes.data) + size * np.arange(len(variants), dtype=np.uint64)
    return applied(write, "u1", addresses, lanes=1).astype(bool).tolist()  # type: ignore[no-any-return]


@SIXTEENS
def test_entries_that_do_not_follow_are_not_looked_up() -> None:
    """Every bit of an entry counts, except in sixteens and in one code that have their own tables."""
    right = np.stack([entries_of_floats(0x80), entries_of_floats(0xFF)])
    assert all(which_hold(right, FREE))
    follows = [16 * sixteen + place for sixteen in (2, 3, 4, 5, 6) for place in range(16)] + [*range(0xF1, 0xFF)]
    other = [changed(right[0], {code: 1 << bit}) for code in follows for bit in range(16)]
    assert not any(which_hold(np.stack(other), FREE))
    own = [changed(right[0], {code: bits, code | 0x80: bits}) for code in (0, 17, 127) for bits in (1, 0x100)]
    assert all(which_hold(np.stack(own), FREE))
    # Two codes with tables of their own are one too many. Steps must change upper bytes only.
    two = [changed(right[0], {0xFF: 1}), changed(right[1], {0x80: 1 << 15})]
    for step in (1, 0x80):
        two.append(right[0].copy())
        for sixteen in (2, 4, 5, 6):
            two[-1][16 * sixteen : 16 * sixteen + 16] += np.uint16((sixteen - 3) * step % (1 << 16))
    assert not any(which_hold(np.stack(two), FREE))


@SIXTEENS
@pytest.mark.parametrize(
    ("name", "out", "fields", "holding"),
    [
        ("float8_e4m3fn", "bfloat16", HALF, [True]),
        ("float8_e5m2fnuz", "bfloat16", FLOAT, [True]),
        ("float8_e4m3fn", "float16", HALF, [True, True]),
        ("float8_e5m2", "float16", HALF, [False, True]),
        ("float8_e4m3fn", "float16", FLOAT, [True]),
        ("float8_e5m2fnuz", "float16", FLOAT, [True]),
    ],
)
def test_results_of_usual_scales_are_looked_up(name: str, out: str, fields: Any, holding: list[bool]) -> None:
    """Scales of about 2^-7, as weights have. The loop tries the smallest tables first."""
    x, scale = np.arange(256, dtype=np.uint8).view(dtype_of(name)), np.array(0.0123).astype(dtype_of(out))
    entries = xverify.dequantize_linear(x, scale, backend="numba").view(np.uint16)[None]
    choices = lookup.own_blocks({"float16": types.uint16, "bfloat16": types.int16}[out], fields)
    assert [which_hold(entries, apart)[0] for apart in choices] == holding


def changed(entries: Array, bits: dict[int, int]) -> Array:
    other = entries.copy()
    for code, flipped in bits.items():
        other[code] ^= flipped
    return other


@pytest.mark.parametrize("out", ["float32", "float16", "bfloat16"])
def test_an_output_of_each_byte(out: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengths around one vector and around one thread's share, also past the caches.

    The output has spare room, so that a loop that writes too far fails here and not by chance later.
    """
    entries, size = drawn(out, (257,), 7)[1:], 3 << 19  # aligned to its elements only
    x = drawn("uint8", (2 * size + 80,), 8)
    for streamed in (False, True):
        monkeypatch.setattr(tiles, "leaves_caches", lambda read, written, answer=streamed: answer)
        for count in (1, 31, 32, 33, 95, 1000, size - 1, size, size + 5):
            got = np.full_like(entries, 1, shape=2 * count + 64)
            look_up(got[:count], x[:count], entries, None, 1)
            same_bits(entries[x[:count]], got[:count])
            assert (got[count:] == 1).all()


LOOKS_UP = pytest.mark.skipif(not lookup.has_byte_lookup(), reason="this processor computes them")


def a_table(builder: Any, entries: Array) -> lookup.ByteTable:
    return lookup.read_table(builder, builder.inttoptr(ir.Constant(ir.IntType(64), entries.ctypes.data), ROOM))


@LOOKS_UP
@pytest.mark.parametrize("part", [0, 1], ids=["lower", "upper"])
@pytest.mark.parametrize("mirrored", [None, 0, 1])
def test_bytes_of_entries(part: int, mirrored: int | None) -> None:
    """With mirrored entries the loop does not read the upper half."""
    entries = np.random.default_rng(4).integers(0, 1 << 15, 256).astype(np.uint16)
    codes = np.random.default_rng(5).integers(0, 256, 1 << 10).astype(np.uint8)
    is_mirrored = None if mirrored is None else ir.Constant(ir.IntType(1), mirrored)
    got = applied(
        lambda b, code: lookup.look_up_bytes(b, a_table(b, entries), code, is_mirrored)[part], "u1", codes, lanes=64
    )
    want = entries[codes % 128] | (codes & 128).astype(np.uint16) << 8 if mirrored else entries[codes]
    assert (got == want.view(np.uint8)[part::2]).all()


@LOOKS_UP
def test_entries_that_differ_in_their_signs() -> None:
    """Every bit of every entry counts."""

    def says(entries: Array) -> int:
        def write(builder: Any, code: Any) -> Any:
            return builder.zext(lookup.is_mirrored(builder, a_table(builder, entries)), ir.IntType(8))

        return int(applied(write, "u1", np.zeros(1, np.uint8), lanes=1)[0])

    lower = np.random.default_rng(6).integers(0, 1 << 15, 128).astype(np.uint16)
    entries = np.concatenate([lower, lower | 0x8000])
    assert says(entries) == 1
    for place in (0, 63, 64, 127, 128, 191, 192, 255):
        for bit in (0, 7, 8, 15):
            other = entries.copy()
            other[place] ^= 1 << bit
            assert says(other) == 0


FEW_CODES = pytest.param("float4_e2m1fn", marks=LOOKS_UP)
"""A type whose sixteen codes one instruction selects: results are looked up, not code values."""


@pytest.mark.skipif(not (lookup.has_byte_lookup() or lookup.has_float_shuffle()), reason="this processor computes them")
@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", FEW_CODES])
def test_numbers_of_every_code(name: str) -> None:
    """All codes, in each group that is looked up together."""
    x = np.random.default_rng(7).permutation(np.resize(all_codes(name), 512).view(np.uint8))
    made = coding(dtype_of(name))
    fields = ir.Constant(
        ir.ArrayType(ir.IntType(32), len(made.fields)), np.array(made.fields, np.int64).astype(np.int32).tolist()
    )

    def write(chunk: int) -> Callable[[Any, Any], Any]:
        def numbers_of_chunk(builder: Any, code: Any) -> Any:
            address = lookup.make_value_table(builder, fields)
            own = lookup.look_up_values(builder, address, code)[chunk]
            return builder.shuffle_vector(
                own, own, ir.Constant(ir.VectorType(ir.IntType(32), 64), [i % 16 for i in range(64)])
            )

        return numbers_of_chunk

    want = coded(name, x).astype(np.float32)
    for chunk in range(4):
        got = applied(write(chunk), "f4", x, lanes=64).reshape(-1, 64)[:, :16]
        same_bits(want.reshape(-1, 4, 16)[:, chunk].copy(), got.copy())
