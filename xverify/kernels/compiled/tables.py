"""Results of all codes in registers: an output of 16 bits costs more to compute than to look up.

256 results of 16 bits fill eight registers of 64 bytes, and one instruction takes 32 elements from two of them by their indices.
Nothing here is a function that Numba calls: one counts its references to arrays by instructions that wait until all that is being
stored past the caches has arrived.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from xverify.kernels.compiled.chunks import Kinds, values
from xverify.kernels.compiled.memory import load, store
from xverify.kernels.compiled.scalars import Generated, data_of
from xverify.kernels.compiled.vectors import CHUNK, I8, I16, I32, I64, constant, has, of_x86, spread

LONG = 4096
"""Elements with one scale from which on their results are looked up, so that to compute the 256 of all codes is little beside."""

_PAIR = 2 * CHUNK
_CODES = 256


def pays(codes: Any, out: Any) -> bool:
    """Whether results are looked up: Numba's types of elements."""
    return bool(codes == types.uint8 and out.bitwidth == 16 and has("avx512bw"))


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
            builder.store(_look_up(context, builder, _parts(builder, start), *places, count_, streamed_), done)
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
        parts = _parts(builder, builder.bitcast(start, ir.VectorType(I16, CHUNK).as_pointer()))
        return _look_up(context, builder, parts, (x, codes, first), (out, result, to), count_, streamed_)

    return types.intp(x, types.intp, types.intp, out, types.intp, table, types.boolean), generate


def _parts(builder: Any, start: Any) -> list[Any]:
    """Eight vectors of a table's entries, read as wide as they were written a moment ago: other reads would wait for the writes,
    and these for all that is being stored past the caches."""
    written = [builder.load(builder.gep(start, [ir.Constant(I64, i)]), align=2) for i in range(_CODES // CHUNK)]
    every = ir.Constant(ir.VectorType(I32, _PAIR), list(range(_PAIR)))
    return [builder.shuffle_vector(written[i], written[i + 1], every) for i in range(0, len(written), 2)]


def _look_up(context: Any, builder: Any, parts: list[Any], x: Any, out: Any, count: Any, streamed: Any) -> Any:
    """Put the entries for ``count`` codes, or for as many as make whole pairs of chunks, and give their number.

    x, out: Numba's type, the array, and the first place in it.
    """
    of_x, codes, first = x
    of_out, result, to = out
    pairs = builder.udiv(count, ir.Constant(I64, _PAIR))
    halves = [ir.Constant(ir.VectorType(I32, CHUNK), list(range(i, i + CHUNK))) for i in (0, CHUNK)]
    with cgutils.for_range(builder, pairs) as loop:
        done = builder.mul(loop.index, ir.Constant(I64, _PAIR))
        code = load(context, builder, of_x, codes, builder.add(first, done), count=_PAIR)
        found = _entries(builder, parts, builder.zext(code, parts[0].type))
        for number, half in enumerate(halves):
            place = builder.add(to, builder.add(done, ir.Constant(I64, number * CHUNK)))
            address = data_of(context, builder, of_out, result, place)
            store(context, builder, builder.shuffle_vector(found, found, half), address, streamed)
    return builder.mul(pairs, ir.Constant(I64, _PAIR))


def _entries(builder: Any, parts: list[Any], code: Any) -> Any:
    """The entry of each code, of a table in eight parts: of each two of them by six bits of the code, then by the others."""

    def is_set(bit: int) -> Any:
        return builder.icmp_unsigned("!=", builder.and_(code, constant(code.type, bit)), constant(code.type, 0))

    found = [
        of_x86(builder, "avx512.vpermi2var.hi.512", code.type, low, code, high)
        for low, high in zip(parts[::2], parts[1::2], strict=True)
    ]
    in_second, in_upper = is_set(64), is_set(128)
    low, high = (builder.select(in_second, found[i + 1], found[i]) for i in (0, 2))
    return builder.select(in_upper, high, low)
