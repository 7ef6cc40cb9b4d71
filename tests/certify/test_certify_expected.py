"""The second implementation of the formula against exact fractions, and both ways to compare results."""

from __future__ import annotations

import ast
from fractions import Fraction
from pathlib import Path

import exact
import numpy as np
import pytest
from linear_operands import OUTPUTS, SCALES, crossed, triples

from xverify.arithmetic.simplify import Types
from xverify.certify import expected, ranges
from xverify.certify.domains import NARROW, SPREAD, Differences, GivenScales, Pairs, named, names, size, spread_scales
from xverify.certify.judging import Judge, different

WHOLE = (*expected.SIGNED, *expected.UNSIGNED, *expected.FORMATS, "float8_e8m0fnu")


def same(value: float, exact_value: exact.Value) -> bool:
    if isinstance(exact_value, str):
        special = {"inf": np.inf, "-inf": -np.inf, "-0": -0.0, "nan": np.nan}[exact_value]
        return bool(
            np.array([value]).tobytes() == np.array([special]).tobytes() or (np.isnan(value) and special != special)
        )
    return value == exact_value and not (value == 0 and np.signbit(value))


def number(value: float) -> exact.Value:
    if np.isnan(value):
        return "nan"
    if np.isinf(value) or (value == 0 and np.signbit(value)):
        return {np.inf: "inf", -np.inf: "-inf", 0.0: "-0"}[value]
    return Fraction(value)


