"""Attribution: which known reading, legal or not, gives the values that an implementation gave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.contracts.model import Contract, Reading
from xverify.contracts.ranges import RANGE_READINGS
from xverify.contracts.readings import LINEAR_READINGS
from xverify.core.bits import canonical
from xverify.core.call import Call, Tensor


@dataclass(frozen=True)
class Attribution:
    """``reading`` gives ``explained`` of the ``values`` that were wrong, and all the others too."""

    reading: str
    words: str
    explained: int
    values: int


def candidates(contract: Contract) -> tuple[Reading, ...]:
    """The readings that are searched for a contract, in the order of their preference."""
    return RANGE_READINGS if contract.domain.family == "range" else LINEAR_READINGS


def attribute(contract: Contract, call: Call, got: Tensor, wrong: NDArray[np.bool_]) -> Attribution | None:
    """The first known reading that gives every value of ``got``, or None."""
    operands = contract.operands(call)
    if got.dtype != operands.output_dtype or got.shape != operands.shape:
        return None
    codes: NDArray[Any] = canonical(got.codes, got.dtype)
    for reading in candidates(contract):
        given = canonical(reading.evaluate(operands), got.dtype)
        if np.array_equal(given, codes):
            count = int(np.count_nonzero(wrong))
            return Attribution(reading.name, reading.words, count, count)
    return None
