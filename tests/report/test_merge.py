"""Merging of reports: counts, remaining recipes, and independence of the order."""

from __future__ import annotations

import copy
import itertools
import json
from typing import Any

import pytest
from click.testing import CliRunner
from sample_report import ONNX, sample_report

from xverify import cli
from xverify.report import render
from xverify.report.merge import merged
from xverify.report.schema import check


def another(number: int, **changes: Any) -> dict[str, Any]:
    """Return the sample as another run."""
    report = sample_report()
    report["run"] |= {
        "id": f"run-{number}",
        "started": f"2026-08-0{number}T00:00:00Z",
        "seconds": 10.1 * number,
    } | changes
    return report


def of(
    report: dict[str, Any], subject: str, x_dtype: str = "int8", granularity: str = "per_tensor"
) -> list[dict[str, Any]]:
    """Return the cells of an implementation for one type."""
    return [
        cell
        for cell in report["coverage"]["cells"]
        if (cell["contract"], cell["subject"], cell["x_dtype"], cell["granularity"])
        == (ONNX, subject, x_dtype, granularity)
    ]


def telling(report: dict[str, Any], own: str, others: list[str], more: int = 0, subject: str = "xverify-numpy") -> None:
    """Change the recipes of a cell."""
    (cell,) = of(report, subject)
    cell["attribution"] = {"reading": own, "words": f"does {own}", "values": 100, "legal": True}
    cell["remaining"] = {"equal": 3, "others": others, "more": more}
    cell["reading"] = [own]


def different() -> list[dict[str, Any]]:
    """Return three runs with different findings, versions and omissions."""
    one, two, three = another(1), another(2), another(3, complete=False)
    telling(one, "one", ["two", "three"])
    telling(two, "one", ["three"], more=2)
    telling(three, "one", ["three", "four"])
    two["findings"] = two["findings"][:4]
    two["findings"][0]["region"] = {"name": "other", "words": "x >= 3"}
    three["findings"] = three["findings"][3:]
    three["findings"][0]["max_ulp"] = -1
    three["coverage"]["cells"] = three["coverage"]["cells"][5:]
    three["editions"] = three["editions"][1:]
    for worker in three["run"]["workers"]:
        if worker["name"] == "onnxruntime":
            worker["version"] = "1.26.0"
    return [one, two, three]


def as_text(report: Any) -> str:
    return json.dumps(report, sort_keys=True)


def test_the_order_of_merging_does_not_matter():
    one, two, three = different()
    whole = as_text(merged([one, two, three]))
    for order in itertools.permutations((one, two, three)):
        assert as_text(merged(order)) == whole
    assert as_text(merged([merged([one, two]), three])) == whole
    assert as_text(merged([one, merged([two, three])])) == whole
    assert as_text(merged([merged([three, one]), two])) == whole


def test_merging_gives_a_valid_report_and_leaves_its_inputs():
    reports = different()
    before = copy.deepcopy(reports)
    result = merged(reports)
    assert reports == before
    check(result)
    for kind in ("html", "markdown", "json", "junit"):
        assert render(result, kind)


def test_counts_are_the_sums():
    one, two, three = different()
    result = merged([one, two, three])
    coverage = result["coverage"]
    assert coverage["cases"] == 3 * 32_464
    assert coverage["values"] == 3 * 6_204_311
    every = [cell for report in (one, two, three) for cell in report["coverage"]["cells"]]
    assert sum(cell["cases"] for cell in coverage["cells"]) == sum(cell["cases"] for cell in every)
    assert result["run"]["phases"]["walk"] == 3 * 9_120
    assert result["run"]["seconds"] == 60.6
    assert not result["run"]["complete"]
    assert [run["id"] for run in result["run"]["merged"]] == ["run-1", "run-2", "run-3"]
    for name in ("cases", "values"):
        for finding in result["findings"]:
            parts = [f[name] for r in (one, two, three) for f in r["findings"] if f["id"] == finding["id"]]
            assert finding[name] == sum(parts)
            assert parts
    tested = {clause["id"]: clause["tested"] for e in result["editions"] for clause in e["clauses"]}
    assert tested[f"{ONNX}/formula"] == sum(
        clause["tested"]
        for r in (one, two, three)
        for e in r["editions"]
        for clause in e["clauses"]
        if clause["id"] == f"{ONNX}/formula"
    )


