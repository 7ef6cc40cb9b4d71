"""Composed recipes of TensorFlow's ranges, in rational numbers and one value at a time.

Values are those of `exact`: a Fraction, or "-0", "inf", "-inf", "nan". ``reading`` has the options of stages by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from exact import Value, added, decode, divide, multiply, round_to, rounded, subtract

Step = Callable[[Value], Value]


@dataclass(frozen=True)
class RangeElement:
    """One element of a range call."""

    dtype: str
    code: int
    """The code of the input."""
    low: int
    """The float32 code of min_range."""
    high: int
    """The float32 code of max_range."""
    narrow_range: bool
    out: str

    @property
    def bits(self) -> int:
        return int(self.dtype.lstrip("uint"))

    @property
    def lowest(self) -> int:
        return -(1 << (self.bits - 1)) if self.dtype.startswith("int") else 0

    @property
    def levels(self) -> int:
        return (1 << self.bits) - 1


def number(value: Value) -> Fraction:
    """A fraction with the same order as the value, which must not be NaN."""
    far = Fraction(1 << 2000)
    return value if isinstance(value, Fraction) else {"-0": Fraction(0), "inf": far, "-inf": -far}[value]


def is_single(precision: str) -> bool:
    return precision in ("float32", "fused")


def less(a: Value, b: Value) -> bool:
    return "nan" not in (a, b) and number(a) < number(b)


def magnitude(value: Value) -> Value:
    if value in ("-0", "-inf"):
        return Fraction(0) if value == "-0" else "inf"
    return abs(value) if isinstance(value, Fraction) else value


def without_subnormals(value: Value) -> Value:
    if isinstance(value, Fraction) and 0 != abs(value) < Fraction(1, 1 << 126):
        return "-0" if value < 0 else Fraction(0)
    return value


def steps_of(reading: Any) -> tuple[Step, Step, Callable[[str], Step]]:
    """The rounding of inputs, of float32 results, and of results in a certain precision."""
    inputs = reading.subnormals == "flushed"
    results = reading.subnormals in ("flushed", "results-flushed")

    def single(value: Value) -> Value:
        result = rounded("float32", value)
        return without_subnormals(result) if results else result

    def double(value: Value) -> Value:
        return rounded("float64", value)

    def taken(value: Value) -> Value:
        return without_subnormals(value) if inputs else value

    return taken, single, lambda precision: single if is_single(precision) else double


def ended(reading: Any, element: RangeElement, result: Value, ends: tuple[Value, Value], how: str) -> int:
    """The output code of a result, clamped if the recipe clamps.

    A result that is a float32 already needs no step to become one, so an end of the range stays subnormal.
    """
    _, single, _ = steps_of(reading)
    wide = not is_single(reading.steps)
    if reading.clamp == "clamped":
        result = ends[0] if less(result, ends[0]) else ends[1] if less(ends[1], result) else result
    if element.out == "float32":
        return round_to("float32", single(result) if wide else result)
    if how == "truncated" and result != "nan":
        return round_to("float32", single(result) if wide else result) >> 16
    direct = how == "nearest" and reading.subnormals == "kept"
    return round_to("bfloat16", result if direct or not wide else single(result))


def away_from_zero(value: Value) -> Value:
    """The nearest integer, with halves rounded away from zero. The sign stays."""
    if not isinstance(value, Fraction):
        return value
    whole = (abs(value) + Fraction(1, 2)).__floor__()
    return Fraction(whole if value > 0 else -whole) if whole or value >= 0 else "-0"


def affine(reading: Any, element: RangeElement) -> int:
    """The output code of a recipe of base + (input - origin) * step."""
    taken, single, to = steps_of(reading)
    low, high = (taken(decode("float32", code)) for code in (element.low, element.high))
    narrow = "always" in reading.narrow or ("told" in reading.narrow and element.narrow_range)
    levels = Fraction(element.levels - narrow)
    lowest = Fraction(element.lowest + (narrow and "levels" not in reading.narrow))
    stage, last = to(reading.step), to(reading.steps)

    distance = to(reading.span)(subtract(high, low))
    unit, inverse = stage_step(reading.form, stage(distance), levels, stage)
    if reading.step == "float64-to-float32":
        unit, inverse = single(unit), single(inverse)
        unit = single(divide(Fraction(1), inverse)) if reading.form == "inverse" else unit

    base = low
    if reading.snap != "kept" and not (low == high or {low, high} == {Fraction(0), "-0"}):
        at = single if reading.snap == "snapped-float32" or reading.step != "float64" else to("float64")
        base = last(at(multiply(away_from_zero(at(divide(low, at(unit)))), at(unit))))
    moved = last(decode(element.dtype, element.code))
    if reading.origin == "lowest-folded":
        base = last(subtract(base, last(multiply(last(lowest), last(unit)))))
    elif reading.origin == "lowest-in-integers":
        moved = last(decode(element.dtype, element.code) - lowest)  # type: ignore[operator]
    else:
        origin = {
            "lowest": lowest,
            "lowest-of-int8": lowest if element.dtype == "int8" else Fraction(0),
            "zero": Fraction(0),
            "half": Fraction(-(element.levels + 1), 2),
            "above-lowest": lowest + Fraction(1, 2),
            "below-lowest": lowest - Fraction(1, 2),
        }[reading.origin]
        moved = last(subtract(moved, last(origin)))
    if reading.form == "product-first":
        term = last(divide(last(multiply(moved, last(distance))), last(levels)))
    elif reading.form == "inverse":
        term = last(divide(moved, last(inverse)))
    else:
        product = multiply(moved, last(unit))
        term = product if reading.steps == "fused" else last(product)
    return ended(reading, element, last(added(base, term)), (low, high), reading.out)


def stage_step(form: str, distance: Value, levels: Fraction, stage: Step) -> tuple[Value, Value]:
    """The step from one code to the next, and its inverse, or NaN if the form has none."""
    count, most = stage(levels + 1), stage(levels)
    if form == "values":
        return stage(divide(distance, count)), "nan"
    if form == "adjusted":
        return stage(divide(stage(multiply(distance, stage(divide(count, most)))), count)), "nan"
    if form == "reciprocal":
        return stage(multiply(distance, stage(divide(Fraction(1), most)))), "nan"
    if form in ("inverse", "inverse-reciprocal"):
        inverse = stage(divide(most, distance))
        return stage(divide(Fraction(1), inverse)), inverse
    return stage(divide(distance, most)), "nan"


def scaled(reading: Any, element: RangeElement) -> int:
    """The output code of a recipe of input * factor."""
    taken, single, to = steps_of(reading)
    low, high = (taken(decode("float32", code)) for code in (element.low, element.high))
    narrow = reading.narrow == "always" or (reading.narrow == "as-told" and element.narrow_range)
    wide, last = to(reading.factor), to(reading.steps)
    number = decode(element.dtype, element.code)
    if reading.codes == "through-float32" and element.dtype == "int32":
        number = single(number)
        number = Fraction(element.lowest) if number == 1 << 31 else number
    x = last(number)
    lowest, highest, levels = element.lowest + narrow, element.lowest + element.levels, element.levels - narrow

    def divisors() -> tuple[Fraction, Fraction, Fraction]:
        if reading.divisor == "bound":
            return Fraction(lowest), Fraction(highest), Fraction(levels)
        if reading.divisor == "values":
            return Fraction(lowest - 1 if lowest < 0 else lowest + 1), Fraction(highest + 1), Fraction(levels + 1)
        fixed = {
            "levels": Fraction(levels),
            "half-levels": Fraction(levels, 2),
            "signed-bound": Fraction((1 << (element.bits - 1)) - 1),
            "none": Fraction(1),
        }[reading.divisor]
        return (-fixed if lowest < 0 else fixed), fixed, fixed

    of_low, of_high, of_span = divisors()
    largest = magnitude(low) if less(magnitude(high), magnitude(low)) else magnitude(high)
    parts: dict[str, tuple[Value, Fraction]] = {
        "lowest": (low, of_low),
        "highest": (high, of_high),
        "magnitude": (largest, of_high),
        "span": (to("float32" if reading.factor == "float32" else "float64")(subtract(high, low)), of_span),
    }

    def quotient(side: str, form: str) -> Value:
        part, divisor = parts[side][0], wide(parts[side][1])
        inverse = wide(divide(divisor, part))
        result = {
            "reciprocal": lambda: wide(multiply(part, wide(divide(Fraction(1), divisor)))),
            "inverse": lambda: inverse,
            "inverse-reciprocal": lambda: wide(divide(Fraction(1), inverse)),
        }.get(form, lambda: wide(divide(part, divisor)))()
        return single(result) if reading.factor == "float64-to-float32" else result

    def product(side: str) -> Value:
        if reading.form == "product-first":
            part, divisor = parts[side]
            part = last(part) if side == "span" and not is_single(reading.factor) else part
            return last(divide(last(multiply(x, part)), last(divisor)))
        factor = last(quotient(side, reading.form))
        return last((divide if reading.form == "inverse" else multiply)(x, factor))

    side = reading.source
    if side in ("larger-if-signed", "larger", "smaller", "lowest"):
        if element.lowest == 0 and (side == "larger-if-signed" or not narrow):
            side = "highest"
        elif side != "lowest":
            form = reading.form if "reciprocal" in reading.form else "quotient"
            first, second = quotient("lowest", form), quotient("highest", form)
            takes_second = less(second, first) if side == "smaller" else less(first, second)
            side = "highest" if takes_second else "lowest"
    return ended(reading, element, product(side), (low, high), "nearest")
