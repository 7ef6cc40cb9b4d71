"""A sweep with kernels of the user beside implementations, and its continuation."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from xverify import cli
from xverify.engine import resume
from xverify.report import load
from xverify.workers import process

EDITIONS = ("--contract", "ai.onnx/DequantizeLinear-25", "--contract", "onednn/DynamicDequantize-1@multiply")

KERNEL = """
def dequantize(x, scale, zero_point=None, *, axis=1, block_size=0, out_dtype=None):
    if scale.ndim or x.dtype.name != "uint8" or (scale.dtype.name, str(out_dtype or "float32")) != ("float32",) * 2:
        raise NotImplementedError
    return (x if zero_point is None else x - zero_point) * scale  # wraps around in uint8


def for_onednn(src, scales, zps=None, *, qtype="per_tensor", axis=1):
    raise NotImplementedError


def for_nothing(x):
    return x
"""


def sweep(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(cli.main, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine.py").write_text(KERNEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_kernel_of_the_user_has_a_column_findings_and_a_script(folder: Path) -> None:
    targets = [f"mine.py:{name}" for name in ("dequantize", "for_onednn", "for_nothing")]
    named = [word for target in ("onnx-reference", *targets) for word in ("--oracle", target)]
    output = sweep("sweep", *EDITIONS, *named, "--cases", 120, "--runs", "runs", "--json", "report.json")
    assert "mine.py:for_nothing could not be run: mine.py:for_nothing does not fit the calls of" in output
    report = load(folder / "report.json")
    assert {"onnx-reference", targets[0], targets[1]} <= {cell["subject"] for cell in report["coverage"]["cells"]}
    (finding,) = (f for f in report["findings"] if f["subject"]["name"] in targets)
    assert (finding["verdict"], finding["contract"]) == ("violation", "ai.onnx/DequantizeLinear-25")
    assert "wrap-around" in finding["summary"]
    (script,) = folder.glob(f"runs/*/scripts/{finding['id']}.py")
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=folder, timeout=60)
    assert ran.returncode == 1, ran.stdout + ran.stderr


def test_a_sweep_whose_only_kernel_cannot_be_run_is_no_success(folder: Path) -> None:
    output = sweep("sweep", "--oracle", "mine.py:nothing", "--cases", 5, "--runs", "runs", code=3)
    assert "no implementation that --oracle names could be run" in output


def test_slow_calls_end_soon_after_the_budget(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The calls are counted: on a busy machine seconds say little.
    monkeypatch.setattr(process, "Limits", partial(process.Limits, call=2.0))
    slow = "\n    import time\n    print('.', file=open('calls', 'a'))\n    time.sleep(0.3)\n    raise NotImplementedError\n"
    (folder / "slow.py").write_text(KERNEL.replace("    if scale.ndim", f"{slow}    if scale.ndim"))
    named = ("--contract", EDITIONS[1], "--oracle", "slow.py:dequantize")
    sweep("sweep", *named, "--budget", "2s", "--runs", "runs")
    assert 1 <= len((folder / "calls").read_text().split()) < 25, "a batch has 31 calls"


def test_a_run_goes_on_with_the_kernel_that_its_command_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(resume.HeldRun, "finish", lambda held: held.lock.close())
        sweep("sweep", "--oracle", "mine.py:dequantize", "--cases", 20, "--runs", "runs")
    assert "mine.py:dequantize" in sweep("resume", "--runs", "runs")
    with monkeypatch.context() as patch:
        patch.setattr(resume.HeldRun, "finish", lambda held: held.lock.close())
        sweep("sweep", "--oracle", "mine.py:dequantize", "--cases", 20, "--runs", "runs")
    (folder / "mine.py").write_text(KERNEL + "# changed")
    assert "mine.py was" in sweep("resume", "--runs", "runs", code=2)
