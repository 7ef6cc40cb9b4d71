"""One shard as a child process: its result, its end, its limits."""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from fake_tasks import attempts, fake_task, names

from xverify.core.errors import UsageError
from xverify.shards import task as tasks
from xverify.shards.task import END, FOLDER, ShardFailedError, Task, packed, reopen, run_packed, run_task, unpack


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    (tmp_path / "notes").mkdir()
    return tmp_path / "notes"


def hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def test_a_result_has_its_final_name_and_is_not_made_twice(tmp_path, notes):
    lines: list[str] = []
    for _ in range(2):
        done = run_task(fake_task(notes), tmp_path / "shards", lines.append)
        assert done.result == tmp_path / "shards" / "fake-1" / "run" / "report.json"
    assert (len(attempts(notes)), len(lines), hidden(tmp_path / "shards")) == (1, 1, [])


@pytest.mark.parametrize(
    ("mode", "error", "code"),
    [
        ("dies", "it was killed by SIGSEGV", -11),
        ("hangs", "it took more than 1 s and was killed", -9),
        ("refuses", "it ended with exit code 2 and no result: a wrong option", 2),
    ],
)
def test_an_attempt_without_a_result_leaves_its_log_alone(tmp_path, notes, mode, error, code):
    done = run_task(fake_task(notes, mode=mode, seconds=1.0), tmp_path / "shards")
    assert (done.result, done.error, done.code, done.is_hopeless) == (None, error, code, code == 2)
    assert [path.name for path in (tmp_path / "shards").iterdir()] == ["fake-1.log"]


def test_a_flood_of_output_is_cut(tmp_path, notes, monkeypatch):
    monkeypatch.setattr(tasks, "MOST_LOGGED", 1 << 17)
    done = run_task(fake_task(notes, mode="floods"), tmp_path)
    log = tmp_path / "fake-1" / "log.txt"
    assert done.result is not None
    assert log.stat().st_size < 3 << 17
    assert "bytes are left out" in log.read_text()
    assert log.read_text().endswith("the last line\n")


@pytest.mark.parametrize("is_held", [False, True])
def test_a_run_that_died_goes_on_unless_another_process_does_it(tmp_path, notes, is_held):
    shards = tmp_path / "shards"
    (shards / ".fake-1-abc" / "old").mkdir(parents=True)
    (shards / ".fake-1-abc" / "old" / "run.json").touch()
    task = replace(fake_task(notes), again=fake_task(notes, index=2).argv, lock="*/run.json")
    with (shards / ".fake-1-abc" / "old" / "run.json").open() as lock:
        if is_held:
            fcntl.flock(lock, fcntl.LOCK_EX)
        assert run_task(task, shards).result is not None
    assert (len(attempts(notes, 1)), len(attempts(notes, 2))) == ((1, 0) if is_held else (0, 1))
    assert hidden(shards) == ([".fake-1-abc"] if is_held else [])


@pytest.mark.parametrize(
    ("words", "outcome"),
    [
        ("no space left for runs/1: free some; exit 3", (None, True, [".fake-1-abc"], 0)),
        ("of another processor; exit 2", ("s1", False, [], 1)),
        ("died again; exit 3", (None, False, [], 0)),
    ],
)
def test_a_run_that_cannot_go_on_waits_for_room_or_begins_anew(tmp_path, notes, words, outcome):
    shards = tmp_path / "shards"
    (shards / ".fake-1-abc").mkdir(parents=True)
    (shards / ".fake-1-abc" / "run.json").touch()
    task = replace(fake_task(notes), again=("sh", "-c", f"echo {words}"), lock="run.json")
    done = run_task(task, shards)
    name = None if done.result is None else json.loads(done.result.read_text())["name"]
    assert (name, done.met_full_disk, hidden(shards), len(attempts(notes))) == outcome


