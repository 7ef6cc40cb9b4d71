"""Each death of an implementation is a finding with the smallest call, and spoils no other result."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from doubled_calls import FAKE, HERE, is_double, request
from dying_oracles import DEATHS, SURVIVED
from sample_report import ONNX, call, finding, refused, tensor

from xverify import contracts
from xverify.engine import deaths as shrinking_deaths
from xverify.engine.options import Options
from xverify.engine.sweep import sweep
from xverify.oracles import all_oracles
from xverify.oracles.protocol import Oracle
from xverify.report import render, summary
from xverify.report.formats import markdown
from xverify.report.script import script_for
from xverify.workers.process import Limits
from xverify.workers.worker import Worker

MULTIPLY = "onednn/DynamicDequantize-1@multiply"
LIMITS = Limits(call=2.0, resident=160 << 20)

WORDS = {
    "segfault": "SIGSEGV",
    "check": "\nF kernel.cc:1] Check failed: size <= 20",
    "throw": "std::out_of_range",
    "leak": "out of memory",
    "hang": "no answer within",
    "exit": "status 0",
    "leave": "status 3: the kernel called sys.exit(3) in dying_oracles.py:",
    "garble": "closed or garbled",
}
"""Words that the report must have for each death."""


def oracle(name: str, module: str, load: str, *arguments: str) -> Oracle:
    return Oracle(name, "numpy", (MULTIPLY,), (MULTIPLY,), module, load, arguments=arguments, search_path=(HERE,))


def swept(directory: Path, *others: Oracle) -> dict[str, Any]:
    chosen = (all_oracles()["xverify-numpy"], oracle("flawed", "flawed_oracles", "load_ignoring"), *others)
    return sweep(
        Options((contracts.get(MULTIPLY),), chosen, directory, "t", "xverify sweep", 3, 60.0, 45, limits=LIMITS),
        lambda event: None,
    )


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    dying = [oracle(how, "dying_oracles", "load", how) for how in DEATHS]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shrinking_deaths, "HURRY_SECONDS", 0.3)
        return swept(tmp_path_factory.mktemp("dying"), *dying)


def of(report: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return the parts of a report on some implementations, without the outcomes of the others."""
    findings = [dict(f, others=None) for f in report["findings"] if f["subject"]["name"] in names]
    cells = [cell for cell in report["coverage"]["cells"] if cell["subject"] in names]
    calls = [w["calls"] for w in report["run"]["workers"] if w["name"] in names]
    return {"findings": findings, "cells": cells, "calls": len(calls)}


def deaths_of(report: dict[str, Any], how: str) -> list[dict[str, Any]]:
    return [f for f in report["findings"] if f["subject"]["name"] == how and f["verdict"] in ("crash", "hang")]


@pytest.mark.parametrize("how", DEATHS)
def test_a_death_is_a_finding_with_the_smallest_call_that_does_it(report: dict[str, Any], how: str) -> None:
    found = deaths_of(report, how)
    assert {f["verdict"] for f in found} == {"hang" if how == "hang" else "crash"}
    for one in found:
        assert WORDS[how] in one["witness"]["got"]["message"]
        shape = one["witness"]["call"]["tensors"]["x"]["shape"]
        assert one["shrunk"] == "minimal"
        assert SURVIVED < math.prod(shape) <= 24  # of (2, 3, 4) each smaller one survives
    worker = next(w for w in report["run"]["workers"] if w["name"] == how)
    assert worker["status"] == "answered"
    assert worker["restarts"] > 0


def test_other_results_are_those_of_a_run_without_the_dying(report: dict[str, Any], tmp_path: Path) -> None:
    names = ("xverify-numpy", "flawed")
    alone = swept(tmp_path)
    assert of(alone, *names)["findings"], "one of them is wrong"
    assert of(report, *names) == of(alone, *names)


def test_what_dies_answers_all_else(report: dict[str, Any]) -> None:
    """Cells agree on calls that it survives, and it was asked forbidden calls too."""
    for how in DEATHS:
        cells = [cell for cell in report["coverage"]["cells"] if cell["subject"] == how]
        assert len({cell["x_dtype"] for cell in cells if cell["status"] == "agrees"}) > 1
    (edition,) = report["editions"]
    followed = {name for clause in edition["clauses"] for name in str(clause).split("'")}
    assert set(DEATHS) <= followed


