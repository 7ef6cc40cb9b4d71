"""Codes to values, as LLVM instructions: integers, floats of 8 bits or fewer, scales and zero points."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from xverify.kernels.casting import BFLOAT16, FLOAT16, FLOAT32
from xverify.kernels.compiled.memory import Packed, load, load_packed, long_table_indices, read_element
from xverify.kernels.compiled.vectors import (
    CHUNK,
    F16,
    F32,
    I8,
    I16,
    I32,
    I64,
    Generated,
    constant,
    element_of,
    has,
    has_half_instruction,
    of_llvm,
    of_x86,
    shaped,
    spread,
)

ELEMENTS = {FLOAT32: types.float32, FLOAT16: types.uint16, BFLOAT16: types.int16}
"""Numba's element type, in compiled loops, of scales and outputs of each dtype."""

_CODE_TYPES = {1: types.uint8, 2: types.uint16, 4: types.int32}


class IntegerCoding(NamedTuple):
    """An integer type: its value is ((code & keep) ^ flip) - flip."""

    keep: int
    """A mask of the bits that the type has."""

    flip: int
    """The sign bit of a signed type; 0 for an unsigned one."""


class FloatCoding(NamedTuple):
    """A float type of 16 bits or fewer, as the constants that make a float32 of a code."""

    keep: int
    """A mask of the exponent and fraction bits."""

    shift: int
    """The number of bits by which exponent and fraction move up."""

    bias: int
    """The difference of the exponent biases, added to the moved bits."""

    sign_shift: int
    """The number of bits by which the sign bit moves up."""

    special_mask: int
    """A mask of the bits that tell infinities and NaN."""

    special: int
    """The value of the masked bits of infinities and NaN."""

    special_bits: int
    """Bits to set in the float32 of infinities and NaN."""


_INFINITY, _NAN = 0x7F800000, 0x7FC00000


def _float_coding(
    exponent: int, fraction: int, bias: int, special_mask: int, special: int, special_bits: int
) -> FloatCoding:
    """The coding of a float type with that many exponent and fraction bits."""
    bits = exponent + fraction
    added = (127 - bias) << 23
    return FloatCoding((1 << bits) - 1, 23 - fraction, added, 31 - bits, special_mask, special, special_bits)


class Float16Coding(NamedTuple):
    """A float type of 8 bits or fewer, as the constants that make a float16 of a code.

    It serves processors that convert float16 by an instruction. The value is the float16 with the bits
    ((code << shift) & keep) | ((code << sign_shift) & 0x8000), times the float32 with the bits ``factor``.
    """

    shift: int
    """The number of bits by which exponent and fraction move up."""

    keep: int
    """A mask of the exponent and fraction bits, after the move."""

    sign_shift: int
    """The number of bits by which the sign bit moves up."""

    factor: int
    """The bits of the float32 that corrects the exponent bias."""

    special_mask: int
    """A mask of the bits that tell NaN."""

    special: int
    """The value of the masked bits of NaN."""


FLOAT16_CODING = _float_coding(5, 10, 15, 0x7C00, 0x7C00, _INFINITY)
"""The coding of float16."""

_FLOAT_CODINGS = {
    # No infinities; the only NaN has all bits set.
    "float8_e4m3fn": _float_coding(4, 3, 7, 0x7F, 0x7F, _NAN),
    # As IEEE 754 has it: infinities and NaN where the exponent has all bits set.
    "float8_e5m2": _float_coding(5, 2, 15, 0x7C, 0x7C, _INFINITY),
    # No infinities, no negative zero: its code is the only NaN.
    "float8_e4m3fnuz": _float_coding(4, 3, 8, 0xFF, 0x80, _NAN),
    "float8_e5m2fnuz": _float_coding(5, 2, 16, 0xFF, 0x80, _NAN),
    # Neither infinities nor NaN.
    "float4_e2m1fn": _float_coding(2, 1, 1, 0, 1, 0),
    "float6_e2m3fn": _float_coding(2, 3, 1, 0, 1, 0),
    "float6_e3m2fn": _float_coding(3, 2, 3, 0, 1, 0),
}
"""Float types of x.

Source: ONNX, "Float stored in 8 bits", "Float stored in 6 bits" and "Float stored in 4 bits"; OCP Microscaling Formats 1.0.
"""


