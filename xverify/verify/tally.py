"""The tally of each implementation in each cell: counts, remaining readings, and the status."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from xverify.arithmetic.indexing import Misindexing
from xverify.arithmetic.reading import Reading
from xverify.contracts.model import Cell
from xverify.core.bits import canonical
from xverify.core.call import AT_RUN, Outcome
from xverify.core.verdict import Verdict
from xverify.verify import verdicts
from xverify.verify.attribute import Attribution, CheckedResult, Misread, Recipe, Zeros, gives
from xverify.verify.compare import Comparison, max_ulp
from xverify.verify.departures import shown_by_values
from xverify.verify.evidence import (
    UNSIGNED,
    Evidence,
    Explained,
    completed,
    explained,
    explained_by,
    has_only_zeros,
    is_clear,
    second_reading,
)
from xverify.verify.findings import Discrepancy, Subject, witness_order
from xverify.verify.ordinary import OrdinaryCalls
from xverify.verify.range_places import farther, range_places
from xverify.verify.shared_recipe import MOST, common
from xverify.verify.shown import shown
from xverify.verify.verdicts import Judged

MOST_LIKELY = 4
"""Number of indexing mistakes that are tried first: those that explain the most cells."""

MOST_GRAPHS = 6
"""Number of kept calls of a cell whose graphs gave wrong values."""

MOST_FRUITLESS = 8
"""Number of cells of one implementation and edition without a recipe, after which a search tries fewer recipes.

