"""A search for the first version that shows a finding, or no longer shows it, in few environments.

The search halves the distance between a version that shows it and one that does not, as `git bisect` does. It steps around
versions that cannot be tried. If there are several changes between the two, it finds one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

State = Literal["shows", "does not", "not tried"]

LAST_RESORT = 8
"""The number of versions that are tried one by one if none in growing steps can be tried."""

Probe = Callable[[str], "Trial"]
"""probe(version) runs the witness with a version, and makes an environment for that if there is none.

A failure is a trial too, not an exception.
"""


@dataclass(frozen=True)
class Trial:
    """One version that was tried."""

    version: str

    state: State
    """It shows the finding, it does not, or the version could not be tried."""

    words: str = ""
    """The result in a few words, or why the version could not be tried."""

    seconds: float = 0.0
    """Duration of the trial."""


@dataclass(frozen=True)
class Edge:
    """A change from one version to the next."""

    before: Trial
    """The newest tried version before the change."""

    after: Trial
    """The first version after the change."""

    between: tuple[str, ...] = ()
    """Versions between the two that could not be tried."""

    @property
    def appears(self) -> bool:
        """True if the finding appears here, False if it disappears."""
        return self.after.state == "shows"


@dataclass(frozen=True)
class Bisection:
    """The result of a search."""

    trials: tuple[Trial, ...]
    """All trials, the failed ones among them, oldest version first."""

    edges: tuple[Edge, ...]
    """The changes, oldest first; none if all tried versions give the same."""

    @property
    def tried(self) -> tuple[Trial, ...]:
        """The trials of versions that could be tried."""
        return tuple(trial for trial in self.trials if trial.state != "not tried")

    @property
    def failed(self) -> tuple[Trial, ...]:
        """The trials of versions that could not be tried."""
        return tuple(trial for trial in self.trials if trial.state == "not tried")

    @property
    def answer(self) -> str:
        """The outcome in one sentence."""
        tried = self.tried
        if not tried:
            return "no version could be tried"
        if not self.edges:
            if len(tried) == 1:
                return f"only {tried[0].version} could be tried, and it {_does(tried[0])}"
            two, shown = len(tried) == 2, tried[0].state == "shows"
            which = "both show" if two else f"all {len(tried)} that were tried show"
            which = which if shown else "neither shows" if two else f"none of the {len(tried)} that were tried shows"
            return f"nothing changes between {tried[0].version} and {tried[-1].version}: {which} it"
        return "; ".join(_sentence(edge) for edge in self.edges)


def _does(trial: Trial) -> str:
    return "shows it" if trial.state == "shows" else "does not show it"


def _sentence(edge: Edge) -> str:
    first = f"{edge.after.version} is the first version that {'shows it' if edge.appears else 'no longer shows it'}"
    sentence = f"{first}; {edge.before.version} {'does not' if edge.appears else 'still does'}"
    return f"{sentence} ({', '.join(edge.between)} between them could not be tried)" if edge.between else sentence


@dataclass
class _Search:
    """The state of a search."""

    versions: Sequence[str]
    """Oldest first."""

    probe: Probe

    trials: dict[int, Trial] = field(default_factory=dict)
    """Trials by the index of their version."""

    def at(self, index: int) -> Trial:
        """The trial of a version. It is made when first needed."""
        if index not in self.trials:
            self.trials[index] = self.probe(self.versions[index])
        return self.trials[index]

    def works(self, index: int) -> bool:
        """True if the version can be tried."""
        return self.at(index).state != "not tried"

    def end(self, indices: range) -> int | None:
        """The first of the indices whose version can be tried.

        Steps grow, because versions that cannot be tried are often neighbours at one end (no wheel for this Python). A search by
        halves then finds the end of that run.
        """
        failed, step = -1, 1
        while failed + step < len(indices) and not self.works(indices[failed + step]):
            failed, step = failed + step, step * 2
        works = failed + step
        if works >= len(indices):
            left = [index for index in indices if index not in self.trials][-LAST_RESORT:]
            return next((index for index in reversed(left) if self.works(index)), None)
        while works - failed > 1:
            middle = (failed + works) // 2
            if self.works(indices[middle]):
                works = middle
            else:
                failed = middle
        return indices[works]

    def edge(self, low: int, high: int) -> Edge:
        """The change between two versions that differ, narrowed until no version between them can be tried."""
        while True:
            inside = range(low + 1, high)
            usable = [index for index in inside if index in self.trials and self.works(index)]
            usable = usable or [index for index in inside if index not in self.trials]
            if not usable:
                return Edge(self.at(low), self.at(high), tuple(self.versions[index] for index in inside))
            middle = min(usable, key=lambda index: abs(2 * index - low - high))
            if not self.works(middle):
                continue
            if self.at(middle).state == self.at(low).state:
                low = middle
            else:
                high = middle


def bisect(versions: Sequence[str], probe: Probe, seen_in: str = "") -> Bisection:
    """Find where a finding appears or disappears among versions.

    The two ends are tried first. If they agree, ``seen_in`` shows if the finding appears and disappears between them; there are
    then two edges. Of n versions at most 3 + 2 log2(n) are tried, not counting those that cannot be tried.

    Args:
        versions: Oldest first.
        probe: Runs the finding with one version.
        seen_in: The version in which the finding was seen.
    """
    search = _Search(versions, probe)
    low = search.end(range(len(versions)))
    if low is None:
        return _result(search, [])
    high = search.end(range(len(versions) - 1, low, -1))
    if high is None:
        return _result(search, [])
    marks = [low, high]
    if search.at(low).state == search.at(high).state and seen_in in versions:
        middle = list(versions).index(seen_in)
        if low < middle < high and search.works(middle):
            marks = [low, middle, high]
    edges = [search.edge(a, b) for a, b in pairwise(marks) if search.at(a).state != search.at(b).state]
    return _result(search, edges)


def _result(search: _Search, edges: Sequence[Edge]) -> Bisection:
    return Bisection(tuple(search.trials[index] for index in sorted(search.trials)), tuple(edges))
