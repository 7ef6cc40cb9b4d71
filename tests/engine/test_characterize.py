"""The recipe of each cell in the report, and the implementations that follow a clause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from lattice_oracles import Asked, changed, follows, lap_of

from xverify import contracts
from xverify.arithmetic.readings import EXACT, FLOAT32, Stepwise
from xverify.core.call import Call
from xverify.core.dtypes import tensor
from xverify.core.verdict import Verdict
from xverify.engine.characterize import characterize, followers
from xverify.strategies import build
from xverify.strategies.structures import Linear
from xverify.verify.findings import Discrepancy, Findings, Key, Subject

ONNX = contracts.get("ai.onnx/DequantizeLinear-21")
INT8 = Linear("int8", "float32", "per_axis", (4, 80), "int8")
INT32 = Linear("int32", "float32", "per_axis", (4, 80))


def sweep_of(*asked: Asked) -> Any:
    """The parts of a run that these tests read."""
    readings = {}
    for one in asked:
        assert one.last is not None
        readings.update({reading.name: reading for reading in one.contract.readings(one.last.call)})
    return SimpleNamespace(contract=lambda identity: ONNX, readings_of=lambda contract: tuple(readings.values()))


def told(asked: Asked) -> dict[str, Any]:
    asked.violation()
    assert asked.cell is not None
    return characterize(sweep_of(asked), asked.cell, asked.row)


def in_cell(answer: Any, structure: Linear) -> Asked:
    asked = Asked(ONNX, answer)
    asked.ask(*lap_of(ONNX, structure))
    asked.ask(*(build(ONNX, Linear(**{**vars(structure), "seed": seed})) for seed in range(3)))
    return asked


@pytest.mark.parametrize(("reading", "structure"), [(EXACT, INT8), (EXACT, INT32), (FLOAT32, INT32)])
def test_a_cell_that_follows_the_text(reading: Stepwise, structure: Linear) -> None:
    asked = in_cell(follows(ONNX, reading), structure)
    entry = told(asked)
    assert entry["attribution"] == {
        "reading": reading.name, "words": reading.words, "values": asked.row.values, "legal": True,
    }  # fmt: skip
    # Of int8 the two readings that the text admits are one, of int32 they are not.
    assert entry["remaining"]["equal"] == (1 if structure is INT8 else 0)
    assert entry["remaining"]["more"] == 0
    assert set(entry["remaining"]["others"]) <= {r.name for r in asked.row.evidence.others}


def test_what_the_values_did_not_exclude_is_listed() -> None:
    asked = Asked(ONNX, follows(ONNX, EXACT))
    asked.ask(Call(ONNX.id, {"x": tensor("int32", [1, 2, 3]), "scale": tensor("float32", 0.5)}))
    entry = told(asked)
    assert entry["attribution"]["reading"] == EXACT.name
    left = entry["remaining"]["others"]
    assert FLOAT32.name in left, "an admitted reading that three small values do not tell from the first"
    assert Stepwise(final="truncated").name in left
    assert len(left) == len(set(left)) <= 64
    assert EXACT.name not in left


def test_a_cell_with_wrong_values() -> None:
    wraps = Stepwise("wrap-x")
    asked = in_cell(follows(ONNX, wraps), INT8)
    entry = told(asked)
    assert (entry["attribution"]["reading"], entry["attribution"]["legal"]) == (wraps.name, False)
    assert entry["attribution"]["values"] == asked.row.values
    assert entry["remaining"] is None


def test_a_cell_that_nothing_explains() -> None:
    asked = in_cell(changed(follows(ONNX, EXACT), lambda call, codes: np.roll(codes, 1) + 5), INT8)
    assert told(asked) == {"attribution": None, "remaining": None}


def test_a_cell_that_two_pieces_explain_has_no_one_recipe() -> None:
    def mostly(call: Call, codes: Any) -> Any:
        ends = np.arange(codes.shape[-1]) >= codes.shape[-1] - codes.shape[-1] % 16
        return np.where(ends, follows(ONNX, Stepwise("ignored"))(call).tensor.codes, codes)

    asked = in_cell(changed(follows(ONNX, EXACT), mostly), INT8)
    asked.ask(*(build(ONNX, Linear("int8", "float32", "per_axis", (5, n), "int8", seed=n)) for n in (17, 33, 40, 70)))
    said = asked.violation()
    assert said is not None
    assert said.attribution is not None
    assert said.attribution.elsewhere
    assert told(asked) == {"attribution": None, "remaining": None}


def test_a_cell_that_flushes_is_named_by_what_it_does() -> None:
    flushes = Stepwise(subnormals="flush-results")
    entry = told(in_cell(follows(ONNX, flushes), INT32))
    assert entry["attribution"]["reading"] == flushes.name
    assert "flushes subnormal" in entry["attribution"]["words"]
    assert entry["attribution"]["legal"]


def test_a_cell_without_values() -> None:
    asked = Asked(ONNX, follows(ONNX, EXACT))
    asked.ask(Call(ONNX.id, {"x": tensor("int8", []), "scale": tensor("float32", 0.5)}))
    assert told(asked) == {"attribution": None, "remaining": None}


# -- clauses ----------------------------------------------------------------------------------------------

FORMULA = ONNX.id + "/formula"
NAMES = ("sound", "faulty", "refusing", "lost", "foreign")


def run(clause: str, cases: int, answers: Sequence[str], *verdicts: tuple[str, str]) -> Any:
    """A run of five implementations. The edition does not judge the last one.

    verdicts: (name, verdict) of findings on the clause.
    """
    subjects = {name: [Subject(name, "1", "oracle")] for name in NAMES}
    findings = Findings()
    for name, verdict in verdicts:
        role = "edition" if verdict == "conflict" else "oracle"
        found = Discrepancy(Key(name, ONNX.id, Verdict(verdict), clause, verdict), "summary")
        findings.add(found, Subject(name, "1", role), None, None, None, 0)
    pool = SimpleNamespace(
        oracles={name: SimpleNamespace(name=name) for name in NAMES},
        subjects=subjects,
        judges=lambda contract, name: name != "foreign",
        failures={"lost": "its process died"},
    )
    return SimpleNamespace(
        findings=findings,
        pool=pool,
        clause_cases=Counter({clause: cases}),
        clause_answers=Counter({(clause, name): 5 for name in answers}),
    )


def test_who_follows_a_clause() -> None:
    state = run(FORMULA, 9, ("sound", "faulty", "foreign"), ("faulty", "violation"))
    found = followers(state, ONNX, FORMULA)
    assert found["follow"] == ["sound"]
    assert [entry["subject"] for entry in found["depart"]] == ["faulty"]
    assert state.findings.by_id(found["depart"][0]["finding"]).key.verdict == "violation"
    assert found["untold"] == [
        {"subject": "refusing", "why": "refuses every call that tests it"},
        {"subject": "lost", "why": "its process died"},
    ]


def test_an_ambiguity_is_no_departure() -> None:
    state = run(FORMULA, 9, NAMES, ("sound", "ambiguity"), ("faulty", "mixed"), (ONNX.id, "conflict"))
    found = followers(state, ONNX, FORMULA)
    assert found["follow"] == ["sound", "refusing", "lost"]
    assert [entry["subject"] for entry in found["depart"]] == ["faulty"]


def test_a_clause_that_nothing_tested() -> None:
    found = followers(run(FORMULA, 0, ()), ONNX, FORMULA)
    assert (found["follow"], found["depart"]) == ([], [])
    assert {entry["why"] for entry in found["untold"]} == {"not tested", "its process died"}


def test_silence_is_followed_by_nobody() -> None:
    clause = ONNX.id + "/subnormal"
    assert ONNX.clauses[clause].text == ""
    assert followers(run(clause, 9, NAMES), ONNX, clause) == {"follow": [], "depart": [], "untold": []}
