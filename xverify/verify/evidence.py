"""Evidence about the recipe that one implementation follows in one cell, collected call after call."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic import lattice
from xverify.arithmetic.indexing import Misindexing
from xverify.arithmetic.reading import Reading
from xverify.arithmetic.readings import Stepwise
from xverify.contracts.model import Contract
from xverify.core.bits import canonical, ulp_distance
from xverify.core.call import Tensor
from xverify.core.dtypes import values
from xverify.verify import attribute
from xverify.verify.attribute import (
    FEW,
    FEW_NEAR,
    FEW_SEEN,
    SEARCHED,
    Attribution,
    CheckedResult,
    Misread,
    OtherSigns,
    Recipe,
    Zeros,
    ZeroScale,
)
from xverify.verify.compare import Comparison, compare
from xverify.verify.region import EVERYWHERE, NOWHERE_SIMPLE, Region, Sample, region
from xverify.verify.verdicts import Judged

KEPT_PROBES, KEPT_WRONG, KEPT_RIGHT, KEPT_VALUES = 16, 8, 8, 1 << 13
"""The numbers of calls that a cell keeps: for the first search, wrong ones, right ones; and the most values of each."""

MOST_PIECES = 4
"""The number of recipes of the wrong values, simplest first, for which a region is searched."""

MOST_RECIPES = 3
"""The largest number of recipes that are named for the wrong values of one cell."""


FEW_DISTINCT = 4
"""The least number of distinct finite wrong results, zeros aside, that a recipe far from the admitted readings may explain.

Many recipes give the same infinity or NaN.
"""

BEYOND = 1 << 40
"""The first number of calls that are made to exclude readings, higher than all others. Each is compared with all that remain.

