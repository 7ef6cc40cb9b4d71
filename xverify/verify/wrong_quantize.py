"""Ways of QuantizeLinear to compute codes that its text does not admit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic.linear_operands import spread
from xverify.contracts.model import Contract
from xverify.core.call import Call, Tensor
from xverify.core.dtypes import INTEGERS, encode, integer_range, values
from xverify.core.moves import Node
from xverify.core.rounding import cast
from xverify.verify.graph_values import Quantizing, Values, fixed, quantized, united


def half_away(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """The numbers, rounded to whole numbers, and halves away from zero."""
    return np.copysign(np.floor(np.abs(numbers) + 0.5), numbers)


_WRAPS, _LOWEST = "wraps around", "gives the lowest code for every infinity"

_INT32 = "casts the quotient to int32 before it saturates"
"""The rounding of onnx's reference evaluator. On x86, the lowest int32 takes the place of what int32 cannot hold."""

_NARROW = "adds the zero point in the type of its operand"
"""The sum of TVM. A float16 does not hold every int16."""

_SHIFTED = "rounds half up after it adds the zero point"
"""The steps of onnx 1.14's reference evaluator, each in the type of the operand. The text's sum of whole numbers is exact."""

HALF = "rounds the quotient to float16 before the cast"
"""The conversion to float8 of OpenVINO."""

PLAIN = "rounds half to even"
"""The rounding of the text. Unlike the text, it gives a code for a subnormal scale too."""

_Rounding = Callable[[NDArray[np.float64]], NDArray[np.float64]]

WRONG_ROUNDINGS: Mapping[str, _Rounding] = {
    "truncates": np.trunc,
    "rounds down": np.floor,
    "rounds half up": lambda numbers: np.floor(numbers + 0.5),
    "rounds half away from zero": half_away,
    _WRAPS: np.rint,
    _INT32: np.rint,
    _LOWEST: np.rint,
    _NARROW: np.rint,
    _SHIFTED: lambda numbers: numbers,
}
"""Ways of QuantizeLinear to round a quotient that its text does not admit. `_WRAPS` does not saturate."""

BEYOND = (_INT32, _LOWEST)
"""Ways that are right for most quotients, and give one code for all that are beyond a bound."""

_ROUNDINGS: Mapping[str, _Rounding] = {PLAIN: np.rint, **WRONG_ROUNDINGS}


@cache
def rounding_by(way: str) -> Quantizing:
    """The QuantizeLinear that rounds in a way of `quantized_by`, the same function each time."""
    return partial(quantized_by, way)


def quantized_by(
    way: str,
    contract: Contract,
    call: Call,
    node: Node,
    inputs: list[Values],
) -> Values:
    """Integer codes that another rounding gives, with a quotient in float64 or the operand's type.

    Raises:
        ValueError: The codes are floats, the parameters do not fit, or the framework has no QuantizeLinear.
    """
    if way == PLAIN and not contract.id.startswith(("ai.onnx/", "com.microsoft/")):
        raise ValueError("no text of a QuantizeLinear")
    x = inputs[0]
    dtype = inputs[2].dtype if len(inputs) > 2 else str(node.attributes.get("output_dtype", "uint8"))
    if way == HALF and dtype.startswith("float8"):
        return _quantized_from_float16(contract, call, node, inputs)
    if dtype not in INTEGERS or way == HALF:
        raise ValueError("only integers")
    lowest, highest = integer_range(dtype)
    axis, block_size = int(node.attributes.get("axis", 1)), int(node.attributes.get("block_size", 0))
    divisor, *offsets = (
        values(each.dtype, spread(each.tensor(0), x.tensor(0), axis, block_size)) for each in inputs[1:3]
    )
    offset = offsets[0] if offsets else np.float64(0.0)
    pieces = []
    with np.errstate(all="ignore"):
        exact = np.asarray(x.numbers / divisor)
        for quotient in (exact, _rounded_to(x.dtype, exact)):
            rounded = _ROUNDINGS[way](quotient.reshape(x.codes.shape))
            if way == _INT32:
                rounded = np.where((rounded >= -(2.0**31)) & (rounded < 2.0**31), rounded, -(2.0**31))
            numbers = np.nan_to_num(rounded + offset)
            if way in (_NARROW, _SHIFTED):
                numbers = _rounded_to(x.dtype, numbers)
            if way == _SHIFTED:
                numbers = np.floor(_rounded_to(x.dtype, numbers + 0.5))
            kept = np.mod(numbers - lowest, highest - lowest + 1) + lowest if way == _WRAPS else numbers
            kept = np.where(np.isinf(quotient), lowest, kept) if way == _LOWEST else kept
            # The sum with the zero point is in int32, too.
            kept = np.mod(numbers + 2.0**31, 2.0**32) - 2.0**31 if way == _INT32 else kept
            # No text says what such a way makes of a quotient that is not finite: 0, or an end of the range.
            for end in (lowest, highest) if way == PLAIN else ():
                pieces.append(
                    encode(dtype, np.where(np.isfinite(quotient), np.clip(kept, lowest, highest), end).astype(np.int64))
                )
            pieces.append(encode(dtype, np.clip(kept, lowest, highest).astype(np.int64)))
    unclear = np.isnan(exact) if way in BEYOND else ~np.isfinite(exact) & (way != PLAIN)
    return united(dtype, np.concatenate(pieces), x.open | unclear.any(0))


def _rounded_to(dtype: str, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """The numbers of a float type next to these, half to even."""
    return values(dtype, np.asarray(cast(numbers, dtype))).reshape(numbers.shape)


def _quantized_from_float16(contract: Contract, call: Call, node: Node, inputs: list[Values]) -> Values:
    """The codes of float8 that the text gives for the quotient in float16."""
    x, scale, *zero_points = inputs
    axis, block_size = int(node.attributes.get("axis", 1)), int(node.attributes.get("block_size", 0))
    with np.errstate(all="ignore"):
        quotient = x.numbers / values(scale.dtype, spread(scale.tensor(0), x.tensor(0), axis, block_size))
        halves = cast(values("float32", np.asarray(cast(quotient, "float32"))), "float16")
    operand = Values("float16", np.asarray(halves).reshape(x.codes.shape), x.open | ~np.isfinite(quotient).all(0))
    one = np.full(scale.open.shape, cast(np.ones(()), "float16"), np.uint16)
    return quantized(contract, call, node, [operand, fixed(Tensor("float16", one)), *zero_points])
