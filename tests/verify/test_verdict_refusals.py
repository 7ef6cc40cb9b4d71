"""Verdicts on outcomes without values: refusals, deaths, memory faults, open calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from judged_calls import (
    CRASH,
    HANG,
    ONE,
    ONNX_13,
    ONNX_21,
    REJECTED,
    TWO,
    UNSUPPORTED,
    asked,
    by,
    concluded,
    forbidden_call,
    open_call,
    shifted,
)

from xverify import contracts
from xverify.arithmetic.readings import Stepwise
from xverify.core.call import AT_RUN, Call, Outcome, Tensor
from xverify.core.dtypes import tensor
from xverify.verify import verdicts
from xverify.verify.attribute import named
from xverify.verify.tally import Tally
from xverify.verify.verdicts import Judged, judge


def test_forbidden_calls() -> None:
    judged = forbidden_call()
    computed = Outcome("tensor", tensor("float32", [1.0]))
    _, found = concluded([(judged, ONE, computed)])
    assert found["wrongly-accepted"].key.clause == ONNX_13.id + "/x-type"
    for answer in (REJECTED, UNSUPPORTED):
        assert concluded([(judged, ONE, answer)])[1] == {}
    assert concluded([(judged, ONE, computed)], is_judged=False)[1] == {}


def test_a_result_that_cannot_be_read_is_no_refusal() -> None:
    """It is a fault of its own on every call that the text does not leave open."""
    nothing = Outcome("unreadable", error="NoneType", message="the result is None; return an array")
    judged = asked(ONNX_21, "int8")
    tally, found = concluded([(judged, ONE, nothing), (asked(ONNX_21, "int8", number=1), ONE, UNSUPPORTED)])
    assert set(found) == {"unreadable-result"}
    assert found["unreadable-result"].key.detail == "NoneType"
    assert found["unreadable-result"].summary.endswith(": the result is None; return an array")
    assert judged.cell is not None
    assert tally.status(ONE, judged.cell) == "unreadable-result"
    tally, found = concluded([(forbidden_call(), ONE, nothing), (forbidden_call(1), ONE, nothing)])
    assert found == {}
    ((subject, refused, outcome, count),) = tally.not_refused()
    assert (subject, outcome, count) == (ONE, nothing, 2)
    summary = verdicts.unreadable(refused, "one", outcome)
    assert summary is not None
    assert "forbids: the result is None; return an array. To refuse a call, raise an exception" in summary.summary
    allowed = judge(ONNX_13, Call(ONNX_13.id, {"x": tensor("int8", [1]), "scale": tensor("float32", 1.0)}))
    tally, _ = concluded([(forbidden_call(), ONE, nothing), (allowed, ONE, nothing)])
    assert list(tally.not_refused()) == []
    assert concluded([(open_call(), ONE, nothing)])[1] == {}
    assert concluded([(judged, ONE, nothing)], is_judged=False)[1] == {}


def test_refusals_of_allowed_calls() -> None:
    """A rejection is wrong in a cell that answers. Otherwise the cell is unsupported."""
    first, second = (asked(ONNX_21, "int8", number=n) for n in range(2))
    right = by(first, "exact")
    tally, found = concluded([(first, ONE, right), (second, ONE, REJECTED)])
    assert [*found] == ["wrongly-rejected"]
    assert "ValueError" in found["wrongly-rejected"].key.detail
    assert tally.status(ONE, first.cell) == "wrongly-rejected"
    assert found["wrongly-rejected"].key.clause == f"{ONNX_21.id}/granularity"
    floats = [asked(ONNX_21, "float8_e4m3fn", zero_point_dtype=zp, number=1) for zp in ("float8_e4m3fn", "")]
    for judged, clause in zip(floats, ("float-zero-point", "granularity"), strict=True):
        refusal = verdicts.rejected(judged, "one", REJECTED)
        assert refusal is not None
        assert refusal.key.clause == f"{ONNX_21.id}/{clause}"
    tally, found = concluded([(first, ONE, UNSUPPORTED), (second, ONE, UNSUPPORTED)])
    assert (found, tally.status(ONE, first.cell)) == ({}, "unsupported")
    tally, found = concluded([(first, ONE, REJECTED)])
    tally.cells[ONE, first.cell].simplest_refused = True
    assert (found, tally.status(ONE, first.cell)) == ({}, "unsupported")


def test_a_failure_at_run_is_no_refusal_of_a_cell() -> None:
    judged, other = asked(ONNX_21, "int8"), asked(ONNX_21, "int8", number=1)
    tally = Tally()
    tally.observe(judged, ONE, REJECTED, True)
    tally.observe(other, ONE, replace(REJECTED, stage=AT_RUN), True)
    row = tally.cells[ONE, judged.cell]
    row.simplest_refused = True
    assert tally.status(ONE, judged.cell) == "wrongly-rejected"
    failed = row.refusals["", True]
    assert (failed.judged, failed.cases) == (other, 1)
    finding = verdicts.rejected(other, "one", failed.outcome)
    assert finding is not None
    assert finding.summary.startswith("one accepts, and fails to run, an allowed per tensor call with x of int8")


def test_refusals_of_graphs_are_told_apart_by_their_messages() -> None:
    lone = asked(ONNX_21, "int8")
    messages = ("no kernel for 'y_1'", "no kernel for 'y_2'", "QLinearWhere: per axis (int8)")
    tally = Tally()
    for number, message in enumerate(messages):
        judged = replace(lone, call=replace(lone.call, around=("y>relu:0",)), number=number)
        tally.observe(judged, ONE, replace(REJECTED, message=message), True)
        tally.observe(replace(lone, number=number), ONE, replace(REJECTED, message=message), True)
    assert lone.cell is not None
    row = tally.cells[ONE, lone.cell]
    assert {key: refusal.cases for key, refusal in row.refusals.items()} == {
        ("no-kernel-for", False): 2,
        ("qlinearwhere-per-axis", False): 1,
        ("", False): 3,
    }
    details = [verdicts.rejected(each.judged, "one", each.outcome) for each in row.refusals.values()]
    assert [each.key.detail.count(":") for each in details if each is not None] == [3, 2, 3]


def test_a_refused_block_cites_the_sentence_about_blocks() -> None:
    edition = contracts.get("pytorch/dequantize_per_channel_group@2.13")
    judged = asked(edition, "int8", granularity="blocked", shape=(2, 4), zero_point_dtype="int8", block_size=2)
    refusal = verdicts.rejected(judged, "one", REJECTED)
    assert refusal is not None
    assert refusal.key.clause == edition.id + "/block-shape"


@pytest.mark.parametrize("outcome", [CRASH, HANG])
@pytest.mark.parametrize("make", [lambda: asked(ONNX_13, "int8"), open_call, forbidden_call])
def test_deaths(outcome: Outcome, make: Callable[[], Judged]) -> None:
    judged = make()
    tally, found = concluded([(judged, ONE, outcome)], is_judged=False)
    (finding,) = found.values()
    assert finding.key.verdict == outcome.kind, "a death is told of whoever judges it"
    assert finding.key.detail.startswith(judged.judgement.verdict)
    assert finding.key.clause in ONNX_13.clauses
    if judged.cell is not None:
        assert tally.status(ONE, judged.cell) == outcome.kind


def test_memory() -> None:
    judged = asked(ONNX_21, "int8")
    noted = replace(by(judged, "exact"), notes=("input-written", "output-aliases-input"))
    found = Tally().observe(judged, ONE, noted, True)
    assert [(d.key.verdict, d.key.detail) for d in found] == [("memory", note) for note in noted.notes]
    assert len({d.key.id() for d in found}) == 2


def test_nondeterminism() -> None:
    judged = asked(ONNX_21, "int8")
    right = by(judged, "exact")
    found = verdicts.nondeterministic(judged, "one", right, shifted(right))
    assert found is not None
    assert found.key.verdict == "nondeterministic"
    assert verdicts.nondeterministic(judged, "one", right, by(judged, "exact")) is None
    assert verdicts.nondeterministic(judged, "one", REJECTED, Outcome("rejected", message="another")) is None
    assert verdicts.nondeterministic(judged, "one", right, REJECTED) is not None
    assert verdicts.nondeterministic(judged, "one", right, CRASH) is None, "a crash has a verdict of its own"


A, B = Outcome("tensor", tensor("float32", [1.0, 2.0])), Outcome("tensor", tensor("float32", [1.0, 3.0]))
NAN, QUIET = (Outcome("tensor", Tensor("float32", np.array([code, 0], np.uint32))) for code in (0x7FC00000, 0xFFC00001))


@pytest.mark.parametrize(
    ("first", "second", "how"),
    [
        (A, A, None),
        (A, B, "other-values:two"),
        (NAN, QUIET, None),
        (A, Outcome("tensor", tensor("float16", [1.0, 2.0])), "other-values:two"),
        (A, REJECTED, "computes:two"),
        (REJECTED, A, "refuses:two"),
        (REJECTED, REJECTED, None),
        (A, UNSUPPORTED, None),
        (UNSUPPORTED, A, None),
        (A, CRASH, None),
        (HANG, A, None),
    ],
)
def test_answers_to_an_open_call_can_be_an_ambiguity(first: Outcome, second: Outcome, how: str | None) -> None:
    judged = open_call()
    found = verdicts.disagrees(judged, "one", first, "two", second)
    assert (found.key.detail if found else None) == how
    if found:
        assert (found.key.verdict, found.key.clause) == ("ambiguity", ONNX_13.id + "/int32-zero-point")
    assert verdicts.disagrees(asked(ONNX_13, "int8"), "one", first, "two", second) is None
    tally, at_once = concluded([(judged, ONE, A), (judged, TWO, B)])
    assert at_once == {}, "values of an open call are no violation"
    assert tally.status(ONE, judged.cell) == "unspecified"


def test_answers_that_follow_one_meaning_of_an_open_call_are_no_ambiguity() -> None:
    """Each answer follows an admitted reading, or a recipe that also gives its answers to allowed calls."""
    tensors = {"x": tensor("int32", [16777217, 16777219]), "scale": tensor("float32", 3.0)}
    left_open = judge(ONNX_13, Call(ONNX_13.id, tensors | {"zero_point": tensor("int32", 2)}))
    exact, single, wraps = (
        named(ONNX_13, name) for name in ("exact", "float32", Stepwise(final="truncated").name)
    )  # fmt: skip
    one, two, three = (
        Outcome("tensor", Tensor("float32", recipe.evaluate(ONNX_13.operands(left_open.call))))
        for recipe in (exact, single, wraps)
    )
    other = Outcome("tensor", tensor("float32", [5.0, 6.0]))
    assert not one.same(two)
    assert verdicts.disagrees(left_open, "one", one, "two", two) is None
    assert verdicts.disagrees(left_open, "one", one, "two", other) is not None
    assert verdicts.disagrees(left_open, "one", other, "two", two) is not None
    by_recipe = verdicts.disagrees(left_open, "one", other, "two", two, [wraps])
    assert by_recipe is not None
    assert by_recipe.readings == (wraps.name,), "which shrinking needs too"
    assert verdicts.disagrees(left_open, "one", three, "two", other, [wraps]) is not None
    assert verdicts.disagrees(left_open, "one", three, "two", two, [wraps]) is None


def test_open_calls_do_not_hide_a_cell() -> None:
    """The verdict of a cell is that of its allowed calls, whenever an open call comes."""
    tensors = {"x": tensor("int32", [1, 2]), "scale": tensor("float32", 0.1), "zero_point": tensor("int32", 0)}
    allowed, left_open = judge(ONNX_13, Call(ONNX_13.id, tensors)), open_call(1)
    wrong = shifted(by(allowed, "exact"))
    for order in ([(allowed, ONE, wrong), (left_open, ONE, A)], [(left_open, ONE, A), (allowed, ONE, wrong)]):
        assert concluded(order)[0].status(ONE, allowed.cell) == "violation"


def test_an_edition_that_does_not_judge() -> None:
    judged = asked(ONNX_21, "int8", zero_point_dtype="int8")
    for answer, status in (
        (by(judged, "exact"), "not-judged-agrees"),
        (shifted(by(judged, "exact")), "not-judged-differs"),
    ):
        tally, found = concluded([(judged, ONE, answer)], is_judged=False)
        assert (found, tally.status(ONE, judged.cell)) == ({}, status)
