"""Needs of a witness: an equal call without one gets an allowed result, or at least survives."""

from __future__ import annotations

from collections.abc import Callable

from xverify.contracts.model import Contract
from xverify.core.call import Call, Outcome
from xverify.core.verdict import Verdict
from xverify.strategies.plainer import from_front
from xverify.verify import verdicts
from xverify.verify.findings import Finding
from xverify.verify.verdicts import Judged

NEGATIVE_AXIS = "a negative axis"
"""The need of a witness that is right, or survives, with its axis counted from the front."""

REPEATED = 3
"""The number of times that an equal call must be right, or survive. A read past the end of a buffer may survive by luck."""

_TESTED = (Verdict.CRASH, Verdict.VIOLATION, Verdict.MIXED, Verdict.WRONGLY_REJECTED)
"""Verdicts whose witnesses are tested. A hang would cost its time limit."""


def learn_need(finding: Finding, contract: Contract, ask: Callable[[Call], Outcome]) -> None:
    """Make the call of a witness with its axis counted from the front, which means the same.

    A finding whose other calls show it without a negative axis needs none. Nor does a death that did not come again.

    Args:
        finding: The finding, with its smallest call.
        contract: Its edition.
        ask: Makes a call of the implementation.
    """
    call = finding.call
    equal = None if call is None else from_front(call)
    if call is None or equal is None or finding.key.verdict not in _TESTED:
        return
    judged = verdicts.judge(contract, equal)
    if {judged.judgement.verdict, contract.judge(call).verdict} != {"allowed"} or finding.unconfirmed:
        return
    if finding.seen_from_front or any(
        sample.wrong.any() and from_front(sample.call) is None for sample in finding.samples
    ):
        return
    may_be_wrong = finding.key.verdict == Verdict.CRASH
    if all(_is_well(judged, ask(equal), may_be_wrong) for _ in range(REPEATED)):
        finding.needs = NEGATIVE_AXIS


def _is_well(judged: Judged, outcome: Outcome, may_be_wrong: bool) -> bool:
    comparison = verdicts.compared(judged, outcome)
    return comparison is not None and (may_be_wrong or not comparison.wrong_values)
