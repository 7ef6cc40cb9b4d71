"""Implementations that run in another environment: at another version, or from a user's own build."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

from packaging.version import Version

from xverify import contracts
from xverify.core.errors import DocumentError
from xverify.environments import installers
from xverify.environments.cache import OLD_NUMPY, EnvironmentFailedError, environment, versions_offered
from xverify.environments.installers import Say
from xverify.oracles.protocol import Oracle

Moved = tuple[Oracle, Mapping[str, str]]
"""An implementation in another environment, and why some editions do not judge it there (reason by edition)."""


def of_version(oracle: Oracle, version: str, say: Say) -> Moved:
    """The implementation at another version, in an environment that is made if there is none yet.

    Args:
        say: Called with a sentence when something takes long.

    Raises:
        EnvironmentFailedError: No environment with that version can be made.
    """
    if oracle.distribution == "xverify":
        raise EnvironmentFailedError(f"{oracle.name} is part of xverify, and runs at its version only")
    failures = []
    for distribution in (oracle.distribution, *oracle.distributions):
        try:
            made = environment(distribution, version, say, needs_of(oracle, version))
        except EnvironmentFailedError as error:
            failures.append(str(error))
            continue
        moved = replace(oracle, distribution=distribution, python=made.python, version=made.version)
        return _judged_there(replace(moved, name=f"{oracle.name}=={version}"))
    raise EnvironmentFailedError("; ".join(failures))


def needs_of(oracle: Oracle, version: str) -> tuple[str, ...]:
    """The further requirements of an implementation's environment at a version."""
    is_older = bool(oracle.numpy_2_from) and Version(version) < Version(oracle.numpy_2_from)
    return (*oracle.needs, OLD_NUMPY) if is_older else oracle.needs


def newest_versions(oracle: Oracle) -> list[str]:
    """Releases that the package index offers for a Python of this machine, newest first.

    Raises:
        EnvironmentFailedError: The index offers none, or cannot be reached.
    """
    if oracle.distribution == "xverify":
        raise EnvironmentFailedError(f"{oracle.name} is part of xverify, and runs at its version only")
    offered: set[str] = set()
    failures = []
    for distribution in (oracle.distribution, *oracle.distributions):
        try:
            offered.update(versions_offered(distribution))
        except EnvironmentFailedError as error:
            failures.append(str(error))
    if not offered:
        raise EnvironmentFailedError("; ".join(failures))
    return sorted(offered, key=Version, reverse=True)


def of_python(oracle: Oracle, python: str) -> Moved:
    """The implementation that is installed in another Python.

    Args:
        python: An interpreter, or the directory of a virtual environment.

    Raises:
        EnvironmentFailedError: That Python does not run, or does not have the implementation.
    """
    path = os.path.abspath(os.path.expanduser(python))
    if os.path.isdir(path):
        path = os.path.join(path, "bin", "python")
    version = installers.version_in(path, (oracle.distribution, *oracle.distributions))
    return _judged_there(replace(oracle, name=f"{oracle.name}@{python}", python=path, version=version))


def _judged_there(oracle: Oracle) -> Moved:
    """The implementation, judged only by texts that its own package contains, if it carries any."""
    if not oracle.carries_texts:
        return oracle, {}
    reasons: dict[str, str] = {}
    carried: list[str] = []
    for identity in contracts.ids():
        if not any(fnmatchcase(identity, pattern) for pattern in oracle.judged_by):
            continue
        try:
            if contracts.carried(identity, oracle.distribution, oracle.python):
                carried.append(identity)
            else:
                reasons[identity] = "its own package carries no such text, or another"
        except DocumentError as error:
            reasons[identity] = str(error)
    return replace(oracle, judged_by=tuple(carried)), reasons


def not_judged(oracle: Oracle, reasons: Mapping[str, str], editions: Collection[str]) -> tuple[str, ...]:
    """A sentence for each reason why some of the editions do not judge an implementation."""
    relevant = {identity: reason for identity, reason in reasons.items() if identity in editions}
    return tuple(
        f"{oracle.name} is not judged by {', '.join(i for i in relevant if relevant[i] == reason)}: {reason}; "
        "what it gives there is compared and characterised"
        for reason in dict.fromkeys(relevant.values())
    )
