"""Findings: discrepancies folded by their keys, each with its smallest witness."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field

from xverify.contracts.model import Cell
from xverify.core.call import Call, Outcome
from xverify.core.dtypes import common_first
from xverify.core.verdict import Verdict
from xverify.strategies.plainer import from_front
from xverify.verify.attribute import Attribution
from xverify.verify.departures import Departure
from xverify.verify.region import Region
from xverify.verify.view import Sample


@dataclass(frozen=True)
class Subject:
    """An implementation at a version, on one of its paths."""

    name: str
    """The implementation's name, with a version if it was asked for."""
    version: str
    role: str
    """The role: "oracle", "kernel", "edition" or "peer"."""
    options: str = ""
    """The path; "" for the default one."""
    often: bool = True
    """True if the path gets enough calls to tell readings apart."""

    @property
    def label(self) -> str:
        """The name with the path, for cells and columns. A finding belongs to the implementation as a whole."""
        return f"{self.name}[{self.options}]" if self.options else self.name

    @property
    def is_own(self) -> bool:
        """True for an in-house kernel, which says nothing about how others read a text."""
        return self.name.startswith("xverify-")


@dataclass(frozen=True)
class Key:
    """The identity of a finding: discrepancies with equal keys are one finding."""

    subject: str
    """The implementation's name, or an edition's id."""
    contract: str
    """The edition's id."""
    verdict: Verdict
    clause: str
    """The clause's id."""
    detail: str
    """The machine token that tells findings on one clause apart, see `xverify.verify.details`."""

    def id(self) -> str:
        """A short name that is the same in every run."""
        text = "\n".join((self.subject, self.contract, self.verdict, self.clause, self.detail))
        return f"{self.verdict}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


@dataclass(frozen=True)
class Standing:
    """A ledger's view of a discrepancy."""

    state: str = "new"
    """The state: "new", "known" (accepted), "expired" (accepted until a past day) or "changed" (accepted with another recipe)."""
    entry: str = ""
    """The name of the ledger's entry; "" if there is none."""


NEW = Standing()


@dataclass(frozen=True)
class Change:
    """The difference between two versions of one implementation."""

    name: str
    """The implementation's name without a version."""
    older: str
    """The older version, or the name as typed where both versions are equal."""
    newer: str
    """The newer version, or the name as typed."""
    kind: str
    """A key of `xverify.verify.changes.KINDS`."""
    what: str
    """The thing that changed, in words that name no version."""
    step: str
    """The token of the change on one call, see `xverify.verify.changes.Step.sign`."""
    judged: bool
    """True if the edition judges both versions."""


@dataclass(frozen=True)
class Discrepancy:
    """One call's contribution to a finding."""

    key: Key
    summary: str
    """The discrepancy in a sentence."""
    attribution: Attribution | None = None
    """The recipe that explains the values; None if none is known."""
    values: int = 0
    """The number of the call's values that it concerns."""
    max_ulp: int = 0
    """The largest distance from the legal set in ULP; -1 if it is not a number."""
    readings: tuple[str, ...] = ()
    """Names of recipes that shrinking needs beside the key, see `xverify.verify.verdicts`."""
    equal: tuple[str, ...] = ()
    """Names of other recipes that give all values of the cell."""
    change: Change | None = None
    """The change between versions, for the verdict "changed" only."""
    words: str = ""
    """A predicate of the implementation, or the contradiction of a text; "" where only the summary says it."""


