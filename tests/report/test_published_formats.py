"""Published reports: causes worst first in few lines, and the support of editions in shares."""

from __future__ import annotations

import copy
from typing import Any

from sample_report import sample_report

from xverify.core.severity import Severity
from xverify.report import render
from xverify.report.causes import causes
from xverify.report.formats import findings
from xverify.report.formats.conformance import supports

EDITION = "ai.onnx/DequantizeLinear-21"


def test_every_cause_is_listed_with_the_command_that_asks_again() -> None:
    report = sample_report()
    lines = render(report, "findings").splitlines()
    assert [f"  `xverify replay {cause.id}`" in lines for cause in causes(report)] == [True] * len(report["causes"])
    (row,) = [line for line in lines if line.startswith("| onnxruntime |")]
    assert row.split("|")[2] == " 1.27.0 "
    counts = [sum(cause.severity == severity for cause in causes(report)) for severity in Severity]
    columns = [line.split("|")[3:-1] for line in lines if line.startswith("| ") and "---" not in line][1:]
    assert [sum(int(row[i].strip() or 0) for row in columns) for i in range(len(Severity))] == counts


def test_texts_come_last_and_have_no_release() -> None:
    headings = [line for line in render(sample_report(), "findings").splitlines() if line.startswith("## ")]
    assert headings[-1] == "## The texts"
    assert "## onnxruntime 1.27.0" in headings


def many(copies: int) -> Any:
    """Return a report with copies of each cause."""
    report = sample_report()
    own = report["causes"]
    report["causes"] = [{**copy.deepcopy(cause), "id": f"{cause['id']}-{i}"} for cause in own for i in range(copies)]
    return report


def test_what_is_less_severe_gets_one_line_if_there_are_many_causes() -> None:
    report = many(30)
    lines = render(report, "findings").splitlines()
    assert len(lines) <= findings.MOST_LINES
    assert f"  `xverify replay {report['causes'][0]['id']}`" in lines
    assert f"  `xverify replay {report['causes'][-1]['id']}`" not in lines
    assert sum(f"(`{report['causes'][-1]['id']}`)" in line for line in lines) == 1
    assert len(render(many(200), "findings").splitlines()) == findings.MOST_LINES


def test_editions_of_one_operator_are_listed_once() -> None:
    named = ["onnx/A-1", "onnx/A-13", "onednn/B-1@3.0", "onednn/B-1@3.5"]
    assert findings.editions_in_words(named) == "`onnx/A-1`, `-13`, `onednn/B-1@3.0`, `-1@3.5`"


# -- the support of editions --------------------------------------------------------------------------------


def cell(subject: str, x_dtype: str, status: str) -> dict[str, Any]:
    types = {"scale_dtype": "float32", "zero_point_dtype": "", "out_dtype": "float32"}
    return {"contract": EDITION, "x_dtype": x_dtype, **types, "granularity": "per_tensor", "variant": "",
            "subject": subject, "status": status, "cases": 1, "values": 1}  # fmt: skip


def words(*statuses: tuple[str, str]) -> str:
    """Return the words for an implementation, from the path and the status of each of its cells."""
    types = ("uint8", "int8", "int4", "int2")
    cells = [cell(f"a{path}", types[i], status) for i, (path, status) in enumerate(statuses)]
    report = {"run": {"workers": [{"name": "a"}]}, "coverage": {"cells": cells}}
    return supports(report)[EDITION, "a"].words


def test_support_is_full_partial_or_none() -> None:
    right, absent = ("", "agrees"), ("", "unsupported")
    assert words(right, ("", "mixed"), ("", "ambiguous")) == "fully"
    assert words(absent, absent) == "no"
    assert words(right, absent, ("", "wrongly-rejected"), ("", "violation")) == "25 % (refuses 50 %, differs in 25 %)"
    assert words(absent, ("", "crash")) == "0 % (refuses 50 %, differs in 50 %)"


def test_the_worst_path_counts_and_what_is_left_open_does_not() -> None:
    cells = [
        cell("a", "int8", "agrees"),
        cell("a[graph]", "int8", "unsupported"),
        cell("a", "int4", "agrees"),
        cell("a[graph]", "int4", "violation"),
        cell("a", "int2", "crash"),
        cell("xverify-numpy", "int2", "unspecified"),
    ]
    report = {"run": {"workers": [{"name": "a"}, {"name": "xverify-numpy"}]}, "coverage": {"cells": cells}}
    assert {name: support.words for (_, name), support in supports(report).items()} == {"a": "50 % (differs in 50 %)"}


def test_a_table_has_the_release_and_gaps_have_their_message() -> None:
    report = sample_report()
    refusal = {"error": "E", "message": "no int4 here", "all": True}
    for entry in report["coverage"]["cells"]:
        if entry["subject"] == "onnx-reference" and entry["status"] == "unsupported":
            entry["refusal"] = refusal
    shown = render(report, "conformance")
    assert "onnxruntime (1.27.0)" in shown
    assert f"- onnx-reference answers no call of x uint4 in `{EDITION}` (E: no int4 here)" in shown
