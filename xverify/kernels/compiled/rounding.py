"""Exact arithmetic with one rounding, as LLVM instructions: products and quotients to output elements.

A value is exact, or rounded to odd, before it is rounded to nearest even. An output of type uint16 holds the codes of float16.
One of type int16 holds those of bfloat16. Numba has neither type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from xverify.kernels.compiled import decode
from xverify.kernels.compiled.memory import Packed, data_of, load, load_packed, store, table_indices
from xverify.kernels.compiled.vectors import (
    CHUNK,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    Generated,
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
    spread,
)

_BITS = {types.uint16: 11, types.int16: 8}
"""Significant bits of float16 and bfloat16, by Numba's type of their codes."""

_TOWARD_ZERO = 3 | 8
"""The rounding mode of x86 instructions: toward zero, without exceptions."""

_SUBNORMAL = 0x20
"""The class of subnormals in x86's ``vfpclass``."""

_SMALLEST_DIFFERENCE = -17
"""The exponent of 2 of the smallest difference but 0: that of float8_e5m2fnuz. Integers differ by 1 or more."""


def to_odd(builder: Any, difference: Any, scale: Any, divides: bool, bits: int, dtype: Any) -> Any:
    """difference * scale, or / scale: exact, or rounded to odd.

    It is rounded to nearest if that gives the same output.
    A product with no more bits than its type is exact, unless it underflows. In float32 only a product of an 8-bit
    float and a bfloat16 scale underflows: 12 bits below 2^-149, which is a zero in float16 and bfloat16 anyway.
    A quotient in float64 may be rounded to nearest: see `xverify.kernels.formula`. A quotient in float32 is for
    float32 outputs.

    Args:
        divides: True for a quotient.
        bits: an upper limit of the significant bits of both operands together.
        dtype: Numba's element type of the output.
    """
    if divides:
        return builder.fdiv(difference, scale)
    if bits <= (24 if is_single(difference) else 53) or (is_single(difference) and dtype == types.float32):
        return builder.fmul(difference, scale)
    return _product_to_odd(builder, difference, scale)


def gives_normals(builder: Any, scale: Any) -> Any:
    """True, at run time, if no product with the scale is a subnormal of float32.

    No difference but 0 is smaller than 2^_SMALLEST_DIFFERENCE. scale: a value, or a code of bfloat16.
    """
    bias, fraction = {I16: (127, 7), F32: (127, 23), F64: (1023, 52)}[element_of(scale)]
    exponent = -126 - _SMALLEST_DIFFERENCE
    bits = scale if element_of(scale) == I16 else builder.bitcast(scale, integer(scale))
    magnitude = builder.and_(bits, constant(bits.type, (1 << (element_of(bits).width - 1)) - 1))
    return builder.icmp_unsigned(">=", magnitude, constant(bits.type, (bias + exponent) << fraction))


def element(builder: Any, value: Any, dtype: Any, carries: bool = True, is_normal: Any = None) -> Any:
    """Floats, exact or rounded to odd, as float32, or as codes of float16 or bfloat16.

    Args:
        carries: True if a NaN may have bits below those of bfloat16.
        is_normal: the run-time flag that no value is a subnormal of float32; None if that is not known.
    """
    if dtype == types.float32:
        return value if is_single(value) else builder.fptrunc(value, shaped(F32, value))
    if dtype == types.uint16 and _are_registers(value) and has("avx512fp16"):
        return builder.bitcast(builder.fptrunc(value, shaped(ir.HalfType(), value)), shaped(I16, value))
    if not is_single(value):
        value = _narrow_to_odd(builder, value, _BITS[dtype] + 2)
    return _to_float16(builder, value) if dtype == types.uint16 else _to_bfloat16(builder, value, carries, is_normal)


