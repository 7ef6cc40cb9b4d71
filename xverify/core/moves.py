"""Operators that only move data, by their names in ONNX: each written for a shape at hand, and run on arrays."""

# ruff: noqa: B905

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Tuple

import numpy as np

Shape = Tuple[int, ...]
Array = Any  # "np.ndarray[Any, Any]", which NumPy for Python 3.8 can't subscript at run time
Value = Any  # an attribute of a call, or a tuple of whole numbers

_TO_THE_END = 2**31 - 1


@dataclass(frozen=True)
class Node:
    """An operator by its name in ONNX; whether its lists of whole numbers are attributes or inputs is for who renders it.

    of_call: it is of the call's own domain and edition."""

    operator: str
    inputs: tuple[str, ...]
    output: str
    attributes: Mapping[str, Value] = field(default_factory=dict)
    of_call: bool = False


@dataclass(frozen=True)
class Move:
    """An operator that moves data from one shape to another. pieces: extents of what is joined, for Concat."""

    operator: str
    given: Shape
    attributes: Mapping[str, Value] = field(default_factory=dict)
    pieces: tuple[int, ...] = ()


# -- moves ------------------------------------------------------------------------------------------------


def axis_of(number: int, rank: int) -> int:
    """The axis that a number means; a negative one is spelled from the back."""
    place = number % rank
    return place - rank if number < 0 else place


def _permutations(rank: int) -> list[Shape]:
    order = tuple(range(rank))
    last_two = order[:-2] + order[-2:][::-1]
    return list(dict.fromkeys([order[::-1], last_two, order[1:] + order[:1], order[-1:] + order[:-1]]))


def _transpose(shape: Shape, number: int, before: bool) -> Move | None:
    if len(shape) < 2:
        return None
    known = _permutations(len(shape))
    order = known[number % len(known)]
    given = tuple(shape[order.index(axis)] for axis in range(len(shape))) if before else shape
    return Move("Transpose", given, {"perm": order})


def _reshape(shape: Shape, number: int, before: bool) -> Move | None:
    if 0 in shape:  # 0 in a target shape means the extent of what is reshaped
        return None
    size = int(np.prod(shape, dtype=np.int64))
    others = [(size,), (1, *shape), (*shape, 1)] + ([(shape[0] * shape[1], *shape[2:])] if len(shape) > 1 else [])
    other = others[number % len(others)]
    return Move("Reshape", other, {"shape": shape}) if before else Move("Reshape", shape, {"shape": other})


def _inserted(shape: Shape, number: int) -> tuple[Shape, int]:
    axis = axis_of(number, len(shape) + 1)
    place = axis % (len(shape) + 1)
    return (*shape[:place], 1, *shape[place:]), axis


def _removed(shape: Shape, number: int) -> tuple[Shape, int] | None:
    ones = [axis for axis, extent in enumerate(shape) if extent == 1]
    if not ones:
        return None
    axis = ones[number % len(ones)]
    return shape[:axis] + shape[axis + 1 :], axis - len(shape) if number < 0 else axis


def _squeeze(shape: Shape, number: int, before: bool) -> Move | None:
    if before:
        given, axis = _inserted(shape, number)
        return Move("Squeeze", given, {"axes": (axis,)})
    found = _removed(shape, number)
    return None if found is None else Move("Squeeze", shape, {"axes": (found[1],)})


def _unsqueeze(shape: Shape, number: int, before: bool) -> Move | None:
    if not before:
        return Move("Unsqueeze", shape, {"axes": (_inserted(shape, number)[1],)})
    found = _removed(shape, number)
    return None if found is None else Move("Unsqueeze", found[0], {"axes": (found[1],)})


def _flatten(shape: Shape, number: int, before: bool) -> Move | None:
    if not before:
        axis = number % (len(shape) + 1)
        return Move("Flatten", shape, {"axis": axis - len(shape) if number < 0 and axis < len(shape) else axis})
    if len(shape) != 2:
        return None
    given = [(shape[0], 1, shape[1]), (1, *shape), (*shape, 1)][number % 3]
    return Move("Flatten", given, {"axis": 2 if number % 3 == 1 else 1})


