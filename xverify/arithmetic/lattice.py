"""A search for readings that give some values, over all compositions of the linear stages.

The search evaluates one stage after the other, for all compositions at once. Common stages are computed once, and equal
intermediate results are merged. Compositions too far from every admitted reading are left out before their evaluation.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic import stages
from xverify.arithmetic.kept import kept
from xverify.arithmetic.operand_key import OperandKey, operand_key
from xverify.arithmetic.reading import Operands, Reading
from xverify.arithmetic.readings import EXACT, EXACT_QUOTIENT, FLOAT32, FLOAT32_QUOTIENT, OUTPUT, Stepwise
from xverify.arithmetic.simplify import Types, simplified, types_of
from xverify.arithmetic.stages import Triples, resolved
from xverify.core.bits import canonical
from xverify.core.call import code_dtype
from xverify.core.rounding import F64

NEAR = 2
"""Largest number of stages in which a reading of the first search differs from an admitted one."""

_FINALS = tuple(product(get_args(stages.Final), get_args(stages.Zero)))
_SIMPLE = {
    name: {option: rank for rank, option in enumerate(get_args(options))}
    for name, options in (
        ("subtraction", stages.Subtraction), ("difference", stages.Difference), ("scale_cast", stages.ScaleCast),
        ("operation", stages.Operation), ("precision", stages.Precision), ("final", stages.Final),
        ("subnormals", stages.Subnormals), ("zero", stages.Zero),
    )
}  # fmt: skip


def start(admitted: Sequence[Reading]) -> tuple[Stepwise, ...]:
    """The readings from which a search goes outward.

    All editions whose formula multiplies have the same ones, so their cells share the results of searches.
    """
    first = admitted[0]
    if isinstance(first, Stepwise) and first.operation == "divide":
        return (EXACT_QUOTIENT, FLOAT32_QUOTIENT)
    return (EXACT, FLOAT32, *OUTPUT)


def simplicity(reading: Stepwise) -> tuple[int, ...]:
    """A sort key of readings: the number of stages that are not plain, then the order of the options."""
    ranks = [_SIMPLE[name][getattr(reading, name)] for name in _SIMPLE]
    return (sum(rank > 0 for rank in ranks), *ranks)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Distinct intermediate results of one or two stages."""

    values: F64
    """One result in each row, of shape (rows, values)."""
    ways: list[list[tuple[str, ...]]]
    """For each row, the options that lead to it."""
    far: NDArray[np.int64]
    """For each row and each admitted reading, the number of these stages in which the nearest way differs."""


def _merged(
    computed: Iterable[tuple[tuple[str, ...], F64]], admitted: Sequence[Stepwise], names: tuple[str, ...], width: int
) -> _Rows:
    """Merge equal results of the stages of these names."""
    indices: dict[bytes, int] = {}
    rows: list[F64] = []
    ways: list[list[tuple[str, ...]]] = []
    for way, result in computed:
        row = np.ascontiguousarray(np.broadcast_to(result, (width,)))
        index = indices.setdefault(row.tobytes(), len(rows))
        if index == len(rows):
            rows.append(row)
            ways.append([])
        ways[index].append(way)
    far = [[min(_differ(reading, names, way) for way in listed) for reading in admitted] for listed in ways]
    return _Rows(np.array(rows).reshape(-1, width), ways, np.array(far, np.int64).reshape(len(rows), len(admitted)))


def _differ(reading: Stepwise, names: tuple[str, ...], way: tuple[str, ...]) -> int:
    return sum(getattr(reading, name) != option for name, option in zip(names, way, strict=True))


def search(
    operands: Operands, codes: NDArray[Any], admitted: Sequence[Stepwise], most: int | None = NEAR
) -> tuple[Stepwise, ...]:
    """The distinct readings that give these codes, the simplest first.

    Args:
        operands: The triples, 1-D, one for each code.
        codes: Codes of the output type.
        admitted: The readings that the search starts from.
        most: Largest number of stages in which a reading may differ from one of them. None: no limit.
    """
    return search_each(operands, codes, [operands.shape[0]], admitted, most)[0]


