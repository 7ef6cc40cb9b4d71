"""The legal set of an allowed call: for every value, what the admitted readings give, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic.linear_operands import on_grid
from xverify.arithmetic.reading import Codes, Operands, Reading
from xverify.contracts.model import Contract, FixedResult
from xverify.core.bits import canonical, subnormals_work
from xverify.core.call import Call
from xverify.core.errors import BrokenEnvironmentError
from xverify.core.rounding import is_subnormal
from xverify.verify.large import by_code, in_blocks


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
    if contract.fixed_result is not None:
        return _as_given(contract.fixed_result(call))
    whole = contract.operands(call)
    operands, readings = on_grid(whole), contract.readings(call)
    table = by_code(operands)
    results, index = _evaluated(readings, operands if table is None else table.operands)
    if table is not None and len(results) > 1:
        # Readings that differ only for triples which the call has not are one.
        met = table.met()
        kept, index = _merged([codes[met] for codes, _ in results], index)
        results = [results[place] for place in kept]
    distinct = [codes for codes, _ in results]
    # Of one mask, which is usual, no copy: the ufunc's own reduce makes two.
    subnormal: NDArray[Any] = np.asarray(reduce(np.logical_or, [mask for _, mask in results]))
    if table is not None:
        distinct = [table.spread(codes) for codes in distinct]
        subnormal = table.spread(subnormal) if subnormal.any() else np.zeros(operands.shape, np.bool_)
    return Legal(
        whole.output_dtype,
        whole.shape,
        readings,
        tuple(codes.reshape(whole.shape) for codes in distinct),
        tuple(index),
        subnormal.reshape(whole.shape),
        not contract.keeps_subnormals,
    )


def _evaluated(
    readings: Sequence[Reading], operands: Operands
) -> tuple[list[tuple[Codes, NDArray[np.bool_]]], list[int]]:
    """The distinct results, each with which of it is subnormal, and for each reading which one is its own."""
    simple = [reading.simplified(operands) for reading in readings]
    proven = list(dict.fromkeys(simple))
    results = [in_blocks(one, operands) for one in proven]
    codes = [np.ascontiguousarray(found).reshape(operands.shape) for found, _ in results]
    kept, index = _merged(codes, [proven.index(one) for one in simple])
    return [(codes[place], results[place][1].reshape(operands.shape)) for place in kept], index


def _merged(results: Sequence[Codes], index: Sequence[int]) -> tuple[list[int], list[int]]:
    """Places of the results that differ, and an index into the results as one into these."""
    if len(results) == 1:
        return [0], list(index)
    known: dict[bytes, int] = {}
    first = [known.setdefault(codes.tobytes(), place) for place, codes in enumerate(results)]
    kept = list(known.values())
    return kept, [kept.index(first[place]) for place in index]


@dataclass(frozen=True)
class AsGiven:
    """The reading of a call whose result is given: it cannot be evaluated on others."""

    name: str = "given"
    words: str = "gives the same bits"

    def evaluate(self, operands: Operands) -> Codes:
        raise NotImplementedError("a given result is no recipe")

    def simplified(self, operands: Operands) -> Reading:
        return self


def _as_given(given: FixedResult) -> Legal:
    codes = np.ascontiguousarray(canonical(given.codes, given.dtype)).reshape(given.codes.shape)
    return Legal(
        given.dtype, codes.shape, (AsGiven(),), (codes,), (0,), is_subnormal(codes, given.dtype), may_flush=False
    )
