"""Ordinary calls of a cell: several ranks, more elements than a vector, scales near 1.

An edition or a kernel may admit few structures. So there are several candidates for each rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from xverify.contracts.model import Cell, Contract
from xverify.core.call import Call
from xverify.strategies.repair import Repair
from xverify.strategies.structures import Linear, Range, Structure, build
from xverify.strategies.walk import fits

SHAPES: Mapping[int, tuple[int, ...]] = {
    2: (2, 256),
    1: (256,),
    3: (2, 3, 256),
    4: (2, 1, 2, 256),
    5: (1, 2, 1, 2, 256),
    6: (1, 2, 1, 1, 2, 256),
}
"""A shape for each rank, the commonest rank first. The last extent is a whole number of most block sizes."""

MOST_REPAIRED = 2
"""The most calls that are repaired for a cell and a rank."""

BLOCK_SIZES = (32, 64, 128, 16, 256, 8, 4, 2)
"""Block sizes to try, the commonest first."""


def ordinary_calls(contract: Contract, cell: Cell, rank: int, repair: Repair | None = None) -> Iterator[Call]:
    """The calls of a cell and a rank, without those that the edition does not allow.

    The last ones are repaired, for editions and limits that admit none of the usual structures.

    Args:
        contract: The edition.
        cell: A cell of the walk.
        rank: A key of `SHAPES`.
        repair: Accepts calls, and repairs others. None: that of the edition.
    """
    repair = repair or Repair(contract)
    refused = []
    if not fits(contract, cell.granularity, SHAPES[rank]):
        return
    for number, structure in enumerate(_structures(contract, cell, SHAPES[rank])):
        call = build(contract, structure, f"ordinary call of rank {rank}, {number}")
        if not repair.accepts(call):
            refused.append(call)
        elif contract.cell(call) == cell:
            yield call
    for call in refused[:MOST_REPAIRED]:
        repaired = repair(call)
        if repaired is not None and len(repaired.data.shape) == rank and contract.cell(repaired) == cell:
            yield repaired


def _structures(contract: Contract, cell: Cell, shape: tuple[int, ...]) -> Iterator[Structure]:
    domain = contract.domain
    if domain.family == "range":
        mode, _, narrow = cell.variant.partition(" ")
        widths = (True, False, None) if narrow else (None, False)
        outputs = ("", cell.out_dtype) if "dtype" in domain.attributes else ("",)
        for width, out in product(widths if "narrow_range" in domain.attributes else (None,), outputs):
            yield Range(cell.x_dtype, mode, shape, width, out, range_recipe="drawn", seed=len(shape))
        return
    outputs = ("", cell.out_dtype) if domain.output_dtype_attribute else ("",)
    outputs = outputs if cell.out_dtype == cell.scale_dtype else outputs[::-1]
    last = len(shape) - 1
    axes = (None,) if cell.granularity == "per_tensor" else tuple(dict.fromkeys((last, -1, 0, domain.default_axis)))
    block_sizes = BLOCK_SIZES if cell.granularity == "blocked" else (0,)
    zero_points = ("random", "zero") if cell.zero_point_dtype else ("zero",)
    for out, axis, block_size, zero_point in product(outputs, axes, block_sizes, zero_points):
        yield Linear(
            cell.x_dtype, cell.scale_dtype, cell.granularity, shape, cell.zero_point_dtype, out, axis, block_size,
            scale_recipe="drawn", zero_point_recipe=zero_point, seed=len(shape),
        )  # fmt: skip
