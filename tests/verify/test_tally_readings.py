"""The tally: the readings and other recipes that still give every value of a cell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tallied_calls import (
    EXACT,
    ONE,
    ONNX,
    REJECTED,
    SINGLE,
    TRUNCATED,
    TWO,
    UNSUPPORTED,
    asked,
    by,
    moved,
    numbers,
    tallied,
)

from xverify.arithmetic.readings import Stepwise
from xverify.core.call import Call, Outcome
from xverify.core.dtypes import tensor
from xverify.verify.evidence import HELD
from xverify.verify.findings import Subject
from xverify.verify.tally import Tally
from xverify.verify.verdicts import Judged, judge

Observation = tuple[Judged, Outcome]
OWN = Subject("xverify-numpy", "1", "oracle")


# -- readings ---------------------------------------------------------------------------------------------


def test_readings_stay_alive_until_a_value_excludes_them() -> None:
    either, single, exact = asked([1, 2], 0), asked([SINGLE], 1), asked([EXACT], 2)
    _, row = tallied((either, REJECTED))
    assert row.alive is None, "nothing has been compared"
    _, row = tallied((either, by(either)))
    assert row.alive == ("exact", "float32")
    _, row = tallied((either, by(either)), (single, by(single, "float32")))
    assert row.alive == ("float32",)
    _, row = tallied((single, by(single, "float32")), (exact, by(exact, "float32")))
    assert (row.alive, row.mixture) == (("float32",), None)
    _, row = tallied((single, moved(single, 100)), (exact, by(exact)))
    assert row.alive == (), "none gives a wrong value, nor comes back to life"


def test_a_mixture_has_the_call_that_excluded_the_last_reading() -> None:
    first, second, third = asked([SINGLE], 0), asked([EXACT], 1), asked([SINGLE, EXACT], 2)
    tally, row = tallied((first, by(first, "float32")), (second, by(second)), (third, by(third)))
    assert row.mixture is not None
    judged, outcome, found = row.mixture
    assert (judged, outcome.tensor.codes.tolist()) == (second, by(second).tensor.codes.tolist())
    assert (found.key.verdict, found.readings, row.alive) == ("mixed", ("float32",), ())
    ((subject, cell, said, witness, got),) = tally.mixtures()
    assert (subject, cell, witness, got) == (ONE, first.cell, second, outcome)
    assert (said.key.verdict, said.readings, said.attribution) == ("mixed", ("float32",), None)


def test_a_mixture_that_a_recipe_explains_is_attributed_to_it() -> None:
    """Truncation gives some values of one reading and some of the other."""
    first, second, third = asked([SINGLE], 0), asked([EXACT], 1), asked([-SINGLE, -EXACT], 2)
    tally, row = tallied(*((judged, by(judged, TRUNCATED)) for judged in (first, second, third)))
    ((_, _, said, _, _),) = tally.mixtures()
    assert said.attribution is not None
    assert said.attribution.reading == said.key.detail == row.evidence.others[0].name
    assert TRUNCATED in {reading.name for reading in row.evidence.others}
    assert (said.attribution.explained, said.attribution.values) == (1, 1)


def test_mixtures_are_reported_for_judged_cells_without_wrong_values_only() -> None:
    first, second, third = asked([SINGLE], 0), asked([EXACT], 1), asked([5], 2)
    seen = [(first, by(first, "float32")), (second, by(second))]
    assert list(tallied(seen[0])[0].mixtures()) == list(tallied((second, REJECTED))[0].mixtures()) == []
    assert len(list(tallied(*seen)[0].mixtures())) == 1
    assert list(tallied(*seen, is_judged=False)[0].mixtures()) == []
    assert list(tallied(*seen, (third, moved(third, 8)))[0].mixtures()) == []


def test_departures_from_the_first_reading_are_counted_for_each_reading_left() -> None:
    """The smallest call that shows the departure is kept. A call on which all readings agree is none."""
    either, small, large = asked([1, 2], 0), asked([EXACT, 1], 1), asked([SINGLE, EXACT, 1], 2)
    for order in ((either, small, large), (large, either, small)):
        seen = {judged.number: by(judged, "float32") for judged in order}
        _, row = tallied(*((judged, seen[judged.number]) for judged in order))
        assert row.departed == {"float32": [2, 1 + 2]}
        assert row.departures == {"float32": (small, seen[1])}


def test_ambiguities_are_departures_that_another_implementation_does_not_share() -> None:
    tally, judged = Tally(), asked([SINGLE, 1])
    tally.observe(judged, TWO, by(judged, "float32"), True)
    assert list(tally.ambiguities()) == []
    tally.observe(judged, ONE, by(judged), False)
    assert list(tally.ambiguities()) == [], "one whom the edition does not judge does not count"
    for nobody, why in (
        (OWN, "an in-house kernel"),
        (replace(TWO, options="path"), "another path through the same one"),
    ):
        tally.observe(judged, nobody, by(judged), True)
        assert list(tally.ambiguities()) == [], f"nor does {why}"
    tally.observe(judged, ONE, by(judged), True)
    ((subject, cell, row, found, witness, outcome),) = tally.ambiguities()
    assert (subject, cell, row, witness) == (TWO, judged.cell, tally.cells[TWO, judged.cell], judged)
    assert (found.key.verdict, found.readings, found.values) == ("ambiguity", ("float32",), 1)
    assert outcome.tensor.codes.tolist() == by(judged, "float32").tensor.codes.tolist()
    assert [tally.status(one, judged.cell) for one in (ONE, TWO)] == ["agrees", "ambiguous"]
    assert found.summary.endswith("; another implementation follows another reading")


# -- which other recipes give the values --------------------------------------------------------------------


def test_other_recipes_are_followed_on_request_or_after_a_wrong_value() -> None:
    """Paths with few calls, and runs that report faults only, do not follow other recipes."""
    judged = asked([SINGLE, EXACT, 5])
    seldom = replace(ONE, often=False)
    for characterise, subject, outcome, is_followed in (
        (True, ONE, by(judged), True),
        (True, seldom, by(judged), False),
        (False, ONE, by(judged), False),
        (True, seldom, moved(judged, 50), True),
        (False, ONE, moved(judged, 50), True),
        (False, ONE, by(judged, TRUNCATED), True),
    ):
        tally = Tally(characterise)
        tally.observe(judged, subject, outcome, True)
        assert (tally.cells[subject, judged.cell].evidence.others is not None) == is_followed
    assert Tally().characterise


def test_a_fault_seen_before_has_later_calls_followed() -> None:
    first, second = asked([SINGLE], 0), asked([EXACT], 1)
    tally = Tally(characterise=False)
    tally.observe(first, ONE, moved(first, 50), True)
    tally.observe(second, ONE, by(second), True)
    assert tally.cells[ONE, first.cell].evidence.values == 2
    odd = Tally(characterise=False)
    odd.observe(first, ONE, Outcome("tensor", tensor("float32", [[3.0]])), True)
    odd.observe(second, ONE, by(second), True)
    assert odd.cells[ONE, first.cell].evidence.values == 1, "also where the fault was the result's shape"
    mixed = Tally(characterise=False)
    for judged, reading in ((first, "float32"), (second, "exact"), (asked([5], 2), "exact")):
        mixed.observe(judged, ONE, by(judged, reading), True)
    assert mixed.cells[ONE, first.cell].evidence.values == 1 + 1, "from the call on that left no reading"


def test_every_call_is_held_against_other_recipes_until_an_admitted_reading_explains_all() -> None:
    """After many values, one call in four is compared; every call after flushed, mixed or wrong values."""

    def held(reading: str, scale: float, *many: int, before: tuple[Observation, ...] = ()) -> tuple[str, int]:
        large = [asked(np.resize(many, HELD), 4 * number, scale) for number in range(2)]
        small = [asked([many[0], number], 4 * number + 1, scale) for number in range(3)]
        tally, row = tallied(*before, *((judged, by(judged, reading)) for judged in (*large, *small)))
        assert row.evidence.values == 2 * HELD + 6
        return tally.status(ONE, large[0].cell), row.evidence.held

    flushes, narrows = Stepwise(subnormals="flush-results").name, Stepwise(scale_cast="float16").name
    assert held("exact", 2.0**-149, 1, 2, 3) == held("float32", 3.0, SINGLE, EXACT) == ("agrees", 2 * HELD)
    assert held(flushes, 2.0**-149, 1, 2, 3) == ("ambiguous", 2 * HELD + 6)
    assert held(TRUNCATED, 3.0, SINGLE, EXACT) == ("mixed", 2 * HELD + 6)
    assert held(narrows, 0.3, 1, 2, 3) == ("violation", 2 * HELD + 6)
    odd = (asked([1]), Outcome("tensor", tensor("float32", 3.0)))
    assert held("exact", 3.0, 1, 2, 3, before=(odd,)) == ("violation", 2 * HELD + 6)


# -- what is said at the end ---------------------------------------------------------------------------------


def test_violations_come_by_cell_and_then_by_implementation() -> None:
    tally, wide, narrow = Tally(), asked([5, 6], 0), asked([5, 6], 0, dtype="int8")
    for judged, subject in ((narrow, TWO), (wide, TWO), (wide, ONE), (narrow, ONE)):
        tally.observe(judged, subject, moved(judged, 50), True)
    tally.observe(narrow, Subject("three", "1", "oracle"), moved(narrow, 50), False)
    tally.observe(narrow, Subject("four", "1", "oracle"), by(narrow), True)
    told = [(cell.x_dtype, subject.name) for subject, cell, *_ in tally.violations()]
    assert told == [("int32", "one"), ("int32", "two"), ("int8", "one"), ("int8", "two")]


def test_a_violation_comes_with_its_cell_and_its_smallest_call() -> None:
    large, small = asked([5, 6, 7], 0), asked([8], 1)
    outcome = moved(small, 50)
    tally, row = tallied((large, moved(large, 70)), (small, outcome))
    ((subject, cell, told, found, judged, got),) = tally.violations()
    assert (subject, cell, told, judged, got) == (ONE, small.cell, row, small, outcome)
    assert (found.key.subject, found.key.verdict, found.values, found.max_ulp) == ("one", "violation", 1, 50)
    assert found.attribution is None
    assert row.explained is not None
    assert row.explained.recipe is None


def test_one_recipe_explains_the_cells_of_an_implementation() -> None:
    """Cells of other types decide what one type leaves open. Another implementation's values do not."""
    wraps = Stepwise("wrap-x").name
    tally = Tally()
    for dtype, x, zero_point in (("int8", [-100, 100, 3], 100), ("uint8", [0, 255, 3], 200)):
        tensors = {"x": tensor(dtype, x), "scale": tensor("float32", 0.3), "zero_point": tensor(dtype, zero_point)}
        judged = judge(ONNX, Call(ONNX.id, tensors))
        tally.observe(judged, ONE, by(judged, wraps), True)
        tally.observe(judged, TWO, moved(judged, 50), True)
    told = [
        (subject.name, found.attribution and found.attribution.reading)
        for subject, _, _, found, _, _ in tally.violations()
    ]
    (reading,) = {reading for name, reading in told if name == "one"}
    assert reading is not None
    assert [name for name, _ in told] == ["one", "two"] * 2
    for (subject, _), row in tally.cells.items():
        assert row.explained is not None
        assert (row.explained.recipe.name if row.explained.recipe else None) == (reading if subject == ONE else None)


