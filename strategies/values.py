"""Values of calls: special scales and ranges, and codes that cover their type.

Everything here is a function of a NumPy generator, so structure and seed reproduce a call.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.core.call import BITS, code_dtype
from xverify.core.dtypes import FLOATS, INTEGERS, MANTISSA_BITS, encode, integer_range
from xverify.core.dtypes import values as decoded
from xverify.strategies import ties

Generator = np.random.Generator

DOUBLE = 53
"""Significant bits of float64."""

SCALE_RECIPES = (
    "drawn", "table", "power-of-two", "near-power-of-two", "small", "huge", "special", "negative", "near-tie",
)  # fmt: skip
"""Recipes for scales. "drawn" has random mantissas near 1, "table" and "special" take entries of the lists below.

"near-tie" has one mantissa with many exponents, for which `near_ties` solves wide x.
"""

ONE_SPECIAL = "special-"
"""The recipe of one special scale. The number of its entry in the list follows."""

EVERY_EXPONENT = "every-exponent"
"""The recipe of every exponent in turn, with random mantissas and signs."""

ZERO_POINT_RECIPES = ("random", "lowest", "highest", "zero", "middle")

RANGE_RECIPES = (
    "drawn",
    "symmetric",
    "from-zero",
    "to-zero",
    "narrow",
    "wide",
    "far-from-zero",
    "tiny",
    "grid",
    "near-tie",
)

_TABLE = (1.0, 0.1, 1 / 3, 2 / 3, 0.0078125, 1 / 127, 1 / 255, 3.1415927, 1e-3, 1e3, 0.05, 6 / 255)


@cache
def special_scales(dtype: str) -> NDArray[Any]:
    """Codes of zeros, subnormals, the ends of the normal range, infinities and NaN.

    For float8_e8m0fnu, codes over its whole range.
    """
    if dtype == "float8_e8m0fnu":
        return np.array([0, 1, 2, 16, 64, 100, 120, 126, 127, 128, 140, 160, 200, 253, 254, 255], np.uint8)
    mantissa, bits = MANTISSA_BITS[dtype], BITS[dtype]
    one_ulp_exponent = 1 << mantissa
    infinity = ((1 << (bits - 1)) - 1) & ~(one_ulp_exponent - 1)
    positive = [
        0,
        1,
        2,
        one_ulp_exponent >> 1,
        one_ulp_exponent - 1,
        one_ulp_exponent,
        one_ulp_exponent + 1,
        infinity - one_ulp_exponent,
        infinity - 1,
        infinity,
        infinity + (one_ulp_exponent >> 1),
    ]
    sign = 1 << (bits - 1)
    return np.array(positive + [sign | code for code in positive[:-1]], code_dtype(dtype))


def exponents_of(dtype: str) -> int:
    """The number of exponents among the finite numbers of a scale dtype, that of the subnormals included."""
    return 255 if dtype == "float8_e8m0fnu" else ((1 << (BITS[dtype] - 1)) >> MANTISSA_BITS[dtype]) - 1


def scales(dtype: str, shape: tuple[int, ...], recipe: str, rng: Generator) -> NDArray[Any]:
    """Codes of scales by recipe."""
    count = math.prod(shape)
    code = code_dtype(dtype)
    if recipe.startswith(ONE_SPECIAL):
        return np.full(shape, special_scales(dtype)[int(recipe.removeprefix(ONE_SPECIAL))])
    if recipe == EVERY_EXPONENT:
        every = np.resize(np.arange(exponents_of(dtype)), count)
        if dtype == "float8_e8m0fnu":
            return every.astype(code).reshape(shape)
        below = 1 << MANTISSA_BITS[dtype]
        magnitudes = every * below + rng.integers(0, below, count)
        return (magnitudes | rng.integers(0, 2, count) << (BITS[dtype] - 1)).astype(code).reshape(shape)
    if dtype == "float8_e8m0fnu":
        pool = special_scales(dtype) if recipe in ("special", "huge", "small") else np.arange(112, 144, dtype=np.uint8)
        return rng.choice(pool, count).astype(code).reshape(shape)
    if recipe == "special":
        return rng.choice(special_scales(dtype), count).reshape(shape)
    if recipe == "table":
        return encode(dtype, rng.choice(_TABLE, count)).reshape(shape)
    # This span keeps most products of 8-bit differences inside the normal range of float16.
    span = 3 if dtype == "float16" else 12
    powers = np.exp2(rng.integers(-span, span + 1, count).astype(np.float64))
    if recipe == "power-of-two":
        return encode(dtype, powers).reshape(shape)
    if recipe == "near-power-of-two":
        codes = encode(dtype, powers).astype(np.int64) + rng.integers(-2, 3, count)
        return codes.astype(code).reshape(shape)
    mantissas = 1.0 + rng.random(count)
    if recipe in ("small", "huge"):
        limit = {"float32": 126, "bfloat16": 126, "float16": 14}[dtype]
        exponents = rng.integers(limit - 9, limit + 1, count) * (-1.0 if recipe == "small" else 1.0)
        return encode(dtype, mantissas * np.exp2(exponents)).reshape(shape)
    if recipe == "near-tie":
        mantissas = np.full(count, 1.0 + rng.random())
        if dtype != "float16":
            # Wide x give products below 1 too then, and products in the range of float16.
            powers = np.exp2(rng.integers(-56, 25, count).astype(np.float64))
    sign = -1.0 if recipe == "negative" else 1.0
    return encode(dtype, sign * mantissas * powers).reshape(shape)


def data(dtype: str, shape: tuple[int, ...], rng: Generator, *, periodic: bool = False) -> NDArray[Any]:
    """Codes of x.

    A type of at most 8 bits gets all codes, over and over, in another order each time: elements that are a block of 32, a row
    of 256 or 2^16 elements apart then have other codes. A wider type gets codes near its ends and near powers of two, and
    random codes.

    Args:
        periodic: Repeat all codes in the same order. Each column has all codes too, if the number of columns is odd.
    """
    count = math.prod(shape)
    code, bits = code_dtype(dtype), BITS[dtype]
    if bits <= 8:
        every = np.tile(np.arange(1 << bits, dtype=code), (-(-count >> bits), 1))
        codes = rng.permutation(every, axis=1) if periodic else rng.permuted(every, axis=1)
        return codes.reshape(-1)[:count].reshape(shape)
    mask = (1 << bits) - 1
    powers = np.left_shift(np.int64(1), rng.integers(0, bits, count)) + rng.integers(-2, 3, count)
    anywhere = rng.integers(0, 1 << bits, count, dtype=np.int64)
    ends = np.where(rng.integers(0, 2, count) == 1, 1 << (bits - 1), 0) + rng.integers(-2, 3, count)
    pick = rng.integers(0, 4, count)
    chosen = np.where(pick == 0, powers, np.where(pick == 1, ends, anywhere))
    return (chosen & mask).astype(code).reshape(shape)


def near_ties(
    x: NDArray[Any], dtype: str, scale: NDArray[Any], scale_dtype: str, out_dtype: str, rng: Generator
) -> NDArray[Any]:
    """Codes of x, half of them replaced by numbers that are next to a tie with the first scale.

    Their product with the scale's mantissa is so near a midpoint of the output type that float64 rounds it to the midpoint.
    Where float64 holds all products of the types, x stays the same.
    """
    bits = MANTISSA_BITS.get(scale_dtype, 0) + 1
    if BITS[dtype] - 1 + bits <= DOUBLE:
        return x
    mantissa, _ = np.frexp(decoded(scale_dtype, scale.reshape(-1)[0]))
    factor = int(np.ldexp(mantissa, bits))
    limit, kept = 1 << (BITS[dtype] - 1), MANTISSA_BITS[out_dtype] + 1
    # Several, since only one side of a midpoint rounds wrongly: the one away from its even neighbour.
    solved = [number for _ in range(4) for number in ties.factors(factor, 1, limit, kept, DOUBLE, rng)]
    if not solved:
        return x
    chosen = rng.choice(solved, x.shape) * rng.choice([-1, 1], x.shape)
    return np.where(rng.random(x.shape) < 0.5, chosen.astype(np.int64).astype(code_dtype(dtype)), x)


def symmetric_ties(x: NDArray[Any], end: NDArray[Any], rng: Generator) -> NDArray[Any]:
    """Codes of int32 x, a quarter of them replaced by numbers next to a tie in mode SCALED.

    For these n, n * end / (2^31 - 1) is within half a unit of a midpoint of float32. Where this end has no such n, x stays
    the same. 2^31 - 1 is a prime, so one n has n * m next to half of it, for the end's mantissa m. That is a midpoint where
    the quotient has 24 bits before the point.
    """
    prime, mantissa = (1 << 31) - 1, int(np.ldexp(np.frexp(decoded("float32", end))[0], 24))
    inverse = pow(mantissa, -1, prime)
    solved = [
        n for n in (inverse * (prime // 2) % prime, inverse * (prime // 2 + 1) % prime) if n * mantissa >> 23 >= prime
    ]
    if not solved or not x.size:
        return x
    chosen = rng.choice(solved, x.shape) * rng.choice([-1, 1], x.shape)
    return np.where(rng.random(x.shape) < 0.25, chosen.astype(np.int32).view(np.uint32), x)


FLOAT_ZERO_POINT_KINDS = ("fraction", "small", "whole", "half", "special", "any")
"""Kinds of random zero points of a float type.

