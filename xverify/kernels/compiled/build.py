"""Compiling with Numba, once for each signature and machine: what was compiled is kept on disk where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile

Compiled = Callable[..., Any]


@cache
def entry(function: Callable[..., Any], signature: tuple[Any, ...]) -> Compiled:
    """The function compiled for that signature, to be called with arrays whose elements have these sizes.

    It is what Numba calls after it has looked up the signature for the arguments, so what arrays hold is not asked: see
    `flat.Flat`.
    """
    try:
        return _entry(function, signature, keep=True)
    except Exception:  # No directory to keep it in, none that can be written, a full disk, a damaged file.
        return _entry(function, signature, keep=False)


def _entry(function: Callable[..., Any], signature: tuple[Any, ...], keep: bool) -> Compiled:
    dispatcher = njit(nogil=True, error_model="numpy")(function)
    if keep:
        dispatcher._cache = _kept(function)
    dispatcher.compile(signature)
    compiled: Compiled = dispatcher.overloads[signature].entry_point
    return compiled


def _kept(function: Callable[..., Any]) -> FunctionCache:
    """Numba's cache of a function, in which what was made of other sources than these counts as stale.

    Numba itself looks at the function's own file only, and a kernel that was proven must be the one that runs.
    """
    cache = FunctionCache(function)
    implementation = cache._impl
    cache._cache_file = IndexDataCacheFile(
        cache_path=implementation.locator.get_cache_path(),
        filename_base=implementation.filename_base,
        source_stamp=sources(),
    )
    return cache


@cache
def sources() -> str:
    """A digest of the files in which there is something that is compiled."""
    digest = sha256()
    for name in (
        "build",
        "bytewise",
        "chunks",
        "codings",
        "decoding",
        "flat",
        "loops",
        "memory",
        "numbers",
        "packed",
        "range_loops",
        "results",
        "rounding",
        "scalars",
        "sharing",
        "tables",
        "vectors",
    ):
        digest.update(Path(__file__).with_name(name + ".py").read_bytes())
    return digest.hexdigest()
