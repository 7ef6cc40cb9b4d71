"""The affine range recipes against fractions, and against the admitted readings among them."""

from __future__ import annotations

import exact_ranges
import numpy as np
from range_operands import DTYPES, RANGES, codes_of, compositions, elements_of, ends_of, operands_of

from xverify import contracts
from xverify.arithmetic.range_affine import Affine
from xverify.arithmetic.range_lattice import RANGE_READINGS
from xverify.arithmetic.range_readings import MinCombined, MinFirst
from xverify.arithmetic.range_stages import fused
from xverify.arithmetic.reading import Reading
from xverify.core.bits import canonical
from xverify.core.call import Call
from xverify.strategies import build
from xverify.strategies.structures import Range

TF = contracts.get("tensorflow/Dequantize@installed")
AFFINE = [reading for reading in RANGE_READINGS if isinstance(reading, Affine)]


def call_of(dtype: str, mode: str, recipe: str, seed: int, shape: tuple[int, ...] = (9,)) -> Call:
    return build(TF, Range(dtype, mode, shape, range_recipe=recipe, seed=seed))


def test_every_recipe_is_what_its_stages_say() -> None:
    """Each recipe gets one of the types, with random codes, ranges and options."""
    for index, recipe in enumerate((*AFFINE, *compositions(Affine, 300, 0))):
        rng = np.random.default_rng(index)
        dtype, narrow_range = DTYPES[index % 5], bool(rng.integers(2))
        out = "float32" if recipe.out == "nearest" and rng.integers(4) else "bfloat16"
        low, high = ends_of(tuple(RANGES[n] for n in rng.choice(len(RANGES), 3)))
        operands = operands_of(dtype, rng.choice(codes_of(dtype, 40, rng), 3), low, high, narrow_range, out)
        got = canonical(np.asarray(recipe.evaluate(operands)), out)
        for element, code in zip(elements_of(operands), got, strict=True):
            want = np.array([exact_ranges.affine(recipe, element)], got.dtype)
            assert canonical(want, out)[0] == code, f"{recipe.name}: {element}"


def same(a: Reading, b: Reading, call: Call) -> bool:
    operands = TF.operands(call)
    x, y = (canonical(np.ascontiguousarray(r.evaluate(operands)), operands.output_dtype) for r in (a, b))
    return bool(np.array_equal(x, y))


def test_the_admitted_readings_that_are_compositions_give_the_same_bits() -> None:
    combined = Affine("lowest-of-int8", "float32", "float32", "kept", "float32", "kept")
    wide = Affine("lowest-of-int8", "float64", "float64", "kept", "float64", "kept")
    first = Affine("lowest", "float64", "float64", "kept", "float64", form="adjusted")
    # int32 is left out where its half range would be added before or after the cast, which differ.
    for seed, dtype in enumerate(("int8", "uint8", "uint16", "int16") * 8):
        recipe = ("drawn", "symmetric", "narrow", "wide", "tiny", "from-zero", "to-zero", "grid")[seed // 4]
        call = call_of(dtype, "MIN_COMBINED", recipe, seed, (64,))
        assert same(combined, MinCombined("float32", factor_first=True), call), (dtype, recipe)
        assert same(wide, MinCombined("float64", factor_first=True), call), (dtype, recipe)
        assert same(first, MinFirst(), call), (dtype, recipe)


def value(recipe: Affine, dtype: str, code: int, low: float, high: float, narrow_range: bool = False) -> float:
    bottom, top = ends_of(((low, high),))
    operands = operands_of(
        dtype, np.array([code], dtype).view("u" + dtype.lstrip("u")), bottom, top, narrow_range, "float32"
    )
    return float(np.asarray(recipe.evaluate(operands)).view(np.float32)[0])


def test_values_worked_out_by_hand() -> None:
    assert value(Affine("lowest"), "int8", -128, 10.0, 265.0) == 10.0
    assert value(Affine("zero"), "int8", -128, 10.0, 265.0) == -118.0
    assert value(Affine("half"), "uint8", 0, 10.0, 265.0) == 138.0
    assert value(Affine("above-lowest"), "uint8", 1, 10.0, 265.0) == 10.5
    assert value(Affine("below-lowest"), "int8", -128, 10.0, 265.0) == 10.5
    assert value(Affine("lowest-folded"), "int8", 27, 10.0, 265.0) == 165.0
    assert value(Affine(form="values"), "uint8", 3, 0.0, 256.0) == 3.0
    assert value(Affine("zero", clamp="clamped"), "int8", -128, 10.0, 265.0) == 10.0
    assert value(Affine("lowest", narrow="as-told"), "int8", -127, 10.0, 264.0, narrow_range=True) == 10.0
    assert value(Affine("lowest", narrow="as-told"), "int8", -127, 10.0, 265.0, narrow_range=False) == 11.0
    assert value(Affine("lowest", narrow="always"), "int8", -126, 10.0, 264.0) == 11.0
    assert value(Affine("lowest", narrow="levels-always"), "int8", -127, 10.0, 264.0) == 11.0
    assert value(Affine(snap="snapped"), "uint8", 0, -1.5, 253.5) == -2.0
    assert value(Affine(snap="snapped-float32"), "uint8", 0, 1.25, 256.25) == 1.0


def test_a_fused_sum_is_rounded_once() -> None:
    """3 * (1 + 2^-23) lies between two floats. Adding -3 without rounding it leaves 3 * 2^-23."""
    low, high = -3.0, 252.0 + 2.0**-15
    assert value(Affine(), "uint8", 3, low, high) == 2.0**-21
    assert value(Affine(steps="fused"), "uint8", 3, low, high) == 3 * 2.0**-23
    assert value(Affine(steps="float64"), "uint8", 3, low, high) == 3 * 2.0**-23


def test_a_fused_sum_that_is_a_tie_in_float64_goes_the_right_way() -> None:
    """The product is 2^-24 + 2^-70. Added to 1, its last bit does not fit in float64."""
    parts = (2.0**23 + 2.0**12 + 1, (2.0**23 - 2.0**12 + 1) * 2.0**-70, 1.0)
    for sign in (1.0, -1.0):
        moved, factor, base = (np.array([part], np.float32) for part in (parts[0], sign * parts[1], sign))
        assert fused(moved, factor, base) == [sign * (1 + 2.0**-23)]


def test_flushed_inputs_are_zero_and_flushed_results_are() -> None:
    kept, results, both = (Affine(subnormals=which) for which in ("kept", "results-flushed", "flushed"))
    assert value(kept, "uint8", 255, 0.0, 255 * 2.0**-140) == 255 * 2.0**-140
    assert value(results, "uint8", 255, 0.0, 255 * 2.0**-140) == 0.0
    low, high = 2.0**-130, 255 * 2.0**-126 + 2.0**-130
    assert value(results, "uint8", 2, low, high) == 2.0**-125 + 2.0**-130
    assert 2.0**-125 < value(both, "uint8", 2, low, high) < 2.0**-125 + 2.0**-130
