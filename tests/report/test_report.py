"""The formats of a report: the schema, the content of each format, and escaping."""

from __future__ import annotations

import copy
import io
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import jsonschema
import pytest
from click.testing import CliRunner
from html_pages import section
from rich.console import Console
from sample_report import ONNX, hostile_report, sample_report

from xverify import cli
from xverify.core.verdict import Verdict
from xverify.engine import events
from xverify.report import check, format_names, load, render, summary
from xverify.report.causes import causes
from xverify.report.console import (
    LEAST_CAUSES,
    MOST_CAUSES,
    MOST_LINES_IN_LOG,
    MOST_LINES_IN_TERMINAL,
    ConsoleProgress,
    print_summary,
)
from xverify.report.formats import markdown
from xverify.report.schema import schema
from xverify.verify.causes import causes_of


def test_the_schema_is_one_and_the_sample_follows_it() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    for report in (sample_report(), hostile_report()):
        jsonschema.validate(report, schema())
        check(report)


def test_every_verdict_and_status_is_in_the_schema_and_has_its_order() -> None:
    assert set(schema()["$defs"]["finding"]["properties"]["verdict"]["enum"]) == set(Verdict)
    cells = schema()["properties"]["coverage"]["properties"]["cells"]["items"]["properties"]
    assert set(cells["status"]["enum"]) == set(summary.STATUSES)
    assert {finding["verdict"] for finding in sample_report()["findings"]} == set(Verdict)


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Yield the path to every value of a report, for long lists to the first two entries."""
    found = [path] if path else []
    if isinstance(value, dict):
        return found + [p for name, item in value.items() for p in paths(item, (*path, name))]
    if isinstance(value, list):
        return found + [p for place, item in enumerate(value[:2]) for p in paths(item, (*path, place))]
    return found


def sentence_of(report: object) -> str:
    """Return the complaint of `check`, or nothing."""
    try:
        check(report)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("one_of", [20, pytest.param(1, marks=pytest.mark.slow)])
def test_the_light_check_agrees_with_jsonschema_on_damage(one_of: int) -> None:
    """Each value of the report, or one of 20, is dropped, and replaced by values of other types."""
    report = sample_report()
    report["findings"][0]["ulp_histogram"] = report["findings"][1]["ulp_histogram"]
    report["findings"][0]["followed"] = report["findings"][3]["followed"]
    report["findings"] = report["findings"][:1] + report["findings"][4:5] + report["findings"][9:10]
    report["coverage"]["cells"] = report["coverage"]["cells"][:1]
    report["editions"] = report["editions"][:1]
    validator = jsonschema.Draft202012Validator(schema())
    refused = Counter[bool]()
    for path in paths(report)[::one_of]:
        for damage in ("drop", None, 7, -2, True, "x", [], {}, [3], {"a": 1}):
            changed = copy.deepcopy(report)
            inner = changed
            for step in path[:-1]:
                inner = inner[step]
            if damage == "drop":
                del inner[path[-1]]
            else:
                inner[path[-1]] = damage
            accepted = not sentence_of(changed)
            refused[accepted] += 1
            if path != ("schema",):
                assert accepted == validator.is_valid(changed), (path, damage)
    assert refused[False] > 500 / one_of
    assert refused[True] > 100 / one_of


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[]", "not a report of xverify"),
        ('{"schema": "other/1"}', "its schema is 'other/1'"),
        ('{"schema": "xverify.report/3"}', "its schema is 'xverify.report/3'"),
        ('{"schema": "xverify.report/2"}', "has no 'run'"),
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("\udcff", "is not JSON"),
    ],
)
def test_a_damaged_or_foreign_file_is_refused_with_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ValueError, match=sentence) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_too_large_or_absent_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(sample_report()))
    assert load(path)["run"]["seed"] == 0
    with pytest.raises(ValueError, match="are refused"):
        load(path, limit=1000)
    with pytest.raises(ValueError, match="cannot be read"):
        load(tmp_path / "none.json")


@pytest.mark.parametrize("name", format_names())
@pytest.mark.parametrize(
    "change", ["as it is", "nothing found", "nothing at all", "interrupted", "half a surrogate pair"]
)
def test_every_format_renders(name: str, change: str) -> None:
    report = sample_report()
    if change in ("nothing found", "nothing at all"):
        report["findings"] = []
    if change == "nothing at all":
        report["editions"], report["coverage"]["cells"], report["run"]["workers"] = [], [], []
        report["coverage"]["trust"] = {"met": {}, "not_met": []}
    report["run"]["complete"] = change != "interrupted"
    if change == "half a surrogate pair":
        report["findings"][0]["summary"] = "\ud83d"
    render(report, name).encode("utf-8")


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match="no format 'pdf'"):
        render(sample_report(), "pdf")


NEW = {
    "cells": ("attribution", "remaining"),
    "findings": ("region", "ulp_histogram", "followed"),
    "clauses": ("follow", "depart", "untold"),
}


def test_reports_that_lack_what_was_added_are_read_and_rendered() -> None:
    report = sample_report()
    clauses = [clause for edition in report["editions"] for clause in edition["clauses"]]
    for name, entries in (
        ("cells", report["coverage"]["cells"]),
        ("findings", report["findings"]),
        ("clauses", clauses),
    ):
        for entry in entries:
            for field in NEW[name]:
                entry.pop(field, None)
            if name == "findings" and entry["attribution"]:
                entry["attribution"].pop("elsewhere", None)
    check(report)
    for name in format_names():
        render(report, name)
    page = render(report, "html")
    assert "not followed by onnxruntime" in section(page, f"{ONNX}/formula"), "taken from the findings"
    printed(report)


def printed(report: dict[str, Any], width: int = 80, terminal: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=terminal, color_system=None)
    print_summary(report, console, Path("runs/1/report.html"))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def wide_report(implementations: int = 9, editions: int = 16) -> dict[str, Any]:
    """Return the sample with more implementations and editions.

    Every implementation has other findings in each edition.
    """
    report = copy.deepcopy(sample_report())
    (first,) = [f for f in report["findings"] if f["verdict"] == "violation"][:1]
    cell = next(c for c in report["coverage"]["cells"] if c["subject"] == "onnxruntime")
    worker = next(w for w in report["run"]["workers"] if w["name"] == "onnxruntime")
    report["findings"], report["coverage"]["cells"], report["run"]["workers"] = [], [], []
    edition = next(e for e in report["editions"] if e["id"] == ONNX)
    report["editions"] = [
        {**edition, "id": f"ai.onnx/DequantizeLinear-{number}", "clauses": []} for number in range(editions)
    ]
    for index in range(implementations):
        name = f"implementation-{index}"
        report["run"]["workers"].append({**worker, "name": name, "family": name})
        for number in range(editions):
            contract = f"ai.onnx/DequantizeLinear-{number}"
            report["coverage"]["cells"].append({**cell, "subject": name, "contract": contract})
            subject = {**first["subject"], "name": name, "family": name}
            mistake = {**first["attribution"], "reading": f"mistake-{index}-{number}", "departures": []}
            made = {
                "id": f"violation-{index:04}{number:04}",
                "contract": contract,
                "subject": subject,
                "attribution": mistake,
            }
            # Neighbouring editions differ, so that none shares a row.
            report["findings"] += [{**first, **made}] if (index + number) % 2 else []
    report["causes"] = causes_of(report)
    return report


@pytest.mark.parametrize("width", [80, 100, 200])
@pytest.mark.parametrize("make", [sample_report, wide_report])
def test_the_console_needs_few_lines_at_every_width(make: Callable[[], dict[str, Any]], width: int) -> None:
    report = make()
    report["run"]["left_out"] = [f"a{i} is left out: b{i} is not installed; pip install b{i}" for i in range(5)]
    for terminal in (True, False):
        text = printed(report, width, terminal)
        lines = text.splitlines()
        assert len(lines) <= (MOST_LINES_IN_TERMINAL if terminal else MOST_LINES_IN_LOG)
        assert max(map(len, lines)) <= width or not terminal
        listed = [cause.id for cause in causes(report)]
        shown = [identity for identity in listed if f"{identity}  " in text]
        assert LEAST_CAUSES <= len(shown) <= MOST_CAUSES
        assert shown == listed[: len(shown)], "worst first"
        assert f"and {len(listed) - len(shown)} more cause" in text or len(shown) == len(listed)
        assert "left out, not installed: a0, a1, a2, a3, a4" in text
        assert f"xverify report runs/1 --issue {listed[0]}" in text
        assert f"xverify replay {listed[0]} --run runs/1" in text


def test_the_console_counts_the_worst_causes_of_each_implementation() -> None:
    text = printed(sample_report(), 200, terminal=True)
    header = next(line for line in text.splitlines() if "onnxruntime" in line)
    row = next(line for line in text.splitlines() if line.startswith(ONNX.replace("-21", " 21")))
    assert row[header.index("onnxruntime") :].startswith("1 fatal")
    assert "1 zero point 1 becomes 2.1475e+09 instead of -2.1475e+09" in printed(sample_report()).replace(",", "")
    assert "not tested: rank 6" in text


def test_a_sweep_without_a_difference_says_so() -> None:
    report = copy.deepcopy(sample_report())
    report["findings"] = report["causes"] = []
    assert "no cause of a difference was found" in printed(report)


def test_the_console_takes_markup_in_text_as_text() -> None:
    assert "[bold]" in printed(hostile_report(), 300)


def test_junit_has_a_case_for_each_cell_and_fails_where_an_implementation_is_at_fault() -> None:
    report = sample_report()
    report["findings"][0]["summary"] += "\x00\x1b[31m\ufffe"
    root = Xml.fromstring(render(report, "junit").encode())
    outside = [f for f in report["findings"] if not f["cells"] and not summary.on_texts(f)]
    assert (
        int(root.get("tests", ""))
        == len(root.findall(".//testcase"))
        == len(report["coverage"]["cells"]) + len(outside)
    )
    suite = next(s for s in root if s.get("name") == f"{ONNX} onnxruntime")
    failing = {case.get("name"): case.find("failure") for case in suite if case.find("failure") is not None}
    assert sum("int32" in str(name) for name in failing) == 3
    assert not any("float8" in str(name) for name in failing)
    assert any("[31m" in (case.text or "") for case in failing.values() if case is not None)


def test_junit_does_not_fail_for_texts_and_known_findings() -> None:
    report = sample_report()
    for finding in report["findings"]:
        finding["known"] = not summary.on_texts(finding)
    assert Xml.fromstring(render(report, "junit").encode()).get("failures") == "0"


def test_markdown_shows_text_as_text() -> None:
    text = render(hostile_report(), "markdown")
    outside = "".join(part for i, part in enumerate(text.split("`")) if i % 2 == 0)
    assert "<script>" not in outside.replace("\\<", "")
    assert "| x" in render(sample_report(), "markdown")


@pytest.mark.parametrize(
    ("machine", "line"),
    [
        ({"system": "Linux", "architecture": "x86_64", "processor": "A_1", "instructions": "avx2 fma", "cores": 2},
         "Machine: Linux x86\\_64, A\\_1, with avx2 fma."),
        ({"system": "Darwin", "architecture": "arm64", "cores": 8}, "Machine: Darwin arm64."),
        ({"processor": "A"}, "Machine: A."),
    ],
)  # fmt: skip
def test_markdown_says_on_which_machine(machine: dict[str, Any], line: str) -> None:
    report = sample_report()
    report["run"]["machine"] = machine
    assert line in render(report, "markdown").splitlines()


def test_markdown_says_no_machine_where_the_report_says_none() -> None:
    report = sample_report()
    report["run"]["machine"] = {}
    assert "Machine:" not in render(report, "markdown")


def test_markdown_lists_clauses_recipes_and_regions() -> None:
    report = sample_report()
    text = render(report, "markdown")
    identity = report["findings"][0]["id"]
    assert (
        f"- `formula`: tested by 21 400 calls; followed by xverify-numpy; not by onnxruntime (`{identity}`); "
        "unknown: onnx-reference (not told apart)"
    ) in text
    assert "- `subnormal`: **untested**" in text
    assert "Where: `|x - zero point| >= 2^31`." in text
    assert (
        "- onnxruntime: subtracts in int32 with wrap-around (312 000 values in 3 cells; the text does not admit it)"
        in text
    )
    assert "1: 80 000 values, 2 to 3: 8 203 values, NaN: 1 value" in text
    assert "follows onednn/DynamicDequantize-1@<!-- -->multiply on 1 204 of 1 204 values" in text


@pytest.mark.parametrize(
    ("line", "shown"),
    [("- item", "\\- item"), ("1. item", "1\\. item"), ("# head", "\\# head"), ("---", "\\---"), ("-2.5", "-2.5"),
     ("a @person", "a @<!-- -->person"), ("see #12", "see \\#<!-- -->12"), ("+ item", "\\+ item"), ("1.5", "1.5")],
)  # fmt: skip
def test_markdown_text_starts_no_list_and_mentions_no_user(line: str, shown: str) -> None:
    assert markdown.text(line) == shown


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"schema": "xverify.report/3"}, "a report of another version of xverify"),
        ({"schema": "xverify.report/20.1"}, "a report of another version of xverify"),
        ({"schema": "xverify.reports/1"}, "not a report of xverify"),
        ({"schema": None}, "not a report of xverify"),
        ({"schema": ["xverify.report/2"]}, "not a report of xverify"),
    ],
)
@pytest.mark.parametrize("command", [["report", "--format", "html", "-o"], ["replay"]])
def test_a_report_of_another_version_is_one_sentence_and_nothing_is_overwritten(
    tmp_path: Path, command: list[str], change: dict[str, Any], sentence: str
) -> None:
    other, out = tmp_path / "other.json", tmp_path / "out.html"
    other.write_text(json.dumps({**sample_report(), **change}))
    out.write_text("what was there")
    before = other.read_bytes()
    words = [command[0], str(other), *command[1:], *([str(out)] if command[0] == "report" else [])]
    result = CliRunner().invoke(cli.main, words)
    assert result.exit_code == 2
    assert result.output.count("\n") == 1, result.output
    for part in (sentence, "'xverify.report/2'", "make"):
        assert part in result.output
    assert (out.read_text(), other.read_bytes()) == ("what was there", before)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.json", "out.html"]


def test_a_report_is_not_written_over_by_its_own_html(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(sample_report()))
    result = CliRunner().invoke(cli.main, ["report", str(path), "-o", str(path)])
    assert (result.exit_code, "would overwrite the report" in result.output) == (2, True)
    assert load(path)["run"]["seed"] == 0


EVENTS: list[events.Event] = [
    events.SweepStarted("run-1", (ONNX,), ("onnxruntime", "onnxruntime[initializers]"), 60.0, None),
    events.WorkerReady("onnxruntime", "1.27.0"),
    events.WorkerFailed("openvino", "openvino cannot be imported: [no] module"),
    events.Progressed("walk", 1000, 2_000_000, 1, 12.0),
    events.FindingFound("violation-1", "violation", "onnxruntime", ONNX, "a summary"),
    events.Progressed("hypothesis", 9000, 5_000_000, 1, 14.0),
    events.ShrinkStarted(1),
    events.FindingShrunk("violation-1", 212, True),
    events.SweepFinished(Path("report.json")),
]


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("last", range(1, len(EVENTS) + 1))
def test_progress_takes_every_event_and_can_be_closed_at_any_time(terminal: bool, last: int) -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=terminal)
    progress = ConsoleProgress(console)
    for event in EVENTS[:last]:
        progress(event)
    progress.close()
    progress.close()
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    if terminal:
        assert text.count("\x1b[?25l") == text.count("\x1b[?25h"), "the cursor is shown again"
    elif last == len(EVENTS):
        assert "\x1b" not in text
        assert text.splitlines() == [
            "sweep run-1: 1 edition, onnxruntime",
            "openvino cannot be imported: [no] module",
            "ready: onnxruntime 1.27.0",
            "12 s walk: 1 000 calls, 2.0M values, 1 finding",
            "shrinking 1 finding",
        ]


def test_memory_layouts_of_a_witness() -> None:
    finding = {
        "witness": {"call": {"tensors": {"x": {"layout": "C"}, "scale": {"layout": "strided"}}}},
        "shrunk": "minimal",
    }
    assert summary.in_memory(finding) == "scale strided; with every operand in C order the fault disappears"
    assert summary.in_memory({**finding, "shrunk": "not reached"}) == "scale strided"
    assert summary.in_memory({"witness": None, "shrunk": "minimal"}) == ""
    assert summary.in_memory({"witness": {"call": {"tensors": {"x": {"layout": "C"}}}}, "shrunk": "minimal"}) == ""
