"""TensorFlow's Dequantize: a range [min_range, max_range] instead of a scale."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from xverify.kernels.backends import chosen
from xverify.kernels.blocks import BLOCK, Computed, Fill, Spread, for_each_block, some_numbers
from xverify.kernels.casting import F64, FLOAT32, FLOAT64, Array, cast, fractions_to_odd
from xverify.kernels.checks import named_dtype
from xverify.kernels.editions import Edition, dtype_name, edition, output
from xverify.kernels.formula import LOOK_UP_FROM, look_up, planned
from xverify.kernels.plans import Operand, Plan, remembered

Exact = Callable[[int, Fraction, Fraction], Fraction]
"""exact(code, min_range, max_range): the formula in rational numbers."""

_NOISE = 2.0**-50
"""Relative error of the estimates: at most four roundings of 2^-53 each, and one of the interval's ends."""


def dequantize_range(
    input: ArrayLike,  # noqa: A002  (the document's name for it)
    min_range: ArrayLike,
    max_range: ArrayLike,
    *,
    mode: str = "MIN_COMBINED",
    narrow_range: bool | None = None,
    axis: int | None = None,
    out_dtype: DTypeLike | None = None,
    out: Array | None = None,
    contract: str = "tensorflow/Dequantize@installed",
    backend: str | None = None,
) -> Array:
    """TensorFlow's Dequantize, by the mode's formula. Source: the clause "formula-<mode>" of ``tensorflow/Dequantize``.

    With bits the width of the input's type, [lowest, highest] its range, R = 2^bits - 1:

    - MIN_COMBINED: min + (input + h) * (max - min) / R, exact and rounded once; h is 128 for int8, else 0 ("if T ==
      qint8").
    - MIN_FIRST: min + (input - lowest) * (((max - min) * ((R + 1) / R)) / (R + 1)), each step in float64, cast once.
    - SCALED of ``@seed``: input * 2 max(|min|, |max|) / (max_fixed - min_fixed), exact and rounded once; the fixed
      range is [-highest, highest] for signed types (the text's prose) and [0, highest] for unsigned ones.
    - SCALED of ``@installed``: input * scale_factor, exact and rounded once; scale_factor, "const float" in the text,
      is in float32 max / highest for unsigned types, else the larger of min / (lowest + (1 if narrow_range)) and
      max / highest.

    input: any shape, int8, uint8, int16, uint16 or int32, for qint8 and so on. min_range, max_range: float32 scalars;
    with ``axis`` 1-D, of input's extent along it (of which the text says nothing). narrow_range counts in SCALED only.
    None for narrow_range, axis, out_dtype is "not given"; an axis of -1 is the docstring's default and means none.
    out: the array to write and return, of input's shape and the output dtype, any strides; it must not overlap an
    input.

    A range that is reversed, infinite or NaN is outside the text; the same formula is then evaluated, in float64 where
    the range is not finite.

    Returns an array of input's shape, float32 or, in MIN_COMBINED of ``@installed``, bfloat16 if so asked.
    Raises TypeError (dtypes, attributes that the edition lacks) or ValueError (shapes, mode, axis), naming the clause.
    """
    x, low, high = np.asarray(input), np.asarray(min_range), np.asarray(max_range)
    plan = range_plan(
        contract,
        x.dtype,
        x.shape,
        low.dtype,
        low.shape,
        high.dtype,
        high.shape,
        mode,
        narrow_range,
        axis,
        out_dtype,
        backend,
    )
    out = output(out, x.shape, plan.dtype, x, low, high)
    plan.apply(out, x, low, high)
    return out


@remembered
def range_plan(
    contract: str,
    x_dtype: np.dtype[Any],
    x_shape: tuple[int, ...],
    low_dtype: np.dtype[Any],
    low_shape: tuple[int, ...],
    high_dtype: np.dtype[Any],
    high_shape: tuple[int, ...],
    mode: str,
    narrow_range: bool | None,
    axis: int | None,
    out_dtype: DTypeLike | None,
    backend: str | None,
) -> Plan:
    """The checks of `dequantize_range`."""
    rules = edition(contract, "range")
    x, low, high = Operand(x_dtype, x_shape), Operand(low_dtype, low_shape), Operand(high_dtype, high_shape)
    rules.require_dtype("input-type", "input", x.dtype, rules.domain.x_dtypes)
    rules.require_dtype("range-type", "min_range", low.dtype, rules.domain.scale_dtypes)
    rules.require_dtype("range-type", "max_range", high.dtype, rules.domain.scale_dtypes)
    rules.require_attribute("narrow_range", narrow_range)
    rules.require_attribute("axis", axis)
    if mode not in rules.domain.modes:
        rules.refuse(ValueError, "mode", "mode", repr(mode), " or ".join(rules.domain.modes))
    result_dtype = _output_dtype(rules, mode, out_dtype)
    spread = _spread(rules, x.shape, low, high, axis)
    if mode == "SCALED" and rules.id.endswith("@installed"):
        scaled = planned(backend, result_dtype, x, Operand(FLOAT32, low.shape), None, spread)
        return Plan(result_dtype, partial(_scale, scaled.apply, bool(narrow_range)), spread=spread)
    if chosen(backend) == "numpy":
        return Plan(result_dtype, partial(apply, mode=mode, spread=spread), spread=spread)
    from xverify.kernels.compiled.ranges import Ranged

    return Plan(result_dtype, Ranged.of(result_dtype, x, low, spread, mode), spread=spread)


def _scale(multiply: Callable[..., None], narrow_range: bool, out: Array, x: Array, low: Array, high: Array) -> None:
    """SCALED of ``@installed``: its scale factor, and the product."""
    factor = partial(_scale_factor, x.dtype, narrow_range)
    multiply(out, x, factor(low, high) if low.size <= BLOCK else Computed(factor, (low, high), FLOAT32), None)


def apply(out: Array, x: Array, low: Array, high: Array, mode: str, spread: Spread) -> None:
    """Write the mode's formula for every element of x; the operands have been checked."""
    fill = formula(mode, x.dtype)
    with np.errstate(all="ignore"):
        ends = [spread.shaped(some_numbers(end, FLOAT64), x.ndim) for end in (low, high)]
        if x.dtype.itemsize == 1 and spread.axis is None and x.size > LOOK_UP_FROM:
            table = np.empty(256, out.dtype)
            fill(table, np.arange(256, dtype=np.uint8).view(x.dtype), *ends)
            look_up(table, out, x)
        else:
            for_each_block(fill, out, x, spread, FLOAT64, *ends)


def _output_dtype(rules: Edition, mode: str, out_dtype: DTypeLike | None) -> np.dtype[Any]:
    """float32 or ``out_dtype``, if the edition has it in that mode."""
    if out_dtype is None:
        return FLOAT32
    rules.require_attribute("dtype", out_dtype)
    dtype = named_dtype(rules, out_dtype)
    if dtype != FLOAT32 and mode != "MIN_COMBINED":
        rules.refuse(ValueError, "bfloat16-mode", "mode", mode, f"MIN_COMBINED for {dtype_name(dtype)}")
    return dtype


def _spread(rules: Edition, x: tuple[int, ...], low: Operand, high: Operand, axis: int | None) -> Spread:
    """How the ranges spread over the input; ValueError when their shapes are not those that the axis asks for."""
    axis = -1 if axis is None else rules.integer("axis", "axis", axis)
    # The raw operator's -1 is "no axis", so that the last axis has only its own number.
    spread = Spread() if axis == -1 else Spread(rules.front_axis("axis", axis, len(x)))
    expected = () if spread.axis is None else (x[spread.axis],)
    for name, end in (("min_range", low), ("max_range", high)):
        if end.shape != expected:
            rules.refuse(ValueError, "range-shape", f"the shape of {name}", end.shape, expected)
    return spread


def _scale_factor(dtype: np.dtype[Any], narrow_range: bool, low: Array, high: Array) -> Array:
    """The installed text's scale_factor. Its quotients are C++'s float / int: the int is converted to float first."""
    bounds = np.iinfo(dtype)
    with np.errstate(all="ignore"):
        above = np.asarray(high / np.float32(bounds.max))
        if bounds.min == 0:
            return above
        below = low / np.float32(bounds.min + narrow_range)
        return np.where(below < above, above, below)


def formula(mode: str, dtype: np.dtype[Any]) -> Fill:
    bounds = np.iinfo(dtype)
    levels = int(bounds.max) - int(bounds.min)
    if mode == "MIN_COMBINED":
        return partial(_min_combined, 128 if dtype == np.int8 else 0, levels)
    if mode == "MIN_FIRST":
        return partial(_min_first, int(bounds.min), levels + 1)
    return partial(_scaled_symmetric, levels if bounds.min == 0 else 2 * int(bounds.max))


def _min_combined(half: int, levels: int, out: Array, x: Array, low: F64, high: F64) -> None:
    count = x.astype(np.float64) + half
    # (min * (R - count) + max * count) / R: up to 16 bits both products are exact, so that the sum is 0 only where the
    # value is, and the error is relative to the value itself; beyond, cancellation counts.
    below, above = low * (levels - count), high * count
    total = below + above
    estimate = total / levels
    magnitude = np.abs(total) if levels < 1 << 16 else np.abs(below) + np.abs(above)
    bound = magnitude * (_NOISE / levels)
    regular = np.isfinite(low) & np.isfinite(high)
    if not regular.all():
        estimate = np.where(regular, estimate, low + count * (high - low) / levels)

    def exact(code: int, least: Fraction, most: Fraction) -> Fraction:
        return least + (code + half) * (most - least) / levels

    _round_once(out, estimate, bound, regular, exact, x, low, high)


def _min_first(lowest: int, values: int, out: Array, x: Array, low: F64, high: F64) -> None:
    adjust = values / (values - 1)
    step = (high - low) * adjust / values
    out[...] = cast(np.asarray(low + (x.astype(np.float64) - lowest) * step), out.dtype)


def _scaled_symmetric(buckets: int, out: Array, x: Array, low: F64, high: F64) -> None:
    largest = np.maximum(np.abs(low), np.abs(high))
    estimate = x.astype(np.float64) * (2.0 * largest) / buckets

    def exact(code: int, least: Fraction, most: Fraction) -> Fraction:
        return code * 2 * max(abs(least), abs(most)) / buckets

    _round_once(out, estimate, np.abs(estimate) * _NOISE, np.isfinite(largest), exact, x, low, high)


def _round_once(
    out: Array, estimate: F64, bound: F64, regular: Array, exact: Exact, x: Array, low: F64, high: F64
) -> None:
    """Write the rounded exact values, known to lie within ``bound`` of ``estimate`` where ``regular``.

    Where both ends of that interval round to the same value, it is the one; the few others are taken from ``exact``.
    """
    lower = cast(estimate - bound, out.dtype)
    code = np.dtype(f"u{out.dtype.itemsize}")
    doubtful = (lower.view(code) != cast(estimate + bound, out.dtype).view(code)) & regular
    if doubtful.any():
        # Many elements may share a code and a range, and rational arithmetic costs microseconds.
        known: dict[tuple[int, float, float], Fraction] = {}
        places = [np.broadcast_to(operand, x.shape)[doubtful].tolist() for operand in (x, low, high)]
        keys = list(zip(*places, strict=True))
        for key in keys:
            if key not in known:
                known[key] = exact(key[0], Fraction(key[1]), Fraction(key[2]))
        lower[doubtful] = cast(fractions_to_odd([known[key] for key in keys]), out.dtype)
    out[...] = np.where(regular, lower, cast(estimate, out.dtype))
