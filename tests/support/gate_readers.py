"""Readers of the gate's output: a console that keeps it, and parsers of three CI services' commands."""

from __future__ import annotations

import io
import re

from rich.console import Console

from xverify.gate.annotations import SERVICES

GITHUB, AZURE, TEAMCITY = ({variable: "true"} for _, variable, _ in SERVICES)


def console(terminal: bool = False, width: int = 100) -> Console:
    return Console(file=io.StringIO(), width=width, force_terminal=terminal, color_system=None)


def text_of(made: Console) -> str:
    assert isinstance(made.file, io.StringIO)
    return made.file.getvalue()


def github(line: str) -> tuple[str, dict[str, str], str]:
    """Parse a command as GitHub's runner does."""
    found = re.fullmatch("::([a-z]+) ([^:]*)::(.*)", line)
    assert found, line
    properties = dict(part.split("=", 1) for part in found[2].split(","))
    decoded = {k: v.replace("%3A", ":").replace("%2C", ",").replace("%25", "%") for k, v in properties.items()}
    return found[1], decoded, found[3].replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")


def azure(line: str) -> tuple[str, dict[str, str], str]:
    """Parse a command as Azure's agent does: from the first prefix to the first bracket."""
    found = re.fullmatch(r"##vso\[task\.logissue ([^\]]*)\](.*)", line)
    assert found, line
    properties = dict(part.split("=", 1) for part in found[1].rstrip(";").split(";"))
    decoded = {k: v.replace("%3B", ";").replace("%5D", "]").replace("%AZP25", "%") for k, v in properties.items()}
    return decoded.pop("type"), decoded, found[2].replace("%0D", "\r").replace("%0A", "\n").replace("%AZP25", "%")


def teamcity(line: str) -> tuple[str, dict[str, str], str]:
    """Parse a message as TeamCity does."""
    value = r"'((?:[^'|\[\]\n\r]|\|0x[0-9A-F]{4}|\|[nrx'|\[\]])*)'"
    found = re.fullmatch(rf"##teamcity\[(buildProblem) description={value} identity={value}\]", line) or re.fullmatch(
        rf"##teamcity\[(message) text={value} status='(WARNING)'\]", line
    )
    assert found, line
    plain = re.sub(
        r"\|(0x[0-9A-F]{4}|.)",
        lambda m: chr(int(m[1], 16)) if m[1][0] == "0" else {"n": "\n"}.get(m[1], m[1]),
        found[2],
    )
    level = "error" if found[1] == "buildProblem" else "warning"
    return level, {"identity": found[3]}, plain


READERS = [(GITHUB, github), (AZURE, azure), (TEAMCITY, teamcity)]
