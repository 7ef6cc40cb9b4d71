"""Probes: few triples (x, zero point, scale) on which the readings of a linear formula differ.

A probe is one zero point and one scale with some values of x, so it also fits in a call per tensor. All probes of a type fit
in one call per axis or blocked. The numbers are solved: products next to a midpoint of the output type, differences that
need all their bits, subnormal scales, and products near the smallest normal number and past the largest. All types get the
same first probes. Further ones are chosen for the readings that the first ones leave.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic.kept import kept
from xverify.arithmetic.lattice import as_text, from_text, searched
from xverify.arithmetic.reading import Operands
from xverify.arithmetic.readings import Stepwise, evaluate_all
from xverify.arithmetic.simplify import Types, simplified
from xverify.core.call import BITS, code_dtype
from xverify.core.dtypes import INTEGERS, MANTISSA_BITS, encode, integer_range
from xverify.core.dtypes import values as decoded
from xverify.core.rounding import cast, to_dtype
from xverify.strategies import values

WIDTH = 12
"""Number of values of x in a probe."""

FIRST = 5
"""Number of probes for all types. The search begins with their 60 values."""

Codes = NDArray[np.unsignedinteger]

_SCALES = ("negative", "midpoint", "subnormal", "least", "greatest")
_ZERO_POINTS = ("lowest", "highest", "random", "middle", "lowest")
_MORE_SCALES = (
    "midpoint", "midpoint", "infinite", "greatest-normal", "negative", "least", "least-negative", "greatest", "float32-midpoint",
    "coarse-midpoint", "zero", "subnormal", "tie", "subnormal", "subnormal",
)  # fmt: skip
_MORE_ZERO_POINTS = ("highest", "lowest", "middle")
_FLOAT_ZERO_POINTS = ("random", "random", "random", "random", "random", "random", "zero")

_EXPONENT = {"float32": 126, "float16": 14, "bfloat16": 126}


@dataclass(frozen=True, eq=False)
class Probes:
    """The probes for certain types."""

    x: Codes
    """Codes of x, of shape (probes, WIDTH)."""
    zero_point: Codes | None
    """One code for each probe, or None where the types have no zero point."""
    scale: Codes
    """One code for each probe."""
    left: tuple[Stepwise, ...] = ()
    """Readings that agree with an admitted one on all probes."""

    def __len__(self) -> int:
        return len(self.scale)

    def chosen(self, indices: list[int]) -> Probes:
        """The probes at these indices."""
        zero_point = None if self.zero_point is None else self.zero_point[indices]
        return Probes(self.x[indices], zero_point, self.scale[indices])

    def operands(self, types: Types) -> Operands:
        """The triples of all probes, one after the other."""
        codes = {"x": self.x.reshape(-1), "scale": np.repeat(self.scale, WIDTH)}
        dtypes = {"x": types.x, "scale": types.scale}
        if self.zero_point is not None:
            codes["zero_point"] = np.repeat(self.zero_point, WIDTH)
            dtypes["zero_point"] = types.zero_point
        return Operands(codes, dtypes, types.out, (self.x.size,))


@lru_cache(maxsize=4096)
def probes(types: Types, admitted: tuple[Stepwise, ...]) -> Probes:
    """The probes for these types, always the same.

    On them, the first two admitted readings differ from all other readings near an admitted one, except those in ``left``.
    """
    key = ("probes", types, admitted)
    return kept(key, lambda: _chosen(types, admitted), _as_text, partial(_from_text, types))


def _chosen(types: Types, admitted: tuple[Stepwise, ...]) -> Probes:
    every = pool(types)
    first = every.chosen(list(range(FIRST)))
    chosen = list(range(FIRST))
    truths = [simplified(reading, types) for reading in admitted[:2]]
    if types.zero_point and types.x not in INTEGERS:
        # Texts call such zero points unusual, so the probes must also show if they are ignored.
        truths.append(simplified(Stepwise("ignored"), types))
    undecided: dict[Stepwise, None] = {}
    for truth in dict.fromkeys(truths):
        operands = first.operands(types)
        codes = truth.evaluate(operands)
        left = [reading for reading in searched(operands, codes, admitted) if reading != truth]
        differs = _differing(left, truth, every, types)
        remain = np.asarray(~differs[:, chosen].any(axis=1))
        while remain.any():
            excluded = differs[remain].sum(axis=0)
            best = int(excluded.argmax())
            if not excluded[best]:
                break
            chosen.append(best)
            remain &= ~differs[:, best]
        undecided.update(dict.fromkeys(compress(left, remain)))
    return replace(every.chosen(chosen), left=tuple(undecided))


def _as_text(made: Probes) -> str:
    """Probes as JSON: the codes of x, zero point and scale, then the readings that are left."""
    codes = [None if each is None else each.tolist() for each in (made.x, made.zero_point, made.scale)]
    return json.dumps([*codes, as_text(made.left)])


def _from_text(types: Types, text: str) -> Probes:
    """The inverse of `_as_text`. Raises ValueError or TypeError for a text that does not describe probes."""
    *listed, left = json.loads(text)
    dtypes = (types.x, types.zero_point, types.scale)
    x, zero_point, scale = (
        None if codes is None else np.array(codes, code_dtype(dtype))
        for codes, dtype in zip(listed, dtypes, strict=True)
    )
    shapes = [None if codes is None else codes.shape for codes in (x, zero_point, scale)]
    if x is None or scale is None or shapes != [(len(x), WIDTH), (len(x),) if types.zero_point else None, (len(x),)]:
        raise ValueError("not the probes of these types")
    return Probes(x, zero_point, scale, from_text(left))


def _differing(readings: Sequence[Stepwise], truth: Stepwise, every: Probes, types: Types) -> NDArray[np.bool_]:
    """For each reading and each probe, True if the reading differs there from the truth."""
    operands = every.operands(types)
    results = np.stack(evaluate_all((truth, *readings), operands))
    codes = results.reshape(len(results), len(every), WIDTH)
    return np.asarray((codes[1:] != codes[0]).any(axis=2))


def pool(types: Types, seed: int = 0) -> Probes:
    """The first probes, then those to choose from. Each seed gives others of the same kinds."""
    name = "".join((types.x, types.zero_point, types.scale, types.out))
    rng = np.random.default_rng(sum(map(ord, name)) + (seed << 16))
    recipes = list(zip(_SCALES, _ZERO_POINTS, strict=True))
    more = _MORE_ZERO_POINTS if types.zero_point else _MORE_ZERO_POINTS[:2]
    if types.has_float_zero_point:
        more = (*more, *_FLOAT_ZERO_POINTS)
    if types.x not in INTEGERS and types.zero_point:
        more = (*more, "zero")
    recipes += [(scale, zero_point) for scale in _MORE_SCALES for zero_point in more]
    rows = [_probe(types, scale, zero_point, rng) for scale, zero_point in recipes]
    zero_points = np.stack([row[1] for row in rows]) if types.zero_point else None
    return Probes(
        np.stack([row[0] for row in rows]), zero_points, np.array([row[2] for row in rows], code_dtype(types.scale))
    )


def _probe(types: Types, scale: str, recipe: str, rng: np.random.Generator) -> tuple[Codes, Codes, int]:
    zero_point = np.zeros((), code_dtype(types.x))
    if types.zero_point:
        if types.zero_point == "int32" and types.x != "int32":
            recipe = "random"
        zero_point = values.zero_points(types.zero_point, (), recipe, rng)
    number = float(decoded(types.zero_point, zero_point)) if types.zero_point else 0.0
    number = number if np.isfinite(number) else 0.0
    x = _codes(types, zero_point, number, rng)
    solved = _tie(types, rng) if scale == "tie" else None
    if solved is not None:
        difference, code = solved
        if types.zero_point:
            number = float(integer_range(types.x)[0])
            if types.zero_point in INTEGERS:
                zero_point = values.zero_points(types.zero_point, (), "lowest", rng)
            else:
                zero_point = encode(types.zero_point, np.array(number))
        x[0] = encode(types.x, np.array(difference + number))
        return x, zero_point, code
    numbers = decoded(types.x, x)
    differences = np.abs(np.where(np.isfinite(numbers), numbers, 0.0) - number)
    odd = differences[differences % 2 == 1]
    far = float(odd.max() if odd.size else max(differences.max(), 1.0))
    return x, zero_point, _scale(types, scale, far, rng)


def _tie(types: Types, rng: np.random.Generator) -> tuple[int, int] | None:
    """A difference and a scale's code whose product float32 rounds to a midpoint of the output type.

    The scale has float16 or bfloat16.

    Solves d t = 2^(k-1) + r modulo 2^k for d, where t is the mantissa and k the number of bits that the output type drops.

    Returns:
        None where the factors have too few bits for that, or where any float32 scale would do.
    """
    if types.x not in ("int16", "uint16") or types.scale not in ("float16", "bfloat16"):
        return None
    precision, kept = MANTISSA_BITS[types.scale] + 1, MANTISSA_BITS[types.out] + 1
    lowest, highest = integer_range(types.x)
    largest = highest - lowest if types.zero_point else highest
    length = largest.bit_length() + precision
    if length <= 24:
        return None
    modulus = 1 << (length - kept)
    for mantissa in rng.permutation(np.arange((1 << (precision - 1)) + 1, 1 << precision, 2)).tolist():
        inverse = pow(mantissa, -1, modulus)
        for rest in range(-(1 << (length - 25)), (1 << (length - 25)) + 1):
            difference = inverse * (modulus // 2 + rest) % modulus
            product = difference * mantissa
            exact = np.array([float(product)])
            if difference <= largest and product.bit_length() == length and rest:
                twice = cast(to_dtype(exact, "float32") * 2.0**-length, types.out)
                if twice[0] != cast(exact * 2.0**-length, types.out)[0]:
                    scale = encode(types.scale, np.array(mantissa * 2.0 ** -(precision + 5)))
                    return difference, int(scale)
    return None


def _codes(types: Types, zero_point: Codes, number: float, rng: np.random.Generator) -> Codes:
    """The ends of x, their neighbours, those of the zero point, and random codes."""
    code = code_dtype(types.x)
    if types.x not in INTEGERS:
        every = rng.permutation(1 << BITS[types.x]).astype(code)
        same = [int(zero_point)] if types.zero_point == types.x else []
        # The largest finite numbers of both signs, the least, -0, and infinity where the type has one.
        ends = [int(values.zero_points(types.x, (), which, rng)) for which in ("highest", "lowest")]
        special = [0, 1, 1 << (BITS[types.x] - 1), *([0x7C] if types.x == "float8_e5m2" else [])]
        return np.resize(np.array([*same, *ends, *special, *every.tolist()], code), WIDTH)
    lowest, highest = integer_range(types.x)
    middle = int(np.clip(number, lowest, highest)) if types.zero_point else (lowest + highest) // 2
    chosen = [lowest, highest, lowest + 1, highest - 1, middle, middle + 1, middle - 1, 0, -1]
    if BITS[types.x] == 16:
        # Rounded to 11 bits, these are midpoints of 9 and of 8 bits.
        chosen += [(85 << 8) + (1 << 5) + 1, (85 << 8) + (1 << 6) + 1]
    chosen += rng.integers(lowest, highest + 1, WIDTH - len(chosen)).tolist()
    return encode(types.x, np.clip(chosen, lowest, highest))


def _scale(types: Types, recipe: str, far: float, rng: np.random.Generator) -> int:
    """The code of a probe's scale, solved for the difference ``far``."""
    limit = _EXPONENT[types.out]
    if types.scale == "float8_e8m0fnu":
        powers = {
            "subnormal": -127, "least": -limit - int(np.log2(far)) - 2, "least-negative": -limit - int(np.log2(far)) + 1,
            "greatest": 127 if limit > 14 else 9, "greatest-normal": 127, "infinite": limit - 3, "zero": -26,
        }  # fmt: skip
        power = powers.get(recipe, int(rng.integers(-3, 4)))
        return int(np.clip(127 + power, 0, 254))
    own, mantissa_bits = _EXPONENT[types.scale], MANTISSA_BITS[types.scale]
    sign = 1 << (BITS[types.scale] - 1)
    infinity = (sign - 1) & ~((1 << mantissa_bits) - 1)
    if recipe in ("infinite", "greatest-normal", "zero", "subnormal"):
        subnormal = int(rng.integers(1 << (mantissa_bits - 2), 1 << mantissa_bits))
        return {"infinite": infinity, "greatest-normal": infinity - 1, "zero": sign, "subnormal": sign | subnormal}[
            recipe
        ]
    mantissa = 1.0 + rng.random()
    number = mantissa * 2.0 ** int(rng.integers(-3, 4))
    if recipe == "negative":
        number = -mantissa
    elif recipe.endswith("midpoint"):
        # The best of these scales makes far * scale as near to a midpoint of the type as possible.
        bits = MANTISSA_BITS["float32" if recipe.startswith("float32") else types.out]
        bits = 8 if recipe.startswith("coarse") else bits
        odd = 2 * rng.integers(1 << bits, 2 << bits, 64) + 1
        candidates = decoded(types.scale, encode(types.scale, odd / far * 2.0 ** -(bits + 1)))
        twice = cast(to_dtype(far * candidates, "float32"), types.out) != cast(far * candidates, types.out)
        number = float(candidates[np.argmax(twice)])
    elif recipe.startswith("least"):
        number = mantissa * 2.0 ** -min(limit + 1 + np.log2(far) / 2, own)
        number = -number if recipe == "least-negative" else number
    elif recipe == "greatest":
        number = mantissa * 2.0 ** min(limit + 1 - np.log2(far) / 2, own)
    return int(encode(types.scale, np.array(number)))
