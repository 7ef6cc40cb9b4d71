"""Departures: the stages in which a recipe differs from the nearest admitted reading.

A finding's title states these differences only. Findings of one cause have equal departures, whatever their types are.
Options that cannot matter for the types are therefore not compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from xverify.arithmetic import range_lattice
from xverify.arithmetic.range_affine import Affine
from xverify.arithmetic.range_readings import MinCombined, MinFirst, ScaledByFloat, ScaledSymmetric
from xverify.arithmetic.range_scaled import Scaled
from xverify.arithmetic.reading import Operands, Reading
from xverify.arithmetic.readings import Stepwise
from xverify.arithmetic.simplify import Types, simplified, types_of
from xverify.arithmetic.stages import FOLDED, resolved
from xverify.verify.attribute import RESULTS, Misread, Recipe


@dataclass(frozen=True)
class Departure:
    """One stage in which a recipe differs from the nearest admitted reading."""

    stage: str
    """The stage: a field of `Stepwise`, `Affine` or `Scaled`, or "index", "result" or "formula"."""
    actual: str
    """The recipe's option, a stable token."""
    due: str
    """The option of the admitted reading; "" where it has no such stage."""
    words: str
    """The difference as a sentence's predicate."""
    options: int = field(default=1, compare=False, repr=False)
    """The number of options that differ."""
    clause: str = field(default="", compare=False)
    """The clause that this departure alone contradicts; "" if that is the finding's."""


def departures(recipe: Recipe, admitted_readings: Sequence[Reading], operand_types: Operands) -> tuple[Departure, ...]:
    """The departures of a recipe from the nearest admitted reading.

    Args:
        recipe: the recipe.
        admitted_readings: the readings that the text admits. Of two equally near ones, the first counts.
        operand_types: operands of a call. Only their dtypes, output dtype and options matter.

    Returns:
        The departures in the order of the stages; () if the recipe equals an admitted reading for these types.
    """
    if isinstance(recipe, Misread):
        mistake = Departure("index", recipe.mistake.name, "", recipe.mistake.words)
        return (mistake, *departures(recipe.reading, admitted_readings, operand_types))
    if recipe.name in RESULTS:
        return (Departure("result", recipe.name, "", recipe.words),)
    unlike = (Departure("formula", recipe.name, "", _formula(recipe)),)
    nearest = [listed for due in admitted_readings if (listed := _between(recipe, due, operand_types)) is not None]
    # To compute in one type throughout is one departure, but takes several options.
    listed = min(nearest, key=lambda listed: (len(listed), sum(each.options for each in listed)), default=unlike)
    contradicting = tuple(each for each in listed if each.actual not in _SILENT)
    return contradicting or listed


def shown_by_values(
    recipes: Sequence[Reading], admitted_readings: Sequence[Reading], operand_types: Operands
) -> tuple[Reading, ...]:
    """The recipes that add no departure to those of another one.

    Args:
        recipes: recipes that give the same values. None of these values shows a departure that is added.
        admitted_readings: as for `departures`.
        operand_types: as for `departures`.
    """
    listed = [departures(recipe, admitted_readings, operand_types) for recipe in recipes]
    options = [frozenset((each.stage, each.actual) for each in way) for way in listed]
    return tuple(
        recipe for recipe, own in zip(recipes, options, strict=True) if not any(other < own for other in options)
    )


_SILENT = ("flush-results", "flush-products", "flushed", "results-flushed")
"""Options on which every text is silent. They are a departure only if there is no other."""


def in_words(listed: Sequence[Departure]) -> str:
    """Departures as one predicate, such as "ignores the zero point and divides by the scale"."""
    words = list(dict.fromkeys(departure.words for departure in listed))
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _between(recipe: Recipe, due: Reading, operands: Operands) -> tuple[Departure, ...] | None:
    """The departures from one reading; None if the two formulas have no stages in common."""
    if isinstance(recipe, Stepwise) and isinstance(due, Stepwise):
        return _linear(recipe, due, types_of(operands))
    mine, others = range_lattice.composed(recipe, operands), range_lattice.composed(due, operands)
    pairs = [(a, b) for a in mine for b in others if type(a) is type(b)]
    simple = [(a.simplified(operands), b.simplified(operands)) for a, b in pairs]
    if any(a == b for a, b in simple):
        return ()
    # Simplification may write an option of one recipe in another way because of its other options.
    return min((tuple(_ranges(a, b)) for a, b in (*pairs, *simple)), key=len, default=None)


