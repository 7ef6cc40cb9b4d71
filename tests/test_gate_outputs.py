"""What a gate prints and writes: for people, for CI services, and nothing that a kernel's text could turn into a command."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import jsonschema
import pytest
from click.testing import CliRunner
from rich.console import Console
from sample_gate import KERNEL, LINE, finding_of, gate_report, hostile_gate_report
from sample_report import ONNX, sample_report
from test_report_html import Page

from xverify.cli.gate import gate
from xverify.cli.replay import replay
from xverify.engine import events, select
from xverify.gate import markdown
from xverify.gate.annotations import MOST, SERVICES, annotation_lines
from xverify.gate.ledger import Condition, Entry, Ledger, Recipes
from xverify.gate.outputs import announce, append_markdown, print_ledger
from xverify.gate.terminal import MOST_FINDINGS
from xverify.report import check, decision, render
from xverify.report.check import schema
from xverify.report.console import ConsoleProgress
from xverify.report.markdown import text as marked
from xverify.report.replay_line import replay_line

HTML = Path("reports/runs/20260803-141502-7f3a/report.html")
GITHUB, AZURE, TEAMCITY = ({variable: "true"} for _, variable, _ in SERVICES)


def console(terminal: bool = False, width: int = 100) -> Console:
    return Console(file=io.StringIO(), width=width, force_terminal=terminal, color_system=None)


def text_of(made: Console) -> str:
    assert isinstance(made.file, io.StringIO)
    return made.file.getvalue()


def announced(report: dict[str, Any], terminal: bool = False, environment: dict[str, str] | None = None) -> str:
    made = console(terminal)
    announce(report, made, HTML, environment or {})
    return text_of(made)


# -- the line to paste -------------------------------------------------------------------------------------------------


def parsed(command: str) -> dict[str, Any]:
    """What `xverify replay` makes of a command, as a shell hands it over."""
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
    assert any("blocked-int8 is expired" in line for line in lines)
    assert any("threads is about these calls, but what gives the values has changed" in line for line in lines)


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
    assert "besides: the budget ended" in failed


def test_a_terminal_is_not_flooded_and_its_lines_are_folded_but_for_those_to_paste() -> None:
    report = gate_report()
    crash = finding_of(report, "crash")
    many = [{**crash, "id": f"crash-{number:010x}"} for number in range(MOST_FINDINGS + 3)]
    report["findings"], report["gate"]["failing"] = many, [finding["id"] for finding in many]
    shown, logged = announced(report, terminal=True), announced(report)
    assert (shown.count("xverify replay "), logged.count("xverify replay ")) == (MOST_FINDINGS, MOST_FINDINGS + 3)
    assert "and 3 more new findings, in the report" in shown
    assert "more new findings" not in logged
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
    assert "  unsupported: x of int16, uint4; blocked" in announced(report).splitlines()
    odd = next(cell for cell in cells if (cell["x_dtype"], cell["granularity"]) == ("int32", "per_axis"))
    odd["status"] = "unsupported"
    besides = "1 cell besides, such as int32 * float32 -> float32, per axis"
    assert decision.unsupported(report) == ["x of int16, uint4", "blocked", besides]
    cells.append({**odd, "subject": f"{KERNEL}[threads]", "status": "agrees"})
    assert besides not in decision.unsupported(report), "one of its paths answers"
    for cell in cells:
        cell["status"] = "unsupported"
    assert decision.unsupported(report) == ["everything that was asked"]


# -- annotations -------------------------------------------------------------------------------------------------------


def github(line: str) -> tuple[str, dict[str, str], str]:
    """A command as GitHub's runner reads it."""
    found = re.fullmatch("::([a-z]+) ([^:]*)::(.*)", line)
    assert found, line
    properties = dict(part.split("=", 1) for part in found[2].split(","))
    decoded = {k: v.replace("%3A", ":").replace("%2C", ",").replace("%25", "%") for k, v in properties.items()}
    return found[1], decoded, found[3].replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")


def azure(line: str) -> tuple[str, dict[str, str], str]:
    """A command as Azure's agent reads it: from the first prefix to the first bracket."""
    found = re.fullmatch(r"##vso\[task\.logissue ([^\]]*)\](.*)", line)
    assert found, line
    properties = dict(part.split("=", 1) for part in found[1].rstrip(";").split(";"))
    decoded = {k: v.replace("%3B", ";").replace("%5D", "]").replace("%AZP25", "%") for k, v in properties.items()}
    return decoded.pop("type"), decoded, found[2].replace("%0D", "\r").replace("%0A", "\n").replace("%AZP25", "%")


