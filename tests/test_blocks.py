"""Walking a tensor block by block: each element once, in few blocks that are small enough, without copies."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xverify.kernels.blocks import BLOCK, Spread, blocks, for_each_block
from xverify.kernels.casting import Array


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.integers(1, 50))
@settings(max_examples=300, deadline=None)
def test_blocks_cover_each_element_once_and_are_as_few_as_can_be(shape: list[int], limit: int) -> None:
    seen, found = np.zeros(shape, int), list(blocks(tuple(shape), limit))
    for index in found:
        assert 0 < seen[index].size <= limit
        seen[index] += 1
    assert (seen == 1).all()
    # Whole axes from the last on, as many as fit, and then as much of one more as fits.
    whole = next(axis for axis in range(1, len(shape) + 1) if prod(shape[axis:]) <= limit)
    step = limit // max(1, prod(shape[whole:]))
    assert len(found) == (prod(shape[: whole - 1]) * -(-shape[whole - 1] // step) if seen.size else 0)


def parts(x: Array, out: Array, spread: Spread, *parameters: Array) -> list[tuple[Array, ...]]:
    """What is handed out."""
    found: list[tuple[Array, ...]] = []
    for_each_block(lambda *given: found.append(given), out, x, spread, *parameters)
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
