"""The legal results of a call among neighbours that change values, bit for bit.

The nodes after the call's own operator are evaluated on its legal set. Each element has a set of legal codes. A set is held as
several arrays, the *alternatives*: the legal codes of an element are its codes in all of them. Operators that choose a value
treat each element's set as a whole, so the elements are independent.

An element is *open* where no text states its value, and everything that an operator makes of it is open too:

- NaN as an operand of Relu, Max, Min, Clip or MaxPool: the texts are silent on NaN;
- Mul, where an operand or the product is neither zero nor a normal number: subnormal numbers may count as zero;
- an infinity as the operand or the result of a Clip with one bound: an absent bound is the largest finite number;
- what `xverify.contracts.quantize` calls open, and a QuantizeLinear with many scales that its own text leaves open, as from
  version 21 on for an input of rank 1.

The sign of a zero that Relu, LeakyRelu, Max, Min, Clip, MaxPool or MatMul gives is free.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic.linear_operands import spread
from xverify.contracts.model import Contract
from xverify.contracts.quantize import judge, quantize, quantized_dtype
from xverify.core.bits import canonical
from xverify.core.call import BITS, Call, Tensor, code_dtype
from xverify.core.dtypes import FLOATS, INTEGERS, MIN_EXPONENT, encode, integer_range, values
from xverify.core.moves import Node, run
from xverify.core.neighbours import DEQUANTIZE, QUANTIZE
from xverify.core.rounding import cast
from xverify.core.surroundings import Graph
from xverify.verify.legal import AsGiven, Legal, legal_set

Codes = NDArray[Any]

RESULT = "y"
"""The name of the result of the call's own operator."""

FREE_ZEROS, UNSIGNED_ZEROS, NEGATIVE_ZEROS = "sign of zero", "unsigned zeros", "negative zeros"
"""Operators that only `xverify.verify.rewritten_graphs` uses: each zero may have any sign, -0 may be 0, and 0 may be -0."""

FINITE, WITHIN_RANGE = "finite", "within range"
"""More of them: infinity may be the largest number, and OpenVINO's FakeQuantize for QuantizeLinear and DequantizeLinear."""

CLAMPED = "clamped"
"""An attribute of `WITHIN_RANGE`, see `_within_range`."""


@dataclass(frozen=True, eq=False)
class Values:
    """The legal codes of a tensor of the graph."""

    dtype: str
    codes: Codes
    """The alternatives, along a first axis before those of the tensor."""
    open: NDArray[np.bool_]
    """The mask of elements whose value no text states. Their codes mean nothing."""

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        return values(self.dtype, self.codes)

    @property
    def nan(self) -> NDArray[np.bool_]:
        """The mask of elements that may be NaN."""
        return np.asarray(np.isnan(self.numbers).any(0))

    def tensor(self, index: int) -> Tensor:
        return Tensor(self.dtype, np.ascontiguousarray(self.codes[index]).reshape(self.open.shape))


def graph_legal(contract: Contract, graph: Graph) -> Legal:
    """The legal set of a graph that changes values. Its mask ``open`` covers what no text states."""
    results = evaluate(contract, graph)
    result = results[graph.output]
    distinct = tuple(np.ascontiguousarray(codes).reshape(graph.shape) for codes in result.codes)
    return Legal(
        result.dtype, graph.shape, (AsGiven(),), distinct, (0,), np.zeros(graph.shape, np.bool_),
        may_flush=False, open=result.open,
    )  # fmt: skip


Quantizing = Callable[[Contract, Call, Node, list["Values"]], "Values"]
"""A function of an edition, the lone call, a QuantizeLinear and its inputs."""

Dequantizing = Callable[[Contract, Call], "Values"]
"""A function of an edition and a lone call."""


