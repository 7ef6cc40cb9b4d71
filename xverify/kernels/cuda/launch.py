"""The kernel, its grid and its arguments, for operands that have been checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from xverify.kernels.blocks import Spread
from xverify.kernels.cuda.arrays import SUB_BYTE, cupy
from xverify.kernels.cuda.compiling import compiled
from xverify.kernels.cuda.geometry import ONE, Geometry, Kind, geometry, in_vectors
from xverify.kernels.plans import Operand

THREADS = 256
"""Threads of a block; THREADS in the source."""

MOST_BLOCKS = (1 << 31) - 1
"""Blocks of the largest grid."""

FEW, MORE = 2, 4
"""Vectors that a thread has in flight.

On an H200, 2 of uint8 reached more of the bandwidth than 4, and 4 of float8 more than 2. Packed codes take as many as float8,
so that a thread has 16 bytes of 4-bit codes in flight for an output of 16 bits. Irregular geometries take few, because their
code is long. Formulas in float64 take 1: their time is not the memory's, and their code is long too.
"""

BOUNDARY = 16
"""Bytes: a launch depends on the addresses of x and y only by their remainders of it."""


class Prepared(NamedTuple):
    """A launch for arrays on one device whose addresses have given remainders."""

    function: Any
    """CuPy's function, loaded on the device."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]

    call: Any
    """CuPy's pointer to the kernel's ``Call``, which a launch passes by value."""

    words: np.ndarray[Any, Any]
    """The memory of ``call``."""


