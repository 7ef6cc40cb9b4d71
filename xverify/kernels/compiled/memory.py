"""Arrays in memory, as LLVM instructions.

They are the flat and packed array types, reads, writes, and stores past the caches.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import NativeValue, intrinsic, models, register_model, unbox
from numba.np.arrayobj import populate_array

from xverify.kernels.casting import Array
from xverify.kernels.compiled.vectors import (
    CHUNK,
    F32,
    I1,
    I8,
    I16,
    I32,
    I64,
    Generated,
    constant,
    of_llvm,
    shuffled,
    spread,
)

PLAIN, WRITEABLE = 0x101, 0x400
"""NumPy's flags C_CONTIGUOUS and ALIGNED, and WRITEABLE. Reading the flags by name takes three times as long."""

_HEADER = object.__basicsize__

_DATA, _RANK, _EXTENTS, _FLAGS = (_HEADER + 8 * place for place in (0, 1, 2, 6))
"""Offsets of fields of a NumPy array object.

Source: ``PyArrayObject_fields`` of NumPy's C headers, a layout that compiled extensions rely on.
"""


def is_plain(array: Array) -> bool:
    """True if the array is as compiled loops need it: C order, aligned, in this machine's byte order."""
    return array.flags.num & PLAIN == PLAIN and array.dtype.isnative


class Flat(types.Array):  # type: ignore[misc]
    """Numba type of a plain array of any rank.

    A loop sees the array as rank 1, or as rank 0 if it has one element.
    Numba's own array type keeps a reference and is compiled for one rank. That would take half the time of a call
    with one element.
    The caller holds the array while the loop runs. The loop keeps no reference.
    Only the element size must match: an int8 array may be passed for uint8. Unboxing does not check it.

    Raises:
        TypeError: in the call, if the array is not plain, or not writeable although ``written`` is true.
    """

    def __init__(self, element: Any, rank: int = 1, written: bool = False, more: str = "") -> None:
        name = f"{'written' if written else 'read'} flat array of {element}, rank {rank}{more}"
        super().__init__(element, rank, "C", readonly=not written, name=name)


class Packed(Flat):
    """Numba type of bytes that hold several codes each, the first in the lowest bits.

    `get` and `load` count codes, and return one code a byte with zeros above it. The size counts bytes.
    """

    def __init__(self, in_byte: int, rank: int = 1) -> None:
        self.in_byte = in_byte
        super().__init__(types.uint8, rank, more=f", {in_byte} codes in a byte")

    @property
    def key(self) -> Any:
        """The key by which Numba compares types."""
        return *super().key, self.in_byte

    @property
    def mangling_args(self) -> Any:
        """The key, in the mangled names of compiled functions.

        LLVM takes two functions of the same name for one function.
        """
        name, arguments = super().mangling_args
        return name, [*arguments, self.in_byte]


def codes_of(element: Any, in_byte: int, rank: int = 1) -> Flat:
    """The type of an array of codes, with ``in_byte`` codes in a byte."""
    return Flat(element, rank) if in_byte == 1 else Packed(in_byte, rank)


for _kind in (Flat, Packed):
    register_model(_kind)(models.ArrayModel)


