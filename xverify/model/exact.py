"""The legal values of a part of a model, as far as its operators compute exactly.

Each element has a set of legal codes, see `xverify.verify.graph_values`. A value is *rounded* if an operator made it whose result
no text fixes bit for bit, such as the sum of a MatMul. Everything that follows from a rounded value is rounded too. It may have
bounds, see `xverify.model.sums`: operators that compute exactly take the ends of an interval to the ends of another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify import contracts
from xverify.contracts.quantize import judge, quantize, quantized_dtype
from xverify.core.call import Call, Tensor
from xverify.core.dtypes import FLOATS, MANTISSA_BITS, MIN_EXPONENT, encode, integers
from xverify.core.moves import Node
from xverify.model.constants import constant_of, dtype_of
from xverify.model.read import edition
from xverify.model.sums import LENGTHS, Bounds, summed
from xverify.verify.graph_values import Values, compacted, fixed, from_legal, operated, united
from xverify.verify.legal import legal_set

MOST_ALTERNATIVES = 32
"""The largest number of alternatives of a value. With more, it counts as rounded."""

MOVES = (
    "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice", "SpaceToDepth", "Split",
    "Squeeze", "Tile", "Transpose", "Unsqueeze",
)  # fmt: skip
"""The operators that move or copy elements."""

REASONS: Mapping[str, str] = {
    **dict.fromkeys(MOVES, "it moves or copies elements"),
    **dict.fromkeys(("Max", "MaxPool", "Min", "Relu", "Clip"), "it selects one of its operands; the sign of a zero is free"),
    **dict.fromkeys(("Abs", "Neg"), "it changes the sign only"),
    "Constant": "its text is its value",
    "Cast": "every number of the narrower float type is one of the wider type",
    "QuantizeLinear": "its text names the rounding; the codes on both sides of a tie are legal where a division rounds",
    "DequantizeLinear": "its edition has a legal set",
}  # fmt: skip
"""The operators that compute exactly, each with the reason."""


@dataclass(frozen=True, eq=False)
class Evaluated:
    """The values of a part."""

    values: Mapping[str, Values]
    """The legal codes by the name of the value."""
    rounded: Mapping[str, str]
    """The reason why another value has none, as a clause such as "MatMul rounds it"."""
    after: Mapping[str, frozenset[str]]
    """The values from which a value follows."""
    bounds: Mapping[str, Bounds]
    """The bounds of those rounded values that have them."""


_MISFITS = (ArithmeticError, IndexError, KeyError, TypeError, ValueError, RuntimeError)
"""The errors of operands that do not fit an operator."""


class _InexactError(Exception):
    """A node whose result is not known bit for bit. The message is a clause."""


def constants_of(content: bytes) -> dict[str, Tensor]:
    """The constants of a model without external data: initializers and Constant nodes."""
    import onnx

    graph = onnx.load_model_from_string(content).graph
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            tensors[node.output[0]] = node.attribute[0].t
    return {name: held for name, tensor in tensors.items() if (held := _held(tensor)) is not None}


def _held(tensor: Any) -> Tensor | None:
    constant = constant_of(Path(), tensor)
    return None if constant is None else constant.part(tuple(slice(0, extent) for extent in constant.shape))


def evaluate(content: bytes, inputs: Mapping[str, Tensor]) -> Evaluated:
    """Evaluate a model without external data.

    Args:
        content: The ONNX model.
        inputs: All of its inputs.
    """
    import onnx

    proto = onnx.load_model_from_string(content)
    opsets = {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in proto.opset_import}
    values = {name: fixed(tensor) for name, tensor in (*constants_of(content).items(), *inputs.items())}
    rounded: dict[str, str] = {}
    after: dict[str, frozenset[str]] = {}
    bounds: dict[str, Bounds] = {}
    for node in proto.graph.node:
        named = [name for name in node.input if name]
        sources = frozenset(named).union(*(after.get(name, frozenset()) for name in named))
        after.update(dict.fromkeys(node.output, sources))
        if all(name in values for name in node.output):
            continue
        try:
            if lost := [name for name in named if name not in values]:
                raise _InexactError(rounded.get(lost[0], f"{lost[0]} is unknown"))
            made = _made(node, opsets, values)
        except _InexactError as error:
            rounded.update(dict.fromkeys(node.output, str(error)))
            bounds.update(_bounded(node, opsets, values, bounds))
        except _MISFITS:
            # The shapes or attributes do not fit: then implementations refuse the part, which a run shows.
            rounded.update(dict.fromkeys(node.output, f"{node.op_type} has operands of a wrong shape or type"))
        else:
            values.update(zip(node.output, made, strict=False))
    return Evaluated(values, rounded, after, bounds)


def _made(node: Any, opsets: Mapping[str, int], values: Mapping[str, Values]) -> list[Values]:
    """The results of a node.

    Raises:
        _InexactError: They are not known bit for bit, or have many alternatives.
    """
    made = _computed(node, opsets, values)
    if any(len(each.codes) > MOST_ALTERNATIVES for each in made):
        raise _InexactError(f"{node.op_type} has many legal results")
    return made


def _computed(node: Any, opsets: Mapping[str, int], values: Mapping[str, Values]) -> list[Values]:
    """The results of a node, with any number of alternatives.

    Raises:
        _InexactError: They are not known bit for bit.
    """
    domain = "" if node.domain == "ai.onnx" else node.domain
    attributes = _attributes(node)
    inputs = [values[name] if name else None for name in node.input]
    if node.op_type in ("DequantizeLinear", "QuantizeLinear") and domain in ("", "com.microsoft"):
        quantizing = _dequantized if node.op_type == "DequantizeLinear" else _quantized
        return [quantizing(domain, opsets.get(domain, 1), attributes, inputs)]
    if domain or node.op_type not in REASONS:
        raise _InexactError(f"{node.op_type} rounds it")
    if node.op_type in MOVES:
        return _moved(node, inputs, opsets[""])
    if node.op_type == "Cast":
        return [_cast(inputs[0], str(attributes["to"]))]
    return [_selected(node, attributes, inputs)]


def _attributes(node: Any) -> dict[str, Any]:
    from onnx import helper

    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    for name in ("to", "output_dtype", "precision"):
        if attributes.get(name):
            attributes[name] = dtype_of(attributes[name])
        else:
            attributes.pop(name, None)
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in attributes.items()}


# --- bounds -------------------------------------------------------------------------------------


def _bounded(
    node: Any, opsets: Mapping[str, int], values: Mapping[str, Values], bounds: Mapping[str, Bounds]
) -> dict[str, Bounds]:
    """The bounds of the results of a node that sums, or that maps intervals to intervals."""
    named = [name for name in node.input if name]
    try:
        if node.op_type in LENGTHS and node.domain in ("", "ai.onnx"):
            operands = [bounds[n] if n in bounds else _ends(values[n]) if n else None for n in node.input]
            made = [summed(node, opsets.get("", 1), operands)]
        elif node.op_type == "Abs":  # the only one that is not monotone
            return {}
        else:
            ends = {name: values[name] if name in values else _alternatives(bounds[name]) for name in named}
            sums = next((bounds[name].sums for name in named if name in bounds), "")
            made = [replace(_ends(each), sums=sums) for each in _computed(node, opsets, ends)]
    except (_InexactError, *_MISFITS):
        return {}
    return {name: each for name, each in zip(node.output, made, strict=False) if each is not None}


def _ends(values: Values) -> Bounds:
    """The least and the largest of the alternatives."""
    numbers = values.numbers
    least, most = numbers.min(0), numbers.max(0)
    return Bounds(values.dtype, np.where(values.open, -np.inf, least), np.where(values.open, np.inf, most))


def _alternatives(bounds: Bounds) -> Values:
    """The ends of the bounds as two alternatives, rounded outwards."""
    is_open = ~(np.isfinite(bounds.least) & np.isfinite(bounds.most))
    ends = np.where(is_open, 0.0, np.stack([bounds.least, bounds.most]))
    if bounds.dtype in FLOATS:
        further = np.abs(ends) * 2.0 ** -MANTISSA_BITS[bounds.dtype] + 2.0 ** MIN_EXPONENT[bounds.dtype]
        ends += np.where(is_open, 0.0, further * np.array([-1.0, 1.0]).reshape(2, *[1] * is_open.ndim))
    return Values(bounds.dtype, encode(bounds.dtype, ends), is_open)


# --- quantization -------------------------------------------------------------------------------

_Inputs = Sequence[Values | None]


def _parameter(values: Values) -> Tensor:
    if len(values.codes) > 1 or values.open.any():
        raise _InexactError("a scale or zero point has several legal values")
    return values.tensor(0)


def _parameters(inputs: _Inputs) -> dict[str, Tensor]:
    roles = zip(("scale", "zero_point"), inputs[1:], strict=False)
    return {role: _parameter(values) for role, values in roles if values is not None}


def _x(inputs: _Inputs) -> Values:
    if inputs[0] is None:
        raise ValueError("no x")
    return inputs[0]


def _dequantized(domain: str, opset: int, attributes: Mapping[str, Any], inputs: _Inputs) -> Values:
    contract = contracts.get(edition(domain, opset))
    x, parameters = _x(inputs), _parameters(inputs)
    pieces = []
    for index in range(len(x.codes)):
        call = Call(contract.id, {"x": x.tensor(index), **parameters}, dict(attributes))
        if contract.judge(call).verdict != "allowed":
            raise _InexactError(f"{contract.id} leaves the call of a DequantizeLinear open, or forbids it")
        pieces.append(from_legal(legal_set(contract, call)))
    return united(pieces[0].dtype, np.concatenate([piece.codes for piece in pieces]), x.open)


def _quantized(domain: str, opset: int, attributes: Mapping[str, Any], inputs: _Inputs) -> Values:
    x, parameters = _x(inputs), _parameters(inputs)
    scale, zero_point = parameters["scale"], parameters.get("zero_point")
    if scale.size != 1 and judge(opset, domain, x.tensor(0), scale, zero_point, attributes).verdict != "allowed":
        raise _InexactError("the text leaves the call of a QuantizeLinear open, or forbids it")
    is_open = x.open.copy()
    codes: list[NDArray[Any]] = []
    for index in range(len(x.codes)):
        made = quantize(opset, domain, x.tensor(index), scale, zero_point, attributes)
        codes += made.alternatives
        is_open |= made.open
    return Values(quantized_dtype(zero_point, attributes), compacted(np.stack(codes)), is_open)


# --- selections and casts -----------------------------------------------------------------------


def _cast(x: Values | None, to: str) -> Values:
    if x is None or x.dtype not in ("float16", "bfloat16", "float32") or to not in ("float32", x.dtype):
        raise _InexactError("Cast rounds it")
    if to == x.dtype:
        return x
    return united(to, np.asarray(x.numbers, np.float32).view(np.uint32).reshape(x.codes.shape), x.open)


def _selected(node: Any, attributes: dict[str, Any], inputs: _Inputs) -> Values:
    present = [each for each in inputs if each is not None]
    if any(each.dtype not in FLOATS for each in present):
        raise _InexactError(f"{node.op_type} of {present[0].dtype} is not evaluated")
    operator = str(node.op_type)
    if operator in ("Max", "Min"):
        pair = Node(operator, ("a", "b"), "y")
        return reduce(lambda a, b: operated(pair, [a, b]), present)
    if operator == "MaxPool":
        attributes = _pooling(node, attributes, present[0])
    return operated(Node(operator, tuple(node.input), node.output[0], attributes), present)


def _pooling(node: Any, attributes: Mapping[str, Any], x: Values) -> dict[str, Any]:
    kernel = list(attributes["kernel_shape"])
    plain = (
        attributes.get("auto_pad", "NOTSET") == "NOTSET"
        and not attributes.get("ceil_mode")
        and set(attributes.get("dilations", [1])) == {1}
        and len(node.output) == 1
        and x.open.ndim == len(kernel) + 2
    )
    if not plain:
        raise _InexactError("MaxPool with such attributes is not evaluated")
    strides, pads = attributes.get("strides", [1] * len(kernel)), attributes.get("pads", [0] * 2 * len(kernel))
    return {"kernel_shape": kernel, "strides": list(strides), "pads": list(pads)}


# --- moves --------------------------------------------------------------------------------------


def _moved(node: Any, inputs: Sequence[Values | None], opset: int) -> list[Values]:
    """The results of a node that moves elements.

    The reference evaluator of ONNX runs the node on the indices of the elements, and so says where each one goes.
    """
    import onnx
    from onnx.reference import ReferenceEvaluator

    data = [each for each in (inputs if node.op_type == "Concat" else inputs[:1]) if each is not None]
    starts = np.cumsum([0, *(each.open.size for each in data)])
    feeds = {
        f"data{i}": start + np.arange(each.open.size).reshape(each.open.shape)
        for i, (each, start) in enumerate(zip(data, starts, strict=False))
    }
    names = list(feeds)
    for i, control in enumerate(inputs[len(data) :]):
        names.append(f"control{i}" if control is not None else "")
        if control is not None:
            feeds[names[-1]] = _numbers(control)
    alone = onnx.NodeProto()
    alone.CopyFrom(node)
    alone.input[:] = names
    declared = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT64, each.shape) for name, each in feeds.items()
    ]
    graph = onnx.helper.make_graph([alone], "moves", declared, [onnx.ValueInfoProto(name=name) for name in node.output])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    every = np.concatenate([each.open.reshape(-1) for each in data])
    count = max(len(each.codes) for each in data)
    codes = np.stack(
        [np.concatenate([each.codes[i % len(each.codes)].reshape(-1) for each in data]) for i in range(count)]
    )
    return [
        Values(data[0].dtype, compacted(codes[:, places]), every[places])
        for places in map(np.asarray, ReferenceEvaluator(model).run(None, feeds))
    ]


def _numbers(values: Values) -> NDArray[np.int64]:
    if values.dtype not in ("int64", "int32"):
        raise ValueError("no whole numbers")
    return integers(values.dtype, _parameter(values).codes).astype(np.int64)
