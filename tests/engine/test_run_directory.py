"""Runs that start at once have directories of their own."""

from __future__ import annotations

import threading
from pathlib import Path

from xverify.engine.sweep import run_directory


def test_threads_that_start_at_once_share_no_directory(tmp_path: Path) -> None:
    runs, made = tmp_path / "reports" / "runs", []
    barrier = threading.Barrier(32)

    def start() -> None:
        barrier.wait()
        made.append(run_directory(runs, "20261128-030000"))

    threads = [threading.Thread(target=start) for _ in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 32
    assert all(directory.is_dir() for directory in made)
    assert {directory.name for directory in made} >= {"20261128-030000", "20261128-030000-2", "20261128-030000-32"}
