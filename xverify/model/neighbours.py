"""Check of a node with its real neighbours.

A few nodes around it are a model of their own, without the node's result as an output. So an optimiser may fuse the node with
its neighbours. The inputs are chosen so that x meets every code. If all operators between the inputs and an output compute
exactly (`xverify.model.exact`), the output has a legal set. If they sum products, the output may have bounds that hold for every
order of the sums (`xverify.model.sums`).
"""

from __future__ import annotations

import hashlib
import math
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from xverify.core.call import BITS, Tensor, code_dtype
from xverify.core.dtypes import FLOATS, encode, values
from xverify.core.errors import DamagedFileError, UsageError
from xverify.model import cut
from xverify.model.exact import Evaluated, constants_of, evaluate
from xverify.model.inputs import drawn
from xverify.model.nodes import Node
from xverify.model.read import Model
from xverify.model.result import Checked, Difference, State
from xverify.model.runs import At, Result, Runner, run_each, run_part
from xverify.model.shrink import shrunk
from xverify.model.values import Wrong, beyond, outside
from xverify.model.whole import difference_of, ended, unlike
from xverify.oracles.model_run import ModelRun

SETS = 8
"""The largest number of sets of inputs of a part."""

MOST_VALUES = 1 << 20
"""The largest number of values of a part's inputs."""

AT_ONCE = 50
"""The number of parts that are made, run and compared together."""

MOST_REDUCED = 32
"""The number of violations, and of results beyond bounds, for which a smaller part is looked for."""

SIZES = ((2, 2), (0, 2))
"""The numbers of nodes before and after the node. The second is tried if the first makes x by an operator that rounds."""

SMALLER = ((0, 0), (0, 1), (1, 1))
"""The sizes that are tried for the smallest part that shows a violation."""


@dataclass(eq=False)
class _Trial:
    """A part with its inputs, and the nodes that have it. Equal parts are one trial."""

    part: cut.Part
    sets: list[dict[str, Tensor]]
    """Inputs of the part, one entry for each run."""
    legal: list[Evaluated]
    """The values of the part for each of them."""
    nodes: list[Node] = field(default_factory=list)

    @property
    def y(self) -> str:
        """The name of the node's result."""
        return self.part.operands["y"]

    @property
    def judged(self) -> list[str]:
        """The outputs that follow from y and have a legal set."""
        return [value for value in self._following if value in self.legal[0].values]

    @property
    def bounded(self) -> list[str]:
        """The outputs that follow from y and have bounds.

        If x is not known bit for bit, there are none, since x itself may be beyond its bounds.
        """
        legal = self.legal[0]
        return [v for v in self._following if v in legal.bounds] if self.part.operands["x"] in legal.values else []

    @property
    def _following(self) -> list[str]:
        after = self.legal[0].after
        return [o.value for o in self.part.outputs if o.value == self.y or self.y in after.get(o.value, ())]

    def unjudged(self) -> str:
        """The reason why no output is judged, as a clause."""
        reasons = [self.legal[0].rounded[o.value] for o in self.part.outputs if o.value in self.legal[0].rounded]
        return f"the output of the part has no legal set: {reasons[0]}" if reasons else "the part has no output"


def check_neighbours(
    model: Model, nodes: Sequence[Node], runners: Sequence[Runner], folder: Path, seed: int
) -> Checked:
    """Check nodes with their neighbours.

    Outputs that some operator rounds are compared between levels and implementations.

    Args:
        model: The model.
        nodes: The nodes to check.
        runners: The implementations.
        folder: An empty folder, for the parts.
        seed: The seed of drawn inputs.
    """
    differences: list[Difference] = []
    states: list[State] = []
    for start in range(0, len(nodes), AT_ONCE):
        trials: dict[bytes, _Trial] = {}
        for node in nodes[start : start + AT_ONCE]:
            trial, reason = _trial(model, node, seed, trials)
            if trial is None:
                states += [
                    State(node.name, "neighbours", runner.name, level, "not checked", reason)
                    for runner in runners
                    for level in runner.levels
                ]
        for trial, results in zip(trials.values(), _run(list(trials.values()), runners, folder), strict=True):
            shown, of_trial = _compared(trial, results)
            differences += shown
            states += of_trial
    reduced = list(_reduced(model, differences, nodes, runners, seed, folder))
    others = _due_to_others(reduced, nodes)
    return Checked(
        tuple(difference for difference in reduced if _at_node(difference) not in others),
        tuple(_explained(state, others.get((state.node, state.oracle, state.level), "")) for state in states),
    )


# --- parts and their inputs ---------------------------------------------------------------------


