"""What one implementation's values in one cell say of the recipe that it follows, call after call."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic.reading import Reading
from xverify.core.bits import canonical, ulp_distance
from xverify.core.call import Tensor
from xverify.verify import attribute
from xverify.verify.attribute import FEW, FEW_SEEN, SEARCHED, Attribution, CheckedResult, Misread, Recipe, Zeros
from xverify.verify.compare import Comparison
from xverify.verify.region import EVERYWHERE, NOWHERE_SIMPLE, Region, Sample, region
from xverify.verify.verdicts import Judged

KEPT_PROBES, KEPT_WRONG, KEPT_RIGHT, KEPT_VALUES = 16, 8, 8, 1 << 13
"""Calls that a cell keeps: those that its recipe is first searched on, wrong ones and right ones; and how large they may be."""

MOST_PIECES = 4
"""Recipes of the wrong values for which a region is sought; they are sorted, the simplest first."""


HELD = 1024
"""Values that are held against the readings that remain before only one call in four is."""


@dataclass(eq=False)
class Evidence:
    """others: the readings that the text does not admit and that give every value so far; None before the first search.

    probes: the calls that the search begins with. wrong, right: calls kept for what can be said only at the end.
    values: how many the cell has; held: how many of them were held against ``others``, and wrong_held how many wrong ones.
    whole: whether every composition was searched. seconds: spent on it. tried: triples, of calls that were not made, on which
    the readings that remain do not differ.
    """

    others: tuple[Reading, ...] | None = None
    probes: list[tuple[Judged, CheckedResult]] = field(default_factory=list)
    wrong: list[tuple[Judged, CheckedResult]] = field(default_factory=list)
    right: list[tuple[Judged, CheckedResult]] = field(default_factory=list)
    values: int = 0
    held: int = 0
    wrong_held: int = 0
    whole: bool = False
    seconds: float = 0.0
    tried: int = 0
    histogram: Counter[int] = field(default_factory=Counter)

    def observe(
        self, judged: Judged, got: Tensor, comparison: Comparison, is_judged: bool, often: bool, explained: bool
    ) -> None:
        """Take in one allowed call's values. often: whether the implementation is asked enough on this path to say which
        readings remain also where an admitted one explains all; explained: whether one does, so far and with this call."""
        if not judged.call.values:
            return
        if not (often or comparison.wrong_values or self.wrong):
            if judged.places is not None and len(self.probes) < KEPT_PROBES:
                self.probes.append((judged, CheckedResult(judged.call, got, comparison.wrong, judged.places)))
            return
        if judged.contract.fixed_result is not None and not judged.contract.readings(judged.call):
            return  # an implementation that stands for the text answers what no reading is for
        began = time.perf_counter()
        seen = CheckedResult(judged.call, got, comparison.wrong, judged.places)
        self.values += got.size
        self._follow(judged, seen, is_judged, explained)
        self._keep(judged, seen)
        if comparison.wrong_values and is_judged:
            self._measure(judged, got, comparison)
        self.seconds += time.perf_counter() - began

    def _follow(self, judged: Judged, seen: CheckedResult, is_judged: bool, explained: bool) -> None:
        if self.others is None:
            if explained and judged.places is None and (judged.call.around or seen.got.size > KEPT_VALUES):
                return  # it would be a search of its own; what the lap asks begins one that cells of the same types share
            self.probes.append((judged, seen))
            if judged.more and len(self.probes) < KEPT_PROBES:
                return
            self._begin(is_judged)
        elif self.others and (not explained or self.held < HELD or judged.number % 4 == 0):
            # Where an admitted reading explains everything and thousands of values have excluded no other, what is needed
            # are calls on which they differ, which the engine makes at the end.
            self.others = _surviving(self.others, judged, seen.got)
            self.held += seen.got.size
            self.wrong_held += int(seen.wrong.sum())
        # The call that no reading explains any more may itself have no wrong value.
        if not self.others and is_judged and (seen.wrong.any() or self.histogram):
            self._widen((judged, seen))

    def settle(self, is_judged: bool) -> None:
        """Begin with the probes that came, where the last of a cell did not: it was refused, or the run ended."""
        if self.others is None and self.probes:
            began = time.perf_counter()
            self._begin(is_judged)
            self.seconds += time.perf_counter() - began

    def _begin(self, is_judged: bool) -> None:
        judged = self.probes[0][0]
        contract, operands = judged.contract, judged.contract.operands(judged.call)
        found = attribute.search(contract, [_beginning(one) for _, one in self.probes])
        admitted = {reading.simplified(operands) for reading in contract.readings(judged.call)}
        self.others = tuple(reading for reading in found if reading.simplified(operands) not in admitted)
        # The search looked at some values; the calls have others too.
        for probe, one in self.probes:
            self.others = _surviving(self.others, probe, one.got)
            self.held += one.got.size
            self.wrong_held += int(one.wrong.sum())
        if not self.others and is_judged and any(one.wrong.any() for _, one in self.probes):
            self._widen()

    def _widen(self, *more: tuple[Judged, CheckedResult]) -> None:
        """Search every composition, once."""
        if not self.whole:
            self.whole = True
            seen = [CheckedResult(s.call, s.got, s.wrong) for _, s in (*self.probes, *self.wrong, *self.right, *more)]
            self.others = attribute.search((*self.probes, *more)[0][0].contract, seen, whole=True)
            self.wrong_held = sum(int(one.wrong.sum()) for one in seen)

    def _keep(self, judged: Judged, seen: CheckedResult) -> None:
        if seen.got.size > KEPT_VALUES and (self.wrong or not seen.wrong.any()):
            return
        if seen.wrong.any():
            if len(self.wrong) == KEPT_WRONG:
                # The first ones and the latest: what explains these need not explain those.
                del self.wrong[KEPT_WRONG // 2]
            self.wrong.append((judged, seen))
        elif self.wrong and len(self.right) < KEPT_RIGHT:
            self.right.append((judged, seen))

    def _measure(self, judged: Judged, got: Tensor, comparison: Comparison) -> None:
        """Count the wrong values by how far they are from the nearest legal one, in powers of two of ULP."""
        legal = judged.legal
        assert legal is not None
        given = got.codes[comparison.wrong]
        distances = np.stack([ulp_distance(given, c[comparison.wrong], legal.dtype) for c in legal.distinct])
        nearest = np.where(distances < 0, np.iinfo(np.int64).max, distances).min(axis=0)
        for distance, count in zip(*np.unique(nearest, return_counts=True), strict=True):
            known = distance != np.iinfo(np.int64).max
            self.histogram[1 << (int(distance).bit_length() - 1) if known else -1] += int(count)

    def samples(self, piece: Recipe | None = None) -> list[Sample]:
        """The kept calls, for finding the region of the wrong values. piece: the recipe that gives them, if only them."""
        kept = {id(seen): (judged, seen) for judged, seen in (*self.wrong, *self.right, *self.probes)}
        return [
            Sample(judged.contract, judged.call, judged.legal, seen.wrong, _telling(judged, piece))
            for judged, seen in kept.values()
            if judged.legal is not None
        ]

    def departures(self) -> list[Sample]:
        """The kept calls, for finding the region of the values that are not those of the first reading."""
        return [
            Sample(
                judged.contract,
                judged.call,
                judged.legal,
                canonical(seen.got.codes, seen.got.dtype) != judged.legal.codes(0),
            )
            for judged, seen in (*self.right, *self.probes)
            if judged.legal is not None
        ]


def _telling(judged: Judged, piece: Recipe | None) -> NDArray[np.bool_] | None:
    """Where a recipe gives what no admitted reading gives; None when there is no recipe."""
    if piece is None or judged.legal is None:
        return None
    codes = attribute.codes_of(judged.contract, judged.call, piece)
    return np.asarray(np.logical_and.reduce([legal != codes for legal in judged.legal.distinct]))


def _beginning(seen: CheckedResult) -> CheckedResult:
    """The call with the values that a search begins with: those that were chosen for it, or a few."""
    return seen if seen.places is not None else replace(seen, places=np.arange(min(SEARCHED, seen.got.size)))


def _surviving(readings: Sequence[Reading], judged: Judged, got: Tensor) -> tuple[Reading, ...]:
    """Those of the readings that give every value of an outcome."""
    wanted = canonical(got.codes, got.dtype)
    given = zip(readings, judged.give(readings), strict=True)
    return tuple(reading for reading, codes in given if np.array_equal(codes, wanted))


@dataclass(frozen=True)
class Explained:
    """What is known at a run's end of a cell with wrong values: the recipe that gives them, or none."""

    recipe: Recipe | None
    elsewhere: Reading | None = None


