"""Runs of a report's scripts in processes without xverify on the path, and findings for such scripts."""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
from functools import cache
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

SERVER = """
import json, os, runpy, signal, sys, traceback
import ml_dtypes, numpy
import onnx.reference, onnxruntime

for line in sys.stdin:
    path, arguments, folder, out = json.loads(line)
    child = os.fork()
    if not child:
        status = 0
        try:
            signal.alarm(120)
            os.chdir(folder)
            for number in (1, 2):
                os.dup2(os.open(f"{out}{number}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            sys.argv = [path, *arguments]
            runpy.run_path(path, run_name="__main__")
        except SystemExit as end:
            status = end.code or 0
        except BaseException:
            traceback.print_exc()
            status = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""A process that imports NumPy and ONNX Runtime once and forks itself for each script."""


@cache
def _server() -> subprocess.Popen[str]:
    """Start the server. It ends with this process."""
    command = [sys.executable, "-I", "-c", SERVER]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(server.communicate)
    return server


def run_file(path: Path, *arguments: str, at: Path | None = None) -> tuple[int, str, str]:
    """Run a Python file in a fork of the server. Return its exit status, output and stderr."""
    server, out = _server(), path.with_name(f"{path.name}.out")
    assert server.stdin is not None
    assert server.stdout is not None
    folder = str(at or path.parent)
    server.stdin.write(json.dumps([str(path), arguments, folder, str(out)]) + "\n")
    server.stdin.flush()
    status = int(server.stdout.readline())
    stdout, stderr = (Path(f"{out}{number}").read_text(encoding="utf-8") for number in (1, 2))
    return status, stdout, stderr


def run(text: str, directory: Path, *, alone: bool = False) -> tuple[int, str]:
    """Run a script in another folder without xverify on the path. Return its exit status and output.

    Args:
        alone: Start a new Python for it, as a user does, instead of a fork in which the frameworks are loaded.
    """
    path = directory / "reproduce.py"
    path.write_text(text, encoding="utf-8")
    if alone:
        done = subprocess.run(
            [sys.executable, "-I", str(path)], capture_output=True, text=True, cwd=directory, timeout=120
        )
        status, stdout, stderr = done.returncode, done.stdout, done.stderr
    else:
        status, stdout, stderr = run_file(path)
    assert "Traceback" not in stderr, stderr
    return status, stdout


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