It takes seconds a cell.
"""


@dataclass(frozen=True, eq=False)
class Refusal:
    """Allowed calls of a cell that were rejected for one reason."""

    judged: Judged
    """The smallest of them."""
    outcome: Outcome
    cases: int
    at_run: bool
    """True if their models were accepted, and then failed when they ran. That is no way to refuse a cell."""


@dataclass(eq=False)
class CellTally:
    """One implementation in one cell."""

    cases: int = 0
    """Calls."""
    values: int = 0
    """Values of all calls."""
    wrong: int = 0
    """Values outside the legal set."""
    wrong_cases: int = 0
    """Calls with such values."""
    max_ulp: int = 0
    """The largest distance of a wrong value in ULP; -1 if it is not a number."""
    range_places: int = 0
    """The same in last places of the range, see `xverify.verify.range_places`."""
    flushed: int = 0
    """Subnormal results that came out as zero."""
    flushed_cases: int = 0
    """Calls with such results."""
    answered: int = 0
    """Calls that gave a tensor."""
    rejected: int = 0
    """Allowed calls that were rejected."""
    unsupported: int = 0
    """Calls that were refused as not implemented."""
    unreadable: int = 0
    """Allowed calls whose result could not be read."""
    unreadable_values: int = 0
    """Values of such calls."""
    due: int = 0
    """Values of the allowed calls that gave a result, also of one that could not be read."""
    deaths: set[str] = field(default_factory=set)
    """The kinds of deaths that occurred: "crash" and "hang"."""
    alive: tuple[str, ...] | None = None
    """Names of the admitted readings that explain all values so far; None before the first call."""
    worst: tuple[Judged, Outcome] | None = None
    """The smallest call with a wrong value."""
    odd: tuple[Judged, Outcome] | None = None
    """The smallest allowed call whose result could not be read, or had another dtype or shape."""
    flush: tuple[Judged, Outcome] | None = None
    """The smallest call with a flushed result."""
    mixture: tuple[Judged, Outcome, Discrepancy] | None = None
    """The call that left no admitted reading."""
    ambiguous: bool = False
    """True if `Tally.ambiguities` yielded the cell."""
    open: bool = False
    """True if the text leaves its calls open."""
    simplest_refused: bool = False
    """True if the simplest call of the cell was refused too."""
    refusals: dict[tuple[str, bool], Refusal] = field(default_factory=dict)
    """The allowed calls that were rejected, by the message for calls in a graph and by `Refusal.at_run`."""
    refused: tuple[Judged, Outcome] | None = None
    """The smallest allowed call that was refused, also as not implemented.

    Calls in surroundings do not count, since an operator around them may be the cause.
    """
    ordinary: OrdinaryCalls = field(default_factory=OrdinaryCalls)
    """The calls whose answers are evidence that the implementation computes something."""
    departures: dict[str, tuple[Judged, Outcome]] = field(default_factory=dict)
    """For each admitted reading, the smallest call whose values it gives and the first reading does not."""
    departed: dict[str, list[int]] = field(default_factory=dict)
    """For each admitted reading, the number of such calls and of their values."""
    graphs: list[tuple[Judged, Outcome]] = field(default_factory=list)
    """The first calls with wrong values among neighbours that change values. No recipe of arithmetic describes them."""
    evidence: Evidence = field(default_factory=Evidence)
    """Other recipes that are possible, and kept calls."""
    explained: Explained | None = None
    """The recipe of the wrong values, at the end of a run."""

    @property
    def refusal(self) -> tuple[Judged, Outcome] | None:
        """The smallest allowed call that was rejected."""
        smallest = None
        for refusal in self.refusals.values():
            smallest = _smallest(smallest, refusal.judged, refusal.outcome)
        return smallest

    @property
    def fails_at_run(self) -> bool:
        """True if a call was rejected after its model was accepted."""
        return any(refusal.at_run for refusal in self.refusals.values())


class Tally:
    """All cells of a run."""

    def __init__(self, characterise: bool = True) -> None:
        self.characterise = characterise
        """True to search what implementations follow even where the text admits all their values."""
        self.cells: dict[tuple[Subject, Cell], CellTally] = defaultdict(CellTally)
        self.judged_by: dict[tuple[Subject, str], bool] = {}
        self.answering: set[str] = set()
        """Names of the implementations that answered an allowed call."""
        self._not_refused: dict[tuple[Subject, str], tuple[Judged, Outcome, int]] = {}
        """By implementation and edition: the smallest forbidden call with an unreadable result, and the number of such calls."""
        self.last_was_wrong = False
        """True if the last outcome had values outside the legal set. Their finding is made at the end of the run."""
        self._recipes: dict[tuple[Subject, Cell], Reading | None] | None = None
        """The result of `_shared_recipes`, until the next outcome or `settle`."""

    def observe(self, judged: Judged, subject: Subject, outcome: Outcome, is_judged: bool) -> list[Discrepancy]:
        """Count an outcome, and list its discrepancies.

        An outcome that the edition does not judge is only counted, but for deaths and notes.
        """
        label = subject.name
        discrepancies = verdicts.noted(judged, label, outcome)
        self.last_was_wrong, self._recipes = False, None
        death = verdicts.died(judged, label, outcome)
        if death is not None:
            discrepancies.append(death)
        self.judged_by[subject, judged.contract.id] = is_judged
        if judged.judgement.verdict == "forbidden":
            if outcome.kind == "unreadable" and is_judged:
                self._remember_unreadable(judged, subject, outcome)
            accepted = verdicts.accepted(judged, label, outcome)
            return discrepancies + ([accepted] if accepted and is_judged else [])
        assert judged.cell is not None
        cell = self.cells[subject, judged.cell]
        cell.cases += 1
        cell.values += judged.call.values
        cell.open = judged.judgement.verdict == "unspecified"
        if death is not None:
            cell.deaths.add(outcome.kind)
        cell.unsupported += outcome.kind == "unsupported"
        cell.answered += outcome.kind == "tensor"
        if judged.judgement.verdict == "unspecified" and (judged.legal is None or outcome.tensor is None):
            return discrepancies
        if outcome.kind == "tensor":
            self.answering.add(label)
        cell.ordinary.observe(judged.call, outcome.kind)
        if outcome.kind == "rejected":
            cell.rejected += 1
            _refuse(cell.refusals, judged, outcome)
        if outcome.kind in ("tensor", "unreadable"):
            cell.due += judged.call.values
        elif outcome.refused and not judged.call.around:
            cell.refused = _smallest(cell.refused, judged, outcome)
        comparison = verdicts.compared(judged, outcome)
        if comparison is not None:
            self._values(judged, label, outcome, comparison, cell, is_judged, subject.often)
            self.last_was_wrong = comparison.wrong_values > 0
            return discrepancies
        if outcome.kind == "unreadable":
            cell.unreadable += 1
            cell.unreadable_values += judged.call.values
            cell.odd = _smallest(cell.odd, judged, outcome)
            nothing = verdicts.unreadable(judged, label, outcome)
            return discrepancies + ([nothing] if nothing and is_judged else [])
        odd = verdicts.shape_or_type(judged, label, outcome)
        if odd is not None:
            cell.wrong += max(1, judged.call.values)
            cell.odd = _smallest(cell.odd, judged, outcome)
        return discrepancies + ([odd] if odd and is_judged else [])

    def _remember_unreadable(self, judged: Judged, subject: Subject, outcome: Outcome) -> None:
        first, answer, count = self._not_refused.get((subject, judged.contract.id), (judged, outcome, 0))
        if _smaller(judged, first):
            first, answer = judged, outcome
        self._not_refused[subject, judged.contract.id] = (first, answer, count + 1)

    def not_refused(self) -> Iterator[tuple[Subject, Judged, Outcome, int]]:
        """Yield the smallest forbidden call with an unreadable result, and how many there are.

        An implementation with such results of allowed calls is left out: that is one mistake.
        """
        allowed = {(subject.name, cell.contract) for (subject, cell), tally in self.cells.items() if tally.unreadable}
        for (subject, contract), (judged, outcome, count) in sorted(
            self._not_refused.items(), key=lambda item: (item[0][1], item[0][0].label)
        ):
            if (subject.name, contract) not in allowed:
                yield subject, judged, outcome, count

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
            places = range_places(judged, outcome.tensor.codes, comparison.wrong)
            cell.range_places = farther(cell.range_places, places)
            if cell.worst is None or _smaller(judged, cell.worst[0]):
                cell.worst = (judged, outcome)
        if judged.legal.in_graph:
            if comparison.wrong_values and len(cell.graphs) < MOST_GRAPHS:
                cell.graphs.append((judged, outcome))
            return  # no reading describes a graph
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
        """The time spent on following the recipes that give the values."""
        return sum(tally.evidence.seconds for tally in self.cells.values())

    def settle(self) -> None:
        """Search in cells whose probes did not all come.

        A cell without a wrong value is left out unless implementations are characterised.
        """
        self._recipes = None
        for (subject, cell), tally in self.ordered():
            if self.characterise or tally.wrong or tally.mixture is not None:
                tally.evidence.settle(self.judged_by[subject, cell.contract])

    def violations(
        self, is_late: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[Subject, Cell, CellTally, Discrepancy, Judged, Outcome]]:
        """Yield the cells with values outside the legal set, and the recipe that explains them if known.

        Args:
            is_late: True if no search that takes seconds may begin.
        """
        violating = [
            (subject, cell, tally)
            for (subject, cell), tally in self.ordered()
            if tally.worst is not None and not tally.graphs and self.judged_by[subject, cell.contract]
        ]
        for (subject, cell, tally), by in zip(violating, self._explanations(violating, is_late), strict=True):
            tally.explained = by
            parts = _parts(tally, by)
            for part in parts:
                part.worst = _telling(part)
                found = _violation(subject, part)
                if found is None and len(parts) == 1:
                    # The recipe was found on the kept calls. The smallest wrong one is not among them.
                    part.explained = Explained(None)
                    found = _violation(subject, part)
                if found is not None:
                    yield subject, cell, part, *found

    def _explanations(
        self, violating: Sequence[tuple[Subject, Cell, CellTally]], is_late: Callable[[], bool]
    ) -> list[Explained]:
        """The explanation of each cell.

        An indexing mistake that explains other cells of the implementation and the edition is tried first.
        """
        shared = self._shared_recipes()
        # By edition too: what an edition shows must not depend on the other editions of the run.
        mistakes: defaultdict[tuple[str, str], Counter[Misindexing]] = defaultdict(Counter)
        fruitless: Counter[tuple[str, str]] = Counter()
        every = []
        for subject, cell, tally in violating:
            whose = subject.name, cell.contract
            reading, counts = shared[subject, cell], mistakes[whose]
            likely = [mistake for mistake, _ in counts.most_common(MOST_LIKELY)]
            thorough = fruitless[whose] < MOST_FRUITLESS and not is_late()
            by = Explained(reading) if reading is not None else explained(tally.evidence, likely, thorough)
            fruitless[whose] += by.recipe is None
            every.append(by)
            counts.update([by.recipe.mistake] if isinstance(by.recipe, Misread) and by.elsewhere is None else [])
        # In the first cells, another mistake may give the same results. Prefer the mistake of most cells.
        for index, ((subject, cell, tally), by) in enumerate(zip(violating, every, strict=True)):
            if isinstance(by.recipe, Misread) and by.elsewhere is None:
                (commonest, _), *_ = mistakes[subject.name, cell.contract].most_common(1)
                if by.recipe.mistake is not commonest:
                    likely = [commonest, by.recipe.mistake]
                    every[index] = explained(tally.evidence, likely, thorough=not is_late())
            elif by.recipe in (Zeros(), UNSIGNED) or (by.recipe is None and has_only_zeros(tally.evidence)):
                likely = [mistake for mistake, _ in mistakes[subject.name, cell.contract].most_common(MOST_LIKELY)]
                every[index] = explained_by(tally.evidence, likely, thorough=not is_late()) or by
        return _completed(violating, every)

    def _shared_recipes(self) -> dict[tuple[Subject, Cell], Reading | None]:
        """The recipe of each cell with wrong or mixed values; None if no recipe explains them.

        As few recipes as possible explain the cells. Both kinds of cells count together: one mistake gives wrong values in
        some cells, and mixed readings in others.
        """
        if self._recipes is not None:
            return self._recipes
        groups, telling = {}, []
        for (subject, cell), tally in self.ordered():
            shown = tally.worst or tally.mixture
            if shown is not None and not tally.graphs and self.judged_by[subject, cell.contract]:
                contract, call = shown[0].contract, shown[0].call
                operands, others = contract.operands(call), tally.evidence.others or ()
                groups[subject, cell] = ((subject.name, cell.contract), operands, others)
                telling.append(shown_by_values(others[:MOST], contract.readings(call), operands))
        self._recipes = dict(zip(groups, common(list(groups.values()), telling), strict=True))
        return self._recipes

    def in_graphs(self) -> Iterator[tuple[Subject, Cell, CellTally]]:
        """Yield the cells with wrong values among neighbours that change values, in a fixed order."""
        for (subject, cell), tally in self.ordered():
            if tally.graphs and self.judged_by[subject, cell.contract]:
                yield subject, cell, tally

    def mixtures(self) -> Iterator[tuple[Subject, Cell, Discrepancy, Judged, Outcome]]:
        """Yield the cells whose values are all legal but follow no single reading."""
        shared = self._shared_recipes()
        for (subject, cell), tally in self.ordered():
            if tally.mixture is not None and not tally.wrong and self.judged_by[subject, cell.contract]:
                judged, outcome, discrepancy = tally.mixture
                recipe = shared[subject, cell]
                whole = verdicts.mixed(judged, subject.name, outcome, None, discrepancy.readings, recipe)
                whole = whole or discrepancy
                other = second_reading(tally.evidence) if whole.attribution is None else None
                if other is not None:
                    first, count = judged.contract.readings(judged.call)[0], judged.call.values
                    parts = Attribution(other.name, other.words, count, count, (first.name, first.words))
                    whole = replace(whole, attribution=parts)
                yield subject, cell, whole, judged, outcome

    def flushes(self) -> Iterator[tuple[Subject, Cell, CellTally, Discrepancy, Judged, Outcome]]:
        """Yield the cells in which subnormal results came out as zeros.

        It must be called after `violations`. If the recipe of the wrong values gives these zeros too, nothing was flushed.
        """
        for (subject, cell), tally in self.ordered():
            if tally.flush is None or not self.judged_by[subject, cell.contract]:
                continue
            judged, outcome = tally.flush
            if tally.wrong and self._may_give(tally, judged, outcome):
                continue
            comparison = verdicts.compared(judged, outcome)
            assert comparison is not None
            discrepancy = verdicts.flushed(judged, subject.name, outcome, comparison)
            if discrepancy is not None:
                yield subject, cell, tally, discrepancy, judged, outcome

    @staticmethod
    def _may_give(tally: CellTally, judged: Judged, outcome: Outcome) -> bool:
        """True if the recipe of a cell's wrong values gives this outcome too, or is unknown."""
        recipe = None if tally.explained is None else tally.explained.recipe
        return recipe is None or outcome.tensor is None or gives(judged.contract, judged.call, outcome.tensor, recipe)

    def refusals(self, judged: bool = True) -> Iterator[tuple[Subject, Cell, CellTally]]:
        """Yield the cells in which allowed calls were rejected, in a fixed order.

        If none was answered, the caller must make the simplest call. ``judged`` selects the cells that the edition judges, or the
        others.
        """
        for (subject, cell), tally in self.ordered():
            if tally.rejected and self.judged_by[subject, cell.contract] == judged:
                yield subject, cell, tally

    def not_followed(self) -> Iterator[tuple[Subject, Cell, CellTally, Discrepancy, Judged, Outcome]]:
        """Yield the cells that differ from an edition which does not judge the implementation."""
        for (subject, cell), tally in self.ordered():
            shown = tally.worst or tally.odd
            # In a graph, another operator may be to blame.
            if shown is None or self.judged_by[subject, cell.contract] or cell.variant.endswith(verdicts.IN_GRAPH):
                continue
            judged, outcome = shown
            discrepancy = verdicts.not_followed(judged, subject.name, outcome)
            if discrepancy is not None:
                yield subject, cell, tally, discrepancy, judged, outcome

    def ambiguities(self) -> Iterator[tuple[Subject, Cell, CellTally, Discrepancy, Judged, Outcome]]:
        """Yield the cells in which an implementation follows another reading than the first.

        Another implementation, which is not ours, must share none of its readings.
        """
        alive: dict[Cell, list[tuple[str, tuple[str, ...]]]] = defaultdict(list)
        for (subject, cell), tally in self.cells.items():
            if tally.alive and self.judged_by[subject, cell.contract] and not subject.is_own:
                alive[cell].append((subject.name, tally.alive))
        for (subject, cell), tally in self.ordered():
            if not tally.alive or not tally.departures or not self.judged_by[subject, cell.contract]:
                continue
            name = tally.alive[0]
            others = [other for whose, other in alive[cell] if whose != subject.name]
            if name not in tally.departures or all(set(tally.alive) & set(other) for other in others):
                continue
            judged, outcome = tally.departures[name]
            discrepancy = verdicts.departs(judged, subject.name, outcome, name)
            if discrepancy is not None:
                tally.ambiguous = True
                yield subject, cell, tally, discrepancy, judged, outcome

    def ordered(self) -> list[tuple[tuple[Subject, Cell], CellTally]]:
        """All cells in a fixed order: by edition, types and granularity, then by implementation."""
        return sorted(self.cells.items(), key=lambda item: (item[0][1].sort_key(), item[0][0].label))

    def status(self, subject: Subject, cell: Cell) -> str:
        """The status of a cell: the worst observation in one word."""
        tally = self.cells[subject, cell]
        for kind in ("crash", "hang"):
            if kind in tally.deaths:
                return kind
        if tally.open and not tally.wrong:
            return "unspecified"
        judged = self.judged_by[subject, cell.contract]
        gives_nothing = not tally.answered and not tally.unreadable and not (judged and tally.fails_at_run)
        if gives_nothing and (tally.unsupported or tally.simplest_refused or not judged):
            return "unsupported"
        if not judged:  # refused calls of a cell that is answered are a gap, see `xverify.report.gaps`
            return "not-judged-differs" if tally.wrong or tally.unreadable else "not-judged-agrees"
        if tally.wrong:
            return "violation"
        if tally.unreadable:
            return Verdict.UNREADABLE.value
        if tally.rejected:
            return "wrongly-rejected"
        if tally.mixture is not None:
            return "mixed"
        return "ambiguous" if tally.ambiguous or tally.flushed else "agrees"