"fraction" has the size of integers and random last bits, "small" is below 1, "half" is a whole number and a half. "special" takes
a zero, a subnormal, an end of the normal range, an infinity or NaN. "any" takes random bits.
"""


def float_zero_points(dtype: str, count: int, rng: Generator) -> NDArray[Any]:
    """Random codes of float zero points, of all kinds."""
    sign = rng.choice([-1.0, 1.0], count)
    sizes = np.exp2(rng.integers(0, 8, count).astype(np.float64))
    fractions = sign * (1.0 + rng.random(count)) * sizes
    whole = np.trunc(fractions)
    numbers = {
        "fraction": encode(dtype, fractions),
        "small": encode(dtype, sign * rng.random(count) * np.exp2(rng.integers(-30, 1, count).astype(np.float64))),
        "whole": encode(dtype, whole),
        "half": encode(dtype, whole + 0.5),
        "special": rng.choice(special_scales(dtype), count),
        "any": rng.integers(0, 1 << BITS[dtype], count).astype(code_dtype(dtype)),
    }
    pick = rng.choice(len(numbers), count, p=[0.4, 0.15, 0.2, 0.1, 0.1, 0.05])
    return np.choose(pick, [numbers[kind] for kind in FLOAT_ZERO_POINT_KINDS])


_LIMITS = (8, 11, 16, 23, 24, 24, 24, 25, 30)
"""Exponents of powers of two near which zero points of 32 bits lie.

