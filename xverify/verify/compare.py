"""Comparison of values with the legal set, without any tolerance.

Values are compared bit for bit, with one exception: any NaN equals any NaN. A subnormal result that came out as zero is not
wrong but *flushed*, since no text says whether subnormals are kept. So is the result of an admitted reading whose subnormal
intermediate results count as zero. A user may also accept results of subnormal inputs that count as zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.core.bits import canonical, ulp_distance
from xverify.core.call import BITS, Tensor
from xverify.verify.large import BLOCK
from xverify.verify.legal import Legal


@dataclass(frozen=True, eq=False)
class Comparison:
    """An outcome's values compared with a legal set."""

    wrong: NDArray[np.bool_]
    """The mask of values outside the legal set."""
    flushed: NDArray[np.bool_]
    """The mask of values that are legal only because subnormal numbers may count as zero."""
    explains: tuple[bool, ...]
    """For each admitted reading, True if it gives every value that was not flushed."""
    max_ulp: int
    """The largest distance of a wrong value from the nearest legal one; -1 if exactly one of them is NaN."""

    @property
    def wrong_values(self) -> int:
        return int(np.count_nonzero(self.wrong))

    @property
    def flushed_values(self) -> int:
        return int(np.count_nonzero(self.flushed))

    @property
    def clean(self) -> bool:
        return not self.wrong.any() and not self.flushed.any()


def compare(legal: Legal, got: Tensor) -> Comparison:
    """Compare values with a legal set.

    Raises:
        ValueError: ``got`` has another dtype or shape than the legal set.
    """
    if got.dtype != legal.dtype or got.shape != legal.shape:
        raise ValueError(f"got {got.dtype} {got.shape}, the legal set is {legal.dtype} {legal.shape}")
    codes = got.codes
    if legal.open is not None:
        return _compare_each(legal, legal.open, canonical(codes, legal.dtype))
    explains = _whole(legal, codes)
    if not any(explains):  # perhaps a NaN has other bits
        codes = canonical(codes, legal.dtype)
        explains = _whole(legal, codes)
    if any(explains):
        nothing = np.zeros(legal.shape, np.bool_)
        return Comparison(nothing, nothing, tuple(explains[i] for i in legal.index), 0)
    equal = [np.asarray(codes == candidate) for candidate in legal.distinct]
    inside = np.logical_or.reduce(equal)
    flushed = np.asarray(~inside & legal.subnormal & is_zero(codes, legal.dtype) & legal.may_flush)
    if flushed.any():
        # Flushing keeps the sign.
        shift = BITS[legal.dtype] - 1
        flushed &= np.logical_or.reduce([(codes ^ candidate) >> shift == 0 for candidate in legal.distinct])
    for candidate in (*legal.flushed_steps, *legal.flushed_inputs):
        flushed |= ~inside & (codes == candidate)
    wrong = np.asarray(~inside & ~flushed)
    explains = [bool((same | flushed).all()) for same in equal]
    return Comparison(wrong, flushed, tuple(explains[i] for i in legal.index), max_ulp(legal, codes, wrong))


def _compare_each(legal: Legal, is_open: NDArray[np.bool_], codes: NDArray[Any]) -> Comparison:
    """Compare each value by itself with its legal codes, but for those that no text states."""
    inside = np.logical_or.reduce([codes == candidate for candidate in legal.distinct])
    wrong = np.asarray(~inside & ~is_open)
    nothing = np.zeros(legal.shape, np.bool_)
    return Comparison(wrong, nothing, (not wrong.any(),), max_ulp(legal, codes, wrong))


def _whole(legal: Legal, codes: NDArray[Any]) -> list[bool]:
    """For each distinct result, True if the codes equal it. It works in blocks, which needs no memory."""
    flat, starts = codes.reshape(-1), range(0, codes.size, BLOCK)
    every = [candidate.reshape(-1) for candidate in legal.distinct]
    return [all(np.array_equal(flat[i : i + BLOCK], result[i : i + BLOCK]) for i in starts) for result in every]


def is_zero(codes: NDArray[Any], dtype: str) -> NDArray[np.bool_]:
    """The mask of codes that are +0 or -0."""
    return np.asarray((codes & codes.dtype.type((1 << (BITS[dtype] - 1)) - 1)) == 0)


def max_ulp(legal: Legal, codes: NDArray[Any], wrong: NDArray[np.bool_]) -> int:
    """The largest distance of the masked values from the nearest legal ones; -1 for no number."""
    if not wrong.any():
        return 0
    distances = np.stack([ulp_distance(codes[wrong], c[wrong], legal.dtype) for c in legal.distinct])
    # A distance that is not a number counts as farther than any other.
    nearest = np.where(distances < 0, np.iinfo(np.int64).max, distances).min(axis=0)
    largest = int(nearest.max())
    return -1 if largest == np.iinfo(np.int64).max else largest
