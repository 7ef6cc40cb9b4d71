"""Constants of an ONNX model, read by parts.

A constant lies in memory, in a file of external data, or inside the model's own file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.core.call import BITS, Tensor, code_dtype
from xverify.core.errors import DamagedFileError
from xverify.model.nodes import Constant
from xverify.oracles.arrays import unpack
from xverify.oracles.onnx_model import element_type

_AT_ONCE = 1 << 16
"""Bytes of a block that are read in one step, also if the part needs few of them."""


@cache
def _dtypes() -> Mapping[int, str]:
    from onnx import TensorProto

    numbers = {}
    for dtype in BITS:
        try:
            numbers[element_type(dtype)] = dtype
        except NotImplementedError:
            continue
    return {number: numbers.get(number, name.lower()) for name, number in TensorProto.DataType.items()}


def dtype_of(number: int) -> str:
    """The dtype of an element type's number.

    "bool", "string" and complex dtypes are not in `xverify.core.call.BITS`.
    """
    return _dtypes().get(number, f"type{number}")


def bytes_of(dtype: str, shape: tuple[int, ...]) -> int:
    """The bytes of a tensor in a file. Elements of fewer than 8 bits share bytes."""
    return (math.prod(shape) * BITS[dtype] + 7) // 8


@dataclass(frozen=True, eq=False)
class StoredConstant:
    """A constant in a file: of external data, or inside the model's own file."""

    dtype: str
    shape: tuple[int, ...]
    file: Path
    offset: int
    """The position of its first byte in the file."""

    @property
    def nbytes(self) -> int:
        """The number of bytes in the file."""
        return bytes_of(self.dtype, self.shape)

    def part(self, index: tuple[slice, ...]) -> Tensor:
        """Read the codes of a part, see `Constant.part`."""
        ranges = [range(extent)[taken] for extent, taken in zip(self.shape, index, strict=True)]
        codes = np.empty(tuple(map(len, ranges)), code_dtype(self.dtype))
        try:
            with self.file.open("rb", buffering=0) as file:
                if codes.size:
                    self._fill(file, codes, 0, self.shape, ranges)
        except OSError as error:
            raise DamagedFileError(f"{self.file} cannot be read: {error.strerror}") from None
        return Tensor(self.dtype, codes)

    def _fill(
        self, file: FileIO, codes: NDArray[Any], start: int, shape: tuple[int, ...], ranges: Sequence[range]
    ) -> None:
        """Fill an array with a part of a block of the constant, which begins at the element ``start``."""
        taken, inner = ranges[0] if ranges else range(1), math.prod(shape[1:])
        is_contiguous = all(len(kept) == extent for kept, extent in zip(ranges[1:], shape[1:], strict=True))
        if is_contiguous or bytes_of(self.dtype, (len(taken), inner)) <= _AT_ONCE:
            block = self._read(file, start + taken.start * inner, len(taken) * inner).reshape(len(taken), *shape[1:])
            codes[...] = block[(slice(None), *(slice(kept.start, kept.stop) for kept in ranges[1:]))]
        else:
            for number, row in zip(taken, codes, strict=True):
                self._fill(file, row, start + number * inner, shape[1:], ranges[1:])

    def _read(self, file: FileIO, start: int, count: int) -> NDArray[Any]:
        """Read elements in a row."""
        bits = BITS[self.dtype]
        first = start // 4 * 4  # Four elements of 2, 4 or 6 bits end with a byte.
        first_byte, last_byte = first * bits // 8, ((start + count) * bits + 7) // 8
        file.seek(self.offset + first_byte)
        raw = np.fromfile(file, np.uint8, last_byte - first_byte)
        if len(raw) < last_byte - first_byte:
            raise DamagedFileError(
                f"{self.file} is too short: a constant ends at byte {self.offset + self.nbytes}; copy the file again"
            )
        if bits < 8:
            return np.asarray(unpack(raw, bits, start + count - first)[start - first :])
        return raw.view(code_dtype(self.dtype).newbyteorder("<"))[start - first :]


@dataclass(frozen=True, eq=False)
class HeldConstant:
    """A constant in memory."""

    tensor: Tensor

    @property
    def dtype(self) -> str:
        """The dtype."""
        return self.tensor.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return self.tensor.shape

    def part(self, index: tuple[slice, ...]) -> Tensor:
        """Copy the codes of a part, see `Constant.part`."""
        return Tensor(self.dtype, np.array(self.tensor.codes[index], order="C"))


