"""The decision of a gate, made from the report of its run: pass, findings, or unable."""

from __future__ import annotations

from typing import Any

from xverify.core.line import HUGE_VALUES, MOST_VALUES, call_to_line
from xverify.core.verdict import Verdict
from xverify.engine.state import RunState
from xverify.gate.evidence import evidence_of, sentence
from xverify.gate.huge import DETAIL as HUGE
from xverify.gate.ledger import Ledger, stale
from xverify.gate.ledger_lookup import Memory, about
from xverify.gate.options import GateOptions
from xverify.report.decision import MOST_MESSAGE
from xverify.report.summary import plural
from xverify.verify.causes import causes_of
from xverify.verify.findings import Finding, witness_order
from xverify.verify.tally import CellTally

PASS, FINDINGS, UNABLE = "pass", "findings", "unable"


def decided(result: dict[str, Any], run: RunState, options: GateOptions, memory: Memory, walked: bool) -> None:
    """Add the gate's decision to a run's report, in place.

    The decision is under "gate". Each finding gets its standing in the ledger and a line that replays it.

    Args:
        result: The report as data.
        run: The run that it describes.
        options: Options of the gate.
        memory: The ledger during the run.
        walked: True if the whole walk was sent and answered.
    """
    findings_by_id = {finding.id: finding for finding in run.findings.sorted()}
    for entry in result["findings"]:
        finding = findings_by_id[entry["id"]]
        entry["known"] = finding.standing.state == "known"
        entry["ledger"] = {"state": finding.standing.state, "entry": finding.standing.entry}
        entry["line"] = _line(run, finding)
    result["causes"] = causes_of(result)
    failing = [entry["id"] for entry in result["findings"] if _fails(entry, options)]
    domains = {text.id: options.within.get(text.id, text.domain) for text in options.contracts}
    evidence = evidence_of(run, options.kernel.name, domains, options.like is not None)
    # A gate that stopped at a fault and fails needs no reason. Without a failing finding, it is no pass.
    reason = "" if failing and run.ended() else _unable(run, options, walked) or ("" if failing else sentence(evidence))
    outcome = FINDINGS if failing else UNABLE if reason else PASS
    if run.troubles:  # a phase failed: the command ends with the code of a gate that decides nothing
        outcome, reason = UNABLE, run.troubles[0]
    mine = Ledger(tuple(about(options.ledger, options.kernel.name, options.contracts)))
    stale_names = [entry.name for entry in stale(mine, memory.came_up)] if walked and run.complete else []
    result["gate"] = {
        "kernel": options.kernel.name,
        "target": options.target or options.kernel.name,
        "version": options.kernel.version,
        "like": None if options.like is None else options.like.name,
        "like_target": None if options.like is None else options.like_target or options.like.name,
        "contract_files": list(options.contract_files),
        "strict": options.kernel.strict,
        "denormals": options.denormals,
        "outcome": outcome,
        "reason": reason,
        "failing": failing,
        "stale": stale_names,
        "ledger": options.ledger_path,
        "walked": walked,
        "first_verdict_seconds": _rounded(run.first_verdict),
        "first_fault_seconds": _rounded(run.first_fault),
        "stopped_early": run.ended(),
        "unsupported": _unsupported(result, options.kernel.name),
        "evidence": evidence,
        "calls": sum(row["calls"] for row in result["run"]["workers"] if row["name"] == options.kernel.name),
    }


def _fails(entry: dict[str, Any], options: GateOptions) -> bool:
    if entry["known"] or entry["subject"]["name"] != options.kernel.name:
        return False
    return Verdict(entry["verdict"]).fails_gate(options.allow_mixed)


def _unable(run: RunState, options: GateOptions, walked: bool) -> str:
    """The reason why a run without failures decides nothing, in one sentence; "" if it decides."""
    for name, failure in run.pool.failures.items():
        if name == options.kernel.name or options.like is not None:
            return failure
    if not run.complete:
        return "the run was interrupted"
    tallies = [tally for (subject, _), tally in run.tally.cells.items() if subject.name == options.kernel.name]
    if not run.pool.was_ready(options.kernel.name):
        return f"the kernel was not loaded within {options.budget:g} s: it is still being imported, or hangs"
    if options.kernel.name not in run.tally.answering:
        return _nothing(tallies) if tallies else f"no call was answered within {options.budget:g} s; raise --budget"
    if run.ended():
        return "it stopped at a fault that led to no finding: run it again without --fail-fast"
    if not walked:
        return (
            f"the budget of {options.budget:g} s ended before the walk: raise --budget, or test fewer types "
            "(--x-dtypes, --scale-dtypes, --granularity)"
        )
    return run.impossible


def _nothing(tallies: list[CellTally]) -> str:
    """The reason why a kernel that answered no allowed call was not verified."""
    allowed = [tally for tally in tallies if not tally.open]
    answered_open = sum(tally.answered for tally in tallies if tally.open)
    counted = plural(sum(tally.cases for tally in allowed), "allowed call")
    refusals = [tally.refusal for tally in allowed if tally.refusal is not None]
    if refusals:
        _, outcome = min(refusals, key=lambda refusal: witness_order(refusal[0].call, refusal[0].number))
        message = outcome.message.partition("\n")[0][:MOST_MESSAGE]
        error = f"{outcome.error}: {message}" if message else outcome.error
        return (
            f"the kernel refused every allowed call ({counted}): nothing was verified; the simplest one raised {error}"
        )
    how = " (NotImplementedError)" if any(tally.unsupported for tally in allowed) else ""
    besides = f"; it answered only {plural(answered_open, 'call')} that the text leaves open" if answered_open else ""
    return f"the kernel answered none of {counted}{how}: nothing was verified{besides}"


def _unsupported(result: dict[str, Any], kernel: str) -> list[dict[str, Any]]:
    cells = result["coverage"]["cells"]
    return [cell for cell in cells if cell["status"] == "unsupported" and cell["subject"] == kernel]


def _line(run: RunState, finding: Finding) -> str:
    if finding.call is None:
        return ""
    try:
        most = HUGE_VALUES if finding.key.detail == HUGE else MOST_VALUES
        return call_to_line(finding.call.under(run.contract_of(finding).asked_as), most)
    except ValueError:
        return ""


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 2)
