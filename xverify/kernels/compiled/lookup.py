"""Tables in registers, as LLVM instructions.

They hold results and values of all codes. Byte shuffles look them up. On AVX-512 (VBMI) one instruction selects from 64
bytes; on AVX2 one selects from 16 bytes.
No function here is one that Numba calls: Numba counts references to arrays by instructions that wait for streaming stores.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from xverify.kernels.compiled import decode
from xverify.kernels.compiled.decode import Float16Coding
from xverify.kernels.compiled.memory import (
    Packed,
    data_of,
    fetch_ahead,
    load,
    mark_memory,
    store,
    table_indices,
    unpack_codes,
)
from xverify.kernels.compiled.rounding import Kinds, output_elements, round_elements, scaled_to_odd, store_two
from xverify.kernels.compiled.vectors import (
    CHUNK,
    F32,
    I8,
    I16,
    I32,
    I64,
    Generated,
    constant,
    element_of,
    has,
    of_llvm,
    of_x86,
    room_for,
    shaped,
    shuffled,
    spread,
)

CODES_512 = 64
"""Codes that one lookup serves on AVX-512, and entries in a register of bytes."""

ALL_CODES = 256

BYTES_512 = ir.VectorType(I8, CODES_512)
"""A 512-bit register of bytes."""

_ENTRY_VECTOR = ir.VectorType(I16, CHUNK)


class ByteTable(NamedTuple):
    """The bytes of 256 entries of 16 bits, CODES_512 in a vector."""

    lower: list[Any]
    """The lower bytes of the entries."""

    upper: list[Any]
    """The upper bytes of the entries."""


def has_byte_lookup() -> bool:
    """True if the processor has AVX512-VBMI, whose instruction looks up 64 bytes in two registers.

    The instruction that looks up 16-bit entries is half as fast on some processors.
    """
    return has("avx512vbmi")


def compute_entries(builder: Any, entries_of: Callable[[Any], Any]) -> Any:
    """The address of the entries of all 256 codes. entries_of: makes CHUNK entries from CHUNK codes."""
    entries = room_for(builder, _ENTRY_VECTOR, ALL_CODES // CHUNK)
    upward = ir.Constant(ir.VectorType(I8, CHUNK), list(range(CHUNK)))
    with cgutils.for_range(builder, ir.Constant(I64, ALL_CODES // CHUNK)) as loop:
        from_here = builder.trunc(builder.mul(loop.index, ir.Constant(I64, CHUNK)), I8)
        code = builder.add(upward, spread(builder, from_here, upward))
        builder.store(entries_of(code), builder.gep(entries, [ir.Constant(I32, 0), loop.index]))
    return entries


def read_table(builder: Any, start: Any) -> ByteTable:
    """The table whose entries are in memory at that address.

    Reads are as wide as the writes a moment ago. Other reads would wait for the writes, and those for all streamed
    stores.
    """
    start = builder.bitcast(start, _ENTRY_VECTOR.as_pointer())
    written = [builder.load(builder.gep(start, [ir.Constant(I64, i)]), align=2) for i in range(ALL_CODES // CHUNK)]
    while len(written) > ALL_CODES // CODES_512:
        pairs = zip(written[::2], written[1::2], strict=True)
        written = [shuffled(builder, *pair, range(2 * pair[0].type.count)) for pair in pairs]
    both = [builder.bitcast(entries, ir.VectorType(I8, 2 * CODES_512)) for entries in written]
    lower, upper = ([shuffled(builder, part, part, range(i, 2 * CODES_512, 2)) for part in both] for i in (0, 1))
    return ByteTable(lower, upper)


def look_up_bytes(builder: Any, entries: ByteTable, code: Any, is_mirrored: Any = None) -> list[Any]:
    """The lower and the upper bytes of the entries of CODES_512 codes.

    Args:
        is_mirrored: the flag of `is_mirrored`, or None if unknown.
    """
    if is_mirrored is None:
        return _look_up_8_bits(builder, entries, code)
    with builder.if_else(is_mirrored, likely=True) as (mirrored, otherwise):
        with mirrored:
            lower, upper = (_look_up_7_bits(builder, part, 0, code) for part in entries)
            upper = builder.or_(upper, builder.and_(code, constant(code.type, 128)))
            by_half, half_block = [lower, upper], builder.block
        with otherwise:
            by_all, all_block = _look_up_8_bits(builder, entries, code), builder.block
    result = []
    for half_bytes, all_bytes in zip(by_half, by_all, strict=True):
        result.append(builder.phi(BYTES_512))
        result[-1].add_incoming(half_bytes, half_block)
        result[-1].add_incoming(all_bytes, all_block)
    return result


def is_mirrored(builder: Any, entries: ByteTable) -> Any:
    """True, at run time, if the upper 128 codes have the entries of the lower ones with a sign.

    Half the table then serves.
    """
    apart = [
        builder.xor(builder.xor(part[i], part[i + 2]), constant(BYTES_512, sign))
        for part, sign in zip(entries, (0, 128), strict=True)
        for i in (0, 1)
    ]
    words = builder.bitcast(reduce(builder.or_, apart), ir.IntType(8 * CODES_512))
    return builder.icmp_unsigned("==", words, ir.Constant(words.type, 0))


def _look_up_8_bits(builder: Any, entries: ByteTable, code: Any) -> list[Any]:
    """Bytes of four registers, by eight bits of each code."""
    in_upper_half = builder.icmp_signed("<", code, constant(code.type, 0))
    return [
        builder.select(in_upper_half, _look_up_7_bits(builder, part, 2, code), _look_up_7_bits(builder, part, 0, code))
        for part in entries
    ]


def _look_up_7_bits(builder: Any, part: list[Any], first: int, code: Any) -> Any:
    """Bytes of two registers, by seven bits of each code."""
    return of_x86(builder, "avx512.vpermi2var.qi.512", BYTES_512, part[first], code, part[first + 1])


CODES_256 = 2 * CHUNK
"""Codes that one lookup serves on AVX2: the bytes of a register."""

BYTES_256 = ir.VectorType(I8, CODES_256)
"""A 256-bit register of bytes."""


def has_byte_shuffle() -> bool:
    """True if the processor has AVX2.

    Its byte shuffle looks up bytes by the lowest four bits of an index.
    """
    return has("avx2")


def shuffle_narrow(builder: Any, entries: Any, code: Any) -> list[Any]:
    """The entries of CODES_256 codes of four bits, in two vectors. entries: those of codes 0 to CHUNK - 1."""
    code = order_for_join(builder, code)
    return join_bytes(
        builder, *(of_x86(builder, "avx2.pshuf.b", BYTES_256, part, code) for part in split_entries(builder, entries))
    )


def split_entries(builder: Any, entries: Any) -> list[Any]:
    """The lower and the upper bytes of CHUNK entries, each twice, as the byte shuffle takes them."""
    both = builder.bitcast(entries, BYTES_256)
    return [shuffled(builder, both, both, [*range(byte, CODES_256, 2)] * 2) for byte in (0, 1)]


def order_for_join(builder: Any, code: Any) -> Any:
    """Codes in the order in which `join_bytes` puts their entries in sequence, moved eight together.

    `join_bytes` joins bytes within the halves of a register: the first eight of each half, and the last eight.
    """
    eights = builder.bitcast(code, ir.VectorType(I64, 4))
    return builder.bitcast(shuffled(builder, eights, eights, [0, 2, 1, 3]), BYTES_256)


def join_bytes(builder: Any, lower: Any, upper: Any) -> list[Any]:
    """Two vectors of entries, from the lower and the upper bytes of codes that `order_for_join` moved."""
    words = []
    for start in (0, 8):
        indices = [half + start + i for half in (0, CHUNK) for i in range(8)]
        word = shuffled(builder, lower, upper, [index + of for index in indices for of in (0, CODES_256)])
        words.append(builder.bitcast(word, ir.VectorType(I16, CHUNK)))
    return words


_BLOCKS = 8
"""Blocks of sixteen codes without a sign: codes with the same upper bits."""

_USUAL_BLOCK = 3
"""The block whose table serves other blocks too: codes of 1 and values near it."""

SPECIAL_BLOCKS = (0, 7)
"""The blocks of subnormal codes, and of infinities and NaN."""

_BLOCK_CODES = bytes(range(CHUNK * _BLOCKS)) + bytes([0x80, *range(0xF1, 0x100)])
"""Codes whose entries are computed: all without a sign, and the negative ones that may be exceptions."""


class ShuffleTables(NamedTuple):
    """Tables for CODES_256 codes of an 8-bit float, all of them vectors of bytes.

    The lowest four bits of a code are its fraction and the last bits of its exponent. The exponent bits above
    multiply the value by a
    power of two, which adds to the exponent of the result, all of it in the upper byte. The highest bit is the sign.
    So one table of sixteen entries serves all codes but those whose results are subnormal, infinite or NaN, which
    have own tables.
    `shuffle_tables` does not assume this: it compares the tables with the entries of all codes without a sign.
    """

    usual: list[Any]
    """The lower and the upper bytes of the entries of the usual block, each twice."""

    apart: dict[int, list[Any]]
    """By block with a table of its own, the bits that differ from the usual block."""

    added: Any
    """By block, the amount to add to the upper byte."""

    single: list[Any]
    """The code that is an exception among negative codes, and the bits that differ then."""


def has_float_shuffle() -> bool:
    """True if the processor has the byte shuffle that `ShuffleTables` needs."""
    return has_byte_shuffle()


def shuffle_entries(builder: Any, entries_of: Callable[[Any], Any]) -> list[Any]:
    """The entries that the tables are made from. entries_of: makes CHUNK entries from CHUNK codes."""
    codes = cgutils.global_constant(builder, "sixteens", cgutils.make_bytearray(_BLOCK_CODES))
    codes = builder.bitcast(codes, ir.VectorType(I8, CHUNK).as_pointer())
    count = len(_BLOCK_CODES) // CHUNK
    room = room_for(builder, ir.VectorType(I16, CHUNK), count)
    with cgutils.for_range(builder, ir.Constant(I64, count)) as loop:
        code = builder.load(builder.gep(codes, [loop.index]), align=1)
        builder.store(entries_of(code), builder.gep(room, [ir.Constant(I32, 0), loop.index]))
    return [builder.load(builder.gep(room, [ir.Constant(I32, 0), ir.Constant(I32, i)])) for i in range(count)]


def own_blocks(out: Any, coding: Any) -> tuple[tuple[int, ...], ...]:
    """Sets of blocks that have tables of their own, in the order in which `shuffle_tables` tries them.

    Beside the special blocks these are blocks of subnormal results: float16 has few more exponents than 8-bit floats.

    Args:
        out: Numba's type of an entry.
        coding: Numba's type of the coding.
    """
    if out == types.int16:
        return (SPECIAL_BLOCKS,)
    # With more own tables other ways are as fast, except for codes that are not read through float16.
    return (SPECIAL_BLOCKS, (0, 1, 7)) if coding.count == len(Float16Coding._fields) else ((0, 1, 2, 7),)


def shuffle_tables(builder: Any, made: list[Any], apart: tuple[int, ...]) -> tuple[ShuffleTables, Any]:
    """The tables, and a flag that they give every entry.

    This holds only where nothing but 0 is subtracted. The result of a finite negative value is that of its magnitude
    with a sign.
    One code may be an exception: -0, which may be NaN, or the last code, since a NaN may have no sign.

    Args:
        made: the result of `shuffle_entries`.
        apart: the blocks with tables of their own.
    """
    *blocks, negatives = made
    usual = blocks[_USUAL_BLOCK]
    step = builder.extract_element(builder.sub(blocks[_USUAL_BLOCK + 1], usual), ir.Constant(I32, 0))
    others = [spread(builder, builder.and_(step, ir.Constant(I16, 0xFF)), usual)]
    for block in set(range(_BLOCKS)) - set(apart):
        steps = builder.mul(spread(builder, step, usual), constant(usual.type, block - _USUAL_BLOCK))
        others.append(builder.xor(blocks[block], builder.add(usual, steps)))
    signed = shuffled(builder, blocks[0], blocks[-1], [0, *range(CHUNK + 1, 2 * CHUNK)])
    other = builder.xor(negatives, builder.xor(signed, constant(usual.type, 0x8000)))
    single = [builder.extract_element(other, ir.Constant(I32, index)) for index in (0, CHUNK - 1)]
    between = ir.Constant(usual.type, [0, *[0xFFFF] * (CHUNK - 2), 0])
    others.append(builder.and_(other, between))
    bits = builder.bitcast(reduce(builder.or_, others), ir.IntType(16 * CHUNK))
    first, last = (builder.icmp_unsigned("!=", entry, ir.Constant(I16, 0)) for entry in single)
    holds = builder.icmp_unsigned("==", bits, ir.Constant(bits.type, 0))
    holds = builder.and_(holds, builder.not_(builder.and_(first, last)))
    code = builder.select(first, ir.Constant(I8, 0x80), ir.Constant(I8, 0xFF))
    either = builder.or_(*single)
    tables = ShuffleTables(
        split_entries(builder, usual),
        {block: split_entries(builder, builder.xor(blocks[block], usual)) for block in apart},
        _added_by_block(builder, _upper_byte(builder, step), apart),
        [_every_byte(builder, byte) for byte in (code, builder.trunc(either, I8), _upper_byte(builder, either))],
    )
    return tables, holds


def shuffle_floats(builder: Any, tables: ShuffleTables, code: Any) -> list[Any]:
    """The entries of CODES_256 codes, in two vectors."""
    return join_bytes(builder, *_shuffle_bytes(builder, tables, order_for_join(builder, code)))


def shuffle_float32(builder: Any, tables: ShuffleTables, code: Any) -> list[Any]:
    """The float32 of CODES_256 codes, CHUNK in a vector: the entries are the upper halves, above zeros.

    Of two neighbouring entries, one moves up and one stays. So codes are first moved to where they come out in order.
    """
    fours = builder.bitcast(code, ir.VectorType(I32, 8))
    code = builder.bitcast(shuffled(builder, fours, fours, [0, 2, 4, 6, 1, 3, 5, 7]), BYTES_256)
    within = [start + 4 * half + i for start in (0, 8) for i in range(4) for half in (0, 1)]
    code = shuffled(builder, code, code, [half + place for half in (0, CHUNK) for place in within])
    singles = ir.VectorType(I32, 8)
    floats = []
    for entries in join_bytes(builder, *_shuffle_bytes(builder, tables, code)):
        both = builder.bitcast(entries, singles)
        first = builder.shl(both, constant(singles, 16))
        last = builder.and_(both, constant(singles, 0xFFFF0000))
        floats.append(builder.bitcast(shuffled(builder, first, last, range(CHUNK)), ir.VectorType(F32, CHUNK)))
    return floats


def _shuffle_bytes(builder: Any, tables: ShuffleTables, code: Any) -> list[Any]:
    """The lower and the upper bytes of the entries of codes."""
    magnitude = builder.and_(code, constant(BYTES_256, 0x7F))
    lower, upper = (_shuffle(builder, part, magnitude) for part in tables.usual)
    for block, parts in tables.apart.items():
        index = _index_in_block(builder, magnitude, block)
        lower, upper = (
            builder.xor(bits, _shuffle(builder, part, index)) for bits, part in zip((lower, upper), parts, strict=True)
        )
    above = builder.bitcast(code, ir.VectorType(I16, CHUNK))
    above = builder.bitcast(builder.lshr(above, constant(above.type, 4)), BYTES_256)
    upper = builder.add(upper, _shuffle(builder, tables.added, builder.and_(above, constant(BYTES_256, CHUNK - 1))))
    single, *other = tables.single
    is_single = builder.sext(builder.icmp_unsigned("==", code, single), BYTES_256)
    return [builder.xor(bits, builder.and_(is_single, byte)) for bits, byte in zip((lower, upper), other, strict=True)]


def table_registers(tables: ShuffleTables) -> list[Any]:
    """All registers of the tables, in one list."""
    return [
        *tables.usual,
        *(part for parts in tables.apart.values() for part in parts),
        tables.added,
        *tables.single,
    ]


def table_register_count(apart: tuple[int, ...]) -> int:
    """The length of `table_registers`. apart: as for `shuffle_tables`."""
    return 2 + 2 * len(apart) + 4


def tables_of_registers(held: list[Any], apart: tuple[int, ...]) -> ShuffleTables:
    """The inverse of `table_registers`. apart: as for `shuffle_tables`."""
    first, second, *others, added, code, lower, upper = held
    pairs = zip(others[::2], others[1::2], strict=True)
    return ShuffleTables([first, second], dict(zip(apart, map(list, pairs), strict=True)), added, [code, lower, upper])


def _shuffle(builder: Any, table: Any, index: Any) -> Any:
    """Bytes of a table by the lowest four bits of each index; 0 where the highest bit of the index is set."""
    return of_x86(builder, "avx2.pshuf.b", BYTES_256, table, index)


def _index_in_block(builder: Any, magnitude: Any, block: int) -> Any:
    """The index of codes in a block; for codes of other blocks a byte with the highest bit set."""
    before = builder.sub(magnitude, constant(BYTES_256, CHUNK * block))
    if block == _BLOCKS - 1:  # indices of earlier blocks are negative, and no block follows
        return before
    return of_llvm(builder, "uadd.sat", before, constant(BYTES_256, 0x80 - CHUNK))


def _added_by_block(builder: Any, step: Any, apart: tuple[int, ...]) -> Any:
    """The bytes to add to upper bytes, by block: a step for each power of two, and the sign."""
    steps = [0 if block in apart else block - _USUAL_BLOCK for block in range(_BLOCKS)]
    added = builder.mul(_every_byte(builder, step), ir.Constant(BYTES_256, steps * 4))
    return builder.add(added, ir.Constant(BYTES_256, ([0] * _BLOCKS + [0x80] * _BLOCKS) * 2))


def _upper_byte(builder: Any, entry: Any) -> Any:
    return builder.trunc(builder.lshr(entry, ir.Constant(I16, 8)), I8)


def _every_byte(builder: Any, byte: Any) -> Any:
    return spread(builder, byte, ir.Constant(BYTES_256, None))


def looks_up_packed(kinds: Kinds) -> bool:
    """True if the elements of two chunks of packed codes are looked up among the elements of all codes.

    There are 16 codes or fewer, and a result of 16 bits takes more instructions to compute than to look up.
    """
    return isinstance(kinds.x, Packed) and kinds.out.dtype.bitwidth == 16 and (_has_word_lookup() or has_byte_shuffle())


def _has_word_lookup() -> bool:
    """True if one instruction looks up 32 entries of 16 bits (AVX512-BW)."""
    return has("avx512bw")


def may_look_up_narrow(kinds: Kinds) -> bool:
    """True if elements of unpacked codes are looked up in case these have four bits or fewer."""
    return looks_up_narrow(kinds.x.dtype, kinds.out.dtype) and not isinstance(kinds.x, Packed)


def looks_up_narrow(codes: Any, out: Any) -> bool:
    """True if results of codes of four bits or fewer, and of long runs of float codes, are looked up.

    Args:
        codes: Numba's element type of codes.
        out: Numba's element type of the output.
    """
    return bool(codes == types.uint8 and out.bitwidth == 16 and has_byte_shuffle() and not has_byte_lookup())


def store_two_looked_up(
    context: Any, builder: Any, codes: Any, coding: Any, scale: Any, offset: Any, kinds: Kinds, target: tuple[Any, Any],
    is_normal: Any, streamed: Any,
) -> None:  # fmt: skip
    """As `rounding.store_two`, for two chunks of codes of four bits or fewer, or their packed bytes."""
    in_byte, short = kinds.x.in_byte if isinstance(kinds.x, Packed) else 1, ir.VectorType(I16, 2 * CHUNK)
    # Repeated, since only the lowest bits of an index into 32 entries are the code.
    every = ir.Constant(ir.VectorType(I8, CHUNK), [code % (1 << (8 // in_byte)) for code in range(CHUNK)])
    number = decode.code_value(builder, every, coding, element_of(scale))
    entries = round_elements(builder, scaled_to_odd(builder, number, scale, offset, kinds), kinds, is_normal)
    if in_byte > 1 and _has_word_lookup():
        entries = shuffled(builder, entries, entries, [*range(CHUNK)] * 2)
        both = of_x86(builder, "avx512.permvar.hi.512", short, entries, table_indices(builder, codes, in_byte))
        vectors = [both]
    else:
        # Bits above a code are not part of it.
        code = (
            unpack_codes(builder, codes, in_byte)
            if in_byte > 1
            else builder.and_(codes, constant(codes.type, CHUNK - 1))
        )
        vectors = shuffle_narrow(builder, entries, code)
    out, to = target
    for done in vectors:
        store(context, builder, done, data_of(context, builder, kinds.out, out, to), streamed)
        to = builder.add(to, ir.Constant(I64, done.type.count))


LONG_RUN = 4096
"""Elements with one scale from which on results are looked up. The 256 results of all codes are then a small part."""


def looks_up_results(codes: Any, out: Any) -> bool:
    """True if results of any codes of one byte are looked up. codes, out: Numba's element types."""
    return bool(codes == types.uint8 and out.bitwidth == 16 and has_byte_lookup())


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
    """`chunks.put_chunk` for as many of ``count`` elements as a lookup can serve.

    Returns:
        The number of elements that were stored.
    """

    kinds = Kinds(x, out, coding, divides, scales, offsets)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        codes, result, first, count_, coding_, scale_, offset_, *_, streamed_ = arguments
        all_pay, few_pay = looks_up_results(x.dtype, out.dtype), looks_up_narrow(x.dtype, out.dtype)
        if not (all_pay or few_pay):
            return ir.Constant(I64, 0)

        def values_of(code: Any) -> Any:
            number = decode.code_value(builder, code, coding_, scale_.type)
            return output_elements(builder, number, scale_, offset_, kinds)

        done = cgutils.alloca_once_value(builder, ir.Constant(I64, 0))

        def look_up(way: _Method) -> None:
            places = (x, codes, first), (out, result, first)
            builder.store(_put_looked_up(context, builder, way, *places, count_, streamed_), done)

        def look_up_floats() -> None:
            made = shuffle_entries(builder, values_of)
            for apart in own_blocks(out.dtype, coding):
                tables, complete = shuffle_tables(builder, made, apart)
                is_open = builder.icmp_unsigned("==", builder.load(done), ir.Constant(I64, 0))
                with builder.if_then(builder.and_(complete, is_open)):
                    look_up(_float_codes(builder, tables))

        with builder.if_then(builder.icmp_signed(">=", count_, ir.Constant(I64, LONG_RUN))):
            if all_pay:
                look_up(_all_codes(builder, read_table(builder, compute_entries(builder, values_of))))
            else:
                is_narrow = decode.is_narrow(builder, coding_)
                with builder.if_then(is_narrow):
                    look_up(_narrow_codes(builder, values_of))
                if decode.is_float(coding):
                    subtracts_nothing = builder.fcmp_ordered("==", offset_, ir.Constant(offset_.type, 0.0))
                    with builder.if_then(builder.and_(builder.not_(is_narrow), subtracts_nothing)):
                        look_up_floats()
        return builder.load(done)

    return types.intp(
        x, out, types.intp, types.intp, coding, scale, scale, divides, scales, offsets, types.boolean
    ), generate


