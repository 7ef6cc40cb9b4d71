"""A finding as the body of an issue for the people who maintain the framework, or the document, that it is about.

It says in a stranger's English what happens, with a script that needs nothing of ours, what the text says, which results
it allows and why, what is computed instead, and how far it goes.
"""

from __future__ import annotations

import difflib
import re

from xverify.core.errors import UsageError
from xverify.core.machine import MISSING
from xverify.report import summary
from xverify.report.issue_words import PATHS, Case, lead, outside, title, titles
from xverify.report.markdown import code, row, text
from xverify.report.script import oracle_of, script_for
from xverify.report.short_script import short_script
from xverify.report.summary import Json

MOST_SCRIPT = 50_000
"""Characters of a script that an issue holds; GitHub takes 65 536 in all."""

MOST_ROWS = 12
"""Rows of a table; the rest is counted."""

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def render(report: Json, identity: str) -> str:
    """The body of an issue on one finding, in Markdown; its first line is the title. Raises UsageError when the report
    has no finding of that id, with the ids that come nearest."""
    by_id = {finding["id"]: finding for finding in report["findings"]}
    if identity not in by_id:
        raise UsageError(f"the report of run {report['run']['id']} has no finding {identity!r}{_near(identity, by_id)}")
    finding = by_id[identity]
    case = Case(report, finding, summary.clauses(report).get(finding["clause"]))
    parts = [
        [f"# {text(title(case))}", "", text(_capital(lead(case))), ""],
        _script(case) if not summary.on_texts(finding) else _inputs(case),
        _outcome(case),
        _quotes(case),
        _allowed(case),
        _instead(case),
        _extent(case),
        _others(case),
        _versions(case),
    ]
    return "\n".join(line for part in parts for line in part).rstrip("\n") + "\n"


def _near(identity: str, known: dict[str, Json]) -> str:
    near = difflib.get_close_matches(identity, known, 3, 0.4)
    return f"; the nearest are {', '.join(near)}" if near else f"; it has {summary.plural(len(known), 'finding')}"


def _capital(sentence: str) -> str:
    """A sentence's first letter, but not that of a name such as oneDNN."""
    return sentence[:1].upper() + sentence[1:] if sentence.split(" ")[0] in ("the", "a", "no", "each") else sentence


def fence(content: str, language: str = "") -> list[str]:
    """Text as a code block that nothing in it can end: its fence is longer than any run of backticks inside."""
    longest = max((len(run) for run in re.findall("`+", content)), default=0)
    marks = "`" * max(3, longest + 1)
    return [marks + language, content.rstrip("\n"), marks, ""]


def _script(case: Case) -> list[str]:
    finding = case.finding
    if finding["witness"] is None:
        return []
    large = any("hex" not in tensor for tensor in finding["witness"]["call"]["tensors"].values())
    short = None if large else short_script(finding)
    full = script_for(finding, case.clause) if short is None and not large else ""
    if large or max(len(short or ""), len(full)) > MOST_SCRIPT:
        beside = f" and {code('scripts/' + finding['id'] + '.call')}" if large else ""
        too_large = "The smallest call that was found is" if large else "The script is"
        return [
            "## Script",
            "",
            f"{too_large} too large to be shown here. Attached {'are' if large else 'is'} "
            f"{code(finding['reproduce'])}{beside}; the script needs NumPy and the framework.",
            "",
            *_table_of_call(finding),
        ]
    if short is not None:
        return ["## Script", "", *fence(short, "python")]
    return [
        "## Script",
        "",
        "<details><summary>A stand-alone script</summary>",
        "",
        *fence(full, "python"),
        "</details>",
        "",
    ]


def _inputs(case: Case) -> list[str]:
    if case.finding["witness"] is None:
        return []
    return ["## The call", "", *_table_of_call(case.finding)]


def _table_of_call(finding: Json) -> list[str]:
    call = finding["witness"]["call"]
    lines = [row(["operand", "type", "shape", "values", "bits"]), row(["---"] * 5, escape=False)]
    for role, tensor in call["tensors"].items():
        shown = (_few(tensor["data"]), _few(tensor["hex"])) if "hex" in tensor else ("in the attached file", "")
        lines.append(row([role, tensor["dtype"], str(tensor["shape"]), *shown]))
    lines += [row([name, "attribute", "", str(value), ""]) for name, value in call["attributes"].items()]
    placed = (("in memory", summary.in_memory(finding)), ("in a graph", summary.around(finding)))
    lines += [row([name, "", "", found, ""]) for name, found in placed if found]
    return [*lines, ""]


def _few(values: list[str], most: int = 8) -> str:
    return ", ".join(values[:most]) + (", ..." if len(values) > most else "")


