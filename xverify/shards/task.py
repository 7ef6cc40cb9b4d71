"""One shard as a child process: its command, its limits, its log, and its result on disk.

An attempt works in a directory of its own. When the command has ended with its result, a rename gives that directory its
final name. So a directory with a final name is complete, and of two attempts at a shard one counts.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

from xverify.core.codec import MOST_BYTES, read_json
from xverify.core.errors import NO_SPACE_LEFT, UsageError
from xverify.core.machine import machine

PYTHON, FOLDER = "{python}", "{folder}"
"""Texts in an argv that stand for the interpreter and for the directory of the attempt."""

LOG = "log.txt"
"""The name of the file for the output of the command."""

REPORT = "report.json"
"""The name of the report beside the result of a sweep's shard."""

EVENTS = "events.jsonl"
"""The name of the file for the command's events, one a line."""

NOT_PACKED = (".journal",)
"""Ends of the names of files that no merge needs, and that may be large."""

MOST_LOGGED = 1 << 20
"""Bytes of output that a log keeps from the start, and again from the end."""

MOST_PACKED = 1 << 30
"""Bytes of files that a packed result may have."""

POLL_SECONDS = 0.1

GOES_ON, FINISH, END = 0, 1, 2
"""Wishes to a shard under way: go on, finish with the results so far, and end at once."""

NO_RESULT_CODES = (2,)
"""Exit codes after which another attempt would end alike."""

_GUARD = """
import ctypes, os, signal, sys
parent, cores = int(sys.argv[1]), sys.argv[2]
try:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
except (OSError, AttributeError):
    pass
if os.getppid() != parent:
    sys.exit(3)
if cores and hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, [int(core) for core in cores.split(",")])
os.execvp(sys.argv[3], sys.argv[3:])
"""
"""The first code of a child: it dies with its parent (Linux), and keeps to its cores."""


@dataclass(frozen=True)
class Task:
    """A shard's command and what it needs, in plain data."""

    key: str
    """Its name, which is also the final name of its directory: ``sweep-3-of-16``."""

    argv: tuple[str, ...]
    """The command. `PYTHON` and `FOLDER` stand for the interpreter and the attempt's directory."""

    result: str
    """A glob pattern of the result file below that directory, for example ``*/report.json``."""

    seconds: float
    """Seconds after which the command is killed."""

    needs: tuple[str, ...] = ()
    """Resources that a worker must state, for example ``avx512``."""

    directory: str = ""
    """The directory in which the command runs, where it exists: relative names of files are found there."""

    again: tuple[str, ...] = ()
    """The command that continues an attempt whose process died, in the directory of that attempt; none begins anew."""

    lock: str = ""
    """A glob pattern of the file, below that directory, which the command locks while it runs, and leaves if it dies."""


@dataclass(frozen=True)
class Done:
    """The end of a shard's attempt."""

    key: str
    code: int
    """The exit code; -N for signal N."""

    result: Path | None
    """The result file below its final name; None if there is none."""

    error: str = ""
    """The reason why there is no result, as a sentence without the name of the shard."""

    seconds: float = 0.0

    processor: str = ""
    """The processor on which the command ran."""

    @property
    def is_hopeless(self) -> bool:
        """True if another attempt would end alike."""
        return self.result is None and self.code in NO_RESULT_CODES

    @property
    def met_full_disk(self) -> bool:
        """True if it ended because a disk was full. Another attempt on this machine would need what it left."""
        return self.result is None and NO_SPACE_LEFT in self.error


def no_wish() -> int:
    """The wish of a caller who lets each shard go on."""
    return GOES_ON


def ignored(line: str) -> None:
    """Ignore a line."""


def result_of(task: Task, folder: Path) -> Path | None:
    """The result of a shard that is on disk already; None if there is none."""
    return next(iter(sorted((folder / task.key).glob(task.result))), None)


def reopen(tasks: Sequence[Task], folder: Path) -> None:
    """Make the results of interrupted shards attempts again, so that `run_task` continues them.

    Args:
        tasks: Shards of a sweep.
        folder: The directory of their results.
    """
    for task in tasks:
        result = result_of(task, folder)
        if result is None or read_json(result.with_name(REPORT), MOST_BYTES)["run"]["complete"]:
            continue
        attempt = as_attempt(task, folder)
        for name in (result.name, REPORT):
            (attempt / result.parent.name / name).unlink()