def test_a_recipe_remains_if_no_run_excluded_it():
    one, two = another(1), another(2)
    telling(one, "one", ["two", "three"])
    telling(two, "one", ["three", "four"])
    (cell,) = of(merged([one, two]), "xverify-numpy")
    assert cell["attribution"] == {"reading": "one", "words": "does one", "values": 200, "legal": True}
    assert cell["remaining"] == {"equal": 3, "others": ["three"], "more": 0}
    assert cell["status"] == "agrees"


def test_a_run_that_lists_not_all_excludes_nothing_that_it_does_not_list():
    one, two = another(1), another(2)
    telling(one, "one", ["two", "three"])
    telling(two, "one", ["four"], more=5)
    (cell,) = of(merged([one, two]), "xverify-numpy")
    assert cell["remaining"]["others"] == ["two", "three"]


def test_the_recipe_is_the_one_that_both_runs_admit():
    one, two = another(1), another(2)
    telling(one, "one", ["two"])
    telling(two, "two", [])
    (cell,) = of(merged([one, two]), "xverify-numpy")
    assert cell["attribution"]["reading"] == "two"
    assert cell["attribution"]["words"] == "does two"
    assert cell["remaining"]["others"] == []


def test_runs_that_disagree_make_a_cell_mixed():
    one, two = another(1), another(2)
    telling(one, "one", ["three"])
    telling(two, "two", [])
    (cell,) = of(merged([one, two]), "xverify-numpy")
    assert cell["status"] == "mixed"
    assert cell["across_runs"] == ["one", "two"]
    assert cell["attribution"] is None
    again = merged([merged([one, two]), another(3)])
    assert of(again, "xverify-numpy")[0]["status"] == "mixed"


def test_recipes_that_are_proven_equal_on_a_type_are_one_recipe():
    one, two = another(1), another(2)
    telling(one, "exact", [])
    telling(two, "rounded-float64", [])
    (cell,) = of(merged([one, two]), "xverify-numpy")
    # An int8 difference has 9 bits, a float32 scale 24: their product is exact in float64.
    assert cell["attribution"]["reading"] == "exact"
    assert cell["status"] == "agrees"


def test_versions_are_kept_apart():
    one, two = another(1), another(2)
    for worker in two["run"]["workers"]:
        if worker["name"] == "onnxruntime":
            worker["version"] = "1.26.0"
    two["findings"][0]["subject"]["version"] = "1.26.0"
    result = merged([one, two])
    assert [cell["version"] for cell in of(result, "onnxruntime")] == ["1.26.0", "1.27.0"]
    assert "version" not in of(result, "onnx-reference")[0]
    versions = [w["version"] for w in result["run"]["workers"] if w["name"] == "onnxruntime"]
    assert versions == ["1.26.0", "1.27.0"]
    (finding,) = [f for f in result["findings"] if f["id"] == one["findings"][0]["id"]]
    assert finding["subject"]["versions"] == ["1.26.0", "1.27.0"]


def test_the_smaller_witness_is_kept():
    one, two = another(1), another(2)
    large = two["findings"][0]
    large["witness"]["call"]["tensors"]["x"] |= {"shape": [2], "data": ["1", "2"], "hex": ["0x01", "0x02"]}
    large["summary"] = "a larger one"
    for order in ([one, two], [two, one]):
        (finding,) = [f for f in merged(order)["findings"] if f["id"] == large["id"]]
        assert finding["witness"] == one["findings"][0]["witness"]
        assert finding["summary"] == one["findings"][0]["summary"]


