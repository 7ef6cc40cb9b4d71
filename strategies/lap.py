"""The lap over the cells: for each cell, calls on which its readings differ.

The calls also have every code of a small type of x. A cell per axis or blocked gets one call, and a cell per tensor one for
each probe. A cell of a range formula gets one for each kind of range.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from xverify.strategies.limits import axis_of, block_size_of, granularity_of
from xverify.strategies.probes import WIDTH, Probes, probes
from xverify.strategies.repair import Repair
from xverify.strategies.structures import Linear, Range, Structure, build
from xverify.strategies.values import RANGE_RECIPES
from xverify.strategies.walk import Picks, cell_structures

ROW = 66
"""Number of values of x for each probe: its own, and others so that a cell has every code of a small type.

It is more than a vector has.
"""

PER_TENSOR_CALLS = 16
"""Approximate number of calls of a cell per tensor."""

SHORT = 60
"""Number of values in the last block of every other blocked cell, where it is partial."""

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


def lap(
    contract: Contract,
    cells: Iterable[Structure] | None = None,
    repair: Repair | None = None,
    is_refused: Callable[[Call], bool] = lambda call: False,
) -> Iterator[Probe]:
    """The calls of the lap, cell after cell.

    Args:
        contract: The edition.
        cells: One structure for each cell, in the order of the lap. None: all cells, in the order of the walk.
        repair: Makes calls that are accepted. None: that of the edition.
        is_refused: is_refused(call): True if the kernel probably refuses all calls like this one. Its cell gets one call without
            probes, since finding probes costs time.
    """
    repair = repair or Repair(contract)
    for number, structure in enumerate(cell_structures(contract) if cells is None else cells):
        origin = f"lap cell {number}"
        if isinstance(structure, Range):
            for probe in _ranges(contract, structure, origin):
                repaired = repair(probe.call)
                if repaired is not None:
                    yield probe if repaired is probe.call else replace(probe, call=repaired, places=None)
        else:
            small = replace(structure, shape=(2,) if structure.granularity == "per_tensor" else (2, 2))
            call = build(contract, small, origin)
            usual = repair(call)
            if usual is None:
                continue
            if is_refused(usual):
                plain = repair(build(contract, structure, origin))
                yield Probe(plain or usual)
                continue
            yield from cell_probes(contract, usual, structure, None, repair, call)


def soonest(contract: Contract) -> list[Structure]:
    """One structure for each cell, in an order that meets many cells early.

    A cell per tensor gets a call for each probe, others get one call. So a cell per tensor comes after many others.
    """
    waiting: Counter[str] = Counter()
    times = []
    cells = list(cell_structures(contract))
    for structure in cells:
        granularity = structure.granularity if isinstance(structure, Linear) else ""
        times.append(waiting[granularity])
        waiting[granularity] += PER_TENSOR_CALLS if granularity == "per_tensor" else 1
    return [cells[index] for index in sorted(range(len(cells)), key=times.__getitem__)]


def cell_probes(
    contract: Contract,
    call: Call,
    structure: Linear,
    chosen: Probes | None,
    repair: Repair | None = None,
    form: Call | None = None,
) -> Iterator[Probe]:
    """The calls of a linear cell that hold probes.

    Args:
        contract: The edition.
        call: A call of the cell.
        structure: The structure of the cell.
        chosen: The probes to use. None: the probes for the types of the cell.
        repair: Makes calls that are accepted. None: that of the edition.
        form: A call with the attributes of the probes, if they are not those of ``call``.
    """
    repair = repair or Repair(contract)
    readings = contract.readings(call)
    if not all(isinstance(reading, Stepwise) for reading in readings):
        yield Probe(call)
        return
    cell_triples = chosen or probes(types_of(contract.operands(call)), start(readings))
    for probe in _usual_probes(call, structure, cell_triples, form or call):
        yield from _accepted(probe, repair)


def _usual_probes(call: Call, structure: Linear, cell_triples: Probes, form: Call) -> Iterator[Probe]:
    """The probes in their usual arrangement, with the attributes of ``form``. An edition may forbid it."""
    rows = _rows(cell_triples, structure.x_dtype)
    zero_points = cell_triples.zero_point
    if zero_points is None and "zero_point" in call.tensors:
        # The zero point of int32 is supposed to be 0 by the text, so these probes have none.
        zero_points = np.zeros(len(cell_triples), np.uint32)
    count = len(cell_triples)
    if structure.granularity == "per_tensor":
        shape = form.tensors["scale"].shape
        for index in range(count):
            # Calls of two ranks are evidence that the cell is implemented.
            x = rows[index].reshape(2, -1) if index % 2 else rows[index]
            tensors = {
                "x": _tensor(structure.x_dtype, x),
                "scale": _like(call, "scale", cell_triples.scale[index], shape),
            }
            if zero_points is not None:
                tensors["zero_point"] = _like(call, "zero_point", zero_points[index], shape)
            yield Probe(replace(form, tensors=tensors), np.arange(WIDTH), index < count - 1)
        return
    if structure.granularity == "per_axis":
        x, shape = rows.T, (count,)
        places = np.arange(count)[:, None] + np.arange(WIDTH)[None, :] * count
        attributes = dict(form.attributes)
    else:
        # Some implementations refuse all blocks that do not divide the axis.
        short = Picks(structure.seed)((SHORT, ROW))
        x, shape = rows.reshape(1, -1)[:, : (count - 1) * ROW + short], (1, count)
        places = np.arange(count)[:, None] * ROW + np.arange(WIDTH)[None, :]
        attributes = {**form.attributes, "block_size": ROW}
    tensors = {"x": _tensor(structure.x_dtype, x), "scale": _like(call, "scale", cell_triples.scale, shape)}
    if zero_points is not None:
        tensors["zero_point"] = _like(call, "zero_point", zero_points, shape)
    yield Probe(replace(form, tensors=tensors, attributes=attributes), places.reshape(-1))


def _accepted(probe: Probe, repair: Repair) -> Iterator[Probe]:
    """The probe, or calls with its values in an arrangement that the edition and the limits allow."""
    if repair.accepts(probe.call):
        yield probe
        return
    arranged = repair(probe.call)
    if arranged is None:
        return
    before, after = _groups(probe.call), _groups(arranged)
    width = min(map(len, after), default=0)
    if not width:
        yield Probe(arranged, None, probe.more)
        return
    pieces = -(-WIDTH // width)  # A group of few values holds a part of a probe.
    units = len(before) * pieces
    calls = -(-units // len(after))
    for number in range(calls):
        chosen = [(number * len(after) + index) for index in range(len(after))]
        filled, places = _filled(probe.call, arranged, before, after, chosen, width)
        fitting = next((call for call in _with_own_parameters(filled, arranged) if repair.accepts(call)), None)
        is_probe = fitting is filled
        yield Probe(fitting or arranged, places if is_probe else None, probe.more or number < calls - 1)


def _groups(call: Call) -> list[NDArray[np.int64]]:
    """For each element of the scale, the flat indices of the values that share it."""
    shape, count = call.data.shape, call.tensors["scale"].size
    numbers = np.arange(count)
    axis, granularity = axis_of(call), granularity_of(call)
    if granularity == "per_tensor" or not axis:
        index = np.zeros(shape, np.int64)
    elif granularity == "per_axis":
        index = np.broadcast_to(numbers.reshape([-1] + [1] * (-axis - 1)), shape)
    else:
        blocks = numbers.reshape(call.tensors["scale"].shape)
        index = np.take(np.repeat(blocks, block_size_of(call), axis), np.arange(shape[axis]), axis)
    order = np.argsort(index.reshape(-1), kind="stable")
    return np.split(order, np.cumsum(np.bincount(index.reshape(-1), minlength=count))[:-1])


def _filled(
    probes_call: Call,
    arranged: Call,
    before: Sequence[NDArray[np.int64]],
    after: Sequence[NDArray[np.int64]],
    chosen: Sequence[int],
    width: int,
) -> tuple[Call, NDArray[np.int64]]:
    """The arranged call with the values of probes, and the places of the probes' own values.

    Args:
        chosen: For each group of the arranged call, the number of a piece of a probe. Numbers past the last piece begin again.
        width: The number of values of a piece.
    """
    pieces = -(-WIDTH // width)
    tensors = {role: tensor.codes.reshape(-1).copy() for role, tensor in arranged.tensors.items()}
    values_before = {role: tensor.codes.reshape(-1) for role, tensor in probes_call.tensors.items()}
    places = []
    for index, (group, unit) in enumerate(zip(after, chosen, strict=True)):
        number, piece = divmod(unit % (len(before) * pieces), pieces)
        row = values_before["x"][before[number]]
        tensors["x"][group] = row[(piece * width + np.arange(len(group))) % len(row)]
        for role in ("scale", "zero_point"):
            if role in tensors and role in values_before:
                tensors[role][index] = values_before[role][number]
        if unit < len(before) * pieces:
            places.append(group[: min(width, WIDTH - piece * width)])
    filled = {
        role: Tensor(tensor.dtype, tensors[role].reshape(tensor.shape), tensor.layout)
        for role, tensor in arranged.tensors.items()
    }
    return replace(arranged, tensors=filled), np.concatenate(places) if places else np.zeros(0, np.int64)


def _with_own_parameters(filled: Call, arranged: Call) -> Iterator[Call]:
    """The filled call, then with the arranged zero point, then with the arranged scale too."""
    yield filled
    tensors = dict(filled.tensors)
    for role in ("zero_point", "scale"):
        if role in arranged.tensors:
            tensors[role] = arranged.tensors[role]
            yield replace(filled, tensors=dict(tensors))


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
