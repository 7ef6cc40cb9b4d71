"""Operands of a formula, and a reading: a complete recipe of arithmetic on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.unsignedinteger]


@dataclass(frozen=True)
class Operands:
    """The operands of one allowed or unspecified call, broadcastable to the output's shape.

    codes: per role, the codes of each operand after indexing (so that every output value has its own
    x, scale and zero point, or its own input and range). dtypes: per role. options: what else the formula
    depends on (mode, narrow_range).
    """

    codes: Mapping[str, Codes]
    dtypes: Mapping[str, str]
    output_dtype: str
    shape: tuple[int, ...]
    options: Mapping[str, int | str | bool] = field(default_factory=dict)


class Reading(Protocol):
    """A complete recipe of arithmetic; frozen, hashable, evaluated on arrays."""

    def __hash__(self) -> int: ...

    @property
    def name(self) -> str:
        """Short and unique among all readings, e.g. "exact" or "float32"."""
        ...

    @property
    def words(self) -> str:
        """The recipe in words, as a sentence's predicate."""
        ...

    def evaluate(self, operands: Operands) -> Codes:
        """The output codes in ``operands.output_dtype`` and ``operands.shape``."""
        ...

    def simplified(self, operands: Operands) -> Reading:
        """A reading that gives the same bits for every value of the operands' types; equal ones are proven equal."""
        ...
