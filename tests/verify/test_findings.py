"""Findings: how discrepancies fold into one finding, what adds up, and which call is the witness."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from xverify.contracts.model import Cell
from xverify.core.call import Call, Outcome
from xverify.core.dtypes import tensor
from xverify.core.verdict import Verdict
from xverify.verify.attribute import Attribution
from xverify.verify.findings import NEW, Change, Discrepancy, Finding, Findings, Key, Standing, Subject, witness_order

EDITION = "ai.onnx/DequantizeLinear-21"
KEY = Key("one", EDITION, Verdict.VIOLATION, EDITION + "/formula", "wrap")
PLAIN, LEVEL_1, LEVEL_3 = (Subject("one", "1", "oracle", options) for options in ("", "O1", "O3"))
KNOWN = Standing("known", "entry-1")


def call_of(*shape: int, name: str = "") -> Call:
    return Call(EDITION, {"x": tensor("int8", np.ones(shape, np.int8))}, origin=name)


def cell_of(x_dtype: str) -> Cell:
    return Cell(EDITION, x_dtype, "float32", "", "float32", "per_tensor", "")


@dataclass(frozen=True, eq=False)
class Share:
    """One call's contribution to a finding."""

    discrepancy: Discrepancy
    subject: Subject
    call: Call | None
    outcome: Outcome | None
    number: int
    others: tuple[tuple[str, str], ...] = ()


def share(subject: Subject, number: int, *shape: int, **fields: object) -> Share:
    name = f"call {number} of {subject.label}"
    found = Discrepancy(KEY, name, readings=(name,))
    return Share(
        replace(found, **fields), subject, call_of(*shape, name=name), Outcome("tensor", message=name), number,
        ((name, name),),
    )  # fmt: skip


def folded(shares: Iterable[Share], **given: object) -> Finding:
    """Return the single finding of shares with one key."""
    findings = Findings()
    for one in shares:
        findings.add(
            one.discrepancy, one.subject, one.call, one.outcome, cell_of("int8"), one.number, list(one.others),
            replace(one.subject, name="reference"), **given,
        )  # fmt: skip
    (finding,) = findings.sorted()
    assert len(findings) == 1
    return finding


# -- what one share gives ---------------------------------------------------------------------------------


def test_the_first_share_is_the_finding() -> None:
    by = Attribution("wrap", "wraps", 2, 3, ("exact", "is exact"))
    change = Change("one", "1", "2", "broken", "int8", "broken: int8", True)
    found = Discrepancy(KEY, "it wraps", by, 3, 7, ("exact",), change=change)
    call, outcome, reference = call_of(3), Outcome("tensor"), Subject("two", "1", "oracle")
    findings = Findings()
    assert findings.add(found, LEVEL_1, call, outcome, cell_of("int8"), 4, [("two", "REJECTED")], reference, 5)
    (f,) = findings.sorted()
    assert (f.key, f.subject, f.summary, f.readings) == (KEY, LEVEL_1, "it wraps", ("exact",))
    assert (f.call, f.outcome, f.others, f.reference) == (call, outcome, [("two", "REJECTED")], reference)
    assert (f.cases, f.values, f.max_ulp, f.attribution) == (5, 3, 7, by)
    assert (f.cells, f.paths, f.standing) == ({cell_of("int8")}, {"O1"}, NEW)
    assert (f.samples, f.region, len(f.histogram), len(f.followed), f.change) == ([], None, 0, 0, change)
    assert f.shrunk == "not reached"


def test_a_discrepancy_without_values_counts_one_case_only() -> None:
    findings = Findings()
    assert len(findings) == 0
    assert findings.add(Discrepancy(KEY, "it wraps"), Subject("one", "1", "oracle"), call_of(3), None, None, 0)
    (f,) = findings.sorted()
    assert (f.cases, f.values, f.max_ulp, f.attribution) == (1, 0, 0, None)
    assert (f.cells, f.paths, f.others, f.reference, f.change) == (set(), {""}, [], None, None)
    assert f.subject.often, "a path is asked often where it is not said otherwise"


def test_a_finding_without_a_call() -> None:
    """A document that contradicts itself gives a finding without a call."""
    findings = Findings()
    for _ in range(2):
        findings.add(Discrepancy(KEY, "it contradicts itself"), replace(PLAIN, role="edition"), None, None, None, 0)
    (f,) = findings.sorted()
    assert (f.call, f.cases, f.summary) == (None, 2, "it contradicts itself")


