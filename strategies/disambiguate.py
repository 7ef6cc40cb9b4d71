"""Calls that tell apart the readings that remain for a cell.

A large pool of triples is made for the cell's types: the probes of other seeds, every special scale, random mantissas and
exponents, and triples that are solved for (see `xverify.strategies.ties`). Only the readings that remain are evaluated on it, and
the few probes on which they differ become calls.
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
"""Probes, or ranges, that are asked of a cell at once."""

RANGES = 128
"""Ranges of any numbers, that are solved for, for each precision."""

RANGE_WIDTH = 8
"""Codes beside each range."""


@dataclass(frozen=True, eq=False)
class DistinguishingCalls:
    """calls: on which readings differ, none when no difference was found. tried: triples on which they were evaluated."""

    calls: tuple[Call, ...]
    tried: int


def distinguishing_calls(contract: Contract, call: Call, readings: Sequence[Reading], seed: int) -> DistinguishingCalls:
    """The calls of a cell on which the readings differ, as few as leave no more differences in the pool.

    call: of the cell, see `cell_call`. seed: of the pool; another one gives another pool. Raises ValueError for readings of
    no known family.
    """
    if contract.domain.family == "range":
        return _range_calls(contract, call, tuple(readings), seed)
    linear = tuple(reading for reading in readings if isinstance(reading, Stepwise))
    if len(linear) != len(readings):
        raise ValueError("readings of a linear cell are stepwise")
    found, tried = _chosen_probes(types_of(contract.operands(call)), linear, only_zero(call), seed)
    if found is None:
        return DistinguishingCalls((), tried)
    if found.zero_point is None and "zero_point" in call.tensors:
        # It is 0 in every allowed call, so that no reading looks at it.
        zero_point = np.zeros(len(found), code_dtype(call.tensors["zero_point"].dtype))
        found = replace(found, zero_point=zero_point)
    cell = contract.cell(call)
    structure = Linear(cell.x_dtype, cell.scale_dtype, cell.granularity, call.data.shape)
    made = cell_probes(contract, replace(call, origin=f"telling apart {seed}"), structure, found)
    return DistinguishingCalls(tuple(probe.call for probe in made), tried)


# -- choosing -----------------------------------------------------------------------------------------------


def fewest(results: NDArray[Any], most: int = MOST_PROBES) -> list[int]:
    """Places of the probes that leave as few readings together as all do, each the one that parts most.

    results: codes, (readings, probes, values).
    """
    telling = np.flatnonzero((results != results[0]).any(axis=(0, 2)))
    # Equal rows have equal numbers; readings with equal numbers are together.
    rows = results[:, telling].reshape(-1, results.shape[2])
    kinds = _numbered([row.tobytes() for row in rows]).reshape(len(results), -1)
    chosen: list[int] = []
    together = np.zeros((len(results), 1), np.int64)
    while len(telling) and len(chosen) < most:
        parted = np.sort(together * (kinds.max() + 1) + kinds, axis=0)
        parts = 1 + (parted[1:] != parted[:-1]).sum(axis=0)
        best = int(parts.argmax())
        if parts[best] == together.max() + 1:
            break
        chosen.append(int(telling[best]))
        together = _numbered(list(zip(together[:, 0].tolist(), kinds[:, best].tolist(), strict=True)))[:, None]
    return chosen


def _numbered(things: Sequence[Hashable]) -> NDArray[np.int64]:
    """Each thing's number in the order in which different ones first come."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(thing, len(numbers)) for thing in things], np.int64)


@lru_cache(maxsize=1024)
def _chosen_probes(
    types: Types, readings: tuple[Stepwise, ...], only_zero: bool, seed: int
) -> tuple[Probes | None, int]:
    """The probes on which these readings differ, and how many triples were tried."""
    found = triples(types, only_zero, seed, aims_of(types, readings))
    operands = found.operands(types)
    shape = (len(readings), len(found), WIDTH)
    results = np.stack(evaluate_all(readings, operands)).reshape(shape)
    chosen = fewest(results)
    return (found.chosen(chosen) if chosen else None), found.x.size


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
    for place in fewest(results):
        tensors = {
            "input": Tensor(dtype, np.ascontiguousarray(codes[place])),
            "min_range": Tensor("float32", low[place].reshape(call.tensors["min_range"].shape)),
            "max_range": Tensor("float32", high[place].reshape(call.tensors["max_range"].shape)),
        }
        made.append(replace(call, tensors=tensors, origin=f"telling apart {seed}"))
    return DistinguishingCalls(tuple(made), codes.size)


@lru_cache(maxsize=64)
def _range_pool(dtype: str, out: str, seed: int) -> tuple[Codes, Codes, Codes]:
    """Codes of inputs, (ranges, RANGE_WIDTH), and of the ends of their ranges: every kind of range, ranges of any numbers,
    and ranges that are solved for."""
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
    # What was solved for counts from the lowest value, or from half the values above zero.
    lowest = integer_range(dtype)[0]
    every = np.concatenate([np.zeros(len(low) - 2 * RANGES, np.int64), steps, steps])
    codes[:, 0] = encode(dtype, every + lowest)
    codes[:, 1] = encode(dtype, np.minimum(every, integer_range(dtype)[1]))
    return codes, low, top
