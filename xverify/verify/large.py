"""Readings evaluated on large calls: once per code instead of once per value, or else in blocks.

A type of at most 8 bits has at most 256 codes. So a large call with few parameters holds each triple of code, scale and zero
point many times, and a reading's result depends on the triple only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic.reading import Codes, Operands, Reading
from xverify.core.bits import canonical, kinds
from xverify.core.call import BITS, code_dtype
from xverify.core.rounding import is_subnormal

WORTH = 8
"""The least number of values per triple at which a table saves time."""

BLOCK = 1 << 15
"""Values that are computed together, so that intermediate results stay in the cache."""


@dataclass(frozen=True, eq=False)
class Table:
    """Each set of parameters combined with each code of x."""

    operands: Operands
    """The operands of the triples."""
    codes: Codes
    """The code of each value of the call."""
    first: NDArray[np.intp]
    """The number of the first triple of each value's parameters; it broadcasts to the call's shape."""

    def met(self) -> NDArray[np.bool_]:
        """The mask of triples that the call holds, in the shape of the operands."""
        mask = np.zeros(math.prod(self.operands.shape), np.bool_)
        for some in self._triples():
            mask[some] = True
        return mask.reshape(self.operands.shape)

    def spread(self, results: Codes) -> Codes:
        """Map the results of the table's triples to the call's values."""
        table = np.ascontiguousarray(results).reshape(-1)
        spread, start = np.empty(self.codes.size, table.dtype), 0
        for some in self._triples():
            np.take(table, some, out=spread[start : start + some.size], mode="clip")
            start += some.size
        return spread.reshape(self.codes.shape)

    def spread_each(self, results: Sequence[Codes]) -> list[Codes]:
        """Map each of these results. Results that are equal on the call share one array."""
        met = self.met()
        spread: dict[bytes, Codes] = {}
        shared: list[Codes] = []
        for codes in results:
            bits = codes[met].tobytes()
            if bits not in spread:
                spread[bits] = self.spread(codes)
            shared.append(spread[bits])
        return shared

    def _triples(self) -> Iterator[NDArray[np.integer]]:
        """Yield the triples' numbers in C order, in blocks. Each block is valid until the next is drawn."""
        if self.first.size == 1:  # then the codes are the triples' numbers
            flat = self.codes.reshape(-1)
            yield from (flat[start : start + BLOCK] for start in range(0, flat.size, BLOCK))
            return
        memory = np.empty(BLOCK, np.intp)
        every = np.nditer(
            [self.codes, self.first],
            ["external_loop", "buffered"],
            [["readonly"], ["readonly"]],
            [np.intp, np.intp],
            order="C",
            buffersize=BLOCK,
        )
        for code, first in every:
            yield np.add(code, first, out=memory[: len(code)])


def by_code(operands: Operands) -> Table | None:
    """The table of a call; None if it has too many triples for its values."""
    role = "x" if "x" in operands.dtypes else "input"
    bits = BITS[operands.dtypes[role]]
    if bits > 8 or math.prod(operands.shape) < WORTH << bits:
        return None
    x = operands.codes[role]
    parameters = {name: codes for name, codes in operands.codes.items() if name != role}
    shape = np.broadcast_shapes(*(codes.shape for codes in parameters.values()))
    sets = math.prod(shape)
    if x.shape != operands.shape or x.size < WORTH * (max(1, sets) << bits):
        return None
    if bits < 8 and int(x.max()) >> bits:
        return None  # the table has no entries for codes with unused bits set
    codes = {name: np.broadcast_to(array, shape)[..., None] for name, array in parameters.items()}
    codes[role] = np.arange(1 << bits, dtype=x.dtype)
    triples = replace(operands, codes=codes, shape=(*shape, 1 << bits))
    return Table(triples, x, (np.arange(sets) << bits).reshape(shape))


def in_blocks(reading: Reading, operands: Operands) -> tuple[Codes, NDArray[np.bool_]]:
    """The reading's codes, NaN made canonical, and the mask of subnormal ones, in the operands' shape."""
    large = [role for role, codes in operands.codes.items() if codes.size > 1]
    dtype, size = operands.output_dtype, math.prod(operands.shape)
    if size <= 2 * BLOCK:
        codes, small = _told_apart(np.asarray(reading.evaluate(operands)), dtype)
        return codes, np.zeros(codes.shape, np.bool_) if small is None else small
    wide = [np.broadcast_to(operands.codes[role], operands.shape) for role in large]
    every = np.nditer(wide, ["external_loop", "buffered"], [["readonly"]] * len(large), order="C", buffersize=BLOCK)
    # An array of zeros takes memory and time only where it is written.
    result, subnormal, start = np.empty(size, code_dtype(dtype)), np.zeros(size, np.bool_), 0
    for some in every:
        block: Any = some if len(large) > 1 else (some,)
        parts = {**operands.codes, **dict(zip(large, block, strict=True))}
        part = replace(operands, codes=parts, shape=parts[large[0]].shape)
        end = start + part.shape[0]
        result[start:end], small = _told_apart(np.asarray(reading.evaluate(part)), dtype)
        if small is not None:
            subnormal[start:end] = small
        start = end
    return result.reshape(operands.shape), subnormal.reshape(operands.shape)


def _told_apart(codes: Codes, dtype: str) -> tuple[Codes, NDArray[np.bool_] | None]:
    """The codes, NaN made canonical, and the mask of subnormal ones; None if there is none."""
    has_nan, has_subnormal = kinds(codes, dtype)
    codes = canonical(codes, dtype) if has_nan else codes
    return codes, is_subnormal(codes, dtype) if has_subnormal else None
