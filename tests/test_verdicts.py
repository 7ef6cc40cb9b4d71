"""Verdicts, tallies and findings on outcomes made by hand: each verdict where it is due, and none where it is not."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import xverify
from strategies import build, walk
from strategies.structures import Linear, Range
from xverify import contracts
from xverify.contracts.model import Cell, Contract
from xverify.contracts.readings import Stepwise
from xverify.core.call import Call, Outcome, Tensor
from xverify.core.dtypes import floats, integers, numpy_dtype, tensor
from xverify.verify import editions, verdicts
from xverify.verify.attribute import Attribution, named
from xverify.verify.findings import Discrepancy, Finding, Findings, Key, Subject
from xverify.verify.tally import Tally
from xverify.verify.verdicts import Judged, judge

ONNX_13, ONNX_21, ONNX_25 = (contracts.get(f"ai.onnx/DequantizeLinear-{v}") for v in (13, 21, 25))
ONE, TWO, OTHER = Subject("one", "1", "oracle"), Subject("two", "1", "oracle"), Subject("one", "1", "oracle", "O3")
REJECTED, UNSUPPORTED = Outcome("rejected", error="ValueError"), Outcome("unsupported", error="NotImplemented")
WRAPS = Stepwise("wrap-x").name
CRASH, HANG = Outcome("crash", message="Fatal: died\nmore"), Outcome("hang")


def asked(contract: Contract, x_dtype: str, size: int = 64, number: int = 0, **other: object) -> Judged:
    """An allowed call with drawn values."""
    structure = Linear(x_dtype, str(other.pop("scale", "float32")), "per_tensor", (size,), seed=number + 7)
    return judge(contract, build(contract, replace(structure, **other)), number)


def open_call(number: int = 0) -> Judged:
    """A call that the clause on zero points of int32 leaves open."""
    tensors = {"x": tensor("int32", [1, 2]), "scale": tensor("float32", 0.1), "zero_point": tensor("int32", 5)}
    return judge(ONNX_13, Call(ONNX_13.id, tensors), number)


def forbidden_call(number: int = 0) -> Judged:
    return judge(ONNX_13, Call(ONNX_13.id, {"x": tensor("int16", [1]), "scale": tensor("float32", 1.0)}), number)


def by(judged: Judged, reading: str) -> Outcome:
    """What an implementation that follows a reading, legal or not, answers."""
    operands = judged.contract.operands(judged.call)
    codes = np.ascontiguousarray(named(judged.contract, reading).evaluate(operands))
    return Outcome("tensor", Tensor(operands.output_dtype, codes))


def shifted(outcome: Outcome, place: int = -1, steps: int = 3) -> Outcome:
    """The answer with one value some steps away."""
    assert outcome.tensor is not None
    codes = outcome.tensor.codes.copy()
    codes[place] += codes.dtype.type(steps)
    return Outcome("tensor", Tensor(outcome.tensor.dtype, codes))


Observation = tuple[Judged, Subject, Outcome]


def concluded(observations: list[Observation], is_judged: bool = True) -> tuple[Tally, dict[str, Finding]]:
    """What a run makes of observations: those found at once, and those found when all are in; by verdict."""
    tally, findings = Tally(), Findings()
    for judged, subject, outcome in observations:
        for found in tally.observe(judged, subject, outcome, is_judged):
            findings.add(found, subject, judged.call, outcome, judged.cell, judged.number)
    tally.settle()
    for subject, cell, _, found, judged, outcome in (*tally.violations(), *tally.ambiguities()):
        findings.add(found, subject, judged.call, outcome, cell, judged.number)
    for subject, cell, found, judged, outcome in tally.mixtures():
        findings.add(found, subject, judged.call, outcome, cell, judged.number)
    for subject, cell, row in tally.refusals():
        assert row.refusal is not None
        found = verdicts.rejected(row.refusal[0], subject.name, row.refusal[1])
        if found is not None and row.answered:
            findings.add(found, subject, row.refusal[0].call, row.refusal[1], cell, row.refusal[0].number)
    assert len({finding.key.verdict for finding in findings.sorted()}) == len(findings)
    return tally, {finding.key.verdict: finding for finding in findings.sorted()}


# -- verdicts on values -----------------------------------------------------------------------------------


def test_agreement_gives_nothing() -> None:
    calls = [asked(ONNX_21, "int8", number=n, zero_point_dtype="int8") for n in range(5)]
    tally, found = concluded([(j, s, by(j, "exact")) for j in calls for s in (ONE, TWO)])
    assert found == {}
    assert {tally.status(s, calls[0].cell) for s in (ONE, TWO)} == {"agrees"}
    assert tally.cells[ONE, calls[0].cell].alive == ("exact", "float32")


def test_a_violation_with_attribution() -> None:
    calls = [asked(ONNX_21, "int8", number=n, zero_point_dtype="int8") for n in range(4)]
    tally, found = concluded([(j, ONE, by(j, WRAPS)) for j in calls])
    (finding,) = found.values()
    assert finding.key.verdict == "violation"
    assert finding.key.clause == ONNX_21.id + "/formula"
    assert finding.attribution is not None
    assert finding.attribution.reading == finding.key.detail == WRAPS
    assert "in the type of x with wrap-around" in finding.summary
    assert tally.status(ONE, calls[0].cell) == "violation"
    wrong = sum(int((by(j, "exact").tensor.codes != by(j, WRAPS).tensor.codes).sum()) for j in calls)
    assert tally.cells[ONE, calls[0].cell].wrong == wrong > 0


def test_a_violation_without_attribution() -> None:
    judged = asked(ONNX_21, "int8", zero_point_dtype="int8")
    tally, found = concluded([(judged, ONE, shifted(by(judged, "exact")))])
    (finding,) = found.values()
    assert (finding.key.verdict, finding.attribution, finding.values, finding.max_ulp) == ("violation", None, 1, 3)
    assert "no known recipe" in finding.summary
    assert finding.readings == ()
    assert tally.status(ONE, judged.cell) == "violation"


def test_two_mistakes_are_not_attributed_to_one() -> None:
    """A reading must give every value of the cell; that it explains one wrong call is not enough."""
    first, second = (asked(ONNX_21, "int8", number=n, zero_point_dtype="int8") for n in range(2))
    answers = [(first, ONE, by(first, WRAPS)), (second, ONE, shifted(by(second, "exact")))]
    for order in (answers, answers[::-1]):
        _, found = concluded(order)
        assert found["violation"].attribution is None


def test_a_reading_that_right_calls_contradict_is_not_the_cells() -> None:
    """An implementation that wraps in large calls only: whichever call comes first, wrapping is not what it does."""
    small, large = (asked(ONNX_21, "int8", size, zero_point_dtype="int8") for size in (20, 300))
    answers = [(small, ONE, by(small, "exact")), (large, ONE, by(large, WRAPS))]
    assert (by(small, "exact").tensor.codes != by(small, WRAPS).tensor.codes).any()
    attributions = [concluded(order)[1]["violation"].attribution for order in (answers, answers[::-1])]
    assert attributions == [None, None]


def test_the_float32_recipe_breaks_the_precision_clause_from_23_on() -> None:
    """Where the output type determines the precision, S is a violation of that clause; in 21 it is a reading."""
    tensors = {"x": tensor("int16", np.arange(-32768, 32768)), "scale": tensor("float32", 0.3)}
    newer = judge(ONNX_25, Call(ONNX_25.id, tensors, {"output_dtype": "float16"}))
    _, found = concluded([(newer, ONE, by(newer, "float32"))])
    assert found["violation"].key.clause == ONNX_25.id + "/multiplication-precision"
    # The difference of one int16 has at most 16 bits, so that it is rounded to float32 is not said.
    assert found["violation"].key.detail == Stepwise(precision="float32").name
    assert found["violation"].values == 586, "only what is rounded twice is wrong"
    older = asked(ONNX_21, "int32", 4000)
    _, found = concluded([(older, ONE, by(older, "float32"))])
    assert found == {}


def test_mixed_values_are_legal_and_follow_nothing() -> None:
    first, second = (asked(ONNX_21, "int32", 500, number=n) for n in range(2))
    tally, found = concluded([(first, ONE, by(first, "exact")), (second, ONE, by(second, "float32"))])
    (finding,) = found.values()
    assert (finding.key.verdict, finding.key.detail) == ("mixed", "int32 to float32")
    assert tally.status(ONE, first.cell) == "mixed"
    exact, single = by(first, "exact").tensor, by(first, "float32").tensor
    halves = np.concatenate([exact.codes[:250], single.codes[250:]])
    _, found = concluded([(first, ONE, Outcome("tensor", Tensor("float32", halves)))])
    assert [*found] == ["mixed"], "also within one call"


def test_mixed_is_not_said_of_what_is_wrong() -> None:
    first, second = (asked(ONNX_21, "int32", 500, number=n) for n in range(2))
    answers = [(first, ONE, by(first, "float32")), (second, ONE, shifted(by(second, "exact"), steps=9))]
    for order in (answers, answers[::-1]):
        tally, found = concluded(order)
        assert [*found] == ["violation"]
        assert tally.status(ONE, first.cell) == "violation"


def test_an_ambiguity_needs_implementations_that_differ() -> None:
    judged = asked(ONNX_21, "int32", 500)
    exact, single = by(judged, "exact"), by(judged, "float32")
    differing = int((exact.tensor.codes != single.tensor.codes).sum())
    assert differing > 0
    tally, found = concluded([(judged, ONE, exact), (judged, TWO, single)])
    (finding,) = found.values()
    assert (finding.key.verdict, finding.key.subject, finding.key.detail) == ("ambiguity", "two", "float32")
    assert finding.attribution == Attribution("float32", finding.attribution.words, differing, differing)
    assert [tally.status(s, judged.cell) for s in (ONE, TWO)] == ["agrees", "ambiguous"]
    for alone in (exact, single):
        tally, found = concluded([(judged, ONE, alone), (judged, TWO, alone)])
        assert found == {}
        assert tally.status(TWO, judged.cell) == "agrees"


def test_flushed_subnormals_are_an_ambiguity() -> None:
    tensors = {"x": tensor("int8", [1, 2, 3]), "scale": tensor("float32", 2.0**-149)}
    judged = judge(ONNX_13, Call(ONNX_13.id, tensors))
    zeros = Outcome("tensor", tensor("float32", [0.0, 0.0, 0.0]))
    tally, found = concluded([(judged, ONE, zeros)])
    (finding,) = found.values()
    assert (finding.key.verdict, finding.key.clause) == ("ambiguity", ONNX_13.id + "/subnormal")
    assert (finding.key.detail, finding.values) == ("flush-subnormals", 3)
    assert tally.status(ONE, judged.cell) == "ambiguous"


@pytest.mark.parametrize(
    ("answer", "clause"),
    [(tensor("float64", np.zeros(64)), "output-type"), (tensor("float32", np.zeros((64, 1))), "output-shape")],
)
def test_results_of_another_type_or_shape(answer: Tensor, clause: str) -> None:
    judged = asked(ONNX_21, "int8")
    tally, found = concluded([(judged, ONE, Outcome("tensor", answer))])
    assert found["violation"].key.clause == f"{ONNX_21.id}/{clause}"
    assert (len(found), tally.status(ONE, judged.cell)) == (1, "violation")


# -- refusals, deaths, memory -----------------------------------------------------------------------------


def test_forbidden_calls() -> None:
    judged = forbidden_call()
    computed = Outcome("tensor", tensor("float32", [1.0]))
    _, found = concluded([(judged, ONE, computed)])
    assert found["wrongly-accepted"].key.clause == ONNX_13.id + "/x-type"
    for answer in (REJECTED, UNSUPPORTED):
        assert concluded([(judged, ONE, answer)])[1] == {}
    assert concluded([(judged, ONE, computed)], is_judged=False)[1] == {}


def test_refusals_of_allowed_calls() -> None:
    """Rejected in a cell that answers: wrongly rejected. Not implemented, or nothing answered: unsupported."""
    first, second = (asked(ONNX_21, "int8", number=n) for n in range(2))
    right = by(first, "exact")
    tally, found = concluded([(first, ONE, right), (second, ONE, REJECTED)])
    assert [*found] == ["wrongly-rejected"]
    assert "ValueError" in found["wrongly-rejected"].key.detail
    assert tally.status(ONE, first.cell) == "wrongly-rejected"
    tally, found = concluded([(first, ONE, UNSUPPORTED), (second, ONE, UNSUPPORTED)])
    assert (found, tally.status(ONE, first.cell)) == ({}, "unsupported")
    tally, found = concluded([(first, ONE, REJECTED)])
    tally.cells[ONE, first.cell].simplest_refused = True
    assert (found, tally.status(ONE, first.cell)) == ({}, "unsupported")


@pytest.mark.parametrize("outcome", [CRASH, HANG])
@pytest.mark.parametrize("make", [lambda: asked(ONNX_13, "int8"), open_call, forbidden_call])
def test_deaths(outcome: Outcome, make: Callable[[], Judged]) -> None:
    judged = make()
    tally, found = concluded([(judged, ONE, outcome)], is_judged=False)
    (finding,) = found.values()
    assert finding.key.verdict == outcome.kind, "a death is told of whoever judges it"
    assert finding.key.detail.startswith(judged.judgement.verdict)
    assert finding.key.clause in ONNX_13.clauses
    if judged.cell is not None:
        assert tally.status(ONE, judged.cell) == outcome.kind


def test_memory() -> None:
    judged = asked(ONNX_21, "int8")
    noted = replace(by(judged, "exact"), notes=("input-written", "output-aliases-input"))
    found = Tally().observe(judged, ONE, noted, True)
    assert [(d.key.verdict, d.key.detail) for d in found] == [("memory", note) for note in noted.notes]
    assert len({d.key.id() for d in found}) == 2


def test_nondeterminism() -> None:
    judged = asked(ONNX_21, "int8")
    right = by(judged, "exact")
    found = verdicts.nondeterministic(judged, "one", right, shifted(right))
    assert found is not None
    assert found.key.verdict == "nondeterministic"
    assert verdicts.nondeterministic(judged, "one", right, by(judged, "exact")) is None
    assert verdicts.nondeterministic(judged, "one", REJECTED, Outcome("rejected", message="another")) is None
    assert verdicts.nondeterministic(judged, "one", right, REJECTED) is not None
    assert verdicts.nondeterministic(judged, "one", right, CRASH) is None, "a crash has a verdict of its own"


A, B = Outcome("tensor", tensor("float32", [1.0, 2.0])), Outcome("tensor", tensor("float32", [1.0, 3.0]))
NAN, QUIET = (Outcome("tensor", Tensor("float32", np.array([code, 0], np.uint32))) for code in (0x7FC00000, 0xFFC00001))


@pytest.mark.parametrize(
    ("first", "second", "how"),
    [
        (A, A, None),
        (A, B, "gives other values than two"),
        (NAN, QUIET, None),
        (A, Outcome("tensor", tensor("float16", [1.0, 2.0])), "gives other values than two"),
        (A, REJECTED, "computes what two refuses"),
        (REJECTED, A, "refuses what two computes"),
        (REJECTED, REJECTED, None),
        (A, UNSUPPORTED, None),
        (UNSUPPORTED, A, None),
        (A, CRASH, None),
        (HANG, A, None),
    ],
)
def test_what_the_text_leaves_open(first: Outcome, second: Outcome, how: str | None) -> None:
    judged = open_call()
    found = verdicts.disagrees(judged, "one", first, "two", second)
    assert (found.key.detail if found else None) == how
    if found:
        assert (found.key.verdict, found.key.clause) == ("ambiguity", ONNX_13.id + "/int32-zero-point")
    assert verdicts.disagrees(asked(ONNX_13, "int8"), "one", first, "two", second) is None
    tally, at_once = concluded([(judged, ONE, A), (judged, TWO, B)])
    assert at_once == {}, "values of an open call are no violation"
    assert tally.status(ONE, judged.cell) == "unspecified"


def test_open_calls_do_not_hide_a_cell() -> None:
    """A cell's verdict is that of its allowed calls, wherever an open call of the same types comes among them."""
    tensors = {"x": tensor("int32", [1, 2]), "scale": tensor("float32", 0.1), "zero_point": tensor("int32", 0)}
    allowed, left_open = judge(ONNX_13, Call(ONNX_13.id, tensors)), open_call(1)
    wrong = shifted(by(allowed, "exact"))
    for order in ([(allowed, ONE, wrong), (left_open, ONE, A)], [(left_open, ONE, A), (allowed, ONE, wrong)]):
        assert concluded(order)[0].status(ONE, allowed.cell) == "violation"


