"""Operands of linear calls: the triple (x, scale, zero point) of each output value."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic.reading import Codes, Operands
from xverify.core.call import Call, Tensor
from xverify.core.dtypes import integers


def normal_axis(axis: int, rank: int) -> int | None:
    """The axis counted from the front, or None outside [-rank, rank - 1]."""
    return axis % rank if -rank <= axis < rank else None


def ceil_div(extent: int, block_size: int) -> int:
    """The number of blocks of an axis. The last block may be partial."""
    return -(-extent // block_size)


def along_axis(codes: NDArray[Any], axis: int, rank: int) -> NDArray[Any]:
    """A parameter's elements in a shape that broadcasts along one axis. The parameter may have any rank."""
    return codes.reshape([-1 if i == axis else 1 for i in range(rank)])


def repeated(codes: NDArray[Any], axis: int, block_size: int, extent: int) -> NDArray[Any]:
    """A blocked parameter, each element repeated ``block_size`` times along the axis.

    Args:
        codes: The parameter, of the rank of x.
        axis: The axis of the blocks, counted from the front.
        block_size: The number of values that share an element.
        extent: The length of that axis of x. The last block may be partial.
    """
    run = min(block_size, extent)
    whole = codes if run == 1 else np.repeat(codes, run, axis=axis)
    return whole[(slice(None),) * axis + (slice(extent),)]


def spread(parameter: Tensor, x: Tensor, axis: int | None, block_size: int) -> NDArray[Any]:
    """The codes of a scale or zero point, in a shape that broadcasts to x.

    A single element serves the whole tensor. A 1-D parameter lies along the axis. A parameter of the rank of x is blocked.

    Raises:
        ValueError: There are several elements but no axis, or the axis is outside the rank of x.
    """
    codes = parameter.codes
    if codes.size == 1:
        return codes.reshape(())
    if axis is None:
        raise ValueError(f"a parameter has {codes.size} elements, but the call names no axis for them")
    rank = len(x.shape)
    from_front = normal_axis(axis, rank)
    if from_front is None:
        raise ValueError(f"axis {axis} is outside [-{rank}, {rank - 1}]")
    if codes.ndim == rank and block_size > 0:
        return repeated(codes, from_front, block_size, x.shape[from_front])
    return along_axis(codes, from_front, rank)


@dataclass(frozen=True, eq=False)
class Blocked(Mapping[str, Codes]):
    """The codes of a blocked call by role, in the shape of x.

    Repeated parameters are as large as x, so they are made on first use only.
    """

    codes: Mapping[str, Codes]
    """The codes of x in the shape ``grid``, and those of each parameter with extent 1 inside a block."""
    grid: tuple[int, ...]
    """The shape of x with two axes in place of ``axis``: the blocks, and the values inside a block."""
    axis: int
    """The axis of the blocks, counted from the front."""
    repeated_codes: dict[str, Codes] = field(default_factory=dict)
    """The codes that were used already, in the shape of x."""

    def __getitem__(self, role: str) -> Codes:
        if role not in self.repeated_codes:
            self.repeated_codes[role] = self._as_x(self.codes[role])
        return self.repeated_codes[role]

    def __iter__(self) -> Iterator[str]:
        return iter(self.codes)

    def __len__(self) -> int:
        return len(self.codes)

    def _as_x(self, codes: Codes) -> Codes:
        axis, inside = self.axis, self.axis + 1
        if codes.shape[inside] == 1:
            codes = np.repeat(codes, self.grid[inside], inside)
        return codes.reshape(*self.grid[:axis], self.grid[axis] * self.grid[inside], *self.grid[inside + 1 :])


def on_grid(operands: Operands) -> Operands:
    """The same triples in the same order, in a shape that needs no repeated parameters."""
    codes = operands.codes
    return replace(operands, codes=codes.codes, shape=codes.grid) if isinstance(codes, Blocked) else operands


def linear_operands(call: Call, output_dtype: str, axis: int | None, block_size: int = 0) -> Operands:
    """The triples of a linear call.

    Args:
        call: The call, with tensors x, scale and perhaps zero_point.
        output_dtype: The dtype of the result.
        axis: The axis of the parameters. It may count from the back.
        block_size: The number of values that share a parameter, 0 if the call is not blocked.
    """
    x = call.tensors["x"]
    parameters = {role: call.tensors[role] for role in ("scale", "zero_point") if role in call.tensors}
    dtypes = {role: tensor.dtype for role, tensor in {"x": x, **parameters}.items()}
    codes: Mapping[str, Codes] | None = _blocked(x, parameters, axis, block_size)
    if codes is None:
        codes = {"x": x.codes} | {
            role: spread(parameter, x, axis, block_size) for role, parameter in parameters.items()
        }
    return Operands(codes, dtypes, output_dtype, x.shape)


def _blocked(x: Tensor, parameters: Mapping[str, Tensor], axis: int | None, block_size: int) -> Blocked | None:
    """The codes of a call with several whole blocks of several values each, None for any other call."""
    rank = len(x.shape)
    from_front = None if axis is None else normal_axis(axis, rank)
    if from_front is None or block_size < 2 or x.shape[from_front] % block_size:
        return None
    blocks = (*x.shape[:from_front], x.shape[from_front] // block_size, *x.shape[from_front + 1 :])
    if math.prod(blocks) < 2 or any(parameter.shape != blocks for parameter in parameters.values()):
        return None
    grid = (*blocks[: from_front + 1], block_size, *blocks[from_front + 1 :])
    codes = {"x": x.codes.reshape(grid)}
    codes |= {role: np.expand_dims(parameter.codes, from_front + 1) for role, parameter in parameters.items()}
    return Blocked(codes, grid, from_front)


def has_nonzero(tensor: Tensor) -> bool:
    """True if an integer tensor holds a number other than 0."""
    return bool(integers(tensor.dtype, tensor.codes).any())
