"""What compiled loops are called with, beside what they were compiled for."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest


def ranks_given(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """A list that grows with each array that a loop of the module is given: the rank that it was compiled for, and its own."""
    ranks: list[tuple[int, int]] = []
    entry = module.entry

    def watched(function: Callable[..., Any], signature: tuple[Any, ...]) -> Callable[..., Any]:
        compiled = entry(function, signature)

        def call(*arguments: Any) -> Any:
            given = zip(signature, arguments, strict=True)
            ranks.extend((kind.ndim, array.ndim) for kind, array in given if isinstance(array, np.ndarray))
            return compiled(*arguments)

        return call

    monkeypatch.setattr(module, "entry", watched)
    return ranks
