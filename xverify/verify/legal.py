"""The legal set of an allowed call: the results of the admitted readings, bit for bit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic import range_lattice
from xverify.arithmetic.linear_operands import on_grid
from xverify.arithmetic.operand_key import MOST_CACHED, OperandKey, operand_key
from xverify.arithmetic.reading import Codes, Operands, Reading
from xverify.arithmetic.readings import Stepwise
from xverify.contracts.model import Contract, FixedResult
from xverify.core.bits import canonical, subnormals_work
from xverify.core.call import BITS, Call
from xverify.core.dtypes import MANTISSA_BITS, floats
from xverify.core.errors import BrokenEnvironmentError
from xverify.core.rounding import cast, is_subnormal
from xverify.verify.large import by_code, in_blocks


@dataclass(frozen=True, eq=False)
class Legal:
    """The legal set of a call. Readings that agree on the call share one array."""

    dtype: str
    """The output's dtype."""
    shape: tuple[int, ...]
    """The output's shape."""
    readings: tuple[Reading, ...]
    """The admitted readings."""
    distinct: tuple[NDArray[Any], ...]
    """The distinct results: output codes with NaN made canonical, in the output's shape."""
    index: tuple[int, ...]
    """For each reading, the index of its result in ``distinct``."""
    subnormal: NDArray[np.bool_]
    """The mask of values for which some reading gives a subnormal number, perhaps before its last rounding.

    No text covers them.
    """
    may_flush: bool = True
    """True if zero is not wrong where ``subnormal`` holds."""
    flushed_steps: tuple[NDArray[Any], ...] = ()
    """Further legal results: those of the readings with zeros in place of subnormal intermediate results.

    Empty if these are not accepted, or none is subnormal.
    """
    flushed_inputs: tuple[NDArray[Any], ...] = ()
    """Further legal results: those of the readings with zeros in place of subnormal inputs. Empty if these are not accepted."""
    open: NDArray[np.bool_] | None = None
    """For a call among neighbours that change values: the mask of values that no text states. None for other calls.

    Any result of ``distinct`` is then legal for each value by itself, and there is no reading of the whole.
    """

    @property
    def in_graph(self) -> bool:
        """True for a call among neighbours that change values."""
        return self.open is not None

    def codes(self, reading: int) -> NDArray[Any]:
        """The codes of the reading with this index."""
        return self.distinct[self.index[reading]]


def legal_set(contract: Contract, call: Call) -> Legal:
    """Compute the legal set of an allowed call.

    Raises:
        BrokenEnvironmentError: this process flushes subnormal numbers to zero.
    """
    if not subnormals_work():
        raise BrokenEnvironmentError("this process flushes subnormal numbers to zero: its results cannot be trusted")
    if contract.fixed_result is not None:
        return _as_given(contract.fixed_result(call))
    operands, readings = contract.operands(call), contract.readings(call)
    if math.prod(operands.shape) > MOST_CACHED:
        return _by_readings(readings, contract.denormals, operands)
    return _cached(readings, contract.denormals, operand_key(operands))


@lru_cache(maxsize=2048)
def _cached(readings: tuple[Reading, ...], denormals: str, key: OperandKey) -> Legal:
    """The legal set of operands. Calls of many editions share it, so its arrays are read-only."""
    legal = _by_readings(readings, denormals, key.operands())
    for codes in (*legal.distinct, legal.subnormal, *legal.flushed_steps, *legal.flushed_inputs):
        codes.flags.writeable = False
    return legal


def _by_readings(readings: tuple[Reading, ...], denormals: str, whole: Operands) -> Legal:
    """The legal set of operands by these readings.

    Args:
        denormals: The treatment of subnormal numbers that is accepted, as in `Contract.denormals`.
    """
    operands = on_grid(whole)
    table = by_code(operands)
    triples = operands if table is None else table.operands
    results, index = _evaluated(readings, triples)
    zeroed = subnormals_as_zero(triples) if denormals == "flush-inputs" else None
    others = [] if zeroed is None else _evaluated(readings, zeroed)[0]
    may_flush = denormals != "keep"
    steps = _flushed_steps(readings, triples) if may_flush else []
    if zeroed is not None:
        others += _flushed_steps(readings, zeroed)
    if table is not None and len(results) > 1:
        # Merge readings that differ only for triples which the call does not hold.
        met = table.met()
        kept, index = _merged([codes[met] for codes, _ in results], index)
        results = [results[position] for position in kept]
    distinct, flushed_steps, flushed_inputs = ([codes for codes, _ in some] for some in (results, steps, others))
    # A single mask, the usual case, is not copied; the ufunc's own reduce makes two copies.
    subnormal: NDArray[Any] = np.asarray(reduce(np.logical_or, [mask for _, mask in (*results, *others)]))
    if table is not None:
        distinct, flushed_steps, flushed_inputs = (
            [table.spread(codes) for codes in some] for some in (distinct, flushed_steps, flushed_inputs)
        )
        subnormal = table.spread(subnormal) if subnormal.any() else np.zeros(operands.shape, np.bool_)
    return Legal(
        whole.output_dtype,
        whole.shape,
        readings,
        tuple(codes.reshape(whole.shape) for codes in distinct),
        tuple(index),
        subnormal.reshape(whole.shape),
        may_flush,
        tuple(codes.reshape(whole.shape) for codes in flushed_steps),
        tuple(codes.reshape(whole.shape) for codes in flushed_inputs),
    )


