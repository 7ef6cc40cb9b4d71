"""How a worker's process ended, in words: its signal or status, and the end of what it wrote."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from xverify.verify.verdicts import NO_MEMORY
from xverify.workers.child import FILE_LIMIT, OUT_OF_MEMORY, read_last_words

MOST_CHARACTERS = 1500

BROKEN_PIPE = "the process went on, but the pipe that its answers come through was closed or garbled"

_OURS = re.compile(r'  File "(?:.*/workers/(?:child|fork_server)\.py|<remote exec>|<string>)", line ')

_WHEN = re.compile(r"^([A-Z])\d{4} \d\d:\d\d:[\d.]+ +\d+ (?=\S+:\d+\])")
"""Before a line of glog's or Abseil's: the time and the thread, which are others each time that a framework says the same."""


def in_words(status: int | None, memory: int) -> str:
    """status: minus the signal, or the exit status; None when only the pipe broke. memory: the limit in bytes, 0 for
    none."""
    if status is None:
        return BROKEN_PIPE
    if status < 0:
        too_much = f": it wrote more than {FILE_LIMIT >> 20} MiB of output" if -status == signal.SIGXFSZ else ""
        return f"killed by {_name(-status)}{too_much}"
    if status == OUT_OF_MEMORY:
        return f"{NO_MEMORY} beyond {memory >> 20} MiB" if memory else NO_MEMORY
    return f"the process ended with status {status}"


def last_words(ending: str, log: Path, start: int, more: str = "") -> str:
    """How it ended, and the end of what it wrote to the log after the first ``start`` bytes, without our own frames and without
    when it was."""
    lines = [_WHEN.sub(r"\1 ", line) for line in read_last_words(str(log), start) if not _OURS.match(line)]
    lines += [more] if more else []
    # Reports are shown to others: where things are installed on this machine is none of their business.
    shown = (re.sub(r'"/[^"]*/(?=[^"/]+/[^"/]+")', '".../', line) for line in lines)
    return "\n".join([ending, *shown])[:MOST_CHARACTERS]


def resident(pid: int) -> int:
    """Bytes of memory that a process holds; 0 when that is not known."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def half_of_memory() -> int:
    """Half of the bytes of memory that this machine has."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
