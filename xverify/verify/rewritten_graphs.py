"""Graphs with the mistakes that optimisers make when they rewrite.

An optimiser replaces nodes of a graph by others. The mistakes are: a run of nodes is left out, a pair that quantizes is added, a
node takes the parameters of another one, a maximum is taken of codes instead of values, an axis is another one, a result is not
rounded to its type, or QuantizeLinear rounds in another way. Two mistakes that a plugin makes together are tried together: it
computes a half-precision graph in float32, and FakeQuantize is its QuantizeLinear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, product
from typing import Any

import numpy as np

from xverify.arithmetic.readings import EXACT, FLOAT32, Stepwise, by_name
from xverify.contracts.model import Contract
from xverify.contracts.quantize import quantized_dtype
from xverify.core.call import Call, Tensor, code_dtype
from xverify.core.dtypes import encode, integer_range, values
from xverify.core.moves import Node
from xverify.core.neighbours import DEQUANTIZE, FLOATS, QUANTIZE
from xverify.core.rounding import cast, cast_by_last_bit
from xverify.core.surroundings import Graph
from xverify.verify.graph_values import (
    CLAMPED,
    FINITE,
    FREE_ZEROS,
    NEGATIVE_ZEROS,
    RESULT,
    UNSIGNED_ZEROS,
    WITHIN_RANGE,
    Memo,
    Values,
    evaluate,
    united,
)
from xverify.verify.legal import legal_set
from xverify.verify.wrong_quantize import HALF, PLAIN, WRONG_ROUNDINGS, half_away, rounding_by

_PREFIX = "graph:"
"""The beginning of a rewrite's name."""

MOST_COMBINED = 60
"""Number of rewrites with two mistakes that are tried."""


@dataclass(frozen=True)
class Rewrite:
    """A mistake of an optimiser."""

    name: str
    """A token that depends on the operators and not on the types or shapes."""
    words: str
    """A predicate of the implementation."""


@dataclass(frozen=True, eq=False)
class Candidate:
    rewrite: Rewrite
    graph: Graph
    start: str = ""
    """The values with which the graph begins: a key of `_STARTS`."""
    run: tuple[Node, ...] = ()
    """Nodes that act on the codes of x."""
    is_loose: bool = False
    """True if few different codes do not tell the mistake from others: two mistakes, or other parameters."""
    rounding: str = ""
    """The way in which QuantizeLinear rounds: a way of `quantized_by`; "" for that of its text."""
    is_special: bool = False
    """True if the mistake changes few values only: those beside a zero, or an infinity."""
    is_doubtful: bool = False
    """True if it blames one of several operators, which only a graph without the others can show."""
    within: Graph | None = None
    """A graph that admits every result of this one; None if there is none. If it does not explain a result, this one does not."""
    is_constant: bool = False
    """True if the mistake gives one value, whatever the operands."""
    by_last_bit: bool = False
    """True if the cast to bfloat16 at the end is `cast_by_last_bit`."""


_UNROUNDED = Rewrite(_PREFIX + "unrounded", "does not round the result to its type before it goes on")
_LAST_BIT = Rewrite(_PREFIX + "last-bit", "casts to bfloat16, never rounding up where the last kept bit is 0")
_EXPANDED = Rewrite(_PREFIX + "expanded", "computes x * scale - zero point * scale by a fused multiply-add")
_FAKE_QUANTIZE = Rewrite(
    _PREFIX + "fake-quantize",
    "computes QuantizeLinear from the ends of its range, as FakeQuantize does",
)
_MERGED = Rewrite(
    _PREFIX + "merged-pairs",
    "merges two pairs of QuantizeLinear and DequantizeLinear into one with another scale",
)


_ZEROED = Rewrite(_PREFIX + "zeros", "gives 0 whatever the operands")
_SKIPPED_ZERO = Rewrite(_PREFIX + f"no-zero-point:{QUANTIZE}", f"takes the zero point of {QUANTIZE} as 0")

_PARTS = {each.name: each.words for each in (_UNROUNDED, _EXPANDED, _FAKE_QUANTIZE, _SKIPPED_ZERO)}


def words_of_part(name: str) -> str:
    """The words of a mistake that may be one of two in a rewrite; "" for any other."""
    return _PARTS.get(name, "")


def is_rewrite(name: str) -> bool:
    """True for the name of a rewrite, which is no recipe of arithmetic."""
    return name.startswith(_PREFIX)


