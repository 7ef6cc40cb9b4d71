"""The view that compiled loops have of an array, and the arrays that they refuse."""

from __future__ import annotations

from pathlib import Path
from sys import getrefcount
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")

from numba import types

from xverify.kernels.compiled.build import _entry
from xverify.kernels.compiled.memory import Flat, address, get, put

LONG = types.Array(types.int64, 1, "C")


def seen(array, found):  # type: ignore[no-untyped-def]
    found[0], found[1], found[2] = address(array), array.size, array.itemsize


def copied(one, other):  # type: ignore[no-untyped-def]
    for i in range(one.size):
        put(other, i, get(one, i))


def watched(kind: Any) -> Any:
    return _entry(seen, (kind, LONG), keep=False)


@pytest.fixture(scope="module")
def read() -> Any:
    return watched(Flat(types.float32))


@pytest.fixture(scope="module")
def written() -> Any:
    return watched(Flat(types.float32, written=True))


def found_by(loop: Any, array: Any) -> tuple[int, int, int]:
    found = np.zeros(3, np.int64)
    loop(array, found)
    return tuple(found.tolist())


SHAPES = [(), (1,), (7,), (0,), (2, 3), (1, 5, 1), (4, 0, 3), (2, 3, 5, 7), (2,) * 15]


@pytest.mark.parametrize("shape", SHAPES)
def test_all_elements_of_an_array_of_any_rank(shape: tuple[int, ...], read: Any, written: Any) -> None:
    array = np.zeros(shape, np.float32)
    for loop in (read, written):
        assert found_by(loop, array) == (array.ctypes.data, array.size, 4)
    part = np.zeros((3, *shape), np.float32)[1]
    if shape:
        assert found_by(read, part) == (part.ctypes.data, part.size, 4)


def test_more_elements_than_32_bits_count(tmp_path: Path) -> None:
    memory = np.asarray(np.memmap(tmp_path / "sparse", np.uint8, "w+", shape=(1 << 17, 1 << 16)))
    assert found_by(watched(Flat(types.uint8)), memory) == (memory.ctypes.data, 1 << 33, 1)


def test_one_element_that_serves_all() -> None:
    loop = watched(Flat(types.int32, 0))
    for shape in ((), (1,), (1, 1, 1)):
        array = np.zeros(shape, np.int32)
        assert found_by(loop, array) == (array.ctypes.data, 1, 4)


def test_elements_are_copied_where_they_lie() -> None:
    loop = _entry(copied, (Flat(types.int16), Flat(types.int16, written=True)), keep=False)
    one, other = np.arange(24, dtype=np.int16).reshape(2, 3, 4), np.zeros((4, 8), np.int16)
    loop(one, other[1:])
    assert other.tolist() == [[0] * 8, *one.reshape(3, 8).tolist()]


def not_aligned() -> Any:
    array = np.zeros(17, np.uint8)[1:].view(np.float32)
    assert not array.flags.aligned
    return array


OTHERS = {
    "every second element": lambda: np.zeros(8, np.float32)[::2],
    "from behind": lambda: np.zeros(8, np.float32)[::-1],
    "in Fortran's order": lambda: np.zeros((2, 3), np.float32, order="F"),
    "one element, again and again": lambda: np.broadcast_to(np.float32(0), (5,)),
    "not aligned": not_aligned,
}


@pytest.mark.parametrize("name", OTHERS)
def test_an_array_that_is_not_plain_is_refused(name: str, read: Any, written: Any) -> None:
    for loop, words in ((read, "not in C order, aligned$"), (written, "not in C order, aligned and writeable$")):
        with pytest.raises(TypeError, match=words):
            found_by(loop, OTHERS[name]())


def test_an_array_that_cannot_be_written_is_read_only(read: Any, written: Any) -> None:
    array = np.zeros(5, np.float32)
    array.flags.writeable = False
    assert found_by(read, array) == (array.ctypes.data, 5, 4)
    with pytest.raises(TypeError, match="writeable"):
        found_by(written, array)


def test_no_reference_is_kept(read: Any) -> None:
    array = np.zeros(5, np.float32)
    before = getrefcount(array)
    for _ in range(100):
        found_by(read, array)
    assert getrefcount(array) == before


def test_kinds_that_differ_are_told_apart() -> None:
    """Numba caches compiled code by these types."""
    kinds = [
        Flat(element, rank, written)
        for element in (types.int8, types.uint8)
        for rank in (0, 1)
        for written in (False, True)
    ]
    assert len(set(kinds)) == len({str(kind) for kind in kinds}) == 8
    assert Flat(types.int8) == Flat(types.int8)
    of_numba = types.Array(types.int8, 1, "C", readonly=True)
    assert Flat(types.int8) != of_numba
    assert str(Flat(types.int8)) != str(of_numba), "functions that Numba compiles are named after it"
