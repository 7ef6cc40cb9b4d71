"""Parts of a model: a few nodes around a node, and the whole model with more outputs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from xverify.core.call import BITS, Tensor
from xverify.model.constants import bytes_of
from xverify.model.inner import Inner, Way, expose
from xverify.model.nodes import Node, Operand
from xverify.model.read import ONNX_DOMAINS, Model, Scope, domain_of, subgraphs
from xverify.oracles.arrays import pack
from xverify.oracles.onnx_model import ROLES, element_type

LARGEST_PART = 1 << 20
"""Bytes that the constants of a part may have together."""

MOST_NODES = 16
"""Nodes that a part may have, apart from those that make constants."""

_RANDOM = frozenset(
    ["Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"]
)
"""Operators whose result may differ in two runs."""

_MOST_STEPS = 8
"""Nodes one after the other that make a constant."""

_PIECE = 1 << 26
"""Bytes of a file of data that are copied at a time."""


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a model, as a model of its own without external data.

    Its values have their names in the model.
    """

    content: bytes
    """The ONNX model."""
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    """Values after the node. The node's result is one of them only if no node of the part uses it."""
    operators: tuple[str, ...]
    """The types of its nodes, in order."""
    operands: Mapping[str, str]
    """The names of the node's values by role: x, scale, zero_point, y."""
    is_cut: bool
    """True if the node's constants are cut down, so that some extents are smaller than in the model."""


def neighbours(model: Model, node: Node, before: int = 2, after: int = 2) -> Part | None:
    """A part of a model with a few nodes around a node.

    Nodes that make constants for these, and DequantizeLinear and QuantizeLinear nodes at their borders, also belong to the part,
    since optimisers fuse them. If the constants are too large, there are fewer nodes, or the node's constants are cut down.

    Args:
        model: The model.
        node: One of its nodes.
        before: The most nodes on a way to the node.
        after: The most nodes on a way from the node.

    Returns:
        The part. None if the type of an input is unknown.
    """
    web = _Web(model, node)
    if node.operands["x"].dtype not in BITS:
        return None
    sizes = sorted(
        {(b, a) for b in range(before + 1) for a in range(after + 1)}, key=lambda size: (-sum(size), -size[1])
    )
    for size in sizes:
        part = _part(web, _members(web, *size), {})
        if part is not None:
            return part
    return _cut_down(web)


# --- choice of nodes ----------------------------------------------------------------------------


class _Web:
    """The graph around a node: who makes and who uses each value."""

    def __init__(self, model: Model, node: Node) -> None:
        self.model, self.node = model, node
        self.scope: Scope = model.scope(node)
        self.nodes = self.scope.nodes
        self.maker, self.users = self.scope.maker, self.scope.users
        self.center = self.maker[node.output]
        self.domains = {*ONNX_DOMAINS, domain_of(self.nodes[self.center].domain)}

    def is_usable(self, index: int) -> bool:
        """True if a part may have the node."""
        node = self.nodes[index]
        return domain_of(node.domain) in self.domains and node.op_type not in _RANDOM and not any(subgraphs(node))

    def is_fixed(self, index: int, steps: int = _MOST_STEPS) -> bool:
        """True if a part may have the node, and its results depend on constants only."""
        return self.is_usable(index) and all(self._is_constant(name, steps) for name in self.nodes[index].input)

    def _is_constant(self, name: str, steps: int) -> bool:
        """True for a value that depends on constants only. "" stands for an absent input."""
        if not name or name in self.scope.others or self.scope.value(name).constant is not None:
            return True
        return steps > 0 and name in self.maker and self.is_fixed(self.maker[name], steps - 1)

    def makers(self, index: int) -> Iterator[int]:
        """The nodes that make the inputs of a node, apart from constants that a part holds as such."""
        for name in self.nodes[index].input:
            if name in self.maker and self.scope.value(name).constant is None:
                yield self.maker[name]

    def after(self, index: int) -> Iterator[int]:
        """The nodes that use the results of a node."""
        for name in self.nodes[index].output:
            yield from self.users.get(name, ())


