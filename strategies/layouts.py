"""Calls with every memory layout of every operand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count, product

from xverify.contracts.model import Contract
from xverify.core.call import LAYOUTS, Call
from xverify.strategies.structures import Linear, Range, Structure, build, laid_out
from xverify.strategies.values import RANGE_RECIPES, SCALE_RECIPES
from xverify.strategies.walk import Picks, fits, range_choices, scale_outputs

SHAPE = (3, 4, 5)
"""Rank 3, so that C and Fortran order differ in more strides. All extents differ."""


def layout_calls(contract: Contract) -> Iterator[Call]:
    """Calls in which one operand has another layout than C order.

    There is every layout, for each operand of rank 1 or more, each granularity (or mode) and each type of x.
    """
    for number, structure in enumerate(_structures(contract)):
        call = build(contract, structure, f"layout {number}")
        for role, tensor in call.tensors.items():
            for layout in LAYOUTS if tensor.shape else ():
                if layout != "C":
                    changed = {**call.tensors, role: laid_out(tensor.dtype, tensor.codes, layout)}
                    yield replace(call, tensors=changed, origin=f"{call.origin}, {role} {layout}")


def _structures(contract: Contract) -> Iterator[Structure]:
    domain, turn = contract.domain, count()
    if domain.family == "range":
        for dtype, mode in product(domain.x_dtypes, domain.modes):
            n = next(turn)
            pick = Picks(n)
            _, _, narrow, out = pick([c for c in range_choices(domain) if c[:2] == (dtype, mode)])
            yield Range(dtype, mode, SHAPE, narrow, out, range_recipe=pick(RANGE_RECIPES), seed=9000 + n)
        return
    for granularity, x_dtype in product(domain.granularities, domain.x_dtypes):
        if not fits(contract, granularity, SHAPE):
            continue
        n = next(turn)
        pick = Picks(n)
        scale, out = pick(scale_outputs(domain))
        yield Linear(
            x_dtype, scale, granularity, SHAPE, pick(domain.zero_points_for(x_dtype) or ("",)), out,
            None if domain.default_axis == 1 or granularity == "per_tensor" else 1,
            3 if granularity == "blocked" else 0,
            scale_recipe=pick(SCALE_RECIPES), zero_point_recipe="random", seed=9000 + n,
        )  # fmt: skip
