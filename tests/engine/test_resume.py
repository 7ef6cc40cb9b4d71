"""A run that is killed at any moment goes on, and ends with the report of a run in one go."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from folders import SUPPORT
from resumable_run import held_run, options_of, without_times

from xverify.core.errors import UnableError, UsageError
from xverify.engine import resume, store
from xverify.engine.store import written_findings
from xverify.engine.sweep import sweep
from xverify.workers.journal import Journal

SCRIPT = str(SUPPORT / "resumable_run.py")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run in one go, with its journal."""
    directory = tmp_path_factory.mktemp("whole") / "run"
    held = held_run(directory)
    sweep(options_of(held), lambda event: None)
    held.lock.close()
    return directory


def report_of(directory: Path) -> dict[str, Any]:
    """The report without times and names."""
    report = without_times(json.loads((directory / "report.json").read_text()))
    assert {f["verdict"] for f in report["findings"]} > {"crash", "violation"}
    return report


def answers_of(directory: Path) -> Counter[tuple[str, bytes]]:
    """The number of recorded answers to each request."""
    journal = Journal(directory / "answers-1.journal", described(directory).digest)
    journal.close()
    return Counter({(worker, key): len(at) for worker, keys in journal._places.items() for key, at in keys.items()})


def described(directory: Path) -> resume.Description:
    """The description of a run, whoever holds it."""
    written = json.loads((directory / resume.DESCRIPTION).read_text())
    return resume.Description(**{**written, "arguments": tuple(written["arguments"])})


def size_of(journal: Path) -> int:
    return journal.stat().st_size if journal.exists() else 0


