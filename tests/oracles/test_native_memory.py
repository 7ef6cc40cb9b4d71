"""Memory for native kernels: the position of elements, and the guards around buffers."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from xverify.core.call import BITS, LAYOUTS, Tensor, code_dtype, lay_out
from xverify.oracles.dlpack import buffer_of, output_buffer, tensor_of
from xverify.oracles.guarded_memory import KEPT_BYTES, PAGE, Placement, Pool


def codes(dtype: str, shape: tuple[int, ...], layout: str = "C") -> Tensor:
    values = np.random.default_rng(1).integers(0, 1 << min(BITS[dtype], 63), shape)
    return Tensor(dtype, values.astype(code_dtype(dtype)), layout)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_elements_are_found_by_the_strides(layout):
    for shape in ((), (1,), (3, 0), (4, 3, 2), (5,)):
        for values in (codes("int16", shape, layout), Tensor("int16", np.full(shape, 9, np.uint16), layout)):
            buffer = buffer_of(values)
            assert buffer.first % 2 == 0
            assert buffer.byte_offset == (2 if layout == "offset" else 0)
            steps = [2 * stride for stride in buffer.strides]
            read = np.ndarray(shape, np.uint16, buffer.image, buffer.first, steps)
            assert np.array_equal(read, values.codes)
            assert buffer.size == len(buffer.image)
    assert buffer_of(codes("int32", (9,), "misaligned")).shift == 4


def test_a_broadcast_tensor_has_strides_of_zero():
    ones = Tensor("int8", np.ones((4, 5), np.uint8), "broadcast")
    assert (buffer_of(ones).strides, buffer_of(ones).size) == ((0, 0), 1)
    assert np.array_equal(lay_out(ones.codes, "broadcast"), ones.codes)


@pytest.mark.parametrize("dtype", BITS)
def test_a_tensor_of_every_type_comes_back(dtype):
    for shape in ((), (3,), (2, 5), (0, 2)):
        values = codes(dtype, shape)
        output = output_buffer(dtype, shape)
        assert output.size == len(buffer_of(values).image) == -(-values.size * BITS[dtype] // 8)
        assert tensor_of(output, buffer_of(values).image).same_bits(values)


@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.parametrize("canaries", [False, True])
@pytest.mark.parametrize("size", [0, 1, 100, PAGE, PAGE + 1, 3 * PAGE])
def test_every_byte_around_a_buffer_is_watched(size, canaries, at_end):
    placement, pool = Placement(0x5A, canaries, at_end), Pool()
    for _ in range(2):
        arena = pool.take(size, placement)
        assert (arena.address + (size if at_end else 0)) % PAGE == 0
        arena.write(bytes(size))
        assert arena.touched() == (False, False)
        before = canaries or (at_end and size % PAGE > 0)
        after = canaries or (not at_end and size % PAGE > 0)
        for place, there, seen in ((-1, before, (True, False)), (size, after, (False, True))):
            if there:
                byte = ctypes.c_ubyte.from_address(arena.address + place)
                byte.value = 1
                assert arena.touched() == seen
                byte.value = 0x5A
        pool.give_back(arena, touched=True)
        again = pool.take(size, placement)
        assert again is arena
        assert again.read() == b"\x5a" * size
        pool.give_back(again)


def test_large_arenas_are_given_back_to_the_system():
    placement, pool = Placement(0x5A, True, False), Pool()
    arena = pool.take(KEPT_BYTES + 1, placement)
    pool.give_back(arena)
    assert pool.take(KEPT_BYTES + 1, placement) is not arena
