"""The ledger of known findings: what an entry is, which findings it covers, and how one is made from a finding.

An entry is no name of a test: it says of which calls it is (its scope, a predicate on calls) and what gives the wrong
values there (its recipes), so that one known finding hides no other of the same type.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Literal

from xverify.core.call import Call
from xverify.core.codec import call_from_json
from xverify.core.line import call_from_line, call_to_line
from xverify.core.verdict import Verdict
from xverify.gate.regions import inside, region_from_name, region_to_text
from xverify.gate.scope import Condition, Facts, facts, matches
from xverify.verify.details import modernized, names_types, partly
from xverify.verify.view import Sample

__all__ = [
    "CELL_FIELDS",
    "VERDICTS",
    "Condition",
    "Entry",
    "Ledger",
    "ObservedFinding",
    "Recipes",
    "Standing",
    "covers",
    "entry_from_finding",
    "facts",
    "in_scope",
    "look_up",
    "same_kind",
    "stale",
    "witness_call",
]  # fmt: skip

VERDICTS: tuple[str, ...] = (*Verdict, "unsupported")
"""Verdicts that an entry may have. No finding is "unsupported", but ledgers of earlier versions may say so."""

CELL_FIELDS = ("x_dtype", "scale_dtype", "zero_point_dtype", "out_dtype", "granularity", "variant")
"""What a report says of a cell; an accepted finding's scope names all of it."""

MOST_WITNESS = 1 << 16
"""Longer witnesses, in characters, are left out of the entry."""

Standing = Literal["known", "expired", "changed", "outside"]
_BEST_FIRST: tuple[Standing, ...] = ("known", "expired", "changed")


@dataclass(frozen=True)
class Recipes:
    """Names of the recipe that gives the wrong values and, if the right ones follow another, of that."""

    reading: str
    elsewhere: str = ""


@dataclass(frozen=True)
class Entry:
    """One known finding. subject, contract, clause and detail may be globs.

    finding: its id when it was accepted, for information. expires: the first day on which it no longer counts, None
    for never. witness: a call as one line (`xverify.core.line`), "" for none. recipes: None when none was known.
    scope: conditions that must all hold of a call. region: where its wrong values must lie, "" for anywhere.
    """

    name: str
    subject: str
    contract: str
    verdict: str
    reason: str
    accepted: date
    owner: str = ""
    expires: date | None = None
    finding: str = ""
    clause: str = "*"
    detail: str = "*"
    summary: str = ""
    witness: str = ""
    recipes: Recipes | None = None
    scope: tuple[Condition, ...] = ()
    region: str = ""


@dataclass(frozen=True)
class Ledger:
    """All known findings, in the order of the file; their names differ."""

    entries: tuple[Entry, ...] = ()


@dataclass(frozen=True)
class ObservedFinding:
    """What was found. recipes: its attribution, None for none. equal: others that give all its values as well, so that
    it is no change when another of them is named."""

    subject: str
    contract: str
    verdict: str
    clause: str = ""
    detail: str = ""
    recipes: Recipes | None = None
    equal: tuple[Recipes, ...] = ()


def in_scope(entry: Entry, given: Facts) -> bool:
    """Whether every condition of the entry's scope holds of a call's facts."""
    return all(condition.holds(given) for condition in entry.scope)


def same_kind(entry: Entry, seen: ObservedFinding) -> bool:
    """Whether the entry is about such findings, whatever the calls and whatever gives their values.

    The detail of a finding about values is the name of its recipe, and its clause may follow from the recipe: where both
    are such, they are not compared, since it is `covers` that compares recipes.
    """
    if entry.verdict != seen.verdict:
        return False
    if not matches(seen.subject, entry.subject) or not matches(seen.contract, entry.contract):
        return False
    same_clause = matches(seen.clause, entry.clause)
    if _of_recipe(entry.detail, entry.recipes) and _of_recipe(seen.detail, seen.recipes):
        return same_clause or entry.verdict != Verdict.AMBIGUITY
    return same_clause and matches(seen.detail, entry.detail)


