"""Calls with distinct codes, and the result of each indexing mistake, by loops over elements."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod
from typing import Any

import numpy as np

from xverify import contracts
from xverify.arithmetic.reading import Operands
from xverify.core.call import BITS, Call, Tensor, code_dtype

CONTRACT = contracts.get("ai.onnx/DequantizeLinear-21")
Where = tuple[int, ...]
PARAMETERS = ("scale", "zero_point")


def codes(dtype: str, shape: tuple[int, ...], first: int = 0) -> Any:
    """Codes that differ from their neighbours. All differ where the type has enough codes."""
    numbers = np.arange(first, first + prod(shape)) * 7 % (1 << min(BITS[dtype], 16))
    return numbers.astype(code_dtype(dtype)).reshape(shape)


def a_call(
    shape: tuple[int, ...],
    parameters: tuple[int, ...],
    axis: int = 0,
    block: int = 0,
    dtype: str = "int8",
    layout: str = "C",
    zero_points: bool = True,
) -> Call:
    tensors = {
        "x": Tensor(dtype, codes(dtype, shape, 3), layout),
        "scale": Tensor("float32", codes("float32", parameters, 100)),
    }
    if zero_points:
        tensors["zero_point"] = Tensor(dtype, codes(dtype, parameters, 1))
    return Call(CONTRACT.id, tensors, {"axis": axis} | ({"block_size": block} if block else {}))


def spread(operands: Operands, role: str) -> Any:
    return np.broadcast_to(operands.codes[role], operands.shape)


# -- the mistakes of a parameter's index, element by element ----------------------------------------------


class Param:
    """A scale or zero point of several elements, and its placement along x, in plain Python."""

    def __init__(self, call: Call, role: str) -> None:
        self.codes = call.tensors[role].codes
        self.flat = [int(c) for c in self.codes.ravel()]
        self.shape = call.tensors["x"].shape
        self.rank = len(self.shape)
        self.attribute = int(call.attributes["axis"])
        self.axis = self.attribute % self.rank
        self.block = int(call.attributes.get("block_size", 0))
        self.extent = self.shape[self.axis]
        self.count = self.codes.shape[self.axis] if self.block else len(self.flat)
        self.full = self.extent // self.block if self.block else 0

    def at(self, where: Where, number: int) -> int:
        """The element at an index along the axis, or the nearest one, for a value of x."""
        number = min(max(number, 0), self.count - 1)
        if not self.block:
            return self.flat[number]
        return int(self.codes[(*where[: self.axis], number, *where[self.axis + 1 :])])

    def in_memory(self, number: int) -> int:
        return self.flat[min(number, len(self.flat) - 1)]

    def position(self, where: Where, shape: tuple[int, ...] | None = None) -> int:
        """The flat index in C order of an element of x, or of a tensor of another shape."""
        number = 0
        for index, extent in zip(where, self.shape if shape is None else shape, strict=True):
            number = number * extent + index
        return number


Wrong = Callable[[Param, Where], int | None]


def along_another(rule: Callable[[Param], int]) -> Wrong:
    def wrong(p: Param, where: Where) -> int | None:
        axis = rule(p)
        if axis == p.axis or axis not in range(p.rank):
            return None
        if not p.block:
            return p.flat[where[axis] % len(p.flat)]
        shape = list(p.shape)
        shape[axis] = (shape[axis] + p.block - 1) // p.block
        if prod(shape) > len(p.flat):
            return None
        block = list(where)
        block[axis] //= p.block
        return p.flat[p.position(tuple(block), tuple(shape))]

    return wrong


def of_blocks(number: Callable[[Param, int], int]) -> Wrong:
    return lambda p, w: p.at(w, number(p, w[p.axis])) if p.block else None


def of_channels(number: Callable[[Param, int], int]) -> Wrong:
    return lambda p, w: None if p.block else p.at(w, number(p, w[p.axis]))


def in_remainder(p: Param, i: int) -> bool:
    return p.full > 0 and i >= p.full * p.block


def with_full_blocks(p: Param, where: Where) -> int | None:
    if not p.block:
        return None
    block = (*where[: p.axis], where[p.axis] // p.block, *where[p.axis + 1 :])
    stride, number = 1, 0
    for i in reversed(range(p.rank)):
        number += block[i] * stride
        stride *= max(p.full, 1) if i == p.axis else p.shape[i]
    return p.in_memory(number)


def block_of(p: Param, where: Where) -> Where:
    return (*where[: p.axis], where[p.axis] // p.block, *where[p.axis + 1 :])


def column_order(shape: tuple[int, ...]) -> list[Where]:
    return [tuple(reversed(w)) for w in product(*(range(e) for e in reversed(shape)))]


def read_transposed(p: Param, where: Where) -> int | None:
    return p.flat[column_order(p.codes.shape).index(block_of(p, where))] if p.block else None


def transposed(p: Param, where: Where) -> int | None:
    if not p.block:
        return None
    stored = [int(p.codes[w]) for w in column_order(p.codes.shape)]
    return stored[p.position(block_of(p, where), p.codes.shape)]


def of_first_slice(p: Param, where: Where) -> int | None:
    return (
        p.at(tuple(i if n == p.axis else 0 for n, i in enumerate(where)), where[p.axis] // p.block) if p.block else None
    )


def in_blocks_of_rows(p: Param, where: Where) -> int | None:
    block = prod(p.shape) // len(p.flat)
    before = p.position((*where[:-1], 0)) // block
    return None if p.block else p.in_memory(before + where[-1] // block)


WRONG: dict[str, Wrong] = {
    "as-per-tensor": lambda p, w: p.flat[0],
    "last-axis": along_another(lambda p: p.rank - 1),
    **{f"other-axis-{n}": along_another(lambda p, n=n: n) for n in range(6)},  # type: ignore[misc]
    "axis-from-other-end": along_another(lambda p: list(reversed(range(p.rank)))[p.axis]),
    "absolute-axis": along_another(lambda p: abs(p.attribute)),
    "next-axis": along_another(lambda p: p.axis + 1),
    "previous-axis": along_another(lambda p: p.axis - 1),
    "channel-index-plus-one": of_channels(lambda p, i: i + 1),
    "channel-index-minus-one": of_channels(lambda p, i: i - 1),
    "channels-reversed": of_channels(lambda p, i: list(reversed(range(p.count)))[i]),
    "remainder-as-previous-block": of_blocks(lambda p, i: p.full - 1 if in_remainder(p, i) else i // p.block),
    "remainder-as-first-block": of_blocks(lambda p, i: 0 if in_remainder(p, i) else i // p.block),
    "block-index-plus-one": of_blocks(lambda p, i: i // p.block + 1),
    "block-index-minus-one": of_blocks(lambda p, i: i // p.block - 1),
    "block-size-ignored": of_blocks(lambda p, i: i),
    "blocks-tiled": of_blocks(lambda p, i: (list(range(p.count)) * p.extent)[i]),
    "block-length-rounded-down": of_blocks(lambda p, i: i // int(p.extent / p.count)),
    "block-length-rounded-up": of_blocks(lambda p, i: i // ((p.extent + p.count - 1) // p.count)),
    "blocks-reversed": of_blocks(lambda p, i: list(reversed(range(p.count)))[i // p.block]),
    "first-block": of_blocks(lambda p, i: 0),
    "flat-blocks": lambda p, w: p.in_memory(p.position(w) // p.block) if p.block else None,
    "full-blocks-stride": with_full_blocks,
    "parameters-read-transposed": read_transposed,
    "parameters-transposed": transposed,
    "first-slice": of_first_slice,
    "flat-position-modulo-count": lambda p, w: p.flat[p.position(w) % len(p.flat)],
    "flat-chunks": lambda p, w: p.in_memory(p.position(w) // (prod(p.shape) // len(p.flat))),
    "row-chunks": in_blocks_of_rows,
}


# -- indices in memory ------------------------------------------------------------------------------------


def neighbours(items: list[int], group: int, order: list[int], padding: bool) -> list[int]:
    """The elements, read in a wrong order within each group of one byte."""
    result = []
    for start in range(0, len(items), group):
        own = items[start : start + group]
        full = own + [0] * (group - len(own))
        for index, number in enumerate(order[: len(own)]):
            result.append(full[number] if padding or number < len(own) else own[index])
    return result


PACKED: dict[str, tuple[int, Callable[[list[int]], list[int]]]] = {
    "nibbles-swapped": (4, lambda items: neighbours(items, 2, [1, 0], True)),
    "nibbles-swapped-in-pairs": (4, lambda items: neighbours(items, 2, [1, 0], False)),
    "low-nibble-twice": (4, lambda items: neighbours(items, 2, [0, 0], True)),
    "high-nibble-twice": (4, lambda items: neighbours(items, 2, [1, 1], True)),
    "fours-reversed": (2, lambda items: neighbours(items, 4, [3, 2, 1, 0], True)),
}
X_ONLY: dict[str, Callable[[list[int]], list[int]]] = {
    "x-plus-one": lambda items: items[1:] + items[-1:],
    "x-minus-one": lambda items: items[:1] + items[:-1],
}
