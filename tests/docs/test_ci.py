"""Configurations for CI: docs/ci.md has each, their options exist, and the action's steps run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from folders import ROOT

from xverify import cli

yaml = pytest.importorskip("yaml", reason="pip install pyyaml")

FILES = sorted((ROOT / "examples" / "ci").iterdir())
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
KERNEL = """
import numpy as np


def dequantize(x, scale, zero_point=None):
    if x.dtype != np.uint8 or scale.shape or scale.dtype != np.float32:
        raise ValueError("x must be uint8, and scale a float32 scalar")
    if zero_point is None:
        zero_point = np.zeros((), x.dtype)
    if zero_point.dtype != x.dtype or zero_point.shape:
        raise ValueError("zero_point must be a uint8 scalar")
    return np.asarray((x - zero_point) * scale, np.float32)
"""


def parameters(words: list[str]) -> dict[str, Any]:
    """Parse the options of a gate; click raises an error for one that does not exist."""
    return cli.main.commands["gate"].make_context("gate", list(words)).params


def strings(value: Any) -> list[str]:
    """Return every string of a parsed file."""
    if isinstance(value, dict):
        return [text for part in value.values() for text in strings(part)]
    if isinstance(value, list):
        return [text for part in value for text in strings(part)]
    return [str(value)]


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_a_configuration_is_in_the_page_and_calls_the_gate_with_options_that_exist(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    assert f"<!-- file: examples/ci/{file.name} -->\n```yaml\n{text}```\n" in page
    data = yaml.safe_load(text)
    gates = [line for part in strings(data) for line in re.findall("xverify gate .*", part.replace("\\\n", " "))]
    for words in [shlex.split(line)[2:] for line in gates]:
        assert parameters(words)["target"] == "my_kernel.py:dequantize"
    if "jobs" in data and "uses: OWNER/xverify@" in text:
        (step,) = [step for step in data["jobs"]["gate"]["steps"] if step["uses"].startswith("OWNER/")]
        assert set(step["with"]) <= set(ACTION["inputs"])
    elif "repos" in data:
        (hook,) = data["repos"][0]["hooks"]
        assert hook["id"] == HOOKS[0]["id"]
        assert parameters([*shlex.split(HOOKS[0]["entry"])[2:], *hook["args"]])["walk_only"]
    else:
        assert len(gates) == 1


def test_the_hook_installs_the_command_and_takes_no_file_names() -> None:
    (hook,) = HOOKS
    assert (hook["language"], hook["pass_filenames"]) == ("python", False)
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert hook["entry"].split()[0] in scripts


def test_the_page_lists_the_inputs_and_outputs_of_the_action() -> None:
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE))
    assert rows == {*ACTION["inputs"], *ACTION["outputs"]}


# -- the action -----------------------------------------------------------------------------------------------------------

STEPS = {step.get("name", step.get("uses")): step for step in ACTION["runs"]["steps"]}


def test_no_input_becomes_part_of_a_script_and_actions_are_pinned() -> None:
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
        assert "run" not in step or step["shell"] == "bash"
        assert "uses" not in step or re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"])
    assert STEPS["actions/upload-artifact@v4"]["if"].startswith("always()")


@pytest.fixture
def runner(tmp_path: Path) -> Path:
    """Make the folders of a runner, with the commands `xverify` and `python` of this environment."""
    for name in ("bin", "temp", "work"):
        (tmp_path / name).mkdir()
    command = tmp_path / "bin" / "xverify"
    command.write_text(f"#!{sys.executable}\nfrom xverify.cli import main\n\nmain(prog_name='xverify')\n")
    command.chmod(0o755)
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "work" / "k.py").write_text(KERNEL)
    return tmp_path


def run(step: dict[str, Any], runner: Path, **inputs: str) -> tuple[int, dict[str, str], str]:
    """Run a step as GitHub's runner does.

    Returns:
        The exit code, the outputs, and what the step printed.
    """
    named = {name: entry.get("default", "") for name, entry in ACTION["inputs"].items()} | inputs
    values = {
        name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: named[found[1]], text)
        for name, text in step["env"].items()
    }
    given = {
        "PATH": f"{runner / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "GITHUB_ACTIONS": "true",
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_OUTPUT": str(runner / "outputs"),
        "GITHUB_STEP_SUMMARY": str(runner / "summary.md"),
        "RUNNER_TEMP": str(runner / "temp"),
    }
    (runner / "outputs").write_text("")
    (runner / "step.sh").write_text(step["run"])
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(runner / "step.sh")],
        env={**os.environ, **given, **values}, cwd=runner / "work", capture_output=True, text=True,
    )  # fmt: skip
    outputs = dict(line.split("=", 1) for line in (runner / "outputs").read_text().splitlines())
    return done.returncode, outputs, done.stdout + done.stderr


NARROW = {"contract": "ai.onnx/DequantizeLinear-10\n", "args": "--x-dtypes uint8 --walk-only -x"}


def test_the_gate_step_fails_with_annotations_and_compares_with_the_ledger(runner: Path) -> None:
    code, outputs, printed = run(STEPS["Gate the kernel"], runner, kernel="k.py:dequantize", **NARROW)
    assert (code, outputs["outcome"]) == (1, "findings"), printed
    assert "::error file=k.py,line=5," in printed
    (identity,) = re.findall("^violation  (violation-[0-9a-f]+)", printed, re.MULTILINE)
    names = {path.name for path in Path(outputs["folder"]).iterdir()}
    assert names == {"gate.html", "gate.xml", "gate.sarif", "report.json", "badge.json"}
    assert all(Path(outputs[name]).is_file() for name in ("report", "sarif", "badge"))
    report = Path(outputs["folder"]) / "report.json"
    words = [identity, "--run", report, "--ledger", "l.toml", "--reason", "known", "--owner", "me", "--expires", "9d"]
    subprocess.run(
        [runner / "bin" / "xverify", "ledger", "accept", *words], cwd=runner / "work", check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
    )  # fmt: skip
    again = run(STEPS["Gate the kernel"], runner, kernel="k.py:dequantize", ledger="l.toml", **NARROW)
    assert (again[0], again[1]["outcome"]) == (0, "pass"), again[2]
    assert "PASS: xverify gate of `k.py:dequantize`" in (runner / "summary.md").read_text()


@pytest.mark.parametrize("name", ["kernel", "contract", "ledger", "args", "budget"])
def test_an_input_is_no_command(name: str, runner: Path) -> None:
    hostile = "$(touch made) `touch made` '; touch made; \"; touch made; #"
    inputs = {"kernel": "k.py:dequantize", "contract": "no/such", "args": "", name: hostile}
    code, outputs, printed = run(STEPS["Gate the kernel"], runner, **inputs)
    assert code not in (0, 1), printed
    assert outputs.get("outcome", "usage") in ("usage", "unable")
    assert not (runner / "work" / "made").exists()


def test_the_install_step_installs_the_action_and_the_packages(runner: Path) -> None:
    (runner / "bin" / "python").unlink()
    (runner / "bin" / "python").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (runner / "bin" / "python").chmod(0o755)
    code, _, printed = run(STEPS["Install xverify"], runner, packages="numba  'a;b'\n-r requirements.txt")
    assert code == 0
    assert printed.split("\n")[-6:] == [str(ROOT), "numba", "'a;b'", "-r", "requirements.txt", ""]
    assert run(STEPS["Install xverify"], runner)[2].split("\n")[-2:] == [str(ROOT), ""]
