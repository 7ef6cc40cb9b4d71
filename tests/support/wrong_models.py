"""The reference evaluator, which runs a model wrongly beside one node, or dies there."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from xverify.core.call import Outcome, Tensor
from xverify.model.runs import Runner
from xverify.oracles import onnx_reference
from xverify.oracles.model_run import ModelRun
from xverify.oracles.protocol import Loaded, Oracle
from xverify.workers.child import run_call

LEVELS = ("graph off", "graph on")
"""The second level has the flaw, as an optimiser would."""


def oracle(node: str, deed: str = "flip") -> Oracle:
    """The description for a worker. See `load`."""
    described = onnx_reference.ORACLES[0]
    place = str(Path(__file__).parent)
    return replace(
        described,
        name="fake",
        module=__name__,
        models=LEVELS,
        arguments=(node, deed),
        search_path=(place,),
        needs_xverify=True,
    )


def load(node: str, deed: str = "flip") -> Loaded:
    """Load the evaluator.

    Args:
        node: The name of the node whose result changes. "" for none.
        deed: "flip" changes the last bit of its first value; "flip 2" only in the third iteration of a loop around it. "fused"
            changes each value by far, if the result is no output. "large" changes the last bit of values above 5, and "late"
            that of the last value, if there are more than 2. "abort" and "hang" end the run of a model that has the node, and
            "refuse" refuses it. "lack" has no second level.
    """
    import onnx
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun

    class Flip(OpRun):  # type: ignore[misc]
        """Identity, but for the last bit of a value, or the highest bit of the fraction of each value."""

        op_domain = "fake"
        iteration = 0

        def _run(self, x: Any) -> Any:
            y = x.copy()
            bits = y.reshape(-1).view(f"uint{8 * y.itemsize}")
            if deed == "fused":
                bits ^= 1 << 22
            elif deed == "large":
                bits[y.reshape(-1) > 5] ^= 1
            elif deed == "late":
                bits[-1:] ^= int(bits.size > 2)
            elif deed in ("flip", f"flip {Flip.iteration}"):
                bits[:1] ^= 1
            Flip.iteration += 1
            return (y,)

    loaded = onnx_reference.load()
    right = loaded.run_model
    assert right is not None

    def run_model(run: ModelRun, level: str) -> Mapping[str, Tensor]:
        if deed == "lack" and level == LEVELS[1]:
            raise NotImplementedError("this release has no such level")
        model = onnx.load(run.file)
        names = {output.name for output in model.graph.output}
        hit = next(((g, i) for g, i in _nodes(model.graph) if node in (g.node[i].name, g.node[i].output[0])), None)
        if level == LEVELS[0] or hit is None or (deed == "fused" and hit[0].node[hit[1]].output[0] in names):
            return right(run, "graph")
        if deed == "abort":
            os.abort()
        if deed == "hang":
            time.sleep(1000)
        if deed == "refuse":
            raise ValueError("refused on purpose")
        graph, index = hit
        y, raw = graph.node[index].output[0], "raw"
        graph.node[index].output[0] = raw
        after = [onnx.helper.make_node("Flip", [raw], [y], domain="fake"), *graph.node[index + 1 :]]
        del graph.node[index + 1 :]
        graph.node.extend(after)
        model.opset_import.append(onnx.helper.make_opsetid("fake", 1))
        Flip.iteration = 0
        evaluated = ReferenceEvaluator(model, new_ops=[Flip])
        wanted = list(run.outputs or evaluated.output_names)
        arrays = {name: onnx_reference.to_array(tensor) for name, tensor in run.inputs.items()}
        results = evaluated.run(wanted, arrays)
        return {name: onnx_reference.from_array(result) for name, result in zip(wanted, results, strict=True)}

    return replace(loaded, run_model=run_model)


def _nodes(graph: Any) -> Iterator[tuple[Any, int]]:
    """The DequantizeLinear nodes of a graph and its subgraphs, each as its graph and its index."""
    for index, node in enumerate(graph.node):
        if node.op_type == "DequantizeLinear":
            yield graph, index
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)


class InThisProcess:
    """A loaded implementation as the worker of a `Runner`."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._batches: list[Sequence[tuple[bytes, str]]] = []

    def submit(self, requests: Sequence[tuple[bytes, str]]) -> None:
        """Queue a batch."""
        self._batches.append(requests)

    def collect(self) -> list[Outcome]:
        """Answer the oldest batch."""
        return [run_call(self._loaded, *request) for request in self._batches.pop(0)]


def reference() -> Runner:
    """The reference evaluator in this process."""
    return Runner("onnx-reference", ("graph",), InThisProcess(onnx_reference.load()))


def flawed(node: str, deed: str = "flip") -> Runner:
    """The flawed evaluator in this process. See `load`."""
    return Runner("fake", LEVELS, InThisProcess(load(node, deed)))
