"""The words of a report about a model: levels, order of differences, and the decision."""

from __future__ import annotations

from typing import Any

import pytest

from xverify.report import model as of_model

LEVELS = ["off", "basic", "all"]


def entry(level: str = "all", kind: str = "violation", node: str = "n", **others: Any) -> dict[str, Any]:
    bits = {"hex": "0x3f800001", "decimal": "1.0000001"}
    return {
        "id": f"difference-{kind}-{node}", "node": node, "check": "whole", "kind": kind, "is_fault": kind != "differs",
        "oracle": "a", "level": level, "against": "a off" if kind == "differs" else "", "value": "y", "index": [0],
        "dtype": "float32", "got": bits, "legal": [{"hex": "0x3f800000", "decimal": "1.0"}], "wrong": 1, "elements": 4,
        "ulp": 1, "distance": 0.125, "magnitude": 3.0, "message": "",
        "operators": ["DequantizeLinear", "Mul"], "script": "", **others,
    }  # fmt: skip


def report(*differences: dict[str, Any]) -> dict[str, Any]:
    return {"model": {"implementations": [{"name": "a", "version": "1", "levels": LEVELS}], "differences": differences}}


@pytest.mark.parametrize(
    ("shown", "words", "is_rewrite"),
    [
        (["off", "basic", "all"], "at every level", False),
        (["all", "basic"], "from the level 'basic' on", True),
        (["off", "all"], "at the levels off, all", False),
        (["basic"], "at the level basic", False),
    ],
)
def test_the_levels_of_a_difference_tell_a_rewrite_from_a_wrong_kernel(shown, words, is_rewrite):
    (group,) = of_model.groups(report(*(entry(level) for level in shown)))
    assert group.levels == words
    assert group.cause.startswith("the optimiser's rewrite of DequantizeLinear and Mul") == is_rewrite


def test_faults_come_first_then_outputs_of_the_model():
    listed = of_model.groups(
        report(
            entry(kind="differs", ulp=1 << 31, distance=9.0),
            entry(kind="differs", node=""),
            entry(),
            entry(kind="crash", message='dead File "a.py"'),
        )
    )
    assert [(group.first["kind"], group.node) for group in listed] == [
        ("crash", "node n"), ("violation", "node n"), ("differs", "output y"), ("differs", "node n"),
    ]  # fmt: skip
    assert listed[0].amount == "ends the process: dead"
    assert listed[1].amount == "1 of 4 values is illegal, by up to 1 ULP"
    assert listed[2].amount == "1 of 4 values differs from a off, by up to 0.125 (the largest value is 3; 1 ULP)"
    assert listed[3].amount == "1 of 4 values differs from a off, by up to 9 (the largest value is 3)"
    assert listed[1].bits == "y[0] is 1.0000001 (0x3f800001); legal: 1.0 (0x3f800000)"


def test_a_difference_between_the_compared_implementations_is_no_entry_of_one_between_levels():
    listed = of_model.groups(report(entry("off", "differs"), entry("all", "differs", is_fault=True)))
    assert [(group.first["is_fault"], group.levels) for group in listed] == [
        (True, "at the level 'all'"), (False, "first at the level 'off'"),
    ]  # fmt: skip


def test_a_model_that_a_runtime_refuses_is_no_wrong_node():
    refused = report(entry(kind="rejected", node=""), entry(kind="rejected"))
    nodes = [{"name": "n", "checks": [{"state": "refused"}]}]
    refused["model"] |= {"nodes": nodes, "outcome": "findings", "versus": ["a", "b"]}
    assert of_model.sentence(refused) == "the model does not run to its end in a"
