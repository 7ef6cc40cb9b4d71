"""The files of a run beside its report.json: the HTML, and a stand-alone script for each finding."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xverify.report import render
from xverify.report.script import scripts_of


def write_files(report: Mapping[str, Any], directory: Path) -> None:
    """Write ``report.html`` and ``scripts/<finding id>.py`` into a run's directory."""
    folder = directory / "scripts"
    folder.mkdir(parents=True, exist_ok=True)
    for identity, text in scripts_of(report).items():
        (folder / f"{identity}.py").write_text(text, encoding="utf-8")
    (directory / "report.html").write_text(render(report, "html"), encoding="utf-8")
