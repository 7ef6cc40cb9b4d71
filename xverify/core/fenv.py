"""The floating-point environment of a thread: rounding, and whether subnormals are flushed to zero.

Loading a library that was built with ``-ffast-math`` turns flushing on for the thread that loads it, and a kernel may turn
it on for itself. Where a user's code runs in the same process as ours, each has an environment of its own, and the two
are exchanged around every call. C's fenv.h does that (C11, 7.6.4): a ``fenv_t`` of glibc, musl and macOS holds MXCSR on x86-64
and FPCR on AArch64, which are the registers that flush. Elsewhere nothing is done, and `available` says so.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

_MOST_BYTES = 256
"""More than the largest ``fenv_t``; that of glibc on x86-64 has 32 bytes."""


@dataclass(frozen=True, eq=False)
class Environment:
    """A thread's floating-point environment at some moment; empty where there is no access to it."""

    memory: ctypes.Array[ctypes.c_char] | None


def available() -> bool:
    """Whether environments can be read and set here."""
    return _library() is not None


def current() -> Environment:
    """The calling thread's environment as it is now."""
    library = _library()
    if library is None:
        return Environment(None)
    memory = ctypes.create_string_buffer(_MOST_BYTES)
    library.fegetenv(memory)
    return Environment(memory)


def enter(environment: Environment) -> None:
    """Make an environment, as `current` gave it, that of the calling thread."""
    library = _library()
    if library is not None and environment.memory is not None:
        library.fesetenv(environment.memory)


@contextmanager
def preserved() -> Iterator[None]:
    """The calling thread's environment is the same after as before."""
    before = current()
    try:
        yield
    finally:
        enter(before)


@contextmanager
def standard() -> Iterator[None]:
    """Inside, the environment that a process begins with: to nearest, ties to even, subnormals kept; after, that of before."""
    library = _library()
    with preserved():
        if library is not None:
            library.fesetenv(_initial(library))
        yield


@cache
def _library() -> ctypes.CDLL | None:
    """What has the functions of fenv.h, None where there is no such thing or ``fenv_t`` is not known to hold the register."""
    if sys.platform not in ("linux", "darwin"):
        return None
    for name in (None, "libm.so.6"):
        try:
            library = ctypes.CDLL(name)
            library.fegetenv.argtypes = library.fesetenv.argtypes = [ctypes.c_void_p]
            _initial(library)
        except (OSError, AttributeError, ValueError):
            continue
        return library
    return None


def _initial(library: ctypes.CDLL) -> int:
    """FE_DFL_ENV: the address of an object on macOS, a value that stands for it with glibc and musl."""
    if sys.platform == "darwin":
        return ctypes.addressof(ctypes.c_char.in_dll(library, "_FE_DFL_ENV"))
    return ctypes.c_void_p(-1).value or 0
