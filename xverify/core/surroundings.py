"""The surroundings of a call in a small graph: moves, other operators, quantization, constants.

Users never run a lone operator, and optimisers rewrite its surroundings. `Call.around` describes them in words:

    x<transpose:1    a Transpose before the operand x (scale, zero_point, ...)
    x<quantize:0     x comes from a QuantizeLinear with the call's parameters
    x<clip:0         a Clip or Relu before that QuantizeLinear, which leaves the values as they are
    y>reshape:0      a Reshape after the result y
    y>requantize:0   the result is quantized with the same scale and zero point, and dequantized again
    y>relu:0         an operator that changes values (see `CHANGES`)
    y>pair:0         a QuantizeLinear and a DequantizeLinear, with parameters by the number (see `_Digits`)
    y>quantize:0     a QuantizeLinear, which ends the graph
    fork:1           the result y has a second consumer, with an output of its own
    shared:1         a second DequantizeLinear shares the scale, with an output of its own
    constant:scale   the operand (or the data that is moved to make it) is a constant of the graph
    shapes:symbolic  inputs are declared with names for extents instead of numbers

Words of one operand are in the order of the data flow. The number of a word is relative to the shape. For a move it stands for
the axis number % rank, and a negative number writes the axis from the back. A word that does not apply to the shape stands for
Identity. So every word has a meaning for every call, also for small ones that shrinking makes.

The inputs of the graph are chosen so that the operator gets the operands of the lone call. If all words move data, the result
is moved back. The outcome is therefore that of the lone call. To find out where each value goes, the graph runs on the indices
of the values. If a word changes values, the outcome is the graph's own result, and `xverify.verify.graph_values` says which
results are legal.

Bounds and other constants of words derive from the call and the word's number alone, in plain float64. A worker and the
judging process therefore make the same graph.
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
from xverify.core.neighbours import (
    CHANGES,
    CLIP_INPUTS,
    DEQUANTIZE,
    FLOATS,
    NORMAL,
    OPERATORS,
    QUANTIZE,
    Point,
    along,
    coded,
    ends_of,
    numbers_of,
    quantized_dtypes,
    result_dtype,
    spread_of,
)

OPERATOR = DEQUANTIZE
"""The name of the call's own operator in a graph. TensorFlow's oracle writes another operator for it."""

_ORDER = ("x", "scale", "zero_point", "input", "min_range", "max_range")
"""Operands in the order of the operators' inputs."""

_PRECISION = {"float16": 11, "bfloat16": 8, "float32": 24}
"""Bits of the significand, with the hidden bit."""


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
    others: Mapping[str, Shape] = field(default_factory=dict)
    """The shapes of further outputs, by name. Nobody reads these outputs."""
    changes_values: bool = False
    """True if the result is the graph's own. Otherwise the graph only moves the lone call's result."""
    lone: Call | None = None
    """The call that the operator in the graph computes. It is wider than the call if the result is cut first."""

    def back(self, result: Tensor) -> Tensor:
        """Move the graph's result back to that of the lone call.

        A result of a wrong shape stays the same. So does the result of a graph that changes values.
        """
        if result.shape != self.shape or self.changes_values:
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
    fork: int | None = None
    shared: int | None = None


BEFORE_QUANTIZE = ("quantize", "clip", "relu")
"""Words that only x may have before it: a QuantizeLinear, and operators before that."""

_NEGATIVE_AXES = 11
"""The first version of ai.onnx in which every operator that moves data takes negative axes."""


