"""Children that answer in place of a process whose framework takes long to load: a successor costs a fork, not an import.

The process that forks them only holds what is loaded; it never makes a call, so every child begins as a new process
would. Only the side of the worker is here; `xverify.workers.worker` decides when it is used.

Messages besides those of `xverify.workers.child`: ("child", process id) for each new child, ("died", status) when it ended:
minus the signal, its exit status, or None if only its pipe broke. What was sent before ("again",) came is then not
answered: the other side sends it once more. To it, at any time, ("again",): what follows is for a new child.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import struct
import threading
import time
from typing import Any, Callable, Dict, Union

from xverify.workers.child import LOST, follow

AGAIN = ("again",)

END_SECONDS = 0.5
"""How long a child that closed its pipe has to end."""

_ACCELERATORS = ("/dev/nvidia", "/dev/dri", "/dev/kfd", "/dev/accel")

_LONGEST = 1 << 24
"""Bytes of a message: what is large travels in files."""

_LENGTH = struct.Struct("<Q")

Send = Callable[[Any], None]
Receive = Callable[[], Any]
Work = Callable[[Receive, Send], None]
"""work(receive, send): answer messages until EOFError."""


def can_fork(threads: int) -> bool:
    """Whether a child would be as good as this process: what is loaded started no threads beyond the ``threads`` of before,
    which no child has, and holds no accelerator, whose state no child can use."""
    if len(os.listdir("/proc/self/task")) > threads:
        return False
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            if os.readlink("/proc/self/fd/" + descriptor).startswith(_ACCELERATORS):
                return False
        except OSError:  # that of the listing itself
            continue
    return True


def raise_children(channel: Any, work: Work) -> None:
    """Have each message of the channel answered by a child, and by another one when that died, until the channel closes."""
    child = None
    while True:
        try:
            message = channel.receive()
            if message == AGAIN:
                if child is not None:
                    child.status()
                child = None
                continue
            if child is None:
                child = _Child(channel, work)
                channel.send(("child", child.pid))
            if not _answered(channel, child, message):
                channel.send(("died", child.status()))
                child = None
                while channel.receive() != AGAIN:
                    pass
        except (EOFError, OSError):
            os._exit(0)  # a child ends with its parent


def _answered(channel: Any, child: _Child, message: Any) -> bool:
    """Whether the child answered all that the message asks."""
    try:
        _write(child.requests, message)
        while True:
            answer = _read(child.answers)
            channel.send(answer)
            if answer[1][-1] == message[0][-1]:
                return True
    except (
        EOFError,
        BrokenPipeError,
        ValueError,
        LookupError,
        TypeError,
    ):  # from the third on: what it wrote is no answer
        return False


class _Child:
    """A process that is forked from this one, and the two pipes to it."""

    def __init__(self, channel: Any, work: Work) -> None:
        theirs, self.requests = os.pipe()
        self.answers, ours = os.pipe()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid:
            os.close(theirs)
            os.close(ours)
            return
        try:
            os.close(self.requests)
            os.close(self.answers)
            _leave(channel)
            threading.Thread(target=follow, args=(parent,), daemon=True).start()
            work(lambda: _read(theirs), lambda answer: _write(ours, answer))
        except (EOFError, OSError):
            os._exit(LOST)
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(1)

    def status(self) -> Union[int, None]:
        """How it ended, for sure: minus the signal, or its exit status; None if it had to be ended."""
        until = time.monotonic() + END_SECONDS
        done, ended = os.waitpid(self.pid, os.WNOHANG)
        while not done and time.monotonic() < until:
            time.sleep(0.002)
            done, ended = os.waitpid(self.pid, os.WNOHANG)
        if not done:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.requests)
        os.close(self.answers)
        if not done or (os.WIFEXITED(ended) and os.WEXITSTATUS(ended) == LOST):
            return None
        return -os.WTERMSIG(ended) if os.WIFSIGNALED(ended) else os.WEXITSTATUS(ended)


def _leave(channel: Any) -> None:
    """In a child: let go of the pipe to the other side, and begin the log anew."""
    io = getattr(channel.gateway, "_io", None)
    for stream in (getattr(io, "infile", None), getattr(io, "outfile", None)):
        if stream is not None:
            os.close(stream.fileno())  # not by its own method: another thread of the parent holds its lock
    os.ftruncate(2, 0)
    faulthandler.enable(all_threads=False)


def _write(pipe: int, message: Any) -> None:
    data = json.dumps(message, default=_text_of).encode()
    view = memoryview(_LENGTH.pack(len(data)) + data)
    while view:
        view = view[os.write(pipe, view) :]


def _read(pipe: int) -> Any:
    (length,) = _LENGTH.unpack(_exactly(pipe, _LENGTH.size))
    if length > _LONGEST:
        raise ValueError("no message is of %d bytes" % length)
    return json.loads(_exactly(pipe, length).decode(), object_hook=_bytes_of)


def _text_of(blob: bytes) -> Dict[str, str]:
    return {"bytes": blob.decode("latin-1")}


def _bytes_of(written: Dict[str, str]) -> bytes:
    return written["bytes"].encode("latin-1")


def _exactly(pipe: int, length: int) -> bytes:
    """So many bytes. EOFError when there are fewer."""
    data = b""
    while len(data) < length:
        more = os.read(pipe, min(length - len(data), 1 << 16))
        if not more:
            raise EOFError
        data += more
    return data
