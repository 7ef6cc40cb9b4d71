"""A run that can be resumed: its description in ``run.json``, and the lock on that file.

One process at a time holds the lock.
A run is unfinished from the moment at which ``run.json`` is written until its journal of answers is removed, which comes last.
A divided run has the folder of its shards instead. Each shard under way there is a run of its own.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from importlib.machinery import PathFinder
from pathlib import Path
from typing import BinaryIO

from xverify.core.errors import NO_SPACE_LEFT, DamagedFileError, NoSpaceError, UnableError, UsageError
from xverify.engine.select import RUNS, is_target
from xverify.engine.store import versions_of, write_json
from xverify.oracles.protocol import Oracle
from xverify.workers.journal import FULL

DESCRIPTION = "run.json"
"""The file that describes a run, and whose lock the process that does the run holds."""

JOURNALS = "answers-*.journal"
"""The journals of a run: one for each session."""

SHARDS = "shards"
"""The folder for the results of a divided run's shards."""


@dataclass(frozen=True)
class Description:
    """All that a run depends on but its answers."""

    id: str

    arguments: tuple[str, ...]
    """The arguments of ``xverify sweep``."""

    command: str
    """The command line, for the report."""

    folder: str
    """The working directory, from which paths in the arguments start."""

    started: float
    """When the run began, in seconds since 1970."""

    versions: Mapping[str, str]
    """Versions of xverify, of the packages and of the implementations, and a digest of each file of the user."""

    @property
    def digest(self) -> str:
        """A digest of what the run is."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class HeldRun:
    """A run that this process does. No other process can do it at the same time."""

    directory: Path
    description: Description
    lock: BinaryIO
    """The open file that has the lock. The lock ends with the process, or when the file is closed."""

    def require(self, versions: Mapping[str, str]) -> None:
        """Check that the run would go on as it began.

        Args:
            versions: Those of now.

        Raises:
            UsageError: A version or a file differs.
        """
        before = self.description.versions
        names = dict.fromkeys((*before, *versions))
        differing = [
            f"{name} was {before.get(name, 'absent')} and is {versions.get(name, 'absent')}"
            for name in names
            if before.get(name) != versions.get(name)
        ]
        if differing:
            raise UsageError(
                f"run {self.description.id} cannot be resumed, since its answers would not fit together: {'; '.join(differing)}. "
                "Restore this, or start again with: xverify sweep"
            )

    def finish(self) -> None:
        """Remove the journals or shards of a run that is finished, and let other processes have it."""
        for journal in self.directory.glob(JOURNALS):
            journal.unlink()
        shutil.rmtree(self.directory / SHARDS, ignore_errors=True)
        self.lock.close()


def begin(directory: Path, arguments: Sequence[str], command: str, versions: Mapping[str, str]) -> HeldRun:
    """Describe a new run in its directory, and hold it."""
    directory.mkdir(parents=True, exist_ok=True)
    description = Description(
        directory.name, tuple(arguments), command, str(Path.cwd()), round(time.time(), 3), dict(versions)
    )
    write_json(directory / DESCRIPTION, asdict(description))
    return hold(directory)


def hold(directory: Path) -> HeldRun:
    """Hold a run, so that no other process does it at the same time.

    Raises:
        UnableError: Another process holds it.
        DamagedFileError: Its description is damaged.
    """
    path = directory / DESCRIPTION
    lock = path.open("rb")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise UnableError(f"run {directory.name} is being done by another process: wait until it ends") from None
    try:
        written = json.loads(lock.read())
        values = {field.name: written[field.name] for field in fields(Description)}
        return HeldRun(directory, Description(**{**values, "arguments": tuple(values["arguments"])}), lock)
    except (ValueError, KeyError, TypeError) as error:
        lock.close()
        raise DamagedFileError(f"{path} is damaged ({error}): start again with: xverify sweep") from None


def is_finished(directory: Path) -> bool:
    """True if the run has all that it was to write."""
    unfinished = any(directory.glob(JOURNALS)) or (directory / SHARDS).exists()
    return (directory / "report.json").exists() and not unfinished


def to_resume(run: str | None, runs: Path = RUNS) -> HeldRun | Path:
    """The unfinished run that a user names, or the newest that no other process does.

    The files of its workers are removed.

    Args:
        run: Its id or its directory; None for the newest.
        runs: The folder of runs.

    Returns:
        The run; or the directory of the one that is named, if it is finished.

    Raises:
        UsageError: There is no such run.
        UnableError: Another process does it.
    """
    if run is None:
        held = _newest_unfinished(runs)
    else:
        directory = next((d for d in (Path(run), runs / run) if (d / DESCRIPTION).is_file()), None)
        if directory is None:
            raise UsageError(
                f"no run to resume is called {run!r} under {runs}: name the id or the folder of a sweep that has a {DESCRIPTION}"
            )
        if is_finished(directory):
            return directory
        held = hold(directory.resolve())
    shutil.rmtree(held.directory / "workers", ignore_errors=True)
    return held


def _newest_unfinished(runs: Path) -> HeldRun:
    unfinished = [path.parent for path in runs.glob(f"*/{DESCRIPTION}") if not is_finished(path.parent)]
    if not unfinished:
        raise UsageError(f"there is no unfinished run under {runs}: start one with: xverify sweep")
    busy: UnableError | None = None
    for directory in sorted(unfinished, key=lambda path: (path / DESCRIPTION).stat().st_mtime, reverse=True):
        try:
            return hold(directory.resolve())
        except UnableError as error:
            busy = busy or error
    raise busy or UsageError(f"there is no unfinished run under {runs}: start one with: xverify sweep")


def versions_to_resume(oracles: Sequence[Oracle], files: Iterable[str]) -> dict[str, str]:
    """All versions that the answers of a run depend on, and a digest of each file of the user.

    Args:
        files: What the user named as an edition or a kernel. Those that are no files are skipped.
    """
    named = [name for name in files if name]
    paths = sorted({Path(name.split(":")[0]) for name in named} | set(_modules(filter(is_target, named))))
    digests = {str(path): hashlib.sha256(path.read_bytes()).hexdigest()[:12] for path in paths if path.is_file()}
    return {**versions_of(oracles), **digests}


def _modules(targets: Iterable[str]) -> Iterator[Path]:
    """The files of the modules that targets name, also of compiled ones. Nothing is imported."""
    for target in targets:
        names = target.rpartition(":")[0].split(".")
        if not all(map(str.isidentifier, names)):
            continue
        spec = None
        folders: Sequence[str] | None = [os.getcwd(), *sys.path]
        for name in names:
            spec = PathFinder.find_spec(name, folders) if folders else None
            folders = spec.submodule_search_locations if spec else None
        if spec is not None and spec.origin is not None:
            file = Path(spec.origin)
            yield file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file


@contextmanager
def naming_full_disk(directory: Path, then: str = "") -> Iterator[None]:
    """Turn the error of a full disk into a sentence that says how to go on.

    Args:
        directory: The directory of the run. For a shard of a divided run, the one of the whole.
        then: The next step after space is freed.  The default is to resume the run.

    Raises:
        UnableError: The disk was full.
    """
    try:
        yield
    except (OSError, NoSpaceError) as error:
        if not is_full_disk(error):
            raise
        file = Path(error.filename) if isinstance(error, OSError) and error.filename else directory
        # A user cannot resume a shard alone, so its files stand for the whole run.
        where = directory if file.resolve().is_relative_to((directory / SHARDS).resolve()) else file
        then = then or f"xverify resume {os.path.relpath(directory)}"
        raise UnableError(f"{NO_SPACE_LEFT} for {where}: free some, then: {then}") from error


def is_full_disk(error: BaseException) -> bool:
    """True if the error says that a disk is full."""
    return isinstance(error, NoSpaceError) or (isinstance(error, OSError) and error.errno in FULL)
