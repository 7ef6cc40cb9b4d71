"""xverify ledger: what is known to be wrong, and accepted for a while."""

from __future__ import annotations

from pathlib import Path

import click

from xverify.cli.common import PASS, clear, console_of_output
from xverify.core.errors import UsageError

FILE = click.Path(path_type=Path)


@click.group()
def ledger() -> None:
    """The known findings that a gate does not fail on: list, accept, prune."""


@ledger.command("list")
@click.option("--ledger", "path", type=FILE, help="The file (default: reports/ledger.toml).")
@clear
def list_entries(path: Path | None) -> int:
    """Show every entry: its name, what is known, why it is accepted, and until when."""
    from datetime import date

    from xverify.engine import select
    from xverify.gate import ledger_file
    from xverify.gate.ledger_list import print_ledger

    path = path or select.LEDGER
    print_ledger(ledger_file.read(path), path, date.today(), console_of_output())
    return PASS


@ledger.command()
@click.argument("finding")
@click.option("--reason", required=True, metavar="TEXT", help="Why it is accepted.")
@click.option("--owner", default="", metavar="NAME", help="Who sees to it.")
@click.option("--expires", metavar="DATE|DAYS", help="From when it counts again: 2027-02-21, or 90d from today.")
@click.option("--name", default="", metavar="NAME", help="A short name for the entry (default: the finding's id).")
@click.option("--run", metavar="RUN", help="The run that holds the finding (default: the newest).")
@click.option("--ledger", "path", type=FILE, help="The file (default: reports/ledger.toml).")
@clear
def accept(
    finding: str, reason: str, owner: str, expires: str | None, name: str, run: str | None, path: Path | None
) -> int:
    """Add a finding to the ledger, as narrow as it was seen: its recipe, and the cells that it was seen in."""
    from datetime import date

    from xverify import report as reports
    from xverify.engine import select
    from xverify.gate import ledger_file
    from xverify.gate.ledger import entry_from_finding

    source = select.report_file(run)
    entries = {entry["id"]: entry for entry in reports.load(source)["findings"]}
    if finding not in entries:
        hint = select.nearest(finding, entries)
        raise UsageError(f"{source} has no finding {finding!r}{hint}")
    if entries[finding]["known"]:
        raise UsageError(f"{finding} is in the ledger already, as {entries[finding]['ledger']['entry']}")
    until = None if expires is None else select.day(expires, date.today())
    path = path or select.LEDGER
    try:
        entry = entry_from_finding(entries[finding], reason, date.today(), owner, until, name, source.parent)
        ledger_file.accept(path, entry)
    except ValueError as error:
        raise UsageError(f"{finding} cannot be accepted: {error}") from None
    click.echo(f"{path}: {entry.name} accepted{f' until {until}' if until else ''}; its scope can be edited there")
    return PASS


@ledger.command()
@click.option("--run", metavar="RUN", help="The gate's run that says what is stale (default: the newest).")
@click.option("--ledger", "path", type=FILE, help="The file (default: reports/ledger.toml).")
@click.argument("names", nargs=-1)
@clear
def prune(names: tuple[str, ...], run: str | None, path: Path | None) -> int:
    """Remove the entries that the last gate found stale, or those named."""
    from xverify import report as reports
    from xverify.engine import select
    from xverify.gate import ledger_file

    path = path or select.LEDGER
    there = {entry.name for entry in ledger_file.read(path).entries}
    if names:
        if missing := [name for name in names if name not in there]:
            raise UsageError(f"{path} has no entry {missing[0]!r}{select.nearest(missing[0], there)}")
        chosen = list(names)
    else:
        source = select.report_file(run)
        report = reports.load(source)
        if "gate" not in report:
            raise UsageError(f"{source} is no gate's report: run xverify gate first, or name the entries")
        chosen = [name for name in report["gate"]["stale"] if name in there]
    if not chosen:
        click.echo(f"{path}: nothing is stale")
        return PASS
    ledger_file.prune(path, chosen)
    click.echo(f"{path}: {', '.join(chosen)} removed")
    return PASS
