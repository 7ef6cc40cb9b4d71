"""Two ways of asking for the same values, and one implementation that answers them differently.

Where both answers are legal the implementation is *mixed*: it follows one reading here and another one there. Nothing is
said where

- one answer holds a value outside the legal set: that is a violation, which the ordinary judgement of that call gives
  (`xverify.engine.equivalences` passes such an answer on to it, since no other part of a run may have asked that call);
- one of the two calls was refused, or ended the process: that is said of the call alone;
- the values differ only where a subnormal result was flushed: that is an ambiguity of its own;
- the two editions have no reading in common: `xverify.strategies.equivalents` makes no such twin;
- an edition does not judge the implementation: the engine asks only under editions that do.

Both answers wrong in the same way can't be seen here. Two implementations that give different legal values for one call
are compared by their readings, see `xverify.verify.tally.Tally.ambiguities`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify import contracts
from xverify.contracts.model import Contract
from xverify.core.bits import canonical
from xverify.core.call import Call, Outcome
from xverify.core.verdict import Verdict
from xverify.strategies.equivalents import Twin, joined, twin
from xverify.verify.findings import Discrepancy, Finding, Key
from xverify.verify.verdicts import Judged, compared, judge

_PREFIX = "equivalence:"
"""The beginning of the detail of such a finding; the twin's name follows."""


def same(outcome: Outcome, other: Outcome) -> bool:
    """Whether both are tensors of one dtype and shape with equal values: any NaN equals any NaN."""
    a, b = outcome.tensor, other.tensor
    if a is None or b is None or (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    return bool(np.array_equal(a.codes, b.codes)) or bool(
        np.array_equal(canonical(a.codes, a.dtype), canonical(b.codes, b.dtype))
    )


def edition(judged: Judged, twin: Twin) -> Contract:
    """The edition that a twin is asked under."""
    identity = twin.calls[0].contract
    return judged.contract if identity == judged.contract.id else contracts.get(identity)


def apart(judged: Judged, twin: Twin, outcome: Outcome, other: Outcome) -> NDArray[np.bool_] | None:
    """Which values of two legal answers differ, in the shape of the call's result.

    None where the two can't be compared: a refusal, another dtype or shape, or a value outside the legal set.
    ``outcome`` answers the judged call, ``other`` the twin, its pieces joined.
    """
    a, b = outcome.tensor, other.tensor
    if a is None or b is None or (a.dtype, a.shape) != (b.dtype, b.shape):
        return None
    ours = compared(judged, outcome)
    # Within one edition the twin's legal set is the call's own, since the same triples are asked for.
    rules = edition(judged, twin)
    theirs = compared(judged if rules is judged.contract else judge(rules, twin.calls[0]), other)
    if ours is None or theirs is None or ours.wrong_values or theirs.wrong_values:
        return None
    codes: tuple[NDArray[Any], NDArray[Any]] = (canonical(a.codes, a.dtype), canonical(b.codes, b.dtype))
    return np.asarray((codes[0] != codes[1]) & ~ours.flushed & ~theirs.flushed)


def differs(judged: Judged, subject_label: str, twin: Twin, outcome: Outcome, other: Outcome) -> Discrepancy | None:
    """Two legal answers of one implementation to the same question that differ in bits; see `apart`."""
    if judged.cell is None or same(outcome, other):
        return None
    where = apart(judged, twin, outcome, other)
    if where is None or not where.any():
        return None
    contract, cell = judged.contract, judged.cell
    clause = contract.value_clause(judged.call, None)
    key = Key(subject_label, contract.id, Verdict.MIXED, clause, _PREFIX + twin.name)
    summary = (
        f"{subject_label} gives other legal values for the same {cell.granularity.replace('_', ' ')} call when it is asked "
        f"{twin.words} (x of {cell.x_dtype}, scale of {cell.scale_dtype}, to {cell.out_dtype})"
    )
    return Discrepancy(key, summary, None, int(np.count_nonzero(where)))


def twin_of(finding: Finding, contract: Contract, call: Call) -> Twin | None:
    """The twin that a finding is about, remade for another call; None for other findings, and where the call has none."""
    key = finding.key
    if key.verdict != Verdict.MIXED or not key.detail.startswith(_PREFIX):
        return None
    return twin(contract, call, key.detail.removeprefix(_PREFIX))


def reproduced(
    finding: Finding, judged: Judged, outcome: Outcome, ask: Callable[[Call], Outcome]
) -> Discrepancy | None:
    """The same discrepancy on another call, of which ``outcome`` is the implementation's answer; None where it does not
    show. The twin's calls are asked with ``ask``, unless the finding is not of this kind."""
    other = twin_of(finding, judged.contract, judged.call)
    if other is None or outcome.tensor is None:
        return None
    answer = joined(other, [ask(call) for call in other.calls])
    return differs(judged, finding.key.subject, other, outcome, answer)


def place(finding: Finding, judged: Judged, outcome: Outcome, ask: Callable[[Call], Outcome]) -> tuple[int, ...] | None:
    """The index of the first value that differs; None where `reproduced` would be None."""
    other = twin_of(finding, judged.contract, judged.call)
    if other is None or outcome.tensor is None:
        return None
    where = apart(judged, other, outcome, joined(other, [ask(call) for call in other.calls]))
    if where is None or not where.any():
        return None
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(where)), where.shape))
