"""Attribution of a graph's wrong values to a recipe of its own operator."""

from __future__ import annotations

import numpy as np
import pytest

from xverify import contracts
from xverify.arithmetic.readings import by_name
from xverify.core.call import Call, Outcome, Tensor
from xverify.core.dtypes import tensor
from xverify.core.surroundings import surround
from xverify.verify import verdicts
from xverify.verify.graph_recipes import explain_by_recipe, violates_by_recipe
from xverify.verify.graph_values import Values, evaluate

EDITION = contracts.get("ai.onnx/DequantizeLinear-24")


def departing(around: str, name: str) -> tuple[Call, Tensor]:
    """A call, and what its graph gives if all its DequantizeLinear operators follow a recipe."""
    tensors = {"x": tensor("int8", np.arange(-128, 128)), "scale": tensor("bfloat16", 0.1)}
    call = Call(EDITION.id, tensors, {}, around=(around,))

    def dequantized(contract: contracts.Contract, lone: Call) -> Values:
        operands = contract.operands(lone)
        codes = by_name(name).evaluate(operands)
        return Values(operands.output_dtype, codes.reshape(1, *lone.data.shape), np.zeros(lone.data.shape, np.bool_))

    made = evaluate(EDITION, surround(call), dequantizing=dequantized)[surround(call).output]
    return call, made.tensor(0)


@pytest.mark.parametrize("around", ["y>neg:0", "y>resize:0", "shared:1"])
def test_the_operator_departs_and_its_neighbours_do_not(around: str) -> None:
    call, got = departing(around, "last-bit")
    by = explain_by_recipe(EDITION, call, got)
    assert by is not None
    assert "last-bit" in (by.recipe.name, *by.equal)
    judged = verdicts.judge(EDITION, call)
    comparison = verdicts.compared(judged, Outcome("tensor", got))
    assert comparison is not None
    shown = violates_by_recipe(judged, "fake", got, comparison, "last-bit")
    assert shown is not None
    assert (shown.key.detail, shown.values) == ("last-bit", comparison.wrong_values)
    assert violates_by_recipe(judged, "fake", got, comparison, "truncated") is None


def test_few_wrong_values_need_lone_calls_that_show_the_recipe() -> None:
    call, got = departing("y>neg:0", "last-bit")
    comparison = verdicts.compared(verdicts.judge(EDITION, call), Outcome("tensor", got))
    assert comparison is not None
    wrong = np.flatnonzero(comparison.wrong)[:3]
    few = Call(call.contract, {**call.tensors, "x": tensor("int8", wrong - 128)}, {}, around=call.around)
    part = Tensor(got.dtype, got.codes[wrong])
    assert explain_by_recipe(EDITION, few, part) is None
    by = explain_by_recipe(EDITION, few, part, ("graph:fake-quantize", "last-bit"))
    assert by is not None
    assert by.recipe.name == "last-bit"
