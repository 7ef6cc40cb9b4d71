"""A worker that dies, hangs or prints garbage loses its own call and no other."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from doubled_calls import FAKE, HERE, is_double, request

from xverify.core.call import Outcome, decode_call, encode_call
from xverify.core.errors import WorkerFailedError
from xverify.oracles.protocol import Oracle
from xverify.workers.child import FILE_LIMIT, read_journal, unwrap, wrap
from xverify.workers.process import Limits
from xverify.workers.worker import STARTS, Worker, wait_any

Start = Callable[..., Worker]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    workers: list[Worker] = []

    def started(oracle: Oracle = FAKE, call_timeout: float = 5.0, start_timeout: float = 30.0) -> Worker:
        worker = Worker(oracle, tmp_path, limits=Limits(call_timeout, start_timeout))
        workers.append(worker)
        worker.start()
        return worker

    yield started
    for worker in workers:
        worker.stop()
    assert not list(tmp_path.iterdir())


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_batches_are_answered_in_order(start: Start) -> None:
    worker = start()
    for batch in range(6):
        worker.submit([request(10 * batch + i) for i in range(5)])
    worker.submit([])
    assert worker.pending == 7
    for batch in range(6):
        outcomes = worker.collect(30)
        assert all(is_double(outcome, 10 * batch + i) for i, outcome in enumerate(outcomes))
    assert worker.collect() == []
    assert worker.pending == 0
    assert worker.calls == 30
    assert 0 < worker.seconds < 5
    assert worker.versions["version"] == np.__version__
    assert worker.versions["pid"] != os.getpid()


@pytest.mark.parametrize(
    ("do", "kind", "words"),
    [
        ("abort", "crash", "SIGABRT"),
        ("segfault", "crash", "SIGSEGV"),
        ("exit", "crash", "status 0"),
        ("hang", "hang", "fake_oracles.py"),
        ("hang with the lock", "hang", "fake_oracles.py"),
    ],
)
def test_only_the_call_under_way_is_lost(start: Start, do: str, kind: str, words: str) -> None:
    worker = start(call_timeout=0.5)
    worker.submit([request(i, do if i == 7 else "") for i in range(20)])
    worker.submit([request(100)])
    outcomes = worker.collect(30)
    assert [o.kind for o in outcomes] == [kind if i == 7 else "tensor" for i in range(20)]
    assert all(is_double(o, i) for i, o in enumerate(outcomes) if i != 7)
    assert words in outcomes[7].message
    assert is_double(worker.collect(30)[0], 100)
    assert worker.restarts == 1


def test_every_call_of_a_batch_may_crash(start: Start) -> None:
    worker = start()
    worker.submit([request(i, "abort" if i % 2 else "") for i in range(8)])
    assert [o.kind for o in worker.collect(30)] == ["tensor", "crash"] * 4
    assert worker.restarts == 4


@pytest.mark.parametrize("do", ["", "slow"])
def test_only_what_comes_after_a_death_is_spared(tmp_path: Path, do: str) -> None:
    """The answers to earlier calls may be sent before the death or not."""
    worker = Worker(FAKE, tmp_path, likeness=lambda blob: decode_call(blob).data.shape)
    worker.start()
    try:
        worker.submit([request(i, "abort" if i == 5 else do, size=2 if i == 7 else 3) for i in range(9)])
        worker.submit([request(9), request(10, size=2)])
        first, second = worker.collect(30), worker.collect(30)
    finally:
        worker.stop()
    assert [o.kind for o in first] == [*["tensor"] * 5, "crash", "spared", "tensor", "spared"]
    assert [o.kind for o in second] == ["spared", "tensor"]
    assert worker.restarts == 1


def test_a_call_in_a_graph_is_spared_after_the_death_of_one_without(tmp_path: Path) -> None:
    def within(around: tuple[str, ...], value: int, do: str = "") -> tuple[bytes, str]:
        return encode_call(replace(decode_call(request(value, do)[0]), around=around)), ""

    worker = Worker(FAKE, tmp_path, likeness=lambda blob: decode_call(blob).around)
    worker.start()
    try:
        worker.submit([within(("x>move",), 1), within((), 2, "abort"), within(("x>move",), 3)])
        assert [o.kind for o in worker.collect(30)] == ["tensor", "crash", "spared"]
        worker.submit([within(("x>move",), 4), within((), 5)])
        assert [o.kind for o in worker.collect(30)] == ["spared", "spared"]
    finally:
        worker.stop()


def test_noise_and_interrupts_do_not_disturb(start: Start) -> None:
    worker = start()
    deeds = ["print", "garbage", "flood", "interrupt", ""] * 3
    worker.submit([request(i, do) for i, do in enumerate(deeds)])
    assert all(is_double(outcome, i) for i, outcome in enumerate(worker.collect(30)))
    assert worker.restarts == 0


def test_a_flood_can_not_fill_the_disk(start: Start) -> None:
    outcome = start().ask(*request(0, "limit"))
    assert outcome.tensor is not None
    assert int(outcome.tensor.codes) == FILE_LIMIT


def test_refusals_and_notes(start: Start) -> None:
    worker = start()
    worker.submit([request(1, do) for do in ("refuse", "unsupported", "write", "alias")])
    refused, unsupported, written, aliased = worker.collect(30)
    assert (refused.kind, refused.error, refused.message) == ("rejected", "ValueError", "refused on purpose")
    assert (unsupported.kind, unsupported.error) == ("unsupported", "NotImplementedError")
    assert written.notes == ("input-written",)
    assert is_double(written, 1)
    assert aliased.notes == ("output-aliases-input",)


def test_large_tensors_go_through_files(start: Start, tmp_path: Path) -> None:
    worker = start()
    worker.submit([request(i, size=1 << 20) for i in range(4)])
    assert all(is_double(outcome, i, 1 << 20) for i, outcome in enumerate(worker.collect(30)))
    assert sorted(p.name for p in next(tmp_path.iterdir()).iterdir()) == ["home", "journal", "stderr"]


def test_answers_come_before_the_batch_ends(start: Start) -> None:
    worker = start()
    assert is_double(worker.ask(*request(1)), 1)
    worker.submit([request(i, "slow") for i in range(8)])
    with pytest.raises(TimeoutError):
        worker.collect(0.25)
    assert 1 < worker.calls < 9
    assert len(worker.collect(30)) == 8


def test_one_thread_waits_for_several(start: Start) -> None:
    workers = [start() for _ in range(3)]
    for worker in workers:
        worker.submit([request(2)])
    waiting = set(workers)
    while waiting:
        for worker in wait_any(list(waiting), 30):
            assert is_double(worker.collect(0)[0], 2)
            waiting.remove(worker)


def test_a_framework_that_is_not_there(start: Start) -> None:
    worker = start(replace(FAKE, load="load_broken"))
    worker.submit([request(1)])
    with pytest.raises(WorkerFailedError, match="ImportError: no such framework"):
        worker.collect(30)
    assert worker.restarts == 0
    worker = start(replace(FAKE, module="no_such_module"))
    with pytest.raises(WorkerFailedError, match="no_such_module"):
        worker.ask(*request(1))


def test_a_worker_that_can_not_start_is_given_up(start: Start) -> None:
    worker = start(replace(FAKE, load="load_dying"))
    with pytest.raises(WorkerFailedError, match="SIGABRT"):
        worker.ask(*request(1))
    assert worker.restarts == STARTS - 1
    worker = start(replace(FAKE, load="load_hanging"), start_timeout=0.5)
    with pytest.raises(WorkerFailedError, match=r"not ready after 0\.5 s"):
        worker.ask(*request(1))


def test_a_worker_that_was_given_up_answers_every_question_with_the_reason(start: Start) -> None:
    worker = start()
    worker.submit([request(1)])
    assert is_double(worker.collect(30)[0], 1)
    for _ in range(3):
        worker.submit([request(2, "hang")])
    worker.stop()
    assert worker.done()
    with pytest.raises(WorkerFailedError, match="fake was stopped"):
        worker.ask(*request(3))  # while batches are pending
    worker.submit([request(4)])
    worker.abandon()
    worker.renew()
    for _ in range(6):  # more often than there are batches
        with pytest.raises(WorkerFailedError, match="fake was stopped"):
            worker.collect()
    assert worker.pending == 0


def test_a_worker_whose_disk_is_full_is_given_up(start: Start, tmp_path: Path) -> None:
    worker = start()
    while not worker.ready:
        time.sleep(0.01)
    (directory,) = tmp_path.iterdir()
    (directory / "journal").symlink_to("/dev/full")
    with pytest.raises(WorkerFailedError, match="its files cannot be used: No space left on device"):
        worker.ask(*request(1))
    assert worker.restarts == 0


@pytest.mark.parametrize("size", [3, 1 << 20])
def test_a_worker_whose_files_are_removed_blames_no_call(start: Start, tmp_path: Path, size: int) -> None:
    worker = start()
    assert is_double(worker.ask(*request(1)), 1)
    shutil.rmtree(next(tmp_path.iterdir()))
    worker.submit([request(2, size=size), request(3, "abort")])
    outcomes: list[Outcome] = []
    with contextlib.suppress(WorkerFailedError):
        outcomes = worker.collect(30)
    assert worker.failed is None or "its files cannot be used: No such file or directory" in worker.failed
    assert not outcomes or (is_double(outcomes[0], 2, size) and outcomes[1].kind == "crash")


def test_a_python_that_is_not_there(tmp_path: Path) -> None:
    worker = Worker(FAKE, tmp_path, python="/no/such/python")
    worker.start()
    assert worker.failed is not None
    assert "/no/such/python" in worker.failed
    worker.stop()


@pytest.mark.parametrize("do", ["", "hang", "hang with the lock"])
def test_stop_ends_the_process_within_a_second(start: Start, do: str) -> None:
    worker = start()
    worker.ask(*request(1))
    pid = worker.versions["pid"]
    if do:
        worker.submit([request(1, do)])
        time.sleep(0.1)
    begun = time.monotonic()
    worker.stop()
    assert time.monotonic() - begun < 1.0
    assert not alive(pid)


_PARENT = """
import os, sys, time
from pathlib import Path
sys.path[:0] = {path!r}
from doubled_calls import FAKE, request
from xverify.workers.process import Limits
from xverify.workers.worker import Worker
worker = Worker(FAKE, Path({directory!r}))
worker.start()
worker.ask(*request(1))
worker.submit([request(1, "hang")])
time.sleep(0.2)
print(worker.versions["pid"], flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_worker_does_not_outlive_its_parent(tmp_path: Path) -> None:
    source = _PARENT.format(path=[HERE, str(Path(HERE).parent)], directory=str(tmp_path))
    parent = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=30)
    assert parent.returncode == -9, parent.stderr
    pid = int(parent.stdout)
    limit = time.monotonic() + 5
    while alive(pid) and time.monotonic() < limit:
        time.sleep(0.05)
    assert not alive(pid)


