"""More calls for cells whose wrong values are too few to name a recipe."""

from __future__ import annotations

from threading import Event
from types import SimpleNamespace
from typing import Any

from tallied_calls import ONE, asked, tallied

from xverify.arithmetic.readings import Stepwise
from xverify.core.call import Call, Outcome, Tensor
from xverify.engine.enrich import enrich
from xverify.verify.attribute import codes_of, named
from xverify.verify.evidence import explained
from xverify.verify.findings import Subject
from xverify.verify.tally import CellTally
from xverify.verify.verdicts import Judged, judge

MISTAKE = "magnitude@exact"

FAR = Stepwise(difference="bfloat16", scale_cast="float16", operation="divide").name
"""A reading far from the admitted ones."""


def answer(judged: Judged, recipe: str = MISTAKE) -> Outcome:
    codes = codes_of(judged.contract, judged.call, named(judged.contract, recipe))
    assert codes is not None
    return Outcome("tensor", Tensor("float32", codes.reshape(judged.call.data.shape)))


def enriched(seed: int = 0, recipe: str = MISTAKE) -> tuple[CellTally, list[str]]:
    """Return the tally of a cell with three wrong values after more calls, and those calls."""
    first = asked([16777219, 1048579, 70001], scale=-3.3)
    tally, row = tallied((first, answer(first, recipe)))
    assert explained(row.evidence).recipe is None, "three values are too few"
    calls: list[str] = []

    def ask(subject: Subject, call: Call) -> Outcome:
        assert subject == ONE
        calls.append(call.digest())
        return answer(judge(first.contract, call), recipe)

    state: Any = SimpleNamespace(
        tally=tally,
        options=SimpleNamespace(seed=seed),
        pool=SimpleNamespace(ask=ask, failures={}),
        interrupted=Event(),
        is_time_to_shrink=lambda: False,
    )
    enrich(state)
    return row, calls


def test_more_values_name_the_recipe_of_a_few_wrong_ones() -> None:
    row, _ = enriched()
    recipe = explained(row.evidence).recipe
    assert recipe is not None
    assert recipe.name == MISTAKE


def test_a_reading_far_from_the_admitted_ones_needs_more_values_too() -> None:
    """It is forgotten at the end if the wrong results are too few."""
    row, _ = enriched(recipe=FAR)
    row.evidence.settle(True)
    assert FAR in {reading.name for reading in row.evidence.others or ()}


def test_a_seed_makes_the_same_calls_again() -> None:
    calls = enriched()[1]
    assert calls == enriched()[1]
    assert not set(calls) & set(enriched(1)[1])
