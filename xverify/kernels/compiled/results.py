"""From the numbers of codes to the elements of an output, as LLVM instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types

from xverify.kernels.compiled import bytewise, decoding, nibbles, rounding
from xverify.kernels.compiled.flat import Packed
from xverify.kernels.compiled.memory import store
from xverify.kernels.compiled.scalars import data_of, is_away, significant_bits
from xverify.kernels.compiled.unpacking import places, unpacked
from xverify.kernels.compiled.vectors import (
    CHUNK,
    I8,
    I16,
    I64,
    constant,
    element_of,
    has,
    is_single,
    of_x86,
    shuffled,
    spread,
)


class Kinds(NamedTuple):
    """Numba's types of what `values` computes with, as a chunk is given them."""

    x: Any
    out: Any
    coding: Any
    divides: Any
    scales: Any
    offsets: Any


def values(builder: Any, number: Any, scale: Any, offset: Any, kinds: Kinds) -> Any:
    """The elements of an output, of codes' numbers, scales and offsets: vectors, or numbers that all of them share."""
    value = _to_odd(builder, number, scale, offset, kinds)
    is_shared = not isinstance(scale.type, ir.VectorType)
    return _rounded(builder, value, kinds, normals(builder, scale, kinds.divides) if is_shared else None)


def store_two(
    context: Any, builder: Any, numbers: list[Any], scale: Any, offset: Any, kinds: Kinds, place: tuple[Any, Any],
    is_normal: Any, streamed: Any,
) -> None:  # fmt: skip
    """Put the elements of two chunks of codes' numbers, which share a scale and an offset, to a place: an array, and where in it.

    is_normal: what `normals` says of the scale. streamed: as for `chunks.put_chunk`.
    """
    out, to = place
    for done in _two(builder, numbers, scale, offset, kinds, is_normal):
        store(context, builder, done, data_of(context, builder, kinds.out, out, to), streamed)
        to = builder.add(to, ir.Constant(I64, done.type.count))


def store_two_of_row(
    context: Any, builder: Any, numbers: list[Any], scales: Sequence[Any], offsets: Sequence[Any], kinds: Kinds,
    place: tuple[Any, Any], is_normal: Any, streamed: Any,
) -> None:  # fmt: skip
    """As `store_two`, of two chunks whose elements have a scale and an offset each. is_normal: of all these scales, or None."""
    values = [_to_odd(builder, *each, kinds) for each in zip(numbers, scales, offsets, strict=True)]
    if _is_joined(kinds.out):
        values = [shuffled(builder, values[0], values[1], range(2 * CHUNK))]
    out, to = place
    for value in values:
        done = _rounded(builder, value, kinds, is_normal)
        store(context, builder, done, data_of(context, builder, kinds.out, out, to), streamed)
        to = builder.add(to, ir.Constant(I64, done.type.count))


def all_of(builder: Any, mask: Any) -> Any:
    """Whether all of CHUNK conditions hold."""
    return builder.icmp_unsigned("==", builder.bitcast(mask, I16), ir.Constant(I16, (1 << CHUNK) - 1))


def _two(builder: Any, numbers: list[Any], scale: Any, offset: Any, kinds: Kinds, is_normal: Any) -> list[Any]:
    """The elements of two chunks: in two vectors, or in one where one is stored."""
    quick = _quick(kinds, element_of(scale))
    if quick is not None:
        return _quickly(builder, quick, numbers, scale, offset, kinds)
    values = [_to_odd(builder, number, scale, offset, kinds) for number in numbers]
    if _is_joined(kinds.out):
        values = [shuffled(builder, values[0], values[1], range(2 * CHUNK))]
    return [_rounded(builder, value, kinds, is_normal) for value in values]


Quick = Callable[..., tuple[list[Any], Any]]
"""The elements of chunks, of their differences and a scale, and whether they are right; None where they are."""


def _quickly(builder: Any, quick: Quick, numbers: list[Any], scale: Any, offset: Any, kinds: Kinds) -> list[Any]:
    """The elements of two chunks in a quick way, where that may be."""
    differences = [_difference(builder, number, offset, kinds) for number in numbers]
    usual, are_right = quick(builder, differences, every(builder, scale, differences[0]), kinds)
    may_be = rounding.may_split(builder, scale, kinds.out.dtype)
    holds = may_be if are_right is None else builder.and_(may_be, are_right)

    def otherwise() -> list[Any]:
        return [_rounded(builder, _to_odd(builder, number, scale, offset, kinds), kinds, None) for number in numbers]

    return rounding.unless(builder, holds, usual, otherwise)


def _split(builder: Any, differences: list[Any], scale: Any, kinds: Kinds) -> tuple[list[Any], Any]:
    return [rounding.split_product(builder, difference, scale, kinds.out.dtype) for difference in differences], None


def _seldom_between(builder: Any, differences: list[Any], scale: Any, kinds: Kinds) -> tuple[list[Any], Any]:
    products, are_right = rounding.nearest_products(builder, differences, scale, kinds.out.dtype)
    return [_rounded(builder, product, kinds, None) for product in products], are_right


