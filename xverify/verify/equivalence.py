"""Equivalent calls: two calls for the same values that one implementation answers differently.

If both answers are legal, the implementation is *mixed*: it follows one reading here and another one there. There is no
finding in these cases:

- One answer holds a value outside the legal set. The ordinary judgement of that call finds the violation
  (`xverify.engine.equivalences` passes the answer on to it, since no other part of a run may have made that call).
- One of the two calls was refused, or ended the process. That is a finding of the call alone.
- The values differ only where a subnormal result was flushed. That is an ambiguity of its own.
- The two editions have no reading in common. `xverify.strategies.equivalents` makes no such twin.
- An edition does not judge the implementation. The engine compares only under editions that do.

Two answers that are wrong in the same way are not found here. `xverify.verify.tally.Tally.ambiguities` compares the readings
of two implementations that give different legal values for one call.
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
    """True if both are tensors of one dtype and shape with equal values; any NaN equals any NaN."""
    a, b = outcome.tensor, other.tensor
    if a is None or b is None or (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    return bool(np.array_equal(a.codes, b.codes)) or bool(
        np.array_equal(canonical(a.codes, a.dtype), canonical(b.codes, b.dtype))
    )


def edition(judged: Judged, twin: Twin) -> Contract:
    """The edition of a twin's calls."""
    identity = twin.calls[0].contract
    return judged.contract if identity == judged.contract.id else contracts.get(identity)


def apart(judged: Judged, twin: Twin, outcome: Outcome, other: Outcome) -> NDArray[np.bool_] | None:
    """The mask of values in which two legal answers differ, in the shape of the call's result.

    Args:
        judged: the call.
        twin: its twin.
        outcome: the answer to the call.
        other: the answer to the twin, its pieces joined.

    Returns:
        None if the two can't be compared: a refusal, another dtype or shape, or a value outside the legal set.
    """
    a, b = outcome.tensor, other.tensor
    if a is None or b is None or (a.dtype, a.shape) != (b.dtype, b.shape):
        return None
    ours = compared(judged, outcome)
    # Within one edition the twin's legal set is the call's own, since it holds the same triples.
    rules = edition(judged, twin)
    theirs = compared(judged if rules is judged.contract else judge(rules, twin.calls[0]), other)
    if ours is None or theirs is None or ours.wrong_values or theirs.wrong_values:
        return None
    codes: tuple[NDArray[Any], NDArray[Any]] = (canonical(a.codes, a.dtype), canonical(b.codes, b.dtype))
    return np.asarray((codes[0] != codes[1]) & ~ours.flushed & ~theirs.flushed)


def differs(judged: Judged, subject_label: str, twin: Twin, outcome: Outcome, other: Outcome) -> Discrepancy | None:
    """The finding that two legal answers to the same question differ in bits; None if they do not.

    `apart` says which answers can be compared.
    """
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
    """The twin of a finding, made again for another call.

    It is None for a finding without a twin, and if the call has none.
    """
    key = finding.key
    if key.verdict != Verdict.MIXED or not key.detail.startswith(_PREFIX):
        return None
    return twin(contract, call, key.detail.removeprefix(_PREFIX))


def reproduced(
    finding: Finding, judged: Judged, outcome: Outcome, ask: Callable[[Call], Outcome]
) -> Discrepancy | None:
    """The discrepancy of a finding on another call; None if it does not show there.

    Args:
        finding: the finding.
        judged: the other call.
        outcome: the implementation's answer to it.
        ask: makes a call of the twin. It is not used for a finding without a twin.
    """
    other = twin_of(finding, judged.contract, judged.call)
    if other is None or outcome.tensor is None:
        return None
    answer = joined(other, [ask(call) for call in other.calls])
    return differs(judged, finding.key.subject, other, outcome, answer)


def first_difference(
    finding: Finding, judged: Judged, outcome: Outcome, ask: Callable[[Call], Outcome]
) -> tuple[int, ...] | None:
    """The index of the first value that differs; None if `reproduced` is None."""
    other = twin_of(finding, judged.contract, judged.call)
    if other is None or outcome.tensor is None:
        return None
    where = apart(judged, other, outcome, joined(other, [ask(call) for call in other.calls]))
    if where is None or not where.any():
        return None
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(where)), where.shape))
