"""The command that continues a run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from resumable_run import without_times

from xverify import cli
from xverify.engine import resume
from xverify.report import load

SWEEP = ["sweep", "--contract", "onednn/DynamicDequantize-1@multiply", "--oracle", "onednn-formula-multiply"]


def xverify(*words: object, code: int) -> str:
    result = CliRunner().invoke(cli.main, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run whose process ended just before it removed the journal."""
    runs = tmp_path_factory.mktemp("unfinished") / "runs"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resume.HeldRun, "finish", lambda held: held.lock.close())
        xverify(*SWEEP, "--cases", 40, "--seed", 4, "--runs", runs, "--json", runs.parent / "copy.json", code=0)
    (directory,) = runs.iterdir()
    return directory


@pytest.fixture
def run(unfinished: Path, tmp_path: Path) -> Path:
    """A copy of the run."""
    return Path(shutil.copytree(unfinished, tmp_path / "runs" / unfinished.name))


def test_a_run_goes_on_with_its_own_options(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run)
    before = load(run / "report.json")
    (run / "report.json").unlink()
    (run / "workers" / "left").mkdir(parents=True)
    assert f"going on with run {run.name}: xverify" in xverify("resume", "--runs", run.parent, code=0)
    after = load(run / "report.json")
    assert without_times(after) == without_times(before)
    assert after["run"]["started"] == before["run"]["started"]
    assert (run / "report.html").exists()
    assert not (run / "workers").exists()
    assert not list(run.glob("answers*"))
    assert "is finished: its report is" in xverify("resume", run, code=0)
    assert "no unfinished run" in xverify("resume", "--runs", run.parent, code=2)


def test_a_run_with_other_versions_or_of_another_process_is_refused(run: Path) -> None:
    description = json.loads((run / "run.json").read_text())
    held = resume.hold(run)
    assert "is being done by another process" in xverify("resume", run, code=3)
    held.lock.close()
    description["versions"]["numpy"] = "1.0"
    (run / "run.json").write_text(json.dumps(description))
    assert "numpy was 1.0 and is" in xverify("resume", run, code=2)
    description["folder"] = str(run / "none")
    (run / "run.json").write_text(json.dumps(description))
    assert "which cannot be entered: No such file" in xverify("resume", run, code=2)
    (run / "run.json").write_text("{")
    assert "run.json is damaged" in xverify("resume", run, code=2)
