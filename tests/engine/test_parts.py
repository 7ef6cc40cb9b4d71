"""The division of a run: every part goes to one shard, and slices together are the whole plan."""

from __future__ import annotations

from collections import Counter
from itertools import chain

import pytest

from xverify import contracts
from xverify.core.shard import Shard
from xverify.engine import plan
from xverify.engine.parts import WHOLE, Part, Slice, divided, parts, sessions

WEIGHTS = {"a": 4.0, "b": 2.0, "c": 1.0}

NO_STARTS: dict[str, list[str]] = {name: [] for name in WEIGHTS}


def test_with_a_number_of_cases_the_parts_do_not_depend_on_the_number_of_shards():
    listed = parts(WEIGHTS, 700, 1, most=150)
    assert listed == parts(WEIGHTS, 700, 9, most=150)
    assert [(part.contract, part.slice.index, part.slice.count, part.cases) for part in listed] == [
        ("a", 0, 3, 134), ("a", 1, 3, 133), ("a", 2, 3, 133), ("b", 0, 2, 100), ("b", 1, 2, 100), ("c", 0, 1, 100),
    ]  # fmt: skip


def test_an_edition_without_cases_is_still_a_part():
    assert parts(WEIGHTS, 1) == [Part("a", WHOLE, 1), Part("b", WHOLE, 0), Part("c", WHOLE, 0)]


def test_with_a_budget_an_edition_is_cut_only_if_there_are_more_shards_than_editions():
    assert parts(WEIGHTS, None, 2) == [Part(name) for name in WEIGHTS]
    five = parts(WEIGHTS, None, 5)
    assert Counter(part.contract for part in five) == {"a": 3, "b": 1, "c": 1}
    assert all(len(divided(five, WEIGHTS, Shard(k, 5), NO_STARTS, 60.0)) == 1 for k in range(1, 6))


@pytest.mark.parametrize("count", [1, 2, 4, 7])
def test_every_part_goes_to_one_shard_and_loads_are_level(count):
    listed = parts(WEIGHTS, 7000, count, most=100)
    shards = [divided(listed, WEIGHTS, Shard(k, count), NO_STARTS, 60.0) for k in range(1, count + 1)]
    assert sorted(chain(*shards), key=listed.index) == listed
    loads = [sum(part.cases or 0 for part in shard) for shard in shards]
    assert max(loads) - min(loads) <= 100


@pytest.mark.parametrize("cases", [5000, None])
def test_a_shard_that_starts_more_implementations_has_fewer_cases(cases):
    weights = {"f/1": 2.5, "f/2": 2.0, "f/3": 1.0, "g/1": 2.0, "g/2": 1.5}
    answering = {name: ["f"] if name < "g" else ["g", "g-fast", "g-slow"] for name in weights}
    listed = parts(weights, cases, 2)
    shards = [divided(listed, weights, Shard(k, 2), answering, 30.0) for k in (1, 2)]
    assert [[part.contract for part in shard] for shard in shards] == [["f/1", "f/2", "f/3"], ["g/1", "g/2"]]


def test_a_session_has_one_part_of_an_edition():
    listed = parts(WEIGHTS, 700, most=150)
    assert [[(part.contract, part.slice.index) for part in group] for group in sessions(listed)] == [
        [("a", 0), ("b", 0), ("c", 0)], [("a", 1), ("b", 1)], [("a", 2)],
    ]  # fmt: skip


def test_slices_of_a_plan_have_each_structure_of_the_walk_once(monkeypatch):
    monkeypatch.setattr(plan, "hypothesis_cases", lambda *arguments: iter(()))
    contract = contracts.get("onednn/DynamicDequantize-1@multiply")

    def walked(of: Slice) -> Counter[str]:
        cases = chain.from_iterable(plan.batches(contract, 3, of=of))
        return Counter(case.call.digest() for case in cases if case.phase == "walk")

    slices = [walked(Slice(index, 3)) for index in range(3)]
    assert walked(WHOLE) == sum(slices, Counter())
    assert min(part.total() for part in slices) > 80
