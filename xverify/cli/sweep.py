"""The commands ``xverify sweep`` and ``xverify report``."""

from __future__ import annotations

import gc
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xverify.cli import divided
from xverify.cli.arguments import arguments
from xverify.cli.common import FINDINGS, PASS, UNABLE, GroupedCommand, clear, console_of_output, say
from xverify.cli.divided import option_on
from xverify.core.cache_folder import cache_folder
from xverify.core.errors import UsageError
from xverify.core.verdict import Verdict

if TYPE_CHECKING:
    from rich.console import Console

    from xverify.engine.again import Again
    from xverify.engine.options import Options
    from xverify.report.presence import Strip

LEAST_SECONDS = 1.0
"""The smallest budget of a sweep, in seconds. Frameworks take longer to start."""

GROUPS = {
    "What to run": ("patterns", "names", "newest", "kernel", "vary"),
    "How many calls": ("budget", "cases", "seed"),
    "Many cores and machines": ("processes", "on", "needs", "shard_timeout", "shard"),
    "Output": ("runs", "json_file", "html_file", "junit_file", "history_file", "fail_on"),
}
"""The options of a sweep, as its help lists them."""


@click.command(cls=GroupedCommand, groups=GROUPS)
@click.option(
    "--contract",
    "patterns",
    multiple=True,
    metavar="GLOB|FILE",
    help="Edition to sweep: an id, a pattern, or a Python file. Repeatable.  [default: all]",
)
@click.option(
    "--oracle",
    "names",
    multiple=True,
    metavar="NAME|TARGET",
    help="Implementation to run: NAME[:OPTION][==VERSION | @PYTHON]; or a kernel of yours, by a TARGET as for the gate. "
    "Repeatable.  [default: all installed]",
)
@click.option(
    "--newest",
    is_flag=True,
    help="Run every implementation at the newest release that the package index offers. It is installed into a cache once.",
)
@click.option(
    "--kernel",
    metavar="NAME",
    help="Kernel to run as well: a name or a TARGET as for the gate.  [default: xverify-numpy]",
)
@click.option(
    "--vary",
    default="",
    metavar="LIST",
    help="Also run implementations under other settings: any of isa,threads,denormals,kernels.  [default: none]",
)
@click.option("--budget", default="60s", show_default=True, metavar="TIME", help="Time for the whole run: 60s, 5m, 1h.")
@click.option(
    "--cases",
    type=click.IntRange(1),
    metavar="N",
    help="Make N calls in all, and ignore --budget. The same seed and N then give the same report.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of the random values and calls.")
