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


class Operand(NamedTuple):
    """An array as far as the checks look at it."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]


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


def are_fixed(axis: object, other: object = None, dtype: object = None) -> bool:
    """Whether the attributes are of types whose values cannot change and that equal only what is admitted as they are (an axis of
    True equals 1), so that a plan may be kept for them."""
    return (
        (axis is None or type(axis) is int)
        and (other is None or type(other) in (int, bool))
        and (dtype is None or isinstance(dtype, str | type | np.dtype))
    )


class Planner(Protocol):
    """A function that makes plans."""

    cache_clear: Callable[[], None]

    def __call__(self, *call: Any) -> Plan: ...


def remembered(attributes: slice) -> Callable[[Callable[..., Plan]], Planner]:
    """A decorator: the last plans are kept, for attributes that `are_fixed`. A refusal is none of them. The function's arguments
    are then given by place; attributes: which of them are what `are_fixed` looks at."""

    def keeping(plan: Callable[..., Plan]) -> Planner:
        kept = lru_cache(maxsize=1024)(plan)

        @wraps(plan)
        def planner(*call: Any) -> Plan:
            return (kept if are_fixed(*call[attributes]) else plan)(*call)

        planner.cache_clear = kept.cache_clear  # type: ignore[attr-defined]
        return cast(Planner, planner)

    return keeping
