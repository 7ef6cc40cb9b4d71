"""A large pool of triples (x, zero point, scale) on which linear readings may differ.

It has the probes of other seeds, every special scale, random mantissas and exponents, and solved triples (see
`xverify.strategies.ties`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic.readings import Stepwise
from xverify.arithmetic.simplify import Types
from xverify.arithmetic.stages import resolved
from xverify.core.call import BITS, code_dtype
from xverify.core.dtypes import FLOATS, INTEGERS, MANTISSA_BITS, UNIT_EXPONENT, encode, integer_range
from xverify.core.dtypes import values as decoded
from xverify.strategies import ties, values
from xverify.strategies.probes import WIDTH, Codes, Probes, pool

RANDOM = 192
"""Number of probes with random mantissas and exponents."""

SOLVED = 8
"""Number of solved probes for each precision to which a reading rounds."""

TRIES = 600
"""Number of differences to try in the search of factors. Few have one where many bits are rounded away."""

_PRECISION = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8, "last-bit": 8}


@dataclass(frozen=True)
class Aims:
    """The roundings for which triples are solved."""

    rounded: tuple[int, ...]
    """Bits to which a reading rounds before the output type, where they are more than the output type has."""
    mantissas: tuple[int, ...]
    """Bits of the scale, and of the scale after a cast."""
    differences: tuple[int, ...]
    """Bits to which differences are rounded. 64 stands for no rounding."""
    truncates: bool
    """True if a reading truncates its result."""
    divides: bool
    """True if a reading divides by the scale or multiplies by its reciprocal."""


def aims_of(types: Types, readings: Sequence[Stepwise]) -> Aims:
    """The roundings in which some readings may differ."""
    kept = MANTISSA_BITS[types.out] + 1
    options: set[str] = {
        o for r in readings for o in (r.precision, r.difference, r.subtraction.removeprefix("operands-"))
    }
    options |= {"float32" for reading in readings if reading.final == "via-float32"}
    casts = {reading.scale_cast for reading in readings}
    narrow = {_PRECISION[resolved(cast, types.out)] for cast in casts - {"none"}}
    scale = MANTISSA_BITS.get(types.scale, 0) + 1
    differences = {_PRECISION[resolved(r.difference, types.out)] for r in readings if r.difference != "exact"}
    return Aims(
        tuple(sorted(_PRECISION[o] for o in options if o in _PRECISION and _PRECISION[o] > kept)),
        tuple(sorted({scale, *(bits for bits in narrow if bits < scale)}, reverse=True)),
        (64, *sorted(differences)),
        any(reading.final == "truncated" for reading in readings),
        any(reading.operation in ("divide", "reciprocal") for reading in readings),
    )


@lru_cache(maxsize=256)
def triples(types: Types, only_zero: bool, seed: int, aims: Aims) -> Probes:
    """The pool for some types.

    Args:
        types: The types of the call.
        only_zero: True if the zero point must be 0.
        seed: Another seed gives another pool.
        aims: The roundings for which triples are solved.
    """
    rng = np.random.default_rng([seed, *map(ord, "".join((types.x, types.zero_point, types.scale, types.out)))])
    parts = [pool(types, 1 + seed), _random(types, rng)]
    solved = list(_solved(types, only_zero, aims, rng))
    if solved:
        x, zero_points, scales = (np.array(column) for column in zip(*solved, strict=True))
        parts.append(_probes(types, x, zero_points, scales, rng))
    zero_point = None
    if types.zero_point:
        zero_point = np.concatenate([part.zero_point for part in parts if part.zero_point is not None])
        zero_point = np.zeros_like(zero_point) if only_zero else zero_point
        if types.zero_point == "int32" and types.x != "int32":
            # This keeps x - zero point inside int32 for every 8-bit x. The texts leave other differences open.
            zero_point = np.clip(zero_point.view(np.int32), -(2**31) + 512, 2**31 - 512).view(np.uint32)
    return Probes(np.concatenate([p.x for p in parts]), zero_point, np.concatenate([p.scale for p in parts]))


def _any_codes(dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> Codes:
    return rng.integers(0, 1 << BITS[dtype], shape).astype(code_dtype(dtype))


def _probes(types: Types, x: Codes, zero_points: Codes, scales: Codes, rng: np.random.Generator) -> Probes:
    """Probes from triples. Random values of x fill each probe up."""
    filled = _any_codes(types.x, (len(x), WIDTH), rng)
    filled[:, 0] = x
    zero_point = zero_points.astype(code_dtype(types.zero_point)) if types.zero_point else None
    return Probes(filled, zero_point, scales.astype(code_dtype(types.scale)))


def _random(types: Types, rng: np.random.Generator) -> Probes:
    """Probes with every special scale, then with random ones. Zero points are random or extreme."""
    special = values.special_scales(types.scale)
    scales = np.concatenate([np.repeat(special, 4), _any_codes(types.scale, (RANDOM,), rng)])[:RANDOM]
    x = values.data(types.x, (RANDOM,), rng)
    zero_points = np.zeros(RANDOM, np.uint8)
    if types.zero_point:
        ends = [int(values.zero_points(types.zero_point, (), which, rng)) for which in ("lowest", "highest")]
        zero_points = (
            values.zero_points(types.zero_point, (RANDOM,), "random", rng)
            if types.has_float_zero_point
            else _any_codes(types.zero_point, (RANDOM,), rng)
        )
        zero_points[::4], zero_points[1::4] = ends
        near = _near(types, x[2::4], rng)
        zero_points[2::4] = near
    return _probes(types, x, zero_points, scales, rng)


def _near(types: Types, x: Codes, rng: np.random.Generator) -> Codes:
    """Zero points as near to values of x as their type allows, for differences of few bits."""
    numbers = decoded(types.x, x)
    with np.errstate(all="ignore"):
        numbers = np.where(np.isfinite(numbers), numbers + rng.integers(-3, 4, x.shape) * 2.0 ** _unit(types), 0.0)
    if types.zero_point in INTEGERS:
        numbers = np.clip(numbers, *integer_range(types.zero_point))
    return encode(types.zero_point, numbers)


Triple = tuple[int, int, int]
"""Codes of x, zero point and scale."""


def _solved(types: Types, only_zero: bool, aims: Aims, rng: np.random.Generator) -> Iterator[Triple]:
    """Triples whose product or quotient is next to a midpoint of the output type.

    For readings that truncate, also those next to a number of the output type.
    """
    if types.scale == "float8_e8m0fnu":
        return
    kept = MANTISSA_BITS[types.out] + 1
    x, zero_points, differences = differences_of(types, only_zero, rng)
    for rounded, bits, narrow in product(aims.rounded, aims.mantissas, aims.differences):
        count = 0
        for index, difference in enumerate(_rounded(differences, narrow).tolist()):
            if count >= SOLVED:
                break
            for mantissa in ties.factors(difference, 1 << (bits - 1), 1 << bits, kept, rounded, rng, aims.truncates):
                code = _scale_code(types, mantissa, difference, rng)
                if code is not None:
                    count += 1
                    yield int(x[index]), int(zero_points[index]), code
    if types.x in ("int32", "uint32"):
        yield from _solved_differences(types, only_zero, aims, rng)
    if aims.divides and types.zero_point == "int32" and BITS[types.x] <= 8:
        yield from _exact_midpoints(types, kept, rng)
    if aims.divides:
        bits = aims.mantissas[0]
        for index in range(min(SOLVED, len(differences))):
            for mantissa in ties.divisors(int(differences[index]), bits, kept, rng)[:2].tolist():
                code = _scale_code(types, mantissa, int(differences[index]), rng, divides=True)
                if code is not None:
                    yield int(x[index]), int(zero_points[index]), code


def _exact_midpoints(types: Types, kept: int, rng: np.random.Generator) -> Iterator[Triple]:
    """Triples whose quotient is exactly a midpoint, while the product with the reciprocal is not."""
    for factor in range(3, 1 << (31 - kept - 1), 2):
        midpoints = 2 * rng.integers(1 << (kept - 1), 1 << kept, 256) + 1
        differences = midpoints * factor
        twice, once = encode(types.out, differences * (1.0 / factor)), encode(types.out, midpoints.astype(np.float64))
        off = np.flatnonzero((twice != once) & (differences < 1 << 31))
        for index in off[:2].tolist():
            x = int(rng.integers(0, 100))
            zero_point = int(encode("int32", np.array(x - int(differences[index]))))
            yield int(encode(types.x, np.array(x))), zero_point, int(encode(types.scale, np.array(float(factor))))


def _rounded(numbers: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """Whole numbers of at most 53 bits, rounded to ``bits`` bits."""
    if bits >= 53:
        return numbers
    unit = np.exp2(np.maximum(np.floor(np.log2(numbers)) + 1 - bits, 0.0))
    return np.asarray(np.rint(numbers / unit) * unit, np.int64)


def differences_of(
    types: Types, only_zero: bool, rng: np.random.Generator, every: bool = False
) -> tuple[Codes, Codes, NDArray[np.int64]]:
    """Pairs of x and zero point with distinct odd parts of differences, the longest first.

    All odd parts are above 1.

    Args:
        types: The types of the call.
        only_zero: True if the zero point must be 0.
        rng: Chooses codes of wide types.
        every: True for all differences of 8-bit types, False for at most `TRIES`.

    Returns:
        Codes of x, codes of zero points, and the odd parts of their absolute differences in the unit of x.
    """
    x = _any_codes(types.x, (TRIES,), rng)
    if BITS[types.x] <= 8:
        x = np.arange(1 << BITS[types.x], dtype=code_dtype(types.x))
    zero_points = np.zeros_like(x)
    if types.zero_point and not only_zero:
        if types.zero_point in FLOATS:
            x = np.repeat(x, 8) if BITS[types.x] <= 8 else x
            zero_points = _fractions(types.zero_point, x.size, rng)
        else:
            zero_points = _any_codes(types.zero_point, x.shape, rng)
            zero_points[::2] = int(values.zero_points(types.zero_point, (), "lowest", rng))
        if types.zero_point == types.x and BITS[types.x] <= 8:
            x, zero_points = np.repeat(x, len(x)), np.tile(x, len(x))
    numbers = decoded(types.x, x)
    if types.zero_point:
        with np.errstate(all="ignore"):
            numbers = numbers - decoded(types.zero_point, zero_points)
    whole = np.where(np.isfinite(numbers), np.abs(numbers) * 2.0 ** -_unit(types), 0.0).astype(np.int64)
    odd = np.where(whole > 0, whole // np.maximum(whole & -whole, 1), 0)
    odd, some = np.unique(odd, return_index=True)
    order = rng.permutation(np.flatnonzero(odd > 1))
    order = order[np.argsort(-np.floor(np.log2(odd[order])), kind="stable")][: None if every else TRIES]
    return x[some[order]], zero_points[some[order]], odd[order]


def _unit(types: Types) -> int:
    """Exponent of the unit of x and of the zero points here.

    A float zero point below 1 has all its bits after the point.
    """
    units = {**UNIT_EXPONENT, **{dtype: -1 - bits for dtype, bits in MANTISSA_BITS.items()}}
    return min(units.get(dtype, 0) for dtype in (types.x, types.zero_point or types.x))


def _fractions(dtype: str, count: int, rng: np.random.Generator) -> Codes:
    """Float zero points that are multiples of the unit: below 1 with all their bits, or whole."""
    bits = MANTISSA_BITS[dtype] + 1
    fractions = rng.integers(-(1 << bits) + 1, 1 << bits, count) * 2.0**-bits
    return encode(dtype, np.where(rng.random(count) < 0.75, fractions, rng.integers(-128, 129, count)))


def _solved_differences(types: Types, only_zero: bool, aims: Aims, rng: np.random.Generator) -> Iterator[Triple]:
    """Triples of 32-bit integers, solved for the difference, which is the longer factor there."""
    lowest, highest = integer_range(types.x)
    moves = types.zero_point == types.x and not only_zero
    start = lowest if moves else 0
    most, kept = highest - start + 1, MANTISSA_BITS[types.out] + 1
    for rounded, bits in product(aims.rounded, aims.mantissas):
        count = 0
        for mantissa in (rng.integers(1 << (bits - 1), 1 << bits, TRIES) | 1).tolist():
            if count >= SOLVED:
                break
            for difference in ties.factors(mantissa, 1 << 24, most, kept, rounded, rng, aims.truncates):
                code = _scale_code(types, mantissa, difference, rng)
                if code is not None:
                    count += 1
                    x, zero_point = (int(encode(types.x, np.array(n))) for n in (start + difference, start))
                    yield x, zero_point, code


def _scale_code(
    types: Types, mantissa: int, difference: int, rng: np.random.Generator, divides: bool = False
) -> int | None:
    """The code of a scale with that mantissa, for which the result is a normal number of the output type.

    Returns:
        None where the type of the scale has no such number.
    """
    length = difference.bit_length()
    unit = _unit(types)
    goal = int(rng.integers(-8, 12))
    exponent = unit + length - mantissa.bit_length() - goal if divides else goal - length - unit - mantissa.bit_length()
    most = {"float16": 15 - mantissa.bit_length()}.get(types.scale, 100)
    exponent = min(max(exponent, -24 if types.scale == "float16" else -125), most)
    number = np.array(mantissa * 2.0**exponent)
    code = encode(types.scale, number)
    exact = float(decoded(types.scale, code)) == float(number)
    result = difference * 2.0**unit / float(number) if divides else difference * 2.0**unit * float(number)
    largest = 2.0**15 if types.out == "float16" else 2.0**120
    return int(code) if exact and 2.0**-13 < result < largest else None