def explained(evidence: Evidence) -> Explained:
    """The recipe of a cell that no reading explains: an indexing mistake, or two pieces with a region between them."""
    kept = [seen for _, seen in (*evidence.wrong, *evidence.right, *evidence.probes)]
    if not evidence.wrong:
        return Explained(None)
    judged, first = evidence.wrong[0]
    contract = judged.contract
    whole = attribute.misreadings(contract, kept) if sum(seen.got.size for seen in kept) >= FEW_SEEN else ()
    if whole:
        return Explained(whole[0])
    amiss = [CheckedResult(seen.call, seen.got, seen.wrong) for _, seen in evidence.wrong]
    if all(attribute.gives(contract, seen.call, seen.got, Zeros(), seen.wrong) for seen in amiss):
        return Explained(Zeros(), next((r for r in contract.readings(first.call) if _right_by(evidence, r)), None))
    if sum(int(seen.wrong.sum()) for seen in amiss) < FEW:
        return Explained(None)
    legal = next((r for r in contract.readings(first.call) if _right_by(evidence, r)), None)
    if legal is None:
        return Explained(None)
    pieces: tuple[Recipe, ...] = attribute.search(contract, amiss, wrong_only=True)
    pieces = pieces or attribute.misreadings(contract, amiss, wrong_only=True)
    pieces = pieces or attribute.search(contract, amiss, whole=True, wrong_only=True)
    apart = (piece for piece in pieces[:MOST_PIECES] if _between(region(evidence.samples(piece))))
    piece = next(apart, None)
    return Explained(None) if piece is None else Explained(piece, legal)


def _right_by(evidence: Evidence, reading: Reading) -> bool:
    """Whether an admitted reading gives every kept value that is right."""
    return all(
        attribute.gives(judged.contract, seen.call, seen.got, reading, ~seen.wrong)
        for judged, seen in (*evidence.wrong, *evidence.right, *evidence.probes)
    )


def _between(found: Region) -> bool:
    return found.words not in (NOWHERE_SIMPLE, EVERYWHERE)


def attribution(found: Explained, values: int) -> Attribution | None:
    """As a finding has it."""
    if found.recipe is None:
        return None
    elsewhere = None if found.elsewhere is None else (found.elsewhere.name, found.elsewhere.words)
    return Attribution(found.recipe.name, found.recipe.words, values, values, elsewhere)


__all__ = ["Evidence", "Explained", "Misread", "attribution", "explained"]
