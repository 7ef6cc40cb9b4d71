"""The recipe of each implementation in each cell, and the clauses that it follows, for the report."""

from __future__ import annotations

from typing import Any

from xverify.contracts.model import Cell, Contract
from xverify.engine.disambiguate import classes
from xverify.engine.state import RunState
from xverify.verify.attribute import Recipe
from xverify.verify.findings import Subject
from xverify.verify.tally import CellTally

MOST_OTHERS = 64
"""The largest number of remaining readings that the report names."""


def characterize(state: RunState, cell: Cell, tally: CellTally) -> dict[str, Any]:
    """The fields "attribution" and "remaining" of a cell in the report.

    "attribution" is the simplest recipe that gives every value; "remaining" lists the readings that the values do not exclude.
    """
    evidence = tally.evidence
    others = list(evidence.others or ())
    recipe: Recipe | None
    if tally.open or not evidence.values:
        return {"attribution": None, "remaining": None}
    if tally.wrong:
        recipe = tally.explained.recipe if tally.explained is not None and tally.explained.elsewhere is None else None
        recipe = recipe or (others[0] if others else None)
        return {"attribution": _attribution(recipe, evidence.values, False), "remaining": None}
    alive = [r for r in state.readings_of(state.contract(cell.contract)) if r.name in (tally.alive or ())]
    if tally.flushed or not alive:
        recipe = others[0] if others else None
        return {"attribution": _attribution(recipe, evidence.values, bool(alive)), "remaining": None}
    equal, *rest = classes(state.contract(cell.contract), cell, [*alive, *others])
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


def followers(state: RunState, contract: Contract, clause: str) -> dict[str, Any]:
    """The judged implementations that follow a clause, that depart from it, and the others.

    For the others the run cannot tell.
    """
    depart = [
        {"subject": finding.key.subject, "finding": finding.id}
        for finding in state.findings.sorted()
        if clause in (finding.key.clause, *(each.clause for each in finding.departures))
        and finding.key.verdict.is_fault
        and finding.subject.role != "edition"
    ]
    departing = {entry["subject"] for entry in depart}
    follow, untold = [], []
    silent = not contract.clauses[clause].text
    for oracle in state.pool.oracles.values():
        subject: Subject = state.pool.subjects[oracle.name][0]
        name = subject.name
        if name in departing or not state.pool.judges(contract, name) or silent:
            continue
        answered = state.clause_answers[clause, name]
        if answered:
            follow.append(name)
        else:
            why = "not tested" if not state.clause_cases[clause] else "refuses every call that tests it"
            untold.append({"subject": name, "why": state.pool.failures.get(name, why)})
    return {"follow": follow, "depart": depart, "untold": untold}