@pytest.mark.parametrize("is_complete", [True, False])
def test_an_interrupted_shard_goes_on_and_a_complete_one_does_not(tmp_path, notes, is_complete):
    run = tmp_path / "fake-1" / "run"
    run.mkdir(parents=True)
    for name in ("run.json", "shard.json", "answers-1.journal"):
        (run / name).touch()
    (run / "report.json").write_text(json.dumps({"run": {"complete": is_complete}}))
    task = replace(
        fake_task(notes), result="*/shard.json", again=("sh", "-c", f"touch {FOLDER}/run/shard.json"), lock="*/run.json"
    )
    reopen([task], tmp_path)
    assert hidden(tmp_path) == ([] if is_complete else [".fake-1-again"])
    assert run_task(task, tmp_path).result == run / "shard.json"
    assert (run / "answers-1.journal").exists()
    assert (run / "report.json").exists() is is_complete


def test_a_wish_ends_a_shard_at_once(tmp_path, notes):
    done = run_task(fake_task(notes, mode="hangs"), tmp_path, wish=lambda: END if attempts(notes) else 0)
    assert (done.result, done.error) == (None, "it was ended at once")


def test_a_packed_result_is_what_was_made(tmp_path, notes):
    shared = tmp_path / "elsewhere"  # which the worker does not see
    task = fake_task(notes)
    data = run_packed(asdict(task), str(shared), "token")
    (tmp_path / "here").mkdir()
    for _ in range(2):
        assert unpack(task, data["archive"], tmp_path / "here") is not None
    assert (names(tmp_path / "here"), hidden(tmp_path / "here")) == (["s1"], [])
    assert not shared.exists()


def test_a_command_runs_in_its_directory_where_that_exists(tmp_path):
    for number, directory in enumerate((tmp_path, tmp_path / "missing")):
        task = Task(f"t-{number}", ("sh", "-c", f"pwd > {FOLDER}/x"), "x", 60.0, directory=str(directory))
        done = run_task(task, tmp_path / "shards")
        assert done.result is not None
        assert (done.result.read_text().strip() == str(tmp_path)) is (number == 0)


def test_a_worker_that_sees_the_directory_of_results_writes_there(tmp_path, notes):
    (tmp_path / "token").touch()
    run_packed(asdict(fake_task(notes)), str(tmp_path), "token")
    assert names(tmp_path) == ["s1"]


def test_a_failed_attempt_raises_for_a_retry_and_wrong_usage_does_not(tmp_path, notes):
    with pytest.raises(ShardFailedError, match="killed by SIGSEGV"):
        run_packed(asdict(fake_task(notes, mode="dies")), str(tmp_path / "no"), "token")
    data = run_packed(asdict(fake_task(notes, 2, mode="refuses")), str(tmp_path / "no"), "token")
    assert (data["archive"], data["code"]) == (None, 2)


def test_a_damaged_or_unfit_archive_is_refused(tmp_path, notes):
    source = tmp_path / "source"
    (source / "run").mkdir(parents=True)
    (source / "run" / "report.json").write_text("{}")
    archive = packed(source)
    with pytest.raises(UsageError, match="cannot be unpacked"):
        unpack(fake_task(notes), archive[: len(archive) // 2], tmp_path)
    assert hidden(tmp_path) == []


def test_a_child_dies_with_its_parent(tmp_path, notes):
    import subprocess
    import sys
    import time

    program = (
        "import sys; from pathlib import Path; from fake_tasks import fake_task; from xverify.shards.task import run_task\n"
        "run_task(fake_task(Path(sys.argv[1]), mode='hangs'), Path(sys.argv[2]))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    parent = subprocess.Popen([sys.executable, "-c", program, str(notes), str(tmp_path / "shards")], env=environment)
    until = time.monotonic() + 30
    while not attempts(notes) and time.monotonic() < until:
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    (child,) = attempts(notes)
    while Path(f"/proc/{child}/stat").exists() and time.monotonic() < until:
        if Path(f"/proc/{child}/stat").read_text().split(") ")[1].startswith("Z"):
            return  # dead; nobody collects it here
        time.sleep(0.05)
    assert not Path(f"/proc/{child}").exists()
