"""The check of each node alone: its calls go through the engine, as those of a sweep do."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from xverify import contracts
from xverify.contracts.model import Cell, Contract
from xverify.core.bits import canonical, ulp_distance
from xverify.core.call import Call, Outcome, Tensor
from xverify.core.dtypes import hexadecimal, is_float
from xverify.core.errors import DocumentError, UnknownEditionError
from xverify.core.verdict import Verdict
from xverify.engine.asking import ask, interruptible, start
from xverify.engine.conclude import conclude
from xverify.engine.events import Consumer
from xverify.engine.options import Options
from xverify.engine.rules import Rules
from xverify.engine.shrink import shrink_all
from xverify.engine.state import RunState, new_run
from xverify.engine.store import cell_to_json, on_disk_first, report
from xverify.engine.sweep import handling_interrupts
from xverify.model.calls import calls_of, unknown
from xverify.model.nodes import Node
from xverify.model.result import Difference
from xverify.model.values import apart
from xverify.oracles.protocol import Oracle
from xverify.verify.findings import Subject
from xverify.verify.verdicts import Judged
from xverify.workers.case import Case

MOST_VALUES = 1 << 27
"""The largest number of values of all nodes together."""

LEAST_VALUES = 1 << 20
"""The number of values that each node may have however many nodes there are."""

BATCH_CASES, BATCH_VALUES = 64, 1 << 20
"""The largest number of calls in a batch, and of values from which a batch is complete."""

SHRINK_SECONDS = 30.0
"""The longest shrinking, in seconds."""

_WITHOUT_VALUES = (Verdict.MIXED, Verdict.NONDETERMINISTIC, Verdict.AMBIGUITY)
"""Verdicts on a whole cell: every call of the cell counts as showing them."""


@dataclass(eq=False)
class Status:
    """The outcomes of a node's calls in one implementation."""

    calls: int = 0
    answered: int = 0
    refused: int = 0
    message: str = ""
    """The message of the first refusal, crash or hang."""
    at_fault: int = 0
    """The number of calls in which the implementation is at fault."""
    findings: list[str] = field(default_factory=list)
    """Ids of the findings that the node shows, the faults first."""
    faults: int = 0
    """The number of these findings that are faults."""

    @property
    def state(self) -> str:
        """One word: "wrong", "refused", "ok", or "unanswered" if it got no call or answered none."""
        if self.faults:
            return "wrong"
        if self.refused:
            return "refused"
        return "ok" if self.answered else "unanswered"


@dataclass(eq=False)
class NodeResult:
    """The result of a node."""

    node: Node
    values: int = 0
    """The number of values of its calls."""
    of: int = 0
    """The number of values that a check without a limit would have."""
    note: str = ""
    """A clause that says why the node got no calls, or what its edition says against it; "" usually."""
    judgement: str = ""
    """The verdict of the edition on its calls: allowed, unspecified, forbidden; "" if there are none."""
    granularity: str = ""
    statuses: dict[str, Status] = field(default_factory=dict)
    """By implementation."""


@dataclass(frozen=True, eq=False)
class Alone:
    """The result of the check of each node alone."""

    report: dict[str, Any]
    """A report of the schema xverify.report/2."""
    nodes: tuple[NodeResult, ...]
    differences: tuple[Difference, ...]
    """Differences between the two implementations to compare, if there are two."""


@dataclass(frozen=True)
class _Observed:
    """The outcome of a call in one implementation, without its values."""

    name: str
    kind: str
    message: str
    at_fault: bool


class _Watch:
    """The outcomes of all calls, by contract and number."""

    def __init__(self, versus: Sequence[str]) -> None:
        self.versus = tuple(versus)
        self.observed: dict[tuple[str, int], list[_Observed]] = {}
        self.cells: dict[tuple[str, int], Cell | None] = {}
        self.differences: dict[tuple[str, int], Difference] = {}

    def __call__(self, judged: Judged, outcomes: Mapping[Subject, Outcome], at_fault: Collection[Subject]) -> None:
        key = judged.contract.id, judged.number
        self.cells[key] = judged.cell
        self.observed[key] = [
            _Observed(subject.name, outcome.kind, outcome.message or outcome.error, subject in at_fault)
            for subject, outcome in outcomes.items()
        ]
        if self.versus:
            plain = {subject.name: outcome for subject, outcome in outcomes.items() if not subject.options}
            if all(name in plain for name in self.versus):
                difference = _difference(judged.call, self.versus, *(plain[name] for name in self.versus))
                if difference is not None:
                    self.differences[key] = difference


