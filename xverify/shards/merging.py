"""Shards that are combined: their files, checked, and the run directory of the whole."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from xverify import report as reports
from xverify.core.errors import DamagedFileError
from xverify.engine import shard_results
from xverify.engine.store import write_json
from xverify.report.schema import check


def merged_shards(files: Iterable[Path]) -> shard_results.Merged:
    """Combine the ``shard.json`` of each shard.

    Raises:
        DamagedFileError: A file is damaged.
        UsageError: The shards are of different runs, as those of workers with other versions.
    """
    results = [shard_results.read_shard(file) for file in files]
    for result in results:
        for session in result.sessions:
            try:
                check({**session.report, "causes": []})
            except ValueError as error:
                raise DamagedFileError(f"{result.path}: {error}") from None
    return shard_results.merge(results)


def write_run(merged: shard_results.Merged, directory: Path) -> None:
    """Write the files of a run into its directory. The run gets the directory's name."""
    report = merged.report
    report["run"]["id"] = directory.resolve().name
    directory.mkdir(parents=True, exist_ok=True)
    origins = [(session, result.path.parent) for result in merged.used for session in result.sessions]
    shard_results.copy_calls(report, origins, directory)
    with (directory / "findings.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(
            json.dumps(finding, ensure_ascii=False, allow_nan=False) + "\n" for finding in report["findings"]
        )
    write_json(directory / "report.json", report)
    reports.write_files(report, directory)
