"""Check of the nodes within the whole model.

Each result is compared with the legal set of the same run's own operands. So a difference before a node, such as another
rounding of a MatMul, does not count.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from xverify.core.call import BITS, Call, Tensor
from xverify.core.errors import DamagedFileError
from xverify.model import cut
from xverify.model.exact import constants_of
from xverify.model.inner import MARK, MOST_ELEMENTS, Inner, Occurrences, Way, not_run, obstacle, occurrences, repeats
from xverify.model.nodes import Constant, Node, Operand
from xverify.model.read import Model
from xverify.model.result import Check, Checked, Difference, State
from xverify.model.runs import At, Result, Runner, run_each, run_part
from xverify.model.shrink import shrunk
from xverify.model.values import Judge, Wrong, between
from xverify.oracles.model_run import ModelRun
from xverify.workers.crash_log import half_of_memory

GROUP_BYTES = 32 << 20
"""The largest size of the exposed values of one run."""

MOST_BYTES = 2 << 30
"""The largest size of all exposed values. Each group of them costs a run of the model at each level."""

MOST_REDUCED = 8
"""The number of differences of an implementation for which a part of the model is made."""

AROUND = ((0, 0), (0, 1), (1, 1), (2, 2))
"""The numbers of nodes before and after the node, in the parts that are tried."""


def check_whole(
    model: Model,
    nodes: Sequence[Node],
    runners: Sequence[Runner],
    inputs: Mapping[str, Tensor],
    folder: Path,
    unmodified: dict[At, Result] | None = None,
) -> Checked:
    """Check nodes within the whole model.

    The unmodified model is run as well. Its outputs are compared between levels and implementations.

    Args:
        model: The model.
        nodes: The nodes to check.
        runners: The implementations.
        inputs: The inputs of the model.
        folder: An empty folder, for copies of the model.
        unmodified: Gets the results of the unmodified model.
    """
    if (needed := _memory(nodes)) > half_of_memory():
        reason = f"a run of the model needs about {needed >> 30} GiB of memory, more than half of this machine's"
        return Checked((), tuple(state for node in nodes for state in _unchecked(node, runners, reason)))
    results = _unmodified(model, runners, inputs)
    if unmodified is not None:
        unmodified.update(results)
    differences, refused = _outputs(results)
    states: list[State] = []
    ready = [runner for runner in runners if any((runner.name, level) not in refused for level in runner.levels)]
    for runner in runners:
        for level in runner.levels:
            if words := refused.get((runner.name, level)):
                states += [State(node.name, "whole", runner.name, level, "not checked", words) for node in nodes]
    ready = [
        replace(runner, levels=tuple(level for level in runner.levels if (runner.name, level) not in refused))
        for runner in ready
    ]
    checkable = []
    total = 0
    for node in nodes:
        total += _bytes(node, inputs)
        if reason := _unexposable(model, node, total, inputs):
            states += _unchecked(node, ready, reason)
        else:
            checkable.append(node)
    for number, group in enumerate(_groups(checkable, inputs)):
        shown, of_group = _check_group(model, group, ready, inputs, folder / f"group{number}")
        differences += shown
        states += of_group
    return Checked(tuple(_reduced(model, differences, nodes, ready, inputs, folder)), tuple(states))


def _unchecked(node: Node, runners: Sequence[Runner], reason: str) -> list[State]:
    return [
        State(node.name, "whole", runner.name, level, "not checked", reason)
        for runner in runners
        for level in runner.levels
    ]


# --- the unmodified model -----------------------------------------------------------------------


def _unmodified(model: Model, runners: Sequence[Runner], inputs: Mapping[str, Tensor]) -> dict[At, Result]:
    return {at: each[0] for at, each in run_each(runners, [ModelRun(str(model.path.resolve()), inputs)]).items()}


def _outputs(results: Mapping[At, Result]) -> tuple[list[Difference], dict[At, str]]:
    """The differences between runs of the unmodified model, and the reasons of those that did not end."""
    differences: list[Difference] = []
    refused: dict[At, str] = {}
    ran: list[At] = []
    for at, result in results.items():
        if result.ran:
            differences += unlike("", "whole", at, result, {other: results[other] for other in ran})
            ran.append(at)
            continue
        refused[at] = f"the model did not run: {result.message or result.kind}"
        if result.died or (result.refused and any(name == at[0] for name, _ in ran)):
            differences.append(ended("", "whole", at, result))
    return differences, refused


def unlike(node: str, check: Check, at: At, result: Result, earlier: Mapping[At, Result]) -> list[Difference]:
    """The differences of a run from the first one.

    Args:
        node: The name of the node, "" for the whole model.
        check: The check.
        at: The implementation and level.
        result: Its result.
        earlier: The results of earlier runs. If one of them is equal, its own differences have been listed before.
    """
    against = next(iter(earlier), None)
    if against is None or any(not differing(node, check, at, result, o, earlier[o]) for o in earlier):
        return []
    return differing(node, check, at, result, against, earlier[against])


def ended(node: str, check: Check, at: At, result: Result) -> Difference:
    """The difference of a run that crashed, hung or was refused."""
    kind = result.kind if result.died else "rejected"
    return Difference(node, check, kind, *at, message=result.message)  # type: ignore[arg-type]


def differing(node: str, check: Check, at: At, result: Result, against: At, other: Result) -> list[Difference]:
    """The differences between the outputs of two runs, one for each output."""
    differences = []
    for name in result.outputs.keys() & other.outputs.keys():
        wrong = between(result.outputs[name], other.outputs[name])
        if wrong.wrong:
            difference = difference_of(node, check, at, name, wrong)
            differences.append(replace(difference, kind="differs", against=" ".join(against)))
    return sorted(differences, key=lambda difference: difference.value)


def difference_of(node: str, check: Check, at: At, value: str, wrong: Wrong) -> Difference:
    """The difference of wrong elements of a value."""
    return Difference(
        node, check, "violation", *at, value=value, index=wrong.index, dtype=wrong.dtype, got=wrong.got, legal=wrong.legal,
        wrong=wrong.wrong, elements=wrong.elements, ulp=wrong.ulp, distance=wrong.distance,
        magnitude=wrong.magnitude, message=wrong.message, bounds=wrong.bounds, sums=wrong.sums,
    )  # fmt: skip


# --- two runtimes -------------------------------------------------------------------------------


def versus(
    model: Model,
    nodes: Sequence[Node],
    runners: Sequence[Runner],
    inputs: Mapping[str, Tensor],
    folder: Path,
    unmodified: Mapping[At, Result] | None = None,
) -> list[Difference]:
    """Compare two implementations, each at its last level.

    Args:
        model: The model.
        nodes: The nodes to compare.
        runners: Two implementations.
        inputs: The inputs of the model.
        folder: An empty folder, for copies of the model.
        unmodified: Results of the unmodified model, if it was run before.

    Returns:
        The difference at the first node that gets the same operands in both and gives another result, if there is one. Then
        those of the model's outputs, with "" as the node. A run that did not end is the only difference.
    """
    a, b = (replace(runner, levels=runner.levels[-1:]) for runner in runners)
    at, against = (b.name, b.levels[0]), (a.name, a.levels[0])
    results = {each: result for each, result in (unmodified or {}).items() if each in (at, against)}
    if len(results) < 2:
        results = _unmodified(model, [a, b], inputs)
    if failed := [ended("", "whole", each, result) for each, result in results.items() if not result.ran]:
        return failed
    outputs = differing("", "whole", at, results[at], against, results[against])
    checkable = [node for node in nodes if not _unexposable(model, node, 0, inputs)]
    for number, group in enumerate(_groups(checkable, inputs)):
        exposed = _run_exposed(model, group, [a, b], inputs, folder / f"versus{number}")
        if not all(result.ran for result in exposed.results.values()):
            continue
        for node in group:
            try:
                both = [exposed.times(node, each)[0] for each in (at, against)]
            except ValueError:
                continue
            fed = [operand.value for operand in node.operands.values() if operand.constant is None]
            for mine, other in zip(*both, strict=False):
                if all(mine[value].same_bits(other[value]) for value in fed):
                    wrong = between(mine[node.output], other[node.output])
                    if wrong.wrong:
                        shown = difference_of(node.name, "whole", at, node.output, wrong)
                        return [replace(shown, kind="differs", against=" ".join(against)), *outputs]
    return outputs


# --- exposed values -----------------------------------------------------------------------------


def _unexposable(model: Model, node: Node, total: int, inputs: Mapping[str, Tensor]) -> str:
    """The reason why a node's values cannot be outputs of the model, as a clause; "" if they can."""
    if node.graph and (reason := obstacle(model.proto, node.graph)):
        return reason
    if node.graph and (value := next((o.value for o in _fed(node) if o.dtype not in BITS), "")):
        return f"the type of {value} is unknown"
    if _bytes(node, inputs) > 4 * GROUP_BYTES:
        return f"its values have {_bytes(node, inputs) >> 20} MiB"
    return f"more than {MOST_BYTES >> 30} GiB of values come before it" if total > MOST_BYTES else ""


