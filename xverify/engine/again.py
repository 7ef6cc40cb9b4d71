"""A finding asked again: of the installed release of its implementation, or of the newest one."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from packaging.version import Version

from xverify.core.errors import EnvironmentFailedError
from xverify.engine import versions
from xverify.engine.replay import asking, finding_from_report, replay_finding
from xverify.environments import naming
from xverify.environments.cache import versions_offered
from xverify.environments.installers import Say
from xverify.oracles import installed_version
from xverify.oracles.protocol import Oracle


@dataclass(frozen=True)
class Again:
    """The answer of a release to a call that was made again."""

    version: str
    is_newest: bool
    """True if the package index offers no newer release."""

    state: str
    """The state of `xverify.engine.replay.Replayed`."""

    day: str
    """The date, as 2026-11-27."""

    tries: str = ""
    """The frequency of a crash: "seen in 3 of 20 tries"; "" if it showed at once."""


def ask_again(entry: Mapping[str, Any], directory: Path, newest: bool, say: Say) -> Again:
    """Make the call of a report's finding again.

    Args:
        entry: The finding.
        directory: The folder of the report.
        newest: Ask the newest release that the package index offers, in an environment that is made if there is none yet.
            False asks the installed one.
        say: Called with a sentence when something takes long.

    Raises:
        UsageError: The finding is on a document or a kernel, or its implementation is unknown.
        EnvironmentFailedError: The newest release cannot be installed, or the implementation is not installed.
        UnableError, DocumentError, WorkerFailedError: The call cannot be made or judged here.
    """
    finding = finding_from_report(entry, directory)
    oracle = versions.implementation(finding)
    here = installed_version(oracle)
    version, package = _newest(oracle) if newest else (here or "", oracle.distribution)
    if not version:
        raise EnvironmentFailedError(
            f"{oracle.name} is not installed; pip install {oracle.distribution}, or add --newest"
        )
    if here is None or not naming.same_version(version, here):
        oracle = versions.making(oracle, package, say)(version)
        subject = replace(finding.subject, name=oracle.name, version=oracle.version)
        finding = replace(finding, key=replace(finding.key, subject=oracle.name), subject=subject)
    with (
        tempfile.TemporaryDirectory(prefix="xverify-") as scratch,
        asking(Path(scratch), others=[oracle], say=say) as ask,
    ):
        again = replay_finding(finding, ask)
    tries = again.summary.rpartition("; ")[2] if again.summary.endswith(" tries") else ""
    return Again(version, newest, again.state, date.today().isoformat(), tries)


def _newest(oracle: Oracle) -> tuple[str, str]:
    """The newest release of an implementation, and the distribution that has it."""
    offered: list[tuple[Version, str]] = []
    failures: Sequence[str] = ()
    for distribution in (oracle.distribution, *oracle.distributions):
        try:
            offered.append((Version(versions_offered(distribution)[-1]), distribution))
        except EnvironmentFailedError as error:
            failures = (*failures, str(error))
    if not offered:
        raise EnvironmentFailedError("; ".join(failures))
    version, distribution = max(offered)
    return str(version), distribution
