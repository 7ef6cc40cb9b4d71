"""What each implementation did in each cell: counts, the readings that still explain every value, and its status."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from xverify.contracts.model import Cell
from xverify.core.bits import canonical
from xverify.core.call import Outcome
from xverify.verify import verdicts
from xverify.verify.attribute import gives
from xverify.verify.compare import Comparison
from xverify.verify.evidence import Evidence, Explained, explained
from xverify.verify.findings import Discrepancy, Subject, witness_order
from xverify.verify.shared_recipe import common
from xverify.verify.verdicts import Judged


@dataclass(eq=False)
class CellTally:
    """One implementation in one cell. alive: names of the admitted readings that explain all values so far.
    evidence: of the readings that are not admitted, and kept calls. explained: at the run's end, what gives wrong values."""

    cases: int = 0
    values: int = 0
    wrong: int = 0
    wrong_cases: int = 0
    max_ulp: int = 0
    flushed: int = 0
    flushed_cases: int = 0
    answered: int = 0
    rejected: int = 0
    unsupported: int = 0
    deaths: set[str] = field(default_factory=set)
    alive: tuple[str, ...] | None = None
    worst: tuple[Judged, Outcome] | None = None
    flush: tuple[Judged, Outcome] | None = None
    mixture: tuple[Judged, Outcome, Discrepancy] | None = None
    ambiguous: bool = False
    open: bool = False
    simplest_refused: bool = False
    refusal: tuple[Judged, Outcome] | None = None
    departures: dict[str, tuple[Judged, Outcome]] = field(default_factory=dict)
    departed: dict[str, list[int]] = field(default_factory=dict)
    evidence: Evidence = field(default_factory=Evidence)
    explained: Explained | None = None