def test_findings_share_nothing() -> None:
    """Findings do not share lists with each other or with the caller."""
    findings, others = Findings(), [("two", "agrees")]
    for detail in ("wrap", "other"):
        findings.add(
            Discrepancy(replace(KEY, detail=detail), detail), PLAIN, call_of(1), None, cell_of("int8"), 0, others
        )
    first, second = findings.sorted()
    others.append(("three", "agrees"))
    first.paths.add("O9")
    first.cells.add(cell_of("int4"))
    first.others.append(("four", "agrees"))
    first.histogram[1] += 1
    first.followed["a", "b"] += 1
    assert (second.paths, second.cells, second.others) == ({""}, {cell_of("int8")}, [("two", "agrees")])
    assert (second.samples, len(second.histogram), len(second.followed)) == ([], 0, 0)


# -- sums -------------------------------------------------------------------------------------------------


def test_cases_and_values_add_up_and_cells_and_paths_are_collected() -> None:
    findings = Findings()
    for number, (dtype, subject, cases) in enumerate(
        (("int8", PLAIN, 1), ("int4", LEVEL_3, 20), ("int8", LEVEL_1, 300))
    ):
        found = Discrepancy(KEY, "", values=10**number)
        is_new = findings.add(found, subject, call_of(1), None, cell_of(dtype), number, cases=cases)
        assert is_new == (number == 0)
    (f,) = findings.sorted()
    assert (f.cases, f.values) == (321, 111)
    assert f.cells == {cell_of("int8"), cell_of("int4")}
    assert f.paths == {"", "O1", "O3"}


@pytest.mark.parametrize(
    ("distances", "largest"),
    [((0, 0), 0), ((0, 3), 3), ((3, 1), 3), ((1, 1), 1), ((2, -1), -1), ((-1, 2), -1), ((0, -1, 5), -1), ((-1,), -1)],
)
def test_the_largest_distance_is_kept_and_an_undefined_one_counts_as_largest(
    distances: tuple[int, ...], largest: int
) -> None:
    assert folded(share(PLAIN, 0, 1, max_ulp=distance) for distance in distances).max_ulp == largest


def test_attributions_add_up() -> None:
    parts = [Attribution("wrap", "wraps", 2, 3), None, Attribution("wrap", "wraps", 10, 20)]
    for order in (parts, parts[::-1], parts[1:] + parts[:1]):
        finding = folded(share(PLAIN, number, 1, attribution=by) for number, by in enumerate(order))
        assert finding.attribution == Attribution("wrap", "wraps", 12, 23)
    elsewhere = ("exact", "is exact")
    in_part = [Attribution("wrap", "wraps", 1, 1, elsewhere)] * 2
    finding = folded(share(PLAIN, number, 1, attribution=by) for number, by in enumerate(in_part))
    assert finding.attribution == Attribution("wrap", "wraps", 2, 2, elsewhere)
    assert folded([share(PLAIN, 0, 1), share(PLAIN, 1, 1)]).attribution is None


# -- witnesses --------------------------------------------------------------------------------------------

BEST_FIRST = [
    share(PLAIN, 3, 0, 1, 5), share(PLAIN, 7, 2), share(PLAIN, 8, 2), share(PLAIN, 1, 1, 2), share(PLAIN, 2, 3),
]  # fmt: skip
"""Ordered by values, then by rank, then by number."""
PATHS = [share(PLAIN, 9, 4), share(LEVEL_1, 5, 1), share(LEVEL_3, 5, 1), share(LEVEL_1, 6, 1), share(LEVEL_1, 0, 2)]
"""A plain path's call comes before any other, even if it is larger. For the same call the path's name decides."""


def test_witness_order_is_by_values_then_rank_then_number() -> None:
    orders = [witness_order(one.call, one.number) for one in BEST_FIRST if one.call is not None]
    assert orders == sorted(orders)
    assert orders[0][-3:] == (0, 3, 3)
    assert witness_order(call_of(2, 3), 5)[-3:] == (6, 2, 5)


def test_a_witness_of_common_types_comes_before_a_smaller_one_of_rare_types() -> None:
    def of(dtype: str, values: int) -> Call:
        return Call(
            "ai.onnx/DequantizeLinear-25", {"x": tensor(dtype, [0] * values), "scale": tensor("float32", 0.5)}, {}
        )

    ranking = [of("uint8", 9), of("int8", 3), of("uint2", 1), of("uint2", 20_000), of("uint8", 20_001)]
    orders = [witness_order(call, 0) for call in ranking]
    assert orders == sorted(orders), "a large call costs time to shrink, whatever its types"
    assert witness_order(ranking[2], 0, "memory") < witness_order(ranking[0], 0, "memory"), "it may not be shrunk"


