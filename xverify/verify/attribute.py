"""Attribution: which known reading, legal or not, gives the values that an implementation gave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.contracts.affine import RANGE_READINGS
from xverify.contracts.model import Contract, Reading
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
    linear: tuple[Reading, ...] = LINEAR_READINGS
    return RANGE_READINGS if contract.domain.family == "range" else linear


def explaining(contract: Contract, call: Call, got: Tensor, among: tuple[str, ...] | None = None) -> tuple[str, ...]:
    """Names of the known readings (of those ``among``, when given) that give every value of ``got``."""
    operands = contract.operands(call)
    if got.dtype != operands.output_dtype or got.shape != operands.shape:
        return ()
    codes: NDArray[Any] = canonical(got.codes, got.dtype)
    return tuple(
        reading.name
        for reading in candidates(contract)
        if (among is None or reading.name in among)
        and np.array_equal(canonical(reading.evaluate(operands), got.dtype), codes)
    )


def named(contract: Contract, name: str) -> Reading:
    """The known reading of that name."""
    return next(reading for reading in candidates(contract) if reading.name == name)