@intrinsic  # type: ignore[untyped-decorator]
def entries_multiple(context: Any, x: Any, out: Any) -> Generated:
    """The last item of ``where`` of `tiles.next_tile`, for `put_entries`.

    It is 1, or 0 if `put_entries` stores nothing past the caches.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return ir.Constant(I64, int(looks_up_results(x.dtype, out.dtype)))

    return types.int64(x, out), generate


@intrinsic  # type: ignore[untyped-decorator]
def put_entries(context: Any, x: Any, out: Any, first: Any, count: Any, table: Any, streamed: Any) -> Generated:
    """out[first + i] = table[x[first + i]] for as many of ``count`` elements as a lookup can serve.

    Args:
        streamed: as for `chunks.put_chunk`.

    Returns:
        The number of elements that were stored.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        codes, result, first, count_, entries, streamed_ = arguments
        if not looks_up_results(x.dtype, out.dtype):
            return ir.Constant(I64, 0)
        start = data_of(context, builder, table, entries, ir.Constant(I64, 0))
        way = _all_codes(builder, read_table(builder, start))
        return _put_looked_up(context, builder, way, (x, codes, first), (out, result, first), count_, streamed_)

    return types.intp(x, out, types.intp, types.intp, table, types.boolean), generate


class _Method(NamedTuple):
    """A lookup of the entries of ``at_once`` codes, in two vectors of as many bytes each."""

    at_once: int
    """Codes that one lookup serves."""

    entries_of: Callable[[Any], list[Any]]
    """A function that returns the entries of a vector of codes."""


