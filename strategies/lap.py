"""The lap over the cells: for each cell, calls on which its readings differ.

The calls also have every code of a small type of x. A cell per axis or blocked gets one call, and a cell per tensor one for
each probe. A cell of a range formula gets one for each kind of range.
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

ROW = 66
"""Number of values of x for each probe: its own, and others so that a cell has every code of a small type.

It is more than a vector has.
"""

SHORT = 60
"""Number of values in the last block, which is partial."""

RANGE_VALUES = 8
"""Number of values in each call of a range formula with which a search begins."""


@dataclass(frozen=True, eq=False)
class Probe:
    """A call of the lap."""

    call: Call
    places: NDArray[np.int64] | None = None
    """Flat indices of the values that were chosen because readings differ there."""
    more: bool = False
    """True if other calls of the same cell follow."""


def lap(contract: Contract, cells: Iterable[Structure] | None = None) -> Iterator[Probe]:
    """The calls of the lap, cell after cell.

    Args:
        contract: The edition.
        cells: One structure for each cell, in the order of the lap. None: all cells, in the order of the walk.
    """
    for number, structure in enumerate(cell_structures(contract) if cells is None else cells):
        origin = f"lap cell {number}"
        if isinstance(structure, Range):
            yield from _ranges(contract, structure, origin)
        else:
            small = replace(structure, shape=(2,) if structure.granularity == "per_tensor" else (2, 2))
            yield from cell_probes(contract, build(contract, small, origin), structure, None)


def cell_probes(contract: Contract, call: Call, structure: Linear, chosen: Probes | None) -> Iterator[Probe]:
    """The calls of a linear cell that hold probes.

    Args:
        contract: The edition.
        call: A call of the cell.
        structure: The structure of the cell.
        chosen: The probes to use. None: the probes for the types of the cell.
    """
    readings = contract.readings(call)
    if not all(isinstance(reading, Stepwise) for reading in readings):
        yield Probe(call)
        return
    cell_triples = chosen or probes(types_of(contract.operands(call)), start(readings))
    rows = _rows(cell_triples, structure.x_dtype)
    zero_points = cell_triples.zero_point
    if zero_points is None and "zero_point" in call.tensors:
        # The zero point of int32 is supposed to be 0 by the text, so these probes have none.
        zero_points = np.zeros(len(cell_triples), np.uint32)
    count = len(cell_triples)
    if structure.granularity == "per_tensor":
        shape = call.tensors["scale"].shape
        for index in range(count):
            # Calls of two ranks are evidence that the cell is implemented.
            x = rows[index].reshape(2, -1) if index % 2 else rows[index]
            tensors = {
                "x": _tensor(structure.x_dtype, x),
                "scale": _like(call, "scale", cell_triples.scale[index], shape),
            }
            if zero_points is not None:
                tensors["zero_point"] = _like(call, "zero_point", zero_points[index], shape)
            yield Probe(replace(call, tensors=tensors), np.arange(WIDTH), index < count - 1)
        return
    if structure.granularity == "per_axis":
        x, shape = rows.T, (count,)
        places = np.arange(count)[:, None] + np.arange(WIDTH)[None, :] * count
        attributes = dict(call.attributes)
    else:
        x, shape = rows.reshape(1, -1)[:, : (count - 1) * ROW + SHORT], (1, count)
        places = np.arange(count)[:, None] * ROW + np.arange(WIDTH)[None, :]
        attributes = {**call.attributes, "block_size": ROW}
    tensors = {"x": _tensor(structure.x_dtype, x), "scale": _like(call, "scale", cell_triples.scale, shape)}
    if zero_points is not None:
        tensors["zero_point"] = _like(call, "zero_point", zero_points, shape)
    yield Probe(replace(call, tensors=tensors, attributes=attributes), places.reshape(-1))


def _rows(cell_triples: Probes, x_dtype: str) -> NDArray[Any]:
    """Values of x, one row for each probe. Further codes let all rows together have every code."""
    return np.concatenate([cell_triples.x.astype(code_dtype(x_dtype)), _others(x_dtype, len(cell_triples))], axis=1)


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
        # The same values for all cells of a type, so that cells share the results of searches.
        variant = replace(structure, range_recipe=recipe, seed=number)
        yield Probe(build(contract, variant, origin), np.arange(RANGE_VALUES), number < len(RANGE_RECIPES) - 1)