Of equally small witnesses the lower number wins.
"""

UNSIGNED = Stepwise(zero="unsigned")
"""The recipe of zeros that lost their sign."""

HELD = 1024
"""The number of values after which only one call in four is compared with the remaining readings."""


@dataclass(eq=False)
class Evidence:
    """The recipes that remain possible in a cell, and the calls that are kept."""

    others: tuple[Reading, ...] | None = None
    """Readings that the text does not admit and that give every value so far; None before the first search."""
    probes: list[tuple[Judged, CheckedResult]] = field(default_factory=list)
    """The calls with which the search begins."""
    early: list[tuple[Judged, CheckedResult]] = field(default_factory=list)
    """Calls that came before the probes of the cell and that an admitted reading explains. A search begins with the probes."""
    wrong: list[tuple[Judged, CheckedResult]] = field(default_factory=list)
    """Calls with wrong values, kept for the end."""
    right: list[tuple[Judged, CheckedResult]] = field(default_factory=list)
    """Calls without wrong values, kept for the end."""
    values: int = 0
    """The number of values in the cell."""
    held: int = 0
    """The number of values that were compared with ``others``."""
    wrong_held: int = 0
    """The number of wrong values among them."""
    whole: bool = False
    """True if every composition was searched."""
    seconds: float = 0.0
    """The time spent here."""
    tried: int = 0
    """The number of triples, of calls that were not made, on which the remaining readings agree."""
    histogram: Counter[int] = field(default_factory=Counter)
    """Wrong values by distance in ULP, in powers of two; -1 for no number."""

    def observe(
        self, judged: Judged, got: Tensor, comparison: Comparison, is_judged: bool, often: bool, explained: bool
    ) -> None:
        """Add one allowed call's values.

        Args:
            judged: the call.
            got: the result.
            comparison: its comparison with the legal set.
            is_judged: True if the edition judges the implementation.
            often: True if the path gets enough calls to tell readings apart where an admitted one explains all.
            explained: True if an admitted reading explains all values so far, this call included.
        """
        if not judged.call.values:
            return
        if not (often or comparison.wrong_values or self.wrong):
            if judged.places is not None and len(self.probes) < KEPT_PROBES:
                self.probes.append((judged, CheckedResult(judged.call, got, comparison.wrong, judged.places)))
            return
        if judged.contract.fixed_result is not None and not judged.contract.readings(judged.call):
            return  # the text is an implementation, and no reading describes this call
        began = time.perf_counter()
        seen = CheckedResult(judged.call, got, comparison.wrong, judged.places)
        self.values += got.size
        self._follow(judged, seen, is_judged, explained)
        self._keep(judged, seen, explained)
        if comparison.wrong_values and is_judged:
            self.measure(judged, got, comparison.wrong)
        self.seconds += time.perf_counter() - began

    def _follow(self, judged: Judged, seen: CheckedResult, is_judged: bool, explained: bool) -> None:
        if self.others is None:
            if explained and judged.places is None and (judged.call.around or seen.got.size > KEPT_VALUES):
                return  # this search would be its own; a search on the lap's calls is shared by cells of equal types
            if explained and judged.places is None and judged.more:
                self.early += [(judged, seen)] if len(self.early) < KEPT_PROBES else []
                return
            self.probes.append((judged, seen))
            if judged.more and len(self.probes) < KEPT_PROBES:
                return
            self._begin(is_judged)
        elif self.others and (not explained or self.held < HELD or judged.number % 4 == 0 or judged.number >= BEYOND):
            # An admitted reading explains everything, and thousands of values have excluded no other one. Only calls on
            # which they differ would help. The engine makes them at the end.
            self.others = _surviving(self.others, judged, seen)
            self.held += seen.got.size
            self.wrong_held += int(seen.wrong.sum())
        # A call that excludes the last reading may have no wrong value itself.
        if not self.others and is_judged and (seen.wrong.any() or self.histogram):
            self._widen((judged, seen))

    def settle(self, is_judged: bool) -> None:
        """Search with the probes that came, if the cell's last one did not.

        It was refused, or the run ended. A recipe far from the admitted readings needs several distinct results.
        """
        if self.others is None and self.probes:
            began = time.perf_counter()
            self._begin(is_judged)
            self.seconds += time.perf_counter() - began
        if self.whole and self.probes[0][0].contract.domain.family != "range" and not _is_telling(self):
            self.others = ()

    def _begin(self, is_judged: bool) -> None:
        judged = self.probes[0][0]
        contract, operands = judged.contract, judged.contract.operands(judged.call)
        readings = attribute.search(contract, [_beginning(result) for _, result in self.probes])
        self.probes, self.early = [*self.probes, *self.early], []
        self.others = attribute.beyond(readings, contract.readings(judged.call), operands)
        # The search used some values only. Compare the others too.
        small = [result for _, result in self.probes if result.got.size <= KEPT_VALUES]
        self.others = attribute.surviving(contract, self.others, small)
        for probe, result in self.probes:
            if result.got.size > KEPT_VALUES:
                self.others = _surviving(self.others, probe, result)
            self.held += result.got.size
            self.wrong_held += int(result.wrong.sum())
        if not self.others and is_judged and any(result.wrong.any() for _, result in self.probes):
            self._widen()

    def _widen(self, *more: tuple[Judged, CheckedResult]) -> None:
        """Search every composition, once."""
        if not self.whole:
            self.whole = True
            seen = [CheckedResult(s.call, s.got, s.wrong) for _, s in (*self.probes, *self.wrong, *self.right, *more)]
            self.others = attribute.search((*self.probes, *more)[0][0].contract, seen, whole=True)
            self.wrong_held = sum(int(result.wrong.sum()) for result in seen)

    def _keep(self, judged: Judged, seen: CheckedResult, explained: bool) -> None:
        if seen.got.size > KEPT_VALUES and (self.wrong or not seen.wrong.any()):
            return
        if seen.wrong.any():
            if len(self.wrong) == KEPT_WRONG:
                # Keep the first and the latest, since different recipes may explain them.
                del self.wrong[KEPT_WRONG // 2]
            self.wrong.append((judged, seen))
        elif self.wrong and len(self.right) < KEPT_RIGHT:
            self.right.append((judged, seen))
        elif not self.wrong and not explained:
            # Mixed readings. The latest calls were made to tell them apart.
            self.right = [*self.right[1 - KEPT_RIGHT :], (judged, seen)]

    def measure(self, judged: Judged, got: Tensor, wrong: NDArray[np.bool_]) -> None:
        """Count the wrong values by their distance from the nearest legal one, in powers of two of ULP."""
        legal = judged.legal
        assert legal is not None
        codes = got.codes[wrong]
        distances = np.stack([ulp_distance(codes, c[wrong], legal.dtype) for c in legal.distinct])
        nearest = np.where(distances < 0, np.iinfo(np.int64).max, distances).min(axis=0)
        for distance, count in zip(*np.unique(nearest, return_counts=True), strict=True):
            is_number = distance != np.iinfo(np.int64).max
            self.histogram[1 << (int(distance).bit_length() - 1) if is_number else -1] += int(count)

    def samples(self, piece: Recipe | None = None) -> list[Sample]:
        """The kept calls, to find the region of the wrong values.

        If the recipe ``piece`` gives the wrong values only, values on which it agrees with the legal set are left out.
        """
        kept = {id(seen): (judged, seen) for judged, seen in (*self.wrong, *self.right, *self.probes)}
        return [
            Sample(judged.contract, judged.call, judged.legal, seen.wrong, _telling(judged, piece))
            for judged, seen in kept.values()
            if judged.legal is not None
        ]

    def departures(self, other: Reading | None = None) -> list[Sample]:
        """The kept calls, to find the region of the values that the first reading does not give.

        If the reading ``other`` gives those, values on which the two agree are left out.
        """
        return [
            Sample(
                judged.contract,
                judged.call,
                judged.legal,
                canonical(seen.got.codes, seen.got.dtype) != judged.legal.codes(0),
                None if other is None else judged.give([other])[0] != judged.legal.codes(0),
            )
            for judged, seen in (*self.right, *self.probes)
            if judged.legal is not None
        ]


def _telling(judged: Judged, piece: Recipe | None) -> NDArray[np.bool_] | None:
    """The mask of values on which a recipe leaves the legal set; None without a recipe."""
    legal = judged.legal
    if piece is None or legal is None:
        return None
    codes = attribute.codes_of(judged.contract, judged.call, piece)
    return compare(legal, Tensor(legal.dtype, np.broadcast_to(codes, legal.shape))).wrong


def _beginning(seen: CheckedResult) -> CheckedResult:
    """The result with the values that a search begins with: those selected for it, or the first few."""
    return seen if seen.places is not None else replace(seen, places=np.arange(min(SEARCHED, seen.got.size)))


def _surviving(readings: Sequence[Reading], judged: Judged, seen: CheckedResult) -> tuple[Reading, ...]:
    """The readings that give every value of a result. A few values of a large result exclude most of them."""
    wanted = canonical(seen.got.codes, seen.got.dtype)
    if seen.got.size > KEPT_VALUES:
        places = attribute.spread_out(seen.wrong.reshape(-1))
        some, operands = wanted.reshape(-1)[places], judged.contract.operands(judged.call)
        own = attribute.evaluated(readings, lattice.taken(operands, places))
        readings = [reading for reading, codes in zip(readings, own, strict=True) if np.array_equal(codes, some)]
    pairs = zip(readings, judged.give(readings), strict=True)
    return tuple(reading for reading, codes in pairs if np.array_equal(codes, wanted))


def _is_telling(evidence: Evidence) -> bool:
    """True if the kept wrong results tell recipes apart: enough are finite, not zero, and distinct."""
    return len(_numbers((*evidence.wrong, *evidence.probes))) >= FEW_DISTINCT


def _numbers(kept: Iterable[tuple[Judged, CheckedResult]], most: int = FEW_DISTINCT) -> set[float]:
    """Distinct wrong results that are finite and not zero: at most so many of each call."""
    numbers: set[float] = set()
    for _, seen in kept:
        results = values(seen.got.dtype, seen.got.codes[seen.wrong])
        numbers.update(np.unique(results[np.isfinite(results) & (results != 0)])[:most].tolist())
    return numbers


def is_poor(evidence: Evidence) -> bool:
    """True if the wrong results are too few, or too plain, to show a recipe, and none is likely.

    `Evidence.settle` drops readings far from the admitted ones that plain results suggest.
    """
    if evidence.others and (not evidence.whole or _is_telling(evidence)):
        return False
    values_kept = sum(int(seen.wrong.sum()) for _, seen in evidence.wrong)
    return bool(evidence.wrong) and (values_kept < FEW_SEEN or not _is_telling(evidence))


def has_only_zeros(evidence: Evidence) -> bool:
    """True if every wrong result is 0 or -0."""
    return all((values(seen.got.dtype, seen.got.codes[seen.wrong]) == 0).all() for _, seen in evidence.wrong)


@dataclass(frozen=True)
class Explained:
    """The recipe of a cell's wrong values, as known at the end of a run."""

    recipe: Recipe | None
    """The recipe that gives the wrong values; None if none is known."""
    elsewhere: Reading | None = None
    """The reading that gives the right values, if the recipe does not."""
    evidence: Evidence | None = None
    """The kept calls with only the wrong values of this recipe, if others explain the rest; None if it explains all."""
    others: tuple[Explained, ...] = ()
    """The recipes of the other wrong values."""


