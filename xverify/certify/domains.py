"""The closed domains: their triples (x, zero point, scale), the order of these, and their names.

A domain is divided into *slices*, a slice into *units* that are numbered from 0, and a unit into triples. Proven parts
are recorded as ranges of units. A range of units is computed as *columns*: each column has one scale, one zero point,
and some codes of x.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from xverify.certify.expected import FORMATS, SIGNED, UNSIGNED, bits_of

Codes = NDArray[Any]

NARROW = (*(t for t, bits in (SIGNED | UNSIGNED).items() if bits <= 8), *(t for t, f in FORMATS.items() if f.bits <= 8))
"""Types of x with 8 bits or fewer."""

WIDE = ("int16", "uint16")
"""Types of x with 16 bits."""
INTEGERS = (*SIGNED, *UNSIGNED)
"""Integer types of x."""
SCALES = ("float16", "bfloat16", "float8_e8m0fnu")
"""Types of scale whose codes a domain contains completely."""

FLOAT32 = 1 << 32
"""Number of float32 codes."""
SPREAD = 1 << 17
"""Number of scales in a domain TYPE-float32-spread."""


@dataclass(frozen=True, eq=False)
class Columns:
    """Operands of some columns, as codes."""

    x: Codes
    """Codes of x: shape (columns, codes), or (1, codes) if all columns have the same."""
    scale: Codes
    """Code of the scale of each column: shape (columns,)."""
    zero_point: Codes | None
    """Code of the zero point of each column: shape (columns,). None for calls without a zero point."""
    difference: float | None = None
    """x - zero point, if it is the same everywhere."""

    @property
    def shape(self) -> tuple[int, int]:
        return self.scale.size, self.x.shape[1]

    @property
    def size(self) -> int:
        return int(self.scale.size * self.x.shape[1])

    def some(self, columns: slice, codes: slice) -> Columns:
        """Return a selection of columns and of codes of x."""
        x = self.x[:, codes] if len(self.x) == 1 else self.x[columns, codes]
        zero_point = None if self.zero_point is None else self.zero_point[columns]
        return Columns(x, self.scale[columns], zero_point, self.difference)


class Domain(Protocol):
    """The interface of a domain."""

    @property
    def name(self) -> str:
        """Name on the command line."""
        ...

    @property
    def x_dtype(self) -> str:
        """Type of x and of the zero point."""
        ...

    @property
    def scale_dtype(self) -> str:
        """Type of the scale."""
        ...

    @property
    def has_zero_point(self) -> bool:
        """True if the calls have a zero point."""
        ...

    @property
    def slices(self) -> Sequence[int]:
        """Numbers of the slices."""
        ...

    @property
    def slice_words(self) -> str:
        """Meaning of a slice's number; "" if there is only one slice."""
        ...

    @property
    def units(self) -> int:
        """Number of units in a slice."""
        ...

    @property
    def unit(self) -> str:
        """Meaning of a unit's number."""
        ...

    @property
    def columns_of_unit(self) -> int:
        """Number of columns in a unit."""
        ...

    @property
    def codes(self) -> int:
        """Number of codes of x in a column."""
        ...

    @property
    def words(self) -> str:
        """Description for people."""
        ...

    def columns(self, part: int, start: int, stop: int) -> Columns:
        """Return the columns of units ``start`` to ``stop`` - 1 of slice ``part``."""
        ...


def triples_of_unit(domain: Domain) -> int:
    """Return the number of triples in a unit."""
    return domain.columns_of_unit * domain.codes


def size(domain: Domain) -> int:
    """Return the number of triples in a domain."""
    return len(domain.slices) * domain.units * triples_of_unit(domain)


def _all_codes(dtype: str) -> Codes:
    bits = bits_of(dtype)
    return np.arange(1 << bits).astype(np.uint16 if bits > 8 else np.uint8)


def spread_scales(numbers: NDArray[np.int64]) -> Codes:
    """Return float32 scales of every sign, exponent and upper 7 bits of the mantissa.

    For even numbers the lower 16 bits are zero. For odd numbers they are number // 2 * 40503 modulo 2^16, with the last
    bit set.
    """
    high = numbers >> 1
    low = np.where(numbers & 1, (high * 40503) & 0xFFFF | 1, 0)
    return (high << 16 | low).astype(np.uint32)


@dataclass(frozen=True)
class Pairs:
    """All codes of x with all zero points (or none), under each scale of a list.

    The scales are all codes of their type, or `spread_scales`. A unit is a scale.
    """

    x_dtype: str
    scale_dtype: str
    has_zero_point: bool = True

    @property
    def spread(self) -> bool:
        return self.scale_dtype == "float32"

    @property
    def name(self) -> str:
        return f"{self.x_dtype}-{self.scale_dtype}{'-spread' if self.spread else ''}"

    slices = (0,)
    slice_words = ""

    @property
    def units(self) -> int:
        return SPREAD if self.spread else 1 << bits_of(self.scale_dtype)

    @property
    def unit(self) -> str:
        return "number of the scale" if self.spread else "code of the scale"

    @property
    def codes(self) -> int:
        return 1 << bits_of(self.x_dtype)

    @property
    def columns_of_unit(self) -> int:
        return self.codes if self.has_zero_point else 1

    @property
    def words(self) -> str:
        scales = f"all {self.units} {self.scale_dtype} scales"
        if self.spread:
            scales = (
                f"{SPREAD} float32 scales: for h below 65536, number 2h has the bits h << 16, number 2h + 1 the bits "
                "h << 16 | h * 40503 mod 65536 | 1"
            )
        zero_points = f"all {self.codes} zero points" if self.has_zero_point else "no zero point"
        return f"all {self.codes} codes of {self.x_dtype} x {zero_points} x {scales}"

    def columns(self, part: int, start: int, stop: int) -> Columns:
        numbers = np.arange(start, stop, dtype=np.int64)
        narrow = np.uint8 if bits_of(self.scale_dtype) == 8 else np.uint16
        scales = spread_scales(numbers) if self.spread else numbers.astype(narrow)
        x = _all_codes(self.x_dtype)
        if not self.has_zero_point:
            return Columns(x[None, :], scales, None)
        return Columns(x[None, :], np.repeat(scales, x.size), np.tile(x, scales.size))


