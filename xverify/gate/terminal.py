"""The decision of a gate in a terminal or a log, with a call for each cause and the next steps."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from xverify.engine import select
from xverify.gate.annotations import annotation_lines
from xverify.report import causes, decision, summary
from xverify.report.causes import Cause
from xverify.report.decision import MOST_ARGUMENT, replay_line
from xverify.report.summary import Json

MOST_CAUSES = 5
"""Number of causes shown in a terminal, worst first. A log gets all."""

MOST_LINE = 400
"""Longest call in a command line of a terminal, in characters. A longer one would fill the screen."""

MOST_CLAUSE = 240
"""Longest quotation of a clause, in characters."""

UNSHRUNK_LINE = 300
"""Longest call that is printed if it was not reduced to the smallest, in characters."""

_STYLES = {"PASS": "bold green", "FAIL": "bold red", "UNABLE": "bold yellow"}
_LABEL = 8


def announce(report: Json, console: Console, html: Path, environment: Mapping[str, str] | None = None) -> None:
    """Print annotations for the CI service, if there is one, and then the decision.

    Args:
        report: The report of a gate.
        console: Where to print.
        html: The HTML report, whose path is printed.
        environment: Environment variables. The default is those of this process.
    """
    for line in annotation_lines(report, os.environ if environment is None else environment):
        # Without rich, which folds lines and removes characters.
        console.file.write(line + "\n")
    print_decision(report, console, html)


def print_decision(report: Json, console: Console, html: Path) -> None:
    """Print the findings and the next steps, with the decision in the last line.

    Args:
        report: The report of a gate.
        console: Where to print.
        html: The HTML report, whose path is printed.
    """
    every = decision.failing_causes(report)
    run = _run(html)
    shown = every[:MOST_CAUSES] if console.is_terminal else every
    console.print()
    for number, cause in enumerate(shown):
        _print_cause(report, cause, run, console, brief=console.is_terminal and number > 0)
    if len(every) > len(shown):
        _line(console, Text(f"{len(every) - len(shown)} more in {html.name}\n"))
    for sentence in _rest(report, console.is_terminal):
        _line(console, Text(decision.plain(sentence)), 2)
    for label, command in _next_steps(report, run, every, console.is_terminal):
        _line(console, Text(label, style="dim"))
        _command(console, command)
    _line(console, Text(f"report: {html}"))
    word = decision.outcome(report)
    _line(console, Text.assemble((word, _STYLES[word]), f" {decision.plain(decision.verdict(report))}"))


def _print_cause(report: Json, cause: Cause, run: str, console: Console, brief: bool) -> None:
    """Print a cause with its witness; in brief without clause, extent and command."""
    finding, others = cause.first, len(cause.findings) - 1
    head = Text.assemble((summary.words(finding["verdict"]), "bold red"), f"  {finding['id']}")
    if others:
        head.append(f"  and {summary.plural(others, 'more finding')} of this cause", "dim")
    _line(console, head)
    _line(console, Text(decision.plain(causes.sentence(cause))), 2)
    quoted = decision.plain(decision.clause(report, finding))
    results = decision.results(finding)
    rows = [
        ("ledger", decision.standing(finding)),
        ("where", summary.region(finding)),
        ("clause", "" if brief else quoted if len(quoted) <= MOST_CLAUSE else _cut(quoted, finding["clause"])),
        ("call", decision.operands(finding)),
        *(("result" if number == 0 else "", line) for number, line in enumerate(results[:1] if brief else results)),
        ("types", causes.types(cause)),
        ("seen in", "" if brief else causes.seen(cause)),
    ]
    for label, words in rows:
        if words:
            _line(console, Text.assemble((label.ljust(_LABEL), "dim"), decision.plain(words)), 2, _LABEL)
    if not brief:
        _command(console, replay_line(report, finding, run, _longest_call(finding, console)))
    console.print()


def _longest_call(finding: Json, console: Console) -> int:
    """Return the longest call that is printed, in characters: less for a call that was not shrunk."""
    if finding["shrunk"] == "not reached":
        return UNSHRUNK_LINE
    return MOST_LINE if console.is_terminal else MOST_ARGUMENT


def _cut(quoted: str, identity: str) -> str:
    """Cut a long quotation, and add the clause's id so that the rest can be found."""
    return f'{quoted[: MOST_CLAUSE - len(identity)].rstrip()}..." ({identity})'


def _rest(report: Json, brief: bool) -> Iterable[str]:
    """Yield one line for everything besides new findings.

    In brief, a gate that fails only counts the cells without evidence.
    """
    gate = report["gate"]
    for finding in decision.known(report):
        yield f"{decision.standing(finding)}: {finding['summary']}"
    for finding in decision.harmless(report):
        yield f"no failure: {summary.words(finding['verdict'])}: {finding['summary']}"
    if gate["stale"]:
        names = ", ".join(gate["stale"])
        yield f"stale: {names} did not come up any more"
    if gate.get("scope"):
        yield f"takes: {gate['scope']}"
    # Nothing is missing yet in a gate that stopped at the first fault.
    lacking = [] if gate["stopped_early"] else decision.lacking(report)
    if brief and len(lacking) > 1 and gate["outcome"] == "findings":
        cells = sum(group["cells"] for group in gate["evidence"]["lacking"])
        lacking = [f"no evidence in {summary.plural(cells, 'cell')}; the report says what is missing"]
    yield from lacking
    if covered := decision.covered(report):
        yield covered
    if missing := decision.not_tested(report):
        yield f"not tested: {missing}; {decision.untested_step(report)}"
    if reason := decision.besides(report):
        yield f"also: {reason}"


def _replay(report: Json, run: str, identity: str) -> list[str]:
    """Return the command that repeats a finding of the run by its id."""
    return ["xverify", "replay", identity, "--run", run, "--kernel", report["gate"]["target"]]


def _next_steps(report: Json, run: str, every: list[Cause], brief: bool) -> Iterable[tuple[str, str]]:
    where = ["--run", run] if run != report["run"]["id"] else []
    if report["gate"]["ledger"] != str(select.LEDGER):
        where += ["--ledger", report["gate"]["ledger"]]
    if report["gate"]["stale"]:
        yield "to remove stale entries:", shlex.join(["xverify", "ledger", "prune", *where])
    if len(every) > 1 and brief:
        yield "to repeat another finding:", shlex.join(_replay(report, run, every[1].first["id"]))
    if every:
        accept = shlex.join(["xverify", "ledger", "accept", every[0].first["id"], *where])
        yield "to accept a finding for a while:", f"{accept} --reason TEXT --owner NAME --expires 90d"


def _run(html: Path) -> str:
    """Return the name of the run for commands: its id, or its folder if it is not with the other runs."""
    directory = html.parent
    return directory.name if directory.parent == select.RUNS else str(directory)


def _command(console: Console, command: str) -> None:
    """Print a command without folding it, so that it can be copied."""
    console.print(Text(f"  {command}"), soft_wrap=True)


def _line(console: Console, text: Text, indent: int = 0, hanging: int = 0) -> None:
    """Print a line. In a terminal, fold it and indent all but the first line by ``hanging``."""
    if not console.is_terminal:
        console.print(Text(" " * indent).append_text(text), soft_wrap=True)
        return
    head, rest = text[:hanging] if hanging else Text(), text[hanging:]
    folded = rest.wrap(console, max(console.width - indent - hanging, 20))
    for number, part in enumerate(folded):
        part.rstrip()
        start = head if number == 0 else Text(" " * hanging)
        console.print(Padding(start + part, (0, 0, 0, indent), expand=False), overflow="ignore", no_wrap=True)
