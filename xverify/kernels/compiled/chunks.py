"""Compute one vector of elements, as LLVM instructions.

The elements share one scale, or each has its own. These functions are not loops of constant length, because LLVM would
unroll such a loop before it vectorises it.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from xverify.kernels.compiled import decode, rounding
from xverify.kernels.compiled.decode import chunk_values_at, code_values_at, parameter_values_at
from xverify.kernels.compiled.layout import cache_values, load_cached, store_cached
from xverify.kernels.compiled.lookup import (
    CODES_512,
    look_up_values,
    looks_up_packed,
    looks_up_values,
    may_look_up_narrow,
    store_two_looked_up,
)
from xverify.kernels.compiled.memory import (
    data_of,
    fetch_ahead,
    first_lanes,
    load,
    load_packed,
    load_two,
    store,
    store_some,
)
from xverify.kernels.compiled.rounding import (
    Kinds,
    all_of,
    known_normals,
    normals_at,
    output_elements,
    store_two,
    store_two_of_row,
)
from xverify.kernels.compiled.vectors import CHUNK, I1, I64, Generated, element_of


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
    """Store (value - offset) * scale, or / scale, of CHUNK elements.

    Args:
        first: the index of the first element in x and in out.
        divides: Numba's none type for a product.
        scales: the array of scales, whose type counts here; ``scale`` is the value to use.
        offsets: the same for offsets.
        streamed: True to store past the caches, to an address that is a multiple of `memory.PART`.
    """

    kinds = Kinds(x, out, coding, divides, scales, offsets)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        codes, result, first, coding_, scale_, offset_, *_, streamed_ = arguments
        number = code_values_at(context, builder, x, codes, first, coding_, scale_.type)
        done = output_elements(builder, number, scale_, offset_, kinds)
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
    """`put_chunk` twice. is_normal: the flag of `gives_normals` for the scale."""

    kinds = Kinds(x, out, coding, divides, scales, offsets)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        codes, result, first, coding_, scale_, offset_, *_, streamed_, is_normal_ = arguments
        fetch_ahead(context, builder, x, codes, first, 2 * CHUNK)
        if looks_up_packed(kinds):
            packed, target = load_packed(context, builder, x, codes, first, 2 * CHUNK), (result, first)
            store_two_looked_up(
                context, builder, packed, coding_, scale_, offset_, kinds, target, is_normal_, streamed_
            )
            return context.get_dummy_value()
        if rounding.uses_float16(kinds):
            own = rounding.as_float16(builder, scale_), rounding.as_float16(builder, offset_)
            rounding.put_float16(context, builder, kinds, codes, result, first, coding_, own, streamed_)
            return context.get_dummy_value()

        def computed() -> None:
            numbers = [
                decode.code_value(builder, code, coding_, element_of(scale_))
                for code in load_two(context, builder, x, codes, first)
            ]
            store_two(context, builder, numbers, scale_, offset_, kinds, (result, first), is_normal_, streamed_)

        if not may_look_up_narrow(kinds):
            computed()
            return context.get_dummy_value()
        with builder.if_else(decode.is_narrow(builder, coding_)) as (narrow, wide):
            with narrow:
                code, target = load(context, builder, x, codes, first, count=2 * CHUNK), (result, first)
                store_two_looked_up(
                    context, builder, code, coding_, scale_, offset_, kinds, target, is_normal_, streamed_
                )
            with wide:
                computed()
        return context.get_dummy_value()

    return types.void(
        x, out, types.intp, coding, scale, scale, divides, scales, offsets, types.boolean, types.boolean
    ), generate


@intrinsic  # type: ignore[untyped-decorator]
def gives_normals(context: Any, scale: Any, divides: Any) -> Generated:
    """True if no element with that scale is a subnormal of float32; False if that is not known."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        flag = known_normals(builder, arguments[0], divides)
        return ir.Constant(I1, 0) if flag is None else flag

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
    """`put_chunk` for ``count`` elements, fewer than CHUNK. Nothing behind them is read or written."""

    kinds = Kinds(x, out, coding, divides, scales, offsets)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        codes, result, first, coding_, scale_, offset_, *_, count_ = arguments
        some = first_lanes(builder, count_)
        number = code_values_at(context, builder, x, codes, first, coding_, scale_.type, some)
        done = output_elements(builder, number, scale_, offset_, kinds)
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
    """`put_chunk` for elements with a scale and an offset each.

    Args:
        zero: as in `loops`.
        parameter: the index of the first scale.
    """

    kinds = Kinds(x, out, coding, divides, scales, offsets)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        *operands, streamed_ = arguments
        fetch_ahead(context, builder, x, operands[0], operands[2], CHUNK)
        done = _row_elements(context, builder, kinds, operands, None)
        store(context, builder, done, data_of(context, builder, out, *operands[1:3]), streamed_)
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
        if rounding.uses_float16(kinds):
            own = rounding.float16_parameters_at(context, builder, kinds, coding_, scales_, offsets_, parameter_)
            rounding.put_float16(context, builder, kinds, codes, result, first_, coding_, own, streamed_)
            return context.get_dummy_value()
        at = [parameter_, builder.add(parameter_, ir.Constant(I64, CHUNK))]
        both = [
            parameter_values_at(
                context, builder, coding_, zero_.type, scales, scales_, offsets, offsets_, first_parameter
            )
            for first_parameter in at
        ]
        numbers = chunk_values_at(context, builder, x, codes, first_, coding_, zero_.type, 2)
        factors, origins = [one[0] for one in both], [one[1] for one in both]
        flags = [normals_at(context, builder, scales, scales_, first_parameter, divides) for first_parameter in at]
        is_normal = None if None in flags else all_of(builder, builder.and_(*flags))
        store_two_of_row(context, builder, numbers, factors, origins, kinds, (result, first_), is_normal, streamed_)
        return context.get_dummy_value()

    return types.void(x, out, types.intp, coding, zero, divides, scales, offsets, types.intp, types.boolean), generate


