"""The choice among recipes that give the same values: the commonest mistake."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from xverify.contracts import get
from xverify.core.call import Call, Outcome
from xverify.core.dtypes import tensor
from xverify.core.verdict import Verdict
from xverify.engine.departing import settle_departures
from xverify.verify.attribute import Attribution
from xverify.verify.findings import Discrepancy, Findings, Key, Subject

EDITION = get("ai.onnx/DequantizeLinear-28")


def test_a_cast_that_rounds_wrongly_is_one_mistake_in_each_stage() -> None:
    """The first finding shows only the end of a cast, which may be truncated."""
    findings = Findings()
    tensors = {"x": tensor("int8", [1]), "scale": tensor("float32", 0.1)}
    call = Call(EDITION.id, tensors, {"output_dtype": "bfloat16"})
    for name, equal in (("truncated", ("last-bit",)), ("scale-last-bit", ()), ("scale-last-bit+zero-unsigned", ())):
        key = Key("a", EDITION.id, Verdict.VIOLATION, f"{EDITION.id}/formula", name)
        made = Discrepancy(key, "", Attribution(name, "", 1, 1), 1, equal=equal)
        findings.add(made, Subject("a", "1", "oracle"), call, Outcome("tensor"), None, 0)
    state = SimpleNamespace(findings=findings, pool=SimpleNamespace(oracles={}), contract_of=lambda finding: EDITION)
    settle_departures(cast(Any, state))
    by_name = {finding.key.detail: finding.departures for finding in findings.sorted()}
    assert [(each.stage, each.actual) for each in by_name["truncated"]] == [("final", "last-bit")]


def test_each_departure_has_the_clause_that_it_contradicts() -> None:
    """A product in float32 contradicts the sentence on precision, also beside a wrong cast of infinity."""
    findings = Findings()
    tensors = {"x": tensor("int16", [1]), "scale": tensor("float32", 0.1)}
    call = Call(EDITION.id, tensors, {"output_dtype": "float16"})
    name = "rounded-float32+clamped"
    key = Key("a", EDITION.id, Verdict.VIOLATION, f"{EDITION.id}/formula", name)
    made = Discrepancy(key, "", Attribution(name, "", 1, 1), 1)
    findings.add(made, Subject("a", "1", "oracle"), call, Outcome("tensor"), None, 0)
    state = SimpleNamespace(findings=findings, pool=SimpleNamespace(oracles={}), contract_of=lambda finding: EDITION)
    settle_departures(cast(Any, state))
    (settled,) = findings.sorted()
    assert {each.stage: each.clause.rpartition("/")[2] for each in settled.departures} == {
        "precision": "multiplication-precision",
        "final": "formula",
    }


def test_a_departure_from_the_plain_formula_comes_before_one_from_another_admitted_reading() -> None:
    """A cast of the scale is admitted only before a rounded difference.

    The other findings compute in float32 throughout.
    """
    findings = Findings()
    tensors = {"x": tensor("int32", [1]), "scale": tensor("float32", 0.1)}
    call = Call(EDITION.id, tensors, {"output_dtype": "float16"})
    equal_one = "difference-float32+scale-output+rounded-float32"
    for name, equal in (("scale-output", (equal_one,)), ("float32", ()), ("rounded-float32", ())):
        key = Key("a", EDITION.id, Verdict.VIOLATION, f"{EDITION.id}/formula", name)
        made = Discrepancy(key, "", Attribution(name, "", 1, 1), 1, equal=equal)
        findings.add(made, Subject("a", "1", "oracle"), call, Outcome("tensor"), None, 0)
    state = SimpleNamespace(findings=findings, pool=SimpleNamespace(oracles={}), contract_of=lambda finding: EDITION)
    settle_departures(cast(Any, state))
    by_name = {finding.key.detail: finding.departures for finding in findings.sorted()}
    assert [(each.stage, each.actual) for each in by_name["scale-output"]] == [("scale_cast", "output")]
    assert [(each.stage, each.actual) for each in by_name["float32"]] == [("precision", "float32")]
