"""The recipes of input * factor against fractions, stage by stage, and against values by hand."""

from __future__ import annotations

import exact_ranges
import numpy as np
from range_operands import DTYPES, RANGES, codes_of, compositions, elements_of, ends_of, operands_of

from xverify.arithmetic.range_readings import ScaledByFloat
from xverify.arithmetic.range_scaled import SCALED_RECIPES, Scaled
from xverify.core.bits import canonical


def test_every_recipe_is_what_its_stages_say() -> None:
    """Each recipe gets one of the types, with random codes, ranges and options."""
    for index, recipe in enumerate((*SCALED_RECIPES, *compositions(Scaled, 300, 0))):
        rng = np.random.default_rng(index)
        dtype, narrow_range = DTYPES[index % 5], bool(rng.integers(2))
        low, high = ends_of(tuple(RANGES[n] for n in rng.choice(len(RANGES), 3)))
        operands = operands_of(dtype, rng.choice(codes_of(dtype, 40, rng), 3), low, high, narrow_range, "float32")
        got = canonical(np.asarray(recipe.evaluate(operands)), "float32")
        for element, code in zip(elements_of(operands), got, strict=True):
            want = np.array([exact_ranges.scaled(recipe, element)], np.uint32)
            assert canonical(want, "float32")[0] == code, f"{recipe.name}: {element}"


def value(recipe: Scaled, dtype: str, code: int, low: float, high: float, narrow_range: bool = False) -> float:
    bottom, top = ends_of(((low, high),))
    operands = operands_of(
        dtype, np.array([code], dtype).view("u" + dtype.lstrip("u")), bottom, top, narrow_range, "float32"
    )
    return float(np.asarray(recipe.evaluate(operands)).view(np.float32)[0])


def test_values_worked_out_by_hand() -> None:
    assert value(Scaled(), "int8", -64, -8.0, 1.0) == -4.0
    assert value(Scaled(), "uint8", 51, -8.0, 5.0) == 1.0
    assert value(Scaled("highest"), "int8", 127, -8.0, 1.0) == 1.0
    assert value(Scaled("lowest"), "int8", -128, -8.0, 100.0) == -8.0
    assert value(Scaled("smaller"), "int8", -128, -8.0, 127.0) == -8.0
    assert value(Scaled("magnitude"), "int8", -127, -254.0, 1.0) == -254.0
    assert value(Scaled("span"), "uint8", 255, -254.0, 1.0) == 255.0
    assert value(Scaled("magnitude", "values"), "int8", 64, -4.0, 1.0) == 2.0
    assert value(Scaled("magnitude", "levels"), "int8", 51, -5.0, 1.0) == 1.0
    assert value(Scaled("magnitude", "half-levels"), "int8", 51, -5.0, 1.0) == 2.0
    assert value(Scaled("highest", "signed-bound"), "uint8", 254, 0.0, 1.0) == 2.0
    assert value(Scaled("highest", "none"), "uint8", 3, 0.0, 1.5) == 4.5
    assert value(Scaled(clamp="clamped"), "int8", -128, -4.0, 127.0) == -4.0


def test_of_an_unsigned_type_only_a_narrow_range_has_a_lowest_value_to_divide_by() -> None:
    larger = Scaled("larger")
    assert value(larger, "uint8", 100, 0.75, 1.0, narrow_range=True) == 75.0
    assert value(larger, "uint8", 51, 0.75, 5.0) == 1.0
    assert value(Scaled(), "uint8", 51, 0.75, 5.0, narrow_range=True) == 1.0


def test_equal_quotients_give_the_first_ones_sign() -> None:
    """C++'s std::max, which the text calls, returns its first argument unless that is smaller."""
    factor = value(Scaled(), "int8", 1, 0.0, 1e-45)
    assert factor == 0.0
    assert np.signbit(factor)


def test_flushing_differs_only_where_something_is_subnormal() -> None:
    kept, flushed = Scaled(), Scaled(subnormals="flushed")
    assert flushed.name == "scaled-float32-flushed"
    for low, high in ((-1.0, 1.0), (0.0, 3.0), (-1e-30, 1e-33)):
        assert value(flushed, "int16", 300, low, high) == value(kept, "int16", 300, low, high) != 0.0
    assert value(kept, "int16", 300, -1.0, 2.0**-120) != 0.0
    low, high = -(2.0**-112), 2.0**-112
    assert value(kept, "int16", 300, low, high) != 0.0
    assert value(flushed, "int16", 300, low, high) == 0.0
    undivided = [Scaled("highest", "none", subnormals=s) for s in ("kept", "results-flushed", "flushed")]
    assert [value(recipe, "uint8", 200, 0.0, 2.0**-130) for recipe in undivided] == [200 * 2.0**-130, 0.0, 0.0]


def test_of_unsigned_types_the_composed_recipe_is_the_admitted_one() -> None:
    rng = np.random.default_rng(3)
    low, high = ends_of(RANGES)
    for dtype in ("uint8", "uint16"):
        operands = operands_of(dtype, codes_of(dtype, 64, rng), low[:, None], high[:, None], True, "float32")
        composed, admitted = (r.evaluate(operands) for r in (Scaled(), ScaledByFloat(input_rounded=True)))
        assert np.array_equal(canonical(composed, "float32"), canonical(admitted, "float32"))
