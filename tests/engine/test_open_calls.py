"""Findings on calls that the text leaves open and that two implementations treat differently."""

from __future__ import annotations

from pathlib import Path

import pytest
from tallied_calls import EXACT, ONE, ONNX, REJECTED, SINGLE, TRUNCATED, TWO, asked, by, numbers

from xverify.core.call import Call, Outcome
from xverify.core.dtypes import tensor
from xverify.engine.open_calls import conclude_open_calls
from xverify.engine.options import Options
from xverify.engine.state import OpenCall, new_run
from xverify.verify.attribute import named
from xverify.verify.evidence import Explained
from xverify.verify.findings import Finding
from xverify.verify.tally import Tally
from xverify.verify.verdicts import Judged, judge

LEFT_OPEN = judge(
    ONNX,
    Call(
        ONNX.id,
        {
            "x": tensor("int32", [SINGLE + 2, EXACT + 2]),
            "scale": tensor("float32", 3.0),
            "zero_point": tensor("int32", 2),
        },
    ),
)
ALLOWED = asked([1, 2])


def concluded(tally: Tally, outcome: Outcome, other: Outcome, supports: bool = True) -> list[Finding]:
    """Return the findings of a run with this tally and this open call."""
    state = new_run(Options((ONNX,), (), Path(), "test", "test"), lambda event: None)
    state.tally = tally
    state.open_calls.append(OpenCall(LEFT_OPEN, ONE, outcome, TWO, other))
    state.support = {(subject, ONNX.cell(LEFT_OPEN.call)): supports for subject in (ONE, TWO)}
    conclude_open_calls(state)
    return state.findings.sorted()


def with_zero_point(x: list[int]) -> Judged:
    """Return an allowed call of the open call's cell."""
    tensors = {"x": tensor("int32", x), "scale": tensor("float32", 3.0), "zero_point": tensor("int32", 0)}
    return judge(ONNX, Call(ONNX.id, tensors))


def test_a_recipe_that_gives_wrong_values_of_allowed_calls_too_is_not_told_again() -> None:
    cut = named(ONNX, TRUNCATED)
    one, two = by(LEFT_OPEN, TRUNCATED), by(LEFT_OPEN)
    assert not one.same(two)
    tally = Tally()
    tally.observe(ALLOWED, ONE, numbers(9.0, 9.0), True)
    (found,) = concluded(tally, one, two)
    assert found.summary == "the clause 'int32-zero-point' leaves the call open, and one gives other values than two"
    tally.cells[ONE, ALLOWED.cell].explained = Explained(cut)
    assert concluded(tally, one, two) == []
    assert [each.readings for each in concluded(tally, numbers(1.0, 1.0), two)] == [(TRUNCATED,)]


@pytest.mark.parametrize("refusing_first", [True, False])
def test_who_refuses_allowed_calls_too_says_nothing_of_the_clause(refusing_first: bool) -> None:
    answers = (REJECTED, by(LEFT_OPEN)) if refusing_first else (by(LEFT_OPEN), REJECTED)
    refusing, allowed = ONE if refusing_first else TWO, with_zero_point([1, 2])
    tally = Tally()
    assert len(concluded(tally, *answers)) == 1
    assert concluded(tally, *answers, supports=False) == []
    tally.observe(allowed, refusing, by(allowed), True)
    assert len(concluded(tally, *answers)) == 1
    tally.observe(allowed, refusing, REJECTED, True)
    assert concluded(tally, *answers) == []
