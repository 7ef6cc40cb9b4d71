"""How much memory a call takes: the high-water mark of this process's resident pages, which Linux keeps and resets."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")

_HIGH_WATER_MARK = "5"
"""What resets VmHWM to what is resident now: proc(5), /proc/pid/clear_refs, since Linux 4.0."""


def peak_beyond(call: Callable[[], Any]) -> int | None:
    """Bytes that become resident while the call runs, at most; None where the platform does not tell. The kernel counts in
    pages, and lets each thread run some dozens of them late."""
    gc.collect()
    _give_back()
    try:
        _RESET.write_text(_HIGH_WATER_MARK, encoding="ascii")
        before = _field("VmHWM")
        call()
        return max(0, _field("VmHWM") - before)
    except (OSError, LookupError, ValueError):
        return None


def as_after_long_use() -> None:
    """Have glibc keep freed memory as it does in a process that has run for a while.

    It gives blocks from a threshold on back to the system at once, and has each call touch new pages; a freed block of up to
    32 MiB raises the threshold to its size (mallopt(3), M_MMAP_THRESHOLD). Whoever allocates results would else be timed by
    the sizes that happened to come before.
    """
    if sys.platform == "linux":
        bytes(31 << 20)


def _field(name: str) -> int:
    for line in _STATUS.read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) << 10
    raise LookupError(name)


def _give_back() -> None:
    """Have the C library return what was freed, or the next call would take it unseen."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
        if trim is not None:
            trim(0)


def available() -> int | None:
    """Bytes of memory that this machine can still give; None where that is not told."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    except (OSError, ValueError):
        pass
    return None
