"""What a compiled loop does to one value, as LLVM instructions that it vectorises: decoding, one operation, one rounding.

The types of the operands choose. A difference in float32 has 24 bits or fewer, one in float64 may have more. An output of uint16
holds the codes of float16, one of int16 those of bfloat16, which Numba has not.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic

LINE = 64
"""Bytes in a cache line, which a streaming store fills whole."""

CHUNK = 16
"""Elements of a vector that is written as one: as many float32 as the widest registers hold."""

Generated = tuple[Any, Callable[..., Any]]
"""A signature of Numba's, and what writes the instructions for it."""

_I16, _I32, _I64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)
_F32, _F64 = ir.FloatType(), ir.DoubleType()


@cache
def _has_half_instruction() -> bool:
    """Whether what Numba compiles for converts float32 to float16 in one instruction; LLVM calls a library elsewhere, which
    may be missing."""
    if platform.machine().lower() in ("aarch64", "arm64"):
        return True
    return "+f16c" in cpu_target.target_context.codegen().magic_tuple()[2]


def _shaped(element: Any, value: Any) -> Any:
    """The type of as many elements as the value has: a vector's, or one."""
    return ir.VectorType(element, value.type.count) if isinstance(value.type, ir.VectorType) else element


def _constant(kind: Any, number: float) -> Any:
    """A number, as often as the type has elements."""
    return ir.Constant(kind, [number] * kind.count if isinstance(kind, ir.VectorType) else number)


def _is_single(value: Any) -> bool:
    return bool(getattr(value.type, "element", value.type) == _F32)


def _integer(value: Any) -> Any:
    """The integer type of a float's bits."""
    return _shaped(_I32 if _is_single(value) else _I64, value)


def _intrinsic(builder: Any, name: str, *arguments: Any) -> Any:
    """LLVM's function of that name for arguments and a result of one float type."""
    kind = arguments[0].type
    count = f"v{kind.count}" if isinstance(kind, ir.VectorType) else ""
    full = f"llvm.{name}.{count}{'f32' if _is_single(arguments[0]) else 'f64'}"
    function = builder.module.globals.get(full)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(kind, [kind] * len(arguments)), full)
    return builder.call(function, arguments)


def _to_odd(builder: Any, nearest: Any, inexact: Any, beyond: Any) -> Any:
    """The last bit of ``nearest`` set where it is ``inexact``, after a step toward zero where it lies ``beyond`` the value."""
    integer = _integer(nearest)
    bits = builder.sub(builder.bitcast(nearest, integer), builder.zext(beyond, integer))
    return builder.bitcast(builder.or_(bits, builder.zext(inexact, integer)), nearest.type)


def _product_to_odd(builder: Any, difference: Any, scale: Any) -> Any:
    """The product rounded to odd (see `xverify.kernels.casting`), for differences that are integers, or in float64.

    A fused multiply-add gives the product's error exactly unless it underflows. Products of integers and float32 scales are
    multiples of float32's smallest subnormal, so that they and their errors do not; those in float64 are far from it.
    """
    product = builder.fmul(difference, scale)
    error = _intrinsic(builder, "fma", difference, scale, builder.fneg(product))
    # Infinities and NaN leave an error of NaN, overflow one of infinity and of the other sign.
    inexact = builder.fcmp_ordered("!=", error, _constant(error.type, 0.0))
    integer = _integer(error)
    # By the sign's bit, since a product that underflows is a zero with a sign.
    signs = builder.xor(builder.bitcast(product, integer), builder.bitcast(error, integer))
    apart = builder.icmp_signed("<", signs, _constant(integer, 0))
    return _to_odd(builder, product, inexact, builder.and_(inexact, apart))


def _single_to_odd(builder: Any, value: Any) -> Any:
    """A float64 as float32, rounded to odd."""
    nearest = builder.fptrunc(value, _shaped(_F32, value))
    back = builder.fpext(nearest, value.type)
    beyond = builder.fcmp_ordered(">", _intrinsic(builder, "fabs", back), _intrinsic(builder, "fabs", value))
    return _to_odd(builder, nearest, builder.fcmp_ordered("!=", back, value), beyond)


