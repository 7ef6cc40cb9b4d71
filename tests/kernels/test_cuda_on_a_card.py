"""`benchmarks/on_a_card.sh` with stand-ins for its commands, and the table that it prints."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from benchmark_scripts import script
from folders import ROOT

from xverify import contracts
from xverify.core.call import BITS
from xverify.core.dtypes import QUANTIZED
from xverify.oracles import all_oracles, answers

SCRIPT = ROOT / "benchmarks" / "on_a_card.sh"
TABLE = script("card_table")

needs_bash = pytest.mark.skipif(sys.platform != "linux", reason="the script is for Linux")


def options_of_gates() -> list[dict[str, str]]:
    """The options of each gate of the script."""
    text = SCRIPT.read_text(encoding="utf-8").replace("$onnx", "ai.onnx/DequantizeLinear")
    words = [shlex.split(line)[2:] for line in text.splitlines() if re.match(r"gate [\w-]+ --kernel", line)]
    return [dict(zip(each[::2], each[1::2], strict=True)) for each in words]


def test_the_gates_cover_every_type_of_every_edition() -> None:
    gates, oracle = options_of_gates(), all_oracles()["xverify-cuda"]
    editions = [edition for edition in contracts.ids() if answers(oracle, edition)]
    assert contracts.newest() in editions
    for edition in editions:
        matching = [gate for gate in gates if fnmatchcase(edition, gate.get("--contract", ""))]
        divided = {x for gate in matching for x in gate.get("--x-dtypes", ",".join(QUANTIZED)).split(",")}
        assert divided == set(QUANTIZED), edition
    packed = [x for gate in gates if gate["--kernel"].endswith(":packed") for x in gate["--x-dtypes"].split(",")]
    assert sorted(packed) == sorted(x for x in QUANTIZED if BITS[x] < 8)


def run(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", str(SCRIPT), str(folder / "logs")]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120)


@needs_bash
def test_without_a_card_it_says_so_and_runs_nothing(tmp_path: Path) -> None:
    (tmp_path / "cupy.py").write_text('raise ImportError("libcuda.so.1 is missing")')
    result = run(tmp_path, PYTHON=sys.executable, PYTHONPATH=str(tmp_path))
    assert (result.returncode, result.stdout) == (3, "")
    assert "no usable card: ImportError: the CUDA kernels need CuPy (libcuda.so.1 is missing)" in result.stderr
    assert list((tmp_path / "logs").iterdir()) == []


@needs_bash
def test_a_failing_step_does_not_stop_the_others(tmp_path: Path) -> None:
    commands = tmp_path / "bin"
    commands.mkdir()
    failing = 'case "$*" in *DequantizeLinear-24*) echo a finding; exit 1;; esac\n'
    for name in ("python", "compute-sanitizer", "nvidia-smi"):
        (commands / name).write_text(f'#!/bin/sh\n{failing if name == "python" else ""}echo {name} "$@"\n')
        (commands / name).chmod(0o755)
    (tmp_path / "logs").mkdir()
    for old in ("bench.json", "memcheck-1.txt"):
        (tmp_path / "logs" / old).write_text("ERROR SUMMARY: 0 errors")
    result = run(tmp_path, PYTHON="python", PATH=f"{commands}:{os.environ['PATH']}")
    assert result.returncode == 1
    assert result.stderr == "failed: gate-24 (exit code 1), see gate-24.log\n"
    steps = TABLE.steps_of(tmp_path / "logs")
    once = {"facts", "tests", "memcheck", "initcheck", "prepare", "certificate", "bench", "table"}
    assert {name for name in steps if not name.startswith("gate-")} == once
    assert len(steps) == len(once) + len(options_of_gates())
    assert {name for name, step in steps.items() if step.code} == {"gate-24"}
    assert (tmp_path / "logs" / "gate-24.log").read_text() == "a finding\n"
    assert not [*(tmp_path / "logs").glob("memcheck-*.txt"), *(tmp_path / "logs").glob("*.json")], "of an earlier run"
    limits = re.search(r"^FACTS=.*", SCRIPT.read_text(encoding="utf-8"), re.MULTILINE)
    assert limits is not None
    assert sum(map(int, re.findall(r"=(\d+)", limits[0]))) <= 360


@needs_bash
def test_ctrl_c_stops_the_steps(tmp_path: Path) -> None:
    stand_in = tmp_path / "python"
    stand_in.write_text('#!/bin/sh\ncase "$*" in *pytest*) echo $$ >"$PID"; exec sleep 60;; esac\n')
    stand_in.chmod(0o755)
    number = tmp_path / "pid"
    environment = {**os.environ, "PYTHON": str(stand_in), "PID": str(number)}
    command = ["bash", str(SCRIPT), str(tmp_path / "a folder")]
    # A job in the background of a shell ignores SIGINT, and so does what it starts.
    with subprocess.Popen(
        command, env=environment, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    ) as process:
        while not number.exists() or not number.read_text().endswith("\n"):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int(number.read_text()), 0)


def figure(x: str, elements: int, per_cent: float, packed: bool = False, **peer: Any) -> dict[str, Any]:
    """A figure as `benchmarks/card.py` writes it."""
    return {
        "x": x, "packed": packed, "out": "float16", "mode": "", "granularity": "blocked", "elements": elements, "right": True,
        "first_call_s": 0.2, "per_cent": per_cent, "peers": {"torch.compile": peer} if peer else {},
    }  # fmt: skip


def verdicts(folder: Path) -> dict[str, tuple[str, bool | None]]:
    return {row.measure: (row.measured, row.is_reached) for row in TABLE.rows(folder)}


def test_the_table_of_an_empty_folder_has_no_figures(tmp_path: Path) -> None:
    assert {is_reached for _, is_reached in verdicts(tmp_path).values()} == {None}


def test_the_table_puts_figures_beside_their_goals(tmp_path: Path) -> None:
    steps = {"tests": 0, "gate-25": 0, "gate-24": 124, "memcheck": 0, "initcheck": 0, "certificate": 0, "bench": 0}
    (tmp_path / "steps.tsv").write_text("".join(f"{name}\t{code}\t12.5\t60\n" for name, code in steps.items()))
    (tmp_path / "gates.seconds").write_text("100.5\n")
    (tmp_path / "tests.log").write_text("....\n7 passed in 3.2s\n")
    (tmp_path / "memcheck-1.txt").write_text("========= ERROR SUMMARY: 0 errors\n")
    (tmp_path / "memcheck-2.txt").write_text("========= ERROR SUMMARY: 2 errors\n")
    large, medium = 1 << 28, 1 << 20
    figures = [
        figure("uint8", large, 95.0, ratio=0.99, right=True),
        figure("float8_e5m2", large, 94.9, ratio=1.2, right=False),
        figure("uint4", large, 90.0, packed=True, ratio=2.0, right=True),
        figure("int16", large, 90.0),
        figure("int8", medium, 30.0, ratio=1.0, right=True),
        {**figure("int2", 1, 0), "host_us": 8.1},
    ]
    (tmp_path / "bench.json").write_text(
        json.dumps({"figures": figures, "left_out": ["int32 to float32: the 65 s are over"]})
    )
    assert verdicts(tmp_path) == {
        "tests with the real CuPy": ("7 passed in 3.2s", True),
        "gates of the whole domain": ("1 of 2 pass, 100.5 s; gate-24: stopped after 60 s", False),
        "memcheck of a short gate": ("2 errors in 2 processes", False),
        "initcheck of a short gate": ("the tool wrote no summary", None),
        "certificate int8 by float16": ("proven, 12.5 s", True),
        "bits of the bench's cases": ("6 of 6 equal", True),
        "slowest first call (uint8 to float16, blocked, 256 Mi)": ("0.20 s", True),
        "uint8 to float16, blocked, 256 Mi": ("0.950 of copy", True),
        "uint8 to float16, blocked, 256 Mi, beside torch.compile": ("0.99", False),
        "float8_e5m2 to float16, blocked, 256 Mi": ("0.949 of copy", False),
        "float8_e5m2 to float16, blocked, 256 Mi, beside torch.compile": ("1.20, with other bits", None),
        "packed uint4 to float16, blocked, 256 Mi": ("0.900 of copy", True),
        "int16 to float16, blocked, 256 Mi": ("0.900 of copy", True),
        "int8 to float16, blocked, 1 Mi, beside torch.compile": ("1.00", True),
        "host time, int2 to float16, blocked, 1": ("8.1 us", False),
        "other cases of the bench": ("1 named in bench.json", None),
    }