def _product_to_odd(builder: Any, difference: Any, scale: Any) -> Any:
    """The product rounded to odd (see `xverify.kernels.casting`), for integer differences, or in float64.

    A fused multiply-add gives the error of the product exactly unless it underflows. A product of an integer and a
    float32 scale is
    a multiple of float32's smallest subnormal, so neither it nor its error underflows. Products in float64 are far
    from that.
    """
    kind = integer(difference)
    if is_register(difference, "avx512f") or _are_registers(difference):
        # Rounding toward zero is rounding to odd but for the last bit. An overflow gives the largest number, which is odd.
        product = _product_toward_zero(builder, difference, scale)
        error = of_llvm(builder, "fma", difference, scale, builder.fneg(product))
        return _set_bit_where(builder, product, builder.fcmp_ordered("!=", error, constant(error.type, 0.0)), 1)
    product = builder.fmul(difference, scale)
    error = of_llvm(builder, "fma", difference, scale, builder.fneg(product))
    # Infinities and NaN give an error of NaN; an overflow gives an infinity of the other sign.
    inexact = builder.fcmp_ordered("!=", error, constant(error.type, 0.0))
    bits = builder.bitcast(product, kind)
    # -1 if the product is beyond the exact value. The sign bits tell, since a product that underflows is a signed zero.
    apart = builder.xor(bits, builder.bitcast(error, kind))
    toward_zero = builder.ashr(apart, constant(kind, element_of(apart).width - 1))
    bits = builder.add(bits, builder.select(inexact, toward_zero, constant(kind, 0)))
    bits = builder.or_(bits, builder.zext(inexact, kind))
    return builder.bitcast(bits, product.type)


def _are_registers(value: Any) -> bool:
    """True for two or four full 512-bit registers of float64 on a processor that has them."""
    return value.type in (ir.VectorType(F64, 16), ir.VectorType(F64, 32)) and has("avx512f")


def _by_register(builder: Any, made: Callable[..., Any], *values: Any) -> Any:
    """Apply a function to each register, and join the results."""
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

    def product(left: Any, right: Any) -> Any:
        return of_x86(builder, "avx512.mul.pd.512", left.type, left, right, way)

    return _by_register(builder, product, difference, scale)


def _set_bit_where(builder: Any, value: Any, where: Any, bit: int) -> Any:
    """Floats with that bit set where the mask is true."""
    bits = builder.bitcast(value, integer(value))
    # The fence keeps LLVM from making three instructions of a constant, instead of one with a mask.
    fenced = of_llvm(builder, "arithmetic.fence", builder.bitcast(constant(bits.type, bit), value.type))
    marked = builder.or_(bits, builder.bitcast(fenced, bits.type))
    return builder.bitcast(builder.select(where, marked, bits), value.type)


def _narrow_to_odd(builder: Any, value: Any, bits: int) -> Any:
    """A float64 as float32, rounded to odd at ``bits`` significant bits: two more than the output has.

    Float32 rounds again only its subnormals of fewer bits, which are zeros in either output.
    """
    kind = integer(value)
    below = constant(kind, (1 << (53 - bits)) - 1)
    codes = builder.bitcast(value, kind)
    if _are_registers(value):
        # The last bit that stays records lower bits; rounding toward zero then cuts them off.
        nothing = builder.icmp_unsigned("==", builder.and_(codes, below), constant(kind, 0))
        marked = _set_bit_where(builder, value, builder.not_(nothing), 1 << (53 - bits))

        def single(register: Any) -> Any:
            none, way = ir.Constant(ir.VectorType(F32, 8), None), ir.Constant(I32, _TOWARD_ZERO)
            return of_x86(builder, "avx512.mask.cvtpd2ps.512", none.type, register, none, ir.Constant(I8, -1), way)

        return _by_register(builder, single, marked)
    # Any lower bit carries into the last bit that stays.
    carried = builder.or_(codes, builder.add(builder.and_(codes, below), below))
    cut = builder.and_(carried, builder.not_(below))
    return builder.fptrunc(builder.bitcast(cut, value.type), shaped(F32, value))


def _to_float16(builder: Any, value: Any) -> Any:
    """The float16 code of a float32, rounded to nearest even; by integers if there is no instruction."""
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
    # The exponent's bias falls from 127 to 15. Half a unit, less one for an even code, is added before the cut.
    odd = builder.and_(builder.lshr(magnitude, number(13)), number(1))
    normal = builder.lshr(builder.add(builder.add(magnitude, number(0xC8000FFF)), odd), number(13))
    code = builder.select(builder.icmp_unsigned("<", magnitude, number(0x38800000)), subnormal, normal)
    code = builder.select(builder.icmp_unsigned(">=", magnitude, number(0x47800000)), special, code)
    sign = builder.and_(builder.lshr(bits, number(16)), number(0x8000))
    return builder.trunc(builder.or_(code, sign), short)