def _half(builder: Any, value: Any) -> Any:
    """The float16 code of a float32, rounded to nearest even; without an instruction for it, by integers."""
    short, integer = _shaped(_I16, value), _integer(value)
    if _has_half_instruction():
        return builder.bitcast(builder.fptrunc(value, _shaped(ir.HalfType(), value)), short)

    def constant(number: int) -> Any:
        return _constant(integer, number)

    bits = builder.bitcast(value, integer)
    magnitude = builder.and_(bits, constant(0x7FFFFFFF))
    is_nan = builder.icmp_unsigned(">", magnitude, constant(0x7F800000))
    special = builder.select(is_nan, constant(0x7E00), constant(0x7C00))
    # The last bit of 0.5 is worth float16's smallest subnormal: the addition rounds.
    added = builder.fadd(builder.bitcast(magnitude, value.type), _constant(value.type, 0.5))
    subnormal = builder.sub(builder.bitcast(added, integer), constant(0x3F000000))
    # The exponent's bias falls from 127 to 15; half a unit, less one where the code is even, is added and cut off.
    odd = builder.and_(builder.lshr(magnitude, constant(13)), constant(1))
    normal = builder.lshr(builder.add(builder.add(magnitude, constant(0xC8000FFF)), odd), constant(13))
    code = builder.select(builder.icmp_unsigned("<", magnitude, constant(0x38800000)), subnormal, normal)
    code = builder.select(builder.icmp_unsigned(">=", magnitude, constant(0x47800000)), special, code)
    sign = builder.and_(builder.lshr(bits, constant(16)), constant(0x8000))
    return builder.trunc(builder.or_(code, sign), short)


def _brain(builder: Any, value: Any) -> Any:
    """The bfloat16 code of a float32, rounded to nearest even."""
    integer = _integer(value)
    bits = builder.bitcast(value, integer)
    half = _constant(integer, 16)
    odd = builder.and_(builder.lshr(bits, half), _constant(integer, 1))
    code = builder.lshr(builder.add(builder.add(bits, _constant(integer, 0x7FFF)), odd), half)
    code = builder.select(builder.fcmp_unordered("uno", value, value), _constant(integer, 0x7FC0), code)
    return builder.trunc(code, _shaped(_I16, value))


def _number(builder: Any, code: Any, keep: Any, flip: Any, real: Any) -> Any:
    """The value of codes in the float type ``real``: ((code & keep) ^ flip) - flip; int32 and floats are their own values.

    keep: the bits that the type has; flip: its sign bit, or 0.
    """
    if getattr(code.type, "element", code.type) in (_F32, _F64):
        return code if code.type == _shaped(real, code) else builder.fpext(code, _shaped(real, code))
    integer = _shaped(_I32, code)
    if integer != code.type:
        code = builder.zext(code, integer)
        code = builder.sub(builder.xor(builder.and_(code, keep), flip), flip)
    return builder.sitofp(code, _shaped(real, code))


def _combined(builder: Any, difference: Any, scale: Any, divides: bool, dtype: Any) -> Any:
    """difference * scale, or / scale, as elements of an output: exact, then rounded once to nearest even.

    A quotient in float64 may be rounded to nearest: see `xverify.kernels.formula`. One in float32 is for outputs of float32.
    """
    if divides:
        value = builder.fdiv(difference, scale)
    elif _is_single(difference) and dtype == types.float32:
        value = builder.fmul(difference, scale)
    else:
        value = _product_to_odd(builder, difference, scale)
    return _element(builder, value, dtype)


def _element(builder: Any, value: Any, dtype: Any) -> Any:
    """Floats, exact or rounded to odd, as float32, or as codes of float16 or bfloat16."""
    if dtype == types.float32:
        return value if _is_single(value) else builder.fptrunc(value, _shaped(_F32, value))
    if not _is_single(value):
        value = _single_to_odd(builder, value)
    return _half(builder, value) if dtype == types.uint16 else _brain(builder, value)


def _data(context: Any, builder: Any, array: Any, value: Any, index: Any) -> Any:
    """The address of an array's element."""
    return builder.gep(context.make_array(array)(context, builder, value).data, [index], inbounds=True)


