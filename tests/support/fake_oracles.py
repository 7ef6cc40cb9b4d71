"""Implementations that double the codes of x, and that misbehave as the call asks."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import stat
import time
from typing import Any

import numpy as np

from xverify.core.call import Call, Outcome
from xverify.oracles.arrays import answered, hand_out
from xverify.oracles.protocol import Loaded


def _flood() -> None:
    for _ in range(64):
        os.write(2, b"flood " * 8192)


def _cut() -> None:
    """Close every pipe of the process, also the one for its answers."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if stat.S_ISFIFO(os.fstat(int(name)).st_mode):
                os.close(int(name))


def _write_input(arrays: dict[str, Any]) -> None:
    arrays["x"].flags.writeable = True
    arrays["x"][...] = 0


def load() -> Loaded:
    deeds = {
        "abort": os.abort,
        "segfault": lambda: ctypes.string_at(0),
        "exit": lambda: os._exit(0),
        "interrupt": lambda: os.kill(os.getpid(), 2),
        "hang": lambda: time.sleep(1000),
        "hang with the lock": lambda: ctypes.PyDLL(None).sleep(1000),
        "print": lambda: print("garbage", flush=True),
        "garbage": lambda: os.write(1, bytes(range(256)) * 64),
        "flood": _flood,
        "cut": _cut,
        "slow": lambda: time.sleep(0.05),
    }

    def answer(call: Call, path: str) -> Outcome:
        do = str(call.attributes.get("do", ""))
        if do in deeds:
            deeds[do]()
        elif do == "refuse":
            raise ValueError("refused on purpose")
        elif do == "unsupported":
            raise NotImplementedError("not here")
        elif do == "limit":
            limit = np.array(resource.getrlimit(resource.RLIMIT_FSIZE)[0], np.int64)
            return answered(limit, call, {})
        arrays = hand_out(call)
        result = arrays["x"] * 2
        if do == "write":
            _write_input(arrays)
        elif do == "alias":
            result = arrays["x"]
        return answered(result, call, arrays)

    return Loaded(answer)


def load_broken() -> Loaded:
    raise ImportError("no such framework")


def load_dying() -> Loaded:
    os.abort()


def load_hanging() -> Loaded:
    time.sleep(1000)
    return load()


def load_unsupported() -> Loaded:
    def answer(call: Call, path: str) -> Outcome:
        raise NotImplementedError("nothing")

    return Loaded(answer)


def load_greedy() -> Loaded:
    sound = load()

    def answer(call: Call, path: str) -> Outcome:
        do = call.attributes.get("do")
        if do == "hoard":
            np.ones(1 << 28, np.uint8)
        while do == "pour":
            os.write(1, bytes(1 << 20))
        return sound.answer(call, path)

    return Loaded(answer, fatal=(MemoryError,))


def load_bare() -> Loaded:
    """Load an implementation whose author forgot to wrap the array."""

    def answer(call: Call, path: str) -> Any:
        return hand_out(call)["x"]

    return Loaded(answer)