def explained(evidence: Evidence, likely: Sequence[Misindexing] = (), thorough: bool = True) -> Explained:
    """Search the recipe of a cell that no reading explains.

    It is an indexing mistake, or two recipes with a region between them, or several recipes in different calls. The likely
    mistakes are tried first.

    Args:
        evidence: the kept calls of the cell.
        likely: mistakes that explain other cells.
        thorough: True to combine every mistake with every reading near an admitted one. That takes seconds.
    """
    kept = [seen for _, seen in (*evidence.wrong, *evidence.right, *evidence.probes)]
    if not evidence.wrong:
        return Explained(None)
    contract = evidence.wrong[0][0].contract
    amiss = [CheckedResult(seen.call, seen.got, seen.wrong) for _, seen in evidence.wrong]
    legal = _right_reading(evidence)
    if all(attribute.gives(contract, seen.call, seen.got, Zeros()) for seen in amiss):
        return Explained(Zeros(), legal)
    seen_values = sum(seen.got.size for seen in kept)
    zeros = all(attribute.gives(contract, seen.call, seen.got, Zeros(), seen.wrong) for seen in amiss)
    # The places of wrong zeros tell recipes apart, too.
    telling = zeros or _is_telling(evidence)
    whole = attribute.misreadings(contract, kept, likely=likely, others=telling and seen_values >= FEW_SEEN)
    if not whole and telling and seen_values >= FEW_NEAR:
        near = attribute.misreadings(contract, kept, likely=likely, others=thorough, near=True)
        whole = tuple(each for each in near if each.mistake in likely or _is_shown(contract, kept, each))
    if whole:
        return Explained(whole[0])
    if zeros:
        signs = _wrong_zeros(evidence, legal)
        # Such a recipe says no more than is seen. A mistake of the index that fits as well would be a guess.
        if signs and signs.recipe and _gives_all(evidence, signs.recipe):
            return signs
        # Zeros beside right values may be those of a mistake that gives both.
        whole = attribute.misreadings(contract, amiss) if seen_values >= FEW_SEEN else ()
        by_call = [(piece, _elsewhere(evidence, piece, legal)) for piece in whole[:1]]
        named = next((Explained(piece, other) for piece, other in by_call if other), None)
        return named or signs or Explained(Zeros(), legal)
    if sum(int(seen.wrong.sum()) for seen in amiss) < FEW:
        return _wrong_zeros(evidence, legal) or Explained(None)
    searches: tuple[Callable[[], tuple[Recipe, ...]], ...] = (
        lambda: attribute.search(contract, amiss, wrong_only=True),
    )
    far: tuple[Callable[[], tuple[Recipe, ...]], ...] = (
        lambda: attribute.misreadings(contract, amiss, wrong_only=True),
        lambda: _near_mistakes(contract, amiss) if thorough else (),
        lambda: attribute.search(contract, amiss, whole=True, wrong_only=True),
    )
    for find in (*searches, *far) if telling else searches:
        for piece in find()[:MOST_PIECES]:
            elsewhere = _elsewhere(evidence, piece, legal)
            if elsewhere is not None:
                return Explained(piece, elsewhere)
    pieces = _in_pieces(evidence, legal) if thorough else Explained(None)
    return pieces if pieces.recipe is not None else _wrong_zeros(evidence, legal) or pieces


