"""The floating-point environment: flushing of subnormals stops, and starts again where it should."""

from __future__ import annotations

import platform
import subprocess
import sys
import threading

import numpy as np
import pytest
from flushing_library import SOURCE
from native_compiler import compiled

from xverify.core import fenv

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64", "aarch64", "arm64") or sys.platform not in ("linux", "darwin"),
    reason="the register that flushes is not known here",
)


def flushes() -> bool:
    """True if half the smallest normal float32 becomes zero here."""
    return bool(np.float32(2**-126) * np.float32(0.5) == 0)


@pytest.fixture(scope="module")
def native(tmp_path_factory):
    import ctypes

    directory = tmp_path_factory.mktemp("fenv")
    source = directory / "flush.c"
    source.write_text(SOURCE, encoding="utf-8")
    library = ctypes.CDLL(str(compiled(source, directory)))
    library.flush_subnormals.restype = None
    library.control.restype = ctypes.c_ulong
    return library


@pytest.fixture
def flushing(native):
    """Flush subnormals during a test."""
    control = native.control()
    assert not flushes()
    before = fenv.current()
    native.flush_subnormals()
    assert flushes()
    yield native
    fenv.enter(before)
    assert native.control() == control


def test_the_environment_is_available_on_this_machine():
    assert fenv.available()


def test_flushing_that_a_call_turns_on_is_off_after_it(native):
    with fenv.preserved():
        native.flush_subnormals()
        assert flushes()
    assert not flushes()


def test_flushing_is_off_after_an_exception(native):
    def kernel():
        native.flush_subnormals()
        raise ValueError

    with pytest.raises(ValueError), fenv.preserved():  # noqa: PT011
        kernel()
    assert not flushes()


def test_the_standard_environment_keeps_subnormals_and_is_restored(flushing):
    with fenv.standard():
        assert not flushes()
    assert flushes()


def test_two_environments_can_be_exchanged(flushing):
    theirs = fenv.current()
    with fenv.standard():
        ours = fenv.current()
        for _ in range(2):
            fenv.enter(theirs)
            assert flushes()
            fenv.enter(ours)
            assert not flushes()


def test_other_threads_keep_their_own(native):
    began, seen = threading.Event(), []

    def look():
        began.wait(10)
        seen.append(flushes())

    other = threading.Thread(target=look)
    other.start()
    with fenv.preserved():
        native.flush_subnormals()
        began.set()
        other.join()
    assert seen == [False]


def test_nothing_happens_without_access_to_the_environment(monkeypatch):
    monkeypatch.setattr(fenv, "_library", lambda: None)
    assert not fenv.available()
    with fenv.preserved(), fenv.standard():
        fenv.enter(fenv.current())
    assert not flushes()


def test_importing_it_loads_no_library():
    script = "import sys; from xverify.core import fenv; sys.exit(fenv._library.cache_info().currsize or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], timeout=60).returncode == 0