class Memo:
    """Results of nodes that several graphs around one call share.

    The graphs with mistakes differ in few nodes, and many mistakes give the same codes. Equal values are one object here, so a
    node is evaluated once for the same inputs.
    """

    def __init__(self) -> None:
        self._distinct: dict[tuple[Any, ...], Values] = {}
        self._results: dict[tuple[Any, ...], tuple[Values, tuple[Any, ...]]] = {}

    def only(self, made: Values) -> Values:
        """The first values that equal these."""
        key = (made.dtype, made.codes.shape, made.open.shape, made.codes.tobytes(), made.open.tobytes())
        return self._distinct.setdefault(key, made)

    def result(self, key: tuple[Any, ...], compute: Callable[[], Values], *named: Any) -> Values:
        """The values that are computed for a key.

        Args:
            key: It names values of this memo, and other objects, by their ids.
            compute: The function that computes them.
            named: The other objects. They are kept, so that no new one gets their ids.
        """
        if key not in self._results:
            self._results[key] = self.only(compute()), named
        return self._results[key][0]


def evaluate(
    contract: Contract,
    graph: Graph,
    result: Values | None = None,
    quantizing: Quantizing | None = None,
    dequantizing: Dequantizing | None = None,
    memo: Memo | None = None,
) -> dict[str, Values]:
    """The legal codes of every tensor that the graph makes of the call's result, by name.

    Args:
        contract: The edition.
        graph: The graph.
        result: The codes of the call's result, if they are not its legal set.
        quantizing: Another meaning of QuantizeLinear than its text's.
        dequantizing: Another meaning of the graph's DequantizeLinear operators than the edition's.
        memo: Results of other graphs around the call, for the same edition.
    """
    lone = graph.lone
    assert lone is not None
    memo = Memo() if memo is None else memo
    quantizing, dequantizing = quantizing or quantized, dequantizing or _legal
    tensors = {**graph.inputs, **graph.constants, **lone.tensors}
    own = [node.output for node in graph.nodes].index(RESULT)
    results: dict[str, Values] = {}
    if result is not None:
        results[RESULT] = memo.only(result)
    elif graph.nodes[own].operator == DEQUANTIZE:
        by_edition = partial(dequantizing, contract, lone)
        results[RESULT] = memo.result((RESULT, dequantizing, id(lone)), by_edition, lone)
    for node in graph.nodes[own + len(results) :]:
        inputs = [results[name] if name in results else memo.only(fixed(tensors[name])) for name in node.inputs if name]
        meaning = {QUANTIZE: quantizing, DEQUANTIZE: dequantizing}.get(node.operator)
        absent = tuple(index for index, name in enumerate(node.inputs) if not name)
        whole = (node.operator, meaning, absent, len(node.others), lone.data.dtype)
        key = (*whole, *sorted(node.attributes.items()), *map(id, inputs))
        compute = partial(_evaluated, contract, lone, node, inputs, quantizing, dequantizing)
        results[node.output] = memo.result(key, compute)
    return results


def _evaluated(
    contract: Contract,
    call: Call,
    node: Node,
    inputs: list[Values],
    quantizing: Quantizing,
    dequantizing: Dequantizing,
) -> Values:
    if node.operator == DEQUANTIZE:
        return _dequantized(contract, node, inputs, dequantizing)
    if node.operator == QUANTIZE:
        return quantizing(contract, call, node, inputs)
    if node.operator == WITHIN_RANGE:
        return _within_range(node, inputs)
    if node.operator == "Clip":
        return _clip(node, inputs)
    if node.operator in _OPERATORS:
        return _OPERATORS[node.operator](node, *inputs)
    return _moved(node, inputs)


def operated(node: Node, inputs: list[Values]) -> Values:
    """The result of Relu, Neg, Abs, Max, Min, Clip or MaxPool on floats.

    Args:
        node: The node. MaxPool needs the attributes kernel_shape, strides and pads. Absent inputs of Clip have the name "".
        inputs: Its inputs that are not absent.
    """
    return _clip(node, inputs) if node.operator == "Clip" else _OPERATORS[node.operator](node, *inputs)


def fixed(tensor: Tensor) -> Values:
    """A tensor as the only alternative."""
    return Values(tensor.dtype, tensor.codes[np.newaxis], np.zeros(tensor.shape, np.bool_))


