"""The file for a bug report after an exception in xverify itself."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shlex
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

OTHERS = ("numba", "torch", "jax", "triton", "openvino", "ai-edge-litert", "pytest")
"""Optional packages whose versions the file lists if they are installed."""


def sentence(error: BaseException, options: Mapping[str, Any]) -> str:
    """Write the file, and return a sentence that names it.

    The file goes into the folder of runs, else into the current folder, else into the folder for temporary files. Where none
    can be written, the sentence contains the traceback.

    Args:
        error: The exception.
        options: The options of the command, by name.
    """
    text = description(error, options)
    first_line = (str(error).strip() or "no message").splitlines()[0]
    failure = f"xverify itself failed ({type(error).__name__}: {first_line}), so nothing is decided"
    path = _written(text, options)
    if path is None:
        return f"{failure}. Report this text as a bug:\n{text}"
    return f"{failure}; attach this file to a bug report: {path}"


def description(error: BaseException, options: Mapping[str, Any]) -> str:
    """The text of the file: command line, seed, versions and traceback."""
    lines = [
        "A bug of xverify. This file holds the command line, the versions of packages and the traceback, and nothing else.",
        "",
        f"command: {shlex.join(['xverify', *sys.argv[1:]])}",
        f"seed: {options.get('seed', 'none')}",
        f"python: {platform.python_version()} on {platform.system()} {platform.machine()}",
        *(f"{name}: {version}" for name, version in _versions()),
        "",
        *traceback.format_exception(error),
    ]
    return "\n".join(line.rstrip("\n") for line in lines) + "\n"


def _versions() -> Iterator[tuple[str, str]]:
    names = ["xverify"]
    try:
        # A requirement without "extra ==" belongs to every installation.
        needed = [line for line in importlib.metadata.requires("xverify") or () if "extra ==" not in line]
        names += [match[0] for line in needed if (match := re.match(r"[\w.-]+", line))]
    except importlib.metadata.PackageNotFoundError:
        pass
    for name in (*names, *OTHERS):
        try:
            yield name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            if name not in OTHERS:
                yield name, "not installed"


def _written(text: str, options: Mapping[str, Any]) -> Path | None:
    folders = [Path(options.get("runs") or Path("reports", "runs")), Path(), Path(tempfile.gettempdir())]
    name = f"xverify-bug-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    for folder in folders:
        try:
            path = folder.resolve() / name
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except OSError:
            continue
        return path
    return None
