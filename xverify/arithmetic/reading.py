"""Operands of a formula, and the protocol of a reading: a complete recipe of arithmetic on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.unsignedinteger]


@dataclass(frozen=True)
class Operands:
    """The operands of one allowed or unspecified call."""

    codes: Mapping[str, Codes]
    """The codes of each operand by role, after indexing. Each array broadcasts to ``shape``.

    Every output value has its own x, scale and zero point, or its own input and range.
    """
    dtypes: Mapping[str, str]
    """The dtype of each operand by role."""
    output_dtype: str
    shape: tuple[int, ...]
    """The shape of the output."""
    options: Mapping[str, int | str | bool] = field(default_factory=dict)
    """Attributes that the formula depends on: mode and narrow_range."""


class Reading(Protocol):
    """A complete recipe of arithmetic. It is immutable and hashable, and works on arrays."""

    def __hash__(self) -> int: ...

    @property
    def name(self) -> str:
        """A short name that no other reading has, such as "exact" or "float32"."""
        ...

    @property
    def words(self) -> str:
        """The recipe in words, as a sentence's predicate."""
        ...

    def evaluate(self, operands: Operands) -> Codes:
        """The output codes in ``operands.output_dtype`` and ``operands.shape``."""
        ...

    def simplified(self, operands: Operands) -> Reading:
        """A reading that gives the same bits for every value of the operands' types.

        Two readings whose simplified forms are equal are proven equal.
        """
        ...
