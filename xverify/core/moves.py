"""Operators that only move data, by their names in ONNX."""

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
    """One operator of a graph."""

    operator: str
    """The name in ONNX."""
    inputs: tuple[str, ...]
    """Names of the inputs, without lists of whole numbers: some frameworks take those as inputs too."""
    output: str
    """The name of the output."""
    attributes: Mapping[str, Value] = field(default_factory=dict)
    """Attributes by name, lists of whole numbers included."""
    of_call: bool = False
    """True if the operator has the domain and the edition of the call."""
    others: tuple[str, ...] = ()
    """The names of further outputs, which nobody reads."""


@dataclass(frozen=True)
class Move:
    """An operator that moves data from one shape to another."""

    operator: str
    source_shape: Shape
    """The shape of the input."""
    attributes: Mapping[str, Value] = field(default_factory=dict)
    pieces: tuple[int, ...] = ()
    """For Concat, the extents of the joined pieces along its axis."""


# -- moves ------------------------------------------------------------------------------------------------


def axis_of(number: int, rank: int) -> int:
    """The axis for a number, modulo the rank. A negative number gives an axis counted from the back."""
    from_front = number % rank
    return from_front - rank if number < 0 else from_front


def _permutations(rank: int) -> list[Shape]:
    order = tuple(range(rank))
    last_two = order[:-2] + order[-2:][::-1]
    return list(dict.fromkeys([order[::-1], last_two, order[1:] + order[:1], order[-1:] + order[:-1]]))


def _transpose(shape: Shape, number: int, before: bool) -> Move | None:
    if len(shape) < 2:
        return None
    orders = _permutations(len(shape))
    order = orders[number % len(orders)]
    source_shape = tuple(shape[order.index(axis)] for axis in range(len(shape))) if before else shape
    return Move("Transpose", source_shape, {"perm": order})


def _reshape(shape: Shape, number: int, before: bool) -> Move | None:
    if 0 in shape:  # In a target shape, 0 stands for the extent of the input.
        return None
    size = int(np.prod(shape, dtype=np.int64))
    others = [(size,), (1, *shape), (*shape, 1)] + ([(shape[0] * shape[1], *shape[2:])] if len(shape) > 1 else [])
    other = others[number % len(others)]
    return Move("Reshape", other, {"shape": shape}) if before else Move("Reshape", shape, {"shape": other})


def _inserted(shape: Shape, number: int) -> tuple[Shape, int]:
    axis = axis_of(number, len(shape) + 1)
    from_front = axis % (len(shape) + 1)
    return (*shape[:from_front], 1, *shape[from_front:]), axis


def _removed(shape: Shape, number: int) -> tuple[Shape, int] | None:
    ones = [axis for axis, extent in enumerate(shape) if extent == 1]
    if not ones:
        return None
    axis = ones[number % len(ones)]
    return shape[:axis] + shape[axis + 1 :], axis - len(shape) if number < 0 else axis


def _squeeze(shape: Shape, number: int, before: bool) -> Move | None:
    if before:
        source_shape, axis = _inserted(shape, number)
        return Move("Squeeze", source_shape, {"axes": (axis,)})
    removed = _removed(shape, number)
    return None if removed is None else Move("Squeeze", shape, {"axes": (removed[1],)})


def _unsqueeze(shape: Shape, number: int, before: bool) -> Move | None:
    if not before:
        return Move("Unsqueeze", shape, {"axes": (_inserted(shape, number)[1],)})
    removed = _removed(shape, number)
    return None if removed is None else Move("Unsqueeze", removed[0], {"axes": (removed[1],)})


def _flatten(shape: Shape, number: int, before: bool) -> Move | None:
    if not before:
        axis = number % (len(shape) + 1)
        return Move("Flatten", shape, {"axis": axis - len(shape) if number < 0 and axis < len(shape) else axis})
    if len(shape) != 2:
        return None
    source_shape = [(shape[0], 1, shape[1]), (1, *shape), (*shape, 1)][number % 3]
    return Move("Flatten", source_shape, {"axis": 2 if number % 3 == 1 else 1})


