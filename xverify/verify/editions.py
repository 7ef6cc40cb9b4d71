"""Conflicts: two editions of one operator that cannot both hold, and documents that contradict themselves."""

from __future__ import annotations

from collections.abc import Iterator

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
    """An edition in the role of an implementation: what its first reading gives."""
    return Subject(contract.id, contract.document, "edition")


def by_formula(contract: Contract, legal: Legal) -> Outcome:
    """What the edition's first reading gives."""
    return Outcome("tensor", Tensor(legal.dtype, legal.codes(0)))


def conflict(judged: Judged, rival: Contract) -> Discrepancy | None:
    """A call that both editions allow and for which some value has no code that is legal in both."""
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
    """Which values have no code that is legal in both editions; a subnormal one is legal anyhow."""
    if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
        return np.ones(ours.shape, np.bool_)
    common = np.zeros(ours.shape, np.bool_)
    for a in ours.distinct:
        for b in theirs.distinct:
            common |= a == b
    return np.asarray(~common & ~(ours.subnormal | theirs.subnormal))


def followed(judged: Judged, rival: Contract, label: str, outcome: Outcome) -> dict[tuple[str, str], int]:
    """Of the values on which two editions conflict, how many of an implementation's are legal by each: by (label, edition),
    and all of them by (label, "")."""
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
    """The other editions of the same operator that can be read here."""
    for identity in contracts.rivals(contract.id):
        try:
            yield contracts.get(identity)
        except DocumentError:
            continue


def contradictions(contract: Contract) -> Iterator[tuple[Discrepancy, Call | None]]:
    """What a document says against itself."""
    for check in contract.text_checks():
        key = Key(contract.id, contract.id, Verdict.CONFLICT, check.clause, check.name)
        yield Discrepancy(key, f"{contract.id} contradicts itself: {check.summary}", words=check.summary), check.call
