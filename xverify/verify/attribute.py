"""Attribution: a search for the recipes, legal or not, that give an implementation's values.

A recipe is a reading of the edition's family, or an indexing mistake followed by an admitted reading. The search goes
outward: first the readings that differ from an admitted one in up to two stages, then every composition, both on at most 64
values. The recipes that remain are compared with all values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress, groupby
from typing import Any, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic import indexing, lattice, range_lattice, readings
from xverify.arithmetic.indexing import Misindexing
from xverify.arithmetic.operand_key import OperandKey, operand_key
from xverify.arithmetic.reading import Operands, Reading
from xverify.arithmetic.readings import Stepwise
from xverify.arithmetic.simplify import Types, simplified, types_of
from xverify.arithmetic.stages import Subtraction
from xverify.contracts.model import Contract
from xverify.core.bits import canonical
from xverify.core.call import Call, Tensor, code_dtype
from xverify.core.dtypes import values
from xverify.core.errors import UnknownRecipeError

SEARCHED = 60
"""The number of values on which a search begins."""

FEW = 8
"""The least number of wrong values that a recipe may explain if it does not explain the others."""

FEW_SEEN = 32
"""The least number of values that an indexing mistake may explain. There are many mistakes, and a small type has few codes."""

FEW_NEAR = 64
"""The same if any reading near an admitted one may follow the mistake."""

MANY = 1 << 20
"""If the readings have more values together, a few values are compared first."""

MOST_NEAR = 16
"""The number of readings, the simplest first, that are tried after each mistake on all values."""

_MISTAKE = "@"
"""The mark between the mistake and the reading in a recipe's name."""


@dataclass(frozen=True)
class Attribution:
    """The recipe that explains a finding's wrong values."""

    reading: str
    """The recipe's name."""
    words: str
    """The recipe for people."""
    explained: int
    """The number of wrong values that it gives. It gives all right ones too, unless ``elsewhere`` does."""
    values: int
    """The number of wrong values."""
    elsewhere: tuple[str, str] | None = None
    """Name and words of the admitted reading that gives the right values; None if the recipe does."""


class Recipe(Protocol):
    """A description of arithmetic that may give the values of a call."""

    @property
    def name(self) -> str: ...

    @property
    def words(self) -> str: ...


@dataclass(frozen=True)
class Misread:
    """An indexing mistake, and the reading that is applied to the elements it gathers."""

    mistake: Misindexing
    reading: Reading

    @property
    def name(self) -> str:
        return f"{self.mistake.name}{_MISTAKE}{self.reading.name}"

    @property
    def words(self) -> str:
        return f"{self.mistake.words}, and {self.reading.words}"