@unbox(Flat)  # type: ignore[untyped-decorator]
def _unbox_elements(kind: Flat, array: Any, compiler: Any) -> Any:
    builder, context = compiler.builder, compiler.context
    start = builder.bitcast(array, compiler.pyapi.voidptr)

    def field(offset: int, of: Any) -> Any:
        return builder.load(builder.bitcast(builder.gep(start, [ir.Constant(I64, offset)]), of.as_pointer()))

    required = ir.Constant(I32, PLAIN | (WRITEABLE if kind.mutable else 0))
    is_other = builder.icmp_unsigned("!=", builder.and_(field(_FLAGS, I32), required), required)
    with builder.if_then(is_other, likely=False):
        compiler.pyapi.err_set_string(
            "PyExc_TypeError", f"an array is not in C order, aligned{' and writeable' if kind.mutable else ''}"
        )
    size = cgutils.alloca_once_value(builder, ir.Constant(I64, 1))
    if kind.ndim == 1:
        extents = field(_EXTENTS, I64.as_pointer())
        with cgutils.for_range(builder, builder.sext(field(_RANK, I32), I64)) as loop:
            extent = builder.load(builder.gep(extents, [loop.index]))
            builder.store(builder.mul(builder.load(size), extent), size)
    itemsize = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    made = context.make_array(kind)(context, builder)
    data = builder.bitcast(field(_DATA, compiler.pyapi.voidptr), context.get_data_type(kind.dtype).as_pointer())
    populate_array(made, data, [builder.load(size)] * kind.ndim, [itemsize] * kind.ndim, itemsize, meminfo=None)
    return NativeValue(made._getvalue(), is_error=is_other)


def byte_index(builder: Any, in_byte: int, index: Any) -> Any:
    """The index of the byte that holds a code."""
    return builder.lshr(index, ir.Constant(index.type, in_byte.bit_length() - 1))