def _refuse(refusals: dict[tuple[str, bool], Refusal], judged: Judged, outcome: Outcome) -> None:
    """Count a rejected call."""
    key = verdicts.reason_of(judged.call, outcome), outcome.stage == AT_RUN
    earlier = refusals.get(key)
    smallest = _smallest((earlier.judged, earlier.outcome) if earlier else None, judged, outcome)
    refusals[key] = Refusal(*smallest, 1 + (earlier.cases if earlier else 0), key[1])


def _smallest(kept: tuple[Judged, Outcome] | None, judged: Judged, outcome: Outcome) -> tuple[Judged, Outcome]:
    """The kept call or the new one with its outcome, whichever is smaller."""
    return kept if kept is not None and not _smaller(judged, kept[0]) else (judged, outcome)


def _completed(violating: Sequence[tuple[Subject, Cell, CellTally]], every: Sequence[Explained]) -> list[Explained]:
    """The explanations of cells, with calls that nothing explained given to recipes that other cells show.

    These are cells of the same implementation and edition.
    """
    shown: defaultdict[tuple[str, str], Counter[Recipe]] = defaultdict(Counter)
    for (subject, cell, tally), by in zip(violating, every, strict=True):
        if by.recipe is not None and is_clear(by, tally.evidence):
            shown[subject.name, cell.contract][by.recipe] += 1
    return [
        completed(by, _with_worst(tally), [recipe for recipe, _ in shown[subject.name, cell.contract].most_common()])
        for (subject, cell, tally), by in zip(violating, every, strict=True)
    ]


