"""Calls on which the remaining readings of a cell differ.

The search evaluates these readings on a large pool of triples of the cell's types. The pool has probes of other seeds, every
special scale, random mantissas and exponents, and solved triples (see `xverify.strategies.ties`). The few probes on which
the readings differ become calls.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic import range_lattice
from xverify.arithmetic.reading import Reading
from xverify.arithmetic.readings import Stepwise, evaluate_all
from xverify.arithmetic.simplify import Types, types_of
from xverify.contracts.model import Contract
from xverify.core.call import BITS, Call, Tensor, code_dtype
from xverify.core.dtypes import MANTISSA_BITS, encode, integer_range
from xverify.strategies import ties, values
from xverify.strategies.equal_readings import cell_call, only_zero, simplified_for_cell
from xverify.strategies.lap import cell_probes
from xverify.strategies.probes import WIDTH, Codes, Probes
from xverify.strategies.structures import Linear
from xverify.strategies.triples import aims_of, triples

__all__ = ["DistinguishingCalls", "cell_call", "distinguishing_calls", "fewest", "simplified_for_cell"]

MOST_PROBES = 12
"""Largest number of probes, or of ranges, for a cell at once."""

RANGES = 128
"""Number of solved ranges for each precision."""

RANGE_WIDTH = 8
"""Number of input codes for each range."""


@dataclass(frozen=True, eq=False)
class DistinguishingCalls:
    """The result of a search for calls on which readings differ."""

    calls: tuple[Call, ...]
    """The calls. None if the search found no difference."""
    tried: int
    """The number of triples on which the readings were evaluated."""


def distinguishing_calls(contract: Contract, call: Call, readings: Sequence[Reading], seed: int) -> DistinguishingCalls:
    """Find calls of a cell on which readings differ, as few as show every difference in the pool.

    Args:
        contract: The edition.
        call: A call of the cell, see `cell_call`.
        readings: The readings to tell apart.
        seed: The seed of the pool.

    Raises:
        ValueError: A reading of a linear cell is not composed of stages.
    """
    if contract.domain.family == "range":
        return _range_calls(contract, call, tuple(readings), seed)
    linear = tuple(reading for reading in readings if isinstance(reading, Stepwise))
    if len(linear) != len(readings):
        raise ValueError("only readings that are composed of stages can be told apart on a linear cell")
    probes, tried = _chosen_probes(types_of(contract.operands(call)), linear, only_zero(call), seed)
    if probes is None:
        return DistinguishingCalls((), tried)
    if probes.zero_point is None and "zero_point" in call.tensors:
        # The zero point is 0 in every allowed call, so no reading depends on it.
        zero_point = np.zeros(len(probes), code_dtype(call.tensors["zero_point"].dtype))
        probes = replace(probes, zero_point=zero_point)
    cell = contract.cell(call)
    structure = Linear(cell.x_dtype, cell.scale_dtype, cell.granularity, call.data.shape)
    made = cell_probes(contract, replace(call, origin=f"telling apart {seed}"), structure, probes)
    return DistinguishingCalls(tuple(probe.call for probe in made), tried)


# -- choosing -----------------------------------------------------------------------------------------------


def fewest(results: NDArray[Any], most: int = MOST_PROBES) -> list[int]:
    """The indices of few probes that separate the readings as well as all probes do.

    The search is greedy: each next probe is one that separates most of the readings that are still together.

    Args:
        results: Codes of shape (readings, probes, values).
        most: Largest number of probes to choose.
    """
    candidates = np.flatnonzero((results != results[0]).any(axis=(0, 2)))
    # Equal rows get equal numbers. Readings with equal numbers are still together.
    rows = results[:, candidates].reshape(-1, results.shape[2])
    kinds = _numbered([row.tobytes() for row in rows]).reshape(len(results), -1)
    chosen: list[int] = []
    together = np.zeros((len(results), 1), np.int64)
    while len(candidates) and len(chosen) < most:
        refined = np.sort(together * (kinds.max() + 1) + kinds, axis=0)
        groups = 1 + (refined[1:] != refined[:-1]).sum(axis=0)
        best = int(groups.argmax())
        if groups[best] == together.max() + 1:
            break
        chosen.append(int(candidates[best]))
        together = _numbered(list(zip(together[:, 0].tolist(), kinds[:, best].tolist(), strict=True)))[:, None]
    return chosen


def _numbered(keys: Sequence[Hashable]) -> NDArray[np.int64]:
    """A number for each key. Equal keys get the same number, counted in the order of first appearance."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)


