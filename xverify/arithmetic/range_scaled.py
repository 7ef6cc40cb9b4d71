"""Recipes of input * factor, composed of stages.

They are what an implementation of TensorFlow's SCALED may compute instead of what the text says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic.range_readings import SCALED_FLOAT, SCALED_SYMMETRIC
from xverify.arithmetic.range_stages import (
    SUBNORMALS,
    Bench,
    Numbers,
    Single,
    Subnormals,
    clamped,
    end,
    evaluated,
    real,
    settled,
    span,
    to_precision,
)
from xverify.arithmetic.reading import Operands
from xverify.core.call import BITS
from xverify.core.dtypes import SIGNED

Source = Literal["larger-if-signed", "larger", "smaller", "highest", "lowest", "magnitude", "span"]
Divisor = Literal["bound", "values", "levels", "half-levels", "signed-bound", "none"]
Form = Literal["quotient", "reciprocal", "inverse", "inverse-reciprocal", "product-first"]
Steps = Literal["float32", "float64"]
Narrow = Literal["as-told", "always", "never"]
Clamp = Literal["unclamped", "clamped"]
Codes = Literal["exact", "through-float32"]

_SOURCE = {
    "larger-if-signed": "the larger of min / lowest and max / highest (of max alone for unsigned types)",
    "larger": "the larger of min / lowest and max / highest, for unsigned types too if narrow_range makes their lowest 1",
    "smaller": "the smaller of min / lowest and max / highest (of max alone where the lowest value is 0)",
    "highest": "max / highest",
    "lowest": "min / lowest (max / highest where the lowest value is 0)",
    "magnitude": "max(|min|, |max|) / highest",
    "span": "(max - min) / levels",
}
_DIVISOR = {
    "bound": "",
    "values": ", with divisors greater by one",
    "levels": ", with the levels as the divisor",
    "half-levels": ", with half the levels as the divisor",
    "signed-bound": ", with the highest value of the signed type as the divisor",
    "none": ", not divided at all",
}
_FACTOR = {"float32": "float32", "float64": "float64", "float64-to-float32": "float64, rounded to float32"}
_FORM = {
    "quotient": "",
    "reciprocal": ", by the divisor's reciprocal",
    "inverse": ", inverted, and divides the input by it",
    "inverse-reciprocal": ", as the reciprocal of its inverse",
    "product-first": ", but multiplies before it divides",
}
_NARROW = {
    "as-told": "",
    "always": ", always leaves the lowest value out",
    "never": ", never leaves the lowest value out",
}
_CLAMP = {"unclamped": "", "clamped": ", clamps the result to the range"}
_CODES = {"exact": "", "through-float32": ", converts the input to float32 and back to int32 first"}
_QUOTIENTS = ("larger-if-signed", "larger", "smaller", "highest", "lowest")


@dataclass(frozen=True)
class Scaled:
    """input * factor, each stage in its own precision."""

    source: Source = "larger-if-signed"
    """The ends of the range that give the factor. The first of two equal quotients counts, as in C++'s std::max."""
    divisor: Divisor = "bound"
    """The divisor of the ends: the bound of the type that belongs to the end, one more ("values"), or another number."""
    form: Form = "quotient"
    """The way from ends and divisor to the factor."""
    factor: Single = "float32"
    """The precision of the factor."""
    steps: Steps = "float32"
    """The precision of the product. The input is rounded to it first."""
    narrow: Narrow = "as-told"
    """When the lowest value is left out, so that the lower bound is one greater."""
    clamp: Clamp = "unclamped"
    """The clamp of the result to [min, max]."""
    subnormals: Subnormals = "kept"
    """The subnormals that become zero, among the ends of the range and all float32 results."""
    codes: Codes = "exact"
    """The input: exact, or converted to float32 and back to int32, where 2^31 becomes the lowest value."""

    @property
    def name(self) -> str:
        """The options of the stages, after "scaled-"."""
        parts = [
            "" if self.source == "larger-if-signed" else f"from-{self.source}",
            "" if self.divisor == "bound" else f"by-{self.divisor}",
            "" if self.form == "quotient" else self.form,
            self.factor,
            "" if self.steps == "float32" else f"in-{self.steps}",
            "" if self.narrow == "as-told" else f"narrow-{self.narrow}",
            "" if self.clamp == "unclamped" else self.clamp,
            "" if self.subnormals == "kept" else self.subnormals,
            "" if self.codes == "exact" else f"codes-{self.codes}",
        ]
        return "scaled-" + "-".join(part for part in parts if part)

    @property
    def words(self) -> str:
        """The recipe as a sentence's predicate."""
        return (
            f"takes the scale factor as {_SOURCE[self.source]}{_DIVISOR[self.divisor]}{_FORM[self.form]}, in "
            f"{_FACTOR[self.factor]}, multiplies in {self.steps}{_NARROW[self.narrow]}{_CLAMP[self.clamp]}"
            f"{SUBNORMALS[self.subnormals]}{_CODES[self.codes]}"
        )

    @property
    def departures(self) -> int:
        """Number of stages in which the recipe departs from the nearest text."""
        return min(
            sum(1 for stage in fields(self) if getattr(self, stage.name) != getattr(text, stage.name))
            for text in _TEXTS
        )

    def simplified(self, operands: Operands) -> Scaled:
        """A recipe that is equal for the operands' types and narrow_range."""
        dtype = operands.dtypes["input"]
        signed, small = dtype in SIGNED, BITS[dtype] <= 16
        source, divisor, form, factor, steps = self.source, self.divisor, self.form, self.factor, self.steps
        narrow = self.narrow
        if narrow == "as-told":
            narrow = "always" if operands.options.get("narrow_range", False) else "never"
        if source == "larger" and signed:
            source = "larger-if-signed"
        if not signed and (source == "larger-if-signed" or (narrow == "never" and source in _QUOTIENTS)):
            source = "highest"
        of_high = source in ("highest", "magnitude")
        if of_high and divisor not in ("levels", "half-levels"):
            narrow = "never"
        if (
            (divisor == "signed-bound" and signed and (of_high or (narrow == "always" and source in _QUOTIENTS)))
            or (divisor == "levels" and not signed and narrow == "never" and of_high)
            or (divisor == "levels" and source == "span")
        ):
            divisor = "bound"
        if divisor == "none" and form == "reciprocal":
            form = "quotient"
        if of_high and form == "product-first":
            factor = "float32"
        # With two quotients, the choice may depend on bits that float32 drops. These sources have one quotient.
        if factor == "float64" and steps == "float32" and source in ("highest", "lowest", "magnitude", "span"):
            factor = "float64-to-float32"
        # Rounding to 53 bits first changes no quotient of 24-bit numbers (Figueroa, 1995).
        if factor == "float64-to-float32" and small and form in ("quotient", "inverse") and source != "span":
            factor = "float32"
        # float64 holds a product of 16 and 24 bits, so either precision rounds it once.
        multiplies = form not in ("inverse", "product-first")
        unclamped = self.clamp == "unclamped"
        if operands.output_dtype == "float32" and small and multiplies and factor != "float64" and unclamped:
            steps = "float32"
        # A subnormal end has a subnormal quotient, which is flushed even if the end is not.
        direct = form in ("quotient", "reciprocal") and source != "span"
        subnormals = self.subnormals
        if subnormals == "results-flushed" and direct and factor != "float64" and unclamped:
            subnormals = "flushed"
        codes = "exact" if small else self.codes
        return Scaled(source, divisor, form, factor, steps, narrow, self.clamp, subnormals, codes)

    def evaluate(self, operands: Operands) -> NDArray[Any]:
        """The output codes, in the output dtype and shape of the operands."""
        return evaluated(self, operands)

    @property
    def out(self) -> str:
        """The final cast: these recipes have one only."""
        return "nearest"

    def on(self, bench: Bench) -> Numbers:
        """The numbers before the final cast. The bench shares the results of common stages."""
        narrow_range = bool(bench.operands.options.get("narrow_range", False))
        left_out = int(self.narrow == "always" or (self.narrow == "as-told" and narrow_range))
        choices = (self.source, self.divisor, self.form, self.factor, left_out, self.subnormals)
        result = bench.of(_product, self.steps, self.codes, *choices)
        return clamped(bench, result, self.subnormals) if self.clamp == "clamped" else result