def _near_mistakes(contract: Contract, results: Sequence[CheckedResult]) -> tuple[Misread, ...]:
    """The indexing mistakes with a reading near an admitted one that give these results and show in them."""
    found = attribute.misreadings(contract, results, near=True)
    return tuple(each for each in found if _is_shown(contract, results, each))


def _is_shown(contract: Contract, results: Sequence[CheckedResult], recipe: Misread) -> bool:
    """True if enough distinct numbers show a mistake, and not only the reading that follows it.

    A mistake that only turns infinity into NaN may stand for any other.
    """
    numbers: set[float] = set()
    for result in results:
        alone = attribute.codes_of(contract, result.call, recipe.reading)
        beside = attribute.codes_of(contract, result.call, recipe)
        differs = np.broadcast_to(alone != beside, result.got.shape)
        for codes in (alone, beside):
            changed = values(result.got.dtype, np.broadcast_to(codes, result.got.shape)[differs])
            numbers.update(np.unique(changed[np.isfinite(changed) & (changed != 0)])[:FEW_DISTINCT].tolist())
    return len(numbers) >= FEW_DISTINCT


def explained_by(evidence: Evidence, likely: Sequence[Misindexing], thorough: bool = True) -> Explained | None:
    """The first of some mistakes that gives every kept value of a cell; None if none does.

    Args:
        evidence: the kept calls of the cell.
        likely: the mistakes.
        thorough: True to combine them with every reading near an admitted one, too. That may take seconds.
    """
    kept = [seen for _, seen in (*evidence.wrong, *evidence.right, *evidence.probes)]
    if not (evidence.wrong and likely):
        return None
    contract = evidence.wrong[0][0].contract
    # What is read may be so small that a flush makes the zeros.
    tried = (False, True) if thorough else (False,)
    finds = (attribute.misreadings(contract, kept, likely=likely, others=False, near=near) for near in tried)
    return next((Explained(whole[0]) for whole in finds if whole), None)


