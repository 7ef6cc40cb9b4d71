"""The files that make up a user's Python kernel: its imported modules and loaded libraries."""

from __future__ import annotations

import os
import sys
import sysconfig
from typing import Any, Dict, FrozenSet, Iterator, Set, Tuple

ELSEWHERE = "elsewhere/"
"""The prefix of the name of a file outside the kernel's folder and outside installed packages."""

INSTALLED = ("site-packages", "dist-packages")


def imported() -> FrozenSet[str]:
    """The names of all modules that are imported now."""
    return frozenset(sys.modules)


def sources(kernel: str, before: FrozenSet[str]) -> Dict[str, Dict[str, str]]:
    """The kernel's own files that are loaded now, and the distributions that it imported.

    Args:
        kernel: The file or the module of the kernel.
        before: The names of the modules that were imported before the kernel.

    Returns:
        ``files``: paths by name. ``versions``: versions of distributions by name.
    """
    root = _root(kernel)
    files, packages = {}, set()
    for name, path in (*_modules(before), *(("", path) for path in _libraries())):
        if path.startswith(root) and not _is_installed(path[len(root) :]):
            files[path[len(root) :].replace(os.sep, "/") or os.path.basename(path)] = path
        elif _is_installed(path):
            packages.add(name.partition(".")[0])
        elif not _is_of_python(path):
            # Named after the module, whose name is unique: many files are called __init__.py.
            own = name.replace(".", "/") + os.path.splitext(path)[1] if name else os.path.basename(path)
            files[ELSEWHERE + own] = path
    return {"files": files, "versions": _versions(packages)}


def _root(kernel: str) -> str:
    """The folder of the kernel or its package, with a separator at the end.

    For a single installed module: its own file.
    """
    if kernel.endswith(".py"):
        return os.path.join(os.path.dirname(os.path.abspath(kernel)), "")
    top: Any = sys.modules[kernel.partition(".")[0]]
    if hasattr(top, "__path__"):
        return os.path.join(os.path.abspath(next(iter(top.__path__))), "")
    file = os.path.abspath(str(top.__file__))
    return file[: -len(os.path.basename(file))] if not _is_installed(file) else file


def _modules(before: FrozenSet[str]) -> Iterator[Tuple[str, str]]:
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and name not in before and name.partition(".")[0] not in ("oracles", "xverify"):
            yield name, os.path.abspath(str(file))


def _libraries() -> Iterator[str]:
    """The mapped shared libraries outside installed packages, on systems that list them."""
    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split(None, 5)[5].strip() for line in maps if line.count("/") > 1}
    except (OSError, IndexError):
        return
    for path in sorted(paths):
        if ".so" in os.path.basename(path) and os.path.isfile(path) and not _is_installed(path):
            yield path


def _is_installed(path: str) -> bool:
    return any(part in INSTALLED for part in path.split(os.sep))


def _is_of_python(path: str) -> bool:
    """True if a file belongs to Python or to the system."""
    paths = sysconfig.get_paths()
    folders = {paths["stdlib"], paths["platstdlib"], sys.prefix, sys.base_prefix}
    folders |= {os.path.realpath(folder) for folder in folders}
    return path.startswith(("/usr/", "/lib", *(os.path.join(folder, "") for folder in folders)))


def _versions(packages: Set[str]) -> Dict[str, str]:
    """The versions of the distributions that contain the packages, by distribution."""
    if not packages or sys.version_info < (3, 10):
        return {}
    from importlib import metadata

    distributions = metadata.packages_distributions()
    return {name: metadata.version(name) for package in packages for name in distributions.get(package, ())}
