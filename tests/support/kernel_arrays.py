"""Arrays of any dtype from codes, and what the kernels must give for them by rational arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import exact
import ml_dtypes
import numpy as np

import xverify

Array = np.ndarray[Any, Any]

INTEGERS = ("int2", "uint2", "int4", "uint4", "int8", "uint8")
SMALL_FLOATS = (
    "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
)  # fmt: skip
WIDTHS = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4_e2m1fn": 4, "float6_e2m3fn": 6, "float6_e3m2fn": 6}
SCALES = {
    "float32": (0x3DCCCCCD, 0xBF99999A, 1, 0x80000003, 0x7F7FFFFF, 0x00800001, 0, 0x80000000, 0x7F800000, 0x7FC00000),
    "float16": (0x2E66, 0xBCCD, 0x0001, 0x8003, 0x7BFF, 0x0401, 0, 0x8000, 0x7C00, 0x7E00),
    "bfloat16": (0x3DCD, 0xBF9A, 0x0001, 0x8003, 0x7F7F, 0x0081, 0, 0x8000, 0x7F80, 0x7FC0),
    "float8_e8m0fnu": (0, 1, 126, 127, 130, 254, 255),
}
"""Ordinary, negative, subnormal, huge, zero, infinite and NaN scales, as codes of each type."""

NEWEST = "ai.onnx/DequantizeLinear-28"
MULTIPLY, DIVIDE = "onednn/DynamicDequantize-1@multiply", "onednn/DynamicDequantize-1@divide"
SEED, INSTALLED = "tensorflow/Dequantize@seed", "tensorflow/Dequantize@installed"


NUMPY = SimpleNamespace(
    dequantize_linear=partial(xverify.dequantize_linear, backend="numpy"),
    dequantize_range=partial(xverify.dequantize_range, backend="numpy"),
    dynamic_dequantize=partial(xverify.dynamic_dequantize, backend="numpy"),
)
"""The in-house kernels with NumPy's arithmetic, whether Numba is installed or not."""


def dtype_of(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name))


def coded(name: str, codes: Any) -> Array:
    """The array of a dtype with these codes."""
    dtype = dtype_of(name)
    return np.asarray(np.asarray(codes).astype(f"u{dtype.itemsize}")).view(dtype)


def codes_of(array: Array) -> list[int]:
    """Return the codes of float results in C order. Every NaN becomes the exact oracle's NaN."""
    name = array.dtype.name
    canonical = np.where(np.isnan(array.astype(np.float64)), coded(name, exact.NAN[name]), array)
    return [int(code) for code in canonical.astype(array.dtype).view(f"u{array.itemsize}").ravel()]


def all_codes(name: str) -> Array:
    return coded(name, np.arange(1 << WIDTHS.get(name, 8)))


def expected(x: Array, scale: Array, zero_point: Array | None, out: str, by_division: bool = False) -> list[int]:
    """Return the exact oracle's codes. Scale and zero point are broadcast to x."""

    def listed(array: Array) -> list[int]:
        return [int(code) for code in np.broadcast_to(array.view(f"u{array.itemsize}"), x.shape).ravel()]

    offsets: list[Any] = [None] * x.size if zero_point is None else listed(zero_point)
    z_name = "" if zero_point is None else zero_point.dtype.name
    return [
        exact.linear(x.dtype.name, a, scale.dtype.name, s, z_name, z, out, by_division)
        for a, s, z in zip(listed(x), listed(scale), offsets, strict=True)
    ]


def some_zero_points(name: str) -> tuple[int | None, ...]:
    top = (1 << WIDTHS.get(name, 8)) - 1
    return (None, 0, 1, top, top // 2, top // 2 + 1)


def both(x: Array, *operands: Array | None, **keywords: object) -> None:
    """Assert that the two backends give the same bits; any NaN is any NaN."""
    # Numba first: its output could otherwise reuse memory in which NumPy has just computed the same values.
    got, want = (xverify.dequantize_linear(x, *operands, backend=b, **keywords) for b in ("numba", "numpy"))
    same_bits(want, got)


def shared_words(taken: int, ends: Sequence[int], bell: int, inside: int = 0) -> Array:
    """Return the words that threads share about pieces with these ends, ``taken`` of them taken.

    The layout is that of `xverify.kernels.compiled.threads`. An idle thread sleeps at once. ``bell`` is an address.
    """
    pieces = len(ends) - 1
    return np.array([taken, pieces, pieces, bell, inside, 0, *ends])


def same_bits(want: Array, got: Array) -> None:
    assert (want.dtype, want.shape) == (got.dtype, got.shape)
    same = want.view(f"u{want.itemsize}") == got.view(f"u{got.itemsize}")
    assert (same | (np.isnan(want) & np.isnan(got))).all()


def drawn(name: str, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Draw any codes of a dtype."""
    bits = 8 * dtype_of(name).itemsize
    return coded(name, np.random.default_rng(seed).integers(0, 1 << bits, shape, np.uint64))
