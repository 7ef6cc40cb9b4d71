"""All range recipes of the search: names, classes of equal recipes, and shared stages."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from range_operands import DTYPES, RANGES, codes_of, compositions, ends_of, operands_of

from xverify.arithmetic.range_affine import Affine
from xverify.arithmetic.range_lattice import RANGE_READINGS, by_name, evaluate_all, range_lattice
from xverify.arithmetic.range_scaled import Scaled
from xverify.arithmetic.reading import Operands
from xverify.core.bits import canonical


def table(dtype: str, narrow_range: bool, out: str, seed: int = 1) -> Operands:
    """Many codes (all of 8-bit types) in every special range."""
    low, high = ends_of(RANGES)
    codes = codes_of(dtype, 96, np.random.default_rng(seed))
    return operands_of(dtype, codes, low[:, None], high[:, None], narrow_range, out)


def test_names_and_words_tell_the_recipes_apart_and_names_find_them() -> None:
    assert len({reading.name for reading in RANGE_READINGS}) == len(RANGE_READINGS)
    assert len({reading.words for reading in RANGE_READINGS}) == len(RANGE_READINGS)
    assert all(by_name(reading.name) is reading for reading in RANGE_READINGS)
    with pytest.raises(KeyError):
        by_name("affine-from-nowhere")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("out", ["float32", "bfloat16"])
def test_a_simplified_recipe_gives_the_same_bits(dtype: str, out: str) -> None:
    left_out, start = 0, 2 * (out == "bfloat16")
    others = compositions(Affine, 50, len(dtype)) + compositions(Scaled, 50, len(dtype))
    for narrow_range, searched in zip(
        (False, True), (RANGE_READINGS[start::4], RANGE_READINGS[start + 1 :: 4]), strict=True
    ):
        some = (*searched, *others)
        operands = table(dtype, narrow_range, out)
        simple = {reading: reading.simplified(operands) for reading in some}
        changed = [reading for reading in some if simple[reading] != reading]
        left_out += len(changed)
        for some_changed in (changed[start : start + 200] for start in range(0, len(changed), 200)):
            pairs = zip(
                some_changed,
                evaluate_all(some_changed, operands),
                evaluate_all([simple[reading] for reading in some_changed], operands),
                strict=True,
            )
            for reading, codes, again in pairs:
                equal = np.array_equal(canonical(codes, out), canonical(again, out))
                assert equal, f"{reading.name} and {simple[reading]} of {dtype}"
                assert simple[reading].simplified(operands) == simple[reading]
    assert left_out > 250


@pytest.mark.parametrize(("dtype", "narrow_range"), [*product(DTYPES, (False, True))])
def test_the_lattice_has_one_recipe_of_each_class_in_order(dtype: str, narrow_range: bool) -> None:
    operands = table(dtype, narrow_range, "float32")
    lattice = range_lattice(operands)
    assert len({reading.simplified(operands) for reading in lattice}) == len(lattice) < len(RANGE_READINGS) * 0.7
    places = {reading: index for index, reading in enumerate(RANGE_READINGS)}
    assert [places[reading] for reading in lattice] == sorted(places[reading] for reading in lattice)
    classes = {reading.simplified(operands): reading for reading in lattice}
    for reading in RANGE_READINGS:
        assert places[classes[reading.simplified(operands)]] <= places[reading]


def test_types_and_narrow_range_decide_which_recipes_differ_and_codes_do_not() -> None:
    assert range_lattice(table("int8", False, "float32", 1)) is range_lattice(table("int8", False, "float32", 2))
    sizes = {
        (dtype, narrow_range): len(range_lattice(table(dtype, narrow_range, "float32")))
        for dtype in DTYPES
        for narrow_range in (False, True)
    }
    assert sizes["uint8", False] < sizes["uint8", True] < sizes["int8", False] < sizes["int32", False]


def test_sharing_stages_changes_nothing() -> None:
    rng = np.random.default_rng(5)
    for dtype, out in product(DTYPES, ("float32", "bfloat16")):
        operands = table(dtype, bool(rng.integers(2)), out)
        some = [RANGE_READINGS[index] for index in rng.choice(len(RANGE_READINGS), 100, replace=False)]
        for reading, codes in zip(some, evaluate_all(some, operands), strict=True):
            assert codes.shape == operands.shape
            assert np.array_equal(codes, canonical(reading.evaluate(operands), out)), reading.name


def test_recipes_near_the_texts_come_first() -> None:
    places = {reading.name: index for index, reading in enumerate(RANGE_READINGS)}
    near, far = "scaled-float32-flushed", "scaled-by-values-float64-in-float64-flushed"
    assert places["scaled-float32"] < places[near] < places[far]
    assert (
        places[Affine(subnormals="flushed").name] < places[Affine("zero", snap="snapped-float32", steps="float64").name]
    )
