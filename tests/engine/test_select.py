"""Names and files that a user types: findings in all runs, output files, budgets."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from xverify import contracts
from xverify.contracts import documents
from xverify.core.errors import DamagedFileError, UsageError
from xverify.engine import select
from xverify.oracles import all_oracles

OLD, NEW, BOTH = (f"violation-{digit * 10}" for digit in "123")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder with two runs."""
    for time, (name, ids) in enumerate((("old", (OLD, BOTH)), ("new", (NEW, BOTH)))):
        report = tmp_path / name / "report.json"
        report.parent.mkdir()
        report.write_text('{"findings": [' + ", ".join(f'{{"id": "{identity}"}}' for identity in ids) + "]}")
        os.utime(report, (time, time))
    return tmp_path


def test_a_finding_is_looked_up_in_all_runs_newest_first(runs: Path):
    holders = {finding: select.report_with(finding, None, runs).parent.name for finding in (OLD, NEW, BOTH)}
    assert holders == {OLD: "old", NEW: "new", BOTH: "new"}
    assert select.report_with(BOTH, "old", runs).parent.name == "old"
    with pytest.raises(UsageError, match=f"old/report.json has no cause or finding '{NEW}'"):
        select.report_with(NEW, "old", runs)
    with pytest.raises(
        UsageError, match=rf"none of the runs .* \(2\) has a cause or finding .* \(did you mean {OLD}\?\)"
    ):
        select.report_with(OLD[:-1] + "2", None, runs)
    with pytest.raises(UsageError, match="there is no run under"):
        select.report_with(OLD, None, runs / "old")
    (runs / "old" / "report.json").write_text('{"findings": [')
    with pytest.raises(DamagedFileError, match=r"old/report\.json is not JSON"):
        select.report_with(NEW, "old", runs)


def test_an_output_file_is_opened_and_left_unchanged(tmp_path: Path):
    absent, present = tmp_path / "a" / "absent", tmp_path / "present"
    present.write_text("kept")
    assert select.writable_file(absent) == absent
    assert not absent.exists()
    assert select.writable_file(present).read_text() == "kept"
    assert select.writable_file(Path(os.devnull)) == Path(os.devnull)
    with pytest.raises(UsageError, match="cannot be written: Is a directory"):
        select.writable_file(tmp_path)


def test_a_budget_below_the_least_one_is_refused():
    assert select.seconds("2s", 1.0) == 2.0
    with pytest.raises(UsageError, match="a budget of 500s is too small: 600s is the least"):
        select.seconds("500s", 600.0)


def test_a_default_sweep_asks_no_documents_of_other_releases() -> None:
    onednn = replace(all_oracles()["onednn"], judged_by=contracts.of_onednn((3, 2)))
    asked = set(select.without_other_releases(onednn).contracts)
    assert set(contracts.of_onednn((3, 2))) < asked
    assert asked - set(contracts.of_onednn((3, 2))) == {
        f"onednn/DynamicDequantize-1@{name}" for name in ("multiply", "divide")
    }
    assert select.without_other_releases(all_oracles()["onnxruntime"]) == all_oracles()["onnxruntime"]


def test_a_framework_gets_the_newest_edition_that_onnxruntime_has_and_a_kernel_the_newest():
    oracles = all_oracles()
    theirs = {f"ai.onnx/DequantizeLinear-{v}" for v in documents.versions(documents.schemas("onnxruntime"), "")}
    for kernel in (None, oracles["xverify-numpy"]):
        assert select.edition_by_default(kernel) == contracts.newest()
    assert select.edition_by_default(oracles["onnxruntime"]) == [i for i in contracts.ids() if i in theirs][-1]


KERNEL = "def f(x, scale, zero_point=None, *, axis=1, block_size=0, out_dtype=None): ...\n"


def test_kernels_of_the_user_stand_beside_implementations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in "ab":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "k.py").write_text(KERNEL)
    (tmp_path / "mine.py").write_text(KERNEL)
    targets = ["a/k.py:f", "onnx-reference", "mine:f", "b/k.py:f", "./a/k.py:f", "a/k.py:f"]
    chosen, _ = select.oracles_named(targets, None)
    names = ["xverify-numpy", "k.py:f", "onnx-reference", "mine:f", "b/k.py:f"]
    assert [oracle.name for oracle in chosen] == names
    held = [select.held_by_default(oracle).contracts for oracle in chosen if select.is_of_user(oracle)]
    assert held == [(contracts.newest(),)] * 3
    (tmp_path / "lib.so").touch()
    edition = contracts.get("onednn/DynamicDequantize-1@multiply")
    with pytest.raises(UsageError, match=r"lib.so:f takes no calls of onednn/DynamicDequantize-1@multiply"):
        select.oracles_named(["lib.so:f"], None, held_to=[edition])


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        (
            "onxruntime",
            "(did you mean onnxruntime?); see: xverify oracles; a kernel of your own is named path/file.py:",
        ),
        ("onxruntime:CPU", "neither an implementation (did you mean onnxruntime?) nor a kernel of yours: there is no"),
        ("none.py:f", "neither an implementation nor a kernel of yours: there is no file none.py"),
        ("a-b:f", "'a-b' is neither a module"),
    ],
)
def test_the_message_on_what_is_neither_implementation_nor_kernel(name: str, complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        select.oracles_named([name], None)
    assert complaint in str(caught.value)
