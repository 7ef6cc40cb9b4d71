"""Implementations in this process that follow one recipe, or two, and a cell that tallies them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic.reading import Operands, Reading
from xverify.arithmetic.readings import Stepwise
from xverify.arithmetic.simplify import Types, types_of
from xverify.contracts.model import Cell, Contract
from xverify.core.bits import canonical
from xverify.core.call import BITS, Call, Outcome, Tensor, code_dtype
from xverify.core.dtypes import INTEGERS
from xverify.strategies import build, values
from xverify.strategies.lap import Probe, cell_probes
from xverify.strategies.probes import WIDTH, Probes
from xverify.strategies.structures import Linear
from xverify.strategies.values import SCALE_RECIPES
from xverify.verify.attribute import Misread, Recipe
from xverify.verify.findings import Discrepancy, Subject
from xverify.verify.tally import CellTally, Tally
from xverify.verify.verdicts import Judged, judge

Answer = Callable[[Call], Outcome]
"""An implementation: a function from a call to its answer."""

Mask = Callable[[Call], Any]
"""A function from a call to a mask of its values, which broadcasts to the output's shape."""

SUBJECT = Subject("synthetic", "1", "oracle")

ROUNDS = 6
"""Rounds of the search for calls on which the remaining readings differ from the truth."""


# -- implementations --------------------------------------------------------------------------------------


def follows(contract: Contract, recipe: Recipe) -> Answer:
    """Follow one recipe. A mistake that a call does not allow is not made."""

    def answer(call: Call) -> Outcome:
        operands, reading = contract.operands(call), recipe
        if isinstance(recipe, Misread):
            operands, reading = recipe.mistake.operands(call, operands) or operands, recipe.reading
        shaped = np.broadcast_to(reading.evaluate(operands), operands.shape)
        return Outcome("tensor", Tensor(operands.output_dtype, np.ascontiguousarray(shaped)))

    return answer


def in_part(first: Answer, second: Answer, where: Mask) -> Answer:
    """Follow ``second`` on the values of the mask ``where``, and ``first`` on all others."""
    return changed(first, lambda call, codes: np.where(where(call), second(call).tensor.codes, codes))


def changed(first: Answer, change: Callable[[Call, NDArray[Any]], NDArray[Any]]) -> Answer:
    """Follow ``first``, with its codes changed by ``change(call, codes)``."""

    def answer(call: Call) -> Outcome:
        given = first(call).tensor
        codes = change(call, given.codes.copy())
        return Outcome("tensor", Tensor(given.dtype, np.ascontiguousarray(codes.astype(given.codes.dtype))))

    return answer


# -- one cell ---------------------------------------------------------------------------------------------


class Asked:
    """One implementation and its tally in one cell."""

    def __init__(self, contract: Contract, answer: Answer) -> None:
        self.contract, self.answer = contract, answer
        self.tally, self.number = Tally(), 0
        self.at_once: list[Discrepancy] = []
        self.cell: Cell | None = None
        self.last: Judged | None = None

    def ask(self, *calls: Call | Probe) -> None:
        """Ask calls. A probe of the lap knows which of its values were chosen."""
        for one in calls:
            call, places, more = (one, None, False) if isinstance(one, Call) else (one.call, one.places, one.more)
            judged = replace(judge(self.contract, call, self.number), places=places, more=more)
            assert judged.judgement.verdict == "allowed", judged.judgement
            assert self.cell in (None, judged.cell), "all calls are of one cell"
            self.number += 1
            self.at_once += self.tally.observe(judged, SUBJECT, self.answer(call), True)
            self.cell, self.last = judged.cell, judged

    @property
    def row(self) -> CellTally:
        assert self.cell is not None
        return self.tally.cells[SUBJECT, self.cell]

    def left(self) -> list[Reading]:
        """Return the readings that no value has excluded, admitted ones first.

        If subnormals were flushed, only readings that are not admitted are left.
        """
        assert self.last is not None
        admitted = [r for r in self.contract.readings(self.last.call) if r.name in (self.row.alive or ())]
        return [*([] if self.row.flushed else admitted), *(self.row.evidence.others or ())]

    def violation(self) -> Discrepancy | None:
        """Return the finding on the cell's wrong values at the end of a run."""
        self.tally.settle()
        found = [violation for _, _, _, violation, _, _ in self.tally.violations()]
        assert len(found) <= 1, [each.summary for each in found]
        return found[0] if found else None


