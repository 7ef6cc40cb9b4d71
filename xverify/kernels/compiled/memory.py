"""Vectors of CHUNK elements in memory, as LLVM instructions: read and written whole, in part, and past the caches."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from xverify.kernels.compiled.flat import Packed
from xverify.kernels.compiled.scalars import LINE, PART, apart, data_of
from xverify.kernels.compiled.unpacking import bits_before, byte_of, moved_down, unpacked
from xverify.kernels.compiled.vectors import CHUNK, F32, I8, I16, I32, I64, of_llvm, shuffled, spread

AHEAD = 1024
"""Elements, or bytes of packed codes: as far ahead as codes are fetched, which is long enough for memory to answer while what is
before them is computed."""


def first_of(builder: Any, count: Any) -> Any:
    """A mask of the first ``count`` elements of CHUNK."""
    lanes = ir.VectorType(I32, CHUNK)
    every = spread(builder, builder.trunc(count, I32), ir.Constant(lanes, ir.Undefined))
    return builder.icmp_unsigned("<", ir.Constant(lanes, list(range(CHUNK))), every)


def load(context: Any, builder: Any, array: Any, value: Any, first: Any, mask: Any = None, count: int = CHUNK) -> Any:
    """``count`` elements of an array from array[first] on, as `scalars.get` reads them; with a mask those alone, and zeros, or of
    packed codes what is beside them in a byte."""
    address = data_of(context, builder, array, value, first)
    if isinstance(array, Packed):
        if mask is None:
            read = load_packed(context, builder, array, value, first, count)
        else:
            read = _some_packed(builder, array.in_byte, address, first, mask)
        return unpacked(builder, read, array.in_byte)
    return _read(builder, address, ir.VectorType(address.type.pointee, count), mask)


def load_two(context: Any, builder: Any, array: Any, value: Any, first: Any) -> list[Any]:
    """Two vectors of CHUNK elements from array[first] on."""
    if isinstance(array, Packed):  # which are moved to where they belong together
        both = load(context, builder, array, value, first, count=2 * CHUNK)
        return [shuffled(builder, both, both, range(start, start + CHUNK)) for start in (0, CHUNK)]
    behind = builder.add(first, ir.Constant(I64, CHUNK))
    return [load(context, builder, array, value, place) for place in (first, behind)]


def _read(builder: Any, address: Any, kind: Any, mask: Any = None) -> Any:
    address = builder.bitcast(address, kind.as_pointer())
    if mask is None:
        read = builder.load(address, align=1)
    else:
        read = _masked(builder, "load", kind, [address, ir.Constant(I32, 1), mask, ir.Constant(kind, None)])
    return apart(builder, read, "read", "written")


def load_packed(context: Any, builder: Any, array: Any, value: Any, first: Any, count: int) -> Any:
    """The bytes of ``count`` packed codes from array[first] on, moved to where a byte begins with the first."""
    in_byte, address = array.in_byte, data_of(context, builder, array, value, first)
    kind, bits = ir.VectorType(I8, count // in_byte), bits_before(builder, in_byte, first)
    read, before = _read(builder, address, kind), builder.block
    with builder.if_then(builder.icmp_unsigned("!=", bits, ir.Constant(I64, 0)), likely=False):
        # Only here does the last code lie in the byte behind.
        behind = _read(builder, builder.gep(address, [ir.Constant(I64, 1)]), kind)
        moved, within = moved_down(builder, read, behind, bits), builder.block
    found = builder.phi(kind)
    found.add_incoming(read, before)
    found.add_incoming(moved, within)
    return found


def _some_packed(builder: Any, in_byte: int, address: Any, first: Any, mask: Any) -> Any:
    """The same of CHUNK codes, of which those of a mask, the first ones, are read alone, and zeros or codes beside them."""
    count = builder.zext(builder.ctpop(builder.bitcast(mask, I16)), I64)
    within = builder.and_(first, ir.Constant(I64, in_byte - 1))
    end = builder.add(builder.add(within, count), ir.Constant(I64, in_byte - 1))
    read = _read(builder, address, ir.VectorType(I8, CHUNK), first_of(builder, byte_of(builder, in_byte, end)))
    every = ir.IntType(8 * CHUNK)
    moved = builder.lshr(builder.bitcast(read, every), builder.zext(bits_before(builder, in_byte, first), every))
    size = CHUNK // in_byte
    return builder.bitcast(builder.trunc(moved, ir.IntType(8 * size)), ir.VectorType(I8, size))


def store(context: Any, builder: Any, done: Any, address: Any, streamed: Any) -> None:
    """Put a vector there; where ``streamed`` is true, past the caches, to a multiple of PART bytes."""
    size = done.type.count * done.type.element.get_abi_size(context.target_data)
    with builder.if_else(streamed) as (past_the_caches, through_them):
        with past_the_caches:
            within = builder.and_(builder.ptrtoint(address, I64), ir.Constant(I64, size - 1))
            with builder.if_else(builder.icmp_unsigned("==", within, ir.Constant(I64, 0))) as (whole, in_parts):
                with whole:
                    _store_past_caches(builder, done, address, size, size)
                with in_parts:
                    _store_past_caches(builder, done, address, size, PART)
        with through_them:
            address = builder.bitcast(address, done.type.as_pointer())
            apart(builder, builder.store(done, address, align=1), "written", "read")


def _store_past_caches(builder: Any, done: Any, address: Any, size: int, at_once: int) -> None:
    """Put a vector of ``size`` bytes there, so many at once."""
    value = builder.bitcast(done, ir.VectorType(F32, size // 4))
    count = at_once // 4
    parts = builder.bitcast(address, ir.VectorType(F32, count).as_pointer())
    for number in range(size // at_once):
        part = shuffled(builder, value, value, range(number * count, (number + 1) * count))
        # As floats behind a fence: LLVM makes of a store of truncated integers one instruction, which goes through them.
        fenced = of_llvm(builder, "arithmetic.fence", part)
        stored = builder.store(fenced, builder.gep(parts, [ir.Constant(I32, number)]), align=at_once)
        stored.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(I32, 1)]))
        apart(builder, stored, "written", "read")


def fetch_ahead(context: Any, builder: Any, array: Any, value: Any, first: Any, count: int, ahead: Any = None) -> None:
    """Have the processor fetch what lies AHEAD, or ``ahead`` elements, behind ``count`` elements from array[first] on. Nothing is
    read, so that it may be behind the array's end."""
    start = data_of(context, builder, array, value, first if ahead is None else builder.add(first, ahead))
    itemsize = start.type.pointee.get_abi_size(context.target_data)
    size = count // array.in_byte if isinstance(array, Packed) else count * itemsize
    kinds = [ir.PointerType(I8), I32, I32, I32]
    name = "llvm.prefetch.p0"
    fetch = builder.module.globals.get(name) or ir.Function(builder.module, ir.FunctionType(ir.VoidType(), kinds), name)
    start = builder.bitcast(start, kinds[0])
    for line in range(0, size, LINE):
        place = builder.gep(start, [ir.Constant(I64, (AHEAD * itemsize if ahead is None else 0) + line)])
        builder.call(fetch, [place, *(ir.Constant(I32, number) for number in _TO_READ_SOON)])


_TO_READ_SOON = (0, 3, 1)
"""What LLVM calls so: to be read, with the most locality, as data."""


def store_some(builder: Any, done: Any, address: Any, mask: Any) -> None:
    """Put the elements of a mask there."""
    address = builder.bitcast(address, done.type.as_pointer())
    stored = _masked(builder, "store", ir.VoidType(), [done, address, ir.Constant(I32, 1), mask])
    apart(builder, stored, "written", "read")


def _masked(builder: Any, name: str, result: Any, arguments: list[Any]) -> Any:
    """LLVM's load or store of some elements of a vector."""
    vector = result if name == "load" else arguments[0].type
    full = f"llvm.masked.{name}.v{vector.count}{_NAMES[str(vector.element)]}.p0"
    function = builder.module.globals.get(full)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(result, [a.type for a in arguments]), full)
    return builder.call(function, arguments)


_NAMES = {"i8": "i8", "i16": "i16", "i32": "i32", "float": "f32", "double": "f64"}
"""Of LLVM's types, as its functions' names have them."""
