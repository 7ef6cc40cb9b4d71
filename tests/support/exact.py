"""Dequantization in rational numbers: slow, obvious and independent of the code that it tests.

A value is a Fraction (0 is +0), or one of "-0", "inf", "-inf", "nan".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

Value = Fraction | str


@dataclass(frozen=True)
class Format:
    """A binary format."""

    exponent_bits: int
    mantissa_bits: int
    bias: int
    specials: str
    """The codes that are not finite.

    "ieee": an exponent of all ones stands for infinities and NaN. "fn": all ones stand for NaN. "fnuz": a lone sign bit stands
    for NaN, and there is no -0. "none": every code is finite.
    """


FORMATS = {
    "float64": Format(11, 52, 1023, "ieee"),
    "float32": Format(8, 23, 127, "ieee"),
    "float16": Format(5, 10, 15, "ieee"),
    "bfloat16": Format(8, 7, 127, "ieee"),
    "float8_e5m2": Format(5, 2, 15, "ieee"),
    "float8_e4m3fn": Format(4, 3, 7, "fn"),
    "float8_e4m3fnuz": Format(4, 3, 8, "fnuz"),
    "float8_e5m2fnuz": Format(5, 2, 16, "fnuz"),
    "float4_e2m1fn": Format(2, 1, 1, "none"),
    "float6_e2m3fn": Format(2, 3, 1, "none"),
    "float6_e3m2fn": Format(3, 2, 3, "none"),
}
NAN = {"float64": 0x7FF8 << 48, "float32": 0x7FC00000, "float16": 0x7E00, "bfloat16": 0x7FC0}


@lru_cache(1 << 16)
def decode(dtype: str, code: int) -> Value:
    """The value of one code. Bits above the type's width do not count."""
    if dtype == "float8_e8m0fnu":
        return "nan" if code == 0xFF else _shifted(1, code - 127)
    if dtype.startswith(("int", "uint")):
        bits = int(dtype.lstrip("uint"))
        code %= 1 << bits
        return Fraction(code - (1 << bits) if dtype.startswith("int") and code >> (bits - 1) else code)
    form = FORMATS[dtype]
    width = 1 + form.exponent_bits + form.mantissa_bits
    code %= 1 << width
    negative = code >> (width - 1) == 1
    exponent = (code >> form.mantissa_bits) % (1 << form.exponent_bits)
    mantissa = code % (1 << form.mantissa_bits)
    top = (1 << form.exponent_bits) - 1
    if form.specials == "ieee" and exponent == top:
        return "nan" if mantissa else "-inf" if negative else "inf"
    if form.specials == "fn" and exponent == top and mantissa == (1 << form.mantissa_bits) - 1:
        return "nan"
    if form.specials == "fnuz" and negative and exponent == mantissa == 0:
        return "nan"
    significand = mantissa if exponent == 0 else mantissa + (1 << form.mantissa_bits)
    magnitude = _shifted(significand, max(exponent, 1) - form.bias - form.mantissa_bits)
    if negative:
        return -magnitude if magnitude else "-0"
    return magnitude


def _shifted(number: int, exponent: int) -> Fraction:
    """number * 2^exponent"""
    return Fraction(number << exponent) if exponent >= 0 else Fraction(number, 1 << -exponent)


def round_to(dtype: str, value: Value) -> int:
    """The nearest code of a float type, ties to even. NaN is NAN[dtype].

    dtype: float64, float32, float16 or bfloat16.
    """
    form = FORMATS[dtype]
    sign = 1 << (form.exponent_bits + form.mantissa_bits)
    infinity = ((1 << form.exponent_bits) - 1) << form.mantissa_bits
    if isinstance(value, str):
        return {"nan": NAN[dtype], "-0": sign, "inf": infinity, "-inf": sign | infinity}[value]
    # Integers instead of fractions, since a fraction is reduced after every step.
    numerator, denominator = abs(value.numerator), value.denominator
    lowest = 1 - form.bias
    exponent = lowest
    if numerator:
        exponent = numerator.bit_length() - denominator.bit_length()
        if numerator << max(-exponent, 0) < denominator << max(exponent, 0):
            exponent -= 1
        exponent = max(lowest, exponent)
    places = form.mantissa_bits - exponent
    units = numerator << max(places, 0)
    unit = denominator << max(-places, 0)
    whole, rest = divmod(units, unit)
    if 2 * rest > unit or (2 * rest == unit and whole % 2 == 1):
        whole += 1
    # A significand of 2^mantissa_bits or more carries into the exponent by itself: codes have the order of the values.
    code = ((exponent - lowest) << form.mantissa_bits) + whole
    return (sign if value.numerator < 0 else 0) | min(code, infinity)


