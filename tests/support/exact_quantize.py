"""QuantizeLinear of one element in rational numbers, written from the text, independent of the contract.

Values are those of `exact`: a Fraction, or "-0", "inf", "-inf", "nan".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from exact import Value, added, decode, divide, is_negative, round_to

RANGES = {
    "uint16": (0, 65535), "int16": (-32768, 32767), "uint8": (0, 255), "int8": (-128, 127),
    "uint4": (0, 15), "int4": (-8, 7), "uint2": (0, 3), "int2": (-2, 1),
}  # fmt: skip
LARGEST = {
    "float8_e4m3fn": 0x7E, "float8_e4m3fnuz": 0x7F, "float8_e5m2": 0x7B, "float8_e5m2fnuz": 0x7F, "float4_e2m1fn": 7,
    "float6_e2m3fn": 31, "float6_e3m2fn": 31,
}  # fmt: skip
"""The code of the largest finite number. Positive numbers have the codes below it."""
NAN = {"float8_e4m3fn": 0x7F, "float8_e4m3fnuz": 0x80, "float8_e5m2": 0x7F, "float8_e5m2fnuz": 0x80}
E5M2_INFINITY = 0x7C
SMALLEST_NORMAL = Fraction(1, 1 << 126)


@dataclass(frozen=True)
class Node:
    """The types and attributes of a node. An opset of 0 is com.microsoft."""

    opset: int
    x: str
    scale: str
    y: str
    precision: str = ""
    saturate: bool = True


def legal(node: Node, x: int, scale: int, zero_point: int | None) -> frozenset[int] | None:
    """The legal codes of an element, None where no sentence covers it. Operands are codes."""
    offset = None if zero_point is None else decode(node.y, zero_point)
    numbers = [decode(node.x, x)]
    if isinstance(numbers[0], Fraction) and 0 < abs(numbers[0]) < SMALLEST_NORMAL:
        numbers.append("-0" if numbers[0] < 0 else Fraction(0))
    codes: set[int] = set()
    for number in numbers:
        for precision, casts in divisions(node):
            top, bottom = number, decode(node.scale, scale)
            if casts:
                top, bottom = (decode(precision, round_to(precision, value)) for value in (top, bottom))
            if bottom == "-0" or (isinstance(bottom, Fraction) and abs(bottom) < SMALLEST_NORMAL):
                return None
            quotient = divide(top, bottom)
            if precision:
                quotient = decode(precision, round_to(precision, quotient))
            if node.y in RANGES:
                if quotient == "nan":
                    return None
                codes.add(integer(node.y, quotient, offset))
                continue
            for total in totals(node.y, quotient, offset, precision):
                if total == "nan" and node.y not in NAN:
                    return None
                codes |= set(casts_of(node, total))
    return frozenset(codes)


def divisions(node: Node) -> Iterator[tuple[str, bool]]:
    """The type of each division, "" for an exact one, and True if operands are cast to it first."""
    yield "", False
    types = {"float32"}
    stated = (node.precision or node.scale) if node.opset >= 23 else ""
    if stated in ("float16", "bfloat16"):
        types.add(stated)
    elif stated != "float32":
        types |= {node.x, node.scale} & {"float16", "bfloat16"}
    for dtype in types:
        yield dtype, True
        if node.scale != "int32":
            yield dtype, False


def integer(dtype: str, quotient: Value, offset: Value | None) -> int:
    lowest, highest = RANGES[dtype]
    if quotient in ("inf", "-inf"):
        number = highest if quotient == "inf" else lowest
    else:
        whole = round(quotient) if isinstance(quotient, Fraction) else 0
        number = min(max(whole + int(offset or 0), lowest), highest)  # type: ignore[arg-type]
    return number % (highest - lowest + 1)


def totals(dtype: str, quotient: Value, offset: Value | None, precision: str) -> Iterator[Value]:
    zero: Value = Fraction(0) if offset is None else offset
    if zero in (0, "-0"):
        yield quotient
    yield added(quotient, zero)
    if precision:
        yield decode(precision, round_to(precision, added(quotient, zero)))
    yield added(to_width(dtype, quotient), zero)


@cache
def spacing(dtype: str) -> tuple[Fraction, int]:
    """The smallest number of a type, and the steps between powers of two."""
    numbers = [decode(dtype, code) for code in range(LARGEST[dtype] + 1)]
    return Fraction(numbers[1]), sum(1 <= Fraction(number) < 2 for number in numbers)


def to_width(dtype: str, value: Value) -> Value:
    if isinstance(value, str):
        return value
    unit, steps = spacing(dtype)
    unit *= 1 << (abs(value) // (2 * steps * unit)).bit_length()  # The power of two below the value has these steps.
    multiple = round(value / unit)
    return multiple * unit if multiple or value >= 0 else "-0"


def casts_of(node: Node, value: Value) -> Iterator[int]:
    """The codes of a number: rows of the tables of Cast."""
    dtype = node.y
    if value == "nan":
        yield NAN[dtype]
        return
    sign = 1 << (LARGEST[dtype].bit_length()) if is_negative(value) else 0
    largest = decode(dtype, LARGEST[dtype])
    rounded = to_width(dtype, value)
    magnitude = abs(rounded) if isinstance(rounded, Fraction) else rounded
    if magnitude in ("inf", "-inf") or (isinstance(magnitude, Fraction) and magnitude > largest):
        if dtype not in NAN or node.saturate:
            yield sign | LARGEST[dtype]
            if dtype.endswith("fnuz") and node.opset < 24 and magnitude in ("inf", "-inf"):
                yield NAN[dtype]
        else:
            yield sign | E5M2_INFINITY if dtype == "float8_e5m2" else NAN[dtype]
    elif magnitude in (0, "-0"):
        yield 0 if dtype.endswith("fnuz") else sign
    else:
        yield sign | codes_of(dtype)[magnitude]


@cache
def codes_of(dtype: str) -> dict[Value, int]:
    return {decode(dtype, code): code for code in range(LARGEST[dtype] + 1)}
