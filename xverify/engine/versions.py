"""A finding asked of another version of its implementation, and which versions there are to ask."""

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
"""make(version): the implementation at that version. Raises EnvironmentFailedError with a sentence."""


def implementation(finding: Finding) -> Oracle:
    """The implementation that a finding is about, as it is described here, without a version. Raises UsageError when it is on a
    document, or on a kernel, which have no versions that a registry offers."""
    if finding.subject.role != "oracle":
        what = "documents" if finding.subject.role == "edition" else f"the kernel {finding.subject.name}"
        raise UsageError(
            f"{finding.id} is a finding on {what}: bisect goes over the versions of an implementation that a registry offers"
        )
    named, known = naming.parse(base_name(finding.subject.name)), all_oracles()
    if named.name not in known:
        raise UsageError(f"no implementation is called {named.name!r} here; see: xverify oracles")
    return with_option(known[named.name], named.option) if named.option else known[named.name]


def making(oracle: Oracle, package: str, say: Say) -> MakeOracle:
    """What makes an implementation at a version of ``package``, which is its distribution or stands for that."""

    def make(version: str) -> Oracle:
        if package == oracle.distribution:
            return select.oracle_named(f"{oracle.name}=={version}", say)
        return other_versions.of_version(replace(oracle, distribution=package, distributions=()), version, say)[0]

    return make


def between(offered: Sequence[str], first: str, last: str) -> list[str]:
    """The versions from ``first`` to ``last`` (both included; "" is no bound), oldest first and without pre-releases.

    Raises UsageError when a bound is no version, or nothing lies between them.
    """
    low, high = (_version(text) if text else None for text in (first, last))
    if low is not None and high is not None and low > high:
        raise UsageError(f"--from {first} is newer than --to {last}: name the older version first")
    ordered = sorted({Version(one): one for one in offered}.items())
    chosen = [
        text
        for number, text in ordered
        if not number.is_prerelease and (low is None or number >= low) and (high is None or number <= high)
    ]
    if not chosen:
        known = f"what is offered goes from {ordered[0][1]} to {ordered[-1][1]}" if ordered else "none is offered"
        raise UsageError(f"no version lies between {first or 'the oldest'} and {last or 'the newest'}; {known}")
    return chosen


def _version(text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        raise UsageError(f"{text!r} is not a version; one is written 1.17.0") from None


def probing(finding: Finding, make: MakeOracle, directory: Path, own: Sequence[Contract], say: Say) -> Probe:
    """What tries a finding with one version, in a worker of its own. directory: for the workers' files; own: editions of the
    user's."""

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
        said = {"shows": "shows it", "does not": "does not show it", "not tried": "could not be tried"}[trial.state]
        say(f"{version}: {said} ({trial.seconds} s)")
        return trial

    return probe


def _shows(finding: Finding, oracle: Oracle, ask: AskAny, own: Sequence[Contract]) -> tuple[bool, str]:
    """Whether an implementation shows a finding that was made of another version, and what it gives."""
    subject = replace(finding.subject, name=oracle.name, version=oracle.version)
    moved = replace(finding, key=replace(finding.key, subject=oracle.name), subject=subject)
    again = replay_finding(moved, ask, own)
    if again.state != "STILL":
        return False, again.got if again.state == "FIXED" else f"{again.got}, which is not right either"
    call = finding.call
    if finding.key.verdict == "wrongly-rejected" and call is not None:
        contract = next((one for one in own if one.id == finding.key.contract), None) or contracts.get(
            finding.key.contract
        )
        plain = simplest(contract, contract.cell(call)).under(contract.asked_as)
        if ask(subject, plain).kind != "tensor":
            return False, f"{again.got}, as for every call of these types"
    return True, again.got
