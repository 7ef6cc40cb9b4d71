"""``xverify model`` as a user types it: output, files, exit codes and messages."""

from __future__ import annotations

import json
from pathlib import Path

import models
import numpy as np
import pytest
import wrong_models
from click.testing import CliRunner

from xverify import cli
from xverify.oracles import all_oracles
from xverify.report import load


def xverify(*words: object, code: int) -> str:
    result = CliRunner().invoke(cli.main, [str(word) for word in words])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("models")
    models.quantized(made)
    (made / "text.onnx").write_text("no model")
    return made


def test_a_model_that_is_computed_rightly_passes(folder, tmp_path):
    wanted = [word for kind in ("json", "html", "junit") for word in (f"--{kind}", tmp_path / f"out.{kind}")]
    output = xverify(
        "model", folder / "qdq.onnx", "--oracle", "onnx-reference", "--runs", tmp_path / "runs", *wanted, code=0
    )
    last = output.strip().splitlines()[-1]
    assert last.startswith("PASS ")
    assert "every judged result of onnx-reference 1" in last
    assert "is legal: 10 nodes alone, 3 with neighbours, 10 in the whole model" in last
    section = load(tmp_path / "out.json")["model"]
    assert (section["outcome"], len(section["nodes"])) == ("pass", 10)
    assert section["checks"] == ["alone", "neighbours", "whole"]
    assert "<html" in (tmp_path / "out.html").read_text()
    assert (tmp_path / "out.junit").read_text().startswith("<?xml")


def test_two_implementations_are_compared_at_their_last_level(folder, tmp_path, monkeypatch):
    fake = wrong_models.oracle("fc.weight_DequantizeLinear", "fused")
    every = {**all_oracles(), "fake": fake}
    for module in ("xverify.oracles", "xverify.engine.select"):
        monkeypatch.setattr(f"{module}.all_oracles", lambda: every)
    words = ["model", folder / "qdq.onnx", "--vs", "onnx-reference", "fake", "--check", "whole", "--runs", tmp_path]
    output = xverify(*words, "--level", "graph on", "--json", tmp_path / "out.json", code=1)
    assert "FAIL" in output.splitlines()[-1]
    faults = [d for d in json.loads((tmp_path / "out.json").read_text())["model"]["differences"] if d["is_fault"]]
    assert {(d["kind"], d["against"]) for d in faults if d["oracle"] == "fake"} == {("differs", "onnx-reference graph")}
    assert "do not differ" in xverify(*words, "--level", "graph off", code=0).splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["float.onnx"], 3, "has no DequantizeLinear node, so there is nothing to check"),
        (["text.onnx"], 2, "is no valid ONNX model"),
        (["absent.onnx"], 2, "there is no file"),
        (["qdq.onnx", "--oracle", "onnx-referense"], 2, "did you mean onnx-reference?"),
        (["qdq.onnx", "--oracle", "onednn-formula-multiply"], 2, "takes no calls of ai.onnx/DequantizeLinear-21"),
        (["qdq.onnx", "--level", "fast"], 2, "there is no optimisation level 'fast'"),
        (["qdq.onnx", "--node", "relu"], 2, "is called 'relu'"),
        (["qdq.onnx", "--vs", "onnx-reference", "onnx-reference"], 2, "is named twice"),
        (["qdq.onnx", "--vs", "a", "b", "--oracle", "c"], 2, "leave out --oracle"),
        (["qdq.onnx", "--inputs", "wrong.npz"], 2, "has an array 'z', which is no input; the model's inputs are x"),
    ],
)
def test_a_wrong_request_is_refused_in_one_sentence(folder, monkeypatch, words, code, message):
    monkeypatch.chdir(folder)
    np.savez("wrong.npz", z=np.zeros(1, np.float32))
    output = xverify("model", *words, code=code)
    assert message in output
    assert output.startswith("xverify: ")
    assert output.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ["gate", "--kernel", "qdq.onnx"],
        ["gate", "--contract", "qdq.onnx"],
        ["replay", "qdq.onnx"],
        ["report", "qdq.onnx"],
        ["sweep", "--oracle", "qdq.onnx"],
    ],
)
def test_other_commands_name_the_command_for_models(folder, monkeypatch, words):
    monkeypatch.chdir(folder)
    assert "check its nodes with: xverify model qdq.onnx" in xverify(*words, code=2)