def united(dtype: str, codes: Codes, is_open: NDArray[np.bool_]) -> Values:
    """The values with as few alternatives as possible, and one code for every NaN."""
    return Values(dtype, compacted(canonical(codes, dtype) if dtype in FLOATS else codes), is_open)


def compacted(codes: Codes) -> Codes:
    """The same set of codes for each element, in as few arrays along the first axis as possible."""
    if len(codes) == 1 or not codes.size:
        return codes[:1]
    ordered = np.sort(codes, axis=0)
    repeated = ordered[1:] == ordered[:-1]
    most = int((len(codes) - repeated.sum(0)).max())
    ordered[1:][repeated] = np.broadcast_to(ordered[-1], repeated.shape)[repeated]
    return np.sort(ordered, axis=0)[:most]


# -- quantization -----------------------------------------------------------------------------------------


def _legal(contract: Contract, call: Call) -> Values:
    return from_legal(legal_set(contract, call))


def _dequantized(contract: Contract, node: Node, inputs: list[Values], dequantizing: Dequantizing) -> Values:
    """The results of another DequantizeLinear of the graph than the call's own, by the same edition."""
    x, *others = inputs
    parameters = {role: each.tensor(0) for role, each in zip(("scale", "zero_point"), others, strict=False)}
    pieces = []
    for index in range(len(x.codes)):
        inner = Call(contract.id, {"x": x.tensor(index), **parameters}, dict(node.attributes))
        if contract.judge(inner).verdict != "allowed":
            out = str(node.attributes.get("output_dtype", parameters["scale"].dtype))
            return Values(out, np.zeros((1, *x.open.shape), f"u{BITS[out] // 8}"), np.ones(x.open.shape, np.bool_))
        pieces.append(dequantizing(contract, inner))
    return united(pieces[0].dtype, np.concatenate([piece.codes for piece in pieces]), x.open)


def from_legal(legal: Legal) -> Values:
    """The legal codes of a lone call, and those with subnormal numbers as zero where they are accepted."""
    alternatives = [*legal.distinct, *legal.flushed_steps, *legal.flushed_inputs]
    if legal.may_flush and legal.subnormal.any():
        sign = legal.distinct[0].dtype.type(1 << (BITS[legal.dtype] - 1))
        alternatives += [np.where(legal.subnormal, codes & sign, codes) for codes in legal.distinct]
    codes = np.stack([np.asarray(codes) for codes in alternatives])
    return united(legal.dtype, codes, np.zeros(legal.shape, np.bool_))


def _within_range(node: Node, inputs: list[Values]) -> Values:
    """OpenVINO's FakeQuantize, all in float32.

    Inputs are those of QuantizeLinear, and the parameters of the DequantizeLinear that follows it, if one does. With the
    attribute `CLAMPED`, the operand is moved into the range first, then multiplied and shifted, as for constant parameters. If
    the scale is negative, the range is empty and every operand becomes its first end.

    Source: https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/quantization/fake-quantize-1.html

    Raises:
        ValueError: The codes are floats, or there is no zero point.
    """
    x, *parameters = inputs
    if len(parameters) % 2 or parameters[1].dtype not in INTEGERS:
        raise ValueError("only integers with a zero point")
    dtype = parameters[1].dtype
    lowest, highest = integer_range(dtype)
    axis, block_size = int(node.attributes.get("axis", 1)), int(node.attributes.get("block_size", 0))
    numbers = [
        np.float32(values(each.dtype, spread(each.tensor(0), x.tensor(0), axis, block_size))) for each in parameters
    ]
    (low, high), *later = (
        [scale * (np.float32(end) - zero_point) for end in (lowest, highest)]
        for scale, zero_point in zip(numbers[::2], numbers[1::2], strict=True)
    )
    out_low, out_high = later[0] if later else (np.float32(lowest), np.float32(highest))
    steps = np.float32(highest - lowest)
    with np.errstate(all="ignore"):
        operand = np.float32(x.numbers)
        if node.attributes.get(CLAMPED):
            factor = steps / (high - low)
            code = np.rint(np.maximum(np.minimum(operand, high), low) * factor + -low * factor)
            unit = np.float64((out_high - out_low) / steps)
            made: NDArray[Any] = np.asarray(np.float64(code) * unit + out_low)  # a fused multiply-add
        else:
            inside = np.rint((operand - low) / (high - low) * steps) / steps * (out_high - out_low) + out_low
            beyond = np.where(operand > np.maximum(low, high), out_high, inside)
            made = np.where(operand <= np.minimum(low, high), out_low, beyond)
    result = np.asarray(made, np.float32).reshape(x.codes.shape)
    is_open = x.open | ~np.isfinite(result).all(0)
    if later:
        return united("float32", result.view(np.uint32), is_open)
    return Values(dtype, encode(dtype, np.nan_to_num(result).astype(np.int64)), is_open)