def _of_recipe(detail: str, recipes: Recipes | None) -> bool:
    """Whether a detail follows from what gives the values: the recipe's name or, where none is known, the types."""
    if recipes is not None:
        return detail in ("*", recipes.reading, partly(recipes.reading))
    return names_types(detail)


def covers(entry: Entry, seen: ObservedFinding, given: Facts, today: date, samples: Sequence[Sample] = ()) -> Standing:
    """What the entry says of a finding on one call (or one of each cell's): "known"; "expired"; "changed" when other
    recipes give its values; "outside" when it is of another kind or scope, or has a wrong value outside the region.

    given: the call's `facts`. samples: its judged calls, if the region is to be looked at.
    """
    if not same_kind(entry, seen) or not in_scope(entry, given):
        return "outside"
    if not inside(region_from_name(entry.region), samples):
        return "outside"
    if entry.recipes not in (seen.recipes, *seen.equal):
        return "changed"
    return "expired" if entry.expires is not None and today >= entry.expires else "known"


def look_up(
    ledger: Ledger, seen: ObservedFinding, given: Facts, today: date, samples: Sequence[Sample] = ()
) -> tuple[Standing, Entry | None]:
    """The best that some entry says of a finding (see `covers`), and the first entry that says so; ("outside", None) when
    the finding is new."""
    said = [(covers(entry, seen, given, today, samples), entry) for entry in ledger.entries]
    for best in _BEST_FIRST:
        for standing, entry in said:
            if standing == best:
                return best, entry
    return "outside", None


def stale(ledger: Ledger, seen_names: Collection[str]) -> tuple[Entry, ...]:
    """Entries that no longer occur: those whose names were not seen."""
    return tuple(entry for entry in ledger.entries if entry.name not in seen_names)


def witness_call(entry: Entry) -> Call | None:
    """The call that shows the finding, None when the entry holds none. ValueError when it is damaged."""
    return call_from_line(entry.witness) if entry.witness else None


def entry_from_finding(
    finding: Mapping[str, Any],
    reason: str,
    accepted: date,
    owner: str = "",
    expires: date | None = None,
    name: str = "",
    directory: Path = Path(),
) -> Entry:
    """The entry of a finding of a report (an item of ``report.json``'s "findings"), as narrow as what was seen.

    Its scope is the cells on which it was seen, any call where it was seen in no cell. Its region is
    kept where no single recipe gives all values; where one does, the recipe says more. name: the finding's id if not
    given. directory: of the run, for a witness that is too large to be inline.

    Raises DamagedFileError when the witness is not what was written, ValueError when the region is not known.
    """
    by = finding["attribution"]
    recipes = None if by is None else Recipes(by["reading"], by.get("elsewhere", {}).get("reading", ""))
    whole = recipes is not None and not recipes.elsewhere
    call = _witness(finding, directory)
    return Entry(
        name=name or finding["id"],
        finding=finding["id"],
        subject=finding["subject"]["name"],
        contract=finding["contract"],
        verdict=finding["verdict"],
        clause=finding["clause"],
        detail=modernized(finding["verdict"], finding.get("detail", "*")),
        summary=finding["summary"],
        reason=reason,
        owner=owner,
        accepted=accepted,
        expires=expires,
        witness=_line(call),
        recipes=recipes,
        scope=_scope(finding, call),
        region="" if whole else region_to_text(region_from_name((finding.get("region") or {}).get("name", ""))),
    )


def _witness(finding: Mapping[str, Any], directory: Path) -> Call | None:
    return None if finding["witness"] is None else call_from_json(finding["witness"]["call"], directory / "scripts")


def _line(call: Call | None) -> str:
    try:
        line = "" if call is None else call_to_line(call)
    except ValueError:
        return ""
    return line if len(line) <= MOST_WITNESS else ""


def _scope(finding: Mapping[str, Any], call: Call | None) -> tuple[Condition, ...]:
    cells = finding["cells"]
    if cells:
        return tuple(Condition(field, tuple(sorted({cell[field] for cell in cells}))) for field in CELL_FIELDS)
    # A forbidden call lies in no cell: what its finding is about is the clause, which the entry names.
    return ()
