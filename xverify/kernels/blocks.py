"""Walk a tensor block by block, with the parameters that belong to each block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xverify.kernels.casting import Array, numbers

BLOCK = 1 << 16
"""Elements of a block: the largest temporary. In float32 it takes 256 KiB, and a core's own cache holds several."""

Index = tuple[slice, ...]
Fill = Callable[..., None]
"""fill(out, x, *parameters): write one block of the output. Parameters broadcast to x."""


@dataclass(frozen=True)
class Spread:
    """The granularity of parameters.

    A parameter array then has the rank of x: with x's extents but for the axis (blocked), or extents of 1 but for the
    axis (per axis).
    """

    axis: int | None = None
    """The axis along which parameters vary; None if one parameter serves all elements."""

    run: int = 1
    """Adjacent elements along the axis that share a parameter."""

    def shaped(self, parameter: Array | None, rank: int) -> Array | None:
        """The parameter in the form that `at` takes: 0-d, or of rank ``rank``."""
        if parameter is None:
            return None
        if self.axis is None:
            return parameter.reshape(())
        if parameter.ndim == 1:
            return parameter.reshape([parameter.size if i == self.axis else 1 for i in range(rank)])
        return parameter

    def at(self, parameter: Array | None, index: Index, real: np.dtype[Any] | None = None) -> Array | None:
        """The part of a shaped parameter that serves the block at ``index``.

        Args:
            real: the float type to convert to; None to keep the dtype.
        """
        if parameter is None or self.axis is None:
            return parameter
        along = index[self.axis]
        first = along.start // self.run
        part_index = tuple(
            slice(None)
            if extent == 1
            else slice(first, -(-along.stop // self.run))
            if i == self.axis and self.run > 1
            else part
            for i, (part, extent) in enumerate(zip(index, parameter.shape, strict=True))
        )
        parameters: Array = parameter[part_index]
        if real is not None and parameters.dtype != real:
            parameters = numbers(parameters, real)
        if self.run == 1:
            return parameters
        expanded: Array = np.take(parameters, np.arange(along.start, along.stop) // self.run - first, axis=self.axis)
        return expanded


@dataclass(frozen=True)
class Computed:
    """A parameter array whose parts are computed when they are taken.

    It has one parameter for each element of the operands.
    """

    compute: Callable[..., Array]
    """A function from arrays of one shape to an array of that shape and of ``dtype``."""

    operands: tuple[Array, ...]
    """The arrays that ``compute`` takes, all of one shape."""

    dtype: np.dtype[Any]
    """The dtype of the parameters."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.operands[0].shape

    @property
    def ndim(self) -> int:
        return self.operands[0].ndim

    @property
    def size(self) -> int:
        return self.operands[0].size

    def reshape(self, shape: int | list[int]) -> Computed:
        return replace(self, operands=tuple(operand.reshape(shape) for operand in self.operands))

    def __getitem__(self, index: Any) -> Array:
        return self.compute(*(operand[index] for operand in self.operands))


def blocks(shape: tuple[int, ...], limit: int = BLOCK) -> Iterator[Index]:
    """Slices that cover a shape of rank 1 or more, each of at most ``limit`` elements, none empty."""
    if 0 in shape:
        return
    inner, split = 1, len(shape) - 1
    while split > 0 and inner * shape[split] <= limit:
        inner *= shape[split]
        split -= 1
    step = limit // inner
    whole = tuple(slice(0, extent) for extent in shape[split + 1 :])
    for outer in np.ndindex(shape[:split]):
        before = tuple(slice(i, i + 1) for i in outer)
        for start in range(0, shape[split], step):
            yield (*before, slice(start, min(start + step, shape[split])), *whole)


def some_numbers(parameter: Array | None, real: np.dtype[Any]) -> Array | None:
    """A parameter as numbers if it has at most BLOCK elements. `Spread.at` converts a larger one by parts."""
    return parameter if parameter is None or parameter.size > BLOCK else numbers(parameter, real)


def block_size(real: np.dtype[Any] | None) -> int:
    """Elements of a block for arithmetic in that type.

    A block has half as many elements in float64, because they take twice the memory.
    """
    return BLOCK if real is None or real.itemsize == 4 else BLOCK // 2


def for_each_block(
    fill: Fill, out: Array, x: Array, spread: Spread, real: np.dtype[Any] | None, *parameters: Array | None
) -> None:
    """Call ``fill`` for every block of ``x`` and ``out``.

    Args:
        real: the float type of parameters, as for `Spread.at`.
        parameters: results of `some_numbers`.
    """
    if spread.axis is None and x.flags.c_contiguous and out.flags.c_contiguous:
        # One dimension: fewer and longer blocks, and no 0-d arrays, which NumPy turns into scalars.
        x, out = x.ravel(), out.ravel()
    limit = block_size(real)
    if x.size <= limit and spread.run == 1:
        fill(out, x, *parameters)
        return
    for index in blocks(x.shape, limit):
        fill(out[index], x[index], *(spread.at(p, index, real) for p in parameters))
