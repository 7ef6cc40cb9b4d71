"""The run directory of a run whose shards a runner has made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from xverify import report as reports
from xverify.core.errors import DamagedFileError
from xverify.engine import shards
from xverify.engine.store import write_json
from xverify.report.schema import check


def merged_run(results: Sequence[Path], directory: Path, command: str, seconds: float) -> shards.Merged:
    """Combine the results of shards, and write the report of the run into its directory.

    Args:
        results: The ``shard.json`` of each shard.
        directory: The directory of the run.
        command: The command line of the run, for the report.
        seconds: Seconds that the run took.

    Raises:
        DamagedFileError: A file is damaged.
        UsageError: The shards are of different runs, as those of workers with other versions.
    """
    each = [shards.read_shard(path) for path in results]
    for result in each:
        for session in result.sessions:
            try:
                check({**session.report, "causes": []})
            except ValueError as error:
                raise DamagedFileError(f"{result.path}: {error}") from None
    merged = shards.merge(each)
    report = merged.report
    report["run"] |= {"id": directory.resolve().name, "command": command, "seconds": round(seconds, 1)}
    origins = [(session, result.path.parent) for result in merged.used for session in result.sessions]
    shards.copy_calls(report, origins, directory)
    with (directory / "findings.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(
            json.dumps(finding, ensure_ascii=False, allow_nan=False) + "\n" for finding in report["findings"]
        )
    write_json(directory / "report.json", report)
    reports.write_files(report, directory)
    return merged
