"""Annotations of findings for CI services, shown beside the code and on the build's page.

A service reads commands from the output of a step, one per line, in its own syntax. GitLab has no such command: it
shows the JUnit file of ``artifacts:reports:junit``, so nothing is printed for it.

Source:
    GitHub, "Workflow commands". Azure Pipelines, "Logging commands", and the percent encoding of its agent.
    TeamCity, "Service messages".
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from xverify.report import causes, decision, summary
from xverify.report.causes import Cause
from xverify.report.decision import SHORT_LINE, replay_line
from xverify.report.kernel_file import place
from xverify.report.summary import Json

MOST = 10
"""Number of annotations of one kind that GitHub shows for a step. The rest is counted in one of the other kind."""

MOST_DESCRIPTION = 4000
"""Longest build problem that TeamCity takes, in characters."""

MOST_IDENTITY = 60
"""Longest name of a build problem that TeamCity takes, in characters."""


@dataclass(frozen=True)
class Annotation:
    """A message about the kernel, in no particular syntax."""

    level: str
    """ "error" or "warning"."""
    title: str
    message: str
    identity: str
    """A name that is the same in every run with the same fault."""
    file: str = ""
    """Path as the user typed it, or ""."""
    line: int = 0
    """Line number from 1, or 0."""


def of_report(report: Json) -> list[Annotation]:
    """Return an annotation for each of the `MOST` worst causes of failing findings.

    A gate without a decision gets one annotation.
    """
    gate = report["gate"]
    file, line = place(gate["target"])
    if gate["outcome"] == "unable":
        title = f"xverify could not verify {gate['target']}"
        return [Annotation("error", title, decision.plain(gate["reason"]), "unable", file, line)]
    every = decision.failing_causes(report)
    annotations = [
        Annotation("error", f"xverify: {_title(cause.first)}", _message(report, cause), cause.first["id"], file, line)
        for cause in every[:MOST]
    ]
    if len(every) > MOST:
        more = f"and {summary.plural(len(every) - MOST, 'more cause')}, in the report"
        annotations.append(Annotation("warning", "xverify", more, "more", file, line))
    return annotations


def _title(finding: Json) -> str:
    state = decision.state(finding)
    return summary.words(finding["verdict"]) + (
        "" if state == "new" else f", {decision.plain(decision.standing(finding))}"
    )


def _message(report: Json, cause: Cause) -> str:
    finding = cause.first
    where, types = summary.region(finding), causes.types(cause)
    shown = [f"where: {where}" if where else "", f"types: {types}" if types else ""]
    lines = [causes.sentence(cause), *shown, *decision.results(finding)]
    return "\n".join([*map(decision.plain, filter(None, lines)), replay_line(report, finding, most=SHORT_LINE)])


# -- services ----------------------------------------------------------------------------------------------------------


def _github(annotation: Annotation) -> str:
    properties = {"file": annotation.file, "line": annotation.line or "", "title": annotation.title}
    listed = ",".join(f"{name}={_github_property(str(value))}" for name, value in properties.items() if value)
    return f"::{annotation.level} {listed}::{_github_data(annotation.message)}"


def _github_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _github_property(text: str) -> str:
    return _github_data(text).replace(":", "%3A").replace(",", "%2C")


def _azure(annotation: Annotation) -> str:
    path = os.path.abspath(annotation.file) if annotation.file else ""
    properties = {"type": annotation.level, "sourcepath": path, "linenumber": annotation.line or ""}
    listed = "".join(f"{name}={_azure_property(str(value))};" for name, value in properties.items() if value)
    return f"##vso[task.logissue {listed}]{_azure_data(f'{annotation.title}: {annotation.message}')}"


def _azure_data(text: str) -> str:
    return text.replace("%", "%AZP25").replace("\r", "%0D").replace("\n", "%0A")


def _azure_property(text: str) -> str:
    return _azure_data(text).replace("]", "%5D").replace(";", "%3B")


def _teamcity(annotation: Annotation) -> str:
    where = f"{annotation.file}{f':{annotation.line}' if annotation.line else ''}: " if annotation.file else ""
    description = _teamcity_value(f"{annotation.title}: {where}{annotation.message}")
    if annotation.level == "warning":
        return f"##teamcity[message text='{description}' status='WARNING']"
    identity = re.sub(r"\W", "_", f"xverify_{annotation.identity}", flags=re.ASCII)[:MOST_IDENTITY]
    return f"##teamcity[buildProblem description='{description}' identity='{identity}']"


_TEAMCITY = {"|": "||", "'": "|'", "[": "|[", "]": "|]", "\n": "|n", "\r": "|r"}


def _teamcity_value(text: str) -> str:
    """Escape text for TeamCity, and cut it at `MOST_DESCRIPTION`."""
    escaped, length = [], 0
    for character in text:
        units = character.encode("utf-16-be", "replace")
        codes = "".join(f"|0x{units[i : i + 2].hex().upper()}" for i in range(0, len(units), 2))
        shown = _TEAMCITY.get(character, character if character.isascii() else codes)
        length += len(shown)
        if length > MOST_DESCRIPTION:
            break
        escaped.append(shown)
    return "".join(escaped)


SERVICES: tuple[tuple[str, str, Callable[[Annotation], str]], ...] = (
    ("GitHub Actions", "GITHUB_ACTIONS", _github),
    ("Azure Pipelines", "TF_BUILD", _azure),
    ("TeamCity", "TEAMCITY_VERSION", _teamcity),
)
"""Name, environment variable that the service sets, and formatter of one annotation."""


def annotation_lines(report: Json, environment: Mapping[str, str]) -> list[str]:
    """Return the lines to print for the CI service that runs this process; none elsewhere.

    Args:
        report: The report of a gate.
        environment: Environment variables.
    """
    for _, variable, formatted in SERVICES:
        if environment.get(variable, "").lower() not in ("", "false", "0"):
            return [formatted(annotation) for annotation in of_report(report)]
    return []
