"""Recipes of base + (input - origin) * step, composed of stages.

They are what an implementation of TensorFlow's MIN_COMBINED and MIN_FIRST may compute instead of what the text says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic.range_stages import (
    SUBNORMALS,
    Bench,
    Numbers,
    Single,
    Subnormals,
    clamped,
    end,
    evaluated,
    fused,
    real,
    settled,
    span,
    to_precision,
)
from xverify.arithmetic.reading import Operands
from xverify.core.call import BITS
from xverify.core.dtypes import SIGNED

Origin = Literal[
    "lowest", "lowest-folded", "lowest-of-int8", "zero", "lowest-in-integers", "half", "above-lowest", "below-lowest"
]
Span = Literal["float32", "float64"]
Form = Literal["quotient", "adjusted", "values", "reciprocal", "inverse", "inverse-reciprocal", "product-first"]
Snap = Literal["kept", "snapped-float32", "snapped"]
Steps = Literal["float32", "float64", "fused"]
Narrow = Literal["ignored", "as-told", "always", "levels-as-told", "levels-always"]
Clamp = Literal["unclamped", "clamped"]
Cast = Literal["nearest", "via-float32", "truncated"]

_ORIGIN = {
    "lowest": "takes the input from the lowest value of its type",
    "lowest-folded": "multiplies the input as it is, with the lowest value's product taken into the base",
    "lowest-of-int8": "takes the input from the lowest value of its type for int8 only",
    "zero": "takes the input from zero",
    "lowest-in-integers": "takes the input from the lowest value of its type in integers",
    "half": "adds half the number of values to the input, whatever its type",
    "above-lowest": "takes the input from half a step above the lowest value of its type",
    "below-lowest": "takes the input from half a step below the lowest value of its type",
}
_FORM = {
    "quotient": "the quotient by the levels in {}",
    "adjusted": "the adjusted range by the number of values in {}",
    "values": "the quotient by the number of values in {}",
    "reciprocal": "the product with the levels' reciprocal in {}",
    "inverse": "the levels by it in {}, by which the input is divided",
    "inverse-reciprocal": "the reciprocal of the levels by it in {}",
    "product-first": "divides by the levels after the product in {}",
}
_STEP = {"float32": "float32", "float64": "float64", "float64-to-float32": "float64, rounded to float32"}
_SNAP = {
    "kept": "",
    "snapped-float32": ", rounds min to a multiple of the step in float32",
    "snapped": ", rounds min to a multiple of the step",
}
_STEPS = {
    "float32": "multiplies and adds in float32",
    "float64": "multiplies and adds in float64",
    "fused": "multiplies and adds in float32 with one rounding",
}
_NARROW = {
    "ignored": "",
    "as-told": ", leaves the lowest value out when narrow_range says so",
    "always": ", always leaves the lowest value out",
    "levels-as-told": ", counts one level less when narrow_range says so",
    "levels-always": ", always counts one level less",
}
_CLAMP = {"unclamped": "", "clamped": ", clamps the result to the range"}
_CAST = {
    "nearest": "",
    "via-float32": ", rounds to float32 before the output type",
    "truncated": ", cuts float32's bits to the output type",
}
_ONE_DIVISION = ("quotient", "values", "inverse")


@dataclass(frozen=True)
class Affine:
    """base + (input - origin) * step, each stage in its own precision."""

    origin: Origin = "lowest-of-int8"
    """The value of the input that stands for the base."""
    span: Span = "float32"
    """The precision of max - min."""
    step: Single = "float32"
    """The precision of the step from one code to the next."""
    snap: Snap = "kept"
    """The base: min, or min rounded (half away from zero) to a multiple of the step."""
    steps: Steps = "float32"
    """The precision of the last product and sum."""
    subnormals: Subnormals = "kept"
    """The subnormals that become zero, among the ends of the range and all float32 results."""
    form: Form = "quotient"
    """The way from the span to the step."""
    narrow: Narrow = "ignored"
    """When the lowest value, or one level, is left out."""
    clamp: Clamp = "unclamped"
    """The clamp of the result to [min, max]."""
    out: Cast = "nearest"
    """The cast to an output type other than float32."""

    @property
    def name(self) -> str:
        """The options of the stages, after "affine-"."""
        form = "" if self.form == "quotient" else f"{self.form}-"
        snap = "" if self.snap == "kept" else self.snap
        narrow = "" if self.narrow == "ignored" else f"narrow-{self.narrow}"
        clamp = "" if self.clamp == "unclamped" else self.clamp
        out = "" if self.out == "nearest" else f"out-{self.out}"
        subnormals = "" if self.subnormals == "kept" else self.subnormals
        parts = (self.origin, f"span-{self.span}", f"step-{form}{self.step}", snap, f"in-{self.steps}", narrow)
        return "affine-" + "-".join(part for part in (*parts, clamp, subnormals, out) if part)

    @property
    def words(self) -> str:
        """The recipe as a sentence's predicate."""
        form = _FORM[self.form].format(_STEP[self.step])
        return (
            f"{_ORIGIN[self.origin]}, takes the range in {self.span} and {form}{_SNAP[self.snap]}, {_STEPS[self.steps]}"
            f"{_NARROW[self.narrow]}{_CLAMP[self.clamp]}{SUBNORMALS[self.subnormals]}{_CAST[self.out]}"
        )

    @property
    def departures(self) -> int:
        """Number of stages in which the recipe departs from the nearest text."""
        return min(
            sum(1 for stage in fields(self) if getattr(self, stage.name) != getattr(text, stage.name))
            for text in _TEXTS
        )

    def simplified(self, operands: Operands) -> Affine:
        """A recipe that is equal for the operands' types and narrow_range."""
        dtype, out = operands.dtypes["input"], operands.output_dtype
        narrow_range = bool(operands.options.get("narrow_range", False))
        origin, wide, step, snap, steps = self.origin, self.span, self.step, self.snap, self.steps
        form, narrow, cast = self.form, self.narrow, self.out
        small = BITS[dtype] <= 16
        if narrow.endswith("as-told"):
            narrow = ("always" if narrow == "as-told" else "levels-always") if narrow_range else "ignored"
        if origin == "lowest-of-int8":
            origin = "lowest" if dtype == "int8" else "zero"
        if narrow == "always" and origin in ("zero", "half"):
            narrow = "levels-always"
        if origin == "half" and dtype in SIGNED and narrow != "always":
            origin = "lowest"
        if origin == "lowest-in-integers" and (small or steps == "float64"):
            origin = "lowest"
        if origin in ("lowest", "lowest-in-integers") and dtype not in SIGNED and narrow != "always":
            origin = "zero"
        if form in ("inverse", "product-first"):
            steps = "float32" if steps == "fused" else steps
            if form == "product-first" and snap == "kept" and origin != "lowest-folded":
                step = "float32" if steps == "float32" else "float64"
        # A product in float32 rounds the step to float32. A reciprocal of the step may come before that.
        inverted = form == "inverse" and (snap != "kept" or origin == "lowest-folded")
        if step == "float64" and steps != "float64" and snap != "snapped" and not inverted:
            step = "float64-to-float32"
        # Rounding to 53 bits first changes no difference or quotient of 24-bit numbers (Figueroa, 1995).
        if step == "float32" and (form != "product-first" or steps == "float32"):
            wide = "float32"
        elif step == "float64-to-float32" and wide == "float32" and small and form in _ONE_DIVISION:
            step = "float32"
        if snap == "snapped" and step != "float64":
            snap = "snapped-float32"
        if out == "float32" or (cast == "via-float32" and (steps != "float64" or self.subnormals != "kept")):
            cast = "nearest"
        return Affine(origin, wide, step, snap, steps, self.subnormals, form, narrow, self.clamp, cast)

    def evaluate(self, operands: Operands) -> NDArray[Any]:
        """The output codes, in the output dtype and shape of the operands."""
        return evaluated(self, operands)

    def on(self, bench: Bench) -> Numbers:
        """The numbers before the final cast. The bench shares the results of common stages."""
        left_out = int(self.narrow.endswith("always") or _leaves_out_as_told(self.narrow, bench))
        levels = bench.levels - left_out
        lowest = bench.lowest + (0 if self.narrow.startswith("levels") else left_out)
        step = (self.form, self.span, self.step, levels, self.subnormals)
        base = bench.of(_base, self.origin, self.snap, self.steps, lowest, *step)
        term = (self.origin, lowest, self.steps, *step)
        if self.steps == "fused" and self.form not in ("inverse", "product-first"):
            factor = bench.of(_factor, self.steps, *step)
            result = fused(bench.of(_moved, self.origin, lowest, "float32"), factor, base)
        else:
            result = base + bench.of(_term, *term)
        result = settled(result, self.subnormals)
        return clamped(bench, result, self.subnormals) if self.clamp == "clamped" else result


