"""The end of a worker's process in words: its signal or status, and the last lines of its log."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from xverify.core.call import NO_MEMORY
from xverify.oracles.memory_faults import MARK
from xverify.workers.child import CALLED_EXIT, FILE_LIMIT, OUT_OF_MEMORY, read_crash_log

MOST_CHARACTERS = 1500
"""The largest length of a crash message."""

BROKEN_PIPE = "the process went on, but the pipe that its answers come through was closed or garbled"

_OWN_FRAME = re.compile(r'  File "(?:.*/workers/(?:child|fork_server)\.py|<remote exec>|<string>)", line ')
"""A stack frame of the worker's own code."""

_GLOG_TIME = re.compile(r"^([A-Z])\d{4} \d\d:\d\d:[\d.]+ +\d+ (?=\S+:\d+\])")
"""Time and thread at the beginning of a line of glog or Abseil. They change from run to run."""


def in_words(status: int | None, memory: int) -> str:
    """The end of a process in words.

    Args:
        status: Minus the signal, or the exit status; None if only the pipe broke.
        memory: The limit in bytes, 0 for none.
    """
    if status is None:
        return BROKEN_PIPE
    if status < 0:
        too_much = f": it wrote more than {FILE_LIMIT >> 20} MiB of output" if -status == signal.SIGXFSZ else ""
        return f"killed by {_name(-status)}{too_much}"
    if status == OUT_OF_MEMORY:
        return f"{NO_MEMORY} beyond {memory >> 20} MiB" if memory else NO_MEMORY
    return f"the process ended with status {status}"


def crash_message(ending: str, log: Path, start: int, more: str = "") -> str:
    """The end of a process, and the last lines of its log without times and without frames of the worker.

    Args:
        ending: The end of the process in words.
        start: Bytes at the beginning of the log to leave out.
        more: A last line to add.
    """
    try:
        logged = read_crash_log(str(log), start)
    except OSError:  # the log was removed, or its disk is gone
        logged = []
    lines = [_GLOG_TIME.sub(r"\1 ", line) for line in logged if not _OWN_FRAME.match(line)]
    lines += [more] if more else []
    faults = [line for line in lines if line.startswith((MARK, CALLED_EXIT))]
    if faults:
        lines = [line for line in lines if line not in faults]
        ending = f"{ending}: {faults[-1].removeprefix(MARK)}"
    # Reports are shown to others, so they contain no paths of this machine.
    shown = (re.sub(r'"/[^"]*/(?=[^"/]+/[^"/]+")', '".../', line) for line in lines)
    return "\n".join([ending, *shown])[:MOST_CHARACTERS]


def resident(pid: int) -> int:
    """Bytes of memory that a process holds; 0 if that cannot be read."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def half_of_memory() -> int:
    """Half of the memory of this machine, in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
