"""A hand-made gate report with new, expired, changed, known and harmless findings.

It is made from the sample report of a sweep.
"""

from __future__ import annotations

from typing import Any

from sample_report import HOSTILE, ONNX, cell_key, sample_report

from xverify.verify.causes import causes_of

KERNEL = "kernels/mine.py:dequantize"
LINE = f"{ONNX} x=int8[1]:03 scale=float32[]:3f000000"
STATES = {
    "violation": ("new", ""),
    "crash": ("new", ""),
    "wrongly-rejected": ("expired", "blocked-int8"),
    "nondeterministic": ("changed", "threads"),
    "memory": ("known", "writes-input"),
    "ambiguity": ("new", ""),
}


def gate_report(outcome: str = "findings", reason: str = "", **gate: Any) -> dict[str, Any]:
    """Return a report with the findings of `STATES`. Faults fail unless they are known.

    With another outcome the report has the known finding only.
    """
    report = sample_report()
    cells = [cell for cell in report["coverage"]["cells"] if cell["subject"] == "xverify-numpy"]
    report["coverage"]["cells"] = [{**cell, "subject": KERNEL} for cell in cells if cell["contract"] == ONNX]
    report["editions"] = [edition for edition in report["editions"] if edition["id"] == ONNX]
    for clause in report["editions"][0]["clauses"]:
        for name in ("follow", "depart", "untold"):
            clause.pop(name, None)
    found = [finding for finding in report["findings"] if finding["verdict"] in STATES]
    for finding in found:
        state, entry = STATES[finding["verdict"]]
        finding["known"], finding["ledger"] = state == "known", {"state": state, "entry": entry}
        finding["line"], finding["readings"] = LINE, []
        finding["contract"], finding["clause"] = ONNX, f"{ONNX}/formula"
        finding["summary"] = finding["summary"].replace(finding["subject"]["name"], KERNEL)
        finding["subject"] = {"name": KERNEL, "version": "sha256:0", "role": "kernel", "options": ""}
        finding["cells"] = [{**cell, "contract": ONNX} for cell in finding["cells"]]
    by_verdict = {finding["verdict"]: finding for finding in found}
    by_verdict["violation"]["readings"] = ["wraps-int32@exact", "a+b"]
    by_verdict["crash"]["cells"] = []
    by_verdict["nondeterministic"]["cells"] = [cell_key(ONNX)]
    report["findings"] = found if outcome == "findings" else [by_verdict["memory"]]
    failing = [finding["id"] for finding in found if finding["verdict"] != "ambiguity" and not finding["known"]]
    report["gate"] = {
        "kernel": KERNEL,
        "target": KERNEL,
        "version": "sha256:0",
        "like": None,
        "denormals": "keep",
        "outcome": outcome,
        "reason": reason,
        "failing": failing if outcome == "findings" else [],
        "stale": ["old-one"],
        "ledger": "reports/ledger.toml",
        "walked": True,
        "first_verdict_seconds": 0.91,
        "first_fault_seconds": None,
        "stopped_early": False,
        "unsupported": [],
        "calls": 12_345,
        **gate,
    }
    return regrouped(report)


def regrouped(report: dict[str, Any]) -> dict[str, Any]:
    """Return the report with the causes of its present findings."""
    report["causes"] = causes_of(report)
    return report


def many_crashes(report: dict[str, Any], number: int, **more: Any) -> dict[str, Any]:
    """Return the report with as many crashes of different causes as its only findings. All fail."""
    crash = finding_of(report, "crash")
    report["findings"] = []
    for each in range(number):
        got = {**crash["witness"]["got"], "message": f"killed by SIGABRT\nfailed in {'ab' * (each + 1)}"}
        named = {"id": f"crash-{each:010x}", "witness": {**crash["witness"], "got": got}}
        report["findings"].append({**crash, **named, **more})
    report["gate"]["failing"] = [finding["id"] for finding in report["findings"]]
    return regrouped(report)


def finding_of(report: dict[str, Any], verdict: str) -> dict[str, Any]:
    (found,) = [finding for finding in report["findings"] if finding["verdict"] == verdict]
    return dict(found)


COMMANDS = (
    "\n::error::first\r\n##vso[task.setvariable variable=a]b\n##teamcity[buildStop]\x1b]0;title\x07\u202e%0A::error::x"
)
"""Text that is a command of every CI service and of a terminal if it is not escaped."""


def hostile_gate_report() -> dict[str, Any]:
    """Return the report with hostile text wherever a kernel or a ledger's author can put text."""
    report = gate_report()
    harm = HOSTILE + COMMANDS + "\n```\n| cell |\n"
    for finding in report["findings"]:
        finding["summary"] += harm
        finding["ledger"]["entry"] += harm
        if finding["witness"]["got"]["tensor"] is None:
            finding["witness"]["got"]["message"] = harm
    report["gate"]["reason"] = harm
    report["gate"]["stale"] = [harm]
    return report
