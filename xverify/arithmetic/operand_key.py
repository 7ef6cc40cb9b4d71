"""Operands as a key of caches.

Cells of many editions and granularities get the same triples. With this key, a result that was computed for one of them
serves all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xverify.arithmetic.reading import Operands
from xverify.core.call import code_dtype

MOST_CACHED = 2048
"""The largest number of values of a call for which results are cached."""


@dataclass(frozen=True)
class OperandKey:
    """Operands in a hashable form."""

    codes: tuple[tuple[str, str, tuple[int, ...], bytes], ...]
    """Role, dtype, shape and bytes of the codes of each operand, in the order of the roles' names."""
    out: str
    """The output dtype."""
    shape: tuple[int, ...]
    """The output shape."""
    options: tuple[tuple[str, Any], ...] = ()
    """Name and value of each option, in the order of the names."""

    def operands(self) -> Operands:
        """The operands that this key stands for."""
        codes = {role: np.frombuffer(data, code_dtype(dtype)).reshape(shape) for role, dtype, shape, data in self.codes}
        dtypes = {role: dtype for role, dtype, _, _ in self.codes}
        return Operands(codes, dtypes, self.out, self.shape, dict(self.options))


def operand_key(operands: Operands) -> OperandKey:
    """The key of the operands."""
    return OperandKey(
        tuple(
            (role, operands.dtypes[role], codes.shape, codes.tobytes())
            for role, codes in sorted(operands.codes.items())
        ),
        operands.output_dtype,
        operands.shape,
        tuple(sorted(operands.options.items())),
    )