def _leaves_out_as_told(narrow: Narrow, bench: Bench) -> bool:
    return narrow.endswith("as-told") and bool(bench.operands.options.get("narrow_range", False))


def _step(bench: Bench, form: Form, wide: Span, step: Single, levels: int, subnormals: Subnormals) -> Numbers:
    """The factor of the moved input. For the form "inverse", its divisor."""
    kind = real(step)
    distance = to_precision(bench.of(span, wide, subnormals), kind, subnormals)
    most, count, one = kind(levels), kind(levels + 1), kind(1)
    if form == "values":
        result = distance / count
    elif form == "adjusted":
        result = settled(distance * (count / most), subnormals) / count
    elif form == "reciprocal":
        result = distance * (one / most)
    elif form == "inverse":
        result = most / distance
    elif form == "inverse-reciprocal":
        result = one / settled(most / distance, subnormals)
    else:
        result = distance / most
    result = settled(result, subnormals)
    return to_precision(result, np.float32, subnormals) if step == "float64-to-float32" else result


def _unit(bench: Bench, form: Form, *step: Any) -> Numbers:
    """The distance from one code to the next."""
    result: Numbers = bench.of(_step, form, *step)
    return settled(result.dtype.type(1) / result, step[-1]) if form == "inverse" else result


def _factor(bench: Bench, steps: Steps, *step: Any) -> Numbers:
    """The step in the precision of the product."""
    return to_precision(bench.of(_step, *step), real(steps), step[-1])


