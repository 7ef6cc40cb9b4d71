"""What a compiled loop does to a vector of values, as LLVM instructions: a loop of constant length LLVM would unroll before it
made vectors of it."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from xverify.kernels.compiled import decoding
from xverify.kernels.compiled.flat import Packed
from xverify.kernels.compiled.memory import fetch_ahead, first_of, load, load_packed, load_two, store, store_some
from xverify.kernels.compiled.results import (
    Kinds,
    all_of,
    looks_up,
    may_look_up,
    normals,
    store_two,
    store_two_looked_up,
    store_two_of_row,
    values,
)
from xverify.kernels.compiled.scalars import Generated, data_of
from xverify.kernels.compiled.unpacking import long_places
from xverify.kernels.compiled.vectors import (
    CHUNK,
    F32,
    I1,
    I8,
    I64,
    constant,
    element_of,
    has,
    of_x86,
    room_for,
    spread,
)

KEPT = 128
"""Scales and offsets of short runs that are converted together. A number that was just written in a vector with others is slow to
read alone, so these are many."""


@intrinsic  # type: ignore[untyped-decorator]
def put_chunk(
    context: Any,
    x: Any,
    out: Any,
    first: Any,
    coding: Any,
    scale: Any,
    offset: Any,
    divides: Any,
    scales: Any,
    offsets: Any,
    streamed: Any,
) -> Generated:
    """Put (number - offset) * scale, or / scale where ``divides`` is not None, of CHUNK elements of x, from x[first]
    on, to out[first] and on.

    streamed: past the caches, to out[first] at a multiple of `scalars.PART` bytes.
    """

    kinds = Kinds(x, out, coding, divides, scales, offsets)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        codes, result, first, coding_, scale_, offset_, *_, streamed_ = arguments
        number = _numbers(context, builder, x, codes, first, coding_, scale_.type)
        done = values(builder, number, scale_, offset_, kinds)
        store(context, builder, done, data_of(context, builder, out, result, first), streamed_)
        return context.get_dummy_value()

    return types.void(x, out, types.intp, coding, scale, scale, divides, scales, offsets, types.boolean), generate


@intrinsic  # type: ignore[untyped-decorator]
def put_two_chunks(
    context: Any,
    x: Any,
    out: Any,
    first: Any,
    coding: Any,
    scale: Any,
    offset: Any,
    divides: Any,
    scales: Any,
    offsets: Any,
    streamed: Any,
    is_normal: Any,
) -> Generated:
    """`put_chunk` twice. is_normal: what `gives_normals` says of the scale."""

    kinds = Kinds(x, out, coding, divides, scales, offsets)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        codes, result, first, coding_, scale_, offset_, *_, streamed_, is_normal_ = arguments
        fetch_ahead(context, builder, x, codes, first, 2 * CHUNK)
        if looks_up(kinds):
            packed, place = load_packed(context, builder, x, codes, first, 2 * CHUNK), (result, first)
            store_two_looked_up(context, builder, packed, coding_, scale_, offset_, kinds, place, is_normal_, streamed_)
            return context.get_dummy_value()

        def computed() -> None:
            numbers = [
                decoding.number(builder, code, coding_, element_of(scale_))
                for code in load_two(context, builder, x, codes, first)
            ]
            store_two(context, builder, numbers, scale_, offset_, kinds, (result, first), is_normal_, streamed_)

        if not may_look_up(kinds):
            computed()
            return context.get_dummy_value()
        with builder.if_else(decoding.is_narrow(builder, coding_)) as (narrow, wide):
            with narrow:
                code, place = load(context, builder, x, codes, first, count=2 * CHUNK), (result, first)
                store_two_looked_up(
                    context, builder, code, coding_, scale_, offset_, kinds, place, is_normal_, streamed_
                )
            with wide:
                computed()
        return context.get_dummy_value()

    return types.void(
        x, out, types.intp, coding, scale, scale, divides, scales, offsets, types.boolean, types.boolean
    ), generate


@intrinsic  # type: ignore[untyped-decorator]
def gives_normals(context: Any, scale: Any, divides: Any) -> Generated:
    """Whether no element of that scale, a number, is a subnormal of float32; False where that is not known."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        known = normals(builder, arguments[0], divides)
        return ir.Constant(I1, 0) if known is None else known

    return types.boolean(scale, divides), generate


@intrinsic  # type: ignore[untyped-decorator]
def put_rest(
    context: Any,
    x: Any,
    out: Any,
    first: Any,
    coding: Any,
    scale: Any,
    offset: Any,
    divides: Any,
    scales: Any,
    offsets: Any,
    count: Any,
) -> Generated:
    """`put_chunk` of ``count`` elements, fewer than CHUNK; of what lies behind them nothing is read or written."""

    kinds = Kinds(x, out, coding, divides, scales, offsets)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        codes, result, first, coding_, scale_, offset_, *_, count_ = arguments
        some = first_of(builder, count_)
        number = _numbers(context, builder, x, codes, first, coding_, scale_.type, some)
        done = values(builder, number, scale_, offset_, kinds)
        store_some(builder, done, data_of(context, builder, out, result, first), some)
        return context.get_dummy_value()

    return types.void(x, out, types.intp, coding, scale, scale, divides, scales, offsets, types.intp), generate


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
        arrays, second = (scales, scales_, offsets, offsets_), ir.Constant(I64, CHUNK)
        both = [
            _parameters(context, builder, coding_, zero_.type, *arrays, place)
            for place in (parameter_, builder.add(parameter_, second))
        ]
        numbers = [
            _numbers(context, builder, x, codes, place, coding_, zero_.type)
            for place in (first_, builder.add(first_, second))
        ]
        factors, origins = [one[0] for one in both], [one[1] for one in both]
        store_two_of_row(context, builder, numbers, factors, origins, kinds, (result, first_), streamed_)
        return context.get_dummy_value()

    return types.void(x, out, types.intp, coding, zero, divides, scales, offsets, types.intp, types.boolean), generate


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


