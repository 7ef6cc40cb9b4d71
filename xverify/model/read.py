"""Reading of an ONNX model: its DequantizeLinear nodes and their values.

A model may be larger than the memory. So its large constants stay in their files, also those inside the model's own file: the
model is parsed without them, and refers to them as external data.
"""

from __future__ import annotations

import hashlib
import math
import mmap
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from xverify import contracts
from xverify.core.call import BITS, Attribute
from xverify.core.errors import UsageError
from xverify.model.constants import (
    constant_of,
    constant_of_node,
    damaged,
    dtype_of,
    external_entries,
    raw_bytes,
    stored_constant,
)
from xverify.model.nodes import Constant, Node, Operand
from xverify.oracles.onnx_model import ROLES

LARGE = 4096
"""Bytes from which a constant stays in its file."""

_TAG = "xverify.function"
"""The metadata key that keeps the name of a node's function while onnx inlines functions."""


WHOLE_NUMBERS = ("axis", "block_size", "output_dtype")
"""The attributes of a DequantizeLinear."""

ONNX_DOMAINS = ("", "ai.onnx.ml")
"""The domains whose operators the installed onnx knows all."""


@dataclass(frozen=True, eq=False)
class Scope:
    """A graph of a model, with the values that its nodes see."""

    graph: Any
    """The graph, as an onnx.GraphProto."""
    values: Mapping[str, Operand]
    """The values of the graph and of the graphs around it by name, as far as their types are known."""

    @cached_property
    def nodes(self) -> tuple[Any, ...]:
        """The nodes of the graph, as onnx.NodeProto."""
        return tuple(self.graph.node)

    @cached_property
    def maker(self) -> Mapping[str, int]:
        """The index of the node that makes a value, by the value's name."""
        return {name: index for index, node in enumerate(self.nodes) for name in node.output if name}

    @cached_property
    def users(self) -> Mapping[str, Sequence[int]]:
        """The indices of the nodes that use a value, also in their subgraphs, by the value's name."""
        users: dict[str, list[int]] = {}
        for index, node in enumerate(self.nodes):
            for name in dict.fromkeys((*node.input, *_captured(node))):
                users.setdefault(name, []).append(index)
        return users

    @cached_property
    def others(self) -> Mapping[str, Any]:
        """The initializers of dtypes that no `Tensor` has, as onnx.TensorProto by name."""
        return {tensor.name: tensor for tensor in self.graph.initializer if self.value(tensor.name).constant is None}

    def value(self, name: str) -> Operand:
        """A value. Its dtype is "" if nothing is known about it."""
        return self.values.get(name) or Operand(name, "", None)


@dataclass(frozen=True, eq=False)
class Model:
    """An ONNX model."""

    path: Path
    proto: Any
    """The onnx.ModelProto: functions inlined, types inferred. Constants of `LARGE` bytes or more are external data."""
    opsets: Mapping[str, int]
    """The version of each domain's operators. ONNX's own domain is ""."""
    nodes: tuple[Node, ...]
    """Every DequantizeLinear node, also those of subgraphs and functions, in the order of the model."""
    digest: str
    """The SHA-256 of the model's file in hex. Files of external data are not part of it."""
    inputs: tuple[Operand, ...]
    """The inputs that a run must get. An input with an initializer is a constant."""
    outputs: tuple[Operand, ...]
    scopes: Mapping[tuple[str, ...], Scope]
    """The graphs by the way to them, see `Node.graph`."""
    files: tuple[str, ...]
    """The files of external data, relative to the model's folder."""
    has_functions: bool
    """True if the model's file has functions, so that values of `proto` may have no counterpart in it."""

    @property
    def values(self) -> Mapping[str, Operand]:
        """The values of the model's own graph by name."""
        return self.scopes[()].values

    def scope(self, node: Node) -> Scope:
        """The graph of a node."""
        return self.scopes[node.graph]


