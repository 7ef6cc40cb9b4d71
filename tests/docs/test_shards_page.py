"""The shell examples of docs/shards.md: each shard is started once, with options that exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from folders import ROOT
from test_commands import blocks, parse

PAGE = (ROOT / "docs" / "shards.md").read_text(encoding="utf-8")
SCRIPTS = [body for _, body in blocks(PAGE, "bash")]
(JOB,) = [body for _, body in blocks(PAGE, "yaml")]


def run(script: str, directory: Path, program: str, **variables: str) -> None:
    """Run a script in a directory, with a stand-in for the command xverify."""
    (directory / "bin").mkdir()
    shim = directory / "bin" / "xverify"
    shim.write_text(f"#!/bin/sh\n{program}\n")
    shim.chmod(0o755)
    path = f"{directory / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HOME": str(directory), **variables}
    subprocess.run(["bash", "-e", "-c", script], cwd=directory, env=environment, check=True, timeout=200)


def recorded(script: str, directory: Path, **variables: str) -> list[list[str]]:
    """The arguments of the xverify commands that a script starts. Each sweep makes its folder."""
    program = 'echo "$@" >> calls; case "$*" in *--runs*) for last; do :; done; mkdir -p "$last/run";; esac'
    run(script, directory, program, **variables)
    return [line.split() for line in (directory / "calls").read_text().splitlines()]


def shards_of(calls: list[list[str]]) -> list[str]:
    for words in calls:
        parse(tuple(words))
    return sorted((words[words.index("--shard") + 1] for words in calls if "--shard" in words), key=len)


@pytest.mark.parametrize(("index", "count"), [(0, 2), (1, 8)])
def test_a_loop_starts_each_shard_once_and_merges_their_folders(index, count, tmp_path):
    calls = recorded(SCRIPTS[index], tmp_path)
    assert sorted(shards_of(calls)) == [f"{k}/{count}" for k in range(1, count + 1)]
    assert calls[-1] == ["merge", *sorted(f"shards/{k}/" for k in range(1, count + 1)), "-o", "whole"]


def test_the_array_and_the_job_start_the_shard_of_their_index(tmp_path):
    (command,) = re.findall(r'command: \[sh, -c, "(.*)"\]', JOB)
    for number, (script, variables) in enumerate(
        [(SCRIPTS[2], {"SLURM_ARRAY_TASK_ID": "5"}), (command, {"JOB_COMPLETION_INDEX": "4"})]
    ):
        (tmp_path / str(number)).mkdir()
        script = script.replace("/results/", f"{tmp_path}/")
        assert shards_of(recorded(script, tmp_path / str(number), **variables)) == ["5/16"]


def test_the_loop_gives_a_report(tmp_path):
    quick = "--oracle onnx-reference --contract ai.onnx/DequantizeLinear-10"
    program = f'case $1 in sweep) more="{quick}";; esac; exec {sys.executable} -m xverify "$@" $more'
    run(SCRIPTS[0].replace("--cases 2000", "--cases 20"), tmp_path, program)
    assert (tmp_path / "whole" / "report.json").is_file()
