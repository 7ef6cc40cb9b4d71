"""A call in its surroundings as a graph of several oneDNN operations, run partition by partition.

oneDNN's operations that move data take floating-point tensors only, so none of them precedes a quantized tensor. The graph
API leaves a partition that it does not support to its caller. If such a partition only moves data, this module moves it, and
the result goes into the next partition.
"""

from __future__ import annotations

from ctypes import byref, c_void_p
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Set, Tuple

import numpy as np

from xverify.core.call import Call, code_dtype
from xverify.core.moves import Node, run
from xverify.core.neighbours import numbers_of
from xverify.core.surroundings import OPERATOR, Graph
from xverify.oracles.arrays import Array, fenced, numpy_dtype
from xverify.oracles.onednn_graph_api import (
    ABS,
    CLAMP,
    CONSTANT,
    CPU,
    DEQUANTIZE,
    DYNAMIC_DEQUANTIZE,
    DYNAMIC_QUANTIZE,
    MAXIMUM,
    MINIMUM,
    MULTIPLY,
    QUANTIZE,
    RELU,
    REORDER,
    STATIC_RESHAPE,
    STATIC_TRANSPOSE,
    TYPE_CAST,
    Compiled,
    Library,
    Logical,
    LogicalTensor,
    Operation,
    UnsupportedError,
)

MARGIN = 64
"""Bytes before and after an output that must not change. It is a multiple of every vector's width."""

CANARY = 0xA5
"""The byte that fills the margins."""

UNWRITTEN, UNWRITTEN_AGAIN = 0xB7, 0x48
"""The bytes that fill an output before it is written, for the first run and for a second one."""

_RESHAPES = ("Reshape", "Squeeze", "Unsqueeze", "Flatten")

_CHANGES = {"Abs": ABS, "Max": MAXIMUM, "Min": MINIMUM, "Mul": MULTIPLY, "Relu": RELU}
"""Operations that change values and have no attributes."""


class Framed:
    """Memory for an output between margins."""

    def __init__(self, logical: LogicalTensor, pattern: int = UNWRITTEN) -> None:
        size = int(np.prod(logical.shape, dtype=np.int64)) * numpy_dtype(logical.dtype).itemsize
        self.logical = logical
        self._whole = np.full(size + 3 * MARGIN, CANARY, np.uint8)
        self._start = MARGIN + (-self._whole.ctypes.data) % MARGIN
        self._end = self._start + size
        self._whole[self._start : self._end] = self._pattern = pattern
        self._is_unwritten = False

    @property
    def address(self) -> int:
        return int(self._whole.ctypes.data) + self._start

    def written_by(self, run: Callable[[int], None]) -> None:
        """Let a function write to the address that it gets.

        Where elements still hold the pattern, it runs once more on another pattern. Elements that hold that one too were
        never written.
        """
        run(self.address)
        kept = self._holds_pattern()
        if kept.any():
            again = Framed(self.logical, UNWRITTEN_AGAIN)
            run(again.address)
            self._is_unwritten = bool((kept & again._holds_pattern()).any())

    def _holds_pattern(self) -> Array:
        """True for each element of which every byte is the pattern."""
        codes = self._whole[self._start : self._end].view(code_dtype(self.logical.dtype))
        return codes == np.full(codes.itemsize, self._pattern, np.uint8).view(codes.dtype)[0]

    def codes(self) -> Array:
        """A copy of the output's codes."""
        written = self._whole[self._start : self._end].copy()
        return written.view(code_dtype(self.logical.dtype)).reshape(self.logical.shape)

    def notes(self) -> Tuple[str, ...]:
        """The notes on writes to the margins, and on elements that were never written."""
        notes = []
        if (self._whole[: self._start] != CANARY).any():
            notes.append("written-before-output")
        if (self._whole[self._end :] != CANARY).any():
            notes.append("written-after-output")
        if self._is_unwritten:
            notes.append("never-written")
        return tuple(notes)


