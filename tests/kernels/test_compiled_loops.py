"""The decisions of loops before they compute, and the bounds of what they write."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from kernel_arrays import NUMPY, Array, drawn, dtype_of, same_bits, shared_words
from tensor_parts import parameters, some_parts

pytest.importorskip("numba")

from numba import njit, types

from xverify.kernels.casting import BFLOAT16, FLOAT16, FLOAT32
from xverify.kernels.compiled import layout, lookup, loops, tiles
from xverify.kernels.compiled.build import entry
from xverify.kernels.compiled.decode import ELEMENTS, coding
from xverify.kernels.compiled.layout import Layout, Rows, Runs
from xverify.kernels.compiled.linear import loop_of, signature
from xverify.kernels.compiled.memory import Flat
from xverify.kernels.compiled.tiles import ALL, WHOLE
from xverify.kernels.compiled.vectors import CHUNK


@njit(error_model="numpy")  # type: ignore[untyped-decorator]
def multiple(x: Array, out: Array) -> int:
    """Return `lookup.entries_multiple` for two arrays."""
    found: int = lookup.entries_multiple(x, out)
    return found


def test_entries_are_stored_past_the_caches_where_they_are_looked_up() -> None:
    for out in (np.float32, np.uint16):
        pays = lookup.looks_up_results(types.uint8, types.float32 if out is np.float32 else types.uint16)
        assert multiple(np.zeros(1, np.uint8), np.zeros(1, out)) == int(pays)


def words_of(taken: int, *ends: int) -> Array:
    """Return the words that threads share about pieces with these ends, ``taken`` of them taken.

    The layout is that of `sharing`. The last word is the bell.
    """
    words = np.append(shared_words(taken, ends, 0), 0)
    words[3] = words[-1:].ctypes.data
    return words


def cut(
    position: int, multiple: int, first: int, last: int, itemsize: int = 4, target: int = 1 << 20, streamed: int = WHOLE
) -> tuple:
    """Return a piece as `tiles.next_tile` cuts it, for an output that begins at ``target``."""
    words = words_of(0, first, last)
    where = target, itemsize, 77, position, streamed, multiple
    found = tiles.next_tile(where, words.ctypes.data, 0)
    assert words[:2].tolist() == [1, 1]
    if first == 0:
        assert tiles.next_tile((target, itemsize, last, position, streamed, multiple), 0, 0) == found
    return tuple(found)


@pytest.mark.parametrize(
    ("position", "multiple", "expected"),
    [
        (3, 1, (16, 96, False)),  # for any position of the parameters' runs
        (0, 16, (16, 96, False)), (48, 16, (16, 96, False)),
        (40, 16, (8, 88, False)),  # chunks begin within cache lines
        (1, 16, (16, 96, True)), (41, 16, (16, 96, True)),  # chunks begin within a store
        (0, 0, (16, 96, True)),  # chunks are always cut
    ],
)  # fmt: skip
def test_whole_chunks_bypass_the_caches(position: int, multiple: int, expected: tuple[int, int, bool]) -> None:
    """Whole chunks bypass the caches from the first cache line or chunk start on.

    Cut chunks bypass the caches only where every chunk does.
    """
    *_, is_cut = expected
    assert cut(position, multiple, 8, 100, streamed=ALL) == (8, *expected[:2], 100, is_cut)
    assert cut(position, multiple, 8, 100) == (8, *((8, 8) if is_cut else expected[:2]), 100, is_cut)
    begins, start, end, last, _ = cut(position, multiple, 8, 100, streamed=0)
    assert (begins, start, end, last) == (8, 8, 8, 100)


@pytest.mark.parametrize("itemsize", [2, 4])
def test_large_numpy_outputs_bypass_the_caches(itemsize: int) -> None:
    """A large NumPy array begins 16 bytes after a page's start.

    Stores bypass the caches from there on if chunks must be whole, otherwise from the next cache line.
    """
    chunks, any_place = (cut(0, multiple, 0, 100, itemsize, (1 << 20) + 16) for multiple in (CHUNK, 1))
    assert chunks == (0, 0, 96, 100, False)
    assert any_place[1] == 48 // itemsize
    assert cut(0, CHUNK, 0, 100, itemsize, (1 << 20) + 12) == (0, 0, 0, 100, True)
    short = cut(0, 1, 0, 3, itemsize, (1 << 20) + 16)
    assert short == (0, 3, 3, 3, False), "no line begins in it"
    shorter = cut(13, CHUNK, 16, 18, 4, (1 << 20) + 20)
    assert shorter == (16, 16, 16, 18, True), "no part of a line begins in it"


@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize("target", [1 << 20, (1 << 20) + 12])
def test_every_piece_is_cut_at_cache_lines(itemsize: int, target: int) -> None:
    for first in range(40):
        for size in (0, 1, 15, 16, 17, 31, 32, 33, 200):
            begins, start, end, last, _ = cut(0, 1, first, first + size, itemsize, target)
            assert (begins, last) == (first, first + size)
            assert first <= start <= end <= last
            if start < last:
                assert (target + start * itemsize) % 64 == 0
                assert (start - first) * itemsize < 64
            assert (end - start) % CHUNK == 0
            assert last - end < CHUNK


def test_stores_settle_before_their_piece_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(tiles, "settle", lambda: told.append("settled"))
    monkeypatch.setattr(tiles, "finish_piece", lambda shared: told.append("finished"))
    monkeypatch.setattr(tiles, "take_piece", lambda shared: (16, 32))

    def in_order(streamed: int, shared: int, last: int) -> list[str]:
        told.clear()
        tiles.next_tile.py_func((1 << 20, 4, 100, 0, streamed, CHUNK), shared, last)
        return [*told]

    for streamed in (0, WHOLE, ALL):
        arrived = ["settled"] if streamed else []
        assert in_order(streamed, 1, 16) == [*arrived, "finished"]
        assert in_order(streamed, 0, 16) == arrived
        assert in_order(streamed, 1, 0) == in_order(streamed, 0, 0) == [], "none is done"


def test_the_next_piece() -> None:
    """A thread's own call has one piece. In a shared call a thread reports its piece and takes the next."""
    where = 1 << 20, 4, 100, 0, WHOLE, 16
    assert tiles.next_tile(where, 0, 100)[:4] == (100, 100, 100, 100)
    words = words_of(1, 0, 100, 150)
    assert tiles.next_tile(where, words.ctypes.data, 100) == (100, 112, 144, 150, False)
    assert words[:3].tolist() == [2, 1, 2]
    first, _, _, last, _ = tiles.next_tile(where, words.ctypes.data, 150)
    assert first == last
    assert words[:3].tolist() == [3, 0, 2]


