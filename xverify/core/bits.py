"""Comparing codes: equality of bits, and distance in units in the last place."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.core.call import BITS
from xverify.core.dtypes import MANTISSA_BITS


def is_nan(codes: NDArray[Any], dtype: str) -> NDArray[np.bool_]:
    """Which codes of float32, float16 or bfloat16 are NaN."""
    return np.asarray(_magnitude(codes, dtype) > codes.dtype.type(_infinity(dtype)))


def kinds(codes: NDArray[Any], dtype: str) -> tuple[bool, bool]:
    """Whether any of the codes is NaN, and whether any is a subnormal number, in less time than it takes to say which."""
    magnitude = _magnitude(codes, dtype)
    has_nan = bool(magnitude.max(initial=0) > _infinity(dtype))
    magnitude -= codes.dtype.type(1)  # then zero is the largest number of all
    return has_nan, bool(magnitude.min(initial=_infinity(dtype)) < (1 << MANTISSA_BITS[dtype]) - 1)


def _magnitude(codes: NDArray[Any], dtype: str) -> NDArray[Any]:
    """The codes without their signs, in memory of their own."""
    return np.asarray(codes & codes.dtype.type((1 << (BITS[dtype] - 1)) - 1))


def _infinity(dtype: str) -> int:
    bits, mantissa = BITS[dtype], MANTISSA_BITS[dtype]
    return ((1 << (bits - 1)) - 1) & ~((1 << mantissa) - 1)


def canonical(codes: NDArray[Any], dtype: str) -> NDArray[Any]:
    """The codes with every NaN replaced by one: any NaN equals any NaN, -0 and +0 differ."""
    nan = is_nan(codes, dtype)
    return np.where(nan, codes.dtype.type((1 << BITS[dtype]) - 1), codes) if nan.any() else codes


def ulp_distance(a: NDArray[Any], b: NDArray[Any], dtype: str) -> NDArray[np.int64]:
    """How many representable numbers lie between two codes; -1 where exactly one is NaN, 0 where both are.

    -0 and +0 count as one apart, since they differ in bits.
    """
    sign = np.int64(1 << (BITS[dtype] - 1))

    def ordered(codes: NDArray[Any]) -> NDArray[np.int64]:
        wide = codes.astype(np.int64)
        return np.where(wide >= sign, sign - 1 - wide, wide)

    nan_a, nan_b = is_nan(a, dtype), is_nan(b, dtype)
    distance = np.abs(ordered(a) - ordered(b))
    return np.where(nan_a & nan_b, 0, np.where(nan_a | nan_b, -1, distance))


def subnormals_work() -> bool:
    """Canary: whether this process still computes with subnormals.

    Loading a library built with -ffast-math turns on flush-to-zero for the whole process; a legal set computed then
    is wrong. One control bit flushes all precisions, so that one of them tells.
    """
    return bool(np.float32(2.0**-126) * np.float32(0.5) != 0)
