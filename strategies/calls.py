"""Hypothesis strategies of calls. Hypothesis draws the structure and a seed of the numbers.

(Measured: arrays drawn by Hypothesis have a median of 5 distinct codes in 256. A seeded permutation of all codes costs less.)
"""

from __future__ import annotations

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from xverify.contracts.model import Contract
from xverify.core.call import LAYOUTS, Call
from xverify.strategies import walk
from xverify.strategies.invalid_calls import breakable, openable, opened, spoiled
from xverify.strategies.repair import Repair
from xverify.strategies.structures import Linear, Range, Structure, build
from xverify.strategies.values import RANGE_RECIPES, SCALE_RECIPES, ZERO_POINT_RECIPES

SEEDS = st.integers(0, 2**32 - 1)
MOST_VALUES = 4096


@st.composite
def shapes(draw: DrawFn, ranks: tuple[int, ...] = ()) -> tuple[int, ...]:
    """Shapes of some ranks, else of rank 0 to 6, with at most 4 096 elements.

    Extents near vector widths are frequent.
    """
    rank = draw(st.sampled_from(ranks) if ranks else st.integers(0, 6))
    shape: list[int] = []
    room = MOST_VALUES
    for _ in range(rank):
        extents = (
            st.sampled_from([e for e in walk.TAILS if e <= room])
            if draw(st.booleans())
            else st.integers(0, min(room, 9))
        )
        shape.append(draw(extents))
        room //= max(shape[-1], 1)
    return tuple(shape)


@st.composite
def linear_structures(draw: DrawFn, contract: Contract) -> Linear:
    """Structures of valid calls of a linear operator."""
    domain = contract.domain
    x_dtype = draw(st.sampled_from(domain.x_dtypes))
    scale, out = draw(st.sampled_from(walk.scale_outputs(domain)))
    zero_point = draw(st.sampled_from(walk.zero_point_choices(domain, x_dtype)))
    shape = draw(shapes(domain.ranks))
    fitting = [g for g in domain.granularities if walk.fits(contract, g, shape)]
    assume(fitting)
    granularity = draw(st.sampled_from(fitting))
    axis = draw(st.sampled_from(walk.axes(domain, granularity, shape)))
    from_front = (axis if axis is not None else domain.default_axis or 0) % len(shape) if shape else 0
    block_size = 0
    if granularity == "blocked":
        around = st.sampled_from(walk.block_sizes(shape, from_front))
        block_size = draw(st.one_of(around, st.integers(walk.least_block(shape), 2 * shape[from_front] + 1)))
    return Linear(
        x_dtype,
        scale,
        granularity,
        shape,
        zero_point,
        out,
        axis,
        block_size,
        draw(st.sampled_from(LAYOUTS)),
        draw(st.sampled_from(SCALE_RECIPES)),
        draw(st.sampled_from(ZERO_POINT_RECIPES)),
        draw(SEEDS),
        draw(st.sampled_from(LAYOUTS)),
    )


@st.composite
def range_structures(draw: DrawFn, contract: Contract) -> Range:
    """Structures of valid calls of TensorFlow's Dequantize."""
    dtype, mode, narrow, out = draw(st.sampled_from(walk.range_choices(contract.domain)))
    layout, recipe = draw(st.sampled_from(LAYOUTS)), draw(st.sampled_from(RANGE_RECIPES))
    return Range(dtype, mode, draw(shapes()), narrow, out, layout, recipe, draw(SEEDS))


def structures(contract: Contract) -> SearchStrategy[Structure]:
    """Structures of valid calls under a contract."""
    return linear_structures(contract) if contract.domain.family == "linear" else range_structures(contract)


@st.composite
def calls(draw: DrawFn, contract: Contract, repair: Repair | None = None) -> Call:
    """Valid calls under a contract, and within the limits of ``repair``."""
    call = (repair or Repair(contract))(build(contract, draw(structures(contract)), "hypothesis"))
    assume(call is not None)
    assert call is not None
    return call


@st.composite
def invalid_calls(draw: DrawFn, contract: Contract, clause: str | None = None, repair: Repair | None = None) -> Call:
    """Calls that break exactly one clause of the contract: a certain one, or any that can be broken."""
    name = clause or draw(st.sampled_from(breakable(contract)))
    call = spoiled(contract, draw(calls(contract, repair)), name, np.random.default_rng(draw(SEEDS)))
    assume(call is not None)
    assert call is not None
    return call


@st.composite
def unspecified_calls(
    draw: DrawFn, contract: Contract, clause: str | None = None, repair: Repair | None = None
) -> Call:
    """Calls that exactly one clause of the contract leaves open: a certain one, or any."""
    name = clause or draw(st.sampled_from(openable(contract)))
    call = opened(contract, draw(calls(contract, repair)), name, np.random.default_rng(draw(SEEDS)))
    assume(call is not None)
    assert call is not None
    return call
