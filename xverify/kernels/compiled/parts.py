"""Which elements a loop writes next: pieces that threads share, or all, each cut where stores past the caches begin and end."""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

from numba import njit

from xverify.kernels.compiled.scalars import LINE, PART, settle
from xverify.kernels.compiled.sharing import finish, take
from xverify.kernels.compiled.staging import ALL
from xverify.kernels.compiled.vectors import CHUNK


@njit(error_model="numpy")
def piece(where, shared, last):
    """The next piece: its first element, where what is stored past the caches begins and ends, where the piece ends, and whether
    chunks are cut in what is stored so, which is put together first then (`staging`). An empty one where none is left.

    where: the address of out[0], the bytes of an element, the number of elements, the place in the tensor of the first,
    ``streamed`` as `loops` have it, and of what number the place of the first one that is stored past the caches must be a
    multiple for none to be cut: 0 where some are in any case. shared: as `sharing` has it, or 0 where one thread writes all.
    last: where the piece ends that is done, or 0.
    """
    target, itemsize, size, position, streamed, multiple = where
    is_first = last == 0
    if streamed != 0 and not is_first:
        settle()
    first = last
    if shared != 0:
        if not is_first:
            finish(shared)
        first, last = take(shared)
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
