"""The SQLite file: what it keeps, what it refuses, and two writers."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest
from recorded_runs import is_wrap, regrouped, run, wrap_of

from xverify.core.errors import DamagedFileError, UnableError, UsageError
from xverify.history import store
from xverify.history.questions import cause_named, difference_of, newest_difference
from xverify.history.rows import facts
from xverify.history.store import History
from xverify.report.merge import merged


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "reports" / "history.sqlite"


def test_a_cause_is_present_absent_or_unknown_in_each_version(file: Path) -> None:
    older, newest = run(1, "1.26.0"), run(4, "1.30.0", covers=False)
    with History(file, create=True) as history:
        for report in (newest, run(3, "1.29.0", shows=False), run(2), older):
            assert history.record(report).before == ""
        assert [each.id for each in history.runs()] == ["run-1", "run-2", "run-3", "run-4"]
        cause = cause_named(history, wrap_of(older))
        (strip,) = cause.over_versions()
        assert [square.label for square in strip.squares] == ["1.26.0", "1.27.0", "1.29.0", "1.30.0"]
        assert (strip.marks, strip.since) == ("##.?", "gone since 1.29.0")
        assert cause.over_runs({2: "run-3", 1: "run-4"}).marks == ".?"
        assert cause.last_sight([4]).line.startswith("ai.onnx/DequantizeLinear-21 x=int32[1]:80000000 ")  # type: ignore[union-attr]
        with pytest.raises(UsageError, match="has no cause 'cause-x'"):
            cause_named(history, "cause-x")
    assert [path.name for path in file.parent.iterdir()] == ["history.sqlite"]


def test_the_file_keeps_cells_versions_processor_and_times(file: Path) -> None:
    with History(file, create=True) as history:
        history.record(run(1))
        (kept,) = history.runs()
    assert (kept.seconds, kept.processor) == (67.2, "AMD EPYC 9V74, avx2 avx512f")
    assert "onnxruntime 1.27.0" in kept.implementations
    with sqlite3.connect(file) as database:
        cells = database.execute("SELECT status, calls FROM cells JOIN cell_names USING (cell) WHERE x_dtype = 'int32'")
        assert ("violation", 300) in cells.fetchall()
        assert database.execute("SELECT version FROM packages WHERE package = 'onnx'").fetchone() == ("1.23.2",)


def test_a_run_is_added_once_alone_or_merged(file: Path) -> None:
    one, two, three = run(1), run(2), run(3)
    with History(file, create=True) as history:
        history.record(one)
        assert history.record(one).words == "run run-1 is there already; nothing added"
        assert history.record(merged([one, two])).before == "run-1"
        assert history.record(merged([two, three])).before == ""
        assert history.record(three).before == "run-2+run-3"
        assert history.record(run(1, machine={**one["run"]["machine"], "processor": "another"})).before == ""
        with pytest.raises(UsageError, match="2 runs with the id run-1"):
            history.number_of("run-1")


def test_the_id_does_not_depend_on_a_ledger() -> None:
    report = run(1)
    for finding in report["findings"]:
        finding["ledger"] = {"state": "known", "entry": "wrap", "reason": "", "owner": "", "expires": ""}
    assert set(facts(regrouped(report)).causes) == set(facts(run(1)).causes)


def test_a_cause_that_another_report_groups_differently_is_still_there() -> None:
    alone, both = run(1), run(2)
    wrong = next(finding for finding in both["findings"] if is_wrap(finding))
    subject = {**wrong["subject"], "name": "onnx-reference", "version": "1.23.2"}
    both["findings"].append({**wrong, "id": "violation-0000000000", "subject": subject})
    both = regrouped(both)
    assert wrap_of(both) != wrap_of(alone)  # now no implementation follows the sentence
    compared = difference_of(both, alone)
    assert wrap_of(alone) not in {change.cause for _, changes in compared.parts() for change in changes}
    assert wrap_of(both) not in {change.cause for change in (*compared.new, *compared.unseen)}


def test_a_cause_is_not_gone_where_the_implementation_refuses_its_calls() -> None:
    refusing = run(2, shows=False)
    for cell in refusing["coverage"]["cells"]:
        if cell["status"] == "agrees" and cell["x_dtype"] == "int32":
            cell["status"] = "wrongly-rejected"
    compared = difference_of(refusing, run(1))
    assert [change.cause for change in compared.uncovered] == [wrap_of(run(1))]
    assert compared.gone == ()


def test_the_last_run_is_compared_with_those_before(file: Path) -> None:
    with History(file, create=True) as history:
        history.record(run(2, shows=False))
        with pytest.raises(UsageError, match="no run before run-2"):
            newest_difference(history)
        history.record(run(1))
        history.record(run(3, covers=False))
        history.record(run(4))
        wrap = wrap_of(run(1))
        assert [change.cause for change in newest_difference(history).new] == [wrap]
        assert [change.cause for change in newest_difference(history, "run-2").gone] == [wrap]
        assert not newest_difference(history, since="run-1").has_new
        with pytest.raises(UsageError, match="did not start before run-1"):
            newest_difference(history, "run-1", "run-4")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"no database " * 100, "is damaged or not a history of xverify"),
        ("CREATE TABLE other (x)", "is not a history of xverify"),
        (f"PRAGMA application_id = {store.APPLICATION}; PRAGMA user_version = 2", "is a history of a newer xverify"),
    ],
)
def test_a_file_that_is_no_history_is_refused(content: bytes | str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        with sqlite3.connect(path) as database:
            database.executescript(content)
    before = path.read_bytes()
    with pytest.raises(DamagedFileError, match=sentence):
        History(path, create=True)
    assert path.read_bytes() == before


def test_a_truncated_file_is_refused(file: Path) -> None:
    with History(file, create=True) as history:
        history.record(run(1))
    file.write_bytes(file.read_bytes()[:20_000])
    with pytest.raises(DamagedFileError, match="is damaged"), History(file) as history:
        history.causes()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no history at .*; make one with: xverify history record RUN"):
        History(tmp_path / "none.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_added_whole_or_not_at_all(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> int:
        raise KeyboardInterrupt

    with History(file, create=True) as history:
        with monkeypatch.context() as patch:
            patch.setattr(store._Names, "clause", fails)
            with pytest.raises(KeyboardInterrupt):
                history.record(run(1))
        assert history.runs() == []
        assert history.record(run(1)).before == ""


def test_two_writers_wait_for_each_other(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    History(file, create=True).close()
    other = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.3, other.execute, ("COMMIT",))
    release.start()
    with History(file) as history:
        assert history.record(run(1)).before == ""
    release.join()
    monkeypatch.setattr(store, "PATIENCE", 0.01)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(UnableError, match="is in use by another command"), History(file) as history:
        history.record(run(2))
    other.close()
