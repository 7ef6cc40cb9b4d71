"""The commands: parse, call, print. Exit codes: 0 pass, 1 findings, 2 usage, 3 could not do its work."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

PASS, FINDINGS, USAGE, UNABLE = 0, 1, 2, 3

VERDICTS = (
    "violation", "mixed", "ambiguity", "conflict", "wrongly-accepted", "wrongly-rejected", "crash", "hang",
    "nondeterministic", "memory",
)  # fmt: skip


def _clear(command: Callable[..., int | None]) -> Callable[..., None]:
    """Turn the errors that a user can do something about into one sentence and the right exit code."""

    @wraps(command)
    def run(*args: Any, **options: Any) -> None:
        from xverify.contracts import DocumentError
        from xverify.core.codec import DamagedFileError
        from xverify.engine.select import UsageError
        from xverify.engine.workers import WorkerFailedError

        try:
            sys.exit(command(*args, **options) or PASS)
        except (UsageError, DamagedFileError) as error:
            _fail(str(error), USAGE)
        except (DocumentError, WorkerFailedError, LookupError) as error:
            _fail(str(error), UNABLE)
        except OSError as error:
            where = f" {error.filename}" if error.filename else ""
            _fail(f"{error.strerror or error}:{where}", UNABLE)
        except KeyboardInterrupt:
            _fail("interrupted", UNABLE)

    return run


def _fail(sentence: str, code: int) -> None:
    click.echo(f"xverify: {sentence}", err=True)
    sys.exit(code)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="xverify")
def main() -> None:
    """Says, bit for bit, what every implementation of dequantization computes, and where that differs from its
    specification."""


@main.command()
@click.option(
    "--contract",
    "patterns",
    multiple=True,
    metavar="GLOB|FILE",
    help="Editions to sweep: ids, or your own (default: all).",
)
@click.option("--oracle", "names", multiple=True, metavar="NAME", help="Implementations (default: all installed).")
@click.option("--kernel", metavar="NAME", help="The kernel under test (default: xverify-numpy).")
@click.option("--budget", default="60s", show_default=True, metavar="TIME", help="Time for all of it: 60s, 5m, 1h.")
@click.option(
    "--cases", type=click.IntRange(1), metavar="N", help="Make N calls instead; then a seed gives one report."
)
@click.option("--seed", default=0, show_default=True, help="Seed of everything that is drawn.")
@click.option("--runs", type=click.Path(path_type=Path), help="Where runs are written (default: reports/runs).")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Also write the report to this file.")
@click.option("--html", "html_file", type=click.Path(path_type=Path), help="Also write the HTML to this file.")
@click.option("--junit", "junit_file", type=click.Path(path_type=Path), help="Write JUnit XML to this file.")
@click.option(
    "--fail-on", metavar="VERDICTS", default="", help="Exit 1 if there are findings of these, e.g. violation,crash."
)
@_clear
def sweep(
    patterns: tuple[str, ...],
    names: tuple[str, ...],
    kernel: str | None,
    budget: str,
    cases: int | None,
    seed: int,
    runs: Path | None,
    json_file: Path | None,
    html_file: Path | None,
    junit_file: Path | None,
    fail_on: str,
) -> int:
    """Ask every implementation everything, and report what differs.

    Exits 0 when it finished, whatever it found; see --fail-on."""
    from rich.console import Console

    from xverify import report as reports
    from xverify.engine import select
    from xverify.engine.run import Options
    from xverify.engine.sweep import new_run_id, run_directory
    from xverify.engine.sweep import sweep as run_sweep
    from xverify.report.console import ConsoleProgress, print_summary
    from xverify.report.files import write_files

    failing = _verdicts(fail_on)
    limit = select.seconds(budget)
    oracles, left_out = select.oracles_named(names, kernel)
    contracts, unread = select.contracts_named(patterns)
    outputs = {"json": json_file, "html": html_file, "junit": junit_file}
    for path in outputs.values():
        if path is not None:
            select.writable(path.resolve().parent)
    directory = run_directory(select.writable(runs or select.RUNS), new_run_id())
    for sentence in (*left_out, *unread):
        click.echo(f"xverify: {sentence}", err=True)
    command = shlex.join(["xverify", *sys.argv[1:]])
    console = Console()
    progress = ConsoleProgress(console)
    options = Options(contracts, oracles, directory, directory.name, command, seed, limit, cases)
    try:
        report = run_sweep(options, progress)
    finally:
        progress.close()
    write_files(report, directory)
    for kind, path in outputs.items():
        if path is not None:
            path.write_text(reports.render(report, kind), encoding="utf-8")
    print_summary(report, console)
    console.print(f"report: {directory / 'report.html'}", soft_wrap=True)
    if not report["run"]["complete"]:
        click.echo("xverify: interrupted; the report holds what was done", err=True)
        return UNABLE
    return FINDINGS if any(finding["verdict"] in failing for finding in report["findings"]) else PASS


def _verdicts(listed: str) -> set[str]:
    from xverify.engine.select import UsageError

    names = {name.strip() for name in listed.split(",") if name.strip()}
    unknown = names - set(VERDICTS)
    if unknown:
        raise UsageError(f"no verdict is called {sorted(unknown)[0]!r}; there are {', '.join(VERDICTS)}")
    return names


@main.command()
@click.argument("finding")
@click.option("--run", metavar="RUN", help="The run that holds the finding (default: the newest).")
@click.option("--contract", "files", multiple=True, metavar="FILE", help="The Python file of an edition of your own.")
@_clear
def replay(finding: str, run: str | None, files: tuple[str, ...]) -> int:
    """Run a finding again: FIXED, STILL or CHANGED.

    FINDING is a finding's id, or a report's file: then every finding of it is run."""
    from xverify import report as reports
    from xverify.engine import select
    from xverify.engine.replay import asking, finding_from_report
    from xverify.engine.replay import replay as run_again

    path = select.report_file(finding if Path(finding).exists() else run)
    report = reports.load(path)
    entries = report["findings"]
    if not Path(finding).exists():
        entries = [entry for entry in entries if entry["id"] == finding]
        if not entries:
            raise select.UsageError(f"{path} has no finding {finding!r}")
    else:
        entries = [entry for entry in entries if entry["witness"] is not None]
    own = [contract for file in files for contract in select.contracts_of_file(file)]
    unfixed = False
    with tempfile.TemporaryDirectory(prefix="xverify-") as scratch, asking(Path(scratch)) as ask:
        for entry in entries:
            result = run_again(finding_from_report(entry, path.parent), ask, own)
            unfixed |= result.state != "FIXED"
            click.echo(f"{result.state:7} {result.id}: {result.summary}")
            if result.got:
                click.echo(f"        gives {result.got}")
    return FINDINGS if unfixed else PASS


@main.command()
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option(
    "--format", "kind", type=click.Choice(["html", "markdown", "json", "junit"]), default="html", show_default=True
)
@click.option("--finding", metavar="ID", help="Only this finding, as the body of an issue (with --format markdown).")
@click.option("--output", "-o", type=click.Path(path_type=Path), help="File to write (default: standard output).")
@_clear
def report(runs: tuple[str, ...], kind: str, finding: str | None, output: Path | None) -> int:
    """Make a run's report in another format, or one report of several runs.

    RUN is a run's id, its directory, or a report.json; the newest run when none is named. Of several runs the counts are
    added up, and each cell has the recipe that all of them admit."""
    from xverify import report as reports
    from xverify.engine import select
    from xverify.report.merge import merged

    if finding is not None and kind != "markdown":
        raise select.UsageError(f"the body of an issue is Markdown: --finding goes with --format markdown, not {kind}")
    sources = [select.report_file(run) for run in runs or (None,)]
    if output is not None and output.resolve() in [source.resolve() for source in sources]:
        raise select.UsageError(f"{output} is the report itself, which would be overwritten; name another file")
    each = [reports.load(source) for source in sources]
    loaded = each[0] if len(each) == 1 else merged(each)
    text = reports.render(loaded, kind) if finding is None else reports.issue_body(loaded, finding)
    if output is None:
        click.echo(text)
        return PASS
    select.writable(output.resolve().parent)
    output.write_text(text, encoding="utf-8")
    click.echo(f"{output} written", err=True)
    return PASS


@main.command()
@click.argument("names", nargs=-1)
@click.option("--probe", is_flag=True, help="Start each one and ask what it supports.")
@_clear
def oracles(names: tuple[str, ...], probe: bool) -> int:
    """Show the implementations, their versions, and what they support."""
    from rich.console import Console

    from oracles import all_oracles
    from xverify.engine import select
    from xverify.report.listing import print_oracles, print_support

    known = all_oracles()
    for name in names:
        if name not in known:
            raise select.UsageError(f"no implementation is called {name!r}; there are {', '.join(known)}")
    chosen = [oracle for name, oracle in known.items() if not names or name in names]
    console = Console()
    print_oracles(chosen, console)
    if probe:
        with tempfile.TemporaryDirectory(prefix="xverify-") as scratch:
            for oracle in chosen:
                print_support(oracle, Path(scratch), console)
    return PASS


@main.command()
@click.argument("pattern", required=False)
@_clear
def contracts(pattern: str | None) -> int:
    """List the editions; with an id, a glob or the file of your own edition, their clauses and readings."""
    from rich.console import Console

    from xverify.engine import select
    from xverify.report.listing import print_contract, print_contracts

    console = Console()
    named, unread = select.contracts_named([pattern] if pattern else [])
    if pattern:
        for contract in named:
            print_contract(contract, console)
    else:
        print_contracts(named, console)
    for sentence in unread:
        click.echo(f"xverify: {sentence}", err=True)
    return PASS


@main.command()
@click.option("--contract", "pattern", metavar="ID|FILE", help="The edition (default: the newest ONNX version).")
@click.option("--x", required=True, metavar="NUMBER", help="The quantized value: 218, -3, or its code as bits:0xda.")
@click.option("--scale", metavar="NUMBER", help="0.1, 1e-3, 0x1.ec2efap+2, bits:0x3f800000, nan, inf, -0.0.")
@click.option("--zero-point", metavar="NUMBER", help="The zero point (default: none).")
@click.option("--min", "low", metavar="NUMBER", help="TensorFlow's min_range.")
@click.option("--max", "high", metavar="NUMBER", help="TensorFlow's max_range.")
@click.option("--mode", default="", metavar="MODE", help="TensorFlow's mode.")
@click.option("--narrow-range", is_flag=True, help="TensorFlow's narrow_range.")
@click.option("--x-dtype", default="", metavar="DTYPE", help="Default: the first type of the edition that holds x.")
@click.option("--scale-dtype", default="", metavar="DTYPE", help="Default: float32, or the first that the edition has.")
@click.option("--zero-point-dtype", default="", metavar="DTYPE", help="Default: the type of x.")
@click.option("--out-dtype", default="", metavar="DTYPE", help="Default: what the edition has for it.")
@click.option("--oracle", "names", multiple=True, metavar="NAME", help="Implementations (default: all installed).")
@click.option("--no-oracles", is_flag=True, help="Ask no implementation.")
@click.option(
    "--limit", default="60s", show_default=True, metavar="TIME", help="How long each implementation may take."
)
@click.option("--all", "every", is_flag=True, help="Show every result, and every reading by name.")
@click.option("--format", "kind", type=click.Choice(["text", "json"]), default="text", show_default=True)
@_clear
def explain(
    pattern: str | None,
    x: str,
    scale: str | None,
    zero_point: str | None,
    low: str | None,
    high: str | None,
    mode: str,
    narrow_range: bool,
    x_dtype: str,
    scale_dtype: str,
    zero_point_dtype: str,
    out_dtype: str,
    names: tuple[str, ...],
    no_oracles: bool,
    limit: str,
    every: bool,
    kind: str,
) -> int:
    """Show what every reading gives for one value, which results are legal by which clause, and who gives what.

    A linear edition takes --x, --scale and perhaps --zero-point; TensorFlow's take --x, --min, --max and --mode."""
    import json

    from rich.console import Console

    from xverify import contracts
    from xverify.engine import explain as explaining
    from xverify.engine import select
    from xverify.engine.question import Question, make_call
    from xverify.report.explained import explanation_to_json, print_explanation

    types = {"x": x_dtype, "scale": scale_dtype, "zero_point": zero_point_dtype, "out": out_dtype}
    question = Question(x, scale, zero_point, low, high, mode, narrow_range, types)
    contract = select.contract_named(pattern or contracts.newest())
    within = select.seconds(limit)
    oracles, left_out = ((), ()) if no_oracles else explaining.implementations(contract, names)
    explanation = explaining.explain(contract, *make_call(contract, question))
    with tempfile.TemporaryDirectory(prefix="xverify-") as scratch:
        answers = explaining.ask(explanation, oracles, Path(scratch), within)
    if kind == "json":
        click.echo(json.dumps(explanation_to_json(explanation, answers, left_out), indent=1, ensure_ascii=False))
    else:
        print_explanation(explanation, answers, left_out, Console(), every)
    return PASS
