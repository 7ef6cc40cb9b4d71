"""The command ``xverify model``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import click

from xverify.cli.common import FINDINGS, PASS, UNABLE, clear, console_of_output, say

if TYPE_CHECKING:
    from xverify.core.call import Tensor
    from xverify.model.nodes import Node
    from xverify.model.read import Model
    from xverify.model.result import Check
    from xverify.oracles.protocol import Oracle

FILE = click.Path(path_type=Path)


@click.command()
@click.argument("file", metavar="MODEL.onnx", type=FILE)
@click.option(
    "--inputs",
    "inputs_file",
    type=FILE,
    help="Inputs of the model: an .npz file with an array for each input.  [default: drawn ones]",
)
@click.option(
    "--oracle",
    "names",
    multiple=True,
    metavar="NAME",
    help="Implementation: NAME[:OPTION][==VERSION | @PYTHON]. Repeatable.  [default: all installed ones that take ONNX calls]",
)
@click.option(
    "--vs",
    "versus",
    nargs=2,
    metavar="A B",
    help="Compare two implementations, or two versions of one: every difference between their results is a finding.",
)
@click.option(
    "--check",
    "checks",
    multiple=True,
    type=click.Choice(["alone", "neighbours", "whole"]),
    help="Do only this check of each node. Repeatable.  [default: all three]",
)
@click.option(
    "--level",
    "levels",
    multiple=True,
    metavar="LEVEL",
    help="Run the model only at this optimisation level, such as all or off. Repeatable.  [default: all levels]",
)
@click.option(
    "--node", "globs", multiple=True, metavar="GLOB", help="Check only nodes with such names.  [default: all]"
)
@click.option("--seed", default=0, show_default=True, help="Seed of drawn inputs and codes.")
@click.option(
    "--timeout",
    default="60s",
    show_default=True,
    metavar="TIME",
    help="Report a call, or a run of the model, that takes longer as a hang.",
)
@click.option("--runs", type=FILE, help="Folder for the run's files.  [default: reports/runs]")
@click.option("--json", "json_file", type=FILE, help="Also write the report (JSON) to this file.")
@click.option("--html", "html_file", type=FILE, help="Also write the report (HTML) to this file.")
@click.option("--junit", "junit_file", type=FILE, help="Write JUnit XML to this file: a test case for each node.")
@clear
def model(
    file: Path,
    inputs_file: Path | None,
    names: tuple[str, ...],
    versus: tuple[str, str] | None,
    checks: tuple[Check, ...],
    levels: tuple[str, ...],
    globs: tuple[str, ...],
    seed: int,
    timeout: str,
    runs: Path | None,
    json_file: Path | None,
    html_file: Path | None,
    junit_file: Path | None,
) -> int:
    """Check every DequantizeLinear node of an ONNX model, bit for bit.

    Each node is checked alone with its own constants, with a few neighbours, and within the whole model at each
    optimisation level. The edition of the model's own opset decides which bits are legal.

    Exit codes: 0 pass, 1 findings, 2 wrong usage or a damaged model, 3 nothing was checked (see the message).
    """
    from xverify.core.errors import UnableError, UsageError
    from xverify.engine import select
    from xverify.engine.sweep import new_run_id, run_directory
    from xverify.model.check import CHECKS, ModelOptions, check_model
    from xverify.model.read import read_model
    from xverify.model.terminal import print_result
    from xverify.report import render, write_files
    from xverify.report.console import ConsoleProgress
    from xverify.workers.process import Limits

    seconds = select.seconds(timeout)
    versus = versus or None
    if versus and names:
        raise UsageError("--vs names the two implementations: leave out --oracle")
    if versus and versus[0] == versus[1]:
        raise UsageError(f"--vs compares two implementations, and {versus[0]!r} is named twice; name another one")
    if not file.is_file():
        raise UsageError(f"there is no file {file}; check the path")
    whole = read_model(file)
    if not whole.nodes:
        raise UnableError(f"{file} has no DequantizeLinear node, so there is nothing to check")
    nodes = _chosen(whole, globs)
    oracles, left_out = _oracles(versus or names, nodes)
    chosen = _levels(levels, oracles)
    inputs = _inputs(whole, inputs_file, seed) if "whole" in (checks or CHECKS) else {}
    outputs = {"json": json_file, "html": html_file, "junit": junit_file}
    for path in outputs.values():
        if path is not None:
            select.writable_file(path)
    directory = run_directory(select.writable(runs or select.RUNS), new_run_id())
    for sentence in left_out:
        say(sentence)
    console = console_of_output()
    progress = ConsoleProgress(console, "model")
    options = ModelOptions(
        model=whole,
        nodes=nodes,
        oracles=oracles,
        inputs=inputs,
        directory=directory,
        run_id=directory.name,
        command=shlex.join(["xverify", *sys.argv[1:]]),
        file=str(file),
        inputs_from=str(inputs_file) if inputs_file else f"drawn with seed {seed}",
        checks=tuple(check for check in CHECKS if not checks or check in checks),
        levels=chosen,
        versus=tuple(oracle.name for oracle in oracles) if versus else (),
        seed=seed,
        seconds=seconds,
        left_out=left_out,
        limits=Limits(call=seconds),
    )
    try:
        report = check_model(options, progress)
    finally:
        progress.close()
    write_files(report, directory)
    for kind, path in outputs.items():
        if path is not None:
            path.write_text(render(report, kind), encoding="utf-8")
    print_result(report, console, directory / "report.html")
    return {"pass": PASS, "findings": FINDINGS, "unable": UNABLE}[report["model"]["outcome"]]


def _inputs(model: Model, file: Path | None, seed: int) -> dict[str, Tensor]:
    """The inputs of the model: those of a file, or drawn ones."""
    from xverify.core.errors import UsageError
    from xverify.model import inputs

    if file is not None:
        return inputs.given(file, model)
    try:
        return inputs.drawn(model, seed)
    except UsageError as error:
        raise UsageError(
            f"no inputs of {model.path} can be drawn: {error}; give them by --inputs, or leave out the check within the "
            "whole model: --check alone --check neighbours"
        ) from None


def _chosen(model: Model, globs: Sequence[str]) -> tuple[Node, ...]:
    """The nodes that some pattern names; all if there are no patterns."""
    from xverify.core.errors import UsageError
    from xverify.core.near import nearest

    names = [node.name for node in model.nodes]
    for glob in globs:
        if not any(fnmatchcase(name, glob) for name in names):
            raise UsageError(f"no DequantizeLinear node of {model.path} is called {glob!r}{nearest(glob, names)}")
    return tuple(node for node in model.nodes if not globs or any(fnmatchcase(node.name, glob) for glob in globs))


def _oracles(names: Sequence[str], nodes: Sequence[Node]) -> tuple[tuple[Oracle, ...], tuple[str, ...]]:
    """The implementations, and a sentence for each named one that takes no call of the model's editions."""
    from xverify.core.errors import UnableError, UsageError
    from xverify.core.machine import instruction_sets
    from xverify.engine import select
    from xverify.oracles import all_oracles, answers, installed_version

    editions = sorted({node.contract for node in nodes})
    every = all_oracles()
    if not names:
        installed = [
            name
            for name in select.by_default(every.values(), instruction_sets())
            if not every[name].in_house
            and any(answers(every[name], edition) for edition in editions)
            and installed_version(every[name]) is not None
        ]
        if not installed:
            raise UnableError(
                f"no implementation of {', '.join(editions)} is installed; pip install onnxruntime, or name one "
                "with --oracle"
            )
        return tuple(select.oracle_named(name, say) for name in installed), ()
    oracles = tuple({oracle.name: oracle for oracle in (select.oracle_named(name, say) for name in names)}.values())
    idle = [oracle.name for oracle in oracles if not any(answers(oracle, edition) for edition in editions)]
    sentences = tuple(f"{name} takes no calls of {', '.join(editions)}" for name in idle)
    if len(idle) == len(oracles):
        raise UsageError(f"{'; '.join(sentences)}; see: xverify oracles")
    return oracles, sentences


def _levels(typed: Sequence[str], oracles: Sequence[Oracle]) -> tuple[str, ...]:
    """The full names of levels. An implementation with a single level keeps it."""
    from xverify.core.errors import UsageError
    from xverify.core.near import nearest

    if not typed:
        return ()
    every = list(dict.fromkeys(level for oracle in oracles for level in oracle.models))
    chosen = [oracle.models[0] for oracle in oracles if len(oracle.models) == 1]
    for word in typed:
        named = [level for level in every if word == level or level.rpartition("=")[2] == word]
        if not named:
            listed = ", ".join(every) or "none"
            raise UsageError(f"there is no optimisation level {word!r}{nearest(word, every)}; there are {listed}")
        chosen += named
    return tuple(dict.fromkeys(chosen))
