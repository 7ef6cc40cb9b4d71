"""Calls that the text leaves open and that two implementations treat differently: what comes of the clause, and what does not."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xverify.core.call import Outcome
from xverify.verify import verdicts
from xverify.verify.attribute import Recipe
from xverify.verify.findings import Subject
from xverify.verify.verdicts import Judged

if TYPE_CHECKING:
    from xverify.engine.run import Sweep  # which concludes with this


@dataclass(frozen=True, eq=False)
class Open:
    """Such a call, and what came of it from a subject and from the one that it is compared with."""

    judged: Judged
    subject: Subject
    outcome: Outcome
    reference: Subject
    other: Outcome

    @property
    def refusing(self) -> Subject | None:
        """The one that refuses it, if one does."""
        return self.subject if self.outcome.refused else self.reference if self.other.refused else None


def conclude_open_calls(sweep: Sweep) -> None:
    """Add what comes of the clause that leaves a call open, and not of what an implementation does with allowed calls of the same
    cell: refuse these too, or compute them by a recipe that the text does not admit. Asked when that is known."""
    sweep.learn_support([(one.refusing, one.judged) for one in sweep.open_calls if one.refusing is not None])
    recipes: dict[tuple[str, str], dict[str, Recipe]] = defaultdict(dict)
    for (subject, cell), tally in sweep.tally.cells.items():
        if tally.explained is not None and tally.explained.recipe is not None:
            recipes[subject.name, cell.contract][tally.explained.recipe.name] = tally.explained.recipe
    for one in sweep.open_calls:
        judged = one.judged
        if one.refusing is not None and _refuses_allowed_ones(sweep, one.refusing, judged):
            continue
        both = [recipes[subject.name, judged.contract.id] for subject in (one.subject, one.reference)]
        known = {name: recipe for each in both for name, recipe in each.items()}
        names = one.subject.name, one.outcome, one.reference.name, one.other
        found = verdicts.disagrees(judged, *names, [known[name] for name in sorted(known)])
        if found is not None:
            sweep.add(found, one.subject, judged, one.outcome, one.reference)


def _refuses_allowed_ones(sweep: Sweep, subject: Subject, judged: Judged) -> bool:
    allowed = sweep.tally.cells.get((subject, judged.contract.cell(judged.call)))
    return not sweep.supports(subject, judged) or (allowed is not None and allowed.rejected > 0)
