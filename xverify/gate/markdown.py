"""The decision of a gate as Markdown, for the page of a CI step. The report has the details."""

from __future__ import annotations

import re
from pathlib import Path

from xverify.report import causes, decision, summary
from xverify.report.decision import SHORT_LINE, replay_line
from xverify.report.formats.markdown import code, row, text
from xverify.report.summary import Json

MOST_CAUSES = 100
"""Number of causes shown. GitHub limits the page of a step to 1 MiB."""


def render(report: Json) -> str:
    """Return the decision, the failing findings, the commands that repeat them, and what else is notable.

    The text begins and ends with a newline, so that it can be appended to any page.
    """
    gate = report["gate"]
    lines = ["", "", f"## {decision.outcome(report)}: xverify gate of {code(gate['target'])}", ""]
    lines += [f"{text(decision.verdict(report))}.", ""]
    lines += _failing(report)
    items = [_item(decision.standing(finding), finding) for finding in decision.known(report)]
    items += [_item(f"no failure, {summary.words(f['verdict'])}", f) for f in decision.harmless(report)]
    items += [f"- stale: {code(name)}; remove it with {code('xverify ledger prune')}" for name in gate["stale"]]
    if scope := gate.get("scope"):
        items.append(f"- takes: {text(scope)}")
    items += [f"- {text(sentence)}" for sentence in (*decision.lacking(report), decision.covered(report)) if sentence]
    if missing := decision.not_tested(report):
        items.append(f"- not tested: {text(missing)}")
    items += [f"- {text(sentence)}" for sentence in report["run"].get("left_out", ())]
    if reason := decision.besides(report):
        items.append(f"- also: {text(reason)}")
    return "\n".join([*lines, *items, *([""] if items else [])]) + "\n"


def append_markdown(report: Json, path: Path) -> None:
    """Append the decision to a page, such as the file that ``$GITHUB_STEP_SUMMARY`` names.

    Raises:
        OSError: The file cannot be written.
    """
    with path.open("a", encoding="utf-8", errors="replace") as file:
        file.write(render(report))


def _item(standing: str, finding: Json) -> str:
    return f"- {text(standing)}: {text(decision.plain(finding['summary']))}"


def _failing(report: Json) -> list[str]:
    every = decision.failing_causes(report)
    if not every:
        return []
    lines = [row(["Verdict", "What", "Where", "Types", "Gives"]), "|" + " --- |" * 5]
    for cause in every[:MOST_CAUSES]:
        finding = cause.first
        standing = decision.standing(finding)
        shown = summary.words(finding["verdict"]) + (f" ({standing})" if standing else "")
        results = decision.results(finding)
        what = decision.plain(causes.sentence(cause))
        gives = decision.plain(results[0]) if results else ""
        lines.append(row([shown, what, summary.region(finding), causes.types(cause), gives]))
    if len(every) > MOST_CAUSES:
        lines += ["", f"And {summary.plural(len(every) - MOST_CAUSES, 'more cause')}, in the report."]
    return [*lines, "", *_commands(report, [cause.first for cause in every[:MOST_CAUSES]]), ""]


def _commands(report: Json, findings: list[Json]) -> list[str]:
    """Return the commands in a code block, where they can be copied unchanged."""
    body = [line for f in findings for line in (f"# {f['id']}", replay_line(report, f, most=SHORT_LINE))]
    ticks = max((len(run) for run in re.findall("`+", "\n".join(body))), default=0)
    fence = "`" * max(3, ticks + 1)
    return ["To repeat each call:", "", f"{fence}sh", *body, fence]