def as_attempt(task: Task, folder: Path) -> Path:
    """Make the directory of a result that of an attempt. Return it."""
    attempt = folder / f".{task.key}-again"
    os.rename(folder / task.key, attempt)
    return attempt


def run_task(
    task: Task,
    folder: Path,
    on_line: Callable[[str], None] = ignored,
    wish: Callable[[], int] = no_wish,
    cores: Sequence[int] = (),
) -> Done:
    """Run a shard's command once, and give its directory the final name if it has a result.

    Args:
        task: The shard.
        folder: The directory for the attempt and for the result. An earlier result there counts.
        on_line: Called with each line of the command's events.
        wish: Called often; it returns `GOES_ON`, `FINISH` or `END`.
        cores: The processor cores of the command; all if there are none.
    """
    if (before := result_of(task, folder)) is not None:
        return Done(task.key, 0, before)
    if wish() != GOES_ON:
        return Done(task.key, -signal.SIGINT, None, "it was interrupted before it began")
    folder.mkdir(parents=True, exist_ok=True)
    died = [attempt for attempt, lock in _attempts(folder, task) if not _is_locked(lock)]
    anew = task
    if died:
        task = replace(task, argv=task.again)
    attempt = died[0] if died else Path(tempfile.mkdtemp(prefix=f".{task.key}-", dir=folder))
    results: list[Path] = []
    error = ""
    started = time.monotonic()
    try:
        code, error = _run(task, attempt, on_line, wish, cores)
        if not error:
            results = list(attempt.glob(task.result))
        if not error and not results:
            error = f"it ended with exit code {code} and no result{_last_words(attempt / LOG)}"
        if results:
            _publish(attempt, folder / task.key)
        else:
            with contextlib.suppress(OSError):
                os.replace(attempt / LOG, folder / f"{task.key}.log")
    finally:
        # The next attempt continues a run that died, but not one that died again for another reason than a full disk.
        may_go_on = not results and (not died or NO_SPACE_LEFT in error)
        if not may_go_on or not any(attempt == other for other, _ in _attempts(folder, task)):
            shutil.rmtree(attempt, ignore_errors=True)
    if died and not results and code in NO_RESULT_CODES:  # it was of another processor, for example
        return run_task(anew, folder, on_line, wish, cores)
    seconds, processor = time.monotonic() - started, str(machine()["processor"])
    return Done(task.key, code, result_of(task, folder) if results else None, error, seconds, processor)


def _attempts(folder: Path, task: Task) -> list[tuple[Path, Path]]:
    """The attempts at a task that it can continue, each with its lock."""
    attempts = sorted(folder.glob(f".{task.key}-*")) if task.again else []
    return [(attempt, lock) for attempt in attempts for lock in attempt.glob(task.lock)]


def _is_locked(lock: Path) -> bool:
    """True if some process holds the lock."""
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _run(
    task: Task, attempt: Path, on_line: Callable[[str], None], wish: Callable[[], int], cores: Sequence[int]
) -> tuple[int, str]:
    """Run the command. Return its exit code, and why its result does not count."""
    stands_for = {PYTHON: sys.executable, FOLDER: str(attempt)}
    words = list(task.argv)
    for name, text in stands_for.items():
        words = [word.replace(name, text) for word in words]
    guarded = [sys.executable, "-c", _GUARD, str(os.getpid()), ",".join(map(str, cores)), *words]
    process = subprocess.Popen(
        guarded,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        cwd=task.directory if task.directory and os.path.isdir(task.directory) else None,
    )
    assert process.stdout is not None
    logger = threading.Thread(target=_log, args=(process.stdout, attempt / LOG), daemon=True)
    logger.start()
    until, is_interrupted, error = time.monotonic() + task.seconds, False, ""
    lines = _Lines(attempt / EVENTS, on_line)
    try:
        while process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(POLL_SECONDS)
            lines.read()
            wished = wish()
            if wished == FINISH and not is_interrupted:
                is_interrupted = True
                process.send_signal(signal.SIGINT)
            if wished == END:
                error = "it was ended at once"
                break
            if time.monotonic() > until:
                error = f"it took more than {task.seconds:.0f} s and was killed"
                break
    finally:
        # Also what the command left behind: its pipe would stay open.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        logger.join(5.0)
    lines.read()
    if not error and code < 0:
        error = f"it was killed by {_signal_name(-code)}"
    return code, error


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _publish(attempt: Path, final: Path) -> None:
    """Give a directory its final name, after its files are on the disk. An earlier result stays."""
    for path in attempt.rglob("*.json"):
        with path.open("rb") as file:
            os.fsync(file.fileno())
    with contextlib.suppress(OSError):
        os.rename(attempt, final)