@intrinsic  # type: ignore[untyped-decorator]
def room(context: Any, like: Any) -> Generated:
    """The address of room for the numbers of KEPT scales, and then of as many offsets, in the float type of ``like``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ptrtoint(room_for(builder, arguments[0].type, 2 * KEPT), I64)

    return types.int64(like), generate


@intrinsic  # type: ignore[untyped-decorator]
def keep_chunk(
    context: Any, room: Any, place: Any, coding: Any, zero: Any, divides: Any, scales: Any, offsets: Any, parameter: Any
) -> Generated:
    """Put the numbers of scales[parameter] and on, CHUNK of them, in a room from that place on, and of the offsets. Returns what
    `gives_normals` says of all these scales."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        room_, place_, coding_, zero_, _, scales_, offsets_, parameter_ = arguments
        scale, offset = _parameters(
            context, builder, coding_, zero_.type, scales, scales_, offsets, offsets_, parameter_
        )
        first = builder.inttoptr(room_, scale.type.element.as_pointer())
        for part, numbers in enumerate((scale, offset)):
            at = builder.gep(first, [builder.add(place_, ir.Constant(I64, part * KEPT))])
            builder.store(numbers, builder.bitcast(at, scale.type.as_pointer()), align=4)
        known = normals(builder, scale, divides)
        if known is None:
            return ir.Constant(I1, 0)
        return all_of(builder, known)

    return types.boolean(room, types.intp, coding, zero, divides, scales, offsets, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def keep(context: Any, room: Any, place: Any, number: Any) -> Generated:
    """Put one number in a room: a scale, or from KEPT on an offset."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        room_, place_, number_ = arguments
        builder.store(number_, builder.gep(builder.inttoptr(room_, number_.type.as_pointer()), [place_]))
        return context.get_dummy_value()

    return types.void(room, types.intp, number), generate


@intrinsic  # type: ignore[untyped-decorator]
def kept(context: Any, room: Any, place: Any, like: Any) -> Generated:
    """The number at that place of a room."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        room_, place_, like_ = arguments
        return builder.load(builder.gep(builder.inttoptr(room_, like_.type.as_pointer()), [place_]))

    return like(room, types.intp, like), generate


def _of_row(context: Any, builder: Any, kinds: Kinds, given: list[Any], mask: Any) -> Any:
    """The elements of an output that `put_chunk_of_row` is given; with a mask those."""
    codes, _, first, coding, zero, _, scales, offsets, parameter = given
    number = _numbers(context, builder, kinds.x, codes, first, coding, zero.type, mask)
    arrays = kinds.scales, scales, kinds.offsets, offsets
    scale, offset = _parameters(context, builder, coding, zero.type, *arrays, parameter, mask)
    return values(builder, number, scale, offset, kinds)


def _numbers(
    context: Any, builder: Any, codes: Any, given: Any, first: Any, coding: Any, real: Any, mask: Any = None
) -> Any:
    """The numbers of CHUNK codes; with a mask of those. codes: Numba's type of what holds them.

    Packed ones are looked up among the numbers of all codes, where one instruction does that.
    """
    if isinstance(codes, Packed) and mask is None and real == F32 and has("avx512f"):
        packed, kind = load_packed(context, builder, codes, given, first, CHUNK), ir.VectorType(F32, CHUNK)
        # Of a place the lowest four bits count, and of these, as of any code, those of its type.
        entries = decoding.number(builder, ir.Constant(ir.VectorType(I8, CHUNK), list(range(CHUNK))), coding, real)
        return of_x86(builder, "avx512.permvar.sf.512", kind, entries, long_places(builder, packed, codes.in_byte))
    return decoding.number(builder, load(context, builder, codes, given, first, mask), coding, real)


def _parameters(
    context: Any,
    builder: Any,
    coding: Any,
    real: Any,
    scales: Any,
    scales_: Any,
    offsets: Any,
    offsets_: Any,
    first: Any,
    mask: Any = None,
) -> tuple[Any, Any]:
    """CHUNK scales and offsets from that parameter on, as numbers. scales, offsets: Numba's types of what holds them."""
    codes = load(context, builder, scales, scales_, first, mask)
    scale = decoding.scale(builder, codes, scales.dtype, real)
    return scale, _offsets(context, builder, coding, real, offsets, offsets_, first, mask)


def _offsets(
    context: Any, builder: Any, coding: Any, real: Any, offsets: Any, given: Any, first: Any, mask: Any
) -> Any:
    """CHUNK numbers, as `loops` gives one. offsets: Numba's type of what holds them."""
    origin = decoding.origin(builder, coding, real)
    if not isinstance(offsets, types.Array):
        return spread(builder, origin, constant(ir.VectorType(real, CHUNK), 0.0))
    if isinstance(offsets.dtype, types.Float):
        codes = load(context, builder, offsets, given, first, mask)
        return builder.fadd(codes, spread(builder, origin, codes))
    return _numbers(context, builder, offsets, given, first, coding, real, mask)