def test_a_recipe_that_the_smallest_wrong_call_contradicts_is_not_reported() -> None:
    """The tally keeps fewer than nine wrong calls. The recipe of the kept ones gives zeros here."""
    calls = [asked(range(1, 9), number, 0.5) for number in range(9)]
    calls[4] = asked([4], 4, 0.5)
    nothing = [(judged, numbers(*[0.0] * judged.call.values)) for judged in calls]
    ((*_, said, _, _),) = tallied(*nothing)[0].violations()
    assert (said.attribution and said.attribution.reading) == "zeros"
    nothing[4] = (calls[4], moved(calls[4], 9))
    tally, row = tallied(*nothing)
    ((_, _, _, said, judged, _),) = tally.violations()
    assert (judged, said.attribution, said.max_ulp) == (calls[4], None, 9)
    assert row.explained is not None
    assert row.explained.recipe is None


def test_refusals_come_in_order_apart_by_whether_the_edition_judges() -> None:
    tally, wide, narrow, three = Tally(), asked([5]), asked([5], dtype="int8"), Subject("three", "1", "oracle")
    for judged, subject, is_judged in (
        (narrow, TWO, True),
        (wide, TWO, True),
        (narrow, ONE, True),
        (wide, three, False),
    ):
        tally.observe(judged, subject, REJECTED, is_judged)
    tally.observe(wide, ONE, UNSUPPORTED, True)
    tally.observe(narrow, three, UNSUPPORTED, False)
    told = [(subject.name, cell.x_dtype, row is tally.cells[subject, cell]) for subject, cell, row in tally.refusals()]
    assert told == [("two", "int32", True), ("one", "int8", True), ("two", "int8", True)]
    ((subject, cell, row),) = tally.refusals(judged=False)
    assert (subject, cell, row.refusal) == (three, wide.cell, (wide, REJECTED))
