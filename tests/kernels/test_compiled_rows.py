"""Rows that share scales and zero points, which a loop converts once: the bits stay the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_arrays import NUMPY, WIDTHS, Array, drawn, dtype_of, same_bits

pytest.importorskip("numba")

from numba import njit, types

import xverify
from xverify.kernels.casting import BFLOAT16, FLOAT16
from xverify.kernels.compiled import chunks, lookup
from xverify.kernels.compiled.decode import coding
from xverify.kernels.compiled.layout import CACHED, ROWS_AT_ONCE
from xverify.oracles.arrays import pack

TYPES = [
    ("uint8", BFLOAT16), ("int8", FLOAT16), ("int4", BFLOAT16), ("int2", FLOAT16), ("float8_e4m3fn", BFLOAT16),
    ("float8_e5m2", FLOAT16),
]  # fmt: skip
"""Code values are computed, looked up by one instruction if packed, or looked up in a table of all codes."""

SHAPES: list[tuple[tuple[int, ...], dict[str, int]]] = [
    ((70, 64), {"axis": 1}), ((70, 63), {"axis": 1}), ((9, 600), {"axis": 1}), ((3, CACHED + 65), {"axis": 1}),
    ((ROWS_AT_ONCE + 2, CACHED + 64), {"axis": -1}), ((8, 600), {"axis": 0, "block_size": 3}),
    ((7, 601), {"axis": 0, "block_size": 2}), ((2, 9, 640), {"axis": 1, "block_size": 4}),
    ((5, 1, 640), {"axis": 1, "block_size": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "spread"), SHAPES, ids=str)
@pytest.mark.parametrize(("x_name", "out"), TYPES, ids=str)
def test_rows_that_share_their_scales(
    x_name: str, out: np.dtype[Any], shape: tuple[int, ...], spread: dict[str, int]
) -> None:
    """Products of a single scale may be subnormal, which the bfloat16 conversion flushes."""
    x = drawn(x_name, shape, 1)
    of_scale = shape[-1:]
    if "block_size" in spread:
        axis = spread["axis"]
        of_scale = (*shape[:axis], -(-shape[axis] // spread["block_size"]), *shape[axis + 1 :])
    usual: Array = (np.random.default_rng(2).random(of_scale) + 0.5).astype(out)
    zero_point = None if x_name.startswith("float") else drawn(x_name, of_scale, 3)
    # The first and last column of a chunk, of the cache, of a group of chunks, and of the row.
    columns = {0, 15, 63, shape[-1] // 64 * 64 - 1, shape[-1] - 1, CACHED - 1} & set(range(shape[-1]))
    for column in (None, *sorted(columns)):
        scale = usual.copy()
        if column is not None:
            scale[..., column] *= 2.0**-16 if out == FLOAT16 else 2.0**-128
        want = NUMPY.dequantize_linear(x, scale, zero_point, **spread)
        memory = np.full(want.size + 40 * shape[-1], 0x55, np.uint16)
        got = memory[: want.size].view(out).reshape(shape)
        xverify.dequantize_linear(x, scale, zero_point, **spread, out=got, backend="numba")
        same_bits(want, got)
        assert (memory[want.size :] == 0x55).all(), "more rows than there are"
        if x_name in WIDTHS:
            bits = WIDTHS[x_name]
            packed = [pack(array.view(np.uint8) & ((1 << bits) - 1), bits) for array in (x, zero_point)]
            given = dict(dtype=x_name, shape=shape, **spread)
            same_bits(want, xverify.dequantize_packed(packed[0], scale, packed[1], **given, backend="numba"))


@njit(error_model="numpy")  # type: ignore[untyped-decorator]
def kept_with(x: Array, out: Array, coding: tuple[int, ...], zero: float, table: int) -> bool:
    found: bool = chunks.caches_rows(x, out, coding, zero, table)
    return found


@pytest.mark.parametrize("real", [np.float32, np.float64])
@pytest.mark.parametrize("out", [np.float32, np.uint16])
@pytest.mark.parametrize("x_name", ["uint8", "int32", "float8_e5m2"])
def test_which_rows_are_done_together(x_name: str, out: type, real: type) -> None:
    """Outputs have 16 bits. Code values come from a table if there is one, and otherwise are float32."""
    kind = coding(dtype_of(x_name))
    x, result = np.zeros(1, str(kind.codes)), np.zeros(1, out)
    is_looked_up = lookup.looks_up_values(
        kind.codes, types.uint16 if out is np.uint16 else types.float32, kind.fields_type
    )
    for table in (0, 1):
        expected = out is np.uint16 and (table != 0 if is_looked_up else real is np.float32)
        assert kept_with(x, result, tuple(kind.fields), real(0), table) == expected