def is_negative(value: Value) -> bool:
    """True if the sign bit of a value is set. NaN is not allowed."""
    return value.startswith("-") if isinstance(value, str) else value.numerator < 0


def _nan(value: Value) -> bool:
    return isinstance(value, str) and value == "nan"


def _zero(value: Value) -> bool:
    return value == "-0" if isinstance(value, str) else not value


def _infinite(value: Value) -> bool:
    return isinstance(value, str) and value in ("inf", "-inf")


def _signed(negative: bool, magnitude: str) -> Value:
    """0 or inf with that sign."""
    if magnitude == "0":
        return "-0" if negative else Fraction(0)
    return "-inf" if negative else "inf"


def _number(value: Value) -> Fraction:
    return Fraction(0) if isinstance(value, str) else value


def subtract(a: Value, b: Value) -> Value:
    """a - b by IEEE 754, unrounded."""
    if _nan(a) or _nan(b) or (_infinite(a) and a == b):
        return "nan"
    if _infinite(a):
        return a
    if _infinite(b):
        return _signed(not is_negative(b), "inf")
    if isinstance(a, str) and isinstance(b, Fraction) and not b:
        return a  # -0 - 0
    return _number(a) - _number(b)


def multiply(a: Value, b: Value) -> Value:
    """a * b by IEEE 754, unrounded."""
    if _nan(a) or _nan(b) or (_infinite(a) and _zero(b)) or (_zero(a) and _infinite(b)):
        return "nan"
    negative = is_negative(a) != is_negative(b)
    if _infinite(a) or _infinite(b):
        return _signed(negative, "inf")
    if _zero(a) or _zero(b):
        return _signed(negative, "0")
    return _number(a) * _number(b)


def divide(a: Value, b: Value) -> Value:
    """a / b by IEEE 754, unrounded."""
    if _nan(a) or _nan(b) or (_infinite(a) and _infinite(b)) or (_zero(a) and _zero(b)):
        return "nan"
    negative = is_negative(a) != is_negative(b)
    if _infinite(a) or _zero(b):
        return _signed(negative, "inf")
    if _zero(a) or _infinite(b):
        return _signed(negative, "0")
    return _number(a) / _number(b)


def linear(
    x_dtype: str,
    x: int,
    scale_dtype: str,
    scale: int,
    zero_point_dtype: str,
    zero_point: int | None,
    out: str,
    by_division: bool = False,
) -> int:
    """The code of (x - zero_point) * scale (or / scale), rounded once. All operands are codes."""
    offset = Fraction(0) if zero_point is None else decode(zero_point_dtype, zero_point)
    difference = subtract(decode(x_dtype, x), offset)
    return round_to(out, (divide if by_division else multiply)(difference, decode(scale_dtype, scale)))


def min_combined(x_dtype: str, x: int, low: int, high: int, out: str = "float32") -> int:
    """TensorFlow's MIN_COMBINED for codes of an input and of finite float32 ends, rounded once."""
    bits = int(x_dtype.lstrip("uint"))
    least, most, count = _number(decode("float32", low)), _number(decode("float32", high)), _number(decode(x_dtype, x))
    if x_dtype == "int8":
        count += 128
    return round_to(out, least + count * (most - least) / ((1 << bits) - 1))


def min_first(x_dtype: str, x: int, low: int, high: int) -> int:
    """TensorFlow's MIN_FIRST in Python's float64, each step rounded as the text writes it."""
    bits = int(x_dtype.lstrip("uint"))
    least, most = float(_number(decode("float32", low))), float(_number(decode("float32", high)))
    lowest = -(1 << (bits - 1)) if x_dtype.startswith("int") else 0
    span = (most - least) * (float(1 << bits) / float((1 << bits) - 1))
    step = span / float(1 << bits)
    return round_to("float32", Fraction(least + (float(_number(decode(x_dtype, x))) - lowest) * step))


