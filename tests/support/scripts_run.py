"""Runs of a report's scripts in a process of their own, and findings for such scripts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from sample_report import (
    ONNX,
    call,
    finding,
    gave,
    tensor,
    wrong,
)


def run(text: str, directory: Path) -> tuple[int, str]:
    """Run a script in another folder without xverify on the path. Return its exit status and output."""
    path = directory / "reproduce.py"
    path.write_text(text, encoding="utf-8")
    done = subprocess.run([sys.executable, "-I", str(path)], capture_output=True, text=True, cwd=directory, timeout=120)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout


def scaled(
    name: str, given: str, x: dict[str, Any] | None = None, verdict: str = "violation", **changes: Any
) -> dict[str, Any]:
    """Return a finding on 3 * 0.5 that states ``given`` as the only legal result. The truth is 1.5."""
    x = x or tensor("int8", [1], ["3"], ["0x03"])
    called = call(ONNX, {"x": x, "scale": tensor("float32", [], ["0.5"], ["0x3f000000"])})
    code = {"1.5": "0x3fc00000", "2.0": "0x40000000"}[given]
    other = {"1.5": ("2.0", "0x40000000"), "2.0": ("1.5", "0x3fc00000")}[given]
    witness = {
        "call": called,
        "got": gave("float32", [1], [other[0]], [other[1]]),
        "legal": [wrong([0], other, (given, code, ["exact"]))],
    }
    return finding(verdict, name, ONNX, "formula", "a summary", witness, **changes)
