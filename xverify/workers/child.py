"""The worker's side: it loads one oracle and answers batches of calls until its parent ends.

It runs in a process of its own, which may be another Python; `xverify.workers.worker` starts it over execnet. It imports
only the standard library, NumPy, `xverify.core.call`, `xverify.oracles` and the fork server; an oracle may import more.

Messages to the worker: (ids, parcel, options of each call). Messages from it: ("ready", versions), ("failed", sentence), and
("answers", ids, parcel, seconds). A parcel holds several byte strings, see `wrap`.
"""

from __future__ import annotations

import errno
import faulthandler
import importlib
import os
import platform
import resource
import signal
import struct
import sys
import threading
import time
import traceback
from dataclasses import replace
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple, Union

import numpy as np

from xverify.core.call import Call, Outcome, Tensor, decode_call, encode_outcome
from xverify.oracles.arrays import UnreadableResultError
from xverify.oracles.model_run import MODEL, decode_run, encode_results
from xverify.oracles.protocol import REWRITTEN, Loaded, stage_of, version_of
from xverify.workers.fork_server import LOST, can_fork, end_with_parent, serve_from_children

FILE_LIMIT = 256 << 20
"""The largest file of a worker, in bytes. A flood of output ends the process and does not fill the disk."""

IN_MESSAGE = 8 << 10
"""The largest parcel, in bytes, that travels in a message. Larger ones travel in a file.

The pipe holds 64 KiB, so a parent that writes little never blocks on a worker that does not read.
"""

FLUSH_SECONDS = 0.02
"""Seconds after which answers are sent before a batch is complete, so that a crash loses few."""

PATIENCE = 15.0
"""Seconds past the timeout of a call after which the worker ends itself, because its parent must be gone.

The thread that does this needs no interpreter lock.
"""

OUT_OF_MEMORY = 71
"""Exit status of a worker whose oracle ran out of memory."""

CALLED_EXIT = "the kernel called sys.exit"
"""The beginning of the line in the log."""

_OF_PIPES = (None, errno.EPIPE, errno.EBADF, errno.ECONNRESET)
"""Error numbers of a lost connection to the parent. Others are of the worker's files, for example on a full disk."""

CRASH_LOG_BYTES = 16 << 10
"""Bytes read from the end of the log of a dead process."""

Parcel = Union[Tuple[bytes, ...], Tuple[str, Tuple[int, ...]]]


def wrap(blobs: Sequence[bytes], path: str) -> Parcel:
    """Make a parcel of byte strings.

    It is the strings themselves if they are small, otherwise a reference to the file ``path`` that holds them.
    """
    total = sum(map(len, blobs))
    if not IN_MESSAGE < total < FILE_LIMIT:
        return tuple(blobs)
    with open(path, "wb", buffering=0) as file:
        for blob in blobs:
            left = memoryview(blob)
            while left:  # a full disk takes a part, and then raises the error
                left = left[file.write(left) :]
    return path, tuple(map(len, blobs))


def unwrap(parcel: Parcel) -> List[bytes]:
    """The byte strings of a parcel. Removes its file, if there is one."""
    if not parcel or not isinstance(parcel[0], str):
        return list(parcel)
    with open(parcel[0], "rb") as file:
        blobs = [file.read(length) for length in parcel[1]]
    os.unlink(parcel[0])
    return blobs


class Entry(NamedTuple):
    """The content of a journal."""

    call: Union[int, None]
    """The id of the call under way; None between calls."""

    since: float
    """When the call began, on the monotonic clock."""

    blob: bytes
    """The encoded call, if it was read."""


_ENTRY = struct.Struct("<qdQ")


class Journal:
    """A file that outlives the process and names the call under way.

    It is overwritten in place before each call.
    """

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_RDWR, 0o600)
        self.idle()

    def begin(self, call: int, blob: bytes) -> None:
        """Note that a call begins."""
        os.pwrite(self._file, _ENTRY.pack(call, time.monotonic(), len(blob)) + blob, 0)

    def idle(self) -> None:
        """Note that no call is under way."""
        os.pwrite(self._file, _ENTRY.pack(-1, time.monotonic(), 0), 0)