def search_each(
    operands: Operands,
    codes: NDArray[Any],
    sizes: Sequence[int],
    admitted: Sequence[Stepwise],
    most: int | None = NEAR,
) -> list[tuple[Stepwise, ...]]:
    """The results of `search` for several pieces of the operands, which all stages compute together.

    A reading that is too far from every admitted one, and equals a nearer one on its piece only, may be missing here.

    Args:
        operands: The triples, 1-D, one for each code.
        codes: Codes of the output type.
        sizes: The lengths of the pieces, in order; none is 0. They add up to the number of triples.
        admitted: As for `search`.
        most: As for `search`.
    """
    return _giving(_composed(operands, admitted, most), np.broadcast_to(codes, operands.shape), sizes)


@dataclass(frozen=True, eq=False)
class _Before:
    """The results of all compositions with one treatment of subnormals, before the last stages.

    A product here is a pair of distinct factors with a way to combine them.
    """

    subnormals: str
    rows: F64
    """The distinct results, of shape (rows, values)."""
    row: NDArray[np.int64]
    """For each product, the row of its result."""
    way: list[_Way]
    """For each product, the options that lead to it."""
    far: NDArray[np.int64]
    """For each product and each reading of the start, the number of stages in which they differ."""


@dataclass(frozen=True, eq=False)
class _Composed:
    """The results of every composition on some operands, for searches to compare with codes."""

    types: Types
    start: tuple[Stepwise, ...]
    """The readings from which departures are counted."""
    limit: int
    """Largest number of stages in which a reading may differ from one of ``start``."""
    before: tuple[_Before, ...]


def _composed(operands: Operands, admitted: Sequence[Stepwise], most: int | None) -> _Composed:
    types, limit = types_of(operands), 99 if most is None else most
    start = _starts(types, tuple(admitted))
    triples = stages.decoded(operands)
    lefts = _left_sides(triples, types, start, operands.shape[0])
    # These two differ in the last stages only, and both are equally far from readings that do neither.
    alike = {"flush-results", "flush-products"}.isdisjoint(reading.subnormals for reading in start)
    before: dict[str, _Before] = {}
    for kind in get_args(stages.Subnormals):
        same = before.get("flush-results") if alike and kind == "flush-products" else None
        computed = replace(same, subnormals=kind) if same else _before(triples, types, kind, start, lefts, limit)
        if computed is not None:
            before[kind] = computed
    return _Composed(types, start, limit, tuple(before.values()))


def _giving(composed: _Composed, codes: NDArray[Any], sizes: Sequence[int]) -> list[tuple[Stepwise, ...]]:
    """The distinct readings that give the codes of each piece, the simplest first."""
    wanted, firsts = canonical(codes, composed.types.out), np.cumsum([0, *sizes[:-1]])
    matching: list[set[Stepwise]] = [set() for _ in sizes]
    for before in composed.before:
        for piece, reading in _matching(before, composed, wanted, firsts):
            matching[piece].add(simplified(reading, composed.types))
    return [tuple(sorted(each, key=simplicity)) for each in matching]


@lru_cache(maxsize=1024)
def _starts(types: Types, admitted: tuple[Stepwise, ...]) -> tuple[Stepwise, ...]:
    """The forms of the admitted readings from which departures are counted.

    Each reading comes simplified, with its options resolved for the types, and with each stage simplified on its own.
    """
    forms: list[Stepwise] = []
    for reading in admitted:
        out = types.out
        named: Any = {
            name: resolved(getattr(reading, name), out) for name in ("subtraction", "difference", "scale_cast")
        }
        plain = replace(reading, **named, precision=_once(resolved(reading.precision, out), out))
        stage = simplified(Stepwise(plain.subtraction, plain.difference, final="saturated"), types)
        cast = simplified(Stepwise(scale_cast=plain.scale_cast), types).scale_cast
        each = replace(plain, subtraction=stage.subtraction, difference=stage.difference, scale_cast=cast)
        forms += [simplified(reading, types), plain, each]
    return tuple(dict.fromkeys(forms))


