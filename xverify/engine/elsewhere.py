"""Implementations that run in another environment: of another version, or somebody's own build."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from oracles.protocol import Oracle
from xverify import contracts
from xverify.engine import installers
from xverify.engine.environments import EnvironmentFailedError, environment
from xverify.engine.installers import Say

Moved = tuple[Oracle, tuple[str, ...]]
"""An implementation in another environment, and a sentence for each text that does not judge it there."""


def of_version(oracle: Oracle, version: str, say: Say) -> Moved:
    """The implementation at another version, in an environment that is made if it is not there yet.

    Raises EnvironmentFailedError with a sentence.
    """
    if oracle.distribution == "xverify":
        raise EnvironmentFailedError(f"{oracle.name} is part of xverify, and runs at its version only")
    failures = []
    for distribution in (oracle.distribution, *oracle.distributions):
        try:
            made = environment(distribution, version, say, oracle.needs)
        except EnvironmentFailedError as error:
            failures.append(str(error))
            continue
        moved = replace(oracle, distribution=distribution, python=made.python, version=made.version)
        return _judged_there(replace(moved, name=f"{oracle.name}=={version}"))
    raise EnvironmentFailedError("; ".join(failures))


def of_python(oracle: Oracle, python: str) -> Moved:
    """The implementation that another Python has; a directory is a virtual environment.

    Raises EnvironmentFailedError with a sentence.
    """
    path = os.path.abspath(os.path.expanduser(python))
    if os.path.isdir(path):
        path = os.path.join(path, "bin", "python")
    version = installers.version_in(path, (oracle.distribution, *oracle.distributions))
    return _judged_there(replace(oracle, name=f"{oracle.name}@{python}", python=path, version=version))


def _judged_there(oracle: Oracle) -> Moved:
    """The implementation, judged by those editions only whose text its own package carries."""
    here = [identity for identity in contracts.ids() if any(fnmatchcase(identity, one) for one in oracle.ships)]
    carried: list[str] = []
    otherwise: list[str] = []
    for identity in here:
        try:
            (carried if contracts.carried(identity, oracle.distribution, oracle.python) else otherwise).append(identity)
        except contracts.DocumentError as error:
            return replace(oracle, ships=()), (f"{oracle.name} is judged by no edition: {error}",)
    return replace(oracle, ships=tuple(carried)), _sentences(oracle, otherwise)


def _sentences(oracle: Oracle, otherwise: Sequence[str]) -> tuple[str, ...]:
    if not otherwise:
        return ()
    return (
        f"{oracle.name} is not judged by {', '.join(otherwise)}: its own package carries no such text, or another; "
        "what it gives there is compared and characterised",
    )
