"""A small run with a wrong and a dying implementation. A process begins or resumes it, to be killed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from folders import SUPPORT

from xverify import contracts
from xverify.engine import resume
from xverify.engine.options import Options
from xverify.engine.sweep import sweep
from xverify.oracles import all_oracles
from xverify.oracles.protocol import Oracle

EDITION = "onednn/DynamicDequantize-1@multiply"


def oracle(name: str, module: str, load: str, *arguments: str) -> Oracle:
    """An implementation of tests/support."""
    return Oracle(
        name,
        "numpy",
        (EDITION,),
        (EDITION,),
        module,
        load,
        arguments=arguments,
        search_path=(str(SUPPORT),),
        needs_xverify=True,
    )


ORACLES = (
    all_oracles()["xverify-numpy"],
    oracle("flawed", "flawed_oracles", "load_ignoring"),
    oracle("dying", "dying_oracles", "load", "segfault"),
)


def options_of(held: resume.HeldRun, cases: int | None = 200, budget: float = 60.0) -> Options:
    """The options of the run. Equal runs differ in nothing but their directories."""
    return Options(
        (contracts.get(EDITION),),
        ORACLES,
        held.directory,
        "test",
        "xverify sweep",
        3,
        budget,
        cases,
        journal=held.description.digest,
        started=held.description.started,
    )


def held_run(directory: Path) -> resume.HeldRun:
    """The run in a directory, which is begun if it was not."""
    if not (directory / resume.DESCRIPTION).exists():
        return resume.begin(directory, (), "xverify sweep", {})
    held = resume.to_resume(str(directory))
    assert isinstance(held, resume.HeldRun)
    return held


def without_times(report: dict[str, Any]) -> dict[str, Any]:
    """A report without the fields that differ between two equal runs."""
    times = ("started", "seconds", "own_seconds", "attribution_seconds")
    run = {key: value for key, value in report["run"].items() if key not in times}
    workers = [{key: value for key, value in row.items() if key != "seconds"} for row in run["workers"]]
    return {**report, "run": {**run, "workers": workers}}


if __name__ == "__main__":
    with resume.naming_full_disk(Path(sys.argv[1])):
        held = held_run(Path(sys.argv[1]))
        sweep(options_of(held), lambda event: None)
