"""A contract that a reference implementation defines.

Only its results are legal, and a call that it refuses is forbidden.

A gate uses it to check that a kernel is a drop-in replacement.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from xverify.arithmetic.reading import Operands
from xverify.contracts.model import ALLOWED, Cell, Clause, Contract, FixedResult, Judgement
from xverify.core.call import Call, Outcome
from xverify.core.dtypes import FLOATS
from xverify.verify.verdicts import SAME_AS

BEYOND = "beyond the text"
"""The variant of cells for calls that the text does not allow but the reference answers."""

OutcomeOf = Callable[[Call], Outcome]
"""outcome_of(call): the outcome of the reference."""


def like(base: Contract, name: str, version: str, outcome_of: OutcomeOf) -> Contract:
    """The edition as a reference implementation defines it.

    Args:
        base: The edition whose calls the reference takes.
        name: The reference.
    """
    clause = Clause(
        f"{base.id}/{SAME_AS}{name}",
        "",
        f"{name} {version}",
        f"what {name} {version} answers, bit for bit, and refuses",
    )

    def judge(call: Call) -> Judgement:
        outcome = outcome_of(call)
        if outcome.kind == "rejected":
            return Judgement("forbidden", (clause.id,))
        if outcome.tensor is None or outcome.tensor.dtype not in FLOATS:
            return Judgement("unspecified", (clause.id,))
        return ALLOWED

    def in_text(call: Call) -> bool:
        return base.judge(call).verdict == "allowed"

    def fixed_result(call: Call) -> FixedResult:
        tensor = outcome_of(call).tensor
        assert tensor is not None, "the judge allows only what was answered"
        return FixedResult(tensor.dtype, tensor.codes)

    def operands(call: Call) -> Operands:
        if in_text(call):
            return base.operands(call)
        tensor = outcome_of(call).tensor
        return Operands({}, {}, "" if tensor is None else tensor.dtype, () if tensor is None else tensor.shape)

    def cell(call: Call) -> Cell:
        return base.cell(call) if in_text(call) else _cell_beyond(base, call, outcome_of(call))

    return replace(
        base,
        document=f"{name} {version}",
        clauses={**base.clauses, clause.id: clause},
        judge=judge,
        cell=cell,
        operands=operands,
        readings=lambda call: base.readings(call) if in_text(call) else (),
        value_clause=lambda call, reading: clause.id,
        text_checks=tuple,
        official_cases=tuple,
        fixed_result=fixed_result,
    )


def _cell_beyond(base: Contract, call: Call, outcome: Outcome) -> Cell:
    scale = call.tensors.get("scale") or call.tensors.get("min_range")
    zero_point = call.tensors.get("zero_point")
    return Cell(
        base.id,
        call.data.dtype,
        scale.dtype if scale is not None else "",
        zero_point.dtype if zero_point is not None else "",
        outcome.tensor.dtype if outcome.tensor is not None else "",
        "",
        BEYOND,
    )
