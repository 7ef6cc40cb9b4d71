"""The legal values of a part of a model, as far as its operators compute exactly.

Each element has a set of legal codes, see `xverify.verify.graph_values`. A value is *rounded* if an operator made it whose result
no text fixes bit for bit, such as the sum of a MatMul. Everything that follows from a rounded value is rounded too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify import contracts
from xverify.contracts.quantize import judge, quantize, quantized_dtype
from xverify.core.call import Call, Tensor
from xverify.core.dtypes import FLOATS, integers
from xverify.core.moves import Node
from xverify.model.read import constant_of, dtype_of, edition
from xverify.verify.graph_values import Values, compacted, fixed, from_legal, operated, united
from xverify.verify.legal import legal_set

MOST_ALTERNATIVES = 32
"""The largest number of alternatives of a value. With more, it counts as rounded."""

REASONS: Mapping[str, str] = {
    **dict.fromkeys(
        ("Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice", "SpaceToDepth", "Split",
         "Squeeze", "Tile", "Transpose", "Unsqueeze"),
        "it moves or copies elements",
    ),
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
        except (ArithmeticError, IndexError, KeyError, TypeError, ValueError):
            # The shapes or attributes do not fit: then implementations refuse the part, which a run shows.
            rounded.update(dict.fromkeys(node.output, f"{node.op_type} has operands of a wrong shape or type"))
        else:
            values.update(zip(node.output, made, strict=False))
    return Evaluated(values, rounded, after)


def _made(node: Any, opsets: Mapping[str, int], values: Mapping[str, Values]) -> list[Values]:
    """The results of a node.

    Raises:
        _InexactError: They are not known bit for bit.
    """
    domain = "" if node.domain == "ai.onnx" else node.domain
    attributes = _attributes(node)
    inputs = [values[name] if name else None for name in node.input]
    if node.op_type in ("DequantizeLinear", "QuantizeLinear") and domain in ("", "com.microsoft"):
        quantizing = _dequantized if node.op_type == "DequantizeLinear" else _quantized
        made = [quantizing(domain, opsets.get(domain, 1), attributes, inputs)]
    elif domain or node.op_type not in REASONS:
        raise _InexactError(f"{node.op_type} rounds it")
    elif node.op_type in _MOVES:
        made = _moved(node, attributes, [each for each in inputs if each is not None], opsets[""])
    elif node.op_type == "Cast":
        made = [_cast(inputs[0], str(attributes["to"]))]
    else:
        made = [_selected(node, attributes, inputs)]
    if any(len(each.codes) > MOST_ALTERNATIVES for each in made):
        raise _InexactError(f"{node.op_type} has many legal results")
    return made


def _attributes(node: Any) -> dict[str, Any]:
    from onnx import helper

    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    for name in ("to", "output_dtype", "precision"):
        if attributes.get(name):
            attributes[name] = dtype_of(attributes[name])
        else:
            attributes.pop(name, None)
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in attributes.items()}


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

_Array = NDArray[Any]
_Move = Callable[[Sequence[_Array], Mapping[str, Any], Sequence[Any]], list[_Array]]


def _moved(node: Any, attributes: Mapping[str, Any], inputs: Sequence[Values], opset: int) -> list[Values]:
    """A node that moves elements: each alternative, and the mask of open elements.

    The lists of whole numbers that control it have one alternative each.
    """
    moved = len(inputs) if node.op_type == "Concat" else 1
    data, control = inputs[:moved], [_numbers(each) for each in inputs[moved:]]
    attributes = {**attributes, "outputs": len(node.output), "opset": opset}
    count = max(len(each.codes) for each in data)
    move = _MOVES[node.op_type]
    stacks = [move([each.codes[i % len(each.codes)] for each in data], attributes, control) for i in range(count)]
    masks = move([each.open for each in data], attributes, control)
    return [
        Values(data[0].dtype, compacted(np.stack([stack[position] for stack in stacks])), np.asarray(mask))
        for position, mask in enumerate(masks)
    ]


def _numbers(values: Values) -> NDArray[np.int64]:
    if values.dtype not in ("int64", "int32"):
        raise ValueError("no whole numbers")
    return integers(values.dtype, _parameter(values).codes)


def _listed(attributes: Mapping[str, Any], control: Sequence[Any], name: str) -> list[int] | None:
    """A list that is an attribute in old versions, and the first control input in new ones."""
    if control:
        return [int(number) for number in control[0].reshape(-1)]
    return list(attributes[name]) if name in attributes else None


def _reshape(data: Sequence[_Array], attributes: Mapping[str, Any], control: Sequence[Any]) -> list[_Array]:
    shape = _listed(attributes, control, "shape") or []
    if not attributes.get("allowzero"):
        shape = [data[0].shape[i] if extent == 0 else extent for i, extent in enumerate(shape)]
    return [data[0].reshape(shape)]


def _squeeze(data: Sequence[_Array], attributes: Mapping[str, Any], control: Sequence[Any]) -> list[_Array]:
    axes = _listed(attributes, control, "axes")
    return [np.squeeze(data[0], None if axes is None else tuple(axes))]


def _unsqueeze(data: Sequence[_Array], attributes: Mapping[str, Any], control: Sequence[Any]) -> list[_Array]:
    return [np.expand_dims(data[0], tuple(_listed(attributes, control, "axes") or ()))]


def _flatten(data: Sequence[_Array], attributes: Mapping[str, Any], control: Sequence[Any]) -> list[_Array]:
    axis, shape = int(attributes.get("axis", 1)), data[0].shape
    axis = axis + len(shape) if axis < 0 else axis
    return [data[0].reshape(int(np.prod(shape[:axis])), int(np.prod(shape[axis:])))]


def _slice(data: Sequence[_Array], attributes: Mapping[str, Any], control: Sequence[Any]) -> list[_Array]:
    if not control:
        starts, ends = attributes["starts"], attributes["ends"]
        control = [np.array(starts), np.array(ends), *([np.array(attributes["axes"])] if "axes" in attributes else [])]
    starts, ends = control[0], control[1]
    axes = control[2] if len(control) > 2 else np.arange(len(starts))
    steps = control[3] if len(control) > 3 else np.ones(len(starts), np.int64)
    index: list[Any] = [slice(None)] * data[0].ndim
    for start, end, axis, step in zip(starts.tolist(), ends.tolist(), axes.tolist(), steps.tolist(), strict=True):
        extent = data[0].shape[axis]
        lowest, highest = (0, extent) if step > 0 else (-1, extent - 1)
        start, end = (number + extent if number < 0 else number for number in (start, end))
        start, end = max(lowest, min(start, highest)), max(lowest, min(end, highest))
        index[axis] = slice(start, None if end < 0 else end, step)
    return [data[0][tuple(index)]]


def _gather(data: Sequence[_Array], attributes: Mapping[str, Any], control: Sequence[Any]) -> list[_Array]:
    return [np.take(data[0], control[0], int(attributes.get("axis", 0)))]


def _split(data: Sequence[_Array], attributes: Mapping[str, Any], control: Sequence[Any]) -> list[_Array]:
    axis, sizes = int(attributes.get("axis", 0)), _listed(attributes, control, "split")
    if sizes is None:
        extent, count = data[0].shape[axis], int(attributes["outputs"])
        size = -(-extent // count)
        sizes = [max(0, min(size, extent - size * i)) for i in range(count)]
    return np.split(data[0], np.cumsum(sizes)[:-1], axis)


def _transpose(data: Sequence[_Array], attributes: Mapping[str, Any], control: Sequence[Any]) -> list[_Array]:
    return [np.transpose(data[0], attributes.get("perm"))]


def _concat(data: Sequence[_Array], attributes: Mapping[str, Any], control: Sequence[Any]) -> list[_Array]:
    return [np.concatenate(list(data), int(attributes["axis"]))]


def _expand(data: Sequence[_Array], attributes: Mapping[str, Any], control: Sequence[Any]) -> list[_Array]:
    return [np.broadcast_to(data[0], np.broadcast_shapes(data[0].shape, tuple(control[0].tolist())))]


def _tile(data: Sequence[_Array], attributes: Mapping[str, Any], control: Sequence[Any]) -> list[_Array]:
    return [np.tile(data[0], control[0].tolist())]


def _depth_to_space(data: Sequence[_Array], attributes: Mapping[str, Any], control: Sequence[Any]) -> list[_Array]:
    (n, c, h, w), b = data[0].shape, int(attributes["blocksize"])
    if attributes.get("mode", "DCR") == "DCR":
        moved = data[0].reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        moved = data[0].reshape(n, c // (b * b), b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return [moved.reshape(n, c // (b * b), h * b, w * b)]


def _space_to_depth(data: Sequence[_Array], attributes: Mapping[str, Any], control: Sequence[Any]) -> list[_Array]:
    (n, c, h, w), b = data[0].shape, int(attributes["blocksize"])
    moved = data[0].reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
    return [moved.reshape(n, c * b * b, h // b, w // b)]


_MOVES: Mapping[str, _Move] = {
    "Concat": _concat,
    "DepthToSpace": _depth_to_space,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "Identity": lambda data, attributes, control: [data[0]],
    "Reshape": _reshape,
    "Slice": _slice,
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
