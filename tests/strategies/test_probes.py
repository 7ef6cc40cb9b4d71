"""The probes, on which linear readings differ, and the lap, which puts them into every cell."""

from __future__ import annotations

import os
from functools import cache
from itertools import groupby, product

import numpy as np
import pytest
from lattice_oracles import surviving
from linear_operands import OUTPUTS, SCALES, crossed, triples
from walked_calls import EDITIONS

from xverify import contracts
from xverify.arithmetic.lattice import near, search, taken
from xverify.arithmetic.readings import EXACT, EXACT_QUOTIENT, FLOAT32, FLOAT32_QUOTIENT, OUTPUT, Stepwise
from xverify.arithmetic.simplify import Types, simplified, types_of
from xverify.contracts.model import Cell
from xverify.core.call import BITS
from xverify.core.dtypes import INTEGERS, QUANTIZED
from xverify.strategies import build
from xverify.strategies.lap import Probe, lap, soonest
from xverify.strategies.probes import FIRST, WIDTH, probes
from xverify.strategies.structures import Linear
from xverify.strategies.walk import cell_structures

ADMITTED = (EXACT, FLOAT32, *OUTPUT)
DIVIDED = (EXACT_QUOTIENT, FLOAT32_QUOTIENT)
EVERY_SIGNATURE = "XVERIFY_EVERY_SIGNATURE"

SIGNATURES = [
    Types(x, zero_point, scale, out)
    for x in QUANTIZED
    if BITS[x] <= 16
    for zero_point, scale, out in product((x, ""), SCALES, OUTPUTS)
]


def drawn(signatures: list[Types], count: int) -> list[Types]:
    return [signatures[place] for place in np.random.default_rng(1).permutation(len(signatures))[:count].tolist()]


SAMPLE = [
    *drawn([types for types in SIGNATURES if BITS[types.x] != 6], 60),
    *drawn([types for types in SIGNATURES if BITS[types.x] == 6], 4),
]


def chosen_signatures() -> list[Types]:
    return SIGNATURES if os.environ.get(EVERY_SIGNATURE) else SAMPLE


def described(types: Types) -> str:
    return f"{types.x}-{types.zero_point or 'none'}-{types.scale}-{types.out}"


def truths(types: Types) -> tuple[Stepwise, ...]:
    """Return the readings that must differ from all near ones."""
    if types.zero_point and types.x not in INTEGERS:
        # Texts call such zero points unusual; what is asserted is that their use is seen.
        return (Stepwise("ignored"),)
    return (EXACT, FLOAT32)


# -- the probes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("types", chosen_signatures(), ids=described)
def test_probes_leave_one_class(types: Types) -> None:
    """A fixed sample of types of at most 16 bits. XVERIFY_EVERY_SIGNATURE=1 in the environment tests all."""
    operands = probes(types, ADMITTED).operands(types)
    for truth in truths(types):
        results = search(operands, truth.evaluate(operands), ADMITTED)
        names = [reading.name for reading in results]
        assert results == (simplified(truth, types),), f"{truth.name}: {names} are not told apart"


@pytest.mark.parametrize("types", SAMPLE[::20], ids=described)
def test_probes_leave_one_class_of_the_neighbourhood(types: Types) -> None:
    """The test evaluates every near reading instead of searching."""
    operands = probes(types, ADMITTED).operands(types)
    for truth in truths(types):
        left = surviving(near(types, ADMITTED), operands, truth.evaluate(operands))
        assert left == (simplified(truth, types),), f"{truth.name}: {[reading.name for reading in left]}"


@pytest.mark.parametrize("zero_point", ["", "uint8"])
def test_probes_of_divisions(zero_point: str) -> None:
    """Thousands of other triples separate no readings that the probes leave together."""
    types = Types("uint8", zero_point, "float32", "float32")
    operands = probes(types, DIVIDED).operands(types)
    for truth in DIVIDED:
        found = search(operands, truth.evaluate(operands), DIVIDED)
        assert found[0] == simplified(truth, types)
        for more in (crossed(types, 40, 1), triples(types, 5000, 2)):
            assert surviving(found, more, truth.evaluate(more)) == found


@pytest.mark.parametrize("types", SAMPLE[::10], ids=described)
def test_the_form_of_probes(types: Types) -> None:
    found = probes(types, ADMITTED)
    assert len(found) >= FIRST
    assert found.x.shape == (len(found), WIDTH)
    assert (found.zero_point is None) == (types.zero_point == "")
    operands = found.operands(types)
    assert types_of(operands) == types
    assert operands.shape == (len(found) * WIDTH,)
    single = [found.chosen([index]) for index in range(len(found))]
    assert [len(one) for one in single] == [1] * len(found)
    for role, codes in operands.codes.items():
        apart = np.concatenate([one.operands(types).codes[role] for one in single])
        assert np.array_equal(apart, codes), role
        assert codes.max() < 1 << BITS[operands.dtypes[role]]


def test_probes_are_always_the_same() -> None:
    types = Types("int8", "int8", "float16", "float16")
    first = probes(types, ADMITTED)
    probes.cache_clear()
    again = probes(types, ADMITTED)
    assert first is not again
    assert np.array_equal(first.x, again.x)
    assert np.array_equal(first.scale, again.scale)
    assert first.zero_point is not None
    assert np.array_equal(first.zero_point, np.asarray(again.zero_point))


