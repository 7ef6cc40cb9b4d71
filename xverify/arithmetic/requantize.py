"""Results that are quantized and dequantized once more, as by optimisers of graphs.

The second QuantizeLinear has the scale of the call. Its type and its zero point may be wrong: without a zero point, uint8 is
its default type.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic.reading import Codes, Operands
from xverify.arithmetic.readings import EXACT
from xverify.core.call import BITS, code_dtype
from xverify.core.dtypes import FLOATS, INTEGERS, SMALL_FLOATS, integer_range, values


def quantizes(right: Operands, dtype: str, keeps_zero_point: bool) -> bool:
    """True if QuantizeLinear has such types, and the call has values."""
    zero_dtype = right.dtypes.get("zero_point", "")
    if 0 in right.shape or not (dtype in INTEGERS or dtype.startswith("float8")):
        return False
    return not (keeps_zero_point and (zero_dtype in FLOATS or (dtype in SMALL_FLOATS and zero_dtype in INTEGERS)))


def requantized(right: Operands, dtype: str, keeps_zero_point: bool) -> Codes | None:
    """The codes of QuantizeLinear applied to the result of the call.

    Args:
        right: the operands of a linear call.
        dtype: the type to quantize to.
        keeps_zero_point: True to add the call's zero point, False to add none.

    Returns:
        None if QuantizeLinear has no such types, or the call no values.
    """
    if not quantizes(right, dtype, keeps_zero_point):
        return None
    zero_dtype = right.dtypes.get("zero_point", "")
    y = values(right.output_dtype, EXACT.evaluate(right)).astype(np.float32)
    scale = values(right.dtypes["scale"], right.codes["scale"]).astype(np.float32)
    with np.errstate(all="ignore"):
        quotient = np.broadcast_to(y / scale, right.shape).astype(np.float64)
    zero_point = np.asarray(-0.0)  # It keeps the sign of a sum that is zero.
    if keeps_zero_point and zero_dtype:
        zero_point = np.asarray(values(zero_dtype, right.codes["zero_point"]), np.float64)
    with np.errstate(invalid="ignore"):  # infinities of both signs
        return (
            _integers(quotient, zero_point, dtype) if dtype in INTEGERS else _small_floats(quotient + zero_point, dtype)
        )


def _integers(numbers: NDArray[np.float64], zero_point: NDArray[np.float64], dtype: str) -> Codes:
    """Integers rounded half to even and saturated. NaN becomes the lowest, as in a conversion of x86."""
    lowest, highest = integer_range(dtype)
    with np.errstate(invalid="ignore"):
        whole = np.clip(np.rint(numbers) + zero_point, lowest, highest)
    integers: NDArray[np.int64] = np.where(np.isnan(whole), lowest, whole).astype(np.int64)
    return np.asarray(integers & ((1 << BITS[dtype]) - 1)).astype(code_dtype(dtype))


@cache
def _finite(dtype: str) -> tuple[NDArray[np.float64], NDArray[np.unsignedinteger]]:
    """The finite values of a small float without -0, in rising order, and their codes."""
    codes = np.arange(1 << BITS[dtype], dtype=code_dtype(dtype))
    numbers = np.asarray(values(dtype, codes), np.float64)
    kept = np.isfinite(numbers) & ~((numbers == 0) & np.signbit(numbers))
    order = np.argsort(numbers[kept])
    return numbers[kept][order], codes[kept][order]


def _small_floats(numbers: NDArray[np.float64], dtype: str) -> Codes:
    """The codes of the nearest values, ties to the even code. What is too large saturates."""
    finite, codes = _finite(dtype)
    every = np.arange(1 << BITS[dtype], dtype=codes.dtype)
    nan = every[np.isnan(values(dtype, every))][0]
    above = np.clip(np.searchsorted(finite, np.nan_to_num(numbers)), 1, finite.size - 1)
    with np.errstate(invalid="ignore"):
        down, up = numbers - finite[above - 1], finite[above] - numbers
    takes_up = (up < down) | ((up == down) & (codes[above] % 2 == 0))
    nearest = np.where(takes_up, codes[above], codes[above - 1])
    nearest = np.where(numbers == np.inf, codes[-1], np.where(numbers == -np.inf, codes[0], nearest))
    minus = codes.dtype.type(1 << (BITS[dtype] - 1))
    negative_zero = np.signbit(numbers) & (nearest == 0) & (not dtype.endswith("fnuz"))
    return np.where(np.isnan(numbers), nan, np.where(negative_zero, minus, nearest)).astype(codes.dtype)
