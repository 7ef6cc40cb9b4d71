"""The command ``xverify bisect``."""

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
@click.option("--package", metavar="NAME", help="Package whose versions to try.  [default: the implementation's own]")
@click.option(
    "--from", "first", default="", metavar="VERSION", help="Oldest version to try.  [default: the oldest available]"
)
@click.option(
    "--to", "last", default="", metavar="VERSION", help="Newest version to try.  [default: the newest available]"
)
@click.option(
    "--run", metavar="RUN", help="Run that holds the finding: id, folder or report.  [default: the newest that has it]"
)
@click.option("--runs", type=click.Path(path_type=Path), help="Folder that holds the runs.  [default: reports/runs]")
@click.option(
    "--contract", "files", multiple=True, metavar="FILE", help="Python file with an edition of your own. Repeatable."
)
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Also write the result (JSON) to this file.")
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
    """Find the version in which a finding appears or disappears.

    FINDING is the id of a cause or finding, or the FILE of a report that holds exactly one. The command installs versions as a
    binary search needs them, each into its own environment, which is kept.

    Exit codes: 0 answered (also if no version differs), 2 wrong usage, 3 no version could be tried.
    """

    from xverify.engine import select, versions
    from xverify.engine.bisect import bisect as search
    from xverify.environments.cache import versions_offered
    from xverify.report.bisection import bisection_to_json, print_bisection

    start = time.monotonic()
    target = _finding(finding, run, runs or select.RUNS)
    oracle = versions.implementation(target)
    package = package or oracle.distribution
    own = [contract for file in files for contract in select.contracts_of_file(file)]
    if json_file is not None:
        select.writable_file(json_file)
    if target.change is not None:
        first, last = first or target.change.older, last or target.change.newer
    chosen = versions.between(versions_offered(package), first, last)
    say(f"{target.id} in {len(chosen)} versions of {package}, {chosen[0]} to {chosen[-1]}")
    with tempfile.TemporaryDirectory(prefix="xverify-") as scratch:
        make = versions.making(oracle, package, say)
        probe = versions.probing(target, make, Path(scratch), own, say)
        result = search(chosen, probe, target.subject.version)
    print_bisection(result, package, target.id, len(chosen), console_of_output())
    if json_file is not None:
        data = bisection_to_json(result, package, target.id, chosen, time.monotonic() - start)
        json_file.write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return PASS if result.tried else UNABLE


def _finding(finding: str, run: str | None, runs: Path) -> Finding:
    """Load the finding that an argument names.

    Raises:
        UsageError: There is no such finding, or the file holds several.
        DamagedFileError: The finding has no call.
    """
    from xverify import report as reports
    from xverify.engine import select
    from xverify.engine.replay import finding_from_report
    from xverify.report.causes import findings_of

    is_file = Path(finding).exists()
    if not is_file and (finding.endswith(".json") or "/" in finding):
        raise UsageError(f"there is no file {finding}")
    path = select.report_file(finding, runs) if is_file else select.report_with(finding, run, runs)
    if not is_file and run is None:
        say(f"{finding} is from run {path.parent.name}")
    report = reports.load(path)
    entries = report["findings"]
    if is_file:
        if len(entries) != 1:
            first_ids = ", ".join(entry["id"] for entry in entries[:3])
            listed = f": {first_ids}{', ...' if len(entries) > 3 else ''}" if entries else ""
            raise UsageError(
                f"{path} holds {len(entries)} findings, but bisect takes one: give its id and --run {path}{listed}"
            )
    else:
        entries = findings_of(report, finding)
    return finding_from_report(entries[0], path.parent)
