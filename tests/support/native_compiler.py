"""A C compiler for tests: the machine's, or the one that PyPI's ziglang carries."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from folders import ROOT

NATIVE = ROOT / "oracles" / "native"
"""The folders of the header for kernels and of the example."""


def ziglang() -> list[str] | None:
    """Return the command of ziglang's C compiler, if it is installed."""
    return [sys.executable, "-m", "ziglang", "cc"] if importlib.util.find_spec("ziglang") else None


def compiler() -> list[str] | None:
    """Return the command of the first C compiler that this machine has."""
    found = (shutil.which(name) for name in ("cc", "gcc", "clang"))
    return next(([path] for path in found if path), None) or ziglang()


def compiled(source: Path, directory: Path, flags: Sequence[str] = (), command: Sequence[str] | None = None) -> Path:
    """Compile a C source into a shared library in ``directory``. Skip the test without a compiler.

    Raises:
        AssertionError: The compiler printed an error or a warning.
    """
    command = command or compiler()
    if command is None:
        pytest.skip("there is no C compiler: pip install ziglang")
    library = directory.resolve() / (source.stem + ".so")
    warnings = ("-Wall", "-Wextra", "-Werror")
    arguments = [
        "-std=c11",
        "-O2",
        "-shared",
        "-fPIC",
        *warnings,
        f"-I{NATIVE}",
        *flags,
        "-o",
        library,
        source.resolve(),
    ]
    result = subprocess.run([*command, *arguments], capture_output=True, text=True, cwd=directory)
    assert result.returncode == 0, result.stderr
    return library
