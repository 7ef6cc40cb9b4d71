"""The calls of a gate, in order: any kind of fault should show among the first few hundred.

So the parts of the walk take turns, each in a random order that depends on the seed. In an order type by type, or rank by
rank, a fault that only the end shows would appear late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeVar

import numpy as np

from xverify.contracts.model import Contract, Domain
from xverify.core.call import Call
from xverify.engine.plan import (
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
from xverify.strategies.walk import (
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
"""The same for large calls, each of which costs as much as 20 others."""

BROKEN_EACH = 60
"""The number of ways in which each clause is broken, or opened."""

START_SECONDS, CELL_SECONDS = 0.5, 0.012
"""Seconds of a walk: before the first verdict, and for each cell. They are half of those measured on two cores."""

WITNESSES, WALK, EVIDENCE, DRAWN = 0, 1 << 20, 1 << 29, 1 << 30
"""The first call number of each phase, so that all calls of a contract have different numbers."""


def witness_batches(calls: Sequence[Call]) -> Iterator[list[Case]]:
    """The witnesses of the ledger."""
    return numbered(iter([[Case(call, 0, "ledger") for call in calls]]), WITNESSES)


def walk_batches(contract: Contract, within: Domain, run_seed: int, turn: int = 0) -> Iterator[list[Case]]:
    """The whole walk of an edition, once.

    Args:
        within: The edition's domain, or a narrower one.
        turn: The number of walks before this one.
    """
    return numbered(_walk(contract, within, run_seed + turn), WALK * (1 + turn))


def walk_seconds(domains: Iterable[tuple[Contract, Domain]]) -> float:
    """The seconds that the walk of some editions takes at least, on a fast machine.

    Args:
        domains: Each edition and the part of its domain that is tested.
    """
    cells = sum(1 for contract, within in domains for _ in cell_structures(replace(contract, domain=within)))
    return START_SECONDS + cells * CELL_SECONDS


def drawn_batches(contract: Contract, within: Domain, run_seed: int) -> Iterator[list[Case]]:
    """Rounds of Hypothesis, without end."""
    rounds = hypothesis_cases(replace(contract, domain=within), run_seed)
    # Hypothesis was steered by the legal sets of the text; a gate may hold a kernel to a reference implementation.
    return numbered(([replace(case, legal=None) for case in cases] for cases in rounds), DRAWN)


def _walk(contract: Contract, within: Domain, run_seed: int) -> Iterator[list[Case]]:
    narrow = replace(contract, domain=within)
    rng = np.random.default_rng(derived_seed(run_seed, contract.id, "gate"))
    parts = [
        lap_cases(lap(narrow, _shuffled(cell_structures(narrow), rng)), CHUNK),
        structure_cases(narrow, iter(_shuffled(block_structures(narrow), rng)), "walk blocks", CHUNK),
        structure_cases(narrow, iter(_shuffled(large_structures(narrow), rng)), "walk large", LARGE_CHUNK),
        structure_cases(narrow, iter(_shuffled(shape_structures(narrow), rng)), "walk structure", CHUNK),
        structure_cases(narrow, iter(_shuffled(second_structures(narrow), rng)), "walk second", CHUNK),
        _shuffled_cases(lambda: spoiled_cases(contract, run_seed, narrow, BROKEN_EACH), rng),
        _shuffled_cases(lambda: (Case(call, 0, "walk") for call in layout_calls(narrow)), rng),
        structure_cases(narrow, iter(_shuffled(special_structures(narrow), rng)), "walk special scale", CHUNK),
        structure_cases(narrow, iter(_shuffled(exponent_structures(narrow), rng)), "walk exponents", 1),
    ]
    while parts:
        for part in list(parts):
            chunk = next(part, [])
            if chunk:
                yield chunk
            else:
                parts.remove(part)


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