# -- linear cells: their calls, and triples of their types --------------------------------------------------


def lap_of(contract: Contract, structure: Linear) -> list[Probe]:
    """Return the lap's calls of a structure's cell."""
    return list(cell_probes(contract, small(contract, structure), structure, None))


def small(contract: Contract, structure: Linear) -> Call:
    """Return a small call of the cell."""
    return build(contract, replace(structure, shape=(2,) if structure.granularity == "per_tensor" else (2, 2)))


def triples(contract: Contract, structure: Linear, rng: np.random.Generator, count: int = 256) -> Probes:
    """Draw scales by every recipe and of any bits, with values of x. A third lie near the zero point."""
    call = small(contract, structure)
    types = types_of(contract.operands(call))
    each = count // 16
    drawn = [values.scales(types.scale, (each,), recipe, rng) for recipe in SCALE_RECIPES]
    scale = np.concatenate([*drawn, codes(types.scale, count - each * len(SCALE_RECIPES), rng)])
    x = values.data(types.x, (count, WIDTH), rng)
    if not types.zero_point:
        x[:, :4] = rng.integers(0, 4, (count, 4))
        return Probes(x, None, scale)
    zero_point = codes(types.zero_point, count, rng)
    zero_point[: count // 4] = values.data(types.zero_point, (count // 4,), rng)
    if types.zero_point == "int32":
        # For int32, ONNX wants a zero point of 0, and oneDNN a difference within int32.
        outside = np.clip(zero_point.view(np.int32), -(2**31) + 512, 2**31 - 512).view(np.uint32)
        zero_point = outside if contract.id.startswith("onednn") else np.zeros_like(zero_point)
    near = zero_point[:, None].astype(np.int64) + rng.integers(-2, 3, (count, 4))
    if types.x in INTEGERS:
        x[:, :4] = near & ((1 << BITS[types.x]) - 1)
    order = rng.permutation(count)
    return Probes(x[order], zero_point[order], scale)


def codes(dtype: str, count: int, rng: np.random.Generator) -> NDArray[Any]:
    """Draw any codes of a type."""
    return rng.integers(0, 1 << BITS[dtype], count, dtype=np.uint64).astype(code_dtype(dtype))


def ask_triples(asked: Asked, structure: Linear, some: Probes) -> None:
    """Ask calls of the structure's cell with these triples. At least two triples are needed."""
    calls = cell_probes(asked.contract, small(asked.contract, structure), structure, some)
    asked.ask(*(probe.call for probe in calls))


def tell_apart(asked: Asked, structure: Linear, truth: Reading, rng: np.random.Generator) -> None:
    """Ask calls on which the remaining readings differ from one another or from the truth.

    Only drawn triples are tried, so some readings may remain.
    """
    types = types_of(asked.contract.operands(small(asked.contract, structure)))
    for turn in range(ROUNDS):
        some = triples(asked.contract, structure, rng, 256 if turn < 2 else 2048)
        telling = np.flatnonzero(_differing([truth, *asked.left()], some, types))
        if telling.size:
            ask_triples(asked, structure, some.chosen(np.resize(telling, max(2, min(8, telling.size))).tolist()))


def _differing(readings: list[Reading], some: Probes, types: Types) -> NDArray[np.bool_]:
    """Return a mask of the scales on which some reading differs from the first."""
    operands = some.operands(types)
    first, *others = (given(reading, operands).reshape(len(some), -1) for reading in readings[:32])
    differ = np.zeros(len(some), np.bool_)
    for other in others:
        differ |= (other != first).any(axis=1)
    return differ


def given(reading: Reading, operands: Operands) -> NDArray[Any]:
    """Return a reading's codes with one code for all NaNs."""
    return canonical(np.asarray(reading.evaluate(operands)), operands.output_dtype)


def surviving(readings: Iterable[Stepwise], operands: Operands, codes: NDArray[Any]) -> tuple[Stepwise, ...]:
    """Return the readings that give these codes too."""
    wanted = canonical(np.broadcast_to(codes, operands.shape), operands.output_dtype)
    return tuple(r for r in readings if np.array_equal(canonical(r.evaluate(operands), operands.output_dtype), wanted))
