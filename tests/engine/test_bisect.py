"""The search over versions, with fakes in place of a registry and environments."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from folders import SUPPORT

from xverify import cli, contracts
from xverify.core.errors import EnvironmentFailedError, UsageError
from xverify.engine import versions
from xverify.engine.bisect import Bisection, Trial, bisect
from xverify.engine.options import Options
from xverify.engine.replay import finding_from_report
from xverify.engine.sweep import sweep
from xverify.engine.versions import between
from xverify.environments import cache
from xverify.oracles.protocol import Oracle
from xverify.report.bisection import bisection_to_json

MULTIPLY = "onednn/DynamicDequantize-1@multiply"
HERE = str(SUPPORT)


class Versions:
    """A row of versions: "+" shows the finding, "-" does not, "x" cannot be tried."""

    def __init__(self, row: str) -> None:
        self.row, self.names, self.tried = row, [f"1.{i}" for i in range(len(row))], []

    def probe(self, version: str) -> Trial:
        self.tried.append(version)
        states = {"+": "shows", "-": "does not", "x": "not tried"}
        return Trial(version, states[self.row[self.names.index(version)]], "no wheel")

    def search(self, known: str = "") -> Bisection:
        return bisect(self.names, self.probe, known)


def edges(found: Bisection) -> list[tuple[str, str, bool, tuple[str, ...]]]:
    return [(edge.before.version, edge.after.version, edge.appears, edge.between) for edge in found.edges]


@pytest.mark.parametrize("length", [2, 3, 7, 40, 129])
def test_the_first_version_is_found_wherever_it_is_in_few_trials(length):
    for first in range(1, length):
        for row, appears in (
            ("-" * first + "+" * (length - first), True),
            ("+" * first + "-" * (length - first), False),
        ):
            given = Versions(row)
            assert edges(given.search()) == [(f"1.{first - 1}", f"1.{first}", appears, ())]
            assert len(given.tried) <= 2 + math.ceil(math.log2(length))
            assert len(set(given.tried)) == len(given.tried), "none is tried twice"


@pytest.mark.parametrize(
    ("row", "known", "expected", "answer"),
    [
        ("++++++", "", [], "nothing changes between 1.0 and 1.5: both show it"),
        ("++++++", "1.2", [], "nothing changes between 1.0 and 1.5: all 3 that were tried show it"),
        ("------", "", [], "nothing changes between 1.0 and 1.5: neither shows it"),
        ("+", "", [], "only 1.0 could be tried, and it shows it"),
        ("x-x", "", [], "only 1.1 could be tried, and it does not show it"),
        ("xxxx", "", [], "no version could be tried"),
        ("", "", [], "no version could be tried"),
        ("-x+", "", [("1.0", "1.2", True, ("1.1",))],
         "1.2 is the first version that shows it; 1.0 does not (1.1 between them could not be tried)"),
        ("+-", "", [("1.0", "1.1", False, ())], "1.1 is the first version that no longer shows it; 1.0 still does"),
        ("--xxx++", "", [("1.1", "1.5", True, ("1.2", "1.3", "1.4"))], None),
        ("xxxxx--+++", "", [("1.6", "1.7", True, ())], None),
        ("--+++xxxxxx", "", [("1.1", "1.2", True, ())], None),
        ("---++++---", "1.4", [("1.2", "1.3", True, ()), ("1.6", "1.7", False, ())],
         "1.3 is the first version that shows it; 1.2 does not; "
         "1.7 is the first version that no longer shows it; 1.6 still does"),
        ("---++++---", "", [], "nothing changes between 1.0 and 1.9: neither shows it"),
        ("---++++---", "1.1", [], "nothing changes between 1.0 and 1.9: none of the 3 that were tried shows it"),
    ],
)  # fmt: skip
def test_rows_that_are_not_so_simple(row, known, expected, answer):
    given = Versions(row)
    found = given.search(known)
    assert edges(found) == expected
    assert answer in (None, found.answer)
    assert [trial.version for trial in found.trials] == sorted(given.tried, key=given.names.index)


def test_of_several_changes_one_is_found_whose_neighbours_were_really_tried():
    for number in range(1, 2**9):
        row = "-" + "".join("+" if number >> i & 1 else "-" for i in range(9)) + "+"
        given = Versions(row)
        ((before, after, appears, between_them),) = edges(given.search())
        assert given.names.index(after) == given.names.index(before) + 1
        assert {before, after} <= set(given.tried)
        assert (row[given.names.index(before)], row[given.names.index(after)], appears, between_them) == (
            "-",
            "+",
            True,
            (),
        )


def test_a_long_row_that_cannot_be_tried_costs_little():
    given = Versions("x" * 100 + "-" * 20 + "+" * 8)
    assert edges(given.search()) == [("1.119", "1.120", True, ())]
    assert len(given.tried) < 25


# -- versions -----------------------------------------------------------------------------------------

OFFERED = ["1.2.0", "1.10.0", "1.9.1", "1.11.0rc1", "1.9.0"]


def test_versions_lie_between_two_and_pre_releases_are_left_out():
    assert between(OFFERED, "", "") == ["1.2.0", "1.9.0", "1.9.1", "1.10.0"]
    assert between(OFFERED, "1.9", "1.9.1") == ["1.9.0", "1.9.1"]


@pytest.mark.parametrize(
    ("first", "last", "sentence"),
    [
        ("2", "", "no version lies between 2 and the newest; what is offered goes from 1.2.0 to 1.11.0rc1"),
        ("1.9", "1.2", "--from 1.9 is newer than --to 1.2"),
        ("one", "", "'one' is not a version"),
    ],
)
def test_wrong_bounds_are_one_sentence(first, last, sentence):
    with pytest.raises(UsageError, match=sentence):
        between(OFFERED, first, last)


# -- a finding asked of each version ------------------------------------------------------------------


def version(number: str, load: str) -> Oracle:
    return Oracle(
        f"fake=={number}", "numpy", (MULTIPLY,), (MULTIPLY,), "version_oracles", load,
        search_path=(HERE,), needs_xverify=True, version=number,
    )  # fmt: skip


HISTORY = {
    "1.0": "load_sound", "1.1": "load_sound", "1.2": "", "1.3": "load_wrong", "1.4": "load_wrong", "1.5": "load_missing",
}  # fmt: skip
"""The behaviour of each version. 1.2 cannot be installed and 1.5 cannot be loaded."""


def make(number: str) -> Oracle:
    if not HISTORY[number]:
        raise EnvironmentFailedError(f"fake {number} is not offered")
    return version(number, HISTORY[number])


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """Run a sweep of the wrong version alone."""
    directory = tmp_path_factory.mktemp("runs") / "wrong"
    loaded = (contracts.get(MULTIPLY),)
    sweep(Options(loaded, (make("1.4"),), directory, "wrong", "xverify sweep", 3, 60.0, 60), lambda event: None)
    return directory


def entry_of(run: Path, verdict: str) -> dict:
    report = json.loads((run / "report.json").read_text())
    return next(f for f in report["findings"] if f["verdict"] == verdict)


def test_the_witness_is_asked_of_each_version_and_what_cannot_be_run_is_named(run, tmp_path):
    finding = finding_from_report(entry_of(run, "violation"), run)
    said: list[str] = []
    probe = versions.probing(finding, make, tmp_path, (), said.append)
    found = bisect(list(HISTORY), probe, finding.subject.version)
    assert edges(found) == [("1.1", "1.3", True, ("1.2",))]
    states = {trial.version: (trial.state, trial.words) for trial in found.trials}
    assert states["1.2"] == ("not tried", "fake 1.2 is not offered")
    assert states["1.5"][0] == "not tried"
    assert "load_missing" in states["1.5"][1]
    assert states["1.0"][1].startswith("float32 [")
    assert states["1.0"][1] == states["1.1"][1] != states["1.3"][1]
    assert [line for line in said if line.startswith("1.3: shows it (")]
    data = bisection_to_json(found, "fake", finding.id, list(HISTORY), 1.25)
    assert data == json.loads(json.dumps(data))
    assert data["edges"] == [{"appears": True, "before": "1.1", "after": "1.3", "not_tried_between": ["1.2"]}]


def test_a_refusal_of_the_whole_cell_is_not_the_finding_that_some_calls_are_refused(tmp_path):
    loaded = (contracts.get(MULTIPLY),)
    report = sweep(
        Options(loaded, (version("3", "load_picky"),), tmp_path, "t", "xverify sweep", 3, 60.0, 80), lambda event: None
    )
    entry = next(f for f in report["findings"] if f["verdict"] == "wrongly-rejected")
    finding = finding_from_report(entry, tmp_path)
    loads = {"1": "load_refusing", "2": "load_sound", "3": "load_picky"}
    probe = versions.probing(
        finding, lambda number: version(number, loads[number]), tmp_path, (), lambda sentence: None
    )
    trials = [probe(number) for number in loads]
    assert [trial.state for trial in trials] == ["does not", "does not", "shows"]
    assert trials[0].words.endswith("as for every call of these types")


# -- the command --------------------------------------------------------------------------------------


def xverify(*words: object, code: int) -> str:
    result = CliRunner().invoke(cli.main, [str(word) for word in words])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return " ".join(result.output.split())


@pytest.fixture
def registry(monkeypatch):
    """A registry that offers the fake's versions."""
    monkeypatch.setattr(cache, "versions_offered", lambda package: list(HISTORY))
    plain = replace(version("1.4", "load_wrong"), name="fake", distribution="fake-package", version="")
    monkeypatch.setattr(versions, "all_oracles", lambda: {"fake": plain})
    monkeypatch.setattr(versions, "making", lambda oracle, package, say: make)