def _elsewhere(evidence: Evidence, piece: Recipe, legal: Reading | None) -> Reading | None:
    """The reading that gives the values which a recipe of some wrong values does not give.

    The recipe gives each call with its wrong values as a whole, or a simple region holds them, or they are all results of
    the recipe that are not legal. None: none of these is true.

    Args:
        evidence: kept calls, whose wrong values the recipe gives.
        piece: the recipe.
        legal: the admitted reading that gives all right values of the cell; None if there is none.
    """
    if _rests_on_zeros(evidence, piece):
        return None
    if _gives_all(evidence, piece):
        right = [probe for probe in evidence.probes if not probe[1].wrong.any()]
        return legal or _right_reading(replace(evidence, wrong=[], probes=right), evidence.wrong[0][0])
    # Everywhere: each result of the recipe that is not legal came out. Legal ones may follow an admitted reading.
    return legal if legal is not None and region(evidence.samples(piece)).words != NOWHERE_SIMPLE else None


def _gives_all(evidence: Evidence, recipe: Recipe) -> bool:
    """True if a recipe gives every value of the calls with wrong ones."""
    return all(attribute.gives(judged.contract, seen.call, seen.got, recipe) for judged, seen in evidence.wrong)


def _rests_on_zeros(evidence: Evidence, piece: Recipe) -> bool:
    """True if all wrong values are zeros of the wrong sign, or a simpler reading gives the others.

    The right zeros are set aside, or in other calls. So any mistake of the sign of x, the difference or the scale fits.
    """
    others = [replace(seen, wrong=seen.wrong & ~_wrong_signs(judged, seen)) for judged, seen in evidence.wrong]
    if all(np.array_equal(seen.wrong, each.wrong) for (_, seen), each in zip(evidence.wrong, others, strict=True)):
        return False
    if not any(each.wrong.any() for each in others):
        return isinstance(piece, Stepwise) and piece.zero != "unsigned" and piece.subtraction != "negated"
    simpler = attribute.search(evidence.wrong[0][0].contract, others, wrong_only=True)
    return bool(simpler) and simpler[0] != piece


