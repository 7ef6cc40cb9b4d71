"""Compilation with Numba: for which processor, and what its cache on disk keeps."""

from __future__ import annotations

import os
import platform
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from kernel_arrays import SMALL_FLOATS, dtype_of

pytest.importorskip("numba")

from llvmlite import ir
from numba import njit, types
from numba.core import config, event
from numba.core.caching import FunctionCache

from xverify.kernels.casting import FLOAT16, FLOAT32
from xverify.kernels.compiled import build, decode, loops, vectors
from xverify.kernels.compiled.linear import signature
from xverify.kernels.compiled.memory import Flat, Packed, settle
from xverify.kernels.compiled.tiles import unpack

SIGNATURE = (Flat(types.uint8), Flat(types.uint8, written=True), types.int64)
FOLDER = Path(build.__file__).parent
NOT_COMPILED = {"__init__", "linear", "ranges"}


def unpacks(compiled: build.Compiled) -> bool:
    codes = np.zeros(4, np.uint8)
    compiled(np.array([0x21, 0xFE], np.uint8), codes, 2)
    return codes.tolist() == [1, 2, 14, 15]


def compilations(work: Callable[[], Any]) -> int:
    """Count Numba's compilations during a call."""
    with event.install_recorder("numba:compile") as recorder:
        work()
    return sum(each.is_start for _, each in recorder.buffer)


def test_compiled_code_is_cached_and_not_compiled_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))

    def first_call() -> None:
        assert unpacks(build.entry.__wrapped__(unpack, SIGNATURE))

    assert compilations(first_call) > 0
    kept = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.nb?")}
    assert len(kept) == 2
    assert compilations(first_call) == 0
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.nb?")} == kept


def test_code_of_other_sources_is_neither_read_nor_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A stale file with the name of a new one goes too."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    build.entry.__wrapped__(unpack, SIGNATURE)
    kept, folder = {file.name for file in tmp_path.rglob("*.nb?")}, next(tmp_path.rglob("*.nbc")).parent
    others = {"packed.other-1-1.py311.nbi", "packed.unpack-3.nbx.txt"}
    for name in others:
        (folder / name).touch()
    monkeypatch.setattr(build, "sources", lambda: "other sources")
    assert compilations(lambda: build.entry.__wrapped__(unpack, SIGNATURE)) > 0
    now = {file.name for file in folder.iterdir()}
    assert len(now) == len(kept | others)
    assert now & (kept | others) == others


def test_each_signature_has_files_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two processes that compile at the same time would otherwise number their files alike."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    packed = Packed(2), *SIGNATURE[1:]
    seen: list[set[str]] = []
    for given in (SIGNATURE, packed, (Packed(4), *SIGNATURE[1:])):
        build.entry.__wrapped__(unpack, given)
        seen.append({file.name for file in tmp_path.rglob("*.nb?")})
    assert [len(files) for files in seen] == [2, 4, 6]
    assert compilations(lambda: build.entry.__wrapped__(unpack, packed)) == 0