def read_model(path: Path) -> Model:
    """Read a model without its large constants.

    Raises:
        DamagedFileError: The file is no ONNX model, or its external data is missing, too short or outside of its folder.
        UsageError: The model needs a newer onnx than the installed one, or has an operator that no version of ONNX has.
    """
    import onnx

    content, digest = _without_large(path)
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(content)
    except Exception as error:  # protobuf's exceptions depend on its back end
        raise damaged(path, str(error)) from None
    _check_text(path, proto)
    if not proto.opset_import:
        raise damaged(path, "it names no version of its operators")
    opsets = {domain_of(entry.domain): entry.version for entry in proto.opset_import}
    _check_versions(path, proto)
    _check_values(path, proto.graph, frozenset())
    files = _check_external(path, proto)
    has_functions = bool(proto.functions)
    if has_functions:
        proto = _inlined(path, proto)
    proto = _with_types(proto)
    scopes: dict[tuple[str, ...], Scope] = {}
    nodes: list[Node] = []
    _walk(_Walk(path, opsets, scopes, nodes), proto.graph, (), {}, "")
    for function in proto.functions:  # those of another opset than the model's, which onnx does not inline
        own = {domain_of(entry.domain): entry.version for entry in function.opset_import}
        _walk(_Walk(path, own, scopes, nodes), _as_graph(function), (f"function {function.name}",), {}, function.name)
    values, initialized = scopes[()].values, {tensor.name for tensor in proto.graph.initializer}
    inputs = tuple(values[value.name] for value in proto.graph.input if value.name not in initialized)
    outputs = tuple(values[value.name] for value in proto.graph.output)
    return Model(path, proto, opsets, _named(nodes), digest, inputs, outputs, scopes, files, has_functions)


def domain_of(domain: str) -> str:
    """The domain of an operator, "" for ONNX's own one."""
    return "" if domain == "ai.onnx" else domain


# --- the model's file ---------------------------------------------------------------------------


def _without_large(path: Path) -> tuple[bytes, str]:
    """The bytes of a model without its large constants, and the digest of its file."""
    import onnx

    with path.open("rb") as file:
        size = file.seek(0, 2)
        if not size:
            raise damaged(path, "the file is empty")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            try:
                return _shortened(memory, 0, size, onnx.ModelProto.DESCRIPTOR, path.name), digest
            except (RecursionError, ValueError) as error:
                raise damaged(path, str(error) or "it ends too early") from None


def _shortened(memory: mmap.mmap, begin: int, end: int, message: Any, location: str) -> bytes:
    """A message of the model's file, with its large tensors as external data in that file.

    Args:
        memory: The file.
        begin: The first byte of the message.
        end: The byte after the message.
        message: The descriptor of its type.
        location: The name of the file.
    """
    pieces = []
    at = begin
    while at < end:
        start = at
        key, at = _varint(memory, at, end)
        wire, number = key & 7, key >> 3
        if wire != 2:
            if wire == 0:
                at = _varint(memory, at, end)[1]
            elif wire in (1, 5):
                at += 8 if wire == 1 else 4
            else:
                raise ValueError(f"byte {start} begins no field")
            pieces.append(memory[start:at])
            continue
        length, at = _varint(memory, at, end)
        if at + length > end:
            raise ValueError(f"a field at byte {start} has {length} bytes, of which the file has {max(0, end - at)}")
        field = message.fields_by_number.get(number) if length >= LARGE else None
        if field is not None and message.name == "TensorProto" and field.name == "raw_data":
            pieces.append(_reference(location, at, length))
        elif field is not None and field.message_type is not None:
            inner = _shortened(memory, at, at + length, field.message_type, location)
            pieces += [_varint_bytes(key), _varint_bytes(len(inner)), inner]
        else:
            pieces.append(memory[start : at + length])
        at += length
    if at > end:
        raise ValueError("it ends within a field")
    return b"".join(pieces)


