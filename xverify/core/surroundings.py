"""The surroundings of a call in a small graph: moves of data, requantization and constants.

Users never run a lone operator, and optimisers rewrite its surroundings. `Call.around` describes them in words:

    x<transpose:1    a Transpose before the operand x (scale, zero_point, ...)
    y>reshape:0      a Reshape after the result y
    y>requantize:0   the result is quantized with the same scale and zero point, and dequantized again
    constant:scale   the operand (or the data that is moved to make it) is a constant of the graph
    shapes:symbolic  inputs are declared with names for extents instead of numbers

Words of one operand are in the order of the data flow. The number of a word is relative to the shape. It stands for the axis
number % rank, and a negative number writes the axis from the back. A word that does not apply to the shape stands for
Identity. So every word has a meaning for every call, also for small ones that shrinking makes.

The inputs of the graph are chosen so that the operator gets the operands of the lone call. The result is moved back. The
outcome is therefore that of the lone call. To find out where each value goes, the graph runs on the indices of the values.
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
"""The name of the call's own operator in a graph. TensorFlow's oracle writes another operator for it."""

_ORDER = ("x", "scale", "zero_point", "input", "min_range", "max_range")
"""Operands in the order of the operators' inputs."""

_PRECISION = {"float16": 11, "bfloat16": 8, "float32": 24}
"""Bits of the significand, with the hidden bit."""

_NORMAL = {"float16": (2.0**-14, 65504.0), "bfloat16": (2.0**-126, 3.38e38), "float32": (2.0**-126, 3.40e38)}
"""Ends of the normal range. The upper ends are a little smaller than the largest numbers."""


@dataclass(frozen=True, eq=False)
class Graph:
    """A call in its surroundings."""

    nodes: tuple[Node, ...]
    """The nodes, in an order in which they can run."""
    inputs: Mapping[str, Tensor]
    """The inputs by name."""
    constants: Mapping[str, Tensor]
    """The constants by name."""
    symbolic: bool
    """True if inputs are declared with names for extents."""
    output: str
    """The name of the result."""
    shape: Shape
    """The shape of the result."""
    places: Array
    """For each value of the lone call's result, in C order, its flat index in the graph's result."""
    lone_shape: Shape
    """The shape of the lone call's result."""

    def back(self, result: Tensor) -> Tensor:
        """Move the graph's result back to that of the lone call. A result of a wrong shape stays the same."""
        if result.shape != self.shape:
            return result
        return Tensor(result.dtype, result.codes.reshape(-1)[self.places].reshape(self.lone_shape))


# -- graphs -----------------------------------------------------------------------------------------------

_Moves = List[Tuple[str, int]]
"""Name and number of each move."""

_WORD = re.compile(r"(\w+)(<|>|:)(\w+)(?::(-?\d{1,9}))?")


@dataclass
class _Words:
    before: dict[str, _Moves] = field(default_factory=dict)
    after: _Moves = field(default_factory=list)
    constants: list[str] = field(default_factory=list)
    symbolic: bool = False


def surround(call: Call, negative_axes: bool = True) -> Graph:
    """Make the graph of a call in its surroundings. Without any, it has one node.

    Args:
        call: The call.
        negative_axes: False to write all axes from the front.

    Raises:
        ValueError: A word has no meaning.
    """
    words = _read(call.around, negative_axes)
    wide, numbers, cut = _widened(call, words.after)
    nodes: list[Node] = []
    inputs: dict[str, Tensor] = {}
    constants: dict[str, Tensor] = {}
    for role, tensor in wide.tensors.items():
        moves, sources = _before_operand(role, tensor, words.before.get(role, []))
        nodes += moves
        (constants if role in words.constants else inputs).update(sources)
    operands = tuple(role for role in _ORDER if role in wide.tensors)
    nodes.append(Node(OPERATOR, operands, "y", dict(wide.attributes), True))
    moves, zeros, output, moved = _after_result(wide, numbers, words.after, cut)
    constants.update(zeros)
    places = np.empty(call.values, np.int64)
    places[moved[moved >= 0]] = np.flatnonzero(moved.reshape(-1) >= 0)
    return Graph(
        (*nodes, *moves), inputs, constants, words.symbolic, output, moved.shape, places, tuple(call.data.shape)
    )


