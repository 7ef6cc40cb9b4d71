"""From bytes that hold two or four codes to codes one a byte, as LLVM instructions for registers.

Source: "Packed 4-bit elements" and "Packed 2-bit elements" of ONNX's TensorProto: the first code is in a byte's lowest bits.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from llvmlite import ir

from xverify.kernels.compiled.vectors import I8, I16, I32, I64, constant, spread


def byte_of(builder: Any, in_byte: int, index: Any) -> Any:
    """The number of the byte in which a code is."""
    return builder.lshr(index, ir.Constant(index.type, in_byte.bit_length() - 1))


def bits_before(builder: Any, in_byte: int, index: Any) -> Any:
    """How many bits of its byte lie below a code."""
    within = builder.and_(index, ir.Constant(index.type, in_byte - 1))
    return builder.mul(within, ir.Constant(index.type, 8 // in_byte))


def code_in(builder: Any, in_byte: int, byte: Any, index: Any) -> Any:
    """One code, of the byte in which it is."""
    moved = builder.lshr(byte, builder.trunc(bits_before(builder, in_byte, index), I8))
    return builder.and_(moved, ir.Constant(I8, (1 << (8 // in_byte)) - 1))


def unpacked(builder: Any, packed: Any, in_byte: int) -> Any:
    """A vector of codes, of a vector of the bytes in which they are."""
    count, bits = packed.type.count, 8 // in_byte
    # Each byte as the lowest of a word of as many bytes as it has codes, where each code is moved up to a byte of its own.
    words = ir.VectorType(ir.IntType(8 * in_byte), count)
    word = builder.zext(packed, words)
    moved = [builder.shl(word, constant(words, (8 - bits) * code)) for code in range(in_byte)]
    kept = int.from_bytes(bytes([(1 << bits) - 1] * in_byte), "little")
    codes = builder.and_(reduce(builder.or_, moved), constant(words, kept))
    return builder.bitcast(codes, ir.VectorType(I8, count * in_byte))


def places(builder: Any, packed: Any, in_byte: int) -> Any:
    """Codes as words of 16 bits, of a vector of the bytes in which they are, with other bits above each."""
    count, bits = packed.type.count, 8 // in_byte
    words = ir.VectorType(ir.IntType(16 * in_byte), count)
    word = builder.zext(packed, words)
    moved = [builder.shl(word, constant(words, (16 - bits) * code)) for code in range(in_byte)]
    return builder.bitcast(reduce(builder.or_, moved), ir.VectorType(I16, count * in_byte))


def long_places(builder: Any, packed: Any, in_byte: int, first: int, count: int) -> Any:
    """The same as words of 32 bits, of ``count`` of these codes from that one on."""
    bits, codes = 8 // in_byte, range(first, first + count)
    words = builder.bitcast(packed, ir.VectorType(I32, packed.type.count // 4))
    lanes = ir.VectorType(I32, len(codes))
    word = builder.shuffle_vector(words, words, ir.Constant(lanes, [code * bits // 32 for code in codes]))
    return builder.lshr(word, ir.Constant(lanes, [code * bits % 32 for code in codes]))


def moved_down(builder: Any, read: Any, next_read: Any, bits: Any) -> Any:
    """Bytes from ``bits``, 1 to 7, above the beginning of a vector on. next_read: what lies a byte behind each of them."""
    width = I64 if read.type.count % 8 == 0 else I32
    words = ir.VectorType(width, 8 * read.type.count // width.width)
    low, high = builder.bitcast(read, words), builder.bitcast(next_read, words)
    down = bits if width == I64 else builder.trunc(bits, width)
    up = builder.sub(ir.Constant(width, 8), down)
    both = builder.or_(builder.lshr(low, spread(builder, down, low)), builder.shl(high, spread(builder, up, high)))
    return builder.bitcast(both, read.type)
