"""Runs of a model in implementations, at their optimisation levels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import numpy as np

from xverify.core.call import NO_MEMORY, Outcome, Tensor
from xverify.core.errors import WorkerFailedError
from xverify.oracles.model_run import MODEL, ModelRun, decode_results, encode_run
from xverify.oracles.protocol import Oracle
from xverify.workers.process import Limits
from xverify.workers.worker import Worker

RUN_SECONDS = 120.0
"""The default limit of one run of a model."""

MOST_WORDS = 400
"""The largest length of a message."""

AT_ONCE = 32
"""The number of runs that an implementation gets at once."""


class Answerer(Protocol):
    """The part of a worker that runs of models need."""

    def submit(self, requests: Sequence[tuple[bytes, str]]) -> None:
        """Queue a batch of (encoded run, level)."""

    def collect(self) -> Sequence[Outcome]:
        """Wait for the outcomes of the oldest batch.

        Raises:
            WorkerFailedError: The worker was given up.
        """


@dataclass(frozen=True, eq=False)
class Runner:
    """An implementation that runs models."""

    name: str
    """Its name in a run."""
    levels: tuple[str, ...]
    """The levels of a check, the least optimised first."""
    worker: Answerer
    missing: tuple[str, ...] = ()
    """Levels that the implementation does not have in this release. They are left out."""


@dataclass(frozen=True, eq=False)
class Result:
    """The result of a run."""

    kind: str
    """"outputs", or the kind of `Outcome` with which it ended."""
    outputs: Mapping[str, Tensor] = field(default_factory=dict)
    message: str = ""

    @property
    def ran(self) -> bool:
        """True if the model was run to its end."""
        return self.kind == "outputs"

    @property
    def refused(self) -> bool:
        """True if the implementation did not take the model, or a node of it."""
        return self.kind in ("rejected", "unsupported")

    @property
    def died(self) -> bool:
        """True if the process died or gave no answer in time, apart from a lack of memory."""
        return self.kind == "hang" or (self.kind == "crash" and not self.message.startswith(NO_MEMORY))


At = tuple[str, str]
"""The name of an implementation, and a level."""


@contextmanager
def started(
    oracles: Sequence[Oracle], folder: Path, levels: Sequence[str] = (), seconds: float = RUN_SECONDS
) -> Iterator[list[Runner]]:
    """Start a worker for each implementation that runs models, and stop them at the end.

    Args:
        oracles: The implementations. Those that run no models are left out.
        folder: A folder for the workers' files.
        levels: The levels of the check; none for all. An implementation without any of them is left out.
        seconds: The limit of one run.
    """
    runners: list[Runner] = []
    workers: list[Worker] = []
    try:
        for oracle in oracles:
            chosen = tuple(level for level in oracle.models if not levels or level in levels)
            if chosen:
                workers.append(Worker(oracle, folder, limits=Limits(call=seconds)))
                workers[-1].start()
                runners.append(Runner(oracle.name, chosen, workers[-1]))
        yield [_without_missing(runner, folder) for runner in runners]
    finally:
        for worker in workers:
            worker.stop()


def _without_missing(runner: Runner, folder: Path) -> Runner:
    """The runner without the levels at which it does not run the smallest model.

    If it runs that at no level, all of them stay, so that the reason is reported.
    """
    from onnx import TensorProto, helper

    declared = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "smallest", declared[:1], declared[1:])
    file = folder / "smallest.onnx"
    file.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()
    )
    run = ModelRun(str(file.resolve()), {"x": Tensor("float32", np.zeros(1, np.uint32))})
    kinds = {level: each[0].kind for (_, level), each in run_each([runner], [run]).items()}
    missing = tuple(level for level, kind in kinds.items() if kind == "unsupported")
    if len(missing) == len(runner.levels):
        return runner
    return replace(runner, levels=tuple(level for level in runner.levels if level not in missing), missing=missing)


REFERENCE = "onnx-reference"
"""The name of ONNX's reference evaluator, without a version."""


def run_each(runners: Sequence[Runner], runs: Sequence[ModelRun]) -> dict[At, list[Result]]:
    """Run models in every implementation at each of its levels; all implementations work at once.

    Args:
        runners: The implementations.
        runs: The runs. Those of one file should follow each other, since they share the loaded model.

    Returns:
        The results of the runs, in order, by implementation and level. The reference evaluator comes first, since later results
        are compared with the first.
    """
    blobs = [encode_run(run) for run in runs]
    files = [list(group) for group in _same_file(runs)]
    results: dict[At, list[Result]] = {
        (runner.name, level): [Result("unasked")] * len(runs)
        for runner in sorted(runners, key=lambda runner: runner.name.partition("==")[0] != REFERENCE)
        for level in runner.levels
    }
    orders = {}
    for runner in runners:
        order = [(index, level) for group in files for level in runner.levels for index in group]
        orders[runner.name] = [order[start : start + AT_ONCE] for start in range(0, len(order), AT_ONCE)]
        for some in orders[runner.name]:
            runner.worker.submit([(blobs[index], MODEL + level) for index, level in some])
    for runner in runners:
        for some in orders[runner.name]:
            for (index, level), result in zip(some, _collected(runner, len(some)), strict=True):
                results[runner.name, level][index] = result
    return results


def _same_file(runs: Sequence[ModelRun]) -> Iterator[range]:
    """The ranges of runs of the same file."""
    start = 0
    for index in range(1, len(runs) + 1):
        if index == len(runs) or runs[index].file != runs[start].file:
            yield range(start, index)
            start = index


def _collected(runner: Runner, count: int) -> list[Result]:
    """The results of a batch. If the worker was given up, there is none."""
    try:
        return [_result(outcome) for outcome in runner.worker.collect()]
    except WorkerFailedError as error:
        return [Result("unasked", message=str(error))] * count


def _result(outcome: Outcome) -> Result:
    if outcome.tensor is None:
        words = ": ".join(part for part in (outcome.error, outcome.message) if part)
        return Result(outcome.kind, message=" ".join(words.split())[:MOST_WORDS])
    try:
        return Result("outputs", decode_results(outcome.tensor))
    except ValueError as error:
        return Result("unreadable", message=str(error))


def run_part(
    content: bytes, inputs: Mapping[str, Tensor], outputs: tuple[str, ...], runner: Runner, folder: Path
) -> Result:
    """The result of a part of a model at the first level of an implementation.

    Args:
        content: The part, a valid ONNX model.
        outputs: The names of its outputs; all for an empty tuple.
        folder: Where the part is written for the run.
    """
    with TemporaryDirectory(dir=folder) as own:  # A worker tells files apart by their paths.
        file = Path(own, "part.onnx")
        file.write_bytes(content)
        return run_each([runner], [ModelRun(str(file), inputs, outputs)])[runner.name, runner.levels[0]][0]