def _trial(model: Model, node: Node, seed: int, trials: dict[bytes, _Trial]) -> tuple[_Trial | None, str]:
    """The trial of a node, or the reason why there is none, as a clause. A new one is added to the trials."""
    reason = "no part of the model around it can be cut out"
    made: _Trial | None = None
    for before, after in SIZES:
        part = cut.neighbours(model, node, before, after)
        if part is None:
            break
        key = _key(part)
        if key in trials:
            trials[key].nodes.append(node)
            return trials[key], ""
        try:
            trial = make_trial(part, seed)
        except (UsageError, DamagedFileError, ValueError) as error:
            reason = str(error)
            continue
        made = made or trial
        if trial.judged or part.operands["x"] not in trial.legal[0].rounded:
            made = trial
            break
    if made is not None:
        made.nodes.append(node)
        trials[_key(made.part)] = made
    return made, reason


def _key(part: cut.Part) -> bytes:
    """A key that is equal for parts that differ in names only."""
    import onnx

    proto = onnx.load_model_from_string(part.content)
    graph = proto.graph
    if any(attribute.HasField("g") or attribute.graphs for node in graph.node for attribute in node.attribute):
        return part.content
    numbers: dict[str, str] = {"": ""}

    def short(name: str) -> str:
        return numbers.setdefault(name, str(len(numbers)))

    for value in graph.input:
        value.name = short(value.name)
    for node in graph.node:
        node.ClearField("name")
        node.ClearField("doc_string")
        del node.metadata_props[:]
        node.input[:] = [short(name) for name in node.input]
        node.output[:] = [short(name) for name in node.output]
    for named in (*graph.initializer, *graph.output, *graph.value_info):
        named.name = short(named.name)
    own = ",".join(numbers.get(name, name) for name in part.operands.values())
    content = proto.SerializeToString(deterministic=True)
    return hashlib.sha256(own.encode() + content).digest()


def make_trial(part: cut.Part, seed: int) -> _Trial:
    """Choose inputs of a part, so that x meets many codes, and evaluate them.

    Raises:
        ValueError: The part is too large.
        UsageError: An input cannot be drawn.
    """
    base = drawn(part, seed, indices=2)
    if (size := sum(tensor.size for tensor in base.values())) > MOST_VALUES:
        raise ValueError(f"its part has {size} values as inputs")
    random = np.random.default_rng(seed)
    sources = _sources(part, random)
    met: set[int] = set()
    sets: list[dict[str, Tensor]] = []
    legal: list[Evaluated] = []
    for number in range(SETS):
        fed = {name: _chosen(name, tensor, sources, number, random) for name, tensor in base.items()}
        evaluated = evaluate(part.content, fed)
        x = evaluated.values.get(part.operands["x"])
        before = len(met)
        if x is not None:
            met.update(np.unique(x.codes).tolist())
        if sets and len(met) == before:
            break
        sets.append(fed)
        legal.append(evaluated)
        if x is None or len(met) == 1 << BITS[x.dtype] or not fed:
            break
    return _Trial(part, sets, legal)


@dataclass(frozen=True, eq=False)
class _Sources:
    """The uses of a part's inputs, that decide about good values."""

    codes: frozenset[str]
    """Inputs that lead to x of a DequantizeLinear."""
    scales: frozenset[str]
    numbers: NDArray[np.float64]
    """The numbers that quantize to each code, for all QuantizeLinear nodes with constant scales, in any order."""


def _sources(part: cut.Part, random: np.random.Generator) -> _Sources:
    import onnx

    graph = onnx.load_model_from_string(part.content).graph
    constants = constants_of(part.content)
    codes, scales, numbers = set(), set(), []
    for node in graph.node:
        if node.op_type == "DequantizeLinear":
            codes.add(node.input[0])
        if node.op_type in ("DequantizeLinear", "QuantizeLinear"):
            scales.add(node.input[1])
        if node.op_type == "QuantizeLinear" and node.input[1] in constants:
            scale = constants[node.input[1]]
            zero = constants.get(node.input[2]) if len(node.input) > 2 else None
            numbers.append(_quantizing(scale, zero))
    shuffled = random.permutation(np.unique(np.concatenate(numbers))) if numbers else np.zeros(0)
    return _Sources(frozenset(codes), frozenset(scales), shuffled)


def _quantizing(scale: Tensor, zero: Tensor | None) -> NDArray[np.float64]:
    """The numbers that quantize to each code of a type of at most 8 bits, or to some codes of a wider one."""
    dtype = "uint8" if zero is None else zero.dtype
    bits = min(BITS[dtype], 16)
    every = np.arange(0, 1 << bits, 1 if bits <= 8 else 251).astype(code_dtype(dtype))
    scales = values(scale.dtype, scale.codes.reshape(-1)[:16])
    offset = 0.0 if zero is None else values(dtype, zero.codes.reshape(-1)[:16])
    with np.errstate(all="ignore"):
        made = (values(dtype, every)[:, np.newaxis] - offset) * scales
    return np.asarray(made[np.isfinite(made)])