class Step(NamedTuple):
    """A node of a graph as one oneDNN operation."""

    node: Node
    operation: Operation
    inputs: Tuple[str, ...]
    """The names of its input tensors."""


def packed(dtype: str, shape: Tuple[int, ...]) -> LogicalTensor:
    """A tensor of that shape in C order."""
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * max(1, extent))
    return LogicalTensor(dtype, shape, tuple(reversed(strides[: len(shape)])))


def steps_of(call: Call, graph: Graph, lone: Operation, inputs_and_constants: Dict[str, LogicalTensor]) -> List[Step]:
    """The nodes of a graph as operations.

    Args:
        lone: The call's own operation.
        inputs_and_constants: The tensors that are fed, and the constants.

    Raises:
        UnsupportedError: oneDNN lacks an operation.
    """
    tensors = dict(inputs_and_constants)
    if lone.kind == DEQUANTIZE and any(node.output.split("_")[0] in ("scale", "zero") for node in graph.nodes):
        raise UnsupportedError(
            "the scales and zero points of oneDNN's Dequantize are attributes: nothing stands before them"
        )
    moved = {name: np.empty(logical.shape, np.uint8) for name, logical in inputs_and_constants.items()}
    steps = []
    for node in graph.nodes:
        names = node.inputs
        kind, dtype, attributes = _kind(node, call, lone)
        if node.operator in _CHANGES:
            moved[node.output] = np.empty(np.broadcast_shapes(*(moved[name].shape for name in names)), np.uint8)
        else:
            moved.update(run([node], moved))
        if kind == CLAMP:
            bounds = [float(numbers_of(graph.constants[name])) for name in names[1:] if name]
            if len(bounds) < 2:
                raise UnsupportedError("oneDNN's Clamp has two bounds")
            if bounds[0] > bounds[1]:  # allowed by ONNX alone, whose Clip then gives the upper bound
                raise UnsupportedError(
                    "oneDNN's guide does not say what a Clamp with a lower bound above the upper one gives"
                )
            attributes["bounds"] = tuple(bounds)
            names = names[:1]
        if node.of_call:
            # Scales and zero points of the static operations are attributes. Only ONNX takes the zero of a pair.
            roles = ("scale", "zero_point") if lone.kind == DYNAMIC_DEQUANTIZE else ()
            names = (names[0], *(name for name in names[1:] if name in roles))
        dtype = dtype or tensors[names[0]].dtype
        tensors[node.output] = output = packed(dtype, tuple(moved[node.output].shape))
        if kind == STATIC_RESHAPE:
            attributes["shape"] = output.shape
        inputs = tuple(tensors[name] for name in names)
        steps.append(Step(node, Operation(kind, inputs, output, **attributes), names))
    return steps


def _kind(node: Node, call: Call, lone: Operation) -> Tuple[int, str, Dict[str, Any]]:
    """The number of a node's operation, its output's dtype ("" for its input's), and its attributes."""
    if node.of_call:
        attributes = {name: getattr(lone, name) for name in ("qtype", "axis", "scales", "zps")}
        if node.operator == OPERATOR:
            return lone.kind, lone.output.dtype, attributes
        return QUANTIZE if lone.kind == DEQUANTIZE else DYNAMIC_QUANTIZE, call.data.dtype, attributes
    if node.operator in _CHANGES:
        return _CHANGES[node.operator], "", {}
    if node.operator == "Clip":
        return CLAMP, "", {}
    if node.operator == "Cast":
        return TYPE_CAST, str(node.attributes["to"]), {}
    if node.operator == "Identity":
        return REORDER, "", {}
    if node.operator == "Transpose":
        return STATIC_TRANSPOSE, "", {"order": tuple(node.attributes["perm"])}
    if node.operator in _RESHAPES:
        return STATIC_RESHAPE, "", {}
    raise UnsupportedError("oneDNN has no operation %s" % (node.operator,))


