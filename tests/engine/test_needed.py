"""A need of a witness is learnt from an equal call that gets an allowed result."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sampled_calls import ONNX, sample_of

from xverify import contracts
from xverify.core.call import Call, Outcome, Tensor
from xverify.core.dtypes import tensor
from xverify.core.verdict import Verdict
from xverify.engine.needed import NEGATIVE_AXIS, REPEATED, learn_need
from xverify.verify.findings import Discrepancy, Finding, Findings, Key, Subject
from xverify.verify.legal import legal_set

RIGHT, WRONG, DEAD, UNASKED = "right", "wrong", "dead", "unasked"


def need(
    outcome: str,
    verdict: Verdict = Verdict.CRASH,
    axis: int = -2,
    length: int = 2,
    dies_at: int = 0,
    unconfirmed: bool = False,
    wrong_at: int | None = None,
) -> tuple[str, list[int]]:
    """Return what a witness needs, and the axes that were asked for.

    Args:
        dies_at: the number of the call that ends the process.
        unconfirmed: true for a death that did not come again.
        wrong_at: the axis of another call that shows the finding.
    """
    asked: list[int] = []

    def ask(call: Call) -> Outcome:
        asked.append(int(call.attributes["axis"]))
        if len(asked) == dies_at:
            return Outcome("crash")
        codes = legal_set(contracts.get(ONNX), call).codes(0)
        if outcome in (RIGHT, WRONG):
            return Outcome("tensor", Tensor("float32", codes ^ (outcome == WRONG)))
        return Outcome("crash" if outcome == DEAD else "unasked")

    operands = {"x": tensor("int8", [[1, 2, 3], [4, 5, 6]]), "scale": tensor("float32", [0.5, 0.1, 1.0][:length])}
    key = Key("a", ONNX, verdict, f"{ONNX}/formula", "a")
    finding = Finding(key, Subject("a", "1", "oracle"), "a", Call(ONNX, operands, {"axis": axis}), None)
    finding.unconfirmed = unconfirmed
    if wrong_at is not None:
        other = Call(ONNX, operands, {"axis": wrong_at})
        finding.samples = [sample_of(other, lambda call, y: True)]
    learn_need(finding, contracts.get(ONNX), ask)
    return finding.needs, asked


@pytest.mark.parametrize("verdict", [Verdict.CRASH, Verdict.VIOLATION, Verdict.WRONGLY_REJECTED])
def test_a_negative_axis_is_needed_if_the_same_axis_from_the_front_is_right(verdict: Verdict) -> None:
    assert need(RIGHT, verdict) == (NEGATIVE_AXIS, [0] * REPEATED)
    for outcome in (DEAD, UNASKED):
        assert need(outcome, verdict) == ("", [0])
    # A wrong value is no death. Under an edition that nobody follows, most values are wrong.
    survives = verdict == Verdict.CRASH
    assert need(WRONG, verdict) == ((NEGATIVE_AXIS, [0] * REPEATED) if survives else ("", [0]))


def test_a_death_that_comes_at_times_shows_no_need() -> None:
    assert need(RIGHT, dies_at=2) == ("", [0, 0])
    assert need(RIGHT, unconfirmed=True) == ("", [])


def test_a_finding_that_other_calls_show_from_the_front_needs_none() -> None:
    assert need(RIGHT, Verdict.VIOLATION, wrong_at=0) == ("", [])
    assert need(RIGHT, Verdict.VIOLATION, wrong_at=-2) == (NEGATIVE_AXIS, [0] * REPEATED)


@pytest.mark.parametrize(("axes", "needs"), [((-2, -1), NEGATIVE_AXIS), ((-2, 1), "")])
def test_a_death_that_came_from_the_front_too_needs_none(axes: tuple[int, ...], needs: str) -> None:
    """All deaths on allowed calls are one finding, and its smallest call need not be like the others."""
    findings, key = Findings(), Key("a", ONNX, Verdict.CRASH, f"{ONNX}/formula", "allowed:values")
    for number, axis in enumerate(axes):
        operands = {"x": tensor("int8", np.ones((2, 2 + number))), "scale": tensor("float32", [0.5, 0.5])}
        call = Call(ONNX, operands, {"axis": axis})
        findings.add(Discrepancy(key, "a"), Subject("a", "1", "oracle"), call, Outcome("crash"), None, number)
    (finding,) = findings.sorted()

    def ask(call: Call) -> Outcome:
        return Outcome("tensor", Tensor("float32", legal_set(contracts.get(ONNX), call).codes(0)))

    learn_need(finding, contracts.get(ONNX), ask)
    assert finding.needs == needs


def test_calls_without_a_negative_axis_and_forbidden_ones_are_not_made_again() -> None:
    assert need(RIGHT, axis=0) == ("", [])
    assert need(RIGHT, axis=-1, length=2) == ("", [])
    assert need(RIGHT, axis=-1, length=3) == (NEGATIVE_AXIS, [1] * REPEATED)
    assert need(RIGHT, Verdict.HANG) == ("", [])
    assert need(RIGHT, axis=-3) == ("", [])


def test_a_call_without_axis_needs_none() -> None:
    key = Key("a", ONNX, Verdict.CRASH, f"{ONNX}/formula", "a")
    finding = Finding(key, Subject("a", "1", "oracle"), "a", None, None)
    learn_need(finding, contracts.get(ONNX), lambda call: pytest.fail("there is no call"))
    call = Call(ONNX, {"x": tensor("int8", [1]), "scale": tensor("float32", 0.5)})
    learn_need(replace(finding, call=call), contracts.get(ONNX), lambda call: pytest.fail("there is no axis"))
    assert finding.needs == ""