def constant_of(path: Path, tensor: Any) -> Constant | None:
    """The constant of a TensorProto. None if its dtype is not in `xverify.core.call.BITS`.

    Raises:
        DamagedFileError: Its data has a wrong length.
    """
    dtype, shape = dtype_of(tensor.data_type), tuple(tensor.dims)
    if dtype not in BITS:
        return None
    if tensor.data_location == tensor.EXTERNAL and tensor.external_data:
        return stored_constant(path, tensor)
    if tensor.HasField("raw_data"):
        raw = np.frombuffer(tensor.raw_data, np.uint8)
        if raw.nbytes != bytes_of(dtype, shape):
            raise damaged(path, f"the constant {tensor.name} has {raw.nbytes} bytes, not {bytes_of(dtype, shape)}")
        if BITS[dtype] < 8:
            return HeldConstant(Tensor(dtype, unpack(raw, BITS[dtype], math.prod(shape)).reshape(shape)))
        codes = raw.view(code_dtype(dtype).newbyteorder("<")).astype(code_dtype(dtype))
    else:
        codes = _typed(tensor, dtype)
        if BITS[dtype] in (2, 4) and codes.size == bytes_of(dtype, shape):
            return HeldConstant(Tensor(dtype, unpack(codes, BITS[dtype], math.prod(shape)).reshape(shape)))
    if codes.size != math.prod(shape):
        raise damaged(path, f"the constant {tensor.name} has {codes.size} elements, not {math.prod(shape)}")
    return HeldConstant(Tensor(dtype, codes.reshape(shape)))


def _typed(tensor: Any, dtype: str) -> NDArray[Any]:
    """The codes in the typed field of a TensorProto, packed if there are fewer than 6 bits."""
    if dtype in ("float32", "float64"):
        values = np.array(tensor.float_data if dtype == "float32" else tensor.double_data, dtype)
        return values.view(code_dtype(dtype))
    if dtype in ("int64", "uint64", "uint32"):
        values = np.array(tensor.int64_data if dtype == "int64" else tensor.uint64_data, dtype)
        return values.view(code_dtype(dtype))
    return np.array(tensor.int32_data, np.int32).view(np.uint32).astype(code_dtype(dtype))


def constant_of_node(path: Path, node: Any) -> Constant | None:
    for attribute in node.attribute:
        if attribute.name == "value":
            return constant_of(path, attribute.t)
        if attribute.name in ("value_float", "value_floats"):
            values = np.array(attribute.f if attribute.name == "value_float" else attribute.floats, np.float32)
            return HeldConstant(Tensor("float32", values.view(np.uint32)))
        if attribute.name in ("value_int", "value_ints"):
            values = np.array(attribute.i if attribute.name == "value_int" else attribute.ints, np.int64)
            return HeldConstant(Tensor("int64", values.view(np.uint64)))
    return None


def stored_constant(path: Path, tensor: Any) -> StoredConstant:
    """The constant of a tensor with external data.

    Raises:
        DamagedFileError: The data is missing, too short or outside of the model's folder.
    """
    where = external_entries(tensor)
    what = f"{path}: the data of {tensor.name or 'a constant'}"
    location = Path(where.get("location", ""))
    file = (path.parent / location).resolve()
    # Where a cache has links to its files, the model and its data lie beside each other under other names.
    folders = (path.parent.resolve(), path.resolve().parent)
    if location.is_absolute() or ".." in location.parts or not any(map(file.is_relative_to, folders)):
        raise DamagedFileError(
            f"{what} has the path {str(location)!r}, which is not inside the model's folder; move it there"
        )
    if not file.is_file():
        raise DamagedFileError(f"{what} is not there: {file} is no file; put it beside the model")
    try:
        offset, length = int(where.get("offset") or 0), int(where.get("length") or -1)
    except ValueError:
        offset = -1
    if offset < 0:
        raise DamagedFileError(f"{what} has a wrong offset or length; export the model again")
    constant = StoredConstant(dtype_of(tensor.data_type), tuple(tensor.dims), file, offset)
    if constant.dtype not in BITS:  # text and complex numbers, which no DequantizeLinear has
        return constant
    if length not in (-1, constant.nbytes):
        raise DamagedFileError(
            f"{what} has {length} bytes, and its type and shape need {constant.nbytes}; export it again"
        )
    if file.stat().st_size < offset + constant.nbytes:
        raise DamagedFileError(
            f"{what} ends at byte {offset + constant.nbytes} of {file}, which has {file.stat().st_size} bytes; copy the "
            "file again"
        )
    return constant


def external_entries(tensor: Any) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def raw_bytes(constant: StoredConstant) -> bytes:
    with constant.file.open("rb") as file:
        file.seek(constant.offset)
        return file.read(constant.nbytes)


def damaged(path: Path, reason: str) -> DamagedFileError:
    return DamagedFileError(f"{path} is no valid ONNX model: {reason}; export the model again")
