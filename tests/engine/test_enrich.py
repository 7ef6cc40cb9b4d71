"""More calls for cells whose wrong values are too few to name a recipe."""

from __future__ import annotations

from threading import Event
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tallied_calls import ONE, asked, tallied

from xverify import contracts
from xverify.arithmetic.readings import Stepwise
from xverify.core.call import Call, Outcome, Tensor
from xverify.core.dtypes import tensor
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
    return Outcome("tensor", Tensor("float32", codes.reshape(judged.call.data.shape)))


FEW = asked([16777219, 1048579, 70001], scale=-3.3)


def enriched(seed: int = 0, recipe: str = MISTAKE, first: Judged = FEW) -> tuple[CellTally, list[str]]:
    """Return the tally of a cell with at most three wrong values after more calls, and those calls."""
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


@pytest.mark.parametrize(("scale", "reading"), [(np.inf, "exact"), (2.0**-127, "flush-inputs")])
def test_a_scale_that_gives_no_numbers_is_changed_together_with_x(scale: float, reading: str) -> None:
    """Each product of it is an infinity, NaN or a flushed zero, and shows no number that is read for NaN."""
    edition = contracts.get("ai.onnx/DequantizeLinear-19")
    x = Tensor("float8_e4m3fn", np.arange(0x41, 0x100, dtype=np.uint8))
    call = Call(edition.id, {"x": x, "scale": tensor("float32", scale)})
    read = f"float8_e4m3fn-without-negative-nan@{reading}"
    row, _ = enriched(recipe=read, first=judge(edition, call))
    recipe = explained(row.evidence).recipe
    assert recipe is not None
    assert recipe.name == read


def test_a_seed_makes_the_same_calls_again() -> None:
    calls = enriched()[1]
    assert calls == enriched()[1]
    assert not set(calls) & set(enriched(1)[1])
