"""The compiled loops. A call writes one piece of a tensor: ``x`` and ``out`` are flat, contiguous and of as many elements.

``x`` and ``offset`` may hold packed codes (`flat.Packed`): places in them are counted in codes all the same.

Types of arguments choose between versions (None is one): few functions, each with as many signatures as are used, which Numba
keeps.

``coding``: how codes become numbers (`codings.Coding.fields`), or an array of results for each byte, where ``scale`` is None.
``zero``: 0.0 in the type in which the arithmetic is done, float32 or float64. ``scale``: an array of float32, or of the codes of
float16 (uint16) or bfloat16 (int16), flat or of rank 0. ``offset``: a number, or an array of numbers of zero's type, or of codes
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

from numba import njit, types
from numba.extending import overload

from xverify.kernels.compiled.chunks import (
    KEPT,
    gives_normals,
    keep,
    keep_chunk,
    kept,
    put_chunk,
    put_chunk_of_row,
    put_rest,
    put_rest_of_row,
    put_two_chunks,
    room,
    two_past_caches,
)  # fmt: skip
from xverify.kernels.compiled.numbers import numbers_of_codes, put_four_chunks
from xverify.kernels.compiled.scalars import (
    LINE,
    address,
    get,
    number,
    origin,
    put,
    scale_number,
    settle,
)
from xverify.kernels.compiled.sharing import finish, linger, listen, take
from xverify.kernels.compiled.tables import LONG, pays, put_entries, put_long
from xverify.kernels.compiled.vectors import CHUNK


def _offset(offset, i, coding, zero):
    """A zero point as `number` gives it."""
    raise NotImplementedError


@overload(_offset)
def _offset_version(offset, i, coding, zero):
    if isinstance(offset, types.Float):
        return lambda offset, i, coding, zero: origin(coding, zero)
    if isinstance(offset.dtype, types.Float):
        return lambda offset, i, coding, zero: get(offset, i) + origin(coding, zero)
    return lambda offset, i, coding, zero: number(get(offset, i), coding, zero)


def _look_up(x, first, stop, out, to, coding, zero, scale, offset, divides, runs, rows, position, past):
    done = put_entries(x, first, stop - first, out, to, coding, past)
    for i in range(done, stop - first):
        put(out, to + i, get(coding, get(x, first + i)))


def _whole(x, first, stop, out, to, coding, zero, scale, offset, divides, runs, rows, position, past):
    own_scale = scale_number(get(scale, 0), zero)
    own_offset = _offset(offset, 0, coding, zero)
    count = stop - first
    done = put_long(x, first, count, out, to, coding, own_scale, own_offset, divides, scale, offset, past)
    first += done
    to += done
    past_two, usual = two_past_caches(out, to, past), gives_normals(own_scale, divides)
    if stop - first >= LONG:
        table = numbers_of_codes(x, out, coding)
        if table != 0:
            for _ in range((stop - first) // (4 * CHUNK)):
                put_four_chunks(
                    x, first, out, to, coding, own_scale, own_offset, own_scale, own_offset, divides, scale, offset,
                    table, past_two, usual,
                )  # fmt: skip
                first += 4 * CHUNK
                to += 4 * CHUNK
    for _ in range((stop - first) // (2 * CHUNK)):
        put_two_chunks(x, first, out, to, coding, own_scale, own_offset, divides, scale, offset, past_two, usual)
        first += 2 * CHUNK
        to += 2 * CHUNK
    if first + CHUNK <= stop:
        put_chunk(x, first, out, to, coding, own_scale, own_offset, divides, scale, offset, past)
        first += CHUNK
        to += CHUNK
    if first < stop:
        put_rest(x, first, out, to, coding, own_scale, own_offset, divides, scale, offset, stop - first)


@njit(error_model="numpy")
def _all_runs(x, first, stop, out, to, coding, zero, scale, offset, divides, runs, position, streamed):
    """streamed: only where ``to`` and all that the runs are cut into are multiples of CHUNK.

    In one function, since Numba has LLVM optimise each that is called once more.
    """
    origin, line, run, stride = runs
    lines = position // line
    within = position - lines * line
    block = within // run
    ahead = within - block * run  # of the run, elements before the first
    chunks = run // CHUNK
    numbers = room(zero)
    table = 0
    if stop - first >= LONG and chunks >= 2:
        table = numbers_of_codes(x, out, coding)
    while first < stop:
        parameter = lines * stride + block - origin
        left = min(line - within, stop - first)
        begins = first
        if ahead == 0 and left >= 2 * run and run % CHUNK == 0 and run < LONG:
            # Runs of whole chunks one after the other, as their parameters are: most of what there is, so without a branch.
            whole = left // run
            block += whole
            while whole > 0:
                count = min(KEPT, whole)
                usual = True
                for i in range(0, count, CHUNK):
                    if i + CHUNK <= count:
                        usual &= keep_chunk(numbers, i, coding, zero, divides, scale, offset, parameter + i)
                        continue
                    for j in range(i, count):
                        own_scale = scale_number(get(scale, parameter + j), zero)
                        usual &= gives_normals(own_scale, divides)
                        keep(numbers, j, own_scale)
                        keep(numbers, KEPT + j, _offset(offset, parameter + j, coding, zero))
                past_two = two_past_caches(out, to, streamed)
                begun = 0
                if table != 0 and (chunks == 2 or chunks % 4 == 0):
                    # Four chunks at once: of two runs, or of one.
                    more = 1 if chunks == 2 else 0
                    for i in range(0, count - more, 1 + more):
                        own_scale, own_offset = kept(numbers, i, zero), kept(numbers, KEPT + i, zero)
                        other_scale, other_offset = kept(numbers, i + more, zero), kept(numbers, KEPT + i + more, zero)
                        for _ in range((chunks + 3) // 4):
                            put_four_chunks(
                                x, first, out, to, coding, own_scale, own_offset, other_scale, other_offset, divides,
                                scale, offset, table, past_two, usual,
                            )  # fmt: skip
                            first += 4 * CHUNK
                            to += 4 * CHUNK
                        begun = i + 1 + more
                for i in range(begun, count):
                    own_scale, own_offset = kept(numbers, i, zero), kept(numbers, KEPT + i, zero)
                    if chunks == 2:  # as most files of 4-bit weights have them: a loop would cost as much as it does
                        put_two_chunks(
                            x, first, out, to, coding, own_scale, own_offset, divides, scale, offset, past_two, usual
                        )
                        first += 2 * CHUNK
                        to += 2 * CHUNK
                        continue
                    for _ in range(chunks // 2):
                        put_two_chunks(
                            x, first, out, to, coding, own_scale, own_offset, divides, scale, offset, past_two, usual
                        )
                        first += 2 * CHUNK
                        to += 2 * CHUNK
                    if chunks % 2 == 1:
                        put_chunk(x, first, out, to, coding, own_scale, own_offset, divides, scale, offset, streamed)
                        first += CHUNK
                        to += CHUNK
                        past_two = two_past_caches(out, to, streamed)
                parameter += count
                whole -= count
        else:
            count = min(run - ahead, left)
            block += 1
            own_scale = scale_number(get(scale, parameter), zero)
            own_offset = _offset(offset, parameter, coding, zero)
            end = first + count
            done = put_long(x, first, count, out, to, coding, own_scale, own_offset, divides, scale, offset, streamed)
            first += done
            to += done
            past_two, usual = two_past_caches(out, to, streamed), gives_normals(own_scale, divides)
            if table != 0:
                for _ in range((end - first) // (4 * CHUNK)):
                    put_four_chunks(
                        x, first, out, to, coding, own_scale, own_offset, own_scale, own_offset, divides, scale, offset,
                        table, past_two, usual,
                    )  # fmt: skip
                    first += 4 * CHUNK
                    to += 4 * CHUNK
            for _ in range((end - first) // (2 * CHUNK)):
                put_two_chunks(
                    x, first, out, to, coding, own_scale, own_offset, divides, scale, offset, past_two, usual
                )
                first += 2 * CHUNK
                to += 2 * CHUNK
            if first + CHUNK <= end:
                put_chunk(x, first, out, to, coding, own_scale, own_offset, divides, scale, offset, streamed)
                first += CHUNK
                to += CHUNK
            if first < end:
                put_rest(x, first, out, to, coding, own_scale, own_offset, divides, scale, offset, end - first)
                to += end - first
                first = end
        ahead = 0
        within += first - begins
        if within == line:
            within, block = 0, 0
            lines += 1


def _by_runs(x, first, stop, out, to, coding, zero, scale, offset, divides, runs, rows, position, past):
    _all_runs(x, first, stop, out, to, coding, zero, scale, offset, divides, runs, position, past)


def _by_rows(x, first, stop, out, to, coding, zero, scale, offset, divides, runs, rows, position, past):
    origin, row, rows_of_line, run, stride = rows
    number_of_row = position // row
    within = position - number_of_row * row
    line = number_of_row // rows_of_line
    of_line = number_of_row - line * rows_of_line
    shared = of_line // run
    of_run = of_line - shared * run
    while first < stop:
        parameter = (line * stride + shared) * row + within - origin
        count = min(row - within, stop - first)
        for _ in range(count // CHUNK):
            put_chunk_of_row(x, first, out, to, coding, zero, divides, scale, offset, parameter, past)
            first += CHUNK
            to += CHUNK
            parameter += CHUNK
        rest = count % CHUNK
        if rest > 0:
            put_rest_of_row(x, first, out, to, coding, zero, divides, scale, offset, parameter, rest)
            first += rest
            to += rest
        within = 0
        of_line += 1
        of_run += 1
        if of_run == run:
            of_run = 0
            shared += 1
        if of_line == rows_of_line:
            of_line, of_run, shared = 0, 0, 0
            line += 1


def _fill(x, first, stop, out, to, coding, zero, scale, offset, divides, runs, rows, position, past):
    """Write out[to:] from x[first:stop]; the first element is at ``position``. past: see `linear`."""
    raise NotImplementedError


@overload(_fill)
def _version(x, first, stop, out, to, coding, zero, scale, offset, divides, runs, rows, position, past):
    if isinstance(scale, types.NoneType):
        return _look_up
    if scale.ndim == 0:
        return _whole
    return _by_rows if isinstance(runs, types.NoneType) else _by_runs


def _is_direct(x, out, scale, runs, rows, start):
    """Whether what begins at ``start`` is cut into whole chunks alone, which can be stored past the caches at once."""
    raise NotImplementedError


@overload(_is_direct)
def _is_direct_version(x, out, scale, runs, rows, start):
    if isinstance(scale, types.NoneType):
        answer = pays(x.dtype, out.dtype)
        return lambda x, out, scale, runs, rows, start: answer
    if scale.ndim == 0:
        return lambda x, out, scale, runs, rows, start: True
    if isinstance(runs, types.NoneType):
        return lambda x, out, scale, runs, rows, start: rows[1] % CHUNK == 0 and start % CHUNK == 0
    return lambda x, out, scale, runs, rows, start: runs[1] % CHUNK == 0 and runs[2] % CHUNK == 0 and start % CHUNK == 0


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


def linear(x, out, coding, zero, scale, offset, divides, runs, rows, position, streamed, shared, helps):
    """Write (x - offset) * scale, or / scale, each exact and rounded once; with a scale of None, the table's entries.

    streamed: the output is stored past the caches, from its first cache line's start to its last whole chunk, where chunks are
    whole; through them, which takes half as long again, where runs or rows cut chunks.
    shared: 0 for all of it, or where `sharing` finds which pieces are left to do; helps: whether for another thread's call.

    Returns whether it did; nothing is written where the output shares memory with an input, which is not asked of ``shared``.
    """
    heard, first, stop = 0, 0, out.size
    if shared != 0:
        heard = listen(shared)
        first, stop = take(shared)
    elif _meets(out, x) or _meets(out, scale) or _meets(out, offset):
        return False
    while first < stop:
        start, end = first, first
        if streamed:
            before = min(stop - first, (-(address(out) + first * out.itemsize) % LINE) // out.itemsize)
            if _is_direct(x, out, scale, runs, rows, position + first + before):
                start, end = first + before, stop - (stop - first - before) % CHUNK
        while first < stop:
            past, until = False, stop
            if first < start:
                until = start
            elif first < end:
                past, until = True, end
            _fill(x, first, until, out, first, coding, zero, scale, offset, divides, runs, rows, position + first, past)
            first = until
        if streamed:
            settle()
        if shared != 0:
            finish(shared)
            first, stop = take(shared)
    if shared != 0:
        linger(shared, helps, heard)
    return True
