"""Calls like an earlier one that was accepted: the checks of their addresses, and the launch.

They skip the checks of dtypes, shapes and attributes. All other calls go through `xverify.kernels.cuda.arrays`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cache
from typing import Any, NamedTuple

from xverify.kernels.cuda.arrays import with_device
from xverify.kernels.cuda.launch import Launch
from xverify.kernels.plans import FIXED

KEPT = 1024
"""Accepted calls that are kept. More of them displace all."""

_HASHED = FIXED | {tuple}


class Accepted(NamedTuple):
    """A launch, and the bytes of an element and of the whole of each array."""

    launch: Launch
    x_width: int
    x_bytes: int
    scale_width: int
    scale_bytes: int
    zero_width: int
    zero_bytes: int
    out_width: int
    out_bytes: int


@cache
def accepted_calls() -> dict[Hashable, Accepted]:
    """Accepted calls by what the checks read of them."""
    return {}


def repeated(x: Any, scale: Any, zero_point: Any, out: Any, attributes: tuple[Any, ...]) -> bool:
    """Launch a call that equals an accepted one but for its addresses. False if nothing was done.

    Args:
        x, scale, zero_point, out: arrays of any library. Only CuPy's on the current device can be those of such a call.
        attributes: the other arguments and the function's name, in the order that the function always takes. A tuple
            among them holds integers.
    """
    module = with_device()
    zero = scale if zero_point is None else zero_point
    array = module.ndarray
    if type(x) is not array or type(scale) is not array or type(zero) is not array or type(out) is not array:
        return False
    if not _HASHED.issuperset(map(type, attributes)):
        return False
    accepted = accepted_calls().get(_key(x, scale, zero, out, zero_point is None, attributes))
    if accepted is None:
        return False
    launch, x_width, x_bytes, scale_width, scale_bytes, zero_width, zero_bytes, out_width, out_bytes = accepted
    x_data, scale_data, zero_data, out_data = x.data, scale.data, zero.data, out.data
    x_at, scale_at, zero_at, out_at = x_data.ptr, scale_data.ptr, zero_data.ptr, out_data.ptr
    if x_at % x_width or scale_at % scale_width or zero_at % zero_width or out_at % out_width:
        return False
    out_end = out_at + out_bytes
    if (
        (x_at < out_end and out_at < x_at + x_bytes)
        or (scale_at < out_end and out_at < scale_at + scale_bytes)
        or (zero_at < out_end and out_at < zero_at + zero_bytes)
    ):
        return False
    device = module.cuda.runtime.getDevice()
    if not x_data.device_id == scale_data.device_id == zero_data.device_id == out_data.device_id == device:
        return False
    launch(out, x, scale, zero)
    return True


def accept(launch: Any, operands: Sequence[Any], out: Any, attributes: tuple[Any, ...]) -> None:
    """Keep a call of CuPy's arrays in C order that was accepted. launch: a plan's."""
    if not isinstance(launch, Launch) or not _HASHED.issuperset(map(type, attributes)):
        return
    x, scale, zero_point = operands
    zero = scale if zero_point is None else zero_point
    calls = accepted_calls()
    if len(calls) >= KEPT:
        calls.clear()
    sizes = (number for array in (x, scale, zero, out) for number in (array.dtype.itemsize, array.nbytes))
    calls[_key(x, scale, zero, out, zero_point is None, attributes)] = Accepted(launch, *sizes)


def _key(x: Any, scale: Any, zero: Any, out: Any, is_symmetric: bool, attributes: tuple[Any, ...]) -> Hashable:
    """All that the checks read, but for addresses. Strides tell whether an array is in C order."""
    return (
        x.dtype, x.shape, x.strides, scale.dtype, scale.shape, scale.strides, zero.dtype, zero.shape, zero.strides,
        out.dtype, out.shape, out.strides, is_symmetric, attributes,
    )  # fmt: skip
