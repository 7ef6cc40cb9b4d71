"""The gate as a user runs it: the kernels that it stops, its output, and the effect of the ledger."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from folders import SUPPORT

from xverify import cli
from xverify.report.schema import check

HERE = SUPPORT
KERNELS = HERE / "gate_kernels.py"
CONTRACT = "onednn/DynamicDequantize-1@multiply"
PASS, FINDINGS, USAGE, UNABLE = 0, 1, 2, 3
INT8, PER_TENSOR = ("--x-dtypes", "int8"), ("--granularity", "per_tensor")
"""A shorter walk, for tests that do not depend on the domain."""


class Gate:
    """A folder for gates that share a ledger."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = folder / "ledger.toml"
        self.report: dict = {}
        self.options: tuple[str, ...] = ("--walk-only", *INT8, *PER_TENSOR)

    def __call__(self, kernel: str, code: int, *words: object, budget: str = "40s") -> str:
        """Run a gate. Return its output; its report is in ``report``."""
        target = kernel if ":" in kernel or kernel == "xverify-numpy" else f"{KERNELS}:{kernel}"
        file = self.folder / "report.json"
        output = self.run(
            "gate", "--kernel", target, "--contract", CONTRACT, "--budget", budget, "--runs", self.folder / "runs",
            "--ledger", self.ledger, "--json", file, *self.options, *words, code=code,
        )  # fmt: skip
        if code != USAGE:
            self.report = json.loads(file.read_text())
            check(self.report)
        return output

    def run(self, *words: object, code: int) -> str:
        result = CliRunner().invoke(cli.main, [str(word) for word in words])
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.output
        return result.output

    def failing(self) -> list[dict]:
        return [f for f in self.report["findings"] if f["id"] in self.report["gate"]["failing"]]

    def accept(self, *words: object) -> str:
        """Accept every failing finding. Return the last output."""
        output = ""
        for finding in self.failing():
            output = self.run(
                "ledger", "accept", finding["id"], "--reason", "a test", "--run", self.folder / "report.json",
                "--ledger", self.ledger, *words, code=PASS,
            )  # fmt: skip
        return output


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


# -- what passes and what does not --------------------------------------------------------------------------


def test_a_sound_kernel_passes_within_its_budget(gate):
    gate.options = (*INT8, *PER_TENSOR)
    began = time.monotonic()
    output = gate("sound", PASS, budget="8s")
    assert 5 < time.monotonic() - began < 8 + 4
    assert gate.report["run"]["phases"]["hypothesis"]
    assert "PASS" in output
    assert gate.report["gate"]["walked"]
    assert gate.report["gate"]["calls"] > 300
    assert not gate.report["findings"]


def test_a_wrong_kernel_fails_with_the_smallest_call_and_a_line_that_replays_it(gate):
    output = gate("wraps", FINDINGS)
    (finding,) = gate.failing()
    assert finding["verdict"] == "violation"
    assert finding["attribution"]["reading"].startswith("wrap")
    assert finding["witness"]["call"]["tensors"]["x"]["shape"] in ([], [1])
    line = next(line.strip() for line in output.splitlines() if line.strip().startswith("xverify replay"))
    words = shlex.split(line)[1:]
    assert gate.run(*words, code=FINDINGS).startswith("STILL")
    kernel = words.index("--kernel") + 1
    assert gate.run(*words[:kernel], f"{KERNELS}:sound", *words[kernel + 1 :], code=PASS).startswith("FIXED")
    found = gate.run(
        "replay", finding["id"], "--run", gate.folder / "report.json", "--kernel", f"{KERNELS}:wraps", code=1
    )
    assert found.startswith("STILL")
    refused = gate.run("replay", finding["id"], "--run", gate.folder / "report.json", code=USAGE)
    assert "--kernel TARGET" in refused