def _read(around: tuple[str, ...], negative_axes: bool) -> _Words:
    words = _Words()
    for word in around:
        match = _WORD.fullmatch(word)
        if match is None:
            raise ValueError(f"{word!r} does not say what stands around a call: expected a word such as x<transpose:0")
        target, mark, name, number = match.groups()
        step = (name, int(number or 0) if negative_axes else abs(int(number or 0)))
        if mark == "<" and name in BEFORE:
            words.before.setdefault(target, []).append(step)
        elif mark == ">" and target == "y" and name in (*AFTER, "requantize"):
            words.after.append(step)
        elif mark == ":" and target == "constant" and number is None:
            words.constants.append(name)
        elif word == "shapes:symbolic":
            words.symbolic = True
        else:
            raise ValueError(f"{word!r} does not say what stands around a call: see xverify/core/surroundings.py")
    return words


def _widened(call: Call, after: _Moves) -> tuple[Call, Array, Move | None]:
    """The call, longer by one slice at each end of an axis, if the result is cut first.

    The parameters do not change along that axis. The result also has the indices of the values (-1 for the added ones) and the
    cut.
    """
    shape = call.data.shape
    numbers = np.arange(call.values, dtype=np.int64).reshape(shape)
    ranks = [len(tensor.shape) for tensor in call.tensors.values() if tensor is not call.data]
    if not after or after[0][0] != "cut" or not shape or max(ranks) > 1:
        return call, numbers, None
    axis = axis_of(after[0][1], len(shape))
    from_front = axis % len(shape)
    quantized = call.attributes.get("axis", 1) if max(ranks) else None
    if not shape[from_front] or (quantized is not None and int(quantized) % len(shape) == from_front):
        return call, numbers, None
    ends = [(1, 1) if i == from_front else (0, 0) for i in range(len(shape))]
    role = "x" if "x" in call.tensors else "input"
    data = Tensor(call.data.dtype, np.pad(call.data.codes, ends, mode="edge"), call.data.layout)
    cut = Move("Slice", data.shape, window(shape, axis))
    padded = np.pad(numbers, ends, mode="constant", constant_values=-1)
    return replace(call, tensors={**call.tensors, role: data}), padded, cut


def _before_operand(role: str, tensor: Tensor, moves: _Moves) -> tuple[list[Node], dict[str, Tensor]]:
    """The nodes that make an operand, and the tensors that they begin with."""
    nodes: list[Node] = []
    shape, name = tensor.shape, role
    shapes: dict[str, Shape] = {role: shape}
    for index, (kind, number) in enumerate(reversed(moves)):
        move = MOVES[kind](shape, number, True) or Move("Identity", shape)
        source = f"{role}_{len(moves) - index}"
        shapes = {source: move.source_shape}
        if move.pieces and index == len(moves) - 1:  # The first node of the graph: its pieces are inputs.
            axis = int(move.attributes["axis"]) % len(shape)
            shapes = {
                f"{source}_{end}": tuple(extent if i == axis else e for i, e in enumerate(shape))
                for end, extent in zip("ab", move.pieces)
            }
            nodes.insert(0, Node("Concat", tuple(shapes), name, move.attributes))
        else:
            nodes[:0] = _written(move, source, name)
        shape, name = move.source_shape, source
    return nodes, _filled(tensor, role, nodes, shapes) if moves else {role: tensor}


def _filled(tensor: Tensor, role: str, nodes: list[Node], shapes: Mapping[str, Shape]) -> dict[str, Tensor]:
    """Inputs of these shapes from which the nodes make the tensor. Dropped elements get another value."""
    numbers: dict[str, Array] = {}
    total = 0
    for name, shape in shapes.items():
        size = int(np.prod(shape, dtype=np.int64))
        numbers[name] = np.arange(total, total + size, dtype=np.int64).reshape(shape)
        total += size
    codes = tensor.codes.reshape(-1)
    other = codes[0] ^ codes.dtype.type((1 << (BITS[tensor.dtype] - 1)) | 1) if codes.size else 0
    flat = np.full(total, other, codes.dtype)
    flat[run(nodes, numbers)[role].reshape(-1)] = codes
    return {name: Tensor(tensor.dtype, flat[indices], tensor.layout) for name, indices in numbers.items()}


