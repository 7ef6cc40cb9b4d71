"""What a run's discrepancies are to the ledger: known, expired, changed or new; and which entries came up."""

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
    """The ledger, and the names of its entries that came up in this run."""

    def __init__(self, ledger: Ledger, today: date) -> None:
        self._ledger = ledger
        self._today = today
        self.came_up: set[str] = set()

    def standing(self, found: Discrepancy, judged: Judged, samples: Sequence[Sample]) -> Standing:
        """What is known of a discrepancy; see `xverify.engine.rules.StandingOf`."""
        if not self._ledger.entries:
            return NEW
        key, by = found.key, found.attribution
        recipes = None if by is None else Recipes(by.reading, by.elsewhere[0] if by.elsewhere else "")
        equal = tuple(Recipes(name) for name in found.equal)
        seen = ObservedFinding(key.subject, key.contract, key.verdict, key.clause, key.detail, recipes, equal)
        state, entry = look_up(self._ledger, seen, facts(judged.call, judged.cell), self._today, samples)
        if entry is None or state == "outside":
            return NEW
        self.came_up.add(entry.name)
        return Standing(state, entry.name)

    def might_be_known(self, judged: Judged) -> bool:
        """Whether some entry, also an expired one, is about such calls: what is wrong there is judged at the end."""
        given = facts(judged.call, judged.cell)
        return any(matches(judged.contract.id, e.contract) and in_scope(e, given) for e in self._ledger.entries)


def about(ledger: Ledger, subject: str, contracts: Sequence[Contract]) -> list[Entry]:
    """The entries that are about this implementation and one of these editions."""
    return [
        entry
        for entry in ledger.entries
        if matches(subject, entry.subject) and any(matches(contract.id, entry.contract) for contract in contracts)
    ]


def witnesses(ledger: Ledger, subject: str, contracts: Sequence[Contract]) -> dict[str, list[Call]]:
    """For each edition the calls that showed what is known of this implementation."""
    calls: dict[str, list[Call]] = defaultdict(list)
    for entry in about(ledger, subject, contracts):
        call = witness_call(entry)
        for contract in contracts:
            if call is not None and call.contract == contract.asked_as and matches(contract.id, entry.contract):
                calls[contract.id].append(call.under(contract.id))
    return dict(calls)