# -- linear readings --------------------------------------------------------------------------------------

_SUBTRACTIONS: Mapping[str, str] = {
    "exact": "subtracts exactly",
    "operands": "casts x and the zero point to {} first",
    "zero-point-rounded": "rounds the zero point to a whole number",
    "zero-point-truncated": "truncates the zero point to a whole number",
    "wrap-x": "subtracts in the type of x with wrap-around",
    "wrap-unsigned": "subtracts in the unsigned type of the width of x with wrap-around",
    "wrap-int32": "subtracts in int32 with wrap-around",
    "saturate-x": "subtracts in the type of x and saturates",
    "saturate-int32": "subtracts in int32 and saturates",
    "ignored": "takes the zero point as 0",
    "negated": "gives 0 instead of -0 for x - zero point",
    "limited-float16": "casts x and the zero point to float16, with 65504 for what overflows",
    "cast-last-bit": "casts x and the zero point to bfloat16, never rounding up where the last kept bit is 0",
}
_OPERATIONS: Mapping[str, str] = {
    "multiply": "multiplies by the scale",
    "divide": "divides by the scale",
    "reciprocal": "multiplies by the reciprocal of the scale",
    "folded": "computes x * scale - zero point * scale",
    "fused": "computes x * scale - zero point * scale by a fused multiply-add",
    "fused-last-bit": (
        "computes x * scale - zero point * scale, with zero point and product cast to bfloat16, never rounding up where the last "
        "kept bit is 0"
    ),
    "folded-always": "computes x * scale - 0 * scale without a zero point",
    **dict.fromkeys(
        ("fused-float16", "fused-float16-always"),
        "computes x * scale - zero point * scale, with zero point and product rounded to float16",
    ),
}
_SAME_MISTAKE: Mapping[str, str] = {"fused-float16-always": "fused-float16"}
"""Operations that stand for another one in a departure: a subtraction of 0 that is left out is no mistake of its own."""

_FINALS: Mapping[str, str] = {
    "nearest": "rounds the result to nearest",
    "truncated": "truncates the result",
    "saturated": "takes the largest finite number for what overflows",
    "via-float32": "rounds the result to float32 first",
    "last-bit": "casts to bfloat16, never rounding up where the last kept bit is 0",
    "clamped": "takes the largest finite number for what overflows and for NaN",
}
_FLUSHES: Mapping[str, str] = {
    "kept": "keeps subnormals",
    "flush-results": "flushes subnormal results to zero",
    "flush-products": "flushes subnormal products to zero",
    "flush-inputs": "takes subnormal scales as 0",
    "flush-all": "flushes subnormal scales and results to zero",
    "flush-to-plus": "takes subnormal scales and -0 as +0",
    "flush-folded": "takes subnormal scales as 0 in x * scale only",
}
_ZEROS: Mapping[str, str] = {"signed": "keeps the sign of zero", "unsigned": "gives 0 instead of -0"}
_COMPUTED = ("float32", "float16", "bfloat16")
"""The types in which a kernel may compute throughout."""