def _varint(memory: mmap.mmap, at: int, end: int) -> tuple[int, int]:
    """A variable-length integer, and the position after it."""
    value = shift = 0
    while at < end and shift < 70:
        byte = memory[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise ValueError(f"a number at byte {at} has no end")


def _varint_bytes(value: int) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _reference(location: str, offset: int, length: int) -> bytes:
    """The fields of a TensorProto that say where its data is."""
    import onnx

    tensor = onnx.TensorProto(data_location=onnx.TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)
    return bytes(tensor.SerializeToString())


# --- checks -------------------------------------------------------------------------------------


def _check_text(path: Path, message: Any) -> None:
    """Refuse names that are no text.

    Protobuf itself does not: it shows them as bytes, or fails where they are read.
    """
    for field, value in message.ListFields():
        if field.type == field.TYPE_STRING:
            try:
                is_text = all(isinstance(part, str) for part in value) and not isinstance(value, bytes)
            except UnicodeDecodeError:
                is_text = False
            if not is_text:
                raise damaged(path, f"a {field.name} in it is no text in UTF-8")
        elif field.message_type is not None:
            for inner in (value,) if hasattr(value, "ListFields") else value:
                _check_text(path, inner)


def _check_values(path: Path, graph: Any, outer: frozenset[str]) -> None:
    """Refuse values that nothing makes, that two nodes make, or that need themselves.

    The order of the nodes is free, as in most runtimes.
    """
    held = {value.name for value in (*graph.input, *graph.initializer)}
    held |= {tensor.values.name for tensor in graph.sparse_initializer} | {""}
    made: dict[str, int] = {}
    for index, node in enumerate(graph.node):
        for name in filter(None, node.output):
            if made.setdefault(name, index) != index or name in held:
                raise damaged(path, f"the value {name!r} is made twice, the second time by the node {title_of(node)}")
    known = outer | held | made.keys()
    waiting: dict[int, set[int]] = {}
    for index, node in enumerate(graph.node):
        if lost := next((name for name in node.input if name not in known), ""):
            raise damaged(path, f"nothing makes the value {lost!r}, which the node {title_of(node)} uses")
        makers = {made[name] for name in (*node.input, *_captured(node)) if name in made}
        if not all(maker < index and maker not in waiting for maker in makers):
            waiting[index] = makers
        for _, inner in subgraphs(node):
            _check_values(path, inner, known)
    if lost := next((value.name for value in graph.output if value.name not in known), ""):
        raise damaged(path, f"nothing makes the value {lost!r}, an output of the graph {graph.name!r}")
    while ready := [index for index, makers in waiting.items() if makers.isdisjoint(waiting)]:
        for index in ready:
            del waiting[index]
    if waiting:
        raise damaged(path, f"the node {title_of(graph.node[min(waiting)])} needs its own result")


def _check_versions(path: Path, proto: Any) -> None:
    """Refuse versions and operators that the installed onnx does not know."""
    import onnx

    if proto.ir_version > onnx.IR_VERSION:
        raise UsageError(
            f"{path} has version {proto.ir_version} of the model format, and onnx {onnx.__version__} knows versions to "
            f"{onnx.IR_VERSION}; install a newer onnx"
        )
    functions = {(domain_of(function.domain), function.name) for function in proto.functions}
    newest = {domain: newest for domain, (_, newest) in onnx.defs.C.schema_version_map().items()}
    for holder in (proto, *proto.functions):
        opsets = {domain_of(entry.domain): entry.version for entry in holder.opset_import}
        if (version := min(opsets.values(), default=1)) < 1:
            raise damaged(path, f"it names the version {version} of its operators")
        for domain in ONNX_DOMAINS:
            if opsets.get(domain, 0) > newest[domain]:
                raise UsageError(
                    f"{path} needs opset {opsets[domain]} of {domain or 'ai.onnx'}, and onnx {onnx.__version__} knows "
                    f"opsets to {newest[domain]}; install a newer onnx"
                )
        for node in _all_nodes(holder.graph.node if holder is proto else holder.node):
            domain = domain_of(node.domain)
            if domain not in ONNX_DOMAINS or (domain, node.op_type) in functions:
                continue
            if domain not in opsets:
                raise damaged(path, f"it has a {node.op_type} node, and names no version of {domain or 'ai.onnx'}")
            required = _required(node.op_type, opsets[domain], domain)
            if required is None:
                raise UsageError(
                    f"{path} has a {node.op_type} node ({title_of(node)}), which opset {opsets[domain]} of "
                    f"{domain or 'ai.onnx'} does not have; correct its name, domain or opset"
                )
            # Old files name no types.
            typed = {(a.name, kind) for a in node.attribute for kind in ([a.type] if a.type else required.values())}
            if missing := next((item for item in required.items() if item not in typed), None):
                kind = onnx.AttributeProto.AttributeType.Name(missing[1])
                raise damaged(path, f"the {node.op_type} node {title_of(node)} has no {missing[0]!r} of type {kind}")


@cache
def _required(name: str, opset: int, domain: str) -> Mapping[str, int] | None:
    """The types of the attributes that an operator requires, by name; None if there is no such operator."""
    import onnx

    try:
        schema = onnx.defs.get_schema(name, opset, domain)
    except onnx.defs.SchemaError:
        return None
    return {name: int(attribute.type.value) for name, attribute in schema.attributes.items() if attribute.required}


def title_of(node: Any) -> str:
    """The name of a node, or of its first result."""
    return str(node.name or next(iter(node.output), "without a name"))


def subgraphs(node: Any) -> Iterator[tuple[str, Any]]:
    """The graphs among a node's attributes, by the attribute's name."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.name, attribute.g
        for number, graph in enumerate(attribute.graphs):
            yield f"{attribute.name}[{number}]", graph


@dataclass(frozen=True, eq=False)
class Step:
    """A graph inside a node of a graph."""

    name: str
    """Its name on the way to it, unique in the graph around it: "If_3.then_branch"."""
    index: int
    """The index of the node."""
    attribute: str
    """The node's attribute that holds it."""
    graph: Any


def steps(graph: Any) -> Iterator[Step]:
    """The graphs inside the nodes of a graph.

    Names of nodes may repeat: then the second gets "#2" at its end.
    """
    counts: dict[str, int] = {}
    for index, node in enumerate(graph.node):
        for attribute, inner in subgraphs(node):
            name = f"{title_of(node)}.{attribute}"
            counts[name] = counts.get(name, 0) + 1
            yield Step(name if counts[name] == 1 else f"{name}#{counts[name]}", index, attribute, inner)


def _captured(node: Any) -> Iterator[str]:
    """The names of the graphs around a node that its subgraphs use."""
    for _, graph in subgraphs(node):
        own = {value.name for value in (*graph.input, *graph.initializer)}
        own.update(name for inner in graph.node for name in inner.output)
        used = (name for inner in graph.node for name in (*inner.input, *_captured(inner)))
        yield from (name for name in (*used, *(output.name for output in graph.output)) if name not in own)


def _all_nodes(nodes: Sequence[Any]) -> Iterator[Any]:
    """The nodes, and those of their subgraphs."""
    for node in nodes:
        yield node
        for _, graph in subgraphs(node):
            yield from _all_nodes(graph.node)


def _all_tensors(graph: Any) -> Iterator[Any]:
    """The initializers and tensors of Constant nodes, also those of subgraphs."""
    yield from graph.initializer
    yield from _node_tensors(graph.node)


def _node_tensors(nodes: Sequence[Any]) -> Iterator[Any]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
        for _, graph in subgraphs(node):
            yield from _all_tensors(graph)


def _check_external(path: Path, proto: Any) -> tuple[str, ...]:
    """Check where external data is and how much there is, and read small constants.

    Returns:
        The files, relative to the model's folder.
    """
    files: dict[str, None] = {}
    tensors = [*_all_tensors(proto.graph), *(t for f in proto.functions for t in _node_tensors(f.node))]
    for tensor in tensors:
        dtype, shape = dtype_of(tensor.data_type), tuple(tensor.dims)
        if min(shape, default=0) < 0:
            raise damaged(path, f"the constant {tensor.name} has a negative extent")
        if math.prod(max(1, extent) for extent in shape) >= 1 << 59:  # more bytes than an address has
            raise damaged(path, f"the constant {tensor.name} has extents {list(shape)}")
        if tensor.data_location != tensor.EXTERNAL or not tensor.external_data:
            continue
        stored = stored_constant(path, tensor)
        if stored.file.name != path.name or not stored.file.samefile(path):
            files[external_entries(tensor)["location"]] = None
        if dtype in BITS and stored.nbytes < LARGE:
            tensor.raw_data = raw_bytes(stored)
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
    return tuple(files)


# --- functions and types ------------------------------------------------------------------------


def _inlined(path: Path, proto: Any) -> Any:
    """The model without functions. Each node of a function has the function's name in its metadata."""
    from onnx import inliner

    for function in proto.functions:
        for node in _all_nodes(function.node):
            node.metadata_props.add(key=_TAG, value=function.name)
    try:
        inlined = inliner.inline_local_functions(proto)
    except Exception as error:  # onnx raises errors of many types
        raise damaged(path, f"its functions cannot be inlined: {' '.join(str(error).split())}") from None
    for function in inlined.functions:
        for node in _all_nodes(function.node):
            _untag(node)
    return inlined


def _untag(node: Any) -> str:
    """Remove the name of a node's function from its metadata, and return it. "" if there is none."""
    name = ""
    for entry in [entry for entry in node.metadata_props if entry.key == _TAG]:
        name = entry.value
        node.metadata_props.remove(entry)
    return name


def _with_types(proto: Any) -> Any:
    """The model with inferred types. Without them if onnx cannot infer any."""
    from onnx import shape_inference

    try:
        return shape_inference.infer_shapes(proto, check_type=False, strict_mode=False, data_prop=True)
    except Exception:  # onnx raises errors of many types
        return proto


def _as_graph(function: Any) -> Any:
    """A function as a graph without types."""
    import onnx

    graph = onnx.GraphProto(name=function.name, node=function.node, value_info=function.value_info)
    graph.input.extend(onnx.ValueInfoProto(name=name) for name in function.input)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in function.output)
    return graph