@lru_cache(maxsize=1024)
def _chosen_probes(
    types: Types, readings: tuple[Stepwise, ...], only_zero: bool, seed: int
) -> tuple[Probes | None, int]:
    """The probes on which these readings differ, or None, and the number of triples that were tried."""
    pool = triples(types, only_zero, seed, aims_of(types, readings))
    operands = pool.operands(types)
    shape = (len(readings), len(pool), WIDTH)
    results = np.stack(evaluate_all(readings, operands)).reshape(shape)
    chosen = fewest(results)
    return (pool.chosen(chosen) if chosen else None), pool.x.size


# -- ranges -------------------------------------------------------------------------------------------------


def _range_calls(contract: Contract, call: Call, readings: tuple[Reading, ...], seed: int) -> DistinguishingCalls:
    operands = contract.operands(call)
    dtype = operands.dtypes["input"]
    codes, low, high = _range_pool(dtype, operands.output_dtype, seed)
    every = replace(
        operands,
        codes={"input": codes, "min_range": low[:, None], "max_range": high[:, None]},
        shape=codes.shape,
    )
    results = np.stack(range_lattice.evaluate_all(readings, every))
    made = []
    for index in fewest(results):
        tensors = {
            "input": Tensor(dtype, np.ascontiguousarray(codes[index])),
            "min_range": Tensor("float32", low[index].reshape(call.tensors["min_range"].shape)),
            "max_range": Tensor("float32", high[index].reshape(call.tensors["max_range"].shape)),
        }
        made.append(replace(call, tensors=tensors, origin=f"telling apart {seed}"))
    return DistinguishingCalls(tuple(made), codes.size)


@lru_cache(maxsize=64)
def _range_pool(dtype: str, out: str, seed: int) -> tuple[Codes, Codes, Codes]:
    """Codes of inputs, of shape (ranges, RANGE_WIDTH), and of the low and high ends of their ranges.

    There is every kind of range, and there are solved ranges.
    """
    rng = np.random.default_rng([seed, BITS[dtype], MANTISSA_BITS[out]])
    levels = (1 << BITS[dtype]) - 1
    lows, highs = [], []
    for recipe in values.RANGE_RECIPES:
        low, high = values.ranges((8,), recipe, levels, rng)
        lows.append(low)
        highs.append(high)
    high = ((1.0 + rng.random(RANGES)) * np.exp2(rng.integers(-4, 5, RANGES))).astype(np.float32)
    steps = rng.integers(0, levels, RANGES)
    for bits in (24, MANTISSA_BITS[out] + 1):
        solved = ties.low_ends(high, steps, levels, bits, rng)
        solved = np.where(solved < high, solved, -high)
        lows.append(solved.view(np.uint32))
        highs.append(high.view(np.uint32))
    low, top = np.concatenate(lows), np.concatenate(highs)
    codes = values.data(dtype, (len(low), RANGE_WIDTH), rng)
    # A solved range is for a step counted from the lowest value. Some recipes count from zero, so that code comes too.
    lowest = integer_range(dtype)[0]
    every = np.concatenate([np.zeros(len(low) - 2 * RANGES, np.int64), steps, steps])
    codes[:, 0] = encode(dtype, every + lowest)
    codes[:, 1] = encode(dtype, np.minimum(every, integer_range(dtype)[1]))
    return codes, low, top
