"""The parameter of each element, as `dequantize.cu` takes it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from math import prod

from xverify.kernels.blocks import Spread


class Kind(IntEnum):
    """The way to an element's parameter; Spread in the source."""

    ONE = 0
    """One parameter serves all elements."""

    ANY = 1
    """As `Geometry` says."""

    RUNS = 2
    """Parameter number index // run. All elements of a vector share one."""

    AXIS = 3
    """Parameter number index // run % extent. All elements of a vector share one."""

    COLUMNS = 4
    """Parameter number index % inner. Those of a vector are adjacent."""

    BLOCKS = 5
    """Parameter number index // inner // run * inner + index % inner. Those of a vector are adjacent."""


@dataclass(frozen=True)
class Geometry:
    """x as (outer, extent, inner) in C order; every ``run`` elements along the axis share parameters.

    An element's parameter is number outer index * outer_stride + index along the axis // run * run_stride +
    inner index * inner_stride; inner_stride is 0 or 1.
    """

    inner: int
    """Elements behind the axis."""

    extent: int
    """Elements along the axis."""

    run: int
    """Adjacent elements along the axis that share a parameter."""

    outer_stride: int
    """Parameters from one outer index to the next."""

    run_stride: int
    """Parameters from one run to the next."""

    inner_stride: int
    """0, or 1 if each inner index has parameters of its own."""

    def arguments(self, index_bits: int) -> tuple[int, ...]:
        """The kernel's last twelve arguments."""
        divisors = (divisor(number, index_bits) for number in (self.inner, self.extent, self.run))
        return (*(part for parts in divisors for part in parts), self.outer_stride, self.run_stride, self.inner_stride)


ONE = Geometry(1, 1, 1, 0, 0, 0)
"""The geometry of one parameter for all elements, which no kernel reads."""


def geometry(x: tuple[int, ...], parameter: tuple[int, ...], spread: Spread) -> Geometry | None:
    """The geometry of parameters of that shape for a tensor x that is not empty; None if one serves all."""
    if spread.axis is None or prod(parameter) == 1:
        return None
    extent, inner = x[spread.axis], prod(x[spread.axis + 1 :])
    if len(parameter) < len(x):
        return Geometry(extent, 1, 1, 0, 0, 1) if inner == 1 else Geometry(inner, extent, 1, 0, 1, 0)
    if spread.run == 1:
        return Geometry(prod(x), 1, 1, 0, 0, 1)
    run = min(spread.run, extent)
    count = -(-extent // run)
    return Geometry(inner, extent, run, count * inner, inner, int(inner > 1))


def in_vectors(any_kind: Geometry, size: int, lanes: int, adjacent: bool = True) -> tuple[Kind, Geometry]:
    """The kind with the fewest divisions, and the geometry in its terms.

    Args:
        size: elements of x.
        lanes: elements of a vector.
        adjacent: False if adjacent parameters cannot be read as a vector.
    """
    inner, extent, run = any_kind.inner, any_kind.extent, any_kind.run
    has_whole_runs = extent % run == 0 or inner * extent == size
    if any_kind.inner_stride == 0 and inner > 1 and inner % lanes == 0:
        return Kind.RUNS if inner * extent == size else Kind.AXIS, Geometry(1, extent, inner, 0, 1, 0)
    if inner == 1 and has_whole_runs and run % lanes == 0:
        return Kind.RUNS, Geometry(1, size, run, 0, 1, 0)
    if adjacent and any_kind.inner_stride == 1 and has_whole_runs and inner % lanes == 0:
        return Kind.BLOCKS if any_kind.outer_stride else Kind.COLUMNS, Geometry(inner, 1, run, 0, 0, 1)
    return Kind.ANY, any_kind


def divisor(number: int, bits: int) -> tuple[int, int, int]:
    """A number, and the multiplier and shift that divide by it.

    n // number is ((n * multiplier >> bits) + n) >> shift for 0 <= n < 2^(bits - 1).

    Source:
        T. Granlund, P. Montgomery, "Division by invariant integers using multiplication", 1994, figure 4.1.
    """
    shift = (number - 1).bit_length()
    return number, ((1 << bits) * ((1 << shift) - number)) // number + 1, shift