@pytest.mark.parametrize(("owner", "name"), [(build, "FunctionCache"), (FunctionCache, "save_overload")])
def test_code_that_cannot_be_cached_is_compiled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, owner: Any, name: str
) -> None:
    """There is no cache directory, or the disk is full."""

    def fails(*_: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(owner, name, fails)
    assert unpacks(build.entry.__wrapped__(unpack, SIGNATURE))
    assert not list(tmp_path.rglob("*.nbc"))


def test_every_compiled_source_file_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = sorted(file for file in FOLDER.glob("*.py") if file.stem not in NOT_COMPILED)
    assert len(files) > 10
    for file in files:
        shutil.copy(file, tmp_path)
    before = build.sources()
    monkeypatch.setattr(build, "__file__", str(tmp_path / "build.py"))
    assert build.sources.__wrapped__() == before
    for file in files:
        (tmp_path / file.name).write_bytes(file.read_bytes() + b"\n")
        assert build.sources.__wrapped__() != before
        shutil.copy(file, tmp_path)


def test_code_of_changed_sources_is_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    before = build.sources()
    build.entry(unpack, SIGNATURE)
    kept = build._kept(unpack, SIGNATURE)
    monkeypatch.setattr(build, "sources", lambda: "other sources")
    stale = build._kept(unpack, SIGNATURE)
    assert len(before) == 64
    assert kept._cache_file._load_index()
    assert not stale._cache_file._load_index()


def waits(began, told, seen):  # type: ignore[no-untyped-def]
    """Spin until ``told`` is set, or for some seconds."""
    began[0] = 1
    for _ in range(1 << 28):
        settle()
        if told[0] != 0:
            seen[0] = 1
            break


def test_other_threads_go_on_meanwhile() -> None:
    """This thread sees that the loop has begun, and the loop sees what this thread writes then."""
    compiled = build._entry(waits, (Flat(types.uint8, written=True),) * 3, keep=False)
    began, told, seen = (np.zeros(1, np.uint8) for _ in range(3))
    thread = Thread(target=compiled, args=(began, told, seen))
    thread.start()
    while not began[0]:
        time.sleep(0)
    told[0] = 1
    thread.join()
    assert seen[0] == 1


def divides(numbers):  # type: ignore[no-untyped-def]
    numbers[0] = numbers[1] / numbers[2]


def test_to_divide_by_zero_is_no_error() -> None:
    numbers = np.array([0, 1, 0], np.float32)
    build._entry(divides, (Flat(types.float32, written=True),), keep=False)(numbers)
    assert numbers[0] == np.inf


def test_processor_features_are_those_that_linux_lists() -> None:
    """Compare with the processor flags that Linux lists."""
    if {"NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"} & os.environ.keys():
        pytest.skip("this processor is taken for another")
    file = Path("/proc/cpuinfo")
    flags = (
        next((line for line in file.read_text().splitlines() if line.startswith("flags")), "") if file.exists() else ""
    )
    if not flags:
        pytest.skip("this machine does not list what its processor has")
    for feature, flag in (
        ("f16c", "f16c"),
        ("avx512f", "avx512f"),
        ("avx512bw", "avx512bw"),
        ("avx512bf16", "avx512_bf16"),
    ):
        assert vectors.has(feature) == (flag in flags.split()), feature
    assert vectors.has_half_instruction() == vectors.has("f16c")


@pytest.mark.parametrize(
    ("machine", "feature", "has"), [("arm64", "", True), ("x86_64", "f16c", True), ("x86_64", "", False)]
)
def test_which_processors_convert_float16(
    monkeypatch: pytest.MonkeyPatch, machine: str, feature: str, has: bool
) -> None:
    monkeypatch.setattr(vectors.platform, "machine", lambda: machine)
    monkeypatch.setattr(vectors, "has", lambda asked: asked == feature)
    assert vectors.has_half_instruction() is has


@pytest.mark.parametrize(("machine", "is_one"), [("x86_64", True), ("AMD64", True), ("aarch64", False)])
def test_which_machines_have_x86_processors(monkeypatch: pytest.MonkeyPatch, machine: str, is_one: bool) -> None:
    monkeypatch.setattr(vectors.platform, "machine", lambda: machine)
    assert vectors.is_x86() is is_one


def test_the_widest_register() -> None:
    for count, feature in ((16, "avx512f"), (8, "avx512f"), (16, "none")):
        value = SimpleNamespace(type=ir.VectorType(ir.FloatType(), count))
        assert vectors.is_register(value, feature) == (count == 16 and vectors.has(feature))


@pytest.mark.parametrize("converts", [False, True])
def test_which_floats_become_float16_first(monkeypatch: pytest.MonkeyPatch, converts: bool) -> None:
    """A type that has numbers where float16 has infinities does not."""
    monkeypatch.setattr(decode, "has_half_instruction", lambda: converts)
    for name in SMALL_FLOATS:
        made = decode.coding.__wrapped__(dtype_of(name))
        by_half = converts and name != "float8_e5m2fnuz"
        assert type(made.fields) is (decode.Float16Coding if by_half else decode.FloatCoding), name


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="the instructions of other processors have other names"
)
def test_stores_past_the_caches_are_nontemporal_instructions() -> None:
    """LLVM may replace such stores, and does for truncated integers.

    A fence or an equivalent instruction follows them. Loops prefetch codes.
    """
    codes = decode.coding(np.dtype(np.uint8))
    of_one = Flat(types.float32, 0), Flat(types.uint8, 0)
    compiled = njit(nogil=True, error_model="numpy")(loops.of_one)
    for out in (FLOAT32, FLOAT16):
        given = signature(codes.codes, out, codes.fields_type, types.float32, *of_one, None)
        compiled.compile(given)
        instructions = compiled.inspect_asm(given)
        assert re.search(r"\bv?movnt\w+\s+%[yz]mm", instructions), "of a whole vector"
        assert re.search(r"\bv?movnt\w+\s+%xmm", instructions), "of parts, where it is not aligned"
        assert re.search(r"\b[ms]fence\b|\block[\s;]+or", instructions)
        assert re.search(r"\bprefetcht0\s", instructions)
