"""Fixtures: a stand-in for CuPy, guarded memory, lowered thresholds; and the number of test processes."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest


def pytest_xdist_auto_num_workers() -> int:
    """Half as many again as there are cores: tests also wait for processes that start, hang or die."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + (cores + 1) // 2


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """A stand-in for CuPy. Blocks have 3 threads, so that small tensors take several blocks."""
    from cuda_on_cpu import FakeCuPy, built

    from xverify.kernels.cuda import arrays, compiling, launch, linear, ranges, repeated

    def forget() -> None:
        plans = (linear._linear_plan, linear._dynamic_plan, ranges._plan)
        for kept in (arrays.with_device, compiling.compiled, launch.card, launch.loaded, *plans):
            kept.cache_clear()
        repeated._ACCEPTED.clear()

    fake = FakeCuPy(built(), threads=3)
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path))
    forget()
    yield fake
    forget()


@pytest.fixture
def no_endless_wait() -> Iterator[None]:
    """End the process with a traceback after 20 seconds, where threads may wait for each other."""
    faulthandler.dump_traceback_later(20, exit=True, file=sys.__stderr__)
    yield
    faulthandler.cancel_dump_traceback_later()


Array = np.ndarray[Any, Any]
Place = Callable[[Array, bool], Array]


@pytest.fixture
def beside_a_page() -> Place:
    """A function that copies an array to where a protected page begins behind it or ends before it."""
    from xverify.oracles.guarded_memory import PAGE, Arena

    kept: list[Arena] = []

    def placed(array: Array, is_behind: bool) -> Array:
        kept.append(Arena(-(-max(array.nbytes, 1) // PAGE) * PAGE, 0, canaries=False))
        kept[-1].lend(array.nbytes, is_behind)
        kept[-1].write(array.tobytes())
        memory = (ctypes.c_uint8 * array.nbytes).from_address(kept[-1].address)
        return np.frombuffer(memory, np.uint8).view(array.dtype).reshape(array.shape)

    return placed


@pytest.fixture(params=[False, True], ids=["small", "large"])
def treated(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run with the real thresholds, and with thresholds so low that small tensors take every path.

    These tensors are split, shared by threads and stored past the caches.
    """
    pytest.importorskip("numba")
    from xverify.kernels.checks import linear_plan
    from xverify.kernels.compiled import layout, linear, tiles
    from xverify.kernels.packed import packed_plan

    planners = (linear_plan, packed_plan)
    if request.param:
        for module in (tiles, linear):
            monkeypatch.setattr(module, "THREADS_FROM", 1000)
        for module in (tiles, linear):
            monkeypatch.setattr(module, "PIECE", 1500)
        monkeypatch.setattr(tiles, "LARGE_PIECE", 1700)
        monkeypatch.setattr(tiles, "SHARED", 2600)
        for module in (linear, layout):
            monkeypatch.setattr(module, "BLOCK", 60)
        monkeypatch.setattr(tiles, "leaves_caches", lambda read, written: written >= 4000)
        for planner in planners:
            planner.cache_clear()
    yield
    for planner in planners:
        planner.cache_clear()
