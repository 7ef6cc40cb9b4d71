"""The region of a finding: a predicate on values that holds of every mismatch and of no agreement."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from xverify.verify.features import FEATURES, UNDEFINED, Feature, column
from xverify.verify.simplest import is_notable, plain, simplest
from xverify.verify.view import Sample, View

__all__ = ["NOWHERE_SIMPLE", "Region", "Sample", "Term", "contradicts", "holds", "is_vacuous", "region"]

NOWHERE_SIMPLE = "no simple region"
EVERYWHERE = "everywhere"

_MOST_VALUES = 1 << 15
"""The number of values of all samples that the search looks at. The answer is checked on all values."""
_ROUNDS = 8
_COUNTEREXAMPLES = 64
_MOST_PAIRS = 200
_SIMPLE = 8
"""The number of simple numbers (0, powers of two) that a feature is assumed to have."""

_SPARE_BITS = 2.0
"""Bits by which a region must be less likely by luck: 2 bits are one chance in four, a generous bound."""

Bools = NDArray[np.bool_]
_BY_NAME = {feature.name: feature for feature in FEATURES}


@dataclass(frozen=True)
class Term:
    """A feature compared with a number, or required at, or not at, one of its levels."""

    feature: str
    """The feature's name."""
    op: str
    """The comparison: ">=", ">", "<", "<=", "=" or "not"."""
    value: float
    """The number, or the index of the level."""

    @property
    def words(self) -> str:
        feature = _BY_NAME[self.feature]
        if feature.levels:
            words = feature.levels[int(self.value)]
            return words if self.op == "=" else f"not {words}"
        if feature.texts:
            text = feature.texts[(">=", "<", "=").index(self.op)].format(plain(self.value))
            return re.sub(r"\blast 1 (\w+)s\b", r"last \1", text)
        return f"{self.feature} {self.op} {plain(self.value)}"

    def of(self, column: NDArray[np.float64]) -> Bools:
        """The mask of a column's entries that satisfy the term; False where the feature is meaningless."""
        defined = column != UNDEFINED if _BY_NAME[self.feature].levels else ~np.isnan(column)
        compared = {
            ">=": np.greater_equal, ">": np.greater, "<": np.less, "<=": np.less_equal, "=": np.equal,
            "not": np.not_equal,
        }[self.op]  # fmt: skip
        return np.asarray(compared(column, self.value) & defined)


@dataclass(frozen=True)
class Region:
    """A predicate on values: the conjunction of terms."""

    words: str
    """The terms in words, or `EVERYWHERE` or `NOWHERE_SIMPLE`."""
    name: str
    """The terms for machines; "" for no simple region."""
    inside: int
    """The number of the samples' values inside."""
    wrong: int
    """The number of mismatches; equal to ``inside`` for a named region."""
    terms: tuple[Term, ...] = ()
    """The terms that must hold of a value together."""


def region(samples: Sequence[Sample]) -> Region:
    """Find the predicate that holds of all mismatches of these calls and of no agreement.

    It is a single term if one separates them, or else two. Among many terms, one always separates a few values by luck, so a
    term is named only if that is unlikely. Take N independent units (calls, sets of parameters or values, whichever the
    mismatches follow) of which K mismatch: one term picks just those with a chance of 1 in C(N, K), and there were as many
    chances as terms come before it.

    If nothing separates all values, it is enough to separate those that could mismatch (`Sample.telling`).
    """
    whole = _region([replace(sample, telling=None) for sample in samples])
    if whole.words != NOWHERE_SIMPLE or all(sample.telling is None for sample in samples):
        return whole
    return _region(samples)