class ResultRecipe(Recipe, Protocol):
    """A recipe that names results and no arithmetic."""

    def of(self, operands: Operands, due: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """The codes that come out. ``due`` gives those of the edition's first reading, if they are needed."""


@dataclass(frozen=True)
class Zeros:
    """Output that was never filled, in memory that was zero. A loop that ends early leaves its tail so."""

    name: str = "zeros"
    words: str = "gives 0 whatever the operands"

    def of(self, operands: Operands, due: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        return np.zeros(operands.shape, code_dtype(operands.output_dtype))


@dataclass(frozen=True)
class ZeroScale:
    """The scale where it is 0 or -0. A compiler that replaces x * 0 by 0 gives it, whatever the sign of x."""

    name: str = "zero-scale"
    words: str = "gives a scale of zero itself, not its product with x"

    def of(self, operands: Operands, due: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        codes = due()
        if "scale" not in operands.codes:  # a range formula, of which only a damaged report says this
            return codes
        scale = values(operands.dtypes["scale"], operands.codes["scale"])
        zero = np.where(np.signbit(scale), _sign_of(codes), codes.dtype.type(0))
        return np.where(scale == 0, zero, codes)


@dataclass(frozen=True)
class OtherSigns:
    """Zeros of the other sign."""

    name: str = "zeros-of-the-wrong-sign"
    words: str = "gives zeros of the wrong sign"

    def of(self, operands: Operands, due: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        codes = due()
        sign = _sign_of(codes)
        return np.where(codes & ~sign, codes, codes ^ sign)


def _sign_of(codes: NDArray[Any]) -> Any:
    """The bit of the sign."""
    return codes.dtype.type(1 << (8 * codes.dtype.itemsize - 1))


RESULTS: Mapping[str, ResultRecipe] = {each.name: each for each in (Zeros(), ZeroScale(), OtherSigns())}
"""The recipes that name results and no arithmetic."""


@dataclass(frozen=True, eq=False)
class CheckedResult:
    """An implementation's result of a call, with its wrong values marked."""

    call: Call
    got: Tensor
    wrong: NDArray[np.bool_]
    """The mask of values outside the legal set."""
    places: NDArray[np.int64] | None = None
    """The flat indices of the values that matter; None for all."""
    aside: NDArray[np.bool_] | None = None
    """The mask of wrong values that another recipe explains; None for none."""

    def indices(self) -> NDArray[np.int64]:
        return np.arange(self.got.size) if self.places is None else self.places


def codes_of(contract: Contract, call: Call, recipe: Recipe) -> NDArray[Any]:
    """The codes of a recipe for a call, NaN made canonical.

    A mistake that changes nothing there is not made. The codes are then those of the mistake's reading.
    """
    operands = contract.operands(call)
    reading, dtype = recipe, operands.output_dtype
    if recipe.name in RESULTS:
        return RESULTS[recipe.name].of(operands, lambda: codes_of(contract, call, contract.readings(call)[0]))
    if isinstance(recipe, Misread):
        operands, reading = recipe.mistake.operands(call, operands) or operands, recipe.reading
    assert hasattr(reading, "evaluate")
    return canonical(np.asarray(reading.evaluate(operands)), dtype)


def gives(contract: Contract, call: Call, got: Tensor, recipe: Recipe, where: NDArray[np.bool_] | None = None) -> bool:
    """True if a recipe gives every value of an outcome.

    Args:
        contract: the edition of the call.
        call: the call.
        got: the outcome's tensor.
        recipe: the recipe.
        where: a mask of the values to compare; None for all.
    """
    operands = contract.operands(call)
    if got.dtype != operands.output_dtype or got.shape != operands.shape:
        return False
    same = codes_of(contract, call, recipe) == canonical(got.codes, got.dtype)
    return bool(np.all(same if where is None else same | ~where))


def evaluated(recipes: Sequence[Reading], operands: Operands) -> list[NDArray[Any]]:
    """The output codes of each reading of one family, NaN made canonical; common stages run once."""
    linear = [reading for reading in recipes if isinstance(reading, Stepwise)]
    if len(linear) == len(recipes):
        return readings.evaluate_all(linear, operands)
    return range_lattice.evaluate_all(recipes, operands)


def neighbours(contract: Contract, call: Call) -> tuple[Reading, ...]:
    """The readings that a search of the call's cell tries first."""
    operands = contract.operands(call)
    if contract.domain.family == "range":
        return range_lattice.range_lattice(operands)
    return _near(types_of(operands), lattice.start(contract.readings(call)))


@lru_cache(maxsize=64)
def _near(types: Types, start: tuple[Stepwise, ...]) -> tuple[Stepwise, ...]:
    return lattice.near(types, start)


def search(
    contract: Contract, results: Sequence[CheckedResult], whole: bool = False, wrong_only: bool = False
) -> tuple[Reading, ...]:
    """Search the readings that give all values of these results, the simplest first.

    Args:
        contract: the edition.
        results: results of calls of one cell.
        whole: True to search every composition of the stages, False for those near an admitted reading.
        wrong_only: True to explain the wrong values only.
    """
    parts, codes, wrong = [], [], []
    for result in results:
        places = np.flatnonzero(result.wrong) if wrong_only else result.indices()
        parts.append(lattice.taken(contract.operands(result.call), places))
        codes.append(result.got.codes.reshape(-1)[places])
        wrong.append(result.wrong.reshape(-1)[places])
    if not parts or not sum(len(listed) for listed in codes):
        return ()
    operands, wanted, amiss = _joined(parts), np.concatenate(codes), np.concatenate(wrong)
    # The probes of a range formula cover every range, so the search needs all of them.
    few = len(wanted) if contract.domain.family == "range" and results[0].places is not None else SEARCHED
    chosen = spread_out(amiss) if whole or wrong_only else np.arange(min(few, len(wanted)))
    ranges = contract.domain.family == "range"
    start = () if ranges else lattice.start(contract.readings(results[0].call))
    most = None if whole else lattice.NEAR
    return _answer(
        operand_key(operands), canonical(wanted, operands.output_dtype).tobytes(), chosen.tobytes(), start, most
    )


@lru_cache(maxsize=8192)
def _answer(
    key: OperandKey, wanted: bytes, places: bytes, start: tuple[Stepwise, ...], most: int | None
) -> tuple[Reading, ...]:
    """Search the readings that give the values at the chosen positions, then compare them with all values.

    Without a start, the readings are those of a range formula. Cells of many editions and granularities share the answer.
    """
    operands = key.operands()
    codes = np.frombuffer(wanted, code_dtype(key.out))
    chosen = np.frombuffer(places, np.int64)
    matching: tuple[Reading, ...]
    if start:
        matching = lattice.searched(lattice.taken(operands, chosen), codes[chosen], start, most)
    else:
        same = (_range_table(key, places) == codes[chosen]).all(axis=1)
        matching = tuple(compress(range_lattice.range_lattice(operands), same))
    if len(chosen) == len(codes):
        return matching
    return _giving(matching, operands, codes)


def beyond(recipes: tuple[Reading, ...], admitted: tuple[Reading, ...], operands: Operands) -> tuple[Reading, ...]:
    """The recipes that equal no admitted reading for the operands' types."""
    if all(isinstance(recipe, Stepwise) for recipe in (*recipes, *admitted)):
        return _beyond(recipes, admitted, types_of(operands))
    equal = {reading.simplified(operands) for reading in admitted}
    return tuple(recipe for recipe in recipes if recipe.simplified(operands) not in equal)


@lru_cache(maxsize=2048)
def _beyond(recipes: tuple[Stepwise, ...], admitted: tuple[Stepwise, ...], types: Types) -> tuple[Reading, ...]:
    equal = {simplified(reading, types) for reading in admitted}
    return tuple(recipe for recipe in recipes if simplified(recipe, types) not in equal)


def surviving(
    contract: Contract, candidates: Sequence[Reading], results: Sequence[CheckedResult]
) -> tuple[Reading, ...]:
    """The readings that give every value of these results.

    Args:
        contract: the edition.
        candidates: readings of one family.
        results: results of calls of one cell.
    """
    if not candidates or not results:
        return tuple(candidates)
    parts = [lattice.taken(contract.operands(result.call), np.arange(result.got.size)) for result in results]
    operands, wanted = _joined(parts), np.concatenate([result.got.codes.reshape(-1) for result in results])
    return _surviving(tuple(candidates), operand_key(operands), canonical(wanted, operands.output_dtype).tobytes())


@lru_cache(maxsize=2048)
def _surviving(candidates: tuple[Reading, ...], key: OperandKey, wanted: bytes) -> tuple[Reading, ...]:
    """The readings that give these codes. Cells of many editions and implementations share the answer."""
    return _giving(candidates, key.operands(), np.frombuffer(wanted, code_dtype(key.out)))


def _giving(candidates: Sequence[Reading], operands: Operands, codes: NDArray[Any]) -> tuple[Reading, ...]:
    """The readings that give these codes."""
    if len(candidates) * codes.size > MANY and codes.size > SEARCHED:
        some = np.unique(np.linspace(0, codes.size - 1, SEARCHED).astype(np.int64))
        candidates = _giving(candidates, lattice.taken(operands, some), codes[some])
    pairs = zip(candidates, evaluated(candidates, operands), strict=True)
    return tuple(reading for reading, own in pairs if np.array_equal(own, codes))


@lru_cache(maxsize=512)
def _range_table(key: OperandKey, places: bytes) -> NDArray[Any]:
    """The codes of every reading of the range lattice at the chosen positions, one row each."""
    operands = key.operands()
    some = lattice.taken(operands, np.frombuffer(places, np.int64))
    return np.stack(range_lattice.evaluate_all(range_lattice.range_lattice(operands), some))


def _joined(parts: Sequence[Operands]) -> Operands:
    """Operands of one cell, concatenated.

    No reading depends on the mode, so cells of all modes share searches.
    """
    first = parts[0]
    codes = {role: np.concatenate([part.codes[role] for part in parts]) for role in first.codes}
    options = {name: value for name, value in first.options.items() if name != "mode"}
    return Operands(codes, first.dtypes, first.output_dtype, (sum(p.shape[0] for p in parts),), options)


def spread_out(wrong: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The positions of at most 64 values: wrong ones and others, each spread evenly."""
    half = 32
    groups = [np.flatnonzero(wrong), np.flatnonzero(~wrong)]
    rooms = [max(half, 64 - groups[1].size), max(half, 64 - groups[0].size)]
    picked = [
        group[np.unique(np.linspace(0, group.size - 1, min(room, group.size)).astype(np.int64))]
        for group, room in zip(groups, rooms, strict=True)
        if group.size
    ]
    return np.sort(np.concatenate(picked))


def misreadings(
    contract: Contract,
    results: Sequence[CheckedResult],
    wrong_only: bool = False,
    likely: Sequence[Misindexing] = (),
    others: bool = True,
    near: bool = False,
) -> tuple[Misread, ...]:
    """Search the indexing mistakes that give all values of these results.

    An admitted reading, or one in float32, follows each mistake.

    Args:
        contract: the edition.
        results: results of calls of one cell.
        wrong_only: True to explain the wrong values only.
        likely: mistakes to try first. If one of them gives the values, the search ends.
        others: False to try no other mistakes.
        near: True to let any reading near an admitted one follow, too.
    """
    if contract.domain.family == "range" or not results:
        return ()
    most_wrong = max(results, key=lambda result: int(result.wrong.sum()))
    operands = contract.operands(most_wrong.call)
    admitted = contract.readings(most_wrong.call)
    # Many kernels compute in float32 and cast the result, whatever its type.
    readings_tried = dict.fromkeys((*admitted, *lattice.start(admitted)[:2]))

    def plain(mistake: Misindexing, misread: Operands) -> Iterable[Reading]:
        # The stages that a reading may omit depend on the types of the misread operands.
        return dict.fromkeys(reading.simplified(misread) for reading in readings_tried)

    def nearby(
        mistakes: Iterable[tuple[Misindexing, Operands]], calls: Sequence[CheckedResult]
    ) -> Iterator[tuple[Misindexing, Sequence[Reading]]]:
        """Each mistake with readings near an admitted one that give a few values of each call."""
        pieces = []
        for mistake, _ in mistakes:
            # Most mistakes end at few values.
            first, *rest = (_sampled(contract, each, mistake, SEARCHED // len(calls), wrong_only) for each in calls)
            if first[1].size and _plausible(lattice.taken(first[0], np.arange(0, first[1].size, 4)), first[1][::4]):
                kept = [first, *(each for each in rest if each[0].dtypes == first[0].dtypes)]
                pieces.append((mistake, _joined([taken for taken, _ in kept]), np.concatenate([c for _, c in kept])))
        for _, alike in groupby(pieces, key=lambda piece: sorted(piece[1].dtypes.items())):
            together, taken, codes = zip(*alike, strict=True)
            sizes = [each.size for each in codes]
            searched = lattice.search_each(_joined(taken), np.concatenate(codes), sizes, lattice.start(admitted))
            for mistake, found in zip(together, searched, strict=True):
                yield mistake, found[:MOST_NEAR]

    def first_of(
        mistakes: Iterable[tuple[Misindexing, Operands | None]], calls: Sequence[CheckedResult]
    ) -> Iterator[Misread]:
        """Each mistake that changes the call, with the first reading that gives the results."""
        wheres = [result.wrong if wrong_only else None for result in calls]
        changing = ((mistake, misread) for mistake, misread in mistakes if misread is not None)
        tried = nearby(changing, calls) if near else ((each, plain(each, misread)) for each, misread in changing)
        for mistake, reading_list in tried:
            for reading in reading_list:
                recipe = Misread(mistake, reading)
                if all(gives(contract, s.call, s.got, recipe, w) for s, w in zip(calls, wheres, strict=True)):
                    yield recipe
                    break

    for mistake in likely:
        here = mistake.operands(most_wrong.call, operands)
        misread = next(first_of([(mistake, here)], (most_wrong, *results)), None)
        if misread is not None:
            return (misread,)
    if not others:
        return ()
    if not any(first_of(indexing.mistakes(most_wrong.call, operands), [most_wrong])):
        return ()
    # Mistakes that agree on this call may differ on another, so each is compared with all calls.
    every = ((mistake, mistake.operands(most_wrong.call, operands)) for mistake in indexing.all_mistakes().values())
    recipes = tuple(first_of(every, (most_wrong, *results)))
    return tuple(sorted(recipes, key=_plainness)) if near else recipes


def _sampled(
    contract: Contract, result: CheckedResult, mistake: Misindexing, most: int, wrong_only: bool
) -> tuple[Operands, NDArray[Any]]:
    """Operands with a mistake, and the codes that they give, at a few values of a result."""
    wrong = result.wrong.reshape(-1)
    places = spread_out(wrong)
    if wrong_only:
        places = places[wrong[places]]
    places = places[np.unique(np.linspace(0, places.size - 1, min(places.size, max(8, most))).astype(np.int64))]
    right = contract.operands(result.call)
    codes = canonical(result.got.codes, result.got.dtype).reshape(-1)[places]
    return lattice.taken(mistake.operands(result.call, right) or right, places), codes


def _plausible(operands: Operands, wanted: NDArray[Any]) -> bool:
    """True if some way to subtract and to combine gives at least half of these values roughly.

    The other stages round, and round few values far.
    """
    types = types_of(operands)
    ways = (Stepwise(a, operation=b) for a in get_args(Subtraction) for b in ("multiply", "divide"))
    distinct = tuple(dict.fromkeys(simplified(reading, types) for reading in ways))
    got = values(operands.output_dtype, wanted).astype(np.float64)
    with np.errstate(all="ignore"):
        for codes in readings.evaluate_all(distinct, operands):
            own = values(operands.output_dtype, codes).astype(np.float64)
            close = np.abs(own - got) <= np.maximum(np.abs(own), np.abs(got)) / 16
            if 2 * np.count_nonzero(close | (own == got) | (np.isnan(own) & np.isnan(got))) >= got.size:
                return True
    return False


def _plainness(recipe: Misread) -> tuple[int, ...]:
    assert isinstance(recipe.reading, Stepwise)
    return lattice.simplicity(recipe.reading)


def matching(contract: Contract, results: Sequence[CheckedResult]) -> list[tuple[Recipe, NDArray[np.bool_]]]:
    """Recipes near an admitted reading, and the wrong values that each gives, the simplest recipes first.

    Args:
        contract: the edition.
        results: results of calls of one cell, with the values to compare as ``places``.

    Returns:
        Each recipe that gives some of these values, with a mask of the values at the places of all results, in order.
    """
    places = [result.indices() for result in results]
    right = [contract.operands(result.call) for result in results]
    parts = zip(results, places, strict=True)
    wanted = np.concatenate([canonical(r.got.codes, r.got.dtype).reshape(-1)[at] for r, at in parts])
    gives_some: list[tuple[Recipe, NDArray[np.bool_]]] = []

    def compare(recipes: Sequence[Recipe], recipe_readings: Sequence[Reading], operands: Sequence[Operands]) -> None:
        joined = _joined([lattice.taken(part, at) for part, at in zip(operands, places, strict=True)])
        for recipe, codes in zip(recipes, evaluated(recipe_readings, joined), strict=True):
            same = codes == wanted
            if same.any():
                gives_some.append((recipe, same))

    near = neighbours(contract, results[0].call)
    compare(near, near, right)
    if contract.domain.family == "range":
        return gives_some
    admitted = contract.readings(results[0].call)
    tried = tuple(dict.fromkeys((*admitted, *lattice.start(admitted)[:2])))
    for mistake in indexing.all_mistakes().values():
        misread = [mistake.operands(result.call, own) for result, own in zip(results, right, strict=True)]
        if any(part is not None for part in misread) and len({_types(part) for part in misread if part}) == 1:
            operands = [part or own for part, own in zip(misread, right, strict=True)]
            kept = [part is not None for part in misread]
            if len({_types(part) for part in operands}) == 1:
                simple = tuple(dict.fromkeys(r.simplified(operands[kept.index(True)]) for r in tried))
                compare([Misread(mistake, reading) for reading in simple], simple, operands)
    return gives_some


def _types(operands: Operands) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(operands.dtypes.items()))


def mistake_of(name: str) -> str:
    """The name of the indexing mistake in a recipe's name; the whole name of a recipe without one."""
    return name.rpartition(_MISTAKE)[0] or name


def of_one_operand(name: str) -> list[str]:
    """The names of the recipes with a mistake in one operand only, for one in several operands."""
    mistake, mark, reading = name.rpartition(_MISTAKE)
    whole = indexing.all_mistakes().get(mistake)
    roles = whole.roles if mark and whole is not None and len(whole.roles) > 1 else ()
    return [f"{indexing.of_one(mistake, role)}{_MISTAKE}{reading}" for role in roles]


def is_misreading(name: str) -> bool:
    """True for the name of a recipe with an indexing mistake."""
    return _MISTAKE in name


def named(contract: Contract, name: str) -> Recipe:
    """The recipe with a name. Raises UnknownRecipeError if there is none."""
    if name in RESULTS:
        return RESULTS[name]
    mistake, mark, reading = name.rpartition(_MISTAKE)
    try:
        correct = range_lattice.by_name(reading) if contract.domain.family == "range" else readings.by_name(reading)
        return Misread(indexing.misindexing(mistake), correct) if mark else correct
    except KeyError:
        raise UnknownRecipeError(name) from None
