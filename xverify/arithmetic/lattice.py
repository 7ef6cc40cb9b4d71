"""The search over every composition of the stages of a linear reading: which of them give these values?

Stages are evaluated one after the other for all compositions at once: what stages before have in common is computed once,
intermediate results that are equal on the values at hand are merged, and compositions that depart too far from every
admitted reading are left out before they are evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic import stages
from xverify.arithmetic.operand_key import OperandKey, operand_key
from xverify.arithmetic.reading import Operands, Reading
from xverify.arithmetic.readings import EXACT, EXACT_QUOTIENT, FLOAT32, FLOAT32_QUOTIENT, OUTPUT, Stepwise
from xverify.arithmetic.simplify import Types, simplified, types_of
from xverify.arithmetic.stages import Triples, resolved
from xverify.core.bits import canonical
from xverify.core.call import code_dtype
from xverify.core.rounding import F64

NEAR = 2
"""Stages in which a reading may differ from an admitted one to be searched first."""

_FINALS = tuple(product(get_args(stages.Final), get_args(stages.Zero)))
_SIMPLE = {
    name: {option: place for place, option in enumerate(get_args(options))}
    for name, options in (
        ("subtraction", stages.Subtraction), ("difference", stages.Difference), ("scale_cast", stages.ScaleCast),
        ("operation", stages.Operation), ("precision", stages.Precision), ("final", stages.Final),
        ("subnormals", stages.Subnormals), ("zero", stages.Zero),
    )
}  # fmt: skip


def start(admitted: Sequence[Reading]) -> tuple[Stepwise, ...]:
    """The readings from which a search goes outward: the same for every edition whose formula multiplies, so that what was
    found for one need not be searched again."""
    first = admitted[0]
    if isinstance(first, Stepwise) and first.operation == "divide":
        return (EXACT_QUOTIENT, FLOAT32_QUOTIENT)
    return (EXACT, FLOAT32, *OUTPUT)


def simplicity(reading: Stepwise) -> tuple[int, ...]:
    """Sorts readings: first those with fewer stages that are not plain, then by the order of the options."""
    ranks = [_SIMPLE[name][getattr(reading, name)] for name in _SIMPLE]
    return (sum(rank > 0 for rank in ranks), *ranks)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Distinct intermediate results, one in each row; ``ways``: the options that lead to a row; ``far``: for each row and each
    admitted reading, in how many of these stages the nearest way differs from it."""

    values: F64
    ways: list[list[tuple[str, ...]]]
    far: NDArray[np.int64]


def _merged(
    computed: Iterable[tuple[tuple[str, ...], F64]], admitted: Sequence[Stepwise], names: tuple[str, ...], width: int
) -> _Rows:
    """Rows of the results of one or two stages, equal ones merged. names: of the stages."""
    known: dict[bytes, int] = {}
    rows: list[F64] = []
    ways: list[list[tuple[str, ...]]] = []
    for way, result in computed:
        row = np.ascontiguousarray(np.broadcast_to(result, (width,)))
        place = known.setdefault(row.tobytes(), len(rows))
        if place == len(rows):
            rows.append(row)
            ways.append([])
        ways[place].append(way)
    far = [[min(_differ(reading, names, way) for way in listed) for reading in admitted] for listed in ways]
    return _Rows(np.array(rows).reshape(-1, width), ways, np.array(far, np.int64).reshape(len(rows), len(admitted)))


def _differ(reading: Stepwise, names: tuple[str, ...], way: tuple[str, ...]) -> int:
    return sum(getattr(reading, name) != option for name, option in zip(names, way, strict=True))


def search(
    operands: Operands, codes: NDArray[Any], admitted: Sequence[Stepwise], most: int | None = NEAR
) -> tuple[Stepwise, ...]:
    """The distinct readings that give these codes, the simplest first.

    operands: 1-D, one triple for each code. codes: of the output type. admitted: the readings that the search starts from;
    most: in how many stages a reading may differ from one of them, or None for all readings.
    """
    return _giving(_composed(operands, admitted, most), np.broadcast_to(codes, operands.shape))


