"""Decoding, rounding and distances of codes, against Fractions and against values written by hand."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import exact
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xverify.core import bits, dtypes, rounding
from xverify.core.call import BITS, code_dtype

OUTPUTS = ("float32", "float16", "bfloat16")
NARROW = tuple(dtype for dtype, width in BITS.items() if width <= 8)
FEW = settings(max_examples=300, deadline=None)


def as_value(number: float) -> exact.Value:
    """A float in the form of the exact oracle, with the sign of zero."""
    if math.isnan(number):
        return "nan"
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    return "-0" if number == 0 and math.copysign(1, number) < 0 else Fraction(number)


def all_codes(dtype: str) -> np.ndarray:
    return np.arange(1 << BITS[dtype], dtype=code_dtype(dtype))


def truncated_and_odd(value: Fraction) -> int:
    """The float32 code of a nonzero fraction rounded to odd: the definition, in integers."""
    magnitude, unit = abs(value), Fraction(2) ** -149
    while magnitude / unit >= 1 << 24:
        unit *= 2
    whole, rest = divmod(magnitude / unit, 1)
    exponent = (unit / Fraction(2) ** -149).numerator.bit_length() - 1
    code = (exponent << 23) + int(whole) if exponent else int(whole)
    code = min(code if not rest else code | 1, 0x7F7FFFFF)
    return code | (0x80000000 if value < 0 else 0)


# -- what codes mean ------------------------------------------------------------------------------------

BY_HAND = {
    "int2": (0, 1, -2, -1),
    "uint2": (0, 1, 2, 3),
    "int4": (*range(8), *range(-8, 0)),
    "uint4": tuple(range(16)),
    "int8": (*range(128), *range(-128, 0)),
    "uint8": tuple(range(256)),
    "float4_e2m1fn": (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0),
}
"""Every code's value, from code 0 up."""

LANDMARKS = [
    (
        "float8_e4m3fn",
        {0: 0.0, 1: 2.0**-9, 8: 2.0**-6, 0x38: 1.0, 0x7E: 448.0, 0x7F: math.nan, 0x80: -0.0, 0xFE: -448.0},
    ),
    ("float8_e4m3fnuz", {0: 0.0, 1: 2.0**-10, 8: 2.0**-7, 0x40: 1.0, 0x7F: 240.0, 0x80: math.nan, 0xFF: -240.0}),
    (
        "float8_e5m2",
        {1: 2.0**-16, 4: 2.0**-14, 0x3C: 1.0, 0x7B: 57344.0, 0x7C: math.inf, 0x7D: math.nan, 0xFC: -math.inf},
    ),
    ("float8_e5m2fnuz", {1: 2.0**-17, 4: 2.0**-15, 0x40: 1.0, 0x7F: 57344.0, 0x80: math.nan, 0xFF: -57344.0}),
    ("float8_e8m0fnu", {0: 2.0**-127, 1: 2.0**-126, 127: 1.0, 254: 2.0**127, 255: math.nan}),
]


@pytest.mark.parametrize("dtype", NARROW)
def test_every_narrow_code_has_its_value(dtype: str) -> None:
    got = [as_value(float(number)) for number in dtypes.values(dtype, all_codes(dtype))]
    want = [exact.decode(dtype, code) for code in range(1 << BITS[dtype])]
    wrong = [(code, g, w) for code, (g, w) in enumerate(zip(got, want, strict=True)) if g != w]
    assert not wrong, f"{dtype}: (code, got, expected) {wrong[:5]}"
    if dtype in BY_HAND:
        assert got == [as_value(float(number)) for number in BY_HAND[dtype]], dtype


@pytest.mark.parametrize(("dtype", "known"), LANDMARKS, ids=[name for name, _ in LANDMARKS])
def test_landmarks_of_small_floats(dtype: str, known: dict[int, float]) -> None:
    codes = np.array(list(known), np.uint8)
    got = [as_value(float(number)) for number in dtypes.values(dtype, codes)]
    assert got == [as_value(number) for number in known.values()], f"{dtype}: {dict(zip(known, got, strict=True))}"