def _to_bfloat16(builder: Any, value: Any, carries: bool, is_normal: Any) -> Any:
    """The bfloat16 code of a float32, rounded to nearest even. carries, is_normal: as for `element`."""
    registers = _registers(builder, value)
    if not (is_register(registers[0], "avx512bf16") and has("avx512dq")):
        return _to_bfloat16_by_integers(builder, value, carries)
    # The instructions flush subnormals. The instruction for two registers takes as long as the one for a single register.
    name = "cvtneps2bf16" if len(registers) == 1 else "cvtne2ps2bf16"
    code = of_x86(builder, f"avx512bf16.{name}.512", shaped(I16, value), *reversed(registers))
    if is_normal is None:
        return _unless_subnormal(builder, code, value, carries)
    return unless(builder, is_normal, [code], lambda: [_unless_subnormal(builder, code, value, carries)])[0]


def is_split(real: Any, out: Any, scale: Any, bits: int) -> bool:
    """True if `split_product` takes fewer instructions than a product and its rounding.

    Args:
        real: LLVM's type of the arithmetic.
        out: Numba's element type of the output.
        scale: Numba's element type of scales.
        bits: an upper limit of the significant bits of differences and scales together.
    """
    if scale != out or out not in _BITS or not has("fma"):
        return False
    if real == F32:
        return out == types.int16 and bits <= 17 and not rounds_two()
    return bits <= 44 and not (out == types.uint16 and has("avx512fp16"))


_LARGEST_TO_SPLIT = 94
"""An exponent of 2 that bounds scales for splits in float32.

Products of smaller scales and differences below 2^16 do not overflow when they are split.
"""


def may_split(builder: Any, scale: Any, out: Any) -> Any:
    """True, at run time, if products of integer differences and a scale can be split, or rounded twice.

    No product may be a subnormal of the output's type, or overflow in the split. A split 0 would lose the sign of a
    negative scale.
    """
    bias, fraction, kind = (127, 23, I32) if is_single(scale) else (1023, 52, I64)
    least = bias - 14 if out == types.uint16 else bias - 126
    above = bias + _LARGEST_TO_SPLIT if is_single(scale) else 2 * bias + 1
    from_least = builder.sub(builder.bitcast(scale, kind), ir.Constant(kind, least << fraction))
    return builder.icmp_unsigned("<", from_least, ir.Constant(kind, (above - least) << fraction))


def split_product(builder: Any, difference: Any, scale: Any, out: Any) -> Any:
    """Codes of difference * scale in the output's type, rounded to nearest even.

    `is_split` and `may_split` must hold.
    Let p be the product. 2^n p + p is rounded, with n such that the last bit that stays is the last bit of p that the
    output has. Then 2^n p is subtracted, which is exact. 2^n p has a zero there, so that a tie goes to the even code.
    The scale has no more bits than the output, and (2^n + 1) times the scale no more than the type of the arithmetic.

    Source:
        G. W. Veltkamp's splitting, in T. J. Dekker, A floating-point technique for extending the available precision,
            1971.
    """
    n = (24 if is_single(difference) else 53) - _BITS[out]
    more, less = (builder.fmul(scale, constant(scale.type, float(factor))) for factor in (2**n + 1, -(2**n)))
    rounded = of_llvm(builder, "fma", difference, less, builder.fmul(difference, more))
    single = rounded if is_single(rounded) else builder.fptrunc(rounded, shaped(F32, rounded))
    if out == types.uint16:
        return _to_float16(builder, single)
    kind = integer(single)
    return builder.trunc(builder.lshr(builder.bitcast(single, kind), constant(kind, 16)), shaped(I16, single))


def is_seldom_between(real: Any, out: Any, bits: int) -> bool:
    """True if `nearest_products` takes fewer instructions than products rounded to odd.

    Args:
        real: LLVM's type of the arithmetic.
        out: Numba's element type of the output.
        bits: an upper limit of the significant bits of differences and scales together.
    """
    if has("avx512f") or not has("avx2") or not has("fma"):
        return False
    return bits > 24 and out == types.uint16 if real == F32 else bits > 53 and out == types.float32


