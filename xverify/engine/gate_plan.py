"""The calls of a gate, in order: any kind of fault should show among the first few hundred.

So the parts of the walk take turns, each in a random order that depends on the seed. In an order type by type, or rank by
rank, a fault that only the end shows would appear late.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from typing import TypeVar

import numpy as np

from xverify.contracts.model import Contract, Domain
from xverify.core.call import Attribute, Call
from xverify.engine.plan import (
    accepted_cases,
    derived_seed,
    hypothesis_cases,
    lap_cases,
    numbered,
    spoiled_cases,
    structure_cases,
)
from xverify.strategies.lap import lap
from xverify.strategies.large import large_structures
from xverify.strategies.layouts import layout_calls
from xverify.strategies.limits import CallLimits
from xverify.strategies.repair import Repair
from xverify.strategies.structures import Linear, Structure
from xverify.strategies.values import SCALE_RECIPES, ZERO_POINT_RECIPES
from xverify.strategies.walk import (
    Picks,
    block_structures,
    cell_structures,
    exponent_structures,
    second_structures,
    shape_structures,
    special_structures,
)
from xverify.workers.case import Case

T = TypeVar("T")

CHUNK = 16
"""Calls of one part before the next part's turn."""

LARGE_CHUNK = 2
"""The number of large calls in a chunk. Each costs as much as 20 others."""

BROKEN_EACH = 60
"""The number of ways in which each clause is broken, or opened."""

START_SECONDS, CELL_SECONDS = 0.5, 0.012
"""Seconds of a walk: before the first verdict, and for each cell. They are half of those measured on two cores."""

WITNESSES, WALK, EVIDENCE, LARGEST, DRAWN = 0, 1 << 20, 1 << 29, 3 << 28, 1 << 30
"""The first call number of each phase, so that all calls of a contract have different numbers."""


SIGNATURE_DEFAULTS: Mapping[str, Attribute] = {
    "axis": 1, "block_size": 0, "qtype": "per_tensor", "mode": "MIN_COMBINED", "narrow_range": False,
}  # fmt: skip
"""The default values of the attributes in the signatures of Python kernels."""


def witness_batches(calls: Sequence[Call]) -> Iterator[list[Case]]:
    """The witnesses of the ledger."""
    return numbered(iter([[Case(call, 0, "ledger") for call in calls]]), WITNESSES)


@dataclass(frozen=True)
class Scope:
    """The calls that a gate makes of an edition."""

    domain: Domain
    """The edition's domain, or a narrower one."""

    limits: CallLimits = field(default_factory=CallLimits)
    """Limits of the allowed calls: stated ones, or narrower ones that the gate learnt."""

    stated: CallLimits = field(default_factory=CallLimits)
    """Limits that the user stated. Calls outside them are not made, not even forbidden ones."""

    values_only: bool = False
    """True to make allowed calls only."""

    def admits(self, contract: Contract, call: Call) -> bool:
        """True if a call is within the stated limits, and allowed if only allowed calls are made.

        A forbidden call that a kernel cannot tell from an allowed one is not made.
        """
        if not self.stated.holds(call):
            return False
        verdict = contract.judge(call).verdict
        return verdict == "allowed" or not (
            self.values_only or (verdict == "forbidden" and reads_as_allowed(contract, call))
        )

    def repair(self, contract: Contract) -> Repair:
        """The repair of the scope's calls."""
        return Repair(replace(contract, domain=self.domain), self.limits)


def reads_as_allowed(contract: Contract, call: Call) -> bool:
    """True if an edition allows the call without the attributes that have the signature's default values.

    A kernel gets the same arguments for both calls.
    """
    defaults = SIGNATURE_DEFAULTS.items() & call.attributes.items()
    absent = {name for name, _ in defaults if name != "axis" or contract.domain.default_axis is not None}
    plain = {name: value for name, value in call.attributes.items() if name not in absent}
    return bool(absent) and contract.judge(replace(call, attributes=plain)).verdict == "allowed"


def walk_batches(
    contract: Contract,
    scope: Scope,
    run_seed: int,
    turn: int = 0,
    is_refused: Callable[[Call], bool] = lambda call: False,
) -> Iterator[list[Case]]:
    """The whole walk of an edition, once.

    Args:
        scope: The calls to make.
        turn: The number of walks before this one.
        is_refused: is_refused(call): True if the kernel probably refuses all calls of this kind. It may change its answer
            during the walk.
    """
    return numbered(_walk(contract, scope, run_seed + turn, is_refused), WALK * (1 + turn))