@pytest.mark.parametrize("dtype", [*NARROW, "int16", "uint16", "float16", "bfloat16"])
def test_every_code_survives_decoding_and_encoding(dtype: str) -> None:
    codes = all_codes(dtype)
    numbers = dtypes.values(dtype, codes)
    back = dtypes.encode(dtype, numbers)
    numeric = ~np.isnan(numbers)
    wrong = np.nonzero(numeric & (back != codes))[0]
    assert not wrong.size, f"{dtype}: code {wrong[:3]} came back as {back[wrong[:3]]}"
    assert np.isnan(dtypes.values(dtype, back[~numeric])).all()
    assert back.dtype == code_dtype(dtype)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64"])
def test_wide_integers_survive(dtype: str) -> None:
    lowest, highest = dtypes.integer_range(dtype)
    numbers = [lowest, lowest + 1, -1 if lowest else 1, 0, 1, 2**24 + 1, highest - 1, highest]
    codes = dtypes.encode(dtype, np.array(numbers, np.int64))
    assert dtypes.integers(dtype, codes).tolist() == numbers
    assert [int(code) for code in codes] == [number % (1 << BITS[dtype]) for number in numbers]
    assert [dtypes.decimal(dtype, int(code)) for code in codes] == [str(number) for number in numbers]


