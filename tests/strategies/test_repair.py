"""Repair of calls: most calls of the walk become allowed, whatever an edition demands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from xverify import contracts
from xverify.contracts.model import Contract, Judgement
from xverify.core.call import Call
from xverify.core.dtypes import values
from xverify.strategies.lap import lap
from xverify.strategies.limits import axis_of, granularity_of, parsed
from xverify.strategies.repair import Repair, cell_of
from xverify.strategies.structures import build
from xverify.strategies.walk import cell_structures, shape_structures

ONNX = contracts.get("ai.onnx/DequantizeLinear-25")
SMALL = replace(ONNX.domain, x_dtypes=("int8", "uint4"), scale_dtypes=("float32",))


def demanding(demand: Callable[[Call], bool], **domain: object) -> Contract:
    """An edition that also forbids the calls for which ``demand`` is false."""

    def judge(call: Call) -> Judgement:
        judgement = ONNX.judge(call)
        return (
            judgement if judgement.verdict != "allowed" or demand(call) else Judgement("forbidden", (f"{ONNX.id}/x",))
        )

    return replace(ONNX, domain=replace(SMALL, **domain), judge=judge)


def blocks_of_32(call: Call) -> bool:
    last = granularity_of(call) == "blocked" and axis_of(call) == -1
    return last and call.attributes["block_size"] == 32 and call.data.shape[-1] % 32 == 0


DEMANDS: dict[str, Callable[[Call], bool]] = {
    "blocks of 32": blocks_of_32,
    "last axis": lambda call: axis_of(call) in (None, -1),
    "rows of 32": lambda call: bool(call.data.shape) and call.data.shape[0] % 32 == 0,
    "rank 2": lambda call: len(call.data.shape) == 2,
    "no zero point": lambda call: "zero_point" not in call.tensors,
    "a zero point": lambda call: "zero_point" in call.tensors,
    "explicit output": lambda call: "output_dtype" in call.attributes,
    "at most 64": lambda call: call.values <= 64,
    "positive scales": lambda call: bool((values("float32", call.tensors["scale"].codes) > 0).all()),
    "negative axis": lambda call: granularity_of(call) == "per_tensor" or int(call.attributes.get("axis", 1)) < 0,
}


@pytest.mark.parametrize("name", DEMANDS)
def test_calls_are_repaired_for_any_demand(name: str) -> None:
    contract = demanding(DEMANDS[name])
    repair, structures = Repair(contract), [*cell_structures(contract), *shape_structures(contract)][::5]
    shapes, cells = set(), set()
    for structure in structures:
        call = build(contract, structure)
        repaired = repair(call)
        if repaired is None:
            continue
        assert contract.judge(repaired).verdict == "allowed"
        assert (repaired is call) == (contract.judge(call).verdict == "allowed")
        assert cell_of(repaired) == cell_of(call)
        shapes.add(repaired.data.shape)
        cells.add(cell_of(repaired))
    possible = 1 if name == "blocks of 32" else 3
    assert len({cell[3] for cell in cells}) == possible
    assert sum(repair.unrepaired.values()) <= (0 if possible == 3 else 0.8) * len(structures)
    assert len(shapes) >= 6, "the variety of shapes is lost"


def test_cells_without_an_allowed_call_are_counted() -> None:
    contract = demanding(lambda call: call.data.dtype == "int8", granularities=("per_tensor",))
    repair = Repair(contract)
    for structure in cell_structures(contract):
        repair(build(contract, structure))
    assert {cell[0] for cell in repair.unrepaired} == {"uint4"}


def test_types_without_an_allowed_call_do_not_end_the_search_for_others() -> None:
    contract = demanding(
        lambda call: call.data.dtype == "int8" and blocks_of_32(call),
        x_dtypes=("uint4", "int4", "uint2", "int2", "uint8", "int8"), granularities=("blocked",),
    )  # fmt: skip
    repair = Repair(contract)
    calls = [build(contract, structure) for structure in cell_structures(contract)]
    assert {call.data.dtype for call in calls if repair(call) is not None} == {"int8"}
    assert "int8" not in {cell[0] for cell in repair.unrepaired}


def test_accepted_calls_stay_and_limits_are_met() -> None:
    contract = replace(ONNX, domain=SMALL)
    repair, free = Repair(contract, parsed(["32"], ["-1"], ["1-3"], True)), Repair(contract)
    for structure in [*cell_structures(contract), *shape_structures(contract)][::7]:
        call = build(contract, structure)
        assert free(call) is call
        repaired = repair(call)
        assert repaired is not None
        assert repair.accepts(repaired)
    assert not repair.unrepaired


def test_probes_keep_their_values_in_another_arrangement() -> None:
    domain = {"x_dtypes": ("int8",), "granularities": ("blocked",), "output_dtypes": ("float32",)}
    plain, contract = replace(ONNX, domain=replace(SMALL, **domain)), demanding(blocks_of_32, **domain)
    usual = [probe for probe in lap(plain) if probe.places is not None]
    made = [probe for probe in lap(contract) if probe.places is not None]
    assert usual
    assert made

    def triples(probes: list) -> set[tuple[int, int]]:
        codes = set()
        for probe in probes:
            operands = ONNX.operands(probe.call)
            x, scale = (np.broadcast_to(operands.codes[role], operands.shape).reshape(-1) for role in ("x", "scale"))
            codes |= set(zip(x[probe.places].tolist(), scale[probe.places].tolist(), strict=True))
        return codes

    assert triples(made) >= triples(usual)
    assert all(contract.judge(probe.call).verdict == "allowed" for probe in made)
