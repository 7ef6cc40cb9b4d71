"""Entries of 16 bits of the codes of a float of eight bits, looked up by AVX2's instruction, which tells sixteen codes apart.

The lowest four bits of a code are its fraction and the last bits of its exponent. Those of the exponent above them multiply a
number by a power of two, which adds to a result's exponent, all of which is in its upper byte, and the uppermost is the sign. So
one table of sixteen entries does for all codes but for those whose results are subnormal, infinite or NaN, which have tables of
their own. That it is so is not taken for granted: the entries of all codes without a sign are made first, and held against it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils

from xverify.kernels.compiled import nibbles
from xverify.kernels.compiled.codings import HalfCoding
from xverify.kernels.compiled.nibbles import BYTES, joined, moved, split
from xverify.kernels.compiled.vectors import (
    CHUNK,
    F32,
    I8,
    I16,
    I32,
    I64,
    constant,
    of_llvm,
    of_x86,
    room_for,
    shuffled,
    spread,
)

_SIXTEENS = 8
"""Of codes without a sign."""

_USUAL = 3
"""The sixteen whose table does for the others: of ones and numbers near them."""

SPECIAL = (0, 7)
"""Those of subnormal codes, and of infinities and NaN."""

_CODES = bytes(range(CHUNK * _SIXTEENS)) + bytes([0x80, *range(0xF1, 0x100)])
"""Of which entries are made: all without a sign; and with one those that may be something else than the others with a sign."""


class Sixteens(NamedTuple):
    """What AT_ONCE codes are looked up in, bytes all.

    usual: the lower and the upper bytes of the entries of a sixteen, twice. apart: by sixteen, where bits are other ones.
    added: to the upper byte, by sixteen. single: the code whose negative is something else, and where bits are other ones then.
    """

    usual: list[Any]
    apart: dict[int, list[Any]]
    added: Any
    single: list[Any]


def is_there() -> bool:
    """Whether the processor that Numba compiles for has the instruction."""
    return nibbles.is_there()


def entries(builder: Any, entries_of: Callable[[Any], Any]) -> list[Any]:
    """What the tables are made of. entries_of: CHUNK entries of so many codes, both vectors."""
    codes = cgutils.global_constant(builder, "sixteens", cgutils.make_bytearray(_CODES))
    codes = builder.bitcast(codes, ir.VectorType(I8, CHUNK).as_pointer())
    count = len(_CODES) // CHUNK
    room = room_for(builder, ir.VectorType(I16, CHUNK), count)
    with cgutils.for_range(builder, ir.Constant(I64, count)) as loop:
        code = builder.load(builder.gep(codes, [loop.index]), align=1)
        builder.store(entries_of(code), builder.gep(room, [ir.Constant(I32, 0), loop.index]))
    return [builder.load(builder.gep(room, [ir.Constant(I32, 0), ir.Constant(I32, i)])) for i in range(count)]


def choices(out: Any, coding: Any) -> tuple[tuple[int, ...], ...]:
    """Which sixteens have tables of their own, as `tables` is to be asked one time after the other.

    out, coding: Numba's types of an entry, and of the fields that tell a type. Beside the special ones they are of subnormal
    results: float16 has not many more exponents than floats of eight bits.
    """
    if out == types.int16:
        return (SPECIAL,)
    # With more of them others are as quick, but for codes that are not read by way of float16.
    return (SPECIAL, (0, 1, 7)) if coding.count == len(HalfCoding._fields) else ((0, 1, 2, 7),)


def tables(builder: Any, made: list[Any], apart: tuple[int, ...]) -> tuple[Sixteens, Any]:
    """The tables, and whether they give every entry, where nothing but 0 is subtracted from numbers. made: by `entries`.

    The result of a finite number with a sign is that of the other with a sign. One code may be an exception: -0, which may be
    NaN, or the last, since NaN may have no sign.
    """
    *sixteens, negatives = made
    usual = sixteens[_USUAL]
    step = builder.extract_element(builder.sub(sixteens[_USUAL + 1], usual), ir.Constant(I32, 0))
    others = [spread(builder, builder.and_(step, ir.Constant(I16, 0xFF)), usual)]
    for sixteen in set(range(_SIXTEENS)) - set(apart):
        steps = builder.mul(spread(builder, step, usual), constant(usual.type, sixteen - _USUAL))
        others.append(builder.xor(sixteens[sixteen], builder.add(usual, steps)))
    signed = shuffled(builder, sixteens[0], sixteens[-1], [0, *range(CHUNK + 1, 2 * CHUNK)])
    other = builder.xor(negatives, builder.xor(signed, constant(usual.type, 0x8000)))
    single = [builder.extract_element(other, ir.Constant(I32, place)) for place in (0, CHUNK - 1)]
    between = ir.Constant(usual.type, [0, *[0xFFFF] * (CHUNK - 2), 0])
    others.append(builder.and_(other, between))
    bits = builder.bitcast(reduce(builder.or_, others), ir.IntType(16 * CHUNK))
    first, last = (builder.icmp_unsigned("!=", one, ir.Constant(I16, 0)) for one in single)
    holds = builder.icmp_unsigned("==", bits, ir.Constant(bits.type, 0))
    holds = builder.and_(holds, builder.not_(builder.and_(first, last)))
    code = builder.select(first, ir.Constant(I8, 0x80), ir.Constant(I8, 0xFF))
    either = builder.or_(*single)
    found = Sixteens(
        split(builder, usual),
        {sixteen: split(builder, builder.xor(sixteens[sixteen], usual)) for sixteen in apart},
        _added(builder, _upper(builder, step), apart),
        [_everywhere(builder, byte) for byte in (code, builder.trunc(either, I8), _upper(builder, either))],
    )
    return found, holds


def looked_up(builder: Any, sixteens: Sixteens, code: Any) -> list[Any]:
    """The entries of AT_ONCE codes, in two vectors."""
    return joined(builder, *_bytes(builder, sixteens, moved(builder, code)))


def upper_halves(builder: Any, sixteens: Sixteens, code: Any) -> list[Any]:
    """The float32 of AT_ONCE codes, CHUNK in a vector: their entries, and zeros below.

    Of each two entries that are beside each other one is moved up, and the other stays. So codes are moved first to where they
    come out in order.
    """
    fours = builder.bitcast(code, ir.VectorType(I32, 8))
    code = builder.bitcast(shuffled(builder, fours, fours, [0, 2, 4, 6, 1, 3, 5, 7]), BYTES)
    within = [start + 4 * half + i for start in (0, 8) for i in range(4) for half in (0, 1)]
    code = shuffled(builder, code, code, [half + place for half in (0, CHUNK) for place in within])
    singles = ir.VectorType(I32, 8)
    found = []
    for entries in joined(builder, *_bytes(builder, sixteens, code)):
        both = builder.bitcast(entries, singles)
        first = builder.shl(both, constant(singles, 16))
        last = builder.and_(both, constant(singles, 0xFFFF0000))
        found.append(builder.bitcast(shuffled(builder, first, last, range(CHUNK)), ir.VectorType(F32, CHUNK)))
    return found


def _bytes(builder: Any, sixteens: Sixteens, code: Any) -> list[Any]:
    """The lower and the upper bytes of codes' entries."""
    magnitude = builder.and_(code, constant(BYTES, 0x7F))
    lower, upper = (_found(builder, part, magnitude) for part in sixteens.usual)
    for sixteen, parts in sixteens.apart.items():
        place = _within(builder, magnitude, sixteen)
        lower, upper = (
            builder.xor(bits, _found(builder, part, place)) for bits, part in zip((lower, upper), parts, strict=True)
        )
    above = builder.bitcast(code, ir.VectorType(I16, CHUNK))
    above = builder.bitcast(builder.lshr(above, constant(above.type, 4)), BYTES)
    upper = builder.add(upper, _found(builder, sixteens.added, builder.and_(above, constant(BYTES, CHUNK - 1))))
    single, *other = sixteens.single
    is_single = builder.sext(builder.icmp_unsigned("==", code, single), BYTES)
    return [builder.xor(bits, builder.and_(is_single, byte)) for bits, byte in zip((lower, upper), other, strict=True)]


