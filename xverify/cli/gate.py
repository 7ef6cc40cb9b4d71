"""The command ``xverify gate``."""

from __future__ import annotations

import contextlib
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xverify.cli.common import FINDINGS, PASS, UNABLE, clear, console_of_output, say

if TYPE_CHECKING:
    from xverify.contracts.model import Contract, Denormals, Domain

FILE = click.Path(path_type=Path)


@click.command()
@click.option(
    "--kernel",
    "target",
    metavar="TARGET",
    help="Kernel to test: package.module:function, file.py:function or library.so:symbol.  [default: xverify-numpy]",
)
@click.option(
    "--contract",
    "patterns",
    multiple=True,
    metavar="GLOB|FILE",
    help="Edition to test against: an id, a pattern, or a Python file. Repeatable.  [default: the newest ONNX edition; "
    "with --like and a framework, the newest that onnxruntime has]",
)
@click.option(
    "--like",
    "like_name",
    metavar="ORACLE|TARGET",
    help="Require the bits and the refusals of this implementation, or of another build, instead of those of the edition.",
)
@click.option("--x-dtypes", metavar="LIST", default="", help="Test only these types of x: int8,uint8.  [default: all]")
@click.option("--scale-dtypes", metavar="LIST", default="", help="Test only these types of scale.  [default: all]")
@click.option(
    "--granularity",
    metavar="LIST",
    default="",
    help="Test only these: per_tensor,per_axis,blocked.  [default: all]",
)
@click.option(
    "--block-sizes", metavar="LIST", default="", help="Test only blocks of these sizes: 32,64.  [default: all]"
)
@click.option(
    "--axes", metavar="LIST", default="", help="Test only these axes: 0,1, or -1 for the last.  [default: all]"
)
@click.option("--ranks", metavar="LIST", default="", help="Test only x of these ranks: 2, or 1-4.  [default: all]")
@click.option("--contiguous", is_flag=True, help="Test only tensors that are contiguous in memory.")
@click.option(
    "--values-only", is_flag=True, help="Test only calls that the edition allows, and none that the kernel must refuse."
)
@click.option("--no-threads", is_flag=True, help="Never call the kernel from several threads at once.")
@click.option("--budget", default="60s", show_default=True, metavar="TIME", help="Time for the whole run: 60s, 5m, 1h.")
@click.option("--seed", default=0, show_default=True, help="Seed of the random values and calls.")
@click.option("-x", "--fail-fast", is_flag=True, help="Stop at the first fault that is not in the ledger.")
@click.option(
    "--huge",
    is_flag=True,
    help="Also make a call of more than 2^31 elements, which needs 11 GiB of memory or more and some minutes.",
)
@click.option(
    "--walk-only",
    is_flag=True,
    help="Stop after the walk (every type with every structure), before Hypothesis draws further calls.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Count NotImplementedError as a refusal. By default it means that a feature is not supported.",
)
@click.option("--allow-mixed", is_flag=True, help="Accept legal values that no single reading of the edition explains.")
@click.option(
    "--denormals",
    type=click.Choice(["keep", "flush", "flush-inputs"]),
    default="keep",
    show_default=True,
    help="Require subnormal results (keep), also accept zero for them (flush), or accept zero for subnormal inputs too "
    "(flush-inputs).",
)
@click.option(
    "--timeout", default="10s", show_default=True, metavar="TIME", help="Report a call that takes longer as a hang."
)
@click.option(
    "--memory",
    default=4096,
    type=click.IntRange(0),
    show_default=True,
    metavar="MIB",
    help="Memory limit of the kernel's process; 0 for no limit.",
)
@click.option("--ledger", "ledger_path", type=FILE, help="File of accepted findings.  [default: reports/ledger.toml]")
@click.option("--runs", type=FILE, help="Folder for the run's files.  [default: reports/runs]")
@click.option("--json", "json_file", type=FILE, help="Also write the report (JSON) to this file.")
@click.option("--html", "html_file", type=FILE, help="Also write the report (HTML) to this file.")
@click.option("--junit", "junit_file", type=FILE, help="Write JUnit XML to this file: a test case for each cell.")
@click.option("--sarif", "sarif_file", type=FILE, help="Write SARIF 2.1.0 to this file, for code-scanning pages.")
@click.option("--badge", "badge_file", type=FILE, help="Write the JSON of a badge to this file, for shields.io.")
@click.option("--markdown", "markdown_file", type=FILE, help="Append a Markdown summary, for example for a CI page.")
@clear
def gate(
    target: str | None,
    patterns: tuple[str, ...],
    like_name: str | None,
    x_dtypes: str,
    scale_dtypes: str,
    granularity: str,
    block_sizes: str,
    axes: str,
    ranks: str,
    contiguous: bool,
    values_only: bool,
    no_threads: bool,
    budget: str,
    seed: int,
    fail_fast: bool,
    huge: bool,
    walk_only: bool,
    strict: bool,
    allow_mixed: bool,
    denormals: Denormals,
    timeout: str,
    memory: int,
    ledger_path: Path | None,
    runs: Path | None,
    json_file: Path | None,
    html_file: Path | None,
    junit_file: Path | None,
    sarif_file: Path | None,
    badge_file: Path | None,
    markdown_file: Path | None,
) -> int:
    """Test a kernel against an edition, bit for bit.

    For each fault, the gate prints the smallest call that shows it and a command that repeats it. No tolerance applies.

    Exit codes: 0 pass, 1 findings that are not in the ledger, 2 wrong usage, 3 no decision (see the message).
    """
    from datetime import date

    from xverify.core.errors import UsageError
    from xverify.engine import select
    from xverify.engine.gate_plan import walk_seconds
    from xverify.engine.resume import naming_full_disk
    from xverify.engine.sweep import new_run_id, run_directory
    from xverify.gate import ledger_file
    from xverify.gate.decide import PASS as PASSED
    from xverify.gate.decide import UNABLE as UNDECIDED
    from xverify.gate.gate import gate as run_gate
    from xverify.gate.gate import nothing_more
    from xverify.gate.markdown import append_markdown
    from xverify.gate.options import LEAST_SECONDS, GateOptions
    from xverify.gate.terminal import announce
    from xverify.report import load, render, write_files
    from xverify.report.console import ConsoleProgress
    from xverify.workers.process import Limits

    limit = select.seconds(budget, LEAST_SECONDS)
    target = select.KERNEL if target is None else target
    kernel = select.kernel_under_test(target, strict)
    reference = select.reference_named(like_name, kernel, say) if like_name else None
    held_to, unread = select.contracts_named(patterns or (select.edition_by_default(reference),))
    held_to, not_taken = select.taken_by(kernel, held_to)
    left_out = (*unread, *not_taken)
    if reference is not None:
        held_to, not_matched = select.matched_by(reference, held_to)
        left_out += not_matched
        kernel = replace(kernel, strict=strict or reference.strict)
    within = _narrowed(held_to, x_dtypes, scale_dtypes, granularity)
    if huge and like_name:
        raise UsageError("--huge holds a kernel to an edition, so it cannot be combined with --like")
    limits = select.call_limits(block_sizes.split(","), axes.split(","), ranks.split(","), contiguous)
    path = ledger_path or select.LEDGER
    ledger = ledger_file.read(path)
    outputs = {"json": json_file, "html": html_file, "junit": junit_file, "sarif": sarif_file, "badge": badge_file}
    for file in (*outputs.values(), markdown_file):
        if file is not None:
            select.writable_file(file)
    directory = run_directory(select.writable(runs or select.RUNS), new_run_id())
    for sentence in left_out:
        say(sentence)
    if not fail_fast and (least := walk_seconds([(text, within[text.id]) for text in held_to])) > limit:
        say(
            f"the budget of {budget} will end before the walk, which takes more than {least:.0f} s: raise --budget, "
            "or test fewer types"
        )
    console = console_of_output()
    progress = ConsoleProgress(console, "gate")
    options = GateOptions(
        kernel=kernel,
        target=target,
        contracts=held_to,
        contract_files=tuple(pattern for pattern in patterns if select.is_file(pattern)),
        directory=directory,
        run_id=directory.name,
        command=shlex.join(["xverify", *sys.argv[1:]]),
        like=reference,
        like_target=like_name or "",
        within=within,
        call_limits=limits,
        values_only=values_only,
        threads=not no_threads,
        ledger=ledger,
        ledger_path=str(path),
        today=date.today(),
        seed=seed,
        budget=limit,
        denormals=denormals,
        allow_mixed=allow_mixed,
        fail_fast=fail_fast,
        huge=huge,
        draw=nothing_more if walk_only else None,
        limits=Limits(call=select.seconds(timeout), start=limit, memory=memory << 20),
        left_out=left_out,
    )

    def publish(report: dict[str, Any]) -> None:
        progress.close()
        write_files(report, directory)
        for kind, file in outputs.items():
            if file is not None:
                file.write_text(render(report, kind), encoding="utf-8")
        if "gate" in report:  # absent if the decision itself failed
            if markdown_file is not None:
                append_markdown(report, markdown_file)
            announce(report, console, directory / "report.html")

    with naming_full_disk(directory, "repeat the command"), contextlib.closing(progress):
        try:
            report = run_gate(options, progress)
        except Exception:
            if (directory / "report.json").exists():  # of the work before the failure
                with contextlib.suppress(OSError):
                    publish(load(directory / "report.json"))
            raise
        publish(report)
    outcome = report["gate"]["outcome"]
    return PASS if outcome == PASSED else UNABLE if outcome == UNDECIDED else FINDINGS


def _narrowed(held_to: tuple[Contract, ...], x: str, scale: str, granularity: str) -> dict[str, Domain]:
    """Return the domain of each edition, restricted to the named types and granularities."""
    from xverify.core.errors import UsageError
    from xverify.gate.gate import narrowed

    listed_names = (x, scale, granularity.replace("-", "_"))  # "per-tensor" is how texts write it
    parts = [[word.strip() for word in listed.split(",") if word.strip()] for listed in listed_names]
    try:
        return {contract.id: narrowed(contract.domain, *parts) for contract in held_to}
    except ValueError as error:
        raise UsageError(str(error)) from None