def _linear(recipe: Stepwise, due: Stepwise, types: Types) -> tuple[Departure, ...]:
    out = types.out
    mine, right = simplified(recipe, types), simplified(due, types)
    if mine == right:
        return ()
    throughout: list[str] = []
    if (mine.difference, mine.precision) != (right.difference, right.precision):
        throughout = [kind for kind in _throughout(mine, types) if kind not in _throughout(right, types)]
    listed: list[Departure] = []
    subtraction, due_subtraction = resolved(mine.subtraction, out), resolved(right.subtraction, out)
    if subtraction != due_subtraction and subtraction.removeprefix("operands-") not in throughout:
        kind, _, dtype = subtraction.partition("-")
        if kind == "operands":
            words, option = _SUBTRACTIONS["operands"].format(_type(dtype, out)), f"operands-{_option(dtype, out)}"
        else:
            words, option = _SUBTRACTIONS[subtraction], subtraction
        listed.append(Departure("subtraction", option, due_subtraction, words))
    if mine.scale_cast != right.scale_cast:
        words = "does not cast the scale" if mine.scale_cast == "none" else _cast("the scale", mine.scale_cast, out)
        listed.append(Departure("scale_cast", _option(mine.scale_cast, out), right.scale_cast, words))
    listed += _rounding(mine, right, throughout, out)
    tables: tuple[tuple[str, Mapping[str, str]], ...] = (
        ("operation", _OPERATIONS), ("final", _FINALS), ("subnormals", _FLUSHES), ("zero", _ZEROS),
    )  # fmt: skip
    for stage, table in tables:
        actual, expected = getattr(mine, stage), getattr(right, stage)
        if actual != expected:
            listed.append(Departure(stage, _SAME_MISTAKE.get(actual, actual), expected, table[actual]))
    return tuple(listed)


def _throughout(reading: Stepwise, types: Types) -> list[str]:
    """The types in which the reading may be said to compute both its difference and its product."""
    if reading.operation in FOLDED:
        return []
    kinds = []
    for kind in dict.fromkeys((*_COMPUTED, types.out)):
        options: Any = {"difference": kind, "precision": kind}
        if simplified(replace(reading, **options), types) == reading:
            kinds.append(kind)
    return kinds


def _rounding(mine: Stepwise, right: Stepwise, throughout: Sequence[str], out: str) -> list[Departure]:
    """The departures in the rounding of the difference and of the product. Both in one type count as one."""
    if throughout:
        kind = throughout[0]
        due = right.precision if right.difference == "exact" else f"{right.difference}, {right.precision}"
        stages = ("subtraction", "difference", "precision")
        options = sum(getattr(mine, stage) != getattr(right, stage) for stage in stages)
        return [Departure("precision", _option(kind, out), due, f"computes in {_type(kind, out)} throughout", options)]
    listed = []
    if mine.difference != right.difference:
        kept = mine.difference == "exact"
        words = "does not round the difference" if kept else f"rounds the difference to {_type(mine.difference, out)}"
        listed.append(Departure("difference", _option(mine.difference, out), right.difference, words))
    same = _precision(mine, out) == _precision(right, out)
    if not same:
        product = {"multiply": "the product", "divide": "the quotient"}.get(mine.operation, "each step")
        words = f"rounds {product} to {_type(mine.precision, out)} first"
        if mine.precision == "once":
            words = f"rounds {product} once to the output type"
        listed.append(Departure("precision", _option(mine.precision, out), right.precision, words))
    return listed


def _precision(reading: Stepwise, out: str) -> str:
    """The type of the product; the output type for a single rounding."""
    return out if reading.precision == "once" else resolved(reading.precision, out)


def _option(dtype: str, out: str) -> str:
    """The token of a type in a departure. A cast to the output type is one mistake, whatever that type is."""
    return "output" if _type(dtype, out) != dtype else dtype


def _type(dtype: str, out: str) -> str:
    return "the output type" if dtype == out != "float32" else dtype


def _cast(what: str, dtype: str, out: str) -> str:
    if dtype == "last-bit":
        return f"casts {what} to bfloat16, never rounding up where the last kept bit is 0"
    return f"casts {what} to {_type(dtype, out)}"


# -- range readings ---------------------------------------------------------------------------------------


def _formula(recipe: Recipe) -> str:
    """The words for a recipe of another formula than the admitted ones."""
    if isinstance(recipe, Scaled | ScaledByFloat | ScaledSymmetric):
        return "multiplies the input by one factor, as in mode SCALED"
    affine = isinstance(recipe, Affine | MinCombined | MinFirst)
    return "adds min to a multiple of the step, as in mode MIN_COMBINED" if affine else recipe.words