def nearest_products(builder: Any, differences: list[Any], scale: Any, out: Any) -> tuple[list[Any], Any]:
    """difference * scale of each vector, rounded to nearest, and a flag.

    The flag says that a second rounding gives the exact result. It holds where no product is a subnormal of the output's
    type. A double rounding is wrong only where the first rounding ends on the midpoint of two output elements. On either
    side of it the exact product is on the same side.
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
    any_middle = builder.bitcast(reduce(builder.or_, middles), ir.VectorType(I64, 4))
    return products, builder.trunc(of_x86(builder, "avx.ptestz.256", I32, any_middle, any_middle), I1)


def rounds_two() -> bool:
    """True if one instruction rounds two vectors of CHUNK float32 to bfloat16.

    It must be as fast as the instruction that rounds one vector.
    """
    return has("avx512bf16") and has("avx512dq")


def _registers(builder: Any, value: Any) -> list[Any]:
    """The two registers of a vector of 32 float32; any other value alone."""
    if value.type != ir.VectorType(F32, 32):
        return [value]
    return [shuffled(builder, value, value, range(first, first + 16)) for first in (0, 16)]


def _unless_subnormal(builder: Any, code: Any, value: Any, carries: bool) -> Any:
    """The bfloat16 codes; computed by integers if one of the floats is a subnormal."""
    lanes = ir.VectorType(I1, 16)
    subnormal = [
        builder.bitcast(of_x86(builder, "avx512.fpclass.ps.512", lanes, register, ir.Constant(I32, _SUBNORMAL)), I16)
        for register in _registers(builder, value)
    ]
    none = builder.icmp_unsigned("==", reduce(builder.or_, subnormal), ir.Constant(I16, 0))
    return unless(builder, none, [code], lambda: [_to_bfloat16_by_integers(builder, value, carries)])[0]


def unless(builder: Any, holds: Any, usual: list[Any], otherwise: Callable[[], list[Any]]) -> list[Any]:
    """The usual values, or if a condition fails, which is rare, values computed then."""
    before = builder.block
    with builder.if_then(builder.not_(holds), likely=False):
        computed = otherwise()
        within = builder.block
    results = [builder.phi(value.type) for value in usual]
    for result, usual_value, computed_value in zip(results, usual, computed, strict=True):
        result.add_incoming(usual_value, before)
        result.add_incoming(computed_value, within)
    return results


def _to_bfloat16_by_integers(builder: Any, value: Any, carries: bool) -> Any:
    kind = integer(value)
    bits = builder.bitcast(value, kind)
    # Half a unit, less one for an even code, is added before the cut.
    is_odd = builder.icmp_unsigned("!=", builder.and_(bits, constant(kind, 1 << 16)), constant(kind, 0))
    rounded = builder.add(bits, constant(kind, 0x7FFF))
    rounded = builder.select(is_odd, builder.add(rounded, constant(kind, 1)), rounded)
    code = builder.lshr(rounded, constant(kind, 16))
    if carries:
        # As the instruction does it, so that a NaN is the same in a whole chunk and in a rest.
        quiet = builder.or_(builder.lshr(bits, constant(kind, 16)), constant(kind, 0x40))
        code = builder.select(builder.fcmp_unordered("uno", value, value), quiet, code)
    return builder.trunc(code, shaped(I16, value))


_INTEGER_BITS = {types.uint8: 8, types.uint16: 16, types.int32: 33}
"""Significant bits of the difference of two codes, by Numba's type of codes."""

_SCALE_BITS = {types.float32: 24, types.uint16: 11, types.int16: 8}


def is_away(code: Any, coding: Any, offset: Any) -> bool:
    """True if an offset may differ from 0: there are zero points, or codes have an origin."""
    return isinstance(offset, types.Array) or not (decode.is_float(coding) or code == types.int32)