def check_alone(nodes: Sequence[Node], options: Options, emit: Consumer, versus: Sequence[str] = ()) -> Alone:
    """Check each node alone.

    Args:
        nodes: The nodes.
        options: Options of the run. Contracts and rules are set here.
        emit: Consumer of events.
        versus: Names of two implementations whose results are compared with each other too.
    """
    results = tuple(NodeResult(node) for node in nodes)
    texts = _texts(results)
    watch = _Watch(versus)
    rules = Rules(on_texts=False, characterise=False, saves_time_to_shrink=False, watch=watch)
    oracles = tuple(map(_on_every_path, options.oracles))
    run = new_run(
        replace(options, contracts=tuple(texts.values()), oracles=oracles, rules=rules), lambda event: announce(event)
    )
    announce = on_disk_first(run, emit)
    keys: dict[str, list[tuple[str, int]]] = {}
    try:
        with handling_interrupts(run):
            start(run)
            streams = {
                identity: _batches(
                    text, [r for r in results if r.node.contract == identity], options.seed, _share(results), keys
                )
                for identity, text in texts.items()
            }
            with interruptible(run):
                ask(run, streams, lambda: run.interrupted.is_set())
            with run.timer.on("judging"):
                conclude(run)
            if run.complete:
                until = run.elapsed() + SHRINK_SECONDS
                with run.timer.on("shrinking"):
                    shrink_all(run, lambda: run.interrupted.is_set() or run.elapsed() > until)
            made = report(run)
    finally:
        run.pool.stop()
    for result in results:
        _fill(result, keys.get(result.node.name, ()), watch, made["findings"], _names(run))
    return Alone(made, results, tuple(_differences(results, keys, watch)))


def _on_every_path(oracle: Oracle) -> Oracle:
    """The oracle with every call on every path.

    A node's scale is a constant in one model and an input in another.
    """
    return replace(oracle, paths=tuple(replace(path, share=1.0) for path in oracle.paths))


def _texts(results: Sequence[NodeResult]) -> dict[str, Contract]:
    """The editions of the nodes. A node without one, or without calls, gets a note."""
    texts: dict[str, Contract] = {}
    for result in results:
        identity = result.node.contract
        result.note = unknown(result.node)
        if result.note:
            continue
        try:
            texts[identity] = texts.get(identity) or contracts.get(identity)
        except (DocumentError, UnknownEditionError) as error:
            result.note = f"its edition {identity} cannot be read: {error}"
    return texts