def _put_looked_up(context: Any, builder: Any, way: _Method, x: Any, out: Any, count: Any, streamed: Any) -> Any:
    """Store the entries of as many of ``count`` codes as fill whole vectors, and return their number.

    Args:
        x: Numba's type, the array, and the first index in it.
        out: the same of the output.
    """
    of_x, codes, first = x
    of_out, result, to = out
    at_once = ir.Constant(I64, way.at_once)
    steps = builder.udiv(count, at_once)
    with cgutils.for_range(builder, steps) as loop:
        done = builder.mul(loop.index, at_once)
        fetch_ahead(context, builder, of_x, codes, builder.add(first, done), way.at_once)
        code = load(context, builder, of_x, codes, builder.add(first, done), count=way.at_once)
        for number, entries in enumerate(way.entries_of(code)):
            index = builder.add(to, builder.add(done, ir.Constant(I64, number * entries.type.count)))
            store(context, builder, entries, data_of(context, builder, of_out, result, index), streamed)
    return builder.mul(steps, at_once)


def _all_codes(builder: Any, table: ByteTable) -> _Method:
    """The lookup for codes of eight bits."""
    return _Method(CODES_512, lambda code: _look_up_entries(builder, table, code))


def _narrow_codes(builder: Any, values_of: Callable[[Any], Any]) -> _Method:
    """The lookup for codes of four bits or fewer. values_of: makes CHUNK results from CHUNK codes."""
    entries = values_of(ir.Constant(ir.VectorType(I8, CHUNK), list(range(CHUNK))))

    def entries_of(code: Any) -> list[Any]:
        # Bits above a code are not part of it.
        return shuffle_narrow(builder, entries, builder.and_(code, constant(code.type, CHUNK - 1)))

    return _Method(CODES_256, entries_of)


