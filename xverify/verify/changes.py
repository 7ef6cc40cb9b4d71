"""Differences between neighbouring versions of one implementation, call by call.

Neighbouring versions get the same calls. Where their outcomes differ, the edition that judges both says which one is right.
Only the whole cell tells whether a refusal is a missing feature, so that is decided at the end of a run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from packaging.version import InvalidVersion, Version

from xverify.contracts.model import Cell
from xverify.core.bits import canonical
from xverify.core.call import Outcome
from xverify.core.dtypes import FLOATS
from xverify.core.verdict import Verdict
from xverify.verify import verdicts
from xverify.verify.attribute import named
from xverify.verify.details import detail_of
from xverify.verify.findings import Discrepancy, Finding, Subject, witness_order
from xverify.verify.verdicts import Judged

KINDS: Mapping[str, str] = {
    "fixed": "fixed in",
    "broken": "broken in",
    "supported": "supported since",
    "dropped": "no longer supported in",
    "other": "other results in",
}
"""The kinds of changes, and the words that precede the newer version."""

ANSWERS, REFUSES = "answers", "refuses"
"""Steps that only the whole cell explains: the newer version computes a call that the older refuses, or the reverse."""

_ANSWERED = frozenset(["tensor", "rejected", "unsupported", "unreadable", "crash", "hang"])

_DEATHS = (Verdict.CRASH, Verdict.HANG)
_FAILURES: tuple[str, ...] = (*_DEATHS, "unreadable")
"""Kinds of outcomes that are neither a tensor nor a refusal, the worst first."""

_WORDS: Mapping[str, str] = {
    Verdict.CRASH: "ends the process",
    Verdict.HANG: "does not answer",
    "unreadable": "returns what cannot be read",
    "not-judged": "not judged",
    "both-wrong": "both wrong",
    "both-legal": "both legal",
    "subnormals": "subnormal results",
    "result-type": "the result's type",
    "result-shape": "the result's shape",
    **{note: words for note, (_, words) in verdicts.NOTES.items()},
}
"""The words of tokens that are not their own words."""


@dataclass(frozen=True)
class Step:
    """How the outcomes of two versions differ on one call."""

    kind: str
    """A key of `KINDS`, or ANSWERS or REFUSES."""
    what: str
    """The token of what differs: of `_WORDS`, "values", "allowed", "forbidden:CLAUSE" or "unspecified:CLAUSE"."""
    clause: str
    """The id of the clause that the call puts to the test."""
    values: int
    """The number of values of the call that differ."""
    at: tuple[int, ...] | None = None
    """The index of the first value that differs; None where the whole call does."""
    empty: bool = False
    """True if the call has no values."""

    @property
    def sign(self) -> str:
        """The token of the step, which a smaller call must show too."""
        return detail_of(self.kind, self.what, "empty" if self.empty else "")

    @property
    def words(self) -> str:
        """The words for what differs."""
        standing, _, clause = self.what.partition(":")
        if clause:
            return f"{'forbidden' if standing == 'forbidden' else 'left open'} by {clause}"
        return _WORDS.get(self.what, self.what)


@dataclass(eq=False)
class ObservedChange:
    """The calls of one cell with the same step: their number, and the smallest call with both outcomes."""

    older: Subject
    newer: Subject
    step: Step
    is_judged: bool
    """True if the edition judges both versions."""
    judged: Judged
    """The smallest call."""
    before: Outcome
    """The older version's outcome of it."""
    after: Outcome
    """The newer version's outcome of it."""
    cases: int = 0
    """The number of calls."""
    values: int = 0
    """The number of their values that differ."""

    @property
    def order(self) -> tuple[int, ...]:
        return witness_order(self.judged.call, self.judged.number)


def base_name(name: str) -> str:
    """The name without a version or an interpreter: "onnxruntime" for "onnxruntime==1.17.0"."""
    return re.split("==|@", name, maxsplit=1)[0]


def successions(subjects: Iterable[Subject]) -> tuple[tuple[Subject, ...], ...]:
    """The subjects of each implementation and path that runs in several versions, the oldest first."""
    groups: dict[tuple[str, str], list[Subject]] = {}
    for subject in subjects:
        if subject.role == "oracle":
            groups.setdefault((base_name(subject.name), subject.options), []).append(subject)
    ordered = (sorted(group, key=lambda member: version_order(member.version)) for group in groups.values())
    return tuple(tuple(group) for group in ordered if len(group) > 1)


