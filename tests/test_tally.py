"""The tally: what it counts of each cell, which calls it keeps as witnesses, and the one word that it has for a cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from xverify import contracts
from xverify.contracts.readings import Stepwise
from xverify.core.call import Call, Outcome, Tensor
from xverify.core.dtypes import tensor
from xverify.verify.attribute import named
from xverify.verify.evidence import HELD
from xverify.verify.findings import Subject
from xverify.verify.tally import CellTally, Tally
from xverify.verify.verdicts import Judged, judge

ONNX = contracts.get("ai.onnx/DequantizeLinear-13")
ONE, TWO = Subject("one", "1", "oracle"), Subject("two", "1", "oracle")
REJECTED, UNSUPPORTED = Outcome("rejected", error="ValueError"), Outcome("unsupported", error="NotImplemented")
CRASH, HANG = Outcome("crash", message="Fatal: died"), Outcome("hang")

SINGLE, EXACT = 16777217, 16777219
"""Times 3 they differ by whether they are rounded to float32 first: of the first truncation gives what the reading float32
gives, of the second what the exact one gives."""
TRUNCATED = Stepwise(final="truncated").name


def asked(
    values: Sequence[int], number: int = 0, scale: float = 3.0, dtype: str = "int32", shape: tuple[int, ...] = (-1,)
) -> Judged:
    """An allowed call per tensor, without a zero point."""
    x = tensor(dtype, np.reshape(values, shape))
    return judge(ONNX, Call(ONNX.id, {"x": x, "scale": tensor("float32", scale)}), number)


def open_call() -> Judged:
    """A call that the clause on zero points of int32 leaves open."""
    tensors = {"x": tensor("int32", [1, 2]), "scale": tensor("float32", 3.0), "zero_point": tensor("int32", 5)}
    return judge(ONNX, Call(ONNX.id, tensors))


def forbidden_call() -> Judged:
    return judge(ONNX, Call(ONNX.id, {"x": tensor("int16", [1]), "scale": tensor("float32", 1.0)}))


def by(judged: Judged, reading: str = "exact") -> Outcome:
    operands = judged.contract.operands(judged.call)
    codes = np.ascontiguousarray(named(judged.contract, reading).evaluate(operands))
    return Outcome("tensor", Tensor(operands.output_dtype, codes))


def moved(judged: Judged, steps: int, values: int = 1) -> Outcome:
    """The exact answer with its last values so many steps away."""
    codes = by(judged).tensor.codes.copy()
    codes.reshape(-1)[-values:] += codes.dtype.type(steps)
    return Outcome("tensor", Tensor("float32", codes))


def numbers(*values: float) -> Outcome:
    return Outcome("tensor", tensor("float32", values))


def tallied(*seen: tuple[Judged, Outcome], subject: Subject = ONE, is_judged: bool = True) -> tuple[Tally, CellTally]:
    """What is counted of outcomes of one cell."""
    tally = Tally()
    for judged, outcome in seen:
        tally.observe(judged, subject, outcome, is_judged)
    cell = seen[0][0].cell
    assert cell is not None
    assert {judged.cell for judged, _ in seen} == {cell}
    return tally, tally.cells[subject, cell]


def status(*seen: tuple[Judged, Outcome], is_judged: bool = True) -> str:
    tally, _ = tallied(*seen, is_judged=is_judged)
    cell = seen[0][0].cell
    assert cell is not None
    return tally.status(ONE, cell)


# -- counts -----------------------------------------------------------------------------------------------


def test_calls_and_values_are_counted_by_what_came_of_them() -> None:
    one, two, three = asked([1]), asked([1, 2]), asked([1, 2, 3])
    seen = [(three, by(three)), (two, by(two)), (one, REJECTED), (two, REJECTED), (two, UNSUPPORTED), (one, CRASH)]
    _, row = tallied(*seen)
    assert (row.cases, row.values) == (6, 3 + 2 + 1 + 2 + 2 + 1)
    assert (row.answered, row.rejected, row.unsupported, row.deaths) == (2, 2, 1, {"crash"})
    assert (row.wrong, row.wrong_cases, row.max_ulp, row.flushed) == (0, 0, 0, 0)
    assert (row.worst, row.mixture, row.explained) == (None, None, None)
    assert (row.open, row.ambiguous, row.simplest_refused) == (False, False, False)


def test_a_cell_in_which_nothing_was_seen() -> None:
    row = CellTally()
    counts = (
        row.cases,
        row.values,
        row.answered,
        row.rejected,
        row.unsupported,
        row.wrong,
        row.wrong_cases,
        row.flushed,
    )
    assert set(counts) == {0}
    assert (row.max_ulp, row.deaths, row.alive, row.departures, row.departed) == (0, set(), None, {}, {})
    assert (row.open, row.ambiguous, row.simplest_refused) == (False, False, False)


def test_each_implementation_and_each_cell_is_counted_apart() -> None:
    tally, small, other = Tally(), asked([1]), asked([1, 2], dtype="int8")
    tally.observe(small, ONE, moved(small, 5), True)
    tally.observe(other, ONE, REJECTED, True)
    tally.observe(other, TWO, CRASH, True)
    counts = {
        (subject.name, cell.x_dtype): (row.cases, row.values, row.wrong, row.rejected, row.deaths, len(row.departures))
        for (subject, cell), row in tally.cells.items()
    }
    assert counts == {
        ("one", "int32"): (1, 1, 1, 0, set(), 0),
        ("one", "int8"): (1, 2, 0, 1, set(), 0),
        ("two", "int8"): (1, 2, 0, 0, {"crash"}, 0),
    }


def test_wrong_values_are_counted_with_their_calls_and_the_largest_distance() -> None:
    first, second, third = asked([1, 2, 3], 0), asked([4, 5], 1), asked([6, 7], 2)
    _, row = tallied((first, moved(first, 9, 2)), (second, by(second)), (third, moved(third, 4)))
    assert (row.wrong, row.wrong_cases, row.max_ulp) == (3, 2, 9)


@pytest.mark.parametrize("order", [1, -1])
def test_a_distance_that_is_no_number_stays_so(order: int) -> None:
    first, second = asked([1], 0), asked([2], 1)
    _, row = tallied(*[(first, numbers(float("nan"))), (second, moved(second, 7))][::order])
    assert (row.wrong, row.wrong_cases, row.max_ulp) == (2, 2, -1)


def test_a_result_of_another_kind_is_wrong_in_every_value() -> None:
    judged = asked([1, 2, 3])
    for other in (tensor("float32", [[3.0, 6.0, 9.0]]), tensor("float64", [3.0, 6.0, 9.0])):
        tally = Tally()
        assert [found.key.verdict for found in tally.observe(judged, ONE, Outcome("tensor", other), True)] == [
            "violation"
        ]
        assert tally.cells[ONE, judged.cell].wrong == 3
        assert tally.observe(judged, TWO, Outcome("tensor", other), False) == []
        assert tally.status(TWO, judged.cell) == "not-judged-differs"
    tally, row = tallied((judged, REJECTED))
    assert row.wrong == 0, "what gives no result gives none of another kind"


def test_an_empty_result_of_another_kind_is_wrong_too() -> None:
    empty = asked([])
    tally, row = tallied((empty, Outcome("tensor", tensor("float64", []))))
    assert (row.values, row.wrong, tally.status(ONE, empty.cell)) == (0, 1, "violation")


def test_flushed_values_are_counted_and_told_by_those_whom_the_edition_judges() -> None:
    first, second = asked([1, 2, 3], 0, 2.0**-149), asked([1, 2], 1, 2.0**-149)
    tally = Tally()
    found = tally.observe(first, ONE, numbers(0.0, 0.0, 0.0), True) + tally.observe(second, ONE, by(second), True)
    found += tally.observe(second, ONE, numbers(-0.0, 2.0**-148), True)
    assert [(one.key.verdict, one.key.detail, one.values) for one in found] == [
        ("ambiguity", "flush-subnormals", 3), ("ambiguity", "flush-subnormals", 1)
    ]  # fmt: skip
    row = tally.cells[ONE, first.cell]
    assert (row.flushed, row.wrong, tally.status(ONE, first.cell)) == (4, 0, "ambiguous")
    assert tally.observe(first, TWO, numbers(0.0, 0.0, 0.0), False) == []
    assert tally.cells[TWO, first.cell].flushed == 3


def test_forbidden_calls_belong_to_no_cell() -> None:
    tally, judged = Tally(), forbidden_call()
    accepted = tally.observe(judged, ONE, numbers(1.0), True)
    assert [found.key.verdict for found in accepted] == ["wrongly-accepted"]
    for outcome in (REJECTED, UNSUPPORTED):
        assert tally.observe(judged, ONE, outcome, True) == []
    assert tally.observe(judged, TWO, numbers(1.0), False) == []
    assert tally.cells == {}
    assert tally.judged_by == {(ONE, ONNX.id): True, (TWO, ONNX.id): False}


def test_what_a_worker_saw_is_told_whatever_the_call() -> None:
    """Beside what is said of the call itself, and also of an implementation that the edition does not judge."""
    for judged in (asked([1]), open_call(), forbidden_call()):
        noted = replace(numbers(3.0), notes=("input-written",))
        found = Tally().observe(judged, ONE, noted, False)
        assert [(one.key.subject, one.key.verdict, one.key.detail) for one in found] == [
            ("one", "memory", "input-written")
        ]
    both = Tally().observe(forbidden_call(), ONE, replace(numbers(3.0), notes=("input-written",)), True)
    assert [one.key.verdict for one in both] == ["memory", "wrongly-accepted"]
    both = Tally().observe(asked([1]), ONE, replace(CRASH, notes=("input-written",)), True)
    assert [one.key.verdict for one in both] == ["memory", "crash"]


def test_whether_the_last_outcome_was_wrong() -> None:
    """Only values outside the legal set count, since a finding is made of them no sooner than at the end."""
    tally, judged = Tally(), asked([1, 2])
    assert not tally.last_was_wrong
    wrong = moved(judged, 1)
    others = [
        (judged, by(judged)), (judged, REJECTED), (judged, CRASH), (open_call(), numbers(1.0, 2.0)),
        (forbidden_call(), numbers(1.0)), (forbidden_call(), REJECTED),
    ]  # fmt: skip
    for other, outcome in others:
        tally.observe(judged, ONE, wrong, True)
        assert tally.last_was_wrong
        tally.observe(other, ONE, outcome, True)
        assert not tally.last_was_wrong


# -- witnesses --------------------------------------------------------------------------------------------

SIZES = [[1, 2, 3], [1], [1, 2]]
ORDERS = [(0, 1, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]


@pytest.mark.parametrize("order", ORDERS)
def test_the_smallest_wrong_call_is_kept(order: tuple[int, ...]) -> None:
    calls = [asked(SIZES[place], number) for number, place in enumerate(order)]
    seen = [(judged, moved(judged, 2)) for judged in calls]
    _, row = tallied(*seen, (asked([], 9), by(asked([], 9))))
    assert row.worst == min(seen, key=lambda one: one[0].call.values)


@pytest.mark.parametrize("order", ORDERS)
def test_the_smallest_refused_call_is_kept(order: tuple[int, ...]) -> None:
    calls = [asked(SIZES[place], number) for number, place in enumerate(order)]
    seen = [(judged, replace(REJECTED, message=str(number))) for number, judged in enumerate(calls)]
    smaller = asked([], 9)
    _, row = tallied(*seen, (smaller, by(smaller)), (smaller, UNSUPPORTED))
    assert row.refusal == min(seen, key=lambda one: one[0].call.values)


def test_of_equally_large_calls_the_one_of_lower_rank_and_then_the_earlier_is_kept() -> None:
    flat, later, deep = asked([1, 2], 4), asked([1, 2], 5), asked([1, 2], 1, shape=(1, 2))
    for order in ((flat, later, deep), (deep, later, flat)):
        _, row = tallied(*((judged, moved(judged, 2)) for judged in order))
        assert row.worst is not None
        assert row.worst[0] is flat
        _, row = tallied(*((judged, REJECTED) for judged in order))
        assert row.refusal == (flat, REJECTED)


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


def test_a_mixture_is_what_left_no_reading() -> None:
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
    """Truncation gives now what one reading gives, now what the other gives."""
    first, second, third = asked([SINGLE], 0), asked([EXACT], 1), asked([-SINGLE, -EXACT], 2)
    tally, row = tallied(*((judged, by(judged, TRUNCATED)) for judged in (first, second, third)))
    ((_, _, said, _, _),) = tally.mixtures()
    assert said.attribution is not None
    assert said.attribution.reading == said.key.detail == row.evidence.others[0].name
    assert TRUNCATED in {reading.name for reading in row.evidence.others}
    assert (said.attribution.explained, said.attribution.values) == (1, 1)


def test_mixtures_are_told_only_of_those_whom_the_edition_judges_and_where_nothing_is_wrong() -> None:
    first, second, third = asked([SINGLE], 0), asked([EXACT], 1), asked([5], 2)
    seen = [(first, by(first, "float32")), (second, by(second))]
    assert len(list(tallied(*seen)[0].mixtures())) == 1
    assert list(tallied(*seen, is_judged=False)[0].mixtures()) == []
    assert list(tallied(*seen, (third, moved(third, 8)))[0].mixtures()) == []


def test_departures_from_the_first_reading_are_counted_for_each_reading_left() -> None:
    """With the smallest call that shows it; a call on which all readings agree is none."""
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
    tally.observe(judged, ONE, by(judged), True)
    ((subject, cell, row, found, witness, outcome),) = tally.ambiguities()
    assert (subject, cell, row, witness) == (TWO, judged.cell, tally.cells[TWO, judged.cell], judged)
    assert (found.key.verdict, found.readings, found.values) == ("ambiguity", ("float32",), 1)
    assert outcome.tensor.codes.tolist() == by(judged, "float32").tensor.codes.tolist()
    assert [tally.status(one, judged.cell) for one in (ONE, TWO)] == ["agrees", "ambiguous"]


# -- which other recipes give the values --------------------------------------------------------------------


def test_other_recipes_are_followed_where_they_are_wanted_or_something_is_wrong() -> None:
    """Not on a path that gets few calls, and not where only faults are to be told."""
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
    mixed = Tally(characterise=False)
    for judged, reading in ((first, "float32"), (second, "exact"), (asked([5], 2), "exact")):
        mixed.observe(judged, ONE, by(judged, reading), True)
    assert mixed.cells[ONE, first.cell].evidence.values == 1 + 1, "from the call on that left no reading"


def test_every_call_is_held_against_other_recipes_until_an_admitted_reading_explains_all() -> None:
    """After so many values only one call in four is. Where values were flushed, mixed or wrong, every one."""

    def held(reading: str, scale: float, *many: int) -> tuple[str, int]:
        large = [asked(np.resize(many, HELD), 4 * number, scale) for number in range(2)]
        small = [asked([many[0], number], 4 * number + 1, scale) for number in range(3)]
        tally, row = tallied(*((judged, by(judged, reading)) for judged in (*large, *small)))
        assert row.evidence.values == 2 * HELD + 6
        return tally.status(ONE, large[0].cell), row.evidence.held

    flushes, narrows = Stepwise(subnormals="flush-results").name, Stepwise(scale_cast="float16").name
    assert held("exact", 2.0**-149, 1, 2, 3) == held("float32", 3.0, SINGLE, EXACT) == ("agrees", 2 * HELD)
    assert held(flushes, 2.0**-149, 1, 2, 3) == ("ambiguous", 2 * HELD + 6)
    assert held(TRUNCATED, 3.0, SINGLE, EXACT) == ("mixed", 2 * HELD + 6)
    assert held(narrows, 0.3, 1, 2, 3) == ("violation", 2 * HELD + 6)


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
    """What one type alone leaves open the others decide; another implementation's values have no say."""
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


