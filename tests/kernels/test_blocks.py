"""Block-by-block walks of a tensor: each element once, in few small blocks, without copies."""

from __future__ import annotations

import tracemalloc
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_arrays import NUMPY, dtype_of

from xverify.kernels.blocks import BLOCK, Spread, block_size, blocks, for_each_block, some_numbers
from xverify.kernels.casting import FLOAT32, FLOAT64, Array


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.integers(1, 50))
@settings(max_examples=300, deadline=None)
def test_blocks_cover_each_element_once_and_are_as_few_as_can_be(shape: list[int], limit: int) -> None:
    seen, found = np.zeros(shape, int), list(blocks(tuple(shape), limit))
    for index in found:
        assert 0 < seen[index].size <= limit
        seen[index] += 1
    assert (seen == 1).all()
    # A block has as many whole axes as fit, from the last on, and as much of one more as fits.
    whole = next(axis for axis in range(1, len(shape) + 1) if prod(shape[axis:]) <= limit)
    step = limit // max(1, prod(shape[whole:]))
    assert len(found) == (prod(shape[: whole - 1]) * -(-shape[whole - 1] // step) if seen.size else 0)


def parts(
    x: Array, out: Array, spread: Spread, *parameters: Array, real: np.dtype[Any] | None = None
) -> list[tuple[Array, ...]]:
    """Collect the arguments of each call that `for_each_block` makes."""
    found: list[tuple[Array, ...]] = []
    for_each_block(lambda *given: found.append(given), out, x, spread, real, *parameters)
    return found


@pytest.mark.parametrize("shape", [(), (1,), (5, 0), (40, 30), (BLOCK,), (BLOCK + 1,), (3, BLOCK), (7, 2, BLOCK // 4)])
def test_one_scale_and_c_order_are_one_dimension(shape: tuple[int, ...]) -> None:
    x, out = np.zeros(shape, np.uint8), np.zeros(shape, np.float32)
    found = parts(x, out, Spread())
    assert [part.ndim for part, _ in found] == [codes.ndim for _, codes in found] == [1] * len(found)
    assert [part.size for part, _ in found] == [min(BLOCK, x.size - i) for i in range(0, x.size, BLOCK)] or x.size == 0
    assert all(np.shares_memory(part, out) and np.shares_memory(codes, x) for part, codes in found if part.size)


def test_other_orders_are_walked_as_they_lie() -> None:
    x, out = np.zeros((5, BLOCK), np.uint8), np.zeros((5, BLOCK), np.float32)
    for some_x, some_out in ((x[:, ::-1], out), (x, out[::-1])):
        assert [part.shape for part, _ in parts(some_x, some_out, Spread())] == [(1, BLOCK)] * 5
    assert [part.shape for part, _ in parts(x[:, :9:2], out[:, :5], Spread())] == [(5, 5)]


def test_a_scale_of_each_place_is_handed_out_as_it_lies() -> None:
    scale = Spread(1).shaped(np.arange(3.0), 2)
    assert scale is not None
    assert scale.shape == (1, 3)
    x, out = np.zeros((BLOCK, 3), np.uint8), np.zeros((BLOCK, 3), np.float32)
    found = parts(x, out, Spread(1), scale)
    assert len(found) == 4
    assert all(given.base is not None and np.shares_memory(given, scale) for _, _, given in found)
    (whole,) = parts(x[:9], out[:9], Spread(1), scale)
    assert whole[2] is scale


@pytest.mark.parametrize(("spread", "shape"), [(Spread(0, 2), (2, 3)), (Spread(1, 2), (3, 2)), (Spread(1), (1, 3))])
def test_each_block_has_its_own_scales(spread: Spread, shape: tuple[int, ...]) -> None:
    scale: Any = np.arange(6.0)[: prod(shape)].reshape(shape)
    assert spread.axis is not None
    every = np.broadcast_to(np.repeat(scale, spread.run, spread.axis)[:3, :3], (3, 3))
    for index in blocks((3, 3), 2):
        given = spread.at(spread.shaped(scale, 2), index)
        np.testing.assert_array_equal(np.broadcast_to(given, every[index].shape), every[index])


def test_few_parameters_become_numbers_at_once_and_many_with_their_block() -> None:
    few, many = np.arange(BLOCK) % 7, np.arange(BLOCK + 1) % 7
    for dtype in (np.dtype(np.uint8), np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.int4)):
        now, later = some_numbers(few.astype(dtype), FLOAT64), some_numbers(many.astype(dtype), FLOAT64)
        assert now is not None
        assert later is not None
        assert (now.dtype, later.dtype) == (np.float64, dtype)
        x, out = np.zeros((2, BLOCK + 1), np.uint8), np.zeros((2, BLOCK + 1), np.float32)
        shaped = Spread(1).shaped(later, 2)
        assert shaped is not None
        found = parts(x, out, Spread(1), shaped, real=FLOAT64)
        assert len(found) == 6
        for part, codes, parameter in found:
            assert part.shape == codes.shape == parameter.shape
            assert parameter.dtype == np.float64
        assert [parameter[0, -1] for *_, parameter in found] == [n % 7 for n in (BLOCK // 2 - 1, BLOCK - 1, BLOCK)] * 2
    assert some_numbers(None, FLOAT64) is None


def test_blocks_of_float64_have_half_as_many_elements() -> None:
    assert [block_size(real) for real in (None, FLOAT32, FLOAT64)] == [BLOCK, BLOCK, BLOCK // 2]
    for size, real, expected in ((BLOCK, FLOAT32, 1), (BLOCK, FLOAT64, 2), (BLOCK // 2, FLOAT64, 1)):
        assert len(parts(np.zeros(size, np.uint8), np.zeros(size, np.float32), Spread(0), real=real)) == expected


def test_of_a_long_row_of_blocks_a_block_is_given_its_own_parameters_only() -> None:
    scale = np.arange(1 << 20, dtype=np.float32)[None]
    index = (slice(0, 1), slice(3 * BLOCK + 5, 4 * BLOCK + 5))
    tracemalloc.start()
    given = Spread(1, 2).at(scale, index, FLOAT64)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert given is not None
    np.testing.assert_array_equal(given[0], np.arange(3 * BLOCK + 5, 4 * BLOCK + 5) // 2)
    assert peak < 32 * BLOCK


@pytest.mark.parametrize("scale_name", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("is_blocked", [False, True])
def test_parameters_are_not_converted_whole(scale_name: str, is_blocked: bool) -> None:
    """The memory beside the output does not grow with the number of elements."""
    taken = []
    for rows in (16, 32):
        x = np.random.default_rng(0).integers(0, 256, (rows, BLOCK // 4), np.uint8)
        extents = (rows, BLOCK // 8) if is_blocked else x.shape
        scale, zero_point = np.full(extents, 0.5, dtype_of(scale_name)), np.full(extents, 7, np.uint8)
        keywords = {"axis": 1, "block_size": 2 if is_blocked else 1, "out": np.empty(x.shape, scale.dtype)}
        NUMPY.dequantize_linear(x, scale, zero_point, **keywords)
        tracemalloc.start()
        NUMPY.dequantize_linear(x, scale, zero_point, **keywords)
        taken.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert taken[1] < 1.1 * taken[0] < 32 * BLOCK
