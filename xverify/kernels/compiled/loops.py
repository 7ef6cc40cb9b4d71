"""The compiled loops. A call writes one piece of a tensor: ``x`` and ``out`` are flat, contiguous and of one size.

Types of arguments choose between versions (None is one): few functions, each with as many signatures as are used, which Numba
keeps.

Codes of x: integers of one or two bytes with ``keep`` and ``flip`` (`scalars.value`), int32, or bytes that ``table`` decodes.
``zero``: 0.0 in the type in which the arithmetic is done, float32 or float64. ``scale``: a number of that type, or a flat array
of float32; None: the table's entries are the results. ``offset``: a number, or a flat array of numbers of that type, or of codes
like those of x. ``divides``: None, or True. ``position``: where in the tensor, in C order, the piece begins.
Which element of the arrays serves which of x:

- ``runs`` (origin, line, run, stride): every ``run`` elements of a line of ``line`` have one parameter (the last may serve
  fewer); a line begins ``stride`` parameters after the one before;
- ``rows`` (origin, row, rows, run, stride): each element of a row of ``row`` has one of its own; ``rows`` rows make a line, each
  ``run`` of them share theirs, and a line begins ``stride`` rows of parameters after the one before.

``origin`` counts the parameters before the first that is given.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

import numpy as np
from numba import njit, types
from numba.extending import overload

from xverify.kernels.compiled.scalars import CHUNK, LINE, address, get, number, put, put_chunk, settle, stream, value

BLOCK = 1024
"""Elements that are computed in the first-level cache before they are streamed: 4 KiB of float32."""


@njit(error_model="numpy")
def _value(code, table, keep, flip, scale, offset, divides, out):
    if table is None:
        return value(code, keep, flip, scale, offset, divides, out)
    return value(get(table, code), keep, flip, scale, offset, divides, out)


def _offset(offset, i, table, keep, flip, zero):
    """A zero point as a number."""
    raise NotImplementedError


@overload(_offset)
def _offset_version(offset, i, table, keep, flip, zero):
    if isinstance(offset, types.Float):
        return lambda offset, i, table, keep, flip, zero: offset
    if isinstance(offset.dtype, types.Float) or isinstance(table, types.NoneType):
        return lambda offset, i, table, keep, flip, zero: number(get(offset, i), keep, flip, zero)
    return lambda offset, i, table, keep, flip, zero: number(get(table, get(offset, i)), keep, flip, zero)


def _look_up(x, first, stop, out, to, table, keep, flip, zero, scale, offset, divides, runs, rows, position):
    for i in range(stop - first):
        put(out, to + i, get(table, get(x, first + i)))


def _whole(x, first, stop, out, to, table, keep, flip, zero, scale, offset, divides, runs, rows, position):
    own_scale = number(get(scale, 0), keep, flip, zero)
    own_offset = _offset(offset, 0, table, keep, flip, zero)
    for i in range(stop - first):
        put(out, to + i, _value(get(x, first + i), table, keep, flip, own_scale, own_offset, divides, out))


@njit(error_model="numpy")
def _run(x, first, out, to, count, table, keep, flip, own_scale, own_offset, divides, streamed):
    """Elements that share their parameters."""
    for i in range(count // CHUNK):
        put_chunk(
            x, first + i * CHUNK, out, to + i * CHUNK, table, keep, flip, own_scale, own_offset, divides, streamed
        )
    for i in range(count // CHUNK * CHUNK, count):
        put(out, to + i, _value(get(x, first + i), table, keep, flip, own_scale, own_offset, divides, out))


@njit(error_model="numpy")
def _whole_runs(x, first, out, to, whole, run, parameter, table, keep, flip, zero, scale, offset, divides, streamed):
    """Runs of whole chunks one after the other, as their parameters are: most of what there is, so without a branch."""
    chunks = run // CHUNK
    for i in range(whole):
        own_scale = number(get(scale, parameter + i), keep, flip, zero)
        own_offset = _offset(offset, parameter + i, table, keep, flip, zero)
        for j in range(chunks):
            at = (i * chunks + j) * CHUNK
            put_chunk(x, first + at, out, to + at, table, keep, flip, own_scale, own_offset, divides, streamed)


@njit(error_model="numpy")
def _all_runs(x, first, stop, out, to, table, keep, flip, zero, scale, offset, divides, runs, position, streamed):
    """streamed: None, or True where ``to`` and all that the runs are cut into are multiples of CHUNK."""
    origin, line, run, stride = runs
    lines = position // line
    within = position - lines * line
    while first < stop:
        block = within // run
        parameter = lines * stride + block - origin
        left = min(line - within, stop - first)
        if within == block * run and run % CHUNK == 0 and left >= run:
            count = left // run * run
            _whole_runs(
                x,
                first,
                out,
                to,
                left // run,
                run,
                parameter,
                table,
                keep,
                flip,
                zero,
                scale,
                offset,
                divides,
                streamed,
            )
        else:
            own_scale = number(get(scale, parameter), keep, flip, zero)
            own_offset = _offset(offset, parameter, table, keep, flip, zero)
            count = min((block + 1) * run - within, left)
            _run(x, first, out, to, count, table, keep, flip, own_scale, own_offset, divides, streamed)
        first += count
        to += count
        within += count
        if within == line:
            within = 0
            lines += 1


def _by_runs(x, first, stop, out, to, table, keep, flip, zero, scale, offset, divides, runs, rows, position):
    _all_runs(x, first, stop, out, to, table, keep, flip, zero, scale, offset, divides, runs, position, None)


def _by_rows(x, first, stop, out, to, table, keep, flip, zero, scale, offset, divides, runs, rows, position):
    origin, row, in_line, run, stride = rows
    number_of_row = position // row
    within = position - number_of_row * row
    while first < stop:
        shared = (number_of_row // in_line) * stride + (number_of_row % in_line) // run
        parameter = shared * row + within - origin
        count = min(row - within, stop - first)
        for i in range(count):
            own_scale = number(get(scale, parameter + i), keep, flip, zero)
            own_offset = _offset(offset, parameter + i, table, keep, flip, zero)
            put(out, to + i, _value(get(x, first + i), table, keep, flip, own_scale, own_offset, divides, out))
        first += count
        to += count
        within = 0
        number_of_row += 1


def _fill(x, first, stop, out, to, table, keep, flip, zero, scale, offset, divides, runs, rows, position):
    """Write out[to:] from x[first:stop]; the first element is at ``position``."""
    raise NotImplementedError


@overload(_fill)
def _version(x, first, stop, out, to, table, keep, flip, zero, scale, offset, divides, runs, rows, position):
    if isinstance(scale, types.NoneType):
        return _look_up
    if scale.ndim == 0:
        return _whole
    return _by_rows if isinstance(runs, types.NoneType) else _by_runs


def _stream_whole(x, first, stop, out, table, keep, flip, zero, scale, offset, divides, runs, position):
    """What lies in whole cache lines, from out[first] on, at a line's start, is stored past the caches at once where one scale
    serves all, or each whole chunk. Returns where it ended."""
    raise NotImplementedError


@overload(_stream_whole)
def _stream_whole_version(x, first, stop, out, table, keep, flip, zero, scale, offset, divides, runs, position):
    if isinstance(scale, types.NoneType) or (scale.ndim > 0 and isinstance(runs, types.NoneType)):
        return lambda x, first, stop, out, table, keep, flip, zero, scale, offset, divides, runs, position: first

    def by_runs(x, first, stop, out, table, keep, flip, zero, scale, offset, divides, runs, position):
        _, line, run, _ = runs
        start = position + first
        if run % CHUNK != 0 or line % CHUNK != 0 or start % CHUNK != 0:
            return first
        stop -= (stop - first) % CHUNK
        _all_runs(x, first, stop, out, first, table, keep, flip, zero, scale, offset, divides, runs, start, True)
        return stop

    if scale.ndim > 0:
        return by_runs

    def chunks(x, first, stop, out, table, keep, flip, zero, scale, offset, divides, runs, position):
        own_scale = number(get(scale, 0), keep, flip, zero)
        own_offset = _offset(offset, 0, table, keep, flip, zero)
        for _ in range((stop - first) // CHUNK):
            put_chunk(x, first, out, first, table, keep, flip, own_scale, own_offset, divides, True)
            first += CHUNK
        return first

    return chunks


def _meets(out, other):
    """Whether two arrays, each without gaps, share memory; what is no array shares none."""
    raise NotImplementedError


@overload(_meets)
def _meets_version(out, other):
    if not isinstance(other, types.Array):
        return lambda out, other: False

    def meets(out, other):
        start, end = address(out), address(out) + out.size * out.itemsize
        return address(other) < end and start < address(other) + other.size * other.itemsize

    return meets


def linear(x, out, table, keep, flip, zero, scale, offset, divides, runs, rows, position, streamed):
    """Write (x - offset) * scale, or / scale, each exact and rounded once; with a scale of None, the table's entries.

    streamed: the output is stored past the caches, a block at a time, but for what shares a cache line at its ends.

    Returns whether it did; nothing is written where the output shares memory with an input.
    """
    if _meets(out, x) or _meets(out, scale) or _meets(out, offset):
        return False
    size = x.size
    if not streamed:
        _fill(x, 0, size, out, 0, table, keep, flip, zero, scale, offset, divides, runs, rows, position)
        return True
    in_line = LINE // out.itemsize
    scratch = np.empty(BLOCK, out.dtype)
    count = min(size, (-out.ctypes.data % LINE) // out.itemsize)
    first = 0
    while first < size:
        whole = count % in_line == 0
        _fill(
            x,
            first,
            first + count,
            scratch,
            0,
            table,
            keep,
            flip,
            zero,
            scale,
            offset,
            divides,
            runs,
            rows,
            position + first,
        )
        if whole:
            stream(out, first, scratch, count // in_line)
        else:
            for i in range(count):
                out[first + i] = scratch[i]
        first += count
        first = _stream_whole(x, first, size, out, table, keep, flip, zero, scale, offset, divides, runs, position)
        count = min(BLOCK, (size - first) // in_line * in_line) if size - first >= in_line else size - first
    settle()
    return True