def _slice(shape: Shape, number: int, before: bool) -> Move | None:
    """One axis turned round."""
    if not shape:
        return None
    lists = {"starts": (-1,), "ends": (-_TO_THE_END,), "axes": (axis_of(number, len(shape)),), "steps": (-1,)}
    return Move("Slice", shape, lists)


def _cut(shape: Shape, number: int, before: bool) -> Move | None:
    """A window of an axis that is longer by one at each end. After the result see `_widened`."""
    if not shape or not before:
        return None
    axis = axis_of(number, len(shape))
    given = tuple(extent + 2 if place == axis % len(shape) else extent for place, extent in enumerate(shape))
    return Move("Slice", given, window(shape, axis))


def window(shape: Shape, axis: int) -> dict[str, Value]:
    return {"starts": (1,), "ends": (1 + shape[axis],), "axes": (axis,), "steps": (1,)}


def _gather(shape: Shape, number: int, before: bool) -> Move | None:
    """The slices of one axis in another order: the first comes last."""
    if not shape or not shape[number % len(shape)]:
        return None
    axis = axis_of(number, len(shape))
    return Move("Gather", shape, {"indices": (*range(1, shape[axis]), 0), "axis": axis})


def _pick(shape: Shape, number: int, before: bool) -> Move | None:
    """Every other slice of an axis that is twice as long."""
    if not shape or not before or not shape[number % len(shape)]:
        return None
    axis = axis_of(number, len(shape))
    given = tuple(2 * extent if place == axis % len(shape) else extent for place, extent in enumerate(shape))
    return Move("Gather", given, {"indices": tuple(range(1, 2 * shape[axis], 2)), "axis": axis})


def _concat(shape: Shape, number: int, before: bool) -> Move | None:
    """Two pieces joined; after the result they are cut from it."""
    axis = number % len(shape) if shape else 0
    if not shape or shape[axis] < 2:
        return None
    pieces = (shape[axis] // 2, shape[axis] - shape[axis] // 2)
    return Move("Concat", shape, {"axis": axis_of(number, len(shape))}, pieces)


MOVES: dict[str, Callable[[Shape, int, bool], Move | None]] = {
    "transpose": _transpose,
    "reshape": _reshape,
    "squeeze": _squeeze,
    "unsqueeze": _unsqueeze,
    "flatten": _flatten,
    "slice": _slice,
    "cut": _cut,
    "gather": _gather,
    "pick": _pick,
    "concat": _concat,
    "identity": lambda shape, number, before: None,
}

BEFORE = tuple(MOVES)
"""Names of what may stand before an operand."""

AFTER = tuple(name for name in MOVES if name != "pick")
"""Names of what may stand after the result, besides requantize."""


# -- running ----------------------------------------------------------------------------------------------


def run(nodes: Sequence[Node], arrays: Mapping[str, Array]) -> dict[str, Array]:
    """What every name of a graph holds when only data is moved: what quantizes or dequantizes leaves it in place."""
    known: dict[str, Array] = dict(arrays)
    for node in nodes:
        known[node.output] = _moved(node, known)
    return known


def _moved(node: Node, known: Mapping[str, Array]) -> Array:
    array, given = known[node.inputs[0]], node.attributes
    if node.operator == "Transpose":
        return np.transpose(array, given["perm"])
    if node.operator == "Reshape":
        return array.reshape(given["shape"])
    if node.operator == "Squeeze":
        return np.squeeze(array, given["axes"])
    if node.operator == "Unsqueeze":
        return np.expand_dims(array, given["axes"][0])
    if node.operator == "Flatten":
        axis = given["axis"] % len(array.shape) if given["axis"] < 0 else given["axis"]
        return array.reshape(int(np.prod(array.shape[:axis])), int(np.prod(array.shape[axis:])))
    if node.operator == "Slice":
        index: list[Any] = [slice(None)] * len(array.shape)
        for start, end, axis, step in zip(given["starts"], given["ends"], given["axes"], given["steps"]):
            index[axis] = slice(start, None if end == -_TO_THE_END else end, step)
        return array[tuple(index)]
    if node.operator == "Gather":
        return np.take(array, given["indices"], given["axis"])
    if node.operator == "Concat":
        return np.concatenate([known[name] for name in node.inputs], given["axis"])
    return array
