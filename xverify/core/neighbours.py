"""Operators that change values after a call's result, by their names in ONNX.

All compute exactly on floats, so the judging process knows their results: comparisons, signs, selections, indices, powers of
two, and quantization. Bounds, scales and masks derive from the call and the number of the word, in plain float64.
"""

# ruff: noqa: B905

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from xverify.core.call import BITS, Call, Tensor, code_dtype
from xverify.core.moves import Array, Node, Shape, axis_of

FLOATS = ("float32", "float16", "bfloat16")
"""Types of a result that these operators take."""

QUANTIZE = "QuantizeLinear"

DEQUANTIZE = "DequantizeLinear"
"""The name of the call's own operator in a graph. TensorFlow's oracle writes another operator for it."""

CLIP_INPUTS = 11
"""The version of ai.onnx from which the bounds of Clip are inputs."""

SPLIT_OUTPUTS = 18
"""The version of ai.onnx from which Split says the number of its outputs."""

FIRST_INDEX = 12
"""The version of ai.onnx from which ArgMax says which of equal values it selects."""


@dataclass(frozen=True, eq=False)
class Point:
    """A tensor of the graph, after the call's result."""

    name: str
    dtype: str
    shape: Shape
    spread: Array
    """Sorted finite estimates of its values, as float64."""
    in_place: bool
    """True if the axes are those of the lone call's result."""


@dataclass(frozen=True, eq=False)
class Step:
    """The nodes of a word with their constants and inputs, and the tensor that they make."""

    nodes: tuple[Node, ...]
    point: Point
    constants: Mapping[str, Tensor] = field(default_factory=dict)
    inputs: Mapping[str, Tensor] = field(default_factory=dict)


# -- numbers ----------------------------------------------------------------------------------------------

_FORMATS = {
    "float32": (23, 127), "float16": (10, 15), "bfloat16": (7, 127), "float64": (52, 1023),
    "float8_e4m3fn": (3, 7), "float8_e4m3fnuz": (3, 8), "float8_e5m2": (2, 15), "float8_e5m2fnuz": (2, 16),
    "float6_e2m3fn": (3, 1), "float6_e3m2fn": (2, 3), "float4_e2m1fn": (1, 1),
}  # fmt: skip
"""Bits of the mantissa, and the bias of the exponent."""


def numbers_of(tensor: Tensor) -> Array:
    """The values of a tensor as float64.

    Codes of NaN and infinity of narrow floats give some other number.
    """
    codes, dtype = tensor.codes, tensor.dtype
    if dtype == "float8_e8m0fnu":
        return np.ldexp(1.0, codes.astype(np.int64) - 127)
    if dtype in ("float64", "float32", "float16"):
        with np.errstate(invalid="ignore"):
            return np.ascontiguousarray(codes).view(dtype).reshape(codes.shape).astype(np.float64)
    wide = codes.astype(np.int64)
    sign = wide >> (BITS[dtype] - 1) & 1
    if dtype not in _FORMATS:
        return (wide - (sign << BITS[dtype]) if dtype.startswith("int") else wide).astype(np.float64)
    mantissa, bias = _FORMATS[dtype]
    magnitude = wide & ((1 << (BITS[dtype] - 1)) - 1)
    exponent, fraction = magnitude >> mantissa, magnitude & ((1 << mantissa) - 1)
    units = np.where(exponent > 0, fraction + (1 << mantissa), fraction).astype(np.float64)
    numbers = np.ldexp(units, np.maximum(exponent, 1) - bias - mantissa)
    return np.where(sign > 0, -numbers, numbers)


def coded(dtype: str, numbers: Any) -> Tensor:
    """A tensor of a type of `FLOATS`, with these numbers after a rounding."""
    wide = np.asarray(numbers, np.float64)
    with np.errstate(all="ignore"):
        if dtype == "bfloat16":
            bits = np.asarray(wide.astype(np.float32)).view(np.uint32)
            return Tensor(dtype, np.asarray((bits >> np.uint32(16)).astype(np.uint16)))
        return Tensor(dtype, np.asarray(wide.astype(dtype)).view(code_dtype(dtype)))


def result_dtype(call: Call) -> str:
    """The type of the call's result."""
    own = call.tensors["scale"].dtype if "scale" in call.tensors else "float32"
    return str(call.attributes.get("output_dtype", call.attributes.get("dtype", own)))


