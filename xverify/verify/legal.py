"""The legal set of an allowed call: for every value, what the admitted readings give, bit for bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.contracts.model import Codes, Contract, Given, Operands, Reading
from xverify.core.bits import canonical, subnormals_work
from xverify.core.call import Call
from xverify.core.rounding import is_subnormal


class BrokenEnvironmentError(RuntimeError):
    """This process flushes subnormals, so nothing that it computes can be trusted."""


@dataclass(frozen=True, eq=False)
class Legal:
    """Output codes by reading, NaN made canonical; readings that agree on the call share one array.

    subnormal: where some reading's result is a subnormal number, which no text covers. may_flush: whether zero may come out
    there.
    """

    dtype: str
    shape: tuple[int, ...]
    readings: tuple[Reading, ...]
    distinct: tuple[NDArray[Any], ...]
    index: tuple[int, ...]
    subnormal: NDArray[np.bool_]
    may_flush: bool = True

    def codes(self, reading: int) -> NDArray[Any]:
        """The codes that the reading of that number gives."""
        return self.distinct[self.index[reading]]


def legal_set(contract: Contract, call: Call) -> Legal:
    """The legal set of a call. Raises BrokenEnvironmentError when this process no longer computes with subnormals."""
    if not subnormals_work():
        raise BrokenEnvironmentError("this process flushes subnormal numbers to zero: its results cannot be trusted")
    if contract.given is not None:
        return _as_given(contract.given(call))
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
    subnormal = np.asarray(np.logical_or.reduce([is_subnormal(codes, dtype) for codes in distinct]))
    may_flush = not contract.keeps_subnormals
    return Legal(dtype, operands.shape, readings, tuple(distinct), tuple(index), subnormal, may_flush)


@dataclass(frozen=True)
class AsGiven:
    """The reading of a call whose result is given: it cannot be evaluated on others."""

    name: str = "given"
    words: str = "gives the same bits"

    def evaluate(self, operands: Operands) -> Codes:
        raise NotImplementedError("a given result is no recipe")

    def simplified(self, operands: Operands) -> Reading:
        return self


def _as_given(given: Given) -> Legal:
    codes = np.ascontiguousarray(canonical(given.codes, given.dtype)).reshape(given.codes.shape)
    return Legal(
        given.dtype, codes.shape, (AsGiven(),), (codes,), (0,), is_subnormal(codes, given.dtype), may_flush=False
    )
