"""Comparing an implementation's values with the legal set, without any tolerance.

The only exception to equality of bits: any NaN equals any NaN; and a subnormal result that came out as a zero is not
wrong but *flushed*, since no text says whether subnormals are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.core.bits import canonical, ulp_distance
from xverify.core.call import BITS, Tensor
from xverify.verify.legal import Legal


@dataclass(frozen=True, eq=False)
class Comparison:
    """wrong: values outside the legal set. flushed: subnormal results that came out as zero.

    explains: per admitted reading, whether it gives every value but flushed ones. max_ulp: the largest distance
    of a wrong value from the nearest legal one; -1 when the distance is not a number (exactly one is NaN).
    """

    wrong: NDArray[np.bool_]
    flushed: NDArray[np.bool_]
    explains: tuple[bool, ...]
    max_ulp: int

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
    """Compare values; ``got`` must have the legal set's dtype and shape (ValueError otherwise)."""
    if got.dtype != legal.dtype or got.shape != legal.shape:
        raise ValueError(f"got {got.dtype} {got.shape}, the legal set is {legal.dtype} {legal.shape}")
    codes = got.codes
    equal, inside = _equal(legal, codes)
    if not inside.all():  # perhaps only since a NaN has other bits
        codes = canonical(codes, legal.dtype)
        equal, inside = _equal(legal, codes)
    if inside.all():
        nothing = np.zeros(legal.shape, np.bool_)
        every = tuple(bool(same.all()) for same in equal)
        return Comparison(nothing, nothing, tuple(every[i] for i in legal.index), 0)
    flushed = np.asarray(~inside & legal.subnormal & is_zero(codes, legal.dtype) & legal.may_flush)
    wrong = np.asarray(~inside & ~flushed)
    every = tuple(bool((same | flushed).all()) for same in equal)
    return Comparison(wrong, flushed, tuple(every[i] for i in legal.index), _max_ulp(legal, codes, wrong))


def _equal(legal: Legal, codes: NDArray[Any]) -> tuple[list[NDArray[np.bool_]], NDArray[np.bool_]]:
    """Where the codes are those of each distinct result, and where they are those of any."""
    equal = [np.asarray(codes == candidate) for candidate in legal.distinct]
    return equal, equal[0] if len(equal) == 1 else np.asarray(np.logical_or.reduce(equal))


def is_zero(codes: NDArray[Any], dtype: str) -> NDArray[np.bool_]:
    """Which codes are +0 or -0."""
    return np.asarray((codes & codes.dtype.type((1 << (BITS[dtype] - 1)) - 1)) == 0)


def _max_ulp(legal: Legal, codes: NDArray[Any], wrong: NDArray[np.bool_]) -> int:
    if not wrong.any():
        return 0
    distances = np.stack([ulp_distance(codes[wrong], c[wrong], legal.dtype) for c in legal.distinct])
    # A distance that is not a number counts as farther than any other.
    nearest = np.where(distances < 0, np.iinfo(np.int64).max, distances).min(axis=0)
    largest = int(nearest.max())
    return -1 if largest == np.iinfo(np.int64).max else largest
