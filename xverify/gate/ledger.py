"""The ledger of accepted findings: its entries, and the findings that an entry covers.

An entry holds a scope, a predicate on calls, and the recipes that give the wrong values there. So an accepted finding hides
no other finding of the same kind.
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
"""The fields of a report's cell, all of which the scope of an accepted finding names."""

MOST_WITNESS = 1 << 16
"""The longest witness, in characters, that an entry holds."""

Standing = Literal["known", "expired", "changed", "outside"]
_BEST_FIRST: tuple[Standing, ...] = ("known", "expired", "changed")


@dataclass(frozen=True)
class Recipes:
    """The recipes of a finding's values."""

    reading: str
    """The name of the recipe that gives the wrong values."""
    elsewhere: str = ""
    """The name of the reading that gives the right values; "" if the same recipe gives them."""


@dataclass(frozen=True)
class Entry:
    """One accepted finding. ``subject``, ``contract``, ``clause`` and ``detail`` may be globs."""

    name: str
    """The name, which no other entry of the ledger has."""
    subject: str
    """The implementation."""
    contract: str
    """The edition."""
    verdict: str
    """One of `VERDICTS`."""
    reason: str
    """Why the finding is accepted."""
    accepted: date
    """The day on which it was accepted."""
    owner: str = ""
    """The person responsible for it; "" for nobody."""
    expires: date | None = None
    """The first day on which the entry no longer counts; None for never."""
    finding: str = ""
    """The finding's id when it was accepted, for information."""
    clause: str = "*"
    """The clause's id."""
    detail: str = "*"
    """The detail of the finding's key, see `xverify.verify.details`."""
    summary: str = ""
    """The finding in a sentence, for information."""
    witness: str = ""
    """A call that shows the finding as one line (`xverify.core.line`); "" for none."""
    recipes: Recipes | None = None
    """The recipes that give the values; None if they were unknown."""
    scope: tuple[Condition, ...] = ()
    """Conditions that a call must all satisfy."""
    region: str = ""
    """Where the wrong values must lie; "" for anywhere."""


@dataclass(frozen=True)
class Ledger:
    """All accepted findings."""

    entries: tuple[Entry, ...] = ()
    """The entries in the order of the file; their names differ."""


@dataclass(frozen=True)
class ObservedFinding:
    """The properties of a run's finding that a ledger compares."""

    subject: str
    contract: str
    verdict: str
    clause: str = ""
    detail: str = ""
    recipes: Recipes | None = None
    """Its attribution; None if it has none."""
    equal: tuple[Recipes, ...] = ()
    """Other recipes that give all its values too. An entry that names one of them covers the finding."""


def in_scope(entry: Entry, call_facts: Facts) -> bool:
    """True if a call's facts satisfy every condition of the entry's scope."""
    return all(condition.holds(call_facts) for condition in entry.scope)


def same_kind(entry: Entry, finding: ObservedFinding) -> bool:
    """True if the entry is about this kind of finding, for any calls and any recipes of the values.

    The detail of a finding about values is the name of its recipe, and its clause may follow from the recipe. Two such details
    are not compared here, because `covers` compares the recipes.
    """
    if entry.verdict != finding.verdict:
        return False
    if not matches(finding.subject, entry.subject) or not matches(finding.contract, entry.contract):
        return False
    same_clause = matches(finding.clause, entry.clause)
    if _of_recipe(entry.detail, entry.recipes) and _of_recipe(finding.detail, finding.recipes):
        return same_clause or entry.verdict != Verdict.AMBIGUITY
    return same_clause and matches(finding.detail, entry.detail)


def _of_recipe(detail: str, recipes: Recipes | None) -> bool:
    """True if a detail follows from the recipe: it is the recipe's name or, without a recipe, the types."""
    if recipes is not None:
        return detail in ("*", recipes.reading, partly(recipes.reading))
    return names_types(detail)


def covers(
    entry: Entry, finding: ObservedFinding, call_facts: Facts, today: date, samples: Sequence[Sample] = ()
) -> Standing:
    """Classify a finding on one call, or on one call of each cell, by one entry.

    Args:
        entry: The entry.
        finding: The finding.
        call_facts: The call's `facts`.
        today: The day of the run.
        samples: The finding's judged calls, to compare the entry's region with; () to leave the region out.

    Returns:
        "known"; "expired"; "changed" if other recipes give the values; "outside" if the finding is of another kind or scope,
        or has a wrong value outside the region.
    """
    if not same_kind(entry, finding) or not in_scope(entry, call_facts):
        return "outside"
    if not inside(region_from_name(entry.region), samples):
        return "outside"
    if entry.recipes not in (finding.recipes, *finding.equal):
        return "changed"
    return "expired" if entry.expires is not None and today >= entry.expires else "known"


def look_up(
    ledger: Ledger, finding: ObservedFinding, call_facts: Facts, today: date, samples: Sequence[Sample] = ()
) -> tuple[Standing, Entry | None]:
    """The best standing that an entry gives a finding (see `covers`), and the first entry that gives it.

    A new finding is ("outside", None).
    """
    standings = [(covers(entry, finding, call_facts, today, samples), entry) for entry in ledger.entries]
    for best in _BEST_FIRST:
        for standing, entry in standings:
            if standing == best:
                return best, entry
    return "outside", None


def stale(ledger: Ledger, seen_names: Collection[str]) -> tuple[Entry, ...]:
    """The entries whose findings no longer occur: those whose names are not among ``seen_names``."""
    return tuple(entry for entry in ledger.entries if entry.name not in seen_names)


def witness_call(entry: Entry) -> Call | None:
    """The call that shows the finding; None if the entry holds none.

    Raises:
        ValueError: The call is damaged.
    """
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
    """Make the entry of a report's finding, as narrow as the evidence.

    Its scope is the cells in which the finding was seen, or any call if it was seen in none. It keeps the region only if no
    single recipe gives all values, because the recipe says more.

    Args:
        finding: An item of "findings" in ``report.json``.
        reason: Why it is accepted.
        accepted: Today.
        owner: The person responsible for it.
        expires: The first day on which the entry no longer counts.
        name: The entry's name; the finding's id by default.
        directory: The run's directory, which holds a witness that is too large for the report.

    Raises:
        DamagedFileError: The witness's file is not the one that was written.
        ValueError: The region is unknown.
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
    # A forbidden call lies in no cell. The entry names the clause that forbids it.
    return ()
