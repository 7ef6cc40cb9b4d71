"""The command that replays a finding of a gate, as one line to paste: the same wherever a format shows it."""

from __future__ import annotations

import shlex
from typing import Any

from xverify.report.summary import Json

MOST_ARGUMENT = 100_000
"""Characters of a call that a command line holds: Linux takes no argument of 128 KiB or more."""

SHORT = 2_000
"""Characters of a call where a longer one would bury what is around it."""


def replay_line(report: Json, finding: Json, run: str = "", most: int = MOST_ARGUMENT) -> str:
    """``xverify replay 'CALL' --kernel TARGET --was VERDICT``; by the finding's id where the call is no line, or one of more than
    ``most`` characters.

    The line with the call needs no report. The line with the id finds it by ``run``: a run's id, directory or file; by default
    the id. report: of a gate. Every word is quoted for a POSIX shell.
    """
    gate = report["gate"]
    line = finding.get("line", "")
    words = ["xverify", "replay"]
    if line and len(line) <= most:
        threads = ["--threads"] if finding["subject"]["options"] == "threads" else []
        words += [line, *_to_what(gate), *threads, "--was", _was(finding)]
    else:
        words += [finding["id"], "--run", run or report["run"]["id"], "--kernel", gate["target"], *_files(gate)]
    return shlex.join(words)


def _to_what(gate: Json) -> list[str]:
    """What the kernel was held to; a finding's id needs none of it, since the report says it."""
    words = ["--kernel", gate["target"], *_files(gate)]
    if gate["like"]:
        words += ["--like", gate["like"]]
    if gate["denormals"] == "flush":
        words += ["--denormals", "flush"]
    return words


def _files(gate: Json) -> list[str]:
    """Editions of the user's own, and how strictly refusals were judged: neither is known to a replay otherwise."""
    files = [word for file in gate.get("contract_files", ()) for word in ("--contract", file)]
    return [*files, "--strict"] if gate.get("strict") else files


def _was(finding: Json) -> str:
    """The verdict and, where shrinking needed them, the readings; their names hold "+" and "@", but no comma."""
    readings: list[Any] = list(finding.get("readings", ()))
    return ":".join([finding["verdict"], *([",".join(map(str, readings))] if readings else [])])