def _with_worst(tally: CellTally) -> Evidence:
    """The evidence of a cell with its smallest wrong call, which may not be among the kept ones."""
    assert tally.worst is not None
    (judged, outcome), wrong = tally.worst, tally.evidence.wrong
    comparison = verdicts.compared(judged, outcome)
    if comparison is None or outcome.tensor is None or any(each is judged for each, _ in wrong):
        return tally.evidence
    smallest = judged, CheckedResult(judged.call, outcome.tensor, comparison.wrong)
    return replace(tally.evidence, wrong=[smallest, *wrong])


def _parts(tally: CellTally, by: Explained) -> list[CellTally]:
    """The tally of a cell, or a part of it for each recipe of its wrong values."""
    if by.evidence is None:
        return [tally]
    pieces = [replace(by, others=()), *by.others]
    return [part for piece in pieces if (part := _part(tally, piece)) is not None]


def _part(tally: CellTally, by: Explained) -> CellTally | None:
    """The part of a cell's tally with the wrong values of one recipe. It counts kept calls only."""
    assert by.evidence is not None
    wrong = by.evidence.wrong
    # A witness shows one recipe only, if possible.
    pure = [each for each in wrong if each[1].aside is None or not each[1].aside.any()]
    judged, seen = min(pure or wrong, key=lambda each: witness_order(each[0].call, each[0].number))
    distances = [max_ulp(j.legal, s.got.codes, s.wrong) for j, s in wrong if j.legal is not None]
    return replace(
        tally,
        explained=by,
        evidence=by.evidence,
        worst=(judged, Outcome("tensor", seen.got)),
        wrong=sum(int(seen.wrong.sum()) for _, seen in wrong),
        wrong_cases=len(wrong),
        max_ulp=-1 if -1 in distances else max(distances, default=0),
        range_places=reduce(farther, (range_places(j, s.got.codes, s.wrong) for j, s in wrong)),
    )


