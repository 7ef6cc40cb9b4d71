"""The commands as a user types them: their output and exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from xverify import cli, contracts
from xverify.cli.sweep import sweep
from xverify.report import load

MULTIPLY = "onednn/DynamicDequantize-1@multiply"
QUICK = ["sweep", "--contract", MULTIPLY, "--oracle", "onednn-formula-multiply"]

FILES = ("json", "html", "junit")


def xverify(*words: object, code: int) -> str:
    """Run a command. Check its exit code and that there is no traceback. Return its output."""
    result = CliRunner().invoke(cli.main, [str(word) for word in words])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.output


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """The directory of a small run. The files of other formats are in its parent's parent."""
    folder = tmp_path_factory.mktemp("run")
    runs, wanted = folder / "runs", [word for kind in FILES for word in (f"--{kind}", folder / f"out.{kind}")]
    output = xverify(
        *QUICK, "--cases", 150, "--runs", runs, "--seed", 4, "--fail-on", "violation,crash", *wanted, code=0
    )
    (directory,) = runs.iterdir()
    assert f"report: {directory / 'report.html'}" in output.replace("\n", "")
    return directory


def test_a_sweep_leaves_a_report_its_html_and_a_script_for_each_finding(run):
    report = load(run / "report.json")
    assert report["coverage"]["cases"] == 150
    assert "<html" in (run / "report.html").read_text()
    assert report["findings"]
    for finding in report["findings"]:
        assert (run / "scripts" / f"{finding['id']}.py").is_file()
    assert not (run / "workers").exists(), "workers remove their files"


def test_the_outputs_that_were_asked_for_are_written(run):
    files = {kind: run.parents[1] / f"out.{kind}" for kind in FILES}
    assert load(files["json"])["schema"] == "xverify.report/2"
    assert "<html" in files["html"].read_text()
    assert files["junit"].read_text().startswith("<?xml")


def test_the_help_of_a_sweep_has_each_option_once_in_a_group():
    text = CliRunner().invoke(cli.main, ["sweep", "--help"]).output
    *groups, others = re.split(r"\n(?=[A-Z][a-z ]+:\n)", text)[1:]
    listed = [name for group in groups for name in re.findall(r"^  (?:-\w, )?(--[\w-]+)", group, re.MULTILINE)]
    shown = [max(option.opts, key=len) for option in sweep.params if not option.hidden]
    assert sorted(listed) == sorted(shown)
    assert others.startswith("Other options:\n  -h, --help")


def test_findings_fail_the_command_only_when_asked_to(run, tmp_path):
    """The run of the fixture has a conflict, and was told to fail on others only."""
    assert {finding["verdict"] for finding in load(run / "report.json")["findings"]} == {"conflict"}
    xverify(*QUICK, "--cases", 10, "--runs", tmp_path, "--fail-on", "conflict", code=1)


def test_each_format_of_a_report(run, tmp_path):
    for kind, sign in (("html", "<html"), ("markdown", MULTIPLY), ("json", '"schema"'), ("junit", "<testsuite")):
        assert sign in xverify("report", run, "--format", kind, code=0)
        xverify("report", run / "report.json", "--format", kind, "-o", tmp_path / kind, code=0)
        assert sign in (tmp_path / kind).read_text()


def test_replay_of_one_finding_and_of_a_whole_report(run):
    findings = load(run / "report.json")["findings"]
    output = xverify("replay", findings[0]["id"], "--run", run, code=1)
    assert output.startswith("STILL")
    whole = xverify("replay", run / "report.json", code=1)
    assert whole.count("STILL") == len([f for f in findings if f["witness"]])


def test_contracts_and_oracles_are_listed():
    assert MULTIPLY in xverify("contracts", code=0)
    shown = xverify("contracts", "onednn/*", code=0)
    assert "dst = (src - zps)*scales" in shown
    assert "no sentence says" in shown
    assert "onnxruntime" in xverify("oracles", code=0)
    assert "16 of 16 cells" in xverify("oracles", "onednn-formula-divide", "--probe", code=0)


