"""Evaluating a reading once for each code, instead of once for each value.

A type of 8 bits or fewer has at most 256 codes, so that a large call of a few parameters meets each triple many times.
What a reading gives depends on the triple only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from xverify.contracts.model import Codes, Operands
from xverify.core.call import BITS

WORTH = 8
"""Values for each triple, at least, that make a table pay."""


@dataclass(frozen=True, eq=False)
class Table:
    """operands: each set of parameters with each code. index: of the triple of every value of the call, in its shape."""

    operands: Operands
    index: NDArray[np.integer]

    def met(self) -> NDArray[np.bool_]:
        """Which triples the call has, in the shape of the operands."""
        found = np.zeros(math.prod(self.operands.shape), np.bool_)
        found[self.index.reshape(-1)] = True
        return found.reshape(self.operands.shape)

    def spread(self, results: Codes) -> Codes:
        """The results of the table's triples as those of the call's values."""
        return np.asarray(np.ascontiguousarray(results).reshape(-1)[self.index])


def by_code(operands: Operands) -> Table | None:
    """The table of a call, or None where it has too many triples for its values."""
    role = "x" if "x" in operands.codes else "input"
    x, bits = operands.codes[role], BITS[operands.dtypes[role]]
    parameters = {name: codes for name, codes in operands.codes.items() if name != role}
    shape = np.broadcast_shapes(*(codes.shape for codes in parameters.values()))
    sets = math.prod(shape)
    if bits > 8 or x.shape != operands.shape or x.size < WORTH * (sets << bits):
        return None
    codes = {name: np.broadcast_to(given, shape)[..., None] for name, given in parameters.items()}
    codes[role] = np.arange(1 << bits, dtype=x.dtype)
    triples = replace(operands, codes=codes, shape=(*shape, 1 << bits))
    if sets == 1:
        return Table(triples, x)
    first = (np.arange(sets, dtype=np.int32) << bits).reshape(shape)
    return Table(triples, first + x)
