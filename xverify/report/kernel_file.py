"""The file and the line of the kernel under test, for formats that point into the user's repository."""

from __future__ import annotations

import os
import re
from pathlib import Path


def place(target: str) -> tuple[str, int]:
    """Return the file and the line of a kernel that a Python file defines.

    Args:
        target: The kernel as the user named it.

    Returns:
        The path as the user typed it, or "" for a module, a library or an in-house kernel. The line number from 1, or 0.
    """
    file, _, name = target.rpartition(":")
    if not file.endswith(".py"):
        return "", 0
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return file, 0
    match = re.search(rf"^(?:async )?def {re.escape(name)}\b|^{re.escape(name)}\b", text, re.MULTILINE)
    return file, text.count("\n", 0, match.start()) + 1 if match else 0


def in_repository(file: str) -> str:
    """Return a path relative to the root of its repository, with forward slashes.

    The root is the nearest folder above that has a ``.git``. A file outside every repository is relative to the current
    folder, if it lies there.
    """
    path = Path(os.path.abspath(file))
    roots = [folder for folder in path.parents if (folder / ".git").exists()]
    root = roots[0] if roots else Path.cwd()
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()