def _chosen(name: str, tensor: Tensor, sources: _Sources, number: int, random: np.random.Generator) -> Tensor:
    """The values of an input in the set of inputs with this number."""
    dtype, size = tensor.dtype, tensor.size
    if dtype in FLOATS and name in sources.scales:
        made = encode(dtype, np.exp2(random.uniform(-8, 2, tensor.shape)))
    elif dtype in FLOATS and len(sources.numbers):
        numbers = np.take(sources.numbers, np.arange(size) + number * size, mode="wrap")
        made = encode(dtype, numbers.reshape(tensor.shape))
    elif name in sources.codes and BITS[dtype] <= 16:
        every = np.random.default_rng(BITS[dtype]).permutation(1 << BITS[dtype])  # the same for each set
        made = np.take(every, np.arange(size) + number * size, mode="wrap").reshape(tensor.shape)
    else:
        return tensor
    return Tensor(dtype, np.asarray(made).astype(code_dtype(dtype)))


# --- runs and comparison ------------------------------------------------------------------------


def _run(trials: Sequence[_Trial], runners: Sequence[Runner], folder: Path) -> list[dict[At, list[Result]]]:
    """The results of each trial: one for each set of inputs, by implementation and level."""
    place = folder / "parts"
    place.mkdir(parents=True)
    try:
        runs = []
        for number, trial in enumerate(trials):
            file = place / f"{number}.onnx"
            file.write_bytes(trial.part.content)
            runs += [ModelRun(str(file), fed) for fed in trial.sets]
        results = run_each(runners, runs)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    split = []
    start = 0
    for trial in trials:
        split.append({at: each[start : start + len(trial.sets)] for at, each in results.items()})
        start += len(trial.sets)
    return split


def _compared(trial: _Trial, results: Mapping[At, Sequence[Result]]) -> tuple[list[Difference], list[State]]:
    """The differences and states of a trial, for each of its nodes."""
    differences: list[Difference] = []
    states: list[State] = []
    ran: list[At] = []
    several = sum(all(result.ran for result in each) for each in results.values()) > 1
    for at, each in results.items():
        shown, state, reason = _at(trial, at, each, ran, results)
        state = "not checked" if state == "compared" and not several else state
        if all(result.ran for result in each):
            ran.append(at)
        for node in trial.nodes:
            differences += [_of_trial(difference, node, trial) for difference in shown]
            states.append(State(node.name, "neighbours", *at, state, reason))  # type: ignore[arg-type]
    return differences, states


def _of_trial(difference: Difference, node: Node, trial: _Trial) -> Difference:
    first = trial.nodes[0].name
    message = difference.message or ("" if node.name == first else f"the run was of the equal part around {first}")
    return replace(difference, node=node.name, part=trial.part.content, operators=trial.part.operators, message=message)


def _at(
    trial: _Trial, at: At, each: Sequence[Result], ran: Sequence[At], results: Mapping[At, Sequence[Result]]
) -> tuple[list[Difference], str, str]:
    """The differences in an implementation at a level, the state, and the reason.

    Args:
        ran: The implementations and levels before, at which the part ran.
    """
    for fed, result in zip(trial.sets, each, strict=True):
        if not result.ran:
            broken = result.died or (result.refused and any(name == at[0] for name, _ in ran))
            shown = [replace(ended("", "neighbours", at, result), inputs=fed)] if broken else []
            words = f"its part did not run: {result.message or result.kind}"
            return shown, "difference" if shown else "not checked", "" if shown else words
    checked = 0
    for fed, result, legal in zip(trial.sets, each, trial.legal, strict=True):
        for name in trial.judged:
            if name not in legal.values or name not in result.outputs:
                continue
            wrong = outside(legal.values[name], result.outputs[name])
            checked += wrong.elements
            if wrong.wrong:
                return [replace(difference_of("", "neighbours", at, name, wrong), inputs=fed)], "difference", ""
    differs = [*_beyond(trial, at, each), *_unlike(trial, at, each, ran, results)]
    if checked:
        return differs, "ok", ""
    reason = "no text states the values of the part" if trial.judged else trial.unjudged()
    return differs, "compared", reason


def _beyond(trial: _Trial, at: At, each: Sequence[Result]) -> list[Difference]:
    """The difference of the element that is farthest beyond its bounds, if there is one."""
    farthest: list[Difference] = []
    for fed, result, legal in zip(trial.sets, each, trial.legal, strict=True):
        for name in trial.bounded:
            if name in legal.bounds and name in result.outputs:
                wrong = beyond(legal.bounds[name], result.outputs[name])
                if wrong.wrong:
                    shown = difference_of("", "neighbours", at, name, wrong)
                    farthest.append(replace(shown, kind="differs", inputs=fed))
    return sorted(farthest, key=lambda d: math.inf if d.distance is None else d.distance)[-1:]


