"""A large tensor in pieces: the partition, the tile cursor, and the staging of chunks that are cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from xverify.kernels.blocks import Index, blocks
from xverify.kernels.casting import Array
from xverify.kernels.compiled.build import entry
from xverify.kernels.compiled.memory import LINE, PART, Flat, data_of, get, is_plain, put, settle, store
from xverify.kernels.compiled.threads import finish_piece, run_each, run_shared, take_piece, threads
from xverify.kernels.compiled.vectors import CHUNK, I1, I64, Generated, room_for

WHOLE, ALL = 1, 2
"""Values of ``streamed``: store whole chunks past the caches, or also the chunks that are cut."""

STAGE = 4096
"""Elements that are put together before they are stored past the caches.

Enough to make the overhead of a loop small, and few enough to stay in the first-level cache with their codes.
"""


@intrinsic  # type: ignore[untyped-decorator]
def staging_buffer(context: Any, out: Any) -> Generated:
    """The address of stack memory for STAGE output elements."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ptrtoint(room_for(builder, context.get_data_type(out.dtype), STAGE, LINE), I64)

    return types.int64(out), generate


@intrinsic  # type: ignore[untyped-decorator]
def redirect_to_stage(context: Any, out: Any, room: Any, first: Any) -> Generated:
    """The output array, but with out[first] and the STAGE - 1 elements behind it in the buffer.

    Nothing else of the array may be accessed.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, room_, first_ = arguments
        made = context.make_array(out)(context, builder, array)
        before = builder.mul(first_, ir.Constant(I64, context.get_abi_sizeof(context.get_data_type(out.dtype))))
        made.data = builder.inttoptr(builder.sub(room_, before), made.data.type)
        return made._getvalue()

    return out(out, types.int64, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def flush_stage(context: Any, out: Any, room: Any, first: Any, stop: Any) -> Generated:
    """Store whole chunks of the buffer past the caches, to out[first] ... out[stop - 1].

    out[first] begins a line.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        result, room_, first_, stop_ = arguments
        chunk = ir.VectorType(context.get_data_type(out.dtype), CHUNK)
        start = builder.inttoptr(room_, chunk.as_pointer())
        chunks = builder.udiv(builder.sub(stop_, first_), ir.Constant(I64, CHUNK))
        with cgutils.for_range(builder, chunks) as loop:
            done = builder.load(builder.gep(start, [loop.index]))
            index = builder.add(first_, builder.mul(loop.index, ir.Constant(I64, CHUNK)))
            store(context, builder, done, data_of(context, builder, out, result, index), ir.Constant(I1, 1))
        return context.get_dummy_value()

    return types.void(out, types.int64, types.intp, types.intp), generate


