"""Compile functions with Numba, and cache the machine code on disk.

Each function is compiled once for each signature and machine.
"""

from __future__ import annotations

import glob
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile

Compiled = Callable[..., Any]


@cache
def entry(function: Callable[..., Any], signature: tuple[Any, ...]) -> Compiled:
    """The function compiled for that signature, called without Numba's dispatch on argument types.

    The entry point does not check the element types of arrays: see `memory.Flat`.

    Args:
        function: a Python function that Numba can compile.
        signature: Numba's types of the arguments.

    Returns:
        The compiled function. Its machine code is cached on disk if a directory can be written.
    """
    try:
        return _entry(function, signature, keep=True)
    except Exception:  # No writeable cache directory, a full disk, or a damaged file.
        return _entry(function, signature, keep=False)


def _entry(function: Callable[..., Any], signature: tuple[Any, ...], keep: bool) -> Compiled:
    dispatcher = njit(nogil=True, error_model="numpy")(function)
    if keep:
        dispatcher._cache = _kept(function, signature)
    dispatcher.compile(signature)
    if keep and not dispatcher._cache_hits:
        _drop_stale(dispatcher._cache)
    compiled: Compiled = dispatcher.overloads[signature].entry_point
    return compiled


def _kept(function: Callable[..., Any], signature: tuple[Any, ...]) -> FunctionCache:
    """Numba's disk cache of a function for one signature and these sources.

    Numba's own cache looks at the function's own file only, but a proven kernel must be the one that runs.
    It also numbers the files of all signatures and announces a file before it writes it. Of two processes that
    compile at the same
    time, one may then load the other's file, or an old one. So each signature and each state of the sources has files
    of its own.
    """
    cache = FunctionCache(function)
    implementation = cache._impl
    of_signature = sha256(" ".join(map(str, signature)).encode()).hexdigest()
    cache._cache_file = IndexDataCacheFile(
        cache_path=implementation.locator.get_cache_path(),
        filename_base=f"{implementation.filename_base}-{sources()[:_DIGITS]}-{of_signature[:_DIGITS]}",
        source_stamp=sources(),
    )
    return cache


_DIGITS = 16
"""Digits of a digest in the name of a file."""


def _drop_stale(cache: FunctionCache) -> None:
    """Delete the cache files of other sources."""
    base = cache._impl.filename_base
    for file in Path(cache._impl.locator.get_cache_path()).glob(f"{glob.escape(base)}-*.nb?"):
        if not file.name.startswith(f"{base}-{sources()[:_DIGITS]}"):
            with suppress(OSError):  # another process deleted it first, or still reads it
                file.unlink()


@cache
def sources() -> str:
    """A digest of the files that contain compiled code."""
    digest = sha256()
    for name in (
        "build",
        "chunks",
        "decode",
        "layout",
        "lookup",
        "loops",
        "memory",
        "rounding",
        "threads",
        "tiles",
        "vectors",
    ):
        digest.update(Path(__file__).with_name(name + ".py").read_bytes())
    return digest.hexdigest()
