"""Implementations of oneDNN's formula that fail in one way each on certain calls.

These calls have more than 20 values of uint8 in 3 dimensions and no zero point.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys
import time
from collections.abc import Callable

import numpy as np

from xverify.core.call import Call, Outcome
from xverify.oracles.onednn_formulas import load_multiply
from xverify.oracles.protocol import Loaded

SURVIVED = 20
"""The largest number of values in such a call that is answered."""


def _check() -> None:
    os.write(2, b"F0000 00:00:%.6f %7d kernel.cc:1] Check failed: size <= 20\n" % (time.time(), os.getpid()))
    os.abort()


def _throw() -> None:
    """Let a C++ exception out of a C function."""
    ctypes.CDLL("libstdc++.so.6")._ZSt20__throw_out_of_rangePKc(b"thrown on purpose")


_HOARD: list[np.ndarray] = []


def _leak() -> None:
    """Keep memory forever."""
    _HOARD.append(np.ones(140 << 20, np.uint8))
    time.sleep(1000)


def _garble() -> None:
    """Write to every pipe of the process, also to the one for its answers."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if stat.S_ISFIFO(os.fstat(int(name)).st_mode):
                os.write(int(name), b"garbage " * 64)
        except OSError:
            continue


DEATHS: dict[str, Callable[[], object]] = {
    "segfault": lambda: ctypes.string_at(0),
    "check": _check,
    "throw": _throw,
    "leak": _leak,
    "hang": lambda: time.sleep(1000),
    "exit": lambda: os._exit(0),
    "leave": lambda: sys.exit(3),
    "garble": _garble,
}


def load(how: str) -> Loaded:
    """Return an implementation that dies in the way ``how`` on the calls that this module describes."""
    sound = load_multiply()

    def answer(call: Call, path: str) -> Outcome:
        x = call.data
        if x.size > SURVIVED and x.dtype == "uint8" and len(x.shape) == 3 and "zero_point" not in call.tensors:
            DEATHS[how]()
        result = sound.answer(call, path)
        assert isinstance(result, Outcome)
        return result

    return Loaded(answer, sound.not_implemented)