def test_a_recipe_that_the_smallest_wrong_call_contradicts_is_not_told() -> None:
    """Nine wrong calls are more than are kept, and what explains those that are kept is zeros."""
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


def test_refusals_come_in_order_from_those_whom_the_edition_judges() -> None:
    tally, wide, narrow = Tally(), asked([5]), asked([5], dtype="int8")
    for judged, subject, is_judged in ((narrow, TWO, True), (wide, TWO, True), (narrow, ONE, True)):
        tally.observe(judged, subject, REJECTED, is_judged)
    tally.observe(wide, Subject("three", "1", "oracle"), REJECTED, False)
    tally.observe(wide, ONE, UNSUPPORTED, True)
    told = [(subject.name, cell.x_dtype, row is tally.cells[subject, cell]) for subject, cell, row in tally.refusals()]
    assert told == [("two", "int32", True), ("one", "int8", True), ("two", "int8", True)]


# -- one word for a cell --------------------------------------------------------------------------------------


def test_a_cell_has_the_worst_of_what_was_seen() -> None:
    """Each word although all that is listed before it was seen too."""
    tiny, single, exact = asked([1], 0, 2.0**-149), asked([SINGLE], 1), asked([EXACT], 2)
    ladder = [
        ("agrees", (single, by(single, "float32"))),
        ("agrees", (single, UNSUPPORTED)),
        ("ambiguous", (tiny, numbers(0.0))),
        ("mixed", (exact, by(exact))),
        ("wrongly-rejected", (exact, REJECTED)),
        ("violation", (exact, moved(exact, 50))),
        ("hang", (exact, HANG)),
        ("crash", (exact, CRASH)),
    ]
    seen = []
    for word, observation in ladder:
        seen.append(observation)
        assert status(*seen) == word
        assert status(*reversed(seen)) == word
    assert {status(*seen[:n], is_judged=False) for n in (1, 2, 3, 4)} == {"not-judged-agrees"}
    assert {status(*seen[:n], is_judged=False) for n in (5, 6)} == {"not-judged-differs"}
    assert [status(*seen[:n], is_judged=False) for n in (7, 8)] == ["hang", "crash"]


