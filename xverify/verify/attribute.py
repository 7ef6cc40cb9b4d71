"""Attribution: which recipes, legal or not, give the values that an implementation gave.

A recipe is a reading of the edition's family, or an indexing mistake followed by an admitted reading. The search goes outward:
readings that differ from an admitted one in up to two stages, then every composition, both on at most 64 values; what
survives is held against all values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic import indexing, lattice, range_lattice, readings
from xverify.arithmetic.indexing import Misindexing
from xverify.arithmetic.operand_key import OperandKey, operand_key
from xverify.arithmetic.reading import Operands, Reading
from xverify.arithmetic.readings import Stepwise
from xverify.arithmetic.simplify import types_of
from xverify.contracts.model import Contract
from xverify.core.bits import canonical
from xverify.core.call import Call, Tensor, code_dtype
from xverify.core.errors import UnknownRecipeError

SEARCHED = 60
"""Values on which a search begins."""

FEW = 8
"""So many wrong values at least are needed to say that a recipe explains them, where it does not explain the others."""

FEW_SEEN = 32
"""Of so few values in all no indexing mistake is said to give them: there are many, and a small type has few codes."""

_MISTAKE = "@"
"""Between the mistake and the reading in a recipe's name."""


@dataclass(frozen=True)
class Attribution:
    """``reading`` gives ``explained`` of the ``values`` that were wrong, and all the others too; or, when ``elsewhere`` is the
    name and the words of an admitted reading, that one gives the others."""

    reading: str
    words: str
    explained: int
    values: int
    elsewhere: tuple[str, str] | None = None


class Recipe(Protocol):
    """What may give the values of a call."""

    @property
    def name(self) -> str: ...

    @property
    def words(self) -> str: ...


@dataclass(frozen=True)
class Misread:
    """An indexing mistake, and the reading that acts on what it gathers."""

    mistake: Misindexing
    reading: Reading

    @property
    def name(self) -> str:
        return f"{self.mistake.name}{_MISTAKE}{self.reading.name}"

    @property
    def words(self) -> str:
        return f"{self.mistake.words}, and {self.reading.words}"


@dataclass(frozen=True)
class Zeros:
    """Output that nobody filled in, in memory that was zero: a loop that ends early leaves its tail so."""

    name: str = "zeros"
    words: str = "gives 0, whatever the operands"

    def evaluate(self, operands: Operands) -> NDArray[Any]:
        return np.zeros(operands.shape, code_dtype(operands.output_dtype))


@dataclass(frozen=True, eq=False)
class CheckedResult:
    """What an implementation gave for a call. places: the flat indices that matter, None for all; wrong: which values are
    outside the legal set."""

    call: Call
    got: Tensor
    wrong: NDArray[np.bool_]
    places: NDArray[np.int64] | None = None

    def indices(self) -> NDArray[np.int64]:
        return np.arange(self.got.size) if self.places is None else self.places


def codes_of(contract: Contract, call: Call, recipe: Recipe) -> NDArray[Any] | None:
    """The codes that a recipe gives for a call, NaN made canonical; None where an indexing mistake cannot happen."""
    operands: Operands | None = contract.operands(call)
    assert operands is not None
    reading, dtype = recipe, operands.output_dtype
    if isinstance(recipe, Misread):
        # Where the mistake changes nothing it has not been made.
        operands, reading = recipe.mistake.operands(call, operands) or operands, recipe.reading
    assert hasattr(reading, "evaluate")
    return canonical(np.asarray(reading.evaluate(operands)), dtype)


def gives(contract: Contract, call: Call, got: Tensor, recipe: Recipe, where: NDArray[np.bool_] | None = None) -> bool:
    """Whether a recipe gives every value of an outcome, or every one ``where`` holds."""
    operands = contract.operands(call)
    if got.dtype != operands.output_dtype or got.shape != operands.shape:
        return False
    codes = codes_of(contract, call, recipe)
    same = codes is not None and (codes == canonical(got.codes, got.dtype)) | (False if where is None else ~where)
    return bool(np.all(same))


def evaluated(recipes: Sequence[Reading], operands: Operands) -> list[NDArray[Any]]:
    """The output codes of each reading of a family, NaN made canonical; what they have in common is evaluated once."""
    linear = [reading for reading in recipes if isinstance(reading, Stepwise)]
    if len(linear) == len(recipes):
        return readings.evaluate_all(linear, operands)
    return range_lattice.evaluate_all(recipes, operands)


def neighbours(contract: Contract, call: Call) -> tuple[Reading, ...]:
    """The readings that a search of the call's cell looks at first."""
    operands = contract.operands(call)
    if contract.domain.family == "range":
        return range_lattice.range_lattice(operands)
    return lattice.near(types_of(operands), lattice.start(contract.readings(call)))


