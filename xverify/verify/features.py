"""Features of a value: of its numbers, its position and its call.

A feature gives every value a number or one of a few levels, so that a region is a threshold or a level of it. `region`
chooses among the features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from xverify.core.call import BITS, LAYOUTS, Tensor
from xverify.core.dtypes import INTEGERS, MIN_EXPONENT, integer_range, is_float
from xverify.verify.view import View

Kind = Literal["special", "fact", "number", "position", "size"]
Given = NDArray[Any] | float | None
"""The result of a feature: an entry per value, one entry for all, or None if it is meaningless for the call."""

UNDEFINED = -1
"""The level of a value for which a feature with levels is meaningless. A numeric feature has NaN."""


@dataclass(frozen=True)
class Feature:
    """A property of a value by which a region can be described."""

    name: str
    """The name, as regions spell it."""
    kind: Kind
    """The kind, which decides the order of terms in words."""
    of: Callable[[View], Given]
    """The function that computes it."""
    levels: tuple[str, ...] = ()
    """The words of each level; () for a numeric feature."""
    hiding: bool = False
    """True if level 1 hides mismatches, since many recipes agree there: 0 times anything is 0."""
    texts: tuple[str, str, str] | None = None
    """The words for ">=", "<" and "=" of a numeric feature that counts from 0; "" where there are none."""


def column(feature: Feature, view: View) -> NDArray[Any] | float:
    """Compute a feature of the selected values: an array, or one number for all.

    It is NaN or UNDEFINED where the feature is meaningless.
    """
    with np.errstate(all="ignore"):
        value = feature.of(view)
    if value is None:
        return UNDEFINED if feature.levels else np.nan
    if np.ndim(value) == 0:
        return float(value)
    return np.asarray(value, np.int8 if feature.levels else np.float64)


# -- how features are made --------------------------------------------------------------------------------


def _negated(words: str) -> str:
    return words.replace(" is ", " is not ", 1) if " is " in words else f"not {words}"


def _linear(of: Callable[[View], Given]) -> Callable[[View], Given]:
    return lambda view: of(view) if view.linear else None


def _ranged(of: Callable[[View], Given]) -> Callable[[View], Given]:
    return lambda view: None if view.linear else of(view)


def _yes_no(
    words: str, kind: Kind, of: Callable[[View], Given], no: str | None = None, hiding: bool = False
) -> Feature:
    return Feature(words, kind, of, (no or _negated(words), words), hiding)


def _special(words: str, of: Callable[[View], Given], no: str | None = None, hiding: bool = False) -> Feature:
    return _yes_no(words, "special", of, no, hiding)


def _one_of(name: str, words: str, levels: tuple[str, ...], of: Callable[[View], str | None]) -> Feature:
    def level_index(view: View) -> Given:
        fact = of(view)
        return None if fact is None or fact not in levels else float(levels.index(fact))

    return Feature(name, "fact", level_index, tuple(words.format(level.replace("_", " ")) for level in levels))


def _count(name: str, kind: Kind, of: Callable[[View], Given], *texts: str) -> Feature:
    at_least, below, equal = texts or (f"{name} >= {{}}", f"{name} < {{}}", f"{name} = {{}}")
    return Feature(name, kind, of, texts=(at_least, below, equal))


def _smallest_normal(dtype: str) -> float:
    if dtype in MIN_EXPONENT or dtype == "float8_e8m0fnu":
        # Implementations widen a scale of float8_e8m0fnu to float32, in which its smallest value is subnormal.
        return float(2.0 ** MIN_EXPONENT.get(dtype, -126))
    return float(ml_dtypes.finfo(dtype).smallest_normal) if is_float(dtype) else 0.0


def _subnormal(numbers: NDArray[np.float64], dtype: str) -> NDArray[np.bool_]:
    magnitude = np.abs(numbers)
    return np.asarray((magnitude > 0) & (magnitude < _smallest_normal(dtype)))


def _outside(dtype: Callable[[View], str]) -> Callable[[View], Given]:
    def of(view: View) -> Given:
        if not view.linear or view.x_dtype not in INTEGERS:
            return None
        lowest, highest = integer_range(dtype(view))
        return np.asarray((view.difference < lowest) | (view.difference > highest))

    return of


def _of_float(role: str, of: Callable[[View, NDArray[np.float64]], Given]) -> Callable[[View], Given]:
    """A feature of an operand that is present and of a float type."""

    def feature(view: View) -> Given:
        if role not in view.operands.codes or not is_float(view.dtype(role)):
            return None
        return of(view, view.x if role == "x" else view.number(role))

    return feature


def _rounding(view: View) -> Given:
    """0 exact, 1 toward zero, 2 away from zero."""
    if not view.linear:
        return None
    product, y = np.abs(view.product), np.abs(view.y)
    levels = np.where(y == product, 0, np.where(y < product, 1, 2))
    return np.where(np.isnan(product), UNDEFINED, levels)


def _tail(width: int, whole: bool) -> Callable[[View], Given]:
    """True past the last multiple of a vector's width, in a row or in the whole tensor."""

    def of(view: View) -> Given:
        length = view.sample.wrong.size if whole or not view.shape else view.shape[-1]
        return np.asarray(view.at % length >= length - length % width)

    return of