@njit(error_model="numpy")  # type: ignore[untyped-decorator]
def next_tile(where: Any, shared: Any, last: Any) -> Any:
    """The tile cursor: the next piece of a tensor, and the part of it that is stored past the caches.

    Args:
        where: the address of out[0], the bytes of an element, the number of elements, the index in the tensor of the
            first element,
            ``streamed`` as in `loops`, and ``multiple``. No chunk is cut if the index of the first streamed element
                is a multiple
            of ``multiple``; 0 if some chunk is cut in any case.
        shared: the state of the call as in `threads`; 0 if one thread writes all.
        last: the end of the previous piece; 0 at first.

    Returns:
        The piece's first element, the begin and the end of the streamed part, the end of the piece, and True if
            chunks are cut, so
        that they are put together in the staging buffer first. An empty piece if none is left.
    """
    target, itemsize, size, position, streamed, multiple = where
    is_first = last == 0
    if streamed != 0 and not is_first:
        settle()
    first = last
    if shared != 0:
        if not is_first:
            finish_piece(shared)
        first, last = take_piece(shared)
    elif is_first:
        first, last = 0, size
    start, end, is_cut = first, first, False
    if streamed != 0:
        begins = target + first * itemsize
        before = min(last - first, (-begins % LINE) // itemsize)
        if multiple == 0 or (position + first + before) % multiple != 0:
            before_part = min(last - first, (-begins % PART) // itemsize)
            is_cut = multiple == 0 or (position + first + before_part) % multiple != 0
            before = before if is_cut else before_part
        if streamed == ALL or not is_cut:
            start, end = first + before, last - (last - first - before) % CHUNK
    return first, start, end, last, is_cut


PIECE = 1 << 18
"""Elements of a piece that is copied: enough to be worth a thread, few enough for the copy to stay in a core's cache.
"""

LARGE_PIECE = 1 << 24
"""Elements of a piece that is not copied: the fewer pieces the better. Ctrl-C is handled between pieces."""

SHARED = 1 << 28
"""Elements after which threads that share a tensor begin anew, so that Ctrl-C is handled."""

LEAST_PIECE = 1 << 16
"""Elements of the smallest piece that threads share. With smaller ones, threads would wait as long for others."""

THREADS_FROM = 1 << 21
"""Bytes of output from which on several threads share the work: waking one costs as much as half of this work."""

Write = Callable[[int, int, Array, Array, int], None]
"""write(start, stop, codes, elements, streamed): write elements start ... stop - 1 of the tensor in C order.

streamed: see `past_caches`.
"""

WriteAll = Callable[[int, Array, Array, int, int, bool], None]
"""write(start, codes, elements, streamed, shared, helps): write all elements of the arrays, which have any rank.

The loop itself takes pieces if ``shared`` is not 0: see `loops`.
"""

Read = Callable[[int, int], Array]
"""read(start, stop): the codes of that part of the tensor, flat and contiguous."""

OWN_CACHE = 1 << 25
"""Bytes of the largest last-level cache that counts as this process's own.

A server's cache is shared with many cores, some of them invisible in a virtual machine. Storing past it takes less
time than
storing to it: ``xverify bench --sizes 16Mi`` shows this in the column of the limit.
"""

SHARED_ROOM = OWN_CACHE * 3 // 4
"""Bytes of output that are expected to stay in a shared or unknown last-level cache."""


@cache
def own_cache() -> int | None:
    """Bytes of the last-level cache, or None.

    It is None if many cores share the cache, or if the machine does not tell its size.
    """
    try:
        # The cache of one core; sysconf adds up those of the whole machine.
        text = Path("/sys/devices/system/cpu/cpu0/cache/index3/size").read_text().strip()
        size = int(text.removesuffix("K")) << 10
    except (OSError, ValueError):
        return None
    return size if size <= OWN_CACHE else None


def leaves_caches(read: int, written: int) -> bool:
    """True if an output leaves the last-level cache before it is used again.

    Such an output is stored past the caches. Input bytes count twice, since they stay in the cache if the output is stored
    past it. The sum may exceed the cache: processors no longer evict the oldest line first, so that a part of a large output
    stays. The factor was measured on an AMD Zen 5, where
    ``xverify bench --dtypes packed-int2:float16 --sizes 16Mi`` shows a case that is faster in the cache.

    Args:
        read: bytes of input of the call.
        written: bytes of output of the call.
    """
    cache = own_cache()
    if cache is None:
        return written >= SHARED_ROOM
    return 2 * read + written > cache * 8 // 5


def past_caches(read: int, written: int) -> int:
    """The value of ``streamed`` for a call, as `loops` takes it.

    Putting cut chunks together takes time, so that it pays for outputs twice as large. This was measured on an Intel
    Xeon with
    calls of 8 Mi to 64 Mi elements. read, written: bytes of the call.
    """
    return WHOLE * leaves_caches(read, written) + (ALL - WHOLE) * leaves_caches(read // 2, written // 2)


def for_all_pieces(write: WriteAll, out: Array, x: Array, read: Read | None = None, in_byte: int = 1) -> None:
    """Call ``write`` until all of ``out`` is written.

    Args:
        write: writes the elements of arrays; it takes pieces itself.
        out: the output.
        x: the codes.
        read: the source of codes instead of x, called for at most PIECE elements.
        in_byte: codes in a byte of x. If they are several, x and out are plain.
    """
    if read is None and is_plain(x) and is_plain(out):
        if out.nbytes < THREADS_FROM:
            write(0, x, out, 0, 0, False)
            return
        streamed = past_caches(x.nbytes, out.nbytes)
        if threads() > 1:
            codes, elements = _slices(x.reshape(-1), in_byte), out.reshape(-1)
            for start in range(0, out.size, SHARED):
                stop = min(start + SHARED, out.size)
                _share(write, start, codes(start, stop), elements[start:stop], streamed)
            return

    def alone(start: int, stop: int, codes: Array, elements: Array, streamed: int) -> None:
        write(start, codes, elements, streamed, 0, False)

    for_each_piece(alone, out, x, read, PIECE if read is not None else LARGE_PIECE, in_byte)


def _share(write: WriteAll, start: int, codes: Array, elements: Array, streamed: int) -> None:
    def work(shared: int, helps: bool) -> None:
        write(start, codes, elements, streamed, shared, helps)

    run_shared(work, _ends(elements.size, threads()))


def for_each_piece(
    write: Write, out: Array, x: Array, read: Read | None = None, largest: int = PIECE, in_byte: int = 1
) -> None:
    """Call ``write`` for pieces of at most ``largest`` elements that cover ``out``. Other arguments: as in
    `for_all_pieces`.
    """
    size = out.size
    if read is None and is_plain(x):
        read = _slices(x.reshape(-1), in_byte)
    if read is None or not is_plain(out):
        _for_each_block(write, out, x, read)
        return
    elements, codes = out.reshape(-1), read
    streamed = past_caches(x.nbytes, out.nbytes)

    def task(number: int) -> None:
        start, stop = number * largest, min((number + 1) * largest, size)
        write(start, stop, codes(start, stop), elements[start:stop], streamed)

    _run_tasks(task, -(-size // largest), out)


@lru_cache(maxsize=16)
def _ends(size: int, sharers: int) -> tuple[int, ...]:
    """The boundaries of pieces for that many threads.

    Threads take two thirds of the rest in as many pieces as there are threads, and so on. A late thread finds enough
    to do, and all
    end at about the same time.
    """
    ends = [0]
    while ends[-1] < size:
        share = -(-2 * (size - ends[-1]) // (3 * sharers) // 64) * 64
        for _ in range(sharers):
            if ends[-1] < size:
                ends.append(min(ends[-1] + max(LEAST_PIECE, share), size))
    return tuple(ends)


def _slices(flat: Array, in_byte: int) -> Read:
    """A reader of parts of an array of codes; parts of packed codes begin with a byte."""
    return lambda start, stop: flat[start // in_byte : -(-stop // in_byte)]


def _for_each_block(write: Write, out: Array, x: Array, read: Read | None) -> None:
    """`for_each_piece` for any strides and byte order.

    Arrays that are not plain are copied, a block at a time.
    """
    if out.ndim == 0:
        out, x = out.reshape(1), x.reshape(1) if read is None else x
    listed = list(_ordered_blocks(out.shape))

    def task(number: int) -> None:
        start, stop, index = listed[number]
        codes = (
            np.array(x[index], x.dtype.newbyteorder("="), order="C").reshape(-1) if read is None else read(start, stop)
        )
        target = out[index]
        elements = target.reshape(-1) if is_plain(target) else np.empty(stop - start, out.dtype)
        write(start, stop, codes, elements, 0)
        if elements.base is None:
            target[...] = elements.reshape(target.shape)

    _run_tasks(task, len(listed), out)


def _ordered_blocks(shape: tuple[int, ...]) -> Iterator[tuple[int, int, Index]]:
    """Blocks, with their begin and end in C order."""
    start = 0
    for index in blocks(shape):
        stop = start + prod(part.stop - part.start for part in index)
        yield start, stop, index
        start = stop


def _run_tasks(task: Callable[[int], None], count: int, out: Array) -> None:
    if out.nbytes >= THREADS_FROM:
        run_each(task, count)
    else:
        for number in range(count):
            task(number)


def unpack(packed: Any, codes: Any, in_byte: Any) -> None:
    """Unpack the codes of all bytes, lowest bits first. in_byte: codes in a byte, 2 or 4."""
    if in_byte == 2:
        for i in range(packed.size):
            byte = get(packed, i)
            put(codes, 2 * i, byte & 15)
            put(codes, 2 * i + 1, byte >> 4)
    else:
        for i in range(packed.size):
            byte = get(packed, i)
            put(codes, 4 * i, byte & 3)
            put(codes, 4 * i + 1, (byte >> 2) & 3)
            put(codes, 4 * i + 2, (byte >> 4) & 3)
            put(codes, 4 * i + 3, byte >> 6)


def packed_reader(packed: Array, in_byte: int) -> Read:
    """A reader of parts of packed codes, one a byte."""
    compiled = entry(unpack, (Flat(types.uint8), Flat(types.uint8, written=True), types.int64))

    def read(start: int, stop: int) -> Array:
        first, last = start // in_byte, -(-stop // in_byte)
        codes = np.empty((last - first) * in_byte, np.uint8)
        compiled(np.ascontiguousarray(packed[first:last]), codes, in_byte)
        return codes[start - first * in_byte : stop - first * in_byte]

    return read