def quantized(contract: Contract, call: Call, node: Node, inputs: list[Values]) -> Values:
    """The legal codes of a QuantizeLinear; open values if no text is a contract here."""
    if not contract.id.startswith(("ai.onnx/", "com.microsoft/")):  # Its text is not a contract here.
        return Values(
            call.data.dtype, inputs[0].codes.astype(code_dtype(call.data.dtype)), np.ones_like(inputs[0].open)
        )
    x, scale = inputs[0], inputs[1].tensor(0)
    zero_point = inputs[2].tensor(0) if len(inputs) > 2 else None
    domain, operator = contract.id.split("/")
    opset = int(operator.partition("@")[0].rpartition("-")[2])
    if scale.size != 1 and judge(opset, domain, x.tensor(0), scale, zero_point, node.attributes).verdict != "allowed":
        dtype = quantized_dtype(zero_point, node.attributes)
        return Values(dtype, np.zeros((1, *x.open.shape), code_dtype(dtype)), np.ones_like(x.open))
    is_open = x.open.copy()
    pieces: list[Codes] = []
    dtype = ""
    for index in range(len(x.codes)):
        made = quantize(opset, domain, x.tensor(index), scale, zero_point, node.attributes)
        dtype = made.dtype
        pieces += made.alternatives
        is_open |= made.open
    return Values(dtype, compacted(np.stack(pieces)), is_open)


# -- operators on floats ----------------------------------------------------------------------------------


def _moved(node: Node, inputs: list[Values]) -> Values:
    """A node that moves data: all alternatives together, and the mask."""
    count = max(len(each.codes) for each in inputs)
    names = [name for name in node.inputs if name]
    stacks = [
        np.broadcast_to(each.codes[np.arange(count) % len(each.codes)], (count, *each.open.shape)) for each in inputs
    ]
    codes = [
        _resized(node, stacks[0][i], inputs[1])
        if node.operator == "Resize"
        else run([node], {name: stack[i] for name, stack in zip(names, stacks, strict=True)})[node.output]
        for i in range(count)
    ]
    if node.operator == "Resize":
        is_open = _resized(node, inputs[0].open, inputs[1])
    else:
        is_open = run([node], {name: each.open for name, each in zip(names, inputs, strict=True)})[node.output]
    return Values(inputs[0].dtype, np.stack(codes), np.asarray(is_open))


def _resized(node: Node, array: NDArray[Any], factors: Values) -> NDArray[Any]:
    """Each element repeated along the axes, as the mode nearest does for whole factors."""
    for axis, factor in enumerate(factors.numbers[0]):
        array = np.repeat(array, int(factor), axis)
    return array


def _sign_bit(dtype: str, codes: Codes) -> Any:
    return codes.dtype.type(1 << (BITS[dtype] - 1))


def _with_free_zeros(
    dtype: str, codes: Codes, is_open: NDArray[np.bool_], for_positive: bool = True, for_negative: bool = True
) -> Values:
    """The values with zeros of both signs for each zero, or only for those of one sign."""
    sign = _sign_bit(dtype, codes)
    zero = ((codes == 0) & for_positive) | ((codes == sign) & for_negative)
    if zero.any():
        codes = np.concatenate([codes, np.where(zero, codes ^ sign, codes)])
    return united(dtype, codes, is_open)