# --- nodes --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Walk:
    """A walk through the graphs of a model."""

    path: Path
    opsets: Mapping[str, int]
    scopes: dict[tuple[str, ...], Scope]
    nodes: list[Node]


def _walk(walk: _Walk, graph: Any, way: tuple[str, ...], outer: Mapping[str, Operand], function: str) -> None:
    """Collect the scopes and nodes of a graph and its subgraphs."""
    scope = Scope(graph, ChainMap(_values(walk.path, graph, outer), outer))  # type: ignore[arg-type]
    walk.scopes[way] = scope
    inner: dict[int, list[Step]] = {}
    for step in steps(graph):
        inner.setdefault(step.index, []).append(step)
    for index, node in enumerate(graph.node):
        inside = _untag(node) or function
        if node.op_type == "DequantizeLinear" and domain_of(node.domain) in ("", "com.microsoft"):
            walk.nodes.append(_node(walk, scope, node, way, inside))
        for step in inner.get(index, ()):
            _walk(walk, step.graph, (*way, step.name), scope.values, inside)


def _values(path: Path, graph: Any, outer: Mapping[str, Operand]) -> dict[str, Operand]:
    """The values of a graph by name."""
    values = {info.name: _operand(info) for info in (*graph.input, *graph.value_info, *graph.output)}
    constants: dict[str, Constant | None] = {t.name: constant_of(path, t) for t in graph.initializer}
    for node in graph.node:
        if len(node.output) != 1 or node.domain not in ("", "ai.onnx"):
            continue
        if node.op_type == "Constant":
            constants[node.output[0]] = constant_of_node(path, node)
        elif node.op_type == "Identity" and (source := node.input[0]) in (constants.keys() | outer.keys()):
            constants[node.output[0]] = constants[source] if source in constants else outer[source].constant
    for name, constant in constants.items():
        if constant is not None:
            values[name] = Operand(name, constant.dtype, constant.shape, constant)
    for node in graph.node:
        if node.op_type in ("DequantizeLinear", "QuantizeLinear") and len(node.input) == 3 and len(node.output) == 1:
            # x and zero point have one type, also after an operator of com.microsoft, which onnx cannot infer.
            zero, codes = node.input[2], node.input[0] if node.op_type == "DequantizeLinear" else node.output[0]
            kept, typed = values.get(codes), values.get(zero) or outer.get(zero)
            if typed is not None and codes not in outer and not (kept and kept.dtype):
                values[codes] = replace(kept or Operand(codes, "", None), dtype=typed.dtype)
    return values


