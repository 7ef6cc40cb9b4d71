"""An entry of the ledger covers the accepted finding and nothing else."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import pytest
from ledger_entries import CALL, CELL, ENTRY, FACTS, SEEN, TODAY, WRAPS, violation
from sample_report import ONNX, findings
from sampled_calls import KNOWN_REGIONS, per_tensor, sample_of

from xverify import contracts
from xverify.core.call import Call
from xverify.core.dtypes import tensor
from xverify.core.errors import DamagedFileError
from xverify.gate.ledger import (
    Condition,
    Entry,
    Ledger,
    ObservedFinding,
    Recipes,
    covers,
    entry_from_finding,
    facts,
    in_scope,
    look_up,
    same_kind,
    stale,
    witness_call,
)
from xverify.gate.regions import ANYWHERE, inside, region_from_name, region_to_text
from xverify.verify.region import Region, Term, region

# -- what an entry covers ---------------------------------------------------------------------------------


def test_the_facts_of_a_call():
    assert FACTS == {
        "x_dtype": "int32", "scale_dtype": "float32", "zero_point_dtype": "int32", "out_dtype": "float32",
        "granularity": "per_tensor", "variant": "", "mode": "", "qtype": "", "layout": "F", "scale_layout": "C",
        "zero_point_layout": "C", "rank": 2, "values": 3, "row_length": 3, "axis": -1, "block_size": None,
    }  # fmt: skip
    ranges = Call(
        "tensorflow/Dequantize@installed",
        {"input": tensor("uint8", 3), "min_range": tensor("float32", 0.0), "max_range": tensor("float32", 6.0)},
        {"mode": "SCALED"},
    )
    of_ranges = facts(ranges, None)
    assert {name: of_ranges[name] for name in ("x_dtype", "scale_dtype", "zero_point_dtype", "mode")} == {
        "x_dtype": "uint8", "scale_dtype": "float32", "zero_point_dtype": "", "mode": "SCALED",
    }  # fmt: skip
    assert of_ranges["granularity"] == of_ranges["out_dtype"] == of_ranges["zero_point_layout"] == ""
    assert of_ranges["row_length"] is None


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (Condition("x_dtype", ("int8", "int32")), True),
        (Condition("x_dtype", ("int8", "int16")), False),
        (Condition("x_dtype", ("int*",)), True),
        (Condition("x_dtype", ("uint*", "float*")), False),
        (Condition("mode", ("",)), True),
        (Condition("rank", (1, 2)), True),
        (Condition("rank", (1, 3)), False),
        (Condition("rank", least=2), True),
        (Condition("rank", least=3), False),
        (Condition("rank", most=2), True),
        (Condition("rank", most=1), False),
        (Condition("axis", (-1,)), True),
        (Condition("axis", (0,)), False),
        (Condition("block_size", (0,)), False),
        (Condition("block_size", most=100), False),
    ],
)
def test_a_condition_holds_of_what_it_says(condition, holds):
    assert condition.holds(FACTS) is holds
    assert in_scope(replace(ENTRY, scope=(condition,)), FACTS) is holds
    assert in_scope(replace(ENTRY, scope=(Condition("values", (3,)), condition)), FACTS) is holds


def test_without_conditions_every_call_is_in_scope():
    assert in_scope(replace(ENTRY, scope=()), FACTS)


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({}, True),
        ({"subject": "kernels.py:other"}, False),
        ({"contract": "ai.onnx/DequantizeLinear-24"}, False),
        ({"verdict": "mixed"}, False),
        ({"clause": f"{ONNX}/other", "detail": "exact-reciprocal", "recipes": Recipes("exact-reciprocal")}, True),
        ({"detail": "partly:wraps-int32", "recipes": Recipes("wraps-int32", "exact")}, True),
        ({"detail": "types:int32:float32", "recipes": None}, True),
        ({"clause": f"{ONNX}/output-type", "detail": "result-type:float64:float32", "recipes": None}, False),
        ({"detail": "result-shape", "recipes": None}, False),
    ],
)
def test_a_violation_is_of_the_same_kind_whatever_its_recipe(changes, same):
    assert same_kind(ENTRY, replace(SEEN, **changes)) is same


@pytest.mark.parametrize(
    ("verdict", "detail", "clause"),
    [
        ("wrongly-accepted", "zero-point-type", f"{ONNX}/zero-point-type"),
        ("crash", "allowed:values", f"{ONNX}/formula"),
        ("memory", "input-written", f"{ONNX}/formula"),
        ("wrongly-rejected", "integer x, no zero point, ValueError", f"{ONNX}/granularity"),
        ("nondeterministic", "", f"{ONNX}/formula"),
        ("violation", "result-shape", f"{ONNX}/output-shape"),
    ],
)
def test_of_other_findings_clause_and_detail_count(verdict, detail, clause):
    entry = replace(ENTRY, verdict=verdict, detail=detail, clause=clause, recipes=None)
    seen = replace(SEEN, verdict=verdict, detail=detail, clause=clause, recipes=None)
    assert covers(entry, seen, FACTS, TODAY) == "known"
    assert covers(entry, replace(seen, detail=detail + " else"), FACTS, TODAY) == "outside"
    assert covers(entry, replace(seen, clause=clause + "-else"), FACTS, TODAY) == "outside"
    assert covers(replace(entry, detail="*", clause=f"{ONNX}/*"), seen, FACTS, TODAY) == "known"


def test_of_an_ambiguity_the_clause_counts_too():
    entry = replace(ENTRY, verdict="ambiguity", clause=f"{ONNX}/subnormal", detail="flush", recipes=Recipes("flush"))
    seen = replace(SEEN, verdict="ambiguity", detail="float32", recipes=Recipes("float32"))
    assert covers(entry, seen, FACTS, TODAY) == "outside"
    assert covers(replace(entry, clause=seen.clause), seen, FACTS, TODAY) == "changed"


@pytest.mark.parametrize(
    ("recipes", "detail", "standing"),
    [
        (WRAPS, "wraps-int32", "known"),
        (Recipes("saturates"), "saturates", "changed"),
        (Recipes("wraps-int32", "exact"), "partly:wraps-int32", "changed"),
        (None, "types:int32:float32", "changed"),
    ],
)
def test_another_recipe_is_a_change(recipes, detail, standing):
    assert covers(ENTRY, replace(SEEN, recipes=recipes, detail=detail), FACTS, TODAY) == standing
    unknown = replace(ENTRY, recipes=None, detail="types:int32:float32")
    expected = "known" if recipes is None else "changed"
    assert covers(unknown, replace(SEEN, recipes=recipes, detail=detail), FACTS, TODAY) == expected


def test_another_name_for_what_gives_the_same_values_is_no_change():
    seen = replace(SEEN, recipes=Recipes("folded"), detail="folded")
    assert covers(ENTRY, seen, FACTS, TODAY) == "changed"
    assert covers(ENTRY, replace(seen, equal=(Recipes("x"), WRAPS)), FACTS, TODAY) == "known"


def test_an_entry_expires_on_its_day_and_not_before():
    assert covers(ENTRY, SEEN, FACTS, date(2027, 2, 20)) == "known"
    assert covers(ENTRY, SEEN, FACTS, date(2027, 2, 21)) == "expired"
    assert covers(replace(ENTRY, expires=None), SEEN, FACTS, date(2999, 1, 1)) == "known"
    assert covers(ENTRY, replace(SEEN, recipes=None), FACTS, date(2999, 1, 1)) == "changed"


def test_another_scope_is_outside_whatever_gives_the_values():
    flat = facts(Call(ONNX, {**CALL.tensors, "x": tensor("int32", [1])}), CELL)
    assert covers(ENTRY, SEEN, flat, TODAY) == "outside"
    other = {**FACTS, "x_dtype": "int16"}
    assert covers(ENTRY, SEEN, other, TODAY) == "outside"


def test_globs_cover_several_kernels_and_editions():
    entry = replace(ENTRY, subject="*:dequantize", contract="ai.onnx/*", clause="*/formula")
    assert covers(entry, SEEN, FACTS, TODAY) == "known"
    for other in (replace(SEEN, subject="kernels.py:other"), replace(SEEN, contract="onednn/DynamicDequantize-1")):
        assert covers(entry, other, FACTS, TODAY) == "outside"
    brackets = replace(ENTRY, subject="build[1]/k.so:f")
    assert covers(brackets, replace(SEEN, subject="build[1]/k.so:f"), FACTS, TODAY) == "known"


def test_the_best_that_an_entry_says_counts():
    changed = replace(ENTRY, name="changed", recipes=Recipes("other"), detail="other")
    expired = replace(ENTRY, name="expired", expires=date(2026, 11, 20), accepted=date(2026, 11, 1))
    for entries, expected in [
        ((changed, expired, ENTRY), ("known", ENTRY)),
        ((changed, expired), ("expired", expired)),
        ((changed,), ("changed", changed)),
        ((replace(ENTRY, subject="other"),), ("outside", None)),
        ((), ("outside", None)),
    ]:
        assert look_up(Ledger(entries), SEEN, FACTS, TODAY) == expected


def test_entries_without_a_finding_are_stale():
    other = replace(ENTRY, name="other")
    assert stale(Ledger((ENTRY, other)), {"wrap"}) == (other,)
    assert stale(Ledger((ENTRY, other)), {"wrap", "other", "third"}) == ()


# -- regions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", KNOWN_REGIONS, ids=lambda case: case[0])
def test_a_region_comes_back_from_its_name_and_from_its_text(case):
    words, calls, predicate = case
    samples = [sample_of(call, predicate) for call in calls]
    found = region(samples)
    for text in (found.name, region_to_text(found)):
        back = region_from_name(text)
        assert (back.terms, back.words, back.name) == (found.terms, words, found.name)
        assert inside(back, samples)
    # One more wrong value, outside the region, is reported.
    beyond = next(sample for sample in samples if not sample.wrong.all())
    wrong = beyond.wrong.copy()
    wrong.reshape(-1)[np.flatnonzero(~wrong)[0]] = True
    assert not inside(back, [*samples, replace(beyond, wrong=wrong)])
    assert covers(replace(ENTRY, region=region_to_text(found)), SEEN, FACTS, TODAY, samples) == "known"
    spilled = [replace(beyond, wrong=wrong)]
    assert covers(replace(ENTRY, region=region_to_text(found)), SEEN, FACTS, TODAY, spilled) == "outside"


def test_levels_are_written_in_words():
    found = Region("", "", 0, 0, (Term("output", "=", 16.0), Term("|y|", "<", 2.0**-4)))
    assert region_to_text(found) == "float16 output & |y| < 0.0625"
    several = Region("", "", 0, 0, (Term("granularity", "not", 0.0), Term("x - zero point", ">=", 2.0**31)))
    assert region_to_text(several) == "not per tensor & x - zero point >= 2147483648"
    for each in (found, several):
        assert region_from_name(region_to_text(each)).terms == each.terms


def test_what_restricts_nothing_holds_everything():
    samples = [sample_of(call, lambda call, y: y > 0) for call in per_tensor(2)]
    for text in ("", "everywhere", "no simple region"):
        assert region_from_name(text) == ANYWHERE
        assert inside(region_from_name(text), samples)
    assert region_to_text(ANYWHERE) == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("y is subnorml", "'y is subnorml' is no term of a region, .*did you mean 'y is subnormal'"),
        ("|y| <= 1 & ", "'' is no term"),
        ("|y| ~ 3", "is no term"),
        ("|y| < a", "compares with 'a'; expected a number"),
        ("|y| < nan", "expected a number"),
        ("output = 99", "expected a level from 0 to 23"),
        ("output = 1.5", "expected a level from 0 to 23"),
    ],
)
def test_a_region_that_is_none_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        region_from_name(text)


# -- from a finding ---------------------------------------------------------------------------------------


def accepted_from(finding: dict[str, Any]) -> Entry:
    return entry_from_finding(finding, "known for years", TODAY, "spec", date(2027, 1, 1))


def test_an_accepted_finding_is_as_narrow_as_what_was_seen():
    entry = accepted_from(violation())
    assert (entry.name, entry.finding) == (violation()["id"],) * 2
    assert (entry.subject, entry.contract, entry.verdict) == ("onnxruntime", ONNX, "violation")
    assert (entry.clause, entry.detail, entry.recipes) == (f"{ONNX}/formula", "wraps-int32", WRAPS)
    assert (entry.reason, entry.owner, entry.accepted) == ("known for years", "spec", TODAY)
    assert entry.scope == (
        Condition("x_dtype", ("int32",)),
        Condition("scale_dtype", ("float32",)),
        Condition("zero_point_dtype", ("int32",)),
        Condition("out_dtype", ("float32",)),
        Condition("granularity", ("blocked", "per_axis", "per_tensor")),
        Condition("variant", ("",)),
    )
    witness = witness_call(entry)
    assert entry.witness == f"{ONNX} x=int32[1]:80000000 scale=float32[]:3f800000 zero_point=int32[]:00000001"
    assert witness is not None
    seen = ObservedFinding("onnxruntime", ONNX, "violation", entry.clause, entry.detail, WRAPS)
    assert covers(entry, seen, facts(witness, contracts.get(ONNX).cell(witness)), TODAY) == "known"
    narrow = {**FACTS, "scale_dtype": "float16"}
    assert covers(entry, seen, narrow, TODAY) == "outside"


def test_the_region_is_kept_where_no_single_recipe_says_all():
    assert accepted_from(violation()).region == ""
    assert accepted_from({**violation(), "attribution": None}).region == "|y| < 0.5"
    parts = {**violation()["attribution"], "elsewhere": {"reading": "exact", "words": "rounds once"}}
    in_part = accepted_from({**violation(), "attribution": parts})
    assert (in_part.region, in_part.recipes) == ("|y| < 0.5", Recipes("wraps-int32", "exact"))
    for nowhere in (None, {"name": "", "words": "no simple region"}, {"name": "everywhere", "words": "everywhere"}):
        assert accepted_from({**violation(), "attribution": None, "region": nowhere}).region == ""


def test_a_finding_without_cells_is_about_its_clause_whatever_the_types():
    accepted = next(finding for finding in findings() if finding["verdict"] == "wrongly-accepted")
    entry = accepted_from({**accepted, "cells": []})
    assert (entry.scope, entry.clause) == ((), accepted["clause"])
    text = next(finding for finding in findings() if finding["witness"] is None)
    entry = accepted_from(text)
    assert (entry.scope, entry.witness, witness_call(entry)) == ((), "", None)


def test_a_damaged_witness_is_refused():
    damaged = violation()
    damaged["witness"]["call"]["tensors"]["x"]["dtype"] = "int7"
    with pytest.raises(DamagedFileError, match="int7"):
        accepted_from(damaged)


def test_a_witness_that_is_too_long_is_left_out():
    found = violation()
    codes = [f"0x{code:08x}" for code in range(4000)]
    x = {"dtype": "int32", "shape": [4000], "layout": "C", "data": codes, "hex": codes}
    found["witness"]["call"]["tensors"]["x"] = x
    assert 36_000 < len(accepted_from(found).witness) < 37_000
    found["witness"]["call"]["tensors"]["x"] = {**x, "shape": [8000], "hex": codes * 2}
    assert accepted_from(found).witness == ""
