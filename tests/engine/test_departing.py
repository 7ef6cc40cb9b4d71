"""The choice among recipes that give the same values: the plain formula, then the commonest mistake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

from xverify.contracts import get
from xverify.core.call import Call, Outcome, Tensor
from xverify.core.dtypes import tensor
from xverify.core.verdict import Verdict
from xverify.engine.departing import settle_departures
from xverify.verify.attribute import Attribution
from xverify.verify.departures import Departure
from xverify.verify.findings import Discrepancy, Findings, Key, Subject

EDITION = get("ai.onnx/DequantizeLinear-28")


def settled(x: Tensor, output_dtype: str, recipes: Mapping[str, Sequence[str]]) -> dict[str, Sequence[Departure]]:
    """Return the departures of findings by recipe. Each recipe comes with those that give the same values."""
    findings = Findings()
    call = Call(EDITION.id, {"x": x, "scale": tensor("float32", 0.1)}, {"output_dtype": output_dtype})
    for name, equal in recipes.items():
        key = Key("a", EDITION.id, Verdict.VIOLATION, f"{EDITION.id}/formula", name)
        made = Discrepancy(key, "", Attribution(name, "", 1, 1), 1, equal=tuple(equal))
        findings.add(made, Subject("a", "1", "oracle"), call, Outcome("tensor"), None, 0)
    state = SimpleNamespace(findings=findings, pool=SimpleNamespace(oracles={}), contract_of=lambda finding: EDITION)
    settle_departures(cast(Any, state))
    return {finding.key.detail: finding.departures for finding in findings.sorted()}


def stages(departures: Sequence[Departure]) -> list[tuple[str, str]]:
    return [(each.stage, each.actual) for each in departures]


def test_a_cast_that_rounds_wrongly_is_one_mistake_in_each_stage() -> None:
    """The first finding shows only the end of a cast, which may be truncated."""
    recipes = {"truncated": ["last-bit"], "scale-last-bit": [], "scale-last-bit+zero-unsigned": []}
    by_name = settled(tensor("int8", [1]), "bfloat16", recipes)
    assert stages(by_name["truncated"]) == [("final", "last-bit")]


def test_each_departure_has_the_clause_that_it_contradicts() -> None:
    """A product in float32 contradicts the sentence on precision, also beside a wrong cast of infinity."""
    (departures,) = settled(tensor("int16", [1]), "float16", {"rounded-float32+clamped": []}).values()
    assert {each.stage: each.clause.rpartition("/")[2] for each in departures} == {
        "precision": "multiplication-precision",
        "final": "formula",
    }


def test_a_departure_from_the_plain_formula_comes_before_one_from_another_admitted_reading() -> None:
    """A cast of the scale is admitted only before a rounded difference.

    The other findings compute in float32 throughout.
    """
    single = "difference-float32+scale-output+rounded-float32"
    by_name = settled(tensor("int32", [1]), "float16", {"scale-output": [single], "float32": [], "rounded-float32": []})
    assert stages(by_name["scale-output"]) == [("scale_cast", "output")]
    assert stages(by_name["float32"]) == [("precision", "float32")]