class Tally:
    """All cells of a run. characterise: whether it is to be known what implementations follow also where the text admits all
    that they give. last_was_wrong: whether the last outcome had values outside the legal set, of which a finding is made
    only at the end."""

    def __init__(self, characterise: bool = True) -> None:
        self.characterise = characterise
        self.cells: dict[tuple[Subject, Cell], CellTally] = defaultdict(CellTally)
        self.judged_by: dict[tuple[Subject, str], bool] = {}
        self.last_was_wrong = False

    def observe(self, judged: Judged, subject: Subject, outcome: Outcome, is_judged: bool) -> list[Discrepancy]:
        """Count an outcome, and say what is wrong with it; an implementation that this edition does not judge is only
        counted."""
        label = subject.name
        found = verdicts.noted(judged, label, outcome)
        self.last_was_wrong = False
        death = verdicts.died(judged, label, outcome)
        if death is not None:
            found.append(death)
        self.judged_by[subject, judged.contract.id] = is_judged
        if judged.judgement.verdict == "forbidden":
            accepted = verdicts.accepted(judged, label, outcome)
            return found + ([accepted] if accepted and is_judged else [])
        assert judged.cell is not None
        cell = self.cells[subject, judged.cell]
        cell.cases += 1
        cell.values += judged.call.values
        cell.open = judged.judgement.verdict == "unspecified"
        if death is not None:
            cell.deaths.add(outcome.kind)
        cell.unsupported += outcome.kind == "unsupported"
        cell.answered += outcome.kind == "tensor"
        if judged.judgement.verdict == "unspecified":
            return found
        if outcome.kind == "rejected":
            cell.rejected += 1
            if cell.refusal is None or _smaller(judged, cell.refusal[0]):
                cell.refusal = (judged, outcome)
        comparison = verdicts.compared(judged, outcome)
        if comparison is not None:
            self._values(judged, label, outcome, comparison, cell, is_judged, subject.often)
            self.last_was_wrong = comparison.wrong_values > 0
            return found
        odd = verdicts.shape_or_type(judged, label, outcome)
        cell.wrong += max(1, judged.call.values) if odd else 0
        return found + ([odd] if odd and is_judged else [])

    def _values(
        self,
        judged: Judged,
        label: str,
        outcome: Outcome,
        comparison: Comparison,
        cell: CellTally,
        is_judged: bool,
        often: bool,
    ) -> None:
        assert judged.legal is not None
        assert outcome.tensor is not None
        if comparison.flushed_values:
            cell.flushed += comparison.flushed_values
            cell.flushed_cases += 1
            if not comparison.wrong_values and (cell.flush is None or _smaller(judged, cell.flush[0])):
                cell.flush = (judged, outcome)
        if comparison.wrong_values:
            cell.wrong += comparison.wrong_values
            cell.wrong_cases += 1
            cell.max_ulp = -1 if -1 in (cell.max_ulp, comparison.max_ulp) else max(cell.max_ulp, comparison.max_ulp)
            if cell.worst is None or _smaller(judged, cell.worst[0]):
                cell.worst = (judged, outcome)
        names = [reading.name for reading in judged.legal.readings]
        alive = cell.alive if cell.alive is not None else tuple(names)
        if alive:
            mixed = verdicts.mixed(judged, label, outcome, comparison, alive)
            if mixed is not None:
                cell.mixture = (judged, outcome, mixed)
            cell.alive = tuple(n for n in alive if comparison.explains[names.index(n)])
        often = (often and self.characterise) or bool(cell.wrong) or cell.mixture is not None
        explained = bool(cell.alive) and not cell.wrong and not cell.flushed
        cell.evidence.observe(judged, outcome.tensor, comparison, is_judged, often, explained)
        if not comparison.explains[0] and not comparison.wrong_values:
            self._remember_departures(judged, outcome, comparison, names, cell)

    @staticmethod
    def _remember_departures(
        judged: Judged, outcome: Outcome, comparison: Comparison, names: list[str], cell: CellTally
    ) -> None:
        legal, got = judged.legal, outcome.tensor
        assert legal is not None
        assert got is not None
        differing = int((canonical(got.codes, got.dtype) != legal.codes(0)).sum())
        for name, explains in zip(names, comparison.explains, strict=True):
            if not explains or (cell.alive is not None and name not in cell.alive):
                continue
            counts = cell.departed.setdefault(name, [0, 0])
            counts[0] += 1
            counts[1] += differing
            if name not in cell.departures or _smaller(judged, cell.departures[name][0]):
                cell.departures[name] = (judged, outcome)

    def attribution_seconds(self) -> float:
        """How long it took to follow which recipes give the values."""
        return sum(tally.evidence.seconds for tally in self.cells.values())

    def settle(self) -> None:
        """Search where a cell's probes did not all come, but not where nothing is wrong if that need not be known."""
        for (subject, cell), tally in self._ordered():
            if self.characterise or tally.wrong or tally.mixture is not None:
                tally.evidence.settle(self.judged_by[subject, cell.contract])

    def violations(self) -> Iterator[tuple[Subject, Cell, CellTally, Discrepancy, Judged, Outcome]]:
        """Cells with values outside the legal set, each with the recipe that explains all its values if one is
        known."""
        violating = [
            (subject, cell, tally)
            for (subject, cell), tally in self._ordered()
            if tally.worst is not None and self.judged_by[subject, cell.contract]
        ]
        groups = []
        for subject, cell, tally in violating:
            assert tally.worst is not None
            judged = tally.worst[0]
            operands = judged.contract.operands(judged.call)
            groups.append(((subject.name, cell.contract), operands, tally.evidence.others or ()))
        for (subject, cell, tally), reading in zip(violating, common(groups), strict=True):
            assert tally.worst is not None
            judged, outcome = tally.worst
            comparison = verdicts.compared(judged, outcome)
            assert comparison is not None
            by = Explained(reading) if reading is not None else explained(tally.evidence)
            tally.explained = by
            found = verdicts.violates(judged, subject.name, outcome, comparison, by.recipe, by.elsewhere)
            if found is None:
                # The recipe was found on the calls that were kept; the smallest wrong one is not among them.
                tally.explained = Explained(None)
                found = verdicts.violates(judged, subject.name, outcome, comparison, None)
            if found is not None:
                yield subject, cell, tally, found, judged, outcome

    def mixtures(self) -> Iterator[tuple[Subject, Cell, Discrepancy, Judged, Outcome]]:
        """Cells whose values are all legal but follow no single reading."""
        for (subject, cell), tally in self._ordered():
            if tally.mixture is not None and not tally.wrong and self.judged_by[subject, cell.contract]:
                judged, outcome, found = tally.mixture
                recipe = tally.evidence.others[0] if tally.evidence.others else None
                whole = verdicts.mixed(judged, subject.name, outcome, None, found.readings, recipe)
                yield subject, cell, whole or found, judged, outcome

    def flushes(self) -> Iterator[tuple[Subject, Cell, CellTally, Discrepancy, Judged, Outcome]]:
        """Cells in which subnormal results came out as zeros, once `violations` said what else is wrong with them: such a
        mistake may give zeros as well, and then nothing was flushed."""
        for (subject, cell), tally in self._ordered():
            if tally.flush is None or not self.judged_by[subject, cell.contract]:
                continue
            judged, outcome = tally.flush
            if tally.wrong and self._may_give(tally, judged, outcome):
                continue
            comparison = verdicts.compared(judged, outcome)
            assert comparison is not None
            found = verdicts.flushed(judged, subject.name, comparison)
            if found is not None:
                yield subject, cell, tally, found, judged, outcome

    @staticmethod
    def _may_give(tally: CellTally, judged: Judged, outcome: Outcome) -> bool:
        """Whether what is wrong with a cell gives this outcome too; True where it is not known what that is."""
        recipe = None if tally.explained is None else tally.explained.recipe
        return recipe is None or outcome.tensor is None or gives(judged.contract, judged.call, outcome.tensor, recipe)

    def refusals(self, judged: bool = True) -> Iterator[tuple[Subject, Cell, CellTally]]:
        """Cells in which allowed calls were rejected, in a fixed order; where none was answered, the simplest must be
        asked. judged: by the edition, or those that are only characterised."""
        for (subject, cell), tally in self._ordered():
            if tally.rejected and self.judged_by[subject, cell.contract] == judged:
                yield subject, cell, tally

    def ambiguities(self) -> Iterator[tuple[Subject, Cell, CellTally, Discrepancy, Judged, Outcome]]:
        """Cells in which an implementation follows another reading than the first, while another implementation, which is not
        ours, does not share any of its readings."""
        alive: dict[Cell, list[tuple[str, tuple[str, ...]]]] = defaultdict(list)
        for (subject, cell), tally in self.cells.items():
            if tally.alive and self.judged_by[subject, cell.contract] and not subject.is_own:
                alive[cell].append((subject.name, tally.alive))
        for (subject, cell), tally in self._ordered():
            if not tally.alive or not tally.departures or not self.judged_by[subject, cell.contract]:
                continue
            name = tally.alive[0]
            others = [other for whose, other in alive[cell] if whose != subject.name]
            if name not in tally.departures or all(set(tally.alive) & set(other) for other in others):
                continue
            judged, outcome = tally.departures[name]
            found = verdicts.departs(judged, subject.name, outcome, name)
            if found is not None:
                tally.ambiguous = True
                yield subject, cell, tally, found, judged, outcome

    def _ordered(self) -> list[tuple[tuple[Subject, Cell], CellTally]]:
        return sorted(self.cells.items(), key=lambda item: (item[0][1], item[0][0].label))

    def status(self, subject: Subject, cell: Cell) -> str:
        """One word for the cell; the worst of what was seen."""
        tally = self.cells[subject, cell]
        for kind in ("crash", "hang"):
            if kind in tally.deaths:
                return kind
        if tally.open:
            return "unspecified"
        judged = self.judged_by[subject, cell.contract]
        if not tally.answered and (tally.unsupported or tally.simplest_refused):
            return "unsupported"
        if not judged:
            return "not-judged-differs" if tally.wrong or tally.rejected else "not-judged-agrees"
        if tally.wrong:
            return "violation"
        if tally.rejected:
            return "wrongly-rejected"
        if tally.mixture is not None:
            return "mixed"
        return "ambiguous" if tally.ambiguous or tally.flushed else "agrees"


def _smaller(a: Judged, b: Judged) -> bool:
    return witness_order(a.call, a.number) < witness_order(b.call, b.number)
