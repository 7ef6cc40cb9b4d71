"""The exact values of codes, for each dtype.

Each number of a quantized type is an integer times a power of two that depends on the type only. float64 holds all values of
all types here.
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
SMALL_FLOATS = (
    "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn",
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
)  # fmt: skip
QUANTIZED = (*INTEGERS, *SMALL_FLOATS)
FLOATS = ("float32", "float16", "bfloat16")

COMMONEST = (
    "uint8", "int8", "int4", "uint4", "int32", "float8_e4m3fn", "float8_e5m2", "int16", "uint16", "float4_e2m1fn",
    "float8_e4m3fnuz", "float8_e5m2fnuz", "float32", "float16", "bfloat16", "float8_e8m0fnu", "int2", "uint2",
    "float6_e2m3fn", "float6_e3m2fn",
)  # fmt: skip
"""The dtypes in the order in which examples use them: the commonest first."""

MANTISSA_BITS = {"float32": 23, "float16": 10, "bfloat16": 7}
MIN_EXPONENT = {"float32": -126, "float16": -14, "bfloat16": -126}
"""Exponent of the smallest normal number, which is 2 ** this."""

NAN_AS_NUMBER = {
    "float8_e4m3fn-without-nan": ("float8_e4m3fn", {0x7F: 480.0, 0xFF: -480.0}),
    "float8_e4m3fn-without-negative-nan": ("float8_e4m3fn", {0xFF: -480.0}),
}
"""Wrong decodings of a type: the type, and numbers in place of NaN. A call never has such a type, but a mistake reads it."""

UNIT_EXPONENT = {
    "float4_e2m1fn": -1,
    "float6_e2m3fn": -3,
    "float6_e3m2fn": -4,
    "float8_e4m3fn": -9,
    "float8_e4m3fnuz": -10,
    "float8_e5m2": -16,
    "float8_e5m2fnuz": -17,
    **dict.fromkeys(NAN_AS_NUMBER, -9),
}
"""Exponent of the smallest subnormal, which is 2 ** this. Each finite value of the type is a multiple of it."""


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The NumPy or ml_dtypes dtype of that name."""
    return np.dtype(getattr(ml_dtypes, dtype, dtype))


def common_first(dtype: str) -> int:
    """A sort key of dtypes, the commonest first. Dtypes that `COMMONEST` does not name come last."""
    return COMMONEST.index(dtype) if dtype in COMMONEST else len(COMMONEST)


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
    right, numbers = NAN_AS_NUMBER.get(dtype, (dtype, {}))
    codes = np.arange(1 << BITS[right], dtype=np.uint8)
    table = codes.view(numpy_dtype(right)).astype(np.float64)
    for code, number in numbers.items():
        table[code] = number
    return table


def floats(dtype: str, codes: NDArray[Any]) -> NDArray[np.float64]:
    """The exact values of a float dtype's codes as float64."""
    if dtype in FLOATS:
        with np.errstate(invalid="ignore"):  # The conversion of a signalling NaN warns.
            if dtype == "bfloat16":
                return (codes.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
            return codes.view(dtype).astype(np.float64)
    if dtype == "float64":
        return codes.view(np.float64)
    return np.asarray(_small_float_table(dtype).take(codes))


def is_float(dtype: str) -> bool:
    """True for a float dtype of any width."""
    return dtype in FLOATS or dtype.startswith("float")


def values(dtype: str, codes: NDArray[Any]) -> NDArray[np.float64]:
    """The values of a dtype's codes as float64. They are exact, except for integers of 64 bits."""
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
    """Codes of representable numbers: integers by value, floats by the conversion of NumPy or ml_dtypes.

    Use this to make inputs only. Conversions that must round correctly are in `rounding`.
    """
    if not is_float(dtype):
        if BITS[dtype] == 64:
            return np.asarray(np.asarray(numbers).astype(dtype)).view(np.uint64)
        mask = np.int64((1 << BITS[dtype]) - 1)
        return np.asarray(np.asarray(numbers).astype(np.int64) & mask).astype(code_dtype(dtype))
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.asarray(numbers, np.float64).astype(numpy_dtype(dtype))).view(code_dtype(dtype))


def tensor(dtype: str, numbers: ArrayLike, layout: str = "C") -> Tensor:
    """A tensor of these numbers, see `encode`."""
    return Tensor(dtype, np.asarray(encode(dtype, numbers)), layout)


def decimal(dtype: str, code: int) -> str:
    """The shortest decimal that identifies the value of a code, or nan, inf, -inf, -0.0."""
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
    """The bits of a code in hex, such as 0x3f800000 for 1 in float32."""
    return f"0x{code:0{max(1, (BITS[dtype] + 3) // 4)}x}"