def descendants(pid: int) -> set[int]:
    """The processes that a process started, and those that these started."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    offspring, new = set[int](), {pid}
    while new := {child for child, parent in parents.items() if parent in new}:
        offspring |= new
    return offspring


def killed(directory: Path, most: int, rng: random.Random, step: int) -> int:
    """Begin or resume a run and kill its process, at most so many times, until it ends.

    Args:
        step: The most bytes that the journal grows until a kill. One kill in five is after a random time instead, so that it also
            hits a process that starts or replays.

    Returns:
        The number of kills.
    """
    journal, orphans, kills = directory / "answers-1.journal", set[int](), 0
    while True:
        process = subprocess.Popen([sys.executable, SCRIPT, str(directory)])
        until = size_of(journal) + rng.randint(1, step)
        moment = time.monotonic() + (rng.uniform(0.3, 3.0) if kills % 5 == 4 else 60.0)
        if kills == most:
            assert process.wait(300) == 0
            break
        while process.poll() is None and size_of(journal) < until and time.monotonic() < moment:
            time.sleep(0.002)
        if process.poll() is not None:
            assert process.returncode == 0
            break
        orphans |= descendants(process.pid)
        process.kill()
        process.wait()
        kills += 1
    patience = time.monotonic() + 5
    while any(os.path.exists(f"/proc/{pid}") for pid in orphans) and time.monotonic() < patience:
        time.sleep(0.05)
    assert not [pid for pid in orphans if os.path.exists(f"/proc/{pid}")], "workers outlive the run"
    return kills


def check_killed(whole: Path, directory: Path, kills: int, seed: int) -> int:
    """Check a run that is killed against one that is not. Returns the number of kills."""
    step = 2 * size_of(whole / "answers-1.journal") // max(1, kills)
    times = killed(directory, kills, random.Random(seed), step)
    assert report_of(directory) == report_of(whole)
    assert answers_of(directory) == answers_of(whole), "an answered call was repeated, or an answer was lost"
    findings = [json.loads(line)["id"] for line in (directory / "findings.jsonl").read_text().splitlines()]
    assert sorted(findings) == sorted(written_findings(whole))
    assert not (directory / "workers").exists()
    return times


def test_a_run_killed_at_random_moments_ends_like_one_in_one_go(whole: Path, tmp_path: Path) -> None:
    assert check_killed(whole, tmp_path / "run", 5, seed=int(time.time())) > 1


@pytest.mark.slow
def test_fifty_kills(whole: Path, tmp_path: Path) -> None:
    total, number = 0, 0
    while total < 50:
        total += check_killed(whole, tmp_path / f"{number}", min(10, 50 - total), seed=number)
        number += 1


def test_a_damaged_journal_is_asked_again_from_there(whole: Path, tmp_path: Path) -> None:
    directory = tmp_path / "run"
    shutil.copytree(whole, directory)
    path = directory / "answers-1.journal"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    (directory / "findings.jsonl").write_text((whole / "findings.jsonl").read_text()[:-20])
    held = held_run(directory)
    sweep(options_of(held), lambda event: None)
    held.lock.close()
    assert report_of(directory) == report_of(whole)
    assert answers_of(directory) == answers_of(whole)
    assert written_findings(directory) == written_findings(whole)


def test_a_full_disk_ends_a_run_that_can_be_resumed(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is full within the journal first, and then before the report."""
    directory, write = tmp_path / "run", Journal._write
    left = size_of(whole / "answers-1.journal") // 2

    def limited(journal: Journal, data: memoryview) -> int:
        nonlocal left
        if left <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = write(journal, data[:left])
        left -= written
        return written

    def full(path: Path, data: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(Journal, "_write", limited)
    held = held_run(directory)
    sentence = r"no space left .*: free some, then: xverify resume"
    with pytest.raises(UnableError, match=sentence), resume.naming_full_disk(directory):
        sweep(options_of(held), lambda event: None)
    left = 1 << 40
    with monkeypatch.context() as patch:
        patch.setattr("xverify.engine.sweep.write_json", full)
        with pytest.raises(UnableError, match=r"report\.json: free some"), resume.naming_full_disk(directory):
            sweep(options_of(held), lambda event: None)
    sweep(options_of(held), lambda event: None)
    held.lock.close()
    assert report_of(directory) == report_of(whole)
    assert answers_of(directory) == answers_of(whole)


@pytest.mark.parametrize(
    ("file", "where"), [("shards/.sweep-1-of-2-x/run.json", "run"), ("report.json", "run/report.json"), ("", "run")]
)
def test_a_full_disk_is_named_by_what_the_user_can_resume(tmp_path: Path, file: str, where: str) -> None:
    directory = tmp_path / "run"
    error = OSError(errno.ENOSPC, "No space left on device", str(directory / file) if file else None)
    sentence = f"no space left for {tmp_path / where}: free some, then: xverify resume {os.path.relpath(directory)}"
    with pytest.raises(UnableError, match=f"^{re.escape(sentence)}$"), resume.naming_full_disk(directory):
        raise error


def test_a_resumed_run_uses_the_rest_of_its_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first part used the whole budget, by the times in its journal. So the second sends few calls."""
    held, elapsed = held_run(tmp_path / "run"), Journal.elapsed
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "elapsed", lambda journal: 500 * elapsed(journal))
        sweep(options_of(held, cases=60), lambda event: None)
    before = answers_of(tmp_path / "run").total()
    report = sweep(options_of(held, cases=None, budget=60.0), lambda event: None)
    assert report["run"]["seconds"] > 60
    assert report["coverage"]["cases"] > 0
    assert answers_of(tmp_path / "run").total() < 1.5 * before


def test_one_process_at_a_time_does_a_run(tmp_path: Path) -> None:
    held = held_run(tmp_path / "run")
    with pytest.raises(UnableError, match="by another process"):
        resume.to_resume(str(tmp_path / "run"))
    with pytest.raises(UnableError, match="by another process"):
        resume.to_resume(None, tmp_path)
    held.lock.close()
    again = resume.to_resume(None, tmp_path)
    assert isinstance(again, resume.HeldRun)
    assert again.description == held.description


def test_the_newest_unfinished_run_is_resumed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no unfinished run"):
        resume.to_resume(None, tmp_path)
    for name in ("older", "newer", "finished"):
        held = held_run(tmp_path / name)
        if name == "finished":
            store.write_json(tmp_path / name / "report.json", {})
            (tmp_path / name / "answers-1.journal").touch()
            assert not resume.is_finished(tmp_path / name)
            held.finish()
        held.lock.close()
    newest = resume.to_resume(None, tmp_path)
    assert isinstance(newest, resume.HeldRun)
    assert newest.directory == tmp_path / "newer"
    assert resume.to_resume("finished", tmp_path) == tmp_path / "finished"
    with pytest.raises(UsageError, match="no run to resume is called 'none'"):
        resume.to_resume("none", tmp_path)


def test_changed_versions_are_named(tmp_path: Path) -> None:
    held = resume.begin(tmp_path / "run", (), "", {"numpy": "1", "onnx": "2"})
    held.require({"numpy": "1", "onnx": "2"})
    with pytest.raises(UsageError, match="onnx was 2 and is 3; torch was absent and is 4"):
        held.require({"numpy": "1", "onnx": "3", "torch": "4"})


def test_the_file_of_a_module_is_part_of_the_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "package").mkdir()
    for name in ("package/kernel.py", "mine.py"):
        (tmp_path / name).write_text("")
    versions = resume.versions_to_resume(
        (), ("package.kernel:f", "mine:f", "mine.py:f", "/absolute.py:f", "onnxruntime:a")
    )
    assert {"package/kernel.py", "mine.py"} <= versions.keys()
    assert len(resume.versions_to_resume((), ())) == len(versions) - 2


def test_a_finding_that_was_not_written_whole_is_cut_off(tmp_path: Path) -> None:
    path, lines = tmp_path / "findings.jsonl", ['{"id": "a"}\n', '{"id": "b"}\n']
    for tail in ("", '{"id": "c"}', '{"id": "c', "\0\0"):
        path.write_text("".join(lines) + tail)
        assert written_findings(tmp_path) == {"a", "b"}
        assert path.read_text() == "".join(lines)
