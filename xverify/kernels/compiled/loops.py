"""The compiled loops.

A call writes one piece of a tensor. ``x`` and ``out`` are flat, contiguous and of the same size.

There is one loop for each layout of parameters (`linear.loop_of`), with as many signatures as are used. Numba caches them.
Each loop is one function with all its steps, except for steps on numbers alone (`tiles`, `threads`). Numba makes LLVM optimise
a function that a loop calls by itself as well, and writes instructions that nobody runs. So the lines that ask for pieces stand
in each loop. If Numba inlined them from one place, they would compile more slowly.
``nothing`` is 0 but not a literal, for which Numba would compile `tiles.next_tile` once more.

Arguments:

- ``x``, ``offset``: codes. They may be packed (`memory.Packed`); indices count codes all the same.
- ``coding``: how codes become values (`decode.Coding.fields`), or an array of results for each byte, where ``scale`` is None.
- ``zero``: 0.0 in the type of the arithmetic, float32 or float64.
- ``scale``: an array of float32, or of the codes of float16 (uint16) or bfloat16 (int16), flat or of rank 0.
- ``offset``: a number, or an array of numbers of zero's type, or of codes like those of x.
- ``divides``: None for a product, True for a quotient.
- ``position``: the index in the tensor, in C order, of the first element of the piece.
- ``runs`` (origin, line, run, stride): every ``run`` elements of a line of ``line`` share a parameter. The last run may be
  shorter. A line begins ``stride`` parameters after the one before.
- ``rows`` (origin, row, rows, run, stride): each element of a row of ``row`` has a parameter. ``rows`` rows make a line, and each
  ``run`` of them share their parameters. A line begins ``stride`` rows of parameters after the one before.
- ``streamed``: 0, or the output is stored past the caches: from its first cache line to its last whole chunk. If a line begins
  within a chunk of runs or rows, from the first PART of a line. `tiles.WHOLE`: only if runs or rows cut no chunk.
  `tiles.ALL`: always; chunks that are cut are put together first.
- ``shared``: 0 to write all elements, or the state of the pieces in `threads`. ``helps``: True in a helper thread.

``origin`` is the index of the first parameter that the loop gets. If ``scale`` has rank 0, one parameter serves all elements.

Returns:
    True if the loop wrote (x - offset) * scale, or / scale, each exact and rounded once. False, and nothing is written, if the
    output shares memory with an input. With ``shared`` the caller has checked that.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

import numpy as np
from numba import njit, types
from numba.extending import overload

from xverify.kernels.compiled.chunks import (
    cache_columns,
    caches_rows,
    gives_normals,
    put_cached_row,
    put_chunk,
    put_chunk_of_row,
    put_rest,
    put_rest_of_row,
    put_two_chunks,
    put_two_chunks_of_row,
)
from xverify.kernels.compiled.decode import origin_of_coding, value_of_code, value_of_offset, value_of_scale
from xverify.kernels.compiled.layout import (
    CACHED,
    ROWS_AT_ONCE,
    RUNS_AT_ONCE,
    cache_chunk,
    cache_value,
    cached_value,
    parameter_cache,
)
from xverify.kernels.compiled.lookup import (
    LONG_RUN,
    entries_multiple,
    put_entries,
    put_four_chunks,
    put_long,
    value_table,
)
from xverify.kernels.compiled.memory import address, get, overlaps, put
from xverify.kernels.compiled.rounding import differ, round_element
from xverify.kernels.compiled.threads import wait_for_others
from xverify.kernels.compiled.tiles import STAGE, flush_stage, next_tile, redirect_to_stage, staging_buffer
from xverify.kernels.compiled.vectors import CHUNK


def by_table(x, out, coding, zero, scale, offset, divides, runs, rows, position, streamed, shared, helps):
    """Store the entry of the table ``coding`` for each code.

    ``scale``, ``offset``, ``runs`` and ``rows`` are None.
    The caller has checked that the output shares no memory with an input.
    """
    stage, nothing = staging_buffer(out), 0 * position
    where = address(out), out.itemsize, out.size, position, streamed, entries_multiple(x, out)
    first, start, end, last, is_cut = nothing, nothing, nothing, nothing, False
    while True:
        if first == last:
            first, start, end, last, is_cut = next_tile(where, shared, last)
            if first == last:
                break
        past = start <= first < end
        stop = start if first < start else end if past else last
        to, begins, staging = out, first, past and is_cut
        if staging:
            stop, past = min(stop, first + STAGE), False
            to = redirect_to_stage(out, stage, first)
        first += put_entries(x, to, first, stop - first, coding, past)
        while first < stop:
            put(to, first, get(coding, get(x, first)))
            first += 1
        if staging:
            flush_stage(out, stage, begins, stop)
    if shared != 0 and not helps:
        wait_for_others(shared)
    return True


def of_one(x, out, coding, zero, scale, offset, divides, runs, rows, position, streamed, shared, helps):
    """One scale and offset for all elements."""
    if shared == 0 and overlaps(out, x, scale, offset):
        return False
    own_scale, own_offset = value_of_scale(get(scale, 0), zero), value_of_offset(offset, 0, coding, zero)
    nothing = 0 * position
    where = address(out), out.itemsize, out.size, position, streamed, 1 + nothing
    first, start, end, last = nothing, nothing, nothing, nothing
    while True:
        if first == last:
            first, start, end, last, _ = next_tile(where, shared, last)
            if first == last:
                break
        past = start <= first < end
        stop = start if first < start else end if past else last
        count = stop - first
        first += put_long(x, out, first, count, coding, own_scale, own_offset, divides, scale, offset, past)
        usual = gives_normals(own_scale, divides)
        if stop - first >= LONG_RUN:
            table = value_table(x, out, coding)
            if table != 0:
                for _ in range((stop - first) // (4 * CHUNK)):
                    put_four_chunks(
                        x, out, first, coding, own_scale, own_offset, own_scale, own_offset, divides, scale, offset,
                        table, past, usual,
                    )  # fmt: skip
                    first += 4 * CHUNK
        for _ in range((stop - first) // (2 * CHUNK)):
            put_two_chunks(x, out, first, coding, own_scale, own_offset, divides, scale, offset, past, usual)
            first += 2 * CHUNK
        if first + CHUNK <= stop:
            put_chunk(x, out, first, coding, own_scale, own_offset, divides, scale, offset, past)
            first += CHUNK
        if first < stop:
            put_rest(x, out, first, coding, own_scale, own_offset, divides, scale, offset, stop - first)
            first = stop
    if shared != 0 and not helps:
        wait_for_others(shared)
    return True


def by_runs(x, out, coding, zero, scale, offset, divides, runs, rows, position, streamed, shared, helps):
    """A scale and offset for each run of elements."""
    if shared == 0 and overlaps(out, x, scale, offset):
        return False
    origin, line, run, stride = runs
    chunks = run // CHUNK
    numbers = parameter_cache(zero)
    multiple = CHUNK if line % CHUNK == 0 and run % CHUNK == 0 else 0
    stage, nothing = staging_buffer(out), 0 * position
    where = address(out), out.itemsize, out.size, position, streamed, multiple
    first, start, end, last, is_cut = nothing, nothing, nothing, nothing, False
    while True:
        if first == last:
            first, start, end, last, is_cut = next_tile(where, shared, last)
            if first == last:
                break
        past = start <= first < end
        stop = start if first < start else end if past else last
        to, begins, staging = out, first, past and is_cut
        if staging:
            stop, past = min(stop, first + STAGE), False
            to = redirect_to_stage(out, stage, first)
        lines = (position + first) // line
        within = position + first - lines * line
        block = within // run
        ahead = within - block * run  # elements of the run before the first
        table = 0
        if stop - first >= LONG_RUN and chunks >= 2:
            table = value_table(x, out, coding)
        while first < stop:
            parameter = lines * stride + block - origin
            left = min(line - within, stop - first)
            before = first
            if ahead == 0 and left >= 2 * run and run % CHUNK == 0 and run < LONG_RUN:
                # Runs of whole chunks with adjacent parameters: the common case, so without a branch.
                whole = left // run
                block += whole
                while whole > 0:
                    count = min(RUNS_AT_ONCE, whole)
                    usual = True
                    for i in range(0, count, CHUNK):
                        if i + CHUNK <= count:
                            usual &= cache_chunk(numbers, i, coding, zero, divides, scale, offset, parameter + i)
                            continue
                        for j in range(i, count):
                            own_scale = value_of_scale(get(scale, parameter + j), zero)
                            usual &= gives_normals(own_scale, divides)
                            cache_value(numbers, j, own_scale)
                            cache_value(numbers, CACHED + j, value_of_offset(offset, parameter + j, coding, zero))
                    done = 0
                    if table != 0 and (chunks == 2 or chunks % 4 == 0):
                        # Four chunks at once: of two runs, or of one.
                        more = 1 if chunks == 2 else 0
                        for i in range(0, count - more, 1 + more):
                            own_scale, own_offset = (
                                cached_value(numbers, i, zero),
                                cached_value(numbers, CACHED + i, zero),
                            )
                            j = i + more
                            other_scale, other_offset = (
                                cached_value(numbers, j, zero),
                                cached_value(numbers, CACHED + j, zero),
                            )
                            for _ in range((chunks + 3) // 4):
                                put_four_chunks(
                                    x, to, first, coding, own_scale, own_offset, other_scale, other_offset, divides,
                                    scale, offset, table, past, usual,
                                )  # fmt: skip
                                first += 4 * CHUNK
                            done = i + 1 + more
                    for i in range(done, count):
                        own_scale, own_offset = cached_value(numbers, i, zero), cached_value(numbers, CACHED + i, zero)
                        # Two chunks, the usual block of 4-bit weights: a loop would cost as much as its body.
                        if chunks == 2:
                            put_two_chunks(
                                x, to, first, coding, own_scale, own_offset, divides, scale, offset, past, usual
                            )
                            first += 2 * CHUNK
                            continue
                        for _ in range(chunks // 2):
                            put_two_chunks(
                                x, to, first, coding, own_scale, own_offset, divides, scale, offset, past, usual
                            )
                            first += 2 * CHUNK
                        if chunks % 2 == 1:
                            put_chunk(x, to, first, coding, own_scale, own_offset, divides, scale, offset, past)
                            first += CHUNK
                    parameter += count
                    whole -= count
            else:
                count = min(run - ahead, left)
                block += 1
                own_scale = value_of_scale(get(scale, parameter), zero)
                own_offset = value_of_offset(offset, parameter, coding, zero)
                until = first + count
                first += put_long(x, to, first, count, coding, own_scale, own_offset, divides, scale, offset, past)
                usual = gives_normals(own_scale, divides)
                if table != 0:
                    for _ in range((until - first) // (4 * CHUNK)):
                        put_four_chunks(
                            x, to, first, coding, own_scale, own_offset, own_scale, own_offset, divides, scale, offset,
                            table, past, usual,
                        )  # fmt: skip
                        first += 4 * CHUNK
                for _ in range((until - first) // (2 * CHUNK)):
                    put_two_chunks(x, to, first, coding, own_scale, own_offset, divides, scale, offset, past, usual)
                    first += 2 * CHUNK
                if first + CHUNK <= until:
                    put_chunk(x, to, first, coding, own_scale, own_offset, divides, scale, offset, past)
                    first += CHUNK
                if first < until:
                    put_rest(x, to, first, coding, own_scale, own_offset, divides, scale, offset, until - first)
                    first = until
            ahead = 0
            within += first - before
            if within == line:
                within, block = 0, 0
                lines += 1
        if staging:
            flush_stage(out, stage, begins, stop)
    if shared != 0 and not helps:
        wait_for_others(shared)
    return True


def by_rows(x, out, coding, zero, scale, offset, divides, runs, rows, position, streamed, shared, helps):
    """A scale and offset for each element of a row."""
    if shared == 0 and overlaps(out, x, scale, offset):
        return False
    origin, row, rows_of_line, run, stride = rows
    numbers, whole, ahead = parameter_cache(zero), row - row % (4 * CHUNK), max(row, CACHED)
    multiple = CHUNK if row % CHUNK == 0 else 0
    stage, nothing = staging_buffer(out), 0 * position
    where = address(out), out.itemsize, out.size, position, streamed, multiple
    first, start, end, last, is_cut = nothing, nothing, nothing, nothing, False
    while True:
        if first == last:
            first, start, end, last, is_cut = next_tile(where, shared, last)
            if first == last:
                break
        past = start <= first < end
        stop = start if first < start else end if past else last
        to, begins, staging = out, first, past and is_cut
        if staging:
            stop, past = min(stop, first + STAGE), False
            to = redirect_to_stage(out, stage, first)
        number_of_row = (position + first) // row
        within = position + first - number_of_row * row
        line = number_of_row // rows_of_line
        of_line = number_of_row - line * rows_of_line
        block = of_line // run
        of_run = of_line - block * run
        ready = nothing
        table = 0
        if stop - first >= LONG_RUN and whole > 0:
            table = value_table(x, out, coding)
        while first < stop:
            parameter = (line * stride + block) * row + within - origin
            if within == 0 and ready == 0 and caches_rows(x, out, coding, zero, table):
                # Rows that share their parameters, without the last columns of each: as many at once as the cache has room for.
                ready = (stop - first) // row
                if stride != 0 or run < rows_of_line:
                    ready = min(ready, rows_of_line - of_line, run - of_run)
                if row > CACHED:
                    ready = min(ready, ROWS_AT_ONCE)
                if ready == 1:
                    ready = 0
                for column in range(0, whole if ready > 0 else 0, CACHED):
                    width = min(whole - column, CACHED)
                    usual = True
                    for i in range(0, width, 2 * CHUNK):
                        at = parameter + column + i
                        usual &= cache_columns(x, out, numbers, i, coding, zero, divides, scale, offset, at)
                    for number in range(ready):
                        begin = first + number * row + column
                        for i in range(0, width, 4 * CHUNK):
                            put_cached_row(
                                x, to, begin + i, coding, zero, divides, scale, offset, numbers, i, table, ahead, past,
                                usual,
                            )  # fmt: skip
            if ready > 0:
                ready -= 1
                within = whole
                first += whole
                parameter += whole
            count = min(row - within, stop - first)
            for _ in range(count // (2 * CHUNK)):
                put_two_chunks_of_row(x, to, first, coding, zero, divides, scale, offset, parameter, past)
                first += 2 * CHUNK
                parameter += 2 * CHUNK
            if count & CHUNK:
                put_chunk_of_row(x, to, first, coding, zero, divides, scale, offset, parameter, past)
                first += CHUNK
                parameter += CHUNK
            rest = count % CHUNK
            if rest > 0:
                put_rest_of_row(x, to, first, coding, zero, divides, scale, offset, parameter, rest)
                first += rest
            within = 0
            of_line += 1
            of_run += 1
            if of_run == run:
                of_run = 0
                block += 1
            if of_line == rows_of_line:
                of_line, of_run, block = 0, 0, 0
                line += 1
        if staging:
            flush_stage(out, stage, begins, stop)
    if shared != 0 and not helps:
        wait_for_others(shared)
    return True


COMBINED, FIRST, SYMMETRIC = 0, 1, 2
"""The modes MIN_COMBINED, MIN_FIRST, and SCALED of the edition ``@seed``."""

_RANGE_NOISE = 2.0**-50


@njit(error_model="numpy")
def _code_value(x, i, coding, like):
    return value_of_code(get(x, i), coding, like) - origin_of_coding(coding, like)


@njit(error_model="numpy")
def _min_combined(x, i, out, to, doubtful, coding, constants, low, high):
    half, levels = constants
    count = _code_value(x, i, coding, low) + half
    below, above = low * (levels - count), high * count
    total = below + above
    estimate = total / levels + 0.0
    magnitude = abs(total) if levels < 65536.0 else abs(below) + abs(above)
    bound = magnitude * (_RANGE_NOISE / levels)
    if not (np.isfinite(low) and np.isfinite(high)):
        estimate = low + count * (high - low) / levels
        bound = 0.0
    least = round_element(estimate - bound, out)
    put(out, to, least)
    put(doubtful, to, differ(least, round_element(estimate + bound, out)))


@njit(error_model="numpy")
def _min_first(x, i, out, to, doubtful, coding, constants, low, high):
    lowest, values = constants
    step = (high - low) * (values / (values - 1.0)) / values
    put(out, to, round_element(low + (_code_value(x, i, coding, low) - lowest) * step, out))


@njit(error_model="numpy")
def _scaled_symmetric(x, i, out, to, doubtful, coding, constants, low, high):
    _, buckets = constants
    # Like NumPy's maximum: a NaN in either is the result.
    largest = abs(low) if abs(low) > abs(high) or np.isnan(low) else abs(high)
    estimate = _code_value(x, i, coding, low) * (2.0 * largest) / buckets
    bound = abs(estimate) * _RANGE_NOISE if np.isfinite(largest) else 0.0
    least = round_element(estimate - bound, out)
    put(out, to, least)
    put(doubtful, to, differ(least, round_element(estimate + bound, out)))


@njit(error_model="numpy")
def _range_of_one(x, first, count, out, to, doubtful, coding, mode, constants, low, high):
    """``count`` elements with one range."""
    if mode == COMBINED:
        for i in range(count):
            _min_combined(x, first + i, out, to + i, doubtful, coding, constants, low, high)
    elif mode == FIRST:
        for i in range(count):
            _min_first(x, first + i, out, to + i, doubtful, coding, constants, low, high)
    else:
        for i in range(count):
            _scaled_symmetric(x, first + i, out, to + i, doubtful, coding, constants, low, high)


def _range_by_runs(x, out, doubtful, coding, mode, constants, low, high, runs, row, position):
    line, run = runs
    first, within = 0, position % line
    while first < x.size:
        count = min(run - within % run, x.size - first)
        place = within // run
        _range_of_one(x, first, count, out, first, doubtful, coding, mode, constants, get(low, place), get(high, place))
        first += count
        within = (within + count) % line


def _range_by_rows(x, out, doubtful, coding, mode, constants, low, high, runs, row, position):
    first, within = 0, position % row
    while first < x.size:
        count = min(row - within, x.size - first)
        if mode == COMBINED:
            for i in range(count):
                ends = get(low, within + i), get(high, within + i)
                _min_combined(x, first + i, out, first + i, doubtful, coding, constants, ends[0], ends[1])
        elif mode == FIRST:
            for i in range(count):
                ends = get(low, within + i), get(high, within + i)
                _min_first(x, first + i, out, first + i, doubtful, coding, constants, ends[0], ends[1])
        else:
            for i in range(count):
                ends = get(low, within + i), get(high, within + i)
                _scaled_symmetric(x, first + i, out, first + i, doubtful, coding, constants, ends[0], ends[1])
        first += count
        within = 0


def _range_values(x, out, doubtful, coding, mode, constants, low, high, runs, row, position):
    raise NotImplementedError


@overload(_range_values)
def _range_version(x, out, doubtful, coding, mode, constants, low, high, runs, row, position):
    return _range_by_rows if isinstance(runs, types.NoneType) else _range_by_runs


def by_range(x, out, doubtful, coding, mode, constants, low, high, runs, row, position):
    """Store the values of a mode of TensorFlow's Dequantize, and flag those that float64 does not decide.

    An exact value that is rounded once lies between estimate - bound and estimate + bound. If both round to the same
    element, that
    is the value. If not, ``doubtful`` gets a 1. The arithmetic is that of `xverify.kernels.range_formula`.

    ``low`` and ``high`` are float64. ``runs`` (line, run): every ``run`` elements of a line have a range, and all
    lines have the same
    ranges. ``row``: that many elements have a range each, and the ranges then repeat. Other arguments: as for other
    loops.

    ``constants``: two numbers. For MIN_COMBINED the amount to add to a code, and 2^bits - 1; for MIN_FIRST the lowest
    code, and
    2^bits; for SCALED an unused number, and the extent of the fixed range.
    """
    _range_values(x, out, doubtful, coding, mode, constants, low, high, runs, row, position)
