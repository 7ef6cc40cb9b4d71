"""Results of all codes in registers: an output of 16 bits costs more to compute than to look up.

The lower bytes of 256 results fill four registers of 64 bytes, the upper ones four more; one instruction takes 64 bytes from
two of them by their indices. (The one that takes 16 bits at a time is half as quick on some processors.)
Nothing here is a function that Numba calls: one counts its references to arrays by instructions that wait until all that is being
stored past the caches has arrived.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from xverify.kernels.compiled.chunks import Kinds, values
from xverify.kernels.compiled.memory import load, store
from xverify.kernels.compiled.scalars import LINE, Generated, data_of
from xverify.kernels.compiled.vectors import CHUNK, I8, I16, I32, I64, constant, has, of_x86, spread

LONG = 4096
"""Elements with one scale from which on their results are looked up, so that to compute the 256 of all codes is little beside."""

_AT_ONCE = 64
"""Codes that are looked up together, and entries in a register of bytes."""

_CODES = 256


def pays(codes: Any, out: Any) -> bool:
    """Whether results are looked up: Numba's types of elements."""
    return bool(codes == types.uint8 and out.bitwidth == 16 and has("avx512vbmi"))


@intrinsic  # type: ignore[untyped-decorator]
def put_long(
    context: Any,
    x: Any,
    first: Any,
    count: Any,
    out: Any,
    to: Any,
    coding: Any,
    scale: Any,
    offset: Any,
    divides: Any,
    scales: Any,
    offsets: Any,
    streamed: Any,
) -> Generated:
    """`chunks.put_chunk` of as many of ``count`` elements as it pays for: returns how many."""

    kinds = Kinds(x, out, coding, divides, scales, offsets)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        codes, first, count_, result, to, coding_, scale_, offset_, *_, streamed_ = arguments
        if not pays(x.dtype, out.dtype):
            return ir.Constant(I64, 0)
        vector = ir.VectorType(I16, CHUNK)
        table = cgutils.alloca_once(builder, ir.ArrayType(vector, _CODES // CHUNK))
        done = cgutils.alloca_once_value(builder, ir.Constant(I64, 0))
        with builder.if_then(builder.icmp_signed(">=", count_, ir.Constant(I64, LONG))):
            upward = ir.Constant(ir.VectorType(I8, CHUNK), list(range(CHUNK)))
            with cgutils.for_range(builder, ir.Constant(I64, _CODES // CHUNK)) as loop:
                from_here = builder.trunc(builder.mul(loop.index, ir.Constant(I64, CHUNK)), I8)
                code = builder.add(upward, spread(builder, from_here, upward))
                entries = values(builder, code, coding_, scale_, offset_, kinds)
                builder.store(entries, builder.gep(table, [ir.Constant(I32, 0), loop.index]))
            start = builder.bitcast(table, vector.as_pointer())
            places = (x, codes, first), (out, result, to)
            builder.store(_look_up(context, builder, _table(builder, start), *places, count_, streamed_), done)
        return builder.load(done)

    return types.intp(
        x, types.intp, types.intp, out, types.intp, coding, scale, scale, divides, scales, offsets, types.boolean
    ), generate


@intrinsic  # type: ignore[untyped-decorator]
def put_entries(
    context: Any, x: Any, first: Any, count: Any, out: Any, to: Any, table: Any, streamed: Any
) -> Generated:
    """out[to + i] = table[x[first + i]] for as many of ``count`` elements as can be: returns how many.

    streamed: as for `chunks.put_chunk`.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        codes, first, count_, result, to, entries, streamed_ = arguments
        if not pays(x.dtype, out.dtype):
            return ir.Constant(I64, 0)
        start = data_of(context, builder, table, entries, ir.Constant(I64, 0))
        parts = _table(builder, builder.bitcast(start, ir.VectorType(I16, CHUNK).as_pointer()))
        return _look_up(context, builder, parts, (x, codes, first), (out, result, to), count_, streamed_)

    return types.intp(x, types.intp, types.intp, out, types.intp, table, types.boolean), generate


class _Table(NamedTuple):
    """The bytes of 256 entries, 64 in a vector each."""

    lower: list[Any]
    upper: list[Any]


def _table(builder: Any, start: Any) -> _Table:
    """A table's entries, read as wide as they were written a moment ago: other reads would wait for the writes, and these for all
    that is being stored past the caches."""
    written = [builder.load(builder.gep(start, [ir.Constant(I64, i)]), align=2) for i in range(_CODES // CHUNK)]
    while len(written) > _CODES // _AT_ONCE:
        pairs = zip(written[::2], written[1::2], strict=True)
        written = [_shuffled(builder, *pair, range(2 * pair[0].type.count)) for pair in pairs]
    bytes_of = [builder.bitcast(entries, ir.VectorType(I8, 2 * _AT_ONCE)) for entries in written]
    lower, upper = ([_shuffled(builder, part, part, range(i, 2 * _AT_ONCE, 2)) for part in bytes_of] for i in (0, 1))
    return _Table(lower, upper)


def _look_up(context: Any, builder: Any, table: _Table, x: Any, out: Any, count: Any, streamed: Any) -> Any:
    """Put the entries for ``count`` codes, or for as many as make whole vectors of 64, and give their number.

    x, out: Numba's type, the array, and the first place in it. Past the caches only whole lines of them are stored.
    """
    of_x, codes, first = x
    of_out, result, to = out
    begin = builder.ptrtoint(data_of(context, builder, of_out, result, to), I64)
    is_line = builder.icmp_unsigned("==", builder.and_(begin, ir.Constant(I64, LINE - 1)), ir.Constant(I64, 0))
    streamed = builder.and_(streamed, is_line)
    steps = builder.udiv(count, ir.Constant(I64, _AT_ONCE))
    with cgutils.for_range(builder, steps) as loop:
        done = builder.mul(loop.index, ir.Constant(I64, _AT_ONCE))
        code = load(context, builder, of_x, codes, builder.add(first, done), count=_AT_ONCE)
        for number, found in enumerate(_entries(builder, table, code)):
            place = builder.add(to, builder.add(done, ir.Constant(I64, number * found.type.count)))
            store(context, builder, found, data_of(context, builder, of_out, result, place), streamed)
    return builder.mul(steps, ir.Constant(I64, _AT_ONCE))


def _entries(builder: Any, table: _Table, code: Any) -> list[Any]:
    """The entries of 64 codes, in two vectors.

    Bytes are joined within the quarters of a register, the first eight of each and the last eight; so codes are moved first,
    eight together, to where their entries then come out in order.
    """
    eights = builder.bitcast(code, ir.VectorType(I64, 8))
    code = builder.bitcast(_shuffled(builder, eights, eights, [0, 4, 1, 5, 2, 6, 3, 7]), code.type)
    in_upper_half = builder.icmp_signed("<", code, constant(code.type, 0))
    lower, upper = (_bytes(builder, part, code, in_upper_half) for part in table)
    joined = []
    for start in (0, 8):
        places = [quarter + start + i for quarter in range(0, _AT_ONCE, 16) for i in range(8)]
        both = [place + of for place in places for of in (0, _AT_ONCE)]
        joined.append(builder.bitcast(_shuffled(builder, lower, upper, both), ir.VectorType(I16, 32)))
    return joined


def _bytes(builder: Any, entries: list[Any], code: Any, in_upper_half: Any) -> Any:
    """One byte for each code, of 256: of each two vectors by seven bits of the code, then by the eighth."""
    low, high = (
        of_x86(builder, "avx512.vpermi2var.qi.512", code.type, entries[i], code, entries[i + 1]) for i in (0, 2)
    )
    return builder.select(in_upper_half, high, low)


def _shuffled(builder: Any, one: Any, other: Any, places: Iterable[int]) -> Any:
    """Elements of two vectors one after the other, by their places."""
    wanted = list(places)
    return builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(I32, len(wanted)), wanted))