def _float_codes(builder: Any, tables: ShuffleTables) -> _Method:
    """The lookup for codes of 8-bit floats."""
    return _Method(CODES_256, lambda code: shuffle_floats(builder, tables, code))


def _look_up_entries(builder: Any, table: ByteTable, code: Any) -> list[Any]:
    """The entries of 64 codes, in two vectors.

    Bytes are joined within the quarters of a register: the first eight of each quarter, and the last eight.
    So codes are first moved, eight together, to where their entries come out in order.
    """
    eights = builder.bitcast(code, ir.VectorType(I64, 8))
    code = builder.bitcast(shuffled(builder, eights, eights, [0, 4, 1, 5, 2, 6, 3, 7]), code.type)
    lower, upper = look_up_bytes(builder, table, code)
    joined = []
    for start in (0, 8):
        indices = [quarter + start + i for quarter in range(0, CODES_512, 16) for i in range(8)]
        both = [index + of for index in indices for of in (0, CODES_512)]
        joined.append(builder.bitcast(shuffled(builder, lower, upper, both), ir.VectorType(I16, 32)))
    return joined


_TABLE_REGISTERS = 8
"""Registers of a table of 256 entries of 16 bits."""


def looks_up_values(codes: Any, out: Any, coding: Any) -> bool:
    """True if the values of codes are looked up.

    Values of integers take fewer instructions to compute. With the shuffle of sixteen bytes alone, so do values that
    are read
    through float16, unless the output has 16 bits.

    Args:
        codes: Numba's element type of codes.
        out: Numba's element type of the output.
        coding: Numba's type of the coding.
    """
    if codes != types.uint8 or not decode.is_float(coding):
        return False
    by_half = coding.count == len(Float16Coding._fields)
    return has_byte_lookup() or (has_float_shuffle() and (out.bitwidth == 16 or not by_half))


