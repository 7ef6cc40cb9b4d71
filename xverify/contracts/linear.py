"""What every linear edition shares: granularity, axis, and which triple each output value gets."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.contracts.model import Operands
from xverify.core.call import Call, Tensor
from xverify.core.dtypes import integers


def normal_axis(axis: int, rank: int) -> int | None:
    """The axis counted from the front, or None outside [-rank, rank - 1]."""
    return axis % rank if -rank <= axis < rank else None


def ceil_div(extent: int, block_size: int) -> int:
    return -(-extent // block_size)


def along_axis(codes: NDArray[Any], axis: int, rank: int) -> NDArray[Any]:
    """A parameter's elements, of whatever rank, shaped to broadcast along one axis."""
    return codes.reshape([-1 if i == axis else 1 for i in range(rank)])


def repeated(codes: NDArray[Any], axis: int, block_size: int, extent: int) -> NDArray[Any]:
    """A blocked parameter with every element repeated ``block_size`` times along the axis; the last block may be
    partial."""
    run = min(block_size, extent)
    whole = codes if run == 1 else np.repeat(codes, run, axis=axis)
    return whole[(slice(None),) * axis + (slice(extent),)]


def spread(parameter: Tensor, x: Tensor, axis: int | None, block_size: int) -> NDArray[Any]:
    """The codes of a scale or zero point, broadcastable to x.

    A single element serves the whole tensor; a 1-D parameter goes along the axis; one of x's rank is blocked. Raises ValueError
    where several elements have no axis.
    """
    codes = parameter.codes
    if codes.size == 1:
        return codes.reshape(())
    if axis is None:
        raise ValueError(f"{codes.size} elements of a parameter, and no axis")
    rank = len(x.shape)
    place = normal_axis(axis, rank)
    if place is None:
        raise ValueError(f"axis {axis} is outside [-{rank}, {rank - 1}]")
    if codes.ndim == rank and block_size > 0:
        return repeated(codes, place, block_size, x.shape[place])
    return along_axis(codes, place, rank)


def linear_operands(call: Call, output_dtype: str, axis: int | None, block_size: int = 0) -> Operands:
    """The triples of a linear call whose axis and block size are known."""
    x = call.tensors["x"]
    codes: dict[str, Any] = {"x": x.codes}
    for role in ("scale", "zero_point"):
        if role in call.tensors:
            codes[role] = spread(call.tensors[role], x, axis, block_size)
    dtypes = {role: call.tensors[role].dtype for role in codes}
    return Operands(codes, dtypes, output_dtype, x.shape)


def has_nonzero(tensor: Tensor) -> bool:
    """Whether an integer tensor holds anything but 0."""
    return bool(integers(tensor.dtype, tensor.codes).any())