def walk_seconds(domains: Iterable[tuple[Contract, Domain]]) -> float:
    """The seconds that the walk of some editions takes at least, on a fast machine.

    Args:
        domains: Each edition and the part of its domain that is tested.
    """
    cells = sum(1 for contract, within in domains for _ in cell_structures(replace(contract, domain=within)))
    return START_SECONDS + cells * CELL_SECONDS


def drawn_batches(contract: Contract, scope: Scope, run_seed: int) -> Iterator[list[Case]]:
    """Rounds of Hypothesis, without end."""
    rounds = hypothesis_cases(replace(contract, domain=scope.domain), run_seed, scope.repair(contract))
    # Hypothesis was steered by the legal sets of the text; a gate may hold a kernel to a reference implementation.
    admitted = (
        [replace(case, legal=None) for case in cases if case.phase == "hypothesis" or scope.admits(contract, case.call)]
        for cases in rounds
    )
    return numbered(admitted, DRAWN)


def _walk(contract: Contract, scope: Scope, run_seed: int, is_refused: Callable[[Call], bool]) -> Iterator[list[Case]]:
    narrow = replace(contract, domain=scope.domain)
    repair = scope.repair(contract)
    rng = np.random.default_rng(derived_seed(run_seed, contract.id, "gate"))
    structures = _shuffled(shape_structures(narrow), rng)

    def broken() -> Iterable[Case]:
        if scope.values_only:
            return ()
        made = spoiled_cases(contract, run_seed, narrow, BROKEN_EACH, repair)
        return (case for case in made if scope.admits(contract, case.call))

    def laid_out() -> Iterable[Case]:
        made = accepted_cases((Case(call, 0, "walk") for call in layout_calls(narrow)), repair)
        # Limits may require contiguous tensors. Then the repaired call has no other layout, and tests nothing new.
        return (case for case in made if any(tensor.layout != "C" for tensor in case.call.tensors.values()))

    parts = [
        lap_cases(lap(narrow, _shuffled(cell_structures(narrow), rng), repair, is_refused), CHUNK),
        structure_cases(narrow, iter(_shuffled(block_structures(narrow), rng)), "walk blocks", CHUNK, repair),
        structure_cases(narrow, iter(_shuffled(large_structures(narrow), rng)), "walk large", LARGE_CHUNK, repair),
        structure_cases(narrow, iter(structures), "walk structure", CHUNK, repair),
        structure_cases(narrow, iter(_shuffled(second_structures(narrow), rng)), "walk second", CHUNK, repair),
        _shuffled_cases(broken, rng),
        _shuffled_cases(laid_out, rng),
        structure_cases(narrow, iter(_shuffled(special_structures(narrow), rng)), "walk special scale", CHUNK, repair),
        structure_cases(narrow, iter(_shuffled(exponent_structures(narrow), rng)), "walk exponents", 1, repair),
    ]
    counts: Counter[str] = Counter()
    while parts:
        for part in list(parts):
            chunk = next(part, [])
            if chunk:
                counts.update(case.phase for case in chunk)
                yield chunk
            else:
                parts.remove(part)
    if contract.like and counts["walk"]:
        # The domain of a user's edition may be small. At least half of its calls are allowed ones.
        missing = counts.total() - 2 * counts["walk"]
        more = _more_structures(structures, run_seed)
        yield from structure_cases(narrow, islice(more, max(0, missing)), "walk again", CHUNK, repair)


def _more_structures(structures: Sequence[Structure], run_seed: int) -> Iterator[Structure]:
    """The structures again, with other numbers, without end."""
    for number, structure in enumerate(cycle(structures)):
        seed = derived_seed(run_seed, "again", number) % 2**32
        if isinstance(structure, Linear):
            pick = Picks(number)
            scales, zero_points = pick(SCALE_RECIPES), pick(ZERO_POINT_RECIPES)
            yield replace(structure, seed=seed, scale_recipe=scales, zero_point_recipe=zero_points)
        else:
            yield replace(structure, seed=seed)


def _shuffled(items: Iterable[T], rng: np.random.Generator) -> list[T]:
    listed = list(items)
    return [listed[index] for index in rng.permutation(len(listed))]


def _shuffled_cases(made: Callable[[], Iterable[Case]], rng: np.random.Generator) -> Iterator[list[Case]]:
    """Cases in a random order.

    They are made when the first is needed, so that the first verdict does not wait for them.
    """
    rest = iter(_shuffled(made(), rng))
    while chunk := list(islice(rest, CHUNK)):
        yield chunk