def candidates(graph: Graph) -> Iterator[Candidate]:
    """Graphs with one mistake, the simplest first."""
    path = _path(graph)
    wide = _in_float32_throughout(graph, path)
    yield from wide[:1]
    yield from _left_out(graph, path)
    yield from _merged_pairs(graph)
    yield from _pooled_codes(graph, path)
    yield from _with_parameters_of_another(graph, path)
    yield from _on_another_axis(graph, path)
    yield from _with_odd_results(graph, path)
    yield from _with_bound_of_zero(graph, path)
    yield from _with_int8_operand(graph, path)
    # Another rounding is likelier than another formula: lone calls, whose results have no rounding, would show the latter.
    if any(node.operator == QUANTIZE for node in path):
        for way in WRONG_ROUNDINGS:
            yield Candidate(_rounded(way), graph, rounding=way)
    expands = graph.lone is not None and _is_affine(graph.lone)
    if expands:
        yield Candidate(_EXPANDED, graph, "expanded", is_loose=True)
    for candidate in _by_fake_quantize(graph, path):
        yield candidate
        if expands:
            yield _with(_EXPANDED, candidate, start="expanded")
    yield from _before_by_fake_quantize(graph)
    yield from wide[1:]
    yield from _with_float8_of_float16(graph, path)
    yield from _with_pair_added(graph, path)
    yield from _with_zeros(graph, path)


def _with(first: Rewrite, candidate: Candidate, **changes: Any) -> Candidate:
    """A candidate with another mistake before its own."""
    return replace(candidate, rewrite=_both(first, candidate.rewrite), is_loose=True, **changes)


def _in_float32_throughout(graph: Graph, path: Sequence[Node]) -> list[Candidate]:
    """The graph of a half-precision call in float32, with other mistakes of plugins that compute so."""
    dtype = "" if graph.lone is None else _result_dtype(graph)
    if dtype not in ("float16", "bfloat16"):
        return []
    plain = Candidate(_UNROUNDED, graph, "wide")
    listed = [plain]
    for candidate in _by_fake_quantize(graph, path):
        listed.append(_with(_UNROUNDED, candidate, start="wide"))
        if _is_affine(_widened_call(graph)):
            listed.append(_with(_UNROUNDED, _with(_EXPANDED, candidate), start="wide expanded"))
    changing = [node.operator for node in path if node.operator in (DEQUANTIZE, *_ON_FLOATS) and not _only_moves(node)]
    if dtype == "bfloat16" and changing and changing[-1] != QUANTIZE:
        listed += [_by_last_bit(each) for each in listed]
    return listed


def _only_moves(node: Node) -> bool:
    return node.operator in ("Resize", "Where")


def _by_last_bit(candidate: Candidate) -> Candidate:
    """A candidate with another cast to bfloat16 at the end."""
    return replace(candidate, rewrite=_both(candidate.rewrite, _LAST_BIT), is_loose=True, by_last_bit=True)


def combined(singles: Sequence[Candidate]) -> Iterator[Candidate]:
    """Graphs with nodes left out and another mistake in the rest."""
    made = 0
    for first in singles:
        if not first.rewrite.name.startswith(_PREFIX + "without") or first.start:
            continue
        for second in candidates(first.graph):
            if second.rewrite.name.startswith(_PREFIX + "without") or made >= MOST_COMBINED:
                continue
            if second.start == "kept" and second.rounding != PLAIN:
                continue  # an added pair that also rounds in a wrong way: three mistakes
            made += 1
            yield replace(second, rewrite=_both(first.rewrite, second.rewrite), is_loose=True)


def _rewrite(name: str, words: str) -> Rewrite:
    return Rewrite(_PREFIX + name, words)


def _path(graph: Graph) -> list[Node]:
    """The nodes from the call's result to the graph's, without the call's own."""
    by_output: dict[str, Node] = {}
    for node in graph.nodes:
        if any(name == RESULT or name in by_output for name in node.inputs):
            by_output[node.output] = node
    path: list[Node] = []
    name = graph.output
    while name != RESULT:
        if name not in by_output:
            return []  # the observed output is that of a second operator
        path.insert(0, by_output[name])
        name = next(each for each in path[0].inputs if each == RESULT or each in by_output)
    return path


def _is_affine(call: Call) -> bool:
    """True for a call with a scale and a zero point in float32, or with a result of that type."""
    roles = call.tensors
    return "scale" in roles and "zero_point" in roles and roles["scale"].dtype == "float32"


