"""Scales and offsets that serve many elements each: converted once, and kept as numbers while they do, as LLVM instructions."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from xverify.kernels.compiled.chunks import normals_at, parameters_at
from xverify.kernels.compiled.results import all_of
from xverify.kernels.compiled.scalars import LINE, Generated
from xverify.kernels.compiled.vectors import I1, I64, room_for

ROOM = 4096
"""Numbers of scales that are kept, and as many of offsets: few enough to stay in a core's first cache with what is read and
written meanwhile."""

TOGETHER = 32
"""Rows that are done together where they are longer than ROOM: enough for what is done once to be little beside, few enough for
their codes to be found near."""

KEPT = 128
"""Scales and offsets of short runs that are converted together. A number that was just written in a vector with others is slow to
read alone, so these are many."""


@intrinsic  # type: ignore[untyped-decorator]
def room(context: Any, like: Any) -> Generated:
    """The address of room for the numbers of ROOM scales, and then of as many offsets, in the float type of ``like``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ptrtoint(room_for(builder, arguments[0].type, 2 * ROOM, LINE), I64)

    return types.int64(like), generate


@intrinsic  # type: ignore[untyped-decorator]
def keep_chunk(
    context: Any, room: Any, place: Any, coding: Any, zero: Any, divides: Any, scales: Any, offsets: Any, parameter: Any
) -> Generated:
    """Put the numbers of scales[parameter] and on, CHUNK of them, in a room from that place on, and of the offsets. Returns what
    `gives_normals` says of all these scales."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        room_, place_, coding_, zero_, _, scales_, offsets_, parameter_ = arguments
        scale, offset = parameters_at(
            context, builder, coding_, zero_.type, scales, scales_, offsets, offsets_, parameter_
        )
        known = normals_at(context, builder, scales, scales_, parameter_, divides)
        first = builder.inttoptr(room_, scale.type.element.as_pointer())
        for part, numbers in enumerate((scale, offset)):
            at = builder.gep(first, [builder.add(place_, ir.Constant(I64, part * ROOM))])
            builder.store(numbers, builder.bitcast(at, scale.type.as_pointer()), align=4)
        if known is None:
            return ir.Constant(I1, 0)
        return all_of(builder, known)

    return types.boolean(room, types.intp, coding, zero, divides, scales, offsets, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def keep(context: Any, room: Any, place: Any, number: Any) -> Generated:
    """Put one number in a room: a scale, or from ROOM on an offset."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        room_, place_, number_ = arguments
        builder.store(number_, builder.gep(builder.inttoptr(room_, number_.type.as_pointer()), [place_]))
        return context.get_dummy_value()

    return types.void(room, types.intp, number), generate


@intrinsic  # type: ignore[untyped-decorator]
def kept(context: Any, room: Any, place: Any, like: Any) -> Generated:
    """The number at that place of a room."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        room_, place_, like_ = arguments
        return builder.load(builder.gep(builder.inttoptr(room_, like_.type.as_pointer()), [place_]))

    return like(room, types.intp, like), generate
