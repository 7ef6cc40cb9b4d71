"""Pythons of this machine, and the packages that uv or pip installs for them."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from xverify.core.errors import EnvironmentFailedError

Say = Callable[[str], None]
"""say(sentence) is called when something takes long."""


def unsaid(sentence: str) -> None:
    """Ignore the sentence."""


ASK_SECONDS = 60.0
CREATE_SECONDS = 180.0
INSTALL_SECONDS = 3600.0
IMPORT_SECONDS = 300.0

OLDEST = (3, 8)
"""The oldest Python that a worker runs under."""

_IMPORT = """
import importlib, importlib.metadata, json, platform, sys
import numpy
wanted = sys.argv[1]
package = importlib.metadata.distribution(wanted)
names = (package.read_text("top_level.txt") or "").split()
names = names or sorted({p.parts[0] for p in package.files or () if len(p.parts) == 2 and p.name == "__init__.py"})
names = [name for name in names if name.isidentifier() and not name.startswith("_")]
own = [name for name in names if name == wanted.lower().replace("-", "_")] or names
for name in own:
    importlib.import_module(name)
print("\\n" + json.dumps({"version": package.version, "python": platform.python_version(), "numpy": numpy.__version__}))
"""

_OTHER_NUMPY = "A module that was compiled using NumPy 1.x cannot be run"
"""The message of NumPy 2 about an older extension module, which hides the exception."""

_VERSION = """
import importlib.metadata, json, sys
import numpy
version = None
for name in sys.argv[1:]:
    try:
        version = importlib.metadata.version(name)
        break
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(version))
"""


@dataclass(frozen=True)
class Interpreter:
    """A Python of this machine."""

    path: str

    version: str
    """Major and minor version, for example "3.11"."""


@dataclass(frozen=True)
class Offer:
    """The versions that the package index offers for a Python."""

    versions: frozenset[Version]

    words: str = ""
    """The installer's message, if there are none."""


# -- Pythons ------------------------------------------------------------------------------------------


@cache
def interpreters() -> tuple[Interpreter, ...]:
    """The Pythons of this machine that can run a worker, one of each minor version.

    The running one comes first, then from new to old.
    """
    mine = Interpreter(sys.executable, f"{sys.version_info[0]}.{sys.version_info[1]}")
    with ThreadPoolExecutor() as pool:
        usable = [which for which in pool.map(_inspected, _candidates()) if which is not None]
    by_version = {which.version: which for which in reversed(usable)}
    by_version.pop(mine.version, None)
    return (mine, *sorted(by_version.values(), key=lambda which: Version(which.version), reverse=True))


def _candidates() -> list[str]:
    """Paths where Pythons usually are: on PATH, in pyenv's directory, in uv's."""
    names = [f"python3.{minor}" for minor in range(OLDEST[1], sys.version_info[1] + 8)]
    paths = [path for name in names if (path := shutil.which(name))]
    pyenv = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    paths += map(str, Path(pyenv, "versions").glob("3.*/bin/python3"))
    if uv := uv_command():
        done = run([*uv, "python", "list", "--only-installed", "--output-format", "json"], ASK_SECONDS)
        if done.returncode == 0:
            paths += [entry["path"] for entry in json.loads(done.stdout)]
    return paths


def _inspected(path: str) -> Interpreter | None:
    """The Python at a path; None if it does not run, is too old, or cannot make environments."""
    code = "import sys, venv, ensurepip; print(*sys.version_info[:2], sys.implementation.name, sys.prefix == sys.base_prefix)"
    done = run([path, "-c", code], ASK_SECONDS)
    match = re.fullmatch(r"(\d+) (\d+) cpython True", done.stdout.strip()) if done.returncode == 0 else None
    if match is None or (int(match[1]), int(match[2])) < OLDEST:
        return None
    return Interpreter(path, f"{match[1]}.{match[2]}")


def interpreter(path: str) -> Interpreter:
    """The Python at a path.

    Raises:
        EnvironmentFailedError: It does not run.
    """
    done = run([path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], ASK_SECONDS)
    if done.returncode:
        raise EnvironmentFailedError(f"{path} does not run as a Python: {last_line(done.stderr)}")
    return Interpreter(path, done.stdout.strip())


def version_in(python: str, distributions: Sequence[str]) -> str:
    """The version of the first of the distributions that a Python has.

    Raises:
        EnvironmentFailedError: It has none of them, or no NumPy, or does not run.
    """
    done = run([python, "-c", _VERSION, *distributions], ASK_SECONDS)
    if done.returncode:
        raise EnvironmentFailedError(f"{python} cannot run a worker: {last_line(done.stderr)}")
    version = json.loads(done.stdout)
    if version is None:
        raise EnvironmentFailedError(f"{python} has no {' or '.join(distributions)}; install it there")
    return str(version)


# -- uv and pip ---------------------------------------------------------------------------------------


