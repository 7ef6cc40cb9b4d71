"""Inputs of a model: from a file, or drawn."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.core.call import BITS, Tensor, code_dtype
from xverify.core.dtypes import encode, integer_range, is_float
from xverify.core.errors import DamagedFileError, UsageError
from xverify.model.nodes import Operand
from xverify.model.read import Model

LARGEST = 1 << 30
"""Bytes that the arrays of an input file may have together."""


def given(path: Path, model: Model) -> dict[str, Tensor]:
    """Read the inputs of a model from an .npz file."""
    with np.load(path, allow_pickle=False) as arrays:
        return {operand.value: _tensor(operand, arrays[operand.value]) for operand in model.inputs}


def _tensor(operand: Operand, array: NDArray[Any]) -> Tensor:
    dtype = "uint8" if operand.dtype == "bool" else operand.dtype
    return Tensor(dtype, array.view(code_dtype(dtype)) & code_dtype(dtype).type((1 << BITS[dtype]) - 1))


def drawn(model: Model, seed: int, extents: Mapping[str, int] | None = None) -> dict[str, Tensor]:
    """Draw inputs of a model."""
    random = np.random.default_rng(seed)
    return {operand.value: _drawn(operand, random) for operand in model.inputs}


def _drawn(operand: Operand, random: np.random.Generator) -> Tensor:
    shape = tuple(2 if extent is None else extent for extent in operand.shape or ())
    if operand.dtype == "bool":
        return Tensor("uint8", random.integers(0, 2, shape, np.uint8))
    if operand.dtype in ("int64", "int32"):
        return Tensor(operand.dtype, encode(operand.dtype, random.integers(0, 4, shape)))
    if is_float(operand.dtype):
        return Tensor(operand.dtype, encode(operand.dtype, random.standard_normal(shape)))
    low, high = integer_range(operand.dtype)
    return Tensor(operand.dtype, encode(operand.dtype, random.integers(low, high + 1, shape)))
