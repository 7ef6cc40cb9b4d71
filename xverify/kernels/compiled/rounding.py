"""One operation and one rounding, as LLVM instructions, vectorised or for vectors: exact, or rounded to odd, then to nearest.

An output of uint16 holds the codes of float16, one of int16 those of bfloat16, which Numba has not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from llvmlite import ir
from numba import types

from xverify.kernels.compiled.vectors import (
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    constant,
    element_of,
    has,
    has_half_instruction,
    integer,
    is_register,
    is_single,
    of_llvm,
    of_x86,
    shaped,
    shuffled,
)

_BITS = {types.uint16: 11, types.int16: 8}
"""Significant bits of float16 and bfloat16."""

_TOWARD_ZERO = 3 | 8
"""A rounding of x86's instructions, without exceptions."""

_SUBNORMAL = 0x20
"""A class of x86's floats."""

_SMALLEST_DIFFERENCE = -17
"""An exponent of 2: of the smallest float8, that of float8_e5m2fnuz. Integers differ by 1 or more."""


def to_odd(builder: Any, difference: Any, scale: Any, divides: bool, bits: int, dtype: Any) -> Any:
    """difference * scale, or / scale, exact or rounded to odd; or rounded to nearest where the output is what it is then.

    bits: the significant bits of both, at most. dtype: Numba's type of the output's elements.
    A product of as many bits as its type has is exact, unless it underflows. In float32 only those of an 8-bit float and a
    bfloat16 scale do: 12 bits below 2^-149, a zero in float16 and bfloat16 anyway.
    A quotient in float64 may be rounded to nearest: see `xverify.kernels.formula`. One in float32 is for outputs of float32.
    """
    if divides:
        return builder.fdiv(difference, scale)
    if bits <= (24 if is_single(difference) else 53) or (is_single(difference) and dtype == types.float32):
        return builder.fmul(difference, scale)
    return _product_to_odd(builder, difference, scale)


def gives_normals(builder: Any, scale: Any) -> Any:
    """Whether no product of a scale is a subnormal of float32: no difference but 0 is smaller than _SMALLEST_DIFFERENCE. scale: a
    number, or a code of bfloat16."""
    bias, fraction = {I16: (127, 7), F32: (127, 23), F64: (1023, 52)}[element_of(scale)]
    exponent = -126 - _SMALLEST_DIFFERENCE
    bits = scale if element_of(scale) == I16 else builder.bitcast(scale, integer(scale))
    magnitude = builder.and_(bits, constant(bits.type, (1 << (element_of(bits).width - 1)) - 1))
    return builder.icmp_unsigned(">=", magnitude, constant(bits.type, (bias + exponent) << fraction))


def element(builder: Any, value: Any, dtype: Any, carries: bool = True, is_normal: Any = None) -> Any:
    """Floats, exact or rounded to odd, as float32, or as codes of float16 or bfloat16.

    is_normal: whether none is a subnormal of float32, as far as that is known. carries: whether a NaN may have bits below those
    of bfloat16.
    """
    if dtype == types.float32:
        return value if is_single(value) else builder.fptrunc(value, shaped(F32, value))
    if dtype == types.uint16 and _are_registers(value) and has("avx512fp16"):
        return builder.bitcast(builder.fptrunc(value, shaped(ir.HalfType(), value)), shaped(I16, value))
    if not is_single(value):
        value = _cut(builder, value, _BITS[dtype] + 2)
    return _half(builder, value) if dtype == types.uint16 else _brain(builder, value, carries, is_normal)


def _product_to_odd(builder: Any, difference: Any, scale: Any) -> Any:
    """The product rounded to odd (see `xverify.kernels.casting`), for differences that are integers, or in float64.

    A fused multiply-add gives the product's error exactly unless it underflows. Products of integers and float32 scales are
    multiples of float32's smallest subnormal, so that they and their errors do not; those in float64 are far from it.
    """
    kind = integer(difference)
    if is_register(difference, "avx512f") or _are_registers(difference):
        # Toward zero, which is what is odd but for the last bit. An overflow gives the largest number, which is odd.
        product = _product_toward_zero(builder, difference, scale)
        error = of_llvm(builder, "fma", difference, scale, builder.fneg(product))
        return _marked(builder, product, builder.fcmp_ordered("!=", error, constant(error.type, 0.0)), 1)
    product = builder.fmul(difference, scale)
    error = of_llvm(builder, "fma", difference, scale, builder.fneg(product))
    # Infinities and NaN leave an error of NaN, overflow one of infinity and of the other sign.
    inexact = builder.fcmp_ordered("!=", error, constant(error.type, 0.0))
    bits = builder.bitcast(product, kind)
    # -1 where the product lies beyond the exact value: by the sign's bit, since one that underflows is a zero with a sign.
    apart = builder.xor(bits, builder.bitcast(error, kind))
    toward_zero = builder.ashr(apart, constant(kind, element_of(apart).width - 1))
    bits = builder.add(bits, builder.select(inexact, toward_zero, constant(kind, 0)))
    bits = builder.or_(bits, builder.zext(inexact, kind))
    return builder.bitcast(bits, product.type)


