"""A region as one line of text, as a ledger keeps it, and back."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence

from xverify.verify.features import FEATURES
from xverify.verify.region import EVERYWHERE, NOWHERE_SIMPLE, Region, Term, holds
from xverify.verify.view import Sample

ANYWHERE = Region(NOWHERE_SIMPLE, "", 0, 0)
"""The region without a restriction. A report calls it "everywhere" or "no simple region"."""

_JOIN = " & "
_OPERATORS = (">=", ">", "<=", "<", "=", "not")


def region_from_name(text: str) -> Region:
    """The region of a name that a report gives or `region_to_text` writes.

    Its counts of values are 0, because the name does not hold them.

    Raises:
        ValueError: A term of the name is unknown.
    """
    if text in ("", EVERYWHERE, NOWHERE_SIMPLE):
        return ANYWHERE
    terms = tuple(_term(part.strip()) for part in text.split(_JOIN))
    name = _JOIN.join(f"{term.feature} {term.op} {term.value!r}" for term in terms)
    return Region(", ".join(term.words for term in terms), name, 0, 0, terms)


def region_to_text(region: Region) -> str:
    """The text of a region, "" for no restriction. Levels are words, since their numbers may change."""
    return _JOIN.join(_term_to_text(term) for term in region.terms)


def inside(region: Region, samples: Sequence[Sample]) -> bool:
    """True if all wrong values of the samples lie in the region."""
    return not region.terms or all(bool(holds(region, sample)[sample.wrong].all()) for sample in samples)


def _term_to_text(term: Term) -> str:
    if _levels(term.feature):
        return term.words
    number = repr(term.value).removesuffix(".0")
    return f"{term.feature} {term.op} {number}"


def _levels(name: str) -> tuple[str, ...]:
    return next(feature.levels for feature in FEATURES if feature.name == name)


def _term(text: str) -> Term:
    for feature in FEATURES:
        if text in feature.levels:
            return Term(feature.name, "=", float(feature.levels.index(text)))
        if text.removeprefix("not ") in feature.levels:
            return Term(feature.name, "not", float(feature.levels.index(text.removeprefix("not "))))
    # The longest first: "x" also begins "x - zero point >= 3".
    for name in sorted((feature.name for feature in FEATURES), key=len, reverse=True):
        op, _, number = text.removeprefix(name + " ").partition(" ")
        if text.startswith(name + " ") and op in _OPERATORS:
            return Term(name, op, _number(name, number, text))
    terms = [words for feature in FEATURES for words in (feature.levels or (feature.name,))]
    near = difflib.get_close_matches(text, terms, 1, 0.5)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{text!r} is no term of a region, such as 'y is subnormal' or '|y| < 0.25'{hint}")


def _number(name: str, text: str, term: str) -> float:
    levels = _levels(name)
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isnan(value) or (levels and value not in range(len(levels))):
        expected = f"a level from 0 to {len(levels) - 1}" if levels else "a number"
        raise ValueError(f"the region's term {term!r} compares with {text!r}; expected {expected}")
    return value