def test_a_result_that_cannot_be_read_is_a_finding_of_its_own(gate):
    output = gate("forgets_to_return", FINDINGS)
    (finding,) = gate.failing()
    assert (finding["verdict"], finding["witness"]["got"]["kind"]) == ("unreadable-result", "unreadable")
    assert "the result is None; return a NumPy array" in output
    assert {cell["status"] for cell in gate.report["coverage"]["cells"]} >= {"unreadable-result"}
    assert (gate.folder / "runs" / gate.report["run"]["id"] / "report.html").read_text().count("unreadable result")
    line = next(line.strip() for line in output.splitlines() if line.strip().startswith("xverify replay"))
    assert gate.run(*shlex.split(line)[1:], code=FINDINGS).startswith("STILL")


def test_a_kernel_that_lacks_a_keyword_gets_no_call(gate):
    output = gate("without_axis", UNABLE)
    assert "without_axis does not fit the calls of onednn/DynamicDequantize-1@multiply: add axis=1 to its" in output
    assert gate.report["gate"]["calls"] == 0


def test_the_first_fault_ends_a_hurried_gate(gate):
    began = time.monotonic()
    gate("wraps", FINDINGS, "-x", budget="60s")
    assert time.monotonic() - began < 20
    assert gate.report["gate"]["stopped_early"]
    assert gate.report["gate"]["first_fault_seconds"] < 10


def test_every_call_must_be_taken_and_every_clause_kept(gate):
    output = gate("misspelt", UNABLE)
    assert "refused every allowed call" in output
    assert "NameError" in output
    gate.options = ("--walk-only",)
    gate("takes_anything", FINDINGS)
    assert {f["verdict"] for f in gate.failing()} == {"wrongly-accepted"}
    clauses = {f["clause"].rpartition("/")[2] for f in gate.failing()}
    assert {"src-type", "scales-type", "scales-shape", "zps-shape", "axis-range", "qtype"} <= clauses


def test_unimplemented_calls_are_reported_and_fail_only_a_strict_gate(gate):
    output = gate("no_zero_points", PASS)
    assert "refused as not implemented: zero points" in output
    assert gate.report["gate"]["unsupported"]
    gate("no_zero_points", FINDINGS, "--strict", "-x")
    assert {f["verdict"] for f in gate.failing()} == {"wrongly-rejected"}
    assert "nothing was verified" in gate("nothing", UNABLE)


def test_flushed_subnormals_fail_unless_they_may_be_flushed(gate):
    gate("flushes", FINDINGS, "-x")
    assert {f["verdict"] for f in gate.failing()} == {"violation"}
    gate("flushes", PASS, "--denormals", "flush")


def test_legal_values_by_two_readings_fail_unless_they_may_be_mixed(gate):
    gate("alternates", FINDINGS)
    assert {f["verdict"] for f in gate.failing()} == {"mixed"}
    gate("alternates", PASS, "--allow-mixed")


def test_a_kernel_that_answers_otherwise_now_and_then_is_nondeterministic(gate):
    gate("forgets", FINDINGS, "-x")
    assert "nondeterministic" in {f["verdict"] for f in gate.failing()}


def test_a_narrower_domain_is_all_that_is_asked(gate):
    gate("wraps", PASS, "--granularity", "per_axis")
    gate("sound", PASS)
    assert {cell["x_dtype"] for cell in gate.report["coverage"]["cells"]} == {"int8"}
    gate("sound", USAGE, "--x-dtypes", "int9")


def test_a_drop_in_replacement_gives_the_same_bits_and_refuses_the_same(gate):
    gate("sound", PASS, "--like", "xverify-numpy")
    gate("sound", FINDINGS, "--like", "onednn-formula-multiply", "-x")
    assert {f["verdict"] for f in gate.failing()} == {"violation"}
    gate("takes_anything", FINDINGS, "--like", "xverify-numpy", "-x")
    assert {f["verdict"] for f in gate.failing()} == {"wrongly-accepted"}


