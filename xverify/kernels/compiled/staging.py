"""An output whose chunks are cut: put together in the core's own cache, so that whole lines of it are stored past the caches."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from xverify.kernels.compiled.memory import store
from xverify.kernels.compiled.scalars import LINE, Generated, data_of
from xverify.kernels.compiled.vectors import CHUNK, I1, I64, room_for

WHOLE, ALL = 1, 2
"""What is stored past the caches: where chunks are whole, or where they are cut as well."""

STAGE = 4096
"""Elements that are put together: enough for what a loop does before and after them to be little beside, few enough to stay in
the first cache with the codes that they are made of."""


@intrinsic  # type: ignore[untyped-decorator]
def space(context: Any, out: Any) -> Generated:
    """The address of room for STAGE elements of an output."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ptrtoint(room_for(builder, context.get_data_type(out.dtype), STAGE, LINE), I64)

    return types.int64(out), generate


@intrinsic  # type: ignore[untyped-decorator]
def staged(context: Any, out: Any, room: Any, first: Any) -> Generated:
    """The output, but that out[first] and the STAGE - 1 elements behind it are in the room: nothing else of it may be touched."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        given, room_, first_ = arguments
        made = context.make_array(out)(context, builder, given)
        before = builder.mul(first_, ir.Constant(I64, context.get_abi_sizeof(context.get_data_type(out.dtype))))
        made.data = builder.inttoptr(builder.sub(room_, before), made.data.type)
        return made._getvalue()

    return out(out, types.int64, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def put_staged(context: Any, out: Any, room: Any, first: Any, stop: Any) -> Generated:
    """Store what is in the room past the caches: whole chunks, to out[first] ... out[stop - 1], the first at a line's start."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        result, room_, first_, stop_ = arguments
        chunk = ir.VectorType(context.get_data_type(out.dtype), CHUNK)
        start = builder.inttoptr(room_, chunk.as_pointer())
        chunks = builder.udiv(builder.sub(stop_, first_), ir.Constant(I64, CHUNK))
        with cgutils.for_range(builder, chunks) as loop:
            done = builder.load(builder.gep(start, [loop.index]))
            place = builder.add(first_, builder.mul(loop.index, ir.Constant(I64, CHUNK)))
            store(context, builder, done, data_of(context, builder, out, result, place), ir.Constant(I1, 1))
        return context.get_dummy_value()

    return types.void(out, types.int64, types.intp, types.intp), generate
