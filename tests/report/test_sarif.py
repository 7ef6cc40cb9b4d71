"""SARIF 2.1.0: a result for each cause, with level, place, fingerprint and suppression."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sample_gate import gate_report, hostile_gate_report
from sample_report import ONNX, hostile_report, sample_report

from xverify.report import render
from xverify.report.causes import causes, sentence
from xverify.report.formats.sarif import FINGERPRINT


def log(report: dict[str, Any]) -> dict[str, Any]:
    """Return the only run of a log, after checking what the standard requires."""
    whole = json.loads(render(report, "sarif"))
    assert set(whole) == {"$schema", "version", "runs"}
    assert whole["version"] == "2.1.0"
    (run,) = whole["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "xverify"
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(ids) == len(set(ids))
    assert all(
        rule[part]["text"] for rule in driver["rules"] for part in ("shortDescription", "fullDescription", "help")
    )
    assert isinstance(run["invocations"][0]["executionSuccessful"], bool)
    for result in run["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("none", "note", "warning", "error")
        assert result["message"]["text"]
        assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        assert all(entry["kind"] in ("external", "inSource") for entry in result.get("suppressions", ()))
    return dict(run)


def by_verdict(run: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {result["ruleId"].split("/")[0]: result for result in run["results"]}


def test_a_gate_has_a_result_for_each_cause_and_suppresses_accepted_ones() -> None:
    report = gate_report()
    run = log(report)
    listed = causes(report)
    assert [result["partialFingerprints"][FINGERPRINT] for result in run["results"]] == [c.plain_id for c in listed]
    assert all(
        result["message"]["text"].startswith(sentence(cause)[:20])
        for result, cause in zip(run["results"], listed, strict=True)
    )
    results = by_verdict(run)
    assert {name: result["level"] for name, result in results.items()} == {
        "crash": "error", "violation": "error", "memory": "error",
        "nondeterministic": "error", "wrongly-rejected": "warning", "ambiguity": "note",
    }  # fmt: skip
    suppressed = {name: result["suppressions"] for name, result in results.items() if "suppressions" in result}
    assert list(suppressed) == ["memory"]
    assert suppressed["memory"][0]["justification"] == "known as writes-input"
    assert results["violation"]["ruleId"] == "violation/ai.onnx/DequantizeLinear/formula", "the same in every edition"
    assert "xverify replay " in results["violation"]["message"]["text"]


def test_a_kernel_in_a_file_is_named_relative_to_its_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "some repository" / "src"
    folder.mkdir(parents=True)
    (tmp_path / "some repository" / ".git").write_text("a worktree has a file")
    (folder / "k.py").write_text("import numpy\n\n\ndef dequantize(x, scale):\n    return x * scale\n")
    monkeypatch.chdir(folder)
    for target in ("k.py:dequantize", f"{folder}/k.py:dequantize"):
        (where,) = {json.dumps(r["locations"][0]) for r in log(gate_report(target=target))["results"]}
        assert json.loads(where)["physicalLocation"] == {
            "artifactLocation": {"uri": "src/k.py", "uriBaseId": "%SRCROOT%"},
            "region": {"startLine": 4},
        }
        assert str(folder) not in log(gate_report(target=target))["automationDetails"]["id"]
    monkeypatch.chdir(tmp_path)
    (where,) = {json.dumps(r["locations"][0]) for r in log(gate_report(target="some repository/src/k.py:f"))["results"]}
    assert json.loads(where)["physicalLocation"]["artifactLocation"]["uri"] == "src/k.py"


def test_another_kernel_is_placed_at_the_document() -> None:
    where = by_verdict(log(gate_report(target="build/k.so:f")))["violation"]["locations"][0]
    assert where["physicalLocation"] == {"artifactLocation": {"uri": ONNX}, "region": {"startLine": 1}}
    assert where["logicalLocations"] == [{"fullyQualifiedName": f"{ONNX}/formula"}]


def test_a_gate_without_a_decision_is_an_unsuccessful_run() -> None:
    run = log(gate_report("unable", "the budget ended before the walk"))
    (invocation,) = run["invocations"]
    assert not invocation["executionSuccessful"]
    assert invocation["toolExecutionNotifications"][0]["message"]["text"] == "the budget ended before the walk"


def test_a_sweep_has_notes_for_texts() -> None:
    report = sample_report()
    run = log(report)
    assert len(run["results"]) == len(report["causes"])
    assert by_verdict(run)["conflict"]["level"] == "note"


@pytest.mark.parametrize("report", [hostile_gate_report(), hostile_report()])
def test_foreign_text_makes_no_link_and_no_line(report: dict[str, Any]) -> None:
    for result in log(report)["results"]:
        assert "](" not in result["message"]["text"].split("\nxverify replay ")[0]
