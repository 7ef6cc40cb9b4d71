"""The commands ``xverify history list``, ``show``, ``record``, ``new`` and ``gone``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xverify.cli.common import FINDINGS, PASS, clear, console_of_output, say

if TYPE_CHECKING:
    from xverify.history.presence import CauseHistory
    from xverify.report.presence import Change, Difference

FILE = click.option(
    "--file",
    "path",
    type=click.Path(path_type=Path),
    help="History to read or to change.  [default: reports/history.sqlite]",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
RUN = click.option("--run", metavar="RUN", help="Id of the run to compare.  [default: the newest]")
SINCE = click.option(
    "--since", metavar="RUN", help="Compare with this run and those before it.  [default: the run before]"
)


@click.group(invoke_without_command=True)
@FILE
@JSON
@click.pass_context
def history(context: click.Context, path: Path | None, as_json: bool) -> None:
    """Keep runs, and tell since when and in which versions each cause is there.

    Without a command, it lists the runs and the causes.

    Exit codes: 0 done, 1 new causes (see new), 2 wrong usage or a damaged file, 3 the file cannot be used.
    """
    if context.invoked_subcommand is None:
        context.invoke(list_runs, path=path, as_json=as_json)
    elif path is not None or as_json:
        raise click.UsageError(f"write the options after the command: xverify history {context.invoked_subcommand} ...")


@history.command("list", short_help="List the runs, and every cause over versions.")
@FILE
@JSON
@clear
def list_runs(path: Path | None, as_json: bool) -> int:
    """List the runs, and every cause with a strip over versions, or over runs if there is one version.

    Exit codes: 0 listed, 2 no such file, or it is damaged.
    """
    from xverify.history.show import labels, overview
    from xverify.history.store import HISTORY, History

    with History(path or HISTORY) as opened:
        runs, causes = opened.runs(), opened.causes()
    if as_json:
        _print_json(
            {
                "runs": [asdict(run) for run in runs],
                "causes": [_cause(each, labels(runs)) for each in causes],
            }
        )
    elif not runs:
        click.echo("no runs; add one with: xverify history record RUN")
    else:
        _print(overview(runs, causes), is_cut=True)
    return PASS


@history.command(short_help="Show CAUSE over versions and runs.")
@click.argument("cause")
@FILE
@JSON
@clear
def show(cause: str, path: Path | None, as_json: bool) -> int:
    """Show CAUSE, the id of a cause: in which versions and runs it is present, absent or unknown.

    Exit codes: 0 shown, 2 no such cause.
    """
    from xverify.history.questions import cause_named
    from xverify.history.show import labels, one_cause
    from xverify.history.store import HISTORY, History

    with History(path or HISTORY) as opened:
        runs, named = opened.runs(), cause_named(opened, cause)
    if as_json:
        _print_json(_cause(named, labels(runs)))
    else:
        _print(one_cause(named, runs))
    return PASS


@history.command(short_help="Add runs.")
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@FILE
@clear
def record(runs: tuple[str, ...], path: Path | None) -> int:
    """Add runs to the history.

    RUN is the id of a run, its folder, or a report.json. The default is the newest run. A run is added once. Merged
    reports, and reports of older versions of xverify, are added too.

    Exit codes: 0 added, or there already; 2 no such run, or a damaged file.
    """
    from xverify import report as reports
    from xverify.engine import select
    from xverify.history.store import HISTORY, History

    sources = [select.report_file(run) for run in runs or (None,)]
    with History(path or HISTORY, create=True) as opened:
        for source in sources:
            added = opened.record(reports.load(source))
            click.echo(f"{opened.path}: {added.words}")
    return PASS


@history.command(short_help="List the causes that are new in the last run.")
@RUN
@SINCE
@FILE
@JSON
@clear
def new(run: str | None, since: str | None, path: Path | None, as_json: bool) -> int:
    """List the causes that the last run shows and that no run before it showed, or that were gone.

    Exit codes: 0 nothing new, 1 new causes, 2 wrong usage, 3 the file cannot be used.
    """
    compared = _compared(path, run, since)
    if compared is not None:
        _print_difference(compared, (compared.new, compared.unseen), "no new cause", as_json)
    return FINDINGS if compared is not None and compared.has_new else PASS


@history.command(short_help="List the causes that are gone in the last run.")
@RUN
@SINCE
@FILE
@JSON
@clear
def gone(run: str | None, since: str | None, path: Path | None, as_json: bool) -> int:
    """List the causes that the last run no longer shows, though it made enough calls that could show them.

    Exit codes: 0 listed, 2 wrong usage, 3 the file cannot be used.
    """
    compared = _compared(path, run, since)
    if compared is not None:
        _print_difference(compared, (compared.gone, compared.uncovered), "no cause is gone", as_json)
    return PASS


def _compared(path: Path | None, run: str | None, since: str | None) -> Difference | None:
    """The difference of a run from those before it; None, and a sentence, if it is the first."""
    from xverify.history.questions import NoRunBeforeError, newest_difference
    from xverify.history.store import HISTORY, History

    with History(path or HISTORY) as opened:
        try:
            return newest_difference(opened, run, since)
        except NoRunBeforeError as error:
            say(str(error))
            return None


def _print_difference(compared: Difference, groups: tuple[Sequence[Change], ...], nothing: str, as_json: bool) -> None:
    """Print groups of a difference, or a sentence if they are empty; as JSON, the whole difference."""
    from xverify.history.show import parts

    if as_json:
        _print_json(asdict(compared))
    else:
        _print(parts(compared, groups, nothing))


def _cause(cause: CauseHistory, labels: dict[int, str]) -> dict[str, Any]:
    strips = [*cause.over_versions(), cause.over_runs(labels)]
    return {
        "id": cause.id,
        "kind": cause.kind,
        "implementations": cause.families,
        "sights": {labels[run]: asdict(sight) for run, sight in cause.sights.items()},
        "strips": [{**asdict(strip), "since": strip.since} for strip in strips],
    }


def _print(lines: Iterable[str], is_cut: bool = False) -> None:
    width = console_of_output().width
    for line in lines:
        click.echo(line[: width - 3] + "..." if is_cut and len(line) > width else line)


def _print_json(data: Any) -> None:
    click.echo(json.dumps(data, indent=1, ensure_ascii=False))
