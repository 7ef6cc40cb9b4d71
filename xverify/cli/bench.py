"""The command ``xverify bench``."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from xverify.cli.common import PASS, UNABLE, clear, console_of_output
from xverify.core.errors import UsageError

DTYPES = "uint8:float32,packed-int4:float16"
GRANULARITY = "per-tensor,per-axis,blocked"
SIZES = "1000,64Ki,1Mi,16Mi,64Mi"


@click.command()
@click.option(
    "--kernel",
    "targets",
    multiple=True,
    metavar="TARGET",
    help="Kernel of yours to time as well, by a TARGET as for the gate. Repeatable.  [default: none]",
)
@click.option(
    "--dtypes",
    default=DTYPES,
    show_default=True,
    metavar="X:OUT,...",
    help="Pairs of types: x and output, or all. A name such as packed-int4 means several codes in a byte.",
)
@click.option(
    "--granularity",
    default=GRANULARITY,
    show_default=True,
    metavar="LIST",
    help="Any of per-tensor, per-axis, per-axis-last, blocked, blocked-first; or all.",
)
@click.option("--sizes", default=SIZES, show_default=True, metavar="LIST", help="Numbers of elements: 1000,64Ki,16Mi.")
@click.option(
    "--threads", type=click.IntRange(1), metavar="N", help="Threads of each implementation.  [default: usable cores]"
)
@click.option(
    "--budget", default="120s", show_default=True, metavar="TIME", help="Time for the whole run: 60s, 5m, 1h."
)
@click.option("--seed", default=0, show_default=True, help="Seed of the random operands.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write all figures (JSON) to this file.")
@click.option(
    "--html", "html_file", type=click.Path(path_type=Path), help="Write tables and plots (HTML) to this file."
)
@clear
def bench(
    targets: tuple[str, ...],
    dtypes: str,
    granularity: str,
    sizes: str,
    threads: int | None,
    budget: str,
    seed: int,
    json_file: Path | None,
    html_file: Path | None,
) -> int:
    """Time the in-house kernels, the installed implementations, and kernels of yours.

    They are compared with each other and with the limit that the memory sets. Each runs in its own process, in turns.
    Figures are medians. Ctrl-C prints what was measured so far.

    Exit codes: 0 measured, 2 wrong usage, 3 interrupted or nothing measured.
    """

    from xverify.bench import cases as listed
    from xverify.bench.machine import usable_cores
    from xverify.bench.plot import INSTALL
    from xverify.bench.problem import peers, user_peers
    from xverify.bench.result import save
    from xverify.bench.run import Options
    from xverify.bench.run import bench as run_bench
    from xverify.bench.table import TableProgress, print_bench
    from xverify.engine import select

    try:
        pairs, kinds = listed.pairs_of(dtypes), listed.granularities_of(granularity)
        chosen = listed.cases_of(pairs, kinds, listed.sizes_of(sizes))
    except ValueError as error:
        raise UsageError(str(error)) from None
    mine = user_peers(select.user_kernels(targets))
    for path in (json_file, html_file):
        if path is not None:
            select.writable_file(path)
    command = shlex.join(["xverify", *sys.argv[1:]])
    options = Options(chosen, threads or usable_cores(), select.seconds(budget), seed, command, (*mine, *peers()))
    console = console_of_output()
    progress = TableProgress(console)
    try:
        result = run_bench(options, progress)
    finally:
        progress.close()
    if json_file is not None:
        save(result, json_file)
    if html_file is not None:
        from importlib.util import find_spec

        from xverify.bench.page import page

        html_file.write_text(page(result), encoding="utf-8")
        if find_spec("matplotlib") is None:
            click.echo(f"xverify: the page has no plots because matplotlib is not installed: {INSTALL}", err=True)
    print_bench(result, console)
    if not result["run"]["complete"]:
        measured = any(line["status"] in ("measured", "partial") for case in result["cases"] for line in case["lines"])
        rest = "the table holds the cases that were measured" if measured else "nothing was measured before that"
        click.echo(f"xverify: interrupted; {rest}", err=True)
        return UNABLE
    if not any(line["status"] in ("measured", "partial") for case in result["cases"] for line in case["lines"]):
        click.echo(
            "xverify: nothing was measured: raise --budget, or install an implementation (see: xverify oracles)",
            err=True,
        )
        return UNABLE
    return PASS