@dataclass(eq=False)
class Finding:
    """A folded discrepancy with the smallest witness so far."""

    key: Key
    subject: Subject
    """The implementation and the path that show the witness."""
    summary: str
    """The finding in a sentence."""
    call: Call | None
    """The witness; None for a finding on a text alone."""
    outcome: Outcome | None
    """The implementation's outcome of the witness."""
    paths: set[str] = field(default_factory=set)
    """All paths that show the finding."""
    attribution: Attribution | None = None
    readings: tuple[str, ...] = ()
    cells: set[Cell] = field(default_factory=set)
    """All cells in which it was seen."""
    cases: int = 0
    """The number of calls that show it."""
    values: int = 0
    """The number of values that it concerns."""
    max_ulp: int = 0
    """The largest distance in ULP; -1 if it is not a number."""
    range_places: int = 0
    """The largest distance in last places of the range, see `xverify.verify.range_places`."""
    others: list[tuple[str, str]] = field(default_factory=list)
    """Names and outcomes of other implementations on the witness."""
    reference: Subject | None = None
    """The implementation or version that the subject is compared with."""
    shrunk: str = "not reached"
    """The state of shrinking: "minimal", "not reached" (time or evaluations ended first) or "not shrinkable"."""
    samples: list[Sample] = field(default_factory=list)
    """Judged calls from which the region was found."""
    region: Region | None = None
    """The predicate on values that holds of the wrong ones."""
    histogram: Counter[int] = field(default_factory=Counter)
    """Wrong values by distance in ULP: counts by powers of two, -1 for no number."""
    followed: Counter[tuple[str, str]] = field(default_factory=Counter)
    """For conflicts: values by (implementation, edition) whose result is legal, and all by (implementation, "")."""
    order: tuple[int, ...] = ()
    """The sort key of the witness."""
    standing: Standing = NEW
    """The ledger's view of the finding."""
    change: Change | None = None
    words: str = ""
    """See `Discrepancy.words`."""
    equal: frozenset[str] = frozenset()
    """Names of other recipes that give all values of its cells."""
    departures: tuple[Departure, ...] = ()
    """The stages in which its recipe departs from the nearest admitted reading."""
    ways: list[tuple[Departure, ...]] = field(default_factory=list)
    """The departures of its recipe, then of the recipes that give the same values. ``departures`` is one of them."""
    follows: tuple[str, ...] = ()
    """For an edition that is not followed: ids of its neighbours that admit every value of the kept calls."""
    description: str = ""
    """For a change between versions: a token of the change that is the same in all editions."""
    preference: tuple[object, ...] = ()
    """For such a change: the sort key of its witness among those of other editions, as JSON holds it."""
    survives_without_breach: bool | None = None
    """For a death on a call that is not allowed: true if the implementation survives an allowed call near it; None if unknown."""
    unconfirmed: bool = False
    """For a death: true if no new process showed it again, neither on the witness nor on a smaller call."""
    seen_from_front: bool = False
    """True if a call without a negative axis shows it."""
    needs: str = ""
    """The need of the witness: an equal call without it gets an allowed result, or at least survives. "" if none is known."""
    lowest: str = ""
    """For a witness in surroundings: the least optimised path that shows it; "" if that is not known."""
    rewrite: str = ""
    """For a witness in surroundings: the optimiser's rewrite on that path as a predicate; "" if that is not known."""

    @property
    def id(self) -> str:
        """The key's id. The accepted part of a finding has an id of its own."""
        return f"{self.key.id()}-known-{self.standing.entry}" if self.standing.state == "known" else self.key.id()


SHRINKABLE_VALUES = 1 << 14
"""Number of values up to which a witness of common types comes before a smaller one of rare types."""

_FOUND_BY_CHANCE = (Verdict.NONDETERMINISTIC, Verdict.MEMORY)
"""Verdicts whose witnesses are seldom shrunk, so the smallest comes first whatever its types."""


def witness_order(call: Call, number: int, verdict: str = "") -> tuple[int, ...]:
    """The sort key of witnesses: the commonest types, then the smallest, then the earliest call.

    Among large calls, and for a verdict whose witnesses are seldom shrunk, only the size counts.
    """
    large = call.values > SHRINKABLE_VALUES
    rarest = max(common_first(tensor.dtype) for tensor in call.tensors.values())
    types = () if large or verdict in _FOUND_BY_CHANCE else (common_first(call.data.dtype), rarest)
    return (large, *types, call.values, len(call.data.shape), number)


class Findings:
    """All findings of a run.

    The result does not depend on the order in which calls of different contracts come.
    """

    def __init__(self) -> None:
        self._by_key: dict[tuple[Key, str], Finding] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def by_id(self, identity: str) -> Finding:
        """The finding with an id. Raises KeyError if there is none."""
        for finding in self._by_key.values():
            if finding.id == identity:
                return finding
        raise KeyError(identity)

    def of(self, key: Key, standing: Standing = NEW) -> Finding | None:
        """The finding with a key, or None. The part that a ledger's entry accepts is a finding of its own."""
        return self._by_key.get((key, _apart(standing)))

    def sorted(self) -> list[Finding]:
        """All findings by implementation, contract and verdict."""
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
        """Fold a discrepancy in.

        Args:
            discrepancy: the discrepancy.
            subject: the implementation and the path that show it.
            call: the call that shows it; None for a finding on a text alone.
            outcome: the implementation's outcome of the call.
            cell: the call's cell; None for a forbidden call.
            number: the number of the call within its contract.
            others: names and outcomes of other implementations on the call.
            reference: the implementation or version that this one is compared with.
            cases: the number of calls that the discrepancy stands for.
            standing: the ledger's view of it.

        Returns:
            True if the finding is new.
        """
        key = discrepancy.key
        # Prefer a witness on the default path, which most people run.
        order = (bool(subject.options), *witness_order(call, number, key.verdict)) if call is not None else ()
        finding = self._by_key.get((key, _apart(standing)))
        new = finding is None
        if finding is None:
            finding = Finding(key, subject, discrepancy.summary, call, outcome, order=order, standing=standing)
            self._by_key[key, _apart(standing)] = finding
        # Between two other paths on the same call, the name decides and not the order of arrival.
        if new or (order, subject.options) < (finding.order, finding.subject.options):
            finding.call, finding.outcome, finding.order, finding.subject = call, outcome, order, subject
            finding.summary, finding.readings = discrepancy.summary, discrepancy.readings
            finding.others, finding.reference = list(others or []), reference
            finding.change, finding.words = discrepancy.change, discrepancy.words
        finding.equal = frozenset(discrepancy.equal) & (finding.equal if not new else frozenset(discrepancy.equal))
        finding.paths.add(subject.options)
        finding.seen_from_front |= call is not None and from_front(call) is None
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