def _operand(info: Any) -> Operand:
    tensor = info.type.tensor_type
    dtype = dtype_of(tensor.elem_type) if tensor.elem_type else ""
    if not tensor.HasField("shape"):
        return Operand(info.name, dtype, None)
    extents = [d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else None for d in tensor.shape.dim]
    symbols = tuple(d.dim_param for d in tensor.shape.dim)
    return Operand(info.name, dtype, tuple(extents), None, symbols if any(symbols) else ())


def _node(walk: _Walk, scope: Scope, node: Any, way: tuple[str, ...], function: str) -> Node:
    if not 2 <= len(node.input) <= 3 or len(node.output) != 1 or not all(node.input[:2]):
        raise damaged(walk.path, f"the DequantizeLinear node {title_of(node)} has a wrong number of inputs or outputs")
    for attribute in node.attribute:
        if attribute.name in WHOLE_NUMBERS and attribute.type != attribute.INT and not attribute.ref_attr_name:
            raise damaged(walk.path, f"the attribute {attribute.name} of the node {title_of(node)} is no whole number")
    operands = {role: scope.value(name) for role, name in zip(ROLES, node.input, strict=False) if name}
    contract = edition(domain_of(node.domain), walk.opsets.get(domain_of(node.domain), 1))
    return Node(title_of(node), contract, _attributes(node), operands, node.output[0], way, function)