def test_few_probes_are_enough() -> None:
    """Each probe becomes one call per tensor."""
    counts = [len(probes(types, ADMITTED)) for types in SAMPLE]
    assert max(counts) <= 24
    assert np.mean(counts) <= 12


# -- the lap --------------------------------------------------------------------------------------------


NEWEST = "ai.onnx/DequantizeLinear-25"
STRIDES = {NEWEST: 7}
"""Strides over the cells of large editions. A slow test meets all cells."""


@cache
def every_nth_cell(identity: str, stride: int) -> list[tuple[Cell, list[Probe]]]:
    """The calls of the lap by cell, for every nth cell.

    Two cells here may be one in the report, where one leaves out an attribute that the other sets.
    """
    contract = contracts.get(identity)
    structures = list(cell_structures(contract))[::stride]
    grouped = [list(calls) for _, calls in groupby(lap(contract, structures), lambda probe: probe.call.origin)]
    return [(contract.cell(calls[0].call), calls) for calls in grouped]


def by_cell(identity: str) -> list[tuple[Cell, list[Probe]]]:
    return every_nth_cell(identity, STRIDES.get(identity, 1))


@pytest.mark.parametrize("identity", EDITIONS)
def test_the_lap_meets_every_cell(identity: str) -> None:
    """The calls of a cell are allowed and follow each other. They have all codes of small types."""
    check_lap(identity, STRIDES.get(identity, 1))


@pytest.mark.slow
def test_the_lap_meets_every_cell_of_the_newest_edition() -> None:
    check_lap(NEWEST, 1)


def test_a_sweep_meets_many_cells_soon() -> None:
    contract = contracts.get("ai.onnx/DequantizeLinear-25")
    cells = soonest(contract)
    assert sorted(map(repr, cells)) == sorted(map(repr, cell_structures(contract)))
    kinds = {(cell.granularity, cell.zero_point_dtype != "") for cell in cells[:48] if isinstance(cell, Linear)}
    assert kinds == set(product(("per_tensor", "per_axis", "blocked"), (False, True)))
    assert sum(isinstance(cell, Linear) and cell.granularity == "per_tensor" for cell in cells[:48]) < 4


def test_a_lap_without_structures_is_that_of_all_cells() -> None:
    contract = contracts.get("onednn/DynamicDequantize-1@multiply")
    whole, chosen = lap(contract), lap(contract, cell_structures(contract))
    assert [probe.call.digest() for probe in whole] == [probe.call.digest() for probe in chosen]


def check_lap(identity: str, stride: int) -> None:
    contract = contracts.get(identity)
    cells = every_nth_cell(identity, stride)
    assert [cell for cell, _ in cells] == [
        contract.cell(build(contract, structure)) for structure in list(cell_structures(contract))[::stride]
    ]
    for cell, calls in cells:
        for probe in calls:
            judgement = contract.judge(probe.call)
            assert judgement.verdict == "allowed", f"{cell}: {judgement}"
            assert contract.cell(probe.call) == cell
        assert [probe.more for probe in calls] == [True] * (len(calls) - 1) + [False], cell
        if BITS[cell.x_dtype] <= 8:
            met = np.unique(np.concatenate([probe.call.data.codes.reshape(-1) for probe in calls]))
            assert len(met) == 1 << BITS[cell.x_dtype], f"{cell}: {len(met)} codes"


@pytest.mark.parametrize("identity", [name for name in EDITIONS if not name.startswith(("tensorflow", "litert"))])
def test_places_are_those_of_the_probes(identity: str) -> None:
    """The triples at the marked indices are those of the probes, in order.

    LiteRT's specification leaves negative scales open. So its probes are repaired, and no index is marked.
    """
    contract = contracts.get(identity)
    start = DIVIDED if identity.endswith("@divide") else ADMITTED
    for cell, calls in by_cell(identity)[:: 7 if identity != NEWEST else 1]:
        types = types_of(contract.operands(calls[0].call))
        chosen = probes(types, start)
        taken_operands = []
        for probe in calls:
            assert probe.places is not None
            assert probe.places.max() < probe.call.values
            assert len(np.unique(probe.places)) == len(probe.places)
            taken_operands.append(taken(contract.operands(probe.call), probe.places))
        assert len(calls) == (len(chosen) if cell.granularity == "per_tensor" else 1)
        want = chosen.operands(types).codes
        for role in want:
            codes = np.concatenate([operands.codes[role] for operands in taken_operands])
            assert np.array_equal(codes, want[role]), f"{cell}: {role}"


@pytest.mark.parametrize("identity", ["tensorflow/Dequantize@seed", "tensorflow/Dequantize@installed"])
def test_places_of_range_calls(identity: str) -> None:
    for cell, calls in by_cell(identity):
        for probe in calls:
            assert probe.places is not None
            assert 0 < len(probe.places) == len(np.unique(probe.places)) <= 64
            assert probe.places.max() < probe.call.values, cell


def test_blocked_calls_have_partial_and_whole_last_blocks() -> None:
    cells = by_cell("ai.onnx/DequantizeLinear-25")
    blocked = [calls[0].call for cell, calls in cells if cell.granularity == "blocked"]
    whole = [call.data.shape[-1] % int(call.attributes["block_size"]) == 0 for call in blocked]
    assert 0.4 < sum(whole) / len(whole) < 0.6
