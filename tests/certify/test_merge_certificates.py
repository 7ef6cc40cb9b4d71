"""Certificates of shards, and their merge."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner
from folders import SUPPORT

from xverify import cli
from xverify.certify import bulk, ranges
from xverify.certify.certificate import Book, load, schema
from xverify.certify.domains import named
from xverify.certify.merge import merge, merge_certificates
from xverify.cli import divided
from xverify.core.errors import UsageError
from xverify.core.shard import Shard
from xverify.engine.select import contract_named
from xverify.shards.task import Task

KERNELS = SUPPORT / "certified_kernels.py"
DOMAIN = "uint2-float16"
UNITS = (0x3700, 0x4B00)
"""Scales with the counterexamples of `wraps`."""
STEP = 0x400


def certify(path: Path, *more: object, kernel: str = "sound") -> int:
    words = ("certify", "--kernel", f"{KERNELS}:{kernel}", "--domain", DOMAIN, "-n", 1, "-k", "-o", path)
    options = ("--range", f"{UNITS[0]}:{UNITS[1]}", *more)
    return CliRunner().invoke(cli.main, [str(word) for word in (*words, *options)]).exit_code


def without_times(path: Path) -> dict:
    return {name: part for name, part in load(path).items() if name != "runs"}


@pytest.fixture(scope="module")
def small_requests():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "REQUEST_VALUES", STEP * 16)
        yield


@pytest.fixture(scope="module")
def shards(tmp_path_factory, small_requests) -> list[Path]:
    """The certificates of four shards of a right kernel."""
    folder = tmp_path_factory.mktemp("shards")
    paths = [folder / f"{index}.json" for index in (1, 2, 3, 4)]
    for index, path in enumerate(paths, 1):
        assert certify(path, "--shard", f"{index}/4") == 0
    return paths


def test_merged_shards_are_the_undivided_certificate(shards, small_requests, tmp_path):
    merged, whole = tmp_path / "merged.json", tmp_path / "whole.json"
    outcome = CliRunner().invoke(cli.main, ["merge", *map(str, reversed(shards)), "-o", str(merged)])
    assert outcome.exit_code == 0, outcome.output
    assert "proven by the reading exact" in outcome.output
    assert certify(whole) == 0
    assert without_times(merged) == without_times(whole)
    jsonschema.validate(load(merged), schema())
    assert [run["shard"]["index"] for run in load(merged)["runs"]] == [1, 2, 3, 4]
    before = merged.read_bytes()
    assert certify(merged) == 0
    assert merged.read_bytes() == before, "the undivided command has nothing left to prove"


def test_merged_counterexamples_are_those_of_the_undivided_run(small_requests, tmp_path):
    whole, merged = tmp_path / "whole.json", tmp_path / "merged.json"
    paths = [tmp_path / f"{index}.json" for index in (1, 2)]
    codes = [certify(path, "--shard", f"{index}/2", kernel="wraps") for index, path in enumerate(paths, 1)]
    assert 1 in codes
    assert certify(whole, kernel="wraps") == 1
    code, sentences = merge_certificates(paths, merged)
    assert code == 1
    assert sentences[0].startswith("violation: x 0 (0x0), zero point 3 (0x3), scale")
    assert without_times(merged) == without_times(whole)


def test_a_shard_states_what_the_undivided_run_requests(shards):
    certificate = load(shards[1])
    assert certificate["shard"] == {"index": 2, "count": 4}
    assert certificate["requested"] == [{"slices": [0], "ranges": [list(UNITS)]}]
    share = ranges.share({0: (UNITS,)}, STEP, Shard(2, 4))
    assert certificate["proven"] == [{"slice": 0, "ranges": [list(interval) for interval in share[0]]}]


def test_a_missing_shard_and_a_repeated_one_are_named(shards, tmp_path):
    code, sentences = merge_certificates([shards[0], shards[3], shards[3]], tmp_path / "merged.json")
    assert code == 3
    assert "shard 4/4 is present twice" in sentences[0]
    start, stop = load(shards[1])["proven"][0]["ranges"][0][0], load(shards[2])["proven"][0]["ranges"][0][1]
    assert (
        f"{(stop - start) * 16:_} requested triples are missing: units {start}:{stop}".replace("_", " ") in sentences[1]
    )
    assert "there is no certificate of shard 2/4, shard 3/4" in sentences[2]
    assert merge_certificates([tmp_path / "merged.json", *shards[1:3]], tmp_path / "merged.json").code == 0


def test_a_shard_that_is_interrupted_and_repeated_counts_once(shards, small_requests, tmp_path):
    """The second shard was interrupted after a part of its units, and a repeated command goes on there."""
    folder, certificate = tmp_path / "shards", load(shards[1])
    ((start, stop),) = certificate["proven"][0]["ranges"]
    certificate["proven"][0]["ranges"] = [[start, middle := start + STEP // 4]]
    certificate["counts"]["proven"] = certificate["runs"][0]["proven"] = 16 * (middle - start)
    tasks = [Task(f"certify-{index}-of-4", (), "c.json", 60.0, lock="c.json.lock") for index in (1, 2)]
    for task, content in zip(tasks, (load(shards[0]), certificate), strict=True):
        (folder / task.key).mkdir(parents=True)
        (folder / task.key / "c.json").write_text(json.dumps(content))
    divided._reopen_unfinished(tasks, folder, lambda shard: ranges.share({0: (UNITS,)}, STEP, shard), False)
    assert sorted(path.name for path in folder.iterdir()) == [".certify-2-of-4-again", "certify-1-of-4"]
    continued = folder / ".certify-2-of-4-again" / "c.json"
    assert continued.with_name("c.json.lock").exists()
    assert certify(continued, "--shard", "2/4") == 0
    assert [run["proven"] for run in load(continued)["runs"]] == [16 * (middle - start), 16 * (stop - middle)]
    interrupted = tmp_path / "interrupted.json"
    interrupted.write_text(json.dumps(certificate))
    merged = tmp_path / "merged.json"
    assert merge_certificates([shards[0], continued, *shards[2:], interrupted], merged).code == 0
    counted = sum(run["proven"] for run in load(merged)["runs"])
    assert load(merged)["counts"]["proven"] == counted == 16 * (UNITS[1] - UNITS[0])


def test_another_shard_does_not_continue_a_certificate(shards):
    before = shards[0].read_bytes()
    assert certify(shards[0], "--shard", "2/4") == 2
    assert shards[0].read_bytes() == before


def test_an_empty_shard_has_a_certificate(small_requests, tmp_path):
    path = tmp_path / "empty.json"
    assert certify(path, "--shard", "1/64") == 0
    assert load(path)["proven"] == []
    assert load(path)["status"] == "partial"


def test_machines_are_listed_and_a_counterexample_has_its_processor(shards):
    certificates = [load(path) for path in shards]
    elsewhere = {**certificates[1], "machine": {**certificates[1]["machine"], "processor": "another"}}
    units = elsewhere["proven"][0]["ranges"][0]
    entry = {**CONFLICT, "kind": "crash", "slice": 0, "range": [units[0], units[0] + 1]}
    refuted = {**elsewhere, "proven": [], "counterexamples": [entry]}
    merged = merge([*certificates, refuted], "abcde")
    jsonschema.validate(merged, schema())
    assert [machine["processor"] for machine in merged["machines"]][1:] == ["another"]
    assert merged["counterexamples"] == [{**entry, "processor": "another"}]
    assert merged["proven"][0]["ranges"] == [[UNITS[0], units[0]], [units[0] + 1, UNITS[1]]]
    assert merged["status"] == "refuted"
    own = merged["machine"]["processor"]
    assert [run["processor"] for run in merged["runs"]].count(own) == 4


CONFLICT = {
    "kind": "mixed", "wrong": 0, "triple": None, "got": None, "expected": [], "message": "", "call": "",
    "values_of_call": 0,
}  # fmt: skip


def test_shards_without_a_common_reading_are_a_counterexample(shards, tmp_path):
    """An undivided run refutes units that no reading of the units before gives."""
    certificates = [load(path) for path in shards]
    readings = ("one", "two", "three")
    units = certificates[2]["proven"][0]["ranges"][0]
    places = [[units[0], units[0] + 2], [units[0] + 2, units[0] + 4]]

    def of(certificate: dict, explain: list[str], excluded: list[tuple[str, list[int]]]) -> dict:
        entries = [{"reading": name, "slice": 0, "range": place} for name, place in excluded]
        return {**certificate, "readings": {"admitted": [*readings], "explain": explain, "excluded": entries}}

    begin = certificates[0]["proven"][0]["ranges"][0]
    given = [
        of(certificates[0], ["one", "two"], [("three", begin)]),
        of(certificates[1], ["one", "two", "three"], []),
        of(certificates[2], ["three"], [("one", places[0]), ("two", places[1])]),
        of(certificates[3], ["one", "three"], [("two", certificates[3]["proven"][0]["ranges"][0])]),
    ]
    merged = merge(given[::-1], "abcd")
    jsonschema.validate(merged, schema())
    assert merged["status"] == "refuted"
    (entry,) = merged["counterexamples"]
    assert (entry["kind"], entry["range"]) == ("mixed", places[1])
    assert "by the reading three, those of other shards by one, two" in entry["message"]
    assert merged["readings"]["explain"] == ["one"]
    assert [name["reading"] for name in merged["readings"]["excluded"]] == ["two", "three"]
    assert merged["proven"][0]["ranges"] == [[UNITS[0], units[0]], [units[1], UNITS[1]]]


def test_the_first_units_that_exclude_a_reading_do_not_depend_on_the_order_of_the_workers(shards, tmp_path):
    certificate = load(shards[0])
    form = bulk.Through(contract_named(certificate["contract"]), named(DOMAIN), "per_axis", "float16")
    book = Book(tmp_path / "book.json", certificate, form, ("one", "two"), 1)
    assert book.add(0, (32, 64), ("one",))
    assert book.compared(0, (0, 32)) == ("one", "two")
    assert not book.add(0, (0, 32), ("two",)), "it gives nothing of what is proven"
    assert book.add(0, (0, 32), ("one",))
    assert book.compared(0, (64, 96)) == ("one",)
    assert load(book.path)["readings"]["excluded"] == [{"reading": "two", "slice": 0, "range": [0, 32]}]


def test_certificates_of_different_proofs_are_refused(shards, tmp_path):
    other, certificate = tmp_path / "other.json", load(shards[1])
    other.write_text(json.dumps({**certificate, "through": {**certificate["through"], "granularity": "blocked"}}))
    with pytest.raises(
        UsageError, match=r"other\.json is of another proof than .*granularity was per_axis, is blocked"
    ):
        merge_certificates([shards[0], other], tmp_path / "merged.json")
    with pytest.raises(UsageError, match="holds another proof: granularity"):
        merge_certificates(shards, other)


def test_certificates_of_earlier_versions_are_merged(shards, tmp_path):
    older = []
    for path in shards[:2]:
        certificate = {k: v for k, v in json.loads(path.read_text()).items() if k not in ("shard", "requested")}
        older.append(tmp_path / path.name)
        older[-1].write_text(json.dumps(certificate))
    assert merge_certificates(older, tmp_path / "merged.json").code == 0
    assert load(tmp_path / "merged.json")["requested"] == [
        {"slices": [0], "ranges": [[UNITS[0], load(shards[1])["proven"][0]["ranges"][0][1]]]}
    ]