def _wrong_zeros(evidence: Evidence, legal: Reading | None) -> Explained | None:
    """The recipe of wrong values that are all zeros of the wrong sign, however few; None for others.

    It says what is wrong, and not why. Right zeros that have their sign must lie in other calls, or outside of a region.
    """
    contract = evidence.wrong[0][0].contract
    if legal is None or contract.domain.family == "range":
        return None
    if not all(np.array_equal(seen.wrong, _wrong_signs(judged, seen)) for judged, seen in evidence.wrong):
        return None

    def gives_wrong(recipe: Recipe) -> bool:
        return all(attribute.gives(contract, seen.call, seen.got, recipe, seen.wrong) for _, seen in evidence.wrong)

    if gives_wrong(UNSIGNED) and (
        _gives_all(evidence, UNSIGNED) or region(evidence.samples(UNSIGNED)).words != NOWHERE_SIMPLE
    ):
        return Explained(UNSIGNED, legal)
    # Each product with a zero scale came out as that zero: it is wrong where its sign differs.
    if gives_wrong(ZeroScale()) and all(
        (seen.wrong == _telling(judged, ZeroScale())).all() for judged, seen in evidence.wrong
    ):
        return Explained(ZeroScale(), legal)
    return Explained(OtherSigns(), legal) if gives_wrong(OtherSigns()) else None


def _wrong_signs(judged: Judged, seen: CheckedResult) -> NDArray[np.bool_]:
    """The mask of wrong values that are zeros of the wrong sign."""
    assert judged.legal is not None
    due, result = (values(seen.got.dtype, codes) for codes in (judged.legal.codes(0), seen.got.codes))
    return np.asarray(seen.wrong & (due == 0) & (result == 0))


def _in_pieces(evidence: Evidence, legal: Reading | None) -> Explained:
    """Several recipes, each for the wrong values of some calls or of a region."""
    pieces: list[Explained] = []
    left = evidence
    while len(pieces) < MOST_RECIPES and left.wrong:
        largest = _largest(left, legal)
        if largest is None:
            break
        piece, left = largest
        pieces.append(piece)
    if not pieces:
        return Explained(None)
    if left.wrong:
        pieces.append(replace(_wrong_zeros(left, legal) or Explained(None), evidence=left))
    return replace(pieces[0], others=tuple(pieces[1:]))


def completed(by: Explained, evidence: Evidence, shown: Sequence[Recipe]) -> Explained:
    """The explanation of a cell, with calls that nothing explained given to recipes that other cells show.

    Args:
        by: the explanation of the cell.
        evidence: the kept calls of the cell.
        shown: recipes that other cells of the implementation show clearly, see `is_clear`, those of most cells first.
    """
    pieces = [replace(by, others=()), *by.others]
    parts: list[Explained] = []
    for piece in pieces:
        parts += [piece] if piece.recipe is not None else _by_shown(piece.evidence or evidence, shown) or [piece]
    return replace(parts[0], others=tuple(parts[1:]))


def _by_shown(evidence: Evidence, shown: Sequence[Recipe]) -> list[Explained]:
    """The calls that recipes of other cells give, by recipe, and the calls that are left.

    Empty if these recipes give no call. A recipe gives every value of its calls, which are enough to tell it from luck.
    """
    parts: list[Explained] = []
    left, legal = evidence, _right_reading(evidence) if evidence.wrong else None
    while left.wrong and len(parts) < MOST_RECIPES:
        splits = [(recipe, *_split(left, recipe, _whole_call)) for recipe in shown]
        usable = [(recipe, own, others) for recipe, own, others in splits if _is_no_luck(own, shown)]
        if not usable:
            break
        recipe, own, left = max(usable, key=lambda each: len(each[1].wrong))
        parts.append(Explained(recipe, legal or _right_reading(own), own))
    return [*parts, Explained(None, evidence=left)] if parts and left.wrong else parts


