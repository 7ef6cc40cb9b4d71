"""What a gate prints and writes for people and for CI services."""

from __future__ import annotations

import shlex
from datetime import date
from pathlib import Path
from typing import Any

from rich.console import Console

from xverify.gate.ledger import Ledger


def announce(report: dict[str, Any], console: Console, html: Path) -> None:
    gate = report["gate"]
    for finding in report["findings"]:
        if finding["id"] in gate["failing"]:
            console.print(f"{finding['verdict']}: {finding['summary']}", soft_wrap=True, markup=False)
            console.print(
                f"  xverify replay {shlex.quote(finding['line'])} --kernel {gate['target']}",
                soft_wrap=True,
                markup=False,
            )
    console.print(
        f"{gate['outcome']} {gate['reason']} first verdict {gate['first_verdict_seconds']} s, fault {gate['first_fault_seconds']}; walked {gate['walked']}; {gate['calls']} calls, stale {gate['stale']}",
        markup=False,
        soft_wrap=True,
    )
    console.print(f"report: {html}", soft_wrap=True)


def append_markdown(report: dict[str, Any], path: Path) -> None:
    pass


def print_ledger(ledger: Ledger, path: Path, today: date, console: Console) -> None:
    for entry in ledger.entries:
        console.print(f"{entry.name} {entry.summary}")
