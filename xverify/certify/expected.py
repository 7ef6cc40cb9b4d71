"""The values of y = (x - zero point) * scale, by a second author.

Neither kernels nor readings are imported. Every operand is decoded to float64 by the formula of its format, which is
exact. A recipe says where a text lets an intermediate result be rounded. Everything else is exact in float64 and is
rounded once. The processor rounds to float32 (IEEE 754, 5.4.2). Integer arithmetic rounds to float16 and bfloat16, so
that no library's conversion is trusted. Rounding is to nearest, ties to even. Subnormals are kept, and overflow gives
infinity. Signs of zeros, infinities and NaN follow IEEE 754, clause 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
Codes = NDArray[Any]

SIGNED = {"int2": 2, "int4": 4, "int8": 8, "int16": 16}
UNSIGNED = {"uint2": 2, "uint4": 4, "uint8": 8, "uint16": 16}


@dataclass(frozen=True)
class Format:
    """A binary floating-point format."""

    exponent_bits: int
    mantissa_bits: int
    bias: int
    specials: Literal["ieee", "fn", "fnuz", "none"]
    """Codes that are not finite.

    "ieee": those with the highest exponent. "fn": those with all bits set except the sign. "fnuz": the sign bit alone.
    "none": no code.
    """

    @property
    def bits(self) -> int:
        return 1 + self.exponent_bits + self.mantissa_bits


FORMATS: Mapping[str, Format] = {
    "float32": Format(8, 23, 127, "ieee"),
    "float16": Format(5, 10, 15, "ieee"),
    "bfloat16": Format(8, 7, 127, "ieee"),
    "float8_e5m2": Format(5, 2, 15, "ieee"),
    "float8_e4m3fn": Format(4, 3, 7, "fn"),
    "float8_e4m3fnuz": Format(4, 3, 8, "fnuz"),
    "float8_e5m2fnuz": Format(5, 2, 16, "fnuz"),
    "float4_e2m1fn": Format(2, 1, 1, "none"),
    "float6_e2m3fn": Format(2, 3, 1, "none"),
    "float6_e3m2fn": Format(3, 2, 3, "none"),
}
"""Source: IEEE 754-2019, 3.6; OCP 8-bit Floating Point 1.0; OCP Microscaling Formats 1.0; fnuz: arXiv 2206.02915."""


def bits_of(dtype: str) -> int:
    """Return the width of a dtype, in bits."""
    if dtype == "float8_e8m0fnu":
        return 8
    return FORMATS[dtype].bits if dtype in FORMATS else {**SIGNED, **UNSIGNED}[dtype]


def values(dtype: str, codes: Codes) -> F64:
    """Return the exact values of codes."""
    if dtype == "float32":
        with np.errstate(invalid="ignore"):  # converting a signalling NaN raises the invalid flag
            return codes.view(np.float32).astype(np.float64)
    return np.asarray(_table(dtype)[codes])


@cache
def _table(dtype: str) -> F64:
    codes = np.arange(1 << bits_of(dtype), dtype=np.int64)
    if dtype in FORMATS:
        table = _decoded(FORMATS[dtype], codes)
    elif dtype == "float8_e8m0fnu":
        table = np.where(codes == 255, np.nan, np.ldexp(1.0, codes - 127))
    else:
        half = 1 << (bits_of(dtype) - 1)
        table = (codes - (2 * half) * ((dtype in SIGNED) & (codes >= half))).astype(np.float64)
    table.flags.writeable = False
    return table


def _decoded(form: Format, codes: NDArray[np.int64]) -> F64:
    mantissa = codes & ((1 << form.mantissa_bits) - 1)
    top = (1 << form.exponent_bits) - 1
    exponent = (codes >> form.mantissa_bits) & top
    negative = codes >> (form.bits - 1) == 1
    significand = mantissa + np.where(exponent > 0, 1 << form.mantissa_bits, 0)
    magnitude = np.ldexp(significand.astype(np.float64), np.maximum(exponent, 1) - form.bias - form.mantissa_bits)
    if form.specials == "ieee":
        magnitude = np.where(exponent == top, np.where(mantissa == 0, np.inf, np.nan), magnitude)
    elif form.specials == "fn":
        magnitude = np.where(codes & ((1 << (form.bits - 1)) - 1) == (1 << (form.bits - 1)) - 1, np.nan, magnitude)
    elif form.specials == "fnuz":
        magnitude = np.where(codes == 1 << (form.bits - 1), np.nan, magnitude)
    return np.asarray(np.where(negative, -magnitude, magnitude))


def rounded(numbers: F64, dtype: str) -> Codes:
    """Round numbers once to float32, float16 or bfloat16, and return the codes. All NaN have one code."""
    if dtype == "float32":
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return np.asarray(numbers.astype(np.float32)).view(np.uint32)
    form = FORMATS[dtype]
    bits = np.asarray(numbers).view(np.int64)
    magnitude = bits & np.int64((1 << 63) - 1)
    exponent = magnitude >> 52
    lowest = 1024 - form.bias  # float64's exponent of the smallest normal number
    # Number of the 53 bits to drop: more for subnormal results, and all below half of the smallest number.
    drop = np.minimum(52 - form.mantissa_bits + np.maximum(lowest - exponent, 0), 54)
    significand = (magnitude & np.int64((1 << 52) - 1)) | np.int64(1 << 52)
    even = (significand >> drop) & 1
    kept = (significand + (np.int64(1) << (drop - 1)) - 1 + even) >> drop
    # A carry increments the exponent by itself, because codes are in the order of the values.
    infinity = ((1 << form.exponent_bits) - 1) << form.mantissa_bits
    codes = np.minimum(((np.maximum(exponent, lowest) - lowest) << form.mantissa_bits) + kept, infinity)
    codes[magnitude > np.int64(0x7FF << 52)] = infinity | 1 << (form.mantissa_bits - 1)
    codes |= (bits < 0).astype(np.int64) << (form.bits - 1)
    return np.asarray(codes.astype(np.uint16))


@dataclass(frozen=True)
class Recipe:
    """The places where a text lets an intermediate result be rounded.

    Each field names the type it is rounded to: "float32", or "output" for the type of the result. "" means exact.
    """

    operands: Literal["", "float32", "output"] = ""
    """Rounding of x and of the zero point."""
    difference: Literal["", "float32", "output"] = ""
    """Rounding of x - zero point."""
    scale: Literal["", "output"] = ""
    """Rounding of the scale."""
    product: Literal["", "float32"] = ""
    """Rounding of the product, before it is rounded to the output type."""
    divide: bool = False
    """True to divide by the scale instead of multiplying."""


RECIPES: Mapping[str, Recipe] = {
    "exact": Recipe(),
    "float32": Recipe(difference="float32", product="float32"),
    "output": Recipe(difference="output"),
    "output-scale-cast": Recipe(difference="output", scale="output"),
    "operands-output": Recipe("output", "output"),
    "operands-output-scale-cast": Recipe("output", "output", "output"),
    "exact-quotient": Recipe(divide=True),
    "float32-quotient": Recipe(difference="float32", product="float32", divide=True),
    "operands-float32+difference-float32+rounded-float32": Recipe("float32", "float32", product="float32"),
    "difference-output+rounded-float32": Recipe(difference="output", product="float32"),
    "cast-operands-output+difference-output+rounded-float32": Recipe("output", "output", product="float32"),
}
"""Recipes by the names of the readings that some text admits."""


def difference(recipe: Recipe, x: F64, zero_point: F64 | None, out: str) -> F64:
    """Return x - zero point as the recipe computes it, or x without a zero point.

    It is exact where the recipe does not round: no two codes are more than 2^34 units of the smallest apart.
    """
    if recipe.operands:
        kind = _named(recipe.operands, out)
        x = _through(x, kind)
        zero_point = None if zero_point is None else _through(zero_point, kind)
    if zero_point is not None:
        with np.errstate(invalid="ignore"):
            x = x - zero_point
    return _through(x, _named(recipe.difference, out)) if recipe.difference else x


def result(recipe: Recipe, difference: F64, scale: F64, out: str) -> Codes:
    """Return the codes of difference * scale (or of difference / scale) by the recipe.

    The operands broadcast. A product of more than 53 bits is first rounded to odd. This is harmless with two bits to spare.
    The quotient of a difference by a mantissa of 24 bits is either a number of 25 bits, or at least 2^-49 of itself away
    from any. So its rounding to float64 is harmless too.

    Source:
        Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", theorem 2.
    """
    if recipe.scale:
        scale = _through(scale, out)
    with np.errstate(all="ignore"):
        number = np.asarray(difference / scale if recipe.divide else difference * scale)
    if not recipe.divide and _is_wide(difference, scale):
        number = _to_odd(difference, scale, number)
    if recipe.product:
        number = _through(number, recipe.product)
    return rounded(number, out)


def _named(dtype: str, out: str) -> str:
    return out if dtype == "output" else dtype


def _through(numbers: F64, dtype: str) -> F64:
    numbers = np.atleast_1d(numbers)
    return values(dtype, rounded(np.ascontiguousarray(numbers), dtype))


def _is_wide(difference: F64, scale: F64) -> bool:
    """Return True if some product may need more than 53 bits."""
    return _significant(difference) + _significant(scale) > 53


def _significant(numbers: F64) -> int:
    """Return the number of significant bits of the longest mantissa, rounded up to 8, 11, 24, 35 or 53."""
    bits = int(np.bitwise_or.reduce(np.asarray(numbers).view(np.int64), axis=None))
    return next((n for n in (8, 11, 24, 35) if not bits & ((1 << (53 - n)) - 1)), 53)


def _to_odd(difference: F64, scale: F64, product: F64) -> F64:
    """Return the exact product, truncated to fewer than 53 bits.

    The last bit is set if something was cut off. A difference has at most 35 significant bits and a scale 24, so the
    product of their integers fits into int64.
    """
    regular = np.isfinite(product) & (product != 0)
    left, left_exponent = np.frexp(np.where(np.isfinite(difference), difference, 0.0))
    right, right_exponent = np.frexp(np.where(np.isfinite(scale), scale, 0.0))
    whole = np.ldexp(left, 35).astype(np.int64) * np.ldexp(right, 24).astype(np.int64)
    cut = (np.abs(whole) >> 8) | ((whole & 0xFF) != 0)
    exact = np.ldexp(cut.astype(np.float64), left_exponent + right_exponent - 59 + 8)
    return np.where(regular, np.copysign(exact, product), product)


def simplified(recipe: Recipe, x_dtype: str, zero_points: bool, scale_dtype: str, out: str) -> Recipe:
    """Return a recipe that gives the same on these types, without roundings that change nothing.

    Each rounding of x and of differences is tried on all values.
    """
    codes = np.arange(1 << bits_of(x_dtype), dtype=np.int64)
    x = values(x_dtype, codes)
    if recipe.operands and _keeps(x, _named(recipe.operands, out)):
        recipe = replace(recipe, operands="")
    if (
        recipe.difference
        and not recipe.operands
        and _keeps(_differences(x_dtype, x, zero_points), _named(recipe.difference, out))
    ):
        recipe = replace(recipe, difference="")
    scale_form, out_form = FORMATS.get(scale_dtype), FORMATS[out]
    if scale_form is not None and (
        scale_form.exponent_bits <= out_form.exponent_bits and scale_form.mantissa_bits <= out_form.mantissa_bits
    ):
        recipe = replace(recipe, scale="")
    if recipe.product and out == recipe.product:
        recipe = replace(recipe, product="")
    return recipe


def _keeps(numbers: F64, dtype: str) -> bool:
    return np.array_equal(_through(numbers, dtype), numbers, equal_nan=True)


def _differences(x_dtype: str, x: F64, zero_points: bool) -> F64:
    if not zero_points:
        return x
    if bits_of(x_dtype) == 16:
        return np.arange(-65535.0, 65536.0)
    return difference(Recipe(), x[None, :], x[:, None], "float32").reshape(-1)