def _flushed_steps(readings: Sequence[Reading], operands: Operands) -> list[tuple[Codes, NDArray[np.bool_]]]:
    """The results of range readings whose subnormal intermediate results count as zero.

    A linear reading has one product, which is subnormal only where its result is, or is zero.
    """
    if "min_range" not in operands.codes:
        return []
    flushing = [recipe for reading in readings for recipe in range_lattice.flushing(reading, operands)]
    return _evaluated(flushing, operands)[0] if flushing else []


def official_set(contract: Contract, call: Call) -> Legal | None:
    """The legal set of an open call whose result an official case states; None for other calls.

    The stated result is the only legal one. The admitted readings stand for it if all of them give it.
    """
    due = contract.due(call)
    if due is None:
        return None
    stated, by_readings = _as_given(FixedResult(due.dtype, due.codes)), legal_set(contract, call)
    agree = (by_readings.dtype, len(by_readings.distinct)) == (due.dtype, 1)
    return by_readings if agree and np.array_equal(by_readings.distinct[0], stated.distinct[0]) else stated


def subnormals_as_zero(operands: Operands) -> Operands | None:
    """The operands with a zero of the same sign in place of each input that is subnormal in float32.

    float32 is the type of the arithmetic. A subnormal number of bfloat16 or float8_e8m0fnu is subnormal there too. One of
    float16 or of an 8-bit float is a normal number of float32.

    Returns:
        None if no input is subnormal.
    """
    codes: dict[str, Codes] = {}
    dtypes = dict(operands.dtypes)
    for role, dtype in operands.dtypes.items():
        if dtype in ("float32", "bfloat16"):
            subnormal = is_subnormal(operands.codes[role], dtype)
            sign = operands.codes[role].dtype.type(1 << (BITS[dtype] - 1))
        elif dtype == "float8_e8m0fnu":
            # This type has no zero, so its numbers become float32.
            subnormal, sign = np.asarray(operands.codes[role] == 0), np.uint32(0)
        else:
            continue
        if subnormal.any():
            wide = operands.codes[role]
            if dtype == "float8_e8m0fnu":
                wide, dtypes[role] = cast(floats(dtype, wide), "float32"), "float32"
            codes[role] = np.where(subnormal, wide & sign, wide)
    return replace(operands, codes={**operands.codes, **codes}, dtypes=dtypes) if codes else None


def _evaluated(
    readings: Sequence[Reading], operands: Operands
) -> tuple[list[tuple[Codes, NDArray[np.bool_]]], list[int]]:
    """The distinct results with their subnormal masks, and each reading's index among them."""
    simple = [reading.simplified(operands) for reading in readings]
    proven = list(dict.fromkeys(simple))
    results = [in_blocks(reading, operands) for reading in proven]
    codes = [np.ascontiguousarray(values).reshape(operands.shape) for values, _ in results]
    subnormal = [mask.reshape(operands.shape) for _, mask in results]
    for reading, values in zip(proven, codes, strict=True):
        if (rounded_up := _rounded_up(reading, operands, values)) is not None:
            subnormal = [mask | rounded_up for mask in subnormal]
    kept, index = _merged(codes, [proven.index(reading) for reading in simple])
    return [(codes[position], subnormal[position]) for position in kept], index


def _rounded_up(reading: Reading, operands: Operands, codes: Codes) -> NDArray[np.bool_] | None:
    """The mask of results that the last rounding lifts from subnormal to the smallest normal number.

    IEEE 754 lets a processor detect underflow before or after that rounding, so it may flush them.

    Source: IEEE 754-2019, 7.5.
    """
    if not isinstance(reading, Stepwise) or reading.final != "nearest" or not codes.size:
        return None
    dtype = operands.output_dtype
    positive, sign = 1 << MANTISSA_BITS[dtype], 1 << (BITS[dtype] - 1)
    least = (codes == positive) | (codes == (sign | positive))
    if not least.any():
        return None
    truncated, _ = in_blocks(replace(reading, final="truncated"), operands)
    return np.asarray(least & is_subnormal(truncated.reshape(operands.shape), dtype))


def _merged(results: Sequence[Codes], index: Sequence[int]) -> tuple[list[int], list[int]]:
    """The indices of the results that differ, and ``index`` mapped to them."""
    if len(results) == 1:
        return [0], list(index)
    first_by_bits: dict[bytes, int] = {}
    first = [first_by_bits.setdefault(codes.tobytes(), position) for position, codes in enumerate(results)]
    kept = list(first_by_bits.values())
    return kept, [kept.index(first[position]) for position in index]


@dataclass(frozen=True)
class AsGiven:
    """The reading of a call whose result is fixed. It cannot be evaluated on other calls."""

    name: str = "given"
    words: str = "gives the same bits"

    def evaluate(self, operands: Operands) -> Codes:
        raise NotImplementedError("a given result is no recipe")

    def simplified(self, operands: Operands) -> Reading:
        return self


def _as_given(result: FixedResult) -> Legal:
    codes = np.ascontiguousarray(canonical(result.codes, result.dtype)).reshape(result.codes.shape)
    return Legal(
        result.dtype, codes.shape, (AsGiven(),), (codes,), (0,), is_subnormal(codes, result.dtype), may_flush=False
    )
