"""From codes to numbers, as LLVM instructions: integers, floats of 8 bits or fewer, and scales of float16 and bfloat16."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from xverify.kernels.compiled.codings import HALF, FloatCoding, HalfCoding, IntegerCoding
from xverify.kernels.compiled.vectors import (
    F16,
    F32,
    I16,
    I32,
    constant,
    element_of,
    has_half_instruction,
    of_llvm,
    shaped,
    spread,
)

_SMALLEST_NORMAL = 1 << 23
"""Of float32, its code."""


def is_float(coding: Any) -> bool:
    """Whether fields of Numba's type ``coding`` are those of a float type."""
    return bool(coding.count != len(IntegerCoding._fields))


def is_narrow(builder: Any, coding: Any) -> Any:
    """Whether codes have four bits or fewer. coding: as for `number`."""
    fields = [builder.extract_value(coding, i) for i in range(coding.type.count)]
    if not is_float(coding.type):
        return builder.icmp_unsigned("<", IntegerCoding(*fields).keep, ir.Constant(I32, 16))
    # By how far it is to the highest bit of a float16, or of a float32.
    least, kind = (12, HalfCoding) if len(fields) == len(HalfCoding._fields) else (28, FloatCoding)
    return builder.icmp_unsigned(">=", kind(*fields).sign_shift, ir.Constant(I32, least))


def number(builder: Any, code: Any, coding: Any, real: Any) -> Any:
    """The value of codes, and `origin` more, in the float type ``real``; int32 are their own values. In float16 of integers of 8
    bits or fewer alone.

    coding: int32, as `codings.Coding.fields` has them; how many tells the kinds of types.
    """
    wide, fields = shaped(I32, code), [builder.extract_value(coding, i) for i in range(coding.type.count)]
    if wide == code.type:
        return builder.sitofp(code, shaped(real, code))
    if len(fields) == len(HalfCoding._fields):
        return as_real(builder, _by_half(builder, code, HalfCoding(*fields)), real)
    if len(fields) == len(FloatCoding._fields):
        spread_fields = FloatCoding(*(spread(builder, field, code) for field in fields))
        return as_real(builder, _small_float(builder, builder.zext(code, wide), spread_fields), real)
    keep, flip = (_narrow(builder, field, code) for field in fields)
    moved = builder.xor(builder.and_(code, keep), flip)
    return builder.sitofp(builder.zext(moved, shaped(I16, code) if real == F16 else wide), shaped(real, code))


def origin(builder: Any, coding: Any, real: Any) -> Any:
    """What `number` of an integer's code has more than its value, so that no sign need be looked at: differences are the same.
    0 of other types."""
    if is_float(coding.type):
        return ir.Constant(real, 0.0)
    return builder.sitofp(builder.extract_value(coding, IntegerCoding._fields.index("flip")), real)


def scale(builder: Any, code: Any, kind: Any, real: Any) -> Any:
    """The value of scales of Numba's type ``kind``: float32, uint16 for the codes of float16, int16 for those of bfloat16."""
    if kind == types.float32:
        return as_real(builder, code, real)
    single = shaped(F32, code)
    if kind == types.int16:
        bits = builder.shl(builder.zext(code, shaped(I32, code)), constant(shaped(I32, code), 16))
        return as_real(builder, builder.bitcast(bits, single), real)
    if has_half_instruction():
        return as_real(builder, builder.fpext(builder.bitcast(code, shaped(ir.HalfType(), code)), single), real)
    code = builder.zext(code, shaped(I32, code))
    return as_real(
        builder, _small_float(builder, code, FloatCoding(*(constant(code.type, field) for field in HALF))), real
    )


def as_real(builder: Any, value: Any, real: Any) -> Any:
    """A float in a type that is as wide or wider."""
    return value if value.type == shaped(real, value) else builder.fpext(value, shaped(real, value))


def _narrow(builder: Any, field: Any, code: Any) -> Any:
    """A field as often as there are codes, in their type."""
    return spread(builder, builder.trunc(field, element_of(code)), code)


def _by_half(builder: Any, code: Any, coding: HalfCoding) -> Any:
    """Floats of 8 bits or fewer as float32, by way of float16, whose subnormals are numbers to every processor."""
    short = shaped(I16, code)
    code = builder.zext(code, short)
    shift, keep, sign_shift, special_mask, special = (
        _narrow(builder, field, code)
        for field in (coding.shift, coding.keep, coding.sign_shift, coding.special_mask, coding.special)
    )
    magnitude = builder.and_(builder.shl(code, shift), keep)
    sign = builder.and_(builder.shl(code, sign_shift), constant(short, 0x8000))
    is_special = builder.icmp_unsigned("==", builder.and_(code, special_mask), special)
    # A NaN with the code's sign: so the numbers of half of the codes are those of the others, each with a sign (`bytewise`).
    half = builder.or_(builder.select(is_special, constant(short, 0x7E00), magnitude), sign)
    value = builder.fpext(builder.bitcast(half, shaped(ir.HalfType(), half)), shaped(F32, half))
    return builder.fmul(value, spread(builder, builder.bitcast(coding.factor, F32), value))


def _small_float(builder: Any, code: Any, coding: FloatCoding) -> Any:
    """Floats of 16 bits or fewer as float32, exactly, without a subnormal on the way: processors may be told to take one for 0.

    A code without its sign is moved to where float32 has exponent and fraction, and the exponents' biases are made equal. Where
    the exponent is 0 that gives 2^-bias * 1.fraction for 2^(1 - bias) * 0.fraction: one is added to the exponent, and what
    float32's hidden bit is worth then is taken away.
    """
    magnitude = builder.and_(code, coding.keep)
    moved = builder.shl(magnitude, coding.shift)
    normal = builder.add(moved, coding.bias)
    hidden = builder.add(coding.bias, constant(code.type, _SMALLEST_NORMAL))
    above = builder.add(moved, hidden)
    single = shaped(F32, code)
    subnormal = builder.fsub(builder.bitcast(above, single), builder.bitcast(hidden, single))
    is_subnormal = builder.icmp_unsigned("<", moved, constant(code.type, _SMALLEST_NORMAL))
    value = builder.select(is_subnormal, builder.bitcast(subnormal, code.type), normal)
    is_special = builder.icmp_unsigned("==", builder.and_(code, coding.special_mask), coding.special)
    value = builder.or_(value, builder.select(is_special, coding.special_bits, constant(code.type, 0)))
    # Behind a fence: LLVM would put the special codes' bits to the sign's, which takes an instruction more.
    value = builder.bitcast(of_llvm(builder, "arithmetic.fence", builder.bitcast(value, single)), code.type)
    sign = builder.and_(builder.shl(code, coding.sign_shift), constant(code.type, 1 << 31))
    return builder.bitcast(builder.or_(value, sign), single)
