"""Values inside subgraphs, as outputs of a model.

A subgraph may run once, several times, or never: a branch of an If that is not taken does not run, and the body of a Loop runs in
each iteration. So such a value becomes two outputs of one row each: the elements of all its occurrences, and their shapes. Where
the subgraph does not run, a single element stands for nothing, with `_NOTHING` as its rank: OpenVINO takes no empty constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from xverify.core.call import BITS, Tensor, code_dtype
from xverify.core.dtypes import encode, integers, is_float, values
from xverify.model.inputs import BOOL
from xverify.model.read import Step, domain_of, steps, title_of
from xverify.oracles.onnx_model import element_type

Way = tuple[str, ...]
"""The way to a graph, see `xverify.model.nodes.Node.graph`."""

MOST_ELEMENTS = 1 << 18
"""Elements of a value of a Loop's body from which later iterations are left out."""

MARK = "xverify/mark"
"""A value that every graph of a model with such outputs sees. Exposed in a graph, it tells if the graph ran."""

_IF_OF_ANY_SHAPE = 11
"""The first opset in which the results of the branches of an If may have different shapes."""

_CONCATENATED = frozenset(
    [
        "bool", "bfloat16", "float16", "float32", "float64",
        "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    ]
)  # fmt: skip
"""The dtypes that ONNX concatenates. Others are cast to a wider type, which holds each of their numbers."""


@dataclass(frozen=True)
class Inner:
    """A value of a subgraph, as outputs of a model."""

    dtype: str
    """Its dtype in the model."""
    elements: str
    """The name of the output with its elements."""
    shapes: str
    """The name of the output with a rank and extents for each occurrence."""

    @property
    def outputs(self) -> tuple[str, str]:
        """The names of both."""
        return self.elements, self.shapes


@dataclass(frozen=True, eq=False)
class Occurrences:
    """The occurrences of a value in a run, in their order."""

    tensors: Sequence[Tensor]
    total: int
    """Their number; there are fewer tensors if they have more than `MOST_ELEMENTS` elements."""


def obstacle(proto: Any, way: Way) -> str:
    """The reason why the values of a graph cannot be outputs, as a clause; "" if they can."""
    graph, in_scan = proto.graph, ""
    opset = next((entry.version for entry in proto.opset_import if domain_of(entry.domain) == ""), 1)
    for name in way:
        step = next((step for step in steps(graph) if step.name == name), None)
        if step is None:
            return "inside a function of another opset than the model's"
        holder = graph.node[step.index]
        if (carry := _CARRIERS.get(holder.op_type)) is None or domain_of(holder.domain):
            return f"inside the {holder.op_type} {title_of(holder)}, whose inner values cannot be outputs"
        if in_scan and carry is not _scan:
            return f"inside a subgraph of the Scan {in_scan}, whose results must have the same shape each time"
        if carry is _if and opset < _IF_OF_ANY_SHAPE:
            return f"both branches of the If {title_of(holder)} must have the same shapes in opset {opset}"
        in_scan = in_scan or (title_of(holder) if carry is _scan else "")
        graph = step.graph
    return ""


def not_run(proto: Any, way: Way) -> str:
    """The clause that says that a graph did not run."""
    graph = proto.graph
    for name in way:
        step = _step(graph, name)
        holder, graph = graph.node[step.index], step.graph
    if holder.op_type == "If":
        return f"its branch of the If {title_of(holder)} was not taken with these inputs"
    return f"the body of the {holder.op_type} {title_of(holder)} did not run with these inputs"


def repeats(way: Way) -> bool:
    """True if a graph may run several times: a Loop or a Scan is on the way to it."""
    return any(name.partition("#")[0].endswith(".body") for name in way)


def _step(graph: Any, name: str) -> Step:
    return next(step for step in steps(graph) if step.name == name)


# --- exposing -----------------------------------------------------------------------------------


def expose(proto: Any, wanted: Sequence[tuple[Way, str, str]]) -> dict[tuple[Way, str], Inner]:
    """Make values of subgraphs outputs of a model.

    Args:
        proto: The model, an onnx.ModelProto. It gets more nodes and outputs.
        wanted: The way, the name and the dtype of each value. There is no `obstacle` on its way.
    """
    from onnx import TensorProto

    added = _Added()
    exposed = {}
    for way, name, dtype in dict.fromkeys(wanted):
        elements, shapes = _carried(proto.graph, way, name, dtype, added)
        exposed[way, name] = Inner(dtype, elements, shapes)
        for output, number in ((elements, _number(dtype)), (shapes, TensorProto.INT64)):
            proto.graph.output.append(_declared(output, number))
    constants = [
        _constant(name, number, [1, 1], [_NOTHING if number == TensorProto.INT64 else 0])
        for number, name in added.nothing.items()
    ]
    constants += [
        _constant(MARK, TensorProto.INT64, [2], [1, -1]),
        _constant(_MOST, TensorProto.INT64, [], [MOST_ELEMENTS]),
    ]
    others = list(proto.graph.node)
    del proto.graph.node[:]
    proto.graph.node.extend([*constants, *others])
    return exposed


_MOST = "xverify/most"

_NOTHING = -1


class _Added:
    """The names that are added to a model."""

    def __init__(self) -> None:
        self.count = 0
        self.nothing: dict[int, str] = {}
        """Constants of the model's own graph that stand for no occurrence, by element type."""

    def name(self) -> str:
        """A new name."""
        self.count += 1
        return f"xverify/{self.count}"

    def nothing_of(self, number: int) -> str:
        return self.nothing.setdefault(number, f"xverify/nothing{number}")


def _number(dtype: str) -> int:
    """The element type of the output for a value of a dtype."""
    from onnx import TensorProto

    if dtype == "bool":
        return int(TensorProto.BOOL)
    if dtype in _CONCATENATED:
        return element_type(dtype)
    return int(TensorProto.FLOAT if is_float(dtype) else TensorProto.INT32)


def _constant(name: str, number: int, shape: Sequence[int], held: Sequence[int]) -> Any:
    from onnx import helper

    return helper.make_node("Constant", [], [name], value=helper.make_tensor("", number, shape, held))


def _carried(graph: Any, way: Way, name: str, dtype: str, added: _Added) -> tuple[str, str]:
    """Carry a value out of the graph at the end of a way. Returns its elements and shapes in this graph."""
    from onnx import TensorProto, helper

    if way:
        step = _step(graph, way[0])
        elements, shapes = _carried(step.graph, way[1:], name, dtype, added)
        holder = graph.node[step.index]
        carry = _CARRIERS[holder.op_type]
        first = carry(graph, holder, step, elements, _number(dtype), added)
        return first, carry(graph, holder, step, shapes, TensorProto.INT64, added)
    cast, elements, shape, rank, record, shapes = name, *(added.name() for _ in range(5))
    if dtype not in _CONCATENATED:
        cast = added.name()
        graph.node.append(helper.make_node("Cast", [name], [cast], to=_number(dtype)))
    graph.node.extend(
        [
            helper.make_node("Flatten", [cast], [elements], axis=0),
            helper.make_node("Shape", [name], [shape]),
            helper.make_node("Shape", [shape], [rank]),
            helper.make_node("Concat", [rank, shape], [record], axis=0),
            helper.make_node("Flatten", [record], [shapes], axis=0),
        ]
    )
    return elements, shapes


def _declared(name: str, number: int) -> Any:
    """The declaration of a row. Its extent may change from one iteration to the next."""
    from onnx import helper

    return helper.make_tensor_value_info(name, number, [1, None])


def _if(graph: Any, holder: Any, step: Step, name: str, number: int, added: _Added) -> str:
    """A further result of an If: the value, or nothing if the other branch runs."""
    from onnx import helper

    outside = added.name()
    for attribute in holder.attribute:
        if attribute.name == step.attribute:
            attribute.g.output.append(_declared(name, number))
        elif attribute.HasField("g"):
            nothing = added.name()
            attribute.g.node.append(helper.make_node("Identity", [added.nothing_of(number)], [nothing]))
            attribute.g.output.append(_declared(nothing, number))
    holder.output.append(outside)
    return outside


def _loop(graph: Any, holder: Any, step: Step, name: str, number: int, added: _Added) -> str:
    """A further result of a Loop, that grows in each iteration."""
    from onnx import helper

    outside, before, after, size, has_room, longer, same = (added.name() for _ in range(7))
    branches = [
        helper.make_graph([node], node.output[0], [], [_declared(node.output[0], number)])
        for node in (helper.make_node("Concat", [before, name], [longer], axis=1), helper.make_node("Identity", [before], [same]))
    ]  # fmt: skip
    step.graph.node.extend(
        [
            helper.make_node("Size", [before], [size]),
            helper.make_node("Less", [size, _MOST], [has_room]),
            helper.make_node("If", [has_room], [after], then_branch=branches[0], else_branch=branches[1]),
        ]
    )
    while len(holder.input) < 2:
        holder.input.append("")
    states = len(holder.input) - 2
    holder.input.append(added.nothing_of(number))
    step.graph.input.append(_declared(before, number))
    _insert(step.graph.output, 1 + states, _declared(after, number))
    _insert(holder.output, states, outside)
    return outside


def _scan(graph: Any, holder: Any, step: Step, name: str, number: int, added: _Added) -> str:
    """A further result of a Scan, that stacks the values of all steps."""
    from onnx import helper

    stacked, outside = added.name(), added.name()
    step.graph.output.append(_declared(name, number))
    holder.output.append(stacked)
    for attribute in holder.attribute:
        if attribute.name in ("scan_output_axes", "scan_output_directions"):
            attribute.ints.append(0)
    graph.node.append(helper.make_node("Reshape", [stacked, MARK], [outside]))
    return outside


_CARRIERS: Mapping[str, Callable[..., str]] = {"If": _if, "Loop": _loop, "Scan": _scan}


def _insert(items: Any, index: int, item: Any) -> None:
    kept = [*items[:index], item, *items[index:]]
    del items[:]
    items.extend(kept)


# --- reading ------------------------------------------------------------------------------------


def occurrences(inner: Inner, outputs: Mapping[str, Tensor]) -> Occurrences | None:
    """The occurrences of a value in a run; None if the run does not give them.

    Raises:
        ValueError: The shapes and the elements contradict each other.
    """
    if any(name not in outputs for name in inner.outputs):
        return None
    elements, codes = outputs[inner.elements], outputs[inner.shapes].codes
    records = integers("int64", codes.reshape(-1)).tolist()
    shapes: list[tuple[int, ...] | None] = []
    at = 0
    while at < len(records):
        rank = records[at]
        shapes.append(None if rank == _NOTHING else tuple(records[at + 1 : at + 1 + rank]))
        at += 1 + max(0, rank)
    ends = np.cumsum([0, *(1 if shape is None else math.prod(shape) for shape in shapes)]).tolist()
    codes = _codes(inner.dtype, elements)
    if codes.size not in ends:
        raise ValueError(f"the run gave {codes.size} elements of the shapes {shapes[:4]}")
    dtype = BOOL if inner.dtype == "bool" else inner.dtype
    every = [(a, b, shape) for (a, b), shape in zip(pairwise(ends), shapes, strict=True) if shape is not None]
    return Occurrences([Tensor(dtype, codes[a:b].reshape(s)) for a, b, s in every if b <= codes.size], len(every))


def _codes(dtype: str, elements: Tensor) -> Any:
    if dtype not in BITS or elements.dtype == dtype:
        return elements.codes.reshape(-1)
    return encode(dtype, values(elements.dtype, elements.codes.reshape(-1))).astype(code_dtype(dtype))
