"""What stands around a call in a small graph: nodes that only move data, pairs that quantize and dequantize, constants.

Users never run a lone operator, and optimisers rewrite what stands around it. `Call.around` says what does, in words:

    x<transpose:1    before the operand x (scale, zero_point, ...) stands a Transpose
    y>reshape:0      after the result y stands a Reshape
    y>requantize:0   the result is quantized with the same scale and zero point, and dequantized again
    constant:scale   that operand (or what is moved to make it) is a constant of the graph
    shapes:symbolic  inputs are declared with names for extents instead of numbers

Words of one operand are in the order in which data flows. A word's number is relative to the shape at hand (an axis is
the number modulo the rank; a negative number spells it from the back), and a word that does not apply to the shape stands
for Identity, so that every word means something for every call, however small it was made.

What is fed is chosen such that the operands are those of the lone call, and the result is moved back: the outcome
is that of the lone call. Where each value goes is not derived by hand: the graph is run on the values' numbers.
"""

# ruff: noqa: B905

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import List, Tuple

import numpy as np

from xverify.core.call import BITS, Call, Tensor
from xverify.core.moves import AFTER, BEFORE, MOVES, Array, Move, Node, Shape, axis_of, run, window

OPERATOR = "DequantizeLinear"
"""What stands for the call's own operator; TensorFlow's has another name for who renders it."""

_ORDER = ("x", "scale", "zero_point", "input", "min_range", "max_range")
"""Operands as operators list them."""

_PRECISION = {"float16": 11, "bfloat16": 8, "float32": 24}
"""Bits of the significand, the hidden one counted."""

_NORMAL = {"float16": (2.0**-14, 65504.0), "bfloat16": (2.0**-126, 3.38e38), "float32": (2.0**-126, 3.40e38)}
"""The normal range; of the large ones a little less."""


@dataclass(frozen=True, eq=False)
class Graph:
    """A call in its surroundings.

    nodes: in an order in which they can be run. inputs, constants: tensors by name. symbolic: whether inputs are declared without
    extents. output: the name of the result, whose shape is ``shape``; places: for each value of the lone call's result, in C
    order, its place in this one.
    """

    nodes: tuple[Node, ...]
    inputs: Mapping[str, Tensor]
    constants: Mapping[str, Tensor]
    symbolic: bool
    output: str
    shape: Shape
    places: Array
    lone_shape: Shape

    def back(self, result: Tensor) -> Tensor:
        """The lone call's result from the graph's. One of another shape is given as it is: it is wrong already."""
        if result.shape != self.shape:
            return result
        return Tensor(result.dtype, result.codes.reshape(-1)[self.places].reshape(self.lone_shape))


# -- graphs -----------------------------------------------------------------------------------------------

_Moves = List[Tuple[str, int]]
"""Names of moves and their numbers."""

_WORD = re.compile(r"(\w+)(<|>|:)(\w+)(?::(-?\d{1,9}))?")


@dataclass
class _Words:
    before: dict[str, _Moves] = field(default_factory=dict)
    after: _Moves = field(default_factory=list)
    constants: list[str] = field(default_factory=list)
    symbolic: bool = False


def surround(call: Call, negative_axes: bool = True) -> Graph:
    """The graph of a call in its surroundings; without any, of one node.

    negative_axes: whether axes may be spelled from the back. ValueError for a word that means nothing.
    """
    words = _read(call.around, negative_axes)
    wide, numbers, cut = _widened(call, words.after)
    nodes: list[Node] = []
    inputs: dict[str, Tensor] = {}
    constants: dict[str, Tensor] = {}
    for role, tensor in wide.tensors.items():
        made, fed = _brought(role, tensor, words.before.get(role, []))
        nodes += made
        (constants if role in words.constants else inputs).update(fed)
    operands = tuple(role for role in _ORDER if role in wide.tensors)
    nodes.append(Node(OPERATOR, operands, "y", dict(wide.attributes), True))
    made, zeros, output, moved = _taken(wide, numbers, words.after, cut)
    constants.update(zeros)
    places = np.empty(call.values, np.int64)
    places[moved[moved >= 0]] = np.flatnonzero(moved.reshape(-1) >= 0)
    return Graph(
        (*nodes, *made), inputs, constants, words.symbolic, output, moved.shape, places, tuple(call.data.shape)
    )


def _read(around: tuple[str, ...], negative_axes: bool) -> _Words:
    found = _Words()
    for word in around:
        match = _WORD.fullmatch(word)
        if match is None:
            raise ValueError(f"{word!r} does not say what stands around a call: expected a word such as x<transpose:0")
        target, mark, name, number = match.groups()
        step = (name, int(number or 0) if negative_axes else abs(int(number or 0)))
        if mark == "<" and name in BEFORE:
            found.before.setdefault(target, []).append(step)
        elif mark == ">" and target == "y" and name in (*AFTER, "requantize"):
            found.after.append(step)
        elif mark == ":" and target == "constant" and number is None:
            found.constants.append(name)
        elif word == "shapes:symbolic":
            found.symbolic = True
        else:
            raise ValueError(f"{word!r} does not say what stands around a call: see xverify/core/surroundings.py")
    return found


