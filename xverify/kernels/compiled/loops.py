"""The compiled loops. A call writes one piece of a tensor: ``x`` and ``out`` are flat, contiguous and of as many elements.

``x`` and ``offset`` may hold packed codes (`flat.Packed`): places in them are counted in codes all the same.

There is one loop for each way in which parameters serve elements (`linear.loop_of`), with as many signatures as are used, which
Numba keeps. Each is one function with all that it does, but for what is made of numbers alone (`parts`, `sharing`): what it calls
Numba has LLVM optimise by itself as well, and write instructions for it that nobody runs. So the lines that ask for pieces and
their parts stand in each loop: inlined by Numba from one place, they compile more slowly. ``nothing`` is 0, and no literal, of
which Numba would compile `parts.piece` once more.

``coding``: how codes become numbers (`codings.Coding.fields`), or an array of results for each byte, where ``scale`` is None.
``zero``: 0.0 in the type in which the arithmetic is done, float32 or float64. ``scale``: an array of float32, or of the codes of
float16 (uint16) or bfloat16 (int16), flat or of rank 0. ``offset``: a number, or an array of numbers of zero's type, or of codes
like those of x. ``divides``: None, or True. ``position``: where in the tensor, in C order, the piece begins.
Which element of the arrays serves which of x:

- where ``scale`` is of rank 0, the one that there is;
- ``runs`` (origin, line, run, stride): every ``run`` elements of a line of ``line`` have one parameter (the last may serve
  fewer); a line begins ``stride`` parameters after the one before;
- ``rows`` (origin, row, rows, run, stride): each element of a row of ``row`` has one of its own; ``rows`` rows make a line, each
  ``run`` of them share theirs, and a line begins ``stride`` rows of parameters after the one before.

``origin`` counts the parameters before the first that is given.

``streamed``: 0, or the output is stored past the caches, from its first cache line's start to its last whole chunk, or where that
is in the midst of a chunk of runs or rows, from the first PART of a line. With `staging.WHOLE` only where no chunk is cut by runs
or rows; with `staging.ALL` everywhere: what is cut is put together first.
``shared``: 0 for all of it, or where `sharing` finds which pieces are left to do; ``helps``: whether for another thread's call.

A loop returns whether it wrote (x - offset) * scale, or / scale, each exact and rounded once: nothing is written where the output
shares memory with an input, which is not asked of ``shared``.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

from xverify.kernels.compiled.chunks import gives_normals, put_chunk, put_rest, put_two_chunks
from xverify.kernels.compiled.kept import KEPT, ROOM, TOGETHER, keep, keep_chunk, kept, room
from xverify.kernels.compiled.numbers import numbers_of_codes, put_four_chunks
from xverify.kernels.compiled.parts import piece
from xverify.kernels.compiled.rows import (
    keep_columns,
    keeps_rows,
    put_chunk_of_row,
    put_kept_row,
    put_rest_of_row,
    put_two_chunks_of_row,
)
from xverify.kernels.compiled.scalars import address, get, meets, offset_number, put, scale_number
from xverify.kernels.compiled.sharing import linger
from xverify.kernels.compiled.staging import STAGE, put_staged, space, staged
from xverify.kernels.compiled.tables import LONG, entries_multiple, put_entries, put_long
from xverify.kernels.compiled.vectors import CHUNK


def looked_up(x, out, coding, zero, scale, offset, divides, runs, rows, position, streamed, shared, helps):
    """The entry of a table, ``coding``, for each code; ``scale``, ``offset`` and what else says where those are: None.
    Whether the output shares memory was asked before."""
    stage, nothing = space(out), 0 * position
    where = address(out), out.itemsize, out.size, position, streamed, entries_multiple(x, out)
    first, start, end, last, is_cut = nothing, nothing, nothing, nothing, False
    while True:
        if first == last:
            first, start, end, last, is_cut = piece(where, shared, last)
            if first == last:
                break
        past = start <= first < end
        stop = start if first < start else end if past else last
        to, begins, staging = out, first, past and is_cut
        if staging:
            stop, past = min(stop, first + STAGE), False
            to = staged(out, stage, first)
        first += put_entries(x, to, first, stop - first, coding, past)
        while first < stop:
            put(to, first, get(coding, get(x, first)))
            first += 1
        if staging:
            put_staged(out, stage, begins, stop)
    if shared != 0 and not helps:
        linger(shared)
    return True


def of_one(x, out, coding, zero, scale, offset, divides, runs, rows, position, streamed, shared, helps):
    """One scale, and one offset, for all elements."""
    if shared == 0 and meets(out, x, scale, offset):
        return False
    own_scale, own_offset = scale_number(get(scale, 0), zero), offset_number(offset, 0, coding, zero)
    nothing = 0 * position
    where = address(out), out.itemsize, out.size, position, streamed, 1 + nothing
    first, start, end, last = nothing, nothing, nothing, nothing
    while True:
        if first == last:
            first, start, end, last, _ = piece(where, shared, last)
            if first == last:
                break
        past = start <= first < end
        stop = start if first < start else end if past else last
        count = stop - first
        first += put_long(x, out, first, count, coding, own_scale, own_offset, divides, scale, offset, past)
        usual = gives_normals(own_scale, divides)
        if stop - first >= LONG:
            table = numbers_of_codes(x, out, coding)
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
        linger(shared)
    return True


def by_runs(x, out, coding, zero, scale, offset, divides, runs, rows, position, streamed, shared, helps):
    """A scale, and an offset, for the elements of a run."""
    if shared == 0 and meets(out, x, scale, offset):
        return False
    origin, line, run, stride = runs
    chunks = run // CHUNK
    numbers = room(zero)
    multiple = CHUNK if line % CHUNK == 0 and run % CHUNK == 0 else 0
    stage, nothing = space(out), 0 * position
    where = address(out), out.itemsize, out.size, position, streamed, multiple
    first, start, end, last, is_cut = nothing, nothing, nothing, nothing, False
    while True:
        if first == last:
            first, start, end, last, is_cut = piece(where, shared, last)
            if first == last:
                break
        past = start <= first < end
        stop = start if first < start else end if past else last
        to, begins, staging = out, first, past and is_cut
        if staging:
            stop, past = min(stop, first + STAGE), False
            to = staged(out, stage, first)
        lines = (position + first) // line
        within = position + first - lines * line
        block = within // run
        ahead = within - block * run  # of the run, elements before the first
        table = 0
        if stop - first >= LONG and chunks >= 2:
            table = numbers_of_codes(x, out, coding)
        while first < stop:
            parameter = lines * stride + block - origin
            left = min(line - within, stop - first)
            before = first
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
                            keep(numbers, ROOM + j, offset_number(offset, parameter + j, coding, zero))
                    done = 0
                    if table != 0 and (chunks == 2 or chunks % 4 == 0):
                        # Four chunks at once: of two runs, or of one.
                        more = 1 if chunks == 2 else 0
                        for i in range(0, count - more, 1 + more):
                            own_scale, own_offset = kept(numbers, i, zero), kept(numbers, ROOM + i, zero)
                            j = i + more
                            other_scale, other_offset = kept(numbers, j, zero), kept(numbers, ROOM + j, zero)
                            for _ in range((chunks + 3) // 4):
                                put_four_chunks(
                                    x, to, first, coding, own_scale, own_offset, other_scale, other_offset, divides,
                                    scale, offset, table, past, usual,
                                )  # fmt: skip
                                first += 4 * CHUNK
                            done = i + 1 + more
                    for i in range(done, count):
                        own_scale, own_offset = kept(numbers, i, zero), kept(numbers, ROOM + i, zero)
                        # Two, as most files of 4-bit weights have them: a loop would cost as much as it does.
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
                own_scale = scale_number(get(scale, parameter), zero)
                own_offset = offset_number(offset, parameter, coding, zero)
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
            put_staged(out, stage, begins, stop)
    if shared != 0 and not helps:
        linger(shared)
    return True


def by_rows(x, out, coding, zero, scale, offset, divides, runs, rows, position, streamed, shared, helps):
    """A scale, and an offset, for each element of a row."""
    if shared == 0 and meets(out, x, scale, offset):
        return False
    origin, row, rows_of_line, run, stride = rows
    numbers, whole, ahead = room(zero), row - row % (4 * CHUNK), max(row, ROOM)
    multiple = CHUNK if row % CHUNK == 0 else 0
    stage, nothing = space(out), 0 * position
    where = address(out), out.itemsize, out.size, position, streamed, multiple
    first, start, end, last, is_cut = nothing, nothing, nothing, nothing, False
    while True:
        if first == last:
            first, start, end, last, is_cut = piece(where, shared, last)
            if first == last:
                break
        past = start <= first < end
        stop = start if first < start else end if past else last
        to, begins, staging = out, first, past and is_cut
        if staging:
            stop, past = min(stop, first + STAGE), False
            to = staged(out, stage, first)
        number_of_row = (position + first) // row
        within = position + first - number_of_row * row
        line = number_of_row // rows_of_line
        of_line = number_of_row - line * rows_of_line
        block = of_line // run
        of_run = of_line - block * run
        ready = nothing
        table = 0
        if stop - first >= LONG and whole > 0:
            table = numbers_of_codes(x, out, coding)
        while first < stop:
            parameter = (line * stride + block) * row + within - origin
            if within == 0 and ready == 0 and keeps_rows(x, out, coding, zero, table):
                # Rows that share their parameters, but for the last columns of each: as many at once as there is room for.
                ready = (stop - first) // row
                if stride != 0 or run < rows_of_line:
                    ready = min(ready, rows_of_line - of_line, run - of_run)
                if row > ROOM:
                    ready = min(ready, TOGETHER)
                if ready == 1:
                    ready = 0
                for column in range(0, whole if ready > 0 else 0, ROOM):
                    width = min(whole - column, ROOM)
                    usual = True
                    for i in range(0, width, 2 * CHUNK):
                        at = parameter + column + i
                        usual &= keep_columns(x, out, numbers, i, coding, zero, divides, scale, offset, at)
                    for number in range(ready):
                        begin = first + number * row + column
                        for i in range(0, width, 4 * CHUNK):
                            put_kept_row(
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
            put_staged(out, stage, begins, stop)
    if shared != 0 and not helps:
        linger(shared)
    return True
