"""Plans: the results of a call's checks, cached by dtypes, shapes and attributes.

Two calls with one plan may differ in the address and writability of ``out``, and in strides and values. Every call
checks these.
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
    """An array, as far as the checks look at it."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    in_byte: int = 1
    """Codes in a byte of its memory: more than one if they are packed, in an array of bytes of rank 1."""


Small = Callable[..., bool]
"""small(out, *operands): the arithmetic of one small tensor. True if it was done.

It is done if ``out``, of the right dtype and shape, is writeable and shares no memory with an operand, and all arrays
are in
C order.
"""


@dataclass(frozen=True)
class Plan:
    """The result of a call's checks."""

    dtype: np.dtype[Any]
    """The output's dtype."""

    apply: Callable[..., None]
    """apply(out, *operands): the arithmetic, on a backend."""

    small: Small | None = None
    """A faster form for small tensors, if there is one."""

    spread: Spread = Spread()  # noqa: RUF009
    """The granularity of scales and zero points."""


FIXED = frozenset((int, str, type, *map(type, (None, FLOAT32, FLOAT16, BFLOAT16))))
"""Types of attributes whose values are immutable and equal no other value that must be told apart, as True equals 1.

Only plans of such attributes are cached. Each dtype has its own type.
"""


class Planner(Protocol):
    """A function that makes plans."""

    cache_clear: Callable[[], None]

    def __call__(self, *call: Any) -> Plan: ...


def remembered(plan: Callable[..., Plan], attributes: int = 7) -> Planner:
    """The function with its last plans cached.

    It takes positional arguments only. Refusals are not cached.

    Args:
        plan: the function that makes plans.
        attributes: the index of the first attribute. Before it come the contract, and the dtypes and shapes of three
            operands.
    """
    cached = lru_cache(maxsize=1024)(plan)

    @wraps(plan)
    def planner(*call: Any) -> Plan:
        for attribute in call[attributes:]:
            if type(attribute) not in FIXED:
                return plan(*call)
        return cached(*call)

    planner.cache_clear = cached.cache_clear  # type: ignore[attr-defined]
    return cast(Planner, planner)