def spread_of(call: Call) -> Array:
    """Sorted finite estimates of the call's result."""
    return _sorted(estimates(call))


def overflows(call: Call) -> bool:
    """True if some value of the call's result is NaN, or beyond the largest number of its type."""
    dtype, numbers = result_dtype(call), estimates(call)
    return dtype not in NORMAL or not bool((np.abs(numbers) < NORMAL[dtype][1]).all())


def estimates(call: Call) -> Array:
    """Estimates of the call's result."""
    x = numbers_of(call.data)
    with np.errstate(all="ignore"):
        if "scale" in call.tensors:
            zero = call.tensors.get("zero_point")
            offset = 0.0 if zero is None else along(call, numbers_of(zero))
            return np.asarray((x - offset) * along(call, numbers_of(call.tensors["scale"])))
        ends = [float(numbers_of(call.tensors[role]).reshape(-1)[0]) for role in ("min_range", "max_range")]
        lowest, highest = (x.min(), x.max()) if x.size else (0.0, 1.0)
        return np.asarray(ends[0] + (x - lowest) / max(highest - lowest, 1.0) * (ends[1] - ends[0]))


def along(call: Call, parameter: Array) -> Array:
    """A parameter in a form that broadcasts with x.

    A shape without a usual meaning gives its first element.
    """
    shape, axis = call.data.shape, int(call.attributes.get("axis", 1))
    if parameter.ndim == 0 or not parameter.size:
        return parameter.reshape(-1)[0] if parameter.size else np.float64(0.0)
    axis = axis % len(shape) if shape else 0
    if parameter.ndim == 1 and shape and parameter.size == shape[axis]:
        return parameter.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    block = int(call.attributes.get("block_size", call.attributes.get("group_size", 0)) or 0)
    if parameter.ndim == len(shape) and block > 0:
        repeated = np.repeat(parameter, block, axis)
        cut = repeated[tuple(slice(shape[axis]) if i == axis else slice(None) for i in range(len(shape)))]
        if cut.shape == shape:
            return cut
    return parameter.reshape(-1)[0]


def _sorted(numbers: Array) -> Array:
    flat = np.asarray(numbers, np.float64).reshape(-1)
    return np.unique(flat[np.isfinite(flat)])


def _quantile(point: Point, share: float) -> float:
    """The estimate below which a share of the values lies, as a finite number of the tensor's type."""
    number = float(point.spread[int(share * (point.spread.size - 1))]) if point.spread.size else 0.0
    return _held(point.dtype, number)


def _held(dtype: str, number: float) -> float:
    """A number, or the largest one of its sign in a type.

    Few texts state what an infinite bound does.
    """
    most = NORMAL[dtype][1]
    return min(max(number, -most), most)


# -- operators on floats ----------------------------------------------------------------------------------


def _same(point: Point, target: str, spread: Array) -> Point:
    return replace(point, name=target, spread=spread)


def _sign_of(operator: str, spread: Callable[[Array], Array]) -> Callable[[Call, Point, int, str, int], Step | None]:
    def step(call: Call, point: Point, number: int, target: str, opset: int) -> Step | None:
        return Step((Node(operator, (point.name,), target),), _same(point, target, spread(point.spread)))

    return step


def _few(point: Point, number: int) -> Shape:
    """The shape of a constant of a single element that does not change the result's shape."""
    return (1,) if number % 2 and point.shape else ()


