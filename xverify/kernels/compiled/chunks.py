"""What a compiled loop does to a vector of values, as LLVM instructions: a loop of constant length LLVM would unroll before it
made vectors of it."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from xverify.kernels.compiled import decoding, halves
from xverify.kernels.compiled.flat import Packed
from xverify.kernels.compiled.memory import fetch_ahead, first_of, load, load_packed, load_two, store, store_some
from xverify.kernels.compiled.results import (
    Kinds,
    looks_up,
    may_look_up,
    normals,
    store_two,
    store_two_looked_up,
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
    spread,
)


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
        number = numbers_at(context, builder, x, codes, first, coding_, scale_.type)
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
        if halves.serve(kinds):
            own = halves.shared(builder, scale_), halves.shared(builder, offset_)
            halves.put(context, builder, kinds, codes, result, first, coding_, own, streamed_)
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
        number = numbers_at(context, builder, x, codes, first, coding_, scale_.type, some)
        done = values(builder, number, scale_, offset_, kinds)
        store_some(builder, done, data_of(context, builder, out, result, first), some)
        return context.get_dummy_value()

    return types.void(x, out, types.intp, coding, scale, scale, divides, scales, offsets, types.intp), generate


def numbers_at(
    context: Any, builder: Any, codes: Any, given: Any, first: Any, coding: Any, real: Any, mask: Any = None
) -> Any:
    """The numbers of CHUNK codes; with a mask of those. codes: Numba's type of what holds them."""
    if mask is None:
        return chunks_at(context, builder, codes, given, first, coding, real, 1)[0]
    return decoding.number(builder, load(context, builder, codes, given, first, mask), coding, real)


def chunks_at(
    context: Any, builder: Any, codes: Any, given: Any, first: Any, coding: Any, real: Any, count: int
) -> list[Any]:
    """The numbers of ``count`` times CHUNK codes.

    Packed ones are looked up among the numbers of all codes, where one instruction does that.
    """
    if isinstance(codes, Packed) and real == F32 and has("avx512f"):
        packed, kind = load_packed(context, builder, codes, given, first, count * CHUNK), ir.VectorType(F32, CHUNK)
        # Of a place the lowest four bits count, and of these, as of any code, those of its type.
        entries = decoding.number(builder, ir.Constant(ir.VectorType(I8, CHUNK), list(range(CHUNK))), coding, real)
        places = [long_places(builder, packed, codes.in_byte, part * CHUNK, CHUNK) for part in range(count)]
        return [of_x86(builder, "avx512.permvar.sf.512", kind, entries, place) for place in places]
    at = [builder.add(first, ir.Constant(I64, part * CHUNK)) for part in range(count)]
    loaded = [load(context, builder, codes, given, place) for place in at]
    return [decoding.number(builder, code, coding, real) for code in loaded]


def parameters_at(
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


def normals_at(context: Any, builder: Any, scales: Any, given: Any, first: Any, divides: Any) -> Any:
    """What `results.normals` says of CHUNK scales from that one on. scales, divides: Numba's types."""
    codes = load(context, builder, scales, given, first)
    return normals(
        builder, codes if scales.dtype == types.int16 else decoding.scale(builder, codes, scales.dtype, F32), divides
    )


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
    return numbers_at(context, builder, offsets, given, first, coding, real, mask)
