"""Rewrites of a graph that explain its wrong values.

An optimiser replaces nodes of a graph by others. If a call among neighbours that change values gives a wrong result, some rewrite
that does not keep the values may give exactly that result. The search tries the mistakes that rewrites make: a run of nodes is
left out, a pair that quantizes is added, a node takes the parameters of another one, a maximum is taken of codes instead of
values, an axis is another one, a result is not rounded to its type, or QuantizeLinear rounds in another way. Two mistakes that a
plugin makes together are tried together: it computes a half-precision graph in float32, and FakeQuantize is its QuantizeLinear.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic.linear_operands import spread
from xverify.arithmetic.readings import EXACT, FLOAT32, by_name
from xverify.contracts.model import Contract
from xverify.contracts.quantize import quantized_dtype
from xverify.core.bits import canonical
from xverify.core.call import Call, Outcome, Tensor, code_dtype
from xverify.core.dtypes import INTEGERS, encode, integer_range, values
from xverify.core.moves import Node
from xverify.core.neighbours import CHANGES, DEQUANTIZE, FLOATS, QUANTIZE
from xverify.core.rounding import cast, cast_by_last_bit
from xverify.core.surroundings import Graph, surround
from xverify.verify.attribute import Attribution
from xverify.verify.compare import Comparison
from xverify.verify.findings import Discrepancy
from xverify.verify.graph_values import (
    CLAMPED,
    FINITE,
    FREE_ZEROS,
    RESULT,
    WITHIN_RANGE,
    Values,
    evaluate,
    fixed,
    quantized,
    united,
)
from xverify.verify.legal import legal_set
from xverify.verify.verdicts import Judged, violates

_PREFIX = "graph:"
"""The beginning of a rewrite's name."""

FEW_CODES = 4
"""Number of different wrong values that a loose mistake, or another rounding, must explain. Many of them give one code."""

FEW_WRONG = 2
"""The same for any other mistake that may change more than one value, with the legal values in their place."""

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
class _Candidate:
    rewrite: Rewrite
    graph: Graph
    start: str = ""
    """The values with which the graph begins: a key of `_STARTS`."""
    run: tuple[Node, ...] = ()
    """Nodes that act on the codes of x."""
    is_loose: bool = False
    """True if few different codes do not tell the mistake from others: two mistakes, or other parameters."""
    rounding: str = ""
    """The way in which QuantizeLinear rounds: a key of `_ROUNDINGS`; "" for that of its text."""
    is_special: bool = False
    """True if the mistake changes one value only: a zero, or an infinity."""
    by_last_bit: bool = False
    """True if the cast to bfloat16 at the end is `cast_by_last_bit`."""

    def is_shown_by(self, wrong: Wrong) -> bool:
        """True if enough different wrong values show the mistake to believe it."""
        if self.is_loose or self.rounding not in ("", _PLAIN, *_BEYOND):
            return wrong.codes >= FEW_CODES
        return wrong.pairs >= (1 if self.is_special or self.rounding in _BEYOND else FEW_WRONG)


@dataclass(frozen=True)
class Wrong:
    """The number of different finite wrong values of a result."""

    codes: int
    """The number of codes."""
    pairs: int
    """The number of codes with the legal codes in their place."""


@dataclass(frozen=True)
class Explanation:
    """A rewrite whose legal results include a graph's result."""

    rewrite: Rewrite
    is_strong: bool
    """True if enough different values tell the rewrite from the text. Otherwise another graph must show it too."""


_UNROUNDED = Rewrite(_PREFIX + "unrounded", "does not round the result to its type before it goes on")
_LAST_BIT = Rewrite(_PREFIX + "last-bit", "truncates even numbers in the cast to bfloat16")
_EXPANDED = Rewrite(_PREFIX + "expanded", "computes x * scale - zero point * scale by a fused multiply-add")
_FAKE_QUANTIZE = Rewrite(
    _PREFIX + "fake-quantize",
    "computes QuantizeLinear from the ends of its range, as FakeQuantize does",
)
_MERGED = Rewrite(
    _PREFIX + "merged-pairs",
    "merges two pairs of QuantizeLinear and DequantizeLinear into one with another scale",
)