def _with_finite(x: Values) -> Values:
    """The values with the largest number of the same sign for each infinity."""
    infinite = np.isinf(x.numbers)
    return united(
        x.dtype, np.concatenate([x.codes, np.where(infinite, x.codes - x.codes.dtype.type(1), x.codes)]), x.open
    )


def _chosen(x: Values, other: Values, largest: bool) -> Values:
    """The larger or the smaller of two operands, for all pairs of alternatives."""
    pairs = []
    with np.errstate(invalid="ignore"):
        for mine, own in zip(x.codes, x.numbers, strict=True):
            for theirs, number in zip(other.codes, other.numbers, strict=True):
                pairs.append(np.where(own >= number if largest else own <= number, mine, theirs))
    return _with_free_zeros(x.dtype, np.stack(pairs), np.asarray(x.open | other.open | x.nan | other.nan))


def _relu(node: Node, x: Values) -> Values:
    return _chosen(x, fixed(Tensor(x.dtype, np.zeros((), x.codes.dtype))), largest=True)


def _neg(node: Node, x: Values) -> Values:
    return united(x.dtype, x.codes ^ _sign_bit(x.dtype, x.codes), x.open)


def _abs(node: Node, x: Values) -> Values:
    return united(x.dtype, x.codes & ~_sign_bit(x.dtype, x.codes), x.open)


def _clip(node: Node, inputs: list[Values]) -> Values:
    """Bounds are inputs, or attributes in old versions."""
    ends = [end for end, bound in zip(("min", "max"), node.inputs[1:], strict=False) if bound]
    bounds = dict(zip(ends, inputs[1:], strict=True))
    dtype = inputs[0].dtype
    for end in ("min", "max"):
        if end in node.attributes:
            number = np.asarray(node.attributes[end], np.float64)
            bounds[end] = fixed(Tensor(dtype, np.asarray(cast(number, dtype))))
    x = inputs[0]
    infinite = np.isinf(x.numbers).any(0)
    for end in ("min", "max"):
        if end in bounds:
            x = _chosen(x, bounds[end], largest=end == "min")
    if len(bounds) < 2:
        # An absent bound is the largest finite number by the text, so the fate of infinity depends on how it is read.
        x = Values(x.dtype, x.codes, x.open | infinite | np.isinf(x.numbers).any(0))
    return x


def _where(node: Node, mask: Values, a: Values, b: Values) -> Values:
    is_first = mask.codes[0] != 0
    pairs = [np.where(is_first, mine, theirs) for mine in a.codes for theirs in b.codes]
    return united(a.dtype, np.stack(pairs), np.where(is_first, a.open, b.open))


def _mul(node: Node, a: Values, b: Values) -> Values:
    """The product with a power of two, which is exact if all numbers are normal or zero."""
    rank = max(a.open.ndim, b.open.ndim)
    a, b = _of_rank(a, rank), _of_rank(b, rank)
    with np.errstate(all="ignore"):
        product = a.numbers * b.numbers
    codes = cast(np.asarray(product), a.dtype)
    is_open = a.open | b.open
    for dtype, each in ((a.dtype, a.codes), (b.dtype, b.codes), (a.dtype, codes)):
        is_open = is_open | ~_is_usual(dtype, each).all(0)
    return united(a.dtype, np.asarray(codes).reshape(product.shape), np.asarray(is_open))


def _of_rank(x: Values, rank: int) -> Values:
    """The values with axes of extent 1 in front, up to a rank."""
    shape = (1,) * (rank - x.open.ndim) + x.open.shape
    return Values(x.dtype, x.codes.reshape(len(x.codes), *shape), x.open.reshape(shape))


