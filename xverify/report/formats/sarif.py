"""The causes of a report as SARIF 2.1.0, which code-scanning pages show beside the code.

A rule is a kind of finding with its clause, without the edition's version: so an alert survives a new edition. A result is
a cause. A gate without a decision has no results and an unsuccessful invocation.

Source:
    OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0".
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from xverify.core.severity import Severity
from xverify.report import causes, decision, summary
from xverify.report.causes import Cause
from xverify.report.decision import SHORT_LINE, plain, replay_line
from xverify.report.kernel_file import in_repository, place
from xverify.report.summary import Json
from xverify.verify.cause_keys import operator_of

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

FINGERPRINT = "xverifyCause/v1"
"""The name of the fingerprint that holds a cause's id."""

_LEVELS: Mapping[Severity, str] = {
    Severity.ENDS_PROCESS: "error",
    Severity.WRONG: "error",
    Severity.LAST_PLACES: "error",
    Severity.REFUSES: "warning",
    Severity.NO_VALIDATION: "warning",
    Severity.OPEN: "note",
}


def render(report: Json) -> str:
    """Return a log with one run: a rule for each clause and kind of finding, and a result for each cause."""
    listed = causes.causes(report)
    rules: dict[str, Json] = {}
    for cause in listed:
        rules.setdefault(_rule_id(cause), _rule(report, cause))
    places = list(rules)
    driver = {
        "name": "xverify",
        "version": str(report["run"]["versions"].get("xverify", "")),
        "rules": list(rules.values()),
    }
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"xverify/{_subject(report)}/"},
        "invocations": [_invocation(report)],
        "results": [_result(report, cause, places.index(_rule_id(cause))) for cause in listed],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1, ensure_ascii=False) + "\n"


def _subject(report: Json) -> str:
    """The kernel of a gate. Uploads with different names do not replace each other."""
    if "gate" not in report:
        return "sweep"
    file, separator, name = str(report["gate"]["target"]).rpartition(":")
    return plain(f"{in_repository(file) if os.path.isabs(file) else file}{separator}{name}")


def _invocation(report: Json) -> Json:
    gate = report.get("gate")
    reason = "" if gate is None or gate["outcome"] != "unable" else plain(gate["reason"])
    notes = [{"level": "error", "message": {"text": reason}}] if reason else []
    return {
        "executionSuccessful": bool(report["run"]["complete"]) and not reason,
        "commandLine": plain(report["run"]["command"]),
        "toolExecutionNotifications": notes,
    }


def _rule_id(cause: Cause) -> str:
    """The kind of finding, the operator and the clause: "violation/ai.onnx/DequantizeLinear/formula"."""
    finding = cause.first
    clause = str(finding["clause"]).removeprefix(finding["contract"]).strip("/")
    return plain("/".join(filter(None, (finding["verdict"], operator_of(finding["contract"]), clause))))


def _rule(report: Json, cause: Cause) -> Json:
    finding = cause.first
    clause = plain(decision.clause(report, finding))
    operator = operator_of(finding["contract"])
    return {
        "id": _rule_id(cause),
        "shortDescription": {"text": plain(f"{summary.words(finding['verdict'])} of {operator}")},
        "fullDescription": {"text": clause or plain(finding["contract"])},
        "help": {"text": f"The text says: {clause}" if clause else "No sentence of the text allows this."},
        "properties": {"tags": ["dequantization", plain(finding["verdict"])]},
    }


def _result(report: Json, cause: Cause, rule: int) -> Json:
    finding = cause.first
    accepted = _accepted(report, cause)
    result: dict[str, Any] = {
        "ruleId": _rule_id(cause),
        "ruleIndex": rule,
        "level": _level(report, cause),
        "message": {"text": _message(report, cause)},
        "locations": [_location(report, finding)],
        "partialFingerprints": {FINGERPRINT: cause.plain_id},
        "properties": {
            "severity": str(cause.severity),
            "findings": [entry["id"] for entry in cause.findings],
            "editions": list(cause.documents),
        },
    }
    if accepted:
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": accepted}]
    return result


def _level(report: Json, cause: Cause) -> str:
    """The level by severity; "note" for what is no fault, and for what the gate does not fail on."""
    gate = report.get("gate")
    if not any(entry["known"] for entry in cause.findings):
        fails = cause.verdict.is_fault if gate is None else any(f["id"] in gate["failing"] for f in cause.findings)
        if not fails:
            return "note"
    return _LEVELS[cause.severity]


def _accepted(report: Json, cause: Cause) -> str:
    """Return why a cause is suppressed: the ledger accepts each fault of it. Empty if it is not."""
    faults = [entry for entry in cause.findings if cause.verdict.is_fault]
    if not faults or not all(decision.state(entry) == "known" for entry in faults):
        return ""
    return plain(decision.standing(faults[0])) or "accepted in the ledger"


def _message(report: Json, cause: Cause) -> str:
    """Return the cause in words; for a gate also the wrong values and the command that repeats them."""
    finding = cause.first
    lines = [causes.sentence(cause)]
    if "gate" in report:
        where = summary.region(finding)
        lines += [f"where: {where}" if where else "", *decision.results(finding)]
    text = "\n".join(plain(line).replace("](", "] (") for line in lines if line)  # "[text](1)" is a link in SARIF
    return f"{text}\n{replay_line(report, finding, most=SHORT_LINE)}" if "gate" in report else text


def _location(report: Json, finding: Json) -> Json:
    """Return the line of the kernel's function, or the document if no Python file was named."""
    file, line = place(report["gate"]["target"]) if "gate" in report else ("", 0)
    if file:
        where = {"artifactLocation": {"uri": quote(in_repository(file)), "uriBaseId": "%SRCROOT%"}}
        return {"physicalLocation": {**where, "region": {"startLine": max(line, 1)}}}
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(str(finding["contract"]))},
            "region": {"startLine": 1},  # GitHub demands a region
        },
        "logicalLocations": [{"fullyQualifiedName": plain(finding["clause"] or finding["contract"])}],
    }
