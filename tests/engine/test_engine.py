"""Whole runs of implementations with known mistakes: found, named, shrunk, stored and replayed."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest
from folders import SUPPORT

from xverify import contracts
from xverify.core.errors import DamagedFileError
from xverify.engine.events import FindingFound, Progressed, SweepFinished, SweepStarted, WorkerFailed
from xverify.engine.options import Options
from xverify.engine.plan import batches
from xverify.engine.replay import asking, finding_from_report, replay_finding
from xverify.engine.sweep import sweep
from xverify.oracles import all_oracles
from xverify.oracles.protocol import Oracle
from xverify.report.gaps import unreported

MULTIPLY = "onednn/DynamicDequantize-1@multiply"
DIVIDE = "onednn/DynamicDequantize-1@divide"
HERE = str(SUPPORT)


def flawed(load: str, name: str = "flawed") -> Oracle:
    return Oracle(
        name, "numpy", (MULTIPLY,), (MULTIPLY,), "flawed_oracles", load, search_path=(HERE,), needs_xverify=True
    )


def run(tmp_path: Path, *oracles: Oracle, cases: int = 700, seed: int = 3, names=(MULTIPLY,), emit=lambda event: None):
    known = all_oracles()
    chosen = (known["xverify-numpy"], *oracles)
    loaded = tuple(contracts.get(name) for name in names)
    return sweep(Options(loaded, chosen, tmp_path, "test", "xverify sweep", seed, 60.0, cases), emit)


def of(report: dict, name: str, verdict: str) -> list[dict]:
    return [f for f in report["findings"] if f["subject"]["name"] == name and f["verdict"] == verdict]


CASES = 350


@pytest.fixture(scope="module")
def flaws(tmp_path_factory):
    """The directory, report and events of one sweep of several implementations with a mistake each."""
    directory = tmp_path_factory.mktemp("flaws")
    broken = Oracle("broken", "numpy", ("*",), ("*",), "fake_oracles", "load_broken", search_path=(HERE,))
    others = [flawed(f"load_{name}", name) for name in ("tail", "dying", "fickle")]
    others.append(replace(flawed("load_tail", "unjudged"), judged_by=(), claim="Nothing."))
    events = []
    report = run(directory, flawed("load_ignoring"), *others, broken, cases=CASES, emit=events.append)
    return directory, report, events


def test_a_mistake_is_found_named_and_shrunk_to_one_value(flaws):
    _, report, _ = flaws
    (finding,) = of(report, "flawed", "violation")
    assert finding["clause"] == f"{MULTIPLY}/formula"
    assert finding["attribution"]["reading"].startswith("ignored")
    assert finding["attribution"]["explained_values"] == finding["values"] > 1000
    tensors = finding["witness"]["call"]["tensors"]
    assert (finding["shrunk"], tensors["x"]["shape"]) == ("minimal", [])
    (entry,) = finding["witness"]["legal"]
    assert entry["got"] not in [legal["hex"] for legal in entry["legal"]]
    assert len(finding["cells"]) > 3


def test_a_document_that_does_not_judge_is_not_followed_in_one_finding(flaws):
    _, report, _ = flaws
    (finding,) = [f for f in report["findings"] if f["subject"]["name"] == "unjudged"]
    assert (finding["verdict"], finding["shrunk"]) == ("not-followed", "minimal")
    assert finding["witness"]["call"]["tensors"]["x"]["shape"] == [17]
    rows = [row for row in report["coverage"]["cells"] if row["subject"] == "unjudged"]
    differing = [row for row in rows if row["status"] == "not-judged-differs"]
    assert {row["x_dtype"] for row in differing} == {"int8", "uint8"}
    assert [{name: row[name] for name in finding["cells"][0]} for row in differing] == finding["cells"]
    (followed,) = finding["followed"]
    counts = f"{finding['values']:,} of {followed['of']:,}".replace(",", " ")
    assert finding["summary"] == f"unjudged does not follow {MULTIPLY} ({counts} values differ)"
    assert followed["values"] + finding["values"] == followed["of"]
    (worker,) = [w for w in report["run"]["workers"] if w["name"] == "unjudged"]
    assert (worker["claim"], worker["judged_by"]) == ("Nothing.", [])


def test_every_cell_that_differs_belongs_to_a_finding(flaws):
    _, report, _ = flaws
    assert unreported(report) == []
    assert {row["status"] for row in report["coverage"]["cells"]} >= {"violation", "crash", "not-judged-differs"}


def test_an_implementation_of_one_page_does_not_follow_the_other(tmp_path):
    rival = replace(all_oracles()["onednn-formula-multiply"], contracts=(DIVIDE,), name="multiplying")
    report = run(tmp_path, rival, cases=40, names=(DIVIDE,))
    (finding,) = [f for f in report["findings"] if f["verdict"] == "not-followed"]
    assert finding["summary"].endswith(f" values differ); it follows {MULTIPLY}")
    assert unreported(report) == []


def test_the_sound_kernel_has_no_finding_and_every_cell_agrees(flaws):
    _, report, _ = flaws
    assert [f for f in report["findings"] if f["subject"]["name"] == "xverify-numpy"] == []
    statuses = {c["status"] for c in report["coverage"]["cells"] if c["subject"] == "xverify-numpy"}
    assert statuses == {"agrees", "unspecified"}


def test_events_tell_the_story_and_findings_are_on_disk_when_announced(flaws):
    directory, report, events = flaws
    kinds = [type(event) for event in events]
    assert kinds[0] is SweepStarted
    assert kinds[-1] is SweepFinished
    assert sum(isinstance(event, Progressed) for event in events) >= CASES // 64
    announced = {event.id for event in events if isinstance(event, FindingFound)}
    written = {json.loads(line)["id"] for line in (directory / "findings.jsonl").read_text().splitlines()}
    assert announced == written == {finding["id"] for finding in report["findings"]}
    assert json.loads((directory / "report.json").read_text()) == report


def test_a_tail_that_is_wrong_is_shrunk_to_the_shortest_row_that_has_one(flaws):
    (finding,) = [f for f in of(flaws[1], "tail", "violation") if f["x_dtype"] == "int8"]
    assert finding["attribution"] is None
    assert finding["shrunk"] == "minimal"
    assert finding["witness"]["call"]["tensors"]["x"]["shape"] == [17]


def test_a_crash_costs_its_call_and_the_worker_goes_on(flaws):
    """That it costs nothing else, tests/workers/test_deaths.py shows."""
    _, report, _ = flaws
    crashes = of(report, "dying", "crash")
    assert crashes
    assert all("SIGABRT" in f["witness"]["got"]["message"] for f in crashes)
    worker = next(w for w in report["run"]["workers"] if w["name"] == "dying")
    assert worker["restarts"] >= 1
    assert worker["spared"] >= 1


def test_different_answers_to_the_same_call_are_seen(flaws):
    assert of(flaws[1], "fickle", "nondeterministic")


def test_an_oracle_that_cannot_load_is_left_out_with_a_sentence(flaws):
    _, report, events = flaws
    assert [event for event in events if isinstance(event, WorkerFailed) and "no such framework" in event.sentence]
    assert report["coverage"]["cases"] == CASES
    assert "no such framework" in next(w["status"] for w in report["run"]["workers"] if w["name"] == "broken")


def test_a_report_has_the_versions_of_what_each_implementation_runs_on(tmp_path):
    distributions = ("no-such-distribution", "rich")
    here = replace(flawed("load_ignoring"), distribution="click", distributions=distributions, needs=("packaging",))
    elsewhere = replace(flawed("load_ignoring", "other"), distribution="jinja2", python=sys.executable, version="1.2")
    versions = run(tmp_path, here, elsewhere, cases=10)["run"]["versions"]
    added = {name: versions[name] for name in versions.keys() & {*distributions, "click", "packaging", "jinja2"}}
    assert added == {name: metadata.version(name) for name in ("click", "packaging", "rich")}


@pytest.mark.slow
def test_the_same_cases_and_seed_give_the_same_report(tmp_path):
    formulas = [all_oracles()[name] for name in ("onednn-formula-multiply", "onednn-formula-divide")]
    names = (MULTIPLY, "onednn/DynamicDequantize-1@divide", "com.microsoft/DequantizeLinear-1@seed")
    first, second = (
        run(tmp_path / str(i), flawed("load_ignoring"), *formulas, cases=900, seed=11, names=names) for i in (1, 2)
    )
    for report in (first, second):
        report.pop("run")
        for finding in report["findings"]:
            finding.pop("reproduce")
    assert first["findings"], "there is a flawed implementation in this run"
    assert first == second


def test_another_seed_makes_other_calls():
    contract = contracts.get(MULTIPLY)

    def digests(seed: int) -> list[str]:
        made = batches(contract, seed)
        return [case.call.digest() for _ in range(12) for case in next(made)]

    assert digests(1) == digests(1)
    assert digests(1) != digests(2)


def test_documents_that_contradict_each_other_or_themselves_are_findings(tmp_path):
    divide = "onednn/DynamicDequantize-1@divide"
    names = (MULTIPLY, divide, "com.microsoft/DequantizeLinear-1@seed", "tensorflow/Dequantize@seed")
    conflicts = [f for f in run(tmp_path, cases=40, names=names)["findings"] if f["verdict"] == "conflict"]
    (between,) = [f for f in conflicts if f["contract"] in (MULTIPLY, divide)]
    assert (between["contract"], between["subject"]["name"]) == (MULTIPLY, divide)
    assert between["witness"]["call"]["tensors"]["x"]["shape"] in ([], [1])
    within = [f["summary"] for f in conflicts if f is not between]
    assert sum("example" in summary for summary in within) == 2
    assert sum("-64" in summary and "-127" in summary for summary in within) == 1
    examples = [f for f in conflicts if "example" in f["summary"]]
    with asking(tmp_path) as ask:
        assert [replay_finding(finding_from_report(f, tmp_path), ask).state for f in examples] == ["STILL"] * 2


@pytest.mark.parametrize(
    ("name", "change", "state"),
    [
        ("flawed", {}, "STILL"),
        ("xverify-numpy", {}, "FIXED"),
        ("flawed", {"readings": ["wrap-x"]}, "CHANGED"),
    ],
)
def test_replay_says_whether_a_finding_is_still_there(tmp_path, monkeypatch, flaws, name, change, state):
    directory, report, _ = flaws
    (entry,) = of(report, "flawed", "violation")
    entry = {**entry, **change, "subject": {**entry["subject"], "name": name}}
    known = {**all_oracles(), "flawed": flawed("load_ignoring")}
    monkeypatch.setattr("xverify.engine.replay.all_oracles", lambda: known)
    with asking(tmp_path) as ask:
        result = replay_finding(finding_from_report(entry, directory), ask)
    assert result.state == state


@pytest.mark.parametrize(
    ("place", "value", "complaint"),
    [
        ("hex", ["0x1ff"], "outside the 8 bits"),
        ("dtype", "int9", "unknown dtype"),
        ("shape", [-1], "list of extents"),
        ("shape", [2**40], "list of extents"),
        ("layout", "upside down", "unknown layout"),
        ("hex", ["__import__('os')"], "invalid literal"),
        ("hex", 7, "damaged"),
    ],
)
def test_a_damaged_witness_is_refused_with_a_sentence(tmp_path, flaws, place, value, complaint):
    entry = json.loads(json.dumps(of(flaws[1], "flawed", "violation")[0]))
    entry["witness"]["call"]["tensors"]["x"][place] = value
    with pytest.raises(DamagedFileError, match=complaint):
        finding_from_report(entry, tmp_path)


def test_the_budget_is_kept(tmp_path):
    import time

    options = Options(
        (contracts.get(MULTIPLY),),
        (flawed("load_ignoring"),),
        tmp_path,
        "test",
        "xverify sweep",
        0,
        6.0,
    )
    begun = time.monotonic()
    report = sweep(options, lambda event: None)
    assert time.monotonic() - begun < 6.0 + 5.0
    assert report["run"]["complete"]
    assert report["coverage"]["cases"] > 300
