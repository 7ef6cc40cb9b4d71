"""The calls that a sweep makes of a contract, in order: walk, invalid calls, Hypothesis."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from itertools import chain, count, islice
from typing import Any, TypeVar

import numpy as np
from hypothesis import HealthCheck, Phase, Verbosity, event, given, seed, settings, target
from hypothesis import strategies as st
from numpy.typing import NDArray

from xverify.arithmetic.lattice import start
from xverify.arithmetic.readings import Stepwise, evaluate_all
from xverify.arithmetic.simplify import types_of
from xverify.contracts.model import Contract
from xverify.core.bits import ulp_distance
from xverify.core.call import Call
from xverify.engine.parts import WHOLE, Slice
from xverify.strategies import breakable, build, openable, opened, spoiled
from xverify.strategies.calls import invalid_calls, structures, unspecified_calls
from xverify.strategies.lap import Probe, lap, soonest
from xverify.strategies.large import large_structures
from xverify.strategies.probes import probes
from xverify.strategies.repair import Repair, cell_of
from xverify.strategies.structures import Structure
from xverify.strategies.surrounded import surrounded_calls
from xverify.strategies.walk import (
    block_structures,
    cell_structures,
    exponent_structures,
    official_calls,
    second_structures,
    shape_structures,
    special_structures,
    weight_structures,
)
from xverify.verify.legal import Legal, legal_set
from xverify.workers.case import Case

BATCH = 64
"""Calls that go to the workers together."""

SURROUNDED_EACH = 20
"""The number of calls in surroundings in each batch. With the shares of its paths, they are a third of the calls to an
implementation that optimises graphs."""

SPOILED_EACH = 16
"""The number of calls that break, or open, each clause in the deterministic part."""

TRIED_EACH = 96
"""The number of calls that break, or open, a clause from which `SPOILED_EACH` are chosen."""

POOL = 220
"""The number of small calls of an edition that are tried for each clause."""

EXAMPLES = 200
"""Hypothesis examples in a round."""

MOST_LEFT = 4
"""The number of readings, among those that the probes do not exclude, whose distance Hypothesis maximises."""

KEPT_UNREPAIRED = 2
"""The number of calls of a cell that are sent although they are not allowed and cannot be repaired."""

SEEDS_EACH = 5
"""The number of calls for each structure that Hypothesis draws: drawing costs more than building."""


def derived_seed(run_seed: int, *parts: object) -> int:
    """A seed that depends on the run's seed and on its purpose.

    Args:
        parts: The purpose, as values with a stable `str`.
    """
    text = "/".join(map(str, (run_seed, *parts)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def batches(contract: Contract, run_seed: int, surrounded: bool = False, of: Slice = WHOLE) -> Iterator[list[Case]]:
    """Make the batches of a sweep, without end. Equal contracts and seeds give equal batches.

    Args:
        surrounded: True to add calls in surroundings to each batch.
        of: The slice of the plan to make. Together, the slices have every structure and cell of the walk once.
    """
    calls = _in_turn(contract, run_seed, of)
    return numbered(_mixed(calls, surrounded_cases(contract, run_seed, of)) if surrounded else calls)


def surrounded_cases(contract: Contract, run_seed: int, of: Slice = WHOLE) -> Iterator[Case]:
    """Make calls in surroundings, without end unless the edition has none."""
    seed = derived_seed(run_seed, contract.id, "surrounded", *of.purpose)
    for call in surrounded_calls(contract, seed, of.index, of.count):
        yield Case(call, 0, "surrounded")


def _mixed(calls: Iterator[list[Case]], others: Iterator[Case]) -> Iterator[list[Case]]:
    """Batches of the usual size that end with `SURROUNDED_EACH` of the others."""
    usual = chain.from_iterable(calls)
    while made := list(islice(usual, BATCH - SURROUNDED_EACH)):
        yield [*made, *islice(others, SURROUNDED_EACH)]


def numbered(calls: Iterator[list[Case]], first: int = 0) -> Iterator[list[Case]]:
    """Cut cases into batches of the usual size, and number them from ``first``."""
    numbers = count(first)
    for made in calls:
        cases = [replace(case, number=next(numbers)) for case in made]
        for begin in range(0, len(cases), BATCH):
            yield cases[begin : begin + BATCH]


def accepted_cases(cases: Iterable[Case], repair: Repair) -> Iterator[Case]:
    """Cases whose calls are allowed and within the limits, some of them after a repair.

    A few calls of each cell that cannot be repaired stay as forbidden or unspecified calls.
    """
    for case in cases:
        call = repair(case.call)
        if call is not None:
            yield case if call is case.call else replace(case, call=call, legal=None)
        elif repair.unrepaired[cell_of(case.call)] <= KEPT_UNREPAIRED and not repair.limits:
            forbidden = repair.contract.judge(case.call).verdict == "forbidden"
            yield replace(case, phase="invalid" if forbidden else "unspecified", legal=None, places=None)


def _in_turn(contract: Contract, run_seed: int, of: Slice) -> Iterator[list[Case]]:
    """The walk, with what tends to break in its first batches, then Hypothesis."""
    repair = Repair(contract)
    rng = np.random.default_rng(derived_seed(run_seed, contract.id, "walk"))
    cells = lap_cases(
        lap(contract, soonest(contract)[of.index :: of.count], repair), BATCH - 1
    )  # leaves room for a large call
    large = structure_cases(contract, large_structures(contract), "walk large", 1, repair, of)
    weights = structure_cases(contract, weight_structures(contract), "walk weights", 16, repair, of)
    others = [
        structure_cases(contract, _shuffled(made(contract), rng), name, each, repair, of)
        for made, name, each in (
            (shape_structures, "walk structure", 31),
            (special_structures, "walk special scale", 16),
            (block_structures, "walk blocks", 8),
            (second_structures, "walk second", 8),
        )
    ]
    yield [Case(call, 0, "walk") for call in _of_slice(official_calls(contract), of)]
    # Ordinary, forbidden and open calls come early, so that a short run contains them too.
    yield next(weights, [])
    yield next(cells, [])
    yield list(spoiled_cases(contract, run_seed, repair=repair, of=of))

    def beside() -> list[Case]:
        # The calls of the lap find out more about a cell.
        return [replace(case, more=True) for part in (weights, *others) for case in next(part, [])]

    while any(walked := [next(cells, []), beside()]):
        # A large call costs as much as 20 others, so they come one by one.
        yield from (cases + next(large, []) for cases in walked if cases)
    yield from large
    yield from structure_cases(contract, exponent_structures(contract), "walk exponents", 1, repair, of)
    yield from hypothesis_cases(contract, run_seed, repair, of)


_T = TypeVar("_T")


def _of_slice(listed: Iterable[_T], of: Slice) -> Iterator[_T]:
    return islice(listed, of.index, None, of.count)


def _shuffled(structures: Iterable[Structure], rng: np.random.Generator) -> Iterator[Structure]:
    listed = list(structures)
    return (listed[index] for index in rng.permutation(len(listed)).tolist())


def hypothesis_cases(
    contract: Contract, run_seed: int, repair: Repair | None = None, of: Slice = WHOLE
) -> Iterator[list[Case]]:
    """Make rounds of Hypothesis, without end."""
    repair = repair or Repair(contract)
    for number in count(of.index, of.count):
        round_seed = derived_seed(run_seed, contract.id, number)
        yield hypothesis_round(contract, round_seed, f"hypothesis round {number}", repair)


def lap_cases(probes: Iterator[Probe], at_once: int = BATCH) -> Iterator[list[Case]]:
    """The lap over the cells."""
    while chunk := list(islice(probes, at_once)):
        yield [Case(probe.call, 0, "walk", None, probe.places, probe.more) for probe in chunk]


def structure_cases(
    contract: Contract, walked: Iterator[Structure], name: str, at_once: int, repair: Repair, of: Slice = WHOLE
) -> Iterator[list[Case]]:
    """Make one call of each structure.

    Args:
        name: The prefix of the calls' origins.
        at_once: The number of cases that are made together.
        repair: Makes calls that are accepted.
        of: The slice of the structures.
    """
    made = (Case(build(contract, s, f"{name} {number}"), 0, "walk") for number, s in _of_slice(enumerate(walked), of))
    accepted = accepted_cases(made, repair)
    while chunk := list(islice(accepted, at_once)):
        yield chunk


def spoiled_cases(
    contract: Contract,
    run_seed: int,
    within: Contract | None = None,
    each: int = SPOILED_EACH,
    repair: Repair | None = None,
    of: Slice = WHOLE,
) -> Iterator[Case]:
    """Break each clause, and open each, in several ways, starting from small calls of the walk.

    Args:
        within: The edition with a narrower domain that those calls belong to.
        each: The largest number of ways for each clause.
        repair: Makes the calls to start from. None: that of the edition.
        of: The slice of the plan. Each slice chooses other calls.
    """
    repair = repair or Repair(within or contract)
    rng = np.random.default_rng(derived_seed(run_seed, contract.id, "spoiled", *of.purpose))
    within = within or contract
    walked = [s for s in (*cell_structures(within), *shape_structures(within)) if math.prod(s.shape) < 2000]
    chosen = rng.permutation(len(walked))[:POOL].tolist()

    @cache
    def usual(index: int) -> Call | None:
        return repair(build(contract, walked[chosen[index]], f"walk pool {chosen[index]}"))

    for names, change, phase in (
        (breakable(contract), spoiled, "invalid"),
        (openable(contract), opened, "unspecified"),
    ):
        for name in names:
            usable = filter(None, map(usual, rng.permutation(len(chosen)).tolist()))
            tried = (change(contract, call, name, rng) for call in usable)
            for call in _various(filter(None, tried), each):
                yield Case(call, 0, phase)


def _various(calls: Iterable[Call], each: int) -> list[Call]:
    """At most ``each`` calls. The first call of each way comes first.

    The search ends when there are enough ways, or when `TRIED_EACH` calls show no further one.
    """
    ways: set[tuple[object, ...]] = set()
    first: list[Call] = []
    others: list[Call] = []
    for call in islice(calls, TRIED_EACH):
        way = _way(call)
        (others if way in ways else first).append(call)
        ways.add(way)
        if len(first) == each:
            break
    return (first + others)[:each]


def _way(call: Call) -> tuple[object, ...]:
    """The properties that distinguish ways of breaking a clause.

    These are the attributes, the distance of an axis from the nearest valid one, and for each tensor its rank (0, 1 or more) and
    size (0, 1 or more). Implementations often take a single element for any number of them.
    """
    rank = len(call.data.shape)
    axis = int(call.attributes.get("axis", 0))
    off = axis - rank if axis >= rank else axis + rank if axis < -rank else None
    others = tuple(sorted((name, value) for name, value in call.attributes.items() if name != "axis"))
    shapes = {name: (min(len(tensor.shape), 2), min(tensor.size, 2)) for name, tensor in call.tensors.items()}
    return (*sorted(shapes.items()), off, others)


def hypothesis_round(contract: Contract, round_seed: int, origin: str, repair: Repair) -> list[Case]:
    """Make the calls of one round of Hypothesis. No call fails, because none is answered while it runs."""
    made: list[Case] = []
    kinds = (
        ["valid"] * 12 + ["invalid"] * (2 if breakable(contract) else 0) + ["unspecified"] * bool(openable(contract))
    )

    @seed(round_seed)
    @settings(
        max_examples=EXAMPLES,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.target),
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    @given(st.data())
    def collect(data: st.DataObject) -> None:
        kind = data.draw(st.sampled_from(kinds))
        event(kind)
        where = f"{origin} example {len(made)}"
        if kind != "valid":
            call = data.draw((invalid_calls if kind == "invalid" else unspecified_calls)(contract, repair=repair))
            made.append(Case(replace(call, origin=f"{where}, {call.origin}"), 0, kind))
            return
        structure = data.draw(structures(contract))
        for i in range(SEEDS_EACH):
            allowed = repair(build(contract, replace(structure, seed=structure.seed + i), where))
            if allowed is None:
                return
            legal = legal_set(contract, allowed)
            made.append(Case(allowed, 0, "hypothesis", legal))
            if i == 0:
                target(_distance(contract, allowed, legal), label="ULP between readings")

    collect()
    return made


def _distance(contract: Contract, call: Call, legal: Legal) -> float:
    """log2 of the largest distance in ULP between the first reading and another.

    The others are the readings that the cell's probes do not exclude.
    """
    first = legal.distinct[0]
    if not first.size:
        return 0.0
    others = [*legal.distinct[1:], *_not_excluded(contract, call)]
    farthest = max((int(ulp_distance(first, other, legal.dtype).max()) for other in others), default=0)
    return float(np.log2(1 + max(farthest, 0)))


def _not_excluded(contract: Contract, call: Call) -> Iterator[NDArray[Any]]:
    """Results of the readings that the probes of the call's types do not distinguish from an admitted one."""
    readings = contract.readings(call)
    if contract.domain.family == "range" or not all(isinstance(reading, Stepwise) for reading in readings):
        return
    operands = contract.operands(call)
    yield from evaluate_all(probes(types_of(operands), start(readings)).left[:MOST_LEFT], operands)
