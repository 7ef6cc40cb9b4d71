"""A fork server: a dead process is replaced by a fork, without another import of the framework.

The process that forks holds the loaded framework and never makes a call, so every child begins as a new process would. This is
the worker's side; `xverify.workers.worker` decides when it is used.

Messages in addition to those of `xverify.workers.child`:

- from the server, ("child", process id) for each new child;
- from the server, ("died", status) when a child ended: minus the signal, its exit status, or None if only its pipe broke. The
  server then drops messages until ("again",) comes; the other side sends their calls once more;
- to the server, at any time, ("again",): the following messages are for a new child.
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

LOST = 72
"""Exit status of a worker that lost the connection to its parent."""

AGAIN = ("again",)

END_SECONDS = 0.5
"""Seconds within which a child must end after it closed its pipe."""

_ACCELERATORS = ("/dev/nvidia", "/dev/dri", "/dev/kfd", "/dev/accel")

_LONGEST = 1 << 24
"""The longest message, in bytes. Large data travels in files."""

_LENGTH = struct.Struct("<Q")

Send = Callable[[Any], None]
Receive = Callable[[], Any]
Work = Callable[[Receive, Send], None]
"""work(receive, send): answer messages until EOFError."""


def can_fork(threads: int) -> bool:
    """True if a child would work like this process.

    A child has no copy of the framework's threads, and cannot use the state of an accelerator.

    Args:
        threads: The number of threads before the framework was loaded.
    """
    if len(os.listdir("/proc/self/task")) > threads:
        return False
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            if os.readlink("/proc/self/fd/" + descriptor).startswith(_ACCELERATORS):
                return False
        except OSError:  # the descriptor of the listing itself
            continue
    return True


def serve_from_children(channel: Any, work: Work) -> None:
    """Let children answer the messages of the channel until it closes.

    A new child takes over when one has died.
    """
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
    """Pass a message to the child, and its answers to the channel; False if the child died first."""
    try:
        _write(child.requests, message)
        while True:
            answer = _read(child.answers)
            channel.send(answer)
            if answer[1][-1] == message[0][-1]:
                return True
    except (EOFError, BrokenPipeError):
        return False
    except (ValueError, LookupError, TypeError):  # the bytes it wrote are no answer
        return False


class _Child:
    """A process forked from this one, and the two pipes to it."""

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
            threading.Thread(target=end_with_parent, args=(parent,), daemon=True).start()
            work(lambda: _read(theirs), lambda answer: _write(ours, answer))
        except (EOFError, OSError):
            os._exit(LOST)
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(1)

    def status(self) -> Union[int, None]:
        """Wait for its end: minus the signal, or its exit status; None if it had to be killed."""
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


def end_with_parent(parent: int) -> None:
    """End the process when its parent has ended, also in the middle of a call that does not return."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _leave(channel: Any) -> None:
    """Close the parent's pipe to the other side, and empty the log. Runs in a new child."""
    io = getattr(channel.gateway, "_io", None)
    for stream in (getattr(io, "infile", None), getattr(io, "outfile", None)):
        if stream is not None:
            os.close(stream.fileno())  # not stream.close(): a thread of the parent holds its lock
    os.ftruncate(2, 0)
    faulthandler.enable(all_threads=False)


def _write(pipe: int, message: Any) -> None:
    data = json.dumps(message, default=_encode_bytes).encode()
    view = memoryview(_LENGTH.pack(len(data)) + data)
    while view:
        view = view[os.write(pipe, view) :]


def _read(pipe: int) -> Any:
    (length,) = _LENGTH.unpack(_exactly(pipe, _LENGTH.size))
    if length > _LONGEST:
        raise ValueError("a message of %d bytes is too long" % length)
    return json.loads(_exactly(pipe, length).decode(), object_hook=_decode_bytes)


def _encode_bytes(blob: bytes) -> Dict[str, str]:
    return {"bytes": blob.decode("latin-1")}


def _decode_bytes(written: Dict[str, str]) -> bytes:
    return written["bytes"].encode("latin-1")


def _exactly(pipe: int, length: int) -> bytes:
    """Read exactly this number of bytes.

    Raises:
        EOFError: There are fewer.
    """
    data = b""
    while len(data) < length:
        more = os.read(pipe, min(length - len(data), 1 << 16))
        if not more:
            raise EOFError
        data += more
    return data