def _by_fake_quantize(graph: Graph, path: Sequence[Node]) -> Iterator[Candidate]:
    """The graph with OpenVINO's FakeQuantize for QuantizeLinear, or also for a DequantizeLinear after it."""
    quantizing = [node for node in path if node.operator == QUANTIZE]
    for is_fused, is_clamped in product((True, False), (False, True)) if quantizing else ():
        nodes, constants = list(graph.nodes), dict(graph.constants)
        for node in quantizing:
            after = [each for each in nodes if node.output in each.inputs]
            index, attributes = nodes.index(node), {**node.attributes, CLAMPED: int(is_clamped)}
            inputs = _with_zero_point(graph, node, _quantized_dtype(graph, node), constants)
            if is_fused and len(after) == 1 and after[0].operator == DEQUANTIZE and graph.output != node.output:
                nodes.remove(after[0])
                later = _with_zero_point(graph, after[0], _quantized_dtype(graph, node), constants)
                nodes[index] = Node(WITHIN_RANGE, (*inputs, *later[1:]), after[0].output, attributes)
            else:
                nodes[index] = replace(node, operator=WITHIN_RANGE, inputs=inputs, attributes=attributes)
        yield Candidate(_FAKE_QUANTIZE, replace(graph, nodes=tuple(nodes), constants=constants))


def _before_by_fake_quantize(graph: Graph) -> Iterator[Candidate]:
    """The graph with FakeQuantize for the call's own operator and the QuantizeLinear before it."""
    before, own = graph.nodes[0], _own(graph)
    if before.operator == QUANTIZE and before.output == own.inputs[0]:
        constants = dict(graph.constants)
        inputs, later = (_with_zero_point(graph, node, _lone(graph).data.dtype, constants) for node in (before, own))
        for is_clamped in (False, True):
            attributes = {**own.attributes, CLAMPED: int(is_clamped)}
            node = replace(own, operator=WITHIN_RANGE, inputs=(*inputs, *later[1:]), attributes=attributes)
            made = replace(graph, nodes=(node, *graph.nodes[graph.nodes.index(own) + 1 :]), constants=constants)
            yield Candidate(_FAKE_QUANTIZE, made)


def _with_zero_point(graph: Graph, node: Node, dtype: str, constants: dict[str, Tensor]) -> tuple[str, ...]:
    """The inputs of a node with a zero point, which becomes a constant of the graph if it is absent."""
    if len(node.inputs) > 2:
        return node.inputs
    name = f"{node.output}_zero"
    constants[name] = Tensor(dtype, np.zeros(_tensor_of(graph, node.inputs[1]).shape, code_dtype(dtype)))
    return (*node.inputs, name)


def _merged_pairs(graph: Graph) -> Iterator[Candidate]:
    """The graph with one pair of QuantizeLinear and DequantizeLinear in place of two.

    Its range is what both have in common.
    """
    made = {**graph.inputs, **graph.constants, **_lone(graph).tensors}
    own = _own(graph)
    for run in zip(*(graph.nodes[index:] for index in range(4)), strict=False):
        first, _, outer, last = run
        if tuple(node.operator for node in run) != (QUANTIZE, DEQUANTIZE) * 2:
            continue
        if any(after.inputs[0] != node.output for node, after in pairwise(run)) or any(
            len(node.inputs) < 3 or made[node.inputs[1]].dtype != "float32" or made[node.inputs[1]].size != 1
            for node in run
        ):
            continue
        scale, zero_point = _common_range([made[name] for node in (first, outer) for name in node.inputs[1:]])
        pair = [
            replace(node, inputs=(name, "merged_s", "merged_z"))
            for node, name in ((first, first.inputs[0]), (last, first.output))
        ]
        nodes: list[Node] = []
        for node in graph.nodes:
            nodes += pair if node is last else [node] if node is own or node not in run else []
        constants = {**graph.constants, "merged_s": scale, "merged_z": zero_point}
        yield Candidate(_MERGED, replace(graph, nodes=tuple(nodes), constants=constants))