def test_the_journal_of_a_dead_process_is_read_as_it_is(tmp_path: Path) -> None:
    assert read_journal(str(tmp_path / "none")).call is None
    (tmp_path / "torn").write_bytes(b"\x01\x02")
    assert read_journal(str(tmp_path / "torn")).call is None


@pytest.mark.parametrize("blobs", [[], [b""], [b"a", b"bc"], [b"", bytes(1 << 20), b"x"]])
def test_parcels(tmp_path: Path, blobs: list[bytes]) -> None:
    assert unwrap(wrap(blobs, str(tmp_path / "parcel"))) == blobs
    assert not list(tmp_path.iterdir())


def test_a_parcel_that_is_not_written_whole_is_an_error(tmp_path: Path) -> None:
    """As on a full disk, the last write is cut short and does not fail itself."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (15_000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            wrap([bytes(10_000)] * 2, str(tmp_path / "parcel"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_what_is_abandoned_was_not_asked_and_the_worker_goes_on(start: Start) -> None:
    worker = start(call_timeout=60.0)
    worker.submit([request(1)])
    worker.collect(30)
    worker.submit([request(2)])
    worker.submit([request(3, "hang"), request(4)])
    assert is_double(worker.collect(30)[0], 2)
    worker.abandon()
    assert [outcome.kind for outcome in worker.collect(5)] == ["unasked", "unasked"]
    assert is_double(worker.ask(request(5)[0]), 5)
    assert worker.restarts == 1


def test_what_says_not_implemented_is_a_refusal_under_a_strict_oracle(start: Start) -> None:
    for strict, kind in ((False, "unsupported"), (True, "rejected")):
        worker = start(replace(FAKE, load="load_unsupported", strict=strict))
        worker.submit([request(1)])
        assert [outcome.kind for outcome in worker.collect(30)] == [kind]


def test_no_more_memory_and_too_much_output_are_said_as_such(tmp_path: Path) -> None:
    for do, words in (("hoard", "out of memory beyond 64 MiB"), ("pour", f"it wrote more than {FILE_LIMIT >> 20} MiB")):
        worker = Worker(replace(FAKE, load="load_greedy"), tmp_path, limits=Limits(memory=64 << 20))
        worker.start()
        try:
            worker.submit([request(1), request(2, do), request(3)])
            outcomes = worker.collect(60)
            assert [outcome.kind for outcome in outcomes] == ["tensor", "crash", "tensor"]
            assert words in outcomes[1].message
        finally:
            worker.stop()