def _is_no_luck(own: Evidence, shown: Sequence[Recipe]) -> bool:
    """True if one of several recipes hardly gives these calls by luck.

    One of ten recipes gives two fifths of all single values that are wrong in the last place. Four distinct wrong numbers, or
    eight that some recipe does not give, leave about one in a hundred.
    """
    if not _numbers(own.wrong):
        return False
    if len(_numbers(own.wrong)) >= FEW_DISTINCT:
        return True
    refuting = []
    for judged, seen in own.wrong:
        given = np.logical_and.reduce([_each(judged, seen, recipe) for recipe in shown])
        refuting.append((judged, replace(seen, wrong=seen.wrong | ~given)))
    return len(_numbers(refuting, FEW)) >= FEW


def is_clear(by: Explained, evidence: Evidence) -> bool:
    """True if a recipe gives every value of a cell, and enough distinct numbers show it."""
    return by.recipe is not None and by.elsewhere is None and by.evidence is None and _is_telling(evidence)


def _largest(evidence: Evidence, legal: Reading | None) -> tuple[Explained, Evidence] | None:
    """The recipe that gives most of the wrong values, and the evidence with the others only."""
    contract = evidence.wrong[0][0].contract
    telling = [seen.wrong & ~_wrong_signs(judged, seen) for judged, seen in evidence.wrong]
    if not any(map(np.any, telling)):
        telling = [seen.wrong for _, seen in evidence.wrong]
    # A recipe that also gives zeros of the wrong sign would join two mistakes, so these zeros are left for the next piece.
    results, are_wrong = [], []
    for (_, seen), mask in zip(evidence.wrong, telling, strict=True):
        right = ~seen.wrong if seen.aside is None else ~(seen.wrong | seen.aside)
        places = np.concatenate([_some(np.flatnonzero(mask)), _some(np.flatnonzero(right))])
        results.append(replace(seen, places=places))
        are_wrong.append(mask.reshape(-1)[places])
    is_wrong = np.concatenate(are_wrong)
    matches = attribute.matching(contract, results)
    ranked = sorted(matches, key=lambda each: (-int(each[1][is_wrong].sum()), -int(each[1].sum())))
    recipes = [recipe for recipe, same in ranked[:MOST_PIECES] if same[is_wrong].any()]
    # The readings near an admitted one are too many to follow each mistake on all calls.
    most = max((seen for _, seen in evidence.wrong), key=lambda seen: int(seen.wrong.sum()))
    recipes += _near_mistakes(contract, [replace(most, places=None)])[:MOST_PIECES]
    for recipe, given_by in product(recipes, (_each, _whole_call)):
        own, others = _split(evidence, recipe, given_by)
        explains = sum(int(seen.wrong.sum()) for _, seen in own.wrong)
        whole = _gives_all(own, recipe)
        # Many recipes were tried, and each may give some values by luck.
        enough = explains >= (FEW if whole else FEW_SEEN) and (not isinstance(recipe, Misread) or _is_telling(own))
        if enough and (elsewhere := _elsewhere(own, recipe, legal)) is not None:
            return Explained(recipe, elsewhere, own), others
    return None


def second_reading(evidence: Evidence) -> Reading | None:
    """The admitted reading of a simple region outside of which the first one gives all values, or None."""
    kept = [(judged, seen) for judged, seen in (*evidence.right, *evidence.probes) if judged.legal is not None]
    if not kept:
        return None
    judged, _ = kept[0]
    for reading in judged.contract.readings(judged.call)[1:]:
        if all(_gives_either(each, seen, reading) for each, seen in kept) and _between(
            region(evidence.departures(reading))
        ):
            return reading
    return None


def _gives_either(judged: Judged, seen: CheckedResult, reading: Reading) -> bool:
    """True if the first reading or another one gives each value of a result."""
    assert judged.legal is not None
    codes = canonical(seen.got.codes, seen.got.dtype)
    return bool(np.all((codes == judged.legal.codes(0)) | (codes == judged.give([reading])[0])))