@pytest.mark.parametrize(
    ("second", "merges"),
    [
        ({"needs": "a negative axis", "range_places": 5}, {"needs": "a negative axis", "range_places": 5}),
        ({}, {}),
    ],
)
def test_a_need_and_a_distance_in_a_range_remain_if_each_run_has_them(second: dict[str, Any], merges: dict[str, Any]):
    """Reports of older versions have neither."""
    one, two = another(1), another(2)
    one["findings"][0] |= {"needs": "a negative axis", "range_places": 3}
    two["findings"][0] |= second
    for order in ([one, two], [two, one]):
        (finding,) = [f for f in merged(order)["findings"] if f["id"] == one["findings"][0]["id"]]
        assert {name: finding[name] for name in ("needs", "range_places") if name in finding} == merges


def test_a_clause_is_departed_from_if_it_was_in_any_run():
    one, two = another(1), another(2)

    def formula(report: dict[str, Any]) -> dict[str, Any]:
        return next(c for e in report["editions"] for c in e["clauses"] if c["id"] == f"{ONNX}/formula")

    formula(two)["follow"] = ["onnxruntime", "xverify-numpy", "onnx-reference"]
    formula(two)["depart"] = []
    both = formula(merged([one, two]))
    assert both["follow"] == ["onnx-reference", "xverify-numpy"]
    assert [entry["subject"] for entry in both["depart"]] == ["onnxruntime"]
    assert both["untold"] == []


def test_a_merged_report_has_the_targets_that_any_run_met():
    one, two = another(1), another(2)
    one["coverage"]["trust"] = {"met": {"rank 0": 5, "codes of float8_e5m2": 244},
                                "not_met": ["rank 6", "rank 5", "12 of the 256 codes of float8_e5m2"]}  # fmt: skip
    two["coverage"]["trust"] = {"met": {"rank 0": 6, "rank 6": 1, "codes of float8_e5m2": 250},
                                "not_met": ["rank 5", "6 of the 256 codes of float8_e5m2"]}  # fmt: skip
    trust = merged([one, two])["coverage"]["trust"]
    assert trust["met"] == {"rank 0": 11, "rank 6": 1, "codes of float8_e5m2": 250}
    assert trust["not_met"] == ["6 of the 256 codes of float8_e5m2", "rank 5"]


def test_a_run_is_not_counted_twice_and_another_schema_is_refused():
    one = another(1)
    with pytest.raises(ValueError, match="the run run-1 is there 2 times"):
        merged([one, merged([another(2), another(1)])])
    with pytest.raises(ValueError, match=r"another version of xverify: its schema is 'xverify\.report/3'"):
        merged([one, {**another(2), "schema": "xverify.report/3"}])
    with pytest.raises(ValueError, match="the report is damaged: the report has no 'run'"):
        merged([one, {k: v for k, v in another(2).items() if k != "run"}])
    with pytest.raises(ValueError, match="no report to merge"):
        merged([])


def test_the_command_takes_several_runs(tmp_path):
    paths = []
    for number, report in enumerate((another(1), another(2))):
        paths.append(tmp_path / f"{number}.json")
        paths[-1].write_text(json.dumps(report))
    out = tmp_path / "both.json"
    words = ["report", *map(str, paths), "--format", "json", "-o", str(out)]
    result = CliRunner().invoke(cli.main, words)
    assert result.exit_code == 0, result.output
    assert json.loads(out.read_text()) == json.loads(json.dumps(merged([another(1), another(2)])))
    result = CliRunner().invoke(cli.main, ["report", *map(str, paths), "-o", str(paths[1])])
    assert result.exit_code == 2
    assert "would overwrite the report" in result.output
    assert json.loads(paths[1].read_text()) == another(2)
    result = CliRunner().invoke(cli.main, ["report", str(paths[0]), str(paths[0])])
    assert result.exit_code == 2
    assert "2 times" in result.output
    identity = another(1)["findings"][0]["id"]
    words = ["report", *map(str, paths), "--format", "markdown", "--finding", identity]
    assert CliRunner().invoke(cli.main, words).exit_code == 0
