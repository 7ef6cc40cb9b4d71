"""The division of a run into parts, of parts among shards, and of a shard's parts into sessions.

A part is a slice of one edition's plan. A session is one start of the workers, with parts of different editions. What a
session finds about a part depends on that part alone, so shards may group parts in any way.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from xverify.contracts.model import Contract
from xverify.core.shard import Shard
from xverify.strategies.walk import scale_outputs

MOST_CASES = 2000
"""The largest number of cases of a part. An edition with more cases is cut into slices, however many shards there are."""

CASES_OF_START = 1000
"""The start of an implementation takes as long as this many cases.

TensorFlow's takes 7 s with its first calls and the confirmation of its deaths. Others start faster.
"""

CASES_PER_SECOND = 130
"""The number of cases that one shard makes in a second of its budget, about."""


@dataclass(frozen=True, order=True)
class Slice:
    """Slice ``index`` of ``count`` of an edition's plan; the first is 0. The whole plan is slice 0 of 1."""

    index: int = 0
    count: int = 1

    @property
    def purpose(self) -> tuple[object, ...]:
        """The values that make the seeds of this slice differ from those of the others."""
        return () if self.count == 1 else ("slice", self.index, self.count)


WHOLE = Slice()


@dataclass(frozen=True)
class Part:
    """A slice of an edition's plan."""

    contract: str
    """The edition's id."""

    slice: Slice = WHOLE

    cases: int | None = None
    """The number of cases; None for as many as the time allows."""


def weight(contract: Contract) -> float:
    """A contract's weight, which determines its share of the calls.

    It is the square root of types times granularities, so that a large domain gets more calls and a small one is not forgotten.
    More scale and output types raise it, so that the lap over the cells ends within a default sweep. More modes raise it too,
    because each is a formula of its own.
    """
    domain = contract.domain
    spread = math.sqrt(len(domain.x_dtypes) * len(domain.granularities)) * math.pow(len(scale_outputs(domain)), 0.25)
    return spread * math.pow(max(1, len(domain.modes)), 1.2)


def shares(cases: int, weights: Mapping[str, float]) -> dict[str, int]:
    """Divide cases by weight into whole numbers. The first contracts take the remainder."""
    total = sum(weights.values())
    whole = {name: int(cases * weight / total) for name, weight in weights.items()}
    left = cases - sum(whole.values())
    return {name: share + (i < left) for i, (name, share) in enumerate(whole.items())}


def parts(weights: Mapping[str, float], cases: int | None, count: int = 1, most: int = MOST_CASES) -> list[Part]:
    """The parts of a run, in the order of its editions.

    With a number of cases, the parts do not depend on the number of shards. With a budget, an edition is cut only if there are
    more shards than editions; then there is one part for each shard.

    Args:
        weights: The weight of each edition of the run, by id.
        cases: The number of cases of the whole run; None if it has a budget.
        count: The number of shards.
        most: The largest number of cases of a part.
    """
    if cases is None:
        slices = dict.fromkeys(weights, 1)
        for _ in range(count - len(weights) if weights else 0):
            slices[max(weights, key=lambda name: weights[name] / slices[name])] += 1
        return [Part(name, Slice(i, number)) for name, number in slices.items() for i in range(number)]
    listed = []
    for name, quota in shares(cases, weights).items():
        number = max(1, math.ceil(quota / most))
        listed += [Part(name, Slice(i, number), quota // number + (i < quota % number)) for i in range(number)]
    return listed


def divided(
    listed: Sequence[Part],
    weights: Mapping[str, float],
    shard: Shard,
    answering: Mapping[str, Collection[str]],
    seconds: float,
) -> list[Part]:
    """The parts of one shard, in the order of ``listed``.

    The longest parts are given out first. A shard that has started the implementations of a part takes it while it has room,
    since each start costs time. So a shard that starts more has fewer cases.

    Args:
        listed: The parts of the run, see `parts`.
        weights: The weight of each edition of the run, by id.
        answering: The names of the implementations that take calls of each edition, by id.
        seconds: The budget of the run, if its parts have no number of cases.
    """
    expected = CASES_PER_SECOND * seconds * shard.count / sum(weights.values()) if weights else 0.0

    def length(part: Part) -> float:
        return part.cases if part.cases is not None else expected * weights[part.contract] / part.slice.count

    loads = [0.0] * shard.count
    numbers = [0] * shard.count
    started: list[set[str]] = [set() for _ in loads]
    names = {name for part in listed for name in answering[part.contract]}
    room = (sum(map(length, listed)) + CASES_OF_START * len(names)) / shard.count
    chosen = set()
    for index in sorted(range(len(listed)), key=lambda index: (-length(listed[index]), index)):
        part = listed[index]

        def load(k: int, part: Part = part) -> float:
            return loads[k] + length(part) + CASES_OF_START * len({*answering[part.contract]} - started[k])

        def order(k: int, part: Part = part) -> tuple[bool, float, int, int]:
            fits = started[k].issuperset(answering[part.contract]) and load(k) <= room
            # The number of parts decides between equal loads, so that parts without cases spread too.
            return not fits, load(k), numbers[k], k

        to = min(range(shard.count), key=order)
        loads[to] = load(to)
        started[to] |= {*answering[part.contract]}
        numbers[to] += 1
        if to == shard.index - 1:
            chosen.add(index)
    return [part for index, part in enumerate(listed) if index in chosen]


def sessions(listed: Sequence[Part]) -> list[tuple[Part, ...]]:
    """Group parts into sessions: the first part of each edition, then the second of each, and so on."""
    grouped: list[list[Part]] = []
    for part in listed:
        free = next((group for group in grouped if all(part.contract != other.contract for other in group)), None)
        if free is None:
            grouped.append(free := [])
        free.append(part)
    return [tuple(group) for group in grouped]


def digest(**facts: object) -> str:
    """A short name of what a run is. Shards of one run have the same."""
    text = json.dumps(facts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