@intrinsic  # type: ignore[untyped-decorator]
def caches_rows(context: Any, x: Any, out: Any, coding: Any, zero: Any, table: Any) -> Generated:
    """True if `put_cached_row` serves these types.

    For outputs of 16 bits, converting parameters takes longer than reading converted ones. table: as in
    `put_cached_row`.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if _may_cache_rows(x, out, coding, zero) and looks_up_values(x.dtype, out.dtype, coding):
            return builder.icmp_unsigned("!=", arguments[-1], ir.Constant(I64, 0))
        return ir.Constant(I1, int(_may_cache_rows(x, out, coding, zero)))

    return types.boolean(x, out, coding, zero, types.int64), generate


def _may_cache_rows(x: Any, out: Any, coding: Any, zero: Any) -> bool:
    """True if the types allow `put_cached_row`."""
    return bool(out.dtype.bitwidth == 16 and (zero == types.float32 or looks_up_values(x.dtype, out.dtype, coding)))


@intrinsic  # type: ignore[untyped-decorator]
def cache_columns(
    context: Any,
    x: Any,
    out: Any,
    room: Any,
    index: Any,
    coding: Any,
    zero: Any,
    divides: Any,
    scales: Any,
    offsets: Any,
    parameter: Any,
) -> Generated:
    """`layout.cache_chunk` twice, for rows of x; in float16 if `rounding.uses_float16`."""

    kinds = Kinds(x, out, coding, divides, scales, offsets)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        *_, room_, index_, coding_, zero_, _, scales_, offsets_, parameter_ = arguments
        if rounding.uses_float16(kinds):
            parameters = rounding.float16_parameters_at(context, builder, kinds, coding_, scales_, offsets_, parameter_)
            store_cached(builder, room_, index_, parameters)
            return ir.Constant(I1, 1)
        arrays, flags = (scales, scales_, offsets, offsets_), []
        for behind in (ir.Constant(I64, 0), ir.Constant(I64, CHUNK)):
            to, first = builder.add(index_, behind), builder.add(parameter_, behind)
            flags.append(cache_values(context, builder, room_, to, coding_, zero_.type, divides, arrays, first))
        return builder.and_(*flags)

    return types.boolean(x, out, room, types.intp, coding, zero, divides, scales, offsets, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def put_cached_row(
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
    index: Any,
    table: Any,
    ahead: Any,
    streamed: Any,
    is_normal: Any,
) -> Generated:
    """`put_two_chunks_of_row` twice, with scales and offsets of the parameter cache.

    Args:
        index: the index in the cache of the first scale and offset.
        table: the address that `lookup.value_table` returned.
        ahead: the prefetch distance in elements.
        is_normal: True if `gives_normals` holds for all scales.
    """

    kinds = Kinds(x, out, coding, divides, scales, offsets)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        codes, result, to, coding_, zero_, *_, room_, index_, table_, ahead_, streamed_, is_normal_ = arguments
        if not _may_cache_rows(x, out, coding, zero):
            return context.get_dummy_value()
        fetch_ahead(context, builder, x, codes, to, CODES_512, ahead_)
        if rounding.uses_float16(kinds):
            for _ in range(0, CODES_512, rounding.FLOAT16_LANES):
                own = load_cached(builder, room_, index_, rounding.FLOAT16_REGISTER)
                rounding.put_float16(context, builder, kinds, codes, result, to, coding_, own, streamed_)
                to, index_ = (builder.add(at, ir.Constant(I64, rounding.FLOAT16_LANES)) for at in (to, index_))
            return context.get_dummy_value()
        if looks_up_values(x.dtype, out.dtype, coding):
            values = look_up_values(builder, table_, load(context, builder, x, codes, to, count=CODES_512))
            numbers = [decode.widen(builder, number, zero_.type) for number in values]
        else:
            numbers = chunk_values_at(context, builder, x, codes, to, coding_, zero_.type, CODES_512 // CHUNK)
        parameters = []
        for _ in numbers:
            parameters.append(load_cached(builder, room_, index_, ir.VectorType(zero_.type, CHUNK)))
            index_ = builder.add(index_, ir.Constant(I64, CHUNK))
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
    """`put_chunk_of_row` for ``count`` elements, fewer than CHUNK. Nothing behind them is read or written."""

    kinds = Kinds(x, out, coding, divides, scales, offsets)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        *operands, count_ = arguments
        some = first_lanes(builder, count_)
        done = _row_elements(context, builder, kinds, operands, some)
        store_some(builder, done, data_of(context, builder, out, *operands[1:3]), some)
        return context.get_dummy_value()

    return types.void(x, out, types.intp, coding, zero, divides, scales, offsets, types.intp, types.intp), generate


def _row_elements(context: Any, builder: Any, kinds: Kinds, operands: list[Any], mask: Any) -> Any:
    """The output elements of a chunk of a row, or of those that the mask names. operands: arguments of
    `put_chunk_of_row`.
    """
    codes, _, first, coding, zero, _, scales, offsets, parameter = operands
    number = code_values_at(context, builder, kinds.x, codes, first, coding, zero.type, mask)
    arrays = kinds.scales, scales, kinds.offsets, offsets
    scale, offset = parameter_values_at(context, builder, coding, zero.type, *arrays, parameter, mask)
    return output_elements(builder, number, scale, offset, kinds)