def surround(call: Call) -> Graph:
    """Make the graph of a call in its surroundings. Without any, it has one node.

    All axes are written from the front where the version of ai.onnx demands that.

    Raises:
        ValueError: A word has no meaning.
    """
    words = _read(call.around, negative_axes=opset_beside(call) >= _NEGATIVE_AXES)
    wide, numbers, cut = _widened(call, words.after)
    nodes: list[Node] = []
    inputs: dict[str, Tensor] = {}
    constants: dict[str, Tensor] = {}
    # A QuantizeLinear before x takes the other operands.
    quantized = any(kind == "quantize" for kind, _ in words.before.get("x", []))
    for role, tensor in sorted(wide.tensors.items(), key=lambda item: quantized and item[0] == "x"):
        moves, sources, bounds = _before_operand(wide, role, tensor, words.before.get(role, []))
        nodes += moves
        constants.update(bounds)
        (constants if role in words.constants else inputs).update(sources)
    operands = tuple(role for role in _ORDER if role in wide.tensors)
    nodes.append(Node(OPERATOR, operands, "y", dict(wide.attributes), True))
    after = _after_result(wide, numbers, words.after, cut)
    nodes += after.nodes
    constants.update(after.constants)
    inputs.update(after.inputs)
    output, shape, changes = after.output, after.numbers.shape, after.changes
    others: dict[str, Shape] = {}
    if words.fork is not None:
        forked, fork_constants = _second_consumer(wide, words.fork)
        nodes += forked
        constants.update(fork_constants)
        others["fork"] = wide.data.shape
        if words.fork % 2:
            others, output, shape, changes = {output: shape}, "fork", wide.data.shape, True
    if words.shared is not None:
        second, tensor = _second_operator(wide, words.shared)
        nodes.append(second)
        (constants if "x" in words.constants else inputs)["x2"] = tensor
        if words.shared % 2:
            others[output] = tuple(shape)
            output, shape, changes = second.output, wide.data.shape, True
        else:
            others[second.output] = wide.data.shape
    places = np.empty(0 if changes else call.values, np.int64)
    if not changes:
        moved = after.numbers
        places[moved[moved >= 0]] = np.flatnonzero(moved.reshape(-1) >= 0)
    return Graph(
        tuple(nodes), inputs, constants, words.symbolic, output, tuple(shape), places, tuple(call.data.shape),
        others, changes, wide,
    )  # fmt: skip


def changing_graph(call: Call) -> Graph | None:
    """The graph of a call whose surroundings change values; None for other calls."""
    if not any(word.startswith(("fork:", "shared:")) or word[2:].partition(":")[0] in CHANGES for word in call.around):
        return None
    graph = surround(call)
    return graph if graph.changes_values else None


def changes_values(call: Call) -> bool:
    """True if a word of the call's surroundings changes values."""
    return changing_graph(call) is not None


def changing_operators(graph: Graph) -> List[str]:
    """The operators besides the call's own that change values on the way to the graph's result."""
    needed, operators = {graph.output}, []
    for node in reversed(graph.nodes):
        if node.output in needed:
            needed.update(node.inputs)
            operators += [node.operator] if node.output != "y" else []
    return list(dict.fromkeys(operator for operator in reversed(operators) if operator not in _MOVING))


_MOVING = ("Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Slice", "Gather", "Concat", "Identity")

_FORKS = ("identity", "relu", "neg", "quantize")
"""Operators of a second consumer."""


