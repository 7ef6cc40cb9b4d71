"""What every linear edition shares: granularity, axis, and which triple each output value gets."""

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


@dataclass(frozen=True, eq=False)
class Blocked(Mapping[str, Codes]):
    """Codes by role, in x's shape; those of parameters are repeated when they are asked for, since they are as large as x then.

    grid: x's shape with its axis at ``place`` as two, blocks and places in a block. codes: x's in that shape, and those of
    parameters with one place in a block.
    """

    codes: Mapping[str, Codes]
    grid: tuple[int, ...]
    place: int
    asked: dict[str, Codes] = field(default_factory=dict)

    def __getitem__(self, role: str) -> Codes:
        if role not in self.asked:
            self.asked[role] = self._as_x(self.codes[role])
        return self.asked[role]

    def __iter__(self) -> Iterator[str]:
        return iter(self.codes)

    def __len__(self) -> int:
        return len(self.codes)

    def _as_x(self, codes: Codes) -> Codes:
        place, inside = self.place, self.place + 1
        if codes.shape[inside] == 1:
            codes = np.repeat(codes, self.grid[inside], inside)
        return codes.reshape(*self.grid[:place], self.grid[place] * self.grid[inside], *self.grid[inside + 1 :])


def on_grid(operands: Operands) -> Operands:
    """The same triples in the same order, in the shape in which blocked parameters need not be repeated."""
    codes = operands.codes
    return replace(operands, codes=codes.codes, shape=codes.grid) if isinstance(codes, Blocked) else operands


def linear_operands(call: Call, output_dtype: str, axis: int | None, block_size: int = 0) -> Operands:
    """The triples of a linear call whose axis and block size are known."""
    x = call.tensors["x"]
    parameters = {role: call.tensors[role] for role in ("scale", "zero_point") if role in call.tensors}
    dtypes = {role: tensor.dtype for role, tensor in {"x": x, **parameters}.items()}
    codes: Mapping[str, Codes] | None = _blocked(x, parameters, axis, block_size)
    if codes is None:
        codes = {"x": x.codes} | {role: spread(one, x, axis, block_size) for role, one in parameters.items()}
    return Operands(codes, dtypes, output_dtype, x.shape)


def _blocked(x: Tensor, parameters: Mapping[str, Tensor], axis: int | None, block_size: int) -> Blocked | None:
    """The codes of a call of several blocks, each of which is whole and has several values."""
    rank = len(x.shape)
    place = None if axis is None else normal_axis(axis, rank)
    if place is None or block_size < 2 or x.shape[place] % block_size:
        return None
    blocks = (*x.shape[:place], x.shape[place] // block_size, *x.shape[place + 1 :])
    if math.prod(blocks) < 2 or any(one.shape != blocks for one in parameters.values()):
        return None
    grid = (*blocks[: place + 1], block_size, *blocks[place + 1 :])
    codes = {"x": x.codes.reshape(grid)}
    codes |= {role: np.expand_dims(one.codes, place + 1) for role, one in parameters.items()}
    return Blocked(codes, grid, place)


def has_nonzero(tensor: Tensor) -> bool:
    """Whether an integer tensor holds anything but 0."""
    return bool(integers(tensor.dtype, tensor.codes).any())