@pytest.mark.parametrize(
    ("line", "run", "start", "expected"),
    [(96, 32, 48, True), (96, 32, 40, False), (96, 24, 48, False), (72, 32, 48, False), (96, 32, 33, False), (97, 32, 48, False),
     (96, 33, 48, False), (96, 32, 0, True)],
)  # fmt: skip
def test_runs_and_rows_in_whole_chunks(
    monkeypatch: pytest.MonkeyPatch, line: int, run: int, start: int, expected: bool
) -> None:
    """Only the line and the run length count for runs, and only the row for rows."""
    asked = []

    def piece(where: tuple[int, ...], *_: int) -> tuple[int, ...]:
        asked.append(where)
        return *(0,) * 4, False

    for name, stand_in in (
        ("next_tile", piece), ("overlaps", lambda *_: False), ("address", lambda out: 1 << 20), ("staging_buffer", lambda out: 0),
    ):  # fmt: skip
        monkeypatch.setattr(loops, name, stand_in)
    monkeypatch.setattr(loops, "parameter_cache", lambda zero: 0)
    out = np.zeros(4, np.float32)

    def stored_past(loop: Callable[..., bool], runs: Given, rows: Given) -> bool:
        for streamed in (0, WHOLE, ALL):
            assert loop(None, out, None, 0.0, None, None, None, runs, rows, start, streamed, 0, False)
            assert asked[-1][4] == streamed
        multiple = asked[-1][5]
        return multiple != 0 and start % multiple == 0

    assert stored_past(loops.by_runs, (5, line, run, 7), None) == expected
    if run == 32:
        assert stored_past(loops.by_rows, None, (5, line, 7, 9, 1)) == expected