def _region(samples: Sequence[Sample]) -> Region:
    samples = [sample for sample in samples if sample.told().size]
    wrong = sum(int(sample.wrong.sum()) for sample in samples)
    if not wrong:
        return Region(NOWHERE_SIMPLE, "", 0, 0)
    if all(sample.wrong.reshape(-1)[sample.told()].all() for sample in samples):
        return Region(EVERYWHERE, EVERYWHERE, wrong, wrong)
    chosen = [_choice(sample, max(256, _MOST_VALUES // len(samples))) for sample in samples]
    for _ in range(_ROUNDS):
        terms = _search([View(sample, at) for sample, at in zip(samples, chosen, strict=True)])
        if not terms:
            break
        missed = [_missed(terms, sample, at) for sample, at in zip(samples, chosen, strict=True)]
        if not any(each.size for each in missed):
            words = ", ".join(term.words for term in terms)
            name = " & ".join(f"{term.feature} {term.op} {term.value!r}" for term in terms)
            return Region(words, name, wrong, wrong, terms)
        chosen = [np.union1d(at, more) for at, more in zip(chosen, missed, strict=True)]
    return Region(NOWHERE_SIMPLE, "", 0, wrong)


def holds(predicate: Region, sample: Sample) -> Bools:
    """The mask of a sample's values inside the region, in the output's shape; empty for `NOWHERE_SIMPLE`."""
    if not predicate.terms:
        return np.full(sample.wrong.shape, predicate.name == EVERYWHERE)
    view = View(sample, np.arange(sample.wrong.size))
    columns = [column(_BY_NAME[term.feature], view) for term in predicate.terms]
    inside = [
        np.broadcast_to(term.of(np.asarray(c)), view.at.shape) for term, c in zip(predicate.terms, columns, strict=True)
    ]
    return np.asarray(np.logical_and.reduce(inside), np.bool_).reshape(sample.wrong.shape)


def contradicts(predicate: Region, sample: Sample, is_partial: bool = False) -> bool:
    """True if a mismatch of a call lies outside a region.

    Args:
        predicate: The region.
        sample: A call that shows the mismatches.
        is_partial: True if some mismatches have another reason. Then one inside is enough.
    """
    inside = holds(predicate, sample) & sample.wrong
    return bool(predicate.terms) and not (inside.any() if is_partial else (inside == sample.wrong).all())


def is_vacuous(predicate: Region, sample: Sample) -> bool:
    """True if a term on positions holds of all positions of a call, so that the call does not show it."""
    view = View(sample, np.arange(sample.wrong.size))
    placed = [term for term in predicate.terms if _BY_NAME[term.feature].kind == "position"]
    return any(np.all(term.of(np.asarray(column(_BY_NAME[term.feature], view)))) for term in placed)


def _choice(sample: Sample, most: int) -> NDArray[np.int64]:
    """Flat indices of at most ``most`` values: mismatches first, and some agreements."""
    telling = sample.told()
    if telling.size <= most:
        return telling
    wrong = sample.wrong.reshape(-1)[telling]
    bad, good = telling[wrong], telling[~wrong]
    rng = np.random.default_rng(0)
    kept = min(bad.size, max(most // 2, most - good.size))
    parts = [rng.choice(bad, kept, replace=False), rng.choice(good, min(good.size, most - kept), replace=False)]
    return np.sort(np.concatenate(parts))


def _missed(terms: tuple[Term, ...], sample: Sample, at: NDArray[np.int64]) -> NDArray[np.int64]:
    """Flat indices of values that the terms classify wrongly."""
    telling = sample.told()
    if at.size == telling.size:
        return np.empty(0, np.int64)
    inside = holds(Region("", "", 0, 0, terms), sample)
    return np.asarray(telling[(inside != sample.wrong).reshape(-1)[telling]][:_COUNTEREXAMPLES])


# -- search -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Hull:
    """The smallest region of one form that contains all mismatches."""

    feature: Feature
    term: Term
    column: NDArray[np.float64]
    tried: float
    """The number of predicates that came before it."""
    agreeing: Bools
    """The mask of agreements that it contains. If it contains none, it separates."""

    @property
    def price(self) -> float:
        """The chances that it must make up for as one of two. It is 1 if it only excludes hidden mismatches."""
        hides = self.feature.hiding and self.term.op == "=" and self.term.value == 0
        return 1.0 if hides else self.tried


class _Values:
    """The selected values of all samples, one after another."""

    def __init__(self, views: Sequence[View]) -> None:
        self.views = views
        parts = [view.sample.wrong.reshape(-1)[view.at] for view in views]
        self.wrong = np.concatenate(parts)
        self.bad, self.good = np.flatnonzero(self.wrong), np.flatnonzero(~self.wrong)
        self.calls = np.repeat(np.arange(len(views)), [part.size for part in parts])

    def column(self, feature: Feature) -> NDArray[np.float64] | None:
        """A feature of all values; None if it is the same for all."""
        parts = [column(feature, view) for view in self.views]
        first = parts[0]
        if all(isinstance(part, float) and (part == first or (part != part and first != first)) for part in parts):
            return None
        return np.concatenate([np.broadcast_to(part, v.at.shape) for part, v in zip(parts, self.views, strict=True)])

    @cached_property
    def groups(self) -> NDArray[np.int64]:
        """A number for each call and set of parameters."""
        width = max(view.at.size for view in self.views) + 1
        return np.concatenate([number * width + view.group for number, view in enumerate(self.views)])

    def evidence(self, inside: Bools, within: Bools) -> float:
        """The improbability, in bits, that all mismatches lie inside by luck, if they are within.

        Values of one call, or of one set of parameters, count as one unit where ``inside`` does not tell them apart.
        """
        for name in ("calls", "groups"):
            # Get them by name, since the groups cost time and are seldom needed.
            every: NDArray[np.int64] = getattr(self, name)
            units = np.unique(every[within], return_inverse=True)[1]
            size, held = np.bincount(units), np.bincount(units[inside[within]], minlength=int(units.max()) + 1)
            if ((held == 0) | (held == size)).all():
                bad = np.unique(units[self.wrong[within]]).size
                return _bits(size.size, int((held > 0).sum()), bad)
        return _bits(int(within.sum()), int((inside & within).sum()), int((self.wrong & within).sum()))


def _bits(units: int, inside: int, wrong: int) -> float:
    """log2 of C(units, wrong) / C(inside, wrong)."""

    def choose(n: int, k: int) -> float:
        return (math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)) / math.log(2)

    return choose(units, wrong) - choose(inside, wrong)


def _search(views: Sequence[View]) -> tuple[Term, ...]:
    """The first term, or the first two, that separate and can be trusted; () if there are none."""
    values = _Values(views)
    if not values.good.size:
        return ()
    everything = np.ones(values.wrong.size, np.bool_)
    luck = values.evidence(values.wrong, everything) - _SPARE_BITS
    hulls = []
    for hull in _hulls(values):
        if not hull.agreeing.any() and math.log2(hull.tried) <= luck:
            return (_placed(hull, values, values.good),)
        hulls.append(hull)
    # The search for a single term came before, which doubles the chances.
    return _pair(hulls, values, luck - 1)


def _hulls(values: _Values) -> Iterator[_Hull]:
    tried = 0.0
    for feature in FEATURES:
        whole = values.column(feature)
        if whole is None:
            continue
        bad, good = whole[values.bad], whole[values.good]
        if feature.levels:
            present = np.flatnonzero(np.bincount((whole[whole != UNDEFINED]).astype(np.int64)))
            tried += 2 * max(0, present.size - 1)
            terms = _levels(feature, bad, present)
        else:
            tried += 2
            terms = _ends(feature, bad)
        for term in terms:
            agreeing = term.of(good)
            defined = good != UNDEFINED if feature.levels else ~np.isnan(good)
            if (agreeing == defined).all():
                continue
            chances = tried
            if term.op == "=" and not feature.levels:
                # Each distinct value was a chance for equality, or each of the few simple numbers.
                chances *= min(np.unique(whole).size, _SIMPLE if is_notable(term.value) else math.inf)
            yield _Hull(feature, term, whole, chances, agreeing)


def _levels(feature: Feature, bad: NDArray[np.float64], present: NDArray[np.int64]) -> list[Term]:
    met = np.unique(bad)
    if UNDEFINED in met:
        return []
    terms = [Term(feature.name, "=", float(met[0]))] if met.size == 1 else []
    if present.size > 2:
        terms += [Term(feature.name, "not", float(level)) for level in present if level not in met]
    return terms


def _ends(feature: Feature, bad: NDArray[np.float64]) -> list[Term]:
    lowest, highest = float(bad.min()), float(bad.max())
    if math.isnan(lowest):
        return []
    if lowest == highest and not feature.texts and not is_notable(lowest):
        # An ordinary number that occurs alone was in the call by chance.
        return []
    same = lowest == highest and (feature.texts is None or feature.texts[2])
    terms = [Term(feature.name, "=", lowest)] if same else []
    below = Term(feature.name, "<", highest + 1) if feature.texts else Term(feature.name, "<=", highest)
    return [*terms, Term(feature.name, ">=", lowest), below]


def _placed(hull: _Hull, values: _Values, agreements: NDArray[np.int64]) -> Term:
    """The hull's term with its bound moved to the simplest number before the agreements beyond."""
    term, feature = hull.term, hull.feature
    if feature.levels or term.op == "=":
        return term
    bad, good = hull.column[values.bad], hull.column[agreements]
    good = good[~np.isnan(good)]
    if term.op == ">=":
        edge = float(bad.min())
        beyond = good[good < edge]
        if not beyond.size:
            return term
        low = float(beyond.max())
        bound = simplest(low, edge, near=edge, whole=feature.texts is not None)
        return Term(term.feature, ">=" if bound > low else ">", bound)
    edge = float(bad.max())
    beyond = good[good > edge]
    if not beyond.size:
        return term
    high = float(beyond.min())
    bound = simplest(edge, high, near=edge, whole=feature.texts is not None)
    return Term(term.feature, "<" if bound > edge else "<=", bound)


_FIRST = {"fact": 0, "size": 0, "special": 1, "number": 1, "position": 2}
"""The order of two terms in words: of the call, of the numbers, of the position."""

_TELLING = 8
"""The factor by which a pair of a fact and a number is preferred: the code that runs, and what breaks it."""


def _pair(hulls: list[_Hull], values: _Values, luck: float) -> tuple[Term, ...]:
    """The likeliest two terms that together separate and can be trusted; () if there are none."""
    if not hulls:
        return ()
    masks = np.stack([hull.agreeing for hull in hulls])
    # Most pairs fail on a few agreements already.
    few = np.packbits(masks[:, :: max(1, masks.shape[1] // 4096)], axis=1)
    clash = np.stack([(few & each).any(axis=1) for each in few])

    def order(pair: tuple[int, int]) -> float:
        a, b = hulls[pair[0]], hulls[pair[1]]
        telling = {a.feature.kind, b.feature.kind} in ({"fact", "special"}, {"fact", "number"})
        return a.price * b.price / (_TELLING if telling else 1)

    def cheap(i: int, j: int) -> bool:
        return math.log2(hulls[i].tried * hulls[j].tried) <= luck

    pairs = [(i, j) for i, j in combinations(range(len(hulls)), 2) if not clash[i, j] and cheap(i, j)]
    left = _MOST_PAIRS
    for i, j in sorted(pairs, key=order):
        if (masks[i] & masks[j]).any():
            continue
        first, second = sorted((hulls[i], hulls[j]), key=lambda hull: _FIRST[hull.feature.kind])
        outer = _placed(first, values, values.good[second.agreeing])
        within = outer.of(first.column)
        inner = _placed(second, values, values.good[within[values.good]])
        if _both_matter(values, within, inner.of(second.column), first, second):
            return (outer, inner)
        left -= 1
        if not left:
            break
    return ()


def _both_matter(values: _Values, within: Bools, inside: Bools, first: _Hull, second: _Hull) -> bool:
    """True if each of two terms alone is more than luck, and leaves out agreements of two calls at least.

    One call has agreements for reasons of its own, and some term always leaves these out.

    Args:
        values: The selected values.
        within: The mask of values of which the first term holds.
        inside: The same for the second one.
        first: The first term's hull.
        second: The second term's hull.
    """
    only = (within & ~inside, inside & ~within)
    if any(np.unique(values.calls[left_out & ~values.wrong]).size < 2 for left_out in only):
        return False
    everything = np.ones(within.size, np.bool_)
    outer, inner = values.evidence(within, everything), values.evidence(values.wrong, within)
    return math.log2(first.price) <= outer and math.log2(second.price) <= inner
