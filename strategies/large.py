"""Calls of large tensors: extents past 65 535 in each position, many blocks, many channels, many rows.

Kernels take other paths for them. A CUDA grid has at most 65 535 blocks in its second and third direction. Indices of 16 bits
wrap. The last thread gets a smaller part than the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from xverify.contracts.model import Contract
from xverify.core.call import BITS, LEAST_RANK, Call
from xverify.strategies.structures import Linear, Range, Structure
from xverify.strategies.walk import ORDINARY, Picks, fits, range_choices, scale_outputs, zero_point_choices

LONG = 65_599
"""An extent past 65 535. Neither it, its small multiples nor the part of a thread is a whole number of vectors."""

MANY = 262_157
"""A number of rows past 262 144. Such a tensor also has more than 2^18 elements."""


STEPS = ((1 << 19) + 27, (1 << 21) + 1_051, (1 << 24) + 1_051)
"""The numbers of elements of the largest calls. The time of each one predicts the time of the next."""

HUGE_ROW = (1 << 30) + 2_051
"""The extent of each of the two rows of a huge call."""

COLUMNS = 4_096
"""The columns of the largest calls that are not per tensor."""


@dataclass(frozen=True)
class Kind:
    """The granularity, shape, axis and block size of a large call."""

    granularity: str
    shape: tuple[int, ...]
    axis: int = 0
    """Counted from the front. It means nothing per tensor."""
    block_size: int = 0


KINDS = (
    Kind("per_tensor", (LONG,)),
    Kind("per_axis", (LONG, 3), axis=1),
    Kind("blocked", (LONG, 3), axis=1, block_size=2),
    Kind("per_tensor", (LONG, 3)),
    Kind("per_axis", (2, LONG), axis=1),
    Kind("blocked", (1, 2 * LONG + 1), axis=1, block_size=2),
    Kind("per_tensor", (MANY, 2)),
    Kind("per_axis", (MANY, 2), axis=1),
    Kind("blocked", (MANY, 2), axis=1, block_size=2),
    Kind("per_tensor", (3, LONG)),
    Kind("per_axis", (LONG, 2), axis=0),
    Kind("blocked", (2 * LONG + 1, 1), axis=0, block_size=2),
    Kind("per_tensor", (LONG, 2, 1)),
    Kind("per_axis", (LONG, 1, 2), axis=0),
    Kind("blocked", (LONG, 1, 3), axis=2, block_size=2),
    Kind("per_axis", (3, LONG), axis=0),
    Kind("blocked", (3, LONG), axis=0, block_size=2),
    Kind("per_axis", (2, LONG, 1), axis=0),
    Kind("blocked", (2 * LONG + 1, 1, 1), axis=0, block_size=2),
    Kind("per_axis", (LONG, 2, 1), axis=1),
    Kind("blocked", (2, LONG), axis=1, block_size=32),
)
"""Every kind of large call.

Last, second-last and third-last extents are long, for each granularity. So are the numbers of channels, of blocks along each
axis, and of rows of a blocked scale.
"""

CONTIGUOUS, ELSEWHERE = ("C",), ("row-slice", "permuted", "F", "strided", "reversed")
"""Layouts of the two calls of each kind: in C order, and in another layout. The largest kinds have the first call only."""


def large_structures(contract: Contract) -> Iterator[Structure]:
    """Every kind of large call in two layouts.

    The types of x take turns, since such a call costs as much as 20 others.
    """
    domain = contract.domain
    types = domain.x_dtypes
    turns = enumerate(product(KINDS, domain.modes or ("",)))
    kinds = [(number, kind, mode) for number, (kind, mode) in turns if _fits(contract, kind)]
    for turn, (number, kind, mode) in enumerate(kinds):
        # With other scales, results would be zero, infinite or NaN, and would hide values that were never computed.
        every = ((CONTIGUOUS, 0), (ELSEWHERE, (len(types) + 1) // 2))
        for layouts, first in every if max(kind.shape) < MANY else every[:1]:
            x_dtype = types[(turn + first) % len(types)]
            pick = Picks(200_000 + 2 * number + bool(first))
            layout = pick([name for name in layouts if LEAST_RANK.get(name, 0) <= len(kind.shape)])
            seed = 300_000 + 2 * number
            if domain.family == "range":
                _, _, narrow, out = pick([c for c in range_choices(domain) if c[:2] == (x_dtype, mode)])
                yield Range(x_dtype, mode, kind.shape, narrow, out, layout, "drawn", seed)
                continue
            scale, out = pick(scale_outputs(domain))
            yield Linear(
                x_dtype, scale, kind.granularity, kind.shape, pick(zero_point_choices(domain, x_dtype)), out,
                _axis(contract, kind, pick), kind.block_size, layout, pick(ORDINARY), pick(("random", "middle")), seed,
                pick(layouts),
            )  # fmt: skip


def largest_structure(contract: Contract, size: int) -> Structure:
    """A call with at least ``size`` elements, in the cheapest type and granularity."""
    domain = contract.domain
    x_dtype = next((name for name in ("int8", "uint8") if name in domain.x_dtypes), domain.x_dtypes[0])
    if domain.family == "range":
        dtype, mode, narrow, out = next(choice for choice in range_choices(domain) if choice[0] == x_dtype)
        return Range(dtype, mode, (size,), narrow, out, "C", "drawn", size)
    pairs = scale_outputs(domain)
    scale, out = ("float32", "") if ("float32", "") in pairs else pairs[0]
    granularity = "per_tensor" if "per_tensor" in domain.granularities else domain.granularities[0]
    shape = (size,) if granularity == "per_tensor" else (-(-size // COLUMNS), COLUMNS)
    return Linear(
        x_dtype, scale, granularity, shape, zero_point_choices(domain, x_dtype)[0], out,
        None if granularity == "per_tensor" or domain.default_axis == 1 else 1,
        32 if granularity == "blocked" else 0, seed=size,
    )  # fmt: skip


def huge_structure(contract: Contract) -> Structure | None:
    """A per-tensor call of two values of at most 8 bits, with a narrow output.

    None if the domain has no such call.
    """
    domain = contract.domain
    narrow = [name for name in ("int8", "uint8", *domain.x_dtypes) if name in domain.x_dtypes and BITS[name] <= 8]
    if domain.family == "range" or not narrow or "per_tensor" not in domain.granularities:
        return None
    scale, out = min(scale_outputs(domain), key=lambda pair: (BITS[pair[1] or pair[0]], pair[1] != ""))
    return Linear(narrow[0], scale, "per_tensor", (2, 1), zero_point_choices(domain, narrow[0])[0], out, seed=31)


def huge_call(small: Call) -> Call:
    """The call with each of its two values repeated to more than 2^31 elements, which need no memory."""
    x = small.data
    tensors = {**small.tensors, "x": replace(x, codes=np.broadcast_to(x.codes, (2, HUGE_ROW)), layout="C")}
    return replace(small, tensors=tensors)


def _fits(contract: Contract, kind: Kind) -> bool:
    if contract.domain.family == "range":
        return kind.granularity == "per_tensor"
    return kind.granularity in contract.domain.granularities and fits(contract, kind.granularity, kind.shape)


def _axis(contract: Contract, kind: Kind, pick: Picks) -> int | None:
    """The attribute, counted from the front or from the back. None for the edition's default axis."""
    default = contract.domain.default_axis
    if kind.granularity == "per_tensor":
        return None
    if default is None:
        return kind.axis
    return pick((kind.axis, kind.axis - len(kind.shape), *([None] if default == kind.axis else [])))
