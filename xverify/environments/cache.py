"""Environments of other versions: uv or pip makes each once, and a cache keeps it.

This module imports no framework, and passes nothing to a shell.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name, canonicalize_version
from packaging.version import Version

from xverify.core.cache_folder import cache_folder
from xverify.core.errors import EnvironmentFailedError
from xverify.environments import installers
from xverify.environments.installers import Interpreter, Say

ALWAYS = ("numpy", "ml_dtypes")
"""Distributions that every worker imports."""

OLD_NUMPY = "numpy<2"
"""The requirement of releases made before NumPy 2, which do not always state that they need an older one.

`Oracle.numpy_2_from` names the releases that import with NumPy 2 and fail later. Those that do not import get it anyway.
"""

_MARK = "environment.json"


@dataclass(frozen=True)
class Environment:
    """A Python that has one version of one distribution."""

    python: str
    """The path of its interpreter."""

    version: str
    distribution: str = ""


def environment(distribution: str, version: str, say: Say, needs: Sequence[str] = ()) -> Environment:
    """The environment of a version, from the cache or new. Making one may take minutes.

    Args:
        say: Called with a sentence when something takes long.
        needs: Further distributions that its worker imports, see `Oracle.needs`.

    Raises:
        EnvironmentFailedError: There is no such version, no wheel for a Python of this machine, no package index, or the
            installed package does not import.
    """
    wanted = [*ALWAYS, *(need.replace("{version}", version) for need in needs)]
    folder = directory() / f"{canonicalize_name(distribution)}-{canonicalize_version(version)}"
    try:
        with _locked(folder, say):
            kept = _kept(folder, wanted)
            return kept or _made(folder, distribution, version, wanted, say)
    except OSError as error:
        raise EnvironmentFailedError(
            f"the environment of {distribution} {version} cannot be made in {folder.parent}: {error.strerror or error}"
        ) from None


def directory() -> Path:
    """The folder of environments."""
    return cache_folder() / "environments"


def cached() -> list[Environment]:
    """The environments in the cache, sorted by distribution and version."""
    environments = []
    for mark in directory().glob(f"*/{_MARK}"):
        with suppress(OSError, ValueError):
            entry = json.loads(mark.read_text(encoding="utf-8"))
            environments.append(Environment(str(_python(mark.parent)), entry["version"], entry["distribution"]))
    return sorted(environments, key=lambda made: (made.distribution, Version(made.version)))


def versions_offered(distribution: str, python: str = "") -> list[str]:
    """The releases that the package index offers, oldest first.

    Args:
        python: The interpreter that they are for; "" for all of this machine.

    Raises:
        EnvironmentFailedError: The index offers none, or cannot be reached.
    """
    chosen = [installers.interpreter(python)] if python else installers.interpreters()
    offers = installers.offers(distribution, chosen)
    versions = {version for offer in offers for version in offer.versions}
    if not versions:
        raise EnvironmentFailedError(_nothing_offered(distribution, chosen, offers[0].words))
    return [str(version) for version in sorted(versions) if not version.is_prerelease]


# -- making an environment ---------------------------------------------------------------------------------------


def _made(folder: Path, distribution: str, version: str, wanted: Sequence[str], say: Say) -> Environment:
    which = _interpreter_for(distribution, version)
    say(
        f"{distribution} {version}: making its environment for Python {which.version} (once; it is kept in {folder.parent})"
    )
    building = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(building, ignore_errors=True)
    try:
        installers.create(which, building)
        requirements = [f"{distribution}=={version}", *wanted]
        installers.install(building, which, requirements)
        versions, words = installers.imported(_python(building), distribution)
        if versions is None:
            installers.install(building, which, [*requirements, OLD_NUMPY])
            versions, words = installers.imported(_python(building), distribution)
        if versions is None:
            raise EnvironmentFailedError(
                f"{distribution} {version} was installed for Python {which.version}, but does not import: {words}"
            )
        entry: dict[str, Any] = {"distribution": distribution, "wanted": list(wanted), **versions}
        (building / _MARK).write_text(json.dumps(entry, indent=1) + "\n", encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        building.rename(folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    say(f"{distribution} {version}: made")
    return Environment(str(_python(folder)), entry["version"], distribution)


def _interpreter_for(distribution: str, version: str) -> Interpreter:
    """The first interpreter of this machine for which the index offers a wheel of that version.

    The running interpreter comes first.
    """
    mine, *others = every = installers.interpreters()
    offers = [installers.offered(distribution, mine)]
    if Version(version) in offers[0].versions:
        return mine
    offers += installers.offers(distribution, others)
    for which, offer in zip(every, offers, strict=True):
        if Version(version) in offer.versions:
            return which
    versions = sorted({version for offer in offers for version in offer.versions})
    if not versions:
        raise EnvironmentFailedError(_nothing_offered(distribution, every, offers[0].words))
    nearest = sorted(sorted(versions, key=lambda other: _distance(other, Version(version)))[:3])
    raise EnvironmentFailedError(
        f"{distribution} {version} is not offered for {_listed(every)}; "
        f"what is offered goes from {versions[0]} to {versions[-1]}, nearest: {', '.join(map(str, nearest))}"
    )


def _nothing_offered(distribution: str, every: Sequence[Interpreter], words: str) -> str:
    return (
        f"the package index offers no {distribution} for {_listed(every)}, or cannot be reached"
        f"{': ' + words if words else ''}"
    )


def _listed(every: Sequence[Interpreter]) -> str:
    return "Python " + ", ".join(which.version for which in every)


def _distance(first: Version, second: Version) -> list[int]:
    """The distance of two versions, part by part."""
    longest = max(len(first.release), len(second.release))
    padded = ([*release, *[0] * (longest - len(release))] for release in (first.release, second.release))
    return [abs(a - b) for a, b in zip(*padded, strict=True)]


# -- in the cache -------------------------------------------------------------------------------------


def _python(folder: Path) -> Path:
    return folder / "bin" / "python"


def _kept(folder: Path, wanted: Sequence[str]) -> Environment | None:
    """The environment in a folder; None if it is incomplete or lacks a wanted distribution or its Python."""
    try:
        entry = json.loads((folder / _MARK).read_text(encoding="utf-8"))
        complete = set(wanted) <= set(entry["wanted"]) and os.access(_python(folder), os.X_OK)
        return Environment(str(_python(folder)), entry["version"], entry["distribution"]) if complete else None
    except (OSError, ValueError, KeyError):
        return None


@contextmanager
def _locked(folder: Path, say: Say) -> Iterator[None]:
    """Hold the lock of an environment, so that only one process makes it.

    A process that dies releases its lock.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(f".{folder.name}.lock"), "w", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{folder.name}: waiting for another process that makes its environment")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


__all__ = ["Environment", "EnvironmentFailedError", "cached", "directory", "environment", "versions_offered"]
