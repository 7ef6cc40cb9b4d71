"""Environments of other versions: made once by uv or pip, kept in a cache, and found again.

Nothing here imports a framework, and nothing is given to a shell.
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

from xverify.core.errors import EnvironmentFailedError
from xverify.environments import installers
from xverify.environments.installers import Interpreter, Say

ALWAYS = ("numpy", "ml_dtypes")
"""What every worker imports, whatever its framework needs."""

OLD_NUMPY = "numpy<2"
"""Wheels that were built before NumPy 2 do not always say that they need an older one."""

_MARK = "environment.json"


@dataclass(frozen=True)
class Environment:
    """A Python that has one version of one distribution. python: the path of its interpreter."""

    python: str
    version: str
    distribution: str = ""


def environment(distribution: str, version: str, say: Say, needs: Sequence[str] = ()) -> Environment:
    """The environment of that version: the one in the cache, or a new one, which may take minutes.

    needs: distributions that its worker imports beside it. say: called with a sentence when something takes long. Raises
    EnvironmentFailedError with a sentence: no such version, no wheel for any Python of this machine, no package index, or
    what was installed does not import.
    """
    wanted = [*ALWAYS, *needs]
    place = directory() / f"{canonicalize_name(distribution)}-{canonicalize_version(version)}"
    try:
        with _locked(place, say):
            kept = _kept(place, wanted)
            return kept or _made(place, distribution, version, wanted, say)
    except OSError as error:
        raise EnvironmentFailedError(
            f"the environment of {distribution} {version} cannot be made in {place.parent}: {error.strerror or error}"
        ) from None


def directory() -> Path:
    """Where environments are kept: below $XVERIFY_CACHE, $XDG_CACHE_HOME/xverify or ~/.cache/xverify."""
    cache = os.environ.get("XVERIFY_CACHE")
    if not cache:
        cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "xverify")
    return Path(cache, "environments").absolute()


def cached() -> list[Environment]:
    """The environments that are there, by distribution and version."""
    found = []
    for mark in directory().glob(f"*/{_MARK}"):
        with suppress(OSError, ValueError):
            entry = json.loads(mark.read_text(encoding="utf-8"))
            found.append(Environment(str(_python(mark.parent)), entry["version"], entry["distribution"]))
    return sorted(found, key=lambda one: (one.distribution, Version(one.version)))


def versions_offered(distribution: str, python: str = "") -> list[str]:
    """The releases that the package index offers for a Python (for any of this machine when none is given), oldest first.

    Raises EnvironmentFailedError with a sentence when it offers none, or cannot be reached.
    """
    chosen = [installers.interpreter(python)] if python else installers.interpreters()
    offers = installers.offers(distribution, chosen)
    versions = {version for offer in offers for version in offer.versions}
    if not versions:
        raise EnvironmentFailedError(_nothing_offered(distribution, chosen, offers[0].words))
    return [str(version) for version in sorted(versions) if not version.is_prerelease]


# -- making one ---------------------------------------------------------------------------------------


def _made(place: Path, distribution: str, version: str, wanted: Sequence[str], say: Say) -> Environment:
    which = _interpreter_for(distribution, version)
    say(
        f"{distribution} {version}: making its environment for Python {which.version} (once; it is kept in {place.parent})"
    )
    building = place.with_name(f".{place.name}.partial")
    shutil.rmtree(building, ignore_errors=True)
    try:
        installers.create(which, building)
        requirements = [f"{distribution}=={version}", *wanted]
        installers.install(building, which, requirements)
        found, words = installers.imported(_python(building), distribution)
        if found is None:
            installers.install(building, which, [*requirements, OLD_NUMPY])
            found, words = installers.imported(_python(building), distribution)
        if found is None:
            raise EnvironmentFailedError(
                f"{distribution} {version} was installed for Python {which.version}, but does not import: {words}"
            )
        entry: dict[str, Any] = {"distribution": distribution, "wanted": list(wanted), **found}
        (building / _MARK).write_text(json.dumps(entry, indent=1) + "\n", encoding="utf-8")
        shutil.rmtree(place, ignore_errors=True)
        building.rename(place)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    say(f"{distribution} {version}: made")
    return Environment(str(_python(place)), entry["version"], distribution)


def _interpreter_for(distribution: str, version: str) -> Interpreter:
    """The first interpreter of this machine, this one before others, for which a wheel of that version is offered."""
    mine, *others = every = installers.interpreters()
    offers = [installers.offered(distribution, mine)]
    if Version(version) in offers[0].versions:
        return mine
    offers += installers.offers(distribution, others)
    for which, offer in zip(every, offers, strict=True):
        if Version(version) in offer.versions:
            return which
    known = sorted({one for offer in offers for one in offer.versions})
    if not known:
        raise EnvironmentFailedError(_nothing_offered(distribution, every, offers[0].words))
    nearest = sorted(sorted(known, key=lambda one: _distance(one, Version(version)))[:3])
    raise EnvironmentFailedError(
        f"{distribution} {version} is not offered for {_listed(every)}; "
        f"what is offered goes from {known[0]} to {known[-1]}, nearest: {', '.join(map(str, nearest))}"
    )


def _nothing_offered(distribution: str, every: Sequence[Interpreter], words: str) -> str:
    return (
        f"the package index offers no {distribution} for {_listed(every)}, or cannot be reached"
        f"{': ' + words if words else ''}"
    )


def _listed(every: Sequence[Interpreter]) -> str:
    return "Python " + ", ".join(which.version for which in every)


def _distance(one: Version, other: Version) -> list[int]:
    """How far two versions are apart, part by part."""
    longest = max(len(one.release), len(other.release))
    padded = ([*release, *[0] * (longest - len(release))] for release in (one.release, other.release))
    return [abs(a - b) for a, b in zip(*padded, strict=True)]


# -- in the cache -------------------------------------------------------------------------------------


def _python(place: Path) -> Path:
    return place / "bin" / "python"


def _kept(place: Path, wanted: Sequence[str]) -> Environment | None:
    """The environment there, if it is whole, has what is wanted, and its Python still runs."""
    try:
        entry = json.loads((place / _MARK).read_text(encoding="utf-8"))
        whole = set(wanted) <= set(entry["wanted"]) and os.access(_python(place), os.X_OK)
        return Environment(str(_python(place)), entry["version"], entry["distribution"]) if whole else None
    except (OSError, ValueError, KeyError):
        return None


@contextmanager
def _locked(place: Path, say: Say) -> Iterator[None]:
    """Only one process at a time makes an environment; the lock of one that died is free."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with open(place.with_name(f".{place.name}.lock"), "w", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{place.name}: waiting for another process that makes its environment")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


__all__ = ["Environment", "EnvironmentFailedError", "cached", "directory", "environment", "versions_offered"]
