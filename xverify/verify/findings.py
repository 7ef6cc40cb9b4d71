"""Findings: discrepancies folded by what they are, each with its smallest witness."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field

from xverify.contracts.model import Cell
from xverify.core.call import Call, Outcome
from xverify.core.verdict import Verdict
from xverify.verify.attribute import Attribution
from xverify.verify.region import Region
from xverify.verify.view import Sample


@dataclass(frozen=True)
class Subject:
    """An implementation at a version, on a path. often: whether the path gets enough calls to tell readings apart."""

    name: str
    version: str
    role: str
    options: str = ""
    often: bool = True

    @property
    def label(self) -> str:
        """For cells and columns, where each path stands for itself; a finding is the implementation's."""
        return f"{self.name}[{self.options}]" if self.options else self.name

    @property
    def is_own(self) -> bool:
        """Whether it is an in-house kernel: what it does says nothing of how others take a text."""
        return self.name.startswith("xverify-")


@dataclass(frozen=True)
class Key:
    """What makes two discrepancies the same finding."""

    subject: str
    contract: str
    verdict: Verdict
    clause: str
    detail: str

    def id(self) -> str:
        """A short name that is the same in every run."""
        text = "\n".join((self.subject, self.contract, self.verdict, self.clause, self.detail))
        return f"{self.verdict}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


@dataclass(frozen=True)
class Standing:
    """What is known of a discrepancy. entry: the name that it is known by. state: "new", "known", "expired" (it was known until
    a date that is past) or "changed" (what is known has another attribution)."""

    state: str = "new"
    entry: str = ""


NEW = Standing()


@dataclass(frozen=True)
class Change:
    """How a newer version of one implementation differs from an older one.

    name: the implementation's, without a version. older, newer: versions, or the names as typed where those are equal. kind:
    one of `xverify.verify.changes.KINDS`; what: of what, in words that name no version. step: what is seen of one call, which the
    kind may follow from only with others of its cell; judged: whether both versions are held to the edition.
    """

    name: str
    older: str
    newer: str
    kind: str
    what: str
    step: str
    judged: bool


@dataclass(frozen=True)
class Discrepancy:
    """One call's share of a finding. values: how many values of the call it concerns; reading: for mixed and
    ambiguity, what the predicate of shrinking needs beside the key (see `verdicts`). equal: names of other recipes that give all
    values of the cell."""

    key: Key
    summary: str
    attribution: Attribution | None = None
    values: int = 0
    max_ulp: int = 0
    readings: tuple[str, ...] = ()
    equal: tuple[str, ...] = ()
    change: Change | None = None
    words: str = ""
    """A predicate of the implementation, or the contradiction of a text; "" where only the summary says it."""


@dataclass(eq=False)
class Finding:
    """A folded discrepancy with its witness so far."""

    key: Key
    subject: Subject
    summary: str
    call: Call | None
    outcome: Outcome | None
    paths: set[str] = field(default_factory=set)
    attribution: Attribution | None = None
    readings: tuple[str, ...] = ()
    cells: set[Cell] = field(default_factory=set)
    cases: int = 0
    values: int = 0
    max_ulp: int = 0
    others: list[tuple[str, str]] = field(default_factory=list)
    reference: Subject | None = None
    shrunk: str = "not reached"
    samples: list[Sample] = field(default_factory=list)
    region: Region | None = None
    histogram: Counter[int] = field(default_factory=Counter)
    followed: Counter[tuple[str, str]] = field(default_factory=Counter)
    order: tuple[int, ...] = ()
    standing: Standing = NEW
    change: Change | None = None
    words: str = ""

    @property
    def id(self) -> str:
        """The key's; what is known is apart from what is new of the same kind."""
        return f"{self.key.id()}-known-{self.standing.entry}" if self.standing.state == "known" else self.key.id()


def witness_order(call: Call, number: int) -> tuple[int, ...]:
    """Smaller witnesses first; of equal ones, the earlier call of its contract."""
    return (call.values, len(call.data.shape), number)


class Findings:
    """All findings of a run, folded. The result does not depend on the order in which calls of different contracts
    came."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[Key, str], Finding] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def by_id(self, identity: str) -> Finding:
        """The finding of that id; KeyError when there is none."""
        for finding in self._by_key.values():
            if finding.id == identity:
                return finding
        raise KeyError(identity)

    def of(self, key: Key, standing: Standing = NEW) -> Finding | None:
        """The finding of that key, if there is one; the part of it that is known by a name is a finding of its own."""
        return self._by_key.get((key, _apart(standing)))

    def sorted(self) -> list[Finding]:
        """By implementation, contract and verdict."""
        return sorted(self._by_key.values(), key=lambda f: (f.key.subject, f.key.contract, f.key.verdict, f.id))

    def add(
        self,
        discrepancy: Discrepancy,
        subject: Subject,
        call: Call | None,
        outcome: Outcome | None,
        cell: Cell | None,
        number: int,
        others: list[tuple[str, str]] | None = None,
        reference: Subject | None = None,
        cases: int = 1,
        standing: Standing = NEW,
    ) -> bool:
        """Fold a discrepancy in; True when it is a new finding."""
        key = discrepancy.key
        # The plain path's witness before that of any other path: it is the one most people run.
        order = (bool(subject.options), *witness_order(call, number)) if call is not None else ()
        finding = self._by_key.get((key, _apart(standing)))
        new = finding is None
        if finding is None:
            finding = Finding(key, subject, discrepancy.summary, call, outcome, order=order, standing=standing)
            self._by_key[key, _apart(standing)] = finding
        # Of two other paths on the same call the name decides, not which came first.
        if new or (order, subject.options) < (finding.order, finding.subject.options):
            finding.call, finding.outcome, finding.order, finding.subject = call, outcome, order, subject
            finding.summary, finding.readings = discrepancy.summary, discrepancy.readings
            finding.others, finding.reference = list(others or []), reference
            finding.change, finding.words = discrepancy.change, discrepancy.words
        finding.paths.add(subject.options)
        finding.cases += cases
        finding.values += discrepancy.values
        finding.max_ulp = (
            -1 if -1 in (finding.max_ulp, discrepancy.max_ulp) else max(finding.max_ulp, discrepancy.max_ulp)
        )
        if cell is not None:
            finding.cells.add(cell)
        if discrepancy.attribution is not None:
            old = finding.attribution
            extra = discrepancy.attribution
            finding.attribution = Attribution(
                extra.reading,
                extra.words,
                extra.explained + (old.explained if old else 0),
                extra.values + (old.values if old else 0),
                extra.elsewhere,
            )
        return new


def _apart(standing: Standing) -> str:
    return standing.entry if standing.state == "known" else ""