def _share(results: Sequence[NodeResult]) -> int:
    return max(LEAST_VALUES, MOST_VALUES // max(1, len(results)))


def _names(run: RunState) -> tuple[str, ...]:
    return tuple(oracle.name for oracle in run.options.oracles)


def _batches(
    text: Contract, results: Sequence[NodeResult], seed: int, most: int, keys: dict[str, list[tuple[str, int]]]
) -> Iterator[list[Case]]:
    """Batches of the calls of an edition's nodes. Equal calls are made once.

    Args:
        keys: Gets the calls of each node: edition and number.
    """
    numbers: dict[str, int] = {}
    batch, values = list[Case](), 0
    for result in results:
        if result.note:
            continue
        listed = calls_of(result.node, seed, most)
        result.values, result.of = listed.values, listed.of
        for piece in listed.pieces:
            call = piece.make()
            if not result.judgement:
                _judge(text, call, result)
            if result.judgement == "forbidden":
                result.values = 0
                break
            digest = call.digest()
            if digest not in numbers:
                numbers[digest] = len(numbers)
                batch.append(Case(call, numbers[digest], "nodes"))
                values += call.values
            keys.setdefault(result.node.name, []).append((text.id, numbers[digest]))
            if len(batch) >= BATCH_CASES or values >= BATCH_VALUES:
                yield batch
                batch, values = [], 0
    if batch:
        yield batch


def _judge(text: Contract, call: Call, result: NodeResult) -> None:
    judgement = text.judge(call)
    result.judgement = judgement.verdict
    if judgement.verdict == "forbidden":
        clause = judgement.clauses[0].rpartition("/")[2]
        result.note = f"{text.id} forbids it by the clause {clause!r}: change the model"
        return
    result.granularity = text.cell(call).granularity
    if judgement.verdict == "unspecified":
        result.note = f"{text.id} leaves it open by the clause {judgement.clauses[0].rpartition('/')[2]!r}"


def _fill(
    result: NodeResult,
    keys: Sequence[tuple[str, int]],
    watch: _Watch,
    findings: Sequence[Mapping[str, Any]],
    names: Sequence[str],
) -> None:
    """Set the statuses of a node from its calls."""
    result.statuses = {name: Status() for name in names}
    wrong: dict[str, set[tuple[tuple[str, str], ...]]] = {name: set() for name in names}
    met: dict[str, set[tuple[tuple[str, str], ...]]] = {name: set() for name in names}
    for key in keys:
        cell = watch.cells.get(key)
        flat = () if cell is None else _flat(cell_to_json(cell))
        for each in watch.observed.get(key, ()):
            status = result.statuses[each.name]
            status.calls += 1
            status.answered += each.kind == "tensor"
            status.refused += each.kind in ("rejected", "unsupported")
            status.at_fault += each.at_fault
            status.message = status.message or each.message
            met[each.name].add(flat)
            if each.at_fault or each.kind == "rejected":
                wrong[each.name].add(flat)
    for finding in findings:
        name = finding["subject"]["name"]
        if name not in result.statuses or finding["contract"] != result.node.contract:
            continue
        cells = {_flat(cell) for cell in finding["cells"]}
        verdict = Verdict(finding["verdict"])
        if cells & (met if verdict in _WITHOUT_VALUES else wrong)[name]:
            status = result.statuses[name]
            status.findings.insert(status.faults if verdict.is_fault else len(status.findings), finding["id"])
            status.faults += verdict.is_fault


def _flat(cell: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(cell.items()))


# --- two implementations ------------------------------------------------------------------------


def _differences(
    results: Sequence[NodeResult], keys: Mapping[str, Sequence[tuple[str, int]]], watch: _Watch
) -> Iterator[Difference]:
    """The first difference of each node between the two implementations, with the counts of all its calls."""
    for result in results:
        differences = [watch.differences[key] for key in keys.get(result.node.name, ()) if key in watch.differences]
        if differences:
            yield replace(
                differences[0],
                node=result.node.name,
                value=result.node.output,
                wrong=sum(each.wrong for each in differences),
                elements=sum(each.elements for each in differences),
                ulp=max(each.ulp for each in differences),
                distance=_largest([each.distance for each in differences]),
                magnitude=_largest([each.magnitude for each in differences]),
            )


def _largest(numbers: Sequence[float | None]) -> float | None:
    return None if None in numbers else max(number for number in numbers if number is not None)


def _difference(call: Call, names: Sequence[str], first: Outcome, second: Outcome) -> Difference | None:
    """The difference between the outcomes of two implementations for a call; None if there is none."""
    against, name = names
    a, b = first.tensor, second.tensor
    if a is None or b is None:
        if (a is None) == (b is None):
            return None
        refuser = second if b is None else first
        kind = refuser.kind if refuser.kind in ("crash", "hang") else "rejected"
        who = (name, against) if b is None else (against, name)
        message = refuser.message or refuser.error
        return Difference("", "alone", kind, who[0], "", who[1], message=message, elements=call.values)  # type: ignore[arg-type]
    if a.dtype != b.dtype or a.shape != b.shape:
        message = f"it gives {b.dtype} {list(b.shape)} instead of {a.dtype} {list(a.shape)}"
        return Difference("", "alone", "differs", name, "", against, message=message, elements=call.values)
    return compared(call, a, b, name, against)


def compared(call: Call, a: Tensor, b: Tensor, name: str, against: str) -> Difference | None:
    """The difference between two tensors of equal type and shape."""
    differing = canonical(a.codes, a.dtype) != canonical(b.codes, b.dtype)
    wrong = int(np.count_nonzero(differing))
    if not wrong:
        return None
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(differing)), a.shape))
    distances = ulp_distance(a.codes[differing], b.codes[differing], a.dtype) if is_float(a.dtype) else np.zeros(1)
    return Difference(
        "", "alone", "differs", name, "", against, "", index, a.dtype,
        hexadecimal(b.dtype, int(b.codes[index])), (hexadecimal(a.dtype, int(a.codes[index])),), wrong,
        math.prod(a.shape), int(max(0, distances.max())), *apart(b, a), **_part(call, index),
    )  # fmt: skip


def _part(call: Call, index: tuple[int, ...]) -> dict[str, Any]:
    """The model and the inputs of a call."""
    from xverify.oracles.onnx_model import model_bytes

    if call.values > BATCH_VALUES:
        return {}
    return {
        "operators": ("DequantizeLinear",),
        "part": model_bytes(call),
        "inputs": dict(call.tensors),
    }
