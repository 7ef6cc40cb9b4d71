"""The report as Markdown: the matrix and the findings, for an issue, a pull request or a job summary."""

from __future__ import annotations

import re
from collections.abc import Mapping

from xverify.report import summary
from xverify.report.summary import Json

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!&])")


def render(report: Json, scripts: Mapping[str, str] | None = None) -> str:
    """The whole run: a table for each operator, then the findings one by one."""
    run, coverage = report["run"], report["coverage"]
    lines = [f"# xverify: {summary.plural(len(report['findings']), 'finding')}", ""]
    lines += [text(summary.headline(report)) + ".", ""]
    how = f"seed {run['seed']}, {run['seconds']} s, {text(run['started'])}"
    lines += [f"Run {code(run['id'])}, {how}: {code(run['command'])}", ""]
    if not run["complete"]:
        lines += ["**The run was interrupted: what it did not find says less than it should.**", ""]
    for operator, contracts in summary.operators(report).items():
        lines += _table(report, operator, contracts)
    lines += ["## Findings", ""]
    clauses = summary.clauses(report)
    for finding in summary.findings(report):
        lines += _finding(finding, clauses.get(finding["clause"]))
    if not report["findings"]:
        lines += ["None.", ""]
    lines += ["## Not met", ""]
    lines += [f"- {text(name)}" for name in coverage["trust"]["not_met"]] or ["Everything on the list was met."]
    untested = [clause["id"] for clause in clauses.values() if not clause["tested"]]
    if untested:
        lines += ["", "## Clauses that no call tested", "", *(f"- {code(identity)}" for identity in untested)]
    return "\n".join(lines) + "\n"


def _table(report: Json, operator: str, contracts: list[str]) -> list[str]:
    matrix = summary.matrix(report)
    subjects = [s for s in summary.subjects(report) if any((contract, s) in matrix for contract in contracts)]
    if not subjects:
        return []
    lines = [_row([operator, *subjects]), "|" + " --- |" * (len(subjects) + 1)]
    for contract in contracts:
        entries = [matrix.get((contract, subject)) for subject in subjects]
        cells = ["" if e is None else f"{', '.join(e.headlines)} ({summary.short(e.values)} values)" for e in entries]
        lines.append(_row([contract, *cells]))
    return [*lines, ""]


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(text(cell) for cell in cells) + " |"


def _finding(finding: Json, clause: Json | None) -> list[str]:
    subject = finding["subject"]
    lines = [f"### {summary.words(finding['verdict'])}: {text(finding['summary'])}", ""]
    who = (
        f"{text(summary.label(subject))} {text(subject['version'])}, {code(finding['contract'])}, {code(finding['id'])}"
    )
    extent = f"{summary.plural(finding['cases'], 'case')}, {summary.plural(finding['values'], 'value')}"
    lines += [f"{who}; {extent}{'; in the ledger' if finding['known'] else ''}.", ""]
    if clause is not None:
        quoted = text(clause["text"] or "The text is silent: " + clause["note"])
        lines += [f"> {quoted}", ">", f"> {code(clause['id'])} in {text(clause['document'])}", ""]
    by = finding["attribution"]
    if by is not None:
        explained = f"{summary.grouped(by['explained_values'])} of {summary.grouped(by['values'])} mismatches"
        lines += [f"What it does instead: {text(by.get('words', by['reading']))} ({explained}).", ""]
    return lines + _witness(finding)


def _witness(finding: Json) -> list[str]:
    witness = finding["witness"]
    if witness is None:
        return []
    lines = ["| operand | type | shape | values | bits |", "| --- | --- | --- | --- | --- |"]
    for role, tensor in witness["call"]["tensors"].items():
        shown = (
            (_first(tensor["data"]), _first(tensor["hex"]))
            if "hex" in tensor
            else (tensor["generator"], tensor["file"])
        )
        lines.append(_row([role, tensor["dtype"], str(tensor["shape"]), *shown]))
    lines += [_row([name, "attribute", "", str(value), ""]) for name, value in witness["call"]["attributes"].items()]
    lines.append("")
    for entry in witness["legal"][:8]:
        due = " or ".join(f"{one['decimal']} ({one['hex']})" for one in entry["legal"])
        gives = f"{text(entry['got_decimal'])} ({code(entry['got'])})"
        lines.append(f"- at {text(str(entry['index']))} it gives {gives}; legal: {text(due)}")
    got = witness["got"]
    if got is not None and not witness["legal"]:
        lines.append(f"- {text(_outcome(got))}")
    lines += [f"- {text(other['name'])} gives {text(other['outcome'])}" for other in finding["others"]]
    if finding["reproduce"]:
        lines += ["", f"Reproduce: {code('python ' + finding['reproduce'])}"]
    return [*lines, ""]


def _outcome(got: Json) -> str:
    if got["tensor"] is None:
        return ": ".join(part for part in (got["kind"], got["error"], got["message"][:300]) if part)
    tensor = got["tensor"]
    values = f"{_first(tensor['data'])} ({_first(tensor['hex'])})" if "hex" in tensor else "a large tensor"
    return f"gives {tensor['dtype']} {values}" + "".join(f", {note}" for note in got["notes"])


def _first(values: list[str]) -> str:
    return ", ".join(values[:8]) + (", ..." if len(values) > 8 else "")


def text(value: str) -> str:
    """Text as Markdown that shows it and does nothing else, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(str(value).split()))


def code(value: str) -> str:
    """Text as a code span; backticks in it become apostrophes."""
    return "`" + " ".join(str(value).split()).replace("`", "'") + "`"