def version_order(version: str) -> tuple[bool, Version, str]:
    """The sort key of a version. A string that is no version comes last."""
    try:
        return (False, Version(version), "")
    except InvalidVersion:
        return (True, Version("0"), version)


class Changes:
    """All differences between the versions of a run."""

    def __init__(
        self,
        subjects: Iterable[Subject],
        expected: Callable[[Subject, Judged], bool],
        judges: Callable[[Subject, Judged], bool],
    ) -> None:
        """Compare the versions of these subjects.

        Args:
            subjects: all subjects of the run.
            expected: tells if a subject's outcome of a judged call is due.
            judges: tells if the call's edition judges a subject.
        """
        self._successions = successions(subjects)
        self._expected = expected
        self._judges = judges
        self._seen: dict[tuple[Subject, Subject, str, Cell | None, str, str, str], ObservedChange] = {}

    def observe(self, judged: Judged, outcomes: Mapping[Subject, Outcome]) -> None:
        """Compare the outcomes of one call by neighbouring versions.

        A version that does not run, or does not answer the edition, is no neighbour.
        """
        for succession in self._successions:
            present = [subject for subject in succession if subject in outcomes or self._expected(subject, judged)]
            for older, newer in pairwise(present):
                if older in outcomes and newer in outcomes:
                    self._compare(judged, older, newer, outcomes[older], outcomes[newer])

    def _compare(self, judged: Judged, older: Subject, newer: Subject, before: Outcome, after: Outcome) -> None:
        if unchanged(before, after):
            return
        is_judged = self._judges(older, judged) and self._judges(newer, judged)
        for step in steps(judged, before, after, is_judged):
            types = judged.call.data.dtype if judged.cell is None else ""
            key = (older, newer, judged.contract.id, judged.cell, step.sign, step.clause, types)
            seen = self._seen.get(key)
            if seen is None:
                seen = self._seen[key] = ObservedChange(older, newer, step, is_judged, judged, before, after)
            elif witness_order(judged.call, judged.number) < seen.order:
                seen.judged, seen.before, seen.after, seen.step = judged, before, after, step
            seen.cases += 1
            seen.values += step.values

    def seen(self) -> list[ObservedChange]:
        """All differences, in an order that does not depend on which answer came first."""

        def order(change: ObservedChange) -> tuple[object, ...]:
            judged, step = change.judged, change.step
            cell = judged.cell or judged.call.data.dtype
            versions = (change.newer.name, change.older.name, change.newer.options)
            return (*versions, judged.contract.id, judged.cell is not None, cell, step.sign, step.clause)

        return sorted(self._seen.values(), key=order)


def unchanged(before: Outcome, after: Outcome) -> bool:
    """True if two outcomes are the same answer, or one of them is none.

    The same answer is equal values (any NaN equals any NaN) or a refusal, with the same notes.
    """
    if not {before.kind, after.kind} <= _ANSWERED:
        return True
    if before.notes != after.notes:
        return False
    if before.tensor is None or after.tensor is None:
        return before.kind == after.kind or (before.refused and after.refused)
    apart = differing(before, after)
    return apart is not None and not apart.any()


def differing(before: Outcome, after: Outcome) -> NDArray[np.bool_] | None:
    """The mask of values that differ; None if types or shapes do."""
    a, b = before.tensor, after.tensor
    if a is None or b is None or a.dtype != b.dtype or a.shape != b.shape:
        return None
    if a.dtype not in FLOATS:
        return np.asarray(a.codes != b.codes)
    return np.asarray(canonical(a.codes, a.dtype) != canonical(b.codes, b.dtype))


def steps(judged: Judged, before: Outcome, after: Outcome, is_judged: bool) -> list[Step]:
    """List the differences between two outcomes of one call.

    Args:
        judged: the call.
        before: the older version's outcome.
        after: the newer version's outcome.
        is_judged: True if the edition says which outcome is right.
    """
    differences = _steps(judged, before, after, is_judged)
    return [replace(step, empty=True) for step in differences] if not judged.call.values else differences


