"""What the checks of a call come to. They look at dtypes, shapes and attributes only, so that a call like one before needs none.

What may differ between two calls with the same plan is looked at each time: where ``out`` lies and whether it can be written, the
strides of all arrays, and their values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from xverify.kernels.blocks import Spread
from xverify.kernels.casting import BFLOAT16, FLOAT16, FLOAT32


class Operand(NamedTuple):
    """An array as far as the checks look at it."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    in_byte: int = 1
    """Codes in a byte of its memory: more than one where they are packed, in an array of bytes of rank 1."""


Small = Callable[..., bool]
"""small(out, *operands): the arithmetic for one small tensor. It returns whether it did it: where ``out``, of the right dtype and
shape, can be written and shares no memory with an operand, and all arrays are in C order."""


@dataclass(frozen=True)
class Plan:
    """dtype: the output's. apply(out, *operands): the arithmetic, on a backend. small: a faster way that may be there.
    spread: how scales and zero points spread over x."""

    dtype: np.dtype[Any]
    apply: Callable[..., None]
    small: Small | None = None
    spread: Spread = Spread()  # noqa: RUF009


_FIXED = frozenset((int, str, type, *map(type, (None, FLOAT32, FLOAT16, BFLOAT16))))
"""Types of attributes whose values cannot change and equal none that must be told from them, as True equals 1: for these a plan
may be kept. A dtype's type is its own."""


class Planner(Protocol):
    """A function that makes plans."""

    cache_clear: Callable[[], None]

    def __call__(self, *call: Any) -> Plan: ...


def remembered(plan: Callable[..., Plan], attributes: int = 7) -> Planner:
    """The function, to be called by places, with its last plans kept. A refusal is none of them. attributes: from which place on
    these are given; before them the contract, and the dtypes and shapes of three operands."""
    kept = lru_cache(maxsize=1024)(plan)

    @wraps(plan)
    def planner(*call: Any) -> Plan:
        for attribute in call[attributes:]:
            if type(attribute) not in _FIXED:
                return plan(*call)
        return kept(*call)

    planner.cache_clear = kept.cache_clear  # type: ignore[attr-defined]
    return cast(Planner, planner)
