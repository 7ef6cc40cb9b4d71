"""Attribution of synthetic implementations: the recipe that made the values is found again."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from lattice_oracles import Asked, ask_triples, follows, given, lap_of, small, tell_apart, triples

from xverify import contracts
from xverify.arithmetic import indexing, range_lattice
from xverify.arithmetic.reading import Operands, Reading
from xverify.arithmetic.readings import EXACT, EXACT_QUOTIENT, FLOAT32, FLOAT32_QUOTIENT, OUTPUT, Stepwise
from xverify.arithmetic.simplify import Types, simplified, types_of
from xverify.contracts.model import Cell, Contract
from xverify.core.call import LAYOUTS, Call
from xverify.strategies import build
from xverify.strategies.lap import Probe, lap
from xverify.strategies.structures import Linear, Range
from xverify.strategies.values import RANGE_RECIPES
from xverify.strategies.walk import cell_structures
from xverify.verify import attribute
from xverify.verify.attribute import Misread, Recipe, beyond, gives, named

KERNELS = int(os.environ.get("XVERIFY_SYNTHETIC_KERNELS", "80"))
"""Number of synthetic implementations of all kinds together."""

SEED = int(os.environ.get("XVERIFY_SYNTHETIC_SEED", "1"))

ONNX = contracts.get("ai.onnx/DequantizeLinear-25")
MULTIPLY, DIVIDE = (contracts.get(f"onednn/DynamicDequantize-1@{name}") for name in ("multiply", "divide"))

ADMITTED = {"multiply": (EXACT, FLOAT32, *OUTPUT), "divide": (EXACT_QUOTIENT, FLOAT32_QUOTIENT)}
OPTIONS: dict[str, tuple[Any, ...]] = {
    stage.name: get_args(get_type_hints(Stepwise)[stage.name]) for stage in fields(Stepwise)
}
INDEPENDENT = 4
"""Number of comparisons of the named recipe with triples that the test did not ask."""

CELLS_EACH = 9
"""Cells of a test. Each costs its probes once."""


def drawn(rng: random.Random, near: tuple[Stepwise, ...]) -> Stepwise:
    """Draw an admitted reading, one that differs from it in a stage or two, or any composition."""
    kind = rng.choice(("admitted", "near", "near", "far", "far"))
    if kind == "far":
        return Stepwise(**{n: o[0] if rng.random() < 0.4 else rng.choice(o) for n, o in OPTIONS.items()})
    changes = rng.sample(sorted(OPTIONS), rng.choice((1, 2)) if kind == "near" else 0)
    return replace(rng.choice(near), **{name: rng.choice(OPTIONS[name]) for name in changes})


def cells(contract: Contract, rng: random.Random) -> list[Linear]:
    """Return structures of some cells."""
    by_cell: dict[Cell, Linear] = {}
    for structure in cell_structures(contract):
        assert isinstance(structure, Linear)
        by_cell.setdefault(contract.cell(build(contract, structure)), structure)
    some = sorted(by_cell)
    return [by_cell[cell] for cell in rng.sample(some, min(CELLS_EACH, len(some)))]


def mistaken(contract: Contract, structure: Linear, truth: Stepwise, seed: int) -> str | None:
    """Return the mistake in the attribution of a reading in a cell, or None."""
    asked = Asked(contract, follows(contract, truth))
    asked.ask(*lap_of(contract, structure))
    rng = np.random.default_rng(seed)
    ask_triples(
        asked, structure, triples(contract, structure, rng, 48 if structure.granularity == "per_tensor" else 192)
    )
    tell_apart(asked, structure, truth, rng)
    types = types_of(contract.operands(small(contract, structure)))
    where = f"{simplified(truth, types).name} in {asked.cell}"
    for _ in range(INDEPENDENT):
        independent = triples(contract, structure, rng, 2048)
        named = _named(asked, truth, types)
        if isinstance(named, str):
            return f"{where}: {named}"
        operands = independent.operands(types)
        apart = (given(named, operands) != given(truth, operands)).reshape(len(independent), -1).any(axis=1)
        if not apart.any():
            return None
        # No earlier call has shown the mistake, so these calls must.
        ask_triples(asked, structure, independent.chosen(np.resize(np.flatnonzero(apart), 2).tolist()))
    return f"{where} is named {named.name} again and again, of {[r.name for r in asked.left()][:6]}"


def _named(asked: Asked, truth: Stepwise, types: Types) -> Stepwise | str:
    """Return the named recipe, or the mistake in its naming."""
    assert asked.last is not None
    said, row = asked.violation(), asked.row
    legal = [r for r in asked.contract.readings(asked.last.call) if simplified(r, types) == simplified(truth, types)]
    if legal:
        alive = {r.name for r in legal} & set(row.alive or ())
        return legal[0] if alive and not said and not row.wrong else f"is legal, and it is said: {said}, {row.alive}"
    if row.wrong:
        assert row.explained is not None
        if said is None or said.attribution is None or said.attribution.elsewhere is not None:
            return f"is not attributed: {said}"
        named = row.explained.recipe
    else:
        # No value contradicts the text, so the truth is among the remaining readings.
        named = next(iter(asked.left()), None)
    return named if isinstance(named, Stepwise) else f"is {named}"


@pytest.mark.parametrize(
    ("contract", "share"), [(ONNX, 0.4), (MULTIPLY, 0.15), (DIVIDE, 0.15)], ids=["onnx", "multiply", "divide"]
)
def test_readings_are_named(contract: Contract, share: float) -> None:
    rng = random.Random(SEED)
    structures = cells(contract, rng)
    operation = "divide" if contract is DIVIDE else "multiply"
    wrong = []
    for number in range(int(KERNELS * share)):
        structure = structures[number % len(structures)]
        truth = drawn(rng, ADMITTED[operation])
        wrong.append(mistaken(contract, structure, truth, rng.getrandbits(32)))
    assert len(wrong) > 10
    assert [one for one in wrong if one] == []


# -- indexing mistakes ------------------------------------------------------------------------------------

SHAPES = ((4, 80), (3, 110), (17, 33), (6, 7), (2, 3, 24), (5, 4, 9), (2, 3, 4, 10))


def indexed(x_dtype: str, scale: str, granularity: str, rng: random.Random, shape: tuple[int, ...] = ()) -> Call:
    """Draw a call of one cell, of any shape, axis, block size and layout."""
    shape = shape or rng.choice(SHAPES)
    axis = rng.randrange(len(shape))
    block = rng.choice([b for b in (2, 3, 5, 16, 32) if b < shape[axis]] or [2]) if granularity == "blocked" else 0
    layout = rng.choice(LAYOUTS)
    structure = Linear(x_dtype, scale, granularity, shape, x_dtype, "", axis, block, layout, seed=rng.getrandbits(32))
    return build(ONNX, structure)


@pytest.mark.parametrize("granularity", ["per_axis", "blocked"])
def test_indexing_mistakes_are_named(granularity: str) -> None:
    rng = random.Random(SEED)
    wrong, met = [], set()
    for number in range(max(12, int(KERNELS * 0.1))):
        kind = [("int8", "float32"), ("uint4", "float16"), ("int2", "bfloat16"), ("float8_e4m3fn", "float32")][
            number % 4
        ]
        first = indexed(*kind, granularity, rng)
        made = [mistake for mistake, _ in indexing.mistakes(first, ONNX.operands(first))]
        truth = Misread(rng.choice(made), rng.choice(ONNX.readings(first)[:2]))
        met.add(truth.mistake.name)
        wrong.append(misplaced(truth, first, lambda kind=kind: indexed(*kind, granularity, rng)))
    assert len(met) > 8
    assert [one for one in wrong if one] == []


def misplaced(truth: Misread, first: Call, another: Callable[[], Call]) -> str | None:
    """Return the mistake in the attribution of an indexing mistake, or None."""
    answer = follows(ONNX, truth)
    calls = [first, *(another() for _ in range(15))]
    for _ in range(INDEPENDENT):
        asked = Asked(ONNX, answer)
        asked.ask(*calls)
        said = asked.violation()
        if said is None or said.attribution is None or said.attribution.elsewhere:
            return f"{truth.name} is not attributed: {said}"
        recipe = named(ONNX, said.attribution.reading)
        independent = [another() for _ in range(30)]
        apart = [call for call in independent if not answer(call).same(follows(ONNX, recipe)(call))]
        if not apart:
            return None
        # This comes first, since the tally keeps few calls with wrong values.
        calls = [*apart[:4], *calls]
    return f"{truth.name} is named {recipe.name} again and again, other in {len(apart)} of {len(independent)} calls"


# -- range recipes ----------------------------------------------------------------------------------------

TENSORFLOW = ("tensorflow/Dequantize@seed", "tensorflow/Dequantize@installed")


@pytest.mark.parametrize("mode", ["MIN_COMBINED", "MIN_FIRST", "SCALED"])
@pytest.mark.parametrize("identity", TENSORFLOW)
def test_range_recipes_are_named(identity: str, mode: str, laps: dict[str, list[Probe]]) -> None:
    contract, rng = contracts.get(identity), random.Random(SEED)
    wrong = []
    for number in range(max(4, int(KERNELS * 0.03))):
        structure = Range(contract.domain.x_dtypes[number % len(contract.domain.x_dtypes)], mode, (257,))
        lattice = range_lattice.range_lattice(contract.operands(build(contract, structure)))
        near = number % 2 == 0
        truth = rng.choice(lattice[:40] if near else lattice)
        wrong.append(misranged(contract, structure, laps[identity], truth, rng))
    assert [one for one in wrong if one] == []


@pytest.fixture(scope="module")
def laps() -> dict[str, list[Probe]]:
    return {identity: list(lap(contracts.get(identity))) for identity in TENSORFLOW}


def ranged(contract: Contract, structure: Range, rng: random.Random) -> Call:
    return build(contract, replace(structure, range_recipe=rng.choice(RANGE_RECIPES), seed=rng.getrandbits(32)))


def misranged(
    contract: Contract, structure: Range, probes: list[Probe], truth: Reading, rng: random.Random
) -> str | None:
    """Return the mistake in the attribution of a range recipe, or None."""
    answer = follows(contract, truth)
    asked = Asked(contract, answer)
    cell = contract.cell(build(contract, structure))
    asked.ask(*(probe for probe in probes if contract.cell(probe.call) == cell))
    asked.ask(*(ranged(contract, structure, rng) for _ in range(12)))
    for _ in range(INDEPENDENT):
        operands = contract.operands(build(contract, structure))
        admitted = contract.readings(build(contract, structure))
        legal = {r.name for r in admitted if r.simplified(operands) == truth.simplified(operands)}
        said = asked.violation()
        if legal:
            alive = legal & set(asked.row.alive or ())
            return None if alive and not said and not asked.row.wrong else f"{truth.name} is legal: {said}"
        if said is not None and said.attribution is None:
            return f"{truth.name} is not attributed: {said}"
        left = asked.left()
        recipe = named(contract, said.attribution.reading) if said else next(iter(left), None)
        if recipe is None:
            return f"{truth.name}: nothing is left"
        calls = [ranged(contract, structure, rng) for _ in range(40)]
        apart = [call for call in calls if not same(contract, call, recipe, truth)]
        if not apart:
            return None
        asked.ask(*apart[:4])
    return f"{truth.name} is named {recipe.name} again and again, other in {len(apart)} of {len(calls)} calls"


def same(contract: Contract, call: Call, recipe: Recipe, truth: Reading) -> bool:
    """True if two recipes give equal bits. All NaNs are equal."""
    return gives(contract, call, follows(contract, truth)(call).tensor, recipe)


def test_a_comparison_with_few_values_first_leaves_the_same_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the last of the values tells two readings apart."""
    x = np.append(np.zeros(199, np.uint8), np.uint8(3))
    scale = np.full(200, np.float32(0.1).view(np.uint32))
    operands = Operands({"x": x, "scale": scale}, {"x": "uint8", "scale": "float32"}, "bfloat16", (200,))
    every = (EXACT, Stepwise(final="truncated"), Stepwise(zero="unsigned"), Stepwise(scale_cast="output"))
    wanted = EXACT.evaluate(operands)
    whole = attribute._giving(every, operands, wanted)
    monkeypatch.setattr(attribute, "MANY", 1)
    assert attribute._giving(every, operands, wanted) == whole
    assert whole[0] == EXACT
    assert len(whole) < len(every)


def test_recipes_beyond_the_admitted_readings_differ_for_the_types() -> None:
    operands = Operands(
        {"x": np.zeros(1, np.uint8), "scale": np.zeros(1, np.uint32)},
        {"x": "uint8", "scale": "float32"},
        "float32",
        (1,),
    )
    rounded = Stepwise(precision="float16")
    # Without a zero point, no difference is rounded.
    assert beyond((EXACT, Stepwise(difference="float16"), rounded), (EXACT,), operands) == (rounded,)