def test_an_edition_that_does_not_judge() -> None:
    judged = asked(ONNX_21, "int8", zero_point_dtype="int8")
    for answer, status in (
        (by(judged, "exact"), "not-judged-agrees"),
        (shifted(by(judged, "exact")), "not-judged-differs"),
    ):
        tally, found = concluded([(judged, ONE, answer)], is_judged=False)
        assert (found, tally.status(ONE, judged.cell)) == ({}, status)


# -- folding ----------------------------------------------------------------------------------------------


def test_ids_are_the_same_in_every_run() -> None:
    key = Key("onnxruntime", "ai.onnx/DequantizeLinear-21", "violation", "ai.onnx/DequantizeLinear-21/formula", "x")
    assert key.id() == "violation-9962458faf"
    parts = ("subject", "contract", "clause", "detail")
    assert len({replace(key, **{part: "other"}).id() for part in parts} | {key.id()}) == 5


def entries() -> list[tuple[Discrepancy, Subject, Call, Cell, int]]:
    """Discrepancies of one key: sizes, paths, cells and contributions of every kind."""
    key = Key("one", ONNX_21.id, "violation", ONNX_21.id + "/formula", "wrap")
    made = []
    paths = (ONE, OTHER, Subject("one", "1", "oracle", "O1"))
    for number, (size, subject) in enumerate((size, subject) for size in (9, 4, 64) for subject in paths):
        judged = asked(ONNX_21, ("int8", "uint8")[number % 2], size, number // 3)
        share = Discrepancy(key, f"summary of {size}", Attribution("wrap", "wraps", size - 1, size), size, number % 5)
        made.append((share, subject, judged.call, judged.cell, judged.number))
    return made


def test_folding_does_not_depend_on_order() -> None:
    seen = set()
    for seed in range(40):
        findings, shuffled = Findings(), entries()
        random.Random(seed).shuffle(shuffled)
        new = [findings.add(d, subject, call, None, cell, number) for d, subject, call, cell, number in shuffled]
        assert new == [True] + [False] * 8
        (f,) = findings.sorted()
        counts = (f.cases, f.values, f.max_ulp, f.attribution)
        seen.add((f.call.digest(), f.subject, f.summary, *counts, *sorted(f.cells), *sorted(f.paths)))
    assert len(seen) == 1
    (result,) = seen
    assert result[1:6] == (ONE, "summary of 4", 9, 3 * (9 + 4 + 64), 4)
    assert result[6] == Attribution("wrap", "wraps", 3 * (8 + 3 + 63), 3 * (9 + 4 + 64))
    assert result[-3:] == ("", "O1", "O3")


def test_the_plain_path_is_the_witness_though_larger() -> None:
    for order in (1, -1):
        findings = Findings()
        for share, subject, call, cell, number in [e for e in entries() if (e[1] is ONE) == (e[2].values == 64)][
            ::order
        ]:
            findings.add(share, subject, call, None, cell, number)
        (finding,) = findings.sorted()
        assert (finding.subject, finding.call.values) == (ONE, 64)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("other", [0, 5])
def test_a_distance_that_is_no_number_stays_so(first: bool, other: int) -> None:
    findings = Findings()
    share, subject, call, cell, number = entries()[0]
    for distance in (-1, other)[:: 1 if first else -1]:
        findings.add(replace(share, max_ulp=distance), subject, call, None, cell, number)
    assert findings.sorted()[0].max_ulp == -1


# -- no false alarms, and conflicts where there are some --------------------------------------------------


def test_a_million_values_give_no_discrepancy() -> None:
    """Two implementations of the first reading: the in-house kernel, and NumPy's plain arithmetic where that is exact."""
    contract, values = ONNX_25, 0
    for number, dtype in enumerate(("int8", "uint8", "int16", "uint16", "float8_e4m3fn", "int4")):
        structure = Linear(dtype, "float32", "per_axis", (12, 15000), dtype, axis=0, scale_recipe="drawn", seed=number)
        judged = judge(contract, build(contract, structure), number)
        t = judged.call.tensors
        x, scale, zero_point = (t[role].codes.view(numpy_dtype(t[role].dtype)) for role in ("x", "scale", "zero_point"))
        kernel = xverify.dequantize_linear(x, scale, zero_point, axis=0)
        decode = integers if dtype.lstrip("u").startswith("int") else floats
        wide = (decode(dtype, t["x"].codes) - decode(dtype, t["zero_point"].codes)[:, None]).astype(np.float64)
        plain = (wide * scale.astype(np.float64)[:, None]).astype(np.float32)
        answers = [
            Outcome("tensor", Tensor("float32", np.ascontiguousarray(y).view(np.uint32))) for y in (kernel, plain)
        ]
        tally, found = concluded([(judged, s, answer) for s, answer in zip((ONE, TWO), answers, strict=True)])
        assert found == {}
        assert [tally.status(s, judged.cell) for s in (ONE, TWO)] == ["agrees"] * 2
        values += judged.call.values
    assert values > 1_000_000


def conflicts(identity: str, sample: int, keep: Callable[[Call], bool] = lambda _: True) -> tuple[set[str], int]:
    """Ids of the conflicts between an edition and its rivals on a sample of the walk, and how many calls were asked."""
    contract = contracts.get(identity)
    asked_calls = [call for call in walk(contract) if call.values < 2000 and keep(call)][::sample]
    found = set()
    for rival in editions.rivals(contract):
        allowed = [call for call in asked_calls if rival.judge(call.under(rival.id)).verdict == "allowed"]
        assert len(allowed) > 10, f"{identity} and {rival.id} share {len(allowed)} calls"
        found |= {d.key.id() for call in allowed if (d := editions.conflict(judge(contract, call), rival))}
    return found, len(asked_calls)


@pytest.mark.parametrize(
    ("identity", "mode", "count"),
    [
        ("onednn/DynamicDequantize-1@multiply", None, 1),
        ("tensorflow/Dequantize@seed", "SCALED", 1),
        ("tensorflow/Dequantize@seed", "MIN_COMBINED", 0),
        ("tensorflow/Dequantize@seed", "MIN_FIRST", 0),
        ("com.microsoft/DequantizeLinear-1@seed", None, 0),
        *((f"ai.onnx/DequantizeLinear-{version}", None, 0) for version in (10, 13, 19, 21, 23, 24)),
    ],
)
def test_conflicts_of_editions(identity: str, mode: str | None, count: int) -> None:
    found, asked_calls = conflicts(identity, 5, lambda call: call.attributes.get("mode") == mode)
    assert asked_calls > 10
    assert len(found) == count, f"{identity} {mode}: {found}"


def test_a_conflict_has_its_clauses_and_values() -> None:
    contract = contracts.get("onednn/DynamicDequantize-1@multiply")
    divide = contracts.get("onednn/DynamicDequantize-1@divide")
    tensors = {"x": tensor("int8", [0, 1, 2]), "scale": tensor("float32", [0.5])}
    found = editions.conflict(judge(contract, Call(contract.id, tensors)), divide)
    assert found is not None
    assert (found.values, found.key.clause, found.key.detail) == (2, contract.id + "/formula", divide.id + "/formula")
    same = {"x": tensor("int8", [0, 1, 2]), "scale": tensor("float32", [1.0])}
    assert editions.conflict(judge(contract, Call(contract.id, same)), divide) is None


def test_editions_of_other_output_types_conflict_everywhere() -> None:
    """A rival that gives another dtype cannot be satisfied at all."""
    contract = contracts.get("tensorflow/Dequantize@installed")
    call = build(contract, Range("int8", "SCALED", (5,)))
    judged = judge(contract, call)
    odd = replace(contract, operands=lambda c: replace(contract.operands(c), output_dtype="float16"))
    found = editions.conflict(judged, odd)
    assert found is not None
    assert found.values == 5


def test_documents_that_contradict_themselves() -> None:
    found = [d for identity in contracts.ids() for d, _ in editions.contradictions(contracts.get(identity))]
    assert {d.key.verdict for d in found} == {"conflict"}
    assert len({d.key.id() for d in found}) == len(found) == 6
