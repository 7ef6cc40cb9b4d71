"""The memory that a call takes: the growth of the peak of resident pages, which Linux records."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")

_HIGH_WATER_MARK = "5"
"""The value that resets VmHWM to the current resident size.

Source: proc(5), /proc/pid/clear_refs, since Linux 4.0.
"""

_THP_DISABLE = 41
"""prctl(2)'s PR_SET_THP_DISABLE, since Linux 3.15."""

_MMAP_THRESHOLD, _SMALLEST, _LARGEST = -3, 1 << 16, 31 << 20
"""mallopt(3)'s M_MMAP_THRESHOLD, its value while memory is counted, and that of `as_after_long_use`, in bytes."""


def peak_beyond(call: Callable[[], Any]) -> int | None:
    """The most bytes that become resident while the call runs; None where the platform does not report it.

    Linux counts in pages, and each thread may report some dozens of them late. Two settings make the count independent of what
    the process did before. glibc returns freed blocks of 64 KiB or more at once; otherwise it may put the next block at a new
    address. Huge pages are off; otherwise the first byte of one counts as 2 MiB.
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

    At first glibc gives blocks above a threshold back to the system at once, so that each call touches new pages. A freed block
    of up to 32 MiB raises the threshold to its size (mallopt(3), M_MMAP_THRESHOLD). Without this, the time of an implementation
    that allocates its results depends on the sizes that came before.
    """
    if sys.platform == "linux":
        bytes(_LARGEST)


def _field(name: str) -> int:
    for line in _STATUS.read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) << 10
    raise LookupError(name)


def _give_back() -> None:
    """Have the C library return freed memory; otherwise the next call reuses it without being counted."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
        if trim is not None:
            trim(0)


def _count_exactly(exactly: bool) -> None:
    """Switch exact counting on (freed blocks are returned at once, no huge pages) or off again."""
    if sys.platform == "linux":
        library = ctypes.CDLL(None)
        library.prctl(_THP_DISABLE, int(exactly), 0, 0, 0)
        option = getattr(library, "mallopt", None)  # glibc's
        if option is not None:
            option(_MMAP_THRESHOLD, _SMALLEST if exactly else _LARGEST)


def available() -> int | None:
    """Bytes of memory that are available on this machine; None where the platform does not report it."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    except (OSError, ValueError):
        pass
    return None