def _widened(call: Call, after: _Moves) -> tuple[Call, Array, Move | None]:
    """Where the result is cut first, the call with one slice more at each end of an axis along which the parameters do not
    change. With it the numbers of the values, -1 those of none, and the cut."""
    shape = call.data.shape
    numbers = np.arange(call.values, dtype=np.int64).reshape(shape)
    ranks = [len(tensor.shape) for tensor in call.tensors.values() if tensor is not call.data]
    if not after or after[0][0] != "cut" or not shape or max(ranks) > 1:
        return call, numbers, None
    axis = axis_of(after[0][1], len(shape))
    place = axis % len(shape)
    quantized = call.attributes.get("axis", 1) if max(ranks) else None
    if not shape[place] or (quantized is not None and int(quantized) % len(shape) == place):
        return call, numbers, None
    ends = [(1, 1) if i == place else (0, 0) for i in range(len(shape))]
    role = "x" if "x" in call.tensors else "input"
    data = Tensor(call.data.dtype, np.pad(call.data.codes, ends, mode="edge"), call.data.layout)
    cut = Move("Slice", data.shape, window(shape, axis))
    padded = np.pad(numbers, ends, mode="constant", constant_values=-1)
    return replace(call, tensors={**call.tensors, role: data}), padded, cut


def _brought(role: str, tensor: Tensor, moves: _Moves) -> tuple[list[Node], dict[str, Tensor]]:
    """The nodes that make an operand, and what they are fed."""
    nodes: list[Node] = []
    shape, name = tensor.shape, role
    fed: dict[str, Shape] = {role: shape}
    for place, (kind, number) in enumerate(reversed(moves)):
        move = MOVES[kind](shape, number, True) or Move("Identity", shape)
        source = f"{role}_{len(moves) - place}"
        fed = {source: move.given}
        if move.pieces and place == len(moves) - 1:  # nothing comes before: the pieces are fed
            axis = int(move.attributes["axis"]) % len(shape)
            fed = {
                f"{source}_{end}": tuple(extent if i == axis else e for i, e in enumerate(shape))
                for end, extent in zip("ab", move.pieces)
            }
            nodes.insert(0, Node("Concat", tuple(fed), name, move.attributes))
        else:
            nodes[:0] = _written(move, source, name)
        shape, name = move.given, source
    return nodes, _filled(tensor, role, nodes, fed) if moves else {role: tensor}


def _filled(tensor: Tensor, role: str, nodes: list[Node], fed: Mapping[str, Shape]) -> dict[str, Tensor]:
    """What is fed so that the nodes make the tensor of it; where they leave something out, another value."""
    numbers: dict[str, Array] = {}
    total = 0
    for name, shape in fed.items():
        size = int(np.prod(shape, dtype=np.int64))
        numbers[name] = np.arange(total, total + size, dtype=np.int64).reshape(shape)
        total += size
    codes = tensor.codes.reshape(-1)
    other = codes[0] ^ codes.dtype.type((1 << (BITS[tensor.dtype] - 1)) | 1) if codes.size else 0
    flat = np.full(total, other, codes.dtype)
    flat[run(nodes, numbers)[role].reshape(-1)] = codes
    return {name: Tensor(tensor.dtype, flat[which], tensor.layout) for name, which in numbers.items()}


def _taken(
    call: Call, numbers: Array, after: _Moves, cut: Move | None
) -> tuple[list[Node], dict[str, Tensor], str, Array]:
    """The nodes after the result, the constants they need, the last one's name, and where the numbers have gone."""
    nodes: list[Node] = []
    constants: dict[str, Tensor] = {}
    name, in_place = "y", True
    for place, (kind, number) in enumerate(after):
        target = f"y_{place + 1}"
        move = MOVES[kind](numbers.shape, number, False) if kind != "requantize" else None
        if place == 0 and cut is not None:
            made = _written(cut, name, target)
        elif kind == "requantize" and (in_place or _per_tensor(call)) and requantizes(call):
            made, zeros = _pair(call, name, target)
            constants.update(zeros)
        else:
            made = _written(move or Move("Identity", numbers.shape), name, target)
            in_place = in_place and move is None
        numbers = run(made, {name: numbers})[target]
        nodes += made
        name = target
    return nodes, constants, name, numbers


def _written(move: Move, source: str, target: str) -> list[Node]:
    """A move as nodes; what is joined is cut from the source first."""
    if not move.pieces:
        return [Node(move.operator, (source,), target, move.attributes)]
    axis = int(str(move.attributes["axis"]))
    first, second = target + "_a", target + "_b"
    starts, ends = (0, move.pieces[0]), (move.pieces[0], sum(move.pieces))
    cuts = [
        Node("Slice", (source,), piece, {"starts": (start,), "ends": (end,), "axes": (axis,), "steps": (1,)})
        for piece, start, end in zip((first, second), starts, ends)
    ]
    return [*cuts, Node("Concat", (first, second), target, move.attributes)]


