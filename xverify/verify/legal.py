"""The legal set of an allowed call: for every value, what the admitted readings give, bit for bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.contracts.model import Contract, Reading
from xverify.core.bits import canonical, subnormals_work
from xverify.core.call import Call
from xverify.core.rounding import is_subnormal


class BrokenEnvironmentError(RuntimeError):
    """This process flushes subnormals, so nothing that it computes can be trusted."""


@dataclass(frozen=True, eq=False)
class Legal:
    """Output codes by reading, NaN made canonical; readings that agree on the call share one array.

    subnormal: where some reading's result is a subnormal number, which no text covers.
    """

    dtype: str
    shape: tuple[int, ...]
    readings: tuple[Reading, ...]
    distinct: tuple[NDArray[Any], ...]
    index: tuple[int, ...]
    subnormal: NDArray[np.bool_]

    def codes(self, reading: int) -> NDArray[Any]:
        """The codes that the reading of that number gives."""
        return self.distinct[self.index[reading]]


def legal_set(contract: Contract, call: Call) -> Legal:
    """The legal set of a call. Raises BrokenEnvironmentError when this process no longer computes with subnormals."""
    if not subnormals_work():
        raise BrokenEnvironmentError("this process flushes subnormal numbers to zero: its results cannot be trusted")
    operands = contract.operands(call)
    readings = contract.readings(call)
    dtype = operands.output_dtype
    distinct: list[NDArray[Any]] = []
    index: list[int] = []
    known: dict[bytes, int] = {}
    proven: dict[Reading, int] = {}
    for reading in readings:
        simple = reading.simplified(operands)
        if simple not in proven:
            codes = np.ascontiguousarray(canonical(simple.evaluate(operands), dtype)).reshape(operands.shape)
            key = codes.tobytes()
            if key not in known:
                known[key] = len(distinct)
                distinct.append(codes)
            proven[simple] = known[key]
        index.append(proven[simple])
    subnormal = np.logical_or.reduce([is_subnormal(codes, dtype) for codes in distinct])
    return Legal(dtype, operands.shape, readings, tuple(distinct), tuple(index), np.asarray(subnormal))
