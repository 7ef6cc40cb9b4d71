"""Guards of the functions in `verdicts`: shrinking calls them with any outcome of any call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from xverify import contracts
from xverify.arithmetic.reading import Reading
from xverify.arithmetic.readings import EXACT, FLOAT32, Stepwise
from xverify.core.call import NO_MEMORY, Call, Outcome, Tensor
from xverify.core.dtypes import tensor
from xverify.verify import verdicts
from xverify.verify.attribute import Zeros
from xverify.verify.findings import Discrepancy
from xverify.verify.legal import legal_set
from xverify.verify.verdicts import NOTES, Judged, judge

ONNX = contracts.get("ai.onnx/DequantizeLinear-13")
SINGLE = 16777217
"""Times 3, the two admitted readings differ on this number."""
POINT = {"zero_point": tensor("int32", 5)}
CALLS = {
    "allowed": Call(ONNX.id, {"x": tensor("int32", [1, SINGLE]), "scale": tensor("float32", 3.0)}),
    "unspecified": Call(ONNX.id, {"x": tensor("int32", [1, SINGLE]), "scale": tensor("float32", 3.0), **POINT}),
    "forbidden": Call(ONNX.id, {"x": tensor("int16", [1, 2]), "scale": tensor("float32", 3.0)}),
}
OUTCOMES = {
    "right": Outcome("tensor", tensor("float32", [3.0, 50331652.0])),
    "wrong": Outcome("tensor", tensor("float32", [7.0, 50331652.0])),
    "another type": Outcome("tensor", tensor("float16", [3.0, 4.0])),
    "another shape": Outcome("tensor", tensor("float32", [[3.0, 50331652.0]])),
    "fewer": Outcome("tensor", tensor("float32", [3.0])),
    "rejected": Outcome("rejected", error="ValueError"),
    "unsupported": Outcome("unsupported", error="NotImplementedError"),
    "crash": Outcome("crash", message="Fatal: died\nmore"),
    "hang": Outcome("hang"),
}
TENSORS = ("right", "wrong", "another type", "another shape", "fewer")


# -- a call, judged ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", [*CALLS])
def test_a_judged_call_has_the_facts_of_its_verdict(verdict: str) -> None:
    """A forbidden call has no cell. An open call has no legal set."""
    judged = judge(ONNX, CALLS[verdict])
    assert (judged.contract, judged.call, judged.judgement.verdict) == (ONNX, CALLS[verdict], verdict)
    assert (judged.number, judged.places, judged.more, judged.codes_by_reading) == (0, None, False, {})
    assert (judged.cell is None) == (verdict == "forbidden")
    assert (judged.legal is None) == (verdict != "allowed")
    assert judge(ONNX, CALLS[verdict], 8).number == 8
    assert Judged(ONNX, CALLS[verdict], judged.judgement, judged.cell, judged.legal).number == 0
    assert judged.codes_by_reading is not judge(ONNX, CALLS[verdict]).codes_by_reading


def test_calls_that_are_left_open_are_counted_apart() -> None:
    cell = judge(ONNX, CALLS["unspecified"]).cell
    assert cell is not None
    plain = ONNX.cell(CALLS["unspecified"])
    assert cell == replace(plain, variant=f"{plain.variant} open: int32-zero-point".strip())
    assert judge(ONNX, CALLS["allowed"]).cell == ONNX.cell(CALLS["allowed"])


def test_a_legal_set_that_is_known_is_not_made_again() -> None:
    legal = legal_set(ONNX, CALLS["allowed"])
    assert judge(ONNX, CALLS["allowed"], legal=legal).legal is legal


def test_a_reading_is_evaluated_once_for_all_implementations() -> None:
    """The order of evaluations and other readings beside it do not matter. NaNs are made canonical."""
    nan = tensor("float32", float("nan"))
    judged = judge(ONNX, Call(ONNX.id, {"x": tensor("int32", [1, SINGLE]), "scale": nan}))
    assert [codes.tolist() for codes in judged.give([EXACT])] == [[0xFFFFFFFF] * 2]
    judged = judge(ONNX, CALLS["allowed"])
    (first,) = judged.give([FLOAT32])
    again = judged.give([EXACT, FLOAT32, Stepwise(final="truncated")])
    assert again[1] is first
    assert [float(codes.view(np.float32)[1]) for codes in again] == [50331652.0, 50331648.0, 50331648.0]
    assert judged.give([]) == []


# -- what is said of which outcomes -----------------------------------------------------------------------

SPEAKS: dict[Callable[[Judged, str, Outcome], Discrepancy | None], set[tuple[str, str]]] = {
    verdicts.died: {(call, death) for call in CALLS for death in ("crash", "hang")},
    verdicts.accepted: {("forbidden", answer) for answer in TENSORS},
    verdicts.rejected: {("allowed", "rejected")},
    verdicts.shape_or_type: {("allowed", answer) for answer in ("another type", "another shape", "fewer")},
}
"""The pairs of a call and an outcome for which a function returns a finding."""


@pytest.mark.parametrize("function", [*SPEAKS], ids=lambda function: function.__name__)
def test_each_verdict_function_reports_its_outcomes_only(
    function: Callable[[Judged, str, Outcome], Discrepancy | None],
) -> None:
    said = {}
    for call in CALLS:
        for outcome in OUTCOMES:
            found = function(judge(ONNX, CALLS[call]), "one", OUTCOMES[outcome])
            if found is not None:
                said[call, outcome] = found
    assert {*said} == SPEAKS[function]
    for found in said.values():
        assert (found.key.subject, found.key.contract) == ("one", ONNX.id)
        assert found.key.clause in ONNX.clauses
        assert found.summary.startswith("one ")


def test_only_values_of_the_right_type_and_shape_are_compared() -> None:
    compared = {
        (call, outcome): verdicts.compared(judge(ONNX, CALLS[call]), OUTCOMES[outcome])
        for call in CALLS
        for outcome in OUTCOMES
    }
    counts = {pair: comparison.wrong_values for pair, comparison in compared.items() if comparison is not None}
    assert counts == {("allowed", "right"): 0, ("allowed", "wrong"): 1}


def test_a_discrepancy_counts_its_values() -> None:
    of = {verdict: judge(ONNX, call) for verdict, call in CALLS.items()}
    assert verdicts.accepted(of["forbidden"], "one", OUTCOMES["fewer"]).values == 2
    assert verdicts.rejected(of["allowed"], "one", OUTCOMES["rejected"]).values == 2
    odd = verdicts.shape_or_type(of["allowed"], "one", OUTCOMES["fewer"])
    assert (odd.values, odd.max_ulp) == (2, -1)
    assert verdicts.nondeterministic(of["allowed"], "one", OUTCOMES["right"], OUTCOMES["wrong"]).values == 2
    wrong = verdicts.violates(of["allowed"], "one", OUTCOMES["wrong"], _comparison(of["allowed"], "wrong"), None)
    assert (wrong.values, wrong.max_ulp > 0) == (1, True)


def _comparison(judged: Judged, outcome: str) -> verdicts.Comparison:
    found = verdicts.compared(judged, OUTCOMES[outcome])
    assert found is not None
    return found


@pytest.mark.parametrize("call", [*CALLS])
def test_processes_without_memory_left_share_one_finding(call: str) -> None:
    """Memory runs out over many calls, so the call that found none left is not the cause."""
    judged = judge(ONNX, CALLS[call])
    lost = Outcome("crash", message=f"{NO_MEMORY}: 3 GiB\nmore")
    found = verdicts.died(judged, "one", lost)
    assert found is not None
    assert (found.key.verdict, found.key.clause, found.key.detail) == ("crash", ONNX.id + "/formula", "out-of-memory")
    assert found.summary == f"one ends the process: {NO_MEMORY}: 3 GiB"
    other = verdicts.died(judged, "one", Outcome("crash", message="Fatal: " + NO_MEMORY))
    assert other is not None
    assert other.key != found.key


def test_deaths_on_empty_tensors_and_on_values_are_separate_findings() -> None:
    empty = judge(ONNX, Call(ONNX.id, {"x": tensor("int8", []), "scale": tensor("float32", 3.0)}))
    full = judge(ONNX, CALLS["allowed"])
    keys = {
        verdicts.died(judged, "one", OUTCOMES[death]).key for judged in (empty, full) for death in ("crash", "hang")
    }
    assert {(key.verdict, key.detail) for key in keys} == {
        (death, f"allowed:{what}") for death in ("crash", "hang") for what in ("empty", "values")
    }
    silent = verdicts.died(full, "one", Outcome("crash"))
    assert silent.summary.endswith("no message")


def test_every_note_is_reported_and_an_unknown_note_counts_as_memory() -> None:
    judged = judge(ONNX, CALLS["allowed"])
    found = verdicts.noted(judged, "one", replace(OUTCOMES["right"], notes=(*NOTES, "never-heard-of")))
    assert [(one.key.verdict, one.key.detail) for one in found] == [
        *((verdict, note) for note, (verdict, _) in NOTES.items()), ("memory", "never-heard-of")
    ]  # fmt: skip
    assert verdicts.noted(judged, "one", OUTCOMES["right"]) == []


def test_flushing_is_reported_if_a_value_was_flushed() -> None:
    judged = judge(ONNX, Call(ONNX.id, {"x": tensor("int8", [1, 2, 0]), "scale": tensor("float32", 2.0**-149)}))
    for answer, count, words in (
        ([0.0, 0.0, 0.0], 2, "flushes subnormal results to zero"),
        ([2.0**-149, 0.0, 0.0], 1, "gives zero for some subnormal results and keeps others"),
        ([2.0**-149, 2.0**-148, 0.0], 0, ""),
    ):
        outcome = Outcome("tensor", tensor("float32", answer))
        comparison = verdicts.compared(judged, outcome)
        assert comparison is not None
        found = verdicts.flushed(judged, "one", outcome, comparison)
        assert (found.values, found.attribution.words) == (count, words) if found else not count


# -- wrong values and their recipe --------------------------------------------------------------------------

FEW = Call(ONNX.id, {"x": tensor("int8", [1, 2, 3, 4]), "scale": tensor("float32", 3.0)})


def violation(answer: list[float], recipe: object, elsewhere: Reading | None = None) -> Discrepancy | None:
    judged = judge(ONNX, FEW)
    outcome = Outcome("tensor", tensor("float32", answer))
    comparison = verdicts.compared(judged, outcome)
    assert comparison is not None
    return verdicts.violates(judged, "one", outcome, comparison, recipe, elsewhere)


def test_right_values_are_no_violation() -> None:
    for recipe, elsewhere in ((None, None), (EXACT, None), (Zeros(), EXACT)):
        assert violation([3.0, 6.0, 9.0, 12.0], recipe, elsewhere) is None


def test_a_recipe_must_give_every_value_of_the_call() -> None:
    found = violation([0.0, 0.0, 0.0, 0.0], Zeros())
    assert found is not None
    assert (found.key.detail, found.readings, found.values) == ("zeros", ("zeros",), 4)
    assert found.attribution is not None
    assert (found.attribution.explained, found.attribution.values, found.attribution.elsewhere) == (4, 4, None)
    assert violation([3.0, 6.0, 0.0, 0.0], Zeros()) is None, "the right ones are not zero"
    assert violation([0.0, 0.0, 0.0, 1.0], Zeros()) is None


def test_a_recipe_of_a_piece_must_give_all_wrong_values() -> None:
    found = violation([3.0, 6.0, 0.0, 0.0], Zeros(), EXACT)
    assert found is not None
    assert (found.key.detail, found.readings, found.values) == ("partly:zeros", ("zeros", "exact"), 2)
    assert found.attribution is not None
    assert (found.attribution.explained, found.attribution.elsewhere) == (2, ("exact", EXACT.words))
    assert violation([3.0, 6.0, 0.0, 1.0], Zeros(), EXACT) is None


def test_wrong_values_without_a_recipe() -> None:
    found = violation([3.0, 6.0, 9.0, 13.0], None)
    assert found is not None
    assert (found.key.verdict, found.key.detail) == ("violation", "types:int8:float32")
    assert (found.attribution, found.readings, found.values) == (None, (), 1)


# -- legal values that follow nothing -----------------------------------------------------------------------


def mixture(answer: Outcome, alive: tuple[str, ...], recipe: Reading | None = None) -> Discrepancy | None:
    """Return the mixture, which is the same with the comparison and without it."""
    judged = judge(ONNX, CALLS["allowed"])
    comparison = verdicts.compared(judged, answer)
    with_it, without = (verdicts.mixed(judged, "one", answer, one, alive, recipe) for one in (comparison, None))
    assert with_it == without
    return with_it


def test_values_that_no_remaining_reading_gives_are_mixed() -> None:
    found = mixture(OUTCOMES["right"], ("float32",))
    assert found is not None
    assert (found.key.verdict, found.key.detail) == ("mixed", "types:int32:float32")
    assert (found.values, found.max_ulp, found.attribution, found.readings) == (2, 0, None, ("float32",))
    assert mixture(OUTCOMES["right"], ("exact", "float32")) is None
    assert mixture(OUTCOMES["right"], ("float32", "exact")) is None
    assert mixture(OUTCOMES["right"], ()) is None, "that was said before"
    assert mixture(OUTCOMES["wrong"], ("float32",)) is None, "a violation is no mixture"
    assert mixture(OUTCOMES["right"], ("a reading of other calls", "exact")) is None
    assert mixture(OUTCOMES["right"], ("a reading of other calls",)) is not None


@pytest.mark.parametrize("outcome", ["another type", "another shape", "rejected", "crash", "hang"])
def test_an_outcome_without_values_is_not_mixed(outcome: str) -> None:
    assert mixture(OUTCOMES[outcome], ("float32",)) is None


@pytest.mark.parametrize("call", ["unspecified", "forbidden"])
def test_calls_without_a_legal_set_are_not_mixed(call: str) -> None:
    assert verdicts.mixed(judge(ONNX, CALLS[call]), "one", OUTCOMES["right"], None, ("float32",)) is None


def test_a_recipe_of_a_mixture_must_give_this_call_too() -> None:
    truncated = Stepwise(final="truncated")
    assert mixture(OUTCOMES["right"], ("float32",), truncated) is None
    single = Outcome("tensor", tensor("float32", [3.0, 50331648.0]))
    found = mixture(single, ("exact",), truncated)
    assert found is not None
    assert (found.key.detail, found.readings, found.values) == (truncated.name, ("exact",), 2)
    assert found.attribution is not None
    assert (found.attribution.reading, found.attribution.explained) == (truncated.name, 2)


# -- the same call twice --------------------------------------------------------------------------------------


@pytest.mark.parametrize("death", ["crash", "hang"])
def test_a_death_and_an_answer_are_not_nondeterministic(death: str) -> None:
    judged = judge(ONNX, CALLS["allowed"])
    for pair in ((OUTCOMES["right"], OUTCOMES[death]), (OUTCOMES[death], OUTCOMES["right"])):
        assert verdicts.nondeterministic(judged, "one", *pair) is None


def test_two_answers_that_differ_in_kind_or_bits_are_nondeterministic() -> None:
    judged = judge(ONNX, CALLS["allowed"])
    right, other = OUTCOMES["right"], Outcome("tensor", tensor("float32", [3.0, 50331648.0]))
    for pair in ((right, other), (right, OUTCOMES["rejected"]), (OUTCOMES["rejected"], OUTCOMES["unsupported"])):
        found = verdicts.nondeterministic(judged, "one", *pair)
        assert found is not None
        assert (found.key.verdict, found.key.clause) == ("nondeterministic", ONNX.id + "/formula")
    same = Outcome("tensor", Tensor("float32", right.tensor.codes.copy()))
    assert verdicts.nondeterministic(judged, "one", right, same) is None