CALL = "ai.onnx/DequantizeLinear-25 x=uint8[]:00 scale=float32[]:3f800000"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["sweep", "--contract", "ai.onnx/DequantizeLinear-99"], "no contract matches 'ai.onnx/DequantizeLinear-99'"),
        (["sweep", "--oracle", "onnxruntim"], "did you mean onnxruntime?"),
        (
            ["sweep", "--oracle", "onnx-reference", "--contract", "tensorflow/Dequantize@installed"],
            "onnx-reference takes no calls of tensorflow/Dequantize@installed; it takes 'ai.onnx/*'",
        ),
        (["sweep", "--oracle", "onnxruntime==new"], "'new' in 'onnxruntime==new' is not a version"),
        (["sweep", "--kernel", "mine.py:f"], "there is no file mine.py"),
        (["gate", "--kernel", "mine"], "'mine' is no kernel: name package.module:function"),
        (["gate", "--kernel", "xverify-nump"], "did you mean xverify-numpy?"),
        (
            ["gate", "--x-dtypes", "int7"],
            "'int7' is not a type of x of this edition (did you mean int8?); choose from int8",
        ),
        (["gate", "--granularity", "per_row"], "'per_row' is not a granularity of this edition"),
        (["gate", "--granularity", "per-tensor", "--budget", "0s"], "a time is a number above zero"),
        (["gate", "--budget", "0.1s"], "a budget of 0.1s is too small: 1s is the least"),
        (["gate", "--junit", "/"], "/ cannot be written: Is a directory"),
        (["gate", "--like", "onnxruntim"], "did you mean onnxruntime?"),
        (["gate", "--contract", "nothing/*"], "no contract matches"),
        (["sweep", "--budget", "soon"], "a time is a number above zero"),
        (["sweep", "--budget", "0s"], "a time is a number above zero"),
        (["sweep", "--cases", "0"], "0 is not in the range"),
        (["sweep", "--fail-on", "violations"], "'violations' is not a verdict (did you mean violation?)"),
        (["sweep", "--runs", "/proc/nowhere"], "nothing can be written to /proc/nowhere"),
        (["sweep", "--json", "/proc/nowhere/x.json"], "nothing can be written to /proc/nowhere"),
        (["contracts", "torch/*"], "no contract matches 'torch/*'"),
        (["oracles", "caffe"], "no implementation is called 'caffe'"),
        (["report", "/nowhere"], "is neither a report"),
        (
            ["report", "--format", "htm"],
            "'htm' is not one of badge, conformance, findings, html, json, junit, markdown, sarif (did you mean html?)",
        ),
        (["replay", "violation-0000000000", "--run", "/nowhere"], "is neither a report"),
        (
            ["replay", CALL, "--kernel", "xverify-numpy", "--was", "violation:none"],
            "no recipe of arithmetic is called 'none'",
        ),
        (["sweeep"], "No such command"),
    ],
)
def test_a_mistake_is_one_clear_sentence(words, complaint):
    output = xverify(*words, code=2)
    assert complaint in " ".join(output.split())


def test_a_framework_that_is_not_installed_is_named_with_its_install_line(monkeypatch, tmp_path):
    real = cli_select().installed_version
    monkeypatch.setattr(
        cli_select(), "installed_version", lambda o: None if o.distribution == "tensorflow-cpu" else real(o)
    )
    output = xverify("sweep", "--oracle", "tensorflow", "--runs", tmp_path, code=2)
    assert "pip install tensorflow-cpu" in output
    assert not list(tmp_path.iterdir())


def cli_select():
    from xverify.engine import select

    return select


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("[]", "not a report"),
        ("{}", "schema"),
        ('{"schema": "xverify.report/3"}', "xverify.report/3"),
        ('{"schema": "xverify.report/2"}', "damaged"),
        ("\x80", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
    ],
)
@pytest.mark.parametrize("command", ["report", "replay"])
def test_a_file_that_is_damaged_or_not_ours_is_refused(tmp_path, command, text, complaint):
    path = tmp_path / "report.json"
    path.write_bytes(text.encode("latin-1"))
    assert complaint in " ".join(xverify(command, path, code=2).split())
    assert path.read_bytes() == text.encode("latin-1")


def test_a_witness_that_was_tampered_with_is_refused(run, tmp_path):
    report = json.loads((run / "report.json").read_text())
    for finding in report["findings"]:
        finding["witness"]["call"]["tensors"]["x"]["hex"] = ["0xfff"] * 3
    (tmp_path / "report.json").write_text(json.dumps(report))
    assert "the witness is damaged" in " ".join(xverify("replay", tmp_path / "report.json", code=2).split())


def test_an_interrupted_sweep_reports_what_it_has(tmp_path):
    one = ["--contract", MULTIPLY, "--oracle", "onednn-formula-multiply"]
    words = [sys.executable, "-m", "xverify", "sweep", *one, "--budget", "60s", "--runs", tmp_path]
    process = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        env={**os.environ, "COLUMNS": "200"},
    )
    until = time.monotonic() + 30
    while not list(tmp_path.glob("*/findings.jsonl")) and time.monotonic() < until:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=30)[0]
    assert process.returncode == 3, output
    assert "interrupted; the report covers the calls made so far" in output
    (directory,) = tmp_path.iterdir()
    report = load(directory / "report.json")
    assert report["run"]["complete"] is False
    assert report["coverage"]["cases"] > 0


@pytest.mark.skipif(find_spec("cupy") is not None, reason="CuPy is installed: nothing says how to install it")
def test_what_is_in_square_brackets_is_shown():
    shown = xverify("explain", "--x", 7, "--scale", 1, "--oracle", "xverify-cuda", code=0)
    assert "pip install 'xverify[cuda]'" in " ".join(shown.split())


def test_a_file_that_is_not_there_is_told_as_such():
    assert "there is no file nosuch.json" in xverify("replay", "nosuch.json", code=2)


def test_a_reader_that_leaves_changes_no_exit_code():
    """`| head -1` leaves early. Exit code 1 would mean findings."""
    command = [sys.executable, "-m", "xverify", "certify", "--list"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as listing:
        listing.stdout.close()
        assert (listing.stderr.read(), listing.wait(timeout=60)) == (b"", 0)


def test_interrupted_while_a_command_is_imported(monkeypatch):
    """Exit code 1 would mean findings."""

    def interrupted(name: str) -> object:
        raise KeyboardInterrupt

    monkeypatch.delattr(contracts, "DocumentError")
    monkeypatch.setattr(contracts, "__getattr__", interrupted, raising=False)
    assert "xverify: interrupted" in xverify("contracts", code=3)
