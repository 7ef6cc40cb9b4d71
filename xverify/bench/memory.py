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

_THP_DISABLE = 41
"""prctl(2)'s PR_SET_THP_DISABLE, since Linux 3.15."""

_MMAP_THRESHOLD, _SMALLEST, _LARGEST = -3, 1 << 16, 31 << 20
"""mallopt(3)'s M_MMAP_THRESHOLD, its value while memory is counted, and that of `as_after_long_use`, in bytes."""


def peak_beyond(call: Callable[[], Any]) -> int | None:
    """Bytes that become resident while the call runs, at most; None where the platform does not tell. Linux counts in
    pages, and lets each thread run some dozens of them late.

    The most that there is at once is counted, and not what depends on the process's past: blocks of 64 KiB or more that are
    freed are returned before the next is taken, since glibc may else put that somewhere new; and pages are small ones, since
    2 MiB would count for the first byte of a huge one.
    """
    gc.collect()
    _give_back()
    _count_exactly(True)
    try:
        _RESET.write_text(_HIGH_WATER_MARK, encoding="ascii")
        before = _field("VmHWM")
        call()
        return max(0, _field("VmHWM") - before)
    except (OSError, LookupError, ValueError):
        return None
    finally:
        _count_exactly(False)


def as_after_long_use() -> None:
    """Have glibc keep freed memory as it does in a process that has run for a while.

    It gives blocks from a threshold on back to the system at once, and has each call touch new pages; a freed block of up to
    32 MiB raises the threshold to its size (mallopt(3), M_MMAP_THRESHOLD). Whoever allocates results would else be timed by
    the sizes that happened to come before.
    """
    if sys.platform == "linux":
        bytes(_LARGEST)


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


def _count_exactly(exactly: bool) -> None:
    """Have glibc return freed blocks to the system at once, and Linux make no huge pages; or as before."""
    if sys.platform == "linux":
        library = ctypes.CDLL(None)
        library.prctl(_THP_DISABLE, int(exactly), 0, 0, 0)
        option = getattr(library, "mallopt", None)  # glibc's
        if option is not None:
            option(_MMAP_THRESHOLD, _SMALLEST if exactly else _LARGEST)


def available() -> int | None:
    """Bytes of memory that this machine can still give; None where that is not told."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    except (OSError, ValueError):
        pass
    return None
