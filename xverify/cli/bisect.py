"""xverify bisect."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from xverify.cli.common import PASS, UNABLE, clear, console_of_output, say
from xverify.core.errors import UsageError

if TYPE_CHECKING:
    from xverify.verify.findings import Finding


@click.command()
@click.argument("finding", metavar="FINDING|FILE")
@click.option("--package", metavar="NAME", help="Whose versions are tried (default: the implementation's own).")
@click.option("--from", "first", default="", metavar="VERSION", help="The oldest to try (default: the oldest offered).")
@click.option("--to", "last", default="", metavar="VERSION", help="The newest to try (default: the newest offered).")
@click.option("--run", metavar="RUN", help="The run that holds the finding (default: the newest).")
@click.option("--runs", type=click.Path(path_type=Path), help="Where runs are (default: reports/runs).")
@click.option("--contract", "files", multiple=True, metavar="FILE", help="An edition of your own.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Also write the result to this file.")
@clear
def bisect(
    finding: str,
    package: str | None,
    first: str,
    last: str,
    run: str | None,
    runs: Path | None,
    files: tuple[str, ...],
    json_file: Path | None,
) -> int:
    """Find the first version that shows a finding, or no longer shows it.

    FINDING is a finding's id, or a report's FILE that holds one. Versions are tried as a search by halves needs them, each
    in an environment that is made once and kept. Exits 0 when that was told, also when nothing changes; 3 when no version
    could be tried."""

    from xverify.engine import select, versions
    from xverify.engine.bisect import bisect as search
    from xverify.environments.cache import versions_offered
    from xverify.report.bisection import bisection_to_json, print_bisection

    start = time.monotonic()
    found = _finding(finding, run, runs or select.RUNS)
    oracle = versions.implementation(found)
    package = package or oracle.distribution
    own = [contract for file in files for contract in select.contracts_of_file(file)]
    if json_file is not None:
        select.writable(json_file.resolve().parent)
    if found.change is not None:
        first, last = first or found.change.older, last or found.change.newer
    chosen = versions.between(versions_offered(package), first, last)
    say(f"{found.id} in {len(chosen)} versions of {package}, {chosen[0]} to {chosen[-1]}")
    with tempfile.TemporaryDirectory(prefix="xverify-") as scratch:
        make = versions.making(oracle, package, say)
        probe = versions.probing(found, make, Path(scratch), own, say)
        result = search(chosen, probe, found.subject.version)
    print_bisection(result, package, found.id, len(chosen), console_of_output())
    if json_file is not None:
        data = bisection_to_json(result, package, found.id, chosen, time.monotonic() - start)
        json_file.write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return PASS if result.tried else UNABLE


def _finding(finding: str, run: str | None, runs: Path) -> Finding:
    """The one that is meant. Raises UsageError, and DamagedFileError for one without a witness."""
    from xverify import report as reports
    from xverify.engine import select
    from xverify.engine.replay import finding_from_report

    is_file = Path(finding).exists()
    path = select.report_file(finding if is_file else run, runs)
    entries = reports.load(path)["findings"]
    if is_file:
        if len(entries) != 1:
            some = ", ".join(entry["id"] for entry in entries[:3])
            listed = f": {some}{', ...' if len(entries) > 3 else ''}" if entries else ""
            raise UsageError(
                f"{path} holds {len(entries)} findings, and one is wanted: give its id and --run {path}{listed}"
            )
    else:
        entries = [entry for entry in entries if entry["id"] == finding]
        if not entries:
            raise UsageError(f"{path} has no finding {finding!r}")
    return finding_from_report(entries[0], path.parent)
