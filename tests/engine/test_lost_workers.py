"""Whatever becomes of a worker, and whatever a phase does, the run ends with its report."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from folders import SUPPORT

from xverify import contracts
from xverify.cli import main
from xverify.engine import deaths, shrink
from xverify.engine import sweep as sweeping
from xverify.engine.events import WorkerFailed
from xverify.engine.options import Options
from xverify.engine.sweep import PHASES, sweep
from xverify.oracles.protocol import Oracle
from xverify.report import write_files
from xverify.report.schema import check
from xverify.workers.worker import Worker

MULTIPLY = "onednn/DynamicDequantize-1@multiply"
WHY = "its files cannot be used: No space left on device"

MOMENTS: dict[str, tuple[Any, str] | str] = {
    "exploring": "explore",
    "equivalents": "check_equivalences",
    "telling-apart": "disambiguate",
    "shrinking": (shrink, "_shrink"),
    "shrinking-a-death": (shrink, "shrink_death"),
    "confirming-a-death": (deaths.Confirming, "shows"),
    "repairing-a-call": (shrink, "learn_if_breach_kills"),
    "answers-of-others": (shrink, "ask_others"),
}
"""The moments of a run in which an implementation of that name is lost: a phase, or a function."""


def implementation(name: str, load: str) -> Oracle:
    search = (str(SUPPORT),)
    return Oracle(
        name, "numpy", (MULTIPLY,), (MULTIPLY,), "flawed_oracles", load, search_path=search, needs_xverify=True
    )


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], list[Any]]:
    """The directory, report and events of a sweep in which each implementation is lost in another moment."""
    directory = tmp_path_factory.mktemp("lost")
    now = [""]

    def during(moment: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def marked(*arguments: Any) -> Any:
            before, now[0] = now[0], moment
            try:
                return function(*arguments)
            finally:
                now[0] = before

        return marked

    class Losing(Worker):
        """A worker that is lost at its first batch in the moment that its implementation is named after."""

        def submit(self, requests: Sequence[tuple[bytes, str]]) -> None:
            super().submit(requests)
            if now[0] == self.oracle.name:
                self._give_up(WHY)

    of_phase = {function: moment for moment, function in MOMENTS.items()}
    phases = tuple(replace(phase, run=during(of_phase.get(phase.run.__name__, ""), phase.run)) for phase in PHASES)
    dying = [implementation(moment, "load_ignoring" if moment == "shrinking" else "load_dying") for moment in MOMENTS]
    events: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweeping, "PHASES", phases)
        for moment, where in MOMENTS.items():
            if not isinstance(where, str):
                patch.setattr(*where, during(moment, getattr(*where)))
        options = Options(
            (contracts.get(MULTIPLY),), (*dying, implementation("kept", "load_tail")), directory, "test",
            "xverify sweep", 3, 60.0, 150, worker=Losing,
        )  # fmt: skip
        report = sweep(options, events.append)
    return directory, report, events


def test_a_worker_lost_in_any_phase_leaves_a_report_that_says_why(lost):
    directory, report, events = lost
    status = {worker["name"]: worker["status"] for worker in report["run"]["workers"]}
    assert status.pop("kept") == "answered"
    assert status == {moment: f"{moment} could not be run: {WHY}" for moment in MOMENTS}
    assert {event.name for event in events if isinstance(event, WorkerFailed)} == set(MOMENTS)
    check(report)
    assert json.loads((directory / "report.json").read_text("utf-8"))["run"]["complete"]
    write_files(report, directory)
    assert WHY in (directory / "report.html").read_text("utf-8")
    assert not (directory / "workers").exists()


def test_nothing_is_claimed_of_calls_that_a_lost_worker_was_sent(lost):
    _, report, _ = lost
    of_lost = [finding for finding in report["findings"] if finding["subject"]["name"] in MOMENTS]
    assert {"shrinking-a-death", "confirming-a-death", "repairing-a-call"} <= {f["subject"]["name"] for f in of_lost}
    assert {finding["verdict"] for finding in of_lost} <= {"crash", "violation"}
    assert not any(finding.get("unconfirmed") for finding in of_lost)
    outcomes = [other["outcome"] for finding in report["findings"] for other in finding["others"]]
    assert outcomes
    assert not any(outcome.startswith(("hang", "unasked")) for outcome in outcomes)


def test_a_phase_that_fails_leaves_a_report_and_a_file_for_a_bug_report(tmp_path, monkeypatch):
    def failing(state: object) -> None:
        raise KeyError("onednn/Other-1")

    phases = tuple(replace(phase, run=failing) if phase.run.__name__ == "conclude" else phase for phase in PHASES)
    monkeypatch.setattr(sweeping, "PHASES", phases)
    words = ["sweep", "--contract", MULTIPLY, "--oracle", "onednn-formula-multiply", "--cases", "20", "--runs"]
    result = CliRunner().invoke(main, [*words, str(tmp_path)])
    assert result.exit_code == 3
    (bug,) = tmp_path.glob("xverify-bug-*.txt")
    assert "KeyError: 'onednn/Other-1'" in bug.read_text("utf-8")
    (written,) = tmp_path.glob("*/report.json")
    run = json.loads(written.read_text("utf-8"))["run"]
    assert not run["complete"]
    sentence = "the run failed (KeyError: 'onednn/Other-1'); the report covers what was done before"
    assert sentence in run["left_out"]
    assert (written.parent / "report.html").exists()