Given = tuple[int, ...] | None


def test_which_loop_is_compiled() -> None:
    assert [loop_of(places) for places in (None, Rows(16), Runs(32, 16, 0))] == [
        loops.of_one,
        loops.by_rows,
        loops.by_runs,
    ]


SHORT, LONG = 3000, 3 * lookup.LONG_RUN


OF_CODES = (
    None,
    *(Runs(*line) for line in (
        (5000, 4500, 2), (9600, 32, 0), (2592, 32, 81), (4128, 32, 129), (3840, 64, 60), (4000, 80, 0), (4224, 192, 22),
        (3840, 256, 15), (1440, 96, 0),
    )),
)  # fmt: skip
"""Layouts whose code values are looked up: with one scale, or for float32 only, with equally long runs."""


@pytest.mark.parametrize(
    ("places", "size", "x_name", "out"),
    [
        *((None, LONG + 1, "float8_e5m2", out) for out in (BFLOAT16, FLOAT32)),
        *((places, LONG, "float8_e5m2", BFLOAT16) for places in OF_CODES),
        *((places, LONG, "float8_e5m2fnuz", FLOAT16) for places in OF_CODES),
        *((places, LONG, "float8_e5m2fnuz", FLOAT32) for places in OF_CODES[:2]),
        *((places, LONG, "float8_e4m3fn", FLOAT32) for places in OF_CODES),
        (None, LONG, "uint8", FLOAT16),
        *((Runs(*line), SHORT, "uint8", FLOAT16) for line in (
            (480, 32, 15), (480, 48, 10), (96, 40, 3), (500, 33, 16), (64, 16, 0), (48, 16, 5), (272, 16, 17), (60, 5, 12),
        )),
        *((Runs(*line), LONG, "uint8", FLOAT16) for line in ((5000, 4500, 2), (9216, 4608, 0), (4224, 192, 22))),
        *((Rows(*line), SHORT, "uint8", FLOAT16) for line in (
            (480,), (50, 6, 3, 2), (33, 5, 2, 3), (16, 4, 1, 4), (64, 5, 3, 2), (100, 9, 4, 3), (240, 1, 1, 0),
        )),
        *((Rows(*line), LONG, "float8_e5m2", BFLOAT16) for line in ((480,), (720, 7, 3, 3))),
    ],
    ids=str,
)  # fmt: skip
def test_a_part_of_a_tensor(
    places: Layout | None, size: int, x_name: str, out: np.dtype, beside_a_page: Callable[[Array, bool], Array]
) -> None:
    """Operands end or begin at a memory page, and the loop has only the parameters of its part."""
    rank, kind = 0 if places is None else 1, coding(dtype_of(x_name))
    has_offsets = x_name in ("uint8", "float8_e4m3fn")
    of_scales, of_codes = Flat(ELEMENTS[out], rank), Flat(types.uint8, rank)
    of_offsets = of_codes if has_offsets else types.float32
    fill = entry(
        loop_of(places), signature(kind.codes, out, kind.fields_type, types.float32, of_scales, of_offsets, places)
    )
    which, x = parameters(places, size), drawn(x_name, (size,), 1)
    scale = (np.random.default_rng(2).random(which.max() + 1) + 0.1).astype(out)
    # Some products are subnormal: also with a single scale, if the size is even.
    scale[size % 2 :: 37] *= 2.0**-14 if out == FLOAT16 else 2.0**-112
    zero_point = drawn(x_name, scale.shape, 3) if has_offsets else None
    want = NUMPY.dequantize_linear(x, scale[which], None if zero_point is None else zero_point[which], axis=0)
    memory = np.zeros(size + 128, out)
    for start, stop in some_parts(size):
        low, high = (which[start:stop].min(), which[start:stop].max() + 1) if start < stop else (0, 1)
        given = [array[low:high] for array in (scale, zero_point) if array is not None]
        if places is None:
            given = [array.reshape(()) for array in given]
        arguments = (None, None) if places is None else places.arguments(int(low))
        for beside, streamed in ((0, WHOLE), (0, ALL), (3, ALL), (8, WHOLE), (3, 0)):
            operands = [beside_a_page(array, beside == 3) for array in (x[start:stop], *given)]
            begins = -memory.ctypes.data % 64 // out.itemsize + 32 + beside
            memory[:] = 0x55
            part = memory[begins : begins + stop - start]
            offset = operands[2:] or [0.0]
            assert fill(
                operands[0],
                part,
                tuple(kind.fields),
                0.0,
                operands[1],
                *offset,
                None,
                *arguments,
                start,
                streamed,
                0,
                False,
            )
            same_bits(want[start:stop], part)
            assert (memory[:begins] == 0x55).all()
            assert (memory[begins + part.size :] == 0x55).all()


