"""Shards as child processes: deaths, hangs, ^C, cores."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from fake_tasks import attempts, fake_task, names

from xverify.shards.local import Interrupts, number_for, run_here, shares
from xverify.shards.task import FOLDER, Done, Task


class Heard:
    """The announcements of a runner."""

    def __init__(self) -> None:
        self.ends: list[str] = []
        self.lines: list[str] = []
        self.restarted: list[str] = []

    def run(self, tasks: list[Task], folder: Path, interrupts: Interrupts | None = None) -> list[Done]:
        return run_here(
            tasks,
            folder,
            lambda done: self.ends.append(done.key),
            lambda key, line: self.lines.append(key),
            interrupts or Interrupts(),
            self.restarted.append,
        )


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    (tmp_path / "notes").mkdir()
    return tmp_path / "notes"


def test_a_shard_that_dies_or_hangs_is_started_once_more(tmp_path, notes):
    heard = Heard()
    modes = {1: "works", 2: "dies-once", 3: "hangs-once", 4: "dies", 5: "refuses"}
    seconds = {3: 3.0}
    tasks = [fake_task(notes, index, mode, seconds.get(index, 60.0)) for index, mode in modes.items()]
    ends = heard.run(tasks, tmp_path / "shards")
    assert [len(attempts(notes, index)) for index in modes] == [1, 2, 2, 2, 1]
    assert [done.error for done in ends] == [
        "", "", "", "it was killed by SIGSEGV", "it ended with exit code 2 and no result: a wrong option",
    ]  # fmt: skip
    assert names(tmp_path / "shards") == ["s1", "s2", "s3"]
    assert sorted(heard.restarted) == ["fake-2", "fake-3", "fake-4"]
    assert sorted(heard.ends) == [task.key for task in tasks]
    assert sorted(heard.lines) == ["fake-1", "fake-2", "fake-3"]


def test_a_shard_that_meets_a_full_disk_is_left_to_be_resumed(tmp_path, notes):
    command = f"touch {FOLDER}/run.json {notes}/s1.$$; echo no space left for runs/1; exit 3"
    task = Task("fake-1", ("sh", "-c", command), "*/x", 60.0, again=("sh", "-c", command), lock="run.json")
    (done,) = Heard().run([task], tmp_path / "shards")
    assert done.error.endswith("no space left for runs/1")
    assert len(attempts(notes)) == 1
    assert len(list((tmp_path / "shards").glob(".fake-1-*/run.json"))) == 1


def interrupt_when(notes: Path, count: int, times: int) -> None:
    """Press ^C when so many shards have begun."""
    until = time.monotonic() + 30
    while len(list(notes.iterdir())) < count and time.monotonic() < until:
        time.sleep(0.02)
    for _ in range(times):
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)


def test_the_first_interrupt_lets_shards_finish_with_results(tmp_path, notes):
    threading.Thread(target=interrupt_when, args=(notes, 2, 1)).start()
    ends = Heard().run([fake_task(notes, index, "waits") for index in (1, 2)], tmp_path / "shards")
    assert [done.error for done in ends] == ["", ""]
    assert names(tmp_path / "shards") == ["s1 interrupted", "s2 interrupted"]


def test_the_second_interrupt_kills(tmp_path, notes):
    # A child that ignores the first interrupt: it sleeps in the shell.
    stubborn = Task("fake-1", ("sh", "-c", f"trap '' INT; touch {notes}/s1.1; sleep 600; true"), "*/x", 60.0)
    threading.Thread(target=interrupt_when, args=(notes, 1, 2)).start()
    started, before = time.monotonic(), signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        Heard().run([stubborn], tmp_path / "shards")
    assert time.monotonic() - started < 30
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    ("cores", "count", "expected"),
    [([0, 1, 2, 3, 4], 2, [[0, 1], [2, 3, 4]]), ([4, 6], 2, [[4], [6]]), ([0, 1], 3, [[], [], []])],
)
def test_cores_are_shared(cores, count, expected):
    assert shares(cores, count) == expected


def test_auto_takes_what_cores_and_memory_allow():
    assert [number_for(16, 64 << 30), number_for(16, 16 << 30), number_for(2, 1 << 30)] == [16, 4, 1]