def search(
    contract: Contract, seen: Sequence[CheckedResult], whole: bool = False, wrong_only: bool = False
) -> tuple[Reading, ...]:
    """The readings that give all values that were seen, the simplest first; or, if ``wrong_only``, all wrong ones.

    whole: among every composition of the stages and not only those near an admitted reading. seen: calls of one cell.
    """
    parts, codes, wrong = [], [], []
    for one in seen:
        places = np.flatnonzero(one.wrong) if wrong_only else one.indices()
        parts.append(lattice.taken(contract.operands(one.call), places))
        codes.append(one.got.codes.reshape(-1)[places])
        wrong.append(one.wrong.reshape(-1)[places])
    if not parts or not sum(len(listed) for listed in codes):
        return ()
    operands, wanted, amiss = _joined(parts), np.concatenate(codes), np.concatenate(wrong)
    # Of a range formula's probes each range has its share, so none is left for later.
    few = len(wanted) if contract.domain.family == "range" and seen[0].places is not None else SEARCHED
    chosen = _chosen(amiss) if whole or wrong_only else np.arange(min(few, len(wanted)))
    ranges = contract.domain.family == "range"
    start = () if ranges else lattice.start(contract.readings(seen[0].call))
    most = None if whole else lattice.NEAR
    return _answer(
        operand_key(operands), canonical(wanted, operands.output_dtype).tobytes(), chosen.tobytes(), start, most
    )


@lru_cache(maxsize=8192)
def _answer(
    key: OperandKey, wanted: bytes, places: bytes, start: tuple[Stepwise, ...], most: int | None
) -> tuple[Reading, ...]:
    """The readings that give the values wanted at the chosen places, and then all of them; without a start, of a range
    formula. Cells of many editions and granularities ask the same."""
    operands = key.operands()
    codes = np.frombuffer(wanted, code_dtype(key.out))
    chosen = np.frombuffer(places, np.int64)
    found: tuple[Reading, ...]
    if start:
        found = lattice.searched(lattice.taken(operands, chosen), codes[chosen], start, most)
    else:
        same = (_range_table(key, places) == codes[chosen]).all(axis=1)
        found = tuple(compress(range_lattice.range_lattice(operands), same))
    if len(chosen) == len(codes):
        return found
    given = zip(found, evaluated(found, operands), strict=True)
    return tuple(reading for reading, own in given if np.array_equal(own, codes))


@lru_cache(maxsize=64)
def _range_table(key: OperandKey, places: bytes) -> NDArray[Any]:
    """What every reading of the range lattice gives at the chosen places, a row each; for whatever values are wanted."""
    operands = key.operands()
    some = lattice.taken(operands, np.frombuffer(places, np.int64))
    return np.stack(range_lattice.evaluate_all(range_lattice.range_lattice(operands), some))


def _joined(parts: Sequence[Operands]) -> Operands:
    """Operands of one cell, one after the other."""
    first = parts[0]
    codes = {role: np.concatenate([part.codes[role] for part in parts]) for role in first.codes}
    return Operands(codes, first.dtypes, first.output_dtype, (sum(p.shape[0] for p in parts),), first.options)


def _chosen(wrong: NDArray[np.bool_]) -> NDArray[np.int64]:
    """At most 64 places: wrong values and others, each spread evenly."""
    half = 32
    groups = [np.flatnonzero(wrong), np.flatnonzero(~wrong)]
    rooms = [max(half, 64 - groups[1].size), max(half, 64 - groups[0].size)]
    picked = [
        group[np.unique(np.linspace(0, group.size - 1, min(room, group.size)).astype(np.int64))]
        for group, room in zip(groups, rooms, strict=True)
        if group.size
    ]
    return np.sort(np.concatenate(picked))


def misreadings(contract: Contract, seen: Sequence[CheckedResult], wrong_only: bool = False) -> tuple[Misread, ...]:
    """The indexing mistakes with an admitted reading that give all values that were seen, or all wrong ones."""
    if contract.domain.family == "range" or not seen:
        return ()
    most_wrong = max(seen, key=lambda one: int(one.wrong.sum()))
    operands = contract.operands(most_wrong.call)
    admitted = contract.readings(most_wrong.call)

    def first_of(
        mistakes: Iterable[tuple[Misindexing, Operands | None]], calls: Sequence[CheckedResult]
    ) -> Iterator[Misread]:
        """Each mistake that changes something with the first reading that gives what those calls gave."""
        wheres = [one.wrong if wrong_only else None for one in calls]
        for mistake, misread in mistakes:
            if misread is None:
                continue
            # What a reading may leave out depends on the types that are read, which may be wrong too.
            for reading in dict.fromkeys(reading.simplified(misread) for reading in admitted):
                recipe = Misread(mistake, reading)
                if all(gives(contract, s.call, s.got, recipe, w) for s, w in zip(calls, wheres, strict=True)):
                    yield recipe
                    break

    if not any(first_of(indexing.mistakes(most_wrong.call, operands), [most_wrong])):
        return ()
    # Mistakes that are the same in this call may differ in another, so each is held against all.
    every = ((mistake, mistake.operands(most_wrong.call, operands)) for mistake in indexing.all_mistakes().values())
    return tuple(first_of(every, (most_wrong, *seen)))


def named(contract: Contract, name: str) -> Recipe:
    """The recipe of that name. Raises UnknownRecipeError when there is none."""
    if name == Zeros.name:
        return Zeros()
    mistake, mark, reading = name.rpartition(_MISTAKE)
    try:
        correct = range_lattice.by_name(reading) if contract.domain.family == "range" else readings.by_name(reading)
        return Misread(indexing.misindexing(mistake), correct) if mark else correct
    except KeyError:
        raise UnknownRecipeError(name) from None