_SKIPPED_ZERO = Rewrite(_PREFIX + f"no-zero-point:{QUANTIZE}", f"takes the zero point of {QUANTIZE} as 0")

_PARTS = {each.name: each.words for each in (_UNROUNDED, _EXPANDED, _FAKE_QUANTIZE, _SKIPPED_ZERO)}


def words_of_part(name: str) -> str:
    """The words of a mistake that may be one of two in a rewrite; "" for any other."""
    return _LAST_BIT.words if name == "final:last-bit" else _PARTS.get(name, "")


def is_rewrite(name: str) -> bool:
    """True for the name of a rewrite, which is no recipe of arithmetic."""
    return name.startswith(_PREFIX)


def without_changes(call: Call) -> Call:
    """The call without the words that change values.

    The others only move data, so its outcome is that of the lone call.
    """
    kept = [word for word in call.around if not _changes(word)]
    return replace(call, around=tuple(kept))


def _changes(word: str) -> bool:
    target, _, rest = word.partition(">")
    return word.startswith(("fork:", "shared:", "x<quantize")) or (target == "y" and rest.partition(":")[0] in CHANGES)


def follows(contract: Contract, call: Call, got: Tensor, lone: Tensor) -> bool:
    """True if a graph's result follows from the implementation's own result of the lone call."""
    graph = surround(call)
    return matches(_from_own(contract, graph, lone, np.zeros(lone.shape, np.bool_)), got, graph)


def differs_where_wrong(contract: Contract, call: Call, got: Tensor, lone: Tensor, wrong: NDArray[np.bool_]) -> bool:
    """True if a graph's result is wrong only where the lone call's result is wrong.

    Then nothing tells that the other operators of the graph are to blame.

    Args:
        contract: The edition.
        call: The call in its graph.
        got: The graph's result.
        lone: The result of the lone call.
        wrong: The mask of its wrong values.
    """
    graph = surround(call)
    made = _from_own(contract, graph, lone, wrong)
    return made is not None and _agrees(made, got, graph)


