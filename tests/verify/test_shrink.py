"""Shrinking keeps the mistake, and calls that it makes together show what they show one by one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xverify import contracts
from xverify.core.call import Call, Outcome, Tensor
from xverify.core.dtypes import tensor
from xverify.verify import variants, verdicts
from xverify.verify.attribute import codes_of, gives, named
from xverify.verify.findings import Finding, Findings, Subject
from xverify.verify.shrink import MOST_DEATHS, TOGETHER, shrink

ONNX = contracts.get("ai.onnx/DequantizeLinear-13")
REFUSED = Outcome("rejected", error="ValueError", message="no")


def refused(call: Call) -> Outcome:
    """The outcome of an implementation that refuses zero points and large scales."""
    large = float(call.tensors["scale"].codes.view(np.float32).max()) > 1.5
    return REFUSED if large and "zero_point" in call.tensors else Outcome("unsupported")


def finding() -> Finding:
    tensors = {"x": tensor("int8", [[3, 7], [5, 9]]), "scale": tensor("float32", 3.1), "zero_point": tensor("int8", 4)}
    judged = verdicts.judge(ONNX, Call(ONNX.id, tensors, {"axis": 0}))
    discrepancy = verdicts.rejected(judged, "k", REFUSED)
    assert discrepancy is not None
    findings = Findings()
    findings.add(discrepancy, Subject("k", "1", "kernel", ""), judged.call, REFUSED, judged.cell, 0)
    return findings.sorted()[0]


def test_calls_made_together_give_the_same_result() -> None:
    one_by_one: list[str] = []
    groups: list[int] = []

    def ask(call: Call) -> Outcome:
        one_by_one.append(call.digest())
        return refused(call)

    def ask_all(calls: Sequence[Call]) -> list[Outcome]:
        groups.append(len(calls))
        return [refused(call) for call in calls]

    alone = shrink(finding(), ONNX, ask, None, 0)
    asked_alone = len(one_by_one)
    together = shrink(finding(), ONNX, ask, None, 0, ask_all=ask_all)
    assert alone is not None
    assert together is not None
    assert (alone.call.digest(), alone.evaluations, alone.minimal) == (
        together.call.digest(),
        together.evaluations,
        together.minimal,
    )
    assert groups
    assert max(groups) <= TOGETHER
    assert len(one_by_one) - asked_alone < asked_alone


def scaled(call: Call, factors: dict[int, float]) -> Outcome:
    """The outcome of an implementation that multiplies the results of some codes of x by a factor."""
    result = verdicts.judge(ONNX, call).legal.codes(0).view(np.float32).copy()  # type: ignore[union-attr]
    for code, factor in factors.items():
        result[call.data.codes == code] *= factor
    return Outcome("tensor", Tensor("float32", result.view(np.uint32)))


def test_a_shrunk_difference_between_settings_is_no_violation_of_the_usual_one() -> None:
    """The usual setting is wrong where x is 3, and the other one where x is 7."""
    call = Call(ONNX.id, {"x": tensor("uint8", [3, 7, 9]), "scale": tensor("float32", 0.5)}, {})
    usual, other = {3: 5.0}, {7: 5.0}
    judged = verdicts.judge(ONNX, call)
    outcome = scaled(call, other)
    (difference,) = variants.differences(judged, "k[threads=8]", scaled(call, usual), outcome, is_judged=True)
    findings = Findings()
    findings.add(
        difference,
        Subject("k[threads=8]", "1", "oracle"),
        call,
        outcome,
        judged.cell,
        0,
        None,
        Subject("k", "1", "oracle"),
    )
    for is_judged, shown in ((True, 7), (False, 3)):
        found = shrink(
            findings.sorted()[0],
            ONNX,
            lambda call: scaled(call, other),
            lambda call: scaled(call, usual),
            0,
            is_judged=is_judged,
        )
        assert found is not None
        assert found.call.data.codes.reshape(-1).tolist() == [shown]


GUIDE = contracts.get("onednn/Dequantize-1@3.0")
BOTH, ONE = (f"as-per-tensor{which}@operands-float32+difference-float32" for which in ("", "-zero-point"))


def test_a_mistake_in_both_parameters_does_not_shrink_to_one_of_them() -> None:
    tensors = {
        "x": tensor("int8", [[3, 7, 1], [5, 9, 2]]),
        "scale": tensor("float32", [0.25, 3.0, 7.0]),
        "zero_point": tensor("int32", [534528119, 2010, 16777217]),
    }
    call = Call(GUIDE.id, tensors, {"qtype": "per_channel", "axis": 1})

    def ask(call: Call) -> Outcome:
        return Outcome("tensor", Tensor("float32", codes_of(GUIDE, call, named(GUIDE, BOTH))))

    judged = verdicts.judge(GUIDE, call)
    comparison = verdicts.compared(judged, ask(call))
    assert comparison is not None
    discrepancy = verdicts.violates(judged, "k", ask(call), comparison, named(GUIDE, BOTH))
    assert discrepancy is not None
    findings = Findings()
    findings.add(discrepancy, Subject("k", "1", "kernel", ""), call, ask(call), judged.cell, 0)
    shrunk = shrink(findings.sorted()[0], GUIDE, ask, None, 0)
    assert shrunk is not None
    assert shrunk.call.values < call.values
    got = ask(shrunk.call).tensor
    assert got is not None
    assert not gives(GUIDE, shrunk.call, got, named(GUIDE, ONE))


def test_calls_that_end_the_process_in_another_way_are_limited() -> None:
    """The heap is damaged: the witness ends the process, and each smaller call waits for a lock."""
    x = tensor("int8", np.arange(60).reshape(6, 10))
    call = Call(ONNX.id, {"x": x, "scale": tensor("float32", 3.1), "zero_point": tensor("int8", 4)}, {})
    crash = Outcome("crash", message="free(): invalid pointer (SIGABRT)")
    asked: list[Outcome] = []

    def ask(candidate: Call) -> Outcome:
        asked.append(crash if candidate.digest() == call.digest() else Outcome("hang", message="no answer within 10 s"))
        return asked[-1]

    judged = verdicts.judge(ONNX, call)
    discrepancy = verdicts.died(judged, "k", crash)
    assert discrepancy is not None
    findings = Findings()
    findings.add(discrepancy, Subject("k", "1", "kernel", ""), call, crash, judged.cell, 0)
    shrunk = shrink(findings.sorted()[0], ONNX, ask, None, 0)
    assert shrunk is not None
    assert shrunk.call == call
    assert len(asked) == MOST_DEATHS
