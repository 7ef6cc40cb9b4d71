"""Triples (x, zero point, scale) for tests of linear readings: special and random, of all types."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic import stages
from xverify.arithmetic.reading import Operands
from xverify.arithmetic.readings import Stepwise
from xverify.arithmetic.simplify import Types
from xverify.core.call import BITS, code_dtype
from xverify.core.dtypes import FLOATS, QUANTIZED, SMALL_FLOATS
from xverify.strategies import values

SCALES = ("float32", "float16", "bfloat16", "float8_e8m0fnu")
OUTPUTS = ("float32", "float16", "bfloat16")
STAGES: dict[str, tuple[Any, ...]] = {
    "subtraction": get_args(stages.Subtraction),
    "difference": get_args(stages.Difference),
    "scale_cast": get_args(stages.ScaleCast),
    "operation": get_args(stages.Operation),
    "precision": get_args(stages.Precision),
    "final": get_args(stages.Final),
    "subnormals": get_args(stages.Subnormals),
    "zero": get_args(stages.Zero),
}
MIXED = (
    ("int4", "uint4"), ("uint4", "int4"), ("int8", "int32"), ("uint8", "int32"), ("int8", "uint8"), ("uint8", "int8"),
    *((x, zero_point) for x in SMALL_FLOATS for zero_point in SMALL_FLOATS if x != zero_point),
)  # fmt: skip
"""Types of x and of a zero point that has another type."""


def drawn_reading(rng: np.random.Generator, plain: float = 0.4) -> Stepwise:
    """Draw a composition. ``plain`` is the probability of the plain option of a stage."""
    return Stepwise(
        **{
            name: options[0] if rng.random() < plain else options[rng.integers(len(options))]
            for name, options in STAGES.items()
        }
    )


def drawn_types(rng: np.random.Generator, mixed: float = 0.2) -> Types:
    """Draw types of a linear call. ``mixed`` is the probability of a zero point of another type."""
    if rng.random() < mixed:
        x, zero_point = MIXED[rng.integers(len(MIXED))]
    else:
        x = QUANTIZED[rng.integers(len(QUANTIZED))]
        zero_point = x if rng.random() < 0.7 else ""
    return Types(x, zero_point, SCALES[rng.integers(len(SCALES))], OUTPUTS[rng.integers(len(OUTPUTS))])


def some_codes(dtype: str, count: int, rng: np.random.Generator) -> NDArray[Any]:
    """Return all codes of a small type, or else codes near ends and powers of two, and random ones."""
    return values.data(dtype, (count,), rng)


def some_zero_points(dtype: str, count: int, rng: np.random.Generator) -> NDArray[Any]:
    """Return zero points of a float type: fractions, whole numbers, special ones and random codes."""
    fractions = values.encode(dtype, rng.random(count) * 2.0 ** rng.integers(-2, 9, count) * rng.choice([-1, 1], count))
    whole = values.encode(dtype, rng.integers(-129, 257, count))
    limits = values.encode(
        dtype, 2.0 ** rng.choice([7, 8, 15, 16, 24, 31, 32], count) + rng.choice([-1, 0, 0.5], count)
    )
    anything = rng.integers(0, 1 << BITS[dtype], count).astype(code_dtype(dtype))
    special = rng.choice(values.special_scales(dtype), count)
    kinds = np.stack([fractions, fractions, fractions, whole, limits, anything, special])
    return kinds[rng.integers(0, len(kinds), count), np.arange(count)].astype(code_dtype(dtype))


def some_scales(dtype: str, count: int, rng: np.random.Generator) -> NDArray[Any]:
    """Return special scales, scales of every recipe, and random codes, shuffled."""
    special = values.special_scales(dtype)
    each = count // (len(values.SCALE_RECIPES) + 3) + 1
    drawn = [values.scales(dtype, (each,), recipe, rng) for recipe in values.SCALE_RECIPES]
    anything = rng.integers(0, 1 << BITS[dtype], each).astype(code_dtype(dtype))
    return rng.permutation(np.concatenate([np.resize(special, 2 * each), *drawn, anything]))[:count]


def triples(types: Types, count: int, seed: int) -> Operands:
    """Return ``count`` triples, 1-D. Some zero points are next to x, so that differences are small."""
    rng = np.random.default_rng(seed)
    codes = {"x": some_codes(types.x, count, rng), "scale": some_scales(types.scale, count, rng)}
    dtypes = {"x": types.x, "scale": types.scale}
    if types.zero_point:
        floats = types.zero_point in FLOATS
        zero_points = (some_zero_points if floats else some_codes)(types.zero_point, count, rng)
        if types.zero_point == types.x:
            mask = (1 << BITS[types.x]) - 1
            beside = (codes["x"].astype(np.int64) + rng.integers(-1, 2, count)) & mask
            zero_points = np.where(rng.random(count) < 0.2, beside, zero_points).astype(code_dtype(types.x))
        codes["zero_point"] = zero_points
        dtypes["zero_point"] = types.zero_point
    return Operands(codes, dtypes, types.out, (count,))


def crossed(types: Types, count: int, seed: int) -> Operands:
    """Return every special scale with ``count`` pairs of x and zero point, 1-D."""
    special = values.special_scales(types.scale)
    pairs = triples(types, count, seed)
    codes = {role: np.repeat(listed, len(special)) for role, listed in pairs.codes.items() if role != "scale"}
    codes["scale"] = np.tile(special, count)
    return Operands(codes, pairs.dtypes, types.out, (count * len(special),))