def _from_own(contract: Contract, graph: Graph, lone: Tensor, is_open: NDArray[np.bool_]) -> Values | None:
    """The graph's result from the lone call's actual result, with a mask of values to leave open."""
    assert graph.lone is not None
    ends = [(missing // 2, missing - missing // 2) for missing in np.subtract(graph.lone.data.shape, lone.shape)]
    codes = np.asarray(lone.codes).reshape(lone.shape)
    if any(map(any, ends)):
        codes, is_open = np.pad(codes, ends, mode="edge"), np.pad(is_open, ends, mode="edge")
    own = Values(lone.dtype, canonical(codes, lone.dtype)[np.newaxis], is_open.reshape(codes.shape))
    return evaluate(contract, graph, own).get(graph.output)


def explanations(contract: Contract, call: Call, got: Tensor) -> list[Explanation]:
    """The rewrites whose legal results include a graph's result, the simplest first.

    Rewrites with two mistakes are listed only if no simple one has enough evidence.
    """
    graph = surround(call)
    wrong = different(contract, graph, got)
    singles = list(_candidates(graph))
    every = _explaining(contract, singles, got, wrong)
    if not any(each.is_strong for each in every):
        every += _explaining(contract, _combined(singles), got, wrong)
    return list({each.rewrite.name: each for each in reversed(every)}.values())[::-1]


def _explaining(contract: Contract, candidates: Iterable[_Candidate], got: Tensor, wrong: Wrong) -> list[Explanation]:
    return [
        Explanation(candidate.rewrite, candidate.is_shown_by(wrong))
        for candidate in candidates
        if _explains(contract, candidate, got)
    ]


def explain(contract: Contract, call: Call, got: Tensor, likely: Collection[str] = ()) -> Rewrite | None:
    """The simplest rewrite that explains a graph's result; None if none is known.

    Args:
        contract: The edition.
        call: The call.
        got: The graph's result.
        likely: Names of rewrites that other graphs of the implementation show. They need less evidence, and come first.
    """
    usable = [each for each in explanations(contract, call, got) if each.is_strong or each.rewrite.name in likely]
    usable.sort(key=lambda each: each.rewrite.name not in likely)
    return usable[0].rewrite if usable else None


def different(contract: Contract, graph: Graph, got: Tensor) -> Wrong:
    """The different wrong values of a graph's result."""
    made = evaluate(contract, graph).get(graph.output)
    if made is None or made.dtype != got.dtype or made.open.shape != graph.shape:
        return Wrong(0, 0)
    legal, is_open, codes = _aligned(made, got, graph)
    if codes.shape != is_open.shape:
        return Wrong(0, 0)
    wrong = ~((legal == codes).any(0) | is_open) & np.isfinite(values(got.dtype, codes))
    pairs = np.unique(np.vstack([codes, legal])[:, wrong], axis=1)
    return Wrong(len(np.unique(pairs[0])), pairs.shape[1])


def gives(contract: Contract, call: Call, got: Tensor, name: str) -> Rewrite | None:
    """The rewrite with this name if its legal results include a graph's result."""
    singles = list(_candidates(surround(call)))
    for candidate in chain(singles, _combined(singles)):
        if candidate.rewrite.name == name and _explains(contract, candidate, got):
            return candidate.rewrite
    return None


def violates_in_graph(
    judged: Judged, subject: str, got: Tensor, comparison: Comparison, name: str | None
) -> Discrepancy | None:
    """The discrepancy of a graph's wrong values.

    Args:
        judged: the call.
        subject: the implementation's name.
        got: its result.
        comparison: the comparison of its values.
        name: the name of the rewrite that explains them; None if none does.

    Returns:
        None if no value is wrong, or the rewrite does not give the values.
    """
    from_types = violates(judged, subject, Outcome("tensor", got), comparison, None)
    if name is None or from_types is None:
        return from_types
    rewrite = gives(judged.contract, judged.call, got, name)
    if rewrite is None:
        return None
    count = comparison.wrong_values
    key = replace(from_types.key, detail=rewrite.name)
    summary = f"{subject} rewrites a graph and {rewrite.words}"
    by = Attribution(rewrite.name, rewrite.words, count, count)
    return Discrepancy(key, summary, by, count, comparison.max_ulp, (rewrite.name,))


# -- candidates -------------------------------------------------------------------------------------------


def _candidates(graph: Graph) -> Iterator[_Candidate]:
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
    expands = graph.lone is not None and _is_affine(graph.lone)
    if expands:
        yield _Candidate(_EXPANDED, graph, "expanded", is_loose=True)
    for candidate in _by_fake_quantize(graph, path):
        yield candidate
        if expands:
            yield _with(_EXPANDED, candidate, start="expanded")
    yield from wide[1:]
    yield from _with_float8_of_float16(graph, path)
    if any(node.operator == QUANTIZE for node in path):
        for way in _WRONG_ROUNDINGS:
            yield _Candidate(_rounded(way), graph, rounding=way)
    yield from _with_pair_added(graph, path)


def _with(first: Rewrite, candidate: _Candidate, **changes: Any) -> _Candidate:
    """A candidate with another mistake before its own."""
    return replace(candidate, rewrite=_both(first, candidate.rewrite), is_loose=True, **changes)


def _in_float32_throughout(graph: Graph, path: Sequence[Node]) -> list[_Candidate]:
    """The graph of a half-precision call in float32, with other mistakes of plugins that compute so."""
    dtype = "" if graph.lone is None else _result_dtype(graph)
    if dtype not in ("float16", "bfloat16"):
        return []
    plain = _Candidate(_UNROUNDED, graph, "wide")
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


def _by_last_bit(candidate: _Candidate) -> _Candidate:
    """A candidate with another cast to bfloat16 at the end."""
    return replace(candidate, rewrite=_both(candidate.rewrite, _LAST_BIT), is_loose=True, by_last_bit=True)


def _combined(singles: Sequence[_Candidate]) -> Iterator[_Candidate]:
    """Graphs with nodes left out and another mistake in the rest."""
    made = 0
    for first in singles:
        if not first.rewrite.name.startswith(_PREFIX + "without") or first.start:
            continue
        for second in _candidates(first.graph):
            if second.rewrite.name.startswith(_PREFIX + "without") or made >= MOST_COMBINED:
                continue
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


def _by_fake_quantize(graph: Graph, path: Sequence[Node]) -> Iterator[_Candidate]:
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
        yield _Candidate(_FAKE_QUANTIZE, replace(graph, nodes=tuple(nodes), constants=constants))


def _with_zero_point(graph: Graph, node: Node, dtype: str, constants: dict[str, Tensor]) -> tuple[str, ...]:
    """The inputs of a node with a zero point, which becomes a constant of the graph if it is absent."""
    if len(node.inputs) > 2:
        return node.inputs
    name = f"{node.output}_zero"
    constants[name] = Tensor(dtype, np.zeros(_tensor_of(graph, node.inputs[1]).shape, code_dtype(dtype)))
    return (*node.inputs, name)


def _merged_pairs(graph: Graph) -> Iterator[_Candidate]:
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
        yield _Candidate(_MERGED, replace(graph, nodes=tuple(nodes), constants=constants))


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
    zero_point = _half_away(np.asarray(np.float32(lowest) - start / scale, np.float64))
    dtype = parameters[1].dtype
    return (
        Tensor("float32", np.asarray(scale).view(np.uint32).reshape(())),
        Tensor(dtype, encode(dtype, np.asarray(np.clip(zero_point, lowest, highest)).astype(np.int64))),
    )


def _named_after(operators: Sequence[str]) -> str:
    listed = list(dict.fromkeys(operators))
    return " and ".join(filter(None, (", ".join(listed[:-1]), listed[-1])))


def _left_out(graph: Graph, path: Sequence[Node]) -> Iterator[_Candidate]:
    """The graph without a run of nodes, short runs first."""
    if not path and graph.output != RESULT:
        yield _Candidate(
            _rewrite("first-for-second", "gives the result of the other operator"), replace(graph, output=RESULT)
        )
    for length in range(1, len(path) + 1):
        for begin in range(len(path) - length + 1):
            made, operators = _without(graph, path[begin : begin + length])
            if _is_typed(made):
                yield _Candidate(_rewrite(*_words_without(operators)), made)
    if path and path[0].operator == "ArgMax":  # the order of codes, which a negative scale reverses
        yield _Candidate(_rewrite(*_words_without([DEQUANTIZE])), graph, "codes")
    for end, node in enumerate(path):
        if node.operator == QUANTIZE:  # the codes of x pass through both operators
            made, operators = _without(graph, path[: end + 1])
            yield _Candidate(_rewrite(*_words_without([DEQUANTIZE, *operators])), made, "codes")


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


def _pooled_codes(graph: Graph, path: Sequence[Node]) -> Iterator[_Candidate]:
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
        yield _Candidate(rewrite, replace(graph, nodes=tuple(nodes), output=quantize.inputs[0]))
    if not pools or lone is None or any(tensor.size != 1 for role, tensor in lone.tensors.items() if role != "x"):
        return
    run = path[: pools[0] + 1]
    if any(node.operator not in ("Reshape", "MaxPool") for node in run):
        return
    kept = tuple(_reading(node, run[-1].output, RESULT) for node in graph.nodes if node not in run)
    output = RESULT if graph.output == run[-1].output else graph.output
    yield _Candidate(rewrite, replace(graph, nodes=kept, output=output), "pooled", tuple(run))


def _with_parameters_of_another(graph: Graph, path: Sequence[Node]) -> Iterator[_Candidate]:
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
                yield _Candidate(_rewrite(token, words), replace(graph, nodes=made), is_loose=True)
        if len(node.inputs) > 2:
            typed = {**node.attributes, "output_dtype": _tensor_of(graph, node.inputs[2]).dtype}
            bare = replace(
                node, inputs=node.inputs[:2], attributes=typed if node.operator == QUANTIZE else node.attributes
            )
            made = tuple(bare if each is node else each for each in graph.nodes)
            words = f"takes the zero point of {node.operator} as 0"
            rewrite = _SKIPPED_ZERO if node.operator == QUANTIZE else _rewrite(f"no-zero-point:{node.operator}", words)
            yield _Candidate(rewrite, replace(graph, nodes=made), is_loose=True)


def _with_float8_of_float16(graph: Graph, path: Sequence[Node]) -> Iterator[_Candidate]:
    """The graph with quotients that become float16 before float8, with and without the zero point."""
    nodes = [node for node in path if node.operator == QUANTIZE]
    if graph.lone is None or not any(_quantized_dtype(graph, node).startswith("float8") for node in nodes):
        return
    bare = [each for each in _with_parameters_of_another(graph, path) if each.rewrite == _SKIPPED_ZERO]
    is_half = _result_dtype(graph) != "float32"
    for first, rounding in product((_Candidate(_rounded(_HALF), graph), *bare), ("", _HALF)):
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


def _on_another_axis(graph: Graph, path: Sequence[Node]) -> Iterator[_Candidate]:
    for node in path:
        if "axis" not in node.attributes or node.operator not in (QUANTIZE, DEQUANTIZE):
            continue
        for axis in range(6):
            if axis == node.attributes["axis"]:
                continue
            turned = replace(node, attributes={**node.attributes, "axis": axis})
            made = replace(graph, nodes=tuple(turned if each is node else each for each in graph.nodes))
            words = f"takes another axis for the parameters of {node.operator}"
            yield _Candidate(_rewrite(f"another-axis:{node.operator}", words), made, is_loose=True)


def _with_pair_added(graph: Graph, path: Sequence[Node]) -> Iterator[_Candidate]:
    """The graph with another QuantizeLinear and DequantizeLinear, which take the call's own parameters."""
    own, x = _own(graph), _lone(graph).data.dtype
    kept = {key: value for key, value in own.attributes.items() if key in ("axis", "block_size")}
    scale = _lone(graph).tensors.get("scale")
    if scale is None:
        return
    zero = {"added_z": Tensor(x, np.zeros(scale.shape, code_dtype(x)))}
    for name, after in ((node.output, node) for node in (own, *path) if node.operator != QUANTIZE):
        for to in ("", "uint8"):
            parameters = own.inputs[1:] if len(own.inputs) > 2 else (own.inputs[1], "added_z")
            if to:
                parameters = own.inputs[1:2]
            pair = (
                Node(QUANTIZE, (name, *parameters), "added_q", kept, True),
                Node(DEQUANTIZE, ("added_q", *parameters), "added", dict(own.attributes), True),
            )
            nodes: list[Node] = []
            for node in graph.nodes:
                nodes.append(node if node is after else _reading(node, name, "added"))
                nodes += pair if node is after else ()
            output = "added" if graph.output == name else graph.output
            made = replace(graph, nodes=tuple(nodes), output=output, constants={**graph.constants, **zero})
            rewrite = _rewrite(
                f"quantizes-again:{to or 'own'}",
                f"quantizes the result again{f' to {to} without a zero point' if to else ''}",
            )
            yield _Candidate(rewrite, made)
            yield _Candidate(rewrite, made, "kept", rounding=_PLAIN)
            for way in _WRONG_ROUNDINGS:
                yield _Candidate(_both(rewrite, _rounded(way)), made, "kept", is_loose=True, rounding=way)


def _rounded(way: str) -> Rewrite:
    """A QuantizeLinear that rounds in another way."""
    return _rewrite(f"quantize-{way.replace(' ', '-')}", f"{way} in {QUANTIZE}")


def _both(first: Rewrite, second: Rewrite) -> Rewrite:
    name = f"{first.name}:{second.name.removeprefix(_PREFIX)}"
    return Rewrite(name, f"{first.words} and {second.words}")


def _with_odd_results(graph: Graph, path: Sequence[Node]) -> Iterator[_Candidate]:
    """The graph with one operator that loses the sign of zero, or gives the largest number for infinity.

    The last operator comes first: without it, the values were right.
    """
    for node in reversed(path):
        if node.operator not in _ON_FLOATS or node.operator == QUANTIZE:
            continue
        for also, token, words in (
            (FREE_ZEROS, "zero-sign", "loses the sign of zero"),
            (FINITE, "finite", "gives the largest finite number for infinity"),
        ):
            name = f"{node.output}_own"
            nodes: list[Node] = []
            for each in graph.nodes:
                nodes += [replace(node, output=name), Node(also, (name,), node.output)] if each is node else [each]
            rewrite = _rewrite(f"{token}:{node.operator}", f"{words} in {node.operator}")
            yield _Candidate(rewrite, replace(graph, nodes=tuple(nodes)), is_special=True)


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


# -- comparison -------------------------------------------------------------------------------------------


def _explains(contract: Contract, candidate: _Candidate, got: Tensor) -> bool:
    try:
        start = _STARTS[candidate.start](contract, candidate)
        is_wide = candidate.start.startswith("wide")
        graph = _in_float32(candidate.graph) if is_wide else candidate.graph
        quantizing = partial(_quantized, candidate.rounding) if candidate.rounding else None
        made = evaluate(contract, graph, start, quantizing).get(graph.output)
    except (ValueError, IndexError, KeyError, AssertionError):
        return False  # the mistake is impossible with these shapes and types
    if made is not None and is_wide and made.dtype == "float32" != got.dtype in FLOATS:
        codes = cast_by_last_bit(made.numbers) if candidate.by_last_bit else cast(made.numbers, got.dtype)
        made = united(got.dtype, np.asarray(codes).reshape(made.codes.shape), made.open)
    return matches(made, got, candidate.graph)


def matches(made: Values | None, got: Tensor, graph: Graph) -> bool:
    """True if each value is legal or open, and at least one is not open.

    The result of a graph that only moves data was moved back to that of the lone call.
    """
    return made is not None and not made.open.all() and _agrees(made, got, graph)


def _agrees(made: Values, got: Tensor, graph: Graph) -> bool:
    """True if each value is legal or open."""
    if made.dtype != got.dtype or made.open.shape != graph.shape:
        return False
    legal, is_open, codes = _aligned(made, got, graph)
    if not codes.shape == is_open.shape == legal.shape[1:]:
        return False
    return bool(((legal == codes).any(0) | is_open).all())


def _aligned(made: Values, got: Tensor, graph: Graph) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[Any]]:
    """The legal codes, the mask of open values and the codes of a result, element by element."""
    legal, is_open = made.codes.reshape(len(made.codes), -1), made.open.reshape(-1)
    if not graph.changes_values:
        legal, is_open = legal[:, graph.places], is_open[graph.places]
    return canonical(legal, made.dtype), is_open, canonical(got.codes, got.dtype).reshape(-1)


def _half_away(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.copysign(np.floor(np.abs(numbers) + 0.5), numbers)


_WRAPS, _LOWEST = "wraps around", "gives the lowest code for every infinity"

_INT32 = "casts the quotient to int32 before it saturates"
"""The rounding of onnx's reference evaluator. On x86, the lowest int32 takes the place of what int32 cannot hold."""

_HALF = "rounds the quotient to float16 before the cast"
"""The conversion to float8 of OpenVINO."""

_PLAIN = "rounds half to even"
"""The rounding of the text. Unlike the text, it gives a code for a subnormal scale too."""

_Rounding = Callable[[NDArray[np.float64]], NDArray[np.float64]]

_WRONG_ROUNDINGS: Mapping[str, _Rounding] = {
    "truncates": np.trunc,
    "rounds down": np.floor,
    "rounds half up": lambda numbers: np.floor(numbers + 0.5),
    "rounds half away from zero": _half_away,
    _WRAPS: np.rint,
    _INT32: np.rint,
    _LOWEST: np.rint,
}
"""Ways of QuantizeLinear to round a quotient that its text does not admit. `_WRAPS` does not saturate."""

_BEYOND = (_INT32, _LOWEST)
"""Ways that are right for most quotients, and give one code for all that are beyond a bound."""

_ROUNDINGS: Mapping[str, _Rounding] = {_PLAIN: np.rint, **_WRONG_ROUNDINGS}


def _quantized(
    way: str,
    contract: Contract,
    call: Call,
    node: Node,
    inputs: list[Values],
) -> Values:
    """Integer codes that another rounding gives, with a quotient in float64 or the operand's type.

    Raises:
        ValueError: The codes are floats, the parameters do not fit, or the framework has no QuantizeLinear.
    """
    if way == _PLAIN and not contract.id.startswith(("ai.onnx/", "com.microsoft/")):
        raise ValueError("no text of a QuantizeLinear")
    x = inputs[0]
    dtype = inputs[2].dtype if len(inputs) > 2 else str(node.attributes.get("output_dtype", "uint8"))
    if way == _HALF and dtype.startswith("float8"):
        return _quantized_from_float16(contract, call, node, inputs)
    if dtype not in INTEGERS or way == _HALF:
        raise ValueError("only integers")
    lowest, highest = integer_range(dtype)
    axis, block_size = int(node.attributes.get("axis", 1)), int(node.attributes.get("block_size", 0))
    divisor, *offsets = (
        values(each.dtype, spread(each.tensor(0), x.tensor(0), axis, block_size)) for each in inputs[1:3]
    )
    offset = offsets[0] if offsets else np.float64(0.0)
    pieces = []
    with np.errstate(all="ignore"):
        exact = np.asarray(x.numbers / divisor)
        for quotient in (exact, values(x.dtype, np.asarray(cast(exact, x.dtype)))):
            rounded = _ROUNDINGS[way](quotient.reshape(x.codes.shape))
            if way == _INT32:
                rounded = np.where((rounded >= -(2.0**31)) & (rounded < 2.0**31), rounded, -(2.0**31))
            numbers = np.nan_to_num(rounded + offset)
            kept = np.mod(numbers - lowest, highest - lowest + 1) + lowest if way == _WRAPS else numbers
            kept = np.where(np.isinf(quotient), lowest, kept) if way == _LOWEST else kept
            # The sum with the zero point is in int32, too.
            kept = np.mod(numbers + 2.0**31, 2.0**32) - 2.0**31 if way == _INT32 else kept
            pieces.append(encode(dtype, np.clip(kept, lowest, highest).astype(np.int64)))
    unclear = np.isnan(exact) if way in _BEYOND else ~np.isfinite(exact)
    return united(dtype, np.concatenate(pieces), x.open | unclear.any(0))


def _quantized_from_float16(contract: Contract, call: Call, node: Node, inputs: list[Values]) -> Values:
    """The codes of float8 that the text gives for the quotient in float16."""
    x, scale, *zero_points = inputs
    axis, block_size = int(node.attributes.get("axis", 1)), int(node.attributes.get("block_size", 0))
    with np.errstate(all="ignore"):
        quotient = x.numbers / values(scale.dtype, spread(scale.tensor(0), x.tensor(0), axis, block_size))
        halves = cast(values("float32", np.asarray(cast(quotient, "float32"))), "float16")
    operand = Values("float16", np.asarray(halves).reshape(x.codes.shape), x.open | ~np.isfinite(quotient).all(0))
    one = np.full(scale.open.shape, cast(np.ones(()), "float16"), np.uint16)
    return quantized(contract, call, node, [operand, fixed(Tensor("float16", one)), *zero_points])


def _codes_of_x(contract: Contract, candidate: _Candidate) -> Values:
    x = _lone(candidate.graph).tensors["x"]
    return Values(x.dtype, x.codes[np.newaxis], np.zeros(x.shape, np.bool_))


def _pooled(contract: Contract, candidate: _Candidate) -> Values:
    lone = _lone(candidate.graph)
    x = _codes_of_x(contract, candidate)
    pool = replace(candidate.graph, nodes=(_own(candidate.graph), *candidate.run), output=candidate.run[-1].output)
    pooled = evaluate(contract, pool, x)[pool.output].tensor(0)
    inner = replace(lone, tensors={**lone.tensors, "x": pooled}, around=())
    graph = replace(pool, nodes=(_own(candidate.graph),), output=RESULT, lone=inner)
    return evaluate(contract, graph)[RESULT]


def _unrounded(contract: Contract, candidate: _Candidate) -> Values:
    """The call's result in float32."""
    operands = replace(contract.operands(_lone(candidate.graph)), output_dtype="float32")
    codes = np.stack([np.asarray(reading.evaluate(operands)).reshape(operands.shape) for reading in (EXACT, FLOAT32)])
    return united("float32", codes, np.zeros(operands.shape, np.bool_))


def _expanded(contract: Contract, candidate: _Candidate) -> Values:
    """The call's result, computed as x * scale - zero point * scale."""
    operands = contract.operands(_lone(candidate.graph))
    codes = np.asarray(by_name("fused+rounded-float32").evaluate(operands)).reshape(operands.shape)
    return united(operands.output_dtype, codes[np.newaxis], np.zeros(operands.shape, np.bool_))


def _unrounded_expanded(contract: Contract, candidate: _Candidate) -> Values:
    """The call's result in float32, computed as x * scale - zero point * scale."""
    operands = replace(contract.operands(_lone(candidate.graph)), output_dtype="float32")
    codes = np.asarray(by_name("fused+rounded-float32").evaluate(operands)).reshape(operands.shape)
    return united("float32", codes[np.newaxis], np.zeros(operands.shape, np.bool_))


def _kept(contract: Contract, candidate: _Candidate) -> Values:
    """The call's legal results in which no subnormal number counts as zero."""
    legal = legal_set(contract, _lone(candidate.graph))
    return united(legal.dtype, np.stack(legal.distinct), np.zeros(legal.shape, np.bool_))


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


_STARTS: Mapping[str, Any] = {
    "": lambda contract, candidate: None,
    "codes": _codes_of_x,
    "pooled": _pooled,
    "wide": _unrounded,
    "wide expanded": _unrounded_expanded,
    "expanded": _expanded,
    "kept": _kept,
}
"""For each kind of candidate, the values that its graph begins with."""


def _lone(graph: Graph) -> Call:
    assert graph.lone is not None
    return graph.lone


def _own(graph: Graph) -> Node:
    return next(node for node in graph.nodes if node.output == RESULT)


def _result_dtype(graph: Graph) -> str:
    lone = _lone(graph)
    return str(lone.attributes.get("output_dtype", lone.tensors["scale"].dtype if "scale" in lone.tensors else ""))