def test_the_command_prints_a_table_and_the_answer(run, registry, tmp_path):
    finding, file = entry_of(run, "violation")["id"], tmp_path / "b.json"
    output = xverify("bisect", finding, "--runs", run.parent, "--json", file, code=0)
    assert (
        "fake-package: 1.3 is the first version that shows it; 1.1 does not (1.2 between them could not be tried)."
        in output
    )
    assert "These could not be tested: 1.2, 1.5." in output
    assert "6 versions of fake-package, 1.0 to 1.5" in output
    assert json.loads(file.read_text())["package"] == "fake-package"
    output = xverify(
        "bisect", finding, "--runs", run.parent, "--package", "fake-gpu", "--from", "1.3", "--to", "1.4", code=0
    )
    assert "fake-gpu: nothing changes between 1.3 and 1.4: both show it." in output


def test_mistakes_are_one_clear_sentence(run, registry, tmp_path):
    assert "has a cause or finding 'nothing'" in xverify("bisect", "nothing", "--runs", run.parent, code=2)
    sentence = xverify("bisect", run / "report.json", code=2)
    assert "findings, but bisect takes one" in sentence
    finding = entry_of(run, "violation")["id"]
    assert "not a version" in xverify("bisect", finding, "--runs", run.parent, "--from", "x", code=2)
    output = xverify("bisect", finding, "--runs", run.parent, "--from", "1.5", code=3)
    assert "no version could be tried" in output


def test_a_finding_on_a_kernel_has_no_versions(run):
    entry = entry_of(run, "violation")
    entry["subject"] = {**entry["subject"], "name": "xverify-numpy", "role": "kernel"}
    with pytest.raises(UsageError, match="a finding on the kernel xverify-numpy"):
        versions.implementation(finding_from_report(entry, run))