@pytest.mark.parametrize(
    ("places", "size"),
    [
        (None, LONG),
        (Runs(480, 32, 15), SHORT),
        (Runs(9600, 64, 0), LONG),
        (Rows(480), SHORT),
        (Rows(33, 5, 2, 3), SHORT),
    ],
    ids=str,
)
@pytest.mark.usefixtures("no_endless_wait")
def test_a_tensor_in_pieces_that_the_loop_takes(places: Layout | None, size: int) -> None:
    """The loop takes the remaining pieces and does not touch those that other threads took."""
    rank, kind = 0 if places is None else 1, coding(np.dtype(np.uint8))
    of_parameters = Flat(types.uint16, rank), Flat(types.uint8, rank)
    fill = entry(
        loop_of(places), signature(kind.codes, FLOAT16, kind.fields_type, types.float32, *of_parameters, places)
    )
    which, x = parameters(places, size), drawn("uint8", (size,), 1)
    scale = (np.random.default_rng(2).random(which.max() + 1) + 0.1).astype(np.float16)
    zero_point = drawn("uint8", scale.shape, 3)
    want = NUMPY.dequantize_linear(x, scale[which], zero_point[which], axis=0)
    given = [array.reshape(()) for array in (scale, zero_point)] if places is None else [scale, zero_point]
    arguments = (None, None) if places is None else places.arguments(0)
    ends = [0, 1, 63, 64, 512, 513, 1999, size - 1, size]
    memory = np.empty(size + 128, np.float16)
    ways = (0, 0, 0), (0, WHOLE, 0), (0, ALL, 0), (0, ALL, 2), (0, ALL, 14), (3, ALL, 0), (8, ALL, 0), (9, 0, 0)
    for taken, streamed, beside in ways:  # beside: elements between a cache line's start and the output
        bell = np.array([7])
        words = shared_words(taken, ends, bell.ctypes.data, inside=1)
        memory[:] = 85
        starts = -memory.ctypes.data % 64 // 2 + beside
        out = memory[starts : starts + size]
        assert fill(x, out, tuple(kind.fields), 0.0, *given, None, *arguments, 0, streamed, words.ctypes.data, True)
        begins = ends[min(taken, 8)]
        same_bits(want[begins:], out[begins:])
        assert (memory[: starts + begins] == 85).all()
        assert (memory[starts + size :] == 85).all()
        assert words[:2].tolist() == [max(taken, 8) + 1, min(taken, 8)]
        assert bell == (8 if taken == 0 else 7)
        assert words[2:].tolist() == [8, bell.ctypes.data, 1, 0, *ends]