def edition(domain: str, opset: int) -> str:
    """The edition of DequantizeLinear in an opset: the newest one that is not newer than the opset."""
    owner, suffix = ("com.microsoft", "@installed") if domain else ("ai.onnx", "")
    listed = contracts.matching(f"{owner}/DequantizeLinear-*{suffix}")
    versions = [int(identity.removesuffix(suffix).rpartition("-")[2]) for identity in listed]
    version = max((version for version in versions if version <= opset), default=1)
    return f"{owner}/DequantizeLinear-{version}{suffix}"


def _attributes(node: Any) -> dict[str, Attribute]:
    """The attributes of a node as those of a call. An output type of 0 says nothing."""
    attributes: dict[str, Attribute] = {}
    for attribute in node.attribute:
        if attribute.name == "output_dtype":
            if attribute.i:
                attributes["output_dtype"] = dtype_of(attribute.i)
        elif attribute.type == attribute.INT:
            attributes[attribute.name] = attribute.i
        elif attribute.type == attribute.STRING:
            attributes[attribute.name] = attribute.s.decode(errors="replace")
    return attributes


def _named(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes with unique names: the second of a name gets "#2" at its end."""
    taken: set[str] = set()
    named = []
    for node in nodes:
        name, number = node.name, 1
        while name in taken:
            number += 1
            name = f"{node.name}#{number}"
        taken.add(name)
        named.append(replace(node, name=name))
    return tuple(named)