def _bounds(bench: Bench, divisor: Divisor, left_out: int) -> tuple[float, float, float]:
    """The divisors of min, max and max - min."""
    lowest, levels = bench.lowest + left_out, bench.levels - left_out
    if divisor == "bound":
        return lowest, bench.highest, levels
    if divisor == "values":
        return lowest - 1 if lowest < 0 else lowest + 1, bench.highest + 1, levels + 1
    number = {
        "levels": float(levels),
        "half-levels": levels / 2,
        "signed-bound": float((1 << (BITS[bench.dtype] - 1)) - 1),
        "none": 1.0,
    }[divisor]
    return -number if lowest < 0 else number, number, number


def _sides(bench: Bench, source: Source, left_out: int) -> tuple[str, ...]:
    """The parts of the range from which quotients are taken."""
    if source in ("magnitude", "span"):
        return (source,)
    without_low = bench.lowest == 0 and (source == "larger-if-signed" or left_out == 0)
    if source == "highest" or without_low:
        return ("high",)
    return ("low",) if source == "lowest" else ("low", "high")


def _part(bench: Bench, side: str, kind: Any, subnormals: Subnormals) -> Numbers:
    if side == "span":
        result: Numbers = bench.of(span, "float32" if kind is np.float32 else "float64", subnormals)
        return result
    low, high = (bench.of(end, which, subnormals).astype(kind) for which in ("low", "high"))
    if side == "magnitude":
        return np.asarray(np.maximum(np.abs(low), np.abs(high)))
    return np.asarray(low if side == "low" else high)