def _common_range(parameters: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The scale and the zero point of the range that two pairs have in common.

    The steps are those of ONNX Runtime's DoubleQDQPairsRemover.
    """
    lowest, highest = integer_range(parameters[1].dtype)
    numbers = [np.float32(values(each.dtype, each.codes).reshape(-1)[0]) for each in parameters]
    starts, stops = (
        [np.float32(end - zero_point) * scale for scale, zero_point in (numbers[:2], numbers[2:])]
        for end in (lowest, highest)
    )
    start, stop = max(starts), min(stops)
    scale = np.float32((stop - start) / np.float32(highest - lowest))
    zero_point = half_away(np.asarray(np.float32(lowest) - start / scale, np.float64))
    dtype = parameters[1].dtype
    return (
        Tensor("float32", np.asarray(scale).view(np.uint32).reshape(())),
        Tensor(dtype, encode(dtype, np.asarray(np.clip(zero_point, lowest, highest)).astype(np.int64))),
    )


def _named_after(operators: Sequence[str]) -> str:
    listed = list(dict.fromkeys(operators))
    return " and ".join(filter(None, (", ".join(listed[:-1]), listed[-1])))


def _left_out(graph: Graph, path: Sequence[Node]) -> Iterator[Candidate]:
    """The graph without a run of nodes, short runs first."""
    if not path and graph.output != RESULT:
        yield Candidate(
            _rewrite("first-for-second", "gives the result of the other operator"), replace(graph, output=RESULT)
        )
    for length in range(1, len(path) + 1):
        for begin in range(len(path) - length + 1):
            made, operators = _without(graph, path[begin : begin + length])
            if _is_typed(made):
                yield Candidate(_rewrite(*_words_without(operators)), made)
    if path and path[0].operator == "ArgMax":  # the order of codes, which a negative scale reverses
        yield Candidate(_rewrite(*_words_without([DEQUANTIZE])), graph, "codes")
    for end, node in enumerate(path):
        if node.operator == QUANTIZE:  # the codes of x pass through both operators
            made, operators = _without(graph, path[: end + 1])
            yield Candidate(_rewrite(*_words_without([DEQUANTIZE, *operators])), made, "codes")


def _without(graph: Graph, run: Sequence[Node]) -> tuple[Graph, list[str]]:
    """The graph without a run of nodes, and their operators."""
    before = {RESULT, *(node.output for node in _path(replace(graph, output=run[0].output))[:-1])}
    source = next(name for name in run[0].inputs if name in before)
    kept = tuple(_reading(node, run[-1].output, source) for node in graph.nodes if node not in run)
    output = source if graph.output == run[-1].output else graph.output
    return replace(graph, nodes=kept, output=output), [node.operator for node in run]


def _words_without(operators: Sequence[str]) -> tuple[str, str]:
    return f"without:{'+'.join(dict.fromkeys(operators))}", f"leaves out {_named_after(operators)}"


def _reading(node: Node, name: str, source: str) -> Node:
    """The node with one of its inputs replaced."""
    return replace(node, inputs=tuple(source if each == name else each for each in node.inputs))


def _pooled_codes(graph: Graph, path: Sequence[Node]) -> Iterator[Candidate]:
    """The graph with a maximum of codes in place of one of values.

    They differ where the scale is negative.
    """
    pools = [index for index, node in enumerate(path) if node.operator == "MaxPool"]
    lone = graph.lone
    rewrite = _rewrite("pooled-codes", "takes the maximum of codes instead of values")
    if pools and path[-1].operator == QUANTIZE and all(_has_one_element(graph, name) for name in path[-1].inputs[1:]):
        pool, quantize = path[pools[0]], path[-1]
        first = replace(quantize, inputs=(pool.inputs[0], *quantize.inputs[1:]), output="early_q")
        nodes: list[Node] = []
        for node in graph.nodes:
            nodes += (
                [first, replace(node, inputs=("early_q",))] if node is pool else [node] if node is not quantize else []
            )
        yield Candidate(rewrite, replace(graph, nodes=tuple(nodes), output=quantize.inputs[0]))
    if not pools or lone is None or any(tensor.size != 1 for role, tensor in lone.tensors.items() if role != "x"):
        return
    run = path[: pools[0] + 1]
    if any(node.operator not in ("Reshape", "MaxPool") for node in run):
        return
    kept = tuple(_reading(node, run[-1].output, RESULT) for node in graph.nodes if node not in run)
    output = RESULT if graph.output == run[-1].output else graph.output
    yield Candidate(rewrite, replace(graph, nodes=kept, output=output), "pooled", tuple(run))


def _with_parameters_of_another(graph: Graph, path: Sequence[Node]) -> Iterator[Candidate]:
    """The graph with the scale, the zero point or both of one operator in place of another's."""
    own = next(node for node in graph.nodes if node.output == RESULT)
    operators = [own, *(node for node in path if node.operator in (QUANTIZE, DEQUANTIZE))]
    for node in operators[1:]:
        for other in operators:
            for which, slots in (("scale", (1,)), ("zero point", (2,)), ("scale and zero point", (1, 2))):
                inputs = list(node.inputs)
                if other is node or len(inputs) < slots[-1] + 1 or len(other.inputs) < slots[-1] + 1:
                    continue
                for slot in slots:
                    inputs[slot] = other.inputs[slot]
                if tuple(inputs) == node.inputs:
                    continue
                made = tuple(replace(each, inputs=tuple(inputs)) if each is node else each for each in graph.nodes)
                place = "an earlier" if operators.index(other) < operators.index(node) else "a later"
                words = f"takes the {which} of {place} operator for {node.operator}"
                token = f"{which.replace(' ', '-')}-of-{place.split()[1]}:{node.operator}"
                yield Candidate(_rewrite(token, words), replace(graph, nodes=made), is_loose=True)
        if len(node.inputs) > 2:
            typed = {**node.attributes, "output_dtype": _tensor_of(graph, node.inputs[2]).dtype}
            bare = replace(
                node, inputs=node.inputs[:2], attributes=typed if node.operator == QUANTIZE else node.attributes
            )
            made = tuple(bare if each is node else each for each in graph.nodes)
            words = f"takes the zero point of {node.operator} as 0"
            rewrite = _SKIPPED_ZERO if node.operator == QUANTIZE else _rewrite(f"no-zero-point:{node.operator}", words)
            yield Candidate(rewrite, replace(graph, nodes=made), is_loose=True)


def _with_float8_of_float16(graph: Graph, path: Sequence[Node]) -> Iterator[Candidate]:
    """The graph with quotients that become float16 before float8, with and without the zero point."""
    nodes = [node for node in path if node.operator == QUANTIZE]
    if graph.lone is None or not any(_quantized_dtype(graph, node).startswith("float8") for node in nodes):
        return
    bare = [each for each in _with_parameters_of_another(graph, path) if each.rewrite == _SKIPPED_ZERO]
    is_half = _result_dtype(graph) != "float32"
    for first, rounding in product((Candidate(_rounded(HALF), graph), *bare), ("", HALF)):
        if first.graph is graph and not rounding:
            continue  # no mistake
        rewrite = _both(first.rewrite, _rounded(rounding)) if rounding and first.graph is not graph else first.rewrite
        made = replace(first, rewrite=rewrite, rounding=rounding, is_loose=True)
        yield made
        if is_half:
            yield _with(_UNROUNDED, made, start="wide")
        if _result_dtype(graph) == "bfloat16" and path[-1].operator != QUANTIZE:
            yield _by_last_bit(_with(_UNROUNDED, made, start="wide"))


def _quantized_dtype(graph: Graph, node: Node) -> str:
    return quantized_dtype(_tensor_of(graph, node.inputs[2]) if len(node.inputs) > 2 else None, node.attributes)


def _has_one_element(graph: Graph, name: str) -> bool:
    return _tensor_of(graph, name).size == 1


def _tensor_of(graph: Graph, name: str) -> Tensor:
    return {**graph.inputs, **graph.constants, **_lone(graph).tensors}[name]


def _on_another_axis(graph: Graph, path: Sequence[Node]) -> Iterator[Candidate]:
    for node in path:
        if "axis" not in node.attributes or node.operator not in (QUANTIZE, DEQUANTIZE):
            continue
        for axis in range(6):
            if axis == node.attributes["axis"]:
                continue
            turned = replace(node, attributes={**node.attributes, "axis": axis})
            made = replace(graph, nodes=tuple(turned if each is node else each for each in graph.nodes))
            words = f"takes another axis for the parameters of {node.operator}"
            yield Candidate(_rewrite(f"another-axis:{node.operator}", words), made, is_loose=True)


def _with_pair_added(graph: Graph, path: Sequence[Node]) -> Iterator[Candidate]:
    """The graph with another QuantizeLinear and DequantizeLinear after an operator, or after each."""
    own = _lone(graph)
    if "scale" not in own.tensors:
        return
    is_bare = own.data.dtype == "uint8" and "zero_point" not in own.tensors
    places = [node for node in (_own(graph), *path) if node.operator != QUANTIZE]
    for chosen in [*([node] for node in places), *([places] if len(places) > 1 else [])]:
        for to in ("uint8",) if is_bare else ("", "uint8"):
            made = _with_pairs(graph, chosen, to)
            rewrite = _rewrite(
                f"quantizes-again:{to or 'own'}",
                f"quantizes the result again{f' to {to} without a zero point' if to else ''}",
            )
            yield Candidate(rewrite, made)
            yield Candidate(rewrite, made, "kept", rounding=PLAIN)
            for way in WRONG_ROUNDINGS:
                yield Candidate(_both(rewrite, _rounded(way)), made, "kept", is_loose=True, rounding=way)


def _with_pairs(graph: Graph, places: Sequence[Node], to: str) -> Graph:
    """The graph with a pair after each of these nodes.

    The pairs take the call's own parameters, or only its scale.
    """
    own, x, scale = _own(graph), _lone(graph).data.dtype, _lone(graph).tensors["scale"]
    kept = {key: value for key, value in own.attributes.items() if key in ("axis", "block_size")}
    parameters = own.inputs[1:] if len(own.inputs) > 2 else (own.inputs[1], "added_z")
    if to:
        parameters = own.inputs[1:2]
    nodes: list[Node] = []
    renamed: dict[str, str] = {}
    for node in graph.nodes:
        nodes.append(replace(node, inputs=tuple(renamed.get(name, name) for name in node.inputs)))
        if node in places:
            codes, result = f"{node.output}_added_q", f"{node.output}_added"
            nodes.append(Node(QUANTIZE, (node.output, *parameters), codes, kept, True))
            nodes.append(Node(DEQUANTIZE, (codes, *parameters), result, dict(own.attributes), True))
            renamed[node.output] = result
    constants = {**graph.constants, "added_z": Tensor(x, np.zeros(scale.shape, code_dtype(x)))}
    return replace(graph, nodes=tuple(nodes), output=renamed.get(graph.output, graph.output), constants=constants)


def _rounded(way: str) -> Rewrite:
    """A QuantizeLinear that rounds in another way."""
    return _rewrite(f"quantize-{way.replace(' ', '-')}", f"{way} in {QUANTIZE}")


def _both(first: Rewrite, second: Rewrite) -> Rewrite:
    name = f"{first.name}:{second.name.removeprefix(_PREFIX)}"
    return Rewrite(name, f"{first.words} and {second.words}")


_ODD_RESULTS = (
    (UNSIGNED_ZEROS, "zero-lost", "gives 0 instead of -0"),
    (NEGATIVE_ZEROS, "zero-gained", "gives -0 instead of 0"),
    (FREE_ZEROS, "zero-sign", "gives zeros of the wrong sign"),
    (FINITE, "finite", "gives the largest finite number for infinity"),
)
"""Operators after another one that change zeros or infinities, with their tokens and words."""


def _with_odd_results(graph: Graph, path: Sequence[Node]) -> Iterator[Candidate]:
    """The graph with an operator that changes the sign of zeros, or gives the largest number for infinity.

    The last operator comes first: without it, the values were right. An operator among others is not blamed alone, since a
    fusion with its neighbours may be at fault.
    """
    operators = list(dict.fromkeys(node.operator for node in path if node.operator in _COMPUTING))
    for node in reversed(path):
        if node.operator not in _ON_FLOATS or node.operator == QUANTIZE:
            continue
        free = _followed_by(graph, node, FREE_ZEROS)
        for also, token, words in _ODD_RESULTS:
            made = free if also == FREE_ZEROS else _followed_by(graph, node, also)
            within = free if also in (UNSIGNED_ZEROS, NEGATIVE_ZEROS) else made
            for blamed in ([node.operator], operators) if len(operators) > 1 else (operators,):
                rewrite = _rewrite(f"{token}:{'+'.join(blamed)}", f"{words} in {_named_after(blamed)}")
                yield Candidate(rewrite, made, is_special=True, is_doubtful=blamed is not operators, within=within)


def _followed_by(graph: Graph, node: Node, operator: str) -> Graph:
    """The graph with another operator after a node."""
    name = f"{node.output}_own"
    nodes: list[Node] = []
    for each in graph.nodes:
        nodes += [replace(node, output=name), Node(operator, (name,), node.output)] if each is node else [each]
    return replace(graph, nodes=tuple(nodes))


def _with_bound_of_zero(graph: Graph, path: Sequence[Node]) -> Iterator[Candidate]:
    """The graph with 0 for the absent bound of a Clip."""
    rewrite = _rewrite("bound-of-zero:Clip", "takes 0 for the absent bound of Clip")
    for node in path:
        if node.operator != "Clip":
            continue
        given = {end: name for end, name in zip(("min", "max"), node.inputs[1:], strict=False) if name}
        ends = [end for end in ("min", "max") if end not in given and end not in node.attributes]
        if len(ends) != 1:
            continue
        if given:
            (bound,) = (_tensor_of(graph, name) for name in given.values())
            constants = {"bound_z": Tensor(bound.dtype, np.zeros((), bound.codes.dtype))}
            inputs = (node.inputs[0], *(given.get(end, "bound_z") for end in ("min", "max")))
            bounded = replace(node, inputs=inputs)
        else:
            constants, bounded = {}, replace(node, attributes={**node.attributes, ends[0]: 0.0})
        nodes = tuple(bounded if each is node else each for each in graph.nodes)
        yield Candidate(rewrite, replace(graph, nodes=nodes, constants={**graph.constants, **constants}))


def _with_int8_operand(graph: Graph, path: Sequence[Node]) -> Iterator[Candidate]:
    """The graph with a MatMul whose other operand loses what int8 cannot hold beside its largest number."""
    for node in path:
        for name in node.inputs if node.operator == "MatMul" else ():
            if name not in graph.inputs:
                continue
            matrix = graph.inputs[name]
            numbers = np.abs(values(matrix.dtype, matrix.codes)).reshape(matrix.shape)
            largest = numbers.max(-1 if name == node.inputs[0] else -2, keepdims=True)  # 127, in int8
            kept = Tensor(
                matrix.dtype, np.where(numbers * 127 > largest / 2, matrix.codes, 0).astype(matrix.codes.dtype)
            )
            if not kept.same_bits(matrix):
                rewrite = _rewrite("int8-operand:MatMul", "quantizes the other operand of MatMul to int8")
                yield Candidate(rewrite, replace(graph, inputs={**graph.inputs, name: kept}), is_special=True)


def _with_zeros(graph: Graph, path: Sequence[Node]) -> Iterator[Candidate]:
    """The graph with zeros for the result of the call's own operator, if another one changes values.

    No result tells which operator before the change makes them. QuantizeLinear gives its zero point for them.
    """
    if graph.changes_values:
        to = next((node.operator for node in path if node.operator in _COMPUTING and not _only_moves(node)), "")
        named = _rewrite(f"zeros:{to}", f"gives 0 to {to} whatever the operands") if to else _ZEROED
        yield Candidate(named, graph, "zeros", is_constant=True)


def is_zeroed(name: str) -> bool:
    """True for the name of a rewrite that gives zeros."""
    return name.startswith(_ZEROED.name)


def _is_typed(graph: Graph) -> bool:
    """True if every operator gets floats or codes as it needs."""
    are_codes = {RESULT: False}
    for node in graph.nodes:
        source = next((name for name in node.inputs if name in are_codes), None)
        if source is None or node.output == RESULT:
            continue
        if are_codes[source] != (node.operator == DEQUANTIZE) and node.operator in (*_ON_FLOATS, DEQUANTIZE):
            return False
        are_codes[node.output] = node.operator == QUANTIZE or (are_codes[source] and node.operator != DEQUANTIZE)
    return True


_ON_FLOATS = (QUANTIZE, "Relu", "Neg", "Abs", "Max", "Min", "Clip", "Mul", "MaxPool", "Where", "Cast", "Resize")
"""Operators that take no codes here."""

_COMPUTING = (*_ON_FLOATS, DEQUANTIZE, "ArgMax", "LeakyRelu", "MatMul")
"""Operators that may give another value than 0 for 0, or lead to one."""


# -- evaluation --------------------------------------------------------------------------------------------


def evaluated(contract: Contract, candidate: Candidate, dtype: str, memo: Memo) -> Values | None:
    """The values of a graph with a mistake, in a type; None if the mistake is impossible there.

    Args:
        contract: The edition.
        candidate: The mistake.
        dtype: The type.
        memo: The results of other graphs around the call.
    """
    try:
        start = _start(contract, candidate, memo)
        is_wide = candidate.start.startswith("wide")
        graph = _in_float32(candidate.graph) if is_wide else candidate.graph
        quantizing = rounding_by(candidate.rounding) if candidate.rounding else None
        made = evaluate(contract, graph, start, quantizing, memo=memo).get(graph.output)
    except (ValueError, IndexError, KeyError, AssertionError):
        return None
    if made is not None and is_wide and made.dtype == "float32" != dtype in FLOATS:
        codes = cast_by_last_bit(made.numbers) if candidate.by_last_bit else cast(made.numbers, dtype)
        made = united(dtype, np.asarray(codes).reshape(made.codes.shape), made.open)
    return made


def _start(contract: Contract, candidate: Candidate, memo: Memo) -> Values | None:
    """The values with which the graph of a mistake begins; None for the call's legal set."""
    lone = _lone(candidate.graph)
    if not candidate.start:
        return None
    key = (candidate.start, id(lone), *map(id, candidate.run))
    return memo.result(key, lambda: _STARTS[candidate.start](contract, candidate), lone, candidate.run)


def _codes_of_x(contract: Contract, candidate: Candidate) -> Values:
    x = _lone(candidate.graph).tensors["x"]
    return Values(x.dtype, x.codes[np.newaxis], np.zeros(x.shape, np.bool_))


def _pooled(contract: Contract, candidate: Candidate) -> Values:
    lone = _lone(candidate.graph)
    x = _codes_of_x(contract, candidate)
    pool = replace(candidate.graph, nodes=(_own(candidate.graph), *candidate.run), output=candidate.run[-1].output)
    pooled = evaluate(contract, pool, x)[pool.output].tensor(0)
    inner = replace(lone, tensors={**lone.tensors, "x": pooled}, around=())
    graph = replace(pool, nodes=(_own(candidate.graph),), output=RESULT, lone=inner)
    return evaluate(contract, graph)[RESULT]


def _unrounded(contract: Contract, candidate: Candidate) -> Values:
    """The call's result in float32. The scale may have the output type if the text admits that."""
    call = _lone(candidate.graph)
    right = contract.operands(call)
    operands = replace(right, output_dtype="float32")
    casts = any(isinstance(each, Stepwise) and each.scale_cast == "output" for each in contract.readings(call))
    cast_scale = by_name(f"scale-{right.output_dtype}")
    readings = (EXACT, FLOAT32, cast_scale) if casts else (EXACT, FLOAT32)
    codes = np.stack([np.asarray(reading.evaluate(operands)).reshape(operands.shape) for reading in readings])
    return united("float32", codes, np.zeros(operands.shape, np.bool_))


def _expanded(contract: Contract, candidate: Candidate, is_wide: bool = False) -> Values:
    """The call's result, or that in float32, computed as x * scale - zero point * scale."""
    operands = contract.operands(_lone(candidate.graph))
    operands = replace(operands, output_dtype="float32") if is_wide else operands
    codes = np.asarray(by_name("fused+rounded-float32").evaluate(operands)).reshape(operands.shape)
    return united(operands.output_dtype, codes[np.newaxis], np.zeros(operands.shape, np.bool_))


def _kept(contract: Contract, candidate: Candidate) -> Values:
    """The call's legal results in which no subnormal number counts as zero."""
    legal = legal_set(contract, _lone(candidate.graph))
    return united(legal.dtype, np.stack(legal.distinct), np.zeros(legal.shape, np.bool_))


def _zeros(contract: Contract, candidate: Candidate) -> Values:
    operands = contract.operands(_lone(candidate.graph))
    codes = np.zeros((1, *operands.shape), code_dtype(operands.output_dtype))
    return Values(operands.output_dtype, codes, np.zeros(operands.shape, np.bool_))


def _in_float32(graph: Graph) -> Graph:
    """The graph with every half-precision constant as a float32."""
    return replace(
        graph,
        inputs=_widened(graph.inputs),
        constants=_widened(graph.constants),
        lone=_widened_call(graph),
    )


def _widened_call(graph: Graph) -> Call:
    lone = _lone(graph)
    return replace(lone, tensors=_widened(lone.tensors))


def _widened(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    def wide(tensor: Tensor) -> Tensor:
        if tensor.dtype not in ("float16", "bfloat16"):
            return tensor
        numbers = np.ascontiguousarray(values(tensor.dtype, tensor.codes), np.float32)
        return Tensor("float32", numbers.view(np.uint32).reshape(tensor.shape))

    return {name: wide(tensor) for name, tensor in tensors.items()}


_STARTS: Mapping[str, Callable[[Contract, Candidate], Values]] = {
    "codes": _codes_of_x,
    "pooled": _pooled,
    "wide": _unrounded,
    "wide expanded": partial(_expanded, is_wide=True),
    "expanded": _expanded,
    "kept": _kept,
    "zeros": _zeros,
}
"""The values that a graph begins with, by kind of candidate."""


def _lone(graph: Graph) -> Call:
    assert graph.lone is not None
    return graph.lone


def _own(graph: Graph) -> Node:
    return next(node for node in graph.nodes if node.output == RESULT)


def _result_dtype(graph: Graph) -> str:
    lone = _lone(graph)
    return str(lone.attributes.get("output_dtype", lone.tensors["scale"].dtype if "scale" in lone.tensors else ""))
