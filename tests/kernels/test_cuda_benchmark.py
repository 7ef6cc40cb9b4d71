"""The benchmark of the CUDA kernels on a stand-in for CuPy: its output, and its refusal of wrong bits."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_on_cpu import FakeCuPy
from folders import ROOT


def benchmark() -> Any:
    path = ROOT / "benchmarks" / "cuda.py"
    spec = importlib.util.spec_from_file_location("benchmarks_cuda", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_benchmark(cupy: FakeCuPy, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, file = benchmark().main, tmp_path / "cuda.json"
    options = [
        "--types",
        "uint8,packed-uint2:bfloat16,int32:float16",
        "--sizes",
        "1000",
        "--rounds",
        "3",
        "--calls",
        "2",
    ]
    assert run([*options, "--json", str(file)]) == 0
    figures = json.loads(file.read_text())["figures"]
    # uint8 to float32 has the three range modes too, in three granularities.
    assert [one["right"] for one in figures] == [True] * (15 + 9)
    assert {one["x"]: one["packed"] for one in figures} == {"uint8": False, "uint2": True, "int32": False}
    assert [one["mode"] for one in figures[:4]] == ["", "MIN_COMBINED", "MIN_FIRST", "SCALED"]
    assert len(capsys.readouterr().out.splitlines()) == 2 + 15 + 9
    first = figures[0]
    assert (first["x"], first["granularity"], first["elements"]) == ("uint8", "per-tensor", 1000)
    # This is a ratio of times. Its last bit depends on the order of the operations.
    assert first["per_cent"] == pytest.approx(100 * first["kernel_bytes_per_second"] / first["copy_bytes_per_second"])
    with pytest.raises(SystemExit, match="2"):
        run([*options, "--modes", "MAX"])
    assert "'MAX' is no mode; there are MIN_COMBINED" in capsys.readouterr().err
    cupy.devices = 0
    assert run(options) == 3
    assert "no GPU here, so nothing was measured" in capsys.readouterr().err


def test_the_benchmark_says_when_bits_are_wrong(
    cupy: FakeCuPy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = benchmark()
    monkeypatch.setattr(module, "expected", lambda case, operands: np.full(case.shape, 7, case.out_dtype))
    assert module.main(["--types", "uint8", "--granularities", "per-tensor", "--sizes", "100", "--rounds", "1"]) == 1
    assert "OTHER BITS THAN NUMPY'S" in capsys.readouterr().out
