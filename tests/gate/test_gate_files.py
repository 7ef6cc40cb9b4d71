"""The files that a gate writes: CI summary, JUnit, HTML and JSON, with the decision and escaped text."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import jsonschema
import pytest
from click.testing import CliRunner
from gate_readers import console, text_of
from html_pages import Page
from sample_gate import KERNEL, finding_of, gate_report, hostile_gate_report
from sample_report import sample_report

from xverify.cli.gate import gate
from xverify.engine import select
from xverify.gate import markdown
from xverify.gate.markdown import append_markdown
from xverify.gate.terminal import print_decision
from xverify.report import check, decision, render
from xverify.report.causes import sentence
from xverify.report.decision import replay_line
from xverify.report.formats.markdown import text as marked
from xverify.report.schema import schema


def test_the_summary_is_appended_and_has_what_ci_shows(tmp_path: Path) -> None:
    page = tmp_path / "summary.md"
    page.write_text("# A page\nwithout an end of line", encoding="utf-8")
    report = gate_report()
    append_markdown(report, page)
    append_markdown(gate_report("pass"), page)
    text = page.read_text(encoding="utf-8")
    assert text.startswith(
        "# A page\nwithout an end of line\n\n## FAIL: xverify gate of `kernels/mine.py:dequantize`\n"
    )
    assert text.count("\n## PASS: xverify gate of `kernels/mine.py:dequantize`\n") == 1
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == 6
    assert [row.split(" | ")[0] for row in rows[2:4]] == ["| crash", "| violation"]
    commands = text.split("```sh\n")[1].split("\n```")[0].splitlines()[1::2]
    assert commands == [replay_line(report, finding) for finding in decision.failing(report)]
    for said in ("- known as writes-input: ", "- stale: `old-one`", "- no failure, ambiguity: "):
        assert f"\n{said}" in text, said


def test_a_summary_does_nothing_but_show_the_text_of_a_kernel() -> None:
    text = markdown.render(hostile_gate_report())
    outside = re.sub(r"(?<!\\)`[^`\n]*`", "", re.sub("(?s)```sh\n.*?\n```\n", "", text))
    assert "```" not in outside
    assert not re.search(r"(?<!\\)<(?!!-- -->)", outside)
    rows = [line for line in outside.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {6}
    assert len(rows) == 6
    assert {line[:1] for line in outside.splitlines()} <= {"", "#", "|", "-", "k", "T"}, "no line is begun by a kernel"


def test_a_command_with_backticks_stays_whole_in_its_block() -> None:
    report = gate_report(target="a```\nb.py:f")
    text = markdown.render(report)
    fence, body = re.findall("(?ms)^(`{4,})sh\n(.*?)\n^\\1$", text)[0]
    assert fence == "````"
    assert replay_line(report, finding_of(report, "crash")) in body


LEFT_OUT = (
    "some/Edition-1 is left out: *no* <b>document</b>",
    "others left out: a native kernel is not called for them",
)


def test_parts_left_out_are_in_the_summary_and_the_html() -> None:
    report = gate_report("pass")
    report["run"]["left_out"] = list(LEFT_OUT[1:])
    check(report)
    assert f"\n- {LEFT_OUT[1]}\n" in markdown.render(report)
    report["run"]["left_out"] = list(LEFT_OUT)
    assert "\n- some/Edition-1 is left out: \\*no\\* \\<b\\>document" in markdown.render(report)
    page = Page(render(report, "html"))
    assert (page.open, page.stray) == ([], [])
    assert ("details", {"class": "section", "id": "left-out"}) in page.tags, "one folded block for all of them"
    last = "".join(page.text).partition("left out, or used only in part")[2]
    assert all(sentence in last for sentence in LEFT_OUT)


def test_a_gate_reports_which_editions_were_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    multiply, divide = (f"onednn/DynamicDequantize-1@{name}" for name in ("multiply", "divide"))
    real = select.contracts.get

    def unreadable(identity: str) -> Any:
        if identity == divide:
            raise select.contracts.DocumentError("it is on paper")
        return real(identity)

    monkeypatch.setattr(select.contracts, "get", unreadable)
    files = [f"--{kind}={tmp_path / kind}" for kind in ("json", "html", "markdown", "sarif", "badge")]
    named = ["--contract", multiply, "--contract", divide, "--x-dtypes", "int8", "--granularity", "per_tensor"]
    made = CliRunner().invoke(gate, [*named, "--walk-only", "--budget", "1s", "--runs", str(tmp_path), *files])
    said = f"{divide} is left out: it is on paper"
    assert f"xverify: {said}" in made.output
    report = json.loads((tmp_path / "json").read_text(encoding="utf-8"))
    check(report)
    assert report["run"]["left_out"] == [said]
    assert f"\n- {marked(said)}\n" in (tmp_path / "markdown").read_text(encoding="utf-8")
    assert f"<li>{said}</li>" in (tmp_path / "html").read_text(encoding="utf-8")
    assert json.loads((tmp_path / "sarif").read_text(encoding="utf-8"))["version"] == "2.1.0"
    assert " in part: " in json.loads((tmp_path / "badge").read_text(encoding="utf-8"))["message"]


def test_junit_fails_where_the_gate_does() -> None:
    report = gate_report()
    root = Xml.fromstring(render(report, "junit").encode())
    cases = root.findall(".//testcase")
    assert int(root.get("tests", "")) == len(cases) == len(report["coverage"]["cells"]) + 1, (
        "a crash on a forbidden call"
    )
    assert root.get("errors") == "0"
    failures = "\n".join(failure.text or "" for failure in root.iter("failure"))
    assert int(root.get("failures", "")) == len(list(root.iter("failure"))) > 0
    for finding in report["findings"]:
        assert (finding["id"] in failures) == (finding["id"] in report["gate"]["failing"]), finding["verdict"]
        if finding["id"] in report["gate"]["failing"]:
            assert replay_line(report, finding) in failures
    allowed = gate_report()
    mine = finding_of(allowed, "violation")["id"]
    allowed["gate"]["failing"].remove(mine)
    assert mine not in render(allowed, "junit"), "the gate was told to let it pass"
    where = [case.get("name", "") for case in cases if case.find("failure") is not None]
    assert sum("int32" in name for name in where) == 3
    hostile = hostile_gate_report()
    root = Xml.fromstring(render(hostile, "junit").encode())
    assert any("<script>" in (failure.text or "") for failure in root.iter("failure"))


def test_junit_shows_a_gate_that_could_not_do_its_work_as_an_error() -> None:
    for cells in (True, False):
        report = gate_report("unable", "it was <interrupted> & \x1b ended")
        if not cells:
            report["coverage"]["cells"] = []
        root = Xml.fromstring(render(report, "junit").encode())
        (error,) = root.iter("error")
        assert (root.get("errors"), root.get("failures")) == ("1", "0")
        assert error.get("message") == "it was <interrupted> &  ended"
        assert int(root.get("tests", "")) == len(root.findall(".//testcase"))
    assert Xml.fromstring(render(gate_report("pass"), "junit").encode()).get("errors") == "0"
    assert "errors" not in Xml.fromstring(render(sample_report(), "junit").encode()).attrib


@pytest.mark.parametrize(
    ("gate", "phases", "step"),
    [
        ({"stopped_early": True}, {}, "the gate stopped at the first fault"),
        ({"outcome": "findings"}, {}, "a gate without faults tests more"),
        ({"walked": False}, {}, "raise --budget to test more"),
        ({}, {"hypothesis": 9}, "the edition allows none, or a larger --budget contains some"),
        ({}, {}, "run the gate without --walk-only to test more"),
    ],
)
def test_the_next_step_fits_the_reason_why_something_was_not_tested(gate, phases, step) -> None:
    report = gate_report()
    report["coverage"]["trust"]["not_met"] = ["rank 4"]
    report["gate"] |= {"outcome": "pass", "walked": True, "stopped_early": False, **gate}
    report["run"]["phases"] = phases
    assert decision.untested_step(report) == step


def test_every_format_says_what_a_decision_covers_and_what_was_not_tested() -> None:
    group = {"cells": 2, "where": "per axis", "missing": "no call was answered"}
    counts = {"allowed_calls": 8630, "answered_calls": 8512, "unsupported_calls": 118, "cells": 9, "lacking": [group]}
    report = gate_report(
        "unable", "cells lack evidence", evidence=counts, refused=["strided x", "rank 5"], scope="ranks 1 to 4"
    )
    report["coverage"]["trust"]["not_met"] = ["rank 4", "layout F", "tails around 16", "NaN scales", "rank 6"]
    covered = "answered 8 512 of 8 630 allowed calls; refused as not implemented: strided x; rank 5"
    lacks = "no evidence in 2 cells (per axis): no call was answered"
    untested = "rank 4, layout F, tails around 16 and 2 more"
    root = Xml.fromstring(render(report, "junit").encode())
    for suite in root.findall("testsuite"):
        properties = {element.get("name"): element.get("value") for element in suite[0]}
        assert properties == {
            "xverify takes": "ranks 1 to 4", "xverify covered": covered, "xverify lacks evidence": lacks,
            "xverify not tested": untested,
        }  # fmt: skip
    log = console(False)
    print_decision(report, log, Path("report.html"))
    lines = text_of(log).splitlines()
    assert {f"  {covered}", f"  {lacks}", f"  not tested: {untested}; {decision.untested_step(report)}"} <= {*lines}
    page = markdown.render(report).splitlines()
    assert {"- takes: ranks 1 to 4", f"- {covered}", f"- {lacks}", f"- not tested: {untested}"} <= {*page}


def test_a_finding_in_no_cell_of_the_report_has_a_case_of_its_own() -> None:
    report = gate_report()
    violation = finding_of(report, "violation")
    violation["subject"]["options"] = "threads"
    root = Xml.fromstring(render(report, "junit").encode())
    (case,) = [case for case in root.iter("testcase") if case.get("name") == violation["id"]]
    assert case.find("failure") is not None


@pytest.mark.parametrize("make", [gate_report, hostile_gate_report])
def test_the_html_is_whole_with_a_decision(make: Any) -> None:
    page = Page(render(make(), "html"))
    assert (page.open, page.stray) == ([], [])
    identities = Counter(attributes["id"] for _, attributes in page.tags if "id" in attributes)
    assert set(identities.values()) == {1}
    targets = {attributes["href"][1:] for tag, attributes in page.tags if tag == "a" and attributes["href"]}
    assert {target for target in targets if "=" not in target} <= set(identities)
    assert not {"img", "iframe"} & {tag for tag, _ in page.tags}
    assert len(page.scripts) == 1


def test_the_html_begins_with_the_decision_and_marks_findings() -> None:
    report = gate_report("findings", "the budget ended")
    for cell in report["coverage"]["cells"]:
        if cell["granularity"] == "blocked":
            cell["status"] = "unsupported"
    text = " ".join(" ".join(Page(render(report, "html")).text).split())
    top, rest = text.split("Causes One entry", 1)
    for said in (
        f"FAIL {KERNEL}",
        "2 new findings (1 crash, 1 violation), 1 expired, 1 changed, 1 known",
        "Also: the budget ended",
        "blocked-int8 has expired",
        "writes-input",
        "old-one did not come up any more",
        "Unsupported blocked",
        *(replay_line(report, cause.first) for cause in decision.failing_causes(report)),
        *(sentence(cause) for cause in decision.failing_causes(report)),
    ):
        assert said in top, said
    for verdict, mark in (("violation", "new"), ("memory", "known"), ("wrongly-rejected", "expired")):
        assert f"{finding_of(report, verdict)['summary']} {mark}" in rest, verdict
    assert "· known as writes-input" in rest
    assert "PASS" in "".join(Page(render(gate_report("pass"), "html")).text)
    assert 'class="decision' not in render(sample_report(), "html")


def test_the_schema_describes_the_decision() -> None:
    for report in (gate_report(), gate_report("unable", "why"), hostile_gate_report()):
        check(report)
        jsonschema.validate(report, schema())
    for change in (
        {"outcome": "fine"},
        {"failing": "all"},
        {"calls": -1},
        {"first_verdict_seconds": "soon"},
        {"stale": [1]},
    ):
        with pytest.raises(ValueError, match=r"the report is damaged: .*gate"):
            check(gate_report(**change))
    report = gate_report()
    del report["gate"]["reason"]
    with pytest.raises(ValueError, match="gate has no 'reason'"):
        check(report)
