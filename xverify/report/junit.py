"""The report as JUnit XML: a test case for each cell, which fails when an implementation is at fault in it."""

from __future__ import annotations

import re
from collections import defaultdict
from xml.etree import ElementTree as Xml

from xverify.report import summary
from xverify.report.summary import Json

_INVALID = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, not even escaped."""

_KEY = ("contract", "x_dtype", "scale_dtype", "zero_point_dtype", "out_dtype", "granularity", "variant")
_SILENT = ("unsupported", "unspecified")


def render(report: Json) -> str:
    """One suite for each edition and implementation. A finding that the ledger knows is no failure."""
    faults = _faults(report)
    suites: dict[tuple[str, str], list[Json]] = defaultdict(list)
    for cell in report["coverage"]["cells"]:
        suites[cell["contract"], cell["subject"]].append(cell)
    for finding in report["findings"]:
        # A forbidden call lies in no cell: what was seen there is a case of its own.
        if _is_fault(finding) and not finding["cells"]:
            suites[finding["contract"], summary.label(finding["subject"])].append(finding)
    root = Xml.Element("testsuites", name="xverify", time=str(report["run"]["seconds"]))
    for (contract, subject), entries in suites.items():
        suite = Xml.SubElement(root, "testsuite", name=clean(f"{contract} {subject}"), tests=str(len(entries)))
        for entry in entries:
            case = Xml.SubElement(suite, "testcase", classname=clean(f"{contract}.{subject}"), name=clean(_name(entry)))
            found = [entry] if "verdict" in entry else faults.get((subject, *(entry[name] for name in _KEY)), [])
            _say(case, entry, found)
        suite.set("failures", str(len(suite.findall("testcase/failure"))))
        suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
    for name in ("tests", "failures", "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    Xml.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def _is_fault(finding: Json) -> bool:
    return finding["verdict"] in summary.FAULTS and not finding["known"] and not summary.on_texts(finding)


def _faults(report: Json) -> dict[tuple[str, ...], list[Json]]:
    """Findings that are faults of an implementation, by subject and cell."""
    by_cell: dict[tuple[str, ...], list[Json]] = defaultdict(list)
    for finding in filter(_is_fault, report["findings"]):
        for cell in finding["cells"]:
            by_cell[(summary.label(finding["subject"]), *(cell[name] for name in _KEY))].append(finding)
    return by_cell


def _name(entry: Json) -> str:
    if "verdict" in entry:
        return str(entry["id"])
    types = f"{entry['x_dtype']} * {entry['scale_dtype']} -> {entry['out_dtype']}"
    zero_point = f"zero point {entry['zero_point_dtype']}" if entry["zero_point_dtype"] else ""
    return ", ".join(part for part in (types, zero_point, entry["granularity"], entry["variant"]) if part)


def _say(case: Xml.Element, entry: Json, found: list[Json]) -> None:
    if found:
        first = found[0]
        failure = Xml.SubElement(case, "failure", type=clean(first["verdict"]), message=clean(first["summary"]))
        lines = (
            f"{f['verdict']}: {f['summary']}\n{_where(f)}{f['clause']}\n{f['id']}\n{f['reproduce']}" for f in found
        )
        failure.text = clean("\n".join(lines))
    elif entry.get("status") in _SILENT:
        Xml.SubElement(case, "skipped", message=clean(summary.words(entry["status"])))


def _where(finding: Json) -> str:
    where = summary.region(finding)
    return f"where: {where}\n" if where else ""


def clean(text: str) -> str:
    """The text without the characters that XML cannot hold."""
    return _INVALID.sub("", str(text))
