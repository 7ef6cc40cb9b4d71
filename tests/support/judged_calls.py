"""Hand-made judged calls, answers to them, and the findings of a run with these observations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from xverify import contracts
from xverify.arithmetic.readings import Stepwise
from xverify.contracts.model import Contract
from xverify.core.call import Call, Outcome, Tensor
from xverify.core.dtypes import tensor
from xverify.strategies import build
from xverify.strategies.structures import Linear
from xverify.verify import verdicts
from xverify.verify.attribute import named
from xverify.verify.findings import Finding, Findings, Subject
from xverify.verify.tally import Tally
from xverify.verify.verdicts import Judged, judge

ONNX_13, ONNX_21, ONNX_25 = (contracts.get(f"ai.onnx/DequantizeLinear-{v}") for v in (13, 21, 25))
ONE, TWO, OTHER = Subject("one", "1", "oracle"), Subject("two", "1", "oracle"), Subject("one", "1", "oracle", "O3")
REJECTED, UNSUPPORTED = Outcome("rejected", error="ValueError"), Outcome("unsupported", error="NotImplemented")
WRAPS = Stepwise("wrap-x").name
CRASH, HANG = Outcome("crash", message="Fatal: died\nmore"), Outcome("hang")


def asked(contract: Contract, x_dtype: str, size: int = 64, number: int = 0, **other: object) -> Judged:
    """Return an allowed call with drawn values."""
    structure = Linear(x_dtype, str(other.pop("scale", "float32")), "per_tensor", (size,), seed=number + 7)
    return judge(contract, build(contract, replace(structure, **other)), number)


def open_call(number: int = 0) -> Judged:
    """Return a call that the clause on zero points of int32 leaves open."""
    tensors = {"x": tensor("int32", [1, 2]), "scale": tensor("float32", 0.1), "zero_point": tensor("int32", 5)}
    return judge(ONNX_13, Call(ONNX_13.id, tensors), number)


def forbidden_call(number: int = 0) -> Judged:
    return judge(ONNX_13, Call(ONNX_13.id, {"x": tensor("int16", [1]), "scale": tensor("float32", 1.0)}), number)


def by(judged: Judged, reading: str) -> Outcome:
    """Answer as an implementation that follows a reading, legal or not."""
    operands = judged.contract.operands(judged.call)
    codes = np.ascontiguousarray(named(judged.contract, reading).evaluate(operands))
    return Outcome("tensor", Tensor(operands.output_dtype, codes))


def shifted(outcome: Outcome, place: int = -1, steps: int = 3) -> Outcome:
    """Change one value of an answer by some steps."""
    assert outcome.tensor is not None
    codes = outcome.tensor.codes.copy()
    codes[place] += codes.dtype.type(steps)
    return Outcome("tensor", Tensor(outcome.tensor.dtype, codes))


Observation = tuple[Judged, Subject, Outcome]


def concluded(observations: list[Observation], is_judged: bool = True) -> tuple[Tally, dict[str, Finding]]:
    """Return the tally of observations, and a run's findings by verdict, immediate and final ones."""
    tally, findings = Tally(), Findings()
    for judged, subject, outcome in observations:
        for found in tally.observe(judged, subject, outcome, is_judged):
            findings.add(found, subject, judged.call, outcome, judged.cell, judged.number)
    tally.settle()
    for subject, cell, _, found, judged, outcome in (*tally.violations(), *tally.flushes(), *tally.ambiguities()):
        findings.add(found, subject, judged.call, outcome, cell, judged.number)
    for subject, cell, found, judged, outcome in tally.mixtures():
        findings.add(found, subject, judged.call, outcome, cell, judged.number)
    for subject, cell, row in tally.refusals():
        assert row.refusal is not None
        found = verdicts.rejected(row.refusal[0], subject.name, row.refusal[1])
        if found is not None and row.answered:
            findings.add(found, subject, row.refusal[0].call, row.refusal[1], cell, row.refusal[0].number)
    assert len({finding.key.verdict for finding in findings.sorted()}) == len(findings)
    return tally, {finding.key.verdict: finding for finding in findings.sorted()}