def test_two_builds_are_compared_with_their_refusals(gate, tmp_path):
    """Both are files of one name, and one build refuses zero points as not implemented."""
    builds = [tmp_path / name / "gate_kernels.py" for name in ("base", "changed")]
    for build in builds:
        build.parent.mkdir()
        shutil.copy(KERNELS, build)
    sound, refusing = f"{builds[0]}:sound", f"{builds[1]}:no_zero_points"
    gate(f"{builds[1]}:sound", PASS, "--like", sound)
    assert gate.report["gate"]["like"] == "base/gate_kernels.py:sound"
    output = gate(refusing, FINDINGS, "--like", sound)
    (finding,) = gate.failing()
    words = "no_zero_points refuses a call that gate_kernels.py:sound answers (NotImplementedError)"
    assert words in finding["summary"]
    line = next(line.strip() for line in output.splitlines() if line.strip().startswith("xverify replay"))
    assert gate.run(*shlex.split(line)[1:], code=FINDINGS).startswith("STILL")
    report = ("replay", gate.folder / "report.json", "--kernel", refusing)
    assert "add --like TARGET" in gate.run(*report, code=USAGE)
    assert gate.run(*report, "--strict", "--like", sound, code=FINDINGS).startswith("STILL")
    gate(sound, FINDINGS, "--like", refusing)
    (finding,) = gate.failing()
    assert finding["summary"].endswith("sound computes a call that gate_kernels.py:no_zero_points refuses")


def test_what_cannot_be_matched_is_wrong_usage_or_no_decision(gate):
    for like, words in (
        ("litert", "litert"),
        (
            "onnxruntime",
            "onnxruntime cannot be matched on onednn/DynamicDequantize-1@multiply, because it takes calls of",
        ),
        (f"{KERNELS}:sound", "gate_kernels.py:sound is compared with itself"),
        ("nowhere.py:sound", "there is no file nowhere.py"),
        ("onnxruntme", "did you mean onnxruntime"),
    ):
        assert words in gate("sound", USAGE, "--like", like)
    assert "could not be run: there is no module 'no_such_module'" in gate(
        "sound", UNABLE, "--like", "no_such_module:f"
    )


def test_a_gate_that_ended_at_a_fault_and_fails_on_nothing_is_no_pass(gate, monkeypatch):
    monkeypatch.setattr("xverify.gate.decide._fails", lambda entry, options: False)
    assert "led to no finding" in gate("wraps", UNABLE, "-x")


# -- kernels that misbehave ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "verdict", "said"),
    [
        ("slow", "hang", "no answer within 1 s"),
        ("hoards", "crash", "out of memory beyond 128 MiB"),
        ("talks", "crash", "wrote more than 256 MiB"),
        ("leaves", "crash", "status 0"),
    ],
)
def test_a_kernel_that_misbehaves_costs_its_calls_and_not_the_gate(gate, kernel, verdict, said):
    began = time.monotonic()
    gate(kernel, FINDINGS, "--timeout", "1s", "--memory", "128", budget="6s")
    assert time.monotonic() - began < 6 + 20
    found = [f for f in gate.failing() if f["verdict"] == verdict]
    assert found
    assert any(said in f["summary"] + str(f["witness"]["got"]) for f in found)


def test_a_kernel_that_is_never_imported_is_one_sentence(gate, tmp_path):
    for source, said in (
        ("import time\ntime.sleep(100)", "was not loaded within 3 s"),
        ("def kernel(:", "SyntaxError in broken.py:1"),
        ("import nowhere_to_be_found", "No module named 'nowhere_to_be_found'"),
        ("kernal = 10", "has no 'kernel'"),  # another length than the next file, whose time is the same
        ("kernel = 1", "is no function but of type int"),
        ("raise SystemExit(5)", "SystemExit"),
    ):
        (tmp_path / "broken.py").write_text(source)
        began = time.monotonic()
        output = gate(f"{tmp_path / 'broken.py'}:kernel", UNABLE, budget="3s")
        assert time.monotonic() - began < 3 + 10
        assert said in " ".join(output.split()), output