def _leaky_relu(node: Node, x: Values) -> Values:
    """The operand, or its product with a power of two where it is negative. A zero has any sign."""
    with np.errstate(all="ignore"):
        product = np.asarray(cast(np.asarray(x.numbers * float(node.attributes["alpha"])), x.dtype)).reshape(
            x.codes.shape
        )
    is_negative = x.numbers < 0
    is_open = x.open | x.nan | (is_negative & ~(_is_usual(x.dtype, x.codes) & _is_usual(x.dtype, product))).any(0)
    return _with_free_zeros(x.dtype, np.where(is_negative, product, x.codes), np.asarray(is_open))


_LAST_PLACES = 4
"""Rounding errors of the larger term that a sum of two may have, if the scale comes after the sum."""


def _mat_mul(node: Node, a: Values, b: Values) -> Values:
    """A product with a matrix of short sums, which is the same in any order.

    A sum with an operand that is not finite, or open, is open.

    Raises:
        ValueError: No operand is such a matrix, after a mistake.
    """
    is_left = _has_short_sums(a, True)
    if not is_left and not _has_short_sums(b, False):
        raise ValueError("a MatMul without short sums")
    matrix, x, axis = (a, b, -2) if is_left else (b, a, -1)
    rows = np.asarray(matrix.numbers[0] if is_left else matrix.numbers[0].T)
    order = np.argsort(-np.abs(rows), axis=1, kind="stable")[:, :2]
    factors = np.take_along_axis(rows, order, 1)
    terms = []
    for place in range(order.shape[1]):
        factor = factors[:, place].reshape((-1, 1) if is_left else (-1,))
        with np.errstate(all="ignore"):
            terms.append(np.take(x.numbers, order[:, place], axis) * factor)
    is_open = np.broadcast_to(
        (x.open | ~_is_usual(x.dtype, x.codes).all(0)).any(axis, keepdims=True), terms[0].shape[1:]
    )
    pieces = []
    with np.errstate(all="ignore"):
        for first in terms[0]:
            for second in terms[1] if len(terms) > 1 else (np.zeros_like(first),):
                largest = np.float32(np.maximum(np.abs(first), np.abs(second)))
                error = np.where((first == 0) | (second == 0), 0.0, _LAST_PLACES * np.spacing(largest))
                pieces += [np.asarray(cast(first + second + sign * error, x.dtype)) for sign in (-1, 0, 1)]
    codes = np.stack([piece.reshape(terms[0].shape[1:]) for piece in pieces])
    return _with_free_zeros(x.dtype, codes, np.asarray(is_open | ~_is_usual(x.dtype, codes).all(0)))


def _has_short_sums(matrix: Values, is_left: bool) -> bool:
    """True for a known matrix of powers of two and zeros, if its sums have at most two terms."""
    if matrix.open.ndim != 2 or len(matrix.codes) > 1 or matrix.open.any():
        return False
    numbers = matrix.numbers[0]
    is_exact = np.isfinite(numbers) & (np.isin(np.abs(np.frexp(numbers)[0]), (0.0, 0.5)))
    return bool(is_exact.all() and ((numbers != 0).sum(1 if is_left else 0) <= 2).all())


def _is_usual(dtype: str, codes: Codes) -> NDArray[np.bool_]:
    """The mask of codes of zeros and of normal finite numbers."""
    numbers = np.abs(values(dtype, codes))
    return np.asarray((numbers == 0) | ((numbers >= 2.0 ** MIN_EXPONENT[dtype]) & np.isfinite(numbers)))


def _cast(node: Node, x: Values) -> Values:
    """A cast to a wider type and back, or from a mask."""
    to = str(node.attributes["to"])
    if to == x.dtype:
        return x
    if to == "bool":
        return Values("uint8", (x.codes != 0).astype(np.uint8), x.open)
    numbers = np.ascontiguousarray(x.numbers)
    if to == "float64":
        return Values(to, numbers.view(np.uint64), x.open)
    return united(to, np.asarray(cast(numbers, to)).reshape(x.codes.shape), x.open)


