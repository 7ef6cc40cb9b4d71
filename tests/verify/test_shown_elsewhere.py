"""Wrong values that no search in their cell explains, but a recipe that other cells show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from lattice_oracles import SUBJECT, Answer, changed, follows

from xverify import contracts
from xverify.arithmetic.readings import Stepwise
from xverify.core.call import Call, Outcome
from xverify.core.dtypes import tensor
from xverify.verify.findings import Discrepancy, Findings
from xverify.verify.shrink import is_explained, shrink
from xverify.verify.tally import Tally
from xverify.verify.verdicts import judge

EDITION, OTHER = contracts.get("ai.onnx/DequantizeLinear-24"), contracts.get("ai.onnx/DequantizeLinear-23")
LAST_BIT = Stepwise(scale_cast="last-bit")
casts = follows(EDITION, LAST_BIT)
ROUNDED_DOWN, ROUNDED_DOWN_TOO = 0.1, 0.7
"""Scales that the cast to bfloat16 by the last bit makes smaller than rounding to nearest does."""


def a_call(x: Any, scale: Any, dtype: str = "uint8", contract: str = EDITION.id) -> Call:
    tensors = {"x": tensor(dtype, x), "scale": tensor("float32", scale)}
    return Call(contract, tensors, {"output_dtype": "bfloat16", "axis": 0})


def shows_clearly(contract: str = EDITION.id) -> list[Call]:
    """Calls of a cell of int8 whose values tell the recipe from all others."""
    rng = np.random.default_rng(4)
    return [
        a_call(rng.integers(-128, 128, size), rng.random(size) + 0.5, "int8", contract) for size in (40, 60, 80, 100)
    ]


def with_noise(call: Call, codes: Any) -> Any:
    """The codes with steps that no recipe makes, in calls of three values."""
    return codes + np.array([3, 5, 11], codes.dtype) if codes.size == 3 else codes


noisy = changed(casts, with_noise)


def violations(answers: Mapping[str, Answer], *calls: Call) -> list[tuple[Discrepancy, Call, Outcome]]:
    """The violations in the cells of uint8, by edition's answer."""
    tally = Tally()
    for number, call in enumerate(calls):
        judged = judge(contracts.get(call.contract), call, number)
        tally.observe(judged, SUBJECT, answers[call.contract](call), is_judged=True)
    tally.settle()
    return [(each, j.call, got) for _, cell, _, each, j, got in tally.violations() if cell.x_dtype == "uint8"]


def recipes(answers: Mapping[str, Answer], *calls: Call) -> dict[str | None, int]:
    """The number of wrong values of the witness of each recipe; None for no recipe."""
    found = violations(answers, *calls)
    return {each.attribution and each.attribution.reading: each.values for each, _, _ in found}


FEW_VALUES = [a_call([3, 5], [ROUNDED_DOWN] * 2), a_call([7, 8], [ROUNDED_DOWN] * 2)]
NOISE = a_call([1, 2, 3], [1.0, 2.0, 4.0])


def test_calls_are_named_by_a_recipe_that_other_cells_show() -> None:
    found = violations({EDITION.id: noisy}, *shows_clearly(), *FEW_VALUES, NOISE)
    named = {each.attribution and each.attribution.reading: call for each, call, _ in found}
    assert set(named) == {LAST_BIT.name, None}
    assert named[LAST_BIT.name] in FEW_VALUES
    assert named[None] is NOISE, "what is left has a witness of its own"


def test_few_distinct_numbers_may_fit_a_recipe_by_luck() -> None:
    three = [FEW_VALUES[0], a_call([7], [ROUNDED_DOWN])]
    assert set(recipes({EDITION.id: noisy}, *shows_clearly(), *three, NOISE)) == {None}


@pytest.mark.parametrize("others", [0, 8])
def test_right_values_that_another_recipe_changes_tell_recipes_apart(others: int) -> None:
    """Truncation, which cells of int16 show, changes all of these values."""
    truncates = follows(EDITION, Stepwise(final="truncated"))

    def either(call: Call) -> Outcome:
        return (truncates if call.data.dtype == "int16" else noisy)(call)

    rng = np.random.default_rng(4)
    truncated = [a_call(rng.integers(-128, 128, 60), rng.random(60) + 0.5, "int16") for _ in range(4)]
    call = a_call([3, *range(24, 24 + others)], [ROUNDED_DOWN, *[1.0078125] * others])
    named = LAST_BIT.name in recipes({EDITION.id: either}, *shows_clearly(), *truncated, call, NOISE)
    assert named == bool(others)


def test_without_another_cell_few_values_stay_without_a_name() -> None:
    assert set(recipes({EDITION.id: noisy}, *FEW_VALUES, NOISE)) == {None}


def test_cells_of_another_edition_do_not_count() -> None:
    answers = {EDITION.id: noisy, OTHER.id: follows(OTHER, LAST_BIT)}
    assert set(recipes(answers, *shows_clearly(OTHER.id), *FEW_VALUES, NOISE)) == {None}


def test_a_call_with_one_more_wrong_value_keeps_no_name() -> None:
    mixed = a_call([3, 5, 7], [ROUNDED_DOWN, ROUNDED_DOWN_TOO, 1.0])
    assert set(recipes({EDITION.id: noisy}, *shows_clearly(), mixed)) == {None}


def test_infinities_alone_show_no_recipe() -> None:
    narrow = follows(EDITION, Stepwise(scale_cast="float16"))

    def single(x: Any, scale: Any, dtype: str = "uint8") -> Call:
        return replace(a_call(x, scale, dtype), attributes={"axis": 0})

    clear = [
        single(call.data.codes.view(np.int8), np.linspace(0.1, 0.9, call.values), "int8") for call in shows_clearly()
    ]
    infinite, number = single([3], [1e5]), single([3, 5, 7, 9], [0.1, 0.2, 0.3, 0.7])
    strange, noise = changed(narrow, with_noise), single([1, 2, 3], [1.0, 2.0, 4.0])
    assert recipes({EDITION.id: strange}, *clear, noise, infinite).keys() == {None}
    assert recipes({EDITION.id: strange}, *clear, noise, infinite, number).keys() == {None, "scale-float16"}


# -- shrinking --------------------------------------------------------------------------------------------


def odd_for_77(call: Call, codes: Any) -> Any:
    """The codes with a step that no recipe makes where x is 77."""
    return codes + (call.data.codes == 77).astype(codes.dtype) * codes.dtype.type(5)


@pytest.mark.parametrize("known", [(), ("flush-subnormals", "graph:unrounded", LAST_BIT.name)])
def test_a_nameless_witness_does_not_shrink_to_what_another_recipe_explains(known: tuple[str, ...]) -> None:
    answer = changed(casts, odd_for_77)
    call = a_call([3, 77, 5], [ROUNDED_DOWN, 1.0, ROUNDED_DOWN_TOO])
    ((discrepancy, witness, outcome),) = violations({EDITION.id: answer}, call)
    findings = Findings()
    findings.add(discrepancy, SUBJECT, witness, outcome, judge(EDITION, call).cell, 0)
    (finding,) = findings.sorted()
    result = shrink(finding, EDITION, answer, None, 0, known=known)
    assert result is not None
    assert result.call.values == 1
    assert is_explained(EDITION, result.call, result.outcome, [LAST_BIT.name]) == (not known)
    assert (77 in result.call.data.codes) == bool(known)