def _members(web: _Web, before: int, after: int) -> set[int]:
    """The indices of the nodes of a part."""
    members = {web.center}

    def join(candidates: Iterator[int]) -> list[int]:
        joined = []
        for index in candidates:
            if index not in members and web.is_usable(index) and len(members) < MOST_NODES:
                members.add(index)
                joined.append(index)
        return joined

    edge = [web.center]
    for _ in range(after):
        edge = join(user for index in edge for user in web.after(index))
    if after:
        join(u for index in edge for u in web.after(index) if web.nodes[u].op_type == "QuantizeLinear")
    edge = [web.center]
    for _ in range(before):
        edge = join(maker for index in edge for maker in web.makers(index))
    if after or before:
        join(
            maker
            for index in sorted(members)
            for maker in web.makers(index)
            if web.nodes[maker].op_type == "DequantizeLinear"
        )
    return _with_fixed(web, members)


def _with_fixed(web: _Web, members: set[int]) -> set[int]:
    """The nodes, and those that make constants for them."""
    waiting = list(members)
    while waiting:
        for maker in web.makers(waiting.pop()):
            if maker not in members and web.is_fixed(maker):
                members.add(maker)
                waiting.append(maker)
    return members


# --- making of a part ---------------------------------------------------------------------------


def _part(web: _Web, members: set[int], replaced: Mapping[str, Operand | Tensor]) -> Part | None:
    """The part of these nodes. None if its constants are too large, or the type of an input is unknown.

    Args:
        web: The graph.
        members: The indices of the nodes.
        replaced: Values that are other constants than in the model, or inputs with other extents.
    """
    from onnx import helper

    order = sorted(members)
    made = {name for index in order for name in web.nodes[index].output if name}
    constants, inputs, total = [], [], 0
    for name in dict.fromkeys(name for index in order for name in web.nodes[index].input if name):
        value = replaced.get(name) or web.scope.value(name)
        if isinstance(value, Operand) and value.constant is not None:
            total += bytes_of(value.dtype, value.constant.shape)
            if total > LARGEST_PART:
                return None
            value = value.constant.part((slice(None),) * len(value.constant.shape))
        if isinstance(value, Tensor):
            constants.append(initializer(name, value))
            made.add(name)
        elif name in made and name not in replaced:
            continue
        elif name in web.scope.others:
            if web.scope.others[name].external_data:
                return None
            constants.append(web.scope.others[name])
        elif value.dtype not in (*BITS, "bool"):
            return None
        else:
            inputs.append(value)
    taken = {constant.name for constant in constants} | {value.value for value in inputs}
    order = [index for index in order if not taken.intersection(web.nodes[index].output)]
    outputs = [web.scope.value(name) for name in _results(web, order)]
    if replaced:
        outputs = [_of_any_extents(output) for output in outputs]
    graph = helper.make_graph(
        [web.nodes[index] for index in order],
        "part",
        [declared(value) for value in inputs],
        [declared(value) for value in outputs],
        constants,
    )
    used = {domain_of(web.nodes[index].domain) for index in order}
    opsets = [entry for entry in web.model.proto.opset_import if domain_of(entry.domain) in used]
    content = helper.make_model(graph, opset_imports=opsets, ir_version=web.model.proto.ir_version).SerializeToString()
    names = {role: operand.value for role, operand in web.node.operands.items()} | {"y": web.node.output}
    operators = tuple(web.nodes[index].op_type for index in order)
    return Part(content, tuple(inputs), tuple(outputs), operators, names, bool(replaced))


def _results(web: _Web, order: Sequence[int]) -> list[str]:
    """The outputs of a part: values after its node that no node of the part uses, or that others use too."""
    later, members = {web.node.output}, set(order)
    for index in order:
        if later.intersection(web.nodes[index].input):
            later.update(name for name in web.nodes[index].output if name)
    ends = {output.name for output in web.scope.graph.output}
    results = []
    for name in (name for index in order for name in web.nodes[index].output if name in later):
        inside = members.intersection(web.users.get(name, ()))
        outside = name in ends or not members.issuperset(web.users.get(name, ()))
        if not inside or (outside and name != web.node.output):
            results.append(name)
    return results


