"""The examples: kernels pass their gates, and every file is listed."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from click.testing import CliRunner
from folders import ROOT
from native_compiler import NATIVE, compiled, compiler

from xverify import cli
from xverify.report import load

EXAMPLES = ROOT / "examples"
NARROW = ("--scale-dtypes", "float32", "--walk-only", "--budget", "60s")
ROWS = ("--granularity", "per_axis,blocked")
"""Granularities that the gates of docs/gate.md leave out: those are per tensor."""


BFLOAT16 = ("--scale-dtypes", "bfloat16", "--walk-only", "--budget", "60s")


def cells(directory: Path) -> set[tuple[str, str, str]]:
    """Return the types and the granularity of the cells that the only gate found right.

    A cell whose subnormal results are zero is ambiguous.
    """
    (report,) = (directory / "runs").glob("*/report.json")
    right = [cell for cell in load(report)["coverage"]["cells"] if cell["status"] in ("agrees", "ambiguous")]
    return {(cell["scale_dtype"], cell["out_dtype"], cell["granularity"]) for cell in right}


def gate(target: str, directory: Path, *options: str) -> str:
    """Return the output of a gate that passes."""
    words = ["gate", "--kernel", target, *options, "--runs", str(directory / "runs")]
    result = CliRunner(env={"COLUMNS": "200"}).invoke(cli.main, words)
    assert result.exit_code == 0, result.output
    assert f"PASS {target}" in result.output
    return result.output


def compiled_cpp(source: Path, directory: Path, name: str = "", *more: str) -> Path:
    """Return the shared library of a C++ source, with that name. Skip the test without a compiler."""
    paths = (shutil.which(name) for name in ("c++", "g++", "clang++"))
    command = next(([path] for path in paths if path), None)
    if command is None and importlib.util.find_spec("ziglang"):
        command = [sys.executable, "-m", "ziglang", "c++"]
    if command is None:
        pytest.skip("there is no C++ compiler: pip install ziglang")
    library = directory.resolve() / (name or f"{source.stem}.so")
    options = [
        "-std=c++17",
        "-O2",
        "-shared",
        "-fPIC",
        "-Wall",
        "-Wextra",
        "-Werror",
        f"-I{NATIVE}",
        *more,
        "-o",
        str(library),
    ]
    result = subprocess.run([*command, *options, str(source)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return library


def test_the_numpy_kernel_passes(tmp_path):
    output = gate(f"{EXAMPLES / 'numpy_kernel.py'}:dequantize", tmp_path, "--x-dtypes", "uint8", *NARROW, *ROWS)
    assert "refused as not implemented: output of bfloat16 or float16" in output


@pytest.mark.parametrize(
    ("function", "options"),
    [
        ("dequantize", ()),
        pytest.param("dequantize_compiled", ("--timeout", "60"), marks=pytest.mark.slow, id="dequantize_compiled"),
    ],
)
def test_the_pytorch_kernel_passes(tmp_path, function, options):
    """It returns tensors of bfloat16, which only DLPack can read."""
    pytest.importorskip("torch", reason="pip install torch")
    gate(f"{EXAMPLES / 'torch_kernel.py'}:{function}", tmp_path, "--x-dtypes", "uint8", *BFLOAT16, *options)
    assert cells(tmp_path) >= {("bfloat16", "bfloat16", kind) for kind in ("per_tensor", "per_axis", "blocked")}


def test_the_jax_kernel_passes(tmp_path):
    pytest.importorskip("jax", reason="pip install jax")
    target, flushes = f"{EXAMPLES / 'jax_kernel.py'}:dequantize", ("--denormals", "flush-inputs")
    gate(target, tmp_path, "--x-dtypes", "uint8", *flushes, *BFLOAT16)
    assert cells(tmp_path) >= {("bfloat16", "bfloat16", kind) for kind in ("per_tensor", "per_axis", "blocked")}


def test_the_triton_kernel_passes(tmp_path):
    pytest.importorskip("torch", reason="pip install torch")
    pytest.importorskip("triton", reason="pip install triton")
    narrow = ("--granularity", "per_axis", *NARROW)
    gate(f"{EXAMPLES / 'triton_kernel.py'}:dequantize", tmp_path, "--x-dtypes", "uint8", *narrow)
    assert ("float32", "float32", "per_axis") in cells(tmp_path)


def test_the_c_kernel_passes(tmp_path):
    library = compiled(EXAMPLES / "c_kernel.c", tmp_path, command=compiler())
    output = gate(f"{library}:dequantize", tmp_path, "--x-dtypes", "int8", *NARROW, *ROWS)
    assert "refused as not implemented: blocked" in output


def test_the_cpp_kernel_passes(tmp_path):
    library = compiled_cpp(EXAMPLES / "cpp_kernel.cpp", tmp_path)
    output = gate(f"{library}:dequantize", tmp_path, "--x-dtypes", "uint16", *NARROW)
    assert "refused as not implemented: output of bfloat16 or float16" in output


def test_the_pybind_kernel_passes(tmp_path, monkeypatch):
    pybind11 = pytest.importorskip("pybind11", reason="pip install pybind11")
    includes = [f"-I{folder}" for folder in (pybind11.get_include(), sysconfig.get_path("include"))]
    name = f"pybind_kernel{sysconfig.get_config_var('EXT_SUFFIX')}"
    compiled_cpp(EXAMPLES / "pybind_kernel.cpp", tmp_path, name, *includes)
    monkeypatch.chdir(tmp_path)
    gate("pybind_kernel:dequantize", tmp_path, "--x-dtypes", "uint8", *NARROW, *ROWS)
    assert cells(tmp_path) >= {("float32", "float32", kind) for kind in ("per_axis", "blocked")}


def test_the_rust_kernel_passes(tmp_path):
    rustc = shutil.which("rustc")
    if rustc is None:
        pytest.skip("there is no Rust compiler: see https://rustup.rs")
    library = tmp_path / "rust_kernel.so"
    source = EXAMPLES / "rust_kernel.rs"
    options = ["--edition=2021", "-O", "-Cpanic=abort", "-Dwarnings", "--crate-type=cdylib", "-o", library]
    result = subprocess.run([rustc, *options, source], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    gate(f"{library}:dequantize", tmp_path, "--x-dtypes", "uint16", "--granularity", "blocked", *NARROW)
    assert cells(tmp_path) >= {("float32", "float32", "blocked")}


def test_the_kernel_with_packed_int4_passes(tmp_path):
    narrow = ("--x-dtypes", "int4", "--scale-dtypes", "float16", "--granularity", "blocked", "--walk-only")
    gate(f"{EXAMPLES / 'packed_int4_kernel.py'}:dequantize", tmp_path, *narrow)
    assert ("float16", "float16", "blocked") in cells(tmp_path)


def test_every_example_is_listed():
    listed = set(re.findall(r"^\| \[([^\]]+)\]", (EXAMPLES / "README.md").read_text(), re.MULTILINE))
    files = {path.name + "/" * path.is_dir() for path in EXAMPLES.iterdir()} - {"README.md", "ci/", "__pycache__/"}
    assert listed == files