def opset_beside(call: Call) -> int:
    """The version of ai.onnx that stands around a call: its own, or of another domain's one that has the types."""
    domain, operator = call.contract.split("/")
    if domain == "ai.onnx":
        return int(operator.partition("@")[0].rpartition("-")[2])
    return 21 if BITS[call.data.dtype] < 8 else 19 if call.data.dtype.startswith("float8") else 17


# -- quantizing again -------------------------------------------------------------------------------------


def _per_tensor(call: Call) -> bool:
    return all(tensor.shape == () for tensor in call.tensors.values() if tensor is not call.data)


def _pair(call: Call, source: str, target: str) -> tuple[list[Node], dict[str, Tensor]]:
    """A QuantizeLinear and a DequantizeLinear with the call's parameters. Where the call has no zero point, a zero says the type,
    unless it is the default."""
    data, scale = call.tensors["x"], call.tensors["scale"]
    zeros: dict[str, Tensor] = {}
    parameters = tuple(role for role in _ORDER[1:3] if role in call.tensors)
    quantizing = parameters
    if "zero_point" not in call.tensors and data.dtype != "uint8":
        zeros = {"zero": Tensor(data.dtype, np.zeros(scale.shape, data.codes.dtype))}
        quantizing = (*parameters, "zero")
    given = {name: value for name, value in call.attributes.items() if name != "output_dtype"}
    quantized = target + "_q"
    return [
        Node("QuantizeLinear", (source, *quantizing), quantized, given, True),
        Node(OPERATOR, (quantized, *parameters), target, dict(call.attributes), True),
    ], zeros


def requantizes(call: Call) -> bool:
    """Whether quantizing the result with the call's parameters gives x again, by every way to compute it.

    With d = x - zero_point exactly, the result is y = d s (1 + e), where |e| is at most the unit roundoff u of the
    output type as long as y is normal and finite, and so is the quotient y / s in relation to what it should be: rounding to
    nearest gives d if |d| (2 u + u^2) < 1/2. Asked is twice that, so that computing in two roundings does not matter.
    Of integers x only, since QuantizeLinear says of floats which of two equal codes it gives only by their sign.
    """
    scale, zero_point = call.tensors.get("scale"), call.tensors.get("zero_point")
    out = str(call.attributes.get("output_dtype", scale.dtype if scale else ""))
    if scale is None or scale.dtype not in _PRECISION or out not in _PRECISION or not call.values or not scale.size:
        return False
    if not call.data.dtype.startswith(("int", "uint")) or BITS[call.data.dtype] > 16:
        return False
    typed = not call.contract.startswith("onednn/")  # elsewhere the zero point's type is that of what is quantized
    if typed and zero_point is not None and zero_point.dtype != call.data.dtype:
        return False
    largest = _magnitude(call.data) + (0 if zero_point is None else _magnitude(zero_point))
    steps = _steps(scale)
    precision = min(_PRECISION[scale.dtype], _PRECISION[out])
    lowest = max(_NORMAL[scale.dtype][0], _NORMAL[out][0])
    highest = min(_NORMAL[scale.dtype][1], _NORMAL[out][1])
    return bool(
        (steps >= lowest).all() and (steps * max(largest, 1) <= highest).all() and 4 * largest * 2.0**-precision < 0.5
    )


def _magnitude(tensor: Tensor) -> int:
    """The largest absolute value of integers."""
    bits = BITS[tensor.dtype]
    values = tensor.codes.astype(np.int64)
    if tensor.dtype.startswith("int"):
        values = values - ((values >> (bits - 1)) << bits)
    return int(np.abs(values).max())


def _steps(scale: Tensor) -> Array:
    """The scales as float64; NaN is nothing that is compared."""
    if scale.dtype == "bfloat16":
        return (scale.codes.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    return scale.codes.view(np.dtype(scale.dtype)).astype(np.float64)


# -- words ------------------------------------------------------------------------------------------------

_PLACES = {"x": "x", "scale": "the scale", "zero_point": "the zero point"}


def in_words(around: tuple[str, ...]) -> str:
    """What stands around a call, for people: "Transpose before x, Reshape after the result, the scale a constant"."""
    parts = []
    for word in around:
        match = _WORD.fullmatch(word)
        if match is None:
            parts.append(word)
            continue
        target, mark, name, _ = match.groups()
        operator = {"cut": "Slice", "pick": "Gather"}.get(name, name.capitalize())
        if name == "requantize":
            parts.append("QuantizeLinear and DequantizeLinear after the result")
        elif mark == "<":
            parts.append(f"{operator} before {_PLACES.get(target, target)}")
        elif mark == ">":
            parts.append(f"{operator} after the result")
        elif target == "constant":
            parts.append(f"{_PLACES.get(name, name)} a constant")
        else:
            parts.append("inputs with named extents")
    return ", ".join(parts)