def _telling(tally: CellTally) -> tuple[Judged, Outcome] | None:
    """The smallest call with wrong values, or a kept one that shows more departures of the recipe."""
    by = tally.explained
    if by is None or by.recipe is None or tally.worst is None:
        return tally.worst
    name = by.recipe.name
    kept = [tally.worst, *((judged, Outcome("tensor", seen.got)) for judged, seen in tally.evidence.wrong)]
    return max(kept, key=lambda each: sum(bool(mask.any()) for mask in shown(each[0], each[1], name).values()))


def _violation(subject: Subject, tally: CellTally) -> tuple[Discrepancy, Judged, Outcome] | None:
    """The discrepancy of the smallest call with wrong values of a cell, or of a part of one."""
    assert tally.worst is not None
    assert tally.explained is not None
    judged, outcome = tally.worst
    by, comparison = tally.explained, verdicts.compared(judged, outcome)
    assert comparison is not None
    if by.evidence is not None:
        seen = next(seen for each, seen in by.evidence.wrong if each is judged)
        comparison = replace(comparison, wrong=seen.wrong)
    discrepancy = verdicts.violates(judged, subject.name, outcome, comparison, by.recipe, by.elsewhere)
    return None if discrepancy is None else (discrepancy, judged, outcome)


def _smaller(a: Judged, b: Judged) -> bool:
    return witness_order(a.call, a.number) < witness_order(b.call, b.number)
