"""Conflicts between two editions of one operator, and contradictions inside one document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from xverify import contracts
from xverify.contracts.model import Contract
from xverify.core.bits import canonical
from xverify.core.call import Call, Outcome, Tensor
from xverify.core.errors import DocumentError
from xverify.core.verdict import Verdict
from xverify.verify.findings import Discrepancy, Key, Subject
from xverify.verify.legal import Legal, legal_set
from xverify.verify.verdicts import Judged


def edition_subject(contract: Contract) -> Subject:
    """An edition in the role of an implementation, which computes its first reading."""
    return Subject(contract.id, contract.document, "edition")


def by_formula(contract: Contract, legal: Legal) -> Outcome:
    """The outcome of the edition's first reading."""
    return Outcome("tensor", Tensor(legal.dtype, legal.codes(0)))


def conflict(judged: Judged, rival: Contract) -> Discrepancy | None:
    """The conflict on a call that both editions allow, if some value has no code that is legal in both."""
    if judged.legal is None:
        return None
    call = judged.call.under(rival.id)
    if rival.judge(call).verdict != "allowed":
        return None
    ours, theirs = judged.legal, legal_set(rival, call)
    clause = judged.contract.value_clause(judged.call, None)
    apart = _apart(ours, theirs)
    if not apart.any():
        return None
    other = rival.value_clause(call, None)
    key = Key(rival.id, judged.contract.id, Verdict.CONFLICT, clause, other)
    summary = f"{judged.contract.id} and {rival.id} allow the same call and no result satisfies both"
    return Discrepancy(key, summary, values=int(apart.sum()))


def _apart(ours: Legal, theirs: Legal) -> NDArray[np.bool_]:
    """The mask of values that have no code legal in both editions. A subnormal one is legal anyway."""
    if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
        return np.ones(ours.shape, np.bool_)
    common = np.zeros(ours.shape, np.bool_)
    for a in ours.distinct:
        for b in theirs.distinct:
            common |= a == b
    return np.asarray(~common & ~(ours.subnormal | theirs.subnormal))


def followed(judged: Judged, rival: Contract, label: str, outcome: Outcome) -> dict[tuple[str, str], int]:
    """Count the values of an implementation that are legal by each of two conflicting editions.

    Returns:
        Counts of the values on which the editions conflict: the legal ones by (label, edition), all of them by (label, "").
    """
    ours, got = judged.legal, outcome.tensor
    theirs = legal_set(rival, judged.call.under(rival.id))
    if ours is None or got is None or got.shape != ours.shape or got.dtype != ours.dtype:
        return {}
    apart = _apart(ours, theirs)
    counts = {(label, ""): int(apart.sum())}
    for identity, legal in ((judged.contract.id, ours), (rival.id, theirs)):
        if got.dtype == legal.dtype:
            same = np.logical_or.reduce([canonical(got.codes, got.dtype) == codes for codes in legal.distinct])
            counts[label, identity] = int((same & apart).sum())
    return counts


def rivals(contract: Contract) -> Iterator[Contract]:
    """The other editions that a run compares with this one and that are readable here."""
    yield from _readable(contracts.rivals(contract.id))


def neighbours(contract: Contract) -> Iterator[Contract]:
    """The editions that an implementation may follow instead of this one and that are readable here."""
    yield from _readable(contracts.neighbours(contract.id))


def _readable(identities: Iterable[str]) -> Iterator[Contract]:
    for identity in identities:
        try:
            yield contracts.get(identity)
        except DocumentError:
            continue


def contradictions(contract: Contract) -> Iterator[tuple[Discrepancy, Call | None]]:
    """The contradictions inside a document."""
    for check in contract.text_checks():
        key = Key(contract.id, contract.id, Verdict.CONFLICT, check.clause, check.name)
        yield Discrepancy(key, f"{contract.id} contradicts itself: {check.summary}", words=check.summary), check.call
