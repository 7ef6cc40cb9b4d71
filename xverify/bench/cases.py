"""Benchmark cases: types, granularity, size, and operands drawn from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.core.call import BITS, code_dtype
from xverify.core.dtypes import FLOATS, INTEGERS, QUANTIZED, encode, integer_range, numpy_dtype
from xverify.core.near import nearest

GRANULARITIES = ("per-tensor", "per-axis", "per-axis-last", "blocked", "blocked-first")
"""Names of the ways in which scales apply to x.

per-tensor: one scale. per-axis: one scale for each row. per-axis-last: one scale for each column, so that neighbours in
memory have different scales. blocked: one for each 32 elements of a row. blocked-first: one for each 32 of a column.
"""

PACKED = "packed-"
"""The prefix of a type of x whose codes are packed: "packed-int4"."""

BLOCK = 32
"""Elements of a block, as in most files of 4-bit weights."""

SIZES = (1_000, 1 << 16, 1 << 20, 1 << 24, 1 << 26)
"""Default numbers of elements."""

SCALE_BITS = 15
"""Significant bits of a scale.

The product of such a scale and a difference of 8-bit codes is exact in float32. TensorFlow takes a range instead of a scale;
with these scales it computes the same bits.
"""


@dataclass(frozen=True)
class Case:
    """One thing to measure.

    The scale has the output's type. The zero point has the type of x; there is none for floats and for int32.
    """

    x_dtype: str
    out_dtype: str
    granularity: str
    """One of `GRANULARITIES`."""
    elements: int
    packed: bool = False
    """True if several codes of x and of the zero point share a byte, as models store them."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of x: (elements,) per tensor, otherwise rows and columns that are as equal as possible."""
        if self.granularity == "per-tensor":
            return (self.elements,)
        rows = next(rows for rows in range(isqrt(self.elements), 0, -1) if self.elements % rows == 0)
        return (rows, self.elements // rows)

    @property
    def axis(self) -> int | None:
        """The axis of the parameters; None per tensor."""
        return {"per-tensor": None, "per-axis": 0, "per-axis-last": 1, "blocked": 1, "blocked-first": 0}[
            self.granularity
        ]

    @property
    def block_size(self) -> int:
        return BLOCK if self.granularity.startswith("blocked") else 0

    @property
    def parameter_shape(self) -> tuple[int, ...]:
        """The shape of scale and zero point."""
        if self.axis is None:
            return ()
        if not self.block_size:
            return (self.shape[self.axis],)
        return tuple(-(-n // self.block_size) if i == self.axis else n for i, n in enumerate(self.shape))

    @property
    def has_zero_point(self) -> bool:
        """True if x has a zero point. ONNX admits only 0 or none for int32 and for floats."""
        return self.x_dtype in INTEGERS and self.x_dtype != "int32"

    @property
    def bytes_of_codes(self) -> int:
        """Bytes of x in NumPy, where each code takes at least one byte."""
        return self.elements * code_dtype(self.x_dtype).itemsize

    @property
    def bytes_read(self) -> int:
        """Bytes of x that a kernel reads; packed codes count as packed."""
        return self._stored(self.elements)

    def _stored(self, codes: int) -> int:
        """The bytes that this number of codes of x's type takes."""
        return -(-codes * BITS[self.x_dtype] // 8) if self.packed else codes * code_dtype(self.x_dtype).itemsize

    @property
    def bytes_written(self) -> int:
        return self.elements * code_dtype(self.out_dtype).itemsize

    @property
    def bytes_of_parameters(self) -> int:
        count = prod(self.parameter_shape)
        return count * code_dtype(self.out_dtype).itemsize + self.has_zero_point * self._stored(count)

    def __str__(self) -> str:
        x = types_in_words(self.x_dtype, self.packed)
        return f"{x} to {self.out_dtype}, {self.granularity}, {self.elements} elements"


def types_in_words(x_dtype: str, packed: bool) -> str:
    """The type of x as people read it: "int4" or "packed int4"."""
    return f"packed {x_dtype}" if packed else x_dtype


def cases_of(pairs: Sequence[tuple[str, str]], granularities: Sequence[str], sizes: Sequence[int]) -> tuple[Case, ...]:
    """All cases of these pairs of types, granularities and sizes, from small to large.

    Each pair also gets a case of one element per tensor, which shows the cost of a call. When the time budget ends, the
    largest cases are left out.
    """

    single = tuple(case_of(x, out, "per-tensor", 1) for x, out in pairs)
    return single + tuple(case_of(x, out, g, n) for n in sizes if n > 1 for x, out in pairs for g in granularities)


def case_of(x: str, out: str, granularity: str, elements: int) -> Case:
    """The case of one pair from `pairs_of`, whose x may be packed."""
    return Case(x.removeprefix(PACKED), out, granularity, elements, x.startswith(PACKED))


def pairs_of(text: str) -> tuple[tuple[str, str], ...]:
    """Parse pairs of types such as "uint8:float32,int4:float16,packed-int4:float16", or "all".

    Raises:
        ValueError: The text names an unknown type, or nothing.
    """
    packed = [PACKED + x for x in QUANTIZED if BITS[x] < 8]
    x_types = (*QUANTIZED, *packed)
    if text == "all":
        return tuple((x, out) for x in x_types for out in FLOATS)
    pairs = []
    for part in _parts(text, "pair of types"):
        x, colon, out = part.partition(":")
        out = out if colon else "float32"
        if x not in x_types:
            raise ValueError(f"{x!r} is no type of x{nearest(x, x_types)}; there are {', '.join(x_types)}")
        if out not in FLOATS:
            raise ValueError(f"{out!r} is no type of an output{nearest(out, FLOATS)}; there are {', '.join(FLOATS)}")
        pairs.append((x, out))
    return tuple(dict.fromkeys(pairs))


def granularities_of(text: str) -> tuple[str, ...]:
    """Parse names of granularities, or "all".

    Raises:
        ValueError: The text names an unknown granularity, or nothing.
    """
    if text == "all":
        return GRANULARITIES
    for part in _parts(text, "granularity"):
        if part not in GRANULARITIES:
            listed = ", ".join(GRANULARITIES)
            raise ValueError(f"{part!r} is no granularity{nearest(part, GRANULARITIES)}; there are {listed}")
    return tuple(dict.fromkeys(_parts(text, "granularity")))


def sizes_of(text: str) -> tuple[int, ...]:
    """Parse numbers of elements such as "1000,64Ki,1Mi".

    Raises:
        ValueError: A part is no positive number, or there is none.
    """
    sizes = set()
    for part in _parts(text, "size"):
        number, factor = part, 1
        for suffix, value in (("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30)):
            if part.endswith(suffix):
                number, factor = part[: -len(suffix)], value
        if not number.isdecimal() or int(number) == 0:
            raise ValueError(f"{part!r} is no number of elements; write 1000, 64Ki or 16Mi")
        sizes.add(int(number) * factor)
    return tuple(sorted(sizes))


def size_in_words(elements: int) -> str:
    """A number of elements as people read it: "64 Ki" for 65536, "1 000" for 1000."""
    for factor, suffix in ((1 << 30, " Gi"), (1 << 20, " Mi"), (1 << 10, " Ki")):
        if elements % factor == 0:
            return f"{elements // factor}{suffix}"
    return f"{elements:,}".replace(",", " ")


def _parts(text: str, what: str) -> list[str]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise ValueError(f"no {what} is named in {text!r}")
    return parts


@dataclass(frozen=True, eq=False)
class Operands:
    """Codes of x, scale and zero point."""

    x: NDArray[Any]
    scale: NDArray[Any]
    zero_point: NDArray[Any] | None
    """None where the case has no zero point."""


def draw(case: Case, seed: int) -> Operands:
    """Draw the operands of a case.

    x: every code of its type except NaN and infinities, with equal probability. Scale: `SCALE_BITS` significant bits, about
    2^-6. Zero point: from the middle half of its range, so that most differences stay small.
    """
    random = np.random.default_rng([seed, case.elements])
    shape = case.parameter_shape
    # Scales of float16 and bfloat16 have their own 11 and 8 bits.
    mantissa = min(SCALE_BITS, {"float16": 11, "bfloat16": 8}.get(case.out_dtype, SCALE_BITS))
    scale = encode(case.out_dtype, random.integers(1 << (mantissa - 1), 1 << mantissa, shape) * 2.0 ** (-6 - mantissa))
    zero_point = None
    if case.has_zero_point:
        low, high = integer_range(case.x_dtype)
        # Within 2^7 of 0 for wider types: the differences stay exact in float32.
        low, high = max(low, -128), min(high, 255)
        zero_point = encode(case.x_dtype, random.integers(low // 2, high // 2 + 1, shape))
    return Operands(_codes(case, random), scale, zero_point)


def _codes(case: Case, random: np.random.Generator) -> NDArray[Any]:
    dtype = code_dtype(case.x_dtype)
    count = 1 << BITS[case.x_dtype]
    # Draw bytes and make codes of them: the fastest way to many codes.
    raw = np.frombuffer(random.bytes(case.elements * dtype.itemsize), dtype).reshape(case.shape)
    if case.x_dtype in INTEGERS:
        return raw if BITS[case.x_dtype] >= 8 else raw & np.uint8(count - 1)
    finite = np.arange(count, dtype=np.uint8)
    finite = finite[np.isfinite(finite.view(numpy_dtype(case.x_dtype)).astype(np.float32))]
    return np.asarray(finite[raw % finite.size])
