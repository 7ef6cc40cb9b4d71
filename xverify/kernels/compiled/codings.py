"""How the codes of each type become numbers: what compiled loops are told of a type, so that one loop serves many."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numba import types

from xverify.kernels.casting import BFLOAT16, FLOAT16, FLOAT32
from xverify.kernels.compiled.vectors import has_half_instruction

ELEMENTS = {FLOAT32: types.float32, FLOAT16: types.uint16, BFLOAT16: types.int16}
"""The element type under which a compiled loop reads a scale and writes an output of each dtype."""

_CODES = {1: types.uint8, 2: types.uint16, 4: types.int32}


class IntegerCoding(NamedTuple):
    """An integer type: its value is ((code & keep) ^ flip) - flip. keep: the bits that the type has; flip: its sign's, or 0."""

    keep: int
    flip: int


class FloatCoding(NamedTuple):
    """A float type of 16 bits or fewer, by what makes a float32 of its codes.

    keep: the bits of exponent and fraction, which are moved up by ``shift``; bias: what is added to them then. sign_shift: by how
    much the sign's bit is moved up. Codes of which the bits of ``special_mask`` are ``special`` are infinities or NaN:
    ``special_bits`` are set in the result.
    """

    keep: int
    shift: int
    bias: int
    sign_shift: int
    special_mask: int
    special: int
    special_bits: int


_INFINITY, _NAN = 0x7F800000, 0x7FC00000


def _float(exponent: int, fraction: int, bias: int, special_mask: int, special: int, special_bits: int) -> FloatCoding:
    """The coding of a type with so many bits of exponent and fraction."""
    bits = exponent + fraction
    added = (127 - bias) << 23
    return FloatCoding((1 << bits) - 1, 23 - fraction, added, 31 - bits, special_mask, special, special_bits)


class HalfCoding(NamedTuple):
    """A float type of 8 bits or fewer, by what makes a float16 of its codes, for machines that convert those by themselves.

    ((code << shift) & keep) | ((code << sign_shift) & 0x8000), and that times the float32 with the bits ``factor``. Codes of
    which the bits of ``special_mask`` are ``special`` are NaN.
    """

    shift: int
    keep: int
    sign_shift: int
    factor: int
    special_mask: int
    special: int


HALF = _float(5, 10, 15, 0x7C00, 0x7C00, _INFINITY)
"""float16."""

_FLOATS = {
    # No infinities; the only NaN has all bits set.
    "float8_e4m3fn": _float(4, 3, 7, 0x7F, 0x7F, _NAN),
    # As IEEE 754 has it: infinities and NaN where the exponent has all bits set.
    "float8_e5m2": _float(5, 2, 15, 0x7C, 0x7C, _INFINITY),
    # No infinities, no negative zero: its code is the only NaN.
    "float8_e4m3fnuz": _float(4, 3, 8, 0xFF, 0x80, _NAN),
    "float8_e5m2fnuz": _float(5, 2, 16, 0xFF, 0x80, _NAN),
    # Neither infinities nor NaN.
    "float4_e2m1fn": _float(2, 1, 1, 0, 1, 0),
}
"""The float types of x (sources: ONNX, "Float stored in 8 bits" and "Float stored in 4 bits"; OCP Microscaling Formats 1.0)."""


def _by_half(coding: FloatCoding) -> HalfCoding | None:
    """The same type by way of float16; None where what is an exponent of the type is that of infinities there."""
    bits, fraction = coding.keep.bit_length(), 23 - coding.shift
    special = coding.special_mask, coding.special
    if bits - fraction == 5:
        if special != (HALF.special >> 8, HALF.special >> 8):
            return None
        special = 0, 1
    return HalfCoding(10 - fraction, coding.keep << (10 - fraction), 15 - bits, coding.bias + (15 << 23), *special)


@dataclass(frozen=True)
class Coding:
    """codes: the element type under which a loop reads x. fields: what it is told."""

    codes: Any
    fields: IntegerCoding | FloatCoding | HalfCoding

    @property
    def fields_type(self) -> Any:
        """Numba's type of ``fields``."""
        return types.UniTuple(types.int32, len(self.fields))

    @property
    def is_float(self) -> bool:
        return not isinstance(self.fields, IntegerCoding)


@lru_cache(maxsize=64)
def coding(dtype: np.dtype[Any]) -> Coding:
    """The coding of a quantized dtype; that of int32 tells nothing, since its codes are numbers. KeyError for another dtype."""
    codes = _CODES[dtype.itemsize]
    if dtype.name in _FLOATS:
        fields = _FLOATS[dtype.name]
        return Coding(codes, (_by_half(fields) if has_half_instruction() else None) or fields)
    limits = ml_dtypes.iinfo(dtype)
    if dtype.itemsize == 4:
        return Coding(codes, IntegerCoding(0, 0))
    return Coding(codes, IntegerCoding((1 << limits.bits) - 1, 1 << (limits.bits - 1) if limits.min < 0 else 0))
