"""What a certificate is of: whose code, at which version, on which machine. With another of these it is another proof."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import oracles
import xverify
from oracles import installed_version
from oracles.in_bulk import PYTHON_KERNEL
from oracles.protocol import Oracle
from xverify.core import machine

NATIVE_KERNEL = "oracles.native_kernel"
IN_HOUSE = "xverify"

_PACKAGES = ("numpy", "ml_dtypes", "numba")


def subject(oracle: Oracle, sources: Iterable[Path]) -> dict[str, Any]:
    """The implementation, with a digest of its code: of the files of a user's kernel (``sources`` for one in Python, its library
    for a native one), of our own kernels; "" for an implementation that its name and version identify."""
    files: list[Path] = []
    if oracle.module == PYTHON_KERNEL:
        files = list(sources)
    elif oracle.module == NATIVE_KERNEL:
        files = [Path(oracle.arguments[0])]
    elif oracle.distribution == IN_HOUSE:
        files = _in_house(oracle)
    named = _by_name(files)
    return {
        "name": oracle.name,
        "version": installed_version(oracle) or "",
        "role": oracle.role,
        "digest": _digest(named) if named else "",
        "sources": sorted(named),
    }


def _in_house(oracle: Oracle) -> list[Path]:
    kernels = Path(str(xverify.__file__)).parent / "kernels"
    adapter = Path(str(oracles.__file__)).parent / (oracle.module.rpartition(".")[2] + ".py")
    return [*kernels.rglob("*.py"), adapter]


def _by_name(files: Sequence[Path]) -> dict[str, Path]:
    """The files by their names below the folder that holds them all, wherever that lies."""
    if not files:
        return {}
    root = Path(os.path.commonpath([file.resolve().parent for file in files]))
    return {file.resolve().relative_to(root).as_posix(): file for file in files}


def _digest(files: Mapping[str, Path]) -> str:
    """Of the files' names and contents."""
    parts = sorted(f"{name}:{hashlib.sha256(file.read_bytes()).hexdigest()}" for name, file in files.items())
    return "sha256:" + hashlib.sha256("\n".join(parts).encode()).hexdigest()


def versions(worker: Mapping[str, Any]) -> dict[str, str]:
    """Of ourselves and of what takes part in the arithmetic; worker: what the worker said of itself."""
    found = {"xverify": xverify.__version__, "python": str(worker["python"]), "numpy": str(worker["numpy"])}
    found["checked with"] = f"python {platform.python_version()}"
    return {**machine.versions(_PACKAGES), **found}
