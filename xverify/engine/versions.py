"""Runs of a finding with other versions of its implementation, and the choice of those versions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from packaging.version import InvalidVersion, Version

from xverify import contracts
from xverify.contracts.model import Contract
from xverify.core.errors import EnvironmentFailedError, UsageError, WorkerFailedError
from xverify.engine import select
from xverify.engine.bisect import Probe, Trial
from xverify.engine.replay import AskAny, asking, replay_finding
from xverify.environments import naming, other_versions
from xverify.environments.installers import Say
from xverify.oracles import all_oracles, with_option
from xverify.oracles.protocol import Oracle
from xverify.strategies import simplest
from xverify.verify.changes import base_name
from xverify.verify.findings import Finding

MakeOracle = Callable[[str], Oracle]
"""make(version) returns the implementation at that version. It raises EnvironmentFailedError."""


def implementation(finding: Finding) -> Oracle:
    """The implementation that a finding is about, without a version.

    Raises:
        UsageError: The finding is on a document or a kernel, for which a registry offers no versions.
    """
    if finding.subject.role != "oracle":
        what = "documents" if finding.subject.role == "edition" else f"the kernel {finding.subject.name}"
        raise UsageError(
            f"{finding.id} is a finding on {what}: bisect goes over the versions of an implementation that a registry offers"
        )
    named, oracles = naming.parse(base_name(finding.subject.name)), all_oracles()
    if named.name not in oracles:
        raise UsageError(f"no implementation is called {named.name!r} here; see: xverify oracles")
    try:
        return with_option(oracles[named.name], named.option) if named.option else oracles[named.name]
    except ValueError as error:
        raise UsageError(str(error)) from None


def making(oracle: Oracle, package: str, say: Say) -> MakeOracle:
    """Return a function that makes the implementation at a version.

    Args:
        package: Its distribution, or another distribution of the same implementation.
    """

    def make(version: str) -> Oracle:
        if package == oracle.distribution:
            return select.oracle_named(f"{oracle.name}=={version}", say)
        return other_versions.of_version(replace(oracle, distribution=package, distributions=()), version, say)[0]

    return make


def between(offered: Sequence[str], first: str, last: str) -> list[str]:
    """The versions from ``first`` to ``last``, oldest first and without pre-releases.

    Args:
        first: The oldest version, "" for no bound.
        last: The newest version, "" for no bound.

    Raises:
        UsageError: A bound is no version, or no version lies between them.
    """
    low, high = (_version(text) if text else None for text in (first, last))
    if low is not None and high is not None and low > high:
        raise UsageError(f"--from {first} is newer than --to {last}: name the older version first")
    ordered = sorted({Version(text): text for text in offered}.items())
    chosen = [
        text
        for number, text in ordered
        if not number.is_prerelease and (low is None or number >= low) and (high is None or number <= high)
    ]
    if not chosen:
        limits = f"what is offered goes from {ordered[0][1]} to {ordered[-1][1]}" if ordered else "none is offered"
        raise UsageError(f"no version lies between {first or 'the oldest'} and {last or 'the newest'}; {limits}")
    return chosen


def _version(text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        raise UsageError(f"{text!r} is not a version; one is written 1.17.0") from None


def probing(finding: Finding, make: MakeOracle, directory: Path, own: Sequence[Contract], say: Say) -> Probe:
    """Return a function that runs a finding with one version, in a worker of its own.

    Args:
        directory: Where the workers keep their files.
        own: Editions of the user.
        say: Called with a sentence before and after each trial.
    """

    def probe(version: str) -> Trial:
        start = time.monotonic()
        say(f"{version}: trying")
        try:
            oracle = make(version)
            with asking(directory, others=[oracle], say=say) as ask:
                shows, words = _shows(finding, oracle, ask, own)
            trial = Trial(version, "shows" if shows else "does not", words)
        except (EnvironmentFailedError, WorkerFailedError) as error:
            trial = Trial(version, "not tried", str(error))
        trial = replace(trial, seconds=round(time.monotonic() - start, 1))
        result = {"shows": "shows it", "does not": "does not show it", "not tried": "could not be tried"}[trial.state]
        say(f"{version}: {result} ({trial.seconds} s)")
        return trial

    return probe


def _shows(finding: Finding, oracle: Oracle, ask: AskAny, own: Sequence[Contract]) -> tuple[bool, str]:
    """Run a finding on another version: True if that shows it, and the result in a few words."""
    subject = replace(finding.subject, name=oracle.name, version=oracle.version)
    moved = replace(finding, key=replace(finding.key, subject=oracle.name), subject=subject)
    again = replay_finding(moved, ask, own)
    if again.state != "STILL":
        return False, again.got if again.state in ("FIXED", "UNSEEN") else f"{again.got}, which is not right either"
    call = finding.call
    if finding.key.verdict == "wrongly-rejected" and call is not None:
        contract = next((c for c in own if c.id == finding.key.contract), None) or contracts.get(finding.key.contract)
        plain = simplest(contract, contract.cell(call)).under(contract.asked_as)
        if ask(subject, plain).kind != "tensor":
            return False, f"{again.got}, as for every call of these types"
    return True, again.got
