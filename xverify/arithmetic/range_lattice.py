"""Every recipe of a range formula that attribution searches, and their evaluation as one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from numpy.typing import NDArray

from xverify.arithmetic.range_affine import Affine, affine_recipes
from xverify.arithmetic.range_readings import MIN_COMBINED, MIN_FIRST, SCALED_FLOAT, SCALED_SYMMETRIC
from xverify.arithmetic.range_scaled import SCALED_RECIPES, Scaled
from xverify.arithmetic.range_stages import evaluated_together
from xverify.arithmetic.reading import Operands, Reading
from xverify.core.bits import canonical


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
