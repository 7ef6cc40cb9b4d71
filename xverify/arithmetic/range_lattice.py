"""Every recipe of a range formula that attribution searches, and their evaluation as one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic.range_affine import Affine, affine_recipes
from xverify.arithmetic.range_readings import (
    MIN_COMBINED,
    MIN_FIRST,
    SCALED_FLOAT,
    SCALED_SYMMETRIC,
    MinCombined,
    MinFirst,
    ScaledByFloat,
    ScaledSymmetric,
)
from xverify.arithmetic.range_scaled import SCALED_RECIPES, Scaled
from xverify.arithmetic.range_stages import evaluated_together
from xverify.arithmetic.reading import Operands, Reading
from xverify.core.bits import canonical
from xverify.core.call import BITS
from xverify.core.dtypes import SIGNED, floats


def _composed() -> tuple[Reading, ...]:
    recipes: dict[Affine | Scaled, None] = dict.fromkeys((*SCALED_RECIPES, *affine_recipes()))
    return tuple(sorted(recipes, key=lambda recipe: recipe.departures))


RANGE_READINGS: tuple[Reading, ...] = (*MIN_COMBINED, *MIN_FIRST, *SCALED_FLOAT, *SCALED_SYMMETRIC, *_composed())
"""Every reading of a range formula, admitted or not, in the order of the search: the nearest to the texts first."""


@cache
def _named() -> Mapping[str, Reading]:
    return {reading.name: reading for reading in RANGE_READINGS}


def by_name(name: str) -> Reading:
    """The range reading of that name.

    Raises:
        KeyError: There is no reading of that name.
    """
    return _named()[name]


@cache
def _lattice(dtype: str, out: str, narrow_range: bool) -> tuple[Reading, ...]:
    types = Operands({}, {"input": dtype}, out, (), {"narrow_range": narrow_range})
    first: dict[Reading, Reading] = {}
    for reading in RANGE_READINGS:
        first.setdefault(reading.simplified(types), reading)
    return tuple(first.values())


def range_lattice(operands: Operands) -> tuple[Reading, ...]:
    """The range readings that may differ for the operands' types and options, in search order.

    Of readings with equal simplified forms, only the first is there.
    """
    return _lattice(operands.dtypes["input"], operands.output_dtype, bool(operands.options.get("narrow_range", False)))


def composed(reading: object, operands: Operands) -> tuple[Affine | Scaled, ...]:
    """The compositions of stages that a range reading stands for; () for a linear reading.

    They may differ in the last rounding from a reading that rounds the exact value once.
    """
    if isinstance(reading, Affine | Scaled):
        return (reading,)
    if isinstance(reading, ScaledByFloat):
        return (Scaled(steps="float32" if reading.input_rounded else "float64"),)
    if not isinstance(reading, MinCombined | MinFirst | ScaledSymmetric):
        return ()
    kind: Any = "float32" if reading.precision == "float32" else "float64"
    if isinstance(reading, MinFirst):
        return (Affine("lowest-in-integers", kind, kind, steps=kind, form="adjusted"),)
    if isinstance(reading, ScaledSymmetric):
        # 2 m / (max_fixed - min_fixed), where max_fixed - min_fixed is all levels of an unsigned type.
        divisor: Any = "bound" if operands.dtypes["input"] in SIGNED else "half-levels"
        return (Scaled("magnitude", divisor, factor=kind, steps=kind, narrow="never"),)
    forms: tuple[Any, ...] = ("quotient", "product-first")
    if reading.precision != "exact":
        forms = ("quotient",) if reading.factor_first else ("product-first",)
    return tuple(Affine("lowest-of-int8", kind, kind, steps=kind, form=form) for form in forms)


def flushing(reading: Reading, operands: Operands) -> tuple[Affine | Scaled, ...]:
    """The reading with each float32 result that is subnormal replaced by a zero of its sign.

    The ends of the range stay. Empty if no intermediate result of the call can be subnormal.
    """
    recipes = composed(reading, operands)
    if not any("float32" in (recipe.steps, getattr(recipe, "factor", "")) for recipe in recipes):
        return ()
    low, high = (floats("float32", operands.codes[role]) for role in ("min_range", "max_range"))
    # The smallest factor is the distance of the ends, or an end, over at most the number of values.
    least = 2.0 ** (BITS[operands.dtypes["input"]] - 126)
    with np.errstate(invalid="ignore"):
        parts = (high - low,) if isinstance(recipes[0], Affine) else (low, high)
    if not any(((part != 0.0) & (np.abs(part) < least)).any() for part in parts):
        return ()
    return tuple(replace(recipe, subnormals="results-flushed") for recipe in recipes)


def evaluate_all(readings: Sequence[Reading], operands: Operands) -> list[NDArray[Any]]:
    """The output codes of each reading, every NaN made canonical.

    Common stages are evaluated once, and results with the same cast are cast in batches.
    """
    composed = evaluated_together([reading for reading in readings if isinstance(reading, Affine | Scaled)], operands)
    composed_codes, out = iter(composed), operands.output_dtype
    return [
        next(composed_codes) if isinstance(reading, Affine | Scaled) else canonical(reading.evaluate(operands), out)
        for reading in readings
    ]
