"""One new file of ``oracles/`` adds an implementation to sweeps, scripts, issues and the bench."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from folders import ROOT

TOY = '''
"""A toy: it forgets the zero point."""

from __future__ import annotations

from typing import Any, List

import numpy as np

from xverify.core.call import Call, Outcome
from xverify.oracles.arrays import answered, hand_out
from xverify.oracles.protocol import Loaded, Oracle
from xverify.oracles.short_form import ShortCall, ShortForm
from xverify.oracles.timing import Problem, Solve, Timing, Way

EDITION = "ai.onnx/DequantizeLinear-21"

ORACLES = (
    Oracle(
        name="toy",
        distribution="numpy",
        contracts=(EDITION,),
        judged_by=(EDITION,),
        module=__name__,
        title="Toy Runtime",
        claim="ONNX, for this test.",
        timing=Timing("#123456", "h"),
    ),
)


def dequantize(x: Any, scale: Any) -> Any:
    return x.astype(np.float32) * scale


def load() -> Loaded:
    def answer(call: Call, path: str) -> Outcome:
        arrays = hand_out(call)
        x, scale = arrays["x"], arrays["scale"]
        if x.dtype != np.int8 or scale.dtype != np.float32 or scale.ndim or call.attributes:
            raise NotImplementedError("int8 and float32, per tensor")
        return answered(np.asarray(dequantize(x, scale)), call, arrays)

    return Loaded(answer)


def short_form(call: ShortCall) -> ShortForm:
    return ShortForm([], ["y = x.astype(np.float32) * scale  # the toy"])


def load_bench(threads: int) -> Solve:
    def solve(problem: Problem) -> List[Way]:
        return [Way("toy's way", lambda: dequantize(problem.x, problem.scale), np.asarray, owns_output=True)]

    return solve
'''


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources with one more file."""
    folder = tmp_path_factory.mktemp("tree")
    for name in ("xverify", "oracles", "strategies"):
        shutil.copytree(ROOT / name, folder / name, symlinks=True)
    (folder / "oracles" / "toy.py").write_text(TOY.lstrip())
    return folder


def xverify(tree: Path, *words: str, python: str = "") -> str:
    """Run a command, or Python code, with the copy."""
    command = [sys.executable, "-c", python, *words] if python else [sys.executable, "-m", "xverify", *words]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_toy_is_found_in_a_sweep_a_script_and_an_issue(tree: Path, tmp_path: Path) -> None:
    xverify(
        tree, "sweep", "--cases", "150", "--seed", "7", "--oracle", "toy", "--contract", "ai.onnx/DequantizeLinear-21",
        "--runs", str(tree / "runs"),
    )  # fmt: skip
    (run,) = (tree / "runs").iterdir()
    report = json.loads((run / "report.json").read_text())
    wrong = next(f for f in report["findings"] if f["subject"]["name"] == "toy" and f["verdict"] == "violation")
    script = run / "scripts" / f"{wrong['id']}.py"
    assert "class Embedded" in script.read_text()
    shutil.copy(script, tmp_path)
    done = subprocess.run(
        [sys.executable, "-I", script.name], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, "the discrepancy is there" in done.stdout) == (1, True), done.stdout + done.stderr
    issue = "import sys, json, xverify.report as r; print(r.issue_body(json.load(open(sys.argv[1])), sys.argv[2]))"
    body = xverify(tree, str(run / "report.json"), wrong["id"], python=issue)
    assert "# ONNX DequantizeLinear, version 21: Toy Runtime takes the zero point as 0" in body
    assert "y = x.astype(np.float32) * scale  # the toy" in body


TIMED = """
from xverify.bench.cases import Case
from xverify.bench.problem import peers
from xverify.bench.run import Options, bench

(toy,) = (peer for peer in peers() if peer.name == "toy")
result = bench(Options((Case("int8", "float32", "per-tensor", 1000),), 1, 60.0, peers=(toy,), rounds=3))
print(result["cases"][0]["lines"][0]["way"], toy.style)
"""


def test_a_toy_is_timed_and_drawn(tree: Path) -> None:
    assert xverify(tree, python=TIMED).strip() == "toy's way ('#123456', 'h')"
