"""Phase: contradictions within a document, between its formula and its own examples."""

from __future__ import annotations

from xverify.engine.state import RunState
from xverify.verify import editions


def check_texts(state: RunState) -> None:
    """Record where a document's own examples contradict it."""
    for contract in state.options.contracts:
        if state.options.part(contract).slice.index:
            continue  # the first slice does it
        for discrepancy, call in editions.contradictions(contract):
            state.findings.add(discrepancy, editions.edition_subject(contract), call, None, None, 0)