@dataclass(frozen=True)
class Launch:
    """The kernel for operands of given dtypes and shapes."""

    macros: tuple[str, ...]
    """Macros of the source, as NVRTC takes them."""

    size: int
    """Elements of x."""

    x_bits: int
    """Bits from one element of x to the next."""

    out_bytes: int
    """Bytes of an output element."""

    geometry: Geometry
    """The parameters of elements."""

    index_bits: int
    """Bits of indices in the kernel, 32 or 64."""

    vectors: int = FEW
    """Vectors that a thread has in flight."""

    _prepared: dict[tuple[int, int, int], Prepared] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Launches by device and remainders of the addresses of x and y: 256 at most on a device."""

    @classmethod
    def of(
        cls,
        out: np.dtype[Any],
        x: Operand,
        scale: Operand,
        zero_point: np.dtype[Any] | None,
        spread: Spread,
        formula: str = "PRODUCT",
        packed: bool = False,
    ) -> Launch:
        """The launch for operands that have been checked.

        Args:
            out: the output's dtype.
            zero_point: the dtype of zero points, which have the shape of scales.
            formula: one of ``Formula`` in the source. The lower ends of ranges are its scales, the upper ends its zero
                points.
            packed: True if codes of fewer than 8 bits are packed.
        """
        size = prod(x.shape)
        own_geometry = geometry(x.shape, scale.shape, spread) if size else None
        index_bits = 32 if size < 1 << 31 else 64
        zero_bits = 8 if zero_point is None else element_bits(zero_point, packed)
        kind = Kind.ONE
        if own_geometry:
            kind, own_geometry = in_vectors(own_geometry, size, 16 // out.itemsize, zero_bits not in (6, 64))
        vectors = vectors_of(x.dtype, zero_point, formula, packed, kind)
        macros = {
            "X_TYPE": x.dtype.name.upper(),
            "SCALE_TYPE": scale.dtype.name.upper(),
            "ZERO_TYPE": "NONE" if zero_point is None else zero_point.name.upper(),
            "OUT_TYPE": out.name.upper(),
            "FORMULA": formula,
            "X_BITS": element_bits(x.dtype, packed),
            "ZERO_BITS": zero_bits,
            "SPREAD": int(kind),
            "INDEX_BITS": index_bits,
            "VECTORS": vectors,
        }
        return cls(
            tuple(f"-D{name}={value}" for name, value in macros.items()),
            size,
            element_bits(x.dtype, packed),
            out.itemsize,
            own_geometry or ONE,
            index_bits,
            vectors,
        )

    @property
    def lanes(self) -> int:
        """Elements of a vector of 16 bytes of output."""
        return 16 // self.out_bytes

    def head(self, y: int) -> int:
        """Elements of an output at address ``y`` before the first at a multiple of 16 bytes."""
        return min(-y % 16 // self.out_bytes, self.size)

    def grid(self, y: int) -> int:
        """The number of blocks.

        Each thread does its vectors once: more blocks than the card holds at once are faster than blocks that stride. They
        stride through a tensor that the largest grid does not cover.
        """
        vectors = (self.size - self.head(y)) // self.lanes
        return min(max(-(-vectors // (THREADS * self.vectors)), 1), MOST_BLOCKS)

    def numbers(self, x: int, y: int, cache: int) -> tuple[int, ...]:
        """The words of the kernel's ``Call``.

        Args:
            x: the address of the input.
            y: the address of the output.
            cache: bytes of the last-level cache.
        """
        head = self.head(y)
        vector_bits = self.lanes * self.x_bits
        # A vector of more than 16 bytes is read in parts of 16. No load has the 3 or 6 bytes of a vector of 6-bit codes.
        is_whole = self.x_bits != 6 and (8 * x + head * self.x_bits) % min(vector_bits, 128) == 0
        is_streamed = self.size * self.x_bits // 8 + self.size * self.out_bytes > cache
        return (self.size, head, int(is_whole), int(is_streamed), *self.geometry.arguments(self.index_bits))

    def __call__(self, out: Any, x: Any, scale: Any, zero_point: Any) -> None:
        """Put the kernel on the current stream of the current device. The arrays are CuPy's, in C order."""
        if self.size == 0:
            return
        y = out.data
        key = y.device_id, x.data.ptr % BOUNDARY, y.ptr % BOUNDARY
        prepared = self._prepared.get(key)
        if prepared is None:
            prepared = self._prepared[key] = self._prepare(*key)
        # An unused argument must still be an address.
        arguments = (x, scale, scale if zero_point is None else zero_point, out, prepared.call)
        prepared.function(prepared.grid, prepared.block, arguments)

    def _prepare(self, device: int, x: int, y: int) -> Prepared:
        """The launch for arrays on the current device at addresses with these remainders."""
        kernel = loaded(self.macros, device)
        words = np.array(self.numbers(x, y, card(device).cache), np.uint64)
        # Of all forms of a structure, CuPy takes this one fastest. An array of one element takes it 2 us longer.
        call = cupy().cuda.function.CPointer(words.ctypes.data)
        return Prepared(kernel.kernel, (self.grid(y), 1, 1), (THREADS, 1, 1), call, words)


def vectors_of(x: np.dtype[Any], zero_point: np.dtype[Any] | None, formula: str, packed: bool, kind: Kind) -> int:
    """Vectors that a thread has in flight."""
    is_wide = any(dtype is not None and dtype.itemsize > 2 for dtype in (x, zero_point))
    if formula not in ("PRODUCT", "TABLE") or is_wide:
        return 1
    return MORE if kind != Kind.ANY and (packed or x.name.startswith("float")) else FEW


def element_bits(dtype: np.dtype[Any], packed: bool) -> int:
    """Bits from one element of a quantized dtype to the next."""
    return SUB_BYTE[dtype] if packed else 8 * dtype.itemsize


@dataclass(frozen=True)
class Card:
    """The properties of a device that a launch needs."""

    capability: str
    """The compute capability."""

    cache: int
    """Bytes of the last-level cache."""


@lru_cache(maxsize=64)
def card(device: int) -> Card:
    """The device of that number."""
    properties = cupy().cuda.Device(device)
    return Card(str(properties.compute_capability), int(properties.attributes["L2CacheSize"]))


@lru_cache(maxsize=1024)
def loaded(macros: tuple[str, ...], device: int) -> Any:
    """The kernel with these macros.

    Args:
        macros: the options that define the macros.
        device: the device, which is the current one.
    """
    return compiled(macros, card(device).capability)