@dataclass(frozen=True)
class Differences:
    """All float32 scales with each difference of two codes of an integer type of 8 bits or fewer.

    A slice is a difference. A unit is a scale, with one pair of codes that have the difference.
    """

    x_dtype: str

    scale_dtype = "float32"
    has_zero_point = True
    slice_words = "x - zero point"
    units = FLOAT32
    unit = "code of the scale"
    codes = 1
    columns_of_unit = 1

    @property
    def name(self) -> str:
        return f"{self.x_dtype}-float32"

    @property
    def count(self) -> int:
        return 1 << bits_of(self.x_dtype)

    @property
    def slices(self) -> Sequence[int]:
        return range(1 - self.count, self.count)

    @property
    def words(self) -> str:
        return (
            f"all 2^32 float32 scales x all {len(self.slices)} differences of codes of {self.x_dtype}; of the pairs "
            f"with a difference d, {self.count} - |d| in the order of their zero points, the one with the number "
            f"(code of the scale) mod ({self.count} - |d|)"
        )

    def columns(self, part: int, start: int, stop: int) -> Columns:
        length, pairs = stop - start, self.count - abs(part)
        zero_points, x = _pairs_of(self.x_dtype, part, length)
        first = slice(start % pairs, start % pairs + length)
        scale = _counted(length) + np.uint32(start)
        return Columns(x[first, None], scale, zero_points[first], float(part))


@lru_cache(maxsize=4)
def _pairs_of(dtype: str, difference: int, length: int) -> tuple[Codes, Codes]:
    """Return the codes of zero points and of x of all pairs with a difference.

    They are in the order of the zero points, and repeated as often as needed wherever a range begins.
    """
    count = 1 << bits_of(dtype)
    pairs = count - abs(difference)
    lowest = max(0, -difference) - (count // 2 if dtype in SIGNED else 0)
    number = np.arange(pairs) + lowest
    times = -(-length // pairs) + 1
    zero_points, x = (np.tile((codes % count).astype(np.uint8), times) for codes in (number, number + difference))
    return zero_points, x


@lru_cache(maxsize=4)
def _counted(length: int) -> Codes:
    return np.arange(length, dtype=np.uint32)


@dataclass(frozen=True)
class GivenScales:
    """All codes of a 16-bit integer type with all zero points, under the scales that the user names.

    A slice is a scale, numbered by its code. A unit is a zero point.
    """

    x_dtype: str
    scale_dtype: str
    slices: tuple[int, ...]

    has_zero_point = True
    slice_words = "code of the scale"
    unit = "code of the zero point"
    columns_of_unit = 1

    @property
    def name(self) -> str:
        return f"{self.x_dtype}-{self.scale_dtype}"

    @property
    def units(self) -> int:
        return 1 << bits_of(self.x_dtype)

    @property
    def codes(self) -> int:
        return self.units

    @property
    def words(self) -> str:
        scales = (
            ", ".join(f"0x{code:0{bits_of(self.scale_dtype) // 4}x}" for code in self.slices) or "each that is given"
        )
        return f"all {self.codes} codes of {self.x_dtype} x all zero points x the {self.scale_dtype} scale {scales}"

    def columns(self, part: int, start: int, stop: int) -> Columns:
        zero_points = np.arange(start, stop).astype(np.uint16)
        code = np.uint32 if self.scale_dtype == "float32" else np.uint16
        return Columns(_all_codes(self.x_dtype)[None, :], np.full(zero_points.size, part, code), zero_points)


def names() -> tuple[str, ...]:
    """Return the names of all domains."""
    return (
        *(f"{x}-{scale}" for x in NARROW for scale in SCALES),
        *(f"{x}-float32" for x in NARROW if x in INTEGERS),
        *(f"{x}-float32-spread" for x in NARROW),
        *(f"{x}-{scale}" for x in WIDE for scale in ("float32", "float16", "bfloat16")),
    )


def named(name: str, has_zero_point: bool = True, scales: Sequence[int] = ()) -> Domain:
    """Return the domain of a name.

    Args:
        name: One of `names`.
        has_zero_point: False for calls without a zero point.
        scales: Codes of the scales, for domains of 16-bit types.

    Raises:
        KeyError: There is no domain of this name.
        ValueError: The domain needs zero points.
    """
    if name not in names():
        raise KeyError(name)
    x, _, scale = name.removesuffix("-spread").partition("-")
    if x in WIDE:
        domain: Domain = GivenScales(x, scale, tuple(sorted(set(scales))))
    elif scale == "float32" and not name.endswith("-spread"):
        domain = Differences(x)
    else:
        return Pairs(x, scale, has_zero_point)
    if not has_zero_point:
        raise ValueError(f"{name} has zero points only")
    return domain