def read_journal(path: str, with_blob: bool = False) -> Entry:
    """Read a journal; if there is none, no call is under way and the time is 0."""
    try:
        with open(path, "rb", buffering=0) as file:
            call, since, length = _ENTRY.unpack(file.read(_ENTRY.size))
            return Entry(call if call >= 0 else None, since, file.read(length) if with_blob else b"")
    except (OSError, struct.error):
        return Entry(None, 0.0, b"")


def read_crash_log(log: str, start: int) -> List[str]:
    """The last lines of a log after its first ``start`` bytes, from the fatal error on if there is one."""
    with open(log, "rb") as file:
        file.seek(max(start, os.fstat(file.fileno()).st_size - CRASH_LOG_BYTES))
        text = file.read().decode(errors="replace").splitlines()
    lines = [line for line in text if not line.startswith("    @ ")]  # native frames, without line numbers
    # faulthandler writes the fatal error and then each thread's frames, the main thread's last
    marks = [i for i, line in enumerate(lines) if line.startswith("Fatal Python error")]
    marks = marks or [i for i, line in enumerate(lines) if line.endswith("(most recent call first):")]
    return lines[max(0, marks[-1] - 5) : marks[-1] + 12] if marks else lines[-12:]


def serve(channel: Any, settings: Dict[str, Any]) -> None:
    """Load the oracle that ``settings`` names, and answer until the channel closes.

    With ``settings["fork_server"]`` children of this process answer, where that is possible.
    """
    _isolate(settings["log"])
    threads = len(os.listdir("/proc/self/task"))
    try:
        module = importlib.import_module(settings["module"])
        loaded: Loaded = getattr(module, settings["load"])(*settings["arguments"])
    except Exception as error:
        sentence = getattr(error, "is_sentence", False)
        channel.send(("failed", str(error) if sentence else "%s: %s" % (type(error).__name__, error)))
        return
    if settings["strict"]:
        loaded = replace(loaded, not_implemented=())
    if settings["memory"]:
        _limit_memory(settings["memory"])
    channel.send(("ready", _versions(settings["distribution"])))

    def work(receive: Callable[[], Any], send: Callable[[Any], None]) -> None:
        try:
            journal = Journal(settings["journal"])
            while True:
                ids, parcel, options = receive()
                faulthandler.dump_traceback_later(settings["call_timeout"] + PATIENCE, exit=True)
                _answer_batch(send, loaded, journal, settings, ids, unwrap(parcel), options)
                faulthandler.cancel_dump_traceback_later()
        except OSError as error:
            if error.errno in _OF_PIPES:
                raise
            send(("failed", "its files cannot be used: %s" % error.strerror))  # the parent ends this process
            receive()

    if settings["fork_server"] and can_fork(threads):
        serve_from_children(channel, work)
    try:
        work(channel.receive, channel.send)
    except (EOFError, OSError):
        os._exit(LOST)


def _answer_batch(
    send: Callable[[Any], None],
    loaded: Loaded,
    journal: Journal,
    settings: Dict[str, Any],
    ids: Sequence[int],
    blobs: Sequence[bytes],
    options: Sequence[str],
) -> None:
    done: List[bytes] = []
    start = sent = now = time.perf_counter()

    def flush(until: int) -> None:
        journal.idle()
        path = "%s.%d.answers" % (settings["journal"], ids[until - 1])
        parcel = wrap(done, path)
        send(("answers", tuple(ids[until - len(done) : until]), parcel, now - start))
        done.clear()

    for position, blob in enumerate(blobs):
        journal.begin(ids[position], blob)
        try:
            folder = os.path.dirname(settings["journal"])
            done.append(encode_outcome(run_call(loaded, blob, options[position], folder)))
        except AnswerError as error:
            send(("failed", str(error)))  # the parent ends this process
            return
        except SystemExit as error:
            _exit_as(error)
        now = time.perf_counter()
        if now - sent > FLUSH_SECONDS and position + 1 < len(blobs):
            flush(position + 1)
            if now - sent > 1.0:
                faulthandler.dump_traceback_later(settings["call_timeout"] + PATIENCE, exit=True)
            start = sent = now = time.perf_counter()
    flush(len(blobs))


