"""Several threads share the pieces of one call: which are taken and which are done is in memory that all of them see, so that
none needs the interpreter between two pieces, and a thread that waits for another, or for the next call, is there at once. A
caller waits until all others have left its call, since they hold its arrays as long.

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

NEXT, LEFT, COUNT, BELL, INSIDE, LOOKS, ENDS = range(0, 56, 8)
"""The next piece; pieces that are not done; all of them; the address of the word that changes as a call begins; how many other
threads are in the call; how often one that has nothing to do looks before it sleeps. In bytes."""


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
def linger(shared):
    """Wait a while for the pieces that others have, and for them to leave."""
    for _ in range(look(shared + LOOKS)):
        if look(shared + LEFT) == 0 and look(shared + INSIDE) == 0:
            return
        pause()


@njit(error_model="numpy")
def depart(shared, heard):
    """Leave a call, and wait a while for the next one: until the bell says something else than was heard.

    Both here, without the interpreter, which the caller needs as soon as all have left.
    """
    bell, looks = look(shared + BELL), look(shared + LOOKS)
    add(shared + INSIDE, -1)
    for _ in range(looks):
        if look(bell) != heard:
            return
        pause()
