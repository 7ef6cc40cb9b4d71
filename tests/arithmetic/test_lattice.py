"""The search over compositions of the linear stages."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from lattice_oracles import surviving
from linear_operands import STAGES, crossed, drawn_reading, drawn_types, triples

from xverify.arithmetic.batch_cast import BATCH
from xverify.arithmetic.lattice import near, search, search_each, searched, simplicity, taken
from xverify.arithmetic.reading import Operands
from xverify.arithmetic.readings import (
    EXACT,
    EXACT_QUOTIENT,
    FLOAT32,
    FLOAT32_QUOTIENT,
    OUTPUT,
    Stepwise,
    by_name,
    evaluate_all,
)
from xverify.arithmetic.simplify import Types, simplified
from xverify.core.bits import canonical
from xverify.core.call import BITS

ADMITTED = (EXACT, FLOAT32, *OUTPUT)
INT8 = Types("int8", "int8", "float32", "float32")


def agrees(reading: Stepwise, operands: Operands, codes: Any) -> bool:
    out = operands.output_dtype
    return np.array_equal(canonical(reading.evaluate(operands), out), canonical(codes, out))


def neighbour(start: Stepwise, departures: int, rng: np.random.Generator) -> Stepwise:
    """A random reading that differs from an admitted one in few stages."""
    names = rng.choice(list(STAGES), departures, replace=False)
    return replace(start, **{name: STAGES[name][rng.integers(len(STAGES[name]))] for name in names})


# -- several pieces at once -------------------------------------------------------------------------------


def test_pieces_searched_together_give_the_near_readings_of_each() -> None:
    rng = np.random.default_rng(5)
    together = 0
    for turn in range(12):
        types = drawn_types(rng)
        pieces = [triples(types, int(rng.integers(2, 30)), 4 * turn + part) for part in range(4)]
        first = pieces[0]
        truths = [EXACT, drawn_reading(rng), FLOAT32, drawn_reading(rng)]
        codes = [truth.evaluate(piece) for truth, piece in zip(truths, pieces, strict=True)]
        sizes = [piece.shape[0] for piece in pieces]
        joined = {role: np.concatenate([piece.codes[role] for piece in pieces]) for role in first.codes}
        operands = Operands(joined, first.dtypes, first.output_dtype, (sum(sizes),))
        results = search_each(operands, np.concatenate(codes), sizes, ADMITTED)
        for result, piece, wanted in zip(results, pieces, codes, strict=True):
            alone = search(piece, wanted, ADMITTED)
            assert set(result) <= set(alone)
            assert result[:1] == alone[:1]
            nearest = set(near(types, ADMITTED))
            assert nearest & set(alone) == nearest & set(result)
            together += bool(result)
    assert together > 12


# -- many readings at once ------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 12), (BATCH // 3,), (BATCH + 1,)])
def test_readings_evaluated_together_give_what_each_gives_alone(shape: tuple[int, ...]) -> None:
    """The shapes are of all ranks, some too large for a batch. Each row has a scale and a zero point."""
    rng = np.random.default_rng(len(shape))
    for turn in range(4):
        types = drawn_types(rng)
        every = triples(types, math.prod(shape), turn)
        codes = {role: array.reshape(shape) for role, array in every.codes.items()}
        if len(shape) == 2:
            codes.update((role, array[:, :1]) for role, array in codes.items() if role != "x")
        operands = replace(every, codes=codes, shape=shape)
        drawn = (drawn_reading(rng, rng.random()) for _ in range(40 if every.shape[0] < 100 else 4))
        readings = tuple(dict.fromkeys((*drawn, EXACT, FLOAT32, *OUTPUT)))
        for reading, together in zip(readings, evaluate_all(readings, operands), strict=True):
            alone = reading.evaluate(operands)
            assert (together.dtype, together.shape) == (alone.dtype, alone.shape)
            assert agrees(reading, operands, together), f"{reading.name} for {types}"
        assert not evaluate_all((), operands)


# -- the search -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_a_composition_is_found_by_its_codes(seed: int) -> None:
    """The search in the whole lattice finds the simplified form, and all its results give the codes."""
    rng = np.random.default_rng(seed)
    for number in range(8):
        types, reading = drawn_types(rng), drawn_reading(rng, rng.random())
        operands = triples(types, 60, 100 * seed + number)
        codes = reading.evaluate(operands)
        results = search(operands, codes, ADMITTED, None)
        assert simplified(reading, types) in results, f"{reading.name} for {types} among {len(results)}"
        assert len(set(results)) == len(results)
        for candidate in results[:20]:
            assert agrees(candidate, operands, codes), f"{candidate.name} for {types}"
            assert simplified(candidate, types) == candidate


@pytest.mark.parametrize("seed", range(3))
def test_whatever_gives_the_codes_is_found(seed: int) -> None:
    """Random compositions, evaluated alone: the search finds exactly those that give the codes."""
    rng = np.random.default_rng(50 + seed)
    types = drawn_types(rng)
    operands = triples(types, 12, seed)
    codes = EXACT.evaluate(operands)
    results = set(search(operands, codes, ADMITTED, None))
    for _ in range(300):
        reading = drawn_reading(rng, 0.7)
        assert (simplified(reading, types) in results) == agrees(reading, operands, codes), (
            f"{reading.name} for {types}"
        )


@pytest.mark.parametrize("seed", range(3))
def test_a_near_search_finds_what_departs_in_two_stages(seed: int) -> None:
    rng = np.random.default_rng(200 + seed)
    for number in range(25):
        types, start = drawn_types(rng), ADMITTED[rng.integers(len(ADMITTED))]
        reading = neighbour(start, 2, rng)
        operands = triples(types, 40, 100 * seed + number)
        codes = reading.evaluate(operands)
        results = search(operands, codes, ADMITTED)
        assert simplified(reading, types) in results, f"{reading.name}, next to {start.name}, for {types}"
        assert all(agrees(candidate, operands, codes) for candidate in results[:20])


def test_a_near_search_of_divisions() -> None:
    rng = np.random.default_rng(7)
    admitted = (EXACT_QUOTIENT, FLOAT32_QUOTIENT)
    for number in range(25):
        reading = neighbour(admitted[number % 2], 2, rng)
        types = Types("uint8", "int32", "float32", "float32")
        operands = triples(types, 40, number)
        assert simplified(reading, types) in search(operands, reading.evaluate(operands), admitted), reading.name


def with_negative_zero(operands: Operands) -> Operands:
    """The triples with -0 less 0, and with the highest code of x less 0."""
    codes = {role: array.copy() for role, array in operands.codes.items()}
    if operands.dtypes["x"].startswith("float") and not operands.dtypes["x"].endswith("fnuz"):
        codes["x"][0] = 1 << (BITS[operands.dtypes["x"]] - 1)
    codes["x"][1] = (1 << BITS[operands.dtypes["x"]]) - 1
    if "zero_point" in codes:
        codes["zero_point"][:2] = 0
    return replace(operands, codes=codes)


def test_a_search_without_departures_finds_admitted_readings_only() -> None:
    rng = np.random.default_rng(8)
    for number in range(10):
        types = drawn_types(rng)
        operands = with_negative_zero(triples(types, 200, number))
        forms = {simplified(reading, types) for reading in ADMITTED}
        for reading in ADMITTED:
            results = search(operands, reading.evaluate(operands), ADMITTED, 0)
            assert simplified(reading, types) in results
            assert set(results) <= forms


def test_a_near_search_is_part_of_the_whole() -> None:
    rng = np.random.default_rng(9)
    for number in range(6):
        types = drawn_types(rng)
        operands = triples(types, 20, number)
        codes = EXACT.evaluate(operands)
        results = [search(operands, codes, ADMITTED, most) for most in (0, 1, 2, None)]
        for few, more in pairwise(results):
            assert set(few) <= set(more)


def test_codes_that_no_composition_gives() -> None:
    """The codes are one more than the exact result, or the exact result with its halves exchanged."""
    for x in ("int8", "float8_e4m3fn"):
        operands = triples(Types(x, x, "float32", "float16"), 100, 3)
        codes = EXACT.evaluate(operands)
        assert search(operands, codes + codes.dtype.type(1), ADMITTED, None) == ()
        assert search(operands, np.roll(codes, 50), ADMITTED, None) == ()


def test_any_nan_is_nan() -> None:
    operands = triples(INT8, 100, 4)
    codes = EXACT.evaluate(operands)
    nan = (codes & 0x7FFFFFFF) > 0x7F800000
    assert nan.any()
    assert search(operands, np.where(nan, 0xFFFFFFFF, codes).astype(np.uint32), ADMITTED) == search(
        operands, codes, ADMITTED
    )


def test_one_pair_for_all_scales() -> None:
    """Operands of one element serve all triples."""
    operands = crossed(INT8, 1, 5)
    single = replace(operands, codes={**operands.codes, "x": operands.codes["x"][:1]})
    codes = FLOAT32.evaluate(operands)
    assert search(single, codes, ADMITTED) == search(operands, codes, ADMITTED)


@pytest.mark.parametrize("most", [0, 2, None])
def test_a_remembered_search_is_the_search(most: int | None) -> None:
    rng = np.random.default_rng(10)
    for number in range(5):
        types, reading = drawn_types(rng), neighbour(EXACT, 1, rng)
        operands = triples(types, 20, number)
        codes = reading.evaluate(operands)
        want = search(operands, codes, ADMITTED, most)
        assert searched(operands, codes, ADMITTED, most) == want
        assert searched(operands, codes, ADMITTED, most) == want
        assert searched(operands, codes, ADMITTED[:1], most) == search(operands, codes, ADMITTED[:1], most)


def test_the_simplest_comes_first() -> None:
    operands = triples(INT8, 4, 6)
    for most in (2, None):
        results = search(operands, EXACT.evaluate(operands), ADMITTED, most)
        assert len(results) > 1
        assert results[0] == EXACT
        plain = [EXACT.departures(reading) for reading in results]
        assert plain == sorted(plain)
        assert [simplicity(reading) for reading in results] == sorted(simplicity(reading) for reading in results)


# -- the neighbourhood ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_the_neighbourhood_holds_every_reading_two_stages_away(seed: int) -> None:
    rng = np.random.default_rng(20 + seed)
    types = drawn_types(rng)
    results = set(near(types, ADMITTED))
    for start in ADMITTED:
        for first, second in combinations(STAGES, 2):
            for option in STAGES[first]:
                other = STAGES[second][rng.integers(len(STAGES[second]))]
                reading = replace(start, **{first: option, second: other})
                assert simplified(reading, types) in results, f"{reading.name}, next to {start.name}, for {types}"


def test_the_neighbourhood_in_one_stage() -> None:
    types = INT8
    results = near(types, ADMITTED, 1)
    assert set(results) <= set(near(types, ADMITTED))
    assert list(results) == sorted(results, key=simplicity)
    singles = {
        simplified(replace(start, **{stage: option}), types)
        for start in ADMITTED
        for stage, options in STAGES.items()
        for option in options
    }
    assert singles <= set(results)
    assert near(types, ADMITTED, 0) == tuple(sorted({simplified(r, types) for r in ADMITTED}, key=simplicity))


def test_survivors_are_those_that_give_the_codes() -> None:
    operands = triples(INT8, 100, 7)
    codes = EXACT.evaluate(operands)
    readings = (EXACT, FLOAT32, Stepwise("wrap-x"), Stepwise("ignored"), EXACT_QUOTIENT)
    assert surviving(readings, operands, codes) == (EXACT, FLOAT32)
    assert surviving(readings, operands, Stepwise("ignored").evaluate(operands)) == (Stepwise("ignored"),)


def test_taken_triples_are_those_of_their_places() -> None:
    codes = {
        "x": np.arange(12, dtype=np.uint8).reshape(3, 4),
        "scale": np.arange(3, dtype=np.uint32).reshape(3, 1),
        "zero_point": np.array(7, np.uint8),
    }
    operands = Operands(codes, {"x": "uint8", "scale": "float32", "zero_point": "uint8"}, "float32", (3, 4))
    some = taken(operands, np.array([0, 5, 11]))
    assert some.shape == (3,)
    assert {role: listed.tolist() for role, listed in some.codes.items()} == {
        "x": [0, 5, 11],
        "scale": [0, 1, 2],
        "zero_point": [7, 7, 7],
    }


# -- names and words ------------------------------------------------------------------------------------


SHORT = {
    "exact": EXACT, "float32": FLOAT32, "output": OUTPUT[0], "output-scale-cast": OUTPUT[1],
    "operands-output": OUTPUT[2], "operands-output-scale-cast": OUTPUT[3],
    "exact-quotient": EXACT_QUOTIENT, "float32-quotient": FLOAT32_QUOTIENT,
}  # fmt: skip


@pytest.mark.parametrize("name", SHORT)
def test_short_names(name: str) -> None:
    assert by_name(name) == SHORT[name]
    assert SHORT[name].name == name


def test_names_are_those_of_their_readings() -> None:
    rng = np.random.default_rng(30)
    readings = {drawn_reading(rng, rng.random()) for _ in range(2000)}
    names = {reading.name: reading for reading in readings}
    assert len(names) == len(readings)
    assert all(by_name(name) == reading for name, reading in names.items())


@pytest.mark.parametrize(
    "name",
    [
        "", "+", "nonsense", "exact+exact", "wrap-x+nonsense", "wrap-x+wrap-x", "float32+wrap-x", "output+wrap-x",
        "zero-unsigned+wrap-x", "wrap-x+ignored", "difference-exact", "rounded-once", "scale-none", "nearest",
        "Wrap-x", " wrap-x", "difference-float32+rounded-float32",
    ],
)  # fmt: skip
def test_no_reading_has_that_name(name: str) -> None:
    with pytest.raises(KeyError):
        by_name(name)


def test_a_reading_names_its_stages_in_order() -> None:
    reading = Stepwise("wrap-x", scale_cast="float16", operation="divide", zero="unsigned")
    assert reading.name == "wrap-x+scale-float16+divide+zero-unsigned"
    assert [field.name for field in fields(Stepwise)] == list(STAGES)
    assert reading.options() == tuple(getattr(reading, stage) for stage in STAGES)
    assert EXACT.departures(reading) == 4
    assert reading.departures(reading) == 0


WORDS = {
    "ignored": "ignores the zero point", "wrap-int32": "int32 with wrap-around", "saturate-x": "saturates",
    "wrap-unsigned": "unsigned type", "truncated": "truncates", "saturated": "largest finite number",
    "via-float32": "rounds the result to float32", "last-bit": "half of the last kept bit",
    "divide": "quotient by the scale", "reciprocal": "reciprocal",
    "folded-always": "absent zero point", "fused-last-bit": "casts the zero point and zero point * scale to bfloat16",
    "folded": "x * scale - zero point * scale", "fused": "fused multiply-add", "flush-inputs": "subnormal scales",
    "flush-results": "subnormal products and results", "flush-products": "subnormal products",
    "flush-all": "subnormal scales for zero and flushes", "flush-to-plus": "subnormal in float32 for +0",
    "flush-folded": "for zero in x * scale only", "negated": "adds 0 - zero point", "clamped": "and for NaN",
    "limited-float16": "casts x and the zero point to float16 with the largest number",
    "cast-last-bit": "casts x and the zero point to bfloat16 by half of the last kept bit",
    "fused-float16": "to float16, subtracts no product that is 0",
    "fused-float16-always": "zero point * scale to float16", "unsigned": "loses the sign of zero",
}  # fmt: skip


@pytest.mark.parametrize(("stage", "option"), [(stage, option) for stage in STAGES for option in STAGES[stage][1:]])
def test_words_say_each_stage(stage: str, option: str) -> None:
    """An option other than the plain one is named in the words, whatever the other stages are."""
    rng = np.random.default_rng(sum(map(ord, stage + option)))
    for _ in range(10):
        base = replace(drawn_reading(rng), **{stage: STAGES[stage][0]})
        reading: Any = replace(base, **{stage: option})
        if stage == "precision" and option == "output":
            # A product that is rounded to the output type is one that is rounded once.
            assert "output type" in reading.words
            continue
        assert reading.words != base.words
        expected = WORDS.get(option, option.rpartition("-")[2])
        assert (expected if expected != "output" else "the output type") in reading.words or option == "wrap-x"


def test_words_of_a_recipe() -> None:
    reading = Stepwise("wrap-int32", precision="float32")
    assert (
        reading.words
        == "subtracts in int32 with wrap-around, rounds the product to float32, then casts to the output type"
    )
    assert EXACT.words == "subtracts exactly, rounds the product once to the output type"
