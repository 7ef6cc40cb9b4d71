"""Entry of discrepancies and faults into the state of a run, which makes them events."""

from __future__ import annotations

from collections.abc import Sequence

from xverify.core.call import Outcome
from xverify.engine.events import FaultSeen, FindingFound
from xverify.engine.state import RunState
from xverify.verify.findings import Discrepancy, Standing, Subject
from xverify.verify.verdicts import Judged
from xverify.verify.view import Sample


def record(
    state: RunState,
    discrepancy: Discrepancy,
    subject: Subject,
    judged: Judged,
    outcome: Outcome | None,
    reference: Subject | None = None,
    cases: int = 1,
    samples: Sequence[Sample] = (),
) -> Standing:
    """Fold a discrepancy into the findings of a run.

    Args:
        outcome: The subject's outcome for the call.
        reference: The implementation that the subject is compared with, if there is one.
        cases: The number of calls that show the discrepancy.
        samples: Kept calls of the cell, by which a ledger recognises a known finding.

    Returns:
        The standing that the run's rules give the discrepancy.
    """
    standing = state.options.rules.standing(discrepancy, judged, samples)
    is_new = state.findings.add(
        discrepancy, subject, judged.call, outcome, judged.cell, judged.number, None, reference, cases, standing
    )
    if is_new:
        finding, key = state.findings.of(discrepancy.key, standing), discrepancy.key
        assert finding is not None
        state.emit(FindingFound(finding.id, key.verdict, key.subject, key.contract, discrepancy.summary))
    if standing.state != "known" and discrepancy.key.verdict.is_fault:
        record_fault(state, judged, subject)
    return standing


def record_fault(state: RunState, judged: Judged, subject: Subject) -> None:
    """Note the first sign that an implementation is wrong, unless it might be known."""
    if state.first_fault is None and not state.options.rules.might_be_known(judged):
        state.first_fault = state.elapsed()
        state.emit(FaultSeen(subject.label, judged.contract.id, judged.call.origin, state.first_fault))