@pytest.mark.parametrize("forks", [False, True])
def test_a_death_between_two_calls_is_blamed_on_the_call_before(tmp_path: Path, forks: bool) -> None:
    """The pipe breaks while later calls of the same message are answered."""
    worker = Worker(FAKE, tmp_path, limits=Limits(call=1.0), forks=forks)
    worker.start()
    try:
        worker.submit([request(i, "cut" if i == 5 else "") for i in range(12)])
        outcomes = worker.collect(60)
    finally:
        worker.stop()
    assert [o.kind for o in outcomes] == ["crash" if i == 5 else "tensor" for i in range(12)]
    assert all(is_double(o, i) for i, o in enumerate(outcomes) if i != 5)
    assert WORDS["garble"] in outcomes[5].message


@pytest.fixture
def forking(tmp_path: Path) -> Iterator[Worker]:
    worker = Worker(FAKE, tmp_path)
    worker.start()
    yield worker
    worker.stop()


def test_a_successor_is_forked_and_begins_anew(forking: Worker) -> None:
    pids = set()
    for value in (1, 2, 3):
        assert is_double(forking.ask(*request(value)), value)
        pids.add(forking._process.pid)
        assert forking.forks
        assert forking.ask(*request(value, "abort")).kind == "crash"
    assert len(pids) == 3
    assert forking.versions["pid"] not in pids
    assert forking.restarts == 3


def test_a_renewed_process_has_made_no_call(forking: Worker) -> None:
    forking.ask(*request(1))
    first = forking._process.pid
    forking.renew()
    assert is_double(forking.ask(*request(2)), 2)
    assert forking._process.pid != first
    assert forking.restarts == 0


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ("os.abort()", 1, "was killed by SIGABRT (exit status -6)"),
        ("os.write(2, b'last words'); os._exit(0)", 1, "its stderr: last words"),
        ("os._exit(0)", 1, "ended in the middle of it (exit status 0)"),
        ("raise ImportError('no framework')", 3, "no framework"),
        ("raise ValueError('refused')", 0, "not seen in 3 tries\nthe discrepancy did not show"),
    ],
)
def test_a_script_dies_in_a_child_and_says_how(tmp_path: Path, body: str, status: int, words: str) -> None:
    """The script's implementation is replaced by one that executes ``body``."""
    x, scale = tensor("int8", [1], ["3"], ["0x03"]), tensor("float32", [], ["0.5"], ["0x3f000000"])
    witness = {"call": call(ONNX, {"x": x, "scale": scale}), "got": refused("crash", "", "killed"), "legal": []}
    text = script_for(finding("crash", "onnxruntime", ONNX, "formula", "it dies", witness))
    replaced, number = re.subn(r"(?s)def run\(call.*?\n(?=\S)", f"def run(call):\n    {body}\n\n\n", text)
    assert number == 1
    replaced = replaced.replace("MOST_TRIES = 20", "MOST_TRIES = 3")
    path = tmp_path / "script.py"
    path.write_text(replaced, encoding="utf-8")
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == status, done.stdout + done.stderr
    assert words in done.stdout


def test_each_share_of_the_calls_is_in_every_form_of_the_report(report: dict[str, Any]) -> None:
    """The parts are calls, seconds and processes."""
    shown = dict(summary.shares(report))
    for worker in report["run"]["workers"]:
        share = shown[worker["name"]]
        assert f"{summary.plural(worker['calls'], 'call')} (" in share
        assert f"in {worker['seconds']} s" in share
        assert ("new process" in share) == (worker["restarts"] > 0)
        assert markdown.text(share) in render(report, "markdown")
    of_workers = [shown[worker["name"]] for worker in report["run"]["workers"]]
    percents = [int(re.findall(r"\((\d+) %\)", share)[0]) for share in of_workers]
    assert abs(sum(percents) - 100) <= len(percents) / 2, "each is rounded by half a per cent at most"
    assert '<th class="num">New processes</th>' in render(report, "html")