def _quick(kinds: Kinds, real: Any) -> Quick | None:
    """The way that takes fewer instructions than a product rounded to odd. real: of the arithmetic."""
    # A difference of floats may be -0, or a fraction.
    if kinds.divides != types.none or decoding.is_float(kinds.coding):
        return None
    bits, out = _bits(kinds), kinds.out.dtype
    if rounding.is_split(real, out, kinds.scales.dtype, bits):
        return _split
    return _seldom_between if rounding.is_seldom_between(real, out, bits) else None


def looks_up(kinds: Kinds) -> bool:
    """Whether the elements of two chunks are looked up by their codes, which are packed, among those of all codes: these are 16
    or fewer, and a result of 16 bits takes more instructions than to find it."""
    return isinstance(kinds.x, Packed) and kinds.out.dtype.bitwidth == 16 and (_by_words() or nibbles.is_there())


def _by_words() -> bool:
    """Whether one instruction finds 32 elements of 16 bits."""
    return has("avx512bw")


def may_look_up(kinds: Kinds) -> bool:
    """Whether those of codes that are not packed are, where these have four bits or fewer."""
    return few_pays(kinds.x.dtype, kinds.out.dtype) and not isinstance(kinds.x, Packed)


def few_pays(codes: Any, out: Any) -> bool:
    """Whether results are looked up of codes of four bits or fewer alone, and those of many codes of floats: Numba's types of
    elements."""
    return bool(codes == types.uint8 and out.bitwidth == 16 and nibbles.is_there() and not bytewise.is_quick())


def store_two_looked_up(
    context: Any, builder: Any, codes: Any, coding: Any, scale: Any, offset: Any, kinds: Kinds, place: tuple[Any, Any],
    is_normal: Any, streamed: Any,
) -> None:  # fmt: skip
    """As `store_two`, of two chunks of codes of four bits or fewer, or of the bytes in which they are packed."""
    in_byte, short = kinds.x.in_byte if isinstance(kinds.x, Packed) else 1, ir.VectorType(I16, 2 * CHUNK)
    # Over and over, since of a place among 32 only the lowest bits are the code.
    every = ir.Constant(ir.VectorType(I8, CHUNK), [code % (1 << (8 // in_byte)) for code in range(CHUNK)])
    number = decoding.number(builder, every, coding, element_of(scale))
    entries = _rounded(builder, _to_odd(builder, number, scale, offset, kinds), kinds, is_normal)
    if in_byte > 1 and _by_words():
        entries = shuffled(builder, entries, entries, [*range(CHUNK)] * 2)
        both = of_x86(builder, "avx512.permvar.hi.512", short, entries, places(builder, codes, in_byte))
        found = [both]
    else:
        # What lies above a code is not its own.
        code = (
            unpacked(builder, codes, in_byte) if in_byte > 1 else builder.and_(codes, constant(codes.type, CHUNK - 1))
        )
        found = nibbles.looked_up(builder, entries, code)
    out, to = place
    for done in found:
        store(context, builder, done, data_of(context, builder, kinds.out, out, to), streamed)
        to = builder.add(to, ir.Constant(I64, done.type.count))


def _is_joined(of_out: Any) -> bool:
    return bool(of_out.dtype == types.int16 and rounding.rounds_two())


def normals(builder: Any, scale: Any, divides: Any) -> Any:
    """What `rounding.gives_normals` says of scales; None where that is not known. divides: Numba's type."""
    return rounding.gives_normals(builder, scale) if divides == types.none else None


def _to_odd(builder: Any, number: Any, scale: Any, offset: Any, kinds: Kinds) -> Any:
    """(number - offset) * scale, or / scale, as `rounding.to_odd` gives it."""
    difference, factor = _difference(builder, number, offset, kinds), every(builder, scale, number)
    return rounding.to_odd(builder, difference, factor, kinds.divides != types.none, _bits(kinds), kinds.out.dtype)


def _difference(builder: Any, number: Any, offset: Any, kinds: Kinds) -> Any:
    is_other = is_away(kinds.x.dtype, kinds.coding, kinds.offsets)
    return builder.fsub(number, every(builder, offset, number)) if is_other else number


def _bits(kinds: Kinds) -> int:
    """Significant bits of differences and scales."""
    return significant_bits(kinds.x.dtype, kinds.coding, kinds.scales.dtype, kinds.offsets)


def _rounded(builder: Any, value: Any, kinds: Kinds, is_normal: Any) -> Any:
    """Elements of an output, of what `_to_odd` gives."""
    # The NaN of a product in float32 has no bits below those of a bfloat16 scale: it is that of the scale, or of a code, or the
    # one that processors make.
    carries = kinds.scales.dtype != types.int16 or not is_single(value)
    return rounding.element(builder, value, kinds.out.dtype, carries, is_normal)


def every(builder: Any, number: Any, like: Any) -> Any:
    """A vector as it is, a number as often as ``like`` has elements."""
    return number if isinstance(number.type, ir.VectorType) else spread(builder, number, like)
