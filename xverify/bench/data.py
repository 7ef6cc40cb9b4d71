"""A case's operands and expected output as files.

Every peer's process reads these files, so that nothing large goes through a pipe.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.bench.cases import Case, Operands, draw
from xverify.core.call import BITS, code_dtype
from xverify.core.dtypes import numpy_dtype
from xverify.oracles.timing import Problem, aligned

SAMPLED = 64
"""The most values of a part of an output that are compared with the legal set."""

_SHARED_MEMORY = Path("/dev/shm")


@contextmanager
def written(case: Case, seed: int) -> Iterator[Path]:
    """Write a case's files to a temporary folder, and remove it when the context ends.

    The folder is in shared memory where there is room. On a disk, the system would still write the files back while it times
    other peers.
    """
    needed = 2 * (case.bytes_of_codes + case.bytes_written)
    room = os.statvfs(_SHARED_MEMORY) if _SHARED_MEMORY.is_dir() else None
    fits = room is not None and room.f_bavail * room.f_frsize > needed and os.access(_SHARED_MEMORY, os.W_OK)
    with tempfile.TemporaryDirectory(prefix="xverify-bench-", dir=_SHARED_MEMORY if fits else None) as name:
        folder = Path(name)
        operands = draw(case, seed)
        for role, codes in (("x", operands.x), ("scale", operands.scale), ("zero_point", operands.zero_point)):
            if codes is not None:
                codes.tofile(folder / role)
        expected(case, operands).view(code_dtype(case.out_dtype)).tofile(folder / "expected")
        yield folder


def expected(case: Case, operands: Operands) -> NDArray[Any]:
    """The output of the in-house kernel in NumPy."""
    from xverify.kernels import dequantize_linear

    x, scale, zero_point = typed(case, operands)
    block_size = case.block_size or None
    return dequantize_linear(x, scale, zero_point, axis=case.axis, block_size=block_size, backend="numpy")


def typed(case: Case, operands: Operands) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]:
    """Give x, scale and zero point as arrays of their types."""
    x, scale = operands.x.view(numpy_dtype(case.x_dtype)), operands.scale.view(numpy_dtype(case.out_dtype))
    zero_point = None if operands.zero_point is None else operands.zero_point.view(numpy_dtype(case.x_dtype))
    return x, scale, zero_point


def read(case: Case, folder: Path) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]:
    """Read x, scale and zero point into aligned memory of this process."""

    def loaded(role: str, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
        array: NDArray[Any] = aligned(shape, dtype)
        codes = array.view(code_dtype(dtype))
        codes[...] = np.fromfile(folder / role, codes.dtype).reshape(shape)
        if dtype.startswith("int") and BITS[dtype] < 8:  # ml_dtypes fills the unused high bits with the sign
            unused = 8 - BITS[dtype]
            codes.view(np.int8)[...] = (codes << unused).view(np.int8) >> unused
        return array

    zero_point = loaded("zero_point", case.x_dtype, case.parameter_shape) if case.has_zero_point else None
    scale = loaded("scale", case.out_dtype, case.parameter_shape)
    return loaded("x", case.x_dtype, case.shape), scale, zero_point


@dataclass(frozen=True)
class Value:
    """The codes of one element: its operands, and what an implementation computed."""

    x: int
    scale: int
    zero_point: int | None
    got: int


def other_bits(case: Case, folder: Path, got: NDArray[Any]) -> int:
    """Count the values whose bits differ from those of the in-house kernel. Any NaN equals any NaN.

    Raises:
        ValueError: The result has another type or another number of values.
    """
    return sum(int(np.count_nonzero(differs)) for _, differs in _differing(case, folder, got))


def some_others(case: Case, folder: Path, problem: Problem, got: NDArray[Any]) -> list[Value]:
    """Some of the values that `other_bits` counts: at most `SAMPLED` of each part of the output.

    Raises:
        ValueError: The result has another type or another number of values.
    """
    places = [start + np.flatnonzero(differs)[:SAMPLED] for start, differs in _differing(case, folder, got)]
    index = np.concatenate(places).astype(np.int64) if places else np.zeros(0, np.int64)

    def codes(array: NDArray[Any], dtype: str) -> list[int]:
        chosen = np.broadcast_to(array, case.shape)[np.unravel_index(index, case.shape)]
        mask = (1 << BITS[dtype]) - 1
        return [int(code) & mask for code in np.ascontiguousarray(chosen).view(code_dtype(dtype))]

    x, scale = codes(problem.x, case.x_dtype), codes(problem.along(problem.scale), case.out_dtype)
    results = codes(got.reshape(case.shape), case.out_dtype)
    if problem.zero_point is None:
        return [Value(a, b, None, c) for a, b, c in zip(x, scale, results, strict=True)]
    zero_points = codes(problem.along(problem.zero_point), case.x_dtype)
    return [Value(*each) for each in zip(x, scale, zero_points, results, strict=True)]


def _differing(case: Case, folder: Path, got: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """The parts of the output with other bits: the index of the first element of each, and a mask."""
    kind = numpy_dtype(case.out_dtype)
    if got.dtype != kind or got.size != case.elements:
        raise ValueError(f"it gives {got.size} values of {got.dtype}; expected {case.elements} of {kind}")
    codes = np.ascontiguousarray(got).reshape(-1).view(code_dtype(case.out_dtype))
    wanted = np.memmap(folder / "expected", codes.dtype, "r")
    for start in range(0, codes.size, 1 << 20):
        mine, theirs = codes[start : start + (1 << 20)], wanted[start : start + (1 << 20)]
        differs = mine != theirs
        if differs.any():
            numbers = [part[differs].view(kind).astype(np.float32) for part in (mine, theirs)]
            differs[differs] = ~(np.isnan(numbers[0]) & np.isnan(numbers[1]))
            yield start, differs
