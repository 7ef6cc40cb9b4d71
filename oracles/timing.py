"""The interface between the bench and an implementation: a problem, and ways to solve it.

`xverify bench` times an oracle with a `Timing`. The oracle's module defines ``load_bench(threads, *arguments) -> Solve``. This
function imports the framework, in its own process, and gets the oracle's arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Optional, Sequence, Tuple

import numpy as np

from xverify.oracles.arrays import Array, numpy_dtype

ALIGNMENT = 64
"""Bytes of a cache line."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A case with its arrays of NumPy's and ml_dtypes' types, each at the beginning of a cache line."""

    case: Any
    """An `xverify.bench.cases.Case`."""

    x: Array
    scale: Array
    zero_point: Optional[Array]
    out: Array
    """The array to write, of the case's shape."""

    def along(self, parameter: Array) -> Array:
        """A parameter in a shape that broadcasts to x, with blocks repeated."""
        case = self.case
        if case.axis is None or parameter.ndim == 0:
            return parameter
        if not case.block_size:
            return parameter.reshape([-1 if i == case.axis else 1 for i in range(self.x.ndim)])
        index = np.arange(case.shape[case.axis]) // case.block_size
        repeated: Array = np.take(parameter, index, axis=case.axis)
        return repeated


@dataclass(frozen=True, eq=False)
class Way:
    """One way to solve a problem."""

    name: str
    run: Callable[[], Any]
    """Solves the problem once, from operands that exist already."""

    read: Optional[Callable[[Any], Array]] = None
    """Gets the output from what ``run`` returned. None: ``run`` writes to the problem's own output."""

    owns_output: bool = False
    """True if each run allocates its output."""

    memory: object = None
    """Objects that must live as long as this, because a library points to them without holding them."""


Solve = Callable[[Problem], Sequence[Way]]
"""The ways to solve a problem.

It raises NotImplementedError if the implementation lacks the operation.
"""


@dataclass(frozen=True)
class Timing:
    """The terms on which the bench times an implementation, and its looks in plots."""

    colour: str
    """As #RRGGBB. People with any kind of colour vision can tell the colours apart.

    Source: M. Okabe, K. Ito, "Color Universal Design", 2008.
    """

    marker: str
    """A marker of matplotlib, for people who see no colours."""

    distribution: str = ""
    """The distribution whose version the bench prints, if it is not the oracle's."""

    environment: Tuple[Tuple[str, str], ...] = ()
    """Environment variables of the process; {threads} stands for the number of threads."""


def aligned(shape: Tuple[int, ...], dtype: str) -> Array:
    """A new array at the beginning of a cache line, with its pages already in memory.

    The first use of a page would otherwise be part of what is timed.
    """
    kind = numpy_dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    raw = np.empty(size + ALIGNMENT, np.uint8)
    raw.fill(0xA5)
    start = -raw.ctypes.data % ALIGNMENT
    array: Array = raw[start : start + size].view(kind).reshape(shape)
    return array
