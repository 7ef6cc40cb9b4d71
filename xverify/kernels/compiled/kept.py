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
        arrays = scales, scales_, offsets, offsets_
        return keep_numbers(context, builder, room_, place_, coding_, zero_.type, divides, arrays, parameter_)

    return types.boolean(room, types.intp, coding, zero, divides, scales, offsets, types.intp), generate


def keep_numbers(
    context: Any, builder: Any, room: Any, place: Any, coding: Any, real: Any, divides: Any, arrays: Any, parameter: Any
) -> Any:
    """As `keep_chunk`. real: the type of the numbers. arrays: scales and offsets, each Numba's type and what has it."""
    scales, scales_, offsets, offsets_ = arrays
    scale, offset = parameters_at(context, builder, coding, real, scales, scales_, offsets, offsets_, parameter)
    known = normals_at(context, builder, scales, scales_, parameter, divides)
    put_in_room(builder, room, place, (scale, offset))
    return ir.Constant(I1, 0) if known is None else all_of(builder, known)


def put_in_room(builder: Any, room: Any, place: Any, parameters: tuple[Any, Any]) -> None:
    """Put vectors of numbers of scales and of offsets in a room from that place on."""
    for numbers, address in zip(parameters, _addresses(builder, room, place, parameters[0].type), strict=True):
        builder.store(numbers, address, align=2)


def in_room(builder: Any, room: Any, place: Any, kind: Any) -> tuple[Any, Any]:
    """What was put there: vectors of that type."""
    scale, offset = (builder.load(address, align=2) for address in _addresses(builder, room, place, kind))
    return scale, offset


def _addresses(builder: Any, room: Any, place: Any, kind: Any) -> list[Any]:
    start = builder.inttoptr(room, kind.element.as_pointer())
    at = [builder.add(place, ir.Constant(I64, part)) for part in (0, ROOM)]
    return [builder.bitcast(builder.gep(start, [one]), kind.as_pointer()) for one in at]


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