def _unlike(
    trial: _Trial, at: At, each: Sequence[Result], ran: Sequence[At], results: Mapping[At, Sequence[Result]]
) -> list[Difference]:
    """The first difference of outputs without a legal set from another run.

    It is a run of the same implementation if there is one.
    """
    judged = set(trial.judged)
    for number, (fed, result) in enumerate(zip(trial.sets, each, strict=True)):
        earlier = {other: _without(results[other][number], judged) for other in ran}
        if differences := unlike("", "neighbours", at, _without(result, judged), earlier):
            return [replace(differences[0], inputs=fed)]
    return []


def _without(result: Result, names: set[str]) -> Result:
    return replace(result, outputs={name: tensor for name, tensor in result.outputs.items() if name not in names})


# --- the smallest part --------------------------------------------------------------------------


def _reduced(
    model: Model,
    differences: Sequence[Difference],
    nodes: Sequence[Node],
    runners: Sequence[Runner],
    seed: int,
    folder: Path,
) -> Iterator[Difference]:
    """The differences. The worst ones of each implementation have the smallest part that shows them."""
    by_name = {node.name: node for node in nodes}
    by_runner = {runner.name: runner for runner in runners}
    counts: Counter[tuple[str, str]] = Counter()
    done: set[tuple[str, str]] = set()
    for difference in differences:
        at_node, kind = (difference.node, difference.oracle), (difference.oracle, difference.kind)
        # Only the script of the lowest level needs the part of sums.
        if difference.kind == "violation" or (difference.bounds and at_node not in done):
            counts[kind] += 1
            if counts[kind] <= MOST_REDUCED:
                done.add(at_node)
                runner = replace(by_runner[difference.oracle], levels=(difference.level,))
                smaller = _smaller(model, by_name[difference.node], difference, runner, seed, folder)
                yield shrunk(smaller, partial(_wrong_in_part, smaller.value, runner, folder))
                continue
        yield difference


def _wrong_in_part(value: str, runner: Runner, folder: Path, content: bytes, fed: Mapping[str, Tensor]) -> Wrong | None:
    """The wrong elements of an output in a run of a part, None if it has no legal set."""
    if (legal := evaluate(content, fed).values.get(value)) is None:
        return None
    result = run_part(content, fed, (), runner, folder)
    return None if value not in result.outputs else outside(legal, result.outputs[value])


def _smaller(model: Model, node: Node, difference: Difference, runner: Runner, seed: int, folder: Path) -> Difference:
    for before, after in SMALLER:
        part = cut.neighbours(model, node, before, after)
        if part is None or len(part.operators) >= len(difference.operators):
            continue
        try:
            trial = make_trial(part, seed)
        except (UsageError, DamagedFileError, ValueError):
            continue
        trial.nodes.append(node)
        shown, _ = _compared(trial, _run([trial], [runner], folder)[0])
        if shown and shown[0].kind == difference.kind and bool(shown[0].bounds) == bool(difference.bounds):
            return shown[0]
    return difference


# --- the node that is wrong ---------------------------------------------------------------------


def _at_node(difference: Difference) -> tuple[str, str, str]:
    return difference.node, difference.oracle, difference.level


def _due_to_others(differences: Sequence[Difference], nodes: Sequence[Node]) -> dict[tuple[str, str, str], str]:
    """For each violation that shows the wrong result of another node: the name of that node.

    The part of that node does not have this node, but the smallest part of this node has that one.
    """
    names = {node.output: node.name for node in nodes if not node.graph}
    by_part: dict[bytes, set[str]] = {}
    inside: dict[tuple[str, str, str], set[str]] = {}
    for difference in differences:
        if difference.kind == "violation":
            if difference.part not in by_part:
                by_part[difference.part] = _nodes_in(difference, names)
            inside[_at_node(difference)] = by_part[difference.part]
    others = {}
    for (node, oracle, level), near in inside.items():
        wrong = [each for each in near - {node} if node not in inside.get((each, oracle, level), {node})]
        if wrong:
            others[node, oracle, level] = min(wrong)
    # A violation is left out only for one that stays.
    return {at: name for at, name in others.items() if (name, *at[1:]) not in others}


def _explained(state: State, other: str) -> State:
    """The state of a node, if another one is wrong in its part."""
    if not other:
        return state
    return replace(state, state="not checked", reason=f"its part has the node {other}, whose result is wrong there")


def _nodes_in(difference: Difference, names: Mapping[str, str]) -> set[str]:
    """The names of the checked nodes in the part of a difference."""
    import onnx

    graph = onnx.load_model_from_string(difference.part).graph
    return {names[output] for node in graph.node for output in node.output if output in names}
