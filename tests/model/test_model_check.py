"""Whole checks of models from several makers, with an implementation made wrong beside one node."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import models
import pytest
import wrong_alone
import wrong_models
from rich.console import Console

from xverify.model import inputs
from xverify.model.check import ModelOptions, check_model
from xverify.model.cut import neighbours
from xverify.model.read import read_model
from xverify.model.result import Difference
from xverify.model.script import script
from xverify.model.terminal import print_result
from xverify.oracles import onnx_reference
from xverify.oracles.protocol import Oracle
from xverify.report import model as of_model
from xverify.report import render, write_files
from xverify.report.schema import check

REFERENCE = onnx_reference.ORACLES[0]
WEIGHT = "fc.weight_DequantizeLinear"


def options_of(path: Path, directory: Path, oracles: tuple[Oracle, ...], **others: Any) -> ModelOptions:
    model = read_model(path)
    drawn = inputs.drawn(model, 0)
    return ModelOptions(
        model, model.nodes, oracles, drawn, directory, "test", "xverify model", path.name, "drawn", **others
    )


def checked(options: ModelOptions) -> dict[str, Any]:
    report = check_model(options, lambda event: None)
    write_files(report, options.directory)
    check(report)
    return report


@pytest.fixture(scope="module")
def qdq(tmp_path_factory) -> Path:
    return models.quantized(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def flawed(qdq, tmp_path_factory) -> tuple[Path, dict[str, Any]]:
    """The directory and the report of a check with a fake that is wrong beside one node."""
    directory = tmp_path_factory.mktemp("run")
    return directory, checked(options_of(qdq, directory, (wrong_models.oracle(WEIGHT), REFERENCE)))


def test_the_report_names_the_node_the_level_and_the_bits(flawed):
    directory, report = flawed
    assert report["model"]["outcome"] == "findings"
    assert of_model.failing_nodes(report) == [WEIGHT]
    group = next(group for group in of_model.groups(report) if group.first["is_fault"])
    entry = group.first
    assert (entry["node"], entry["check"], entry["kind"], entry["oracle"]) == (WEIGHT, "whole", "violation", "fake")
    assert (entry["index"], entry["wrong"], entry["ulp"]) == ([0, 0], 1, 1)
    assert int(entry["got"]["hex"], 16) ^ 1 in [int(legal["hex"], 16) for legal in entry["legal"]]
    assert group.levels == "from the level 'graph on' on"
    assert entry["operators"] == ["DequantizeLinear"]
    assert (directory / entry["script"]).is_file()


def test_other_nodes_and_implementations_are_not_blamed(flawed):
    _, report = flawed
    wrong = {(n["name"], c["oracle"]) for n in report["model"]["nodes"] for c in n["checks"] if c["state"] == "wrong"}
    assert wrong == {(WEIGHT, "fake")}
    assert of_model.sentence(report) == "1 of 10 nodes is computed wrongly in fake"


def test_every_format_shows_the_node(flawed):
    _, report = flawed
    page = render(report, "html")
    assert f"node {WEIGHT}" in page
    root = Xml.fromstring(render(report, "junit"))
    assert (root.get("failures"), root.get("errors")) == ("1", "0")
    (case,) = [case for case in root.iter("testcase") if case.find("failure") is not None]
    assert (case.get("classname"), case.get("name")) == ("xverify.model.fake", WEIGHT)


@pytest.mark.parametrize("make", [models.blocked_int4, models.exported, models.nested])
def test_models_of_other_makers_pass_and_fail_at_the_wrong_node(make, tmp_path):
    path = make(tmp_path)
    options = options_of(path, tmp_path / "right", (REFERENCE,))
    assert checked(options)["model"]["outcome"] == "pass"
    node = next(node for node in options.nodes if not node.graph and not node.function)
    fakes = (replace(wrong_models.oracle(node.name), contracts=()),)
    wrong = checked(options_of(path, tmp_path / "wrong", fakes, checks=("whole",)))
    assert of_model.failing_nodes(wrong) == [node.name]


def test_a_fault_alone_names_its_nodes(qdq, tmp_path):
    report = checked(options_of(qdq, tmp_path, (wrong_alone.oracle("int8"),), checks=("alone",)))
    assert report["model"]["outcome"] == "findings"
    causes = of_model.failing_causes(report)
    shown = {name for cause in causes for name in of_model.nodes_showing(report, cause)}
    assert shown == set(of_model.failing_nodes(report))
    assert "relu_DequantizeLinear" in shown
    assert WEIGHT not in shown, "its zero points are zero"


def test_a_result_beyond_sums_is_no_fault_and_stands_out(qdq, tmp_path, capsys):
    options = options_of(qdq, tmp_path, (wrong_models.oracle(WEIGHT, "fused"), REFERENCE), checks=("neighbours",))
    nodes = tuple(node for node in options.nodes if node.name in (WEIGHT, "relu_DequantizeLinear"))
    report = checked(replace(options, nodes=nodes))
    assert report["model"]["outcome"] == "pass"
    assert of_model.sentence(report).endswith("1 sum of fake is beyond any order of float32 sums")
    group = of_model.groups(report)[0]
    assert (group.node, group.is_beyond) == (f"node {WEIGHT}", True)
    assert group.levels == "from the level 'graph on' on"
    one = replace(group, entries=({**group.first, "dtype": "uint8", "distance": 1.0},))
    assert one.amount.endswith("by up to 1 code")
    print_result(report, Console(), tmp_path / "report.html")
    printed = capsys.readouterr().out
    assert f"beyond float32 sums  {group.first['id']}" in printed
    assert "values are beyond any order of float32 sums, by up to" in printed
    assert "every order of float32 sums gives" in printed
    markdown = render(report, "markdown")
    assert markdown.startswith("# xverify: PASS\n")
    assert "- **beyond float32 sums**" in markdown
    assert "every order of float32 sums gives" in render(report, "html")


def test_a_level_that_a_release_lacks_is_left_out(qdq, tmp_path):
    report = checked(options_of(qdq, tmp_path, (wrong_models.oracle("", "lack"),), checks=("whole",)))
    assert report["run"]["left_out"] == ["fake has no level graph on"]
    assert {check["level"] for node in report["model"]["nodes"] for check in node["checks"]} == {"graph off"}


def test_the_decision_names_the_reason_if_no_node_is_checked(tmp_path):
    options = options_of(models.flows(tmp_path), tmp_path / "runs", (REFERENCE,), checks=("whole",))
    not_taken = tuple(node for node in options.nodes if node.name == "yes")
    section = checked(replace(options, nodes=not_taken))["model"]
    assert section["outcome"] == "unable"
    assert section["reason"] == "no node was checked: its branch of the If choice was not taken with these inputs"


def test_names_of_a_model_are_escaped(qdq, tmp_path):
    options = options_of(qdq, tmp_path, (wrong_models.oracle(WEIGHT),), checks=("whole",))
    name = "<script>alert(1)</script>\"&'\n"
    report = check_model(replace(options, file=name), lambda event: None)
    report["model"]["nodes"][0]["name"] = report["model"]["differences"][0]["node"] = name
    assert "<script>alert" not in render(report, "html")
    Xml.fromstring(render(report, "junit"))


def test_a_script_shows_wrong_and_legal_bits_without_xverify(qdq, tmp_path):
    model = read_model(qdq)
    node = next(node for node in model.nodes if node.name == WEIGHT)
    part = neighbours(model, node, 0, 0)
    assert part is not None
    y = part.operands["y"]
    difference = Difference(
        node.name, "whole", "violation", "onnx-reference", "graph", value=y, operators=part.operators, part=part.content,
        index=(0, 0), dtype="float32", got="0x00000001", legal=("0x00000000",),
    )  # fmt: skip
    path = tmp_path / "script.py"
    path.write_text(script(difference))
    assert "import xverify" not in path.read_text()
    first = subprocess.run([sys.executable, path], capture_output=True, text=True, cwd=tmp_path)
    assert first.returncode == 1, first.stdout + first.stderr
    assert "legal: 0x00000000 (0.0)" in first.stdout
    bits = first.stdout.split("wrong: ")[1].split()[0]
    path.write_text(script(replace(difference, legal=(bits,))))
    again = subprocess.run([sys.executable, path], capture_output=True, text=True, cwd=tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr


@pytest.mark.parametrize(("bounds", "status"), [((1e9, 2e9), 1), ((1e9, 1e9), 1), ((-1e9, 1e9), 0)])
def test_a_script_compares_with_the_bounds_of_sums(qdq, tmp_path, bounds, status):
    model = read_model(qdq)
    part = neighbours(model, next(node for node in model.nodes if node.name == WEIGHT), 0, 0)
    assert part is not None
    difference = Difference(
        WEIGHT, "neighbours", "differs", "onnx-reference", "graph", value=part.operands["y"], part=part.content,
        index=(0, 0), dtype="float32", got="0x00000001", bounds=bounds, sums="float32",
    )  # fmt: skip
    path = tmp_path / "script.py"
    path.write_text(script(difference))
    ran = subprocess.run([sys.executable, path], capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode == status, ran.stdout + ran.stderr
    ends = " to ".join(dict.fromkeys(f"{end:.9g}" for end in bounds))
    assert f"every order of float32 sums gives {ends}\n" in ran.stdout


def test_only_the_implementation_that_dies_is_blamed(qdq, tmp_path):
    fake = wrong_models.oracle(WEIGHT, "abort")
    report = checked(options_of(qdq, tmp_path, (fake, REFERENCE), checks=("whole",)))
    assert of_model.sentence(report) == "the model does not run to its end in fake"
    (group,) = of_model.groups(report)
    assert (group.node, group.cause) == ("the model", "it runs at lower levels")


def test_results_that_are_only_compared_decide_nothing(qdq, tmp_path):
    options = options_of(qdq, tmp_path, (wrong_models.oracle(""),), checks=("neighbours",))
    nodes = tuple(node for node in options.nodes if node.name == WEIGHT)
    report = checked(replace(options, nodes=nodes))
    assert {c["state"] for node in report["model"]["nodes"] for c in node["checks"]} == {"compared"}
    assert report["model"]["outcome"] == "unable"