def scaled_symmetric(x_dtype: str, x: int, low: int, high: int) -> int:
    """The seed's SCALED, exact and rounded once."""
    bits = int(x_dtype.lstrip("uint"))
    largest = max(abs(_number(decode("float32", low))), abs(_number(decode("float32", high))))
    buckets = 2 * ((1 << (bits - 1)) - 1) if x_dtype.startswith("int") else (1 << bits) - 1
    return round_to("float32", _number(decode(x_dtype, x)) * 2 * largest / buckets)


def scaled_factor(x_dtype: str, x: int, low: int, high: int, narrow_range: bool = False) -> int:
    """The installed text's SCALED with the factor in float32 and a product that is rounded once.

    The text's ``const float scale_factor`` is float / float(int).
    """
    bits = int(x_dtype.lstrip("uint"))
    signed = x_dtype.startswith("int")

    def quotient(end: int, bound: int) -> int:
        as_float = decode("float32", round_to("float32", Fraction(bound)))
        return round_to("float32", divide(decode("float32", end), as_float))

    factor = quotient(high, (1 << (bits - 1)) - 1 if signed else (1 << bits) - 1)
    if signed:
        first = quotient(low, -(1 << (bits - 1)) + narrow_range)
        if not _number(decode("float32", first)) < _number(decode("float32", factor)):
            factor = first
    return linear(x_dtype, x, "float32", factor, "", None, "float32")


def rounded(dtype: str, value: Value) -> Value:
    """One step of arithmetic: the value rounded to a type."""
    return decode(dtype, round_to(dtype, value))


def negated(value: Value) -> Value:
    if isinstance(value, Fraction):
        return -value if value else "-0"
    return {"-0": Fraction(0), "inf": "-inf", "-inf": "inf", "nan": "nan"}[value]


def added(a: Value, b: Value) -> Value:
    return subtract(a, negated(b))


# -- admitted recipes of y = (x - zero point) * scale; `exact_stages` has every composition ----------


@dataclass(frozen=True)
class Triple:
    x: Value
    zero_point: Value
    scale: Value
    out: str


def exactly(t: Triple) -> int:
    return round_to(t.out, multiply(subtract(t.x, t.zero_point), t.scale))


def in_float32(t: Triple) -> int:
    difference = rounded("float32", subtract(t.x, t.zero_point))
    return round_to(t.out, rounded("float32", multiply(difference, t.scale)))


def in_output(t: Triple, operands_cast: bool, scale_cast: bool) -> int:
    if operands_cast:
        difference = rounded(t.out, subtract(rounded(t.out, t.x), rounded(t.out, t.zero_point)))
    else:
        difference = rounded(t.out, subtract(t.x, t.zero_point))
    scale = rounded(t.out, t.scale) if scale_cast else t.scale
    return round_to(t.out, multiply(difference, scale))


def exact_quotient(t: Triple) -> int:
    return round_to(t.out, divide(subtract(t.x, t.zero_point), t.scale))


def float32_quotient(t: Triple) -> int:
    difference = rounded("float32", subtract(t.x, t.zero_point))
    return round_to(t.out, rounded("float32", divide(difference, t.scale)))


def operands_in_float32(t: Triple) -> int:
    return in_float32(Triple(rounded("float32", t.x), rounded("float32", t.zero_point), t.scale, t.out))


def difference_in_output(t: Triple, operands_cast: bool) -> int:
    """A difference in the output type, and a product rounded to float32 and to the output type."""
    x, zero_point = (rounded(t.out, v) if operands_cast else v for v in (t.x, t.zero_point))
    difference = rounded(t.out, subtract(x, zero_point))
    return round_to(t.out, rounded("float32", multiply(difference, t.scale)))


def folded(t: Triple, fused: bool) -> int:
    """x * scale - zero point * scale in float32."""
    product, offset = multiply(t.x, t.scale), rounded("float32", multiply(t.zero_point, t.scale))
    return round_to(t.out, rounded("float32", subtract(product if fused else rounded("float32", product), offset)))


LINEAR: Mapping[str, Callable[[Triple], int]] = {
    "exact": exactly,
    "float32": in_float32,
    "output": lambda t: in_output(t, False, False),
    "output-scale-cast": lambda t: in_output(t, False, True),
    "operands-output": lambda t: in_output(t, True, False),
    "operands-output-scale-cast": lambda t: in_output(t, True, True),
    "exact-quotient": exact_quotient,
    "float32-quotient": float32_quotient,
    "operands-float32+difference-float32+rounded-float32": operands_in_float32,
    "difference-output+rounded-float32": lambda t: difference_in_output(t, False),
    "cast-operands-output+difference-output+rounded-float32": lambda t: difference_in_output(t, True),
    "folded+rounded-float32": lambda t: folded(t, False),
    "fused+rounded-float32": lambda t: folded(t, True),
}