def _in_blocks(of: Callable[[NDArray[np.int64], int, int], Given]) -> Callable[[View], Given]:
    """A feature of (index along the axis, block size, extent of the axis) where scales are blocked."""

    def feature(view: View) -> Given:
        if view.block_size is None or view.along is None or view.axis is None:
            return None
        return of(view.along, view.block_size, view.shape[view.axis])

    return feature


def _row(of: Callable[[NDArray[np.int64], int], Given]) -> Callable[[View], Given]:
    return lambda view: of(view.at % view.shape[-1], view.shape[-1]) if view.shape else None


def _channel(of: Callable[[NDArray[np.int64], int], Given]) -> Callable[[View], Given]:
    def feature(view: View) -> Given:
        if view.granularity != "per_axis" or view.along is None or view.axis is None:
            return None
        return of(view.along, view.shape[view.axis])

    return feature


def _extent(view: View) -> int | None:
    return None if view.axis is None else view.shape[view.axis]


def _contiguous(x: Tensor) -> bool:
    """True if a tensor's elements lie in memory in the order of layout C, without gaps."""
    return bool(x.laid_out().flags.c_contiguous)


# The order is the order of preference, from what can cause a difference by itself to what comes with it by accident.
# A formula sees nothing but the numbers of its operands, so a special class of them comes first: it has a sharp meaning
# and no free parameter. Facts of the call choose the code that runs. Thresholds of numbers come next, since data sets
# their place. Positions matter only to loops. Sizes distinguish calls that differ in everything else too.
FEATURES: tuple[Feature, ...] = (
    _special("y is subnormal", lambda v: _subnormal(v.y, v.sample.legal.dtype)),
    _special(
        "y is an overflow",
        _linear(lambda v: np.isinf(v.y) & np.isfinite(v.scale) & np.isfinite(v.difference)),
        hiding=True,
    ),
    _special("y is infinite", lambda v: np.isinf(v.y), hiding=True),
    _special("y is NaN", lambda v: np.isnan(v.y), hiding=True),
    _special("y is zero", lambda v: v.y == 0, hiding=True),
    _special("y is infinite or NaN", lambda v: ~np.isfinite(v.y), "y is finite", hiding=True),
    _special(
        "y is zero, infinite or NaN", lambda v: (v.y == 0) | ~np.isfinite(v.y), "y is finite and not zero", hiding=True
    ),
    _special("y is -0", lambda v: (v.y == 0) & np.signbit(v.y)),
    _special("the zero point is 0", _linear(lambda v: v.zero_point == 0), hiding=True),
    _special("x is the zero point", _linear(lambda v: v.difference == 0), hiding=True),
    _special("x - zero point is outside int32", _outside(lambda v: "int32")),
    _special("x - zero point is outside the type of x", _outside(lambda v: v.x_dtype)),
    _special("the scale is negative", _linear(lambda v: np.signbit(v.scale) & ~np.isnan(v.scale))),
    _special("the scale is subnormal", _linear(lambda v: _subnormal(v.scale, v.dtype("scale")))),
    _special("the scale is zero", _linear(lambda v: v.scale == 0), hiding=True),
    _special("the scale is infinite", _linear(lambda v: np.isinf(v.scale)), hiding=True),
    _special("the scale is NaN", _linear(lambda v: np.isnan(v.scale)), hiding=True),
    _special(
        "the scale is infinite or NaN", _linear(lambda v: ~np.isfinite(v.scale)), "the scale is finite", hiding=True
    ),
    _special(
        "the scale is zero, infinite or NaN",
        _linear(lambda v: (v.scale == 0) | ~np.isfinite(v.scale)),
        "the scale is finite and not zero",
        hiding=True,
    ),
    _special("the exact result is halfway between two numbers", _linear(lambda v: v.halfway)),
    Feature(
        "rounding", "special", _rounding, ("y is exact", "y is rounded toward zero", "y is rounded away from zero")
    ),
    _special("x is NaN", _of_float("x", lambda v, x: np.isnan(x)), hiding=True),
    _special("x is infinite", _of_float("x", lambda v, x: np.isinf(x)), hiding=True),
    _special("x is subnormal", _of_float("x", lambda v, x: _subnormal(x, v.x_dtype))),
    _special("x is -0", _of_float("x", lambda v, x: (x == 0) & np.signbit(x))),
    _special("x is negative", lambda v: np.signbit(v.x) & ~np.isnan(v.x)),
    _special("x is zero", lambda v: v.x == 0),
    _special("min_range is negative", _ranged(lambda v: v.low < 0)),
    _special("max_range is positive", _ranged(lambda v: v.high > 0)),
    _special("min_range is zero", _ranged(lambda v: v.low == 0)),
    _special("max_range is zero", _ranged(lambda v: v.high == 0)),
    _special("zero is inside the range", _ranged(lambda v: (v.low < 0) & (v.high > 0))),
    _special("the range is symmetric", _ranged(lambda v: v.low == -v.high)),
    _special("|min_range| is above |max_range|", _ranged(lambda v: np.abs(v.low) > np.abs(v.high))),
    _one_of("output", "{} output", tuple(BITS), lambda v: v.sample.legal.dtype),
    _one_of("x of type", "{} x", tuple(BITS), lambda v: v.x_dtype),
    _one_of("scale of type", "{} scale", tuple(BITS), lambda v: v.dtype("scale") if v.linear else None),
    _one_of("zero point of type", "{} zero point", tuple(BITS), lambda v: v.operands.dtypes.get("zero_point")),
    _yes_no("a zero point is given", "fact", _linear(lambda v: float("zero_point" in v.operands.codes)), "no zero point"),
    _yes_no("x of a float type", "fact", lambda v: float(is_float(v.x_dtype)), "x of an integer type"),
    _yes_no(
        "x of a signed type",
        "fact",
        lambda v: float(integer_range(v.x_dtype)[0] < 0) if v.x_dtype in INTEGERS else None,
        "x of an unsigned type",
    ),
    _one_of("granularity", "{}", ("per_tensor", "per_axis", "blocked"), lambda v: v.granularity),
    _one_of(
        "mode", "mode {}", ("MIN_COMBINED", "MIN_FIRST", "SCALED"), lambda v: str(v.operands.options.get("mode", ""))
    ),
    _yes_no("narrow_range", "fact", _ranged(lambda v: float(bool(v.operands.options.get("narrow_range"))))),
    _yes_no(
        "block_size does not divide the axis",
        "fact",
        lambda v: float(v.shape[v.axis] % v.block_size != 0) if v.block_size and v.axis is not None else None,
        "block_size divides the axis",
    ),
    _yes_no(
        "block_size is above the axis",
        "fact",
        lambda v: float(v.block_size > v.shape[v.axis]) if v.block_size and v.axis is not None else None,
    ),
    _yes_no("the axis is negative", "fact", lambda v: float(int(v.call.attributes.get("axis", 0)) < 0)),
    _yes_no("the axis is given", "fact", lambda v: float("axis" in v.call.attributes)),
    _yes_no(
        "the axis is the last", "fact", lambda v: None if v.axis is None else float(v.axis == len(v.shape) - 1)
    ),
    _yes_no(
        "x is contiguous",
        "fact",
        lambda v: float(_contiguous(v.call.data)),
    ),
    _one_of("layout of x", "x in layout {}", LAYOUTS, lambda v: v.call.data.layout),
    _yes_no("a scalar x", "fact", lambda v: float(not v.shape)),
    _yes_no("a single value", "fact", lambda v: float(v.sample.wrong.size == 1), "more than one value"),
    Feature("|x - zero point|", "number", _linear(lambda v: np.abs(v.difference))),
    Feature("x - zero point", "number", _linear(lambda v: v.difference)),
    Feature("|y|", "number", lambda v: np.abs(v.y)),
    Feature("|scale|", "number", _linear(lambda v: np.abs(v.scale))),
    Feature("x", "number", lambda v: v.x),
    Feature("|x|", "number", lambda v: np.abs(v.x)),
    Feature("zero point", "number", _linear(lambda v: v.zero_point)),
    Feature("|zero point|", "number", _linear(lambda v: np.abs(v.zero_point))),
    Feature("|x * scale|", "number", _linear(lambda v: np.abs(v.x * v.scale))),
    Feature("|zero point * scale|", "number", _linear(lambda v: np.abs(v.zero_point * v.scale))),
    Feature("y", "number", lambda v: v.y),
    Feature("min_range", "number", _ranged(lambda v: v.low)),
    Feature("max_range", "number", _ranged(lambda v: v.high)),
    Feature("|min_range|", "number", _ranged(lambda v: np.abs(v.low))),
    Feature("|max_range|", "number", _ranged(lambda v: np.abs(v.high))),
    Feature("max_range - min_range", "number", _ranged(lambda v: v.high - v.low)),
    Feature("max_range / min_range", "number", _ranged(lambda v: v.high / v.low)),
    _yes_no(
        "the last block, a partial one", "position", _in_blocks(lambda i, b, n: (i // b == n // b) & (n % b != 0))
    ),
    *(_yes_no(f"the last n % {n} values of a row of n", "position", _tail(n, False)) for n in (2, 4, 8, 16, 32, 64)),
    *(_yes_no(f"the last n % {n} values of n", "position", _tail(n, True)) for n in (2, 4, 8, 16, 32, 64)),
    Feature("parity", "position", lambda v: v.at % 2, ("even positions", "odd positions")),
    _count(
        "blocks to the end of the axis", "position", _in_blocks(lambda i, b, n: (n - 1) // b - i // b),
        "all but the last {} blocks", "the last {} blocks", "",
    ),
    _count("block", "position", _in_blocks(lambda i, b, n: i // b)),
    _count("index in its block", "position", _in_blocks(lambda i, b, n: i % b)),
    _count("channel", "position", _channel(lambda i, n: i)),
    _count(
        "channels to the last", "position", _channel(lambda i, n: n - 1 - i),
        "all but the last {} channels", "the last {} channels", "",
    ),
    _count(
        "values to the end of the row", "position", _row(lambda i, n: n - 1 - i),
        "all but the last {} values of a row", "the last {} values of a row", "",
    ),
    _count("index in its row", "position", _row(lambda i, n: i)),
    _count("flat index", "position", lambda v: v.at),
    _count(
        "values to the end", "position", lambda v: v.sample.wrong.size - 1 - v.at,
        "all but the last {} values", "the last {} values", "",
    ),
    _count("bits of x", "size", lambda v: BITS[v.x_dtype]),
    _count("rank", "size", lambda v: len(v.shape)),
    _count("row length", "size", lambda v: v.shape[-1] if v.shape else None),
    _count("extent of the axis", "size", _extent),
    _count("block_size", "size", lambda v: v.block_size),
    _count("number of values", "size", lambda v: v.sample.wrong.size),
    _count(
        "number of scales", "size", lambda v: v.call.tensors["scale"].size if v.granularity != "per_tensor" and v.linear else None
    ),
)  # fmt: skip
"""All features, in the order in which a region is searched."""