def _base(bench: Bench, origin: Origin, snap: Snap, steps: Steps, lowest: int, *step: Any) -> Numbers:
    subnormals, kind = step[-1], real(steps)
    base = bench.of(end, "low", subnormals)
    if snap != "kept":
        base = bench.of(_snapped, snap, *step)
    base = to_precision(base, kind, subnormals)
    if origin == "lowest-folded":
        unit = to_precision(bench.of(_unit, *step), kind, subnormals)
        base = settled(base - settled(kind(lowest) * unit, subnormals), subnormals)
    return base


def _snapped(bench: Bench, snap: Snap, *step: Any) -> Numbers:
    subnormals = step[-1]
    low, high = (bench.of(end, which, subnormals) for which in ("low", "high"))
    unit = bench.of(_unit, *step)
    unit = to_precision(unit, np.float32, subnormals) if snap == "snapped-float32" else unit
    multiple = settled(low.astype(unit.dtype) / unit, subnormals)
    below = np.trunc(np.abs(multiple))
    whole = np.copysign(below + (np.abs(multiple) - below >= 0.5).astype(unit.dtype), multiple)
    # Equal ends, perhaps because both were flushed, give a step of 0, which has no multiples.
    return np.where(low == high, low, settled(whole * unit, subnormals))


def _moved(bench: Bench, origin: Origin, lowest: int, precision: str) -> Numbers:
    """input - origin. All results are integers or halves, so none is subnormal."""
    kind = real(precision)
    if origin == "lowest-in-integers":
        return np.asarray(bench.codes - lowest).astype(kind)
    codes = bench.codes.astype(kind)
    if origin == "lowest" or (origin == "lowest-of-int8" and bench.dtype == "int8"):
        codes = codes - kind(lowest)
    elif origin == "half":
        codes = codes + kind((bench.levels + 1) // 2)
    elif origin in ("above-lowest", "below-lowest"):
        codes = codes - kind(lowest + (0.5 if origin == "above-lowest" else -0.5))
    return codes


def _term(bench: Bench, origin: Origin, lowest: int, steps: Steps, form: Form, *step: Any) -> Numbers:
    subnormals, kind = step[-1], real(steps)
    moved = bench.of(_moved, origin, lowest, "float64" if kind is np.float64 else "float32")
    if form == "product-first":
        wide, _, levels, _ = step
        distance = to_precision(bench.of(span, wide, subnormals), kind, subnormals)
        return settled(settled(moved * distance, subnormals) / kind(levels), subnormals)
    factor = bench.of(_factor, steps, form, *step)
    return settled(moved / factor if form == "inverse" else moved * factor, subnormals)


# -- which compositions are searched ------------------------------------------------------------------------

_TEXTS = (
    Affine(),
    Affine(span="float64", step="float64", steps="float64"),
    Affine("lowest", "float64", "float64", "kept", "float64", form="adjusted"),
    Affine("lowest", "float32", "float32", "kept", "float32", form="adjusted"),
)
"""MIN_COMBINED in float32 and in float64, and MIN_FIRST in both."""

_PRECISIONS: tuple[tuple[Span, Single], ...] = (
    ("float32", "float32"),
    ("float32", "float64"),
    ("float32", "float64-to-float32"),
    ("float64", "float64"),
    ("float64", "float64-to-float32"),
)
"""Precisions of span and step. Before a step in float32, a span in float64 gives the same as one in float32."""

_SAME_FOR_ALL_TYPES = {
    ("float64", True, "kept"),
    ("float64", True, "snapped-float32"),
    *product(("float32", "float64-to-float32"), (True, False), ("snapped",)),
}
"""(step, True for a product in float32, snap) for which another recipe is always equal."""

_UNUSUAL: Mapping[str, tuple[str, ...]] = {
    "origin": ("lowest-in-integers", "half", "above-lowest", "below-lowest"),
    "form": ("values", "reciprocal", "inverse", "inverse-reciprocal", "product-first"),
    "narrow": ("as-told", "always", "levels-as-told", "levels-always"),
    "clamp": ("clamped",),
    "out": ("via-float32", "truncated"),
}
"""Unusual options by stage. A searched recipe has at most one of them, beside any usual ones."""


def _usual() -> Iterator[Affine]:
    origins: tuple[Origin, ...] = ("lowest-of-int8", "lowest", "lowest-folded", "zero")
    snaps: tuple[Snap, ...] = ("kept", "snapped-float32", "snapped")
    steps: tuple[Steps, ...] = ("float32", "float64", "fused")
    subnormals: tuple[Subnormals, ...] = ("kept", "flushed", "results-flushed")
    forms: tuple[Form, ...] = ("quotient", "adjusted")
    for form, flushing, snap, last, origin, (wide, step) in product(
        forms, subnormals, snaps, steps, origins, _PRECISIONS
    ):
        # It does not matter when a step is rounded to float32, so one of several equal recipes is enough.
        if (step, last != "float64", snap) not in _SAME_FOR_ALL_TYPES:
            yield Affine(origin, wide, step, snap, last, flushing, form)


def _unusual(usual: Iterable[Affine]) -> Iterator[Affine]:
    for recipe in usual:
        if recipe.snap == "kept" and recipe.form == "quotient" and recipe.subnormals != "results-flushed":
            for stage, choices in _UNUSUAL.items():
                for choice in choices:
                    changes: dict[str, Any] = {stage: choice}
                    changed = replace(recipe, **changes)
                    if changed.form not in ("inverse", "product-first") or _is_whole(changed):
                        yield changed


def _is_whole(recipe: Affine) -> bool:
    """True if a recipe whose form has no step of its own sets no option that needs one."""
    return recipe.steps != "fused" and (recipe.form == "inverse" or recipe.step == recipe.steps)


def affine_recipes() -> Iterator[Affine]:
    """Every affine recipe that attribution searches. A recipe may come more than once."""
    usual = tuple(_usual())
    yield from usual
    yield from _unusual(usual)
