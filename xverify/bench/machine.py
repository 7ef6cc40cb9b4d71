"""Versions and a description of the machine, for people who read a bench elsewhere."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from xverify.core import machine as core

_DISTRIBUTIONS = ("numpy", "ml_dtypes", "numba", "llvmlite", "matplotlib")
"""Distributions whose versions are recorded in addition to those of the peers."""

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def versions() -> dict[str, str]:
    """Versions of xverify, Python, and the packages that compile kernels and loops."""
    from xverify import __version__

    return {"xverify": __version__, "python": platform.python_version(), **core.versions(_DISTRIBUTIONS)}


def machine() -> dict[str, Any]:
    """The processor, its usable cores, and the bytes of last-level cache and memory.

    A value is None where the platform does not report it.
    """
    return {
        **core.machine(),
        "cores": usable_cores(),
        "last_level_cache": _last_level_cache(),
        "memory": _memory(),
    }


def usable_cores() -> int:
    """The number of cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _last_level_cache() -> int | None:
    try:
        levels = [
            (int((entry / "level").read_text()), (entry / "size").read_text()) for entry in _CACHES.glob("index*")
        ]
        size = max(levels)[1].strip()
        return int(size.rstrip("KMG")) * {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[size[-1]]
    except (OSError, ValueError, KeyError):
        return None


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None