_RANGE_WORDS: Mapping[tuple[str, str], str] = {
    ("origin", "lowest"): "counts the input from the lowest value of its type",
    ("origin", "lowest-folded"): "takes the product of step and lowest value into the base",
    ("origin", "lowest-of-int8"): "counts the input from the lowest value of its type for int8 only",
    ("origin", "zero"): "counts the input from 0",
    ("origin", "lowest-in-integers"): "counts the input from the lowest value of its type in integers",
    ("origin", "half"): "adds half the number of values to the input",
    ("origin", "above-lowest"): "counts the input from half a step above the lowest value of its type",
    ("origin", "below-lowest"): "counts the input from half a step below the lowest value of its type",
    ("snap", "kept"): "takes min as it is",
    ("snap", "snapped"): "rounds min to a multiple of the step",
    ("snap", "snapped-float32"): "rounds min to a multiple of the step",
    ("form", "quotient"): "divides by the levels first",
    ("form", "adjusted"): "adjusts the range to the number of values",
    ("form", "values"): "divides by the number of values instead of the levels",
    ("form", "reciprocal"): "multiplies by a reciprocal instead of dividing",
    ("form", "inverse"): "divides by the inverse of the step",
    ("form", "inverse-reciprocal"): "takes the step as the reciprocal of its inverse",
    ("form", "product-first"): "divides after the product",
    ("narrow", "ignored"): "ignores narrow_range",
    ("narrow", "never"): "ignores narrow_range",
    ("narrow", "as-told"): "leaves the lowest value out where narrow_range is set",
    ("narrow", "always"): "leaves the lowest value out",
    ("narrow", "levels-as-told"): "counts one level less where narrow_range is set",
    ("narrow", "levels-always"): "counts one level less",
    ("clamp", "clamped"): "clamps the result to the range",
    ("clamp", "unclamped"): "does not clamp the result",
    ("subnormals", "kept"): "keeps subnormals",
    ("subnormals", "flushed"): "flushes subnormals to zero",
    ("subnormals", "results-flushed"): "flushes subnormal results to zero",
    ("out", "nearest"): "rounds once",
    ("out", "via-float32"): "rounds the result to float32 first",
    ("out", "truncated"): "truncates the result",
    ("source", "larger-if-signed"): "takes the factor from max alone for unsigned types",
    ("source", "larger"): "takes the factor from the larger of min / lowest and max / highest",
    ("source", "smaller"): "takes the factor from the smaller of min / lowest and max / highest",
    ("source", "highest"): "takes the factor from max alone",
    ("source", "lowest"): "takes the factor from min alone",
    ("source", "magnitude"): "takes the factor from the larger of |min| and |max|",
    ("source", "span"): "takes the factor from max - min",
    ("divisor", "bound"): "divides by the ends of the type",
    ("divisor", "values"): "divides by one more than the ends of the type",
    ("divisor", "levels"): "divides by the number of levels",
    ("divisor", "half-levels"): "divides by half the number of levels",
    ("divisor", "signed-bound"): "divides by the highest value of the signed type",
    ("divisor", "none"): "does not divide the range",
    ("codes", "exact"): "takes the input as it is",
    ("codes", "through-float32"): "converts the input to float32 and back to int32 first",
}
_PRECISE = ("span", "step", "factor", "steps")
"""Stages that only choose a type of arithmetic."""


def _ranges(mine: Affine | Scaled, right: Affine | Scaled) -> Iterator[Departure]:
    """The stages in which two simplified recipes of one formula differ.

    Their precisions together count as one.
    """
    differing = [f.name for f in fields(mine) if getattr(mine, f.name) != getattr(right, f.name)]
    for stage in differing:
        if stage not in _PRECISE:
            actual, due = getattr(mine, stage), getattr(right, stage)
            yield Departure(stage, actual, due, _RANGE_WORDS[stage, actual])
    if not set(_PRECISE).isdisjoint(differing):
        actual, due = (_types(recipe) for recipe in (mine, right))
        kinds = set(actual.split(", "))
        words = f"computes in {kinds.pop()}" if len(kinds) == 1 else f"computes in other types ({actual})"
        yield Departure("precision", actual, due, words)


def _types(recipe: Affine | Scaled) -> str:
    names = (f.name for f in fields(recipe) if f.name in _PRECISE)
    return ", ".join(dict.fromkeys(str(getattr(recipe, name)) for name in names))