def _once(precision: Any, out: str) -> Any:
    """The precision, or "once" if it is the output type."""
    return "once" if precision == out else precision


@lru_cache(maxsize=4096)
def _all_depart(start: tuple[Stepwise, ...], operation: str, precision: str, out: str) -> NDArray[np.int64]:
    """For each reading, the number of these two stages in which it differs."""
    return np.array([_departs(reading, operation, precision, out) for reading in start], np.int64)


def _departs(reading: Stepwise, operation: str, precision: str, out: str) -> int:
    """The number of these two stages in which a reading differs."""
    same = _once(reading.precision, out) == _once(precision, out)
    return (reading.operation != operation) + (not same)


@dataclass(frozen=True, eq=False)
class _LeftSides:
    """The factors of the scale."""

    differences: _Rows
    operands: list[tuple[F64, F64, _Rows]]
    """For operations that fold the zero point: x, the zero point and the rows of x, for each cast of the operands."""


def _left_sides(triples: Triples, types: Types, start: Sequence[Stepwise], width: int) -> _LeftSides:
    names = ("subtraction", "difference")
    differences = _merged(
        ((way, stages.subtracted(triples, *way)) for way in _subtractions(types)), start, names, width
    )
    # No difference is rounded, so none is a departure.
    rounds = dict.fromkeys(("exact", *(reading.difference for reading in start)))
    operands = []
    for subtraction in _casts_of_operands(types):
        x, zero_point = (np.broadcast_to(side, (width,)) for side in stages.operands_of(triples, subtraction))
        ways = (((subtraction, difference), x) for difference in rounds)
        operands.append((x, zero_point, _merged(ways, start, names, width)))
    return _LeftSides(differences, operands)


def _before(
    triples: Triples, types: Types, subnormals: str, start: tuple[Stepwise, ...], lefts: _LeftSides, limit: int
) -> _Before | None:
    """The compositions with that treatment of subnormals that are near enough, or None."""
    width = lefts.differences.values.shape[1]
    departed = np.array([reading.subnormals != subnormals for reading in start], np.int64)
    casts = (((cast,), stages.factor(triples, cast, subnormals)) for cast in _scale_casts(types))
    scales = _merged(casts, start, ("scale_cast",), width)
    indices: dict[bytes, int] = {}
    rows: list[F64] = []
    ways: list[_Way] = []
    row_numbers: list[NDArray[np.int64]] = []
    distances: list[NDArray[np.int64]] = []
    for operation, precision, sides, left_rows, right_rows, results in _products(
        triples, types, subnormals, scales, lefts, start, departed, limit
    ):
        merged = []
        for left, right, row in zip(left_rows.tolist(), right_rows.tolist(), results, strict=True):
            index = indices.setdefault(row.tobytes(), len(rows))
            if index == len(rows):
                rows.append(row)
            merged.append(index)
            ways.append((operation, precision, sides.ways[left], scales.ways[right]))
        row_numbers.append(np.array(merged))
        base = departed + _all_depart(start, operation, precision, types.out)
        distances.append(base + sides.far[left_rows] + scales.far[right_rows])
    if not rows:
        return None
    return _Before(subnormals, np.array(rows), np.concatenate(row_numbers), ways, np.concatenate(distances))