def _divisor(bench: Bench, side: str, divisor: Divisor, left_out: int) -> float:
    low, high, whole = _bounds(bench, divisor, left_out)
    return {"low": low, "high": high, "magnitude": high, "span": whole}[side]


def _quotient(
    bench: Bench, side: str, divisor: Divisor, form: Form, factor: Single, left_out: int, subnormals: Subnormals
) -> Numbers:
    """One candidate for the factor. For the form "inverse", its reciprocal."""
    kind = real(factor)
    part, number, one = _part(bench, side, kind, subnormals), kind(_divisor(bench, side, divisor, left_out)), kind(1)
    if form == "reciprocal":
        result = part * (one / number)
    elif form == "inverse":
        result = number / part
    elif form == "inverse-reciprocal":
        result = one / settled(number / part, subnormals)
    else:
        result = part / number
    result = settled(result, subnormals)
    return to_precision(result, np.float32, subnormals) if factor == "float64-to-float32" else result


def _product(
    bench: Bench,
    steps: Steps,
    input_codes: Codes,
    source: Source,
    divisor: Divisor,
    form: Form,
    factor: Single,
    left_out: int,
    subnormals: Subnormals,
) -> Numbers:
    kind = real(steps)
    codes = bench.of(_codes, steps, input_codes)

    def of(side: str, shape: Form) -> Numbers:
        result: Numbers = bench.of(_quotient, side, divisor, shape, factor, left_out, subnormals)
        return result

    def scaled(side: str) -> Numbers:
        if form == "product-first":
            taken = _part(bench, side, real(factor) if side == "span" else kind, subnormals)
            part = to_precision(taken, kind, subnormals)
            number = kind(_divisor(bench, side, divisor, left_out))
            return settled(settled(codes * part, subnormals) / number, subnormals)
        number = to_precision(of(side, form), kind, subnormals)
        return settled(codes / number if form == "inverse" else codes * number, subnormals)

    sides = _sides(bench, source, left_out)
    if len(sides) == 1:
        return scaled(sides[0])
    direct: Form = form if form in ("reciprocal", "inverse-reciprocal") else "quotient"
    low, high = of("low", direct), of("high", direct)
    takes_high = high < low if source == "smaller" else low < high
    return np.where(takes_high, scaled("high"), scaled("low"))


def _codes(bench: Bench, steps: Steps, codes: Codes) -> Numbers:
    exact = bench.codes
    if codes == "through-float32" and bench.dtype == "int32":
        rounded = exact.astype(np.float32).astype(np.int64)
        exact = np.where(rounded > bench.highest, bench.lowest, rounded)
    return exact.astype(real(steps))


_TEXTS = (
    Scaled(),
    Scaled("magnitude"),
    Scaled("magnitude", factor="float64", steps="float64"),
)
"""The newer text's formula, and the older one's in either precision."""

_UNUSUAL: Mapping[str, tuple[str, ...]] = {
    "divisor": ("values", "levels", "half-levels", "signed-bound", "none"),
    "form": ("reciprocal", "inverse", "inverse-reciprocal", "product-first"),
    "narrow": ("always", "never"),
    "clamp": ("clamped",),
    "codes": ("through-float32",),
}
"""Unusual options by stage. A searched recipe has at most one of them, beside any usual ones."""


def _composed() -> Iterator[Scaled]:
    sources: tuple[Source, ...] = (*_QUOTIENTS, "magnitude", "span")  # type: ignore[assignment]
    factors: tuple[Single, ...] = ("float32", "float64-to-float32", "float64")
    steps: tuple[Steps, ...] = ("float32", "float64")
    subnormals: tuple[Subnormals, ...] = ("kept", "flushed", "results-flushed")
    for flushing, source, last, factor in product(subnormals, sources, steps, factors):
        if factor == "float64" and last == "float32":
            continue  # The product rounds the factor to float32, so another recipe is equal.
        usual = Scaled(source, factor=factor, steps=last, subnormals=flushing)
        yield usual
        if flushing == "results-flushed":
            continue
        for stage, choices in _UNUSUAL.items():
            for choice in choices:
                changes: dict[str, Any] = {stage: choice}
                yield replace(usual, **changes)


_ADMITTED = frozenset(reading.name for reading in (*SCALED_FLOAT, *SCALED_SYMMETRIC))

SCALED_RECIPES: tuple[Scaled, ...] = tuple(recipe for recipe in _composed() if recipe.name not in _ADMITTED)
"""The recipes that attribution searches. Admitted ones are left out, since they are readings of their own."""
