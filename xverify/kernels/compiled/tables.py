"""Results of all codes in registers: an output of 16 bits costs more to compute than to look up.

Nothing here is a function that Numba calls: one counts its references to arrays by instructions that wait until all that is being
stored past the caches has arrived.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from xverify.kernels.compiled import decoding, nibbles, sixteens
from xverify.kernels.compiled.bytewise import AT_ONCE, Table, computed, is_quick, looked_up, read
from xverify.kernels.compiled.memory import fetch_ahead, load, store
from xverify.kernels.compiled.results import Kinds, few_pays, values
from xverify.kernels.compiled.scalars import Generated, data_of
from xverify.kernels.compiled.vectors import CHUNK, I8, I16, I64, constant, shuffled

LONG = 4096
"""Elements with one scale from which on their results are looked up, so that to compute the 256 of all codes is little beside."""


def pays(codes: Any, out: Any) -> bool:
    """Whether results are looked up: Numba's types of elements."""
    return bool(codes == types.uint8 and out.bitwidth == 16 and is_quick())


@intrinsic  # type: ignore[untyped-decorator]
def put_long(
    context: Any,
    x: Any,
    out: Any,
    first: Any,
    count: Any,
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
        codes, result, first, count_, coding_, scale_, offset_, *_, streamed_ = arguments
        all_pay, few_pay = pays(x.dtype, out.dtype), few_pays(x.dtype, out.dtype)
        if not (all_pay or few_pay):
            return ir.Constant(I64, 0)

        def values_of(code: Any) -> Any:
            number = decoding.number(builder, code, coding_, scale_.type)
            return values(builder, number, scale_, offset_, kinds)

        done = cgutils.alloca_once_value(builder, ir.Constant(I64, 0))

        def look_up(way: _Way) -> None:
            places = (x, codes, first), (out, result, first)
            builder.store(_look_up(context, builder, way, *places, count_, streamed_), done)

        def look_up_floats() -> None:
            made = sixteens.entries(builder, values_of)
            for apart in sixteens.choices(out.dtype, coding):
                found, hold = sixteens.tables(builder, made, apart)
                is_open = builder.icmp_unsigned("==", builder.load(done), ir.Constant(I64, 0))
                with builder.if_then(builder.and_(hold, is_open)):
                    look_up(_for_floats(builder, found))

        with builder.if_then(builder.icmp_signed(">=", count_, ir.Constant(I64, LONG))):
            if all_pay:
                look_up(_for_all(builder, read(builder, computed(builder, values_of))))
            else:
                is_narrow = decoding.is_narrow(builder, coding_)
                with builder.if_then(is_narrow):
                    look_up(_for_few(builder, values_of))
                if decoding.is_float(coding):
                    subtracts_nothing = builder.fcmp_ordered("==", offset_, ir.Constant(offset_.type, 0.0))
                    with builder.if_then(builder.and_(builder.not_(is_narrow), subtracts_nothing)):
                        look_up_floats()
        return builder.load(done)

    return types.intp(
        x, out, types.intp, types.intp, coding, scale, scale, divides, scales, offsets, types.boolean
    ), generate


@intrinsic  # type: ignore[untyped-decorator]
def entries_multiple(context: Any, x: Any, out: Any) -> Generated:
    """Which places `put_entries` may store past the caches, as `parts` says it: 1 for all, 0 for none."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return ir.Constant(I64, int(pays(x.dtype, out.dtype)))

    return types.int64(x, out), generate


@intrinsic  # type: ignore[untyped-decorator]
def put_entries(context: Any, x: Any, out: Any, first: Any, count: Any, table: Any, streamed: Any) -> Generated:
    """out[first + i] = table[x[first + i]] for as many of ``count`` elements as can be: returns how many.

    streamed: as for `chunks.put_chunk`.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        codes, result, first, count_, entries, streamed_ = arguments
        if not pays(x.dtype, out.dtype):
            return ir.Constant(I64, 0)
        start = data_of(context, builder, table, entries, ir.Constant(I64, 0))
        way = _for_all(builder, read(builder, start))
        return _look_up(context, builder, way, (x, codes, first), (out, result, first), count_, streamed_)

    return types.intp(x, out, types.intp, types.intp, table, types.boolean), generate


class _Way(NamedTuple):
    """How the entries of ``at_once`` codes are found: entries_of gives them in two vectors, each of as many bytes."""

    at_once: int
    entries_of: Callable[[Any], list[Any]]


def _look_up(context: Any, builder: Any, way: _Way, x: Any, out: Any, count: Any, streamed: Any) -> Any:
    """Put the entries for ``count`` codes, or for as many as make whole vectors of them, and give their number.

    x, out: Numba's type, the array, and the first place in it.
    """
    of_x, codes, first = x
    of_out, result, to = out
    at_once = ir.Constant(I64, way.at_once)
    steps = builder.udiv(count, at_once)
    with cgutils.for_range(builder, steps) as loop:
        done = builder.mul(loop.index, at_once)
        fetch_ahead(context, builder, of_x, codes, builder.add(first, done), way.at_once)
        code = load(context, builder, of_x, codes, builder.add(first, done), count=way.at_once)
        for number, found in enumerate(way.entries_of(code)):
            place = builder.add(to, builder.add(done, ir.Constant(I64, number * found.type.count)))
            store(context, builder, found, data_of(context, builder, of_out, result, place), streamed)
    return builder.mul(steps, at_once)


def _for_all(builder: Any, table: Table) -> _Way:
    """That of codes of any bits."""
    return _Way(AT_ONCE, lambda code: _entries(builder, table, code))


def _for_few(builder: Any, values_of: Callable[[Any], Any]) -> _Way:
    """That of codes of four bits or fewer. values_of: the results of CHUNK codes, both vectors."""
    entries = values_of(ir.Constant(ir.VectorType(I8, CHUNK), list(range(CHUNK))))

    def entries_of(code: Any) -> list[Any]:
        # What lies above them is not theirs.
        return nibbles.looked_up(builder, entries, builder.and_(code, constant(code.type, CHUNK - 1)))

    return _Way(nibbles.AT_ONCE, entries_of)


def _for_floats(builder: Any, tables: sixteens.Sixteens) -> _Way:
    """That of codes of floats of eight bits."""
    return _Way(nibbles.AT_ONCE, lambda code: sixteens.looked_up(builder, tables, code))


def _entries(builder: Any, table: Table, code: Any) -> list[Any]:
    """The entries of 64 codes, in two vectors.

    Bytes are joined within the quarters of a register, the first eight of each and the last eight; so codes are moved first,
    eight together, to where their entries then come out in order.
    """
    eights = builder.bitcast(code, ir.VectorType(I64, 8))
    code = builder.bitcast(shuffled(builder, eights, eights, [0, 4, 1, 5, 2, 6, 3, 7]), code.type)
    lower, upper = looked_up(builder, table, code)
    joined = []
    for start in (0, 8):
        places = [quarter + start + i for quarter in range(0, AT_ONCE, 16) for i in range(8)]
        both = [place + of for place in places for of in (0, AT_ONCE)]
        joined.append(builder.bitcast(shuffled(builder, lower, upper, both), ir.VectorType(I16, 32)))
    return joined