bfloat16, float16 and float32 hold all integers up to 2^8, 2^11 and 2^24.
"""


_LARGEST = {
    "float4_e2m1fn": 6.0, "float6_e2m3fn": 7.5, "float6_e3m2fn": 28.0,
    "float8_e4m3fn": 448.0, "float8_e4m3fnuz": 240.0, "float8_e5m2": 57344.0, "float8_e5m2fnuz": 57344.0,
}  # fmt: skip
"""The largest finite number of each small float."""


def zero_points(dtype: str, shape: tuple[int, ...], recipe: str, rng: Generator) -> NDArray[Any]:
    """Codes of zero points by recipe.

    For small floats, "lowest" and "highest" are the finite ends, and "middle" is 1. For float32, float16 and bfloat16, they are
    -128 and 127 with random last bits, and "middle" is 8, as zero points have the size of integers.
    """
    if dtype in FLOATS:
        if recipe == "random":
            return float_zero_points(dtype, math.prod(shape), rng).reshape(shape)
        bits = rng.random(shape)
        numbers = {"lowest": bits - 128.0, "highest": bits + 126.5, "zero": 0.0 * bits, "middle": 8.0 + 0.0 * bits}
        return encode(dtype, numbers[recipe])
    if dtype not in INTEGERS:
        if recipe == "random":
            return rng.integers(0, 1 << BITS[dtype], shape).astype(code_dtype(dtype))
        largest = _LARGEST[dtype]
        number = {"lowest": -largest, "highest": largest, "zero": 0.0, "middle": 1.0}[recipe]
        return encode(dtype, np.full(shape, number))
    lowest, highest = integer_range(dtype)
    if recipe == "random":
        drawn = rng.integers(lowest, highest + 1, shape)
        if BITS[dtype] < 32:
            return encode(dtype, drawn)
        # Nearly all random numbers of a wide type are large. Small ones matter too, as kernels have other arithmetic for them.
        # So do those near limits, as differences lose bits there.
        small = rng.integers(-300, 301, shape)
        limits = rng.choice([-1, 1], shape) * (np.exp2(rng.choice(_LIMITS, shape)).astype(np.int64) + small // 3)
        pick = rng.random(shape)
        return encode(dtype, np.where(pick < 0.4, small, np.where(pick < 0.7, limits, drawn)))
    number = {"lowest": lowest, "highest": highest, "zero": 0, "middle": (lowest + highest + 1) // 2}[recipe]
    return encode(dtype, np.full(shape, number))


def ranges(count: tuple[int, ...], recipe: str, levels: int, rng: Generator) -> tuple[NDArray[Any], NDArray[Any]]:
    """Codes of min_range and max_range in float32 by recipe.

    All ranges are finite, and their ends are in order.

    "grid" puts min_range on a multiple of the step, where snapping it to the grid changes nothing. "near-tie" makes the step a
    small whole number, and max_range almost 0. Values then lie next to ties of the narrower output types, by less than float64
    can hold, and some by less than float32 can.
    """
    a = (1.0 + rng.random(count)) * np.exp2(rng.integers(-8, 9, count).astype(np.float64))
    b = (1.0 + rng.random(count)) * np.exp2(rng.integers(-8, 9, count).astype(np.float64))
    low, high = {
        "drawn": (-a, b),
        "symmetric": (-a, a),
        "from-zero": (0.0 * a, b),
        "to-zero": (-a, np.where(b < 1.0, -0.0, 0.0)),
        "narrow": (a, a * (1.0 + 2.0**-18)),
        "wide": (-a * 2.0**110, b * 2.0**112),
        "far-from-zero": (a, a + b),
        "tiny": (-a * 2.0**-130, b * 2.0**-125),
        "grid": (-16.0 + 0.0 * a, -16.0 + levels * 2.0**-3 + 0.0 * b),
        "near-tie": (-3.0 * levels + 0.0 * a, np.where(b < 1.0, 2.0**-149, 2.0**-100)),
    }[recipe]
    return encode("float32", low), encode("float32", high)
