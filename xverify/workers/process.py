"""A process in which an oracle answers: started, listened to, ended, and asked for its last words.

What answers may be a child of the process that was started (see `xverify.workers.fork_server`), so that its successor is there at once.
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
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import execnet

import xverify.core.call
from xverify import oracles
from xverify.core.errors import NotStartedError
from xverify.oracles.protocol import Oracle
from xverify.workers.child import LOST, Entry, read_journal
from xverify.workers.crash_log import half_of_memory, in_words, last_words, resident
from xverify.workers.fork_server import AGAIN

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
"""Runs in the worker before anything of ours. The stubs are packages without code of their own, so that a Python
that has no xverify finds the modules that carry calls, and nothing else of this environment."""

TRACE_SECONDS = 0.1
"""How long a process that hangs has to write where."""

END_SECONDS = 1.0
"""How long a process has to be gone when it was ended, or when its pipe was closed."""

END = ("end",)
"""The last message: the pipe is closed."""


@dataclass(frozen=True)
class Limits:
    """Of one worker: seconds for a call and for the start; bytes of address space beyond what it has when it is ready (0: no
    limit); bytes of memory that it may hold."""

    call: float = 10.0
    start: float = 120.0
    memory: int = 0
    resident: int = field(default_factory=half_of_memory)


class Process:
    """What answers the calls of one oracle. Used by one thread at a time.

    bell: set whenever something arrives. forks: whether what answers may be a child of the process that was started.
    """

    def __init__(
        self, oracle: Oracle, python: str, limits: Limits, directory: Path, bell: threading.Event, forks: bool
    ):
        self.python = python or oracle.python or sys.executable
        self.may_fork = forks and oracle.role != "kernel"
        self.forked = False
        self.fresh = True  # nothing was asked of the process that answers
        self._oracle, self._limits, self._bell = oracle, limits, bell
        directory.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^\w.=-]", "_", oracle.name)[:80]
        self._directory = Path(tempfile.mkdtemp(prefix=name + "-", dir=directory.resolve()))
        self._journal = str(self._directory / "journal")
        self._log = self._directory / "stderr"
        self._said = 0  # bytes of the log that belong to the start
        self._group = execnet.Group()
        self._gateway: Any = None
        self._channel: Any = None
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.pid = 0  # of the process that answers
        self._keeper = 0  # of the process that was started: the same, or the one that forks those that answer

    def start(self) -> None:
        """Start it and return at once: the framework is imported while others work. Raises NotStartedError."""
        self._log.write_bytes(b"")
        self._said = 0
        Path(self._journal).unlink(missing_ok=True)
        self._inbox = queue.SimpleQueue()
        self.forked, self.fresh = False, True
        try:
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

    @property
    def is_started(self) -> bool:
        return self._channel is not None

    def message(self, wait: float = 0.0) -> Any:
        """The next message, waiting so long for it at most; None where there is none."""
        with contextlib.suppress(queue.Empty):
            return self._inbox.get(timeout=wait) if wait > 0 else self._inbox.get_nowait()
        return None

    def send(self, message: Any) -> bool:
        """Whether the pipe took it; if not the process has died, and the end marker is on its way."""
        try:
            self._channel.send(message)
        except OSError:
            return False
        return True

    def is_ready(self) -> None:
        """It has said so: what it writes from now on belongs to calls."""
        self._said = self._log.stat().st_size

    def has_child(self, pid: int) -> None:
        """It has forked what answers from now on."""
        self.pid, self._said, self.forked = pid, 0, True

    def entry(self) -> Entry:
        """What the process wrote of the call that is under way."""
        return read_journal(self._journal)

    def parcel(self, number: int) -> str:
        """The path of a parcel of calls."""
        return f"{self._journal}.{number}.calls"

    def held(self) -> int:
        """Bytes of memory."""
        return resident(self.pid)

    def tell_where(self) -> None:
        """Have it write where it hangs (faulthandler does)."""
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGUSR1)
            time.sleep(TRACE_SECONDS)

    def last_words(self, ending: str) -> str:
        """How it ended, and what it wrote last."""
        return last_words(ending, self._log, self._said, self._complaint())

    def ending(self, status: int | None) -> str:
        """How it ended, in words."""
        return in_words(status, self._limits.memory)

    def status(self) -> int | None:
        """How the process ended whose pipe was closed; None if it did not."""
        popen = self._gateway._io.popen
        try:
            status = int(popen.wait(END_SECONDS))
            return None if status == LOST else status
        except subprocess.TimeoutExpired:
            return None

    def _complaint(self) -> str:
        """An exception outside a call: a mistake in the worker's own code."""
        try:
            self._channel.waitclose(timeout=0.0 if self.forked else 0.1)
        except execnet.RemoteError as error:
            return str(error)
        except (EOFError, OSError):
            pass
        return ""

    def end(self, take: Callable[[Any], None]) -> bool:
        """End the process that answers; whether the one that forked it is there to fork another. take: is given what it still
        says."""
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
        """End the process that answers, and have the one that forked it fork another; whether there is one."""
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
        """Have another process forked that answers."""
        Path(self._journal).unlink(missing_ok=True)
        self.fresh = True
        self.pid = self._keeper
        self.send(AGAIN)

    def kill(self) -> None:
        """End all there is."""
        for pid in {self.pid, self._keeper} - {0}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._group.terminate(timeout=0.5)
        self.pid, self._keeper = 0, 0

    def remove(self) -> None:
        """Remove its files."""
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
            "environment": dict(oracle.environment),
            "distribution": oracle.distribution,
            "call_timeout": self._limits.call,
            "memory": self._limits.memory,
            "strict": oracle.strict,
            "nursery": self.may_fork,
            "journal": self._journal,
            "log": str(self._log),
        }