def significant_bits(code: Any, coding: Any, scale: Any, offset: Any) -> int:
    """An upper limit of the significant bits of a difference and a scale together.

    Args:
        code: Numba's element type of codes.
        coding: Numba's type of their coding.
        scale: Numba's element type of scales.
        offset: Numba's type of offsets: a number if there are none. Offsets of a float type may be any values.
    """
    has_offsets = isinstance(offset, types.Array)
    if has_offsets and isinstance(offset.dtype, types.Float):
        return 64
    if decode.is_float(coding):
        return _SCALE_BITS[scale] + (33 if has_offsets else 4)
    return _SCALE_BITS[scale] + _INTEGER_BITS[code]


@intrinsic  # type: ignore[untyped-decorator]
def round_element(context: Any, value: Any, like: Any) -> Generated:
    """A float64, exact or rounded to odd, as an element of the array ``like``.

    The number is rounded once, to nearest even.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return element(builder, arguments[0], like.dtype)

    return like.dtype(types.float64, like), generate


@intrinsic  # type: ignore[untyped-decorator]
def differ(context: Any, left: Any, right: Any) -> Generated:
    """1 if two elements differ in a bit, else 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if left == types.float32:
            arguments = [builder.bitcast(argument, I32) for argument in arguments]
        return builder.zext(builder.icmp_unsigned("!=", *arguments), ir.IntType(8))

    return types.uint8(left, left), generate


class Kinds(NamedTuple):
    """Numba's types of the operands of a chunk."""

    x: Any
    """The array of codes."""

    out: Any
    """The output array."""

    coding: Any
    """The fields of the coding."""

    divides: Any
    """Numba's none type for a product, another type for a quotient."""

    scales: Any
    """The array of scales."""

    offsets: Any
    """The array of offsets, or a number if there are none."""


def output_elements(builder: Any, number: Any, scale: Any, offset: Any, kinds: Kinds) -> Any:
    """Output elements, from values of codes, scales and offsets.

    The values are vectors, or numbers that serve the whole vector.
    """
    value = scaled_to_odd(builder, number, scale, offset, kinds)
    is_shared = not isinstance(scale.type, ir.VectorType)
    return round_elements(builder, value, kinds, known_normals(builder, scale, kinds.divides) if is_shared else None)


def store_two(
    context: Any, builder: Any, numbers: list[Any], scale: Any, offset: Any, kinds: Kinds, target: tuple[Any, Any],
    is_normal: Any, streamed: Any,
) -> None:  # fmt: skip
    """Store the elements of two chunks that share a scale and an offset.

    Args:
        numbers: the values of the codes, a vector for each chunk.
        target: the output array, and the index of the first element.
        is_normal: the flag of `known_normals` for the scale.
        streamed: as for `chunks.put_chunk`.
    """
    out, to = target
    for done in _two_chunks(builder, numbers, scale, offset, kinds, is_normal):
        store(context, builder, done, data_of(context, builder, kinds.out, out, to), streamed)
        to = builder.add(to, ir.Constant(I64, done.type.count))


def store_two_of_row(
    context: Any, builder: Any, numbers: list[Any], scales: Sequence[Any], offsets: Sequence[Any], kinds: Kinds,
    target: tuple[Any, Any], is_normal: Any, streamed: Any,
) -> None:  # fmt: skip
    """`store_two` for elements with a scale and an offset each.

    Args:
        is_normal: the flag for all these scales, or None.
    """
    values = [scaled_to_odd(builder, *each, kinds) for each in zip(numbers, scales, offsets, strict=True)]
    if _is_joined(kinds.out):
        values = [shuffled(builder, values[0], values[1], range(2 * CHUNK))]
    out, to = target
    for value in values:
        done = round_elements(builder, value, kinds, is_normal)
        store(context, builder, done, data_of(context, builder, kinds.out, out, to), streamed)
        to = builder.add(to, ir.Constant(I64, done.type.count))


def all_of(builder: Any, mask: Any) -> Any:
    """True, at run time, if all of CHUNK conditions hold."""
    return builder.icmp_unsigned("==", builder.bitcast(mask, I16), ir.Constant(I16, (1 << CHUNK) - 1))