@pytest.mark.parametrize("ranking", [BEST_FIRST, PATHS])
def test_the_witness_does_not_depend_on_the_order_of_calls(ranking: list[Share]) -> None:
    """All other facts of the finding come from the witness's share."""
    for first in range(len(ranking)):
        best = ranking[first]
        for seed in range(20):
            shuffled = ranking[first:]
            random.Random(seed).shuffle(shuffled)
            f = folded(shuffled)
            assert f.call is best.call
            assert f.outcome is best.outcome
            assert (f.subject, f.summary, f.readings) == (
                best.subject,
                best.discrepancy.summary,
                best.discrepancy.readings,
            )
            assert (f.others, f.reference) == ([*best.others], replace(best.subject, name="reference"))
            assert f.cases == len(shuffled)


def test_the_first_outcome_of_a_repeated_call_stays() -> None:
    first, second = share(PLAIN, 0, 1), share(PLAIN, 0, 1)
    assert folded([first, second]).outcome is first.outcome


# -- which are the same, and which are found ---------------------------------------------------------------


def test_every_part_of_the_key_makes_another_finding() -> None:
    findings = Findings()
    keys = [KEY] + [replace(KEY, **{part: "other"}) for part in ("subject", "contract", "verdict", "clause", "detail")]
    for key in keys:
        assert findings.of(key) is None
        assert findings.add(Discrepancy(key, ""), PLAIN, call_of(1), None, None, 0)
    assert len(findings) == len(keys)
    assert len({finding.id for finding in findings.sorted()}) == len(keys)
    for key in keys:
        found = findings.of(key)
        assert found is not None
        assert found.key == key
        assert findings.by_id(key.id()) is found
    with pytest.raises(KeyError):
        findings.by_id("violation-0000000000")


def test_an_id_is_the_verdict_and_ten_digits() -> None:
    head, _, digits = KEY.id().rpartition("-")
    assert head == "violation"
    assert len(digits) == 10
    assert int(digits, 16) >= 0
    assert replace(KEY).id() == KEY.id()


def test_findings_are_sorted_by_implementation_contract_and_verdict() -> None:
    parts = [("one", "a", "crash"), ("one", "a", "violation"), ("one", "b", "ambiguity"), ("two", "a", "ambiguity")]
    for seed in range(5):
        findings, shuffled = Findings(), parts.copy()
        random.Random(seed).shuffle(shuffled)
        for subject, contract, verdict in shuffled:
            findings.add(
                Discrepancy(Key(subject, contract, Verdict(verdict), "", ""), ""), PLAIN, call_of(1), None, None, 0
            )
        assert [(f.key.subject, f.key.contract, f.key.verdict) for f in findings.sorted()] == parts


def test_each_ledger_entry_has_a_finding_apart_from_new_ones() -> None:
    """Every ledger entry has its own finding. New, expired and changed ones share a finding."""
    findings, found = Findings(), Discrepancy(KEY, "", values=1)
    other = Standing("known", "entry-2")
    standings = [NEW, KNOWN, KNOWN, other, Standing("expired", "entry-1"), Standing("changed", "entry-2"), KNOWN]
    new = [findings.add(found, PLAIN, call_of(1), None, None, 0, standing=standing) for standing in standings]
    assert new == [True, True, False, True, False, False, False]
    counts = {finding.standing: finding.values for finding in findings.sorted()}
    assert counts == {NEW: 3, KNOWN: 3, other: 1}
    for standing in (NEW, KNOWN, other):
        finding = findings.of(KEY, standing)
        assert finding is not None
        assert finding.standing == standing
        assert findings.by_id(finding.id) is finding
    assert findings.of(KEY) is findings.of(KEY, Standing("expired", "entry-1")) is findings.of(KEY, NEW)
    assert findings.of(KEY, Standing("known", "entry-3")) is None
    assert [findings.of(KEY, standing).id for standing in (NEW, KNOWN)] == [KEY.id(), KEY.id() + "-known-entry-1"]


def test_a_finding_that_is_not_new_shows_its_standing() -> None:
    for state in ("expired", "changed", "known"):
        findings = Findings()
        findings.add(Discrepancy(KEY, ""), PLAIN, call_of(1), None, None, 0, standing=Standing(state, "entry-1"))
        (f,) = findings.sorted()
        assert f.standing == Standing(state, "entry-1")
        assert (f.id == KEY.id()) == (state != "known")
