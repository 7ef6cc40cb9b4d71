"""Operands of range calls for tests: special codes, special ranges, and random recipes."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import exact_ranges
import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic.reading import Codes, Operands
from xverify.core.call import code_dtype

DTYPES = ("int8", "uint8", "int16", "uint16", "int32")
RANGES = (
    (-1.0, 1.0),
    (0.0, 1.0),
    (-3.3, 7.1),
    (-7.1, 3.3),
    (-5.0, 0.0),
    (-0.0, 3.0),
    (0.999, 1.0),
    (1.0, 1.0 + 2.0**-23),
    (-6.1, -6.0),
    (100.0, 101.7),
    (-1e-3, 1e20),
    (-3e38, 3e38),
    (1e38, 3.4e38),
    (1e-38, 1.2e-38),
    (-3e-38, 5e-37),
    (-1e-36, 1e-38),
    (1e-40, 2e-40),
    (0.0, 5e-39),
    (3e-39, 1e-35),
    (-1e-42, 1e-44),
    (2.0, 1.0),
    (1.5, 1.5),
)
"""Pairs (min, max) of either sign, far from zero, wide enough to overflow, subnormal, reversed or equal."""


def codes_of(dtype: str, count: int, rng: np.random.Generator) -> NDArray[np.unsignedinteger]:
    """Return all 256 codes of 8 bits. For wider types, codes at the ends, near zero, and random ones."""
    kind = code_dtype(dtype)
    bits = 8 * kind.itemsize
    if bits == 8:
        return np.arange(256, dtype=np.uint8)
    half, last = 1 << (bits - 1), (1 << bits) - 1
    special = np.array([0, 1, 2, 3, half - 2, half - 1, half, half + 1, half + 2, last - 1, last], kind)
    return np.concatenate([special, rng.integers(0, last, count - special.size, kind, endpoint=True)])


def ends_of(ranges: tuple[tuple[float, float], ...]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the codes of min and max."""
    low, high = (np.array(side, np.float32).view(np.uint32) for side in zip(*ranges, strict=True))
    return low, high


def operands_of(dtype: str, codes: Codes, low: Codes, high: Codes, narrow_range: bool, out: str) -> Operands:
    shape = np.broadcast_shapes(codes.shape, low.shape, high.shape)
    types = {"input": dtype, "min_range": "float32", "max_range": "float32"}
    tensors = {"input": codes, "min_range": low, "max_range": high}
    return Operands(tensors, types, out, shape, {"mode": "SCALED", "narrow_range": narrow_range})


def elements_of(operands: Operands) -> list[exact_ranges.RangeElement]:
    """Return the elements of a call."""
    x, low, high = np.broadcast_arrays(*(operands.codes[role] for role in ("input", "min_range", "max_range")))
    dtype, narrow_range, out = operands.dtypes["input"], bool(operands.options["narrow_range"]), operands.output_dtype
    return [
        exact_ranges.RangeElement(dtype, int(a), int(b), int(c), narrow_range, out)
        for a, b, c in zip(x.flat, low.flat, high.flat, strict=True)
    ]


def compositions(recipe: Any, count: int, seed: int) -> list[Any]:
    """Draw recipes of a class, also some that no search tries."""
    rng = np.random.default_rng(seed)
    choices = {stage: get_args(literal) for stage, literal in get_type_hints(recipe).items()}
    return [recipe(**{stage: of[rng.integers(len(of))] for stage, of in choices.items()}) for _ in range(count)]
