"""Exact arithmetic on arrays: values that need more than 53 bits, and casts that round once.

A result that float64 cannot hold is carried *rounded to odd*: the nearest float64 toward zero, with its last bit
set when anything was cut off. A float64 has more than twice and two the bits of float32, float16 and bfloat16,
so a value rounded to odd and then to nearest even gives what rounding the exact value would have given
(S. Boldo, G. Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
F64 = NDArray[np.float64]
Combine = Callable[[F64, F64], F64]

FLOAT32: np.dtype[Any] = np.dtype(np.float32)
FLOAT16: np.dtype[Any] = np.dtype(np.float16)
FLOAT64: np.dtype[Any] = np.dtype(np.float64)
BFLOAT16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)

_UPPER_12 = np.int64(~((1 << 41) - 1))
"""A mask that leaves the sign, the exponent and the first 12 significant bits of a float64."""


def is_byte_coded(dtype: np.dtype[Any]) -> bool:
    """True if codes are single bytes with which NumPy itself cannot compute."""
    return dtype.itemsize == 1 and dtype.kind not in "iub"


_USED = {"float4_e2m1fn": 0x0F, "float6_e2m3fn": 0x3F, "float6_e3m2fn": 0x3F}
"""The bits of a byte that hold a code, where ml_dtypes takes any unused bit for a sign."""


@cache
def code_values(dtype: np.dtype[Any]) -> Array:
    """The float32 value of every byte of a dtype of 8 bits or fewer; each value is exact.

    The unused high bits of a narrower type's byte are ignored: ml_dtypes fills them with an integer's sign, others with 0.
    """
    codes = np.arange(256, dtype=np.uint8)
    codes &= np.uint8(_USED.get(dtype.name, 0xFF))
    table: Array = codes.view(dtype).astype(np.float32)
    table.flags.writeable = False
    return table


def numbers(array: Array, dtype: np.dtype[Any]) -> Array:
    """The values of an array of any quantized or scale type, as a new float32 or float64 array."""
    if is_byte_coded(array.dtype):
        return np.asarray(code_values(array.dtype)[array.view(np.uint8)], dtype)
    return array.astype(dtype)


def to_odd(nearest: F64, error: F64) -> F64:
    """``nearest + error`` rounded to odd, where ``nearest`` is that sum rounded to nearest.

    Only the sign of ``error`` counts; where it is 0 or NaN (an infinity or a NaN came in), ``nearest`` is the result.
    """
    inexact = (error < 0.0) | (error > 0.0)
    beyond = inexact & ((error < 0.0) != (nearest < 0.0))
    odd: F64 = ((nearest.view(np.int64) - beyond) | inexact).view(np.float64)
    return odd


def multiply(difference: F64, scale: F64) -> F64:
    """``difference * scale`` rounded to odd, for up to 41 significant bits by 24.

    The scale is cut in two halves of 12 bits, so that both partial products are exact.
    """
    upper = (scale.view(np.int64) & _UPPER_12).view(np.float64)
    product = np.asarray(difference * scale)
    error = difference * (scale - upper) - (product - difference * upper)
    return to_odd(product, np.asarray(error))


def fractions_to_odd(values: Sequence[Fraction]) -> F64:
    """Fractions of ordinary size as float64 rounded to odd; 0 is +0."""
    nearest = [float(value) for value in values]
    errors = [float(value - Fraction(near)) for value, near in zip(values, nearest, strict=True)]
    return to_odd(np.array(nearest, np.float64), np.array(errors, np.float64))


def cast(values: F64, dtype: np.dtype[Any]) -> Array:
    """float64 values (exact, or rounded to odd) as float32, float16 or bfloat16: to nearest even, once.

    NumPy rounds once to float32 and float16. ml_dtypes goes to bfloat16 through float32 and so rounds twice, which is
    right only if the first rounding is to odd.
    """
    if dtype != BFLOAT16:
        return values.astype(dtype)
    nearest = values.astype(np.float32)
    short = np.abs(nearest) < np.abs(values)
    inexact = nearest != values
    codes = nearest.view(np.int32)
    codes = (codes - (inexact & ~short)) | inexact
    return np.where(np.isnan(values), np.float32("nan"), codes.astype(np.int32).view(np.float32)).astype(dtype)
