"""float16 elements computed with the processor's own float16 arithmetic: every code with every scale."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import numpy as np
import pytest
from kernel_arrays import WIDTHS, Array, all_codes, drawn, dtype_of, same_bits

pytest.importorskip("numba")

from numba import types

import xverify
from xverify.core import fenv
from xverify.kernels.compiled import rounding
from xverify.kernels.compiled.decode import coding
from xverify.kernels.compiled.memory import Packed
from xverify.kernels.compiled.rounding import Kinds
from xverify.kernels.compiled.vectors import has, is_x86
from xverify.oracles.arrays import pack

SCALES = np.random.default_rng(1).permutation(np.arange(1 << 16, dtype=np.uint16)).view(np.float16)
COLUMNS = 64
KINDS = (("int8", True), ("uint8", False), ("int4", True), ("uint2", False))
"""Types of x, and whether there is a zero point."""


def expected(x: Array, scale: Array, zero_point: Array | None) -> Array:
    """A difference has 9 bits and a scale 11, so float64 holds the product exactly and rounds once."""
    offset = 0.0 if zero_point is None else zero_point.astype(np.float64)
    with np.errstate(all="ignore"):
        product: Array = (x.astype(np.float64) - offset) * scale.astype(np.float64)
        return product.astype(np.float16)


def packed(name: str, codes: Array) -> Array:
    return pack(codes.view(np.uint8) & ((1 << WIDTHS[name]) - 1), WIDTHS[name])


def check(name: str, want: Array, x: Array, scale: Array, zero_point: Array | None, **spread: int) -> None:
    same_bits(want, xverify.dequantize_linear(x, scale, zero_point, **spread, backend="numba"))
    if name in WIDTHS:
        offset = None if zero_point is None else packed(name, zero_point)
        given = dict(dtype=name, shape=x.shape, **spread)
        same_bits(want, xverify.dequantize_packed(packed(name, x), scale, offset, **given, backend="numba"))


@pytest.mark.parametrize(("name", "with_zero_point"), KINDS)
def test_rows_that_share_their_scales(name: str, with_zero_point: bool) -> None:
    scales = SCALES if has("avx512fp16") else SCALES[::8]  # no other processor has a loop of its own for them
    x = np.repeat(all_codes(name)[:, None], len(scales), 1)
    zero_point = drawn(name, scales.shape, 4) if with_zero_point else None
    check(name, expected(x, scales, zero_point), x, scales, zero_point, axis=1)


@pytest.mark.parametrize(("name", "with_zero_point"), KINDS)
def test_rows_that_have_scales_of_their_own(name: str, with_zero_point: bool) -> None:
    scale = SCALES.reshape(16, -1)
    x = drawn(name, scale.shape, 5)
    zero_point = drawn(name, scale.shape, 4) if with_zero_point else None
    check(name, expected(x, scale, zero_point), x, scale, zero_point, axis=0, block_size=1)


@pytest.mark.parametrize(("name", "with_zero_point"), KINDS)
def test_runs(name: str, with_zero_point: bool) -> None:
    x = drawn(name, (len(SCALES), COLUMNS), 6)
    scale = SCALES[:, None]
    zero_point = drawn(name, scale.shape, 4) if with_zero_point else None
    check(name, expected(x, scale, zero_point), x, scale, zero_point, axis=1, block_size=COLUMNS)


@contextmanager
def flushed() -> Iterator[None]:
    """Make the processor flush subnormal inputs and results.

    Two bits of the word at byte 28 of x86-64's ``fenv_t`` (glibc) do this, or one bit of AArch64's first word.
    """
    with fenv.preserved():
        environment = fenv.current()
        assert environment.memory is not None
        place, bits = (28, 0x8040) if is_x86() else (0, 1 << 24)
        ctypes.c_uint32.from_buffer(environment.memory, place).value |= bits
        fenv.enter(environment)
        yield


@pytest.mark.skipif(
    platform.system() != "Linux" or not fenv.available(), reason="no way is known to have subnormals flushed here"
)
def test_subnormals_of_float16_are_numbers_whatever_a_processor_is_told() -> None:
    scale = np.arange(1, 1025, dtype=np.uint16).view(np.float16)  # all subnormals and the smallest normal number
    x = drawn("int8", (8, scale.size), 7)
    want, got = expected(x, scale, None), np.empty(x.shape, np.float16)
    with flushed():
        is_flushed = np.float32(1e-38) * np.float32(0.5) == 0
        xverify.dequantize_linear(x, scale, axis=1, out=got, backend="numba")
    assert is_flushed
    same_bits(want, got)


def flat(element: Any) -> Any:
    return types.Array(element, 1, "C")


BYTES, HALVES, INTEGERS, FLOATS = (
    flat(types.uint8), flat(types.uint16), coding(dtype_of("int8")).fields_type, coding(dtype_of("float8_e5m2")).fields_type,
)  # fmt: skip


OTHERS = flat(types.int16), flat(types.float32)


def test_calls_that_use_float16_arithmetic() -> None:
    """Integers of 8 bits or fewer, offsets of the same type, scales of the output's type, no division."""
    each = (
        (BYTES, Packed(4), HALVES, flat(types.int32)), (HALVES, *OTHERS), (INTEGERS, FLOATS), (types.none, types.boolean),
        (HALVES, *OTHERS), (types.float32, BYTES, Packed(4), HALVES, flat(types.float32)),
    )  # fmt: skip
    for x, out, fields, divides, scales, offsets in product(*each):
        are_integers = x in each[0][:2] and fields == INTEGERS and offsets in each[-1][:3]
        fit = are_integers and (out, scales, divides) == (HALVES, HALVES, types.none)
        kinds = Kinds(x, out, fields, divides, scales, offsets)
        assert rounding.uses_float16(kinds) is (fit and has("avx512fp16")), kinds


def test_float16_arithmetic_needs_the_processors_feature(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = Kinds(BYTES, HALVES, INTEGERS, types.none, HALVES, BYTES)
    for features in ({"avx512fp16"}, set()):
        monkeypatch.setattr(rounding, "has", features.__contains__)
        assert rounding.uses_float16(fit) is bool(features)
