"""Ordinary calls: allowed calls whose answers show that an implementation computes something.

An ordinary call has a non-empty x with several codes. Its scales are finite and not zero, or its range is finite and not
empty. An implementation can answer other calls right without a single multiplication.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from xverify.core.call import Call, Tensor
from xverify.core.dtypes import values
from xverify.strategies.walk import VECTOR

ENOUGH_RANKS = 2
"""The number of ranks in which calls of a cell must be answered."""

MOST_EXAMINED = 4096
"""The number of codes of x that are compared."""


@dataclass(eq=False)
class OrdinaryCalls:
    """The ordinary calls of one cell, and the reasons why other answered calls are not ordinary."""

    sent: set[int] = field(default_factory=set)
    """Ranks of the calls that were sent."""
    taken: set[int] = field(default_factory=set)
    """Ranks with a call that was not refused as not implemented."""
    answered: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Hashes of the contents of calls that gave a tensor, by rank."""
    unsupported: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Hashes of the contents of calls that were refused as not implemented, by rank."""
    largest_sent: int = 0
    """Elements of the largest call that was sent."""
    largest: int = 0
    """Elements of the largest call that gave a tensor."""
    others: Counter[str] = field(default_factory=Counter)
    """Answered calls that are not ordinary, by the reason: "empty", "special" or "constant"."""

    @property
    def enough(self) -> bool:
        """True if further calls cannot add evidence."""
        return len(self.answered) >= ENOUGH_RANKS and self.largest > VECTOR

    def observe(self, call: Call, kind: str) -> None:
        """Count an allowed call.

        Args:
            call: the call.
            kind: the kind of its outcome.
        """
        if self.enough:
            return
        if oddity := oddity_of(call):
            self.others[oddity] += kind == "tensor"
            return
        rank = len(call.data.shape)
        self.sent.add(rank)
        self.largest_sent = max(self.largest_sent, call.values)
        if kind == "unsupported":
            self.unsupported[rank].add(_content(call))
            return
        self.taken.add(rank)
        if kind == "tensor":
            self.answered[rank].add(_content(call))
            self.largest = max(self.largest, call.values)

    def different(self) -> int:
        """The number of answered calls with different contents. Types and layouts do not count."""
        return sum(map(len, self.answered.values()))

    def declared(self) -> set[int]:
        """The ranks that are refused as not implemented, if most calls of other ranks are answered."""
        refused = sum(len(self.unsupported[rank]) for rank in self.answered)
        return self.sent - self.taken if 1 < self.different() >= refused else set()


def _content(call: Call) -> int:
    """A hash of the shape and the codes of x and of the scale."""
    parameters = call.tensors.get("scale") or call.tensors.get("min_range")
    tensors = (call.data,) if parameters is None else (call.data, parameters)
    return hash((call.data.shape, *(tensor.codes.reshape(-1)[:MOST_EXAMINED].tobytes() for tensor in tensors)))


def oddity_of(call: Call) -> str:
    """The reason why a call is not ordinary: "empty", "special" or "constant"; "" if it is."""
    if not call.values:
        return "empty"
    if not _has_ordinary_parameters(call):
        return "special"
    codes = call.data.codes.reshape(-1)[:MOST_EXAMINED]
    return "" if bool((codes != codes[0]).any()) else "constant"


def _has_ordinary_parameters(call: Call) -> bool:
    """True if all scales are finite and not zero, or the range is finite and not empty."""
    scale = call.tensors.get("scale")
    if scale is not None:
        numbers = values(scale.dtype, scale.codes)
        return bool((np.isfinite(numbers) & (numbers != 0)).all())
    low, high = (_numbers(call.tensors.get(role)) for role in ("min_range", "max_range"))
    return bool((np.isfinite(low) & np.isfinite(high) & (low < high)).all())


def _numbers(tensor: Tensor | None) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.full((), np.nan) if tensor is None else np.asarray(values(tensor.dtype, tensor.codes), np.float64)


def together(parts: Iterable[OrdinaryCalls]) -> OrdinaryCalls:
    """The ordinary calls of one cell on all paths of an implementation."""
    whole = OrdinaryCalls()
    for part in parts:
        whole.sent |= part.sent
        whole.taken |= part.taken
        for rank, contents in part.answered.items():
            whole.answered[rank] |= contents
        for rank, contents in part.unsupported.items():
            whole.unsupported[rank] |= contents
        whole.others += part.others
        whole.largest_sent = max(whole.largest_sent, part.largest_sent)
        whole.largest = max(whole.largest, part.largest)
    return whole