def _outcome(case: Case) -> list[str]:
    """What comes of the call, where it is not a matter of single values."""
    finding = case.finding
    got = finding["witness"]["got"] if finding["witness"] else None
    if got is None or finding["witness"]["legal"]:
        return []
    lines = ["## What it gives", ""]
    if got["tensor"] is None:
        said = {"crash": "The process ends", "hang": "No answer"}.get(finding["verdict"], "It raises")
        error = f" {code(got['error'])}" if got["error"] else ""
        lines += [f"{said}{error}{':' if got['message'] else '.'}", ""]
        return lines + (fence(got["message"][:4000], "text") if got["message"] else [])
    tensor = got["tensor"]
    kind = f"{code(tensor['dtype'])} of shape {code(str(tensor['shape']))}"
    if "hex" not in tensor:
        return [*lines, f"A result of type {kind}.", ""]
    values = _few([f"{d} ({h})" for d, h in zip(tensor["data"], tensor["hex"], strict=False)])
    return [*lines, f"A result of type {kind}: {text(values) or 'no values'}", ""]


def _quotes(case: Case) -> list[str]:
    """The sentence in question; for two documents, that of each."""
    clauses = summary.clauses(case.report)
    asked = [case.clause]
    if case.finding["verdict"] == "conflict" and not case.contradicts_itself:
        asked.append(clauses.get(str(case.finding.get("detail", ""))))
    quoted = [clause for clause in asked if clause is not None]
    lines = ["## What the text says", ""] if quoted else []
    for clause in quoted:
        if clause["text"]:
            lines += [f"> {text(clause['text'])}", ">", f"> ({text(clause['document'])})", ""]
            lines += [text(_capital(clause["note"])) + ".", ""] if clause["note"] else []
        else:
            lines += [f"Nothing: {text(clause['note'])} ({text(clause['document'])}).", ""]
    return lines


def _allowed(case: Case) -> list[str]:
    """The places where values are wrong or one of several, with what is allowed there and by which way of computing."""
    finding = case.finding
    entries = finding["witness"]["legal"] if finding["witness"] else []
    if not entries:
        return []
    readings = {r["name"]: r["words"] for edition in case.report["editions"] for r in edition["readings"]}
    readings |= {r["name"]: r["words"] for edition in case.report["editions"] if edition["id"] == finding["contract"]
                 for r in edition["readings"]}  # fmt: skip
    names = list(dict.fromkeys(name for entry in entries for one in entry["legal"] for name in one["readings"]))
    letters = {name: _LETTERS[i] if i < len(_LETTERS) else str(i + 1) for i, name in enumerate(names)}
    heading, columns = "What it gives, and what is allowed", ["it gives", "allowed"]
    if case.silent:
        heading, columns = "What it gives, and what the formula gives", ["it gives", "the formula gives"]
    if summary.on_texts(finding):
        ours, theirs = case.documents
        heading, columns = "What each document gives", [f"given by: {theirs}", f"allowed by: {ours}"]
    lines = [f"## {heading}", "", row(["at", *columns]), row(["---"] * 3, escape=False)]
    for entry in entries[:MOST_ROWS]:
        due = [
            f"{one['decimal']} ({one['hex']}) by {', '.join(letters[name] for name in one['readings'])}"
            for one in entry["legal"]
        ]
        lines.append(row([str(entry["index"]), f"{entry['got_decimal']} ({entry['got']})", " or ".join(due)]))
    lines += _more(len(entries) - MOST_ROWS, "value")
    lines += [
        "",
        "The text does not say how each step is rounded, so a result counts as the formula's when some faithful way of "
        "computing it gives that. The letters stand for an implementation that",
        "",
    ]
    lines += [f"- ({letters[name]}) {text(readings.get(name, name))}" for name in names]
    return [*lines, "", "Results are compared bit for bit, but any NaN equals any NaN.", ""]


def _more(count: int, noun: str) -> list[str]:
    return ["", f"and {summary.plural(count, f'more {noun}')}."] if count > 0 else []


def _instead(case: Case) -> list[str]:
    """What the implementation computes, or how far off its values are when nobody knows."""
    finding, by = case.finding, case.finding["attribution"]
    if finding["verdict"] not in ("violation", "mixed", "ambiguity"):
        return []
    if by is not None:
        kind = "wrong " if finding["verdict"] == "violation" else "such " if finding["verdict"] == "ambiguity" else ""
        lines = [
            "## What it computes" + (" instead" if finding["verdict"] == "violation" else ""),
            "",
            f"Its results are bit-identical to those of an implementation that {text(by.get('words', by['reading']))}, on "
            f"{summary.grouped(by['explained_values'])} of {summary.plural(by['values'], kind + 'value')}.",
        ]
        elsewhere = by.get("elsewhere")
        if elsewhere:
            lines.append(f"On all other values they are those of one that {text(elsewhere['words'])}.")
        return [*lines, ""]
    if finding["verdict"] == "ambiguity":
        return []
    lines = ["## What it computes", "", "No way of computing that was tried gives these results: they are unexplained."]
    histogram = finding.get("ulp_histogram") or ()
    if histogram:
        lines += [
            "Their distance from the nearest allowed result, counted in representable numbers between the two:",
            "",
            row(["distance", "values"]),
            row(["---", "---:"], escape=False),
            *(row([_distance(entry), summary.grouped(entry["count"])]) for entry in histogram),
        ]
    return [*lines, ""]


