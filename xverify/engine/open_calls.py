"""Findings on calls that the text leaves open and that two implementations treat differently."""

from __future__ import annotations

from collections import defaultdict

from xverify.engine.record import record
from xverify.engine.state import RunState
from xverify.engine.support import learn_support, supports
from xverify.verify import verdicts
from xverify.verify.attribute import Recipe
from xverify.verify.findings import Subject
from xverify.verify.verdicts import Judged


def conclude_open_calls(state: RunState) -> None:
    """Record the differences that come from the clause which leaves a call open.

    A difference has another cause if the implementation also refuses allowed calls of the cell, or computes them by a recipe
    that the text does not admit. So this phase needs the outcomes of all allowed calls.
    """
    learn_support(state, [(call.refusing, call.judged) for call in state.open_calls if call.refusing is not None])
    recipes: dict[tuple[str, str], dict[str, Recipe]] = defaultdict(dict)
    for (subject, cell), tally in state.tally.cells.items():
        if tally.explained is not None and tally.explained.recipe is not None:
            recipes[subject.name, cell.contract][tally.explained.recipe.name] = tally.explained.recipe
    for call in state.open_calls:
        judged = call.judged
        if call.refusing is not None and _refuses_allowed_calls(state, call.refusing, judged):
            continue
        of_both = [recipes[subject.name, judged.contract.id] for subject in (call.subject, call.reference)]
        by_name = {name: recipe for of_one in of_both for name, recipe in of_one.items()}
        names = call.subject.name, call.outcome, call.reference.name, call.other
        discrepancy = verdicts.disagrees(judged, *names, [by_name[name] for name in sorted(by_name)])
        if discrepancy is not None:
            record(state, discrepancy, call.subject, judged, call.outcome, call.reference)


def _refuses_allowed_calls(state: RunState, subject: Subject, judged: Judged) -> bool:
    tally = state.tally.cells.get((subject, judged.contract.cell(judged.call)))
    return not supports(state, subject, judged) or (tally is not None and tally.rejected > 0)