@pytest.mark.parametrize("dtype", WHOLE)
def test_codes_are_decoded_by_the_formula_of_their_format(dtype):
    count = 1 << expected.bits_of(dtype)
    step = max(1, count // 200) | 1
    codes = np.array(sorted({*range(0, count, step), count - 1, count // 2, count // 2 - 1}))
    given = codes.astype(np.uint32) if dtype == "float32" else codes
    for code, value in zip(codes.tolist(), expected.values(dtype, given).tolist(), strict=True):
        assert same(value, exact.decode(dtype, code)), (code, value)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_numbers_are_rounded_once_to_nearest_even_also_beside_every_kind_of_tie(dtype):
    form = expected.FORMATS[dtype]
    infinity = ((1 << form.exponent_bits) - 1) << form.mantissa_bits
    rng = np.random.default_rng(5)
    drawn = rng.integers(0, infinity, 120).tolist()
    codes = [0, 1, 2, 3, (1 << form.mantissa_bits) - 1, 1 << form.mantissa_bits, infinity - 2, *drawn]
    middles = []
    for code in codes:
        low, high = (exact.decode(dtype, c) for c in (code, code + 1))
        middles.append(float((low + high) / 2))
    middles += [float(exact.decode(dtype, infinity - 1)) * (1 + 2.0 ** -(form.mantissa_bits + 2)), 0.0, np.inf]
    beside = [f for m in middles for f in (m, np.nextafter(m, 0), np.nextafter(m, np.inf), m * 1.0000001)]
    numbers = np.array([*beside, *(-f for f in beside), 2.0**-166, 2.0**200, np.nan])
    got = expected.rounded(numbers, dtype)
    due = np.array([exact.round_to(dtype, number(value)) for value in numbers.tolist()])
    assert not different(got, due.astype(got.dtype), dtype).any()


@pytest.mark.parametrize("x", [*NARROW, "int16", "uint16"])
@pytest.mark.parametrize("scale", SCALES)
def test_every_recipe_gives_what_fractions_give(x, scale):
    rng = np.random.default_rng([*x.encode(), *scale.encode()])
    for out in OUTPUTS:
        for zero_point in (x, ""):
            types = Types(x, zero_point, scale, out)
            few, many = crossed(types, 2, 7), triples(types, 40, 7)
            names_of_recipes = rng.permutation(list(expected.RECIPES))[:3] if zero_point else ["exact", "float32"]
            for operands in (few, many):
                codes = {role: np.asarray(listed) for role, listed in operands.codes.items()}
                some = rng.permutation(codes["x"].size)[:7]
                codes = {role: listed[some] for role, listed in codes.items()}
                given = {role: expected.values(operands.dtypes[role], listed) for role, listed in codes.items()}
                for name in names_of_recipes:
                    recipe = expected.RECIPES[name]
                    simple = expected.simplified(recipe, x, bool(zero_point), scale, out)
                    due = [
                        exact.LINEAR[name](
                            exact.Triple(
                                exact.decode(x, int(codes["x"][i])),
                                exact.decode(x, int(codes["zero_point"][i])) if zero_point else Fraction(0),
                                exact.decode(scale, int(codes["scale"][i])),
                                out,
                            )
                        )
                        for i in range(some.size)
                    ]
                    for one in {recipe, simple}:
                        away = expected.difference(one, given["x"], given.get("zero_point"), out)
                        got = expected.result(one, away, given["scale"], out)
                        wrong = different(got, np.array(due, got.dtype), out)
                        assert not wrong.any(), (name, one, out, {r: hex(int(c[wrong][0])) for r, c in codes.items()})


def test_a_product_of_more_than_53_bits_is_not_rounded_twice():
    """57344 - 1.5 * 2^-16 times a 24-bit mantissa has 58 bits. Some of the products are near a tie."""
    away = np.array([57344 - 1.5 * 2.0**-16, 57344 + 2.0**-16])
    rng = np.random.default_rng(1)
    scales = rng.integers(0x3F800000, 0x40000000, 300).astype(np.uint32).view(np.float32).astype(np.float64)
    got = expected.result(expected.RECIPES["exact"], away[:, None], scales[None, :], "float32")
    due = [[exact.round_to("float32", Fraction(a) * Fraction(s)) for s in scales.tolist()] for a in away.tolist()]
    assert got.tolist() == due


def test_the_second_author_reads_neither_the_kernels_nor_the_readings():
    source = Path(expected.__file__).read_text(encoding="utf-8")
    imported = {
        getattr(node, "module", None) or node.names[0].name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert imported == {"__future__", "collections.abc", "dataclasses", "functools", "typing", "numpy", "numpy.typing"}


# -- domains ----------------------------------------------------------------------------------------------


def codes_of(domain, part, start, stop):
    columns = domain.columns(part, start, stop)
    x = np.broadcast_to(columns.x, columns.shape)
    zero_point = np.zeros_like(columns.scale) if columns.zero_point is None else columns.zero_point
    wide = [np.broadcast_to(array[:, None], columns.shape) for array in (zero_point, columns.scale)]
    return np.stack([x, *wide], -1).reshape(-1, 3).astype(np.int64)


@pytest.mark.parametrize("has_zero_point", [True, False])
def test_pairs_hold_every_triple_once(has_zero_point):
    domain = Pairs("uint2", "float8_e8m0fnu", has_zero_point)
    found = codes_of(domain, 0, 0, domain.units)
    points = 4 if has_zero_point else 1
    assert len(found) == size(domain) == 4 * points * 256
    assert len(np.unique(found, axis=0)) == len(found)
    assert {tuple(row) for row in found.tolist()} == {
        (x, z, s) for x in range(4) for z in range(points) for s in range(256)
    }


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int8", "uint8"])
def test_a_slice_of_one_difference_has_that_difference_by_turns_from_each_pair(dtype):
    domain = Differences(dtype)
    for part in (domain.slices[0], -5, 0, 3, domain.slices[-1]):
        start = 0xFFFFFF00 - 77
        found = codes_of(domain, part, start, start + 600 if start + 600 < 1 << 32 else 1 << 32)
        x, zero_point = (expected.values(dtype, found[:, column]) for column in (0, 1))
        assert set((x - zero_point).tolist()) == {float(part)}
        assert found[:, 2].tolist() == list(range(start, start + len(found)))
        pairs = domain.count - abs(part)
        assert len(set(zero_point.tolist())) == min(pairs, len(found))
        alone = codes_of(domain, part, start + 100, start + 101)  # values do not depend on the start of the range
        assert alone.tolist() == found[100:101].tolist()


def test_given_scales_and_spread_scales_are_what_they_say():
    domain = GivenScales("int16", "float16", (0x3C00, 0x2E66))
    found = codes_of(domain, 0x2E66, 65535, 65536)
    assert found[:, 0].tolist() == list(range(65536))
    assert set(found[:, 1].tolist()) == {65535}
    assert set(found[:, 2].tolist()) == {0x2E66}
    scales = spread_scales(np.arange(SPREAD))
    assert len(np.unique(scales)) == SPREAD
    assert set((scales >> 16).tolist()) == set(range(1 << 16))
    assert {0, 1 << 31, 0x7F800000} <= set(scales[::2].tolist())


def test_every_name_is_of_the_domain_that_has_it():
    for name in names():
        assert named(name, scales=(1,)).name == name
    assert len(set(names())) == len(names())
    with pytest.raises(KeyError):
        named("int8-float64")
    with pytest.raises(ValueError, match="zero points only"):
        named("int8-float32", has_zero_point=False)


def test_ranges_are_sets_of_numbers():
    rng = np.random.default_rng(0)
    for _ in range(200):
        drawn = [sorted(rng.integers(0, 30, 2).tolist()) for _ in range(4)]
        one, other = ranges.united(drawn[:2]), ranges.united(drawn[2:])
        numbers = [{n for a, b in listed for n in range(a, b)} for listed in (one, other)]
        assert {n for a, b in ranges.without(one, other) for n in range(a, b)} == numbers[0] - numbers[1]
        assert ranges.count(one) == len(numbers[0])
        pieces = list(ranges.in_steps(one, 7))
        assert ranges.united(pieces) == one
        assert all(a // 7 == (b - 1) // 7 for a, b in pieces)


# -- comparing --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("domain", "out"),
    [
        (Pairs("int4", "float16"), "float16"),
        (Pairs("float8_e5m2", "float16"), "bfloat16"),
        (Pairs("int8", "float32"), "bfloat16"),
        (Pairs("float4_e2m1fn", "bfloat16", False), "float32"),
    ],
)
def test_looked_up_and_computed_results_are_the_same_and_one_wrong_bit_is_found(domain, out):
    judge = Judge(domain, out, tuple(expected.RECIPES))
    judge.prepare()
    start = domain.units // 3
    columns = domain.columns(0, start, start + 3)
    for name in judge.readings:
        recipe = judge.recipes[name]
        y = np.concatenate([due for _, due in judge._elementwise(recipe, columns)])
        assert name in judge.explaining((name,), columns, y, whole=True)
        assert name in judge.explaining((name,), columns, y, whole=False)
        y[1, 1] ^= 1
        assert judge.explaining((name,), columns, y, whole=True) == ()
        assert judge.explaining((name,), columns, y, whole=False) == ()


def test_the_smallest_wrong_triple_is_nearest_to_zero():
    domain = Pairs("int4", "float16")
    judge = Judge(domain, "float16", ("exact",))
    columns = domain.columns(0, 0x3C00, 0x3C04)
    y = np.concatenate([due for _, due in judge._elementwise(judge.recipes["exact"], columns)])
    # Two scales with zero points -1 (code 15) and 2; x is 3 and -3 (code 13).
    for column, code in ((2, 3), (15, 13), (15, 3), (16 + 15, 3)):
        y[column, code] ^= 1
    wrong = judge.smallest(("exact",), columns, y)
    assert (wrong.zero_point, wrong.x, wrong.scale, wrong.wrong) == (15, 3, 0x3C00, 4)
    assert wrong.got == wrong.due["exact"] ^ 1


def test_any_nan_is_any_nan_and_zeros_have_signs():
    codes = np.array([0x7E00, 0xFE01, 0x0000, 0x7C00, 0x7C01], np.uint16)
    others = np.array([0x7C01, 0x7FFF, 0x8000, 0x7C01, 0x7C00], np.uint16)
    assert different(codes, others, "float16").tolist() == [False, False, True, True, True]