def _two_chunks(builder: Any, numbers: list[Any], scale: Any, offset: Any, kinds: Kinds, is_normal: Any) -> list[Any]:
    """The elements of two chunks: in two vectors, or in one if a store takes one."""
    quick = _short_way(kinds, element_of(scale))
    if quick is not None:
        return _by_short_way(builder, quick, numbers, scale, offset, kinds)
    values = [scaled_to_odd(builder, number, scale, offset, kinds) for number in numbers]
    if _is_joined(kinds.out):
        values = [shuffled(builder, values[0], values[1], range(2 * CHUNK))]
    return [round_elements(builder, value, kinds, is_normal) for value in values]


ShortWay = Callable[..., tuple[list[Any], Any]]
"""A function of differences and a scale: the elements, and a flag that they are right, or None if they always are."""


def _by_short_way(
    builder: Any, quick: ShortWay, numbers: list[Any], scale: Any, offset: Any, kinds: Kinds
) -> list[Any]:
    """The elements of two chunks by the short way, if the scale allows it."""
    differences = [_difference(builder, number, offset, kinds) for number in numbers]
    usual, are_right = quick(builder, differences, as_vector(builder, scale, differences[0]), kinds)
    may_be = may_split(builder, scale, kinds.out.dtype)
    holds = may_be if are_right is None else builder.and_(may_be, are_right)

    def otherwise() -> list[Any]:
        return [
            round_elements(builder, scaled_to_odd(builder, number, scale, offset, kinds), kinds, None)
            for number in numbers
        ]

    return unless(builder, holds, usual, otherwise)


def _split_products(builder: Any, differences: list[Any], scale: Any, kinds: Kinds) -> tuple[list[Any], Any]:
    return [split_product(builder, difference, scale, kinds.out.dtype) for difference in differences], None


def _to_nearest_first(builder: Any, differences: list[Any], scale: Any, kinds: Kinds) -> tuple[list[Any], Any]:
    products, are_right = nearest_products(builder, differences, scale, kinds.out.dtype)
    return [round_elements(builder, product, kinds, None) for product in products], are_right


def _short_way(kinds: Kinds, real: Any) -> ShortWay | None:
    """The way that takes fewer instructions than a product rounded to odd, or None.

    Args:
        real: LLVM's type of the arithmetic.
    """
    # A difference of floats may be -0, or a fraction.
    if kinds.divides != types.none or decode.is_float(kinds.coding):
        return None
    bits, out = _operand_bits(kinds), kinds.out.dtype
    if is_split(real, out, kinds.scales.dtype, bits):
        return _split_products
    return _to_nearest_first if is_seldom_between(real, out, bits) else None


def _is_joined(of_out: Any) -> bool:
    return bool(of_out.dtype == types.int16 and rounds_two())


def known_normals(builder: Any, scale: Any, divides: Any) -> Any:
    """The flag of `gives_normals`; None for a division, where it is not known. divides: Numba's type."""
    return gives_normals(builder, scale) if divides == types.none else None


def scaled_to_odd(builder: Any, number: Any, scale: Any, offset: Any, kinds: Kinds) -> Any:
    """(number - offset) * scale, or / scale, as `to_odd` gives it."""
    difference, factor = _difference(builder, number, offset, kinds), as_vector(builder, scale, number)
    return to_odd(builder, difference, factor, kinds.divides != types.none, _operand_bits(kinds), kinds.out.dtype)


def _difference(builder: Any, number: Any, offset: Any, kinds: Kinds) -> Any:
    is_other = is_away(kinds.x.dtype, kinds.coding, kinds.offsets)
    return builder.fsub(number, as_vector(builder, offset, number)) if is_other else number


def _operand_bits(kinds: Kinds) -> int:
    """An upper limit of the significant bits of differences and scales."""
    return significant_bits(kinds.x.dtype, kinds.coding, kinds.scales.dtype, kinds.offsets)


def round_elements(builder: Any, value: Any, kinds: Kinds, is_normal: Any) -> Any:
    """Output elements, from results of `scaled_to_odd`."""
    # A NaN product in float32 has no bits below those of a bfloat16 scale: it is the scale's NaN, a code's, or the processor's
    # default.
    carries = kinds.scales.dtype != types.int16 or not is_single(value)
    return element(builder, value, kinds.out.dtype, carries, is_normal)


def as_vector(builder: Any, number: Any, like: Any) -> Any:
    """A vector unchanged; a number, repeated as often as ``like`` has elements."""
    return number if isinstance(number.type, ir.VectorType) else spread(builder, number, like)


