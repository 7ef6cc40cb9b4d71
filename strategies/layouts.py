"""Calls with every memory layout of every operand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count, product

from xverify.contracts.model import Contract
from xverify.core.call import LAYOUTS, LEAST_RANK, Call
from xverify.strategies.structures import Linear, Range, Structure, build, laid_out
from xverify.strategies.values import RANGE_RECIPES, SCALE_RECIPES
from xverify.strategies.walk import Picks, fits, range_choices, scale_outputs

SHAPES = ((3, 4, 5), (4, 6), (2, 3, 4, 5))
"""Rank 3 first, so that C and Fortran order differ in more strides. All extents of a shape differ."""

IN_EVERY_RANK = ("row-slice", "permuted")
"""Layouts that few types of x get in the rank of each shape. Many types take turns."""

FEW_TYPES = 2
"""The largest number of types of x that do not take turns."""


def layout_calls(contract: Contract) -> Iterator[Call]:
    """Calls in which one operand has another layout than C order.

    There is every layout that differs from C order in the operand's rank, for each operand, granularity (or mode) and type of x.
    """
    every_rank = len(contract.domain.x_dtypes) <= FEW_TYPES
    for number, structure in enumerate(_structures(contract)):
        for rank, shape in enumerate(SHAPES):
            others = IN_EVERY_RANK if every_rank or number % len(SHAPES) == rank else ()
            layouts = [name for name in LAYOUTS[1:] if name in others or (rank == 0 and name not in IN_EVERY_RANK)]
            call = build(contract, replace(structure, shape=shape), f"layout {number}")
            for role, layout in product(call.tensors, layouts):
                tensor = call.tensors[role]
                if tensor.shape and len(tensor.shape) >= LEAST_RANK.get(layout, 0):
                    changed = {**call.tensors, role: laid_out(tensor.dtype, tensor.codes, layout)}
                    yield replace(call, tensors=changed, origin=f"{call.origin}, {role} {layout}")


def _structures(contract: Contract) -> Iterator[Structure]:
    domain, turn = contract.domain, count()
    if domain.family == "range":
        for dtype, mode in product(domain.x_dtypes, domain.modes):
            n = next(turn)
            pick = Picks(n)
            _, _, narrow, out = pick([c for c in range_choices(domain) if c[:2] == (dtype, mode)])
            yield Range(dtype, mode, SHAPES[0], narrow, out, range_recipe=pick(RANGE_RECIPES), seed=9000 + n)
        return
    for granularity, x_dtype in product(domain.granularities, domain.x_dtypes):
        if not fits(contract, granularity, SHAPES[0]):
            continue
        n = next(turn)
        pick = Picks(n)
        scale, out = pick(scale_outputs(domain))
        yield Linear(
            x_dtype, scale, granularity, SHAPES[0], pick(domain.zero_points_for(x_dtype) or ("",)), out,
            None if domain.default_axis == 1 or granularity == "per_tensor" else 1,
            3 if granularity == "blocked" else 0,
            scale_recipe=pick(SCALE_RECIPES), zero_point_recipe="random", seed=9000 + n,
        )  # fmt: skip
