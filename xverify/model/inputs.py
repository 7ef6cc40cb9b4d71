"""Inputs of a model: from a file, or drawn."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from xverify.core.call import BITS, Tensor, code_dtype
from xverify.core.dtypes import encode, integer_range, is_float
from xverify.core.errors import DamagedFileError, UsageError
from xverify.model.nodes import Operand

LARGEST = 1 << 30
"""Bytes that the arrays of a file may have together."""

FIRST_EXTENT, EXTENT = 2, 8
"""The extents that are drawn for unknown ones: of the first axis, which often counts examples, and of the others."""

MOST_DRAWN = 1 << 28
"""Values that the drawn inputs may have together."""

INDICES = 4
"""Drawn values of int32 and int64 are smaller than this, since they may be indices, lengths or masks."""

BOOL = "uint8"
"""The dtype of a tensor for an input of type bool. Its codes are 0 and 1."""


class Runnable(Protocol):
    """A model, or a part of one."""

    @property
    def inputs(self) -> Sequence[Operand]:
        """The inputs that a run must get."""


def given(path: Path, model: Runnable) -> dict[str, Tensor]:
    """Read the inputs of a model from an .npz file.

    An array may have the type of its input, or hold the codes of a type that NumPy lacks as unsigned integers. An array of int8
    or uint8 holds the values of a type of fewer bits.

    Args:
        path: The file, with one array for each input, by its name.
        model: The model, or a part of one.

    Raises:
        DamagedFileError: The file is no .npz file of arrays.
        UsageError: It is too large, or an array is missing, unknown, or of another type or shape than the input.
    """
    inputs = model.inputs
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    try:
        with zipfile.ZipFile(path) as archive:
            total = sum(entry.file_size for entry in archive.infolist())
        if total > LARGEST:
            raise UsageError(f"{path} has arrays of {total} bytes, and {LARGEST} are allowed; give smaller inputs")
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except UsageError:
        raise
    except (zipfile.BadZipFile, ValueError, EOFError, KeyError, MemoryError, NotImplementedError) as error:
        raise DamagedFileError(
            f"{path} is no .npz file of arrays: {' '.join(str(error).split())}; write it by numpy.savez"
        ) from None
    names = [operand.value for operand in inputs]
    expected = f"the model's inputs are {', '.join(names) or 'none'}"
    for name in arrays:
        if name not in names:
            raise UsageError(f"{path} has an array {name!r}, which is no input; {expected}")
    for name in names:
        if name not in arrays:
            raise UsageError(f"{path} has no array for the input {name!r}; {expected}")
    return {operand.value: _given(path, operand, arrays[operand.value]) for operand in inputs}


def _given(path: Path, operand: Operand, array: NDArray[Any]) -> Tensor:
    """The tensor of an array for an input."""
    where = f"{path}: the array {operand.value!r}"
    wanted = operand.shape
    if wanted is not None and (
        len(wanted) != array.ndim or any(w not in (None, e) for w, e in zip(wanted, array.shape, strict=True))
    ):
        shown = ", ".join("?" if extent is None else str(extent) for extent in wanted)
        raise UsageError(f"{where} has shape {array.shape}, and the input has ({shown}); give an array of that shape")
    codes = _codes(operand.dtype, array)
    if codes is None:
        raise UsageError(f"{where} has dtype {array.dtype}, and the input has {operand.dtype}; convert the array")
    return Tensor(BOOL if operand.dtype == "bool" else operand.dtype, np.ascontiguousarray(codes).reshape(array.shape))


def _codes(dtype: str, array: NDArray[Any]) -> NDArray[Any] | None:
    """The codes of an array, None if it has another type."""
    array = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("=")))
    if dtype == "bool":
        return array.view(np.uint8) if array.dtype == np.bool_ else None
    if dtype not in BITS:
        return None
    code = code_dtype(dtype)
    if array.dtype.name == dtype or (array.dtype.itemsize == code.itemsize and array.dtype.kind in "V"):
        codes = array.view(code)
        return codes & code.type((1 << BITS[dtype]) - 1) if BITS[dtype] < 8 else codes
    if BITS[dtype] < 8 and not is_float(dtype) and array.dtype in (np.int8, np.uint8):
        low, high = integer_range(dtype)
        inside = array.size == 0 or (int(array.min()) >= low and int(array.max()) <= high)
        return encode(dtype, array) if inside else None
    if array.dtype == code and is_float(dtype) and dtype not in ("float16", "float32", "float64"):
        return array if BITS[dtype] >= 8 or not (array >> BITS[dtype]).any() else None
    return None


def drawn(
    model: Runnable, seed: int, extents: Mapping[str, int] | None = None, indices: int = INDICES
) -> dict[str, Tensor]:
    """Draw inputs of a model or of a part.

    Floats are normal, with some values outside of the usual range. Integers of at most 16 bits are uniform over their range.
    The same inputs and seed give the same tensors.

    Args:
        model: The model, or a part of one.
        seed: The seed.
        extents: Extents by symbol, such as "batch", or by input and axis, such as "x:0". They replace the drawn ones.
        indices: The limit of values of int32 and int64.

    Raises:
        UsageError: An input has a type that cannot be drawn, such as text, there are too many values, or an extent names
            nothing.
    """
    inputs, extents = model.inputs, extents or {}
    known = {symbol for operand in inputs for symbol in operand.symbols if symbol}
    known |= {f"{operand.value}:{axis}" for operand in inputs for axis in range(len(operand.shape or ()))}
    for name in extents:
        if name not in known:
            raise UsageError(
                f"no extent is called {name!r}; the model's inputs have {', '.join(sorted(known)) or 'none'}"
            )
    places = [(symbol, axis) for operand in inputs for axis, symbol in enumerate(operand.symbols) if symbol]
    first_axis = {symbol for symbol, _ in places} - {symbol for symbol, axis in places if axis}
    shapes = {operand.value: _shape(operand, extents, first_axis) for operand in inputs}
    if (size := sum(map(math.prod, shapes.values()))) > MOST_DRAWN:
        raise UsageError(f"its inputs have {size} values, and at most {MOST_DRAWN} are drawn")
    random = np.random.default_rng(seed)
    return {operand.value: _drawn(operand, random, shapes[operand.value], indices) for operand in inputs}


def _shape(operand: Operand, extents: Mapping[str, int], first: set[str]) -> tuple[int, ...]:
    """The extents of a drawn tensor."""
    shape = []
    for axis, extent in enumerate(operand.shape or ()):
        symbol = operand.symbols[axis] if operand.symbols else ""
        is_first = symbol in first if symbol else axis == 0
        default = extent if extent is not None else extents.get(symbol, FIRST_EXTENT if is_first else EXTENT)
        shape.append(extents.get(f"{operand.value}:{axis}", default))
    return tuple(shape)


def _drawn(operand: Operand, random: np.random.Generator, shape: tuple[int, ...], indices: int) -> Tensor:
    dtype = operand.dtype
    if dtype == "bool":
        return Tensor(BOOL, random.integers(0, 2, shape, np.uint8))
    if dtype not in BITS:
        raise UsageError(f"the input {operand.value!r} has the type {dtype or 'unknown'}, which cannot be drawn")
    if is_float(dtype):
        values = random.standard_normal(shape) * np.where(random.random(shape) < 0.05, 30.0, 1.0)
        return Tensor(dtype, encode(dtype, values))
    if BITS[dtype] > 16:
        return Tensor(dtype, encode(dtype, random.integers(0, indices, shape)))
    low, high = integer_range(dtype)
    return Tensor(dtype, encode(dtype, random.integers(low, high + 1, shape)))
