"""Every composition of the stages of y = (x - zero point) * scale, in rational numbers.

This is a third statement of the stages. See `exact` for the values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from exact import FORMATS, Value, decode, divide, is_negative, multiply, round_to, rounded, subtract

Step = Callable[[Value], Value]

LARGEST = {
    dtype: (2 - Fraction(2) ** -FORMATS[dtype].mantissa_bits) * Fraction(2) ** FORMATS[dtype].bias
    for dtype in ("float32", "float16", "bfloat16")
}
FUSED = ("fused", "fused-last-bit", "fused-float16", "fused-float16-always")
LEAST_NORMAL = {dtype: Fraction(2) ** (1 - FORMATS[dtype].bias) for dtype in ("float32", "float16", "bfloat16")}


@dataclass(frozen=True)
class TypedTriple:
    """One triple and its types. The zero point may be None."""

    x: Value
    zero_point: Value | None
    scale: Value
    x_dtype: str
    scale_dtype: str
    out: str
    zero_point_dtype: str = ""


def by_stages(reading: Any, triple: TypedTriple) -> int:
    """The output code of a recipe that is composed of stages. ``reading`` has the options by name."""
    out = triple.out
    # The form x * scale - zero point * scale needs a zero point, and a subtraction that is exact or casts its operands.
    folds = reading.subtraction in ("exact", "cast-last-bit") or reading.subtraction.startswith("operands-")
    two_products = (
        reading.operation == "folded-always"
        or (reading.operation in ("folded", *FUSED) and triple.zero_point is not None)
    ) and folds
    without_zero_point = triple.zero_point is None or reading.subtraction == "ignored"
    x, zero_point = triple.x, Fraction(0) if without_zero_point else triple.zero_point
    if reading.subtraction.startswith("operands-"):
        kind = named(reading.subtraction.removeprefix("operands-"), out)
        x, zero_point = rounded(kind, x), rounded(kind, zero_point)
    if reading.subtraction == "limited-float16":
        x, zero_point = (
            each if isinstance(each, str) else limited(rounded("float16", each), LARGEST["float16"])
            for each in (x, zero_point)
        )
    if reading.subtraction == "cast-last-bit":
        x, zero_point = (decode("bfloat16", by_last_bit(each)) for each in (x, zero_point))
    float_x, float_zero_point = (
        name.startswith(("float", "bfloat")) for name in (triple.x_dtype, triple.zero_point_dtype)
    )
    if triple.zero_point_dtype in LEAST_NORMAL or (float_zero_point and not float_x):
        zero_point = whole(reading.subtraction, zero_point, triple.x_dtype)
    scale = scale_of(reading, triple)
    step = step_of(reading, out)
    if two_products:
        omits = False
        if reading.operation == "fused-last-bit" and out == "bfloat16":
            base = decode(out, by_last_bit(step(multiply(decode(out, by_last_bit(zero_point)), scale))))
        elif reading.operation.startswith("fused-float16") and out == "float16":
            base = rounded(out, step(multiply(rounded(out, zero_point), scale)))
            omits = reading.operation == "fused-float16" and bool({zero_point, base} & {Fraction(0), "-0"})
        else:
            base = step(multiply(zero_point, scale))
        if reading.subnormals == "flush-folded":
            scale = without_subnormals("float32", scale)
        product = multiply(x, scale)
        result = step(subtract(product if reading.operation.startswith("fused") else step(product), base))
        result = step(product) if omits else result
    else:
        difference = bounded(reading.subtraction, subtract(x, zero_point), triple.x_dtype)
        if reading.subtraction == "negated" and triple.zero_point is not None and difference == "-0":
            difference = Fraction(0)
        # A formula without a difference rounds none.
        if reading.difference != "exact" and not (reading.operation in ("folded", "folded-always", *FUSED) and folds):
            difference = rounded(named(reading.difference, out), difference)
        if reading.precision == "float64":  # shows with a float zero point only
            difference = rounded("float64", difference)
        if reading.operation == "divide":
            result = step(divide(difference, scale))
        elif reading.operation == "reciprocal":
            result = step(multiply(difference, step(divide(Fraction(1), scale))))
        else:
            result = step(multiply(difference, scale))
    return finish(reading, result, out)


def whole(subtraction: str, zero_point: Value, x_dtype: str) -> Value:
    """A float zero point as a whole number, where the subtraction needs one.

    int32 has its lowest number for all numbers outside it.
    """
    as_int32 = subtraction.startswith(("wrap-", "saturate-")) and not x_dtype.startswith("float")
    if as_int32 or subtraction == "zero-point-truncated":
        if zero_point in ("nan", "inf", "-inf"):
            return Fraction(-(2**31))
        number = Fraction(0) if isinstance(zero_point, str) else Fraction(int(zero_point))
        return number if -(2**31) <= number < 2**31 else Fraction(-(2**31))
    if subtraction == "zero-point-rounded" and isinstance(zero_point, Fraction):
        number = Fraction(round(zero_point))
        return "-0" if not number and zero_point < 0 else number
    return zero_point


def named(option: str, out: str) -> str:
    return out if option == "output" else option


def scale_of(reading: Any, triple: TypedTriple) -> Value:
    """The scale after its cast and flushing."""
    kind = triple.scale_dtype if reading.scale_cast == "none" else named(reading.scale_cast, triple.out)
    if kind == "last-bit":
        kind, scale = "bfloat16", decode("bfloat16", by_last_bit(triple.scale))
    else:
        scale = triple.scale if reading.scale_cast == "none" else rounded(kind, triple.scale)
    if reading.subnormals in ("flush-inputs", "flush-all"):
        # float8_e8m0fnu is computed in float32, where 2^-127 is subnormal.
        scale = without_subnormals("float32" if kind == "float8_e8m0fnu" else kind, scale)
    if reading.subnormals == "flush-to-plus":
        scale = without_subnormals("float32", scale)
        scale = Fraction(0) if scale == "-0" else scale
    return scale


def without_subnormals(dtype: str, value: Value) -> Value:
    if isinstance(value, Fraction) and 0 < abs(value) < LEAST_NORMAL[dtype]:
        return "-0" if value < 0 else Fraction(0)
    return value


def limited(value: Value, largest: Fraction) -> Value:
    """The value, or the largest number of its sign for infinity."""
    if value in ("inf", "-inf"):
        return -largest if is_negative(value) else largest
    return value


def bounded(subtraction: str, difference: Value, x_dtype: str) -> Value:
    """An integer difference wrapped or saturated."""
    kind, _, where = subtraction.partition("-")
    if kind not in ("wrap", "saturate") or x_dtype.startswith("float"):
        return difference
    assert isinstance(difference, Fraction)
    width = 32 if where == "int32" else int(x_dtype.lstrip("uint"))
    name = f"uint{width}" if where == "unsigned" else "int32" if where == "int32" else x_dtype
    if kind == "wrap":
        return decode(name, int(difference) % (1 << width))
    low, high = (0, (1 << width) - 1) if name.startswith("u") else (-(1 << (width - 1)), (1 << (width - 1)) - 1)
    return Fraction(min(max(difference, low), high))


def step_of(reading: Any, out: str) -> Step:
    """The rounding of each result of the operation."""
    precision = named(reading.precision, out)
    if precision == "once":
        if reading.operation in ("multiply", "divide"):
            return lambda value: value
        precision = out

    def step(value: Value) -> Value:
        result = rounded(precision, value)
        flushes = reading.subnormals in ("flush-results", "flush-products", "flush-all") and precision != "float64"
        return without_subnormals(precision, result) if flushes else result

    return step


def finish(reading: Any, result: Value, out: str) -> int:
    """The final cast, then the flushing of subnormals and the sign of zero."""
    if reading.final == "truncated":
        code = toward_zero(out, result)
    elif reading.final == "saturated":
        code = saturated(out, result)
    elif reading.final == "clamped":
        code = saturated(out, "inf" if result == "nan" else result)
    elif reading.final == "last-bit" and out == "bfloat16":
        code = by_last_bit(result)
    else:
        code = round_to(out, rounded("float32", result) if reading.final == "via-float32" else result)
    value = decode(out, code)
    if reading.subnormals in ("flush-results", "flush-all"):
        value = without_subnormals(out, value)
    if reading.zero == "unsigned" and value == "-0":
        value = Fraction(0)
    return round_to(out, value)


def by_last_bit(value: Value) -> int:
    """The bfloat16 of a value's float32: odd ones are rounded up from a half on, even ones truncated."""
    kept, dropped = divmod(round_to("float32", value), 1 << 16)
    if value == "nan":
        return round_to("bfloat16", value)
    return kept + 1 if kept % 2 and dropped >= 1 << 15 else kept


def toward_zero(dtype: str, value: Value) -> int:
    """The code of a value, rounded toward zero. Infinity and NaN have codes of their own."""
    if isinstance(value, str):
        return round_to(dtype, value)
    code = round_to(dtype, value)
    nearest = decode(dtype, code)
    if isinstance(nearest, str) and nearest != "-0":
        return code - 1
    beyond = isinstance(nearest, Fraction) and abs(nearest) > abs(value)
    return code - 1 if beyond else code


def saturated(dtype: str, value: Value) -> int:
    """The nearest code, with the largest finite number of its sign instead of infinity."""
    form = FORMATS[dtype]
    largest = (2 - Fraction(2) ** -form.mantissa_bits) * Fraction(2) ** form.bias
    nearest = decode(dtype, round_to(dtype, value))
    if nearest in ("inf", "-inf"):
        return round_to(dtype, -largest if is_negative(nearest) else largest)
    return round_to(dtype, value)
