"""A process in which an oracle answers: its start, its messages, its end, and its crash message.

The process that answers may be a child of the process that was started (see `xverify.workers.fork_server`), so that it can be
replaced at once.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import execnet

import xverify.core.call
from xverify import oracles
from xverify.core.errors import NotStartedError
from xverify.oracles.protocol import Oracle
from xverify.workers.child import Entry, read_journal
from xverify.workers.crash_log import crash_message, half_of_memory, in_words, resident
from xverify.workers.fork_server import AGAIN, LOST
from xverify.workers.home import environment, has_own_home, make_home

_BOOTSTRAP = """
import os, sys, types
settings = channel.receive()
channel.send(os.getpid())
os.environ.update(settings["environment"])
sys.path[:] = settings["path"] + [entry for entry in sys.path if entry]
for name, folder in settings["stubs"]:
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [folder]
from xverify.workers.child import serve
serve(channel, settings)
"""
"""The first code that runs in the worker.

It makes empty packages, so that a Python without xverify finds the few modules that it needs, and nothing else of this
environment.
"""

TRACE_SECONDS = 0.1
"""Seconds for a process that hangs to write its stack."""

END_SECONDS = 1.0
"""Seconds within which a process must end after it was killed, or after its pipe was closed."""

END = ("end",)
"""The last message of a process, when its pipe is closed."""


@dataclass(frozen=True)
class Limits:
    """Limits of one worker."""

    call: float = 10.0
    """Seconds for one call."""

    start: float = 120.0
    """Seconds to load the framework."""

    memory: int = 0
    """Bytes of address space beyond its size when it is ready; 0 for no limit."""

    resident: int = field(default_factory=half_of_memory)
    """Bytes of memory that it may hold."""


class Process:
    """The process that answers the calls of one oracle. Used by one thread at a time.

    Args:
        python: The interpreter, if it is not the oracle's own.
        bell: Set whenever a message arrives.
        forks: The process that answers may be a child of the one that was started.
    """

    def __init__(
        self, oracle: Oracle, python: str, limits: Limits, directory: Path, bell: threading.Event, forks: bool
    ):
        self.python = python or oracle.python or sys.executable
        self.may_fork = forks and oracle.role != "kernel"
        self.forked = False
        self.fresh = True  # the process that answers has received no call
        self._oracle, self._limits, self._bell = oracle, limits, bell
        name = re.sub(r"[^\w.=-]", "_", oracle.name)[:80]
        self._directory = directory.resolve() / f"{name}-{uuid.uuid4().hex[:12]}"  # `start` makes it
        self._journal = str(self._directory / "journal")
        self._log = self._directory / "stderr"
        self._home = self._directory / "home" if has_own_home(oracle) else None
        self._log_start = 0  # bytes of the log that belong to the start
        self._group = execnet.Group()
        self._gateway: Any = None
        self._channel: Any = None
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.pid = 0  # the process that answers
        self._keeper = 0  # the process that was started: the same one, or the fork server

    def start(self) -> None:
        """Start the process and return at once: the framework is imported while others work.

        Raises:
            NotStartedError: The process could not be started.
        """
        self._inbox = queue.SimpleQueue()
        self.forked, self.fresh = False, True
        try:
            self._make_files()
            self._gateway = self._group.makegateway("popen//python=" + shlex.quote(self.python))
            self._channel = self._gateway.remote_exec(_BOOTSTRAP)
            self._channel.send(self._settings())
            self.pid = self._keeper = self._channel.receive(timeout=self._limits.start)
        except (OSError, EOFError, execnet.RemoteError, execnet.TimeoutError) as error:
            raise NotStartedError(f"{type(error).__name__}: {error}") from error
        inbox, bell = self._inbox, self._bell

        def arrived(message: Any) -> None:
            inbox.put(message)
            bell.set()

        self._channel.setcallback(arrived, endmarker=END)

    def _make_files(self) -> None:
        """Make the process's directory unless it exists, and the files in it."""
        self._directory.mkdir(parents=True, exist_ok=True)
        if self._home is not None:
            make_home(self._home)
        self._log.write_bytes(b"")
        self._log_start = 0
        Path(self._journal).unlink(missing_ok=True)

    @property
    def is_started(self) -> bool:
        return self._channel is not None

    def message(self, wait: float = 0.0) -> Any:
        """The next message; None if none comes within ``wait`` seconds."""
        with contextlib.suppress(queue.Empty):
            return self._inbox.get(timeout=wait) if wait > 0 else self._inbox.get_nowait()
        return None

    def send(self, message: Any) -> bool:
        """Send a message. False if the process has died; its end marker then follows."""
        try:
            self._channel.send(message)
        except OSError:
            return False
        return True

    def note_ready(self) -> None:
        """Note that the framework is loaded: later output belongs to calls."""
        self._log_start = self._log.stat().st_size

    def note_child(self, pid: int) -> None:
        """Note that the started process has forked the one that answers from now on."""
        self.pid, self._log_start, self.forked = pid, 0, True

    def entry(self) -> Entry:
        """The journal entry on the call under way."""
        return read_journal(self._journal)

    def parcel(self, number: int) -> str:
        """The path of the file for a parcel of calls."""
        return f"{self._journal}.{number}.calls"

    def held(self) -> int:
        """Bytes of memory that the process holds."""
        return resident(self.pid)

    def write_stack(self) -> None:
        """Make faulthandler write to the log where the process hangs."""
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGUSR1)
            time.sleep(TRACE_SECONDS)

    def crash_message(self, ending: str) -> str:
        """The end of the process, and the last lines of its log."""
        return crash_message(ending, self._log, self._log_start, self._complaint())

    def ending(self, status: int | None) -> str:
        """The end of the process in words."""
        return in_words(status, self._limits.memory)

    def status(self) -> int | None:
        """Exit status of the process after its pipe was closed; None if it did not end."""
        popen = self._gateway._io.popen
        try:
            status = int(popen.wait(END_SECONDS))
            return None if status == LOST else status
        except subprocess.TimeoutExpired:
            return None

    def _complaint(self) -> str:
        """An exception outside a call, which is a fault of the worker's own code."""
        try:
            self._channel.waitclose(timeout=0.0 if self.forked else 0.1)
        except execnet.RemoteError as error:
            return str(error)
        except (EOFError, OSError):
            pass
        return ""

    def end(self, take: Callable[[Any], None]) -> bool:
        """End the process that answers. True if the fork server remains and can fork another.

        Args:
            take: Called with each message that still arrives.
        """
        if self._end_child():
            until = time.monotonic() + END_SECONDS
            with contextlib.suppress(queue.Empty):
                while (message := self._inbox.get(timeout=max(0.0, until - time.monotonic()))) is not END:
                    if message[0] == "died":
                        return True
                    take(message)
        self.kill()
        return False

    def renew(self) -> bool:
        """End the process that answers, and let the fork server fork another.

        False if there is no fork server.
        """
        if not self._end_child():
            return False
        self.next_child()
        return True

    def _end_child(self) -> bool:
        if self.pid == self._keeper:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        return True

    def next_child(self) -> None:
        """Let the fork server fork a process for the following calls."""
        Path(self._journal).unlink(missing_ok=True)
        self.fresh = True
        self.pid = self._keeper
        self.send(AGAIN)

    def kill(self) -> None:
        """Kill the process that answers and its fork server."""
        for pid in {self.pid, self._keeper} - {0}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._group.terminate(timeout=0.5)
        self.pid, self._keeper = 0, 0

    def remove(self) -> None:
        """Remove the process's files."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def _settings(self) -> dict[str, Any]:
        ours = Path(xverify.core.call.__file__).resolve().parents[1]
        answers = str(Path(str(oracles.__file__)).resolve().parent)
        inner = {name: str(ours / name) for name in ("core", "workers")} | {"oracles": answers}
        stubs = [("xverify", str(ours)), *((f"xverify.{name}", folder) for name, folder in inner.items())]
        oracle = self._oracle
        return {
            "stubs": [] if oracle.needs_xverify else stubs,
            "path": ([str(ours.parent)] if oracle.needs_xverify else []) + list(oracle.search_path),
            "module": oracle.module,
            "load": oracle.load,
            "arguments": list(oracle.arguments),
            "environment": {**environment(self._home), **dict(oracle.environment)},
            "distribution": oracle.distribution,
            "call_timeout": self._limits.call,
            "memory": self._limits.memory,
            "strict": oracle.strict,
            "fork_server": self.may_fork,
            "journal": self._journal,
            "log": str(self._log),
        }
