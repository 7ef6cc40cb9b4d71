"""``-n`` and ``--on`` of sweep and certify: the report, the exit codes, and what remains on disk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from xverify import cli
from xverify.cli import divided
from xverify.engine.resume import SHARDS
from xverify.shards.task import Task

SWEEP = ("sweep", "--oracle", "onnx-reference", "--cases", "20", "--contract", "ai.onnx/DequantizeLinear-19")
SWEEP += ("--contract", "ai.onnx/DequantizeLinear-10")


def run(*words: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(cli.main, words)


def only_run(runs: Path) -> tuple[Path, dict[str, Any]]:
    (directory,) = runs.iterdir()
    return directory, json.loads((directory / "report.json").read_text())


def test_a_divided_sweep_leaves_the_run_of_an_undivided_one(tmp_path):
    options = ("-n", "2", "--fail-on", "violation", "--json", str(tmp_path / "copy.json"))
    result = run(*SWEEP, *options, "--runs", str(tmp_path / "runs"))
    directory, report = only_run(tmp_path / "runs")
    assert (result.exit_code, report["run"]["complete"]) == (1, True), result.output
    assert (report["coverage"]["cases"], len(report["editions"])) == (20, 2)
    assert "--shard" not in report["run"]["command"]
    assert json.loads((tmp_path / "copy.json").read_text()) == report
    announced = {json.loads(line)["id"] for line in (directory / "findings.jsonl").read_text().splitlines()}
    assert announced == {finding["id"] for finding in report["findings"]}
    assert (directory / "report.html").is_file()
    assert not (directory / SHARDS).exists()


def test_a_missing_shard_is_named_and_made_by_resume(tmp_path, monkeypatch):
    original = divided.tasks_of

    def second_dies(*arguments: Any) -> Sequence[Task]:
        first, second = original(*arguments)
        return [first, replace(second, argv=("sh", "-c", "echo gone; exit 3"))]

    monkeypatch.setattr(divided, "tasks_of", second_dies)
    result = run(*SWEEP, "-n", "2", "--runs", str(tmp_path / "runs"), "--record", str(tmp_path / "history"))
    directory, report = only_run(tmp_path / "runs")
    assert (result.exit_code, "added" in result.output) == (3, False)
    assert "shard 2/2 is missing: it ended with exit code 3 and no result: gone" in result.output
    assert any("2/2" in sentence for sentence in report["run"]["left_out"])
    assert sorted(path.name for path in (directory / SHARDS).iterdir()) == ["sweep-1-of-2", "sweep-2-of-2.log"]
    monkeypatch.undo()
    result = run("resume", "--runs", str(tmp_path / "runs"))
    directory, report = only_run(tmp_path / "runs")
    assert (result.exit_code, report["coverage"]["cases"]) == (0, 20), result.output
    assert f"run {directory.name} added" in result.output
    assert not (directory / SHARDS).exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("sweep", "-n", "0"), "-n 0: write a number"),
        (("sweep", "--shard", "1/2", "-n", "2"), "leave one of them out"),
        (("sweep", "--needs", "gpu"), "--needs names resources of Dask workers"),
        (("sweep", "--shard-timeout", "5m"), "add one of them"),
        (("certify", "--domain", "int2-float16", "--shards", "2"), "need --on ADDRESS"),
        (("certify", "--domain", "int2-float16", "--on", "nowhere"), "--on nowhere: write dask://HOST:PORT"),
    ],
)
def test_wrong_usage_is_one_sentence(words, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*words)
    assert (result.exit_code, sentence in result.output) == (2, True), result.output
    assert not list(tmp_path.glob("reports/runs/*/"))


def test_a_shard_may_take_its_budget_twice_and_ten_minutes():
    times = [divided.timeout_of_shard(*words) for words in (("5m", 60, None), (None, 60, None), (None, 60, 100))]
    assert times == [300, 720, 800]


def test_a_proof_in_shards_is_the_proof(tmp_path):
    pytest.importorskip("distributed")
    file = tmp_path / "c.json"
    words = ("certify", "--domain", "int2-float8_e8m0fnu", "-o", str(file), "--on", "local-cluster:2", "--shards", "2")
    result = run(*words)
    certificate = json.loads(file.read_text())
    assert (result.exit_code, certificate["status"]) == (0, "proven"), result.output
    assert [path.name for path in tmp_path.iterdir()] == ["c.json"]
