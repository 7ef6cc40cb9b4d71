"""Editions beside each other: which of two an implementation follows, and where they conflict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from xverify import contracts
from xverify.core.call import Call, Outcome, Tensor
from xverify.core.dtypes import tensor
from xverify.strategies import build, walk
from xverify.strategies.structures import Range
from xverify.verify import editions
from xverify.verify.verdicts import judge


def test_values_are_counted_for_the_edition_that_they_follow() -> None:
    """Zero is legal in both editions. On the other four values they conflict."""
    multiply, divide = (contracts.get(f"onednn/DynamicDequantize-1@{name}") for name in ("multiply", "divide"))
    tensors = {"x": tensor("int8", [0, 1, 2, 3, 4]), "scale": tensor("float32", [0.5])}
    judged = judge(multiply, Call(multiply.id, tensors))
    product, quotient = (tensor("float32", np.array([0, 1, 2, 3, 4]) * factor) for factor in (0.5, 2.0))
    other = tensor("float32", [0.0, 0.5, 4.0, 7.0, 7.0])

    def counted(answer: Tensor) -> dict[tuple[str, str], int]:
        return editions.followed(judged, divide, "one", Outcome("tensor", answer))

    assert counted(product) == {("one", ""): 4, ("one", multiply.id): 4, ("one", divide.id): 0}
    assert counted(quotient) == {("one", ""): 4, ("one", multiply.id): 0, ("one", divide.id): 4}
    assert counted(other) == {("one", ""): 4, ("one", multiply.id): 1, ("one", divide.id): 1}
    assert counted(tensor("float16", [0.0] * 5)) == {}
    assert editions.followed(judged, divide, "one", Outcome("rejected")) == {}


def conflicts(identity: str, sample: int, keep: Callable[[Call], bool] = lambda _: True) -> tuple[set[str], int]:
    """Return ids of the conflicts between an edition and its rivals, on a sample of the walk."""
    contract = contracts.get(identity)
    asked_calls = [call for call in walk(contract) if call.values < 2000 and keep(call)][::sample]
    found = set()
    for rival in editions.rivals(contract):
        allowed = [call for call in asked_calls if rival.judge(call.under(rival.id)).verdict == "allowed"]
        assert len(allowed) > 10, f"{identity} and {rival.id} share {len(allowed)} calls"
        found |= {d.key.id() for call in allowed if (d := editions.conflict(judge(contract, call), rival))}
    return found, len(asked_calls)


@pytest.mark.parametrize(
    ("identity", "mode", "count"),
    [
        ("onednn/DynamicDequantize-1@multiply", None, 1),
        ("tensorflow/Dequantize@seed", "SCALED", 1),
        ("tensorflow/Dequantize@seed", "MIN_COMBINED", 0),
        ("tensorflow/Dequantize@seed", "MIN_FIRST", 0),
        ("com.microsoft/DequantizeLinear-1@seed", None, 0),
        *((f"ai.onnx/DequantizeLinear-{version}", None, 0) for version in (10, 13, 19, 21, 24)),
    ],
)
def test_conflicts_of_editions(identity: str, mode: str | None, count: int) -> None:
    found, asked_calls = conflicts(identity, 5, lambda call: call.attributes.get("mode") == mode)
    assert asked_calls > 10
    assert len(found) == count, f"{identity} {mode}: {found}"


def test_a_conflict_has_its_clauses_and_values() -> None:
    contract = contracts.get("onednn/DynamicDequantize-1@multiply")
    divide = contracts.get("onednn/DynamicDequantize-1@divide")
    tensors = {"x": tensor("int8", [0, 1, 2]), "scale": tensor("float32", [0.5])}
    found = editions.conflict(judge(contract, Call(contract.id, tensors)), divide)
    assert found is not None
    assert (found.values, found.key.clause, found.key.detail) == (2, contract.id + "/formula", divide.id + "/formula")
    same = {"x": tensor("int8", [0, 1, 2]), "scale": tensor("float32", [1.0])}
    assert editions.conflict(judge(contract, Call(contract.id, same)), divide) is None


def test_editions_of_other_output_types_conflict_everywhere() -> None:
    """A rival that gives another dtype cannot be satisfied at all."""
    contract = contracts.get("tensorflow/Dequantize@installed")
    call = build(contract, Range("int8", "SCALED", (5,)))
    judged = judge(contract, call)
    odd = replace(contract, operands=lambda c: replace(contract.operands(c), output_dtype="float16"))
    found = editions.conflict(judged, odd)
    assert found is not None
    assert found.values == 5


def test_documents_that_contradict_themselves() -> None:
    found = [d for identity in contracts.ids() for d, _ in editions.contradictions(contracts.get(identity))]
    assert {d.key.verdict for d in found} == {"conflict"}
    assert len({d.key.id() for d in found}) == len(found) == 17
