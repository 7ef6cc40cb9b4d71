"""Compiling with Numba, once for each signature and machine: what was compiled is kept on disk where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from numba import njit

Compiled = Callable[..., Any]


@cache
def entry(function: Callable[..., Any], signature: tuple[Any, ...]) -> Compiled:
    """The function compiled for that signature, to be called with arrays whose elements have these sizes.

    It is what Numba calls after it has looked up the signature for the arguments, so it looks at their item size and rank only:
    an int8 array may be given for uint8, and one that is read-only for one that is not.
    """
    try:
        return _entry(function, signature, keep=True)
    except Exception:  # No directory to keep it in, none that can be written, a full disk, a damaged file.
        return _entry(function, signature, keep=False)


def _entry(function: Callable[..., Any], signature: tuple[Any, ...], keep: bool) -> Compiled:
    dispatcher = njit(nogil=True, error_model="numpy", cache=keep)(function)
    dispatcher.compile(signature)
    compiled: Compiled = dispatcher.overloads[signature].entry_point
    return compiled