def teamcity(line: str) -> tuple[str, dict[str, str], str]:
    """A message as TeamCity reads it."""
    value = r"'((?:[^'|\[\]\n\r]|\|0x[0-9A-F]{4}|\|[nrx'|\[\]])*)'"
    found = re.fullmatch(rf"##teamcity\[(buildProblem) description={value} identity={value}\]", line) or re.fullmatch(
        rf"##teamcity\[(message) text={value} status='(WARNING)'\]", line
    )
    assert found, line
    plain = re.sub(
        r"\|(0x[0-9A-F]{4}|.)",
        lambda m: chr(int(m[1], 16)) if m[1][0] == "0" else {"n": "\n"}.get(m[1], m[1]),
        found[2],
    )
    level = "error" if found[1] == "buildProblem" else "warning"
    return level, {"identity": found[3]}, plain


READERS = [(GITHUB, github), (AZURE, azure), (TEAMCITY, teamcity)]


@pytest.mark.parametrize("make", [gate_report, hostile_gate_report])
@pytest.mark.parametrize(("environment", "read"), READERS)
def test_each_failing_finding_is_an_annotation(environment: dict[str, str], read: Any, make: Any) -> None:
    report = make()
    lines = annotation_lines(report, environment)
    assert len(lines) == len(report["gate"]["failing"]) == 4
    for line, finding in zip(lines, decision.failing(report), strict=True):
        assert len((line + "\n").splitlines()) == 1
        level, _, message = read(line)
        assert level == "error"
        assert replay_line(report, finding) in message
        assert decision.plain(finding["summary"])[:200] in message
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
def test_many_findings_are_ten_annotations_and_their_number(environment: dict[str, str], read: Any) -> None:
    report = gate_report()
    crash = finding_of(report, "crash")
    many = [{**crash, "id": f"crash-{number:010x}", "summary": "a's " * 3_000} for number in range(MOST + 4)]
    report["findings"], report["gate"]["failing"] = many, [finding["id"] for finding in many]
    read_lines = [read(line) for line in annotation_lines(report, environment)]
    assert [level for level, _, _ in read_lines] == ["error"] * MOST + ["warning"]
    assert "and 4 more findings" in read_lines[-1][2]
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


# -- files -------------------------------------------------------------------------------------------------------------


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
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}
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


def test_what_is_left_out_is_in_the_summary_and_the_html() -> None:
    report = gate_report("pass")
    report["run"]["left_out"] = list(LEFT_OUT[1:])
    check(report)
    assert f"\n- {LEFT_OUT[1]}\n" in markdown.render(report)
    alone = render(report, "html")
    assert f'<p class="banner">{LEFT_OUT[1]}</p>' in alone
    report["run"]["left_out"] = list(LEFT_OUT)
    assert "\n- some/Edition-1 is left out: \\*no\\* \\<b\\>document" in markdown.render(report)
    page = Page(render(report, "html"))
    assert (page.open, page.stray) == ([], [])
    banners = [attributes for _, attributes in page.tags if attributes.get("class") == "banner"]
    assert banners == [{"class": "banner", "open": None}], "one block for all of them"
    assert all(sentence in "".join(page.text) for sentence in LEFT_OUT)


def test_a_gate_reports_which_editions_were_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    multiply, divide = (f"onednn/DynamicDequantize-1@{name}" for name in ("multiply", "divide"))
    real = select.contracts.get

    def unreadable(identity: str) -> Any:
        if identity == divide:
            raise select.contracts.DocumentError("it is on paper")
        return real(identity)

    monkeypatch.setattr(select.contracts, "get", unreadable)
    files = [f"--{kind}={tmp_path / kind}" for kind in ("json", "html", "markdown")]
    named = ["--contract", multiply, "--contract", divide, "--x-dtypes", "int8", "--granularity", "per_tensor"]
    made = CliRunner().invoke(gate, [*named, "--walk-only", "--budget", "1s", "--runs", str(tmp_path), *files])
    said = f"{divide} is left out: it is on paper"
    assert f"xverify: {said}" in made.output
    report = json.loads((tmp_path / "json").read_text(encoding="utf-8"))
    check(report)
    assert report["run"]["left_out"] == [said]
    assert f"\n- {marked(said)}\n" in (tmp_path / "markdown").read_text(encoding="utf-8")
    assert f'<p class="banner">{said}</p>' in (tmp_path / "html").read_text(encoding="utf-8")


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
    assert targets <= set(identities)
    assert not {"img", "iframe"} & {tag for tag, _ in page.tags}
    assert len(page.scripts) == 1


