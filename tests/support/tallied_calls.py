"""Calls of one cell of ONNX's DequantizeLinear-13, hand-made answers, and their tally."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xverify import contracts
from xverify.arithmetic.readings import Stepwise
from xverify.core.call import Call, Outcome, Tensor
from xverify.core.dtypes import tensor
from xverify.verify.attribute import named
from xverify.verify.findings import Subject
from xverify.verify.tally import CellTally, Tally
from xverify.verify.verdicts import Judged, judge

ONNX = contracts.get("ai.onnx/DequantizeLinear-13")
ONE, TWO = Subject("one", "1", "oracle"), Subject("two", "1", "oracle")
REJECTED, UNSUPPORTED = Outcome("rejected", error="ValueError"), Outcome("unsupported", error="NotImplemented")
CRASH, HANG = Outcome("crash", message="Fatal: died"), Outcome("hang")

SINGLE, EXACT = 16777217, 16777219
"""Times 3, both results depend on whether x is rounded to float32 first.

Truncation gives the result of the reading float32 for the first and of the reading exact for the second.
"""
TRUNCATED = Stepwise(final="truncated").name


def asked(
    values: Sequence[int], number: int = 0, scale: float = 3.0, dtype: str = "int32", shape: tuple[int, ...] = (-1,)
) -> Judged:
    """Return an allowed call per tensor, without a zero point."""
    x = tensor(dtype, np.reshape(values, shape))
    return judge(ONNX, Call(ONNX.id, {"x": x, "scale": tensor("float32", scale)}), number)


def open_call() -> Judged:
    """Return a call that the clause on zero points of int32 leaves open."""
    tensors = {"x": tensor("int32", [1, 2]), "scale": tensor("float32", 3.0), "zero_point": tensor("int32", 5)}
    return judge(ONNX, Call(ONNX.id, tensors))


def forbidden_call() -> Judged:
    return judge(ONNX, Call(ONNX.id, {"x": tensor("int16", [1]), "scale": tensor("float32", 1.0)}))


def by(judged: Judged, reading: str = "exact") -> Outcome:
    operands = judged.contract.operands(judged.call)
    codes = np.ascontiguousarray(named(judged.contract, reading).evaluate(operands))
    return Outcome("tensor", Tensor(operands.output_dtype, codes))


def moved(judged: Judged, steps: int, values: int = 1) -> Outcome:
    """Return the exact answer with its last values changed by some steps."""
    codes = by(judged).tensor.codes.copy()
    codes.reshape(-1)[-values:] += codes.dtype.type(steps)
    return Outcome("tensor", Tensor("float32", codes))


def numbers(*values: float) -> Outcome:
    return Outcome("tensor", tensor("float32", values))


def tallied(*seen: tuple[Judged, Outcome], is_judged: bool = True) -> tuple[Tally, CellTally]:
    """Tally outcomes of one cell."""
    tally = Tally()
    for judged, outcome in seen:
        tally.observe(judged, ONE, outcome, is_judged)
    cell = seen[0][0].cell
    assert cell is not None
    assert {judged.cell for judged, _ in seen} == {cell}
    return tally, tally.cells[ONE, cell]