# -- recipes of TensorFlow's three modes, stage by stage ------------------------------------------------


@dataclass(frozen=True)
class Ranged:
    dtype: str
    x: Fraction
    low: Fraction | str
    high: Fraction | str
    narrow: bool
    out: str

    @property
    def bits(self) -> int:
        return int(self.dtype.lstrip("uint"))

    @property
    def signed(self) -> bool:
        return self.dtype.startswith("int")


def min_combined_by(r: Ranged, precision: str, factor_first: bool) -> int:
    def step(value: Value) -> Value:
        return value if precision == "exact" else rounded(precision, value)

    x = step(r.x + 128 if r.dtype == "int8" else r.x)
    levels = step(Fraction((1 << r.bits) - 1))
    span = step(subtract(r.high, r.low))
    first = step(multiply(x, step(divide(span, levels))))
    term = first if factor_first else step(divide(step(multiply(x, span)), levels))
    return round_to(r.out, step(added(r.low, term)))


def min_first_by(r: Ranged, precision: str = "float64") -> int:
    def step(value: Value) -> Value:
        return value if precision == "exact" else rounded(precision, value)

    count = Fraction(1 << r.bits)
    adjust = step(divide(count, step(count - 1)))
    span = step(multiply(step(subtract(r.high, r.low)), adjust))
    offset = step(r.x - (-(count / 2) if r.signed else 0))
    term = step(multiply(offset, step(divide(span, count))))
    return round_to(r.out, step(added(r.low, term)))


def scaled_symmetric_by(r: Ranged, precision: str) -> int:
    def step(value: Value) -> Value:
        return value if precision == "exact" else rounded(precision, value)

    largest = max(abs(as_number(r.low)), abs(as_number(r.high)))
    lowest, highest = (1 - (1 << (r.bits - 1)), (1 << (r.bits - 1)) - 1) if r.signed else (0, (1 << r.bits) - 1)
    scale = step(divide(step(2 * largest), step(Fraction(highest - lowest))))
    return round_to(r.out, step(multiply(step(r.x), scale)))


def scaled_float(r: Ranged, input_rounded: bool) -> int:
    def step(value: Value) -> Value:
        return rounded("float32", value)

    highest = (1 << (r.bits - 1)) - 1 if r.signed else (1 << r.bits) - 1
    factor = step(divide(r.high, step(Fraction(highest))))
    if r.signed:
        first = step(divide(r.low, step(Fraction(-(1 << (r.bits - 1)) + r.narrow))))
        factor = factor if as_number(first) < as_number(factor) else first
    if input_rounded:
        return round_to(r.out, step(multiply(step(r.x), factor)))
    return round_to(r.out, multiply(r.x, factor))


def as_number(value: Value) -> Fraction:
    assert value in ("-0",) or isinstance(value, Fraction)
    return value if isinstance(value, Fraction) else Fraction(0)


RANGED: Mapping[str, Callable[[Ranged], int]] = {
    "min-combined-exact": lambda r: min_combined_by(r, "exact", False),
    "min-combined-float32-product-first": lambda r: min_combined_by(r, "float32", False),
    "min-combined-float32-factor-first": lambda r: min_combined_by(r, "float32", True),
    "min-combined-float64-product-first": lambda r: min_combined_by(r, "float64", False),
    "min-combined-float64-factor-first": lambda r: min_combined_by(r, "float64", True),
    "min-first-float64": min_first_by,
    "min-first-float32": lambda r: min_first_by(r, "float32"),
    "min-first-exact": lambda r: min_first_by(r, "exact"),
    "scaled-symmetric-exact": lambda r: scaled_symmetric_by(r, "exact"),
    "scaled-symmetric-float32": lambda r: scaled_symmetric_by(r, "float32"),
    "scaled-symmetric-float64": lambda r: scaled_symmetric_by(r, "float64"),
    "scaled-float32-factor": lambda r: scaled_float(r, False),
    "scaled-float32": lambda r: scaled_float(r, True),
}
