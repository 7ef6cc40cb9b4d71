"""Attribution: which known reading, legal or not, gives the values that an implementation gave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
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


def explaining(contract: Contract, call: Call, got: Tensor, among: tuple[str, ...] | None = None) -> tuple[str, ...]:
    """Names of the known readings (of those ``among``, when given) that give every value of ``got``."""
    operands = contract.operands(call)
    if got.dtype != operands.output_dtype or got.shape != operands.shape:
        return ()
    codes: NDArray[Any] = canonical(got.codes, got.dtype)
    known = readings_of(contract.domain.family)
    gives: dict[Reading, bool] = {}
    names = []
    for name in known if among is None else among:
        simple = known[name].simplified(operands)
        if simple not in gives:
            gives[simple] = np.array_equal(canonical(simple.evaluate(operands), got.dtype), codes)
        if gives[simple]:
            names.append(name)
    return tuple(names)


@cache
def readings_of(family: str) -> Mapping[str, Reading]:
    """The readings of a family by name, in the order of their preference."""
    linear: tuple[Reading, ...] = LINEAR_READINGS
    return {reading.name: reading for reading in (RANGE_READINGS if family == "range" else linear)}


def named(contract: Contract, name: str) -> Reading:
    """The known reading of that name."""
    return readings_of(contract.domain.family)[name]
