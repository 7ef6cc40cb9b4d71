"""What a compiled loop does to vectors of values that have a scale, and an offset, each, as LLVM instructions."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from xverify.kernels.compiled import decoding, halves
from xverify.kernels.compiled.bytewise import AT_ONCE
from xverify.kernels.compiled.chunks import chunks_at, normals_at, numbers_at, parameters_at
from xverify.kernels.compiled.kept import in_room, keep_numbers, put_in_room
from xverify.kernels.compiled.memory import fetch_ahead, first_of, load, store, store_some
from xverify.kernels.compiled.numbers import numbers_of, pays
from xverify.kernels.compiled.results import Kinds, all_of, store_two_of_row, values
from xverify.kernels.compiled.scalars import Generated, data_of
from xverify.kernels.compiled.vectors import CHUNK, I1, I64


@intrinsic  # type: ignore[untyped-decorator]
def put_chunk_of_row(
    context: Any,
    x: Any,
    out: Any,
    first: Any,
    coding: Any,
    zero: Any,
    divides: Any,
    scales: Any,
    offsets: Any,
    parameter: Any,
    streamed: Any,
) -> Generated:
    """`put_chunk` of elements that have a scale, and an offset, each: scales[parameter] and on. zero: as for `loops`."""

    kinds = Kinds(x, out, coding, divides, scales, offsets)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        *given, streamed_ = arguments
        fetch_ahead(context, builder, x, given[0], given[2], CHUNK)
        done = _of_row(context, builder, kinds, given, None)
        store(context, builder, done, data_of(context, builder, out, *given[1:3]), streamed_)
        return context.get_dummy_value()

    return types.void(x, out, types.intp, coding, zero, divides, scales, offsets, types.intp, types.boolean), generate


@intrinsic  # type: ignore[untyped-decorator]
def put_two_chunks_of_row(
    context: Any,
    x: Any,
    out: Any,
    first: Any,
    coding: Any,
    zero: Any,
    divides: Any,
    scales: Any,
    offsets: Any,
    parameter: Any,
    streamed: Any,
) -> Generated:
    """`put_chunk_of_row` twice."""

    kinds = Kinds(x, out, coding, divides, scales, offsets)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        codes, result, first_, coding_, zero_, _, scales_, offsets_, parameter_, streamed_ = arguments
        fetch_ahead(context, builder, x, codes, first_, 2 * CHUNK)
        if halves.serve(kinds):
            own = halves.parameters_at(context, builder, kinds, coding_, scales_, offsets_, parameter_)
            halves.put(context, builder, kinds, codes, result, first_, coding_, own, streamed_)
            return context.get_dummy_value()
        at = [parameter_, builder.add(parameter_, ir.Constant(I64, CHUNK))]
        both = [
            parameters_at(context, builder, coding_, zero_.type, scales, scales_, offsets, offsets_, place)
            for place in at
        ]
        numbers = chunks_at(context, builder, x, codes, first_, coding_, zero_.type, 2)
        factors, origins = [one[0] for one in both], [one[1] for one in both]
        known = [normals_at(context, builder, scales, scales_, place, divides) for place in at]
        is_normal = None if None in known else all_of(builder, builder.and_(*known))
        store_two_of_row(context, builder, numbers, factors, origins, kinds, (result, first_), is_normal, streamed_)
        return context.get_dummy_value()

    return types.void(x, out, types.intp, coding, zero, divides, scales, offsets, types.intp, types.boolean), generate


@intrinsic  # type: ignore[untyped-decorator]
def keeps_rows(context: Any, x: Any, out: Any, coding: Any, zero: Any, table: Any) -> Generated:
    """Whether `put_kept_row` serves: where an output has 16 bits, to convert parameters takes longer than to read their numbers
    again. table: as there."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if _keeps(x, out, coding, zero) and pays(x.dtype, out.dtype, coding):
            return builder.icmp_unsigned("!=", arguments[-1], ir.Constant(I64, 0))
        return ir.Constant(I1, int(_keeps(x, out, coding, zero)))

    return types.boolean(x, out, coding, zero, types.int64), generate


def _keeps(x: Any, out: Any, coding: Any, zero: Any) -> bool:
    return bool(out.dtype.bitwidth == 16 and (zero == types.float32 or pays(x.dtype, out.dtype, coding)))


