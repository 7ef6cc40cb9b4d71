"""Packed 4- and 2-bit codes to one a byte, a piece at a time, by a compiled loop."""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import numpy as np
from numba import types

from xverify.kernels.casting import Array
from xverify.kernels.compiled.build import entry
from xverify.kernels.compiled.flat import Flat
from xverify.kernels.compiled.pieces import Read
from xverify.kernels.compiled.scalars import get, put


def unpack(packed, codes, in_byte):
    """The codes of all bytes, the lowest bits first; ``in_byte``, 2 or 4, are in each."""
    if in_byte == 2:
        for i in range(packed.size):
            byte = get(packed, i)
            put(codes, 2 * i, byte & 15)
            put(codes, 2 * i + 1, byte >> 4)
    else:
        for i in range(packed.size):
            byte = get(packed, i)
            put(codes, 4 * i, byte & 3)
            put(codes, 4 * i + 1, (byte >> 2) & 3)
            put(codes, 4 * i + 2, (byte >> 4) & 3)
            put(codes, 4 * i + 3, byte >> 6)


def reading(packed: Array, in_byte: int) -> Read:
    """What gives a part of the codes in those bytes, one a byte."""
    compiled = entry(unpack, (Flat(types.uint8), Flat(types.uint8, written=True), types.int64))

    def read(start: int, stop: int) -> Array:
        first, last = start // in_byte, -(-stop // in_byte)
        codes = np.empty((last - first) * in_byte, np.uint8)
        compiled(np.ascontiguousarray(packed[first:last]), codes, in_byte)
        return codes[start - first * in_byte : stop - first * in_byte]

    return read
