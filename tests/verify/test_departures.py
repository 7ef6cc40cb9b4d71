"""The differences between a recipe and the nearest admitted reading, in words."""

from __future__ import annotations

import pytest

from xverify.arithmetic import indexing, range_lattice
from xverify.arithmetic.range_readings import MIN_COMBINED, MIN_FIRST, SCALED_FLOAT
from xverify.arithmetic.reading import Operands, Reading
from xverify.arithmetic.readings import EXACT, FLOAT32, OUTPUT, Stepwise, by_name
from xverify.verify.attribute import Misread, Zeros
from xverify.verify.departures import departures, in_words, shown_by_values


def linear(x: str, out: str = "float32", zero_point: bool = True, scale: str = "float32") -> Operands:
    dtypes = {"x": x, "scale": scale, **({"zero_point": x} if zero_point else {})}
    return Operands({}, dtypes, out, ())


@pytest.mark.parametrize(
    ("name", "x", "out", "admitted", "words"),
    [
        ("ignored", "int8", "float32", (EXACT,), "takes the zero point as 0"),
        ("wrap-x", "uint8", "float32", (EXACT,), "subtracts in the type of x with wrap-around"),
        ("wrap-int32+difference-float32", "int32", "float32", (EXACT, FLOAT32), "subtracts in int32 with wrap-around"),
        ("reciprocal", "int8", "float32", (EXACT,), "multiplies by the reciprocal of the scale"),
        ("exact-quotient", "int8", "float32", (EXACT,), "divides by the scale"),
        ("float32", "int32", "float32", (EXACT,), "computes in float32 throughout"),
        ("float32", "int8", "float16", (EXACT, *OUTPUT), "computes in float32 throughout"),
        ("rounded-float32", "int32", "float16", (EXACT,), "rounds the product to float32 first"),
        ("operands-output", "int32", "float32", (EXACT,), "computes in float32 throughout"),
        ("operands-output", "int32", "float32", (EXACT, FLOAT32), "casts x and the zero point to float32 first"),
        ("ignored+zero-unsigned", "int8", "float32", (EXACT,), "takes the zero point as 0 and gives 0 instead of -0"),
        ("folded", "int8", "float32", (EXACT,), "computes x * scale - zero point * scale"),
        ("operands-output", "int8", "float32", (EXACT,), ""),
    ],
)
def test_linear(name: str, x: str, out: str, admitted: tuple[Reading, ...], words: str) -> None:
    assert in_words(departures(by_name(name), admitted, linear(x, out))) == words


def test_options_that_cannot_matter_are_no_departure() -> None:
    assert departures(Stepwise("ignored"), (EXACT,), linear("int8", zero_point=False)) == ()


def test_a_departure_names_both_options() -> None:
    (departure,) = departures(by_name("ignored"), (EXACT,), linear("int8"))
    assert (departure.stage, departure.actual, departure.due) == ("subtraction", "ignored", "exact")


def test_a_recipe_that_adds_a_departure_is_left_out() -> None:
    both = Stepwise("ignored", zero="unsigned")
    for recipes, kept in (
        ((Stepwise("ignored"), both), (Stepwise("ignored"),)),
        ((both, Stepwise(zero="unsigned"), Stepwise("wrap-x")), (Stepwise(zero="unsigned"), Stepwise("wrap-x"))),
        ((both, Stepwise("wrap-x")), (both, Stepwise("wrap-x"))),
        ((), ()),
    ):
        assert shown_by_values(recipes, (EXACT,), linear("int8")) == kept


@pytest.mark.parametrize("name", ["scale-output", "operands-output"])
def test_a_cast_to_the_output_type_is_one_mistake_for_all_output_types(name: str) -> None:
    half, bfloat = (departures(by_name(name), (EXACT,), linear("int32", out)) for out in ("float16", "bfloat16"))
    assert half
    assert [(each.stage, each.actual, each.words) for each in half] == [
        (each.stage, each.actual, each.words) for each in bfloat
    ]
    assert any(each.actual.endswith("output") for each in half)


def test_a_mistake_comes_before_the_departures_of_its_reading() -> None:
    recipe = Misread(indexing.misindexing("as-per-tensor-zero-point"), FLOAT32)
    listed = departures(recipe, (EXACT,), linear("int32"))
    assert in_words(listed) == "takes the first zero point for the whole tensor and computes in float32 throughout"


def test_zeros() -> None:
    assert in_words(departures(Zeros(), (EXACT,), linear("int8"))) == "gives 0 whatever the operands"


@pytest.mark.parametrize(
    ("name", "x", "admitted", "words"),
    [
        ("scaled-float32-flushed", "uint8", SCALED_FLOAT, "flushes subnormals to zero"),
        ("scaled-from-magnitude-float32", "int8", SCALED_FLOAT, "takes the factor from the larger of |min| and |max|"),
        (
            "affine-lowest-span-float32-step-float32-in-float32", "int32", MIN_COMBINED,
            "counts the input from the lowest value of its type",
        ),
        ("affine-lowest-span-float32-step-float32-in-float32", "uint8", MIN_COMBINED, ""),
        ("scaled-float32", "int32", MIN_FIRST, "multiplies the input by one factor, as in mode SCALED"),
    ],
)  # fmt: skip
def test_ranges(name: str, x: str, admitted: tuple[Reading, ...], words: str) -> None:
    types = Operands({}, {"input": x}, "float32", (), {"narrow_range": False})
    assert in_words(departures(range_lattice.by_name(name), admitted, types)) == words
