"""xverify replay."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from xverify.cli.common import FINDINGS, PASS, clear


@click.command()
@click.argument("finding")
@click.option("--run", metavar="RUN", help="The run that holds the finding (default: the newest).")
@click.option("--contract", "files", multiple=True, metavar="FILE", help="The Python file of an edition of your own.")
@clear
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