# -- the ledger ---------------------------------------------------------------------------------------------


def test_accepted_findings_pass_and_hide_nothing_else(gate, tmp_path):
    kernel = f"{tmp_path / 'kernel.py'}:kernel"

    def becomes(function: str) -> str:
        """Replace the user's kernel by another one under the same name."""
        source = f"import sys\nsys.path.insert(0, {str(HERE)!r})\nfrom gate_kernels import {function} as kernel\n"
        (tmp_path / "kernel.py").write_text(source)
        return kernel

    gate(becomes("wraps"), FINDINGS)
    accepted = gate.accept("--owner", "me", "--expires", "90d")
    assert "accepted until" in accepted
    assert "a test" in gate.run("ledger", "list", "--ledger", gate.ledger, code=PASS)
    output = gate(kernel, PASS)
    assert [f["known"] for f in gate.report["findings"]] == [True]
    assert "PASS" in output

    gate(becomes("wraps_and_drops_tails"), FINDINGS)
    assert {f["ledger"]["state"] for f in gate.failing()} & {"new", "changed"}
    assert not any(f["known"] for f in gate.failing())

    output = gate(becomes("sound"), PASS)
    assert len(gate.report["gate"]["stale"]) == 1
    assert "prune" in output
    pruned = gate.run("ledger", "prune", "--run", gate.folder / "report.json", "--ledger", gate.ledger, code=PASS)
    assert "removed" in pruned
    assert "stale" not in gate(becomes("wraps"), FINDINGS, "-x")


def test_an_expired_entry_no_longer_counts(gate):
    gate("wraps", FINDINGS)
    gate.accept("--expires", "1d")
    text = gate.ledger.read_text()
    lines = [
        "expires = 2020-01-02" if line.startswith("expires") else
        "accepted = 2020-01-01" if line.startswith("accepted") else line
        for line in text.splitlines()
    ]  # fmt: skip
    gate.ledger.write_text("\n".join(lines) + "\n")
    gate("wraps", FINDINGS, "-x")
    assert {f["ledger"]["state"] for f in gate.failing()} == {"expired"}


def test_a_damaged_ledger_is_refused_with_the_line(gate):
    gate.ledger.write_text('# known\n[[known]]\nname = "x"\nsubject = "y"\nexpires = never\n')
    output = gate.run("gate", "--kernel", f"{KERNELS}:sound", "--ledger", gate.ledger, code=USAGE)
    assert "line 5" in output


# -- the command --------------------------------------------------------------------------------------------


def test_no_framework_is_imported_and_the_first_verdict_comes_soon(gate, tmp_path):
    program = (
        "import sys\nfrom xverify.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as end: code = end.code\n"
        "print([name for name in ('onnx', 'onnxruntime', 'tensorflow', 'pytest') if name in sys.modules], code)"
    )
    words = [
        "gate",
        "--kernel",
        f"{KERNELS}:wraps",
        "--contract",
        CONTRACT,
        "-x",
        *INT8,
        "--runs",
        str(tmp_path),
        "--json",
    ]
    file = tmp_path / "report.json"
    result = subprocess.run(
        [sys.executable, "-c", program, *words, str(file)], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert result.stdout.splitlines()[-1] == "[] 1", result.stdout + result.stderr
    assert json.loads(file.read_text())["gate"]["first_verdict_seconds"] < 5


def test_interrupted_it_says_what_it_has_and_that_it_is_not_done(tmp_path):
    words = ["gate", "--kernel", f"{KERNELS}:sound", "--contract", CONTRACT, "--runs", str(tmp_path)]
    process = subprocess.Popen(
        [sys.executable, "-m", "xverify", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        cwd=tmp_path, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    until = time.monotonic() + 30
    while not list(tmp_path.glob("*/workers")) and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == UNABLE, output
    assert "interrupted" in output
    assert "Traceback" not in output
