"""The text that a gate prints for people and CI services. No text of a kernel can become a command."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from gate_readers import AZURE, GITHUB, READERS, azure, console, github, teamcity, text_of
from sample_gate import KERNEL, LINE, finding_of, gate_report, hostile_gate_report, many_crashes
from sample_report import ONNX

from xverify.cli.replay import replay
from xverify.gate.annotations import MOST, annotation_lines
from xverify.gate.terminal import MOST_CAUSES, announce
from xverify.report import decision
from xverify.report.causes import sentence
from xverify.report.decision import replay_line

HTML = Path("reports/runs/20260803-141502-7f3a/report.html")


def announced(report: dict[str, Any], terminal: bool = False, environment: dict[str, str] | None = None) -> str:
    made = console(terminal)
    announce(report, made, HTML, environment or {})
    return text_of(made)


# -- the line to paste -------------------------------------------------------------------------------------------------


def parsed(command: str) -> dict[str, Any]:
    """Parse a command line of `xverify replay`, as a shell splits it."""
    program, name, *words = shlex.split(command)
    assert (program, name) == ("xverify", "replay")
    context = replay.make_context("replay", words)
    return {key: value for key, value in context.params.items() if value not in (None, "", (), False)}


def test_the_line_is_what_replay_takes() -> None:
    report = gate_report()
    given = {"finding": LINE, "target": KERNEL, "denormals": "keep"}
    assert parsed(replay_line(report, finding_of(report, "crash"))) == {**given, "was": "crash"}
    violation = finding_of(report, "violation")
    assert parsed(replay_line(report, violation))["was"] == "violation:wraps-int32@exact,a+b"
    on_threads = {**violation, "subject": {**violation["subject"], "options": "threads"}}
    assert parsed(replay_line(report, on_threads))["threads"]
    report["gate"]["strict"] = True
    assert parsed(replay_line(report, violation))["strict"]
    report["gate"]["strict"] = False
    report["gate"] |= {"denormals": "flush", "like": "onnxruntime", "contract_files": ["mine.py", "a b.py"]}
    report["gate"]["target"] = "dir with 'quotes' $(rm)/k.py:f"
    assert parsed(replay_line(report, violation)) == {
        "finding": LINE,
        "target": report["gate"]["target"],
        "denormals": "flush",
        "like_name": "onnxruntime",
        "files": ("mine.py", "a b.py"),
        "was": "violation:wraps-int32@exact,a+b",
    }


def test_a_call_that_no_line_holds_is_replayed_by_its_id() -> None:
    report = gate_report()
    crash = finding_of(report, "crash")
    by_id = {"finding": crash["id"], "run": report["run"]["id"], "target": KERNEL, "denormals": "keep"}
    for line, most in (("", 2_000), ("x" * 2_001, 2_000), ("x" * 200_000, 100_000)):
        assert parsed(replay_line(report, {**crash, "line": line}, most=most)) == by_id
    assert parsed(replay_line(report, {**crash, "line": ""}, "some/run"))["run"] == "some/run"
    assert parsed(replay_line(report, {**crash, "line": "x" * 2_000}, most=2_000))["finding"] == "x" * 2_000


# -- terminals and logs ------------------------------------------------------------------------------------------------


def test_a_log_has_each_new_finding_with_what_came_what_was_due_and_its_line() -> None:
    report = gate_report()
    lines = announced(report).splitlines()
    for verdict in ("violation", "crash", "wrongly-rejected", "nondeterministic"):
        assert f"  {replay_line(report, finding_of(report, verdict))}" in lines
    at = lines.index(f"violation  {finding_of(report, 'violation')['id']}")
    block = lines[at : lines.index("", at)]
    for said in (
        "where   |x - zero point| >= 2^31",
        "int32[1] -2147483648 (0x80000000); scale float32[] 1.0 (0x3f800000)",
        "at [0] gives 2147483648.0 (0x4f000000); legal: -2147483648.0 (0xcf000000)",
        "412 calls, 88 204 values, 3 cells",
        f"({ONNX}/formula)",
    ):
        assert any(said in line for line in block), said
    heads = [line.split("  ")[0] for line in lines if re.match(r"[a-z ]+  [a-z-]+-[0-9a-f]{10}$", line)]
    assert heads == ["crash", "violation", "nondeterministic", "wrongly rejected"], "the worst first"
    assert any("blocked-int8 has expired" in line for line in lines)
    assert any("threads covers these calls, but another recipe now gives their values" in line for line in lines)


def test_the_log_says_what_is_known_stale_and_to_be_done_and_ends_with_the_verdict() -> None:
    report = gate_report()
    *lines, last = announced(report).splitlines()
    (known,) = [line for line in lines if "known as writes-input" in line]
    assert finding_of(report, "memory")["summary"] in known
    assert any("stale: old-one" in line for line in lines)
    assert "  xverify ledger prune" in lines
    assert any("no failure: ambiguity" in line for line in lines)
    first = finding_of(report, "crash")["id"]
    assert f"  xverify ledger accept {first} --reason TEXT --owner NAME --expires 90d" in lines
    assert f"report: {HTML}" in lines
    counts = "2 new findings (1 crash, 1 violation), 1 expired, 1 changed, 1 known"
    numbers = f"{ONNX}, 12 345 calls, 1.9M values in 18 cells, 67.2 s; first verdict after 0.9 s"
    assert last == f"FAIL {KERNEL}: {counts}; {numbers}"


def test_commands_name_the_run_and_the_ledger_where_they_are_not_the_usual_ones() -> None:
    report = gate_report(ledger="other.toml")
    report["findings"][0]["line"] = ""
    made = console()
    announce(report, made, Path("/somewhere/runs/one/report.html"), {})
    text = text_of(made)
    assert "--run /somewhere/runs/one --ledger other.toml --reason" in text
    assert "xverify ledger prune --run /somewhere/runs/one --ledger other.toml\n" in text
    assert f"xverify replay {report['findings'][0]['id']} --run /somewhere/runs/one --kernel" in text


def test_pass_and_unable_are_a_few_calm_lines() -> None:
    *lines, last = announced(gate_report("pass")).splitlines()
    assert last.startswith(f"PASS {KERNEL}: {ONNX}, 12 345 calls, ")
    assert not any("replay" in line or "accept" in line for line in lines)
    *_, last = announced(gate_report("unable", f"{KERNEL} could not be run: no module", calls=0)).splitlines()
    assert last == f"UNABLE {KERNEL} could not be run: no module"
    *_, last = announced(gate_report("unable", "the budget ended", calls=7)).splitlines()
    assert last.startswith(f"UNABLE {KERNEL}: the budget ended; {ONNX}, 7 calls")
    failed = announced(gate_report("findings", "the budget ended"))
    assert "also: the budget ended" in failed


def test_a_terminal_is_not_flooded_and_its_lines_are_folded_but_for_those_to_paste() -> None:
    report = many_crashes(gate_report(), MOST_CAUSES + 3)
    shown, logged = announced(report, terminal=True), announced(report)
    assert (shown.count("crash  crash-"), logged.count("crash  crash-")) == (MOST_CAUSES, MOST_CAUSES + 3)
    assert logged.count("xverify replay ") == MOST_CAUSES + 3
    assert shown.count("xverify replay ") == 2, "of the first cause, and how to repeat another"
    assert "3 more in report.html" in shown
    assert "more in" not in logged
    for line in shown.splitlines():
        assert len(line) <= 100 or line.startswith("  xverify "), line
    assert any(len(line) > 100 for line in announced(gate_report(), terminal=True).splitlines()), "not folded"


@pytest.mark.parametrize("terminal", [True, False])
def test_no_text_of_a_kernel_is_a_command(terminal: bool) -> None:
    text = announced(hostile_gate_report(), terminal)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e]", text)
    assert "##" not in text
    assert not any(line.lstrip().startswith("::") for line in text.splitlines()), "GitHub trims lines"
    assert not re.search(r"(?<!\S)::", text), "also where a line is folded"
    assert "# #vso[task.setvariable" in text, "it is shown all the same"


def test_what_is_unsupported_is_said_by_what_explains_it() -> None:
    report = gate_report("pass")
    cells = report["coverage"]["cells"]
    for cell in cells:
        unsupported = cell["granularity"] == "blocked" or cell["x_dtype"] in ("int16", "uint4")
        cell["status"] = "unsupported" if unsupported else "agrees"
    blocked = next(cell for cell in cells if cell["granularity"] == "blocked")
    cells.append({**blocked, "variant": "open", "status": "unspecified"})
    cells.append({**blocked, "scale_dtype": "float16"})
    cells.append({**blocked, "subject": "onnxruntime", "status": "agrees"})
    assert decision.unsupported(report) == ["x of int16, uint4", "blocked"]
    assert "  refused as not implemented: x of int16, uint4; blocked" in announced(report).splitlines()
    odd = next(cell for cell in cells if (cell["x_dtype"], cell["granularity"]) == ("int32", "per_axis"))
    odd["status"] = "unsupported"
    besides = "1 cell besides, such as int32 * float32 -> float32, per axis"
    assert decision.unsupported(report) == ["x of int16, uint4", "blocked", besides]
    cells.append({**odd, "subject": f"{KERNEL}[threads]", "status": "agrees"})
    assert besides not in decision.unsupported(report), "one of its paths answers"
    for cell in cells:
        cell["status"] = "unsupported"
    assert decision.unsupported(report) == ["every call that was made"]


# -- annotations -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [gate_report, hostile_gate_report])
@pytest.mark.parametrize(("environment", "read"), READERS)
def test_each_failing_finding_is_an_annotation(environment: dict[str, str], read: Any, make: Any) -> None:
    report = make()
    lines = annotation_lines(report, environment)
    assert len(lines) == len(report["gate"]["failing"]) == 4
    for line, cause in zip(lines, decision.failing_causes(report), strict=True):
        finding = cause.first
        assert len((line + "\n").splitlines()) == 1
        level, _, message = read(line)
        assert level == "error"
        assert replay_line(report, finding) in message
        assert decision.plain(sentence(cause))[:200] in message
    assert announced(report, environment=environment).startswith("\n".join(lines) + "\n")


def test_an_annotation_says_where_the_kernel_is(tmp_path: Path) -> None:
    report = gate_report()
    _, properties, _ = github(annotation_lines(report, GITHUB)[0])
    assert properties == {"file": "kernels/mine.py", "title": "xverify: crash"}
    file = tmp_path / "a,b:c%;].py"
    file.write_text("import math\n\n\ndef dequantizer(): ...\n\n\ndef dequantize(x): ...\n", encoding="utf-8")
    report["gate"]["target"] = f"{file}:dequantize"
    _, properties, _ = github(annotation_lines(report, GITHUB)[0])
    assert properties == {"file": str(file), "line": "7", "title": "xverify: crash"}
    _, properties, _ = azure(annotation_lines(report, AZURE)[0])
    assert properties == {"sourcepath": os.path.abspath(file), "linenumber": "7"}
    for target in ("package.module:function", "build/lib.so:symbol", "xverify-numpy"):
        report["gate"]["target"] = target
        assert "file" not in github(annotation_lines(report, GITHUB)[0])[1]


@pytest.mark.parametrize(("environment", "read"), READERS)
def test_many_causes_are_ten_annotations_and_their_number(environment: dict[str, str], read: Any) -> None:
    report = many_crashes(gate_report(), MOST + 4, summary="a's " * 3_000)
    read_lines = [read(line) for line in annotation_lines(report, environment)]
    assert [level for level, _, _ in read_lines] == ["error"] * MOST + ["warning"]
    assert "and 4 more causes" in read_lines[-1][2]
    if read is teamcity:
        identities = {properties["identity"] for _, properties, _ in read_lines[:-1]}
        assert len(identities) == MOST
        assert all(re.fullmatch("[A-Za-z][A-Za-z0-9_]{0,59}", identity) for identity in identities)
        assert all(len(line) < 4_200 for line in annotation_lines(report, environment))


@pytest.mark.parametrize(("environment", "read"), READERS)
def test_a_gate_that_could_not_work_is_one_annotation(environment: dict[str, str], read: Any) -> None:
    (line,) = annotation_lines(gate_report("unable", "the kernel answered\nno call é"), environment)
    level, _, message = read(line)
    assert level == "error"
    assert "the kernel answered no call é" in message


def test_nothing_is_annotated_elsewhere_or_where_all_is_well() -> None:
    for environment in ({}, {"GITHUB_ACTIONS": ""}, {"GITHUB_ACTIONS": "false"}, {"GITLAB_CI": "true"}, {"CI": "true"}):
        assert annotation_lines(gate_report(), environment) == []
    assert annotation_lines(gate_report("pass"), GITHUB) == []
