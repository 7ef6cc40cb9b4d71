"""The instructions that nvcc generates for the CUDA kernels, where nvcc is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from cuda_arrays import launch_of

from xverify.kernels.blocks import Spread
from xverify.kernels.cuda.compiling import OPTIONS, SOURCE
from xverify.kernels.cuda.launch import Launch
from xverify.kernels.plans import Operand


def ptx_of(launch: Launch, directory: Path) -> str:
    """Return the PTX that nvcc generates for a launch. Skip the test where there is no nvcc."""
    if shutil.which("nvcc") is None:
        pytest.skip("there is no nvcc; NVRTC compiles the source where there is a card")
    file = directory / "kernel.ptx"
    command = ["nvcc", "-ptx", "-arch=sm_80", *OPTIONS, *launch.macros, SOURCE, "-o", file]
    result = subprocess.run(command, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    return file.read_text()


def test_nvcc_generates_vector_accesses_and_fuses_nothing(tmp_path: Path) -> None:
    """Loads and stores are vectors that bypass the caches. No product is fused with the difference."""
    text = ptx_of(launch_of((7, 9), (9,), Spread(1)), tmp_path)
    found = set(re.findall(r"\b(?:ld\.global|st\.global|fma|mul|sub)\.[a-z0-9.]*", text))
    assert {"st.global.cs.v4.u32", "ld.global.cs.u32", "mul.rn.f32"} <= found
    assert not any(operation.startswith("fma") or ".ftz" in operation for operation in found)


@pytest.mark.parametrize("formula", ["MIN_COMBINED", "MIN_FIRST", "SCALED_SYMMETRIC", "SCALED_FACTOR", "TABLE"])
def test_nvcc_keeps_the_terms_of_ranges_in_registers(tmp_path: Path, formula: str) -> None:
    """Terms stay in registers, and loads and stores are vectors."""
    x, end = Operand(np.dtype(np.int8), (7, 9)), Operand(np.dtype(np.float32), (9,))
    table = formula == "TABLE"
    launch = Launch.of(end.dtype, x, end, None if table else end.dtype, Spread() if table else Spread(1), formula)
    text = ptx_of(launch, tmp_path)
    assert {"st.global.cs.v4.u32", "ld.global.cs.u32"} <= set(re.findall(r"\b(?:ld|st)\.global\.[a-z0-9.]*", text))
    assert ".local" not in text
