"""The report as JUnit XML.

Each cell is a test case, which fails if the implementation is at fault in it. In the report of a gate, only the
findings count on which the gate fails. Each shows the command that repeats it. A gate that could not do its work is an
error. In the check of a model, each node is a test case.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from xml.etree import ElementTree as Xml

from xverify.core.verdict import Verdict
from xverify.report import decision, summary
from xverify.report import model as of_model
from xverify.report.decision import SHORT_LINE, replay_line
from xverify.report.summary import Json

_INVALID = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, even escaped."""

_KEY = ("contract", "x_dtype", "scale_dtype", "zero_point_dtype", "out_dtype", "granularity", "variant")
_SILENT = ("unsupported", "unspecified")


def render(report: Json) -> str:
    """Return one suite for each edition and implementation. A finding in the ledger is no failure."""
    if "model" in report:
        return _printed(_of_model(report))
    gate = report.get("gate")
    at_fault = _is_fault if gate is None else lambda finding: finding["id"] in gate["failing"]
    faults = _faults(report, at_fault)
    rows = {(cell["subject"], *(cell[name] for name in _KEY)) for cell in report["coverage"]["cells"]}
    suites: dict[tuple[str, str], list[Json]] = defaultdict(list)
    for cell in report["coverage"]["cells"]:
        suites[cell["contract"], cell["subject"]].append(cell)
    for finding in report["findings"]:
        # A finding on a forbidden call has no cell, so it is a test case of its own. A gate's findings must all appear.
        shown = finding["cells"] if gate is None else _places(finding) & rows
        if at_fault(finding) and not shown:
            suites[finding["contract"], summary.label(finding["subject"])].append(finding)
    root = Xml.Element("testsuites", name="xverify", time=str(report["run"]["seconds"]))
    for (contract, subject), entries in suites.items():
        suite = Xml.SubElement(root, "testsuite", name=clean(f"{contract} {subject}"), tests=str(len(entries)))
        if gate is not None:
            _say_extent(suite, report)
        for entry in entries:
            case = Xml.SubElement(suite, "testcase", classname=clean(f"{contract}.{subject}"), name=clean(_name(entry)))
            findings = [entry] if "verdict" in entry else faults.get((subject, *(entry[name] for name in _KEY)), [])
            _say(case, report, entry, findings)
        suite.set("failures", str(len(suite.findall("testcase/failure"))))
        suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
    if gate is not None and gate["outcome"] == "unable":
        _say_unable(root, report)
    _count(root, () if gate is None else ("errors",))
    return _printed(root)


def _count(root: Xml.Element, further: Sequence[str]) -> None:
    """Set the counts of all suites together."""
    for name in ("tests", "failures", "skipped", *further):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))


def _printed(root: Xml.Element) -> str:
    Xml.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def _of_model(report: Json) -> Xml.Element:
    """Return one suite for each implementation, with a test case for each node of the model."""
    section = report["model"]
    root = Xml.Element("testsuites", name="xverify", time=str(report["run"]["seconds"]))
    faults = [group for group in of_model.groups(report) if group.first["is_fault"]]
    sentences = {finding["id"]: f"{finding['summary']} ({finding['id']})" for finding in report["findings"]}
    for entry in section["implementations"]:
        name = entry["name"]
        cases = [(node["name"], [c for c in node["checks"] if c["oracle"] == name]) for node in section["nodes"]]
        own = [group for group in faults if group.first["oracle"] == name]
        if any(not group.first["node"] for group in own):
            cases.append(("", []))
        suite = Xml.SubElement(
            root, "testsuite", name=clean(f"{section['file']} {name}"), tests=str(len(cases)), errors="0"
        )
        for node, checks in cases:
            case = Xml.SubElement(
                suite, "testcase", classname=clean(f"xverify.model.{name}"), name=clean(node or "outputs of the model")
            )
            lines = [sentences[f] for c in checks if c["state"] == "wrong" for f in c["findings"] if f in sentences]
            lines += [f"{g.where}: {g.amount}. {g.bits}" for g in own if g.first["node"] == node]
            if lines:
                failure = Xml.SubElement(case, "failure", type="model", message=clean(lines[0]))
                failure.text = clean("\n".join(lines))
            elif not any(c["state"] in ("ok", "differs", "compared") for c in checks):
                reason = next((c["reason"] for c in checks if c["reason"]), "not checked")
                Xml.SubElement(case, "skipped", message=clean(reason))
        suite.set("failures", str(len(suite.findall("testcase/failure"))))
        suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
    if section["outcome"] == "unable":
        suite = Xml.SubElement(
            root, "testsuite", name=clean(section["file"]), tests="1", failures="0", skipped="0", errors="1"
        )
        case = Xml.SubElement(suite, "testcase", classname="xverify.model", name=clean(section["file"]))
        Xml.SubElement(case, "error", type="unable", message=clean(section["reason"]))
    _count(root, ("errors",))
    return root


