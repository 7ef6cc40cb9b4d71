"""What a gate prints and writes for people and for CI services."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from xverify.gate import markdown
from xverify.gate.annotations import annotation_lines
from xverify.gate.ledger_list import print_ledger
from xverify.gate.terminal import print_decision

__all__ = ["announce", "append_markdown", "print_ledger"]


def announce(
    report: dict[str, Any], console: Console, html: Path, environment: Mapping[str, str] | None = None
) -> None:
    """Print the decision, after annotations where this runs on a CI service that takes them.

    report: of a gate. html: the report for a browser, which is named. environment: variables, those of this process by default.
    """
    for line in annotation_lines(report, os.environ if environment is None else environment):
        # Not by rich, which folds lines and takes characters out of them.
        console.file.write(line + "\n")
    print_decision(report, console, html)


def append_markdown(report: dict[str, Any], path: Path) -> None:
    """Append a summary of a gate's report to a page, such as the file that ``$GITHUB_STEP_SUMMARY`` names. Raises OSError."""
    with path.open("a", encoding="utf-8", errors="replace") as file:
        file.write(markdown.render(report))