class _Lines:
    """The complete lines of a file that grows."""

    def __init__(self, path: Path, on_line: Callable[[str], None]) -> None:
        self._path, self._on_line = path, on_line
        self._file: IO[bytes] | None = None
        self._part = b""

    def read(self) -> None:
        if self._file is None:
            try:
                self._file = self._path.open("rb")
            except OSError:
                return
        *lines, self._part = (self._part + self._file.read()).split(b"\n")
        for line in lines:
            self._on_line(line.decode("utf-8", "replace"))


def _log(pipe: IO[bytes], path: Path) -> None:
    """Write the start and the end of an output to a file, and read the rest to keep the pipe empty."""
    try:
        _write_log(pipe, path)
    except OSError:  # a full disk
        while os.read(pipe.fileno(), 1 << 16):
            pass


def _write_log(pipe: IO[bytes], path: Path) -> None:
    end: deque[bytes] = deque()
    room, kept, left_out = MOST_LOGGED, 0, 0
    with path.open("wb", buffering=0) as file:
        while block := os.read(pipe.fileno(), 1 << 16):
            file.write(block[:room])
            rest, room = block[room:], max(0, room - len(block))
            if rest:
                end.append(rest)
                kept += len(rest)
            while kept > MOST_LOGGED:
                oldest = end.popleft()
                kept -= len(oldest)
                left_out += len(oldest)
        if left_out:
            file.write(f"\n[{left_out} bytes are left out]\n".encode())
        file.writelines(end)


def _last_words(log: Path) -> str:
    """The last line of a log, as the end of a sentence."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 4096))
            lines = file.read().decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    last = next((" ".join(line.split()) for line in reversed(lines) if line.strip()), "")
    return f": {last[:300]}" if last else ""


def run_packed(described: dict[str, Any], shared: str, token: str, wish: Callable[[], int] = no_wish) -> dict[str, Any]:
    """Run a shard on another machine. Takes and returns plain data.

    Args:
        described: The fields of the `Task`.
        shared: The client's directory for results. The result is written there if it is the same directory here.
        token: The name of a file that the client made in that directory.
        wish: As for `run_task`.

    Returns:
        The fields of `Done`, and in ``archive`` the compressed result directory, or None.

    Raises:
        ShardFailedError: There is no result, and another attempt may have one.
    """
    task = Task(
        **{
            **described,
            "argv": tuple(described["argv"]),
            "needs": tuple(described["needs"]),
            "again": tuple(described["again"]),
        }
    )
    with contextlib.ExitStack() as stack:
        folder = Path(shared)
        if not (folder / token).is_file():
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="xverify-shard-")))
        done = run_task(task, folder, wish=wish)
        if done.result is None and not done.is_hopeless and wish() == GOES_ON:
            raise ShardFailedError(done.error)
        archive = None if done.result is None else packed(folder / task.key)
        return {**asdict(done), "result": "", "archive": archive}


class ShardFailedError(RuntimeError):
    """A shard that ended without a result. The message says why."""


def packed(directory: Path) -> bytes:
    """The files of a directory as a compressed archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=3) as archive:
        for path in sorted(directory.rglob("*")):
            if path.is_file() and not path.is_symlink() and not path.name.endswith(NOT_PACKED):
                archive.add(path, str(path.relative_to(directory)), recursive=False)
    return buffer.getvalue()


def unpack(task: Task, archive: bytes, folder: Path) -> Path | None:
    """Write a packed result under its final name, unless it is there. Return the result file.

    Raises:
        UsageError: The archive is damaged, too large, or has other things than files.
    """
    if (before := result_of(task, folder)) is not None:
        return before
    attempt = Path(tempfile.mkdtemp(prefix=f".{task.key}-", dir=folder))
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as files:
            members = files.getmembers()
            if not all(member.isfile() for member in members) or sum(m.size for m in members) > MOST_PACKED:
                raise UsageError(f"the result of {task.key} is refused: it is too large, or has links")
            files.extractall(attempt, members, filter="data")
        _publish(attempt, folder / task.key)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise UsageError(f"the result of {task.key} cannot be unpacked: {error}") from None
    finally:
        shutil.rmtree(attempt, ignore_errors=True)
    return result_of(task, folder)
