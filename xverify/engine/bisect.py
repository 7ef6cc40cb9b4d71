"""The first version that shows a finding, or no longer shows it, in few environments.

The search halves the distance between a version that shows it and one that does not, as `git bisect` does. A version that
cannot be tried is stepped around. It assumes one change between the two: of several it finds one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

State = Literal["shows", "does not", "not tried"]

LAST_RESORT = 8
"""Versions that are tried although all that were tried before, in growing steps, could not be."""

Probe = Callable[[str], "Trial"]
"""probe(version): makes its environment if need be, and asks it. Raises nothing: what failed is a trial too."""


@dataclass(frozen=True)
class Trial:
    """One version that was tried. state: "shows" the finding, "does not", or "not tried" where that could not be; words: what it
    gives, or why it could not be tried. seconds: how long it took."""

    version: str
    state: State
    words: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Edge:
    """Where it changes: the newest version that was tried before, and the first that is otherwise. between: versions from one to
    the other that could not be tried."""

    before: Trial
    after: Trial
    between: tuple[str, ...] = ()

    @property
    def appears(self) -> bool:
        return self.after.state == "shows"


@dataclass(frozen=True)
class Bisection:
    """trials: of all versions that were tried, oldest first, those that could not be among them. edges: where it changes, oldest
    first; none where every version that was tried gives the same."""

    trials: tuple[Trial, ...]
    edges: tuple[Edge, ...]

    @property
    def tried(self) -> tuple[Trial, ...]:
        return tuple(trial for trial in self.trials if trial.state != "not tried")

    @property
    def failed(self) -> tuple[Trial, ...]:
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
    said = f"{first}; {edge.before.version} {'does not' if edge.appears else 'still does'}"
    return f"{said} ({', '.join(edge.between)} between them could not be tried)" if edge.between else said


@dataclass
class _Search:
    """The versions, oldest first, and what is known of them by their places."""

    versions: Sequence[str]
    probe: Probe
    known: dict[int, Trial] = field(default_factory=dict)

    def at(self, place: int) -> Trial:
        if place not in self.known:
            self.known[place] = self.probe(self.versions[place])
        return self.known[place]

    def works(self, place: int) -> bool:
        return self.at(place).state != "not tried"

    def end(self, places: range) -> int | None:
        """The first of the places that can be tried. Steps grow, since what cannot be tried at an end comes in rows (no wheel for
        this Python); then the row's end is halved for."""
        failed, step = -1, 1
        while failed + step < len(places) and not self.works(places[failed + step]):
            failed, step = failed + step, step * 2
        works = failed + step
        if works >= len(places):
            left = [place for place in places if place not in self.known][-LAST_RESORT:]
            return next((place for place in reversed(left) if self.works(place)), None)
        while works - failed > 1:
            middle = (failed + works) // 2
            if self.works(places[middle]):
                works = middle
            else:
                failed = middle
        return places[works]

    def edge(self, low: int, high: int) -> Edge:
        """Two versions from ``low`` to ``high``, which differ, with none between them that can be tried."""
        while True:
            inside = range(low + 1, high)
            usable = [place for place in inside if place in self.known and self.works(place)]
            usable = usable or [place for place in inside if place not in self.known]
            if not usable:
                return Edge(self.at(low), self.at(high), tuple(self.versions[place] for place in inside))
            place = min(usable, key=lambda one: abs(2 * one - low - high))
            if not self.works(place):
                continue
            if self.at(place).state == self.at(low).state:
                low = place
            else:
                high = place


def bisect(versions: Sequence[str], probe: Probe, known: str = "") -> Bisection:
    """Find where a finding appears or disappears among versions, oldest first.

    known: the version that it was found in. The two ends are tried first; where they agree, ``known`` tells whether it comes and
    goes between them, which makes two edges. Of n versions at most 3 + 2 log2(n) are tried, and those that could not be.
    """
    search = _Search(versions, probe)
    low = search.end(range(len(versions)))
    if low is None:
        return _result(search, [])
    high = search.end(range(len(versions) - 1, low, -1))
    if high is None:
        return _result(search, [])
    marks = [low, high]
    if search.at(low).state == search.at(high).state and known in versions:
        place = list(versions).index(known)
        if low < place < high and search.works(place):
            marks = [low, place, high]
    edges = [search.edge(a, b) for a, b in pairwise(marks) if search.at(a).state != search.at(b).state]
    return _result(search, edges)


def _result(search: _Search, edges: Sequence[Edge]) -> Bisection:
    return Bisection(tuple(search.known[place] for place in sorted(search.known)), tuple(edges))