def _by_float16(coding: FloatCoding) -> Float16Coding | None:
    """The coding of the type through float16, or None.

    It is None if one of the type's finite exponents means infinity in float16.
    """
    bits, fraction = coding.keep.bit_length(), 23 - coding.shift
    special = coding.special_mask, coding.special
    if bits - fraction == 5:
        if special != (FLOAT16_CODING.special >> 8, FLOAT16_CODING.special >> 8):
            return None
        special = 0, 1
    return Float16Coding(10 - fraction, coding.keep << (10 - fraction), 15 - bits, coding.bias + (15 << 23), *special)


@dataclass(frozen=True)
class Coding:
    """The decoding of one dtype, as compiled loops take it."""

    codes: Any
    """Numba's element type of x in a loop."""

    fields: IntegerCoding | FloatCoding | Float16Coding
    """The constants that a loop takes as its argument ``coding``."""

    @property
    def fields_type(self) -> Any:
        """Numba's type of ``fields``."""
        return types.UniTuple(types.int32, len(self.fields))

    @property
    def is_float(self) -> bool:
        """True for a float type."""
        return not isinstance(self.fields, IntegerCoding)


@lru_cache(maxsize=64)
def coding(dtype: np.dtype[Any]) -> Coding:
    """The coding of a quantized dtype. The fields of int32 are zeros, since its codes are values.

    Raises:
        KeyError: for a dtype that is not a quantized one.
    """
    codes = _CODE_TYPES[dtype.itemsize]
    if dtype.name in _FLOAT_CODINGS:
        fields = _FLOAT_CODINGS[dtype.name]
        return Coding(codes, (_by_float16(fields) if has_half_instruction() else None) or fields)
    limits = ml_dtypes.iinfo(dtype)
    if dtype.itemsize == 4:
        return Coding(codes, IntegerCoding(0, 0))
    return Coding(codes, IntegerCoding((1 << limits.bits) - 1, 1 << (limits.bits - 1) if limits.min < 0 else 0))


_SMALLEST_NORMAL = 1 << 23
"""The bits of float32's smallest normal number."""


def is_float(coding: Any) -> bool:
    """True if fields of Numba's type ``coding`` describe a float type."""
    return bool(coding.count != len(IntegerCoding._fields))


def is_narrow(builder: Any, coding: Any) -> Any:
    """True, at run time, if codes have four bits or fewer. coding: as for `code_value`."""
    fields = [builder.extract_value(coding, i) for i in range(coding.type.count)]
    if not is_float(coding.type):
        return builder.icmp_unsigned("<", IntegerCoding(*fields).keep, ir.Constant(I32, 16))
    # The distance from the sign bit to the highest bit of a float16, or of a float32.
    least, kind = (12, Float16Coding) if len(fields) == len(Float16Coding._fields) else (28, FloatCoding)
    return builder.icmp_unsigned(">=", kind(*fields).sign_shift, ir.Constant(I32, least))


def code_value(builder: Any, code: Any, coding: Any, real: Any) -> Any:
    """The value of codes plus `code_origin`, in the float type ``real``.

    A ``real`` of float16 is for integers of 8 bits or fewer.

    Args:
        code: codes; int32 codes are their own values.
        coding: LLVM values of int32, as in `Coding.fields`. Their number tells the kind of coding.
        real: LLVM's float type of the result.
    """
    wide, fields = shaped(I32, code), [builder.extract_value(coding, i) for i in range(coding.type.count)]
    if wide == code.type:
        return builder.sitofp(code, shaped(real, code))
    if len(fields) == len(Float16Coding._fields):
        return widen(builder, _value_by_float16(builder, code, Float16Coding(*fields)), real)
    if len(fields) == len(FloatCoding._fields):
        spread_fields = FloatCoding(*(spread(builder, field, code) for field in fields))
        return widen(builder, _small_float_value(builder, builder.zext(code, wide), spread_fields), real)
    keep, flip = (_spread_field(builder, field, code) for field in fields)
    moved = builder.xor(builder.and_(code, keep), flip)
    return builder.sitofp(builder.zext(moved, shaped(I16, code) if real == F16 else wide), shaped(real, code))