@dataclass(frozen=True, eq=False)
class _Before:
    """What all compositions with one treatment of subnormals give for some operands before the last stages. rows: distinct
    results. For each pair of distinct factors and each way to combine them, place: its result's row; way: what leads to it;
    far: in how many stages it differs from each reading that the search starts from."""

    subnormals: str
    rows: F64
    place: NDArray[np.int64]
    way: list[_Way]
    far: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Composed:
    """Every composition on some operands, whatever codes are wanted. limit: in how many stages one may differ."""

    types: Types
    start: tuple[Stepwise, ...]
    limit: int
    before: tuple[_Before, ...]


def _composed(operands: Operands, admitted: Sequence[Stepwise], most: int | None) -> _Composed:
    types, limit = types_of(operands), 99 if most is None else most
    start = _starts(types, tuple(admitted))
    given = stages.decoded(operands)
    lefts = _left_sides(given, types, start, operands.shape[0])
    # Before the last stages the two do the same, and from readings that do neither they are as far.
    alike = {"flush-results", "flush-products"}.isdisjoint(reading.subnormals for reading in start)
    before: dict[str, _Before] = {}
    for kind in get_args(stages.Subnormals):
        same = before.get("flush-results") if alike and kind == "flush-products" else None
        computed = replace(same, subnormals=kind) if same else _before(given, types, kind, start, lefts, limit)
        if computed is not None:
            before[kind] = computed
    return _Composed(types, start, limit, tuple(before.values()))


def _giving(composed: _Composed, codes: NDArray[Any]) -> tuple[Stepwise, ...]:
    """The distinct readings that give the codes, the simplest first."""
    wanted = canonical(codes, composed.types.out)
    found = {
        simplified(reading, composed.types)
        for before in composed.before
        for reading in _matching(before, composed, wanted)
    }
    return tuple(sorted(found, key=simplicity))


@lru_cache(maxsize=1024)
def _starts(types: Types, admitted: tuple[Stepwise, ...]) -> tuple[Stepwise, ...]:
    """The admitted readings as departures are counted from them: simplified, with the options that the types give their
    stages, and with those of each stage that can differ for the types."""
    found: list[Stepwise] = []
    for reading in admitted:
        out = types.out
        named: Any = {
            name: resolved(getattr(reading, name), out) for name in ("subtraction", "difference", "scale_cast")
        }
        plain = replace(reading, **named, precision=_once(resolved(reading.precision, out), out))
        stage = simplified(Stepwise(plain.subtraction, plain.difference, final="saturated"), types)
        cast = simplified(Stepwise(scale_cast=plain.scale_cast), types).scale_cast
        each = replace(plain, subtraction=stage.subtraction, difference=stage.difference, scale_cast=cast)
        found += [simplified(reading, types), plain, each]
    return tuple(dict.fromkeys(found))


def _once(precision: Any, out: str) -> Any:
    """The precision, with the output type as the one rounding that it is."""
    return "once" if precision == out else precision


@lru_cache(maxsize=4096)
def _all_depart(start: tuple[Stepwise, ...], operation: str, precision: str, out: str) -> NDArray[np.int64]:
    """In how many of the two stages each reading differs."""
    return np.array([_departs(reading, operation, precision, out) for reading in start], np.int64)


def _departs(reading: Stepwise, operation: str, precision: str, out: str) -> int:
    """In how many of the two stages a reading differs."""
    same = _once(reading.precision, out) == _once(precision, out)
    return (reading.operation != operation) + (not same)


@dataclass(frozen=True, eq=False)
class _LeftSides:
    """What is multiplied: the differences, and for operations without one, for each way to take the operands, x, the zero point
    and the rows of x."""

    differences: _Rows
    operands: list[tuple[F64, F64, _Rows]]


