"""Runs of the hand-made report, with other versions and other findings."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from sample_report import sample_report

from xverify.report.schema import OLDER, upgraded


def run(number: int, version: str = "1.27.0", shows: bool = True, covers: bool = True, **facts: Any) -> dict[str, Any]:
    """Return the sample as another run.

    Args:
        number: Number of the run: its id is ``run-N``, and it starts on day N.
        version: Version of onnxruntime.
        shows: Whether onnxruntime subtracts with wrap-around.
        covers: Whether onnxruntime answers the calls that would show it.
        facts: Other entries of the run.
    """
    report = sample_report()
    report["run"] |= {"id": f"run-{number}", "started": f"2026-08-{number:02}T03:00:00Z"} | facts
    for entry in [*report["run"]["workers"], *(finding["subject"] for finding in report["findings"])]:
        if entry["name"] == "onnxruntime":
            entry["version"] = version
    if not (shows and covers):
        report["findings"] = [finding for finding in report["findings"] if not is_wrap(finding)]
        for cell in report["coverage"]["cells"]:
            if cell["subject"].startswith("onnxruntime") and cell["x_dtype"] == "int32":
                cell["status"] = "agrees" if covers else "unsupported"
    return regrouped(report)


def is_wrap(finding: dict[str, Any]) -> bool:
    return bool(finding["verdict"] == "violation" and finding["subject"]["name"] == "onnxruntime")


def regrouped(report: dict[str, Any]) -> dict[str, Any]:
    """Return a report with the causes of its findings."""
    return dict(upgraded({**copy.deepcopy(report), "schema": OLDER}))


def wrap_of(report: dict[str, Any]) -> str:
    """Return the id of the cause that ``shows`` adds."""
    (finding,) = (finding["id"] for finding in report["findings"] if is_wrap(finding))
    return str(next(cause["id"] for cause in report["causes"] if finding in cause["findings"]))


def written(report: dict[str, Any], folder: Path) -> str:
    """Write a report and return its path."""
    path = folder / f"{report['run']['id']}.json"
    path.write_text(json.dumps(report), encoding="utf-8")
    return str(path)