def initializer(name: str, tensor: Tensor) -> Any:
    """A constant of a model, an onnx.TensorProto."""
    import onnx

    codes = pack(tensor.codes, BITS[tensor.dtype]) if BITS[tensor.dtype] < 8 else tensor.codes
    raw = codes.astype(codes.dtype.newbyteorder("<")).tobytes()
    return onnx.TensorProto(name=name, data_type=element_type(tensor.dtype), dims=tensor.shape, raw_data=raw)


def declared(operand: Operand) -> Any:
    """The declaration of a value, an onnx.ValueInfoProto, as far as its type is known."""
    import onnx

    info = onnx.ValueInfoProto(name=operand.value)
    if operand.dtype not in (*BITS, "bool"):
        return info
    tensor = info.type.tensor_type
    tensor.elem_type = onnx.TensorProto.BOOL if operand.dtype == "bool" else element_type(operand.dtype)
    if operand.shape is not None:
        tensor.shape.SetInParent()
        for extent, symbol in zip(operand.shape, operand.symbols or ("",) * len(operand.shape), strict=True):
            dimension = tensor.shape.dim.add()
            if extent is not None:
                dimension.dim_value = extent
            elif symbol:
                dimension.dim_param = symbol
    return info


def _of_any_extents(operand: Operand) -> Operand:
    shape = None if operand.shape is None else (None,) * len(operand.shape)
    return Operand(operand.value, operand.dtype, shape)


# --- large constants ----------------------------------------------------------------------------


def _cut_down(web: _Web) -> Part | None:
    """The node with cut constants, beside a node that uses it if the extents of that one follow."""
    for user in web.users.get(web.node.output, ()):
        axis = _free_axis(web, user)
        if axis is None or not web.is_usable(user):
            continue
        replaced = _cut_operands(web.node, axis)
        extra = [name for name in web.nodes[user].input[2:] if name]
        if not replaced or any(web.scope.value(name).shape is None for name in extra):
            continue
        extent = _extent(replaced[web.node.operands["x"].value], axis)
        for name in extra:
            operand = web.scope.value(name)
            if operand.shape and operand.shape[-1] != 1 and len(operand.shape) == 1:
                replaced[name] = _first(operand, 0, extent)
        members = {web.center, user}
        for after in web.after(user):
            if web.nodes[after].op_type == "QuantizeLinear" and not web.scope.value(web.nodes[after].input[1]).shape:
                members.add(after)
        for maker in web.makers(user):
            if web.nodes[maker].op_type == "DequantizeLinear" and replaced.keys().isdisjoint(web.nodes[maker].output):
                members.add(maker)
        part = _part(web, _with_fixed(web, members), replaced)
        if part is not None:
            return part
    for axis in range(len(web.node.operands["x"].shape or ())):
        replaced = _cut_operands(web.node, axis)
        if replaced and (part := _part(web, {web.center}, replaced)):
            return part
    return None


def _free_axis(web: _Web, user: int) -> int | None:
    """The axis of y along which y can be cut, so that only extents of the user's result change."""
    node, rank = web.nodes[user], len(web.node.operands["x"].shape or ())
    attributes = {attribute.name: attribute.i for attribute in node.attribute}
    if list(node.input).count(web.node.output) != 1:
        return None
    position = list(node.input).index(web.node.output)
    if node.op_type == "MatMul" and position == 1 and rank >= 2:
        return rank - 1
    if node.op_type == "Gemm" and position == 1:
        return 0 if attributes.get("transB", 0) else 1
    if node.op_type == "Conv" and position == 1 and attributes.get("group", 1) == 1:
        return 0
    if node.op_type == "Gather" and position == 0 and rank >= 2 and attributes.get("axis", 0) % rank != rank - 1:
        return rank - 1
    return None


