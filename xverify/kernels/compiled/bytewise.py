"""256 entries of 16 bits in registers, looked up by bytes.

The lower bytes fill four registers of 64 bytes, the upper ones four more; one instruction takes 64 bytes from two of them by
their indices. (The one that takes 16 bits at a time is half as quick on some processors.)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

from llvmlite import ir
from numba.core import cgutils

from xverify.kernels.compiled.vectors import CHUNK, I8, I16, I32, I64, constant, has, of_x86, room_for, shuffled, spread

AT_ONCE = 64
"""Codes that are looked up together, and entries in a register of bytes."""

CODES = 256

BYTES = ir.VectorType(I8, AT_ONCE)
"""A register."""

_ENTRIES = ir.VectorType(I16, CHUNK)


class Table(NamedTuple):
    """The bytes of 256 entries, AT_ONCE in a vector each."""

    lower: list[Any]
    upper: list[Any]


def is_quick() -> bool:
    """Whether the processor that Numba compiles for has the instruction."""
    return has("avx512vbmi")


def computed(builder: Any, entries_of: Callable[[Any], Any]) -> Any:
    """The address of what is computed of every code. entries_of: CHUNK entries of so many codes, both vectors."""
    entries = room_for(builder, _ENTRIES, CODES // CHUNK)
    upward = ir.Constant(ir.VectorType(I8, CHUNK), list(range(CHUNK)))
    with cgutils.for_range(builder, ir.Constant(I64, CODES // CHUNK)) as loop:
        from_here = builder.trunc(builder.mul(loop.index, ir.Constant(I64, CHUNK)), I8)
        code = builder.add(upward, spread(builder, from_here, upward))
        builder.store(entries_of(code), builder.gep(entries, [ir.Constant(I32, 0), loop.index]))
    return entries


def read(builder: Any, start: Any) -> Table:
    """The table whose entries are in memory, from that address on.

    They are read as wide as they were written a moment ago: other reads would wait for the writes, and these for all that is
    being stored past the caches.
    """
    start = builder.bitcast(start, _ENTRIES.as_pointer())
    written = [builder.load(builder.gep(start, [ir.Constant(I64, i)]), align=2) for i in range(CODES // CHUNK)]
    while len(written) > CODES // AT_ONCE:
        pairs = zip(written[::2], written[1::2], strict=True)
        written = [shuffled(builder, *pair, range(2 * pair[0].type.count)) for pair in pairs]
    both = [builder.bitcast(entries, ir.VectorType(I8, 2 * AT_ONCE)) for entries in written]
    lower, upper = ([shuffled(builder, part, part, range(i, 2 * AT_ONCE, 2)) for part in both] for i in (0, 1))
    return Table(lower, upper)


def looked_up(builder: Any, entries: Table, code: Any, is_mirrored: Any = None) -> list[Any]:
    """The lower and the upper bytes of AT_ONCE codes' entries. is_mirrored: see there; None where it is not known."""
    if is_mirrored is None:
        return _all_bits(builder, entries, code)
    with builder.if_else(is_mirrored, likely=True) as (mirrored, otherwise):
        with mirrored:
            lower, upper = (_seven_bits(builder, part, 0, code) for part in entries)
            upper = builder.or_(upper, builder.and_(code, constant(code.type, 128)))
            found, of_found = [lower, upper], builder.block
        with otherwise:
            other, of_other = _all_bits(builder, entries, code), builder.block
    result = []
    for one, another in zip(found, other, strict=True):
        result.append(builder.phi(BYTES))
        result[-1].add_incoming(one, of_found)
        result[-1].add_incoming(another, of_other)
    return result


def is_mirrored(builder: Any, entries: Table) -> Any:
    """Whether the entries of the upper 128 codes are those of the others, each with a sign: half of the table then does."""
    apart = [
        builder.xor(builder.xor(part[i], part[i + 2]), constant(BYTES, sign))
        for part, sign in zip(entries, (0, 128), strict=True)
        for i in (0, 1)
    ]
    words = builder.bitcast(reduce(builder.or_, apart), ir.IntType(8 * AT_ONCE))
    return builder.icmp_unsigned("==", words, ir.Constant(words.type, 0))


def _all_bits(builder: Any, entries: Table, code: Any) -> list[Any]:
    in_upper_half = builder.icmp_signed("<", code, constant(code.type, 0))
    return [
        builder.select(in_upper_half, _seven_bits(builder, part, 2, code), _seven_bits(builder, part, 0, code))
        for part in entries
    ]


def _seven_bits(builder: Any, part: list[Any], first: int, code: Any) -> Any:
    """Bytes of two registers, by seven bits of each code."""
    return of_x86(builder, "avx512.vpermi2var.qi.512", BYTES, part[first], code, part[first + 1])