def registers(sixteens: Sixteens) -> list[Any]:
    """All that it holds, in one list."""
    return [
        *sixteens.usual,
        *(part for parts in sixteens.apart.values() for part in parts),
        sixteens.added,
        *sixteens.single,
    ]


def number_of_registers(apart: tuple[int, ...]) -> int:
    """How many `registers` gives. apart: as for `tables`."""
    return 2 + 2 * len(apart) + 4


def of_registers(held: list[Any], apart: tuple[int, ...]) -> Sixteens:
    """The tables of which `registers` gave that. apart: as for `tables`."""
    first, second, *others, added, code, lower, upper = held
    pairs = zip(others[::2], others[1::2], strict=True)
    return Sixteens([first, second], dict(zip(apart, map(list, pairs), strict=True)), added, [code, lower, upper])


def _found(builder: Any, table: Any, place: Any) -> Any:
    """Bytes by the lowest four bits of places; 0 where the highest is set."""
    return of_x86(builder, "avx2.pshuf.b", BYTES, table, place)


def _within(builder: Any, magnitude: Any, sixteen: int) -> Any:
    """Of codes of one sixteen, without their sign, the places in it; of others something with the highest bit set."""
    before = builder.sub(magnitude, constant(BYTES, CHUNK * sixteen))
    if sixteen == _SIXTEENS - 1:  # what is before it is negative, and nothing is behind it
        return before
    return of_llvm(builder, "uadd.sat", before, constant(BYTES, 0x80 - CHUNK))


def _added(builder: Any, step: Any, apart: tuple[int, ...]) -> Any:
    """What is added to the upper byte of an entry, by sixteen, twice: a step for each further power of two, and the sign."""
    steps = [0 if sixteen in apart else sixteen - _USUAL for sixteen in range(_SIXTEENS)]
    added = builder.mul(_everywhere(builder, step), ir.Constant(BYTES, steps * 4))
    return builder.add(added, ir.Constant(BYTES, ([0] * _SIXTEENS + [0x80] * _SIXTEENS) * 2))


def _upper(builder: Any, entry: Any) -> Any:
    return builder.trunc(builder.lshr(entry, ir.Constant(I16, 8)), I8)


def _everywhere(builder: Any, byte: Any) -> Any:
    return spread(builder, byte, ir.Constant(BYTES, None))