@click.option(
    "--shard",
    metavar="K/N",
    help="Do shard K of N of the run only, for example 3/16. With --budget, each shard has the whole budget. "
    "Combine the shards with: xverify merge.",
)
@click.option("--runs", type=click.Path(path_type=Path), help="Folder for the run's files.  [default: reports/runs]")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Also write the report (JSON) to this file.")
@click.option("--html", "html_file", type=click.Path(path_type=Path), help="Also write the report (HTML) to this file.")
@click.option(
    "--junit",
    "junit_file",
    type=click.Path(path_type=Path),
    help="Write JUnit XML to this file: a test case for each cell.",
)
@click.option(
    "--record",
    "history_file",
    is_flag=False,
    flag_value="reports/history.sqlite",
    type=click.Path(path_type=Path),
    metavar="[FILE]",
    help="Add the run to a history when it is finished (see: xverify history).  [default: no; FILE: reports/history.sqlite]",
)
@click.option(
    "--fail-on",
    metavar="VERDICTS",
    default="",
    help="Exit with 1 if there are findings of these verdicts, for example violation,crash.  [default: none]",
)
@click.option(
    "-n",
    "--processes",
    metavar="N|auto",
    help="Divide the run into N shards, and run them at the same time; auto: as many as cores and memory allow. "
    "With --on: the number of tasks.  [default: 1; with --on one for each thread of the workers]",
)
@option_on
@click.option("--events", "events", type=click.Path(path_type=Path), hidden=True)
@click.option("--neighbours", type=click.IntRange(1), default=1, hidden=True)
@click.option("--whole", type=click.Path(path_type=Path), hidden=True)
@clear
@click.pass_context
def sweep(
    context: click.Context,
    /,
    patterns: tuple[str, ...],
    names: tuple[str, ...],
    newest: bool,
    kernel: str | None,
    vary: str,
    budget: str,
    cases: int | None,
    seed: int,
    shard: str | None,
    runs: Path | None,
    json_file: Path | None,
    html_file: Path | None,
    junit_file: Path | None,
    history_file: Path | None,
    fail_on: str,
    processes: str | None,
    on: str | None,
    needs: tuple[str, ...],
    shard_timeout: str | None,
    events: Path | None,
    neighbours: int,
    whole: Path | None,
) -> int:
    """Run every implementation, and report what differs.

    The calls cover everything that the editions allow and forbid.

    Exit codes: 0 finished (with or without findings; see --fail-on), 1 findings that --fail-on names, 2 wrong usage,
    3 interrupted or unable.
    """
    from xverify import report as reports
    from xverify.core.shard import shard_named
    from xverify.engine import resume, select
    from xverify.engine import vary as varying
    from xverify.engine.events import SweepStarted
    from xverify.engine.options import Options
    from xverify.engine.sweep import new_run_id, run_directory
    from xverify.gate.signature import where_it_fits
    from xverify.history.questions import strips_of
    from xverify.history.store import History
    from xverify.oracles.releases import remark_on_age
    from xverify.report import summary
    from xverify.report.console import print_summary
    from xverify.workers.crash_log import half_of_memory
    from xverify.workers.process import Limits

    failing, varied = _verdicts(fail_on), varying.dimensions(vary)
    part = None if shard is None else shard_named(shard)
    if newest and names:
        first = next((name for name in names if not select.is_target(name)), "NAME")
        raise UsageError(
            f"--newest runs every implementation; for one, write --oracle {re.split('==|@|:', first)[0]}==newest"
        )
    limit = select.seconds(budget, 0.0 if cases else LEAST_SECONDS)
    seconds = divided.timeout_of_shard(shard_timeout, limit, cases)
    division = divided.division(shard, divided.count_named(processes), on, needs, seconds)
    if shard_timeout is not None and division is None:
        raise UsageError("--shard-timeout limits a shard of -n or --on: add one of them")
    are_all_of_user = bool(names) and all(map(select.is_target, names))
    contracts, unread = select.contracts_named(patterns or [select.edition_by_default()] * are_all_of_user)
    oracles, left_out = select.oracles_named(names, kernel, say, contracts, newest)
    oracles = oracles if patterns else tuple(map(select.held_by_default, oracles))
    if not patterns:
        left_out += tuple(
            f"{oracle.name} is held to {oracle.contracts[0]} only: name other editions with --contract"
            for oracle in oracles
            if select.is_of_user(oracle)
        )
    oracles = tuple(where_it_fits(oracle, contracts) for oracle in oracles)
    ages = [remark_on_age(oracle, select.version_of(oracle), date.today()) for oracle in oracles]
    left_out += tuple(filter(None, ages))
    more, not_varied = varying.variants(oracles, varied)
    outputs = {"json": json_file, "html": html_file, "junit": junit_file}
    for path in outputs.values():
        if path is not None:
            select.writable_file(path)
    if history_file is not None:
        History(history_file, create=True).close()  # a damaged file is refused before the run
    run_versions = resume.versions_to_resume((*oracles, *more), (*patterns, *names, kernel or ""))
    held = context.find_object(resume.HeldRun)  # of "xverify resume"
    if held is None:
        command = shlex.join(["xverify", *sys.argv[1:]])
        directory = run_directory(select.writable(runs or select.RUNS), new_run_id())
        with resume.naming_full_disk(whole or directory):
            held = resume.begin(directory, arguments(context), command, run_versions)
    else:
        held.require(run_versions)
    directory, run = held.directory, held.description
    for sentence in summary.left_out((*left_out, *not_varied, *unread)):
        click.echo(f"xverify: {sentence}", err=True)
    console = console_of_output()
    with resume.naming_full_disk(whole or directory):
        if division is not None:
            every = tuple(oracle.name for oracle in (*oracles, *more))
            begun = SweepStarted(run.id, tuple(contract.id for contract in contracts), every, limit, cases)
            report, code = divided.sweep_in_shards(context, division, directory, begun, console)
        else:
            options = Options(
                contracts,
                (*oracles, *more),
                directory,
                run.id,
                run.command,
                seed,
                limit,
                cases,
                limits=Limits(resident=half_of_memory() // neighbours),
                left_out=(*left_out, *not_varied, *unread),
                journal=run.digest,
                started=run.started,
                shard=part,
                cache=cache_folder(),
            )
            report, code = _swept(options, console, events), PASS
        strips = None
        is_finished = code == PASS and report["run"]["complete"]
        if history_file is not None and is_finished:  # "xverify resume" adds the others when they are finished
            with History(history_file, create=True) as history:
                click.echo(f"{history_file}: {history.record(report).words}", err=True)
                strips = strips_of(history)
            (directory / "report.html").write_text(reports.render(report, "html", strips=strips), encoding="utf-8")
        for kind, path in outputs.items():
            if path is not None:
                path.write_text(reports.render(report, kind, strips=strips), encoding="utf-8")
    print_summary(report, console, directory / "report.html")
    if code != PASS:
        return code
    if not report["run"]["complete"]:
        say(
            f"interrupted; the report covers the calls made so far; to go on: xverify resume {os.path.relpath(directory)}"
        )
        return UNABLE
    held.finish()
    named = [worker for worker in report["run"]["workers"] if not worker["in_house"]] if names else []
    if named and not any(worker["calls"] or worker["status"] == "answered" for worker in named):
        say("no implementation that --oracle names could be run; correct --oracle, or install what the report says")
        return UNABLE
    return FINDINGS if any(finding["verdict"] in failing for finding in report["findings"]) else PASS


def _swept(options: Options, console: Console, events: Path | None) -> dict[str, Any]:
    """Run a sweep or a shard here, and write its files.

    Args:
        events: The file for its events; None shows them on the console.
    """
    from xverify import report as reports
    from xverify.engine.sweep import sweep as run_sweep
    from xverify.report.console import ConsoleProgress
    from xverify.shards.progress import EventFile

    directory = options.directory
    consumer = ConsoleProgress(console) if events is None else EventFile(events)
    gc.freeze()  # what was imported stays, so the collector need not look at it again
    try:
        report = run_sweep(options, consumer)
    except Exception:
        if (directory / "report.json").exists():  # of the work before the failure
            reports.write_files(reports.load(directory / "report.json"), directory)
        raise
    finally:
        consumer.close()
    reports.write_files(report, directory)
    return report


def _verdicts(listed: str) -> set[str]:
    from xverify.core.near import nearest

    names = {name.strip() for name in listed.split(",") if name.strip()}
    unknown = names - set(Verdict)
    if unknown:
        first = sorted(unknown)[0]
        raise UsageError(
            f"--fail-on: {first!r} is not a verdict{nearest(first, Verdict)}; use any of {', '.join(Verdict)}"
        )
    return names


class _Format(click.ParamType):  # type: ignore[type-arg]  # which older releases of click do not take
    """A report format. The choices are listed when they are needed, so that a command starts fast."""

    name = "format"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        from xverify.report import format_names

        return f"[{'|'.join(format_names())}]"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from xverify.report import format_names

        if value not in format_names():
            from xverify.core.near import nearest

            listed = ", ".join(format_names())
            self.fail(f"{value!r} is not one of {listed}{nearest(value, format_names())}.", param, ctx)
        return value


@click.command()
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option(
    "--format",
    "kind",
    type=_Format(),
    help="Output format.  [default: html; markdown with --issue; with --since, the difference as text]",
)
@click.option(
    "--issue",
    "--finding",
    "identity",
    metavar="ID",
    help="Write the body of an issue about this cause or finding, in Markdown.",
)
@click.option(
    "--again", is_flag=True, help="Ask the installed implementation again, and say in the issue what it does."
)
@click.option(
    "--newest", is_flag=True, help="Ask the newest release again; it is installed in an environment of its own."
)
@click.option(
    "--since",
    metavar="RUN",
    help="Show the difference to an older run; --format html or markdown adds it to the report.",
)
@click.option(
    "--history",
    "history_file",
    type=click.Path(path_type=Path),
    help="Show each cause over versions, from this file of xverify history (HTML and Markdown).",
)
@click.option("--output", "-o", type=click.Path(path_type=Path), help="File to write.  [default: standard output]")
@clear
def report(
    runs: tuple[str, ...],
    kind: str | None,
    identity: str | None,
    again: bool,
    newest: bool,
    since: str | None,
    history_file: Path | None,
    output: Path | None,
) -> int:
    """Convert the report of a run, or merge several reports.

    RUN is the id of a run, its folder, or a report.json. The default is the newest run. Merging adds up the counts,
    and keeps for each cell the recipes that every run admits.

    Exit codes: 0 written, 2 wrong usage, 3 could not ask again.
    """
    from xverify import report as reports
    from xverify.engine import select
    from xverify.history.questions import difference_of
    from xverify.history.show import difference as difference_in_words
    from xverify.report.merge import merged

    if identity is not None and kind not in (None, "markdown"):
        raise UsageError(f"--issue writes Markdown, not {kind}: leave --format out")
    if identity is None and (again or newest):
        raise UsageError(f"--{'again' if again else 'newest'} needs --issue ID: it asks about one cause")
    for option in ("since",) * (since is not None) + ("history",) * (history_file is not None):
        if identity is not None:
            raise UsageError(f"--{option} is about all causes of a run: leave --issue out")
        if kind not in (None, *reports.WITH_OTHER_RUNS):
            raise UsageError(f"--{option} takes --format {' or '.join(reports.WITH_OTHER_RUNS)}, not {kind}")
    if identity is not None and not runs:
        sources = [select.report_with(identity, None)]
        say(f"{identity} is from run {sources[0].parent.name}")
    else:
        sources = [select.report_file(run) for run in runs or (None,)]
    if output is not None and output.resolve() in [source.resolve() for source in sources]:
        raise UsageError(f"-o {output} would overwrite the report that is read: name another file")
    if output is not None:
        select.writable_file(output)
    each = [reports.load(source) for source in sources]
    loaded = each[0] if len(each) == 1 else merged(each)
    strips = _strips(history_file) if history_file is not None else None
    difference = difference_of(loaded, reports.load(select.report_file(since))) if since is not None else None
    if difference is not None and kind is None and strips is None:
        text = "\n".join(difference_in_words(difference))
    elif identity is None:
        text = reports.render(loaded, kind or "html", difference, strips)
    else:
        asked = _asked(loaded, identity, sources[0].parent, newest) if again or newest else None
        text = reports.issue_body(loaded, identity, asked)
    if output is None:
        click.echo(text, nl=not text.endswith("\n"))
        return PASS
    output.write_text(text, encoding="utf-8")
    click.echo(f"{output} written", err=True)
    return PASS


def _strips(path: Path) -> Mapping[str, Sequence[Strip]]:
    from xverify.history.questions import strips_of
    from xverify.history.store import History

    with History(path) as history:
        return strips_of(history)


def _asked(report: dict[str, Any], identity: str, directory: Path, newest: bool) -> Again:
    from xverify.engine.again import ask_again
    from xverify.report.causes import findings_of

    return ask_again(findings_of(report, identity)[0], directory, newest, say)