def _distance(entry: Json) -> str:
    said = summary.distance(entry)
    return "NaN where a number is due, or a number where NaN is due" if said == "NaN" else said


def _extent(case: Case) -> list[str]:
    """How many values and calls, under which condition, of which types, on which ways through the implementation."""
    finding = case.finding
    if not finding["cases"] or (summary.on_texts(finding) and case.contradicts_itself):
        return []
    lines = ["## How much is affected", ""]
    values = f"{summary.plural(finding['values'], 'value')} in " if finding["values"] else ""
    lines.append(f"- {values}{summary.plural(finding['cases'], 'call')}")
    lines += [f"- {sentence}" for sentence in _where(finding)]
    if finding["max_ulp"] > 0:
        steps = summary.plural(finding["max_ulp"], "representable number")
        lines.append(f"- The largest distance from an allowed result is {steps}.")
    paths = finding["subject"].get("paths") or [finding["subject"]["options"]]
    if not summary.on_texts(finding) and any(paths):
        lines.append("- Seen " + " and ".join(text(PATHS.get(path, f"with {path}")) for path in paths) + ".")
    if finding["shrunk"] == "not reached":
        lines.append("- The call above was not reduced to the smallest one that shows it.")
    return [*lines, "", *_cells(finding["cells"])]


def _where(finding: Json) -> list[str]:
    found, words = finding.get("region"), summary.region(finding)
    if found is None:
        return []
    if not words:
        return ["No simple condition on the inputs tells the affected values from the others."]
    if words == "everywhere":
        return ["Every value of these types that was compared is affected."]
    return [f"Affected are the values with {code(words)}: all that were seen, and no others."]


def _cells(cells: list[Json]) -> list[str]:
    if not cells:
        return []
    varied = any(cell["variant"] for cell in cells)
    head = ["input", "scale", "zero point", "output", "granularity", "mode or case"][: 6 if varied else 5]
    lines = [row(head), row(["---"] * len(head), escape=False)]
    names = ("x_dtype", "scale_dtype", "zero_point_dtype", "out_dtype")
    for cell in cells[:MOST_ROWS]:
        types = [cell[name] or "none" for name in names]
        variant = [cell["variant"].replace("open: ", "")] if varied else []
        lines.append(row([*types, cell["granularity"].replace("_", " "), *variant]))
    return [*lines, *_more(len(cells) - MOST_ROWS, "combination"), ""]


def _others(case: Case) -> list[str]:
    """What other implementations give for the call, and which of two documents each follows."""
    finding = case.finding
    lines = []
    if finding["others"]:
        lines = [
            "## What other implementations give" if not summary.on_texts(finding) else "## What implementations do",
            "",
        ]
        for other in finding["others"]:
            name = outside({"name": case.document(other["name"])})
            lines.append(f"- {text(_capital(name))}: {text(other['outcome'])}")
        lines.append("")
    followed = finding.get("followed") or ()
    for entry in followed:
        name, _, options = entry["subject"].partition("[")
        named = titles().get(name, name) + (f" [{options}" if options else "")
        follows = summary.follows(entry, case.document(entry["contract"]))
        lines.append(f"- {text(_capital(named))} {text(follows)}.")
    return [*lines, ""] if followed else lines


def _versions(case: Case) -> list[str]:
    finding, run = case.finding, case.report["run"]
    lines = ["## Versions", ""]
    if summary.on_texts(finding):
        lines += [f"- {text(document)}" for document in dict.fromkeys(case.documents)]
    else:
        lines += [f"- {text(_capital(case.versioned))}", f"- {text(case.document(finding['contract']))}"]
    oracle = None if summary.on_texts(finding) else oracle_of(finding["subject"])
    needed = ["python", "numpy", "ml_dtypes", *(oracle.needs if oracle is not None else ())]
    found = [(name, run["versions"].get(name, MISSING)) for name in needed]
    named = ", ".join(f"{name.replace('python', 'Python')} {v}" for name, v in found if v != MISSING)
    machine = summary.machine(run)
    lines += [f"- {text(named)}"] if named else []
    lines += [f"- {text(machine)}"] if machine else []
    made = f"xverify {run['versions'].get('xverify', '')}".strip()
    return [
        *lines,
        "",
        f"Found with {text(made)} ({code(finding['id'])}), which compares implementations with their texts.",
    ]