def _bytes(node: Node, inputs: Mapping[str, Tensor]) -> int:
    """An estimate of the bytes of a node's exposed values."""
    x = node.operands["x"]
    largest = max((max(tensor.shape, default=1) for tensor in inputs.values()), default=1)
    shape = x.constant.shape if x.constant is not None else x.shape or (1,)
    values = math.prod(largest if extent is None else extent for extent in shape)
    values = max(values, MOST_ELEMENTS) if repeats(node.graph) else values
    return values * (4 if x.constant is not None else 4 + max(1, BITS.get(x.dtype, 32) // 8))


def _memory(nodes: Sequence[Node]) -> int:
    """The bytes that a run needs at least: constants, and their results in float32."""
    constants = (node.operands["x"].constant for node in nodes)
    held = {id(x): (BITS[x.dtype] / 8 + 4) * math.prod(x.shape) for x in constants if x is not None}
    return int(sum(held.values()))


def _groups(nodes: Sequence[Node], inputs: Mapping[str, Tensor]) -> list[list[Node]]:
    """The nodes in groups whose exposed values have at most `GROUP_BYTES`.

    Nodes of subgraphs are in groups of their own, after the others.
    """
    groups: list[list[Node]] = []
    size = 0
    for node in sorted(nodes, key=lambda node: bool(node.graph)):
        size += _bytes(node, inputs)
        if not groups or size > GROUP_BYTES or bool(node.graph) != bool(groups[-1][0].graph):
            groups.append([])
            size = _bytes(node, inputs)
        groups[-1].append(node)
    return groups


def _fed(node: Node) -> list[Operand]:
    """The operands that are known at run time only."""
    return [operand for operand in node.operands.values() if operand.constant is None]


@dataclass(frozen=True, eq=False)
class _Exposed:
    """Runs of the model with values of nodes as outputs."""

    results: Mapping[At, Result]
    inner: Mapping[tuple[Way, str], Inner]
    inputs: Mapping[str, Tensor]

    def values(self, at: At, way: Way, names: Sequence[str]) -> tuple[list[dict[str, Tensor]], int]:
        """The values of a graph each time that it ran, and the number of these times.

        Raises:
            ValueError: The run does not give a value. The message is a clause.
        """
        outputs = self.results[at].outputs
        every: dict[str, Occurrences] = {}
        for name in names:
            if way:
                found = occurrences(self.inner[way, name], outputs)
            else:
                tensor = outputs.get(name, self.inputs.get(name))
                found = None if tensor is None else Occurrences([tensor], 1)
            if found is None:
                raise ValueError(f"the run gave no value {name}")
            every[name] = found
        count = min(len(each.tensors) for each in every.values())
        total = max(each.total for each in every.values())
        return [{name: each.tensors[time] for name, each in every.items()} for time in range(count)], total

    def times(self, node: Node, at: At) -> tuple[list[dict[str, Tensor]], int]:
        """The values of a node each time that it ran, see `values`."""
        return self.values(at, node.graph, [node.output, *(operand.value for operand in _fed(node))])

    def unreached(self, model: Model, node: Node, at: At) -> str:
        """The clause that says why a node was not run."""
        for end in range(1, len(node.graph)):
            if not self.values(at, node.graph[:end], [MARK])[1]:
                return not_run(model.proto, node.graph[:end])
        return not_run(model.proto, node.graph)


def _run_exposed(
    model: Model, nodes: Sequence[Node], runners: Sequence[Runner], inputs: Mapping[str, Tensor], folder: Path
) -> _Exposed:
    """Run the model with the operands and results of nodes as outputs."""
    values: dict[str, None] = {}
    inner: dict[tuple[Way, str, str], None] = {}
    for node in nodes:
        if node.graph:
            inner.update({(node.graph, operand.value, operand.dtype): None for operand in _fed(node)})
            inner[node.graph, node.output, _result_dtype(node)] = None
            inner.update({(node.graph[:end], MARK, "int64"): None for end in range(1, len(node.graph))})
        else:
            values.update(dict.fromkeys([*(operand.value for operand in _fed(node)), node.output]))
    return _run_with(model, list(values), list(inner), runners, inputs, folder)


def _run_with(
    model: Model,
    values: Sequence[str],
    inner: Sequence[tuple[Way, str, str]],
    runners: Sequence[Runner],
    inputs: Mapping[str, Tensor],
    folder: Path,
) -> _Exposed:
    """Run the model with values as outputs, see `xverify.model.cut.exposed`."""
    folder.mkdir(parents=True)
    try:
        path, exposed = cut.exposed(model, values, inner, folder)
        wanted = [
            *(value for value in values if value not in inputs),
            *(o for each in exposed.values() for o in each.outputs),
        ]
        run = ModelRun(str(path), inputs, tuple(wanted))
        return _Exposed({at: each[0] for at, each in run_each(runners, [run]).items()}, exposed, inputs)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _result_dtype(node: Node) -> str:
    return str(node.attributes.get("output_dtype") or node.operands["scale"].dtype)


def _check_group(
    model: Model, nodes: Sequence[Node], runners: Sequence[Runner], inputs: Mapping[str, Tensor], folder: Path
) -> tuple[list[Difference], list[State]]:
    exposed = _run_exposed(model, nodes, runners, inputs, folder)
    differences: list[Difference] = []
    states: list[State] = []
    ways = list(dict.fromkeys(node.graph for node in nodes))
    if len(ways) > 1 and not all(result.ran for result in exposed.results.values()):
        # The values of one subgraph must not cost the check of the others.
        for way in ways:
            shown, of_way = _check_group(model, [n for n in nodes if n.graph == way], runners, inputs, folder)
            differences += shown
            states += of_way
        return differences, states
    # A run with a thousand outputs may be slow, and its end tells nothing about a single node of several.
    crashes = {at: result for at, result in exposed.results.items() if result.died and result.kind != "hang"}
    differences += [ended(nodes[0].name if len(nodes) == 1 else "", "whole", *each) for each in crashes.items()]
    for node in nodes:
        judges: _Judges = {}
        for at in exposed.results:
            shown, state = _check_node(model, node, at, exposed, judges)
            differences += shown
            states.append(state)
    return differences, states


_Judges = dict[int, list[tuple[Mapping[str, Tensor], Judge]]]
"""The judges of a node with their operands, by the number of the run of the node's subgraph."""


def _check_node(model: Model, node: Node, at: At, exposed: _Exposed, judges: _Judges) -> tuple[list[Difference], State]:
    """The difference of a node in one run of the model.

    Args:
        judges: The judges of other runs. New ones are added.
    """
    state = State(node.name, "whole", *at, "not checked")
    result = exposed.results[at]
    if not result.ran:
        reason = f"the model with its values as outputs did not run: {result.message or result.kind}"
        return [], replace(state, reason=reason)
    judged, total, reason, first = 0, Wrong(0), "", -1
    try:
        times, count = exposed.times(node, at)
        if not count:
            return [], replace(state, reason=exposed.unreached(model, node, at))
        for time, values in enumerate(times):
            judge = _judge(node, values, judges.setdefault(time, []))
            if judge.refusal:
                reason = judge.refusal
                continue
            judged += 1
            wrong = judge.wrong(values[node.output])
            if wrong.wrong and first < 0:
                first = time
            total = _sum(total, wrong)
    except (ValueError, DamagedFileError) as error:
        return [], replace(state, reason=str(error))
    if judged and judged < count:
        reason = f"{judged} of {count} iterations were judged"
    elif judged:
        reason = ""
    if not total.wrong:
        return [], replace(state, state="ok" if judged else "not checked", reason=reason)
    shown = replace(difference_of(node.name, "whole", at, node.output, total), occurrence=first)
    if count > 1:
        where = f"first in run {first + 1} of {count} of its subgraph"
        shown = replace(shown, message="; ".join(filter(None, (shown.message, where))))
    return [shown], replace(state, state="difference", reason=reason)


def _judge(node: Node, values: Mapping[str, Tensor], judges: list[tuple[Mapping[str, Tensor], Judge]]) -> Judge:
    """The judge of a node with these operands."""
    fed = {role: values[operand.value] for role, operand in node.operands.items() if operand.constant is None}
    judge = next((judge for others, judge in judges if _same(fed, others)), None)
    if judge is None:
        judge = Judge(Call(node.contract, {**_constants(node), **fed}, dict(node.attributes), f"node {node.name}"))
        judges.append((fed, judge))
    return judge


def _sum(a: Wrong, b: Wrong) -> Wrong:
    """The wrong elements of two results together. The first wrong one is that of the first result, if any."""
    shown = a if a.wrong or not b.wrong else b
    ulp = -1 if -1 in (a.ulp, b.ulp) else max(a.ulp, b.ulp)
    return replace(shown, elements=a.elements + b.elements, wrong=a.wrong + b.wrong, ulp=ulp)


def _same(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(a[role].same_bits(b[role]) for role in a)


def _constants(node: Node) -> dict[str, Tensor]:
    return {role: whole(o.constant) for role, o in node.operands.items() if o.constant is not None}


def whole(constant: Constant) -> Tensor:
    """All codes of a constant."""
    return constant.part(tuple(slice(0, extent) for extent in constant.shape))


# --- the smallest part --------------------------------------------------------------------------


def _reduced(
    model: Model,
    differences: Sequence[Difference],
    nodes: Sequence[Node],
    runners: Sequence[Runner],
    inputs: Mapping[str, Tensor],
    folder: Path,
) -> list[Difference]:
    """The differences, with parts of the model that show them."""
    by_name = {node.name: node for node in nodes}
    by_runner = {runner.name: runner for runner in runners}
    counts: dict[str, int] = {}
    reduced = []
    for difference in differences:
        node = by_name.get(difference.node)
        if node is not None and difference.kind == "violation":
            count = counts[difference.oracle] = counts.get(difference.oracle, 0) + 1
            if count <= MOST_REDUCED:
                runner = replace(by_runner[difference.oracle], levels=(difference.level,))
                difference = _with_part(model, difference, node, runner, inputs, folder)
        reduced.append(difference)
    return reduced


def _with_part(
    model: Model, difference: Difference, node: Node, runner: Runner, inputs: Mapping[str, Tensor], folder: Path
) -> Difference:
    """The difference, with the smallest part of the model that shows it. The node's y is an output there."""
    for before, after in AROUND:
        part = cut.neighbours(model, node, before, after)
        if part is None:
            continue
        place = folder / "part"
        place.mkdir(parents=True)
        try:
            fed = _values_at(model, node, part.inputs, runner, inputs, place, difference.occurrence)
            if fed is None:
                continue
            content = with_outputs(part, list(part.operands.values()))

            def shows(
                content: bytes, fed: Mapping[str, Tensor], operands: Mapping[str, str] = part.operands
            ) -> Wrong | None:
                return _wrong_in_part(node, operands, content, runner, fed, folder / "part")

            wrong = shows(content, fed)
            if wrong is not None and wrong.wrong:
                shown = replace(
                    difference, part=content, inputs=fed, operators=part.operators,
                    index=wrong.index, dtype=wrong.dtype, got=wrong.got, legal=wrong.legal,
                )  # fmt: skip
                return shrunk(shown, shows)
        finally:
            shutil.rmtree(place, ignore_errors=True)
    return difference


def _outputs_among(content: bytes, names: Sequence[str]) -> tuple[str, ...]:
    """The names that are outputs of a model. A constant is none."""
    import onnx

    outputs = {output.name for output in onnx.load_model_from_string(content).graph.output}
    return tuple(name for name in names if name in outputs)


def _values_at(
    model: Model,
    node: Node,
    wanted: Sequence[Operand],
    runner: Runner,
    inputs: Mapping[str, Tensor],
    folder: Path,
    time: int,
) -> dict[str, Tensor] | None:
    """Values of a node's graph in a run; None if it does not give them all.

    Args:
        time: The run of the graph, counted from 0.
    """
    held = {operand.value: inputs[operand.value] for operand in wanted if operand.value in inputs}
    missing = [operand for operand in wanted if operand.value not in held]
    if not missing:
        return held
    names = [operand.value for operand in missing]
    inner = [(node.graph, operand.value, operand.dtype) for operand in missing] if node.graph else []
    exposed = _run_with(model, [] if inner else names, inner, [runner], inputs, folder / "model")
    try:
        return {**held, **exposed.values((runner.name, runner.levels[0]), node.graph, names)[0][time]}
    except (IndexError, ValueError):
        return None


def _wrong_in_part(
    node: Node, operands: Mapping[str, str], content: bytes, runner: Runner, fed: Mapping[str, Tensor], folder: Path
) -> Wrong | None:
    """The wrong elements of the node's result in a run of a part, None if it cannot be judged.

    Args:
        operands: The names of the node's values by role.
    """
    wanted = tuple(dict.fromkeys(name for name in operands.values() if name not in fed))
    outputs = run_part(content, fed, _outputs_among(content, wanted), runner, folder).outputs
    values = {**constants_of(content), **fed, **outputs}
    y = values.get(operands["y"])
    tensors = {role: values[operands[role]] for role in node.operands if operands[role] in values}
    if y is None or tensors.keys() != node.operands.keys():
        return None
    try:
        judge = Judge(Call(node.contract, tensors, dict(node.attributes)))
        return None if judge.refusal else judge.wrong(y)
    except ValueError:
        return None


def with_outputs(part: cut.Part, values: Sequence[str]) -> bytes:
    """The part with further outputs. Inputs, constants and present outputs are left out."""
    import onnx

    proto = onnx.ModelProto()
    proto.ParseFromString(part.content)
    made = {name for node in proto.graph.node for name in node.output} - {o.name for o in proto.graph.output}
    proto.graph.output.extend(onnx.ValueInfoProto(name=value) for value in dict.fromkeys(values) if value in made)
    return bytes(proto.SerializeToString())
