"""Comparison of codes: equality of bits, and distance in units in the last place (ULP)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.core.call import BITS
from xverify.core.dtypes import MANTISSA_BITS, integers, is_float

_LARGEST = {"float8_e4m3fn": 0x7E, "float8_e5m2": 0x7C}
"""The largest magnitude that is no NaN, for narrow types with several NaN."""

_ONLY_NAN = 0x80
"""The code of the only NaN of the types float8_e4m3fnuz and float8_e5m2fnuz."""


def is_nan(codes: NDArray[Any], dtype: str) -> NDArray[np.bool_]:
    """True for each code that is NaN."""
    if dtype in MANTISSA_BITS:
        return np.asarray(_magnitude(codes, dtype) > codes.dtype.type(_infinity(dtype)))
    if dtype in _LARGEST:
        return np.asarray(_magnitude(codes, dtype) > codes.dtype.type(_LARGEST[dtype]))
    return np.asarray(codes == _ONLY_NAN) if dtype.endswith("fnuz") else np.zeros(codes.shape, np.bool_)


def kinds(codes: NDArray[Any], dtype: str) -> tuple[bool, bool]:
    """True if any code is NaN, and True if any is subnormal. This is faster than finding out which."""
    magnitude = _magnitude(codes, dtype)
    has_nan = bool(magnitude.max(initial=0) > _infinity(dtype))
    magnitude -= codes.dtype.type(1)  # zero wraps around to the largest number
    return has_nan, bool(magnitude.min(initial=_infinity(dtype)) < (1 << MANTISSA_BITS[dtype]) - 1)


def _magnitude(codes: NDArray[Any], dtype: str) -> NDArray[Any]:
    """The codes without their signs, in new memory."""
    return np.asarray(codes & codes.dtype.type((1 << (BITS[dtype] - 1)) - 1))


def _infinity(dtype: str) -> int:
    bits, mantissa = BITS[dtype], MANTISSA_BITS[dtype]
    return ((1 << (bits - 1)) - 1) & ~((1 << mantissa) - 1)


def canonical(codes: NDArray[Any], dtype: str) -> NDArray[Any]:
    """The codes, with the same code for every NaN. Any NaN then equals any NaN, while -0 and +0 differ."""
    if dtype not in MANTISSA_BITS and dtype not in _LARGEST:
        return codes
    nan = is_nan(codes, dtype)
    # For narrow floats it is the positive one, as in `xverify.contracts.quantize`.
    only = (1 << (BITS[dtype] - (dtype in _LARGEST))) - 1
    return np.where(nan, codes.dtype.type(only), codes) if nan.any() else codes


def ulp_distance(a: NDArray[Any], b: NDArray[Any], dtype: str) -> NDArray[np.int64]:
    """The distance of codes in representable numbers.

    Returns:
        -1 where exactly one code is NaN, and 0 where both are. -0 and +0 are one apart, since their bits differ.
    """
    if not is_float(dtype):
        return np.asarray(np.abs(integers(dtype, a) - integers(dtype, b)))
    sign = np.int64(1 << (BITS[dtype] - 1))

    def ordered(codes: NDArray[Any]) -> NDArray[np.int64]:
        wide = codes.astype(np.int64)
        return np.where(wide >= sign, sign - 1 - wide, wide)

    nan_a, nan_b = is_nan(a, dtype), is_nan(b, dtype)
    distance = np.abs(ordered(a) - ordered(b))
    return np.where(nan_a & nan_b, 0, np.where(nan_a | nan_b, -1, distance))


def subnormals_work() -> bool:
    """True if this process still computes with subnormals.

    Loading a library built with -ffast-math turns on flush-to-zero for the whole process. Legal sets computed after that are
    wrong. One control bit flushes all precisions, so a test of float32 is enough.
    """
    return bool(np.float32(2.0**-126) * np.float32(0.5) != 0)
