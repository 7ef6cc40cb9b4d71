"""Which elements a loop writes next: pieces that threads share, or all, each cut where stores past the caches begin and end."""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

from numba import njit

from xverify.kernels.compiled.scalars import LINE, PART, settle
from xverify.kernels.compiled.sharing import finish, take
from xverify.kernels.compiled.vectors import CHUNK


@njit(error_model="numpy")
def piece(where, shared, is_first, last):
    """The next piece: its first element, where what is stored past the caches begins and ends, and where the piece ends. An empty
    one where none is left.

    where: the address of out[0], the bytes of an element, the number of elements, the place in the tensor of the first, and of
    what number the place of the first one that is stored past the caches must be a multiple: 0 where none is stored so. shared:
    as `sharing` has it, or 0 where one thread writes all. last: where the piece ends that is done, unless this is the first.
    """
    target, itemsize, size, position, multiple = where
    if multiple != 0 and not is_first:
        settle()
    first = last
    if shared != 0:
        if not is_first:
            finish(shared)
        first, last = take(shared)
    elif is_first:
        first, last = 0, size
    start, end = first, first
    if multiple != 0:
        begins = target + first * itemsize
        before = min(last - first, (-begins % LINE) // itemsize)
        if (position + first + before) % multiple != 0:
            before = min(last - first, (-begins % PART) // itemsize)
        if (position + first + before) % multiple == 0:
            start, end = first + before, last - (last - first - before) % CHUNK
    return first, start, end, last
