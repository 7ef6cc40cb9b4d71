"""What a compiled loop does to one value, as LLVM instructions that it vectorises.

The types of the operands choose. A difference in float32 has 24 bits or fewer, one in float64 may have more. The codes of float16
are uint16, in scales and outputs, those of bfloat16 int16: Numba has neither.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from xverify.kernels.compiled import decoding, rounding
from xverify.kernels.compiled.flat import Packed
from xverify.kernels.compiled.unpacking import byte_of, code_in
from xverify.kernels.compiled.vectors import I1, I32, I64

LINE = 64
"""Bytes in a cache line."""

PART = 16
"""Bytes of a line that are stored past the caches at once, at least: to a multiple of so many, at which large arrays of NumPy's
begin. Those that fill a line one after the other leave as one."""

Generated = tuple[Any, Callable[..., Any]]
"""A signature of Numba's, and what writes the instructions for it."""

_INTEGER_BITS = {types.uint8: 8, types.uint16: 16, types.int32: 33}
"""Significant bits of the difference of two codes."""

_SCALE_BITS = {types.float32: 24, types.uint16: 11, types.int16: 8}


def is_away(code: Any, coding: Any, offset: Any) -> bool:
    """Whether an offset may be other than 0: where one is given, or codes have an origin of their own."""
    return isinstance(offset, types.Array) or not (decoding.is_float(coding) or code == types.int32)


def significant_bits(code: Any, coding: Any, scale: Any, offset: Any) -> int:
    """Of a difference and a scale, both together: Numba's types of a code and its coding, of a scale, and of what holds offsets.

    Where there is no offset it is a number; given as numbers, offsets may be anything.
    """
    given = isinstance(offset, types.Array)
    if given and isinstance(offset.dtype, types.Float):
        return 64
    if decoding.is_float(coding):
        return _SCALE_BITS[scale] + (33 if given else 4)
    return _SCALE_BITS[scale] + _INTEGER_BITS[code]


def data_of(context: Any, builder: Any, array: Any, value: Any, index: Any) -> Any:
    """The address of an array's element, or of the byte that a packed code is in. LLVM is not told that it is within the array's
    memory: `staging` gives one that begins far before it."""
    if isinstance(array, Packed):
        index = byte_of(builder, array.in_byte, index)
    return builder.gep(context.make_array(array)(context, builder, value).data, [index])


def apart(builder: Any, instruction: Any, own: str, other: str) -> Any:
    """The load or store, marked as one of the memory ``own``, which shares nothing with ``other``."""
    module = builder.module
    domain = module.add_metadata(["xverify"])
    for kind, name in (("alias.scope", own), ("noalias", other)):
        instruction.set_metadata(kind, module.add_metadata([module.add_metadata([name, domain])]))
    return instruction


@intrinsic  # type: ignore[untyped-decorator]
def get(context: Any, array: Any, index: Any) -> Generated:
    """array[index], an index from the front: Numba's own would also count from the back, which keeps LLVM from vectorising.

    What is read so is never what is written by `put`, which LLVM is told: it need not compare addresses before a loop.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _read(context, builder, signature.args[0], *arguments)

    return array.dtype(array, types.intp), generate


def _read(context: Any, builder: Any, of: Any, array: Any, index: Any) -> Any:
    read = apart(builder, builder.load(data_of(context, builder, of, array, index)), "read", "written")
    return code_in(builder, of.in_byte, read, index) if isinstance(of, Packed) else read


@intrinsic  # type: ignore[untyped-decorator]
def address(context: Any, array: Any) -> Generated:
    """Where the array's first element lies."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.ptrtoint(data, I64)

    return types.int64(array), generate


@intrinsic  # type: ignore[untyped-decorator]
def meets(context: Any, out: Any, x: Any, scale: Any, offset: Any) -> Generated:
    """Whether ``out`` shares memory with one of the others, all without gaps; what is no array shares none."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        ends = [
            _ends(context, builder, of, array)
            for of, array in zip(signature.args, arguments, strict=True)
            if isinstance(of, types.Array)
        ]
        (start, end), *others = ends
        found: Any = ir.Constant(I1, 0)
        for other_start, other_end in others:
            begins_before = builder.icmp_unsigned("<", other_start, end)
            found = builder.or_(found, builder.and_(begins_before, builder.icmp_unsigned("<", start, other_end)))
        return found

    return types.boolean(out, x, scale, offset), generate


def _ends(context: Any, builder: Any, of: Any, array: Any) -> tuple[Any, Any]:
    """The address of an array's first byte, and the one after its last."""
    made = context.make_array(of)(context, builder, array)
    start = builder.ptrtoint(made.data, I64)
    return start, builder.add(start, builder.mul(made.nitems, made.itemsize))


@intrinsic  # type: ignore[untyped-decorator]
def put(context: Any, array: Any, index: Any, value: Any) -> Generated:
    """array[index] = value, an index from the front."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = data_of(context, builder, signature.args[0], *arguments[:2])
        apart(builder, builder.store(arguments[2], address), "written", "read")
        return context.get_dummy_value()

    return types.void(array, types.intp, array.dtype), generate


@intrinsic  # type: ignore[untyped-decorator]
def number(context: Any, code: Any, coding: Any, like: Any) -> Generated:
    """The number of a code as `decoding.number` says, in the float type of ``like``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code, coding, like = arguments
        return decoding.number(builder, code, coding, like.type)

    return like(code, coding, like), generate


@intrinsic  # type: ignore[untyped-decorator]
def origin(context: Any, coding: Any, like: Any) -> Generated:
    """What `number` of a code has more than its value, as `decoding.origin` says, in the float type of ``like``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return decoding.origin(builder, arguments[0], arguments[1].type)

    return like(coding, like), generate


@intrinsic  # type: ignore[untyped-decorator]
def offset_number(context: Any, offset: Any, index: Any, coding: Any, like: Any) -> Generated:
    """The offset at a place as `number` gives a code, in the float type of ``like``; a number instead of an array is none."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        offset_, index_, coding_, like_ = arguments
        if not isinstance(offset, types.Array):
            return decoding.origin(builder, coding_, like_.type)
        given = _read(context, builder, offset, offset_, index_)
        if isinstance(offset.dtype, types.Float):
            return builder.fadd(given, decoding.origin(builder, coding_, like_.type))
        return decoding.number(builder, given, coding_, like_.type)

    return like(offset, types.intp, coding, like), generate


@intrinsic  # type: ignore[untyped-decorator]
def scale_number(context: Any, code: Any, like: Any) -> Generated:
    """The number of a scale as `decoding.scale` says, in the float type of ``like``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return decoding.scale(builder, arguments[0], code, arguments[1].type)

    return like(code, like), generate


@intrinsic  # type: ignore[untyped-decorator]
def element(context: Any, value: Any, like: Any) -> Generated:
    """A float64, exact or rounded to odd, as the element of ``like``, an array: rounded once to nearest even."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return rounding.element(builder, arguments[0], like.dtype)

    return like.dtype(types.float64, like), generate


@intrinsic  # type: ignore[untyped-decorator]
def differ(context: Any, one: Any, other: Any) -> Generated:
    """Whether two elements differ in a bit, as 0 or 1."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if one == types.float32:
            arguments = [builder.bitcast(argument, I32) for argument in arguments]
        return builder.zext(builder.icmp_unsigned("!=", *arguments), ir.IntType(8))

    return types.uint8(one, one), generate


@intrinsic  # type: ignore[untyped-decorator]
def settle(context: Any) -> Generated:
    """What was stored before is seen before what is stored after, streamed lines too."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate
