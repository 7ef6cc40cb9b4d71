"""TensorFlow's Dequantize: a range [min_range, max_range] instead of a scale."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from xverify.kernels.backends import chosen, planned
from xverify.kernels.blocks import BLOCK, Computed, Spread
from xverify.kernels.casting import FLOAT32, Array
from xverify.kernels.checks import named_dtype
from xverify.kernels.editions import Edition, dtype_name, edition, output
from xverify.kernels.plans import Operand, Plan, remembered
from xverify.kernels.range_formula import apply


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
    """TensorFlow's Dequantize, by the mode's formula.

    With bits the width of the input's type, [lowest, highest] its range, R = 2^bits - 1:

    - MIN_COMBINED: min + (input + h) * (max - min) / R, exact and rounded once; h is 128 for int8, else 0 ("if T ==
      qint8").
    - MIN_FIRST: min + (input - lowest) * (((max - min) * ((R + 1) / R)) / (R + 1)), each step in float64, cast once.
    - SCALED of ``@seed``: input * 2 max(|min|, |max|) / (max_fixed - min_fixed), exact and rounded once; the fixed
      range is [-highest, highest] for signed types (the text's prose) and [0, highest] for unsigned ones.
    - SCALED of ``@installed``: input * scale_factor, exact and rounded once; scale_factor, "const float" in the text,
      is in float32 max / highest for unsigned types, else the larger of min / (lowest + (1 if narrow_range)) and
      max / highest.

    A range that is reversed, infinite or NaN is outside the text. The same formula is then evaluated, in float64 if
    the range is not finite.

    Args:
        input: any shape; int8, uint8, int16, uint16 or int32, for qint8 and so on.
        min_range: a float32 scalar; with ``axis`` 1-D, of input's extent along it (about which the text is silent).
        max_range: as min_range.
        mode: "MIN_COMBINED", "MIN_FIRST" or "SCALED".
        narrow_range: counts in SCALED only; None for the edition's default.
        axis: None or -1, the docstring's default, for none.
        out_dtype: None for float32; bfloat16 in MIN_COMBINED of ``@installed``.
        out: the array to write and return, of input's shape and the output dtype, any strides. It must not overlap an input.
        contract: the id of an edition.
        backend: "numpy", "numba", or None for the fastest that is installed.

    Returns:
        An array of input's shape, in float32 or ``out_dtype``.

    Raises:
        TypeError: for a dtype or an attribute that the edition lacks. The message names the clause.
        ValueError: for a shape, a mode or an axis.

    Source:
        The clause "formula-<mode>" of ``tensorflow/Dequantize``.
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
    """Check a call of `dequantize_range`, and plan it.

    Raises:
        TypeError: for a dtype or an attribute that the edition lacks.
        ValueError: for a shape, a mode or an axis that the edition lacks.
    """
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
    """SCALED of ``@installed``: the scale factor, and the product."""
    factor = partial(_scale_factor, x.dtype, narrow_range)
    multiply(out, x, factor(low, high) if low.size <= BLOCK else Computed(factor, (low, high), FLOAT32), None)


def _output_dtype(rules: Edition, mode: str, out_dtype: DTypeLike | None) -> np.dtype[Any]:
    """``out_dtype``, or float32, if the edition has it in that mode."""
    if out_dtype is None:
        return FLOAT32
    rules.require_attribute("dtype", out_dtype)
    dtype = named_dtype(rules, out_dtype)
    if dtype != FLOAT32 and mode != "MIN_COMBINED":
        rules.refuse(ValueError, "bfloat16-mode", "mode", mode, f"MIN_COMBINED for {dtype_name(dtype)}")
    return dtype


def _spread(rules: Edition, x: tuple[int, ...], low: Operand, high: Operand, axis: int | None) -> Spread:
    """The granularity of the ranges; ValueError if their shapes do not fit the axis."""
    axis = -1 if axis is None else rules.integer("axis", "axis", axis)
    # The raw operator's -1 is "no axis", so that the last axis has only its own number.
    spread = Spread() if axis == -1 else Spread(rules.front_axis("axis", axis, len(x)))
    expected = () if spread.axis is None else (x[spread.axis],)
    for name, end in (("min_range", low), ("max_range", high)):
        if end.shape != expected:
            rules.refuse(ValueError, "range-shape", f"the shape of {name}", end.shape, expected)
    return spread


def _scale_factor(dtype: np.dtype[Any], narrow_range: bool, low: Array, high: Array) -> Array:
    """The installed text's scale_factor.

    Its quotients are C++'s float / int, which converts the int to float first.
    """
    bounds = np.iinfo(dtype)
    with np.errstate(all="ignore"):
        above = np.asarray(high / np.float32(bounds.max))
        if bounds.min == 0:
            return above
        below = low / np.float32(bounds.min + narrow_range)
        return np.where(below < above, above, below)