@pytest.mark.parametrize("places", [None, Runs(32, 16, 2), Rows(16)], ids=str)
def test_the_output_lies_beside_inputs_and_not_on_them(places: Layout | None) -> None:
    """A loop whose output overlaps an input reports it and writes nothing.

    In a call that threads share, this check was made before.
    """
    kind = coding(np.dtype(np.uint8))
    rank, arguments = (0, (None, None)) if places is None else (1, places.arguments(0))
    of_parameters = Flat(types.uint16, rank), Flat(types.uint8, rank)
    fill = entry(
        loop_of(places), signature(kind.codes, FLOAT16, kind.fields_type, types.float32, *of_parameters, places)
    )
    count = 16 if rank else 1
    operands = drawn("uint8", (4,), 1), np.full(count, 0.5, np.float16), drawn("uint8", (count,), 2)
    # All elements lie in the first run.
    serving = slice(4) if isinstance(places, Rows) else [0, 0, 0, 0]
    want = NUMPY.dequantize_linear(operands[0], operands[1][serving], operands[2][serving], axis=0)
    begins, ends, nothing_left = 64, 64 + want.nbytes, words_of(1, 0, 4)
    for number, operand in enumerate(operands):
        beside = begins - operand.nbytes, ends
        on_it = beside[0] + operand.itemsize, begins, ends - operand.itemsize
        for at, is_beside in [*((at, True) for at in beside), *((at, False) for at in on_it if at not in beside)]:
            memory = np.full(160, 0x55, np.uint8)
            moved = memory[at : at + operand.nbytes].view(operand.dtype)
            moved[:] = operand
            kept, out = memory.copy(), memory[begins:ends].view(np.float16)
            x, *given = *operands[:number], moved, *operands[number + 1 :]
            if not rank:
                given = [array.reshape(()) for array in given]
            asked = x, out, tuple(kind.fields), 0.0, *given, None, *arguments, 0, False
            assert fill(*asked, nothing_left.ctypes.data, False) is True
            done = fill(*asked, 0, False)
            assert done is is_beside
            if is_beside:
                same_bits(want, out)
                kept[begins:ends] = memory[begins:ends]
            assert memory.tobytes() == kept.tobytes()


@njit(error_model="numpy")  # type: ignore[untyped-decorator]
def kept_in_a_room(scales: Array, codes: Array, first: int, coding: tuple, zero: float, divides: bool | None) -> tuple:
    """Cache CHUNK scales and zero points. Return whether all products are normal, and the cached values."""
    place, numbers = 32, layout.parameter_cache(zero)
    known = layout.cache_chunk(numbers, place, coding, zero, divides, scales, codes, first)
    found = [layout.cached_value(numbers, place + of + i, zero) for of in (0, layout.CACHED) for i in range(CHUNK)]
    return known, found


@pytest.mark.parametrize("real", ["float32", "float64"])
@pytest.mark.parametrize("by_division", [False, True])
def test_scales_of_runs_are_converted_once(by_division: bool, real: str) -> None:
    """A chunk counts as normal only if no product of any of its scales is subnormal; never for quotients."""
    kind, first = coding(np.dtype(np.uint8)), 5
    codes, zero = drawn("uint8", (64,), 1), np.dtype(real).type(0)
    for small in (None, *range(CHUNK), -1, CHUNK):
        scales = np.linspace(0.5, 2, 64, dtype=np.float32)
        if small is not None:
            scales[first + small] = 2.0**-120
        given = scales, codes, first, tuple(kind.fields), zero, True if by_division else None
        known, found = kept_in_a_room(*given)
        assert known is (not by_division and small in (None, -1, CHUNK))
        part = slice(first, first + CHUNK)
        assert found == [*scales[part], *codes[part]]
