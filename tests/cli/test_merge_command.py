"""``xverify sweep --shard`` and ``xverify merge``: options, files and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from xverify import cli, report

EDITION = "ai.onnx/DequantizeLinear-19"


def invoke(*arguments: object):
    return CliRunner().invoke(cli.main, list(map(str, arguments)))


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """A folder with the run directories of two shards; the second has no work."""
    folder = tmp_path_factory.mktemp("runs")
    for shard in ("1/2", "2/2"):
        options = ("--contract", EDITION, "--oracle", "onnx-reference", "--cases", 12, "--runs", folder / shard[0])
        result = invoke("sweep", *options, "--shard", shard)
        assert result.exit_code == 0, result.output
    return folder


def test_shards_are_merged_into_a_run_directory(runs, tmp_path):
    result = invoke("merge", runs / "1", runs / "2", "-o", tmp_path / "whole")
    assert result.exit_code == 0, result.output
    merged = report.load(tmp_path / "whole" / "report.json")
    assert (merged["run"]["id"], merged["coverage"]["cases"], len(merged["editions"])) == ("whole", 12, 1)
    assert "shard" not in merged["run"]
    assert (tmp_path / "whole" / "report.html").is_file()
    scripts = {path.stem for path in (tmp_path / "whole" / "scripts").glob("*.py")}
    assert scripts == {finding["id"] for finding in merged["findings"] if finding["witness"]}
    again = invoke("merge", runs / "1", "-o", tmp_path / "whole")
    assert again.exit_code == 3
    assert "shard 2/2 is missing" in again.output


def test_with_partial_the_report_says_what_is_missing(runs, tmp_path):
    result = invoke("merge", runs / "1", "--partial", "-o", tmp_path / "part")
    assert result.exit_code == 0, result.output
    assert "lacks 1 of 2 shards" in result.output
    left_out = json.loads((tmp_path / "part" / "report.json").read_text())["run"]["left_out"]
    assert left_out[-1] == "missing of the run's shards: 2/2"


def test_wrong_paths_and_folders_are_refused_in_a_sentence(runs, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    for arguments, sentence in (
        ((tmp_path / "none",), "none does not exist"),
        ((tmp_path / "full",), "full holds no shard"),
        ((runs / "1", runs / "2", "-o", tmp_path / "full"), "full is not empty"),
    ):
        result = invoke("merge", *arguments)
        assert result.exit_code == 2
        assert sentence in result.output
    assert invoke("sweep", "--shard", "3/2").exit_code == 2