def _second_consumer(call: Call, number: int) -> tuple[list[Node], dict[str, Tensor]]:
    """A second consumer of y.

    An odd number makes its output the result, and half of the number chooses the operator.
    """
    word = _FORKS[number // 2 % len(_FORKS)]
    point = Point("y", result_dtype(call), call.data.shape, spread_of(call), True)
    step = CHANGES[word](call, point, 0, "fork", opset_beside(call)) if word in CHANGES else None
    if step is None:
        return [Node("Identity", ("y",), "fork")], {}
    return list(step.nodes), dict(step.constants)


def _second_operator(call: Call, number: int) -> tuple[Node, Tensor]:
    """A second DequantizeLinear with the same scale, and its data: x in reverse order.

    An odd number makes its output the result. Its half says if the zero point is shared too (0), or left out (1).
    """
    data = call.data
    reverse = Tensor(data.dtype, np.array(data.codes.reshape(-1)[::-1]).reshape(data.shape), "C")
    operands = [role for role in _ORDER if role in call.tensors]
    if number // 2 % 2 and "scale" in call.tensors:
        operands = [role for role in operands if role != "zero_point"]
    names = ("x2", *operands[1:])
    return Node(OPERATOR, names, "shared", dict(call.attributes), True), reverse


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
        elif mark == "<" and target == "x" and name in BEFORE_QUANTIZE:
            words.before.setdefault("x", []).append(step)
        elif mark == ">" and target == "y" and name in (*AFTER, "requantize", *CHANGES):
            words.after.append(step)
        elif mark == ":" and target == "fork" and name.isdigit() and number is None:
            words.fork = int(name)
        elif mark == ":" and target == "shared" and name.isdigit() and number is None:
            words.shared = int(name)
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


def _before_operand(
    call: Call, role: str, tensor: Tensor, moves: _Moves
) -> tuple[list[Node], dict[str, Tensor], dict[str, Tensor]]:
    """The nodes that make an operand, the tensors that they begin with, and constants of the nodes."""
    nodes: list[Node] = []
    bounds: dict[str, Tensor] = {}
    shape, name = tensor.shape, role
    shapes: dict[str, Shape] = {role: shape}
    in_place = True
    for index, (kind, number) in enumerate(reversed(moves)):
        source = f"{role}_{len(moves) - index}"
        if kind == "quantize":
            shapes = {source: shape}
            operands = _quantizing(call) if in_place or _per_tensor(call) else None
            if operands is None or tensor.dtype != call.data.dtype:
                nodes.insert(0, Node("Identity", (source,), name))
            else:
                attributes = {key: value for key, value in call.attributes.items() if key != "output_dtype"}
                nodes.insert(0, Node(QUANTIZE, (source, *operands), name, attributes, True))
                tensor = _dequantized(call)
            name = source
            continue
        if kind in BEFORE_QUANTIZE:
            shapes = {source: shape}
            node, constants = _bounded(call, kind, number, tensor, source, name)
            nodes.insert(0, node)
            bounds.update(constants)
            name = source
            continue
        move = MOVES[kind](shape, number, True) or Move("Identity", shape)
        in_place = False
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
    return nodes, _filled(tensor, role, nodes, shapes) if moves else {role: tensor}, bounds


def _bounded(
    call: Call, kind: str, number: int, tensor: Tensor, source: str, target: str
) -> tuple[Node, dict[str, Tensor]]:
    """A Clip or Relu that leaves the values of a tensor as they are, and its constants."""
    nothing: tuple[Node, dict[str, Tensor]] = Node("Identity", (source,), target), {}
    if tensor.dtype not in FLOATS or not tensor.size:
        return nothing
    numbers = numbers_of(tensor)
    least, most = float(numbers.min()), float(numbers.max())
    if kind == "relu":
        return (Node("Relu", (source,), target), {}) if least >= 0 else nothing
    lowest, highest = ends_of(call)
    covering = min(least, lowest), max(most, highest)
    ends = (covering, (least, most), (2 * covering[0], 2 * covering[1]))[number % 3]
    bounds = {f"{target}_{end}": coded(tensor.dtype, bound) for end, bound in zip(("min", "max"), ends)}
    if opset_beside(call) < CLIP_INPUTS:
        values = {name.rpartition("_")[2]: float(numbers_of(bound)) for name, bound in bounds.items()}
        return Node("Clip", (source,), target, values), {}
    return Node("Clip", (source, *bounds), target), bounds


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


@dataclass
class _After:
    nodes: list[Node]
    constants: dict[str, Tensor]
    output: str
    numbers: Array
    """The moved indices of the values. If values change, only their shape has a meaning."""
    changes: bool = False
    inputs: dict[str, Tensor] = field(default_factory=dict)


def _after_result(call: Call, numbers: Array, words: _Moves, cut: Move | None) -> _After:
    """The nodes after the result."""
    after = _After([], {}, "y", numbers)
    opset = opset_beside(call)
    spread: Array | None = None
    in_place, dtype = True, result_dtype(call)
    for index, (kind, number) in enumerate(words):
        target = f"y_{index + 1}"
        shape = after.numbers.shape
        if kind in CHANGES:
            spread = spread_of(call) if spread is None else spread
            point = Point(after.output, dtype, shape, spread, in_place)
            step = CHANGES[kind](call, point, number, target, opset) if dtype in _PRECISION else None
            after.changes = after.changes or step is not None
            if step is None:
                after.nodes.append(Node("Identity", (after.output,), target))
            else:
                after.nodes += step.nodes
                after.constants.update(step.constants)
                after.inputs.update(step.inputs)
                in_place, dtype, spread = step.point.in_place, step.point.dtype, step.point.spread
                if step.point.shape != shape:
                    after.numbers = np.arange(int(np.prod(step.point.shape)), dtype=np.int64).reshape(step.point.shape)
            after.output = target
            continue
        move = MOVES[kind](shape, number, False) if kind != "requantize" else None
        if index == 0 and cut is not None:
            added = _written(cut, after.output, target)
        elif kind == "requantize" and (in_place or _per_tensor(call)) and requantizes(call) and dtype in _PRECISION:
            added, zeros = _pair(call, after.output, target)
            after.constants.update(zeros)
        else:
            added = _written(move or Move("Identity", shape), after.output, target)
            in_place = in_place and move is None
        after.numbers = run(added, {after.output: after.numbers})[target]
        after.nodes += added
        after.output = target
    return after


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


def _quantizing(call: Call) -> tuple[str, ...] | None:
    """The parameters of a QuantizeLinear that gives x, however it is computed; None if none surely does."""
    scale, zero_point = call.tensors.get("scale"), call.tensors.get("zero_point")
    if scale is None or not requantizes(call) or call.data.dtype not in quantized_dtypes(call):
        return None
    if zero_point is None and call.data.dtype != "uint8":
        return None
    # Before version 23, the scale has the type of the input.
    return ("scale",) if zero_point is None else ("scale", "zero_point")


def comes_quantized(call: Call) -> bool:
    """True if x can come from a QuantizeLinear with the call's parameters."""
    return _quantizing(call) is not None


def _dequantized(call: Call) -> Tensor:
    """The values of x, in the type of the scale."""
    zero_point = call.tensors.get("zero_point")
    offset = 0.0 if zero_point is None else along(call, numbers_of(zero_point))
    numbers = (numbers_of(call.data) - offset) * along(call, numbers_of(call.tensors["scale"]))
    return Tensor(call.tensors["scale"].dtype, coded(call.tensors["scale"].dtype, numbers).codes, call.data.layout)


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
    lowest = max(NORMAL[scale.dtype][0], NORMAL[out][0])
    highest = min(NORMAL[scale.dtype][1], NORMAL[out][1])
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
        operator = {"cut": "Slice", "pick": "Gather"}.get(name, " and ".join(OPERATORS.get(name, (name.capitalize(),))))
        if name == "requantize":
            parts.append("QuantizeLinear and DequantizeLinear after the result")
        elif target == "fork":
            parts.append("a second consumer of the result" + (", which is observed" if int(name) % 2 else ""))
        elif target == "shared":
            parts.append("a second operator with the same scale" + (", which is observed" if int(name) % 2 else ""))
        elif mark == "<":
            parts.append(f"{operator} before {_OPERAND_WORDS.get(target, target)}")
        elif mark == ">":
            parts.append(f"{operator} after the result")
        elif target == "constant":
            parts.append(f"{_OPERAND_WORDS.get(name, name)} a constant")
        else:
            parts.append("inputs with named extents")
    return ", ".join(parts)
