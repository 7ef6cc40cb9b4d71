"""Values, classes and distances of codes, against fractions and against values by hand."""

from __future__ import annotations

import ctypes
import math
from fractions import Fraction
from pathlib import Path

import exact
import numpy as np
import pytest
from drawn_floats import as_value
from flushing_library import SOURCE
from native_compiler import compiled

from xverify.core import bits, dtypes, fenv, rounding
from xverify.core.call import BITS, code_dtype

NARROW = tuple(dtype for dtype, width in BITS.items() if width <= 8)


def all_codes(dtype: str) -> np.ndarray:
    return np.arange(1 << BITS[dtype], dtype=code_dtype(dtype))


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
    ("float6_e2m3fn", {0: 0.0, 1: 2.0**-3, 7: 0.875, 8: 1.0, 15: 1.875, 31: 7.5, 0x20: -0.0, 0x3F: -7.5}),
    ("float6_e3m2fn", {0: 0.0, 1: 2.0**-4, 3: 0.1875, 4: 0.25, 12: 1.0, 31: 28.0, 0x20: -0.0, 0x3F: -28.0}),
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


@pytest.mark.parametrize("dtype", [dtype for dtype in BITS if dtype not in ("int64", "uint64", "uint32")])
def test_values_of_every_type_are_float64(dtype: str) -> None:
    """float64 holds the products of all types. float32 would round them a second time."""
    assert dtypes.values(dtype, np.zeros(2, code_dtype(dtype))).dtype == np.float64


@pytest.mark.parametrize("dtype", dtypes.INTEGERS)
def test_ranges_of_integers(dtype: str) -> None:
    bits_of = int(dtype.removeprefix("u").removeprefix("int"))
    signed = (-(2 ** (bits_of - 1)), 2 ** (bits_of - 1) - 1)
    assert dtypes.integer_range(dtype) == ((0, 2**bits_of - 1) if dtype.startswith("u") else signed)


def test_smallest_normal_numbers() -> None:
    begins = {dtype: (2.0 ** dtypes.MIN_EXPONENT[dtype], 1 << dtypes.MANTISSA_BITS[dtype]) for dtype in dtypes.FLOATS}
    assert begins == {"float32": (2.0**-126, 0x800000), "float16": (2.0**-14, 0x400), "bfloat16": (2.0**-126, 0x80)}


def test_inputs_that_are_not_representable_are_rounded_once_and_without_a_word() -> None:
    """In float32 the first number would be halfway, and become 1."""
    with np.errstate(all="raise", under="ignore"):
        codes = dtypes.encode("float16", np.array([1 + 2.0**-11 + 2.0**-30, 1e300, np.nan]))
        signalling = np.array([0x7FF0000000000001], np.uint64).view(np.float64)
        assert all(np.isnan(dtypes.floats(dtype, dtypes.encode(dtype, signalling))) for dtype in dtypes.FLOATS)
        assert dtypes.floats("float32", np.array([0x7F800001], np.uint32)).tolist() != [0.0]
        assert dtypes.floats("float16", np.array([0x7C01], np.uint16)).tolist() != [0.0]
    assert codes.tolist()[:2] == [0x3C01, 0x7C00]
    assert dtypes.encode("uint32", np.array([3e9])).tolist() == [3_000_000_000]


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
        ("float64", 0x3FF8000000000001, "1.5000000000000002", "0x3ff8000000000001"),
    ],
)
def test_decimal_and_hexadecimal(dtype: str, code: int, decimal: str, hexadecimal: str) -> None:
    assert (dtypes.decimal(dtype, code), dtypes.hexadecimal(dtype, code)) == (decimal, hexadecimal)


@pytest.mark.parametrize("dtype", dtypes.UNIT_EXPONENT)
def test_small_floats_are_whole_units(dtype: str) -> None:
    """`product_to_odd` needs it: each finite value is an integer of fewer than 34 bits times the unit."""
    right, instead_of_nan = dtypes.NAN_AS_NUMBER.get(dtype, (dtype, {}))
    numbers = [exact.decode(right, code) for code in range(1 << BITS[right])]
    numbers += [Fraction(number) for number in instead_of_nan.values()]
    units = [n / Fraction(2) ** dtypes.UNIT_EXPONENT[dtype] for n in numbers if isinstance(n, Fraction)]
    assert {unit.denominator for unit in units} == {1}
    assert min(abs(unit) for unit in units if unit) == 1
    assert max(units) - min(units) < 2**35


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
    is_nan, is_small = bits.is_nan(codes, dtype).tolist(), subnormal
    # The function is called for one code at a time, so only for codes beside a change of class and for some others.
    edges = {n for n in range(1, len(codes)) if (is_nan[n], is_small[n]) != (is_nan[n - 1], is_small[n - 1])}
    for index in sorted(edges | {n - 1 for n in edges} | set(range(0, len(codes), 61))):
        code = codes[index]
        assert bits.kinds(np.array([code]), dtype) == (is_nan[index], is_small[index]), f"{code:#06x}"


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
    assert bits.kinds(codes, "float32") == (nan, subnormal)


def test_kinds_finds_one_code_among_many() -> None:
    """One such code counts anywhere, beside larger and smaller codes. The codes do not change."""
    usual = np.array([0x7F800000, 0, 0x3F800000, 0x80000000, 0x00800000, 0xFF800000], np.uint32)
    assert bits.kinds(usual, "float32") == (False, False)
    for index in range(usual.size + 1):
        for code, expected in ((0x7F800001, (True, False)), (0x80000001, (False, True)), (0x007FFFFF, (False, True))):
            codes = np.insert(usual, index, np.uint32(code))
            kept = codes.copy()
            assert bits.kinds(codes, "float32") == expected
            assert codes.tolist() == kept.tolist()
    assert bits.kinds(np.array([0xFFC00000, 1], np.uint32), "float32") == (True, True)
    assert bits.kinds(np.zeros((0, 3), np.uint32), "float32") == (False, False)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_distance_is_the_number_of_steps(dtype: str) -> None:
    """The distance is the difference of ranks among all numbers. -0 comes just before +0."""
    codes = all_codes(dtype).tolist()
    numbers = [(exact.decode(dtype, code), code) for code in codes]
    index = {"-inf": -(10**50), "inf": 10**50, "-0": 0}

    def rank_key(entry: tuple[exact.Value, int]) -> tuple[Fraction, bool]:
        value = entry[0]
        return (Fraction(index[value]) if isinstance(value, str) else value, value != "-0")

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


def test_a_process_that_flushes_subnormals_is_noticed(tmp_path: Path) -> None:
    source = tmp_path / "flush.c"
    source.write_text(SOURCE, encoding="utf-8")
    library = ctypes.CDLL(str(compiled(source, tmp_path)))
    assert bits.subnormals_work()
    with fenv.preserved():
        library.flush_subnormals()
        flushes = not bits.subnormals_work()
    assert flushes
    assert bits.subnormals_work()
