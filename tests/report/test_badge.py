"""The JSON of a badge: the decision of a gate, or the conformance of an implementation."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sample_gate import gate_report, hostile_gate_report
from sample_report import sample_report

from xverify.report import render
from xverify.report.formats.badge import MOST_CHARACTERS


def badge(report: dict[str, Any]) -> tuple[str, str]:
    """Return message and colour, after checking the fields that the endpoint requires."""
    data = json.loads(render(report, "badge"))
    assert set(data) == {"schemaVersion", "label", "message", "color"}
    assert (data["schemaVersion"], data["label"]) == (1, "dequantization")
    return data["message"], data["color"]


@pytest.mark.parametrize(
    ("outcome", "words", "colour"),
    [("pass", "pass", "brightgreen"), ("findings", "fail", "red"), ("unable", "no decision", "lightgrey")],
)
def test_a_gate_states_its_decision_and_edition(outcome: str, words: str, colour: str) -> None:
    assert badge(gate_report(outcome)) == (f"ONNX 21: {words}", colour)


def test_a_pass_of_a_part_says_so() -> None:
    assert badge(gate_report("pass", partial=True)) == ("ONNX 21 in part: pass", "brightgreen")


def test_editions_of_one_operator_share_its_name() -> None:
    report = gate_report("pass", like="onnxruntime")
    report["editions"] = [{**report["editions"][0], "id": f"ai.onnx/DequantizeLinear-{n}"} for n in (23, 25)]
    assert badge(report)[0] == "like onnxruntime, ONNX 23, 25: pass"
    report["editions"] *= 2
    assert badge(report)[0] == "like onnxruntime, 4 editions: pass"


def test_a_sweep_of_several_implementations_counts_causes() -> None:
    message, colour = badge(sample_report())
    assert message.split(", ")[0].endswith(" implementations")
    assert message.endswith(" causes")
    assert colour == "orange"


def test_a_sweep_of_one_implementation_states_its_share() -> None:
    report = sample_report()
    for worker in report["run"]["workers"]:
        worker["calls"] *= worker["name"] == "onnxruntime"
    message, colour = badge(report)
    assert message.startswith("onnxruntime 1.27.0: ")
    assert " % conformant, " in message
    assert colour != "brightgreen"


def test_a_long_name_is_cut_and_foreign_text_stays_text() -> None:
    assert len(badge(gate_report("pass", like="x" * 500))[0]) == MOST_CHARACTERS
    badge(hostile_gate_report())