@intrinsic  # type: ignore[untyped-decorator]
def keep_columns(
    context: Any,
    x: Any,
    out: Any,
    room: Any,
    place: Any,
    coding: Any,
    zero: Any,
    divides: Any,
    scales: Any,
    offsets: Any,
    parameter: Any,
) -> Generated:
    """`kept.keep_chunk` twice, for rows of x; where `halves` serve, in float16."""

    kinds = Kinds(x, out, coding, divides, scales, offsets)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        *_, room_, place_, coding_, zero_, _, scales_, offsets_, parameter_ = arguments
        if halves.serve(kinds):
            parameters = halves.parameters_at(context, builder, kinds, coding_, scales_, offsets_, parameter_)
            put_in_room(builder, room_, place_, parameters)
            return ir.Constant(I1, 1)
        arrays, known = (scales, scales_, offsets, offsets_), []
        for behind in (ir.Constant(I64, 0), ir.Constant(I64, CHUNK)):
            to, first = builder.add(place_, behind), builder.add(parameter_, behind)
            known.append(keep_numbers(context, builder, room_, to, coding_, zero_.type, divides, arrays, first))
        return builder.and_(*known)

    return types.boolean(x, out, room, types.intp, coding, zero, divides, scales, offsets, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def put_kept_row(
    context: Any,
    x: Any,
    out: Any,
    first: Any,
    coding: Any,
    zero: Any,
    divides: Any,
    scales: Any,
    offsets: Any,
    room: Any,
    place: Any,
    table: Any,
    ahead: Any,
    streamed: Any,
    is_normal: Any,
) -> Generated:
    """`put_two_chunks_of_row` twice, with scales and offsets of a room (`kept`) from that place on.

    table: what `numbers_of_codes` gives. ahead: by how many elements codes are fetched before they are wanted. is_normal: what
    `gives_normals` says of all scales.
    """

    kinds = Kinds(x, out, coding, divides, scales, offsets)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        codes, result, to, coding_, zero_, *_, room_, place_, table_, ahead_, streamed_, is_normal_ = arguments
        if not _keeps(x, out, coding, zero):
            return context.get_dummy_value()
        fetch_ahead(context, builder, x, codes, to, AT_ONCE, ahead_)
        if halves.serve(kinds):
            for _ in range(0, AT_ONCE, halves.AT_ONCE):
                own = in_room(builder, room_, place_, halves.HALVES)
                halves.put(context, builder, kinds, codes, result, to, coding_, own, streamed_)
                to, place_ = (builder.add(at, ir.Constant(I64, halves.AT_ONCE)) for at in (to, place_))
            return context.get_dummy_value()
        if pays(x.dtype, out.dtype, coding):
            found = numbers_of(builder, table_, load(context, builder, x, codes, to, count=AT_ONCE))
            numbers = [decoding.as_real(builder, number, zero_.type) for number in found]
        else:
            numbers = chunks_at(context, builder, x, codes, to, coding_, zero_.type, AT_ONCE // CHUNK)
        parameters = []
        for _ in numbers:
            parameters.append(in_room(builder, room_, place_, ir.VectorType(zero_.type, CHUNK)))
            place_ = builder.add(place_, ir.Constant(I64, CHUNK))
        for first in range(0, len(numbers), 2):
            factors, origins = zip(*parameters[first : first + 2], strict=True)
            two = numbers[first : first + 2]
            store_two_of_row(context, builder, two, factors, origins, kinds, (result, to), is_normal_, streamed_)
            to = builder.add(to, ir.Constant(I64, 2 * CHUNK))
        return context.get_dummy_value()

    return types.void(
        x, out, types.intp, coding, zero, divides, scales, offsets, room, types.intp, types.int64, types.intp,
        types.boolean, types.boolean,
    ), generate  # fmt: skip


@intrinsic  # type: ignore[untyped-decorator]
def put_rest_of_row(
    context: Any,
    x: Any,
    out: Any,
    first: Any,
    coding: Any,
    zero: Any,
    divides: Any,
    scales: Any,
    offsets: Any,
    parameter: Any,
    count: Any,
) -> Generated:
    """`put_chunk_of_row` of ``count`` elements, fewer than CHUNK; of what lies behind them nothing is read or written."""

    kinds = Kinds(x, out, coding, divides, scales, offsets)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        *given, count_ = arguments
        some = first_of(builder, count_)
        done = _of_row(context, builder, kinds, given, some)
        store_some(builder, done, data_of(context, builder, out, *given[1:3]), some)
        return context.get_dummy_value()

    return types.void(x, out, types.intp, coding, zero, divides, scales, offsets, types.intp, types.intp), generate


def _of_row(context: Any, builder: Any, kinds: Kinds, given: list[Any], mask: Any) -> Any:
    """The elements of an output that `put_chunk_of_row` is given; with a mask those."""
    codes, _, first, coding, zero, _, scales, offsets, parameter = given
    number = numbers_at(context, builder, kinds.x, codes, first, coding, zero.type, mask)
    arrays = kinds.scales, scales, kinds.offsets, offsets
    scale, offset = parameters_at(context, builder, coding, zero.type, *arrays, parameter, mask)
    return values(builder, number, scale, offset, kinds)
