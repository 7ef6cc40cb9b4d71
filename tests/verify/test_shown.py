"""Each mistake of a recipe is shown by the witness, and in the cause of that mistake."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from lattice_oracles import SUBJECT, Asked, follows

from xverify import contracts
from xverify.arithmetic.readings import Stepwise
from xverify.core.call import Call, Outcome
from xverify.core.dtypes import tensor
from xverify.engine.store import legal_entries
from xverify.verify.cause_titles import effect
from xverify.verify.causes import _shows
from xverify.verify.findings import Finding, Findings
from xverify.verify.shown import shown
from xverify.verify.shrink import shrink
from xverify.verify.verdicts import judge

EDITION = contracts.get("ai.onnx/DequantizeLinear-24")
BOTH = Stepwise(scale_cast="last-bit", zero="unsigned")
CASTS, LOSES_SIGN = "cast:last-bit", "zero:unsigned"
answer = follows(EDITION, BOTH)


def a_call(x: Any, scales: Any) -> Call:
    tensors = {"x": tensor("int8", x), "scale": tensor("float32", scales)}
    return Call(EDITION.id, tensors, {"output_dtype": "bfloat16", "axis": 0})


def outcome_of(call: Call, recipe: Stepwise = BOTH) -> Outcome:
    return follows(EDITION, recipe)(call)


def test_values_show_the_departure_without_which_they_differ() -> None:
    call = a_call([0, 1, 0], [-1.0, 0.1, 0.1])
    masks = shown(judge(EDITION, call), outcome_of(call), BOTH.name)
    assert {token: mask.tolist() for token, mask in masks.items()} == {
        CASTS: [False, True, False],
        LOSES_SIGN: [True, False, False],
    }


def test_a_single_departure_needs_no_masks() -> None:
    call = a_call([1], [0.1])
    one = Stepwise(scale_cast="last-bit")
    assert shown(judge(EDITION, call), outcome_of(call, one), one.name) == {}


def test_two_wrong_casts_are_one_mistake() -> None:
    call = a_call([1, 0], [0.1, -0.1])
    both = Stepwise(scale_cast="last-bit", final="last-bit")
    assert shown(judge(EDITION, call), outcome_of(call, both), both.name) == {}
    with_zeros = replace(both, zero="unsigned")
    masks = shown(judge(EDITION, call), outcome_of(call, with_zeros), with_zeros.name)
    assert {token: mask.tolist() for token, mask in masks.items()} == {CASTS: [True, False], LOSES_SIGN: [False, True]}


def found() -> Finding:
    """The finding of a kernel with both mistakes. Its smallest wrong call shows one of them."""
    rng = np.random.default_rng(4)
    asked = Asked(EDITION, answer)
    for size in (40, 60, 80):
        scales = (rng.random(size) + 0.5) * rng.choice([-1, 1], size)
        asked.ask(a_call(rng.integers(-3, 4, size), scales))
    asked.ask(a_call([1], [0.1]))
    asked.tally.settle()
    findings = Findings()
    for _, cell, _, each, judged, outcome in asked.tally.violations():
        findings.add(each, SUBJECT, judged.call, outcome, cell, judged.number)
        (finding,) = findings.sorted()
        finding.attribution = each.attribution
    return finding


def test_the_witness_shows_both_mistakes_and_each_cause_shows_its_own() -> None:
    finding = found()
    assert finding.attribution is not None
    assert finding.attribution.reading == BOTH.name
    result = shrink(finding, EDITION, answer, None, 0)
    assert result is not None
    assert result.call.values <= 4
    entries = legal_entries(EDITION, result.call, answer(result.call), finding)
    assert {token for entry in entries for token in entry["departures"]} == {CASTS, LOSES_SIGN}
    x, scale = (
        {"dtype": t.dtype, "shape": list(t.shape), "data": [str(v) for v in numbers]}
        for t, numbers in (
            (result.call.tensors["x"], result.call.data.codes.view(np.int8).reshape(-1)),
            (result.call.tensors["scale"], result.call.tensors["scale"].codes.view(np.float32).reshape(-1)),
        )
    )
    witness = {"legal": entries, "call": {"tensors": {"x": x, "scale": scale}, "attributes": {"axis": 0}}}
    report = {"witness": witness, "out_dtype": "bfloat16", "region": None}
    assert "becomes 0 instead of -0 in bfloat16" in effect(report, mistake=LOSES_SIGN)
    assert "instead of -0" not in effect(report, mistake=CASTS)


def test_a_finding_whose_witness_shows_another_mistake_is_not_shown_first() -> None:
    entry = {"index": [0], "departures": [CASTS]}
    assert _shows({"witness": {"legal": [entry]}}, CASTS)
    assert not _shows({"witness": {"legal": [entry]}}, LOSES_SIGN)
    assert _shows({"witness": {"legal": [{"index": [0]}]}}, LOSES_SIGN)