def _matching(
    before: _Before, composed: _Composed, wanted: NDArray[Any], firsts: NDArray[np.int64]
) -> Iterator[tuple[int, Stepwise]]:
    """The readings that give the wanted codes of a piece, with the piece's number.

    Args:
        before: The results before the last stages.
        composed: The results of which they are a part.
        wanted: The codes.
        firsts: The index of each piece's first code.
    """
    out, subnormals = composed.types.out, before.subnormals
    for final, zero in _FINALS:
        in_reach = np.flatnonzero((before.far + _last(composed.start, final, zero)).min(axis=1) <= composed.limit)
        if not in_reach.size:
            continue
        near_rows = np.unique(before.row[in_reach])
        codes = canonical(stages.finished(before.rows[near_rows], out, final, subnormals, zero), out)
        gives = np.zeros((len(before.rows), len(firsts)), np.bool_)
        gives[near_rows] = np.logical_and.reduceat(codes == wanted, firsts, axis=1)
        for index, piece in np.argwhere(gives[before.row[in_reach]]).tolist():
            operation, precision, differences, casts = before.way[in_reach[index]]
            for (subtraction, difference), (cast,) in product(differences, casts):
                options: Any = (subtraction, difference, cast, operation, precision, final, subnormals, zero)
                yield piece, Stepwise(*options)


@lru_cache(maxsize=4096)
def _last(start: tuple[Stepwise, ...], final: str, zero: str) -> NDArray[np.int64]:
    """For each reading, the number of the last two stages in which it differs."""
    return np.array([(reading.final != final) + (reading.zero != zero) for reading in start], np.int64)


_Way = tuple[str, str, list[tuple[str, ...]], list[tuple[str, ...]]]
_Product = tuple[str, str, _Rows, NDArray[Any], NDArray[Any], F64]


def _products(
    triples: Triples,
    types: Types,
    subnormals: str,
    scales: _Rows,
    lefts: _LeftSides,
    start: tuple[Stepwise, ...],
    departed: NDArray[np.int64],
    limit: int,
) -> Iterator[_Product]:
    """For each operation and precision, its results and the rows of their factors."""
    differences = lefts.differences
    for operation, precision in _operations(types):
        base = departed + _all_depart(start, operation, precision, types.out)
        if subnormals == "flush-folded" and operation not in stages.FOLDED:
            continue
        if operation in stages.FOLDED:
            yield from _folded(triples, subnormals, scales, lefts, base, limit, operation, precision)
            continue
        left, right = _near(base, differences, scales, limit)
        if left.size:
            d, s = differences.values[left], scales.values[right]
            with np.errstate(all="ignore"):
                results = stages.combined(triples, d, s, operation, precision, subnormals)
            yield operation, precision, differences, left, right, results


