"""What each implementation did in each cell: counts, the readings that still explain every value, and its status."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xverify.contracts.model import Cell
from xverify.core.bits import canonical
from xverify.core.call import Outcome, Tensor
from xverify.verify import verdicts
from xverify.verify.attribute import explaining, readings_of
from xverify.verify.compare import Comparison
from xverify.verify.findings import Discrepancy, Subject, witness_order
from xverify.verify.verdicts import Judged

KEPT_CALLS, KEPT_VALUES = 2, 512
"""How many right calls, and how large, a cell keeps for what may be suspected later: a recipe that they contradict is
not the cell's. They are shared by all implementations, and the first of a cell meets every code."""


@dataclass(eq=False)
class CellTally:
    """One implementation in one cell. alive: names of the admitted readings that explain all values so far.
    suspects: of the recipes that are not admitted, those that do. earlier: right calls, and the reading each followed."""

    cases: int = 0
    values: int = 0
    wrong: int = 0
    wrong_cases: int = 0
    max_ulp: int = 0
    flushed: int = 0
    answered: int = 0
    rejected: int = 0
    unsupported: int = 0
    deaths: set[str] = field(default_factory=set)
    alive: tuple[str, ...] | None = None
    suspects: tuple[str, ...] | None = None
    worst: tuple[Judged, Outcome] | None = None
    mixture: tuple[Judged, Outcome, Discrepancy] | None = None
    ambiguous: bool = False
    open: bool = False
    simplest_refused: bool = False
    refusal: tuple[Judged, Outcome] | None = None
    departures: dict[str, tuple[Judged, Outcome]] = field(default_factory=dict)
    departed: dict[str, list[int]] = field(default_factory=dict)
    earlier: list[tuple[Judged, int]] = field(default_factory=list)


class Tally:
    """All cells of a run."""

    def __init__(self) -> None:
        self.cells: dict[tuple[Subject, Cell], CellTally] = defaultdict(CellTally)
        self.judged_by: dict[tuple[Subject, str], bool] = {}

    def observe(self, judged: Judged, subject: Subject, outcome: Outcome, is_judged: bool) -> list[Discrepancy]:
        """Count an outcome, and say what is wrong with it; an implementation that this edition does not judge is only
        counted."""
        label = subject.name
        found = verdicts.memory(judged, label, outcome)
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
            values = self._values(judged, label, outcome, comparison, cell, is_judged)
        else:
            odd = verdicts.shape_or_type(judged, label, outcome)
            cell.wrong += max(1, judged.call.values) if odd else 0
            values = [odd] if odd else []
        return found + (values if is_judged else [])

    def _values(
        self,
        judged: Judged,
        label: str,
        outcome: Outcome,
        comparison: Comparison,
        cell: CellTally,
        is_judged: bool,
    ) -> list[Discrepancy]:
        assert judged.legal is not None
        assert outcome.tensor is not None
        flushed = verdicts.flushed(judged, label, comparison)
        cell.flushed += comparison.flushed_values
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
        if is_judged and (cell.wrong or cell.mixture) and cell.suspects != ():
            if cell.suspects is None:
                cell.suspects = _suspects(judged, names, cell)
            cell.suspects = explaining(judged.contract, judged.call, outcome.tensor, cell.suspects)
        elif (
            cell.alive
            and not comparison.flushed_values
            and 0 < judged.call.values <= KEPT_VALUES
            and len(cell.earlier) < KEPT_CALLS
        ):
            cell.earlier.append((judged, names.index(cell.alive[0])))
        if not comparison.explains[0] and not comparison.wrong_values:
            self._remember_departures(judged, outcome, comparison, names, cell)
        return [flushed] if flushed is not None and is_judged else []

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

    def violations(self) -> Iterator[tuple[Subject, Cell, CellTally, Discrepancy, Judged, Outcome]]:
        """Cells with values outside the legal set, each with the reading that explains all its values if one is
        known."""
        violating = [
            (subject, cell, tally)
            for (subject, cell), tally in self._ordered()
            if tally.worst is not None and self.judged_by[subject, cell.contract]
        ]
        common = _common([((subject.name, cell.contract), tally.suspects or ()) for subject, cell, tally in violating])
        for (subject, cell, tally), reading in zip(violating, common, strict=True):
            assert tally.worst is not None
            judged, outcome = tally.worst
            comparison = verdicts.compared(judged, outcome)
            assert comparison is not None
            found = verdicts.violates(judged, subject.name, outcome, comparison, reading)
            if found is not None:
                yield subject, cell, tally, found, judged, outcome

    def mixtures(self) -> Iterator[tuple[Subject, Cell, Discrepancy, Judged, Outcome]]:
        """Cells whose values are all legal but follow no single reading."""
        for (subject, cell), tally in self._ordered():
            if tally.mixture is not None and not tally.wrong and self.judged_by[subject, cell.contract]:
                judged, outcome, found = tally.mixture
                reading = tally.suspects[0] if tally.suspects else None
                whole = verdicts.mixed(judged, subject.name, outcome, None, found.readings, reading)
                yield subject, cell, whole or found, judged, outcome

    def refusals(self) -> Iterator[tuple[Subject, Cell, CellTally]]:
        """Cells in which allowed calls were rejected, in a fixed order; where none was answered, the simplest must be
        asked."""
        for (subject, cell), tally in self._ordered():
            if tally.rejected and self.judged_by[subject, cell.contract]:
                yield subject, cell, tally

    def ambiguities(self) -> Iterator[tuple[Subject, Cell, CellTally, Discrepancy, Judged, Outcome]]:
        """Cells in which an implementation follows another reading than the first, while another implementation does
        not share any of its readings."""
        alive: dict[Cell, list[tuple[str, ...]]] = defaultdict(list)
        for (subject, cell), tally in self.cells.items():
            if tally.alive and self.judged_by[subject, cell.contract]:
                alive[cell].append(tally.alive)
        for (subject, cell), tally in self._ordered():
            if not tally.alive or not tally.departures or not self.judged_by[subject, cell.contract]:
                continue
            name = tally.alive[0]
            if name not in tally.departures or all(set(tally.alive) & set(other) for other in alive[cell]):
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


def _suspects(judged: Judged, admitted: list[str], cell: CellTally) -> tuple[str, ...]:
    """Recipes that may be a cell's though the text does not admit them: those that also give what was right before."""
    names = tuple(name for name in readings_of(judged.contract.domain.family) if name not in admitted)
    for before, reading in cell.earlier:
        assert before.legal is not None
        given = Tensor(before.legal.dtype, before.legal.codes(reading))
        names = explaining(before.contract, before.call, given, names)
    return names


def _common(suspects: Sequence[tuple[tuple[str, str], tuple[str, ...]]]) -> list[str | None]:
    """For each cell one of the readings that explain it, so that the cells of one group need few different ones: the
    reading that explains most cells, then the one that explains most of the others, and so on."""
    chosen: list[str | None] = [None] * len(suspects)
    open_cells = {place for place, (_, names) in enumerate(suspects) if names}
    while open_cells:
        counts = Counter((suspects[place][0], name) for place in sorted(open_cells) for name in suspects[place][1])
        (group, best), _ = counts.most_common(1)[0]
        for place in [p for p in open_cells if suspects[p][0] == group and best in suspects[p][1]]:
            chosen[place] = best
            open_cells.remove(place)
    return chosen


def _smaller(a: Judged, b: Judged) -> bool:
    return witness_order(a.call, a.number) < witness_order(b.call, b.number)
