"""How many processes run the tests."""

from __future__ import annotations

import os


def pytest_xdist_auto_num_workers() -> int:
    """Half as many again as there are cores: much of the time is spent waiting, for processes that start, hang or die."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + (cores + 1) // 2
