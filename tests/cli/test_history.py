"""The commands of the history, and what reports show of other runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from html_pages import Page
from recorded_runs import regrouped, run, wrap_of, written
from sample_report import HOSTILE, hostile_report

from xverify import cli


def xverify(*words: str) -> Result:
    return CliRunner(env={"COLUMNS": "160"}).invoke(cli.main, words)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_nightly_job_records_compares_and_exits(here: Path) -> None:
    first, second, third = (written(run(n, shows=n != 2), here) for n in (1, 2, 3))
    wrap = wrap_of(run(1))
    assert xverify("history").exit_code == 2
    assert "run run-1 added" in xverify("history", "record", first).output
    alone = xverify("history", "new")
    assert (alone.exit_code, "no run before run-1 to compare with" in alone.output) == (0, True)
    xverify("history", "record", second)
    assert "run run-1 is there already" in xverify("history", "record", first).output
    quiet, gone = xverify("history", "new"), xverify("history", "gone")
    assert (quiet.exit_code, gone.exit_code) == (0, 0)
    assert "no new cause: run-2 compared with run-1" in quiet.output
    assert wrap in gone.output
    xverify("history", "record", third)
    news = xverify("history", "new")
    assert (news.exit_code, "1 cause new since run-2" in news.output, wrap in news.output) == (1, True, True)
    assert json.loads(xverify("history", "new", "--json").output)["new"][0]["cause"] == wrap
    assert xverify("history", "new", "--since", "run-1").exit_code == 0


def test_the_overview_and_one_cause(here: Path) -> None:
    wrap = wrap_of(run(1))
    runs = [run(1, "1.26.0"), run(2), run(3, "1.29.0", shows=False), run(4, "1.30.0", covers=False)]
    xverify("history", "record", *(written(report, here) for report in runs))
    overview = xverify("history").output
    assert xverify("history", "list").output == overview
    assert "onnxruntime, by versions 1.26.0, 1.27.0, 1.29.0, 1.30.0" in overview
    assert f"  ##.?  {wrap}  gone since 1.29.0: onnxruntime subtracts in int32 with wrap-around" in overview
    lines = xverify("history", "show", wrap).output.splitlines()
    assert "versions of onnxruntime: gone since 1.29.0" in lines
    assert "  ? 1.30.0: unknown" in lines
    assert any(line.startswith("  . run-3: absent, 0 of ") for line in lines)
    listed = json.loads(xverify("history", "--json").output)
    assert [each["id"] for each in listed["runs"]] == ["run-1", "run-2", "run-3", "run-4"]
    assert wrap in [cause["id"] for cause in listed["causes"]]
    assert xverify("history", "--json", "show", wrap).exit_code == 2


def test_a_report_shows_the_difference_to_another(here: Path) -> None:
    older, newer = written(run(1), here), written(run(2, shows=False), here)
    wrap = wrap_of(run(1))
    in_words = xverify("report", newer, "--since", older)
    assert "1 cause gone:" in in_words.output
    assert wrap in in_words.output
    assert "1 cause new since run-2:" in xverify("report", older, "--since", newer).output
    assert f"(`{wrap}`)" in xverify("report", older, "--since", newer, "--format", "markdown").output
    page = xverify("report", older, "--since", newer, "--format", "html").output
    assert f'<a href="#{wrap}">' in page[page.index('<h2 id="since">') : page.index('<h2 id="causes">')]
    same = xverify("report", older, "--since", older)
    assert (same.exit_code, "are the same run" in same.output) == (2, True)
    assert "takes --format html or markdown" in xverify("report", older, "--since", newer, "--format", "junit").output


def test_a_page_has_a_strip_of_each_cause_in_words_too(here: Path) -> None:
    runs = [run(1, "1.26.0"), run(2), run(3, "1.29.0", shows=False), run(4, "1.30.0", covers=False)]
    files = [written(report, here) for report in runs]
    xverify("history", "record", *files)
    page = Page(xverify("report", files[1], "--history", "reports/history.sqlite").output)
    squares = [tag for _, tag in page.tags if (tag.get("class") or "").startswith("square ") and "title" in tag]
    words = {(square["class"], (square["title"] or "").partition(",")[0]) for square in squares}
    assert words >= {
        ("square bad", "1.26.0: present"),
        ("square good", "1.29.0: absent"),
        ("square quiet", "1.30.0: unknown"),
    }
    assert {square["role"] for square in squares} == {"listitem"}
    assert "1.30.0: unknown" in page.text


def test_a_history_with_hostile_text_does_no_harm(here: Path) -> None:
    plain, hostile = written(run(1), here), here / "hostile.json"
    soiled = hostile_report()
    soiled["run"]["id"] = "run" + HOSTILE
    soiled["run"]["started"] = "2026-09-01"
    hostile.write_text(json.dumps(regrouped(soiled)), encoding="utf-8")
    assert xverify("history", "record", plain, str(hostile)).exit_code == 0
    shown = xverify("report", str(hostile), "--history", "reports/history.sqlite", "--since", plain, "--format", "html")
    page = Page(shown.output)
    assert (page.stray, len(page.scripts), "img" in dict(page.tags)) == ([], 1, False)
    assert xverify("history").exit_code == 0


def test_a_sweep_records_its_run(here: Path) -> None:
    words = ("sweep", "--contract", "ai.onnx/DequantizeLinear-19", "--oracle", "onnx-reference", "--cases", "40")
    result = xverify(*words, "--record")
    assert result.exit_code == 0, result.output
    (run_id,) = (each["id"] for each in json.loads(xverify("history", "--json").output)["runs"])
    assert f"reports/history.sqlite: run {run_id} added" in result.output
    assert 'class="square ' in (here / "reports" / "runs" / run_id / "report.html").read_text(encoding="utf-8")
    (here / "bad.sqlite").write_text("no database " * 100)
    refused = xverify(*words, "--record", "bad.sqlite")
    assert (refused.exit_code, len(list(here.glob("reports/runs/*")))) == (2, 1)
