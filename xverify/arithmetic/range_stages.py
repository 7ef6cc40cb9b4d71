"""Stages that the composed range recipes share: span, subnormals, fused sum, clamp and cast.

A stage is a function of a bench and of the choices that name it. The bench evaluates it once for those choices, so recipes
with common stages share their results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic.batch_cast import batch_cast
from xverify.arithmetic.reading import Operands
from xverify.core.call import BITS
from xverify.core.dtypes import floats, integer_range, integers
from xverify.core.rounding import cast

Numbers = NDArray[Any]
Single = Literal["float32", "float64", "float64-to-float32"]
Subnormals = Literal["kept", "flushed", "results-flushed"]
Ends = Literal["low", "high"]

SUBNORMALS = {
    "kept": "",
    "flushed": ", flushes subnormals to zero",
    "results-flushed": ", flushes subnormal results (but not inputs) to zero",
}
_SMALLEST = np.float32(2.0**-126)
_FLOAT32 = np.dtype(np.float32)
_QUIET_NAN = {"float32": 0x7FC00000, "bfloat16": 0x7FC0}


class Bench:
    """The operands of one range call as numbers, and the results of stages on them.

    Attributes:
        codes: The input's values as int64, in its shape.
        low, high: The ends of the range as float32. They broadcast to that shape.
        lowest, highest: The ends of the input's type.
        levels: highest - lowest, the text's range(T).
    """

    def __init__(self, operands: Operands) -> None:
        self.operands = operands
        self.dtype = operands.dtypes["input"]
        self.lowest, self.highest = integer_range(self.dtype)
        self.levels = (1 << BITS[self.dtype]) - 1
        self.codes = integers(self.dtype, operands.codes["input"])
        self.low, self.high = (
            floats("float32", operands.codes[role]).astype(np.float32) for role in ("min_range", "max_range")
        )
        self._results: dict[tuple[object, ...], Any] = {}

    def of(self, stage: Callable[..., Numbers], *choices: object) -> Any:
        """The result of ``stage(self, *choices)``, evaluated once for equal choices."""
        key = (stage, *choices)
        result = self._results.get(key)
        if result is None:
            result = self._results[key] = stage(self, *choices)
        return result


def real(precision: str) -> Any:
    """The NumPy type in which a precision computes."""
    return np.float32 if precision in ("float32", "fused") else np.float64


def settled(numbers: Any, subnormals: Subnormals) -> Numbers:
    """The results of a step. Unless float32 subnormals are kept, they become zeros of the same sign."""
    result = np.asarray(numbers)
    if subnormals == "kept" or result.dtype != _FLOAT32:
        return result
    tiny = np.abs(result) < _SMALLEST
    return np.where(tiny, np.copysign(np.float32(0), result), result) if tiny.any() else result


def to_precision(numbers: Any, kind: Any, subnormals: Subnormals) -> Numbers:
    """The numbers in another type. A conversion to float32 is a step that may flush."""
    array = np.asarray(numbers)
    return array if array.dtype == kind else settled(array.astype(kind), subnormals)


def end(bench: Bench, which: Ends, subnormals: Subnormals) -> Numbers:
    """min or max in float32, flushed where inputs are."""
    bound = bench.low if which == "low" else bench.high
    return settled(bound, "flushed" if subnormals == "flushed" else "kept")


def span(bench: Bench, precision: str, subnormals: Subnormals) -> Numbers:
    """max - min."""
    low, high = (bench.of(end, which, subnormals).astype(real(precision)) for which in ("low", "high"))
    return settled(high - low, subnormals)


def fused(moved: Numbers, factor: Numbers, base: Numbers) -> Numbers:
    """moved * factor + base of float32 numbers, rounded once.

    The product is exact in float64. The sum is rounded to odd there, which makes its second rounding harmless.

    Source: Knuth, The Art of Computer Programming 2, 4.2.2, theorem B (the error of a sum). Boldo and Melquiond,
    "Emulation of a FMA and correctly rounded sums", theorem 2.
    """
    term, start = np.asarray(moved.astype(np.float64) * factor), base.astype(np.float64)
    total = np.asarray(term + start)
    part = total - start
    error = (term - part) + (start - (total - part))
    inexact = np.isfinite(total) & (error != 0.0)
    if inexact.any():
        even = (total.view(np.int64) & 1) == 0
        total = np.where(inexact & even, np.nextafter(total, np.copysign(np.inf, error)), total)
    return total.astype(np.float32)


def clamped(bench: Bench, result: Numbers, subnormals: Subnormals) -> Numbers:
    """The result, clamped to the range."""
    low, high = (bench.of(end, which, subnormals).astype(result.dtype) for which in ("low", "high"))
    return np.where(result < low, low, np.where(result > high, high, result))


def encoded(out: str, result: Numbers, how: str, subnormals: Subnormals) -> NDArray[Any]:
    """Codes of the output type.

    Args:
        out: The output type.
        result: Numbers in float32 or float64.
        how: "nearest", or for bfloat16 also "via-float32" or "truncated".
        subnormals: Unless this is "kept", the result is rounded to float32 and flushed first.
    """
    if out != "float32" and how == "nearest" and subnormals == "kept":
        return cast(result.astype(np.float64), out)
    single = to_precision(result, np.float32, subnormals)
    if out != "float32" and not (out == "bfloat16" and how == "truncated"):
        return cast(single.astype(np.float64), out)
    codes = single.view(np.uint32)
    codes = codes if out == "float32" else (codes >> np.uint32(16)).astype(np.uint16)
    nan = np.isnan(single)
    return np.where(nan, codes.dtype.type(_QUIET_NAN[out]), codes) if nan.any() else codes


class Composed(Protocol):
    """A recipe that is composed of these stages."""

    @property
    def out(self) -> str:
        """The cast of the result, see `encoded`."""
        ...

    @property
    def subnormals(self) -> Subnormals:
        """The subnormal numbers that become zero."""
        ...

    def on(self, bench: Bench) -> Numbers:
        """The numbers before the final cast. They broadcast to the shape of the operands."""
        ...


def evaluated(recipe: Composed, operands: Operands) -> NDArray[Any]:
    """The output codes of a recipe."""
    with np.errstate(all="ignore"):
        result = recipe.on(Bench(operands))
        codes = encoded(operands.output_dtype, result, recipe.out, recipe.subnormals)
    return np.broadcast_to(codes, operands.shape)


def evaluated_together(recipes: Sequence[Composed], operands: Operands) -> list[NDArray[Any]]:
    """The output codes of each recipe, every NaN made canonical.

    Common stages are evaluated once, and results with the same cast are cast in batches.
    """
    bench, out = Bench(operands), operands.output_dtype
    with np.errstate(all="ignore"):
        results = (((recipe.out, recipe.subnormals), recipe.on(bench)) for recipe in recipes)
        return batch_cast(results, operands.shape, out, partial(encoded, out))
