"""Calls of the same shape in common types and short numbers, for shrinking.

Each function yields candidates, the plainest first. A shrinker takes the first that still shows the fault.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

import numpy as np

from xverify.core.call import Call, Tensor
from xverify.core.dtypes import FLOATS, INTEGERS, common_first, decimal, encode, integer_range, values

PLAIN_TYPES = ("uint8", "int8")
"""Types of x that are tried first."""

PLAIN_SCALES = (0.5, 1.0, 2.0, 0.25, 0.1, 10.0)
"""Scales that are tried first."""

PLAIN_RANGES = ((0.0, 1.0), (-1.0, 1.0), (0.0, 10.0), (-1.0, 2.0), (0.1, 1.1), (-0.1, 0.9), (-1.1, 2.2), (-0.3, 25.7))
"""Ranges that are tried first."""

PLAIN_CODES = (1, 2, 3, 10, 100, 127, 200, 255, -1, -2, -3, -10, -100, -128)
"""Values of x that are tried first."""

PAIRED_SCALES = (0.1, 0.3, 0.7, 1.1, 0.01, 1.7)
"""Scales that are tried with each of `PLAIN_CODES`. Products with them are rounded."""

LONG = 5
"""Longest short decimal, in characters. A call of such numbers gets no plain pairs."""


def plainness(call: Call) -> tuple[int, ...]:
    """A sort key of calls, the plainest first: types, attributes, a negative axis, length of the numbers."""
    types = tuple(sorted((common_first(tensor.dtype) for tensor in call.tensors.values()), reverse=True))
    from_end = from_front(call) is not None
    return (*types, len(call.attributes), from_end, sum(map(_length, call.tensors.values())))


def _length(tensor: Tensor) -> int:
    """The length of a tensor's numbers in characters; more for exponents, NaN, infinities and -0."""
    codes = np.unique(tensor.codes.reshape(-1)[:4096])[:16]
    return sum(_characters(decimal(tensor.dtype, int(code))) for code in codes)


def _characters(number: str) -> int:
    if number in ("0", "0.0", "0.5"):
        return number == "0.5"
    odd = "e" in number or not math.isfinite(float(number)) or number == "-0.0"
    return len(number) + 8 * odd


def plainer_calls(call: Call) -> Iterator[Callable[[Call], Iterator[Call]]]:
    """The passes of a shrinker. Each takes the plainest call so far and yields candidates."""
    if "scale" in call.tensors and "x" in call.tensors:
        yield _other_types
    yield _fewer_attributes
    if "scale" in call.tensors and "x" in call.tensors:
        yield _plain_scales
        yield _plain_zero_points
        yield _plain_codes
        yield _plain_zero_points
        yield _plain_pairs
    if "min_range" in call.tensors and "max_range" in call.tensors:
        yield _plain_ranges


def _other_types(call: Call) -> Iterator[Call]:
    """The call with x and its zero point in a common type, and the scale in float32."""
    x, scale = call.tensors["x"], call.tensors["scale"]
    scales = [_recoded(scale, "float32"), scale] if scale.dtype in FLOATS and scale.dtype != "float32" else [scale]
    x_dtypes = [*(PLAIN_TYPES if x.dtype in INTEGERS else ()), x.dtype]
    for x_dtype, new_scale, wraps in product(dict.fromkeys(x_dtypes), scales, (False, True)):
        tensors = {**call.tensors, "scale": new_scale}
        for role in ("x", "zero_point"):
            if role in tensors and x_dtype != x.dtype and tensors[role].dtype == x.dtype:
                tensors[role] = _recoded(tensors[role], x_dtype, wraps)
        if x_dtype != x.dtype or (new_scale is not scale and not wraps):
            yield replace(call, tensors=tensors)


def _recoded(tensor: Tensor, dtype: str, wraps: bool = False) -> Tensor:
    """The numbers of a tensor in another type.

    Floats are rounded. Integers outside the type are moved to its nearest end, or keep their low bits if they wrap.
    """
    numbers = values(tensor.dtype, tensor.codes)
    if dtype in INTEGERS and not wraps:
        numbers = np.clip(numbers, *integer_range(dtype))
    return Tensor(dtype, encode(dtype, numbers).reshape(tensor.shape), tensor.layout)


def _fewer_attributes(call: Call) -> Iterator[Call]:
    if call.attributes:
        yield replace(call, attributes={})
    for name in call.attributes:
        yield replace(call, attributes={key: value for key, value in call.attributes.items() if key != name})
    counted = from_front(call)
    if counted is not None:
        yield counted


def from_front(call: Call) -> Call | None:
    """The same call with its axis counted from the front; None if it has no negative axis."""
    axis, rank = call.attributes.get("axis", 0), len(call.data.shape)
    if not isinstance(axis, int) or not -rank <= axis < 0:
        return None
    return replace(call, attributes={**call.attributes, "axis": axis + rank})


def _plain_ranges(call: Call) -> Iterator[Call]:
    for low, high in PLAIN_RANGES:
        yield _with(_with(call, "min_range", low), "max_range", high)


def _plain_scales(call: Call) -> Iterator[Call]:
    yield from (_with(call, "scale", number) for number in PLAIN_SCALES)
    yield from _rounded(call, "scale")


def _plain_zero_points(call: Call) -> Iterator[Call]:
    zero_point = call.tensors.get("zero_point")
    if zero_point is not None and zero_point.dtype in INTEGERS and zero_point.codes.any():
        low, high = integer_range(zero_point.dtype)
        yield from (_with(call, "zero_point", number) for number in (1, 2, 10, 100, 128) if low <= number <= high)


def _plain_codes(call: Call) -> Iterator[Call]:
    """The call with each number of x other than 0 replaced by the same plain number."""
    x = call.tensors["x"]
    low, high = integer_range(x.dtype) if x.dtype in INTEGERS else (-100, 100)
    for number in PLAIN_CODES:
        if low <= number <= high:
            code = encode(x.dtype, [number])[0]
            codes = np.where(x.codes != 0, code, x.codes).astype(x.codes.dtype)
            yield replace(call, tensors={**call.tensors, "x": replace(x, codes=codes)})


def _plain_pairs(call: Call) -> Iterator[Call]:
    """The call with a plain scale and plain numbers of x at once, unless its own numbers are short."""
    if all(
        len(decimal(t.dtype, int(code))) <= LONG for t in call.tensors.values() for code in t.codes.reshape(-1)[:16]
    ):
        return
    for scale in PAIRED_SCALES:
        yield from _plain_codes(_with(call, "scale", scale))


def _rounded(call: Call, role: str) -> Iterator[Call]:
    """The call with the numbers of a tensor rounded to few decimal digits."""
    tensor = call.tensors[role]
    numbers = values(tensor.dtype, tensor.codes)
    for digits in (1, 2, 3, 4):
        short = [float(f"{number:.{digits}g}") for number in numbers.reshape(-1)]
        codes = encode(tensor.dtype, np.array(short)).reshape(tensor.shape)
        yield replace(call, tensors={**call.tensors, role: replace(tensor, codes=codes)})


def _with(call: Call, role: str, number: float) -> Call:
    """The call with the same number in all elements of a tensor."""
    tensor = call.tensors[role]
    codes = np.broadcast_to(encode(tensor.dtype, [number]), tensor.codes.size).reshape(tensor.shape)
    return replace(
        call, tensors={**call.tensors, role: replace(tensor, codes=np.ascontiguousarray(codes).reshape(tensor.shape))}
    )
