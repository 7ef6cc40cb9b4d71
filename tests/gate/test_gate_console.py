"""Other output for a gate's user: the first fault during the run, and the list of ledger entries."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

from gate_readers import console, text_of
from sample_gate import KERNEL
from sample_report import ONNX

from xverify.engine import events
from xverify.gate.ledger import Condition, Entry, Ledger, Recipes
from xverify.gate.ledger_list import print_ledger
from xverify.report.console import ConsoleProgress


def test_the_first_fault_is_said_at_once_to_a_gates_user_and_not_to_a_sweeps() -> None:
    said = [
        events.SweepStarted("one", (ONNX,), (KERNEL, f"{KERNEL}[threads]"), 60.0, None),
        events.FaultSeen(KERNEL, ONNX, "walk structure 9", 0.84),
        events.ShrinkStarted(0),
    ]
    for task, expected in (
        ("gate", [f"gate one: {ONNX}, {KERNEL}", f"fault seen after 0.8 s: {KERNEL} under {ONNX}"]),
        ("sweep", [f"sweep one: 1 edition, {KERNEL}", "shrinking 0 findings"]),
    ):
        made = console()
        progress = ConsoleProgress(made, task)
        for event in said:
            progress(event)
        assert text_of(made).splitlines() == expected


def entry(**changes: Any) -> Entry:
    made = {
        "name": "tail",
        "subject": "kernels.py:*",
        "contract": ONNX,
        "verdict": "violation",
        "reason": "until the new [tail] loop",
        "accepted": date(2026, 1, 1),
    }
    return Entry(**{**made, **changes})


def listed(*entries: Entry) -> list[str]:
    made = console()
    print_ledger(Ledger(entries), Path("reports/ledger.toml"), date(2026, 2, 1), made)
    return [" ".join(line.split()) for line in text_of(made).splitlines()]


def test_the_ledger_is_listed_with_state_scope_reason_and_owner() -> None:
    scope = (
        Condition("x_dtype", ("int8", "uint*")),
        Condition("zero_point_dtype", ("",)),
        Condition("rank", (), 2, 7),
        Condition("values", (), 100, None),
        Condition("axis", (), None, 3),
        Condition("block_size", tuple(range(1, 20))),
    )
    lines = listed(
        entry(
            scope=scope, region="y is subnormal", owner="kim", summary="zeros", recipes=Recipes("zeros", "exact"),
            expires=date(2026, 2, 10), clause=f"{ONNX}/formula",
        ),
        entry(name="second", expires=date(2026, 2, 1)),
        entry(name="third"),
    )  # fmt: skip
    in_words = (
        "scope x_dtype int8 or uint*; zero_point_dtype none; rank 2 to 7; values at least 100; axis at most 3; "
        "block_size 1 or 2 or 3 or 4 or 5 or 6 or 7 or 8 or 11 more; where y is subnormal"
    )
    for said in (
        "reports/ledger.toml: 3 known findings, 1 expired",
        "tail active, expires in 9 days (2026-02-10)",
        "what violation: zeros",
        f"of kernels.py:* under {ONNX}",
        f"clause {ONNX}/formula",
        "gives zeros, and exact elsewhere",
        in_words,
        "reason until the new [tail] loop",
        "accepted 2026-01-01 by kim",
        "second expired on 2026-02-01: a gate fails on it",
        "third active, never expires",
        "scope every call",
    ):
        assert said in lines, said


def test_an_empty_ledger_is_said_to_be_empty_and_text_in_one_does_no_harm() -> None:
    assert listed() == ["reports/ledger.toml: no known findings; a gate fails on everything that it finds"]
    (line,) = [line for line in listed(entry(reason="a\n::error::b\x1b[31m##vso[x]")) if line.startswith("reason")]
    assert line == "reason a : :error::b\N{REPLACEMENT CHARACTER}[31m# #vso[x]"
