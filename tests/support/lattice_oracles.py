"""Implementations that answer in this process: each follows a recipe, or one recipe here and another one there; and a cell
in which one of them is asked, judged and tallied as a run would."""

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
"""An implementation: what it answers to a call."""

Mask = Callable[[Call], Any]
"""For a call, which of its values are meant; broadcasts to the output's shape."""

SUBJECT = Subject("synthetic", "1", "oracle")

ROUNDS = 6
"""How often calls are sought on which the readings that are left differ from the truth."""


# -- implementations --------------------------------------------------------------------------------------


def follows(contract: Contract, recipe: Recipe) -> Answer:
    """Every value by one recipe. A mistake that cannot be made in a call is not made."""

    def answer(call: Call) -> Outcome:
        operands, reading = contract.operands(call), recipe
        if isinstance(recipe, Misread):
            operands, reading = recipe.mistake.operands(call, operands) or operands, recipe.reading
        shaped = np.broadcast_to(reading.evaluate(operands), operands.shape)
        return Outcome("tensor", Tensor(operands.output_dtype, np.ascontiguousarray(shaped)))

    return answer


def in_part(first: Answer, second: Answer, where: Mask) -> Answer:
    """As ``second`` on the values that ``where`` holds, as ``first`` on all others."""
    return changed(first, lambda call, codes: np.where(where(call), second(call).tensor.codes, codes))


def changed(first: Answer, change: Callable[[Call, NDArray[Any]], NDArray[Any]]) -> Answer:
    """As ``first``, with its codes changed by ``change(call, codes)``."""

    def answer(call: Call) -> Outcome:
        given = first(call).tensor
        codes = change(call, given.codes.copy())
        return Outcome("tensor", Tensor(given.dtype, np.ascontiguousarray(codes.astype(given.codes.dtype))))

    return answer


# -- one cell ---------------------------------------------------------------------------------------------


class Asked:
    """One implementation asked in one cell."""

    def __init__(self, contract: Contract, answer: Answer) -> None:
        self.contract, self.answer = contract, answer
        self.tally, self.number = Tally(), 0
        self.at_once: list[Discrepancy] = []
        self.cell: Cell | None = None
        self.last: Judged | None = None

    def ask(self, *calls: Call | Probe) -> None:
        """Calls of the lap know which of their values were chosen; others do not."""
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
        """The readings that the values have not excluded: those that the text admits, and others. Where subnormals were
        flushed only the others say so."""
        assert self.last is not None
        admitted = [r for r in self.contract.readings(self.last.call) if r.name in (self.row.alive or ())]
        return [*([] if self.row.flushed else admitted), *(self.row.evidence.others or ())]

    def violation(self) -> Discrepancy | None:
        """What is said of the cell's wrong values at the run's end."""
        self.tally.settle()
        found = [violation for _, _, _, violation, _, _ in self.tally.violations()]
        assert len(found) <= 1
        return found[0] if found else None


# -- linear cells: their calls, and triples of their types --------------------------------------------------


def lap_of(contract: Contract, structure: Linear) -> list[Probe]:
    """The lap's calls of a structure's cell."""
    return list(cell_probes(contract, small(contract, structure), structure, None))


def small(contract: Contract, structure: Linear) -> Call:
    """A small call of the cell."""
    return build(contract, replace(structure, shape=(2,) if structure.granularity == "per_tensor" else (2, 2)))


def triples(contract: Contract, structure: Linear, rng: np.random.Generator, count: int = 256) -> Probes:
    """Scales by every recipe and of any bits, each with values of x of which a third lies about the zero point."""
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
        # Of int32 the text of ONNX wants 0, that of oneDNN a difference within int32.
        outside = np.clip(zero_point.view(np.int32), -(2**31) + 512, 2**31 - 512).view(np.uint32)
        zero_point = outside if contract.id.startswith("onednn") else np.zeros_like(zero_point)
    near = zero_point[:, None].astype(np.int64) + rng.integers(-2, 3, (count, 4))
    if types.x in INTEGERS:
        x[:, :4] = near & ((1 << BITS[types.x]) - 1)
    order = rng.permutation(count)
    return Probes(x[order], zero_point[order], scale)


def codes(dtype: str, count: int, rng: np.random.Generator) -> NDArray[Any]:
    """Any codes of a type."""
    return rng.integers(0, 1 << BITS[dtype], count, dtype=np.uint64).astype(code_dtype(dtype))


def ask_triples(asked: Asked, structure: Linear, some: Probes) -> None:
    """Calls of the structure's cell with these triples, at least two of them."""
    calls = cell_probes(asked.contract, small(asked.contract, structure), structure, some)
    asked.ask(*(probe.call for probe in calls))


def tell_apart(asked: Asked, structure: Linear, truth: Reading, rng: np.random.Generator) -> None:
    """Ask calls on which the readings that are left differ from one another or from the truth, as far as drawn triples show
    it: what the values do not exclude cannot be told."""
    types = types_of(asked.contract.operands(small(asked.contract, structure)))
    for turn in range(ROUNDS):
        some = triples(asked.contract, structure, rng, 256 if turn < 2 else 2048)
        telling = np.flatnonzero(_differing([truth, *asked.left()], some, types))
        if telling.size:
            ask_triples(asked, structure, some.chosen(np.resize(telling, max(2, min(8, telling.size))).tolist()))


def _differing(readings: list[Reading], some: Probes, types: Types) -> NDArray[np.bool_]:
    """For which scales some reading gives another value than the first."""
    operands = some.operands(types)
    first, *others = (given(reading, operands).reshape(len(some), -1) for reading in readings[:32])
    differ = np.zeros(len(some), np.bool_)
    for other in others:
        differ |= (other != first).any(axis=1)
    return differ


def given(reading: Reading, operands: Operands) -> NDArray[Any]:
    """A reading's codes, any NaN equal to any other."""
    return canonical(np.asarray(reading.evaluate(operands)), operands.output_dtype)


def surviving(readings: Iterable[Stepwise], operands: Operands, codes: NDArray[Any]) -> tuple[Stepwise, ...]:
    """Those of the readings that give these codes too."""
    wanted = canonical(np.broadcast_to(codes, operands.shape), operands.output_dtype)
    return tuple(r for r in readings if np.array_equal(canonical(r.evaluate(operands), operands.output_dtype), wanted))