def _cut_operands(node: Node, axis: int) -> dict[str, Operand | Tensor]:
    """The node's operands with the first indices of an axis of x. Empty if they stay too large."""
    x = node.operands["x"]
    constant = x.constant
    if constant is None or not constant.shape[axis]:
        return {}
    rank, extent = len(constant.shape), constant.shape[axis]
    block = int(node.attributes.get("block_size", 0))
    along = int(node.attributes.get("axis", 1))
    along += rank if along < 0 else 0
    step = block if block and along == axis else 1
    total = sum(bytes_of(o.dtype, o.constant.shape) for o in node.operands.values() if o.constant is not None)
    keep = min(extent, LARGEST_PART // 2 * extent // total // step * step)
    if keep < 1:
        return {}
    replaced: dict[str, Operand | Tensor] = {x.value: _first(x, axis, keep)}
    for role in ROLES[1:]:
        operand = node.operands.get(role)
        if operand is None or not operand.shape:
            continue
        if len(operand.shape) == rank and block:
            count = -(-keep // step)
            replaced[operand.value] = _first(operand, axis, count)
        elif len(operand.shape) == 1 and along == axis and operand.shape[0] == extent:
            replaced[operand.value] = _first(operand, 0, keep)
    return replaced


def _first(operand: Operand, axis: int, count: int) -> Operand | Tensor:
    """The first indices of an axis: of the constant, or of an input."""
    assert operand.shape is not None
    if operand.constant is not None:
        index = tuple(slice(0, count) if position == axis else slice(None) for position in range(len(operand.shape)))
        return operand.constant.part(index)
    shape = (*operand.shape[:axis], count, *operand.shape[axis + 1 :])
    return replace(operand, shape=shape, symbols=())


def _extent(value: Operand | Tensor, axis: int) -> int:
    assert value.shape is not None
    extent = value.shape[axis]
    assert extent is not None
    return extent


# --- the whole model ----------------------------------------------------------------------------


def exposed(
    model: Model, values: Sequence[str], wanted: Sequence[tuple[Way, str, str]], folder: Path
) -> tuple[Path, dict[tuple[Way, str], Inner]]:
    """Write a copy of a model that has further outputs, also of values inside its subgraphs.

    The data of constants is neither loaded nor copied if the folder is on the same file system: the copy has hard links to the
    files of external data. ONNX Runtime and OpenVINO read such files. onnx refuses files with several links, so its user must
    read the data itself.

    Args:
        model: The model.
        values: Names of values of the model's own graph. Values that are outputs or inputs already, constants, or not in that
            graph are left out.
        wanted: The values of subgraphs, see `xverify.model.inner.expose`.
        folder: An empty folder.

    Returns:
        The path of the copy, and the outputs of the values of subgraphs by way and name.
    """
    import onnx

    outputs = {operand.value for operand in (*model.inputs, *model.outputs)}
    made = {name for node in model.proto.graph.node if node.op_type != "Constant" for name in node.output}
    added, own = onnx.ModelProto(), model.scopes[()]
    for name in dict.fromkeys(values):
        if name in made and name not in outputs:
            added.graph.output.append(declared(replace(own.value(name), shape=None)))
    folder.mkdir(parents=True, exist_ok=True)
    for location in model.files:
        link(model.path.parent / location, folder / location)
    path, inner = folder / model.path.name, {}
    if model.has_functions or wanted:
        proto = onnx.ModelProto()
        proto.CopyFrom(model.proto)
        proto.graph.ClearField("value_info")
        proto.MergeFrom(added)
        if wanted:
            inner = expose(proto, wanted)
        link(model.path, path)
        path = folder / f"{model.path.stem}.inlined{model.path.suffix}"
        path.write_bytes(proto.SerializeToString())
    else:
        shutil.copyfile(model.path, path)
        with path.open("ab") as file:  # Two messages of protobuf one after the other are their union.
            file.write(added.SerializeToString())
    return path, inner


def link(source: Path, target: Path) -> None:
    """Make a hard link to a file of data. Copy the file by parts if the file system does not allow that."""
    target.parent.mkdir(parents=True, exist_ok=True)
    source = source.resolve()
    try:
        os.link(source, target)
    except OSError:
        _copy(source, target)


def _copy(source: Path, target: Path) -> None:
    """Copy a file by parts. Parts of zeros become holes."""
    with source.open("rb") as read, target.open("wb") as written:
        while piece := read.read(_PIECE):
            if piece.count(0) == len(piece):
                written.seek(len(piece), os.SEEK_CUR)
            else:
                written.write(piece)
        written.truncate(source.stat().st_size)
