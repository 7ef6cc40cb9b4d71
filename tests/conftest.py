"""How many processes run the tests, and what those of the CUDA kernels have in the place of CuPy."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest


def pytest_xdist_auto_num_workers() -> int:
    """Half as many again as there are cores: much of the time is spent waiting, for processes that start, hang or die."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + (cores + 1) // 2


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The CuPy that the package imports, with blocks of 3 threads, so that small tensors take several strides."""
    from cuda_on_cpu import FakeCuPy, built

    from xverify.kernels.cuda.launch import compiled

    fake = FakeCuPy(built(), threads=3)
    monkeypatch.setitem(sys.modules, "cupy", fake)
    compiled.cache_clear()
    return fake
