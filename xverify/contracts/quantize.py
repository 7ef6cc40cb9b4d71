"""QuantizeLinear of ONNX and com.microsoft: the legal codes of a node in the surroundings of a call.

The text gives y = saturate((x / y_scale) + y_zero_point). "For (x / y_scale), it rounds to the nearest even": so the quotient is
rounded, and then the zero point is added. Each rule below names the clause that it rests on, see `clauses`.

The legal set of an element is the union of these readings. No text says which of them is meant.

- The quotient is exact, or it is first rounded to the type of the division, see `_division_types`. So both codes are legal where
  the quotient is within such a rounding of a tie. Operands that the type cannot hold are cast to it first, or they are not.
- A subnormal operand of float32 may count as a zero of its sign.
- For float types, (x / y_scale) is rounded to the type of y before the sum, or only the sum is. An absent zero point is not
  added, or it is added as +0, which turns -0 into +0.

An element is open where no sentence covers it: division by zero, also by a subnormal that counts as zero, and NaN in a type
that has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic.linear_operands import ceil_div, normal_axis, spread
from xverify.contracts.documents import Schema, schemas, version_of
from xverify.contracts.model import Clause, Judgement, judged
from xverify.core.call import BITS, Tensor, code_dtype
from xverify.core.dtypes import INTEGERS, UNIT_EXPONENT, integer_range, values
from xverify.core.errors import DocumentError
from xverify.core.rounding import F64, difference_over, smallest_normal, sum_to_odd, to_dtype

MICROSOFT = "com.microsoft"

_SMALLEST_NORMAL = smallest_normal("float32")

_HELD_EXACTLY = {
    "float32": ("float32", "float16", "bfloat16", "float8_e8m0fnu"),
    "float16": ("float16",),
    "bfloat16": ("bfloat16", "float8_e8m0fnu"),
}
"""The operand types whose values a type of the division holds exactly."""

_INFINITY = {"float8_e5m2": 0x7C}
_NAN = {"float8_e4m3fn": 0x7F, "float8_e5m2": 0x7F, "float8_e4m3fnuz": 0x80, "float8_e5m2fnuz": 0x80}
"""Codes by type. Types without an entry have no infinity or no NaN."""


@dataclass(frozen=True, eq=False)
class Quantized:
    """The legal codes of a QuantizeLinear node."""

    dtype: str
    """The type of the codes."""
    alternatives: tuple[NDArray[Any], ...]
    """Arrays of codes in the shape of the operand. Any code of an element in one of them is legal.

    Every NaN has the code that `canonical` gives it.
    """
    open: NDArray[np.bool_]
    """True for each element that no sentence covers. Its codes mean nothing."""


def quantized_dtype(zero_point: Tensor | None, attributes: Mapping[str, Any]) -> str:
    """The type of y. Clause: output-type."""
    return zero_point.dtype if zero_point is not None else str(attributes.get("output_dtype", "uint8"))


def canonical(dtype: str, codes: NDArray[Any]) -> NDArray[Any]:
    """The codes, with one code for every NaN of the type."""
    if dtype not in _NAN:
        return codes
    return np.where(np.isnan(values(dtype, codes)), codes.dtype.type(_NAN[dtype]), codes)


def quantize(
    opset: int,
    domain: str,
    operand: Tensor,
    scale: Tensor,
    zero_point: Tensor | None,
    attributes: Mapping[str, Any],
) -> Quantized:
    """The legal codes of a node that `judge` allows.

    Args:
        opset: The opset of the model.
        domain: "" or "ai.onnx" for ONNX, or "com.microsoft".
        operand: The node's x.
        scale: The node's y_scale.
        zero_point: The node's y_zero_point.
        attributes: The node's attributes. Types in them are our names of dtypes, such as "int8".
    """
    dtype = quantized_dtype(zero_point, attributes)
    axis = attributes.get("axis", None if domain == MICROSOFT else 1)
    block_size = int(attributes.get("block_size", 0))
    x = values(operand.dtype, operand.codes)
    divisor = values(scale.dtype, spread(scale, operand, axis, block_size))
    offset = None if zero_point is None else values(dtype, spread(zero_point, operand, axis, block_size))
    division_types = _division_types(0 if domain == MICROSOFT else opset, operand.dtype, scale.dtype, attributes)
    saturations = _saturations(opset, dtype, attributes)
    is_open = np.zeros(operand.shape, np.bool_)
    arrays: dict[bytes, NDArray[Any]] = {}
    with np.errstate(all="ignore"):
        for reading in _readings(x, divisor, operand.dtype, scale.dtype, division_types):
            # Clause: division-by-zero. A subnormal divisor may count as zero. Clause: subnormal.
            is_open |= np.abs(reading.divisor) < _SMALLEST_NORMAL
            quotient = reading.quotient()
            if dtype in INTEGERS:
                sums = (quotient,)
                results: Iterable[NDArray[Any]] = (_integer_codes(quotient, offset, dtype),)
            else:
                sums = tuple(_sums(reading, quotient, offset, dtype))
                results = [_float_codes(total, dtype, rule) for total in sums for rule in saturations]
            if dtype not in _NAN:  # Clause: nan.
                for total in sums:
                    is_open |= np.isnan(total)
            for codes in results:
                arrays.setdefault(codes.tobytes(), codes)
    return Quantized(dtype, tuple(arrays.values()), is_open)


@dataclass(frozen=True)
class _Reading:
    """The division of one reading."""

    precision: str
    """The type to which the quotient is rounded, "" for none."""
    x: F64
    divisor: F64

    def quotient(self) -> F64:
        """The quotient, rounded to float64 unless it is rounded to the type of the division.

        Rounding to float64 keeps every decision that follows. Let x = X 2^a and the divisor = S 2^b with integers X and S. Let T 2^c
        be a number that decides: half an odd integer for integers, or the middle of two neighbours of a float type. If the
        quotient is not that number, their relative distance is at least 1/|T S| or 1/|X|, since x - divisor T 2^c is a
        multiple of the smaller unit of both terms. T has at most 18 bits for integers, 6 for small floats, and 25 for types of a
        division. S has at most 24 bits, or 31 for int32, and X has at most 31. So the distance is at least 2^-49, apart from
        an int32 scale with a division in float32, where both operands are cast first. float64 rounds by at most 2^-53,
        and holds T 2^c. So the rounded quotient lies on the same side of it, or is it if the quotient is.
        """
        quotient = np.asarray(self.x / self.divisor)
        return to_dtype(quotient, self.precision) if self.precision else quotient


def _division_types(opset: int, operand: str, scale: str, attributes: Mapping[str, Any]) -> tuple[str, ...]:
    """The types to which a quotient may be rounded. Clauses: division-precision, precision.

    From version 23 on, the text states a type. No sentence says that a division must not be more precise. So float32 is legal
    beside a narrower type, and so is the exact quotient. Before, the types of the operands and float32 are legal.
    int32 and float8_e8m0fnu cannot hold quotients. So they state no precision.
    """
    stated = str(attributes.get("precision", scale)) if opset >= 23 else ""
    if stated in ("float32", "float64"):
        return ("float32",) if stated == "float32" else ()
    if stated in _HELD_EXACTLY:
        return "float32", stated
    return "float32", *sorted({operand, scale} & {"float16", "bfloat16"})


def _readings(x: F64, divisor: F64, operand: str, scale: str, division_types: tuple[str, ...]) -> Iterator[_Reading]:
    """Every reading of the division, the exact one first."""
    yield _Reading("", x, divisor)
    for dtype in division_types:
        exact = _HELD_EXACTLY[dtype]
        if scale != "int32":
            yield _Reading(dtype, x, divisor)
        if operand not in exact or scale not in exact:
            yield _Reading(dtype, to_dtype(x, dtype), to_dtype(divisor, dtype))
    # Clause: subnormal.
    flushed = (np.abs(x) < _SMALLEST_NORMAL) & (x != 0.0)
    if flushed.any():
        yield from _readings(np.where(flushed, np.copysign(0.0, x), x), divisor, operand, scale, division_types)


def _integer_codes(quotient: F64, offset: F64 | None, dtype: str) -> NDArray[Any]:
    """The quotient rounded half to even, plus the zero point, saturated. Clauses: formula, rounding, saturation.

    Infinity saturates, since it is above every bound.
    """
    whole = np.rint(quotient)
    if offset is not None:
        whole = whole + offset
    lowest, highest = integer_range(dtype)
    numbers = np.fmin(np.fmax(whole, lowest), highest).astype(np.int32)
    if BITS[dtype] < 8:
        numbers = numbers & ((1 << BITS[dtype]) - 1)
    return np.asarray(numbers).astype(code_dtype(dtype))


Saturation = Literal["all", "finite", "none"]
"""The numbers beyond the largest one that become it."""


def _saturations(opset: int, dtype: str, attributes: Mapping[str, Any]) -> tuple[Saturation, ...]:
    """The conversions of numbers beyond the largest one. Clauses: saturate, float8-saturated, float8-overflow.

    "All cases are fully described in two tables inserted in the operator description", but only Cast has these tables. Before
    version 24, its first table has NaN for an infinity in a type without negative zero. The formula's own word is "saturate".
    So both are legal there.
    """
    if dtype not in _NAN:
        return ("all",)
    if not attributes.get("saturate", 1):
        return ("none",)
    return ("all", "finite") if dtype.endswith("fnuz") and opset < 24 else ("all",)


def _sums(reading: _Reading, quotient: F64, offset: F64 | None, dtype: str) -> Iterator[F64]:
    """Every reading of (x / y_scale) + y_zero_point in a float type, as numbers that a cast rounds. Clause: formula."""
    if offset is None or not offset.any():
        yield quotient
        if offset is None or not np.signbit(offset).all():
            rounded = _to_width(quotient, dtype)
            # Only zeros differ.
            yield np.where(rounded == 0.0, rounded + (0.0 if offset is None else offset), quotient)
        return
    # Rounding to odd keeps the side of every number that decides, so the sum is as good as exact.
    exact = quotient if reading.precision else difference_over(reading.x, reading.divisor)
    total = sum_to_odd(exact, offset, np.zeros_like(exact))
    yield total
    if reading.precision:
        yield to_dtype(total, reading.precision)
    yield _to_width(quotient, dtype) + offset


def _float_codes(numbers: F64, dtype: str, saturation: Saturation) -> NDArray[Any]:
    """Codes of numbers, rounded half to even. Clauses: float8-saturated, float8-overflow."""
    magnitudes = _magnitudes(dtype)
    rounded = np.abs(_to_width(numbers, dtype))
    is_nan, is_infinite = np.isnan(numbers), np.isinf(numbers)
    codes = np.searchsorted(magnitudes, np.fmin(rounded, magnitudes[-1])).astype(code_dtype(dtype))
    if saturation == "none":
        is_beyond = rounded > magnitudes[-1]
        if dtype in _INFINITY:
            codes = np.where(is_beyond, codes.dtype.type(_INFINITY[dtype]), codes)
        else:
            is_nan = is_nan | is_beyond
    elif saturation == "finite":
        is_nan = is_nan | is_infinite
    minus = codes.dtype.type(1 << (BITS[dtype] - 1))
    is_negative = np.signbit(numbers)
    if dtype.endswith("fnuz"):  # There is no negative zero.
        is_negative = is_negative & (codes != 0)
    codes = np.where(is_negative, codes | minus, codes)
    return np.where(is_nan, codes.dtype.type(_NAN.get(dtype, 0)), codes)


def _to_width(numbers: F64, dtype: str) -> F64:
    """Numbers rounded to the width of a float type's mantissa, ties to even, without a largest exponent.

    Cast's tables call that [x].
    """
    exponents = np.frexp(np.where(np.isfinite(numbers), numbers, 0.0))[1]
    units = np.ldexp(1.0, np.maximum(exponents - 1 - _mantissa_bits(dtype), UNIT_EXPONENT[dtype]))
    return np.asarray(np.rint(numbers / units) * units)


@cache
def _mantissa_bits(dtype: str) -> int:
    """The number of codes from one power of two to the next is 2 ** this."""
    magnitudes = _magnitudes(dtype)
    return int(np.searchsorted(magnitudes, 2.0) - np.searchsorted(magnitudes, 1.0)).bit_length() - 1


@cache
def _magnitudes(dtype: str) -> F64:
    """The finite values of the codes from 0 on, which rise."""
    numbers = values(dtype, np.arange(1 << (BITS[dtype] - 1), dtype=code_dtype(dtype)))
    return numbers[np.isfinite(numbers)]