def _slice(shape: Shape, number: int, before: bool) -> Move | None:
    """One axis in reverse order."""
    if not shape:
        return None
    lists = {"starts": (-1,), "ends": (-_TO_THE_END,), "axes": (axis_of(number, len(shape)),), "steps": (-1,)}
    return Move("Slice", shape, lists)


def _cut(shape: Shape, number: int, before: bool) -> Move | None:
    """A window of an axis that is longer by one at each end. For one after the result, see `_widened`."""
    if not shape or not before:
        return None
    axis = axis_of(number, len(shape))
    source_shape = tuple(extent + 2 if i == axis % len(shape) else extent for i, extent in enumerate(shape))
    return Move("Slice", source_shape, window(shape, axis))


def window(shape: Shape, axis: int) -> dict[str, Value]:
    """The attributes of a Slice that cuts one slice off each end of an axis, down to ``shape``."""
    return {"starts": (1,), "ends": (1 + shape[axis],), "axes": (axis,), "steps": (1,)}


def _gather(shape: Shape, number: int, before: bool) -> Move | None:
    """The slices of one axis in another order, with the first one last."""
    if not shape or not shape[number % len(shape)]:
        return None
    axis = axis_of(number, len(shape))
    return Move("Gather", shape, {"indices": (*range(1, shape[axis]), 0), "axis": axis})


def _pick(shape: Shape, number: int, before: bool) -> Move | None:
    """Every other slice of an axis that is twice as long."""
    if not shape or not before or not shape[number % len(shape)]:
        return None
    axis = axis_of(number, len(shape))
    source_shape = tuple(2 * extent if i == axis % len(shape) else extent for i, extent in enumerate(shape))
    return Move("Gather", source_shape, {"indices": tuple(range(1, 2 * shape[axis], 2)), "axis": axis})


def _concat(shape: Shape, number: int, before: bool) -> Move | None:
    """Two joined pieces. After the result, they are cut from it first."""
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
"""For each word, a function of a shape, a number and True for a move before an operand. None stands for Identity."""

BEFORE = tuple(MOVES)
"""Names of the moves that may stand before an operand."""

AFTER = tuple(name for name in MOVES if name != "pick")
"""Names of the moves that may stand after the result, where requantize may stand too."""


# -- running ----------------------------------------------------------------------------------------------


def run(nodes: Sequence[Node], arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Run a graph as far as it moves data, and return the array of each name.

    Operators that quantize or dequantize leave the data in place.
    """
    results: dict[str, Array] = dict(arrays)
    for node in nodes:
        results[node.output] = _moved(node, results)
    return results


def _moved(node: Node, arrays: Mapping[str, Array]) -> Array:
    array, attributes = arrays[node.inputs[0]], node.attributes
    if node.operator == "Transpose":
        return np.transpose(array, attributes["perm"])
    if node.operator == "Reshape":
        return array.reshape(attributes["shape"])
    if node.operator == "Squeeze":
        return np.squeeze(array, attributes["axes"])
    if node.operator == "Unsqueeze":
        return np.expand_dims(array, attributes["axes"][0])
    if node.operator == "Flatten":
        axis = attributes["axis"] % len(array.shape) if attributes["axis"] < 0 else attributes["axis"]
        return array.reshape(int(np.prod(array.shape[:axis])), int(np.prod(array.shape[axis:])))
    if node.operator == "Slice":
        index: list[Any] = [slice(None)] * len(array.shape)
        for start, end, axis, step in zip(
            attributes["starts"], attributes["ends"], attributes["axes"], attributes["steps"]
        ):
            index[axis] = slice(start, None if end == -_TO_THE_END else end, step)
        return array[tuple(index)]
    if node.operator == "Gather":
        return np.take(array, attributes["indices"], attributes["axis"])
    if node.operator == "Split":
        return np.split(array, 1 + len(node.others), attributes["axis"])[0]
    if node.operator == "Concat":
        return np.concatenate([arrays[name] for name in node.inputs], attributes["axis"])
    return array
