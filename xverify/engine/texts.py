"""Phase: contradictions within a document, between its formula and its own examples."""

from __future__ import annotations

from xverify.engine.state import RunState
from xverify.verify import editions


def check_texts(state: RunState) -> None:
    """Record where a document's own examples contradict it."""
    for contract in state.options.contracts:
        for discrepancy, call in editions.contradictions(contract):
            state.findings.add(discrepancy, editions.edition_subject(contract), call, None, None, 0)