def _exit_as(error: SystemExit) -> None:
    """End the process with the status of a kernel's ``sys.exit``, and name that in the log."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    code = "" if error.code is None else repr(error.code)[:200]
    place = "%s:%s" % (os.path.basename(frame.filename), frame.lineno)
    os.write(2, ("%s(%s) in %s\n" % (CALLED_EXIT, code, place)).encode())
    status = error.code & 0xFF if isinstance(error.code, int) else int(error.code is not None)
    os._exit(1 if status in (LOST, OUT_OF_MEMORY) else status)


class AnswerError(TypeError):
    """A mistake of an oracle's author: ``answer`` returned neither an outcome nor a tensor."""


def run_call(loaded: Loaded, blob: bytes, options: str, folder: str = "") -> Outcome:
    """The outcome of one call, or the rewrite of its graph if the options begin with `REWRITTEN`.

    If the options begin with `MODEL`, the blob is a `ModelRun`, and the outcome holds `encode_results`.

    An exception is a refusal; its type distinguishes "rejected" from "unsupported". A result that cannot be read is none.

    Args:
        folder: The folder of the worker's files.

    Raises:
        AnswerError: The oracle's function returned an object of another type.
    """
    if options.startswith(REWRITTEN):
        return Outcome("rewrite", message=_rewrite(loaded, decode_call(blob), options[len(REWRITTEN) :], folder))
    call = None if options.startswith(MODEL) else decode_call(blob)
    result: Union[Tensor, Outcome]
    try:
        level = options[len(MODEL) :]
        result = _model_results(loaded, blob, level) if call is None else loaded.answer(call, options)
    except UnreadableResultError as error:
        return Outcome("unreadable", error=error.kind, message=str(error))
    except Exception as error:
        if isinstance(error, loaded.fatal):
            os.write(2, ("%s: %s\n" % (type(error).__name__, error)).encode())
            os._exit(OUT_OF_MEMORY if isinstance(error, MemoryError) else 1)
        kind = "unsupported" if isinstance(error, loaded.not_implemented) else "rejected"
        stage = stage_of(error) if kind == "rejected" else ""
        return Outcome(kind, error=type(error).__name__, message=str(error), stage=stage)
    if not isinstance(result, (Outcome, Tensor)):
        raise AnswerError("answer() must return an Outcome or a Tensor, got %s" % type(result).__name__)
    return result if isinstance(result, Outcome) else Outcome("tensor", result)


def _model_results(loaded: Loaded, blob: bytes, level: str) -> Tensor:
    """The outputs of a model, encoded."""
    if loaded.run_model is None:
        raise NotImplementedError("it runs no models")
    return encode_results(loaded.run_model(decode_run(blob), level))


def _rewrite(loaded: Loaded, call: Call, path: str, folder: str) -> str:
    """The rewrite of a call's graph; "" if it cannot be read."""
    if loaded.rewritten is None or not folder:
        return ""
    try:
        return loaded.rewritten(call, path, folder)
    except Exception:
        return ""


def _isolate(log: str) -> None:
    """Isolate the process from its parent.

    Send output to a file of limited size, ignore ^C, end with the parent, and write a trace at a fatal error.
    """
    file = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    for descriptor in (1, 2):
        os.dup2(file, descriptor)
    os.close(file)
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    limit = FILE_LIMIT if hard == resource.RLIM_INFINITY else min(FILE_LIMIT, hard)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, args=(os.getppid(),), daemon=True).start()
    faulthandler.enable(all_threads=False)
    faulthandler.register(signal.SIGUSR1, all_threads=True)


def _limit_memory(more: int) -> None:
    """Limit the address space of the process to its present size and ``more`` bytes."""
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[0])
    limit, hard = pages * resource.getpagesize() + more, resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _versions(distribution: str) -> Dict[str, Union[str, int]]:
    return {
        "distribution": distribution,
        "version": version_of(distribution) or "",
        "python": platform.python_version(),
        "executable": sys.executable,
        "numpy": np.__version__,
        "pid": os.getpid(),
    }
