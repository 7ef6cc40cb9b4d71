"""Several threads share the pieces of one call: which are taken and which are done is in memory that all of them see, so that
none needs the interpreter between two pieces, and a thread that waits for another, or for the next call, is there at once.

``shared``: the address of int64 words, each at its place below, of which the last are where the pieces begin and end.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from xverify.kernels.compiled.scalars import Generated
from xverify.kernels.compiled.vectors import I64, is_x86, of_x86

NEXT, LEFT, COUNT, BELL, WAITS, ENDS = range(0, 48, 8)
"""The next piece; pieces that are not done; all of them; the address of the word that changes as a call begins; whether the
caller has gone to sleep. In bytes."""

PATIENCE = 4096
"""How often a thread that has nothing to do looks before it sleeps: about 0.2 ms, in which a caller comes with the next of many
calls, and in which nobody is late who is not kept from running."""


@intrinsic
def add(context: Any, address: Any, number: Any) -> Generated:
    """Add to the word at an address at once, and give what was there."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = builder.inttoptr(arguments[0], I64.as_pointer())
        return builder.atomic_rmw("add", word, arguments[1], "seq_cst")

    return types.int64(types.int64, types.int64), generate


@intrinsic
def look(context: Any, address: Any) -> Generated:
    """The word at an address, as it is now."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(builder.inttoptr(arguments[0], I64.as_pointer()), "seq_cst", 8)

    return types.int64(types.int64), generate


@intrinsic
def pause(context: Any) -> Generated:
    """Leave the core's other thread what a moment of waiting would take of it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if is_x86():
            of_x86(builder, "sse2.pause", ir.VoidType())
        return context.get_dummy_value()

    return types.void(), generate


@njit(error_model="numpy")
def listen(shared):
    """What the bell says: it changes when a call begins."""
    return look(look(shared + BELL))


@njit(error_model="numpy")
def take(shared):
    """Where the next piece begins and ends: 0, 0 when all are taken. The first taken is told to those who listen."""
    number = add(shared + NEXT, 1)
    if number == 0:
        add(look(shared + BELL), 1)
    if number >= look(shared + COUNT):
        return 0, 0
    place = shared + ENDS + 8 * number
    return look(place), look(place + 8)


@njit(error_model="numpy")
def finish(shared):
    """Say that a piece is done."""
    add(shared + LEFT, -1)


@njit(error_model="numpy")
def linger(shared, helps, heard):
    """Wait a while: a caller for the pieces that others have, a helper for the next call, unless this one's caller waits for it.

    heard: what the bell said when it began.
    """
    for _ in range(PATIENCE):
        if helps:
            if listen(shared) != heard or look(shared + WAITS) != 0:
                return
        elif look(shared + LEFT) == 0:
            return
        pause()