@pytest.mark.parametrize("dtype", [*NARROW, "int16", "uint16", "float16", "bfloat16", "float32", "int32"])
def test_decimals_identify_the_code(dtype: str) -> None:
    top = (1 << BITS[dtype]) - 1
    codes = range(top + 1) if top < 256 else [0, 1, top // 2, top // 2 + 1, top // 2 + 2, top // 3, top // 5, top // 7]
    for code in codes:
        text = dtypes.decimal(dtype, code)
        assert int(dtypes.hexadecimal(dtype, code), 16) == code
        if not dtypes.is_float(dtype):
            assert int(text) == exact.decode(dtype, code), f"{dtype} {code}: {text}"
        elif exact.decode(dtype, code) == "nan":
            assert text == "nan", f"{dtype} {code}: {text}"
        else:
            back = int(dtypes.encode(dtype, np.array([float(text)]))[0])
            assert back == code, f"{dtype} {code:#x}: {text} is {back:#x}"


@pytest.mark.parametrize(
    ("dtype", "code", "decimal", "hexadecimal"),
    [
        ("float32", 0x3F800000, "1.0", "0x3f800000"),
        ("float32", 0x3DCCCCCD, "0.1", "0x3dcccccd"),
        ("float32", 0x80000000, "-0.0", "0x80000000"),
        ("float32", 0x00000001, "1e-45", "0x00000001"),
        ("float32", 0xFF800000, "-inf", "0xff800000"),
        ("float16", 0x2E66, "0.1", "0x2e66"),
        ("float16", 0x7C00, "inf", "0x7c00"),
        ("bfloat16", 0x3DCD, "0.10009765625", "0x3dcd"),
        ("float8_e4m3fn", 0x7F, "nan", "0x7f"),
        ("float4_e2m1fn", 0x8, "-0.0", "0x8"),
        ("int4", 0xF, "-1", "0xf"),
        ("int2", 2, "-2", "0x2"),
        ("uint16", 0xFFFF, "65535", "0xffff"),
    ],
)
def test_decimal_and_hexadecimal(dtype: str, code: int, decimal: str, hexadecimal: str) -> None:
    assert (dtypes.decimal(dtype, code), dtypes.hexadecimal(dtype, code)) == (decimal, hexadecimal)


@pytest.mark.parametrize("dtype", dtypes.UNIT_EXPONENT)
def test_small_floats_are_whole_units(dtype: str) -> None:
    """`product_to_odd` needs it: each finite value is an integer of fewer than 34 bits times the unit."""
    numbers = [exact.decode(dtype, code) for code in range(1 << BITS[dtype])]
    units = [n / Fraction(2) ** dtypes.UNIT_EXPONENT[dtype] for n in numbers if isinstance(n, Fraction)]
    assert {unit.denominator for unit in units} == {1}
    assert min(abs(unit) for unit in units if unit) == 1
    assert max(units) - min(units) < 2**35


# -- casts ----------------------------------------------------------------------------------------------


@st.composite
def float64s(draw: st.DrawFn) -> float:
    """Any float64, or one at, or a few float64 steps beside, a number or a midpoint of an output type."""
    if draw(st.integers(0, 3)) == 0:
        return draw(st.floats(width=64))
    dtype = draw(st.sampled_from(OUTPUTS))
    width = BITS[dtype]
    code = draw(st.integers(0, (1 << (width - 1)) - 1))
    below, above = exact.decode(dtype, code), exact.decode(dtype, code + 1)
    if isinstance(below, str) or isinstance(above, str):
        # Beside the threshold of overflow: halfway from the largest number to the next power of two.
        mantissa = dtypes.MANTISSA_BITS[dtype]
        number = 2.0 ** (16 if dtype == "float16" else 128) * (1 - 2.0 ** -(mantissa + 2))
    else:
        number = float(draw(st.sampled_from([below, (below + above) / 2])))
    for _ in range(draw(st.integers(0, 2))):
        number = math.nextafter(number, draw(st.sampled_from([-math.inf, math.inf])))
    return -number if draw(st.booleans()) else number


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


@FEW
@given(st.lists(float64s(), min_size=1, max_size=20))
def test_float32_to_odd_is_its_definition(numbers: list[float]) -> None:
    finite = [number for number in numbers if math.isfinite(number)]
    got = [int(code) for code in rounding.float32_to_odd(np.array(finite))]
    zero = {False: 0, True: 0x80000000}
    want = [truncated_and_odd(Fraction(n)) if n else zero[math.copysign(1, n) < 0] for n in finite]
    shown = [(n.hex(), hex(g), hex(w)) for n, g, w in zip(finite, got, want, strict=True) if g != w]
    assert not shown, f"(number, got, expected) {shown[:3]}"


@pytest.mark.parametrize(
    ("number", "code"), [(math.inf, 0x7F800000), (-math.inf, 0xFF800000), (1e300, 0x7F7FFFFF), (-1e-300, 0x80000001)]
)
def test_float32_to_odd_at_the_ends(number: float, code: int) -> None:
    assert int(rounding.float32_to_odd(np.array([number]))[0]) == code


@FEW
@given(st.lists(st.integers(0, 0xFFFFFFFF), min_size=1, max_size=50), st.sampled_from([0, 0x7FFF, 0x8000, 0x8001]))
def test_float32_to_bfloat16(codes: list[int], low_half: int) -> None:
    mixed = [*codes, *((code & 0xFFFF0000) | low_half for code in codes)]
    got = rounding.float32_to_bfloat16(np.array(mixed, np.uint32)).tolist()
    want = [exact.round_to("bfloat16", exact.decode("float32", code)) for code in mixed]
    assert got == want


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
    """If this fails, the reason for a cast of our own is gone."""
    number = np.array([1 + 2.0**-8 + 2.0**-40])
    assert int(number.astype(ml_dtypes.bfloat16).view(np.uint16)[0]) == 0x3F80


# -- products and quotients -----------------------------------------------------------------------------


def check_combined(combine: str, difference: int, exponent: int, factor: float) -> None:
    """One product or quotient: once rounded to each output type it must be as the fraction is."""
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


@settings(max_examples=1000, deadline=None)
@given(
    st.sampled_from(["product", "quotient"]),
    st.integers(1 - 2**35, 2**35 - 1),
    st.sampled_from([0, -1, -9, -16, -17]),
    factors,
)
def test_products_and_quotients(combine: str, difference: int, exponent: int, factor: float) -> None:
    check_combined(combine, difference, exponent, factor)


@settings(max_examples=500, deadline=None)
@given(
    st.integers(1 << 22, (1 << 23) - 1),
    st.integers(24, 34),
    st.sampled_from([-1, 0, 1]),
    st.sampled_from([0, -17]),
    st.booleans(),
)
def test_products_beside_a_tie(half: int, bit: int, offset: int, exponent: int, negative: bool) -> None:
    """difference * factor is offset from an odd multiple of 2**bit, by inverting the factor modulo a power of two."""
    factor = 2 * half + 1
    difference = ((1 << bit) + offset) * pow(factor, -1, 1 << (bit + 1)) % (1 << (bit + 1))
    assert (difference * factor - offset) % (1 << (bit + 1)) == 1 << bit
    check_combined("product", -difference if negative else difference, exponent, float(factor))


@settings(max_examples=500, deadline=None)
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
    """float16 of the exact product is 1675; of the product once rounded to float32, 1676."""
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
    """Exact, or strictly between its neighbours with an odd last bit; also just beside a float64."""
    beside = Fraction(whole) + Fraction(offset, a + 1)
    for magnitude in (Fraction(a, b), Fraction(a), beside):
        value = -magnitude if negative else magnitude
        got = rounding.fraction_to_odd(value)
        last_bit = struct.unpack("<Q", struct.pack("<d", got))[0] & 1
        below, above = (Fraction(math.nextafter(got, end)) for end in (-math.inf, math.inf))
        right = Fraction(got) == value or (below < value < above and last_bit == 1)
        assert right, f"{value} became {got.hex()}"
    assert rounding.fraction_to_odd(Fraction(0)).hex() == "0x0.0p+0"


# -- classes and distances ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_classes_of_every_16_bit_code(dtype: str) -> None:
    codes = all_codes(dtype)
    values = [exact.decode(dtype, int(code)) for code in codes]
    smallest = Fraction(rounding.smallest_normal(dtype))
    assert smallest == exact.decode(dtype, 1 << dtypes.MANTISSA_BITS[dtype])
    assert bits.is_nan(codes, dtype).tolist() == [value == "nan" for value in values]
    subnormal = [isinstance(value, Fraction) and 0 < abs(value) < smallest for value in values]
    assert rounding.is_subnormal(codes, dtype).tolist() == subnormal
    canonical = bits.canonical(codes, dtype)
    kept = [c if v != "nan" else 0xFFFF for c, v in zip(codes.tolist(), values, strict=True)]
    assert canonical.tolist() == kept


@pytest.mark.parametrize(
    ("code", "nan", "subnormal"),
    [
        (0x00000000, False, False),
        (0x80000000, False, False),
        (0x00000001, False, True),
        (0x807FFFFF, False, True),
        (0x00800000, False, False),
        (0x80800000, False, False),
        (0x7F7FFFFF, False, False),
        (0x7F800000, False, False),
        (0xFF800000, False, False),
        (0x7F800001, True, False),
        (0xFF800001, True, False),
        (0x7FC00000, True, False),
        (0xFFFFFFFF, True, False),
    ],
)
def test_classes_of_float32(code: int, nan: bool, subnormal: bool) -> None:
    codes = np.array([code], np.uint32)
    got = bool(bits.is_nan(codes, "float32")[0]), bool(rounding.is_subnormal(codes, "float32")[0])
    assert got == (nan, subnormal), f"{code:#010x}: (NaN, subnormal) is {got}"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_distance_is_the_number_of_steps(dtype: str) -> None:
    """Every number has a rank among all; -0 comes just before +0. The distance is the difference of ranks."""
    codes = all_codes(dtype).tolist()
    numbers = [(exact.decode(dtype, code), code) for code in codes]
    place = {"-inf": -(10**50), "inf": 10**50, "-0": 0}

    def rank_key(entry: tuple[exact.Value, int]) -> tuple[Fraction, bool]:
        value = entry[0]
        return (Fraction(place[value]) if isinstance(value, str) else value, value != "-0")

    ordered = [code for _, code in sorted((e for e in numbers if e[0] != "nan"), key=rank_key)]
    rank = {code: number for number, code in enumerate(ordered)}
    generator = np.random.default_rng(1)
    a, b = (generator.choice(np.array(ordered, np.uint16), 20000) for _ in range(2))
    want = [abs(rank[x] - rank[y]) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert bits.ulp_distance(a, b, dtype).tolist() == want
    assert bits.ulp_distance(b, a, dtype).tolist() == want
    neighbours = bits.ulp_distance(np.array(ordered[:-1], np.uint16), np.array(ordered[1:], np.uint16), dtype)
    assert set(neighbours.tolist()) == {1}


@pytest.mark.parametrize(
    ("a", "b", "distance"),
    [
        (0x3F800000, 0x3F800000, 0),
        (0x3F800000, 0x3F800001, 1),
        (0x00000000, 0x80000000, 1),
        (0x00000001, 0x80000001, 3),
        (0x7F7FFFFF, 0x7F800000, 1),
        (0x7F800000, 0xFF800000, 2 * 0x7F800000 + 1),
        (0x7FC00000, 0xFFFFFFFF, 0),
        (0x7FC00000, 0x3F800000, -1),
        (0x7F800000, 0x7F800001, -1),
    ],
)
def test_distances_of_float32(a: int, b: int, distance: int) -> None:
    one, other = np.array([a], np.uint32), np.array([b], np.uint32)
    assert bits.ulp_distance(one, other, "float32").tolist() == [distance]
    assert bits.ulp_distance(other, one, "float32").tolist() == [distance]


def test_this_process_keeps_subnormals() -> None:
    assert bits.subnormals_work()