def test_a_cell_that_answers_nothing() -> None:
    judged = asked([1])
    assert status((judged, UNSUPPORTED)) == status((judged, UNSUPPORTED), (judged, REJECTED)) == "unsupported"
    assert status((judged, UNSUPPORTED), is_judged=False) == "unsupported"
    assert status((judged, UNSUPPORTED), (judged, CRASH)) == "crash"
    tally, row = tallied((judged, REJECTED))
    assert tally.status(ONE, judged.cell) == "wrongly-rejected"
    row.simplest_refused = True
    assert tally.status(ONE, judged.cell) == "unsupported"
    tally.observe(judged, ONE, by(judged), True)
    assert tally.status(ONE, judged.cell) == "wrongly-rejected", "it answers others"


def test_calls_that_are_left_open_have_cells_of_their_own() -> None:
    judged = open_call()
    assert judged.cell is not None
    for outcome in (numbers(1.0, 2.0), REJECTED, UNSUPPORTED):
        tally, row = tallied((judged, outcome))
        assert tally.status(ONE, judged.cell) == "unspecified"
        assert (row.cases, row.values, row.refusal, row.alive) == (1, 2, None, None)
        assert (row.answered, row.unsupported, row.rejected) == (
            outcome.kind == "tensor", outcome.kind == "unsupported", 0
        )  # fmt: skip
        assert list(tally.refusals()) == []
    assert [status((judged, death)) for death in (CRASH, HANG)] == ["crash", "hang"]
    assert Tally().observe(judged, ONE, numbers(1.0, 2.0), True) == []
