"""The wheel: its content, and the gate from an installed wheel outside the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from folders import ROOT
from native_compiler import compiler

pytestmark = pytest.mark.slow

SOURCES = ("pyproject.toml", "README.md", "LICENSE")
SUFFIXES = {".py", ".typed", ".html", ".json", ".sql", ".cu", ".cuh", ".c", ".h", ".md"}


def done(*words: object, **options: object) -> str:
    """Return the output of a command that succeeds."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    command = [str(word) for word in words]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, **options)  # type: ignore[call-overload]
    assert result.returncode == 0, result.stdout + result.stderr
    return str(result.stdout)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a wheel from a copy of the checkout, so that no old build/ folder changes it."""
    copy = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        shutil.copy(ROOT / name, copy)
    for name in ("xverify", "strategies", "oracles"):
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    done(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", copy / "wheel", copy)
    (built,) = (copy / "wheel").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a fresh environment with the wheel. It has the dependencies of this one, not the checkout."""
    directory = tmp_path_factory.mktemp("environment")
    done(sys.executable, "-m", "venv", "--without-pip", directory)
    python = directory / "bin" / "python"
    done(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel)
    (packages,) = directory.glob("lib/python*/site-packages")
    # The paths of a .pth file come after the environment's own packages, and Python reads no .pth files there.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return directory


def test_a_wheel_has_one_top_level_package_with_every_file(wheel: Path) -> None:
    names = [name for name in zipfile.ZipFile(wheel).namelist() if not name.endswith("/")]
    packed = {name for name in names if ".dist-info/" not in name}
    assert {name.split("/")[0] for name in packed} == {"xverify"}
    folders = {
        "xverify": ROOT / "xverify",
        "xverify/strategies": ROOT / "strategies",
        "xverify/oracles": ROOT / "oracles",
    }
    expected = {
        f"{package}/{path.relative_to(folder).as_posix()}"
        for package, folder in folders.items()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix in SUFFIXES
    }
    assert packed == expected


def test_metadata_are_complete(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    names = [name for name in archive.namelist() if ".dist-info/" in name]
    (metadata,) = (name for name in names if name.endswith("/METADATA"))
    lines = archive.read(metadata).decode().splitlines()
    assert "License-Expression: Apache-2.0" in lines
    assert "License-File: LICENSE" in lines
    assert any(name.endswith("/LICENSE") for name in names)
    assert any(line.startswith("Keywords: ") for line in lines)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f"Classifier: Programming Language :: Python :: {version}" in lines, "a version that was not tested is named"


def test_an_installed_wheel_gates_the_examples(environment: Path, tmp_path: Path) -> None:
    examples = Path(shutil.copytree(ROOT / "examples", tmp_path / "examples"))
    python, xverify = environment / "bin" / "python", environment / "bin" / "xverify"
    location = done(python, "-c", "import xverify.oracles; print(xverify.oracles.__path__[0])", cwd=tmp_path).strip()
    assert Path(location).is_relative_to(environment)
    targets = {"examples/numpy_kernel.py:dequantize": "uint8"}
    if (command := compiler()) is not None:
        options = ["-O2", "-shared", "-fPIC", f"-I{location}/native", "-o", tmp_path / "c_kernel.so"]
        done(*command, *options, examples / "c_kernel.c", cwd=tmp_path)
        targets["./c_kernel.so:dequantize"] = "int8"
    narrow = ["--scale-dtypes", "float32", "--granularity", "per_tensor", "--walk-only"]
    for target, dtype in targets.items():
        output = done(
            xverify, "gate", "--kernel", target, "--x-dtypes", dtype, *narrow, "--html", "gate.html", cwd=tmp_path
        )
        assert f"PASS {target}" in output
    assert "<html" in (tmp_path / "gate.html").read_text()[:500]
    assert "acme/DequantizeLinear-1" in done(xverify, "contracts", "examples/vendor_edition.py", cwd=tmp_path)


@pytest.mark.parametrize("tool", [("uvx", "--from"), ("pipx", "run", "--spec")], ids=lambda words: words[0])
def test_a_tool_runs_a_gate_from_the_wheel(tool: tuple[str, ...], wheel: Path, tmp_path: Path) -> None:
    """It installs the dependencies too, from its cache or from the network."""
    if shutil.which(tool[0]) is None:
        pytest.skip(f"{tool[0]} is not installed")
    shutil.copy(ROOT / "examples" / "numpy_kernel.py", tmp_path)
    narrow = ["--x-dtypes", "uint8", "--scale-dtypes", "float32", "--granularity", "per_tensor", "--walk-only"]
    output = done(
        tool[0],
        *tool[1:-1],
        "--python",
        sys.executable,
        tool[-1],
        wheel,
        "xverify",
        "gate",
        "--kernel",
        "numpy_kernel.py:dequantize",
        *narrow,
        cwd=tmp_path,
    )
    assert "PASS numpy_kernel.py:dequantize" in output
