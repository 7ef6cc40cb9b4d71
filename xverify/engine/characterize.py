"""What each implementation computes in each cell, and which clauses it follows, for the report."""

from __future__ import annotations

from typing import Any

from xverify.contracts.model import Cell, Contract
from xverify.engine.disambiguate import classes
from xverify.engine.run import Sweep
from xverify.verify.attribute import Recipe
from xverify.verify.findings import Subject
from xverify.verify.tally import CellTally

MOST_OTHERS = 64


def character(sweep: Sweep, cell: Cell, tally: CellTally) -> dict[str, Any]:
    """The report's "attribution" and "remaining" of a cell: the simplest recipe that gives every value, and what the values
    did not exclude."""
    evidence = tally.evidence
    others = list(evidence.others or ())
    recipe: Recipe | None
    if tally.open or not evidence.values:
        return {"attribution": None, "remaining": None}
    if tally.wrong:
        recipe = tally.explained.recipe if tally.explained is not None and tally.explained.elsewhere is None else None
        recipe = recipe or (others[0] if others else None)
        return {"attribution": _attribution(recipe, evidence.values, False), "remaining": None}
    alive = [r for r in sweep.readings_of(sweep.contract(cell.contract)) if r.name in (tally.alive or ())]
    if tally.flushed or not alive:
        recipe = others[0] if others else None
        return {"attribution": _attribution(recipe, evidence.values, bool(alive)), "remaining": None}
    equal, *rest = classes(sweep.contract(cell.contract), cell, [*alive, *others])
    names = [reading.name for group in rest for reading in group]
    remaining = {
        "equal": len(equal) - 1,
        "others": names[:MOST_OTHERS],
        "more": max(0, len(names) - MOST_OTHERS),
        "values": evidence.held,
        "tried": evidence.tried,
    }
    return {"attribution": _attribution(alive[0], evidence.values, True), "remaining": remaining}


def _attribution(recipe: Recipe | None, values: int, legal: bool) -> dict[str, Any] | None:
    if recipe is None:
        return None
    return {"reading": recipe.name, "words": recipe.words, "values": values, "legal": legal}


def followers(sweep: Sweep, contract: Contract, clause: str) -> dict[str, Any]:
    """Who follows a clause, who departs from it, and of whom it can't be told: of those that the edition judges."""
    depart = [
        {"subject": finding.key.subject, "finding": finding.id}
        for finding in sweep.findings.sorted()
        if finding.key.clause == clause and finding.key.verdict.is_fault and finding.subject.role != "edition"
    ]
    departing = {entry["subject"] for entry in depart}
    follow, untold = [], []
    silent = not contract.clauses[clause].text
    for oracle in sweep.fleet.oracles.values():
        subject: Subject = sweep.fleet.subjects[oracle.name][0]
        name = subject.name
        if name in departing or not sweep.fleet.judges(contract, name) or silent:
            continue
        answered = sweep.clause_answers[clause, name]
        if answered:
            follow.append(name)
        else:
            why = "not tested" if not sweep.clause_cases[clause] else "refuses every call that tests it"
            untold.append({"subject": name, "why": sweep.fleet.failures.get(name, why)})
    return {"follow": follow, "depart": depart, "untold": untold}
