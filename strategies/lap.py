"""The lap over the cells: for each cell the calls that tell its readings apart, and that meet every code of a small type.

One call for a cell per axis or blocked, one for each probe per tensor; for the range formulas one for each kind of range.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic.lattice import start
from xverify.arithmetic.readings import Stepwise
from xverify.arithmetic.simplify import types_of
from xverify.contracts.model import Contract
from xverify.core.call import Call, Tensor, code_dtype
from xverify.strategies import values
from xverify.strategies.probes import WIDTH, Probes, probes
from xverify.strategies.structures import Linear, Range, Structure, build
from xverify.strategies.values import RANGE_RECIPES
from xverify.strategies.walk import cell_structures

ROW = 64
"""Values of x beside each probe's scale: the probe's own, and others, so that all probes of a cell meet every code of a small
type."""

SHORT = 60
"""Of the last block, which is a partial one."""

RANGE_VALUES = 8
"""Of each call of a range formula, those that a search begins with."""


@dataclass(frozen=True, eq=False)
class Probe:
    """A call of the lap. places: flat indices of the values that were chosen to tell readings apart; more: whether other calls
    of the same cell follow."""

    call: Call
    places: NDArray[np.int64] | None = None
    more: bool = False


def lap(contract: Contract, cells: Iterable[Structure] | None = None) -> Iterator[Probe]:
    """The lap's calls, cell after cell. cells: one structure of each, in that order; all in the walk's when there are none."""
    for number, structure in enumerate(cell_structures(contract) if cells is None else cells):
        origin = f"lap cell {number}"
        if isinstance(structure, Range):
            yield from _ranges(contract, structure, origin)
        else:
            small = replace(structure, shape=(2,) if structure.granularity == "per_tensor" else (2, 2))
            yield from cell_probes(contract, build(contract, small, origin), structure, None)


def cell_probes(contract: Contract, call: Call, structure: Linear, found: Probes | None) -> Iterator[Probe]:
    """The calls of a linear cell, given one of it, with its own probes or those ``found`` for it."""
    readings = contract.readings(call)
    if not all(isinstance(reading, Stepwise) for reading in readings):
        yield Probe(call)
        return
    given = found or probes(types_of(contract.operands(call)), start(readings))
    rows = _rows(given, structure.x_dtype)
    zero_points = given.zero_point
    if zero_points is None and "zero_point" in call.tensors:
        # Of int32 the text says that it is supposed to be 0, so its probes have none.
        zero_points = np.zeros(len(given), np.uint32)
    count = len(given)
    if structure.granularity == "per_tensor":
        shape = call.tensors["scale"].shape
        for place in range(count):
            tensors = {
                "x": _tensor(structure.x_dtype, rows[place]),
                "scale": _like(call, "scale", given.scale[place], shape),
            }
            if zero_points is not None:
                tensors["zero_point"] = _like(call, "zero_point", zero_points[place], shape)
            yield Probe(replace(call, tensors=tensors), np.arange(WIDTH), place < count - 1)
        return
    if structure.granularity == "per_axis":
        x, shape = rows.T, (count,)
        places = np.arange(count)[:, None] + np.arange(WIDTH)[None, :] * count
        attributes = dict(call.attributes)
    else:
        x, shape = rows.reshape(1, -1)[:, : (count - 1) * ROW + SHORT], (1, count)
        places = np.arange(count)[:, None] * ROW + np.arange(WIDTH)[None, :]
        attributes = {**call.attributes, "block_size": ROW}
    tensors = {"x": _tensor(structure.x_dtype, x), "scale": _like(call, "scale", given.scale, shape)}
    if zero_points is not None:
        tensors["zero_point"] = _like(call, "zero_point", zero_points, shape)
    yield Probe(replace(call, tensors=tensors, attributes=attributes), places.reshape(-1))


def _rows(given: Probes, x_dtype: str) -> NDArray[Any]:
    """The probes' values of x, each row filled up with others, so that all rows together meet every code."""
    return np.concatenate([given.x.astype(code_dtype(x_dtype)), _others(x_dtype, len(given))], axis=1)


@lru_cache(maxsize=256)
def _others(x_dtype: str, count: int) -> NDArray[Any]:
    return values.data(x_dtype, (count, ROW - WIDTH), np.random.default_rng(count))


def _tensor(dtype: str, codes: NDArray[Any]) -> Tensor:
    return Tensor(dtype, np.ascontiguousarray(codes))


def _like(call: Call, role: str, codes: NDArray[Any], shape: tuple[int, ...]) -> Tensor:
    dtype = call.tensors[role].dtype
    return Tensor(dtype, np.asarray(codes, code_dtype(dtype)).reshape(shape))


def _ranges(contract: Contract, structure: Structure, origin: str) -> Iterator[Probe]:
    assert isinstance(structure, Range)
    for number, recipe in enumerate(RANGE_RECIPES):
        # The same for all cells of a type: what was found for one need not be searched again.
        one = replace(structure, range_recipe=recipe, seed=number)
        yield Probe(build(contract, one, origin), np.arange(RANGE_VALUES), number < len(RANGE_RECIPES) - 1)
