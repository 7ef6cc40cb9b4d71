"""Tasks of shards that run `fake_shard` in place of xverify."""

from __future__ import annotations

import json
from pathlib import Path

import fake_shard

from xverify.shards.task import FOLDER, PYTHON, Task


def fake_task(notes: Path, index: int = 1, mode: str = "works", seconds: float = 60.0) -> Task:
    """A task that behaves as the mode says, and notes its attempts in a folder."""
    name = f"s{index}"
    argv = (PYTHON, str(fake_shard.__file__), FOLDER, str(notes), name, mode)
    return Task(f"fake-{index}", argv, "*/report.json", seconds)


def attempts(notes: Path, index: int = 1) -> list[int]:
    """Ids of the processes that attempted a task."""
    return [int(path.suffix[1:]) for path in notes.glob(f"s{index}.*")]


def names(folder: Path) -> list[str]:
    """The names in the results below a folder, in order."""
    return sorted(json.loads(path.read_text())["name"] for path in folder.glob("*/*/report.json"))
