"""xverify gate: is this kernel still right?"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from xverify.cli.common import FINDINGS, PASS, UNABLE, clear, console_of_output, say

if TYPE_CHECKING:
    from xverify.contracts.model import Contract, Domain

FILE = click.Path(path_type=Path)


@click.command()
@click.option(
    "--kernel",
    "target",
    metavar="TARGET",
    help="The kernel: package.module:function, file.py:function or library.so:symbol (default: xverify-numpy).",
)
@click.option(
    "--contract", "patterns", multiple=True, metavar="GLOB|FILE", help="Held to these editions (default: newest ONNX)."
)
@click.option("--like", "like_name", metavar="ORACLE", help="Held to giving that implementation's bits instead.")
@click.option("--x-dtypes", metavar="LIST", default="", help="Only these types of x, e.g. int8,uint8.")
@click.option("--scale-dtypes", metavar="LIST", default="", help="Only these types of scale.")
@click.option("--granularity", metavar="LIST", default="", help="Only these: per_tensor, per_axis, blocked.")
@click.option("--budget", default="60s", show_default=True, metavar="TIME", help="Time for all of it: 60s, 5m, 1h.")
@click.option("--seed", default=0, show_default=True, help="Seed of everything that is drawn.")
@click.option("-x", "--fail-fast", is_flag=True, help="End with the first fault that is not in the ledger.")
@click.option("--walk-only", is_flag=True, help="End with the walk: no Hypothesis until the budget ends.")
@click.option("--strict", is_flag=True, help="NotImplementedError is a refusal like any other.")
@click.option("--allow-mixed", is_flag=True, help="Legal values may follow several readings in one cell.")
@click.option(
    "--denormals",
    type=click.Choice(["keep", "flush"]),
    default="keep",
    show_default=True,
    help="Whether subnormal results must be kept, or may come out as zero.",
)
@click.option("--timeout", default="10s", show_default=True, metavar="TIME", help="A call that takes longer hangs.")
@click.option(
    "--memory",
    default=4096,
    type=click.IntRange(0),
    show_default=True,
    metavar="MIB",
    help="What the kernel may take. 0: no limit.",
)
@click.option("--ledger", "ledger_path", type=FILE, help="Known findings (default: reports/ledger.toml).")
@click.option("--runs", type=FILE, help="Where runs are written (default: reports/runs).")
@click.option("--json", "json_file", type=FILE, help="Also write the report to this file.")
@click.option("--html", "html_file", type=FILE, help="Also write the HTML to this file.")
@click.option("--junit", "junit_file", type=FILE, help="Write JUnit XML to this file, a test case for each cell.")
@click.option("--markdown", "markdown_file", type=FILE, help="Append a summary in Markdown to this file.")
@clear
def gate(
    target: str | None,
    patterns: tuple[str, ...],
    like_name: str | None,
    x_dtypes: str,
    scale_dtypes: str,
    granularity: str,
    budget: str,
    seed: int,
    fail_fast: bool,
    walk_only: bool,
    strict: bool,
    allow_mixed: bool,
    denormals: str,
    timeout: str,
    memory: int,
    ledger_path: Path | None,
    runs: Path | None,
    json_file: Path | None,
    html_file: Path | None,
    junit_file: Path | None,
    markdown_file: Path | None,
) -> int:
    """Stop a wrong kernel: try it on everything that an edition says, and show the smallest call that it gets wrong.

    Exits 0 when it passes, 1 on anything that is not in the ledger, 3 when the gate could not do its work."""
    from datetime import date

    from xverify import contracts as editions
    from xverify.engine import select
    from xverify.engine.sweep import new_run_id, run_directory
    from xverify.gate import ledger_file
    from xverify.gate.decide import PASS as PASSED
    from xverify.gate.decide import UNABLE as UNDECIDED
    from xverify.gate.gate import gate as run_gate
    from xverify.gate.gate import nothing_more
    from xverify.gate.options import GateOptions
    from xverify.gate.outputs import announce, append_markdown
    from xverify.report import render
    from xverify.report.console import ConsoleProgress
    from xverify.report.files import write_files
    from xverify.workers.process import Limits

    limit = select.seconds(budget)
    target = select.KERNEL if target is None else target
    kernel = select.kernel_under_test(target, strict)
    held_to, unread = select.contracts_named(patterns or (editions.newest(),))
    held_to, not_taken = select.taken_by(kernel, held_to)
    left_out = (*unread, *not_taken)
    within = _narrowed(held_to, x_dtypes, scale_dtypes, granularity)
    reference = select.oracle_named(like_name, say) if like_name else None
    path = ledger_path or select.LEDGER
    known = ledger_file.read(path)
    outputs = {"json": json_file, "html": html_file, "junit": junit_file, "markdown": markdown_file}
    for file in outputs.values():
        if file is not None:
            select.writable(file.resolve().parent)
    directory = run_directory(select.writable(runs or select.RUNS), new_run_id())
    for sentence in left_out:
        click.echo(f"xverify: {sentence}", err=True)
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
        within=within,
        ledger=known,
        ledger_path=str(path),
        today=date.today(),
        seed=seed,
        budget=limit,
        keep_subnormals=denormals == "keep",
        allow_mixed=allow_mixed,
        fail_fast=fail_fast,
        draw=nothing_more if walk_only else None,
        limits=Limits(call=select.seconds(timeout), start=limit, memory=memory << 20),
        left_out=left_out,
    )
    try:
        report = run_gate(options, progress)
    finally:
        progress.close()
    write_files(report, directory)
    for kind in ("json", "html", "junit"):
        if (file := outputs[kind]) is not None:
            file.write_text(render(report, kind), encoding="utf-8")
    if markdown_file is not None:
        append_markdown(report, markdown_file)
    announce(report, console, directory / "report.html")
    outcome = report["gate"]["outcome"]
    return PASS if outcome == PASSED else UNABLE if outcome == UNDECIDED else FINDINGS


def _narrowed(held_to: tuple[Contract, ...], x: str, scale: str, granularity: str) -> dict[str, Domain]:
    """The domains of the editions without what was not named."""
    from xverify.core.errors import UsageError
    from xverify.gate.gate import narrowed

    parts = [[word.strip() for word in listed.split(",") if word.strip()] for listed in (x, scale, granularity)]
    try:
        return {contract.id: narrowed(contract.domain, *parts) for contract in held_to}
    except ValueError as error:
        raise UsageError(str(error)) from None
