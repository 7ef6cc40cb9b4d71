"""The order of a gate's calls: any kind of mistake shows in one of the first few hundred calls."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, product

import pytest

from xverify import contracts
from xverify.contracts.model import Judgement
from xverify.core.call import LAYOUTS, LEAST_RANK
from xverify.engine import plan
from xverify.engine.gate_plan import (
    DRAWN,
    WALK,
    Scope,
    drawn_batches,
    reads_as_allowed,
    walk_batches,
    witness_batches,
)
from xverify.strategies import build
from xverify.strategies.layouts import IN_EVERY_RANK, layout_calls
from xverify.strategies.structures import Linear
from xverify.strategies.walk import cell_structures, exponent_structures

EDITIONS = (
    "ai.onnx/DequantizeLinear-21",
    "com.microsoft/DequantizeLinear-1@installed",
    "onednn/DynamicDequantize-1@multiply",
    "tensorflow/Dequantize@installed",
)


def cases(identity: str, seed: int = 0, **narrow):
    contract = contracts.get(identity)
    return [case for batch in walk_batches(contract, Scope(replace(contract.domain, **narrow)), seed) for case in batch]


@pytest.mark.parametrize("identity", EDITIONS)
def test_every_part_of_the_walk_comes_early_and_all_of_it_comes(identity):
    """Some types of x are enough: the parts are the same for each."""
    contract = contracts.get(identity)
    narrow = replace(contract.domain, x_dtypes=contract.domain.x_dtypes[::4])
    made = cases(identity, x_dtypes=narrow.x_dtypes)
    contract = replace(contract, domain=narrow)
    kinds = {"lap cell": 0, "walk structure": 0, "layout": 0}
    for case in made[:120]:
        for kind in kinds:
            kinds[kind] += case.call.origin.startswith(kind)
    assert min(kinds.values()) > 5
    assert sum(case.phase == "invalid" for case in made[:120]) > 2
    met = {contract.cell(case.call) for case in made if contract.judge(case.call).verdict == "allowed"}
    assert met >= {contract.cell(build(contract, structure)) for structure in cell_structures(contract)}
    exponents = {build(contract, structure).digest() for structure in exponent_structures(contract)}
    assert exponents <= {case.call.digest() for case in made}
    assert len({case.number for case in made}) == len(made)
    assert min(case.number for case in made) == WALK


def test_the_seed_decides_the_order_and_not_what_is_met():
    first, again, other = (cases("onednn/DynamicDequantize-1@multiply", seed) for seed in (1, 1, 2))
    assert [case.call.digest() for case in first] == [case.call.digest() for case in again]
    assert [case.call.digest() for case in first] != [case.call.digest() for case in other]
    assert {c.call.digest() for c in first if c.phase == "walk"} == {
        c.call.digest() for c in other if c.phase == "walk"
    }


@pytest.mark.parametrize("granularity", ["per_tensor", "per_axis", "blocked"])
def test_a_narrower_domain_holds_for_all_that_is_allowed(granularity, monkeypatch):
    monkeypatch.setattr(plan, "EXAMPLES", 60)
    identity = "ai.onnx/DequantizeLinear-21"
    contract = contracts.get(identity)
    within = replace(contract.domain, x_dtypes=("int8",), granularities=(granularity,), scale_dtypes=("float16",))
    narrow = {name: getattr(within, name) for name in ("x_dtypes", "granularities", "scale_dtypes")}
    drawn = [case for batch in islice(drawn_batches(contract, Scope(within), 0), 2) for case in batch]
    for case in (*cases(identity, **narrow), *drawn):
        if contract.judge(case.call).verdict == "allowed":
            cell = contract.cell(case.call)
            assert (cell.x_dtype, cell.scale_dtype, cell.granularity) == ("int8", "float16", granularity)
    assert min(case.number for case in drawn) == DRAWN


def test_what_is_drawn_is_judged_by_what_the_gate_holds_to(monkeypatch):
    monkeypatch.setattr(plan, "EXAMPLES", 60)
    contract = contracts.get("onednn/DynamicDequantize-1@multiply")
    batch = next(drawn_batches(contract, Scope(contract.domain), 0))
    assert all(case.legal is None for case in batch)


def test_witnesses_come_as_they_are():
    contract = contracts.get("onednn/DynamicDequantize-1@multiply")
    calls = [case.call for case in next(walk_batches(contract, Scope(contract.domain), 0))[:3]]
    (batch,) = witness_batches(calls)
    assert [case.call for case in batch] == calls
    assert {case.phase for case in batch} == {"ledger"}
    assert not list(witness_batches([]))


@pytest.mark.parametrize("identity", EDITIONS)
def test_every_operand_has_every_layout(identity):
    """Each layout that differs from C order in the operand's rank. A scale per axis has rank 1."""
    made = list(layout_calls(contracts.get(identity)))
    met = {(role, t.layout) for call in made for role, t in call.tensors.items()}
    roles = ("input",) if identity.startswith("tensorflow") else ("x", "scale", "zero_point")
    most = {role: max(len(call.tensors[role].shape) for call in made if role in call.tensors) for role in roles}
    due = product(roles, LAYOUTS)
    assert {(role, name) for role, name in due if name != "C" and LEAST_RANK.get(name, 1) <= most[role]} <= met
    assert all(contracts.get(identity).judge(call).verdict == "allowed" for call in made)


@pytest.mark.parametrize("x_dtypes", [("int8",), ("int8", "uint8", "int4", "uint4", "int16", "uint16")])
def test_slices_and_permutations_have_ranks_2_to_4(x_dtypes):
    contract = contracts.get("ai.onnx/DequantizeLinear-21")
    made = layout_calls(replace(contract, domain=replace(contract.domain, x_dtypes=x_dtypes)))
    met = {(role, t.layout, len(t.shape)) for call in made for role, t in call.tensors.items()}
    assert set(product(("x", "scale", "zero_point"), IN_EVERY_RANK, (2, 3, 4))) <= met


def test_a_forbidden_call_that_reads_as_an_allowed_one_is_not_made():
    """A kernel with the default block_size=0 cannot tell if a call has the attribute with that value."""
    onnx = contracts.get("ai.onnx/DequantizeLinear-21")

    def judge(call):
        return Judgement("forbidden", (f"{onnx.id}/axis-range",)) if call.attributes else onnx.judge(call)

    contract, scope = replace(onnx, judge=judge), Scope(onnx.domain)
    call = build(onnx, Linear("int8", "float32", "per_tensor", (3,)))
    for attributes, is_made in (({}, True), ({"block_size": 0}, False), ({"axis": 1}, False), ({"axis": 2}, True)):
        changed = replace(call, attributes=attributes)
        assert scope.admits(contract, changed) == is_made
        assert reads_as_allowed(contract, changed) == (attributes != {} and not is_made)
