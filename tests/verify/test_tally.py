"""The tally: its counts, the calls that it keeps as witnesses, and the status of a cell."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tallied_calls import (
    CRASH,
    EXACT,
    HANG,
    ONE,
    ONNX,
    REJECTED,
    SINGLE,
    TRUNCATED,
    TWO,
    UNSUPPORTED,
    asked,
    by,
    forbidden_call,
    moved,
    numbers,
    open_call,
    tallied,
)

from xverify.core.call import Outcome
from xverify.core.dtypes import tensor
from xverify.verify.attribute import Zeros, named
from xverify.verify.evidence import Explained
from xverify.verify.tally import CellTally, Tally
from xverify.verify.verdicts import Judged


def status(*seen: tuple[Judged, Outcome], is_judged: bool = True) -> str:
    tally, _ = tallied(*seen, is_judged=is_judged)
    cell = seen[0][0].cell
    assert cell is not None
    return tally.status(ONE, cell)


# -- counts -----------------------------------------------------------------------------------------------


def test_calls_and_values_are_counted_by_outcome() -> None:
    one, two, three = asked([1]), asked([1, 2]), asked([1, 2, 3])
    seen = [(three, by(three)), (two, by(two)), (one, REJECTED), (two, REJECTED), (two, UNSUPPORTED), (one, CRASH)]
    _, row = tallied(*seen)
    assert (row.cases, row.values) == (6, 3 + 2 + 1 + 2 + 2 + 1)
    assert (row.answered, row.rejected, row.unsupported, row.deaths) == (2, 2, 1, {"crash"})
    assert (row.wrong, row.wrong_cases, row.max_ulp, row.flushed) == (0, 0, 0, 0)
    assert (row.worst, row.mixture, row.explained) == (None, None, None)
    assert (row.open, row.ambiguous, row.simplest_refused) == (False, False, False)


def test_a_cell_without_outcomes() -> None:
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
def test_an_undefined_distance_stays_undefined(order: int) -> None:
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


def test_flushed_values_are_reported_for_judged_implementations_only() -> None:
    first, second = asked([1, 2, 3], 0, 2.0**-149), asked([1, 2], 1, 2.0**-149)
    tally = Tally()
    for judged, outcome in (
        (first, numbers(0.0, 0.0, 0.0)), (second, by(second)), (second, numbers(0.0, 2.0**-148))
    ):  # fmt: skip
        assert tally.observe(judged, ONE, outcome, True) == []
    row = tally.cells[ONE, first.cell]
    assert (row.flushed, row.flushed_cases, row.wrong, tally.status(ONE, first.cell)) == (4, 2, 0, "ambiguous")
    assert tally.observe(first, TWO, numbers(0.0, 0.0, 0.0), False) == []
    assert tally.cells[TWO, first.cell].flushed == 3
    ((subject, cell, seen, found, witness, _),) = tally.flushes()
    assert (subject, cell, seen, witness) == (ONE, first.cell, row, second)
    assert (found.key.verdict, found.key.detail, found.values) == ("ambiguity", "flush-subnormals", 1)


def test_zeros_of_another_fault_do_not_count_as_flushed() -> None:
    zeros, wrong = asked([1, 2], 0, 2.0**-149), asked([1, 2], 1)
    tally, row = tallied((zeros, numbers(0.0, 0.0)))
    tally.observe(wrong, ONE, numbers(0.0, 0.0), True)
    assert list(tally.flushes()) == [], "it is not known yet what is wrong"
    for recipe, count in ((None, 0), (Zeros(), 0), (named(ONNX, TRUNCATED), 1)):
        row.explained = Explained(recipe)
        assert len(list(tally.flushes())) == count
    mixed = numbers(0.0, 5.0)
    assert list(tallied((zeros, mixed))[0].flushes()) == [], "the same call has a wrong value"


def test_forbidden_calls_belong_to_no_cell() -> None:
    tally, judged = Tally(), forbidden_call()
    accepted = tally.observe(judged, ONE, numbers(1.0), True)
    assert [found.key.verdict for found in accepted] == ["wrongly-accepted"]
    for outcome in (REJECTED, UNSUPPORTED):
        assert tally.observe(judged, ONE, outcome, True) == []
    assert tally.observe(judged, TWO, numbers(1.0), False) == []
    assert tally.cells == {}
    assert tally.judged_by == {(ONE, ONNX.id): True, (TWO, ONNX.id): False}


def test_notes_of_a_worker_are_reported_for_every_call() -> None:
    """A note is reported beside other discrepancies, even if the edition does not judge the subject."""
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


@pytest.mark.parametrize(
    ("values", "notes", "does"),
    [
        ((7.0, 7.0), ("never-written",), "accepts a call that the clause 'x-type' forbids, and writes nothing"),
        ((7.0, 1.0), ("never-written",), "computes a call that the clause 'x-type' forbids"),
        ((7.0, 7.0), (), "computes a call that the clause 'x-type' forbids"),
        ((), ("never-written",), "computes a call that the clause 'x-type' forbids"),
    ],
)
def test_a_forbidden_call_that_wrote_nothing_was_not_computed(
    values: tuple[float, ...], notes: tuple[str, ...], does: str
) -> None:
    outcome = replace(numbers(*values), notes=notes)
    found = Tally().observe(forbidden_call(), ONE, outcome, True)[-1]
    assert found.summary == f"one {does}"
    nothing = does.startswith("accepts")
    assert (found.key.detail, found.values) == (("x-type:never-written", 0) if nothing else ("x-type", 1))


def test_last_was_wrong_is_true_for_values_outside_the_legal_set_only() -> None:
    """Only values outside the legal set count, since their finding is made at the end."""
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


def test_calls_of_equal_size_are_kept_by_lower_rank_then_earlier_number() -> None:
    flat, later, deep = asked([1, 2], 4), asked([1, 2], 5), asked([1, 2], 1, shape=(1, 2))
    for order in ((flat, later, deep), (deep, later, flat)):
        _, row = tallied(*((judged, moved(judged, 2)) for judged in order))
        assert row.worst is not None
        assert row.worst[0] is flat
        _, row = tallied(*((judged, REJECTED) for judged in order))
        assert row.refusal == (flat, REJECTED)


def test_the_first_outcome_of_a_repeated_call_stays() -> None:
    judged = asked([5])
    first, second = moved(judged, 2), moved(judged, 9)
    _, row = tallied((judged, first), (judged, second))
    assert row.worst == (judged, first)
    _, row = tallied((judged, REJECTED), (judged, replace(REJECTED, message="again")))
    assert row.refusal == (judged, REJECTED)


# -- one word for a cell --------------------------------------------------------------------------------------


def test_a_cell_has_its_worst_outcome() -> None:
    """Each word wins over all words that are listed before it."""
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
    assert {status(*seen[:n], is_judged=False) for n in (1, 2, 3, 4, 5)} == {"not-judged-agrees"}
    assert status(*seen[:6], is_judged=False) == "not-judged-differs"
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


def test_values_are_judged_wherever_a_call_is_answered() -> None:
    """Also in a cell whose simplest call is refused."""
    first, second = asked([1], 0), asked([2], 1)
    for refused in (UNSUPPORTED, REJECTED):
        tally, row = tallied((first, refused), (second, moved(second, 50)))
        row.simplest_refused = True
        assert tally.status(ONE, first.cell) == "violation"
        assert [cell for _, cell, *_ in tally.violations()] == [first.cell]


def test_a_cell_that_is_not_judged_differs_by_its_values_alone() -> None:
    """Refusals are gaps. The smallest refused call stays, for the report."""
    small, large = asked([1], 0), asked([2, 3], 1)
    assert status((small, REJECTED), is_judged=False) == "unsupported"
    tally, row = tallied(
        (large, REJECTED), (small, REJECTED), (large, UNSUPPORTED), (large, by(large)), is_judged=False
    )
    assert row.refused is not None
    assert (row.refused[0], row.due) == (small, 2)
    graph = replace(small, call=replace(small.call, around=("y>identity:0",)))
    assert tallied((graph, UNSUPPORTED), (graph, REJECTED), is_judged=False)[1].refused is None
    assert (tally.status(ONE, small.cell), list(tally.not_followed())) == ("not-judged-agrees", [])
    for values, outcome in (
        (1, moved(large, 50)),
        (2, Outcome("unreadable", error="E")),
        (2, Outcome("tensor", tensor("float64", [2.0, 3.0]))),
    ):
        tally, row = tallied((large, outcome), is_judged=False)
        ((_, cell, _, discrepancy, judged, shown),) = tally.not_followed()
        assert (tally.status(ONE, cell), judged, shown) == ("not-judged-differs", large, outcome)
        assert (discrepancy.key.verdict, discrepancy.key.detail) == ("not-followed", "")
        assert (discrepancy.values, row.due) == (values, 2)


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
