"""The arguments of compiled loops, compared with the types that the loops were compiled for."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest


def calls_given(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Record calls of a module's loops: pairs of the type that a loop was compiled for and the argument."""
    calls: list[tuple[Any, ...]] = []
    entry = module.entry

    def watched(function: Callable[..., Any], signature: tuple[Any, ...]) -> Callable[..., Any]:
        compiled = entry(function, signature)

        def call(*arguments: Any) -> Any:
            calls.append(tuple(zip(signature, arguments, strict=True)))
            return compiled(*arguments)

        return call

    monkeypatch.setattr(module, "entry", watched)
    return calls


def fit(calls: list[tuple[Any, ...]]) -> bool:
    """True if each array has the element size that its loop was compiled for, and one element for rank 0."""
    given = [(kind, array) for call in calls for kind, array in call if isinstance(array, np.ndarray)]
    assert given, "no loop was given an array"
    return all(kind.dtype.bitwidth == 8 * array.itemsize and (kind.ndim or array.size == 1) for kind, array in given)
