"""Rounding of casts, products and quotients, against fractions and against values by hand."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import exact
import ml_dtypes
import numpy as np
import pytest
from drawn_floats import OUTPUTS, as_value, float64s
from hypothesis import given, settings
from hypothesis import strategies as st

from xverify.core import rounding

FEW = settings(max_examples=100, deadline=None)


# -- casts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", OUTPUTS)
@FEW
@given(st.lists(float64s(), min_size=1, max_size=20))
def test_casts_round_once(dtype: str, numbers: list[float]) -> None:
    got = [int(code) for code in rounding.cast(np.array(numbers), dtype)]
    want = [exact.round_to(dtype, as_value(number)) for number in numbers]
    shown = [(n.hex(), hex(g), hex(w)) for n, g, w in zip(numbers, got, want, strict=True) if g != w]
    assert not shown, f"{dtype}: (number, got, expected) {shown[:3]}"
    rounded = [as_value(float(number)) for number in rounding.to_dtype(np.array(numbers), dtype)]
    assert rounded == [exact.decode(dtype, code) for code in want]


PITFALLS = [
    ("bfloat16", 1 + 2.0**-8, 0x3F80, "a tie goes to even"),
    ("bfloat16", 1 + 2.0**-8 + 2.0**-40, 0x3F81, "past a tie by less than float32 can hold"),
    ("bfloat16", 1 + 3 * 2.0**-8, 0x3F82, "a tie goes up to even"),
    ("bfloat16", 1 + 3 * 2.0**-8 - 2.0**-40, 0x3F81, "short of a tie by less than float32 can hold"),
    ("bfloat16", 2.0**-134, 0x0000, "half the smallest subnormal is a tie"),
    ("bfloat16", -(2.0**-134) * (1 + 2.0**-50), 0x8001, "past half the smallest subnormal"),
    ("bfloat16", -(2.0**-200), 0x8000, "underflow keeps its sign"),
    ("bfloat16", float.fromhex("0x1.ffp127"), 0x7F80, "the threshold of overflow is a tie, to infinity"),
    ("bfloat16", float.fromhex("0x1.fefffffffffffp127"), 0x7F7F, "below the threshold of overflow"),
    ("float16", float.fromhex("0x1.ffdffffffffffp15"), 0x7BFF, "below the threshold of overflow"),
    ("float16", 65520.0, 0x7C00, "the threshold of overflow"),
    ("float16", 2.0**-25, 0x0000, "half the smallest subnormal is a tie"),
    ("float16", 2.0**-25 * (1 + 2.0**-40), 0x0001, "past it by less than float32 can hold"),
    ("float16", 1 + 2.0**-11 + 2.0**-40, 0x3C01, "past a tie by less than float32 can hold"),
    ("float16", 2.0**-14 * (1 - 2.0**-11), 0x0400, "a tie between the largest subnormal and the smallest normal"),
    ("float32", 1 + 2.0**-24, 0x3F800000, "a tie goes to even"),
    ("float32", 1 + 2.0**-24 + 2.0**-52, 0x3F800001, "past a tie"),
    ("float32", 2.0**-150, 0x00000000, "half the smallest subnormal is a tie"),
    ("float32", -(2.0**-150) * (1 + 2.0**-52), 0x80000001, "past half the smallest subnormal"),
    ("float32", -0.0, 0x80000000, "the sign of zero"),
    ("float16", -math.inf, 0xFC00, "infinity"),
    ("bfloat16", math.nan, 0x7FC0, "the quiet NaN"),
]


@pytest.mark.parametrize(("dtype", "number", "code", "why"), PITFALLS)
def test_pitfalls_of_casts(dtype: str, number: float, code: int, why: str) -> None:
    got = int(rounding.cast(np.array([number]), dtype)[0])
    assert got == code, f"{why}: {number!r} to {dtype} is {got:#06x}, expected {code:#06x}"


def test_ml_dtypes_still_rounds_twice() -> None:
    """If this fails, our own cast has lost its reason."""
    number = np.array([1 + 2.0**-8 + 2.0**-40])
    assert int(number.astype(ml_dtypes.bfloat16).view(np.uint16)[0]) == 0x3F80


# -- products and quotients -----------------------------------------------------------------------------


def check_combined(combine: str, difference: int, exponent: int, factor: float) -> None:
    """Check that one product or quotient rounds to each output type like the fraction."""
    scaled = math.ldexp(difference, exponent)
    function = {"product": rounding.product_to_odd, "quotient": rounding.quotient_to_odd}[combine]
    got = function(np.array([scaled]), exponent, np.array([factor]))
    operation = {"product": exact.multiply, "quotient": exact.divide}[combine]
    want = operation(as_value(scaled), as_value(factor))
    for dtype in OUTPUTS:
        code, expected = int(rounding.cast(got, dtype)[0]), exact.round_to(dtype, want)
        where = f"{combine} of {difference} * 2**{exponent} and {factor.hex()} to {dtype}"
        assert code == expected, f"{where}: got {code:#x}, expected {expected:#x}"


factors = st.one_of(
    st.floats(width=32),
    st.integers(1 << 23, (1 << 24) - 1).map(float),
    st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan, 2.0**-149, -(2.0**-127), 2.0**127]),
)


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(["product", "quotient"]),
    st.integers(1 - 2**35, 2**35 - 1),
    st.sampled_from([0, -1, -9, -16, -17]),
    factors,
)
def test_products_and_quotients(combine: str, difference: int, exponent: int, factor: float) -> None:
    check_combined(combine, difference, exponent, factor)


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1 << 22, (1 << 23) - 1),
    st.integers(24, 34),
    st.sampled_from([-1, 0, 1]),
    st.sampled_from([0, -17]),
    st.booleans(),
)
def test_products_beside_a_tie(half: int, bit: int, offset: int, exponent: int, negative: bool) -> None:
    """The inverse of a factor modulo a power of two gives differences next to a tie."""
    factor = 2 * half + 1
    difference = ((1 << bit) + offset) * pow(factor, -1, 1 << (bit + 1)) % (1 << (bit + 1))
    assert (difference * factor - offset) % (1 << (bit + 1)) == 1 << bit
    check_combined("product", -difference if negative else difference, exponent, float(factor))


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1 << 22, (1 << 23) - 1),
    st.integers(1 << 24, (1 << 25) - 1),
    st.sampled_from([-1, 1]),
    st.sampled_from([0, -17]),
)
def test_quotients_beside_a_tie(half: int, seed: int, offset: int, exponent: int) -> None:
    """difference / factor * 2**14 is an odd number of 25 bits, a tie of float32, but for one factor-th."""
    factor = 2 * half + 1
    odd = (seed & ~0x3FFF) | (-offset * pow(factor, -1, 1 << 14) % (1 << 14))
    difference, rest = divmod(odd * factor + offset, 1 << 14)
    assert (rest, odd % 2) == (0, 1)
    check_combined("quotient", difference % (1 << 35), exponent, float(factor))
    check_combined("quotient", difference % (1 << 35), exponent, -float(factor) * 2.0**-140)


def test_a_product_that_float64_gets_wrong() -> None:
    """1347502757 x 16045357 has 55 bits, and the product that float64 rounds leads to another float32."""
    difference, factor = 1347502757, 16045357
    through_float64 = rounding.cast(np.array([float(difference) * float(factor)]), "float32")
    assert int(through_float64[0]) != exact.round_to("float32", Fraction(difference * factor))
    check_combined("product", difference, 0, float(factor))


def test_a_product_that_stops_in_float32() -> None:
    """The exact product gives 1675 in float16. Rounded to float32 first, it gives 1676."""
    difference, factor = 1829207725, float.fromhex("0x1.ebc2p-21")
    whole = exact.round_to("float16", difference * Fraction(factor))
    stopped = exact.round_to(
        "float16", exact.decode("float32", exact.round_to("float32", difference * Fraction(factor)))
    )
    assert [exact.decode("float16", code) for code in (whole, stopped)] == [1675, 1676]
    check_combined("product", difference, 0, factor)


@FEW
@given(
    st.integers(1, 2**200),
    st.integers(1, 2**200),
    st.booleans(),
    st.sampled_from([0, 1, -1]),
    st.integers(2**52, 2**53 - 1),
)
def test_fraction_to_odd_is_its_definition(a: int, b: int, negative: bool, offset: int, whole: int) -> None:
    """The result is exact, or strictly between its neighbours with an odd last bit."""
    beside = Fraction(whole) + Fraction(offset, a + 1)
    for magnitude in (Fraction(a, b), Fraction(a), beside):
        value = -magnitude if negative else magnitude
        got = rounding.fraction_to_odd(value)
        last_bit = struct.unpack("<Q", struct.pack("<d", got))[0] & 1
        below, above = (Fraction(math.nextafter(got, end)) for end in (-math.inf, math.inf))
        right = Fraction(got) == value or (below < value < above and last_bit == 1)
        assert right, f"{value} became {got.hex()}"
    assert rounding.fraction_to_odd(Fraction(0)).hex() == "0x0.0p+0"


@pytest.mark.parametrize(
    ("numerator", "denominator", "odd"),
    [(2**53 + 1, 1, 2**53 + 2), (2**53 + 3, 4, (2**53 + 2) / 4), (2**54 + 1, 1, 2**54 + 4), (2**54 + 2, 1, 2**54 + 4)],
)
def test_a_last_bit_that_float64_does_not_hold(numerator: int, denominator: int, odd: float) -> None:
    assert rounding.fraction_to_odd(Fraction(numerator, denominator)) == odd


# -- exact differences ----------------------------------------------------------------------------------


def check_difference(combine: str, x: float, zero_point: float, factor: float) -> None:
    """Check that a product or quotient of an exact difference rounds like the fraction."""
    difference = rounding.exact_difference(np.array([x]), np.array([zero_point]))
    function = {"product": rounding.difference_times, "quotient": rounding.difference_over}[combine]
    operation = {"product": exact.multiply, "quotient": exact.divide}[combine]
    wanted = exact.subtract(as_value(x), as_value(zero_point))
    for numbers, value in (
        (rounding.difference_to_odd(difference), wanted),
        (function(difference, np.array([factor])), operation(wanted, as_value(factor))),
    ):
        for dtype in OUTPUTS:
            code, expected = int(rounding.cast(numbers, dtype)[0]), exact.round_to(dtype, value)
            where = f"{combine} of {x.hex()} - {zero_point.hex()} and {factor.hex()} to {dtype}"
            assert code == expected, f"{where}: got {code:#x}, expected {expected:#x}"


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["product", "quotient"]),
    st.one_of(st.integers(-(2**31), 2**32), st.sampled_from([-0.0, 2.0**-17, 57344.0, math.inf, math.nan])),
    factors,
    factors,
)
def test_exact_differences_times_and_over_a_factor(combine: str, x: float, zero_point: float, factor: float) -> None:
    check_difference(combine, float(x), zero_point, factor)


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1 << 22, (1 << 23) - 1),
    st.integers(24, 53),
    st.sampled_from([-1, 0, 1]),
    st.booleans(),
)
def test_products_of_wide_differences_beside_a_tie(half: int, bit: int, offset: int, negative: bool) -> None:
    """As `test_products_beside_a_tie`, with differences of up to 54 bits."""
    factor = 2 * half + 1
    difference = ((1 << bit) + offset) * pow(factor, -1, 1 << (bit + 1)) % (1 << (bit + 1))
    x = -(-difference >> 24)
    zero_point, sign = ((x << 24) - difference) * 2.0**-24, -1.0 if negative else 1.0
    assert Fraction(x) - Fraction(zero_point) == Fraction(difference, 1 << 24)
    check_difference("product", sign * x, sign * zero_point, float(factor))


@settings(max_examples=200, deadline=None)
@given(st.integers(1 << 22, (1 << 23) - 1), st.integers(1 << 24, (1 << 25) - 1), st.sampled_from([-1, 0, 1]))
def test_quotients_of_wide_differences_beside_a_tie(half: int, odd: int, offset: int) -> None:
    """The quotient is an odd number of 25 bits, a tie of float32, or next to it."""
    factor, tie = 2 * half + 1, odd | 1
    x, zero_point = factor * tie >> 20, -float(factor * tie % (1 << 20)) * 2.0**-20
    assert Fraction(x) - Fraction(zero_point) == Fraction(factor * tie, 1 << 20)
    for near in (zero_point, math.nextafter(zero_point, -math.inf), math.nextafter(zero_point, math.inf)):
        check_difference("quotient", float(x), float(np.float32(near)), float(factor))
    check_difference("quotient", float(x), zero_point + offset * 2.0**-23, float(factor))
