"""The commands ``xverify ledger list``, ``accept`` and ``prune``."""

from __future__ import annotations

from pathlib import Path

import click

from xverify.cli.common import PASS, clear, console_of_output
from xverify.core.errors import UsageError
from xverify.core.near import nearest

FILE = click.Path(path_type=Path)


@click.group()
def ledger() -> None:
    """List, accept and remove known findings.

    A gate does not fail on a finding that the ledger accepts, until the entry expires.

    Exit codes: 0 done, 2 wrong usage or a damaged file.
    """


@ledger.command("list", short_help="Print every entry.")
@click.option("--ledger", "path", type=FILE, help="Ledger to read.  [default: reports/ledger.toml]")
@clear
def list_entries(path: Path | None) -> int:
    """Print every entry: its name, the finding, the reason, the owner and the expiry date.

    Exit codes: 0 listed, 2 the file is damaged.
    """
    from datetime import date

    from xverify.engine import select
    from xverify.gate import ledger_file
    from xverify.gate.ledger_list import print_ledger

    path = path or select.LEDGER
    print_ledger(ledger_file.read(path), path, date.today(), console_of_output())
    return PASS


@ledger.command(short_help="Add FINDING to the ledger.")
@click.argument("finding")
@click.option("--reason", required=True, metavar="TEXT", help="Reason for accepting the finding. Required.")
@click.option("--owner", default="", metavar="NAME", help="Person or team that is responsible.  [default: none]")
@click.option(
    "--expires",
    metavar="DATE|DAYS",
    help="Day from which the finding fails the gate again: 2027-02-21, or 90d from today.  [default: never]",
)
@click.option("--name", default="", metavar="NAME", help="Short name of the entry.  [default: the finding's id]")
@click.option(
    "--run", metavar="RUN", help="Run that holds the finding: id, folder or report.  [default: the newest that has it]"
)
@click.option("--ledger", "path", type=FILE, help="Ledger to change.  [default: reports/ledger.toml]")
@clear
def accept(
    finding: str, reason: str, owner: str, expires: str | None, name: str, run: str | None, path: Path | None
) -> int:
    """Accept FINDING, the id of a cause or finding: add it to the ledger.

    A cause adds an entry for each of its findings. An entry covers only the recipe and the
    cells that were seen. Its scope can be edited in the file.

    Exit codes: 0 accepted, 2 no such finding, or it cannot be accepted.
    """
    from datetime import date

    from xverify import report as reports
    from xverify.engine import select
    from xverify.gate import ledger_file
    from xverify.gate.ledger import entry_from_finding
    from xverify.report.causes import findings_of

    source = select.report_with(finding, run)
    entries = findings_of(reports.load(source), finding)
    new = [entry for entry in entries if not entry["known"]]
    if not new:
        raise UsageError(f"{finding} is in the ledger already, as {entries[0]['ledger']['entry']}")
    if name and len(new) > 1:
        raise UsageError(f"--name names one entry, and {finding} has {len(new)} findings; leave it out")
    until = None if expires is None else select.day(expires, date.today())
    path = path or select.LEDGER
    when = f" until {until}" if until else ""
    seen = "" if run else f", as seen in run {source.parent.name}"
    try:
        accepted = [entry_from_finding(each, reason, date.today(), owner, until, name, source.parent) for each in new]
        for entry in accepted:
            ledger_file.accept(path, entry)
    except ValueError as error:
        raise UsageError(f"{finding} cannot be accepted: {error}") from None
    for entry in accepted:
        click.echo(f"{path}: {entry.name} accepted{when}{seen}; its scope can be edited there")
    return PASS


@ledger.command(short_help="Remove stale entries, or NAMES.")
@click.option("--run", metavar="RUN", help="Run of a gate that lists the stale entries.  [default: the newest]")
@click.option("--ledger", "path", type=FILE, help="Ledger to change.  [default: reports/ledger.toml]")
@click.argument("names", nargs=-1)
@clear
def prune(names: tuple[str, ...], run: str | None, path: Path | None) -> int:
    """Remove the entries that the last gate found stale, or the entries NAMES.

    Exit codes: 0 removed, or nothing to remove; 2 wrong usage.
    """
    from xverify import report as reports
    from xverify.engine import select
    from xverify.gate import ledger_file

    path = path or select.LEDGER
    names_in_file = {entry.name for entry in ledger_file.read(path).entries}
    if names:
        if missing := [name for name in names if name not in names_in_file]:
            raise UsageError(f"{path} has no entry {missing[0]!r}{nearest(missing[0], names_in_file)}")
        chosen = list(names)
    else:
        source = select.report_file(run)
        report = reports.load(source)
        if "gate" not in report:
            raise UsageError(f"{source} is not the report of a gate: run xverify gate first, or name the entries")
        chosen = [name for name in report["gate"]["stale"] if name in names_in_file]
    if not chosen:
        click.echo(f"{path}: nothing is stale")
        return PASS
    ledger_file.prune(path, chosen)
    click.echo(f"{path}: {', '.join(chosen)} removed")
    return PASS