def normals_at(context: Any, builder: Any, scales: Any, value: Any, first: Any, divides: Any) -> Any:
    """The flags of `known_normals` for CHUNK scales from ``first`` on. scales, divides: Numba's types."""
    codes = load(context, builder, scales, value, first)
    return known_normals(
        builder,
        codes if scales.dtype == types.int16 else decode.scale_value(builder, codes, scales.dtype, F32),
        divides,
    )


FLOAT16_LANES = 2 * CHUNK
"""Elements of float16 in a register."""

FLOAT16_REGISTER, _FLOAT16_CODES = ir.VectorType(F16, FLOAT16_LANES), ir.VectorType(I16, FLOAT16_LANES)
"""The types of a register of float16, and of its codes."""


def uses_float16(kinds: Kinds) -> bool:
    """True if elements are computed in float16, by the processor's own arithmetic (AVX512-FP16).

    Differences of 8-bit integers are exact in float16, so a product with a float16 scale is the exact product,
    rounded once.
    Float16 subnormals are kept whatever mode is set for those of float32: ``tests/kernels/test_compiled_halves.py``
    proves it.
    """
    offsets = kinds.offsets
    return bool(
        has("avx512fp16")
        and kinds.out.dtype == types.uint16
        and kinds.scales.dtype == types.uint16
        and kinds.divides == types.none
        and kinds.x.dtype == types.uint8
        and not decode.is_float(kinds.coding)
        and (not isinstance(offsets, types.Array) or offsets.dtype == types.uint8)
    )


def float16_parameters_at(
    context: Any, builder: Any, kinds: Kinds, coding: Any, scales: Any, offsets: Any, first: Any
) -> tuple[Any, Any]:
    """The scales and offsets of FLOAT16_LANES elements, from parameter ``first`` on."""
    scale = builder.bitcast(load(context, builder, kinds.scales, scales, first, count=FLOAT16_LANES), FLOAT16_REGISTER)
    if isinstance(kinds.offsets, types.Array):
        return scale, float16_values_at(context, builder, kinds.offsets, offsets, first, coding)
    return scale, spread(builder, decode.code_origin(builder, coding, F16), scale)


def as_float16(builder: Any, number: Any) -> Any:
    """A scale or offset of a wider type, as float16, for all FLOAT16_LANES elements."""
    return spread(builder, builder.fptrunc(number, F16), ir.Constant(FLOAT16_REGISTER, None))


def float16_values_at(context: Any, builder: Any, codes: Any, value: Any, first: Any, coding: Any) -> Any:
    """As `decode.code_value`, for FLOAT16_LANES codes in float16. codes: Numba's type of the array."""
    if not isinstance(codes, Packed):
        return decode.code_value(builder, load(context, builder, codes, value, first, count=FLOAT16_LANES), coding, F16)
    packed = load_packed(context, builder, codes, value, first, FLOAT16_LANES)
    # The lookup uses the lowest five bits of an index, and the decoding the bits of the type.
    every = ir.Constant(ir.VectorType(I8, FLOAT16_LANES), list(range(FLOAT16_LANES)))
    entries = builder.bitcast(decode.code_value(builder, every, coding, F16), _FLOAT16_CODES)
    codes_found = of_x86(
        builder, "avx512.permvar.hi.512", _FLOAT16_CODES, entries, table_indices(builder, packed, codes.in_byte)
    )
    return builder.bitcast(codes_found, FLOAT16_REGISTER)


def put_float16(
    context: Any, builder: Any, kinds: Kinds, codes: Any, out: Any, first: Any, coding: Any, parameters: tuple[Any, Any],
    streamed: Any,
) -> None:  # fmt: skip
    """Compute and store the elements of FLOAT16_LANES codes.

    Args:
        parameters: scales and offsets.
        streamed: as for `chunks.put_chunk`.
    """
    scale, offset = parameters
    number = float16_values_at(context, builder, kinds.x, codes, first, coding)
    elements = builder.bitcast(builder.fmul(builder.fsub(number, offset), scale), _FLOAT16_CODES)
    store(context, builder, elements, data_of(context, builder, kinds.out, out, first), streamed)