def run_steps(
    library: Library,
    steps: Sequence[Step],
    fed: Dict[str, Tuple[Array, LogicalTensor]],
    constants: Set[str],
    policy: int,
    result: str,
) -> Tuple[Array, Tuple[str, ...]]:
    """Run the steps. Return the codes of the result, and notes on writes beside outputs.

    Args:
        fed: Arrays and logical tensors of inputs and constants, by name.
        constants: The names of those that are declared constant.
        policy: The policy by which the library makes partitions.
        result: The name of the result.

    Raises:
        UnsupportedError: The library does not support a partition.
        RefusedError: The library refuses the graph.
    """
    numbers = {name: number for number, name in enumerate([*fed, *(step.node.output for step in steps)])}
    tensors = {
        **{name: tensor for name, (_, tensor) in fed.items()},
        **{s.node.output: s.operation.output for s in steps},
    }
    logical = {name: library.logical(numbers[name], tensor) for name, tensor in tensors.items()}
    for name in constants:
        logical[name].property = CONSTANT
    by_number = {number: name for name, number in numbers.items()}
    outputs: Dict[str, Framed] = {}
    codes = {name: array for name, (array, _) in fed.items()}
    graph = library.made("dnnl_graph_graph_create", CPU)
    operations, partitions = [], []
    try:
        for number, step in enumerate(steps):
            op = library.made("dnnl_graph_op_create", number, step.operation.kind, b"%d" % number)
            operations.append(op)
            for name in step.inputs:
                library.call("dnnl_graph_op_add_input", op, byref(logical[name]))
            library.call("dnnl_graph_op_add_output", op, byref(logical[step.node.output]))
            library.set_attributes(op, step.operation)
            library.call("dnnl_graph_add_op", graph, op)
        library.call("dnnl_graph_graph_finalize", graph)
        library.call("dnnl_graph_graph_filter", graph, policy)
        waiting = partitions = library.partitions(graph)
        while waiting:
            takes = [[by_number[number] for number in library.ports(partition, "input")] for partition in waiting]
            ready = [all(name in codes for name in names) for names in takes]
            if not any(ready):
                raise UnsupportedError("the partitions of the graph take what none of them gives")
            index = ready.index(True)
            _run_partition(library, waiting[index], takes[index], by_number, logical, steps, codes, outputs)
            waiting = waiting[:index] + waiting[index + 1 :]
    finally:
        for partition in partitions:
            library.call("dnnl_graph_partition_destroy", partition)
        for op in operations:
            library.call("dnnl_graph_op_destroy", op)
        library.call("dnnl_graph_graph_destroy", graph)
    if result not in codes:
        raise UnsupportedError("no partition gives what the graph ends with")
    return codes[result], tuple(sorted({note for output in outputs.values() for note in output.notes()}))


def _run_partition(
    library: Library,
    partition: c_void_p,
    takes: Sequence[str],
    names: Dict[int, str],
    logical: Dict[str, Logical],
    steps: Sequence[Step],
    codes: Dict[str, Array],
    outputs: Dict[str, Framed],
) -> None:
    """Run one partition, or move its data here, and add its output to ``codes``."""
    gives = [names[number] for number in library.ports(partition, "output")]
    if len(gives) != 1:
        raise UnsupportedError("a partition gives %d tensors, not one" % len(gives))
    step = next(step for step in steps if step.node.output == gives[0])
    if not library.supports(partition):
        if step.node.of_call or step.node.operator in (*_CHANGES, "Clip", "Cast"):
            raise UnsupportedError("no partition of the graph is supported")
        codes[gives[0]] = _for_the_next(np.array(run([step.node], codes)[gives[0]], order="C"))
        return
    framed = outputs[gives[0]] = Framed(step.operation.output)
    of_it = [logical[name] for name in (*takes, *gives)]
    compiled = Compiled(library, library.compile_partition(partition, of_it), of_it)
    try:
        framed.written_by(lambda address: compiled([*(codes[name].ctypes.data for name in takes), address]))
    finally:
        compiled.close()
    codes[gives[0]] = _for_the_next(framed.codes())


def _for_the_next(result: Array) -> Array:
    """A partition's result in memory like that of an operand, since the next one may read past its end."""
    return fenced({"": result})[""]