@intrinsic  # type: ignore[untyped-decorator]
def value_table(context: Any, x: Any, out: Any, coding: Any) -> Generated:
    """The address of a table of the values of all codes; 0 if there is none."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        *_, coding_ = arguments
        if not looks_up_values(x.dtype, out.dtype, coding):
            return ir.Constant(I64, 0)
        if has_byte_lookup():
            return make_value_table(builder, coding_)
        address = cgutils.alloca_once_value(builder, ir.Constant(I64, 0))
        # For codes of four bits or fewer, results are looked up instead of values.
        with builder.if_then(builder.not_(decode.is_narrow(builder, coding_))):
            builder.store(make_value_table(builder, coding_), address)
        return builder.load(address)

    return types.int64(x, out, coding), generate


@intrinsic  # type: ignore[untyped-decorator]
def put_four_chunks(
    context: Any,
    x: Any,
    out: Any,
    first: Any,
    coding: Any,
    scale: Any,
    offset: Any,
    second_scale: Any,
    second_offset: Any,
    divides: Any,
    scales: Any,
    offsets: Any,
    numbers: Any,
    streamed: Any,
    is_normal: Any,
) -> Generated:
    """`chunks.put_two_chunks` twice, with one scale and offset and then with a second.

    Args:
        numbers: the address that `value_table` returned.
        is_normal: the flag for both scales.
    """

    kinds = Kinds(x, out, coding, divides, scales, offsets)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (
            codes,
            result,
            first,
            _,
            scale_,
            offset_,
            second_scale_,
            second_offset_,
            *_,
            numbers_,
            streamed_,
            is_normal_,
        ) = arguments
        if not looks_up_values(x.dtype, out.dtype, coding):
            return context.get_dummy_value()
        fetch_ahead(context, builder, x, codes, first, CODES_512)
        code = load(context, builder, x, codes, first, count=CODES_512)
        numbers = [decode.widen(builder, number, scale_.type) for number in look_up_values(builder, numbers_, code)]
        to = first
        for two, own in ((numbers[:2], (scale_, offset_)), (numbers[2:], (second_scale_, second_offset_))):
            store_two(context, builder, two, *own, kinds, (result, to), is_normal_, streamed_)
            to = builder.add(to, ir.Constant(I64, 2 * CHUNK))
        return context.get_dummy_value()

    return types.void(
        x, out, types.intp, coding, scale, scale, scale, scale, divides, scales, offsets, types.int64,
        types.boolean, types.boolean,
    ), generate  # fmt: skip


def make_value_table(builder: Any, coding: Any) -> Any:
    """Make the table of values in memory, and return its address; 0 if there is none.

    The table consists of registers. On AVX-512 a last one tells whether the table `is_mirrored`.
    The value of an 8-bit code has 8 significant bits or fewer, so a bfloat16 holds it: the upper half of a float32.
    """

    def upper_half(code: Any) -> Any:
        number = decode.code_value(builder, code, coding, F32)
        bits = builder.bitcast(number, shaped(I32, number))
        return builder.trunc(builder.lshr(bits, constant(bits.type, 16)), shaped(I16, number))

    if not has_byte_lookup():
        tables, hold = shuffle_tables(builder, shuffle_entries(builder, upper_half), SPECIAL_BLOCKS)
        address = _store_registers(builder, table_registers(tables))
        return builder.select(hold, address, ir.Constant(I64, 0))
    made = read_table(builder, compute_entries(builder, upper_half))
    flag = builder.zext(is_mirrored(builder, made), I8)
    return _store_registers(builder, [*made.lower, *made.upper, spread(builder, flag, made.lower[0])])


def _store_registers(builder: Any, registers: list[Any]) -> Any:
    """Store registers of one type in stack memory, and return its address."""
    room = room_for(builder, registers[0].type, len(registers))
    for index, register in enumerate(registers):
        builder.store(register, builder.gep(room, [ir.Constant(I32, 0), ir.Constant(I32, index)]), align=1)
    return builder.ptrtoint(room, I64)


def _shuffle_values(builder: Any, address: Any, code: Any) -> list[Any]:
    start = builder.inttoptr(address, BYTES_256.as_pointer())
    at = [
        builder.gep(start, [ir.Constant(I32, address_of_register)])
        for address_of_register in range(table_register_count(SPECIAL_BLOCKS))
    ]
    held = [
        mark_memory(builder, builder.load(address_of_register, align=1), "read", "written")
        for address_of_register in at
    ]
    tables = tables_of_registers(held, SPECIAL_BLOCKS)
    values = []
    for first in range(0, CODES_512, CODES_256):
        part = shuffled(builder, code, code, range(first, first + CODES_256))
        values += shuffle_float32(builder, tables, part)
    return values


def look_up_values(builder: Any, address: Any, code: Any) -> list[Any]:
    """The values of CODES_512 codes, CHUNK in a vector.

    The upper halves come from the table at that address. The lower halves are zeros.
    Bytes are joined within the quarters of a register: the first eight of each quarter, and the last eight. Of two
    neighbouring halves one then moves up and one stays. So codes are first moved to where they come out in order.
    """
    if not has_byte_lookup():
        return _shuffle_values(builder, address, code)
    start = builder.inttoptr(address, BYTES_512.as_pointer())
    *registers, last = [builder.gep(start, [ir.Constant(I32, i)]) for i in range(_TABLE_REGISTERS + 1)]
    at = *registers, builder.bitcast(last, I8.as_pointer())
    *parts, flag = [mark_memory(builder, builder.load(place, align=1), "read", "written") for place in at]
    mirrored = builder.icmp_unsigned("!=", flag, ir.Constant(I8, 0))
    joined = [[16 * quarter + start + i for quarter in range(4) for i in range(8)] for start in (0, 8)]
    code_at = {
        half: (2 * number + place % 2) * CHUNK + place // 2
        for number, halves in enumerate(joined)
        for place, half in enumerate(halves)
    }
    places = ir.Constant(BYTES_512, [code_at[half] for half in range(CODES_512)])
    moved = of_x86(builder, "avx512.permvar.qi.512", BYTES_512, code, places)
    lower, upper = look_up_bytes(builder, ByteTable(parts[:4], parts[4:]), moved, mirrored)
    singles = ir.VectorType(I32, CHUNK)
    values = []
    for halves in joined:
        both = shuffled(builder, lower, upper, [half + of for half in halves for of in (0, CODES_512)])
        both = builder.bitcast(both, singles)
        for bits in (builder.shl(both, constant(singles, 16)), builder.and_(both, constant(singles, 0xFFFF0000))):
            values.append(builder.bitcast(bits, ir.VectorType(F32, CHUNK)))
    return values