def _are_registers(value: Any) -> bool:
    """Whether it is as many float64 as two or four of the widest registers of an x86 processor hold."""
    return value.type in (ir.VectorType(F64, 16), ir.VectorType(F64, 32)) and has("avx512f")


def _by_register(builder: Any, made: Callable[..., Any], *values: Any) -> Any:
    """What is made of each register, one after the other."""
    count = values[0].type.count
    parts = [
        made(*(shuffled(builder, value, value, range(first, first + 8)) for value in values))
        for first in range(0, count, 8)
    ]
    while len(parts) > 1:
        joined = range(2 * parts[0].type.count)
        parts = [shuffled(builder, *two, joined) for two in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _product_toward_zero(builder: Any, difference: Any, scale: Any) -> Any:
    way = ir.Constant(I32, _TOWARD_ZERO)
    if is_single(difference):
        return of_x86(builder, "avx512.mul.ps.512", difference.type, difference, scale, way)

    def product(one: Any, other: Any) -> Any:
        return of_x86(builder, "avx512.mul.pd.512", one.type, one, other, way)

    return _by_register(builder, product, difference, scale)


def _marked(builder: Any, value: Any, where: Any, bit: int) -> Any:
    """Floats with that bit set where it is to be."""
    bits = builder.bitcast(value, integer(value))
    # Behind a fence: of a constant LLVM makes three instructions instead of one with a mask.
    fenced = of_llvm(builder, "arithmetic.fence", builder.bitcast(constant(bits.type, bit), value.type))
    marked = builder.or_(bits, builder.bitcast(fenced, bits.type))
    return builder.bitcast(builder.select(where, marked, bits), value.type)


def _cut(builder: Any, value: Any, bits: int) -> Any:
    """A float64 as float32, rounded to odd at so many significant bits: two more than the output has.

    What float32 then rounds again are its subnormals of fewer bits than these, which are zeros in either output.
    """
    kind = integer(value)
    below = constant(kind, (1 << (53 - bits)) - 1)
    codes = builder.bitcast(value, kind)
    if _are_registers(value):
        # What is below is cut off by rounding toward zero, and marked before in the last bit that stays.
        nothing = builder.icmp_unsigned("==", builder.and_(codes, below), constant(kind, 0))
        marked = _marked(builder, value, builder.not_(nothing), 1 << (53 - bits))

        def single(register: Any) -> Any:
            none, way = ir.Constant(ir.VectorType(F32, 8), None), ir.Constant(I32, _TOWARD_ZERO)
            return of_x86(builder, "avx512.mask.cvtpd2ps.512", none.type, register, none, ir.Constant(I8, -1), way)

        return _by_register(builder, single, marked)
    # Anything below carries into the last bit that stays, where it is set or not.
    carried = builder.or_(codes, builder.add(builder.and_(codes, below), below))
    cut = builder.and_(carried, builder.not_(below))
    return builder.fptrunc(builder.bitcast(cut, value.type), shaped(F32, value))


def _half(builder: Any, value: Any) -> Any:
    """The float16 code of a float32, rounded to nearest even; without an instruction for it, by integers."""
    short, kind = shaped(I16, value), integer(value)
    if has_half_instruction():
        return builder.bitcast(builder.fptrunc(value, shaped(ir.HalfType(), value)), short)

    def number(of: int) -> Any:
        return constant(kind, of)

    bits = builder.bitcast(value, kind)
    magnitude = builder.and_(bits, number(0x7FFFFFFF))
    is_nan = builder.icmp_unsigned(">", magnitude, number(0x7F800000))
    special = builder.select(is_nan, number(0x7E00), number(0x7C00))
    # The last bit of 0.5 is worth float16's smallest subnormal: the addition rounds.
    added = builder.fadd(builder.bitcast(magnitude, value.type), constant(value.type, 0.5))
    subnormal = builder.sub(builder.bitcast(added, kind), number(0x3F000000))
    # The exponent's bias falls from 127 to 15; half a unit, less one where the code is even, is added and cut off.
    odd = builder.and_(builder.lshr(magnitude, number(13)), number(1))
    normal = builder.lshr(builder.add(builder.add(magnitude, number(0xC8000FFF)), odd), number(13))
    code = builder.select(builder.icmp_unsigned("<", magnitude, number(0x38800000)), subnormal, normal)
    code = builder.select(builder.icmp_unsigned(">=", magnitude, number(0x47800000)), special, code)
    sign = builder.and_(builder.lshr(bits, number(16)), number(0x8000))
    return builder.trunc(builder.or_(code, sign), short)


def _brain(builder: Any, value: Any, carries: bool, is_normal: Any) -> Any:
    """The bfloat16 code of a float32, rounded to nearest even. carries, is_normal: as for `element`."""
    registers = _registers(builder, value)
    if not (is_register(registers[0], "avx512bf16") and has("avx512dq")):
        return _brain_by_integers(builder, value, carries)
    # The instructions take subnormals for zeros. That for two registers takes as long as the other for one.
    name = "cvtneps2bf16" if len(registers) == 1 else "cvtne2ps2bf16"
    code = of_x86(builder, f"avx512bf16.{name}.512", shaped(I16, value), *reversed(registers))
    if is_normal is None:
        return _unless_subnormal(builder, code, value, carries)
    return unless(builder, is_normal, [code], lambda: [_unless_subnormal(builder, code, value, carries)])[0]


def is_split(real: Any, out: Any, scale: Any, bits: int) -> bool:
    """Whether `split_product` takes fewer instructions than a product and its rounding do. real: of the arithmetic; out, scale:
    Numba's types of elements; bits: the significant bits of differences and scales together, at most."""
    if scale != out or out not in _BITS or not has("fma"):
        return False
    if real == F32:
        return out == types.int16 and bits <= 17 and not rounds_two()
    return bits <= 44 and not (out == types.uint16 and has("avx512fp16"))


_LARGEST_TO_SPLIT = 94
"""An exponent of 2: in float32, products of smaller scales with differences below 2^16 do not overflow when they are split."""


def may_split(builder: Any, scale: Any, out: Any) -> Any:
    """Whether products of differences of integers with a scale, a number, can be split, or rounded twice: none is a subnormal of
    the output's type, or overflows as they are split. A split 0 would lose the sign of a negative scale."""
    bias, fraction, kind = (127, 23, I32) if is_single(scale) else (1023, 52, I64)
    least = bias - 14 if out == types.uint16 else bias - 126
    above = bias + _LARGEST_TO_SPLIT if is_single(scale) else 2 * bias + 1
    from_least = builder.sub(builder.bitcast(scale, kind), ir.Constant(kind, least << fraction))
    return builder.icmp_unsigned("<", from_least, ir.Constant(kind, (above - least) << fraction))


def split_product(builder: Any, difference: Any, scale: Any, out: Any) -> Any:
    """The codes of difference * scale in the output's type, rounded to nearest even, where `is_split` and `may_split` say so.

    With p the product, 2^n p + p is rounded, where n is such that the last bit that stays is that of so many bits of p as the
    output has, and 2^n p is taken away, which is exact. 2^n p has a zero there, so that of two codes as near the even one is
    taken. The scale has no more bits than the output, and 2^n + 1 times it no more than the type of the arithmetic. Source:
    G. W. Veltkamp's splitting, in T. J. Dekker, A floating-point technique for extending the available precision, 1971.
    """
    n = (24 if is_single(difference) else 53) - _BITS[out]
    more, less = (builder.fmul(scale, constant(scale.type, float(factor))) for factor in (2**n + 1, -(2**n)))
    rounded = of_llvm(builder, "fma", difference, less, builder.fmul(difference, more))
    single = rounded if is_single(rounded) else builder.fptrunc(rounded, shaped(F32, rounded))
    if out == types.uint16:
        return _half(builder, single)
    kind = integer(single)
    return builder.trunc(builder.lshr(builder.bitcast(single, kind), constant(kind, 16)), shaped(I16, single))


def is_seldom_between(real: Any, out: Any, bits: int) -> bool:
    """Whether `nearest_products` takes fewer instructions than products rounded to odd do. real: of the arithmetic; out: Numba's
    type of elements; bits: the significant bits of differences and scales together, at most."""
    if has("avx512f") or not has("avx2") or not has("fma"):
        return False
    return bits > 24 and out == types.uint16 if real == F32 else bits > 53 and out == types.float32


def nearest_products(builder: Any, differences: list[Any], scale: Any, out: Any) -> tuple[list[Any], Any]:
    """difference * scale of each vector, rounded to nearest, and whether one more rounding, to the output's type, gives what the
    exact products give, where none is a subnormal of it.

    A product that is rounded twice is rounded wrongly only where the first rounding ends just in the middle between two of the
    output's elements: on either side of it the exact product is on the same side.
    """
    products = [builder.fmul(difference, scale) for difference in differences]
    bits, registers = (32, 8) if is_single(products[0]) else (64, 4)
    below = {32: 24, 64: 53}[bits] - {types.uint16: 11, types.float32: 24}[out]
    kind = ir.VectorType(ir.IntType(bits), registers)
    middles = []
    for product in products:
        for first in range(0, product.type.count, registers):
            codes = builder.bitcast(shuffled(builder, product, product, range(first, first + registers)), kind)
            last = builder.and_(codes, constant(kind, (1 << below) - 1))
            middles.append(builder.sext(builder.icmp_unsigned("==", last, constant(kind, 1 << (below - 1))), kind))
    found = builder.bitcast(reduce(builder.or_, middles), ir.VectorType(I64, 4))
    return products, builder.trunc(of_x86(builder, "avx.ptestz.256", I32, found, found), I1)


def rounds_two() -> bool:
    """Whether one instruction rounds two vectors of CHUNK float32 to bfloat16, in the time in which another does one."""
    return has("avx512bf16") and has("avx512dq")


def _registers(builder: Any, value: Any) -> list[Any]:
    """The halves of twice as many float32 as a widest register holds; the value alone, where it is another."""
    if value.type != ir.VectorType(F32, 32):
        return [value]
    return [shuffled(builder, value, value, range(first, first + 16)) for first in (0, 16)]


def _unless_subnormal(builder: Any, code: Any, value: Any, carries: bool) -> Any:
    """The bfloat16 codes, or where one of the floats is a subnormal those by integers."""
    lanes = ir.VectorType(I1, 16)
    subnormal = [
        builder.bitcast(of_x86(builder, "avx512.fpclass.ps.512", lanes, register, ir.Constant(I32, _SUBNORMAL)), I16)
        for register in _registers(builder, value)
    ]
    none = builder.icmp_unsigned("==", reduce(builder.or_, subnormal), ir.Constant(I16, 0))
    return unless(builder, none, [code], lambda: [_brain_by_integers(builder, value, carries)])[0]


def unless(builder: Any, holds: Any, usual: list[Any], otherwise: Callable[[], list[Any]]) -> list[Any]:
    """The usual values, or where something does not hold, which is rare, those that are computed then."""
    before = builder.block
    with builder.if_then(builder.not_(holds), likely=False):
        computed = otherwise()
        within = builder.block
    results = [builder.phi(value.type) for value in usual]
    for result, one, other in zip(results, usual, computed, strict=True):
        result.add_incoming(one, before)
        result.add_incoming(other, within)
    return results


def _brain_by_integers(builder: Any, value: Any, carries: bool) -> Any:
    kind = integer(value)
    bits = builder.bitcast(value, kind)
    # Half a unit, less one where the code is even, is added and cut off.
    is_odd = builder.icmp_unsigned("!=", builder.and_(bits, constant(kind, 1 << 16)), constant(kind, 0))
    rounded = builder.add(bits, constant(kind, 0x7FFF))
    rounded = builder.select(is_odd, builder.add(rounded, constant(kind, 1)), rounded)
    code = builder.lshr(rounded, constant(kind, 16))
    if carries:
        # As the instruction has it, so that a NaN is the same in a chunk and in a rest.
        quiet = builder.or_(builder.lshr(bits, constant(kind, 16)), constant(kind, 0x40))
        code = builder.select(builder.fcmp_unordered("uno", value, value), quiet, code)
    return builder.trunc(code, shaped(I16, value))
