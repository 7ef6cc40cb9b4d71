"""How many processes run the tests, what those of the CUDA kernels have in the place of CuPy, and an end of waiting."""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Iterator
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


@pytest.fixture
def no_endless_wait() -> Iterator[None]:
    """Threads that wait for each other end the process, and say where they wait."""
    faulthandler.dump_traceback_later(20, exit=True, file=sys.__stderr__)
    yield
    faulthandler.cancel_dump_traceback_later()
