"""The numbers of all codes of a byte in registers, which many short runs share; one long run has its results there."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from xverify.kernels.compiled import decoding, nibbles, sixteens
from xverify.kernels.compiled.bytewise import AT_ONCE, BYTES, Table, computed, is_mirrored, is_quick, looked_up, read
from xverify.kernels.compiled.codings import HalfCoding
from xverify.kernels.compiled.memory import fetch_ahead, load
from xverify.kernels.compiled.results import Kinds, store_two
from xverify.kernels.compiled.scalars import Generated, apart
from xverify.kernels.compiled.vectors import (
    CHUNK,
    F32,
    I8,
    I16,
    I32,
    I64,
    constant,
    of_x86,
    room_for,
    shaped,
    shuffled,
    spread,
)

_REGISTERS = 8
"""Of a table of 256 entries of 16 bits."""


def pays(codes: Any, out: Any, coding: Any) -> bool:
    """Whether numbers are looked up: Numba's types of elements, and of fields.

    Those of integers take fewer instructions to compute. Where sixteen are told apart at once and not 64, so do those of floats
    that are read by way of float16, but for outputs of 16 bits.
    """
    if codes != types.uint8 or not decoding.is_float(coding):
        return False
    by_half = coding.count == len(HalfCoding._fields)
    return is_quick() or (sixteens.is_there() and (out.bitwidth == 16 or not by_half))


@intrinsic  # type: ignore[untyped-decorator]
def numbers_of_codes(context: Any, x: Any, out: Any, coding: Any) -> Generated:
    """The address of a table of the numbers of all codes; 0 where there is none."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        *_, coding_ = arguments
        if not pays(x.dtype, out.dtype, coding):
            return ir.Constant(I64, 0)
        if is_quick():
            return put_table(builder, coding_)
        address = cgutils.alloca_once_value(builder, ir.Constant(I64, 0))
        # Results of codes of four bits or fewer are looked up themselves.
        with builder.if_then(builder.not_(decoding.is_narrow(builder, coding_))):
            builder.store(put_table(builder, coding_), address)
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
    """`chunks.put_two_chunks` twice, with one scale and offset and with a second; is_normal says so of both. numbers: the address
    of the table of `numbers_of_codes`."""

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
        if not pays(x.dtype, out.dtype, coding):
            return context.get_dummy_value()
        fetch_ahead(context, builder, x, codes, first, AT_ONCE)
        code = load(context, builder, x, codes, first, count=AT_ONCE)
        numbers = [decoding.as_real(builder, number, scale_.type) for number in numbers_of(builder, numbers_, code)]
        to = first
        for two, own in ((numbers[:2], (scale_, offset_)), (numbers[2:], (second_scale_, second_offset_))):
            store_two(context, builder, two, *own, kinds, (result, to), is_normal_, streamed_)
            to = builder.add(to, ir.Constant(I64, 2 * CHUNK))
        return context.get_dummy_value()

    return types.void(
        x, out, types.intp, coding, scale, scale, scale, scale, divides, scales, offsets, types.int64,
        types.boolean, types.boolean,
    ), generate  # fmt: skip


def put_table(builder: Any, coding: Any) -> Any:
    """Make the table, and give its address; 0 where there is none. It is of registers, and with one instruction for all codes
    tells whether the numbers of the upper ones are those of the lower ones.

    A number of a code of 8 bits has 8 significant bits or fewer, and those of bfloat16 hold it: the upper half of a float32.
    """

    def upper_half(code: Any) -> Any:
        number = decoding.number(builder, code, coding, F32)
        bits = builder.bitcast(number, shaped(I32, number))
        return builder.trunc(builder.lshr(bits, constant(bits.type, 16)), shaped(I16, number))

    if not is_quick():
        tables, hold = sixteens.tables(builder, sixteens.entries(builder, upper_half), sixteens.SPECIAL)
        address = _put(builder, sixteens.registers(tables))
        return builder.select(hold, address, ir.Constant(I64, 0))
    made = read(builder, computed(builder, upper_half))
    flag = builder.zext(is_mirrored(builder, made), I8)
    return _put(builder, [*made.lower, *made.upper, spread(builder, flag, made.lower[0])])


def _put(builder: Any, registers: list[Any]) -> Any:
    """The address of room for registers of one type, where they are put."""
    room = room_for(builder, registers[0].type, len(registers))
    for place, register in enumerate(registers):
        builder.store(register, builder.gep(room, [ir.Constant(I32, 0), ir.Constant(I32, place)]), align=1)
    return builder.ptrtoint(room, I64)


def _by_sixteens(builder: Any, address: Any, code: Any) -> list[Any]:
    start = builder.inttoptr(address, nibbles.BYTES.as_pointer())
    at = [
        builder.gep(start, [ir.Constant(I32, place)]) for place in range(sixteens.number_of_registers(sixteens.SPECIAL))
    ]
    held = [apart(builder, builder.load(place, align=1), "read", "written") for place in at]
    tables = sixteens.of_registers(held, sixteens.SPECIAL)
    found = []
    for first in range(0, AT_ONCE, nibbles.AT_ONCE):
        part = shuffled(builder, code, code, range(first, first + nibbles.AT_ONCE))
        found += sixteens.upper_halves(builder, tables, part)
    return found


def numbers_of(builder: Any, address: Any, code: Any) -> list[Any]:
    """The numbers of AT_ONCE codes, CHUNK in a vector: their upper halves from the table at that address, and zeros.

    Two bytes are joined within the quarters of a register, the first eight of each and the last eight; of each two halves that
    are beside each other then, one is moved up and the other stays. So codes are moved first to where they come out in order.
    """
    if not is_quick():
        return _by_sixteens(builder, address, code)
    start = builder.inttoptr(address, BYTES.as_pointer())
    *registers, last = [builder.gep(start, [ir.Constant(I32, i)]) for i in range(_REGISTERS + 1)]
    at = *registers, builder.bitcast(last, I8.as_pointer())
    *parts, flag = [apart(builder, builder.load(place, align=1), "read", "written") for place in at]
    mirrored = builder.icmp_unsigned("!=", flag, ir.Constant(I8, 0))
    joined = [[16 * quarter + start + i for quarter in range(4) for i in range(8)] for start in (0, 8)]
    code_at = {
        half: (2 * number + place % 2) * CHUNK + place // 2
        for number, halves in enumerate(joined)
        for place, half in enumerate(halves)
    }
    places = ir.Constant(BYTES, [code_at[half] for half in range(AT_ONCE)])
    moved = of_x86(builder, "avx512.permvar.qi.512", BYTES, code, places)
    lower, upper = looked_up(builder, Table(parts[:4], parts[4:]), moved, mirrored)
    singles = ir.VectorType(I32, CHUNK)
    found = []
    for halves in joined:
        both = shuffled(builder, lower, upper, [half + of for half in halves for of in (0, AT_ONCE)])
        both = builder.bitcast(both, singles)
        for bits in (builder.shl(both, constant(singles, 16)), builder.and_(both, constant(singles, 0xFFFF0000))):
            found.append(builder.bitcast(bits, ir.VectorType(F32, CHUNK)))
    return found
