"""Tensors in memory, in DLPack's description for C."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple, Tuple

import numpy as np

from xverify.core.call import BITS, LEAST_RANK, Tensor, code_dtype, lay_out
from xverify.oracles.arrays import pack

CPU = 1

TYPE_CODES = {
    "int": 0, "uint": 1, "float": 2, "bfloat": 4, "float8_e4m3fn": 10, "float8_e4m3fnuz": 11, "float8_e5m2": 12,
    "float8_e5m2fnuz": 13, "float8_e8m0fnu": 14, "float6_e2m3fn": 15, "float6_e3m2fn": 16,
    "float4_e2m1fn": 17,
}  # fmt: skip
"""DLPack's code of a dtype, by its name, or by its name without the width."""


class DLDevice(ctypes.Structure):
    """The device that memory belongs to."""

    _fields_ = (("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32))


class DLDataType(ctypes.Structure):
    """An element's type."""

    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class DLTensor(ctypes.Structure):
    """A tensor. Its strides count elements, its offset counts bytes."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class Buffer(NamedTuple):
    """A tensor as bytes that can be put at any address."""

    dtype: str
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]
    """In elements."""
    size: int
    """Its bytes, including gaps between elements."""
    image: bytes = b""
    """The bytes; empty for an output."""
    first: int = 0
    """The byte at which the first element begins."""
    byte_offset: int = 0
    """The part of `first` that the kernel has to add itself."""
    shift: int = 0
    """The distance of the buffer from an aligned address, where there is a choice."""
    read_only: bool = False
    """True to put it in pages that nobody can write to, where there is a choice."""

    def described(self, address: int) -> DLTensor:
        """The structure for this buffer at an address. It keeps shape and strides alive, but not the buffer."""
        bits = BITS[self.dtype]
        code = TYPE_CODES[self.dtype if self.dtype in TYPE_CODES else self.dtype.rstrip("0123456789")]
        extents = ctypes.c_int64 * max(1, len(self.shape))
        return DLTensor(
            address + self.first - self.byte_offset,
            (CPU, 0),
            len(self.shape),
            (code, bits, 1),
            extents(*self.shape),
            extents(*self.strides),
            self.byte_offset,
        )


def buffer_of(tensor: Tensor) -> Buffer:
    """The tensor in its layout.

    Types of fewer than 8 bits are packed, so they are always contiguous. "misaligned" is aligned to the element only: C has no
    loads from addresses below that.
    """
    dtype, shape, layout = tensor.dtype, tensor.shape, tensor.layout
    step = max(1, BITS[dtype] // 8)
    if BITS[dtype] < 8:
        image, first, strides = pack(tensor.codes, BITS[dtype]).tobytes(), 0, compact(shape)
    elif (layout in LEAST_RANK or layout == "broadcast") and tensor.size:
        array = lay_out(tensor.codes, layout)
        reach = [(shape[axis] - 1) * array.strides[axis] for axis in range(array.ndim)]
        first = -sum(distance for distance in reach if distance < 0)
        span = first + sum(distance for distance in reach if distance > 0) + step
        image = ctypes.string_at(array.ctypes.data - first, span)
        strides = tuple(stride // step for stride in array.strides)
    else:
        image, first, strides = tensor.codes.tobytes(), 0, compact(shape)
    offset = step if layout == "offset" else 0
    shift = step if layout == "misaligned" else 0
    image = bytes(offset) + image
    return Buffer(
        dtype, shape, strides, len(image), image, first + offset, offset, shift, read_only=layout == "read-only"
    )


def output_buffer(dtype: str, shape: Tuple[int, ...]) -> Buffer:
    """A compact buffer for an output."""
    count = 1
    for extent in shape:
        count *= extent
    return Buffer(dtype, shape, compact(shape), (count * BITS[dtype] + 7) // 8)


def compact(shape: Tuple[int, ...]) -> Tuple[int, ...]:
    """Row-major strides, in elements."""
    strides = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(1, extent)
    return tuple(reversed(strides))


def tensor_of(buffer: Buffer, content: bytes) -> Tensor:
    """The tensor that a compact buffer with these bytes holds."""
    bits = BITS[buffer.dtype]
    if bits >= 8:
        return Tensor(buffer.dtype, np.frombuffer(content, code_dtype(buffer.dtype)).reshape(buffer.shape))
    each = np.unpackbits(np.frombuffer(content, np.uint8), count=int(np.prod(buffer.shape)) * bits, bitorder="little")
    codes: Any = np.packbits(each.reshape(-1, bits), axis=1, bitorder="little")
    return Tensor(buffer.dtype, codes.reshape(buffer.shape))