def test_the_html_begins_with_the_decision_and_marks_findings() -> None:
    report = gate_report("findings", "the budget ended")
    for cell in report["coverage"]["cells"]:
        if cell["granularity"] == "blocked":
            cell["status"] = "unsupported"
    text = " ".join(" ".join(Page(render(report, "html")).text).split())
    top, rest = text.split("What each implementation does", 1)
    for said in (
        f"FAIL {KERNEL}",
        "2 new findings (1 crash, 1 violation), 1 expired, 1 changed, 1 known",
        "Besides: the budget ended",
        "blocked-int8 is expired",
        "writes-input",
        "old-one did not come up any more",
        "Unsupported blocked",
        *(replay_line(report, finding) for finding in decision.failing(report)),
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


# -- progress and the ledger -------------------------------------------------------------------------------------------


def test_the_first_fault_is_said_at_once_to_a_gates_user_and_not_to_a_sweeps() -> None:
    said = [
        events.SweepStarted("one", (ONNX,), (KERNEL, f"{KERNEL}[threads]"), 60.0, None),
        events.FaultSeen(KERNEL, ONNX, "walk structure 9", 0.84),
        events.ShrinkStarted(0),
    ]
    for task, expected in (
        ("gate", [f"gate one: {ONNX}, {KERNEL}", f"fault seen after 0.8 s: {KERNEL} under {ONNX} (walk structure 9)"]),
        ("sweep", [f"sweep one: 1 editions, {KERNEL}", "shrinking 0 findings"]),
    ):
        made = console()
        progress = ConsoleProgress(made, task)
        for event in said:
            progress(event)
        assert text_of(made).splitlines() == expected


def entry(**changes: Any) -> Entry:
    made = {
        "name": "tail",
        "subject": "kernels.py:*",
        "contract": ONNX,
        "verdict": "violation",
        "reason": "until the new [tail] loop",
        "accepted": date(2026, 1, 1),
    }
    return Entry(**{**made, **changes})


def listed(*entries: Entry) -> list[str]:
    made = console()
    print_ledger(Ledger(entries), Path("reports/ledger.toml"), date(2026, 2, 1), made)
    return [" ".join(line.split()) for line in text_of(made).splitlines()]


def test_the_ledger_is_listed_with_state_scope_reason_and_owner() -> None:
    scope = (
        Condition("x_dtype", ("int8", "uint*")),
        Condition("zero_point_dtype", ("",)),
        Condition("rank", (), 2, 7),
        Condition("values", (), 100, None),
        Condition("axis", (), None, 3),
        Condition("block_size", tuple(range(1, 20))),
    )
    lines = listed(
        entry(
            scope=scope, region="y is subnormal", owner="kim", summary="zeros", recipes=Recipes("zeros", "exact"),
            expires=date(2026, 2, 10), clause=f"{ONNX}/formula",
        ),
        entry(name="second", expires=date(2026, 2, 1)),
        entry(name="third"),
    )  # fmt: skip
    in_words = (
        "scope x_dtype int8 or uint*; zero_point_dtype none; rank 2 to 7; values at least 100; axis at most 3; "
        "block_size 1 or 2 or 3 or 4 or 5 or 6 or 7 or 8 or 11 more; where y is subnormal"
    )
    for said in (
        "reports/ledger.toml: 3 known findings, 1 expired",
        "tail active, expires in 9 days (2026-02-10)",
        "what violation: zeros",
        f"of kernels.py:* under {ONNX}",
        f"clause {ONNX}/formula",
        "gives zeros, and exact elsewhere",
        in_words,
        "reason until the new [tail] loop",
        "accepted 2026-01-01 by kim",
        "second expired on 2026-02-01: a gate fails on it",
        "third active, never expires",
        "scope every call",
    ):
        assert said in lines, said


def test_an_empty_ledger_is_said_to_be_empty_and_text_in_one_does_no_harm() -> None:
    assert listed() == ["reports/ledger.toml: no known findings; a gate fails on everything that it finds"]
    (line,) = [line for line in listed(entry(reason="a\n::error::b\x1b[31m##vso[x]")) if line.startswith("reason")]
    assert line == "reason a : :error::b\N{REPLACEMENT CHARACTER}[31m# #vso[x]"