def code_origin(builder: Any, coding: Any, real: Any) -> Any:
    """The amount by which `code_value` of an integer code exceeds its value; 0 for other types.

    Differences of two such values are the same, and no sign needs to be extended.
    """
    if is_float(coding.type):
        return ir.Constant(real, 0.0)
    return builder.sitofp(builder.extract_value(coding, IntegerCoding._fields.index("flip")), real)


def scale_value(builder: Any, code: Any, kind: Any, real: Any) -> Any:
    """The value of scales. kind: float32, uint16 for codes of float16, or int16 for codes of bfloat16."""
    if kind == types.float32:
        return widen(builder, code, real)
    single = shaped(F32, code)
    if kind == types.int16:
        bits = builder.shl(builder.zext(code, shaped(I32, code)), constant(shaped(I32, code), 16))
        return widen(builder, builder.bitcast(bits, single), real)
    if has_half_instruction():
        return widen(builder, builder.fpext(builder.bitcast(code, shaped(ir.HalfType(), code)), single), real)
    code = builder.zext(code, shaped(I32, code))
    return widen(
        builder,
        _small_float_value(builder, code, FloatCoding(*(constant(code.type, field) for field in FLOAT16_CODING))),
        real,
    )


def widen(builder: Any, value: Any, real: Any) -> Any:
    """A float, converted to a type that is as wide or wider."""
    return value if value.type == shaped(real, value) else builder.fpext(value, shaped(real, value))


def _spread_field(builder: Any, field: Any, code: Any) -> Any:
    """A field, repeated for each code, in the type of the codes."""
    return spread(builder, builder.trunc(field, element_of(code)), code)


def _value_by_float16(builder: Any, code: Any, coding: Float16Coding) -> Any:
    """Floats of 8 bits or fewer as float32, through float16.

    No processor mode flushes the subnormals of float16 in this conversion.
    """
    short = shaped(I16, code)
    code = builder.zext(code, short)
    shift, keep, sign_shift, special_mask, special = (
        _spread_field(builder, field, code)
        for field in (coding.shift, coding.keep, coding.sign_shift, coding.special_mask, coding.special)
    )
    magnitude = builder.and_(builder.shl(code, shift), keep)
    sign = builder.and_(builder.shl(code, sign_shift), constant(short, 0x8000))
    is_special = builder.icmp_unsigned("==", builder.and_(code, special_mask), special)
    # A NaN keeps the sign of its code. So half of the values are those of the other half with a sign (`lookup.is_mirrored`).
    half = builder.or_(builder.select(is_special, constant(short, 0x7E00), magnitude), sign)
    value = builder.fpext(builder.bitcast(half, shaped(ir.HalfType(), half)), shaped(F32, half))
    return builder.fmul(value, spread(builder, builder.bitcast(coding.factor, F32), value))


def _small_float_value(builder: Any, code: Any, coding: FloatCoding) -> Any:
    """Floats of 16 bits or fewer as float32, exactly, without a float32 subnormal in between.

    A processor may be set to flush subnormals to zero. So the code without its sign moves to float32's exponent and
    fraction, and
    the difference of the biases is added. For an exponent of 0 that gives 2^-bias * 1.fraction instead of
    2^(1 - bias) * 0.fraction. So the exponent grows by one, and the value of float32's hidden bit is subtracted.
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
    # The fence keeps LLVM from joining these bits with the sign's, which takes one more instruction.
    value = builder.bitcast(of_llvm(builder, "arithmetic.fence", builder.bitcast(value, single)), code.type)
    sign = builder.and_(builder.shl(code, coding.sign_shift), constant(code.type, 1 << 31))
    return builder.bitcast(builder.or_(value, sign), single)


@intrinsic  # type: ignore[untyped-decorator]
def value_of_code(context: Any, code: Any, coding: Any, like: Any) -> Generated:
    """Numba's form of `code_value`, in the float type of ``like``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code, coding, like = arguments
        return code_value(builder, code, coding, like.type)

    return like(code, coding, like), generate


