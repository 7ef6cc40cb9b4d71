"""The presence of causes in versions and runs, and the comparison of runs. All functions are pure.

A cause is present where a finding shows it. It is absent only where enough calls could have shown it; else it is unknown.
Enough calls are those among which `ENOUGH` would show the cause, at the share of calls that show it elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from xverify.core.severity import Severity
from xverify.report.presence import Change, Difference, Square, State, Strip
from xverify.verify.changes import version_order

ENOUGH = 3.0
"""Expected number of calls that show a cause. Without one of them, the cause is absent with 95 % certainty (exp -3)."""


@dataclass(frozen=True)
class Observation:
    """A cause in one version of an implementation in one run."""

    run: int
    """Number of the run."""
    family: str
    """The implementation with all its front ends, or the edition for a cause in a text."""
    version: str
    calls: int
    """Number of calls that show the cause."""
    tested: int
    """Number of calls in the cells of the cause."""
    is_decided: bool = False
    """True if the run says without cells that the cause is absent, since the implementation follows the clause."""
    plan: str = ""
    """The calls of the run, as its seed and its number of cases; empty with a budget."""


@dataclass(frozen=True)
class Sight:
    """A cause as one run reports it."""

    severity: str
    sentence: str
    line: str
    processor: str


@dataclass(frozen=True)
class CauseHistory:
    """A cause over all runs."""

    id: str
    kind: str
    is_text: bool
    """True for a cause in a text, whose families are editions."""
    sights: Mapping[int, Sight]
    """The runs that report the cause."""
    observations: tuple[Observation, ...]

    @cached_property
    def rate(self) -> float:
        """The share of calls in the cells that show the cause, where it is present."""
        shown = [seen for seen in self.observations if seen.calls and seen.tested]
        return min(1.0, sum(s.calls for s in shown) / sum(s.tested for s in shown)) if shown else 0.0

    @cached_property
    def families(self) -> tuple[str, ...]:
        """The implementations that show the cause."""
        return tuple(sorted({seen.family for seen in self.observations if seen.calls}))

    def state(self, observations: Iterable[Observation]) -> State:
        """The state in some of the observations together."""
        several = list(observations)
        if any(seen.calls for seen in several):
            return State.PRESENT
        if any(seen.is_decided for seen in several) or self.rate * sum(seen.tested for seen in several) >= ENOUGH:
            return State.ABSENT
        # The same plan makes the same calls.
        shown = {(s.family, s.plan, s.tested) for s in self.observations if s.calls and s.plan}
        return State.ABSENT if any((s.family, s.plan, s.tested) in shown for s in several) else State.UNKNOWN

    def state_in(self, run: int) -> State:
        """The state in a run."""
        return self.state(seen for seen in self.observations if seen.run == run)

    def last_known(self, runs: Iterable[int]) -> State:
        """The state in the last of the runs where it is known."""
        states = (self.state_in(run) for run in reversed(list(runs)))
        return next((state for state in states if state is not State.UNKNOWN), State.UNKNOWN)

    def last_sight(self, runs: Iterable[int]) -> Sight | None:
        """The last of the runs' reports of the cause."""
        return next((self.sights[run] for run in reversed(list(runs)) if run in self.sights), None)

    def over_versions(self) -> tuple[Strip, ...]:
        """The strips over versions, one for each implementation; none for a cause in a text."""
        return () if self.is_text else tuple(map(self._over_versions, self.families))

    def _over_versions(self, family: str) -> Strip:
        mine = [seen for seen in self.observations if seen.family == family]
        versions = sorted({seen.version for seen in mine}, key=version_order)
        return Strip(family, tuple(self._square(v, [s for s in mine if s.version == v]) for v in versions))

    def over_runs(self, runs: Mapping[int, str]) -> Strip:
        """The strip over runs.

        Args:
            runs: Label of each run, in their order.
        """
        of_run = ((label, [s for s in self.observations if s.run == run]) for run, label in runs.items())
        return Strip("runs", tuple(self._square(label, seen) for label, seen in of_run))

    def strips(self, runs: Mapping[int, str]) -> tuple[Strip, ...]:
        """The strips over versions, or over the runs of its implementations if there is one version only."""
        strips = self.over_versions()
        several = tuple(strip for strip in strips if len(strip.squares) > 1)
        with_it = {seen.run for seen in self.observations}
        return several or (self.over_runs({run: label for run, label in runs.items() if run in with_it}),)

    def _square(self, label: str, seen: Sequence[Observation]) -> Square:
        return Square(label, self.state(seen), sum(s.calls for s in seen), sum(s.tested for s in seen))


def compare(causes: Iterable[CauseHistory], run: int, before: Sequence[int], labels: Mapping[int, str]) -> Difference:
    """Compare a run with the runs before it. A run that says nothing about a cause is passed over.

    Args:
        causes: All causes.
        run: Number of the run.
        before: Numbers of the runs before it, the oldest first; at least one.
        labels: Id of each run.
    """
    parts: dict[str, list[Change]] = {name: [] for name in ("new", "unseen", "gone", "uncovered", "changed")}
    same = left_out = 0
    for cause in causes:
        was, is_now = cause.last_known(before), cause.state_in(run)
        old, sight = cause.last_sight(before), cause.last_sight([*before, run])
        if sight is None:
            continue
        change = Change(cause.id, sight.sentence, sight.severity, "", sight.line, sight.processor)
        if is_now is State.PRESENT and run in cause.sights:
            if was is not State.PRESENT:
                parts["new" if was is State.ABSENT else "unseen"].append(change)
            elif old is not None and old.severity != sight.severity:
                parts["changed"].append(
                    Change(cause.id, sight.sentence, sight.severity, old.severity, sight.line, sight.processor)
                )
            else:
                same += 1
        elif was is State.PRESENT and is_now is not State.PRESENT and old is not None:
            if any(seen.run == run for seen in cause.observations):
                parts["gone" if is_now is State.ABSENT else "uncovered"].append(change)
            else:
                left_out += 1
    ordered = {name: tuple(sorted(changes, key=_order)) for name, changes in parts.items()}
    return Difference(labels[run], labels[before[-1]], same=same, left_out=left_out, **ordered)


def _order(change: Change) -> tuple[int, str]:
    return Severity(change.severity).rank, change.cause