def _near(base: NDArray[np.int64], left: _Rows, right: _Rows, limit: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The pairs of rows that are near enough to an admitted reading."""
    far = (base[None, None, :] + left.far[:, None, :] + right.far[None, :, :]).min(axis=2)
    first, second = np.nonzero(far <= limit)
    return first, second


def _folded(
    triples: Triples,
    subnormals: str,
    scales: _Rows,
    lefts: _LeftSides,
    base: NDArray[np.int64],
    limit: int,
    operation: str,
    precision: str,
) -> Iterator[_Product]:
    for x, zero_point, rows in lefts.operands:
        left, right = _near(base, rows, scales, limit)
        if left.size:
            s = scales.values[right]
            with np.errstate(all="ignore"):
                results = stages.folded(triples, x, zero_point, s, operation, precision, subnormals)
            yield operation, precision, rows, left, right, np.broadcast_to(results, s.shape)


@lru_cache(maxsize=1024)
def _subtractions(types: Types) -> tuple[tuple[str, str], ...]:
    """The options of the first two stages that can differ for these types."""
    every = product(get_args(stages.Subtraction), get_args(stages.Difference))
    # With the plain final cast, differences that matter before some operations only would be left out.
    simple = (simplified(Stepwise(a, b, final="saturated"), types) for a, b in every)
    return tuple(dict.fromkeys((reading.subtraction, reading.difference) for reading in simple))


def _foldings(types: Types) -> tuple[stages.Operation, ...]:
    """The operations that fold the zero point and can differ for these types."""
    if not types.zero_point:
        return ("folded-always",)
    of_output: dict[str, tuple[stages.Operation, ...]] = {
        "bfloat16": ("fused-last-bit",),
        "float16": ("fused-float16", "fused-float16-always"),
    }
    return ("folded", "fused", *of_output.get(types.out, ()))


@lru_cache(maxsize=1024)
def _casts_of_operands(types: Types) -> tuple[str, ...]:
    """The options of the first stage that can differ where the zero point is folded."""
    operation, *_ = _foldings(types)
    every = (Stepwise(subtraction, operation=operation) for subtraction in get_args(stages.Subtraction))
    return tuple(dict.fromkeys(simplified(reading, types).subtraction for reading in every if reading.folds))


@lru_cache(maxsize=1024)
def _scale_casts(types: Types) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(simplified(Stepwise(scale_cast=cast), types).scale_cast for cast in get_args(stages.ScaleCast))
    )


@lru_cache(maxsize=1024)
def _operations(types: Types) -> tuple[tuple[str, str], ...]:
    """The operations and precisions, each once if several mean the same for every type of x."""
    return tuple(
        (operation, precision)
        for operation in get_args(stages.Operation)
        if operation in _foldings(types) or operation not in stages.FOLDED
        for precision in get_args(stages.Precision)
        # A product or quotient in the output type is rounded once. The other operations never round just once.
        if precision != "output" and precision != ("once", types.out)[operation in ("multiply", "divide")]
    )


def searched(
    operands: Operands, codes: NDArray[Any], admitted: Sequence[Stepwise], most: int | None = NEAR
) -> tuple[Stepwise, ...]:
    """The cached result of `search`. Cells of many editions and granularities search for the same."""
    return _searched(operand_key(operands), tuple(admitted), most, np.broadcast_to(codes, operands.shape).tobytes())


@lru_cache(maxsize=4096)
def _searched(key: OperandKey, admitted: tuple[Stepwise, ...], most: int | None, wanted: bytes) -> tuple[Stepwise, ...]:
    codes = np.frombuffer(wanted, code_dtype(key.out))

    def compute() -> tuple[Stepwise, ...]:
        return _giving(_compositions(key, admitted, most), codes, [codes.size])[0]

    return kept(("searched", key, admitted, most, wanted), compute, as_text, from_text)


def as_text(recipes: Sequence[Stepwise]) -> str:
    """Readings as JSON: the options of each."""
    return json.dumps([reading.options() for reading in recipes])


def from_text(text: str) -> tuple[Stepwise, ...]:
    """The inverse of `as_text`. Raises ValueError or TypeError for a text that describes none."""
    recipes = [tuple(options) for options in json.loads(text)]
    for options in recipes:
        if any(option not in choices for option, choices in zip(options, _SIMPLE.values(), strict=True)):
            raise ValueError("unknown option of a reading")
    return tuple(Stepwise(*options) for options in recipes)


@lru_cache(maxsize=512)
def _compositions(key: OperandKey, admitted: tuple[Stepwise, ...], most: int | None) -> _Composed:
    # A small cache is enough: the searches for one set of probes follow each other.
    return _composed(key.operands(), admitted, most)


def near(types: Types, admitted: Sequence[Stepwise], most: int = NEAR) -> tuple[Stepwise, ...]:
    """The distinct readings within ``most`` stages of an admitted one, the simplest first."""
    readings = {*admitted, *(simplified(reading, types) for reading in admitted)}
    for _ in range(most):
        readings |= {
            replace(reading, **{name: option})
            for reading in readings
            for name, options in _SIMPLE.items()
            for option in options
        }
    return tuple(sorted({simplified(reading, types) for reading in readings}, key=simplicity))


def taken(operands: Operands, indices: NDArray[Any]) -> Operands:
    """The triples at some flat indices of the output, as 1-D operands."""
    codes = {
        role: np.broadcast_to(listed, operands.shape).reshape(-1)[indices] for role, listed in operands.codes.items()
    }
    return replace(operands, codes=codes, shape=(len(indices),))