def _some(places: NDArray[np.int64]) -> NDArray[np.int64]:
    """At most 64 of these indices, spread evenly."""
    return places[np.unique(np.linspace(0, places.size - 1, min(places.size, 64)).astype(np.int64))]


def _split(evidence: Evidence, recipe: Recipe, given_by: GivenBy) -> tuple[Evidence, Evidence]:
    """The evidence with the wrong values that a recipe gives only, and with the others only."""
    right = [probe for probe in evidence.probes if not probe[1].wrong.any()]
    own, others = (replace(evidence, others=None, wrong=[], probes=right, histogram=Counter()) for _ in range(2))
    for judged, seen in evidence.wrong:
        explained_values = given_by(judged, seen, recipe) & _can_happen(judged, recipe)
        aside = np.zeros(seen.wrong.shape, np.bool_) if seen.aside is None else seen.aside
        for part, mask in ((own, seen.wrong & explained_values), (others, seen.wrong & ~explained_values)):
            if mask.any():
                part.wrong.append((judged, replace(seen, wrong=mask, aside=aside | (seen.wrong & ~mask))))
                part.measure(judged, seen.got, mask)
    return own, others


GivenBy = Callable[[Judged, CheckedResult, Recipe], NDArray[np.bool_]]
"""A function to the mask of a result's values that count as given by a recipe."""


def _each(judged: Judged, seen: CheckedResult, recipe: Recipe) -> NDArray[np.bool_]:
    """The mask of values that a recipe gives."""
    codes = attribute.codes_of(judged.contract, judged.call, recipe)
    return np.asarray(canonical(seen.got.codes, seen.got.dtype) == codes)


def _whole_call(judged: Judged, seen: CheckedResult, recipe: Recipe) -> NDArray[np.bool_]:
    """The mask of all values if a recipe gives them all, else of none.

    In a call with another mistake, it may give infinities and zeros by luck.
    """
    return np.full(seen.wrong.shape, _each(judged, seen, recipe).all())


def _can_happen(judged: Judged, recipe: Recipe) -> bool:
    """True if a recipe has no indexing mistake, or one that changes an operand of the call."""
    if not isinstance(recipe, Misread):
        return True
    return recipe.mistake.operands(judged.call, judged.contract.operands(judged.call)) is not None


def _right_reading(evidence: Evidence, shown: Judged | None = None) -> Reading | None:
    """The admitted reading that gives every kept value that is right."""
    judged = shown or evidence.wrong[0][0]
    return next((r for r in judged.contract.readings(judged.call) if _right_by(evidence, r)), None)


def _right_by(evidence: Evidence, reading: Reading) -> bool:
    """True if an admitted reading gives every kept value that is right, apart from flushed ones."""
    return all(
        attribute.gives(judged.contract, seen.call, seen.got, reading, _inside(judged, seen))
        for judged, seen in (*evidence.wrong, *evidence.right, *evidence.probes)
    )


def _inside(judged: Judged, seen: CheckedResult) -> NDArray[np.bool_]:
    """The mask of values that an admitted reading gives."""
    if judged.legal is None:
        return ~seen.wrong
    codes = canonical(seen.got.codes, seen.got.dtype)
    return np.asarray(~seen.wrong & np.logical_or.reduce([codes == legal for legal in judged.legal.distinct]))


def _between(candidate: Region) -> bool:
    return candidate.words not in (NOWHERE_SIMPLE, EVERYWHERE)


def attribution(explanation: Explained, values: int) -> Attribution | None:
    """The attribution of a finding."""
    if explanation.recipe is None:
        return None
    elsewhere = None if explanation.elsewhere is None else (explanation.elsewhere.name, explanation.elsewhere.words)
    return Attribution(explanation.recipe.name, explanation.recipe.words, values, values, elsewhere)


__all__ = [
    "Evidence",
    "Explained",
    "Misread",
    "attribution",
    "completed",
    "explained",
    "explained_by",
    "has_only_zeros",
    "is_clear",
]
