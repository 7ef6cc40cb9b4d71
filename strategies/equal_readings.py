"""Proofs that readings are equal on all allowed calls of a cell.

There are three kinds: by the lengths of numbers (see `simplify`), by the calls that the edition leaves open, and by
enumeration.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from xverify.arithmetic.reading import Reading
from xverify.arithmetic.readings import Stepwise
from xverify.arithmetic.simplify import Types, simplified, types_of
from xverify.arithmetic.stages import FOLDED
from xverify.contracts.model import Cell, Contract
from xverify.core.call import Call, Tensor
from xverify.core.dtypes import INTEGERS, MANTISSA_BITS, MIN_EXPONENT, encode, integer_range
from xverify.strategies import ties
from xverify.strategies.triples import differences_of
from xverify.strategies.walk import simplest

_PRECISION = {"float64": 53, "float32": 24}


def cell_call(contract: Contract, cell: Cell) -> Call:
    """An allowed call of a cell, with a zero point other than 0 unless it must be 0."""
    call = simplest(contract, cell)
    if "zero_point" in call.tensors:
        zero_point = call.tensors["zero_point"]
        other = Tensor(zero_point.dtype, np.ones_like(zero_point.codes))
        changed = replace(call, tensors={**call.tensors, "zero_point": other})
        if contract.judge(changed).verdict == "allowed":
            return changed
    return call


def simplified_for_cell(contract: Contract, call: Call, reading: Reading) -> Reading:
    """The simplified form of a reading on a cell. Readings with equal forms are proven equal there.

    Where the text leaves differences past int32 open, wrapping and saturating at int32 are exact. Where the text wants a zero
    point of 0, readings are equal that are equal without a zero point. Those that multiply the zero point are an exception,
    since 0 times an infinite scale is NaN.

    Args:
        contract: The edition.
        call: A call of the cell, see `cell_call`.
        reading: The reading.
    """
    operands = contract.operands(call)
    if not isinstance(reading, Stepwise):
        return reading.simplified(operands)
    if reading.subtraction in ("wrap-int32", "saturate-int32") and _inside_int32(contract, call):
        reading = replace(reading, subtraction="exact")
    types = types_of(operands)
    if reading.operation not in FOLDED and reading.subtraction != "negated" and only_zero(call):
        types = replace(types, zero_point="")
    return _by_enumeration(simplified(reading, types), types)


def _by_enumeration(reading: Stepwise, types: Types) -> Stepwise:
    """The reading with one rounding instead of two, where that changes no value of the types."""
    plain = (reading.subtraction, reading.difference, reading.scale_cast, reading.final) == (
        "exact",
        "exact",
        "none",
        "nearest",
    )
    if (
        plain
        and reading.operation == "multiply"
        and reading.subnormals == "kept"
        and _never_near(types, reading.precision)
    ):
        return replace(reading, precision="once")
    fits = reading.difference == "float32" or (
        types.x in ("int8", "uint8") and types.zero_point != "int32" and not types.has_float_zero_point
    )
    singles = types.scale == types.out == "float32" and types.x in ("int8", "uint8")
    if (
        (reading.operation, reading.precision, reading.scale_cast, reading.final)
        == ("reciprocal", "float64", "none", "nearest")
        and reading.subnormals == "kept"
        and fits
        and singles
    ):
        # A quotient of numbers of 24 bits is at least 2^-49 of itself away from every number of 25 bits, so from every
        # midpoint. The reciprocal in float64 and the product with it are off by less than 2^-51.
        return replace(reading, operation="divide", precision="once")
    return reading


@lru_cache(maxsize=256)
def _never_near(types: Types, precision: str) -> bool:
    """True if rounding products of 8-bit types to a precision first never changes the result.

    No product is so near a midpoint of the output type then.

    For every possible difference, all mantissas of the scale are searched. A product that is subnormal in float32 or bfloat16
    must be exact in that precision, which holds as all products are multiples of one unit. In float16, any product may be
    subnormal, so midpoints of fewer bits are searched too.
    """
    if precision not in _PRECISION or types.x in INTEGERS or types.x != (types.zero_point or types.x):
        return False
    if types.scale not in ("float32", "bfloat16"):
        return False
    rounded, bits, kept = _PRECISION[precision], MANTISSA_BITS[types.scale] + 1, MANTISSA_BITS[types.out] + 1
    unit = types.lowest + MIN_EXPONENT[types.scale] - MANTISSA_BITS[types.scale]
    small = types.out == "float16"
    if (not small and MIN_EXPONENT[types.out] - unit > rounded) or (
        precision == "float32" and not small and unit < -149
    ):
        return False
    _, _, differences = differences_of(types, False, np.random.default_rng(0), every=True)
    kinds = [(fewer, fewer == 0) for fewer in range(kept)] if small else []
    return not any(
        True
        for difference in differences.tolist()
        for most, above in ((kept, False), *kinds)
        for _ in ties.factors(
            difference, 1 << (bits - 1), 1 << bits, most, rounded, np.random.default_rng(difference), above
        )
    )


def only_zero(call: Call) -> bool:
    """True if a call made by `cell_call` has a zero point that must be 0."""
    zero_point = call.tensors.get("zero_point")
    return zero_point is not None and not zero_point.codes.any()


def _inside_int32(contract: Contract, call: Call) -> bool:
    """True if the edition leaves calls open whose differences leave int32."""
    x, zero_point = call.data, call.tensors.get("zero_point")
    if x.dtype not in ("int8", "uint8") or zero_point is None or zero_point.dtype != "int32":
        return False
    highest = encode(x.dtype, np.array(integer_range(x.dtype)[1]))
    tensors = {
        **call.tensors,
        "x": Tensor(x.dtype, np.full_like(x.codes, highest)),
        "zero_point": Tensor("int32", np.full_like(zero_point.codes, 1 << 31)),
    }
    return contract.judge(replace(call, tensors=tensors)).verdict != "allowed"