def _left_sides(given: Triples, types: Types, start: Sequence[Stepwise], width: int) -> _LeftSides:
    names = ("subtraction", "difference")
    differences = _merged(((way, stages.subtracted(given, *way)) for way in _subtractions(types)), start, names, width)
    # No difference is rounded, so none is a departure.
    rounds = dict.fromkeys(("exact", *(reading.difference for reading in start)))
    operands = []
    for subtraction in dict.fromkeys(way[0] for way in _subtractions(types)) if types.zero_point else ():
        if subtraction == "exact" or subtraction.startswith("operands-"):
            x, zero_point = (np.broadcast_to(side, (width,)) for side in stages.operands_of(given, subtraction))
            ways = (((subtraction, difference), x) for difference in rounds)
            operands.append((x, zero_point, _merged(ways, start, names, width)))
    return _LeftSides(differences, operands)


def _before(
    given: Triples, types: Types, subnormals: str, start: tuple[Stepwise, ...], lefts: _LeftSides, limit: int
) -> _Before | None:
    """The compositions with that treatment of subnormals that are near enough; None where there are none."""
    width = lefts.differences.values.shape[1]
    departed = np.array([reading.subnormals != subnormals for reading in start], np.int64)
    casts = (((cast,), stages.factor(given, cast, subnormals)) for cast in _scale_casts(types))
    scales = _merged(casts, start, ("scale_cast",), width)
    known: dict[bytes, int] = {}
    rows: list[F64] = []
    ways: list[_Way] = []
    places: list[NDArray[np.int64]] = []
    distances: list[NDArray[np.int64]] = []
    for operation, precision, sides, left_rows, right_rows, results in _products(
        given, types, subnormals, scales, lefts, start, departed, limit
    ):
        merged = []
        for left, right, row in zip(left_rows.tolist(), right_rows.tolist(), results, strict=True):
            place = known.setdefault(row.tobytes(), len(rows))
            if place == len(rows):
                rows.append(row)
            merged.append(place)
            ways.append((operation, precision, sides.ways[left], scales.ways[right]))
        places.append(np.array(merged))
        base = departed + _all_depart(start, operation, precision, types.out)
        distances.append(base + sides.far[left_rows] + scales.far[right_rows])
    if not rows:
        return None
    return _Before(subnormals, np.array(rows), np.concatenate(places), ways, np.concatenate(distances))


def _matching(before: _Before, composed: _Composed, wanted: NDArray[Any]) -> Iterator[Stepwise]:
    """Readings that give the wanted codes."""
    out, subnormals = composed.types.out, before.subnormals
    for final, zero in _FINALS:
        last = np.array([(r.final != final) + (r.zero != zero) for r in composed.start])
        in_reach = np.flatnonzero((before.far + last).min(axis=1) <= composed.limit)
        if not in_reach.size:
            continue
        reached = np.zeros(len(before.rows), np.bool_)
        reached[before.place[in_reach]] = True
        near_rows = np.flatnonzero(reached)
        codes = canonical(stages.finished(before.rows[near_rows], out, final, subnormals, zero), out)
        reached[near_rows] = (codes == wanted).all(axis=1)
        for number in in_reach[reached[before.place[in_reach]]].tolist():
            operation, precision, differences, casts = before.way[number]
            for (subtraction, difference), (cast,) in product(differences, casts):
                options: Any = (subtraction, difference, cast, operation, precision, final, subnormals, zero)
                yield Stepwise(*options)


_Way = tuple[str, str, list[tuple[str, ...]], list[tuple[str, ...]]]
_Product = tuple[str, str, _Rows, NDArray[Any], NDArray[Any], F64]


def _products(
    given: Triples,
    types: Types,
    subnormals: str,
    scales: _Rows,
    lefts: _LeftSides,
    start: tuple[Stepwise, ...],
    departed: NDArray[np.int64],
    limit: int,
) -> Iterator[_Product]:
    """For each operation and precision: the rows of differences and scales that go into it, and its results."""
    differences = lefts.differences
    for operation, precision in _operations(types):
        base = departed + _all_depart(start, operation, precision, types.out)
        if operation in ("folded", "fused"):
            yield from _folded(given, subnormals, scales, lefts, base, limit, operation, precision)
            continue
        left, right = _near(base, differences, scales, limit)
        if left.size:
            d, s = differences.values[left], scales.values[right]
            with np.errstate(all="ignore"):
                results = stages.combined(given, d, s, operation, precision, subnormals)
            yield operation, precision, differences, left, right, results


