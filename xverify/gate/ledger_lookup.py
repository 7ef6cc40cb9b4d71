"""A run's discrepancies looked up in the ledger: known, expired, changed or new."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import date

from xverify.contracts.model import Contract
from xverify.core.call import Call
from xverify.gate.ledger import Entry, Ledger, ObservedFinding, Recipes, facts, in_scope, look_up, witness_call
from xverify.gate.scope import matches
from xverify.verify.findings import NEW, Discrepancy, Standing
from xverify.verify.verdicts import Judged
from xverify.verify.view import Sample


class Memory:
    """The ledger during a run."""

    def __init__(self, ledger: Ledger, today: date) -> None:
        self._ledger = ledger
        self._today = today
        self.came_up: set[str] = set()
        """The names of the entries that matched a discrepancy of this run."""

    def standing(self, discrepancy: Discrepancy, judged: Judged, samples: Sequence[Sample]) -> Standing:
        """The ledger's standing of a discrepancy, see `xverify.engine.rules.StandingOf`."""
        if not self._ledger.entries:
            return NEW
        key, by = discrepancy.key, discrepancy.attribution
        recipes = None if by is None else Recipes(by.reading, by.elsewhere[0] if by.elsewhere else "")
        equal = tuple(Recipes(name) for name in discrepancy.equal)
        finding = ObservedFinding(key.subject, key.contract, key.verdict, key.clause, key.detail, recipes, equal)
        state, entry = look_up(self._ledger, finding, facts(judged.call, judged.cell), self._today, samples)
        if entry is None or state == "outside":
            return NEW
        self.came_up.add(entry.name)
        return Standing(state, entry.name)

    def might_be_known(self, judged: Judged) -> bool:
        """True if some entry, even an expired one, is about such calls.

        The faults of such calls are judged at the run's end.
        """
        call_facts = facts(judged.call, judged.cell)
        return any(matches(judged.contract.id, e.contract) and in_scope(e, call_facts) for e in self._ledger.entries)


def about(ledger: Ledger, subject: str, contracts: Sequence[Contract]) -> list[Entry]:
    """The entries about an implementation and one of these editions."""
    return [
        entry
        for entry in ledger.entries
        if matches(subject, entry.subject) and any(matches(contract.id, entry.contract) for contract in contracts)
    ]


def witnesses(ledger: Ledger, subject: str, contracts: Sequence[Contract]) -> dict[str, list[Call]]:
    """The witnesses of an implementation's entries, by the id of each edition."""
    calls: dict[str, list[Call]] = defaultdict(list)
    for entry in about(ledger, subject, contracts):
        call = witness_call(entry)
        for contract in contracts:
            if call is not None and call.contract == contract.asked_as and matches(contract.id, entry.contract):
                calls[contract.id].append(call.under(contract.id))
    return dict(calls)
