"""Whatever a phase of a gate does, and whatever becomes of its worker, the gate ends with its report."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Sequence
from functools import wraps
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from folders import SUPPORT

from xverify import cli, contracts
from xverify.engine import select
from xverify.gate import gate as gates
from xverify.gate.options import GateOptions
from xverify.report.schema import check
from xverify.workers.worker import Worker

CONTRACT = "onednn/DynamicDequantize-1@multiply"
KERNEL = f"{SUPPORT / 'gate_kernels.py'}:wraps"
BATCHES = 4
"""Batches of the shortened walk. They show the kernel's fault."""

ASKING = ("ask", "ask_for_evidence", "shrink_all")
PHASES = ("start", *ASKING, "conclude", "decided")
"""Functions of the gate, one of each phase."""

WHY = "its files cannot be used: No space left on device"


@pytest.fixture(autouse=True)
def short_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    walk = gates.walk_batches
    monkeypatch.setattr(gates, "walk_batches", lambda *arguments: islice(walk(*arguments), BATCHES))
    for phase in ("ask_for_largest", "learn", "equivalences.check"):
        monkeypatch.setattr(f"xverify.gate.gate.{phase}", lambda *arguments: None)


def options(directory: Path, worker: type[Worker] = Worker) -> GateOptions:
    text = contracts.get(CONTRACT)
    return GateOptions(
        select.kernel_under_test(KERNEL, False), (text,), directory, "test", "xverify gate",
        within={text.id: gates.narrowed(text.domain, ["int8"], [], ["per_tensor"])}, budget=20.0, worker=worker,
        draw=gates.nothing_more, threads=False,
    )  # fmt: skip


def written(directory: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((directory / "report.json").read_text("utf-8"))
    check(report)
    assert not (directory / "workers").exists()
    return report


def failing(error: Exception) -> Callable[..., Any]:
    def fail(*arguments: Any, **named: Any) -> Any:
        raise error

    return fail


@pytest.mark.parametrize("phase", PHASES)
def test_a_phase_that_fails_leaves_a_report_without_a_decision(phase, tmp_path, monkeypatch):
    monkeypatch.setattr(gates, phase, failing(KeyError("lost")))
    with pytest.raises(KeyError, match="lost"):
        gates.gate(options(tmp_path), lambda event: None)
    report = written(tmp_path)
    sentence = "the run failed (KeyError: 'lost'); the report covers what was done before"
    assert not report["run"]["complete"]
    assert sentence in report["run"]["left_out"]
    if phase == "decided":
        assert "gate" not in report
    else:
        assert (report["gate"]["outcome"], report["gate"]["reason"]) == ("unable", sentence)
    # The walk shows the kernel's fault. Only a failure before the walk or within the conclusions leaves no finding.
    assert bool(report["findings"]) == (phase not in ("start", "ask", "conclude"))


@pytest.mark.parametrize("phase", ASKING)
def test_a_worker_lost_in_a_phase_leaves_a_report_that_says_why(phase, tmp_path, monkeypatch):
    original, now = getattr(gates, phase), [False]

    @wraps(original)
    def marked(*arguments: Any, **named: Any) -> Any:
        now[0] = True
        return original(*arguments, **named)

    class Losing(Worker):
        """A worker that is lost at its first batch in the phase."""

        def submit(self, requests: Sequence[tuple[bytes, str]]) -> None:
            super().submit(requests)
            if now[0]:
                self._give_up(WHY)

    monkeypatch.setattr(gates, phase, marked)
    gates.gate(options(tmp_path, Losing), lambda event: None)
    report = written(tmp_path)
    assert report["gate"]["reason"].endswith(f"could not be run: {WHY}")
    assert report["gate"]["outcome"] == ("unable" if phase == "ask" else "findings")


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            KeyError("lost"),
            "xverify itself failed (KeyError: 'lost'), so nothing is decided; attach this file to a bug",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            "no space left for {run}: free some, then: repeat the command",
        ),
    ],
)
def test_the_command_ends_with_its_report_and_one_sentence(error, sentence, tmp_path, monkeypatch):
    monkeypatch.setattr(gates, "shrink_all", failing(error))
    words = ("--x-dtypes", "int8", "--granularity", "per_tensor", "--walk-only", "--budget", "20s")
    junit = tmp_path / "junit.xml"
    files = ("--runs", str(tmp_path / "runs"), "--ledger", str(tmp_path / "ledger.toml"), "--junit", str(junit))
    result = CliRunner().invoke(cli.main, ["gate", "--kernel", KERNEL, "--contract", CONTRACT, *words, *files])
    (run,) = (path for path in (tmp_path / "runs").iterdir() if path.is_dir())
    assert result.exit_code == 3
    assert "Traceback" not in result.output
    errors = [line for line in result.stderr.splitlines() if line.startswith("xverify:")]
    assert len(errors) == 1
    assert errors[0].startswith(f"xverify: {sentence.format(run=run)}")
    assert written(run)["findings"]
    assert "UNABLE" in result.stdout
    assert (run / "report.html").exists()
    assert "the run failed" in junit.read_text("utf-8")


def test_a_disk_without_room_for_the_report_ends_the_gate_with_the_first_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(gates, "conclude", failing(KeyError("lost")))
    monkeypatch.setattr(gates, "write_json", failing(OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(KeyError, match="lost"):
        gates.gate(options(tmp_path), lambda event: None)
