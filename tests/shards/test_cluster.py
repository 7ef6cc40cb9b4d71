"""Shards as tasks of a Dask cluster: killed workers, refused addresses, ^C."""

from __future__ import annotations

import builtins
import os
import random
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_tasks import attempts, fake_task, names

from xverify.core.errors import UnableError, UsageError
from xverify.shards import cluster
from xverify.shards.cluster import checked_address, connected, number_of_shards, run_on, without_workers
from xverify.shards.local import Interrupts
from xverify.shards.task import Done

pytest.importorskip("distributed")


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    (tmp_path / "notes").mkdir()
    return tmp_path / "notes"


def worker_processes(client: Any) -> list[int]:
    """Ids of the processes in which workers answer."""
    return [nanny.process.pid for nanny in client.cluster.workers.values() if nanny.process and nanny.process.pid]


def killing(client: Any, kills: int, seconds: float, ended: threading.Event) -> tuple[threading.Thread, list[int]]:
    """A thread that kills random workers at random moments, and the list of those that it killed."""
    killed: list[int] = []
    source = random.Random(7)

    def kill() -> None:
        while len(killed) < kills and not ended.wait(source.uniform(0.2, 2 * seconds / kills)):
            try:
                pid = source.choice(worker_processes(client))
                os.kill(pid, signal.SIGKILL)
            except (OSError, AttributeError, IndexError):
                continue  # a worker that is dead already
            killed.append(pid)

    thread = threading.Thread(target=kill)
    return thread, killed


def run_killed(tmp_path: Path, notes: Path, workers: int, shards: int, kills: int, seconds: float) -> None:
    tasks = [fake_task(notes, index, "sleeps2") for index in range(1, shards + 1)]
    announced: list[str] = []

    def announce(done: Done) -> None:
        assert done.result is not None
        assert done.result.is_file()  # on disk before it is announced
        announced.append(done.key)

    ended = threading.Event()
    with connected(f"local-cluster:{workers}") as client:
        thread, killed = killing(client, kills, seconds, ended)
        thread.start()
        ends = run_on(client, tasks, tmp_path / "shards", announce, Interrupts())
        ended.set()
        thread.join()
    assert len(killed) == kills
    assert [done.error for done in ends] == [""] * shards
    assert sorted(announced) == sorted(task.key for task in tasks)
    assert names(tmp_path / "shards") == sorted(f"s{index}" for index in range(1, shards + 1))
    assert [path.name for path in (tmp_path / "shards").iterdir() if path.name.startswith(".")] == []


def test_a_killed_worker_costs_one_shard_and_a_hang_is_repeated(tmp_path, notes):
    with connected("local-cluster:2") as client:
        assert number_of_shards(client) == 2
        assert without_workers(client, ["avx512"]) == ["avx512"]
        tasks = [fake_task(notes, 1, "sleeps1"), fake_task(notes, 2, "hangs-once", 3.0), fake_task(notes, 3, "refuses")]

        def kill_first() -> None:
            while not attempts(notes, 1):
                time.sleep(0.02)
            child = attempts(notes, 1)[0]
            parent = int(Path(f"/proc/{child}/stat").read_text().split(") ")[1].split()[1])
            os.kill(parent, signal.SIGKILL)

        threading.Thread(target=kill_first).start()
        ends = run_on(client, tasks, tmp_path / "shards", lambda done: None, Interrupts())
    assert [done.error for done in ends] == ["", "", "it ended with exit code 2 and no result: a wrong option"]
    assert [len(attempts(notes, index)) for index in (1, 2, 3)] == [2, 2, 1]
    assert names(tmp_path / "shards") == ["s1", "s2"]


def test_an_interrupt_reaches_the_shards(tmp_path, notes):
    interrupts = Interrupts()

    def press() -> None:
        while not attempts(notes, 1):
            time.sleep(0.05)
        time.sleep(0.5)
        interrupts.press()

    threading.Thread(target=press).start()
    with connected("local-cluster:1") as client:
        tasks = [fake_task(notes, index, "waits") for index in (1, 2)]
        ends = run_on(client, tasks, tmp_path / "shards", lambda done: None, interrupts)
    assert [done.error for done in ends] == ["", "it was interrupted before it began"]
    assert names(tmp_path / "shards") == ["s1 interrupted"]


@pytest.mark.slow
def test_workers_killed_at_ten_moments_lose_and_double_nothing(tmp_path, notes):
    run_killed(tmp_path, notes, workers=4, shards=16, kills=10, seconds=12.0)


@pytest.mark.parametrize("address", ["somewhere", "dask://host", "local-cluster:0", "local-cluster:x", "http://a:1"])
def test_a_wrong_address_is_refused(address):
    with pytest.raises(UsageError, match="--on"):
        checked_address(address, ())


def test_addresses_have_the_form_of_dask():
    assert checked_address("dask://host:8786", ("gpu",)) == "tcp://host:8786"
    assert checked_address("local-cluster:8", ()) == "local-cluster:8"
    with pytest.raises(UsageError, match="--needs"):
        checked_address("local-cluster:8", ("gpu",))


def test_without_the_package_one_sentence_names_the_extra(monkeypatch):
    real: Callable[..., Any] = builtins.__import__

    def without(name: str, *rest: Any, **options: Any) -> Any:
        if name == "distributed":
            raise ImportError(name)
        return real(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageError, match=r"pip install 'xverify\[dask\]'"):
        checked_address("dask://host:8786", ())


def test_a_scheduler_that_does_not_answer_is_one_sentence(monkeypatch):
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1.0)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()  # it accepts, and says nothing
        port = silent.getsockname()[1]
        started = time.monotonic()
        with pytest.raises(UnableError, match="no Dask scheduler answers"), connected(f"tcp://127.0.0.1:{port}"):
            pass
    assert time.monotonic() - started < 20
