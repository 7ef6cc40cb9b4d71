"""Verdicts on hand-made values: each verdict where it applies, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from judged_calls import ONE, ONNX_13, ONNX_21, ONNX_25, TWO, WRAPS, asked, by, concluded, shifted

import xverify
from xverify.arithmetic.readings import Stepwise
from xverify.core.call import Call, Outcome, Tensor
from xverify.core.dtypes import floats, integers, numpy_dtype, tensor
from xverify.strategies import build
from xverify.strategies.structures import Linear
from xverify.verify.attribute import Attribution
from xverify.verify.verdicts import judge


def test_agreement_gives_nothing() -> None:
    calls = [asked(ONNX_21, "int8", number=n, zero_point_dtype="int8") for n in range(5)]
    tally, found = concluded([(j, s, by(j, "exact")) for j in calls for s in (ONE, TWO)])
    assert found == {}
    assert {tally.status(s, calls[0].cell) for s in (ONE, TWO)} == {"agrees"}
    assert tally.cells[ONE, calls[0].cell].alive == ("exact", "float32")


def test_a_violation_with_attribution() -> None:
    calls = [asked(ONNX_21, "int8", number=n, zero_point_dtype="int8") for n in range(4)]
    tally, found = concluded([(j, ONE, by(j, WRAPS)) for j in calls])
    (finding,) = found.values()
    assert finding.key.verdict == "violation"
    assert finding.key.clause == ONNX_21.id + "/formula"
    assert finding.attribution is not None
    assert finding.attribution.reading == finding.key.detail == WRAPS
    assert "in the type of x with wrap-around" in finding.summary
    assert tally.status(ONE, calls[0].cell) == "violation"
    wrong = sum(int((by(j, "exact").tensor.codes != by(j, WRAPS).tensor.codes).sum()) for j in calls)
    assert tally.cells[ONE, calls[0].cell].wrong == wrong > 0


def test_a_violation_without_attribution() -> None:
    judged = asked(ONNX_21, "int8", zero_point_dtype="int8")
    tally, found = concluded([(judged, ONE, shifted(by(judged, "exact")))])
    (finding,) = found.values()
    assert (finding.key.verdict, finding.attribution, finding.values, finding.max_ulp) == ("violation", None, 1, 3)
    assert "no known recipe" in finding.summary
    assert finding.readings == ()
    assert tally.status(ONE, judged.cell) == "violation"


def test_two_mistakes_are_not_attributed_to_one() -> None:
    """A recipe must give every value of the cell. An explanation of one wrong call is not enough."""
    first, second = (asked(ONNX_21, "int8", number=n, zero_point_dtype="int8") for n in range(2))
    answers = [(first, ONE, by(first, WRAPS)), (second, ONE, shifted(by(second, "exact")))]
    for order in (answers, answers[::-1]):
        _, found = concluded(order)
        assert found["violation"].attribution is None


def test_a_reading_that_right_calls_contradict_is_not_attributed() -> None:
    """It is named for the wrong values only, or not at all, whatever the order of calls."""
    small, large = (asked(ONNX_21, "int8", size, zero_point_dtype="int8") for size in (20, 300))
    answers = [(small, ONE, by(small, "exact")), (large, ONE, by(large, WRAPS))]
    assert (by(small, "exact").tensor.codes != by(small, WRAPS).tensor.codes).any()
    for order in (answers, answers[::-1]):
        attribution = concluded(order)[1]["violation"].attribution
        assert attribution is None or attribution.elsewhere is not None


def test_the_float32_recipe_breaks_the_precision_clause_from_23_on() -> None:
    """S violates the clause on precision if the output type determines it."""
    tensors = {"x": tensor("int16", np.arange(-32768, 32768)), "scale": tensor("float32", 0.3)}
    newer = judge(ONNX_25, Call(ONNX_25.id, tensors, {"output_dtype": "float16"}))
    _, found = concluded([(newer, ONE, by(newer, "float32"))])
    assert found["violation"].key.clause == ONNX_25.id + "/multiplication-precision"
    # An int16 difference has few bits, so the message does not say that it is rounded to float32.
    assert found["violation"].key.detail == Stepwise(precision="float32").name
    assert found["violation"].values == 586, "only what is rounded twice is wrong"
    older = asked(ONNX_21, "int32", 4000)
    _, found = concluded([(older, ONE, by(older, "float32"))])
    assert found == {}


def test_mixed_values_are_legal_and_follow_nothing() -> None:
    first, second = (asked(ONNX_21, "int32", 500, number=n) for n in range(2))
    tally, found = concluded([(first, ONE, by(first, "exact")), (second, ONE, by(second, "float32"))])
    (finding,) = found.values()
    assert (finding.key.verdict, finding.key.detail) == ("mixed", "types:int32:float32")
    assert tally.status(ONE, first.cell) == "mixed"
    exact, single = by(first, "exact").tensor, by(first, "float32").tensor
    halves = np.concatenate([exact.codes[:250], single.codes[250:]])
    _, found = concluded([(first, ONE, Outcome("tensor", Tensor("float32", halves)))])
    assert [*found] == ["mixed"], "also within one call"


def test_a_wrong_cell_is_a_violation_and_not_mixed() -> None:
    first, second = (asked(ONNX_21, "int32", 500, number=n) for n in range(2))
    answers = [(first, ONE, by(first, "float32")), (second, ONE, shifted(by(second, "exact"), steps=9))]
    for order in (answers, answers[::-1]):
        tally, found = concluded(order)
        assert [*found] == ["violation"]
        assert tally.status(ONE, first.cell) == "violation"


def test_an_ambiguity_needs_implementations_that_differ() -> None:
    judged = asked(ONNX_21, "int32", 500)
    exact, single = by(judged, "exact"), by(judged, "float32")
    differing = int((exact.tensor.codes != single.tensor.codes).sum())
    assert differing > 0
    tally, found = concluded([(judged, ONE, exact), (judged, TWO, single)])
    (finding,) = found.values()
    assert (finding.key.verdict, finding.key.subject, finding.key.detail) == ("ambiguity", "two", "float32")
    assert finding.attribution == Attribution("float32", finding.attribution.words, differing, differing)
    assert [tally.status(s, judged.cell) for s in (ONE, TWO)] == ["agrees", "ambiguous"]
    for alone in (exact, single):
        tally, found = concluded([(judged, ONE, alone), (judged, TWO, alone)])
        assert found == {}
        assert tally.status(TWO, judged.cell) == "agrees"


def test_the_result_that_an_official_case_states_is_the_only_legal_one() -> None:
    """The text leaves the call open.

    So a refusal is no finding, and neither is any result of a similar call.
    """
    case = next(case for case in ONNX_25.official_cases() if case.name == "test_dequantizelinear_uint4")
    judged, similar = judge(ONNX_25, case.call), judge(ONNX_25, replace(case.call, attributes={}))
    assert (judged.judgement.verdict, similar.judgement.verdict) == ("unspecified", "unspecified")
    assert similar.legal is None
    right = Outcome("tensor", case.due)
    for outcome in (right, Outcome("rejected", error="ValueError")):
        tally, found = concluded([(judged, ONE, outcome), (similar, ONE, shifted(right))])
        assert (found, tally.status(ONE, judged.cell)) == ({}, "unspecified")
    tally, found = concluded([(judged, ONE, shifted(right)), (similar, ONE, right)])
    assert tally.status(ONE, judged.cell) == "violation"
    (finding,) = found.values()
    assert (finding.key.verdict, finding.key.clause) == ("violation", ONNX_25.id + "/formula")
    assert (finding.call, finding.values) == (case.call, 1)
    other = replace(case, due=shifted(right).tensor)
    contract = replace(ONNX_25, official_cases=lambda: (other,))
    _, found = concluded([(judge(contract, case.call), ONE, right)])
    assert found["violation"].values == 1, "the stated result outweighs the readings"


def test_flushed_subnormals_are_an_ambiguity() -> None:
    tensors = {"x": tensor("int8", [1, 2, 3]), "scale": tensor("float32", 2.0**-149)}
    judged = judge(ONNX_13, Call(ONNX_13.id, tensors))
    zeros = Outcome("tensor", tensor("float32", [0.0, 0.0, 0.0]))
    tally, found = concluded([(judged, ONE, zeros)])
    (finding,) = found.values()
    assert (finding.key.verdict, finding.key.clause) == ("ambiguity", ONNX_13.id + "/subnormal")
    assert (finding.key.detail, finding.values) == ("flush-subnormals", 3)
    assert tally.status(ONE, judged.cell) == "ambiguous"


@pytest.mark.parametrize(
    ("answer", "clause"),
    [(tensor("float64", np.zeros(64)), "output-type"), (tensor("float32", np.zeros((64, 1))), "output-shape")],
)
def test_results_of_another_type_or_shape(answer: Tensor, clause: str) -> None:
    judged = asked(ONNX_21, "int8")
    tally, found = concluded([(judged, ONE, Outcome("tensor", answer))])
    assert found["violation"].key.clause == f"{ONNX_21.id}/{clause}"
    assert (len(found), tally.status(ONE, judged.cell)) == (1, "violation")


def test_half_a_million_values_give_no_discrepancy() -> None:
    """Both the in-house kernel and NumPy's plain expression follow the first reading."""
    contract, values = ONNX_25, 0
    for number, dtype in enumerate(("int8", "uint8", "int16", "uint16", "float8_e4m3fn", "int4")):
        structure = Linear(dtype, "float32", "per_axis", (12, 7500), dtype, axis=0, scale_recipe="drawn", seed=number)
        judged = judge(contract, build(contract, structure), number)
        t = judged.call.tensors
        x, scale, zero_point = (t[role].codes.view(numpy_dtype(t[role].dtype)) for role in ("x", "scale", "zero_point"))
        kernel = xverify.dequantize_linear(x, scale, zero_point, axis=0)
        decode = integers if dtype.lstrip("u").startswith("int") else floats
        wide = (decode(dtype, t["x"].codes) - decode(dtype, t["zero_point"].codes)[:, None]).astype(np.float64)
        plain = (wide * scale.astype(np.float64)[:, None]).astype(np.float32)
        answers = [
            Outcome("tensor", Tensor("float32", np.ascontiguousarray(y).view(np.uint32))) for y in (kernel, plain)
        ]
        tally, found = concluded([(judged, s, answer) for s, answer in zip((ONE, TWO), answers, strict=True)])
        assert found == {}
        assert [tally.status(s, judged.cell) for s in (ONE, TWO)] == ["agrees"] * 2
        values += judged.call.values
    assert values > 500_000