def _steps(judged: Judged, before: Outcome, after: Outcome, is_judged: bool) -> list[Step]:
    if unchanged(before, after):
        return []
    clause = (
        judged.judgement.clauses[0] if judged.judgement.clauses else judged.contract.value_clause(judged.call, None)
    )
    size = max(1, judged.call.values)
    gone, come = sorted(set(before.notes) - set(after.notes)), sorted(set(after.notes) - set(before.notes))
    noted = [Step("fixed", note, clause, size) for note in gone]
    noted += [Step("broken", note, clause, size) for note in come]
    if before.kind in _FAILURES or after.kind in _FAILURES:
        kind = "broken" if before.kind not in _FAILURES else "fixed" if after.kind not in _FAILURES else "other"
        return [*noted, Step(kind, before.kind if before.kind in _FAILURES else after.kind, clause, size)]
    if before.refused and after.refused:
        return noted
    if before.refused or after.refused:
        kind = ANSWERS if before.refused else REFUSES
        return [*noted, Step(kind, _standing(judged), clause, size)]
    return noted + _of_values(judged, before, after, is_judged, clause)


def _standing(judged: Judged) -> str:
    """The token of the edition's judgement of a call."""
    if judged.judgement.verdict == "allowed":
        return "allowed"
    return detail_of(judged.judgement.verdict, verdicts.clause_text(judged, judged.judgement.clauses[0]))


def _of_values(judged: Judged, before: Outcome, after: Outcome, is_judged: bool, clause: str) -> list[Step]:
    """The steps of two versions that both compute, with different results."""
    apart, size = differing(before, after), max(1, judged.call.values)
    if judged.legal is None or not is_judged:
        if apart is not None and not apart.any():
            return []
        what = _standing(judged) if judged.legal is None else "not-judged"
        return [Step("other", what, clause, size if apart is None else int(apart.sum()))]
    a, b = verdicts.compared(judged, before), verdicts.compared(judged, after)
    if apart is None or a is None or b is None:
        odd = verdicts.shape_or_type(judged, "", before if a is None else after)
        if odd is None:
            return []
        kind = "other" if a is None and b is None else "fixed" if a is None else "broken"
        return [Step(kind, odd.key.detail.partition(":")[0], odd.key.clause, size)]
    flushed = apart & (a.flushed != b.flushed) & ~a.wrong & ~b.wrong
    parts = {
        ("fixed", "values"): apart & a.wrong & ~b.wrong,
        ("broken", "values"): apart & ~a.wrong & b.wrong,
        ("other", "both-wrong"): apart & a.wrong & b.wrong,
        ("other", "subnormals"): flushed,
        ("other", "both-legal"): apart & ~a.wrong & ~b.wrong & ~flushed,
    }
    return [Step(*name, clause, int(where.sum()), _first(where)) for name, where in parts.items() if where.any()]


def _first(where: NDArray[np.bool_]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(where)), where.shape))


def reproduced(finding: Finding, judged: Judged, after: Outcome, before: Outcome) -> Discrepancy | None:
    """The change of a finding on another call; None if it does not show there."""
    change = finding.change
    if change is None or _step(finding, judged, after, before) is None:
        return None
    if finding.readings and judged.legal is not None:
        wrong = before if change.kind == "fixed" else after
        comparison = verdicts.compared(judged, wrong)
        recipes = [named(judged.contract, name) for name in finding.readings]
        elsewhere = judged.contract.readings(judged.call)[0] if len(recipes) > 1 else None
        if comparison is None or not verdicts.violates(judged, "", wrong, comparison, recipes[0], elsewhere):
            return None
    return Discrepancy(finding.key, finding.summary, readings=finding.readings, change=change)


def deaths(finding: Finding) -> tuple[str, ...]:
    """The ways in which a version fails to answer, if that is what changed: "crash", "hang"."""
    parts = () if finding.change is None else tuple(finding.change.step.split(":"))
    return tuple(kind.value for kind in _DEATHS if kind in parts)


def first_difference(finding: Finding, judged: Judged, after: Outcome, before: Outcome) -> tuple[int, ...] | None:
    """The index of the first value that shows a finding's change; None if no single value does."""
    step = _step(finding, judged, after, before)
    return None if step is None else step.at


def _step(finding: Finding, judged: Judged, after: Outcome, before: Outcome) -> Step | None:
    change = finding.change
    candidates: Sequence[Step] = () if change is None else steps(judged, before, after, change.judged)
    return next((step for step in candidates if change is not None and step.sign == change.step), None)