def bit_offset(builder: Any, in_byte: int, index: Any) -> Any:
    """The number of bits below a code in its byte."""
    within = builder.and_(index, ir.Constant(index.type, in_byte - 1))
    return builder.mul(within, ir.Constant(index.type, 8 // in_byte))


def extract_code(builder: Any, in_byte: int, byte: Any, index: Any) -> Any:
    """One code of the byte that holds it."""
    moved = builder.lshr(byte, builder.trunc(bit_offset(builder, in_byte, index), I8))
    return builder.and_(moved, ir.Constant(I8, (1 << (8 // in_byte)) - 1))


def unpack_codes(builder: Any, packed: Any, in_byte: int) -> Any:
    """A vector of codes, from a vector of bytes that hold them.

    Source: "Packed 4-bit elements" and "Packed 2-bit elements" of ONNX's TensorProto: the first code is in a byte's
    lowest bits.
    """
    count, bits = packed.type.count, 8 // in_byte
    # Each byte becomes a word with a byte for each of its codes, and each code moves up to its own byte.
    words = ir.VectorType(ir.IntType(8 * in_byte), count)
    word = builder.zext(packed, words)
    moved = [builder.shl(word, constant(words, (8 - bits) * code)) for code in range(in_byte)]
    kept = int.from_bytes(bytes([(1 << bits) - 1] * in_byte), "little")
    codes = builder.and_(reduce(builder.or_, moved), constant(words, kept))
    return builder.bitcast(codes, ir.VectorType(I8, count * in_byte))


def table_indices(builder: Any, packed: Any, in_byte: int) -> Any:
    """Packed codes as 16-bit words for a table lookup. The bits above each code are not cleared."""
    count, bits = packed.type.count, 8 // in_byte
    words = ir.VectorType(ir.IntType(16 * in_byte), count)
    word = builder.zext(packed, words)
    moved = [builder.shl(word, constant(words, (16 - bits) * code)) for code in range(in_byte)]
    return builder.bitcast(reduce(builder.or_, moved), ir.VectorType(I16, count * in_byte))


def long_table_indices(builder: Any, packed: Any, in_byte: int, first: int, count: int) -> Any:
    """``count`` packed codes, from ``first`` on, as 32-bit words for a table lookup."""
    bits, codes = 8 // in_byte, range(first, first + count)
    words = builder.bitcast(packed, ir.VectorType(I32, packed.type.count // 4))
    lanes = ir.VectorType(I32, len(codes))
    word = builder.shuffle_vector(words, words, ir.Constant(lanes, [code * bits // 32 for code in codes]))
    return builder.lshr(word, ir.Constant(lanes, [code * bits % 32 for code in codes]))


def shift_down(builder: Any, read: Any, next_read: Any, bits: Any) -> Any:
    """A byte vector shifted down by ``bits``, 1 to 7.

    Args:
        next_read: the byte that follows each byte of the vector.
    """
    width = I64 if read.type.count % 8 == 0 else I32
    words = ir.VectorType(width, 8 * read.type.count // width.width)
    low, high = builder.bitcast(read, words), builder.bitcast(next_read, words)
    down = bits if width == I64 else builder.trunc(bits, width)
    up = builder.sub(ir.Constant(width, 8), down)
    both = builder.or_(builder.lshr(low, spread(builder, down, low)), builder.shl(high, spread(builder, up, high)))
    return builder.bitcast(both, read.type)


LINE = 64
"""Bytes of a cache line."""

PART = 16
"""Bytes of the smallest streaming store, and its alignment. Large NumPy arrays begin at a multiple of it.

Consecutive stores that fill a line leave the core as one write.
"""


def data_of(context: Any, builder: Any, array: Any, value: Any, index: Any) -> Any:
    """The address of an array element, or of the byte that holds a packed code.

    LLVM does not learn that the address is within the array: `tiles.redirect_to_stage` makes arrays that begin far
    before their memory.
    """
    if isinstance(array, Packed):
        index = byte_index(builder, array.in_byte, index)
    return builder.gep(context.make_array(array)(context, builder, value).data, [index])


def mark_memory(builder: Any, instruction: Any, own: str, other: str) -> Any:
    """Mark a load or store as access to the memory ``own``, which never aliases ``other``."""
    module = builder.module
    domain = module.add_metadata(["xverify"])
    for kind, name in (("alias.scope", own), ("noalias", other)):
        instruction.set_metadata(kind, module.add_metadata([module.add_metadata([name, domain])]))
    return instruction


@intrinsic  # type: ignore[untyped-decorator]
def get(context: Any, array: Any, index: Any) -> Generated:
    """array[index], for an index that is not negative.

    Numba's own indexing also counts from the end, which keeps LLVM from vectorising.
    LLVM may assume that `put` never writes what `get` reads. So it need not compare addresses before a loop.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return read_element(context, builder, signature.args[0], *arguments)

    return array.dtype(array, types.intp), generate


def read_element(context: Any, builder: Any, of: Any, array: Any, index: Any) -> Any:
    """An array element, or one packed code."""
    read = mark_memory(builder, builder.load(data_of(context, builder, of, array, index)), "read", "written")
    return extract_code(builder, of.in_byte, read, index) if isinstance(of, Packed) else read


@intrinsic  # type: ignore[untyped-decorator]
def address(context: Any, array: Any) -> Generated:
    """The address of the first element of the array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.ptrtoint(data, I64)

    return types.int64(array), generate


@intrinsic  # type: ignore[untyped-decorator]
def overlaps(context: Any, out: Any, x: Any, scale: Any, offset: Any) -> Generated:
    """True if ``out`` shares memory with another array.

    All arrays are contiguous. A number shares no memory.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        ends = [
            _ends(context, builder, of, array)
            for of, array in zip(signature.args, arguments, strict=True)
            if isinstance(of, types.Array)
        ]
        (start, end), *others = ends
        shared: Any = ir.Constant(I1, 0)
        for other_start, other_end in others:
            begins_before = builder.icmp_unsigned("<", other_start, end)
            shared = builder.or_(shared, builder.and_(begins_before, builder.icmp_unsigned("<", start, other_end)))
        return shared

    return types.boolean(out, x, scale, offset), generate


def _ends(context: Any, builder: Any, of: Any, array: Any) -> tuple[Any, Any]:
    """The address of an array's first byte, and the address after its last byte."""
    made = context.make_array(of)(context, builder, array)
    start = builder.ptrtoint(made.data, I64)
    return start, builder.add(start, builder.mul(made.nitems, made.itemsize))


@intrinsic  # type: ignore[untyped-decorator]
def put(context: Any, array: Any, index: Any, value: Any) -> Generated:
    """array[index] = value, for an index that is not negative."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = data_of(context, builder, signature.args[0], *arguments[:2])
        mark_memory(builder, builder.store(arguments[2], address), "written", "read")
        return context.get_dummy_value()

    return types.void(array, types.intp, array.dtype), generate


@intrinsic  # type: ignore[untyped-decorator]
def settle(context: Any) -> Generated:
    """Memory fence: earlier stores, streamed ones too, become visible before later ones."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


AHEAD = 1024
"""Prefetch distance, in elements or in bytes of packed codes.

Memory answers while the loop computes the elements before them.
"""


def first_lanes(builder: Any, count: Any) -> Any:
    """A mask of the first ``count`` of CHUNK elements."""
    lanes = ir.VectorType(I32, CHUNK)
    every = spread(builder, builder.trunc(count, I32), ir.Constant(lanes, ir.Undefined))
    return builder.icmp_unsigned("<", ir.Constant(lanes, list(range(CHUNK))), every)


def load(context: Any, builder: Any, array: Any, value: Any, first: Any, mask: Any = None, count: int = CHUNK) -> Any:
    """A vector of ``count`` elements from array[first] on.

    Args:
        mask: the elements to read; the others are zeros, or for packed codes the other codes of their byte.
    """
    address = data_of(context, builder, array, value, first)
    if isinstance(array, Packed):
        if mask is None:
            read = load_packed(context, builder, array, value, first, count)
        else:
            read = _load_some_packed(builder, array.in_byte, address, first, mask)
        return unpack_codes(builder, read, array.in_byte)
    return _read_vector(builder, address, ir.VectorType(address.type.pointee, count), mask)


def load_two(context: Any, builder: Any, array: Any, value: Any, first: Any) -> list[Any]:
    """Two vectors of CHUNK elements from array[first] on."""
    if isinstance(array, Packed):  # whose bits are shifted together
        both = load(context, builder, array, value, first, count=2 * CHUNK)
        return [shuffled(builder, both, both, range(start, start + CHUNK)) for start in (0, CHUNK)]
    behind = builder.add(first, ir.Constant(I64, CHUNK))
    return [load(context, builder, array, value, index) for index in (first, behind)]


def _read_vector(builder: Any, address: Any, kind: Any, mask: Any = None) -> Any:
    address = builder.bitcast(address, kind.as_pointer())
    if mask is None:
        read = builder.load(address, align=1)
    else:
        read = _masked(builder, "load", kind, [address, ir.Constant(I32, 1), mask, ir.Constant(kind, None)])
    return mark_memory(builder, read, "read", "written")


def load_packed(context: Any, builder: Any, array: Any, value: Any, first: Any, count: int) -> Any:
    """The bytes of ``count`` packed codes from array[first] on.

    They are shifted so that the first code begins a byte.
    """
    in_byte, address = array.in_byte, data_of(context, builder, array, value, first)
    kind, bits = ir.VectorType(I8, count // in_byte), bit_offset(builder, in_byte, first)
    read, before = _read_vector(builder, address, kind), builder.block
    with builder.if_then(builder.icmp_unsigned("!=", bits, ir.Constant(I64, 0)), likely=False):
        # Only here the last code lies in the next byte.
        behind = _read_vector(builder, builder.gep(address, [ir.Constant(I64, 1)]), kind)
        moved, within = shift_down(builder, read, behind, bits), builder.block
    bytes_ = builder.phi(kind)
    bytes_.add_incoming(read, before)
    bytes_.add_incoming(moved, within)
    return bytes_


def _load_some_packed(builder: Any, in_byte: int, address: Any, first: Any, mask: Any) -> Any:
    """As `load_packed` for CHUNK codes, but only the first codes, which the mask names, are read."""
    count = builder.zext(builder.ctpop(builder.bitcast(mask, I16)), I64)
    within = builder.and_(first, ir.Constant(I64, in_byte - 1))
    end = builder.add(builder.add(within, count), ir.Constant(I64, in_byte - 1))
    read = _read_vector(
        builder, address, ir.VectorType(I8, CHUNK), first_lanes(builder, byte_index(builder, in_byte, end))
    )
    every = ir.IntType(8 * CHUNK)
    moved = builder.lshr(builder.bitcast(read, every), builder.zext(bit_offset(builder, in_byte, first), every))
    size = CHUNK // in_byte
    return builder.bitcast(builder.trunc(moved, ir.IntType(8 * size)), ir.VectorType(I8, size))


def store(context: Any, builder: Any, done: Any, address: Any, streamed: Any) -> None:
    """Store a vector.

    Args:
        streamed: True to store past the caches, to an address that is a multiple of PART.
    """
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
            mark_memory(builder, builder.store(done, address, align=1), "written", "read")


def _store_past_caches(builder: Any, done: Any, address: Any, size: int, at_once: int) -> None:
    """Store a vector of ``size`` bytes past the caches, ``at_once`` bytes a store."""
    value = builder.bitcast(done, ir.VectorType(F32, size // 4))
    count = at_once // 4
    parts = builder.bitcast(address, ir.VectorType(F32, count).as_pointer())
    for number in range(size // at_once):
        part = shuffled(builder, value, value, range(number * count, (number + 1) * count))
        # Floats behind a fence: LLVM would join a truncation and a store in one instruction, which goes through the caches.
        fenced = of_llvm(builder, "arithmetic.fence", part)
        stored = builder.store(fenced, builder.gep(parts, [ir.Constant(I32, number)]), align=at_once)
        stored.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(I32, 1)]))
        mark_memory(builder, stored, "written", "read")


def fetch_ahead(context: Any, builder: Any, array: Any, value: Any, first: Any, count: int, ahead: Any = None) -> None:
    """Prefetch ``count`` elements that lie AHEAD, or ``ahead`` elements, behind array[first].

    A prefetch reads nothing, so that it may lie behind the end of the array.
    """
    start = data_of(context, builder, array, value, first if ahead is None else builder.add(first, ahead))
    itemsize = start.type.pointee.get_abi_size(context.target_data)
    size = count // array.in_byte if isinstance(array, Packed) else count * itemsize
    kinds = [ir.PointerType(I8), I32, I32, I32]
    name = "llvm.prefetch.p0"
    fetch = builder.module.globals.get(name) or ir.Function(builder.module, ir.FunctionType(ir.VoidType(), kinds), name)
    start = builder.bitcast(start, kinds[0])
    for line in range(0, size, LINE):
        line_address = builder.gep(start, [ir.Constant(I64, (AHEAD * itemsize if ahead is None else 0) + line)])
        builder.call(fetch, [line_address, *(ir.Constant(I32, number) for number in _TO_READ_SOON)])


_TO_READ_SOON = (0, 3, 1)
"""Arguments of LLVM's prefetch: a read, of the highest locality, of data."""


def store_some(builder: Any, done: Any, address: Any, mask: Any) -> None:
    """Store the elements that the mask names."""
    address = builder.bitcast(address, done.type.as_pointer())
    stored = _masked(builder, "store", ir.VoidType(), [done, address, ir.Constant(I32, 1), mask])
    mark_memory(builder, stored, "written", "read")


def _masked(builder: Any, name: str, result: Any, arguments: list[Any]) -> Any:
    """Call LLVM's masked load or store."""
    vector = result if name == "load" else arguments[0].type
    full = f"llvm.masked.{name}.v{vector.count}{_NAMES[str(vector.element)]}.p0"
    function = builder.module.globals.get(full)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(result, [a.type for a in arguments]), full)
    return builder.call(function, arguments)


_NAMES = {"i8": "i8", "i16": "i16", "i32": "i32", "float": "f32", "double": "f64"}
"""Names of LLVM types in the names of LLVM functions."""
