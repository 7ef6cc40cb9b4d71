"""The identity of a proof: the code of the subject, the versions and the machine.

A run continues a certificate only if these are unchanged.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import xverify
from xverify import oracles
from xverify.core import machine
from xverify.oracles import installed_version
from xverify.oracles.bulk import PYTHON_KERNEL
from xverify.oracles.protocol import Oracle

NATIVE_KERNEL = "xverify.oracles.native_kernel"
IN_HOUSE = "xverify"

_PACKAGES = ("numpy", "ml_dtypes", "numba")
_CUPY = ("cupy-cuda12x", "cupy-cuda13x", "cupy-cuda11x", "cupy")
"""Names of CuPy's packages, one for each CUDA version."""


def subject(oracle: Oracle, files: Mapping[str, Path], earlier: Mapping[str, str] = {}) -> dict[str, Any]:
    """Describe the implementation, with a digest of its code.

    The digest covers the files of a Python kernel, the library of a native kernel or an execution provider, or our own
    kernels. It is "" for an implementation that its name and version identify.

    Args:
        oracle: The implementation.
        files: Files of a Python kernel, by name.
        earlier: Digests of files that it loaded before, by name.
    """
    named = files
    if oracle.module == NATIVE_KERNEL:
        named = _by_name([Path(oracle.arguments[0])])
    elif oracle.module != PYTHON_KERNEL:
        named = _by_name(
            _in_house(oracle) if oracle.distribution == IN_HOUSE else [Path(f) for f in [oracle.library] if f]
        )
    digests = {**(earlier or {}), **{name: _digest(file) for name, file in named.items()}}
    return {
        "name": oracle.name,
        "version": installed_version(oracle) or "",
        "role": oracle.role,
        "digest": _digest_of_all(digests) if digests else "",
        "sources": dict(sorted(digests.items())),
    }


def joined(first: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Describe one subject of which two runs loaded different files. Files of both must be equal."""
    sources = dict(sorted({**first["sources"], **other["sources"]}.items()))
    return {**first, "digest": _digest_of_all(sources) if sources else "", "sources": sources}


def _in_house(oracle: Oracle) -> list[Path]:
    kernels = Path(str(xverify.__file__)).parent / "kernels"
    adapter = Path(str(oracles.__file__)).parent / (oracle.module.rpartition(".")[2] + ".py")
    return [*kernels.rglob("*.py"), *kernels.rglob("*.cu"), *kernels.rglob("*.cuh"), adapter]


def _by_name(files: Sequence[Path]) -> dict[str, Path]:
    """Name each file by its path below the folder that contains all of them."""
    if not files:
        return {}
    root = Path(os.path.commonpath([file.resolve().parent for file in files]))
    return {file.resolve().relative_to(root).as_posix(): file for file in files}


def changed_files(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return the names of the files whose contents differ between two subjects.

    A file that only one of them has does not count: a kernel imports files when it needs them.
    """
    return [name for name, digest in old["sources"].items() if new["sources"].get(name, digest) != digest]


def _digest(file: Path) -> str:
    return "sha256:" + hashlib.sha256(file.read_bytes()).hexdigest()


def _digest_of_all(digests: Mapping[str, str]) -> str:
    """Return a digest of the names and contents of files."""
    return "sha256:" + hashlib.sha256("\n".join(f"{n}:{d}" for n, d in sorted(digests.items())).encode()).hexdigest()


def versions(worker: Mapping[str, Any], imported: Mapping[str, str]) -> dict[str, str]:
    """Return the versions of xverify and of everything that takes part in the arithmetic.

    Args:
        worker: Facts that the worker reported.
        imported: Versions of the packages that the kernel imported.
    """
    own = {"xverify": xverify.__version__, "python": str(worker["python"]), "numpy": str(worker["numpy"])}
    own["checked with"] = f"python {platform.python_version()}"
    cupy = machine.versions(_CUPY)
    installed = {name: version for name, version in cupy.items() if version != machine.MISSING}
    return {**imported, **machine.versions(_PACKAGES), **(installed or {_CUPY[0]: machine.MISSING}), **own}
