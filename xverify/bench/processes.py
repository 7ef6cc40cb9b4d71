"""One process for each peer, which answers messages within time limits.

So each peer has its own threads and memory, and a crash ends no other peer.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import execnet

import xverify
from xverify.bench.problem import Peer
from xverify.core.telemetry import SWITCHED_OFF
from xverify.workers.crash_log import crash_message, in_words

_BOOTSTRAP = """
import os, sys
settings = channel.receive()
os.environ.update(settings["environment"])
sys.path[:] = settings["path"] + [entry for entry in sys.path if entry]
from xverify.bench.worker import serve
serve(channel, settings)
"""

END_SECONDS = 1.0
"""Seconds to wait for a killed process."""


@dataclass(frozen=True)
class Limits:
    """Time limits of a peer's process, in seconds."""

    start: float = 120.0
    """To start and to import what it times."""
    prepare: float = 120.0
    """To prepare a case."""
    time: float = 30.0
    """To answer a request to time, beyond the seconds that the request names."""


class LostError(RuntimeError):
    """The peer's process died, or did not answer in time; the message says which."""


class RefusedError(RuntimeError):
    """The peer cannot do what the request wants; the message is its own sentence."""


class PeerProcess:
    """One peer's process. `ask` sends a request and `answer` waits, so several peers can work at once."""

    def __init__(self, peer: Peer, threads: int, directory: Path, limits: Limits) -> None:
        self.peer, self.limits = peer, limits
        self._threads = threads
        self._log = directory / f"{peer.name.replace('/', '_')}.log"
        self._group = execnet.Group()
        self._gateway: Any = None
        self._channel: Any = None

    def start(self) -> None:
        """Start the process. Its first `answer` comes when it has imported what it times.

        Raises:
            LostError: The process could not be started.
        """
        self._log.write_bytes(b"")
        ours = str(Path(xverify.__file__).resolve().parents[1])
        threads = {name: value.format(threads=self._threads) for name, value in self.peer.environment}
        environment = {**SWITCHED_OFF, **threads}
        settings = {
            "path": [ours, *self.peer.search_path],
            "environment": environment,
            "module": self.peer.module,
            "load": self.peer.load,
            "arguments": list(self.peer.arguments),
            "threads": self._threads,
            "checks": self.peer.role != "limit",
            "judged": self.peer.is_of_user,
            "log": str(self._log),
        }
        try:
            self._gateway = self._group.makegateway("popen//python=" + shlex.quote(sys.executable))
            self._channel = self._gateway.remote_exec(_BOOTSTRAP)
            self._channel.send(settings)
        except (OSError, EOFError, execnet.RemoteError) as error:
            raise LostError(f"it could not be started: {error}") from None

    def ask(self, request: str, *arguments: Any) -> None:
        """Send a request.

        Raises:
            LostError: The process has died.
        """
        try:
            self._channel.send((request, arguments))
        except OSError:
            raise LostError(self._ending()) from None

    def answer(self, seconds: float) -> Any:
        """Wait for the answer to the last request.

        Raises:
            RefusedError: The peer cannot do it.
            LostError: The process died, or took longer than these seconds.
        """
        try:
            kind, result = self._channel.receive(timeout=seconds)
        except execnet.TimeoutError:
            raise LostError(f"it did not answer within {seconds:g} s") from None
        except (EOFError, execnet.RemoteError):
            raise LostError(self._ending()) from None
        if kind == "refused":
            raise RefusedError(result)
        return result

    def end(self) -> None:
        """Kill the process, also while it is working."""
        if self._gateway is None:
            return
        popen = self._gateway._io.popen
        with contextlib.suppress(OSError):
            self._channel.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(popen.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            popen.wait(END_SECONDS)
        self._group.terminate(timeout=0.5)
        self._gateway = self._channel = None

    def _ending(self) -> str:
        """The way the process died, and the last line that it wrote."""
        status = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = int(self._gateway._io.popen.wait(END_SECONDS))
        lines = [line for line in crash_message("", self._log, 0).splitlines() if line.strip()]
        return ": ".join([in_words(status, 0), *(line.strip() for line in lines[-1:])])