def _apart(builder: Any, instruction: Any, own: str, other: str) -> Any:
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
        address = _data(context, builder, signature.args[0], *arguments)
        return _apart(builder, builder.load(address), "read", "written")

    return array.dtype(array, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def address(context: Any, array: Any) -> Generated:
    """Where the array's first element lies."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.ptrtoint(data, _I64)

    return types.int64(array), generate


@intrinsic  # type: ignore[untyped-decorator]
def put(context: Any, array: Any, index: Any, value: Any) -> Generated:
    """array[index] = value, an index from the front."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _data(context, builder, signature.args[0], *arguments[:2])
        _apart(builder, builder.store(arguments[2], address), "written", "read")
        return context.get_dummy_value()

    return types.void(array, types.intp, array.dtype), generate


@intrinsic  # type: ignore[untyped-decorator]
def value(context: Any, code: Any, keep: Any, flip: Any, scale: Any, offset: Any, divides: Any, like: Any) -> Generated:
    """(number - offset) * scale, or / scale where ``divides`` is not None, as the element of ``like``, an array.

    The number of a code is as `_number` says; the arithmetic is in the type of scale and offset.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code, keep, flip, scale, offset, *_ = arguments
        difference = builder.fsub(_number(builder, code, keep, flip, scale.type), offset)
        return _combined(builder, difference, scale, divides != types.none, like.dtype)

    return like.dtype(code, types.int32, types.int32, scale, scale, divides, like), generate


@intrinsic  # type: ignore[untyped-decorator]
def number(context: Any, code: Any, keep: Any, flip: Any, like: Any) -> Generated:
    """The number of a code as `_number` says, in the float type of ``like``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code, keep, flip, like = arguments
        return _number(builder, code, keep, flip, like.type)

    return like(code, types.int32, types.int32, like), generate


@intrinsic  # type: ignore[untyped-decorator]
def element(context: Any, value: Any, like: Any) -> Generated:
    """A float64, exact or rounded to odd, as the element of ``like``, an array: rounded once to nearest even."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _element(builder, arguments[0], like.dtype)

    return like.dtype(types.float64, like), generate


@intrinsic  # type: ignore[untyped-decorator]
def differ(context: Any, one: Any, other: Any) -> Generated:
    """Whether two elements differ in a bit, as 0 or 1."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if one == types.float32:
            arguments = [builder.bitcast(argument, _I32) for argument in arguments]
        return builder.zext(builder.icmp_unsigned("!=", *arguments), ir.IntType(8))

    return types.uint8(one, one), generate


@intrinsic  # type: ignore[untyped-decorator]
def put_chunk(
    context: Any,
    x: Any,
    first: Any,
    out: Any,
    to: Any,
    table: Any,
    keep: Any,
    flip: Any,
    scale: Any,
    offset: Any,
    divides: Any,
    streamed: Any,
) -> Generated:
    """`value` of CHUNK elements from x[first] on, put to out[to] and on.

    streamed: None, or True: past the caches, to out[to] at a multiple of the vector's size. In vectors,
    since LLVM unrolls a short loop of constant length before it would make vectors of it.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        codes, first, result, to, table, keep, flip, scale, offset, *_ = arguments

        def spread(scalar: Any) -> Any:
            return _spread(builder, scalar)

        address = _data(context, builder, signature.args[0], codes, first)
        kind = ir.VectorType(address.type.pointee, CHUNK)
        code = builder.load(builder.bitcast(address, kind.as_pointer()), align=1)
        _apart(builder, code, "read", "written")
        if signature.args[4] != types.none:
            code = _looked_up(context, builder, signature.args[4], table, code)
        difference = builder.fsub(_number(builder, code, spread(keep), spread(flip), scale.type), spread(offset))
        done = _combined(builder, difference, spread(scale), divides != types.none, out.dtype)
        address = _data(context, builder, signature.args[2], result, to)
        size = CHUNK * done.type.element.get_abi_size(context.target_data)
        is_streamed = streamed != types.none
        stored = builder.store(done, builder.bitcast(address, done.type.as_pointer()), align=size if is_streamed else 1)
        if is_streamed:
            stored.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(_I32, 1)]))
        _apart(builder, stored, "written", "read")
        return context.get_dummy_value()

    i32 = types.int32
    return types.void(x, types.intp, out, types.intp, table, i32, i32, scale, scale, divides, streamed), generate


def _spread(builder: Any, scalar: Any) -> Any:
    """A vector of CHUNK times the same."""
    vector = ir.VectorType(scalar.type, CHUNK)
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(_I32, 0))
    everywhere = ir.Constant(ir.VectorType(_I32, CHUNK), [0] * CHUNK)
    return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), everywhere)


def _looked_up(context: Any, builder: Any, array: Any, table: Any, codes: Any) -> Any:
    """The table's entries for a vector of bytes."""
    found = ir.Constant(ir.VectorType(_F32, CHUNK), ir.Undefined)
    for lane in range(CHUNK):
        place = ir.Constant(_I32, lane)
        index = builder.zext(builder.extract_element(codes, place), _I64)
        entry = builder.load(_data(context, builder, array, table, index))
        found = builder.insert_element(found, _apart(builder, entry, "read", "written"), place)
    return found


@intrinsic  # type: ignore[untyped-decorator]
def stream(context: Any, target: Any, start: Any, source: Any, lines: Any) -> Generated:
    """Copy whole cache lines to ``target[start:]``, which lies at a line's start, past the caches.

    A line that is stored past the caches is not read first. Another thread sees it after `settle`.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(_I32, LINE // 4)
        to = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        to = builder.bitcast(builder.gep(to, [arguments[1]]), vector.as_pointer())
        origin = context.make_array(signature.args[2])(context, builder, arguments[2]).data
        origin = builder.bitcast(origin, vector.as_pointer())
        past_the_caches = builder.module.add_metadata([ir.Constant(_I32, 1)])
        with cgutils.for_range(builder, arguments[3]) as loop:
            line = builder.load(builder.gep(origin, [loop.index]), align=4)
            stored = builder.store(line, builder.gep(to, [loop.index]), align=LINE)
            stored.set_metadata("nontemporal", past_the_caches)
        return context.get_dummy_value()

    return types.void(target, types.intp, source, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def settle(context: Any) -> Generated:
    """What was stored before is seen before what is stored after, streamed lines too."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate
