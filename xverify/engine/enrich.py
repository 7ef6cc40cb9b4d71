"""More values for cells whose wrong or mixed values are too few, or too plain, to name a recipe.

A recipe of two values is luck. A cell may have no more of them by chance: the calls that show the mistake are rare, small, or
special. The smallest of them is made again with other numbers, in the same layouts and surroundings. A gate does not do so: its
walk has many values of each cell, and a kernel that fails is reported at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from xverify.contracts.model import Cell
from xverify.core.call import BITS, Call, Tensor, code_dtype, encode_call
from xverify.core.dtypes import FLOATS, INTEGERS, encode, integer_range, values
from xverify.core.rounding import is_subnormal
from xverify.engine.plan import derived_seed
from xverify.engine.record import record
from xverify.engine.state import RunState
from xverify.verify import verdicts
from xverify.verify.evidence import BEYOND, is_poor
from xverify.verify.findings import Subject
from xverify.verify.tally import CellTally
from xverify.verify.verdicts import Judged

MOST_CELLS = 32
"""The number of cells for which calls are made."""

CALLS = 8
"""The number of calls with other codes of x, and of calls with another scale, for a cell."""

MORE = 13
"""The number of elements that are appended along one axis of x, times 2, 4, and so on, in half of the calls."""


def enrich(state: RunState) -> None:
    """Make more calls of cells whose wrong values name no recipe, one after the other."""
    for subject, cell, shown in _poor(state)[:MOST_CELLS]:
        seed = derived_seed(state.options.seed, "enrich", encode_call(shown.call).hex())
        for number, call in enumerate(_like(shown.call, np.random.default_rng(seed))):
            if state.is_time_to_shrink() or state.interrupted.is_set() or subject.name in state.pool.failures:
                return
            judged = verdicts.judge(shown.contract, call, 2 * BEYOND + number)
            if judged.cell != cell or judged.judgement.verdict != "allowed":
                continue
            outcome = state.pool.ask(subject, call)
            for discrepancy in state.tally.observe(judged, subject, outcome, is_judged=True):
                record(state, discrepancy, subject, judged, outcome)


def _poor(state: RunState) -> list[tuple[Subject, Cell, Judged]]:
    """The cells that need more values, each with the call to make again, in a fixed order."""
    cells = [
        (subject, cell, shown)
        for (subject, cell), tally in state.tally.cells.items()
        if state.tally.judged_by[subject, cell.contract] and (shown := _shown(tally)) is not None
    ]
    return sorted(cells, key=lambda entry: (entry[1].sort_key(), entry[0].label))


def _shown(tally: CellTally) -> Judged | None:
    """The call of a cell that shows its mistake; None if the cell has values enough, or no mistake."""
    shown = tally.worst or tally.mixture
    is_mixed = tally.mixture is not None and not tally.evidence.others
    if shown is None or tally.graphs or not (is_mixed or is_poor(tally.evidence)):
        return None
    judged = shown[0]
    return judged if judged.contract.domain.family == "linear" and judged.call.values else None


def _like(call: Call, rng: np.random.Generator) -> Iterator[Call]:
    """Yield calls with the structure of another one: with another scale, then with other codes of x.

    A scale of zeros, subnormal numbers, infinities and NaN stays in no call: its results tell no recipes apart. A subnormal one
    may be flushed.
    """
    x, scale = call.tensors["x"], call.tensors.get("scale")
    axis = _free_axis(call)
    for _ in range(CALLS if scale is not None else 0):
        assert scale is not None
        other = Tensor(scale.dtype, _scales(scale, rng), scale.layout)
        yield replace(call, tensors={**call.tensors, "scale": other}, origin="more values")
    for number in range(CALLS):
        shape = x.shape
        if number % 2 and axis is not None:
            shape = tuple(extent + MORE * (number + 1) * (index == axis) for index, extent in enumerate(shape))
        tensors = {**call.tensors, "x": Tensor(x.dtype, _codes(x.dtype, shape, rng), x.layout)}
        if scale is not None and not np.any(_is_plain(scale)):
            tensors["scale"] = Tensor(scale.dtype, _scales(scale, rng), scale.layout)
        yield replace(call, tensors=tensors, origin="more values")


def _free_axis(call: Call) -> int | None:
    """The last axis of x along which no parameter lies; None if there is none."""
    x = call.tensors["x"]
    if any(tensor.size > 1 for role, tensor in call.tensors.items() if role != "x"):
        return None
    rank, axis = len(x.shape), int(call.attributes.get("axis", 1))
    free = [index for index in range(rank) if "axis" not in call.attributes or index != axis % max(rank, 1)]
    return free[-1] if free else None


def _codes(dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.unsignedinteger]:
    """Codes of a type, half of them of numbers near 0."""
    every = rng.integers(0, 1 << BITS[dtype], shape, dtype=np.uint64)
    if dtype in INTEGERS:
        lowest, highest = integer_range(dtype)
        small = rng.integers(max(lowest, -300), min(highest, 300), shape, endpoint=True)
        near = np.asarray(encode(dtype, small)).astype(np.uint64)
        every = np.where(rng.random(shape) < 0.5, near, every)
    return np.asarray(every).astype(code_dtype(dtype)).reshape(shape)


def _is_plain(scale: Tensor) -> NDArray[np.bool_]:
    """The mask of finite numbers that are neither zero nor subnormal."""
    numbers = values(scale.dtype, scale.codes)
    subnormal = is_subnormal(scale.codes, scale.dtype) if scale.dtype in FLOATS else np.zeros(numbers.shape, np.bool_)
    return np.asarray(np.isfinite(numbers) & (numbers != 0) & ~subnormal)


def _scales(scale: Tensor, rng: np.random.Generator) -> NDArray[np.unsignedinteger]:
    """Codes of numbers between 1/8 and 8 in magnitude, with the signs of a scale."""
    exponents, fractions = rng.integers(-3, 3, scale.shape), 1 + rng.random(scale.shape)
    numbers = np.ldexp(fractions if scale.dtype in FLOATS else 1.0, exponents)
    return np.asarray(encode(scale.dtype, np.copysign(numbers, values(scale.dtype, scale.codes)))).reshape(scale.shape)