def _after_result(
    call: Call, numbers: Array, after: _Moves, cut: Move | None
) -> tuple[list[Node], dict[str, Tensor], str, Array]:
    """The nodes after the result, their constants, the name of the last output, and the moved indices."""
    nodes: list[Node] = []
    constants: dict[str, Tensor] = {}
    name, in_place = "y", True
    for index, (kind, number) in enumerate(after):
        target = f"y_{index + 1}"
        move = MOVES[kind](numbers.shape, number, False) if kind != "requantize" else None
        if index == 0 and cut is not None:
            added = _written(cut, name, target)
        elif kind == "requantize" and (in_place or _per_tensor(call)) and requantizes(call):
            added, zeros = _pair(call, name, target)
            constants.update(zeros)
        else:
            added = _written(move or Move("Identity", numbers.shape), name, target)
            in_place = in_place and move is None
        numbers = run(added, {name: numbers})[target]
        nodes += added
        name = target
    return nodes, constants, name, numbers


def _written(move: Move, source: str, target: str) -> list[Node]:
    """A move as nodes. Pieces to join are cut from the source first."""
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
    """The version of ai.onnx for the surroundings of a call. In another domain, one with its types."""
    domain, operator = call.contract.split("/")
    if domain == "ai.onnx":
        return int(operator.partition("@")[0].rpartition("-")[2])
    if BITS[call.data.dtype] == 6:
        return 28
    return 21 if BITS[call.data.dtype] < 8 else 19 if call.data.dtype.startswith("float8") else 17


# -- quantizing again -------------------------------------------------------------------------------------


def _per_tensor(call: Call) -> bool:
    return all(tensor.shape == () for tensor in call.tensors.values() if tensor is not call.data)


def _pair(call: Call, source: str, target: str) -> tuple[list[Node], dict[str, Tensor]]:
    """A QuantizeLinear and a DequantizeLinear with the call's parameters.

    Without a zero point, a zero tells the type to quantize to, unless that is the default.
    """
    data, scale = call.tensors["x"], call.tensors["scale"]
    zeros: dict[str, Tensor] = {}
    parameters = tuple(role for role in _ORDER[1:3] if role in call.tensors)
    quantizing = parameters
    if "zero_point" not in call.tensors and data.dtype != "uint8":
        zeros = {"zero": Tensor(data.dtype, np.zeros(scale.shape, data.codes.dtype))}
        quantizing = (*parameters, "zero")
    attributes = {name: value for name, value in call.attributes.items() if name != "output_dtype"}
    quantized = target + "_q"
    return [
        Node("QuantizeLinear", (source, *quantizing), quantized, attributes, True),
        Node(OPERATOR, (quantized, *parameters), target, dict(call.attributes), True),
    ], zeros


def requantizes(call: Call) -> bool:
    """True if quantizing the result gives x again, however it is computed.

    Let d = x - zero_point exactly. The result is y = d s (1 + e), where |e| is at most the unit roundoff u of the output type
    if y is normal and finite. The quotient y / s has a relative error of the same size. Rounding to nearest gives d if
    |d| (2 u + u^2) < 1/2. The test demands twice that, so that a second rounding does not matter.

    x must be an integer, since QuantizeLinear's text leaves open which of two equal codes of a float it gives.
    """
    scale, zero_point = call.tensors.get("scale"), call.tensors.get("zero_point")
    out = str(call.attributes.get("output_dtype", scale.dtype if scale else ""))
    if scale is None or scale.dtype not in _PRECISION or out not in _PRECISION or not call.values or not scale.size:
        return False
    if not call.data.dtype.startswith(("int", "uint")) or BITS[call.data.dtype] > 16:
        return False
    typed = not call.contract.startswith("onednn/")  # Other operators quantize to the type of the zero point.
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
    """The scales as float64."""
    if scale.dtype == "bfloat16":
        return (scale.codes.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    return scale.codes.view(np.dtype(scale.dtype)).astype(np.float64)


# -- words ------------------------------------------------------------------------------------------------

_OPERAND_WORDS = {"x": "x", "scale": "the scale", "zero_point": "the zero point"}


def in_words(around: tuple[str, ...]) -> str:
    """The surroundings in words, such as "Transpose before x, the scale a constant"."""
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
            parts.append(f"{operator} before {_OPERAND_WORDS.get(target, target)}")
        elif mark == ">":
            parts.append(f"{operator} after the result")
        elif target == "constant":
            parts.append(f"{_OPERAND_WORDS.get(name, name)} a constant")
        else:
            parts.append("inputs with named extents")
    return ", ".join(parts)
