"""Merging the reports of several runs into one. `xverify.engine.folding` says how."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from xverify.core.errors import UsageError
from xverify.engine.folding import (
    added,
    joined,
    merged_cells,
    merged_editions,
    merged_findings,
    merged_trust,
    merged_workers,
    own_seconds,
    sum_of_all,
    versions_of,
    with_processors,
)
from xverify.report.schema import SCHEMA, check
from xverify.report.summary import Json
from xverify.verify.causes import causes_of

_DESCRIBED = ("id", "command", "seed", "started", "seconds", "budget", "cases", "complete", "machine", "versions")
"""Facts about each run that the merged report keeps."""


def merged(reports: Sequence[Json]) -> dict[str, Any]:
    """Merge reports into one report of the same schema, whose ``run.merged`` describes each run.

    Counts are added up. Findings with the same id are folded into one. Cells of the same types are joined. Cells of an
    implementation whose version differs between runs stay apart, each with its ``version``.

    Raises:
        ValueError: A report does not follow the schema.
        UsageError: There is no report, or a run appears twice. It is a ValueError.
    """
    if not reports:
        raise UsageError("there is no report to merge")
    for report in reports:
        check(report)
    runs = sorted(
        (run for report in reports for run in _described(report["run"])), key=lambda r: (r["started"], r["id"])
    )
    for identity, count in Counter(run["id"] for run in runs).items():
        if count > 1:
            raise UsageError(f"the run {identity} is there {count} times; its counts would be added up twice")
    several = versions_of(reports)
    whole = {
        "schema": SCHEMA,
        "run": _run(runs, [report["run"] for report in reports]),
        "editions": merged_editions(reports),
        "coverage": {
            "cases": sum(report["coverage"]["cases"] for report in reports),
            "values": sum(report["coverage"]["values"] for report in reports),
            "cells": merged_cells(reports, several),
            "trust": merged_trust([report["coverage"]["trust"] for report in reports]),
        },
        "findings": merged_findings(with_processors(reports)),
    }
    return {**whole, "causes": causes_of(whole)}


def _described(run: Json) -> list[dict[str, Any]]:
    """Return the kept facts of a run, or of each run that was merged into it."""
    if "merged" in run:
        return [dict(run_facts) for run_facts in run["merged"]]
    return [{name: run[name] for name in _DESCRIBED}]


def _run(runs: Sequence[Json], headers: Sequence[Json]) -> dict[str, Any]:
    first = runs[0]
    name = "+".join(run["id"] for run in runs)
    if len(runs) > 3:
        name = f"{len(runs)}-runs-{hashlib.sha256(name.encode()).hexdigest()[:10]}"
    packages = sorted({package for run in runs for package in run["versions"]})
    return {
        "id": name,
        "command": "; ".join(dict.fromkeys(run["command"] for run in runs)),
        "seed": first["seed"],
        "started": first["started"],
        "seconds": round(math.fsum(run["seconds"] for run in runs), 1),
        "budget": sum_of_all([run["budget"] for run in runs]),
        "cases": sum_of_all([run["cases"] for run in runs]),
        "complete": all(run["complete"] for run in runs),
        "versions": {p: joined(run["versions"][p] for run in runs if p in run["versions"]) for p in packages},
        "machine": {
            fact: joined(run["machine"][fact] for run in runs if fact in run["machine"])
            for fact in sorted({fact for run in runs for fact in run["machine"]})
        },
        "phases": added(header["phases"] for header in headers),
        "workers": merged_workers(headers),
        **own_seconds(headers),
        "left_out": list(dict.fromkeys(sentence for header in headers for sentence in header.get("left_out", ()))),
        "merged": list(runs),
    }
