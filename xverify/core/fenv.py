"""The floating-point environment of a thread: its rounding, and its flushing of subnormals.

Loading a library that was built with ``-ffast-math`` turns flushing on in the loading thread, and a kernel may turn it on
itself. A user's code that runs in our process therefore has an environment of its own, which is set around every call.

The registers that flush are MXCSR on x86-64 and FPCR on AArch64. A ``fenv_t`` of glibc, musl and macOS holds them. On other
systems nothing happens, and `available` is False.

Source: C11, 7.6.4 (fenv.h).
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

_MOST_BYTES = 256
"""More bytes than any ``fenv_t`` has. glibc's has 32 on x86-64."""


@dataclass(frozen=True, eq=False)
class Environment:
    """A copy of a thread's floating-point environment."""

    memory: ctypes.Array[ctypes.c_char] | None
    """A ``fenv_t``, or None on systems without access to it."""


def available() -> bool:
    """True if this system can read and set environments."""
    return _library() is not None


def current() -> Environment:
    """Copy the calling thread's environment."""
    library = _library()
    if library is None:
        return Environment(None)
    memory = ctypes.create_string_buffer(_MOST_BYTES)
    library.fegetenv(memory)
    return Environment(memory)


def enter(environment: Environment) -> None:
    """Set the calling thread's environment to a copy from `current`."""
    library = _library()
    if library is not None and environment.memory is not None:
        library.fesetenv(environment.memory)


@contextmanager
def preserved() -> Iterator[None]:
    """Restore the calling thread's environment at the end of the block."""
    before = current()
    try:
        yield
    finally:
        enter(before)


@contextmanager
def standard() -> Iterator[None]:
    """Use the default environment inside the block, and restore the old one after it.

    The default rounds to nearest, ties to even, and keeps subnormals.
    """
    library = _library()
    with preserved():
        if library is not None:
            library.fesetenv(_initial(library))
        yield


@cache
def _library() -> ctypes.CDLL | None:
    """The C library with fenv.h's functions, or None where its ``fenv_t`` may lack the register."""
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
    """C's FE_DFL_ENV: the address of an object on macOS, a special value in glibc and musl."""
    if sys.platform == "darwin":
        return ctypes.addressof(ctypes.c_char.in_dll(library, "_FE_DFL_ENV"))
    return ctypes.c_void_p(-1).value or 0
