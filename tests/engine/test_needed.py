"""A need of a witness is learnt from an equal call that gets an allowed result."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sampled_calls import ONNX

from xverify import contracts
from xverify.core.call import Call, Outcome, Tensor
from xverify.core.dtypes import tensor
from xverify.core.verdict import Verdict
from xverify.engine.needed import NEGATIVE_AXIS, learn_need
from xverify.verify.findings import Finding, Key, Subject
from xverify.verify.legal import legal_set

RIGHT, WRONG, DEAD, UNASKED = "right", "wrong", "dead", "unasked"


def need(outcome: str, verdict: Verdict = Verdict.CRASH, axis: int = -2, length: int = 2) -> tuple[str, list[int]]:
    """Return what a witness needs, and the axes that were asked for."""
    asked: list[int] = []

    def ask(call: Call) -> Outcome:
        asked.append(int(call.attributes["axis"]))
        codes = legal_set(contracts.get(ONNX), call).codes(0)
        if outcome in (RIGHT, WRONG):
            return Outcome("tensor", Tensor("float32", codes ^ (outcome == WRONG)))
        return Outcome("crash" if outcome == DEAD else "unasked")

    operands = {"x": tensor("int8", [[1, 2, 3], [4, 5, 6]]), "scale": tensor("float32", [0.5, 0.1, 1.0][:length])}
    key = Key("a", ONNX, verdict, f"{ONNX}/formula", "a")
    finding = Finding(key, Subject("a", "1", "oracle"), "a", Call(ONNX, operands, {"axis": axis}), None)
    learn_need(finding, contracts.get(ONNX), ask)
    return finding.needs, asked


@pytest.mark.parametrize("verdict", [Verdict.CRASH, Verdict.VIOLATION, Verdict.WRONGLY_REJECTED])
def test_a_negative_axis_is_needed_if_the_same_axis_from_the_front_is_right(verdict: Verdict) -> None:
    assert need(RIGHT, verdict) == (NEGATIVE_AXIS, [0])
    for outcome in (WRONG, DEAD, UNASKED):
        assert need(outcome, verdict) == ("", [0])


def test_calls_without_a_negative_axis_and_forbidden_ones_are_not_made_again() -> None:
    assert need(RIGHT, axis=0) == ("", [])
    assert need(RIGHT, axis=-1, length=2) == ("", [])
    assert need(RIGHT, axis=-1, length=3) == (NEGATIVE_AXIS, [1])
    assert need(RIGHT, Verdict.HANG) == ("", [])
    assert need(RIGHT, axis=-3) == ("", [])


def test_a_call_without_axis_needs_none() -> None:
    key = Key("a", ONNX, Verdict.CRASH, f"{ONNX}/formula", "a")
    finding = Finding(key, Subject("a", "1", "oracle"), "a", None, None)
    learn_need(finding, contracts.get(ONNX), lambda call: pytest.fail("there is no call"))
    call = Call(ONNX, {"x": tensor("int8", [1]), "scale": tensor("float32", 0.5)})
    learn_need(replace(finding, call=call), contracts.get(ONNX), lambda call: pytest.fail("there is no axis"))
    assert finding.needs == ""