def _bound(operator: str) -> Callable[[Call, Point, int, str, int], Step | None]:
    def step(call: Call, point: Point, number: int, target: str, opset: int) -> Step | None:
        bound = (_quantile(point, 0.5), 0.0, _quantile(point, 0.25), _quantile(point, 0.75))[number % 4]
        constant = coded(point.dtype, np.full(_few(point, number // 4), bound))
        name = target + "_c"
        spread = np.maximum(point.spread, bound) if operator == "Max" else np.minimum(point.spread, bound)
        node = Node(operator, (point.name, name), target)
        return Step((node,), _same(point, target, _sorted(spread)), {name: constant})

    return step


def _clip(call: Call, point: Point, number: int, target: str, opset: int) -> Step | None:
    lowest, highest = (_held(point.dtype, end) for end in ends_of(call))
    least, most = (
        (_quantile(point, 0.25), _quantile(point, 0.75)),
        (0.0, 6.0),
        (_quantile(point, 0.5), None),
        (None, _quantile(point, 0.5)),
        (lowest, highest),
        (lowest / 2, highest / 2),
        (0.0, highest),
        (_quantile(point, 0.0), _quantile(point, 1.0)),
    )[number % 8]
    bounds = {end: coded(point.dtype, bound) for end, bound in (("min", least), ("max", most)) if bound is not None}
    spread = _sorted(np.clip(point.spread, -np.inf if least is None else least, np.inf if most is None else most))
    made = _same(point, target, spread)
    if opset < CLIP_INPUTS:
        values = {end: float(numbers_of(bound)) for end, bound in bounds.items()}
        return Step((Node("Clip", (point.name,), target, values),), made)
    constants = {target + "_" + end: bound for end, bound in bounds.items()}
    names = [target + "_" + end if end in bounds else "" for end in ("min", "max")]
    inputs = (point.name, *(names if names[1] else names[:1]))
    return Step((Node("Clip", inputs, target),), made, constants)


def ends_of(call: Call) -> tuple[float, float]:
    """The results of the lowest and the highest code of x, per tensor."""
    first = {name: float(numbers_of(t).reshape(-1)[0]) for name, t in call.tensors.items() if t.size}
    if "scale" not in call.tensors:
        return min(0.0, first.get("min_range", 0.0)), max(0.0, first.get("max_range", 1.0))
    lowest, highest = _range(call.data.dtype)
    scale, zero = _usable(first.get("scale", 1.0)), first.get("zero_point", 0.0)
    ends = sorted(((lowest - zero) * scale, (highest - zero) * scale))
    return ends[0], ends[1]


def _usable(scale: float) -> float:
    """A scale, or 1 in place of zero and of what is not finite."""
    return scale if np.isfinite(scale) and scale != 0.0 else 1.0


def _range(dtype: str) -> tuple[int, int]:
    """The lowest and the highest value of an integer type. For floats, those of a byte."""
    bits = BITS[dtype] if dtype.startswith(("int", "uint")) else 8
    return (0, (1 << bits) - 1) if dtype.startswith("uint") else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def _max_pool(call: Call, point: Point, number: int, target: str, opset: int) -> Step | None:
    """A window over all axes but the first two. A result of a lower rank gets axes of extent 1 first."""
    if 0 in point.shape or len(point.shape) > 5:
        return None
    nodes, source, shape = [], point.name, point.shape
    if len(shape) < 3:
        shape = (1,) * (3 - len(shape)) + shape
        source = target + "_r"
        nodes.append(Node("Reshape", (point.name,), source, {"shape": shape}))
    extents = shape[2:]
    size, stride, pad = ((2, 1, 0), (2, 2, 0), (3, 1, 1), (1, 1, 0), (3, 2, 0), (2, 2, 1))[number % 6]
    kernel = tuple(min(size, extent) for extent in extents)
    pads = tuple(pad if window > pad else 0 for window in kernel)
    attributes = {"kernel_shape": kernel, "strides": (stride,) * len(extents), "pads": pads * 2}
    moved = tuple((e + 2 * p - k) // stride + 1 for e, p, k in zip(extents, pads, kernel))
    nodes.append(Node("MaxPool", (source,), target, attributes))
    in_place = point.in_place and (shape[:2] + moved) == point.shape
    return Step(tuple(nodes), replace(point, name=target, shape=shape[:2] + moved, in_place=in_place))


def _where(call: Call, point: Point, number: int, target: str, opset: int) -> Step | None:
    """A choice between the result and a constant, by a fixed pattern."""
    shape = point.shape if number // 2 % 2 == 0 else point.shape[-1:]
    size = int(np.prod(shape, dtype=np.int64))
    pattern = Tensor("uint8", ((np.arange(size) * 7 + number) % 3 == 0).astype(np.uint8).reshape(shape))
    bound = _quantile(point, 0.75 if number // 4 % 2 else 0.25)
    names = [target + "_p", target + "_b", target + "_c"]
    values = (point.name, names[2]) if number % 2 == 0 else (names[2], point.name)
    nodes = (Node("Cast", (names[0],), names[1], {"to": "bool"}), Node("Where", (names[1], *values), target))
    constants = {names[0]: pattern, names[2]: coded(point.dtype, bound)}
    return Step(nodes, _same(point, target, _sorted(np.append(point.spread, bound))), constants)


def _scale(call: Call, point: Point, number: int, target: str, opset: int) -> Step | None:
    factor = (2.0, 0.5, 16.0, 0.0625, 1.0, -2.0)[number % 6]
    name = target + "_c"
    constant = coded(point.dtype, np.full(_few(point, number // 6), factor))
    inputs = (point.name, name) if number // 12 % 2 == 0 else (name, point.name)
    return Step((Node("Mul", inputs, target),), _same(point, target, _sorted(point.spread * factor)), {name: constant})


def _wider(call: Call, point: Point, number: int, target: str, opset: int) -> Step | None:
    """Casts to a wider type and back."""
    wide = "float64" if number % 2 or point.dtype == "float32" else "float32"
    nodes = (
        Node("Cast", (point.name,), target + "_w", {"to": wide}),
        Node("Cast", (target + "_w",), target, {"to": point.dtype}),
    )
    return Step(nodes, _same(point, target, point.spread))


def _resize(call: Call, point: Point, number: int, target: str, opset: int) -> Step | None:
    """Each element repeated along the last axes, by the mode nearest."""
    rank = len(point.shape)
    if not rank or 0 in point.shape:
        return None
    factor, axes = ((2, 1), (2, 2), (3, 1), (1, 1))[number % 4]
    factors = tuple(factor if axis >= rank - axes else 1 for axis in range(rank))
    name = target + "_s"
    if opset < CLIP_INPUTS:
        node = Node("Resize", (point.name, name), target, {"mode": "nearest"})
    else:
        attributes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        node = Node("Resize", (point.name, "", name), target, attributes)
    shape = tuple(extent * times for extent, times in zip(point.shape, factors))
    made = replace(point, name=target, shape=shape, in_place=point.in_place and shape == point.shape)
    return Step((node,), made, {name: coded("float32", factors)})


def _arg_max(call: Call, point: Point, number: int, target: str, opset: int) -> Step | None:
    """Indices of the largest values along an axis.

    Before version 12, the text does not say which of equal values wins.
    """
    if not point.shape or 0 in point.shape:
        return None
    axis = axis_of(number if opset >= 11 else abs(number), len(point.shape))
    first = {"select_last_index": 0} if opset >= FIRST_INDEX else {}
    nodes = (
        Node("ArgMax", (point.name,), target + "_i", {"axis": axis, "keepdims": 1, **first}),
        Node("Cast", (target + "_i",), target, {"to": "int32"}),
    )
    shape = tuple(1 if i == axis % len(point.shape) else extent for i, extent in enumerate(point.shape))
    spread = np.arange(float(point.shape[axis]))
    return Step(nodes, replace(point, name=target, shape=shape, dtype="int32", spread=spread, in_place=False))


def _leaky_relu(call: Call, point: Point, number: int, target: str, opset: int) -> Step | None:
    slope = (0.5, 0.25, 2.0, -0.5)[number % 4]
    spread = _sorted(np.where(point.spread < 0, point.spread * slope, point.spread))
    return Step((Node("LeakyRelu", (point.name,), target, {"alpha": slope}),), _same(point, target, spread))


def _split(call: Call, point: Point, number: int, target: str, opset: int) -> Step | None:
    """The first half of an axis. Nobody reads the second one."""
    even = [axis for axis, extent in enumerate(point.shape) if extent and extent % 2 == 0]
    if not even:
        return None
    axis = even[number % len(even)]
    attributes = {"axis": axis, **({"num_outputs": 2} if opset >= SPLIT_OUTPUTS else {})}
    shape = tuple(extent // 2 if i == axis else extent for i, extent in enumerate(point.shape))
    node = Node("Split", (point.name,), target, attributes, others=(target + "_r",))
    return Step((node,), replace(point, name=target, shape=shape, in_place=False))


_FEW_AXES = 4
"""Largest rank of a result to which `_beside` adds two axes."""


def _beside(call: Call, point: Point, number: int, target: str, opset: int) -> Step | None:
    """A product with ones, an input that comes through a Transpose, and the inverse Transpose after it.

    An optimiser that moves the first Transpose behind the product transposes the result.
    """
    shape, rank = point.shape, len(point.shape)
    if rank < 2 or 0 in shape:
        return None
    if number % 3 == 0 and rank <= _FEW_AXES:  # The ones have more axes, so that the product repeats the result.
        order = (0, rank + 1, *range(1, rank + 1))
        moved = (1, 2, *shape)
    else:
        order = tuple(range(rank))[::-1] if number % 3 != 2 else (rank - 1, *range(rank - 1))
        moved = shape
    inverse = tuple(order.index(axis) for axis in range(len(order)))
    before = tuple(moved[inverse[axis]] for axis in range(len(order)))
    ones, transposed, product = target + "_o", target + "_t", target + "_m"
    pair = (point.name, transposed) if number // 3 % 2 else (transposed, point.name)
    nodes = (
        Node("Transpose", (ones,), transposed, {"perm": order}),
        Node("Mul", pair, product),
        Node("Transpose", (product,), target, {"perm": inverse}),
    )
    made = replace(point, name=target, shape=before, in_place=False)
    return Step(nodes, made, inputs={ones: coded(point.dtype, np.ones(before))})


_UP_TO_16_BITS = ("uint8", "int8", "uint16", "int16", "uint4", "int4", "uint2", "int2")


def _identity(point: Point, is_left: bool) -> Array | None:
    """The identity matrix that a MatMul may have beside the result."""
    if len(point.shape) < 2 or 0 in point.shape:
        return None
    return np.eye(point.shape[-2] if is_left else point.shape[-1])


_FAR_LARGER = 256.0
"""A coefficient beside 1. An int8 cannot hold both: if the larger one is 127, the smaller one rounds to 0."""


def _unequal(point: Point, is_left: bool) -> Array | None:
    """The identity matrix with a far larger number beside the 1 of every second row.

    For a right operand, of every second column. The sums there have two terms, so that they are the same in any order. Where the
    larger term is 0, the other one is seen.
    """
    matrix = _identity(point, is_left)
    if matrix is None:
        return None
    first = np.arange(0, len(matrix) - 1, 2)
    matrix[(first, first + 1) if is_left else (first + 1, first)] = _FAR_LARGER
    return matrix


def _product(
    call: Call, point: Point, operands: tuple[str, str], nodes: tuple[Node, ...], target: str, is_apart: bool
) -> Step | None:
    """A MatMul after some nodes, and a QuantizeLinear with the call's own parameters after it.

    A sum of at most two numbers and zeros is the same in any order. An optimiser may multiply by the scale after the sums. This
    changes the last places of a float32, but hardly a code of 16 bits: a step of QuantizeLinear is far larger.

    Args:
        is_apart: True for a Max with the lowest number before the QuantizeLinear, which has copies of the call's parameters. An
            optimiser then fuses the MatMul alone, and may pack the weight with its parameters, which nothing else reads.
    """
    if point.dtype != "float32" or call.tensors["x"].dtype not in _UP_TO_16_BITS:
        return None
    product, quantized = target + "_m", target + ("_n" if is_apart else "_m")
    made = _quantizing(call, replace(point, name=quantized), _Digits.of(0), target)
    if made is None:
        return None
    constants, quantize = dict(made.constants), made.node
    nodes = (*nodes, Node("MatMul", operands, product))
    if is_apart:
        copies = {name: f"{target}_{name}" for name in quantize.inputs if name in call.tensors}
        constants.update({copy: call.tensors[name] for name, copy in copies.items()})
        quantize = replace(quantize, inputs=tuple(copies.get(name, name) for name in quantize.inputs))
        constants[target + "_l"] = coded(point.dtype, -NORMAL[point.dtype][1])
        nodes = (*nodes, Node("Max", (product, target + "_l"), quantized))
    return Step((*nodes, quantize), replace(point, name=target, dtype=made.dtype), constants)


def _operands(point: Point, name: str, is_left: bool) -> tuple[str, str]:
    return (name, point.name) if is_left else (point.name, name)


def _mat_mul(call: Call, point: Point, number: int, target: str, opset: int) -> Step | None:
    """A quantized product with a matrix of unequal numbers, an input. The result is mostly the weight."""
    is_left, name = number % 2 == 0, target + "_a"
    matrix = _unequal(point, is_left)
    made = None if matrix is None else _product(call, point, _operands(point, name, is_left), (), target, True)
    return None if made is None else replace(made, inputs={name: coded(point.dtype, matrix)})


def _quantized_mat_mul(call: Call, point: Point, number: int, target: str, opset: int) -> Step | None:
    """A quantized product with the identity matrix, which comes from a DequantizeLinear too.

    The result is the weight.
    """
    is_left, name = number % 2 == 0, target + "_a"
    matrix = _identity(point, is_left)
    if matrix is None:
        return None
    constants = {
        name + "_x": Tensor("uint8", np.asarray(matrix * 128, np.uint8)),
        name + "_s": coded(point.dtype, 1 / 128),
        name + "_z": Tensor("uint8", np.zeros((), np.uint8)),
    }
    attributes = {"output_dtype": point.dtype} if "output_dtype" in call.attributes else {}
    node = Node(DEQUANTIZE, tuple(constants), name, attributes, True)
    made = _product(call, point, _operands(point, name, is_left), (node,), target, False)
    return None if made is None else replace(made, constants={**made.constants, **constants})


# -- quantization -----------------------------------------------------------------------------------------

_SINCE = (
    ("uint8", 10), ("int8", 10), ("float8_e4m3fn", 19), ("float8_e5m2", 19), ("float8_e4m3fnuz", 19),
    ("float8_e5m2fnuz", 19), ("uint16", 21), ("int16", 21), ("uint4", 21), ("int4", 21), ("float4_e2m1fn", 23),
    ("uint2", 25), ("int2", 25), ("float6_e2m3fn", 28), ("float6_e3m2fn", 28),
)  # fmt: skip
"""Types that ai.onnx's QuantizeLinear gives, and the version from which it does."""

_MICROSOFT = ("uint8", "int8", "uint16", "int16", "uint4", "int4")

AXIS, BLOCKS, TYPED = 13, 21, 21
"""Versions of ai.onnx from which QuantizeLinear has the attributes axis, block_size and output_dtype."""

FLOAT16 = 19
"""The version of ai.onnx from which DequantizeLinear gives other floats than float32."""


@dataclass(frozen=True)
class _Digits:
    """The parameters of a pair in the decimal digits of a word's number.

    All zeros are the call's own parameters.

    A larger digit than a table has entries counts modulo their number.
    """

    scale: int
    """Ones: an index into `_FACTORS`."""
    zero_point: int
    """Tens: the call's, absent, lowest, highest, in the middle, or different along the axis."""
    granularity: int
    """Hundreds: 0 the call's, 1 per tensor, 2 to 4 per axis, 5 to 7 the same with an axis from the back, 8 and 9 blocks."""
    mate: int
    """Thousands: how the DequantizeLinear of a pair differs from its QuantizeLinear. 0 does not."""
    dtype: int
    """From ten thousands on: 0 the call's type, or an index into the types of the version."""

    @staticmethod
    def of(number: int) -> _Digits:
        number = abs(number)
        ones, tens, hundreds, thousands = (number // 10**i % 10 for i in range(4))
        return _Digits(ones, tens, hundreds, thousands, number // 10**4)


_NEXT, _SPAN = "next", "span"

_FACTORS: tuple[Any, ...] = (1.0, 2.0, 0.5, 3.0, -1.0, _NEXT, _SPAN, 1 / 3, 64.0, 2.0**-10)
"""Factors of the call's scale. The next number is a bit larger; the span covers the values with all codes."""

_ALONG = (1.0, 0.5, 2.0, 0.75)
"""Factors of the scales along an axis."""


def quantized_dtypes(call: Call) -> tuple[str, ...]:
    """Types to which QuantizeLinear may quantize beside a call.

    Operators of other frameworks have none here.
    """
    domain, operator = call.contract.split("/")
    if domain == "com.microsoft":
        return _MICROSOFT
    if domain != "ai.onnx":
        return ()
    version = int(operator.partition("@")[0].rpartition("-")[2])
    return tuple(dtype for dtype, since in _SINCE if since <= version and dtype in BITS)


def _quantize(call: Call, point: Point, number: int, target: str, opset: int) -> Step | None:
    made = _quantizing(call, point, _Digits.of(number), target)
    return None if made is None else Step((made.node,), replace(point, name=target, dtype=made.dtype), made.constants)


def _pair(call: Call, point: Point, number: int, target: str, opset: int) -> Step | None:
    digits = _Digits.of(number)
    made = _quantizing(call, point, digits, target + "_q")
    if made is None:
        return None
    names, constants = list(made.parameters), dict(made.constants)
    if digits.mate:
        name, mate = target + "_d", digits.mate % 5
        if mate in (1, 2, 4):
            scale = made.scale if mate != 2 else _next(made.scale)
            factor = {1: 2.0, 2: 1.0, 4: -1.0}[mate]
            constants[name] = coded(point.dtype, numbers_of(scale) * factor)
            names[0] = name
        elif mate == 3 and not made.dtype.startswith("float"):
            constants[name] = Tensor(made.dtype, np.ones(made.scale.shape, code_dtype(made.dtype)))
            names = [names[0], name]
    attributes = {name: value for name, value in made.node.attributes.items() if name in ("axis", "block_size")}
    if "output_dtype" in call.attributes:
        attributes["output_dtype"] = point.dtype
    nodes = (made.node, Node(DEQUANTIZE, (made.node.output, *names), target, attributes, True))
    return Step(nodes, replace(point, name=target), constants)


def _recast(call: Call, point: Point, number: int, target: str, opset: int) -> Step | None:
    """A QuantizeLinear, and a DequantizeLinear whose scale and result have another float type."""
    if call.contract.startswith("ai.onnx/") and _version(call) < FLOAT16:
        return None
    made = _quantizing(call, point, _Digits.of(number), target + "_q")
    if made is None:
        return None
    other = "float16" if point.dtype == "float32" else "float32"
    name = target + "_d"
    names = (name, *made.parameters[1:])
    attributes = {key: value for key, value in made.node.attributes.items() if key in ("axis", "block_size")}
    nodes = (made.node, Node(DEQUANTIZE, (made.node.output, *names), target, attributes, True))
    constants = {**made.constants, name: coded(other, numbers_of(made.scale))}
    return Step(nodes, replace(point, name=target, dtype=other), constants)


@dataclass(frozen=True, eq=False)
class _Made:
    node: Node
    dtype: str
    scale: Tensor
    parameters: tuple[str, ...]
    """Names of the parameters for a DequantizeLinear of the same step."""
    constants: Mapping[str, Tensor]


def _quantizing(call: Call, point: Point, digits: _Digits, target: str) -> _Made | None:
    dtypes = quantized_dtypes(call)
    own = call.tensors.get("scale")
    if own is None or not dtypes or point.dtype not in FLOATS or not own.size:
        return None
    if digits.dtype == 0:
        dtype = call.data.dtype if call.data.dtype in dtypes else dtypes[0]
    else:
        dtype = dtypes[(digits.dtype - 1) % len(dtypes)]
    base, attributes = _granular(call, point, digits.granularity)
    scale = _scaled(point, dtype, base, _FACTORS[digits.scale])
    is_shared = own.same_bits(scale)
    scale_name, zero_name = "scale" if is_shared else target + "_s", target + "_z"
    constants = {} if is_shared else {scale_name: scale}
    quantizing: tuple[str, ...] = (scale_name, zero_name)
    parameters = quantizing
    kept, tens = call.tensors.get("zero_point"), digits.zero_point % 6
    if tens == 0 and kept is not None and kept.dtype == dtype and kept.shape == scale.shape:
        quantizing = parameters = (scale_name, "zero_point")
    elif tens == 1 and (dtype == "uint8" or _is_typed(call)):
        # Without a zero point, the result has the type uint8 or that of the attribute output_dtype.
        attributes = attributes if dtype == "uint8" else {**attributes, "output_dtype": dtype}
        quantizing = parameters = (scale_name,)
    else:
        constants[zero_name] = _zero_point(dtype, scale.shape, tens)
        parameters = parameters[:1] if tens == 1 else parameters
    node = Node(QUANTIZE, (point.name, *quantizing), target, attributes, True)
    return _Made(node, dtype, scale, parameters, constants)


def _zero_point(dtype: str, shape: Shape, tens: int) -> Tensor:
    """A zero point by the digit of tens. That of a float is 0."""
    lowest, highest = _range(dtype)
    middle = (lowest + highest + 1) // 2
    if tens < 2 or dtype.startswith("float"):
        wide = np.zeros(shape, np.int64)
    elif tens == 5:
        wide = (middle + np.arange(int(np.prod(shape, dtype=np.int64))) % 3).reshape(shape)
    else:
        wide = np.full(shape, {2: lowest, 3: highest, 4: middle + 1}[tens])
    return Tensor(dtype, np.asarray(wide & ((1 << BITS[dtype]) - 1)).astype(code_dtype(dtype)))


def _is_typed(call: Call) -> bool:
    return call.contract.startswith("ai.onnx/") and _version(call) >= TYPED


def _version(call: Call) -> int:
    return int(call.contract.split("/")[1].partition("@")[0].rpartition("-")[2])


def _granular(call: Call, point: Point, digit: int) -> tuple[Array, dict[str, Any]]:
    """Scales before the factor, in the shape of their granularity, and the attributes that say it."""
    own = numbers_of(call.tensors["scale"])
    first = np.float64(_usable(float(own.reshape(-1)[0])))
    rank = len(point.shape)
    has_axis = not call.contract.startswith("ai.onnx/") or _version(call) >= AXIS
    if digit == 0 and own.shape != () and point.in_place:
        kept = {name: value for name, value in call.attributes.items() if name in ("axis", "block_size")}
        return own, kept
    if digit < 2 or not rank or not has_axis or 0 in point.shape:
        return np.asarray(first), {}
    if digit < 8:
        from_front = (digit - 2) % 3 % rank
        axis = from_front - rank if digit >= 5 else from_front
        factors = np.resize(np.array(_ALONG), point.shape[from_front])
        return first * factors, {"axis": axis}
    axis = 0 if digit == 8 else rank - 1
    if not _is_typed(call) or point.shape[axis] < 2 or rank < 2:
        return np.asarray(first), {}
    shape = tuple(-(-extent // 2) if i == axis else extent for i, extent in enumerate(point.shape))
    factors = np.resize(np.array(_ALONG), int(np.prod(shape))).reshape(shape)
    return first * factors, {"axis": axis if digit == 8 else -1, "block_size": 2}


def _scaled(point: Point, dtype: str, base: Array, factor: Any) -> Tensor:
    if factor == 1.0:
        return coded(point.dtype, base)
    if factor == _NEXT:
        return _next(coded(point.dtype, base))
    if factor == _SPAN:
        lowest, highest = _range(dtype)
        span = _quantile(point, 1.0) - _quantile(point, 0.0)
        return coded(point.dtype, _normal(point.dtype, np.full(base.shape, _usable(span / (highest - lowest)))))
    return coded(point.dtype, _normal(point.dtype, base * factor))


NORMAL = {"float16": (2.0**-14, 65504.0), "bfloat16": (2.0**-126, 3.38e38), "float32": (2.0**-126, 3.40e38)}
"""Ends of the normal range. The upper ends are a little smaller than the largest numbers."""


def _normal(dtype: str, numbers: Array) -> Array:
    """The numbers, brought into the normal range of a type."""
    return np.copysign(np.clip(np.abs(numbers), *NORMAL[dtype]), numbers)


def _next(scale: Tensor) -> Tensor:
    """The next numbers away from zero."""
    return Tensor(scale.dtype, np.asarray(scale.codes + scale.codes.dtype.type(1)))


# -- words ------------------------------------------------------------------------------------------------

CHANGES: dict[str, Callable[[Call, Point, int, str, int], Step | None]] = {
    "relu": _sign_of("Relu", lambda spread: _sorted(np.maximum(spread, 0.0))),
    "neg": _sign_of("Neg", lambda spread: _sorted(-spread)),
    "abs": _sign_of("Abs", lambda spread: _sorted(np.abs(spread))),
    "max": _bound("Max"),
    "min": _bound("Min"),
    "clip": _clip,
    "maxpool": _max_pool,
    "where": _where,
    "scale": _scale,
    "wider": _wider,
    "resize": _resize,
    "argmax": _arg_max,
    "leakyrelu": _leaky_relu,
    "split": _split,
    "beside": _beside,
    "matmul": _mat_mul,
    "qmatmul": _quantized_mat_mul,
    "recast": _recast,
    "pair": _pair,
    "quantize": _quantize,
}
"""For each word, a function of the call, the tensor before it, the number, the name of the output and the version of ai.onnx.

It returns a `Step`, or None for Identity.
"""

QUANTIZING = ("quantize", "matmul", "qmatmul")
"""Words whose result is quantized. They end a graph."""

OPERATORS: dict[str, tuple[str, ...]] = {
    "maxpool": ("MaxPool",),
    "scale": ("Mul",),
    "wider": ("Cast",),
    "argmax": ("ArgMax", "Cast"),
    "leakyrelu": ("LeakyRelu",),
    "beside": ("Transpose", "Mul"),
    "matmul": ("MatMul", "Max", QUANTIZE),
    "qmatmul": (DEQUANTIZE, "MatMul", QUANTIZE),
    "quantize": (QUANTIZE,),
    "recast": (QUANTIZE, DEQUANTIZE),
    "pair": (QUANTIZE, DEQUANTIZE),
}
"""Operators of a word whose name is not theirs."""