def _is_fault(finding: Json) -> bool:
    return Verdict(finding["verdict"]).is_fault and not finding["known"] and not summary.on_texts(finding)


def _say_extent(suite: Xml.Element, report: Json) -> None:
    """Add properties that say what a gate's decision covers."""
    extent = {
        "takes": report["gate"].get("scope", ""),
        "covered": decision.covered(report),
        "lacks evidence": "; ".join(decision.lacking(report)),
        "not tested": decision.not_tested(report),
    }
    properties = Xml.SubElement(suite, "properties")
    for name, value in extent.items():
        if value:
            Xml.SubElement(properties, "property", name=f"xverify {name}", value=clean(decision.plain(value)))


def _say_unable(root: Xml.Element, report: Json) -> None:
    """Add a suite with one case for the whole gate."""
    gate = report["gate"]
    name = clean(f"gate {gate['target']}")
    suite = Xml.SubElement(root, "testsuite", name=name, tests="1", failures="0", skipped="0", errors="1")
    _say_extent(suite, report)
    case = Xml.SubElement(suite, "testcase", classname="xverify.gate", name=clean(gate["target"]))
    Xml.SubElement(case, "error", type="unable", message=clean(gate["reason"])).text = clean(gate["reason"])


def _faults(report: Json, at_fault: Callable[[Json], bool]) -> dict[tuple[str, ...], list[Json]]:
    """Return the findings that are faults of an implementation, by subject and cell."""
    by_cell: dict[tuple[str, ...], list[Json]] = defaultdict(list)
    for finding in filter(at_fault, report["findings"]):
        for cell in _places(finding):
            by_cell[cell].append(finding)
    return by_cell


def _places(finding: Json) -> set[tuple[str, ...]]:
    """Return the cells that show a finding, by subject and key."""
    label = summary.label(finding["subject"])
    return {(label, *(cell[name] for name in _KEY)) for cell in finding["cells"]}


def _name(entry: Json) -> str:
    if "verdict" in entry:
        return str(entry["id"])
    types = f"{entry['x_dtype']} * {entry['scale_dtype']} -> {entry['out_dtype']}"
    zero_point = f"zero point {entry['zero_point_dtype']}" if entry["zero_point_dtype"] else ""
    return ", ".join(part for part in (types, zero_point, entry["granularity"], entry["variant"]) if part)


def _say(case: Xml.Element, report: Json, entry: Json, findings: list[Json]) -> None:
    if findings:
        first = findings[0]
        failure = Xml.SubElement(case, "failure", type=clean(first["verdict"]), message=clean(first["summary"]))
        failure.text = clean("\n".join(_in_words(report, finding) for finding in findings))
    elif entry.get("status") in _SILENT:
        Xml.SubElement(case, "skipped", message=clean(summary.words(entry["status"])))


def _in_words(report: Json, finding: Json) -> str:
    lines = (f"{finding['verdict']}: {finding['summary']}", finding["clause"], finding["id"], finding["reproduce"])
    where = summary.region(finding)
    words = "\n".join([lines[0], *([f"where: {where}"] if where else []), *lines[1:]])
    # Short, because it is repeated in every cell that shows the finding.
    return f"{words}\n{replay_line(report, finding, most=SHORT_LINE)}" if "gate" in report else words


def clean(text: str) -> str:
    """Return the text without the characters that XML cannot hold."""
    return _INVALID.sub("", str(text))