@intrinsic  # type: ignore[untyped-decorator]
def origin_of_coding(context: Any, coding: Any, like: Any) -> Generated:
    """Numba's form of `code_origin`, in the float type of ``like``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return code_origin(builder, arguments[0], arguments[1].type)

    return like(coding, like), generate


@intrinsic  # type: ignore[untyped-decorator]
def value_of_offset(context: Any, offset: Any, index: Any, coding: Any, like: Any) -> Generated:
    """The offset at an index, as `value_of_code` gives a code. A number instead of an array is no offset."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        offset_, index_, coding_, like_ = arguments
        if not isinstance(offset, types.Array):
            return code_origin(builder, coding_, like_.type)
        element = read_element(context, builder, offset, offset_, index_)
        if isinstance(offset.dtype, types.Float):
            return builder.fadd(element, code_origin(builder, coding_, like_.type))
        return code_value(builder, element, coding_, like_.type)

    return like(offset, types.intp, coding, like), generate


@intrinsic  # type: ignore[untyped-decorator]
def value_of_scale(context: Any, code: Any, like: Any) -> Generated:
    """Numba's form of `scale_value`, in the float type of ``like``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return scale_value(builder, arguments[0], code, arguments[1].type)

    return like(code, like), generate


def code_values_at(
    context: Any, builder: Any, codes: Any, value: Any, first: Any, coding: Any, real: Any, mask: Any = None
) -> Any:
    """The values of CHUNK codes from ``first`` on, or of those that the mask names.

    Args:
        codes: Numba's type of the array.
    """
    if mask is None:
        return chunk_values_at(context, builder, codes, value, first, coding, real, 1)[0]
    return code_value(builder, load(context, builder, codes, value, first, mask), coding, real)


def chunk_values_at(
    context: Any, builder: Any, codes: Any, value: Any, first: Any, coding: Any, real: Any, count: int
) -> list[Any]:
    """The values of ``count`` times CHUNK codes, a vector for each CHUNK.

    Packed codes are looked up among the values of all codes if one instruction can do that.
    """
    if isinstance(codes, Packed) and real == F32 and has("avx512f"):
        packed, kind = load_packed(context, builder, codes, value, first, count * CHUNK), ir.VectorType(F32, CHUNK)
        # The lookup uses the lowest four bits of an index, and the decoding the bits of the type.
        entries = code_value(builder, ir.Constant(ir.VectorType(I8, CHUNK), list(range(CHUNK))), coding, real)
        indices = [long_table_indices(builder, packed, codes.in_byte, part * CHUNK, CHUNK) for part in range(count)]
        return [of_x86(builder, "avx512.permvar.sf.512", kind, entries, index) for index in indices]
    at = [builder.add(first, ir.Constant(I64, part * CHUNK)) for part in range(count)]
    loaded = [load(context, builder, codes, value, index) for index in at]
    return [code_value(builder, code, coding, real) for code in loaded]


def parameter_values_at(
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
    """The values of CHUNK scales and offsets from parameter ``first`` on.

    Args:
        scales: Numba's type of the array of scales.
        offsets: Numba's type of the array of offsets.
    """
    codes = load(context, builder, scales, scales_, first, mask)
    scale = scale_value(builder, codes, scales.dtype, real)
    return scale, _offset_values_at(context, builder, coding, real, offsets, offsets_, first, mask)


def _offset_values_at(
    context: Any, builder: Any, coding: Any, real: Any, offsets: Any, value: Any, first: Any, mask: Any
) -> Any:
    """The values of CHUNK offsets, as `value_of_offset` gives one. offsets: Numba's type of the array."""
    origin = code_origin(builder, coding, real)
    if not isinstance(offsets, types.Array):
        return spread(builder, origin, constant(ir.VectorType(real, CHUNK), 0.0))
    if isinstance(offsets.dtype, types.Float):
        codes = load(context, builder, offsets, value, first, mask)
        return builder.fadd(codes, spread(builder, origin, codes))
    return code_values_at(context, builder, offsets, value, first, coding, real, mask)
