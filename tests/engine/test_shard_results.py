"""Shards of a sweep: merged, they give the report of the undivided run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from xverify import contracts
from xverify.core.errors import DamagedFileError, UsageError
from xverify.core.shard import Shard
from xverify.engine import shard_results
from xverify.engine.events import Progressed, SweepStarted
from xverify.engine.options import Options
from xverify.engine.sweep import as_one_run, sweep
from xverify.oracles import all_oracles
from xverify.report.schema import check, check_causes

ONNX = "ai.onnx/DequantizeLinear-"

TIMES = ("id", "started", "seconds", "own_seconds", "attribution_seconds")
"""Facts about a run that differ when it is made again."""


def options(directory: Path, versions: tuple[int, ...], cases: int, most: int) -> Options:
    known = all_oracles()
    loaded = tuple(contracts.get(f"{ONNX}{version}") for version in versions)
    oracles = (known["xverify-numpy"], known["onnx-reference"])
    return Options(loaded, oracles, directory, directory.name, "xverify sweep", 5, 60.0, cases, most_cases=most)


def divided(whole: Options, count: int, folder: Path) -> list[shard_results.ShardResult]:
    results = []
    for index in range(1, count + 1):
        directory = folder / f"shard-{index}"
        report = sweep(replace(whole, directory=directory, shard=Shard(index, count)), lambda event: None)
        check(report)
        results.append(shard_results.read_shard(directory / shard_results.FILE))
    return results


def without_times(report: dict[str, Any]) -> dict[str, Any]:
    """The report as JSON without times and worker restarts."""
    data = json.loads(json.dumps(report))
    data["run"] = {name: fact for name, fact in data["run"].items() if name not in TIMES}
    data["run"]["workers"] = [
        {name: fact for name, fact in row.items() if name not in ("seconds", "restarts")}
        for row in data["run"]["workers"]
    ]
    return data


@pytest.fixture(scope="module")
def four(tmp_path_factory) -> tuple[dict[str, Any], list[shard_results.ShardResult]]:
    """An undivided run of four editions, and its four shards."""
    folder = tmp_path_factory.mktemp("four")
    whole = options(folder / "whole", (10, 13, 19, 23), 120, 2000)
    return sweep(whole, lambda event: None), divided(whole, 4, folder)


def test_merged_shards_are_the_undivided_run(four):
    whole, results = four
    merged = shard_results.merge(results[::-1])
    assert merged.missing == merged.repeated == ()
    assert len(whole["findings"]) > 3
    assert without_times(merged.report) == without_times(whole)


def test_merged_slices_are_the_undivided_run(tmp_path):
    whole = options(tmp_path / "whole", (19, 23), 60, 20)
    report = sweep(whole, lambda event: None)
    check(report)
    check_causes(report)
    assert (report["coverage"]["cases"], len(report["editions"])) == (60, 2)
    assert without_times(shard_results.merge(divided(whole, 2, tmp_path)).report) == without_times(report)


def test_a_missing_shard_is_named_and_the_report_is_not_complete(four):
    merged = shard_results.merge([result for result in four[1] if result.shard.index != 3])
    assert merged.missing == (Shard(3, 4),)
    assert "shard 3/4" in str(shard_results.unable(merged.missing))
    assert not merged.report["run"]["complete"]
    assert merged.report["run"]["left_out"][-1].endswith("3/4")


def test_a_shard_that_is_there_twice_counts_once_if_it_is_the_same(four):
    whole, results = four
    again = replace(results[0], path=Path("elsewhere"))
    merged = shard_results.merge([*results, again])
    assert merged.repeated == (again,)
    assert merged.report["coverage"]["cases"] == whole["coverage"]["cases"]
    other = json.loads(json.dumps(again.sessions[0].report))
    other["coverage"]["cases"] += 1
    differing = replace(again, sessions=(replace(again.sessions[0], report=other),))
    with pytest.raises(UsageError, match=r"shard 1/4 is there 2 times with different results: .* and elsewhere"):
        shard_results.merge([*results, differing])


def test_a_shard_of_another_run_is_refused(four):
    _, results = four
    with pytest.raises(UsageError, match="shards of different runs"):
        shard_results.merge([results[0], replace(results[1], of="0" * 16)])


def test_a_finding_names_the_processors_if_the_shards_ran_on_several(four):
    _, results = four

    def elsewhere(result: shard_results.ShardResult) -> shard_results.ShardResult:
        report = json.loads(json.dumps(result.sessions[0].report))
        report["run"]["machine"]["processor"] = "another processor"
        return replace(result, sessions=(replace(result.sessions[0], report=report),))

    report = shard_results.merge([elsewhere(results[0]), *results[1:]]).report
    moved = {finding["id"] for session in results[0].sessions for finding in session.report["findings"]}
    named = {finding["id"]: finding["processors"] for finding in report["findings"]}
    assert moved
    assert all((listed == ["another processor"]) == (name in moved) for name, listed in named.items())


def test_a_shard_without_work_is_a_result_too(tmp_path):
    whole = options(tmp_path / "whole", (19,), 5, 2000)
    (report,) = [sweep(replace(whole, shard=Shard(2, 2)), lambda event: None)]
    check(report)
    assert (report["run"]["shard"]["index"], report["coverage"]["cases"]) == (2, 0)
    assert shard_results.merge([shard_results.read_shard(whole.directory / shard_results.FILE)]).missing == (
        Shard(1, 2),
    )


@pytest.mark.parametrize("damage", [
    lambda data: data.pop("of"),
    lambda data: data.update(schema="xverify.report/2"),
    lambda data: data.update(index=9),
    lambda data: data["sessions"][0].update(folder="../.."),
    lambda data: data["sessions"][0]["beside"]["codes"].update(int8="f" * 65),
    lambda data: data["sessions"][0]["beside"].pop("ways"),
])  # fmt: skip
def test_a_damaged_file_is_refused_in_a_sentence(four, tmp_path, damage):
    data = json.loads(four[1][0].path.read_text())
    damage(data)
    file = tmp_path / shard_results.FILE
    file.write_text(json.dumps(data))
    with pytest.raises(DamagedFileError, match=r"shard\.json is not the file of a shard"):
        shard_results.read_shard(file)


def test_the_events_of_sessions_are_those_of_one_run():
    seen: list[Any] = []
    emit = as_one_run(seen.append)
    for cases in (5, 7):
        emit(SweepStarted("run", (ONNX,), (), None, 12))
        emit(Progressed("walk", cases, 10, 1, 2.0))
    assert seen == [
        SweepStarted("run", (ONNX,), (), None, 12),
        Progressed("walk", 5, 10, 1, 2.0),
        Progressed("walk", 12, 20, 2, 4.0),
    ]