def _near(base: NDArray[np.int64], left: _Rows, right: _Rows, limit: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Pairs of rows that are near enough to some admitted reading."""
    far = (base[None, None, :] + left.far[:, None, :] + right.far[None, :, :]).min(axis=2)
    first, second = np.nonzero(far <= limit)
    return first, second


def _folded(
    given: Triples,
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
                results = stages.folded(given, x, zero_point, s, operation == "fused", precision, subnormals)
            yield operation, precision, rows, left, right, np.broadcast_to(results, s.shape)


@lru_cache(maxsize=1024)
def _subtractions(types: Types) -> tuple[tuple[str, str], ...]:
    """Options of the first two stages that can differ for these types."""
    every = product(get_args(stages.Subtraction), get_args(stages.Difference))
    # Saturated, so that a difference which matters only before some operations is not left out.
    simple = (simplified(Stepwise(a, b, final="saturated"), types) for a, b in every)
    return tuple(dict.fromkeys((reading.subtraction, reading.difference) for reading in simple))


@lru_cache(maxsize=1024)
def _scale_casts(types: Types) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(simplified(Stepwise(scale_cast=cast), types).scale_cast for cast in get_args(stages.ScaleCast))
    )


@lru_cache(maxsize=1024)
def _operations(types: Types) -> tuple[tuple[str, str], ...]:
    """Operations and precisions; those that mean the same for every type of x only once."""
    return tuple(
        (operation, precision)
        for operation in get_args(stages.Operation)
        if types.zero_point or operation not in ("folded", "fused")
        for precision in get_args(stages.Precision)
        # A product or quotient in the output type is one that is rounded once; the others are never rounded just once.
        if precision != "output" and precision != ("once", types.out)[operation in ("multiply", "divide")]
    )


def searched(
    operands: Operands, codes: NDArray[Any], admitted: Sequence[Stepwise], most: int | None = NEAR
) -> tuple[Stepwise, ...]:
    """`search`, remembered: cells of many editions and granularities ask the same."""
    return _searched(operand_key(operands), tuple(admitted), most, np.broadcast_to(codes, operands.shape).tobytes())


@lru_cache(maxsize=4096)
def _searched(key: OperandKey, admitted: tuple[Stepwise, ...], most: int | None, wanted: bytes) -> tuple[Stepwise, ...]:
    return _giving(_compositions(key, admitted, most), np.frombuffer(wanted, code_dtype(key.out)))


@lru_cache(maxsize=64)
def _compositions(key: OperandKey, admitted: tuple[Stepwise, ...], most: int | None) -> _Composed:
    """A few are kept: the probes of a type are searched for one admitted reading after the other, and then for what
    implementations gave."""
    return _composed(key.operands(), admitted, most)


def near(types: Types, admitted: Sequence[Stepwise], most: int = NEAR) -> tuple[Stepwise, ...]:
    """The distinct readings that differ from an admitted one in at most so many stages, the simplest first."""
    found = {*admitted, *(simplified(reading, types) for reading in admitted)}
    for _ in range(most):
        found |= {
            replace(reading, **{name: option})
            for reading in found
            for name, options in _SIMPLE.items()
            for option in options
        }
    return tuple(sorted({simplified(reading, types) for reading in found}, key=simplicity))


def taken(operands: Operands, places: NDArray[Any]) -> Operands:
    """Some triples of a call, by their flat places, as 1-D operands."""
    codes = {
        role: np.broadcast_to(listed, operands.shape).reshape(-1)[places] for role, listed in operands.codes.items()
    }
    return replace(operands, codes=codes, shape=(len(places),))
