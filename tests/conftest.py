"""Fixtures: CuPy or a fake, guarded memory, lowered thresholds. Skips where TensorFlow is missing."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import sys
from collections.abc import Callable, Generator, Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xverify.core.errors import DocumentError


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Half as many again as there are cores: tests also wait for processes that start, hang or die."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + (cores + 1) // 2


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, Any, Any]:
    """Skip a test that needs the text of a TensorFlow that is not installed."""
    try:
        return (yield)
    except DocumentError as error:
        if find_spec("tensorflow") is None and str(error).startswith("tensorflow is not installed"):
            pytest.skip(str(error))
        raise


@pytest.fixture(scope="session", autouse=True)
def small_steps() -> Iterator[None]:
    """Make gates in this process send small calls in place of the largest ones, which cost most.

    `tests/gate/test_largest.py` tests the real sizes, and `tests/gate/test_gate_flawed.py` gates one kernel with them.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("xverify.gate.largest.STEPS", tuple(8192 * step + 27 for step in (1, 2, 4)))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_kept_searches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let sweeps in this process keep no searches, since some tests change the arithmetic.

    Sweeps in other processes keep them in a folder of this test run.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XVERIFY_CACHE", str(tmp_path_factory.mktemp("cache")))
        # The package `xverify.cli` names the command "sweep", too.
        patch.setattr(import_module("xverify.cli.sweep"), "cache_folder", lambda: None)
        yield


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """The fake CuPy. Blocks have 3 threads, so that small tensors take several blocks."""
    from cuda_on_cpu import FakeCuPy, built

    fake = FakeCuPy(built(), threads=3)
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path))
    _forget_kernels()
    yield fake
    _forget_kernels()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests of `any_cupy` with the fake CuPy, and on a card with the real one too.

    The id of a test says with which.
    """
    if "any_cupy" in metafunc.fixturenames:
        modules = ["fake-cupy", *(["real-cupy"] if _has_card() else [])]
        metafunc.parametrize("any_cupy", modules, indirect=True)


@pytest.fixture
def any_cupy(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The fake CuPy or the real one, by the id of the test."""
    if request.param == "fake-cupy":
        yield request.getfixturevalue("cupy")
        return
    import cupy

    _forget_kernels()
    yield cupy
    cupy.cuda.Device().synchronize()  # A fault of a kernel shows here at the latest.
    _forget_kernels()


@cache
def _has_card() -> bool:
    """True if the real CuPy is installed and finds a device."""
    if find_spec("cupy") is None:
        return False
    from xverify.kernels.cuda import require_device

    try:
        require_device()
    except (ImportError, RuntimeError):
        return False
    return True


def _forget_kernels() -> None:
    """Forget what xverify keeps of another CuPy."""
    from xverify.kernels.cuda import arrays, compiling, launch, linear, ranges, repeated

    plans = (linear.linear_plan, linear.dynamic_plan, ranges.range_plan)
    for kept in (arrays.with_device, compiling.compiled, launch.card, launch.loaded, repeated.accepted_calls, *plans):
        kept.cache_clear()


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
