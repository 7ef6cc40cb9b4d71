"""What the codes of each dtype mean, exactly.

Every number that a quantized type can hold is an integer times a power of two that depends on the type only,
so operands are decoded to int64 *units* without rounding; floats wider than 8 bits are decoded to float64.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, NDArray

from xverify.core.call import BITS, Tensor, code_dtype

SIGNED = ("int2", "int4", "int8", "int16", "int32")
UNSIGNED = ("uint2", "uint4", "uint8", "uint16")
INTEGERS = (*SIGNED, *UNSIGNED)
SMALL_FLOATS = ("float4_e2m1fn", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
QUANTIZED = (*INTEGERS, *SMALL_FLOATS)
FLOATS = ("float32", "float16", "bfloat16")

MANTISSA_BITS = {"float32": 23, "float16": 10, "bfloat16": 7}
MIN_EXPONENT = {"float32": -126, "float16": -14, "bfloat16": -126}
"""Of the smallest normal number: 2 ** MIN_EXPONENT."""

UNIT_EXPONENT = {
    "float4_e2m1fn": -1,
    "float8_e4m3fn": -9,
    "float8_e4m3fnuz": -10,
    "float8_e5m2": -16,
    "float8_e5m2fnuz": -17,
}
"""Each finite value of the type is an integer times 2 ** this; the value of its smallest subnormal."""


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The NumPy or ml_dtypes dtype of that name."""
    return np.dtype(getattr(ml_dtypes, dtype, dtype))


def integer_range(dtype: str) -> tuple[int, int]:
    """Lowest and highest value of an integer dtype."""
    bits = BITS[dtype]
    if dtype in SIGNED or dtype == "int64":
        return -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return 0, (1 << bits) - 1


def integers(dtype: str, codes: NDArray[Any]) -> NDArray[np.int64]:
    """The values of an integer dtype's codes."""
    values = codes.astype(np.int64)
    if dtype in SIGNED:
        sign = np.int64(1 << (BITS[dtype] - 1))
        values = (values ^ sign) - sign
    return values


@cache
def _small_float_table(dtype: str) -> NDArray[np.float64]:
    codes = np.arange(1 << BITS[dtype], dtype=np.uint8)
    return codes.view(numpy_dtype(dtype)).astype(np.float64)


def floats(dtype: str, codes: NDArray[Any]) -> NDArray[np.float64]:
    """The values of a float dtype's codes; exact, since float64 holds every value of the narrower types."""
    if dtype in FLOATS:
        with np.errstate(invalid="ignore"):  # a signalling NaN says so when it is converted
            if dtype == "bfloat16":
                return (codes.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
            return codes.view(dtype).astype(np.float64)
    if dtype == "float64":
        return codes.view(np.float64)
    return np.asarray(_small_float_table(dtype).take(codes))


def is_float(dtype: str) -> bool:
    return dtype in FLOATS or dtype.startswith("float")


def values(dtype: str, codes: NDArray[Any]) -> NDArray[np.float64]:
    """The values of any dtype's codes as float64 (exact: no integer type here is wider than 32 bits)."""
    if is_float(dtype):
        return floats(dtype, codes)
    if BITS[dtype] < 8:
        return np.asarray(_small_integer_table(dtype).take(codes))
    if BITS[dtype] == 8:
        return np.asarray(codes).view(dtype).astype(np.float64)
    return integers(dtype, codes).astype(np.float64)


@cache
def _small_integer_table(dtype: str) -> NDArray[np.float64]:
    return integers(dtype, np.arange(1 << BITS[dtype], dtype=np.uint8)).astype(np.float64)


def encode(dtype: str, numbers: ArrayLike) -> NDArray[Any]:
    """Codes of representable numbers: integers by value, floats by NumPy's or ml_dtypes' conversion.

    For making inputs and not for judging results: conversions that must round rightly are in `rounding`.
    """
    if not is_float(dtype):
        if BITS[dtype] == 64:
            return np.asarray(np.asarray(numbers).astype(dtype)).view(np.uint64)
        mask = np.int64((1 << BITS[dtype]) - 1)
        return np.asarray(np.asarray(numbers).astype(np.int64) & mask).astype(code_dtype(dtype))
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.asarray(numbers, np.float64).astype(numpy_dtype(dtype))).view(code_dtype(dtype))


def tensor(dtype: str, numbers: ArrayLike, layout: str = "C") -> Tensor:
    """A tensor of those numbers; see `encode`."""
    return Tensor(dtype, np.asarray(encode(dtype, numbers)), layout)


def decimal(dtype: str, code: int) -> str:
    """The shortest decimal that identifies the value of one code, or nan, inf, -inf, -0.0."""
    codes = np.array([code], code_dtype(dtype))
    if dtype in INTEGERS or dtype == "int64":
        return str(int(integers(dtype, codes)[0]))
    if not is_float(dtype):
        return str(code)
    if dtype == "float32":
        return str(codes.view(np.float32)[0])
    if dtype == "float16":
        return str(codes.view(np.float16)[0])
    return repr(float(floats(dtype, codes)[0]))


def hexadecimal(dtype: str, code: int) -> str:
    """The bits of one code, e.g. 0x3f800000 for float32's 1."""
    return f"0x{code:0{max(1, (BITS[dtype] + 3) // 4)}x}"
