"""The result of a check of a model in a terminal or a log, with the decision in the last line."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from xverify.report import causes, decision
from xverify.report import model as of_model
from xverify.report.causes import Cause
from xverify.report.model import Group
from xverify.report.summary import Json, plural, words
from xverify.verify.cause_titles import some

MOST_FAULTS = 8
"""Number of causes, and of differences, that a terminal shows. A log shows `MOST_IN_LOG`."""

MOST_IN_LOG = 40

MOST_HARMLESS = 4
"""Number of entries on each kind of what is no fault."""

MOST_NODES = 4
"""Number of nodes that a line names."""

_STYLES = {"PASS": "bold green", "FAIL": "bold red", "UNABLE": "bold yellow"}
_LABEL = 8


def print_result(report: Json, console: Console, html: Path) -> None:
    """Print the faults, worst first, results beyond sums, then what is no fault, and the decision.

    Args:
        report: The report of a check of a model.
        console: Where to print.
        html: The HTML report, whose path is printed.
    """
    most = MOST_FAULTS if console.is_terminal else MOST_IN_LOG
    console.print()
    failing = of_model.failing_causes(report)
    for cause in failing[:most]:
        _print_cause(report, cause, console, html.parent)
    every = of_model.groups(report)
    faults = [group for group in every if group.first["is_fault"]]
    for group in faults[:most]:
        _print_group(group, console, html.parent)
    beyond = [group for group in every if group.is_beyond]
    for group in beyond[:MOST_HARMLESS]:
        _print_group(group, console, html.parent)
    if (more := len(failing[most:]) + len(faults[most:]) + len(beyond[MOST_HARMLESS:])) > 0:
        _line(console, Text(f"{more} more in {html.name}\n"))
    # A result beyond sums differs from those of other runs, too.
    shown = {(group.first["oracle"], node) for group in beyond for node in (group.first["node"], *group.others)}
    rest = [g for g in every if not g.first["is_fault"] and (g.first["oracle"], g.first["node"]) not in shown]
    for sentence in _harmless(report, rest):
        _line(console, Text(f"  {decision.plain(sentence)}", style="dim"))
    _line(console, Text(f"report: {html}"))
    word = of_model.word(report)
    decided = f"{report['model']['file']}: {of_model.sentence(report)}"
    _line(console, Text.assemble((word, _STYLES[word]), f" {decision.plain(decided)}"))


def _print_cause(report: Json, cause: Cause, console: Console, directory: Path) -> None:
    finding = cause.first
    nodes = of_model.nodes_showing(report, cause)
    _line(console, Text.assemble((words(finding["verdict"]), "bold red"), f"  {finding['id']}"))
    _line(console, Text(f"  {decision.plain(causes.sentence(cause))}"))
    script = directory / finding["reproduce"] if finding["reproduce"] else None
    _rows(
        console,
        [
            ("nodes", f"{some(nodes, MOST_NODES)} ({plural(len(nodes), 'node')}, alone)" if nodes else ""),
            ("clause", decision.clause(report, finding)),
            ("call", decision.operands(finding)),
            *(("result" if number == 0 else "", line) for number, line in enumerate(decision.results(finding))),
            ("script", f"python {shlex.quote(str(script))}" if script else ""),
        ],
    )


def _print_group(group: Group, console: Console, directory: Path) -> None:
    entry = group.first
    style = "bold red" if entry["is_fault"] else "bold yellow"
    _line(console, Text.assemble((group.kind, style), f"  {entry['id']}  {decision.plain(group.node)}"))
    sentence = f"{entry['oracle']}, {group.where}: {group.amount}{'' if entry['is_fault'] else ' (no fault)'}"
    _line(console, Text(f"  {decision.plain(sentence)}"))
    _rows(
        console,
        [
            ("bits", group.bits),
            ("cause", group.cause),
            ("part", group.operators),
            ("script", f"python {shlex.quote(str(directory / entry['script']))}" if entry["script"] else ""),
        ],
    )


def _rows(console: Console, rows: Sequence[tuple[str, str]]) -> None:
    for label, text in rows:
        if text:
            _line(console, Text.assemble("  ", (label.ljust(_LABEL), "dim"), decision.plain(text)))
    console.print()


def _harmless(report: Json, groups: Sequence[Group]) -> list[str]:
    sentences = [f"no fault: {causes.sentence(cause)}" for cause in of_model.open_causes(report)[:MOST_HARMLESS]]
    sentences += [
        f"no fault: {group.node}, {group.first['oracle']}, {group.where}: {group.amount}"
        for group in groups[:MOST_HARMLESS]
    ]
    if len(groups) > MOST_HARMLESS:
        sentences.append(f"and {plural(len(groups) - MOST_HARMLESS, 'more such difference')}, in the report")
    notes = of_model.notes(report)
    sentences += notes[:MOST_HARMLESS]
    if len(notes) > MOST_HARMLESS:
        sentences.append(f"and {len(notes) - MOST_HARMLESS} more, in the report")
    return sentences


def _line(console: Console, text: Text) -> None:
    console.print(text, soft_wrap=not console.is_terminal)
