"""A contract whose legal results are those of a reference implementation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from xverify import contracts
from xverify.core.call import Outcome, Tensor
from xverify.engine.reference_contract import BEYOND, like
from xverify.strategies import build
from xverify.strategies.structures import Linear
from xverify.verify import verdicts
from xverify.verify.legal import legal_set

BASE = contracts.get("ai.onnx/DequantizeLinear-21")
CALL = build(BASE, Linear("int8", "float32", "per_tensor", (4,), "int8", seed=3))
FORBIDDEN = replace(CALL, attributes={**CALL.attributes, "axis": 0, "block_size": -1})
ANSWER = Tensor("float32", np.array([0x3F800000, 0x7FC00001, 0x00000001, 0x80000000], np.uint32))


def held_to(outcome: Outcome):
    return like(BASE, "other", "1.2", lambda call: outcome)


def test_what_it_answers_is_legal_and_nothing_else():
    contract = held_to(Outcome("tensor", ANSWER))
    assert contract.judge(CALL).verdict == "allowed"
    judged = verdicts.judge(contract, CALL)
    assert judged.cell == BASE.cell(CALL)
    right = replace(ANSWER, codes=np.array([0x3F800000, 0xFFC00000, 0x00000001, 0x80000000], np.uint32))
    comparison = verdicts.compared(judged, Outcome("tensor", right))
    assert comparison is not None
    assert comparison.clean
    wrong = replace(ANSWER, codes=np.array([0x3F800001, 0x7FC00000, 0x00000000, 0x00000000], np.uint32))
    comparison = verdicts.compared(judged, Outcome("tensor", wrong))
    assert comparison is not None
    assert comparison.wrong.tolist() == [True, False, True, True]
    found = verdicts.violates(judged, "kernel", Outcome("tensor", wrong), comparison, None)
    assert found is not None
    assert found.key.clause == "ai.onnx/DequantizeLinear-21/same-as-other"


def test_what_it_refuses_is_forbidden_whatever_the_text_says():
    contract = held_to(Outcome("rejected", error="ValueError"))
    judged = verdicts.judge(contract, CALL)
    assert judged.judgement.verdict == "forbidden"
    assert verdicts.accepted(judged, "kernel", Outcome("tensor", ANSWER)) is not None
    assert verdicts.accepted(judged, "kernel", Outcome("rejected")) is None


def test_what_it_answers_though_the_text_forbids_it_must_be_answered_alike():
    assert BASE.judge(FORBIDDEN).verdict == "forbidden"
    contract = held_to(Outcome("tensor", ANSWER))
    judged = verdicts.judge(contract, FORBIDDEN)
    assert judged.judgement.verdict == "allowed"
    assert judged.cell is not None
    assert judged.cell.variant == BEYOND
    assert contract.readings(FORBIDDEN) == ()
    assert verdicts.rejected(judged, "kernel", Outcome("rejected", error="ValueError")) is not None
    assert legal_set(contract, FORBIDDEN).codes(0)[[0, 2, 3]].tolist() == [0x3F800000, 0x00000001, 0x80000000]


@pytest.mark.parametrize("kind", ["unsupported", "crash", "hang", "unasked"])
def test_where_it_says_nothing_nothing_is_held_against_a_kernel(kind):
    judged = verdicts.judge(held_to(Outcome(kind)), CALL)
    assert judged.judgement.verdict == "unspecified"
    assert judged.legal is None


def test_a_result_of_a_type_that_no_output_has_says_nothing():
    odd = Tensor("float64", np.zeros(4, np.uint64))
    assert held_to(Outcome("tensor", odd)).judge(CALL).verdict == "unspecified"
