"""Faults that only a graph around a call shows: found, and shrunk to the smallest graph."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path as File

import numpy as np
import pytest
import sample_report
from folders import SUPPORT

from xverify import contracts
from xverify.core.call import Call
from xverify.core.dtypes import tensor
from xverify.core.surroundings import in_words
from xverify.engine.options import Options
from xverify.engine.sweep import sweep
from xverify.oracles.protocol import Oracle, Path
from xverify.report import summary
from xverify.report.causes import causes
from xverify.report.formats import html, markdown
from xverify.report.script import script_for
from xverify.report.short_script import short_script
from xverify.strategies.smaller import less_around
from xverify.strategies.surrounded import surrounded_calls
from xverify.workers.case import Case
from xverify.workers.pool import WorkerPool

ONNX = "ai.onnx/DequantizeLinear-25"
LONE = Call(ONNX, {"x": tensor("int8", [[1, 2], [3, 4]]), "scale": tensor("float32", 2.0)}, {"axis": 1}, "by hand")


# -- found and shrunk -------------------------------------------------------------------------------------

MULTIPLY = "onednn/DynamicDequantize-1@multiply"
LEVELS = tuple(Path(f"graph {level}", share) for level, share in (("none", 0.5), ("some", 0.5), ("all", 1.0)))


def flawed(load: str, surrounded: tuple[Path, ...] = LEVELS) -> Oracle:
    search = (str(SUPPORT),)
    return Oracle("flawed", "numpy", (MULTIPLY,), (MULTIPLY,), "surrounded_oracles", load, search_path=search,
                  needs_xverify=True, surrounded=surrounded)  # fmt: skip


class Noting:
    """A worker that records the questions."""

    def __init__(self) -> None:
        self.asked: list[tuple[bytes, str]] = []

    def submit(self, requests) -> None:
        self.asked += requests


def found(tmp_path, load: str, cases: int = 500) -> dict:
    options = Options((contracts.get(MULTIPLY),), (flawed(load),), tmp_path, "test", "xverify sweep", 3, 60.0, cases)
    return sweep(options, lambda event: None)


def test_a_finding_names_the_smallest_graph_and_the_default_level(tmp_path):
    report = found(tmp_path, "load_transposing")
    (cause,) = (cause for cause in causes(report) if cause.kind == "values")
    finding = cause.first
    assert (finding["subject"]["name"], finding["shrunk"]) == ("flawed", "minimal")
    assert finding["subject"]["options"] == "graph all"
    assert set(finding["subject"]["paths"]) == {"graph some", "graph all"}
    call = finding["witness"]["call"]
    assert sorted(word.partition(":")[0] for word in call["around"]) == ["constant", "y>transpose"]
    assert "y>transpose:0" in call["around"]
    assert int(np.prod(call["tensors"]["x"]["shape"])) == 1
    assert (finding["lowest"], finding["rewrite"]) == ("graph some", "merges 2 words with graph some")
    assert cause.title.endswith(", also with some, where the optimiser merges 2 words with graph some)")
    assert finding["summary"].endswith(", also with some, where the optimiser merges 2 words with graph some")
    assert report["run"]["phases"]["surrounded"] > 20


@pytest.mark.parametrize("cases", [100, pytest.param(500, marks=pytest.mark.slow)])
def test_what_needs_no_graph_is_shown_without_one(tmp_path, cases):
    report = found(tmp_path, "load_optimising", cases)
    findings = [one for one in report["findings"] if one["verdict"] == "violation"]
    assert findings
    for finding in findings:
        assert (finding["subject"]["options"], finding["shrunk"]) == ("graph all", "minimal")
        assert "around" not in finding["witness"]["call"]


def test_implementations_without_such_paths_or_judges_are_not_asked(tmp_path):
    contract = contracts.get(MULTIPLY)
    sound, without_paths = (flawed("load_sound", surrounded) for surrounded in (LEVELS, ()))
    with_paths, without, not_judged = (
        WorkerPool([oracle], [contract], tmp_path, print)
        for oracle in (sound, without_paths, replace(sound, judged_by=()))
    )
    assert with_paths.surrounds(contract)
    assert not without.surrounds(contract)
    assert not not_judged.surrounds(contract)
    call = replace(next(surrounded_calls(contracts.get(ONNX), 1)), contract=MULTIPLY)
    taken = ["graph some", "graph all", "graph none", "graph all"]
    for pool, paths in ((with_paths, taken), (without, []), (not_judged, [])):
        pool.workers["flawed"] = worker = Noting()
        for number in (0, 1):
            pool.send(contract, [Case(call, number, "surrounded")])
        assert [options for _, options in worker.asked] == paths


def test_less_is_left_out_first():
    call = replace(LONE, around=("x<transpose:3", "y>reshape:0", "constant:scale"))
    less = [one.around for one in less_around(call)]
    assert less == [
        (),
        ("y>reshape:0", "constant:scale"),
        ("x<transpose:3", "constant:scale"),
        ("x<transpose:3", "y>reshape:0"),
        ("x<transpose:0", "y>reshape:0", "constant:scale"),
    ]
    assert list(less_around(LONE)) == []


def test_the_digits_of_a_number_are_left_out_one_by_one():
    call = replace(LONE, around=("y>pair:20031", "fork:5"))
    less = [one.around for one in less_around(call)]
    assert less[3:] == [
        ("y>pair:0", "fork:5"),
        ("y>pair:31", "fork:5"),
        ("y>pair:20001", "fork:5"),
        ("y>pair:20030", "fork:5"),
        ("y>pair:20031", "fork:1"),
    ]


# -- shown ------------------------------------------------------------------------------------------------


def witnessed(name: str, dtype: str, around: tuple[str, ...], options: str = "", legal: str = "0x3fc00000") -> dict:
    """Return a finding on [[1, 2, 3]] * 0.5 whose last value, 1.5, counts as wrong unless it is ``legal``."""
    x = sample_report.tensor(dtype, [1, 3], ["1", "2", "3"], ["0x1", "0x2", "0x3"])
    scale = sample_report.tensor("float32", [], ["0.5"], ["0x3f000000"])
    call = {**sample_report.call(EDITION, {"x": x, "scale": scale}), "around": list(around)}
    got = "0x40000000" if legal == "0x3fc00000" else "0x3fc00000"
    codes = ["0x3f000000", "0x3f800000", got]
    witness = {
        "call": call,
        "got": sample_report.gave("float32", [1, 3], ["0.5", "1.0", "?"], codes),
        "legal": [sample_report.wrong([0, 2], ("?", got), ("?", legal, ["exact"]))],
    }
    subject = {"name": name, "version": "1", "role": "oracle", "options": options}
    return sample_report.finding("violation", name, EDITION, "formula", "a summary", witness, subject=subject)


EDITION = "ai.onnx/DequantizeLinear-21"
GRAPHS = (
    ("y>transpose:0", "constant:scale"),
    ("x<concat:-1", "x<reshape:2", "y>cut:0", "y>slice:1", "shapes:symbolic"),
    ("x<unsqueeze:0", "scale<squeeze:0", "y>gather:-1", "y>requantize:0", "constant:x"),
)


def done(script: str, directory: File) -> tuple[int, str]:
    path = directory / "reproduce.py"
    path.write_text(script, encoding="utf-8")
    ran = subprocess.run([sys.executable, "-I", str(path)], capture_output=True, text=True, timeout=120, check=False)
    assert "Traceback" not in ran.stderr, ran.stderr
    return ran.returncode, ran.stdout


@pytest.mark.parametrize(
    ("name", "options", "dtype", "around"),
    [
        ("onnxruntime", "graph optimization=basic", "int8", GRAPHS[0]),
        ("onnxruntime", "graph optimization=off", "uint8", GRAPHS[1]),
        ("onnxruntime", "graph optimization=all", "uint4", ("x<identity:0", "y>reshape:1")),
        ("onnx-reference", "graph", "int8", GRAPHS[1]),
        ("onnx-reference", "graph", "uint8", GRAPHS[2]),
    ],
)
def test_a_script_makes_the_graph(name, options, dtype, around, tmp_path):
    script = script_for(witnessed(name, dtype, around, options, legal="0x40000000"))
    assert "import xverify" not in script
    status, shown = done(script, tmp_path)
    assert (status, f"in a graph: {in_words(around)}" in shown, "got       1.5" in shown) == (1, True, True), shown
    if around in GRAPHS[::2]:
        status, shown = done(script_for(witnessed(name, dtype, around, options)), tmp_path)
        assert (status, "the discrepancy is gone" in shown) == (0, True), shown


@pytest.mark.parametrize(
    ("name", "options", "dtype", "around"),
    [
        ("onnxruntime", "graph optimization=basic", "int8", GRAPHS[0]),
        ("onnxruntime", "graph optimization=all", "uint8", GRAPHS[1]),
        ("onnxruntime", "graph optimization=off", "uint4", ("constant:x", "y>reshape:1")),
        ("onnx-reference", "graph", "uint8", GRAPHS[2]),
    ],
)
def test_a_short_script_makes_the_graph(name, options, dtype, around, tmp_path):
    script = short_script(witnessed(name, dtype, around, options))
    assert ("graph_optimization_level" in script) == (options[-3:] in ("off", "sic"))
    status, shown = done(script, tmp_path)
    assert status == 0
    assert shown.splitlines()[-1] == "1.5 0x3fc00000"


def test_no_short_script_leaves_the_graph_out():
    assert short_script(witnessed("onnxruntime", "int8", ("no words",))) is None


def test_a_graph_that_is_damaged_cannot_be_told(tmp_path):
    for around in (("no words",), ("x<transpose:1", "y>"), ("x<transpose:99999999999",)):
        status, shown = done(script_for(witnessed("onnxruntime", "int8", around)), tmp_path)
        assert (status, "refuses the call" in shown) == (3, True), shown


def test_people_are_shown_the_graph():
    finding = witnessed("onnxruntime", "int8", GRAPHS[0], "graph optimization=basic")
    report = {**sample_report.sample_report(), "findings": [finding]}
    expected = "Transpose after the result, the scale a constant"
    assert expected in markdown.render(report)
    assert expected in html.render(report)
    assert summary.around(finding) == expected
    assert summary.around(sample_report.sample_report()["findings"][0]) == ""