def _arg_max(node: Node, x: Values) -> Values:
    """The indices of the largest values, in the type of the cast that follows.

    An index is open if another element may be as large, unless the text selects the first of equal values.
    """
    axis = node.attributes["axis"]
    numbers = np.where(np.isnan(x.numbers), np.inf, x.numbers)
    least, most = numbers.min(0), numbers.max(0)
    index = np.expand_dims(least.argmax(axis), axis)
    largest = np.take_along_axis(least, index, axis)
    places = np.arange(least.shape[axis]).reshape([-1 if i == axis % least.ndim else 1 for i in range(least.ndim)])
    rivals = (most > largest) | (most == largest) & ((places < index) | ("select_last_index" not in node.attributes))
    is_open = (rivals & (places != index)).any(axis, keepdims=True) | (x.open | x.nan).any(axis, keepdims=True)
    return Values("int32", index.astype(np.uint32)[np.newaxis], np.asarray(is_open))


def _max_pool(node: Node, x: Values) -> Values:
    """The largest values of windows over all axes but the first two.

    Let S be the sets of legal values in a window. The largest value is any element of one of them that is not below the least
    value of any set: the values of different elements are independent.
    """
    kernel, strides, pads = (node.attributes[name] for name in ("kernel_shape", "strides", "pads"))
    ends = [(0, 0), (0, 0), *zip(pads[: len(kernel)], pads[len(kernel) :], strict=True)]
    is_open, nan = np.asarray(x.open | x.nan), np.isnan(x.numbers)
    numbers = np.where(nan, -np.inf, x.numbers)

    def windows(array: NDArray[Any], fill: Any) -> NDArray[Any]:
        """The elements of each window along a last axis. Those beyond the edge have the value ``fill``."""
        padded = np.pad(array, ends, constant_values=fill)
        axes = tuple(range(2, padded.ndim))
        view = np.lib.stride_tricks.sliding_window_view(padded, kernel, axis=axes)
        view = view[(slice(None), slice(None), *(slice(None, None, stride) for stride in strides))]
        return view.reshape(*view.shape[: padded.ndim], -1)

    inside = windows(np.ones(x.open.shape, np.bool_), False)
    least = np.where(inside, windows(numbers.min(0), -np.inf), -np.inf).max(-1)
    candidates, reached = [], None
    for codes, own in zip(x.codes, numbers, strict=True):
        each, number = windows(codes, 0), windows(own, -np.inf)
        legal = inside & (number >= least[..., np.newaxis])
        for position in range(each.shape[-1]):
            candidates.append((each[..., position], legal[..., position]))
            if reached is None:
                reached = np.zeros(least.shape, codes.dtype)
            # The largest of the least values is legal itself, and stands where a candidate is not.
            reached = np.where(legal[..., position], each[..., position], reached)
    assert reached is not None
    pooled = np.stack([np.where(legal, codes, reached) for codes, legal in candidates])
    pooled_open = np.asarray((windows(is_open, False) & inside).any(-1))
    return _with_free_zeros(x.dtype, pooled, pooled_open) if x.dtype in FLOATS else Values(x.dtype, pooled, pooled_open)


_OPERATORS: Mapping[str, Callable[..., Values]] = {
    "Relu": _relu,
    "Neg": _neg,
    "Abs": _abs,
    FINITE: lambda node, x: _with_finite(x),
    FREE_ZEROS: lambda node, x: _with_free_zeros(x.dtype, x.codes, x.open),
    UNSIGNED_ZEROS: lambda node, x: _with_free_zeros(x.dtype, x.codes, x.open, for_positive=False),
    NEGATIVE_ZEROS: lambda node, x: _with_free_zeros(x.dtype, x.codes, x.open, for_negative=False),
    "Max": lambda node, a, b: _chosen(a, b, largest=True),
    "Min": lambda node, a, b: _chosen(a, b, largest=False),
    "Where": _where,
    "Mul": _mul,
    "Cast": _cast,
    "MaxPool": _max_pool,
    "ArgMax": _arg_max,
    "LeakyRelu": _leaky_relu,
    "MatMul": _mat_mul,
}
