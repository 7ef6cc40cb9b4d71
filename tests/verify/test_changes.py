"""Changes between versions of one implementation: classified, folded, shrunk, shown and replayed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from folders import SUPPORT
from rich.console import Console

from xverify import contracts
from xverify.contracts.model import Cell
from xverify.core.call import Call, Outcome, Tensor
from xverify.engine.asking import start
from xverify.engine.changes import _feature, _has_types_that_one_lacks
from xverify.engine.options import Options
from xverify.engine.replay import asking, finding_from_report, replay_finding
from xverify.engine.state import new_run
from xverify.engine.sweep import PHASES, run_phase, sweep
from xverify.oracles.protocol import Oracle
from xverify.report import render
from xverify.report.changes import histories
from xverify.report.console import print_summary
from xverify.report.formats import markdown
from xverify.report.schema import check
from xverify.report.script import script_for
from xverify.verify.changes import Changes, steps, successions, unchanged
from xverify.verify.findings import Finding, Subject
from xverify.verify.verdicts import judge

MULTIPLY = "onednn/DynamicDequantize-1@multiply"
HERE = str(SUPPORT)


def version(number: str, load: str) -> Oracle:
    return Oracle(
        f"fake=={number}", "numpy", (MULTIPLY,), (MULTIPLY,), "version_oracles", load,
        search_path=(HERE,), needs_xverify=True, version=number,
    )  # fmt: skip


def run(tmp_path: Path, *oracles: Oracle, cases: int = 150) -> dict[str, Any]:
    loaded = (contracts.get(MULTIPLY),)
    report = sweep(Options(loaded, oracles, tmp_path, "t", "xverify sweep", 3, 60.0, cases), lambda event: None)
    check(report)
    return report


def explored(tmp_path: Path, *oracles: Oracle, cases: int) -> list[Finding]:
    """Return the findings of a run, before shrinking and writing."""
    options = Options((contracts.get(MULTIPLY),), oracles, tmp_path, "t", "xverify sweep", 3, 60.0, cases)
    state = new_run(options, lambda event: None)
    try:
        start(state)
        for phase in PHASES[:-1]:
            run_phase(state, phase)
    finally:
        state.pool.stop()
    return [finding for finding in state.findings.sorted() if finding.change is not None]


def changes(report: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """Return the older and newer version, the kind and the object of every change."""
    found = (finding["change"] for finding in report["findings"] if finding["verdict"] == "changed")
    return sorted((one["older"], one["newer"], one["kind"], one["what"]) for one in found)


# -- one call -----------------------------------------------------------------------------------------

CONTRACT = contracts.get(MULTIPLY)


def call(x: list[int], scale: float = 0.5, x_dtype: str = "int8", **attributes: Any) -> Call:
    code = np.array(x, x_dtype).view(np.uint8)
    scales = np.array([scale], np.float32).view(np.uint32)
    return Call(MULTIPLY, {"x": Tensor(x_dtype, code), "scale": Tensor("float32", scales)}, attributes)


def gave(*values: float) -> Outcome:
    return Outcome("tensor", Tensor("float32", np.array(values, np.float32).view(np.uint32)))


REFUSED = Outcome("rejected", error="ValueError")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (gave(0.5, 1.0), gave(0.5, 1.0), []),
        (gave(0.5, 9.0), gave(0.5, 1.0), [("fixed", "values", 1, (1,))]),
        (gave(0.5, 1.0), gave(9.0, 9.0), [("broken", "values", 2, (0,))]),
        (gave(0.5, 8.0), gave(0.5, 9.0), [("other", "both-wrong", 1, (1,))]),
        (gave(8.0, 1.0), gave(0.5, 9.0), [("fixed", "values", 1, (0,)), ("broken", "values", 1, (1,))]),
        (gave(0.5), gave(0.5, 1.0), [("fixed", "result-shape", 2, None)]),
        (REFUSED, Outcome("unsupported", error="NotImplementedError"), []),
        (REFUSED, gave(0.5, 1.0), [("answers", "allowed", 2, None)]),
        (gave(0.5, 1.0), REFUSED, [("refuses", "allowed", 2, None)]),
        (Outcome("crash"), REFUSED, [("fixed", "crash", 2, None)]),
        (gave(0.5, 1.0), Outcome("hang"), [("broken", "hang", 2, None)]),
        (Outcome("crash"), Outcome("spared"), []),
        (gave(0.5, 1.0), Outcome("tensor", gave(0.5, 1.0).tensor, notes=("input-written",)),
         [("broken", "input-written", 2, None)]),
    ],
)  # fmt: skip
def test_outcomes_of_an_allowed_call(before, after, expected):
    found = steps(judge(CONTRACT, call([1, 2])), before, after, is_judged=True)
    assert [(step.kind, step.what, step.values, step.at) for step in found] == expected
    assert unchanged(before, after) == (not expected)


def test_an_edition_that_judges_only_one_version_calls_nothing_fixed():
    (step,) = steps(judge(CONTRACT, call([1, 2])), gave(0.5, 9.0), gave(0.5, 1.0), is_judged=False)
    assert (step.kind, step.what, step.values) == ("other", "not-judged", 1)


def test_flushed_and_kept_subnormals_are_neither_right_nor_wrong():
    tiny = float(np.float32(1e-40))
    (step,) = steps(judge(CONTRACT, call([1], tiny)), gave(0.0), gave(tiny), is_judged=True)
    assert (step.kind, step.what) == ("other", "subnormals")


def test_a_forbidden_call_has_no_cell_and_its_clause_is_named():
    forbidden = call([1, 2], qtype="per_tensor")
    tensors = {**forbidden.tensors, "scale": Tensor("float64", np.array([0.5]).view(np.uint64))}
    judged = judge(CONTRACT, Call(MULTIPLY, tensors))
    assert judged.judgement.verdict == "forbidden"
    (step,) = steps(judged, REFUSED, gave(0.5, 1.0), is_judged=True)
    assert (step.kind, step.what) == ("answers", "forbidden:scales-type")


# -- who is compared with whom ------------------------------------------------------------------------


def subject(name: str, number: str, options: str = "", role: str = "oracle") -> Subject:
    return Subject(name, number, role, options)


def test_versions_stand_in_the_order_of_their_numbers():
    given = [
        subject("a", "1.10.0"), subject("a==1.9.1", "1.9.1"), subject("b", "1"), subject("a@/x/python", "1.9.1.dev2"),
        subject("a==1.9.1", "1.9.1", "off"), subject("a", "1.10.0", "off"), subject("k==1", "1", role="kernel"),
        subject("k==2", "2", role="kernel"),
    ]  # fmt: skip
    names = [[(one.name, one.options) for one in group] for group in successions(given)]
    assert names == [
        [("a@/x/python", ""), ("a==1.9.1", ""), ("a", "")],
        [("a==1.9.1", "off"), ("a", "off")],
    ]


def test_versions_that_do_not_run_and_missing_answers_give_no_change():
    first, second, third = (subject(f"a=={n}", n) for n in "123")
    runs = {first, second, third}
    seen = Changes(runs, lambda one, judged: one in runs, lambda one, judged: True)
    judged = judge(CONTRACT, call([1]))
    seen.observe(judged, {first: gave(0.5), third: gave(9.0)})
    assert seen.seen() == [], "the second may have changed it"
    runs.remove(second)
    seen.observe(judged, {first: gave(0.5), third: gave(9.0)})
    (one,) = seen.seen()
    assert (one.older, one.newer, one.step.kind, one.cases) == (first, third, "broken", 1)


# -- whole runs ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """Run versions in which a bug comes and goes, in another order than theirs."""
    directory = tmp_path_factory.mktemp("history")
    numbers = {"1.10": "load_sound", "1.8": "load_sound", "1.9": "load_wrong", "1.9.1": "load_wrong"}
    return directory, run(directory, *(version(number, load) for number, load in numbers.items()))


def test_a_bug_is_broken_in_one_version_and_fixed_in_another(history):
    _, report = history
    found = [one for one in changes(report) if one[2] in ("broken", "fixed")]
    assert found == [("1.8", "1.9", "broken", "ignored"), ("1.9.1", "1.10", "fixed", "ignored")]
    assert not any(one[:2] == ("1.9", "1.9.1") for one in changes(report)), "nothing changed there"


def test_a_change_has_a_minimal_witness_and_the_outcome_of_every_version(history):
    _, report = history
    finding = next(f for f in report["findings"] if f.get("change", {}).get("kind") == "fixed")
    assert finding["subject"]["name"] == "fake==1.10"
    assert finding["reference"] == "fake==1.9.1"
    assert "1.9.1 ignores the zero point" in finding["summary"]
    assert finding["shrunk"] == "minimal"
    assert finding["witness"]["call"]["tensors"]["x"]["shape"] == []
    gives = {other["name"]: other["outcome"] for other in finding["others"]}
    assert set(gives) == {"fake==1.8", "fake==1.9", "fake==1.9.1"}
    assert gives["fake==1.9"] == gives["fake==1.9.1"] != gives["fake==1.8"]
    assert finding["values"] > 1000
    assert len(finding["cells"]) > 3


def test_every_format_shows_the_version_of_each_change(history):
    _, report = history
    (one,) = histories(report)
    assert (one.name, one.versions) == ("fake", ("1.8", "1.9", "1.9.1", "1.10"))
    row = next(row for row in one.rows if row.what == "ignored")
    assert [[field.words for field in fields] for fields in row.fields] == [[], ["broken"], [], ["fixed"]]
    assert "| | 1.8 | 1.9 | 1.9.1 | 1.10 |" in markdown.render(report).replace("|  |", "| |")
    page = render(report, "html")
    assert 'id="changes"' in page
    assert f'href="#f-{row.fields[3][0].finding}"' in page
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    print_summary(report, console)
    shown = console.export_text()
    assert "fake: what changed" in shown
    assert "broken" in shown


def test_replay_of_a_change_calls_both_versions(history, tmp_path):
    directory, report = history
    entry = next(f for f in report["findings"] if f.get("change", {}).get("kind") == "broken")
    finding = finding_from_report(json.loads(json.dumps(entry)), directory)

    def replayed(older: str, newer: str) -> str:
        loads = {entry["reference"]: older, entry["subject"]["name"]: newer}
        known = {name: version(name.partition("==")[2], load) for name, load in loads.items()}
        with (
            asking(tmp_path, known[entry["reference"]]) as ask_older,
            asking(tmp_path, known[finding.subject.name]) as ask,
        ):
            both = {entry["reference"]: ask_older, finding.subject.name: ask}
            return replay_finding(finding, lambda who, asked: both[who.name](who, asked)).state

    assert replayed("load_sound", "load_wrong") == "STILL"
    assert replayed("load_sound", "load_sound") == "FIXED"
    assert replayed("load_wrong", "load_wrong") == "CHANGED", "they agree, and are wrong"


def test_a_missing_type_is_supported_later_and_a_wrong_refusal_is_fixed(tmp_path):
    numbers = {"1": "load_without_uint8", "2": "load_sound", "3": "load_picky", "4": "load_sound"}
    found = explored(tmp_path, *(version(number, load) for number, load in numbers.items()), cases=150)
    said = sorted(
        (f.change.older, f.change.newer, f.change.kind, f.change.what) for f in found if f.change.kind != "other"
    )
    refusals = [f"refuses per {what} calls (ValueError)" for what in ("axis", "tensor")]
    assert said == [
        ("1", "2", "supported", "x of uint8"),
        *(("2", "3", "broken", what) for what in refusals),
        *(("3", "4", "fixed", what) for what in refusals),
    ]
    supported = next(f for f in found if f.change.kind == "supported")
    assert {cell.x_dtype for cell in supported.cells} == {"uint8"}
    assert supported.call.values, "a witness with values says more than an empty one"


def test_forbidden_calls_and_deaths(tmp_path):
    numbers = {"1": "load_sound", "2": "load_lax", "3": "load_dying"}
    found = explored(tmp_path, *(version(number, load) for number, load in numbers.items()), cases=120)
    said = [(f.change.older, f.change.newer, f.change.kind, f.change.what) for f in found]
    assert ("1", "2", "broken", "forbidden by scales-type") in said
    assert ("2", "3", "fixed", "forbidden by scales-type") in said
    assert ("2", "3", "broken", "ends the process") in said
    assert len(said) < 40


def test_shrinking_keeps_that_there_are_values(tmp_path):
    report = run(tmp_path, version("1", "load_without_uint8"), version("2", "load_sound"), cases=40)
    (first, *_) = [f for f in report["findings"] if f.get("change", {}).get("kind") == "supported"]
    assert (first["shrunk"], first["witness"]["got"]["kind"]) == ("minimal", "tensor")
    assert len(first["witness"]["call"]["tensors"]["x"]["data"]) == 1


def test_one_version_alone_has_no_history(tmp_path):
    report = run(tmp_path, version("1", "load_wrong"), cases=20)
    assert changes(report) == []
    assert histories(report) == []
    assert 'id="changes"' not in render(report, "html")


def test_a_script_compares_the_installed_version_with_the_newer_one(history):
    _, report = history
    finding = next(f for f in report["findings"] if f.get("change", {}).get("kind") == "fixed")
    text = script_for(finding)
    for name in ("fake==1.8", "fake==1.9.1"):
        assert f"{name}: float32" in text
    result = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 3, "no package is called fake"
    assert "fake==1.9.1: float32" in result.stdout


def test_a_missing_feature_is_the_first_property_that_no_answered_cell_has():
    def cell(x: str = "int8", scale: str = "float32", out: str = "float32", granularity: str = "per_tensor") -> Cell:
        return Cell("a/b-1", x, scale, "", out, granularity, "")

    answered = {cell(), cell("uint8", granularity="per_axis"), cell("uint8", "float16", "float16")}
    assert _feature("a/b-1", cell(), ()) == ("a/b-1", "a/b-1"), "the whole edition"
    assert _feature("a/b-1", cell("int4"), answered) == ("x:int4", "x of int4")
    assert _feature("a/b-1", cell(out="float16"), answered) == (
        "scale:float32:float16", "a scale of float32 with a result of float16"
    )  # fmt: skip
    assert _feature("a/b-1", cell(granularity="blocked"), answered) == ("granularity:blocked", "blocked calls")
    assert _feature("a/b-1", cell(granularity="per_axis"), answered) == ("x:int8:per_axis", "x of int8, per axis")


def test_refusing_types_that_the_older_version_lacks_is_no_check_of_that_version():
    forbidden = call([1])
    here = {CONTRACT.cell(forbidden)}
    assert _has_types_that_one_lacks(forbidden, here, ())
    assert not _has_types_that_one_lacks(forbidden, here, here)
    assert not _has_types_that_one_lacks(forbidden, (), ()), "no version has them: the clause forbids them"