@cache
def uv_command() -> tuple[str, ...]:
    """The command that calls uv, from PATH or from this Python's folder; () if there is none."""
    path = shutil.which("uv") or shutil.which("uv", path=os.path.dirname(sys.executable))
    return (path,) if path else ()


@cache
def _pip_command() -> tuple[str, ...]:
    if importlib.util.find_spec("pip"):
        return (sys.executable, "-m", "pip")
    if uv_command():
        return (*uv_command(), "tool", "run", "pip")
    raise EnvironmentFailedError("no environment can be made: this Python has no pip; install uv, or pip")


def offered(distribution: str, which: Interpreter) -> Offer:
    """The wheels that the package index offers for a Python."""
    command = [*_pip_command(), "index", "versions", distribution, "--pre", "--python-version", which.version]
    options = ["--only-binary=:all:", "--disable-pip-version-check", "--retries=1", "--timeout=15"]
    done = run([*command, *options], ASK_SECONDS)
    listed = re.search(r"^Available versions: (.*)$", done.stdout, re.MULTILINE)
    versions = set()
    for text in listed[1].split(",") if listed else ():
        try:
            versions.add(Version(text.strip()))
        except InvalidVersion:
            continue
    unreachable = "Retrying (" in done.stderr
    words = "the connection to it fails" if unreachable else last_line(done.stderr)
    return Offer(frozenset(versions), "" if versions else words)


def offers(distribution: str, every: Sequence[Interpreter]) -> list[Offer]:
    """The wheels that the package index offers for each of several Pythons, in parallel."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda which: offered(distribution, which), every))


def create(which: Interpreter, folder: Path) -> None:
    """Make an empty virtual environment.

    Raises:
        EnvironmentFailedError: It cannot be made.
    """
    if uv := uv_command():
        command = [*uv, "venv", "--quiet", "--python", which.path, str(folder)]
    else:
        command = [which.path, "-m", "venv", *(["--without-pip"] if _pip_runs_under(which) else []), str(folder)]
    done = run(command, CREATE_SECONDS)
    if done.returncode:
        raise EnvironmentFailedError(
            f"no environment can be made with Python {which.version}: {last_line(done.stderr or done.stdout)}"
        )


def install(folder: Path, which: Interpreter, requirements: Sequence[str]) -> None:
    """Install into an environment.

    Raises:
        EnvironmentFailedError: The requirements cannot be installed together.
    """
    python = str(folder / "bin" / "python")
    wheels = [f"--only-binary={re.split('[<=>]', requirement)[0]}" for requirement in requirements]
    if uv := uv_command():
        command = [*uv, "pip", "install", "--quiet", "--python", python, *wheels, *requirements]
    else:
        pip = [*_pip_command(), "--python", python] if _pip_runs_under(which) else [python, "-m", "pip"]
        options = ["--quiet", "--disable-pip-version-check", "--no-warn-script-location", "--prefer-binary"]
        command = [*pip, "install", *options, *wheels, *requirements]
    done = run(command, INSTALL_SECONDS)
    if done.returncode:
        raise EnvironmentFailedError(
            f"{requirements[0]} cannot be installed for Python {which.version}: {last_line(done.stderr or done.stdout)}"
        )


def imported(python: Path, distribution: str) -> tuple[dict[str, str] | None, str]:
    """Import a distribution in its environment.

    Returns:
        The versions there and ""; or None and the reason why it does not import.
    """
    done = run([str(python), "-c", _IMPORT, distribution], IMPORT_SECONDS)
    if done.returncode or _OTHER_NUMPY in done.stderr:
        return None, last_line(done.stderr) or f"the process ended with status {done.returncode}"
    versions: dict[str, str] = json.loads(done.stdout.strip().splitlines()[-1])
    return versions, ""


def _pip_runs_under(which: Interpreter) -> bool:
    """True if this Python's pip can install into an environment of another Python."""
    try:
        about = importlib.metadata.metadata("pip")
    except importlib.metadata.PackageNotFoundError:
        return False
    return Version(about["Version"]) >= Version("22.3") and which.version in SpecifierSet(
        about["Requires-Python"] or ""
    )


# -- processes ----------------------------------------------------------------------------------------


def run(command: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, without a shell.

    Args:
        seconds: Time limit. After it the command and its children are killed, and the status is 124.

    Returns:
        The status and the output. The status is 127 if there is no such command, as in a shell.
    """
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        return subprocess.CompletedProcess(command, 127, "", f"{command[0]}: {error.strerror}")
    try:
        out, words = process.communicate(timeout=seconds)
        return subprocess.CompletedProcess(command, process.returncode, out, words)
    except subprocess.TimeoutExpired:
        _end(process)
        return subprocess.CompletedProcess(command, 124, "", f"no answer within {seconds:g} s")
    except BaseException:
        _end(process)
        raise


def _end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def last_line(text: str) -> str:
    """The last error of pip's output, or else the last line that is not empty."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["it said nothing"])[-1][:300]
