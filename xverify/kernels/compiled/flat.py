"""An array as compiled loops take it: its elements where they lie, of whatever rank it is, or several codes to a byte."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import NativeValue, models, register_model, unbox
from numba.np.arrayobj import populate_array

from xverify.kernels.casting import Array
from xverify.kernels.compiled.vectors import I32, I64

PLAIN, WRITEABLE = 0x101, 0x400
"""NumPy's C_CONTIGUOUS and ALIGNED, and WRITEABLE; to ask for them by their names takes three times as long."""

_HEADER = object.__basicsize__
_DATA, _RANK, _EXTENTS, _FLAGS = (_HEADER + 8 * place for place in (0, 1, 2, 6))
"""Where NumPy keeps them in an array: ``PyArrayObject_fields`` of its C headers, which compiled extensions rely on."""


def is_plain(array: Array) -> bool:
    """Whether its elements lie as compiled loops take them: in C order, aligned, in this machine's byte order."""
    return array.flags.num & PLAIN == PLAIN and array.dtype.isnative


class Flat(types.Array):  # type: ignore[misc]
    """Numba's type of a plain array of any rank, which a loop sees as one of rank 1, or of rank 0 where it has one element.

    Numba's own keeps a reference, and has room for as many extents as it was compiled for: of a call with one element that would
    be half the time. The caller holds the array while the loop runs, and the loop keeps none. Elements must be of this size,
    which is not asked: an int8 array may be given for uint8. TypeError for an array that is not plain, or cannot be written
    where ``written``.
    """

    def __init__(self, element: Any, rank: int = 1, written: bool = False, more: str = "") -> None:
        name = f"{'written' if written else 'read'} flat array of {element}, rank {rank}{more}"
        super().__init__(element, rank, "C", readonly=not written, name=name)


class Packed(Flat):
    """Bytes that hold so many codes each, the first in the lowest bits. `scalars.get` and `memory.load` count codes and give one
    a byte, with zeros above; its size counts bytes.
    """

    def __init__(self, in_byte: int, rank: int = 1) -> None:
        self.in_byte = in_byte
        super().__init__(types.uint8, rank, more=f", {in_byte} codes in a byte")

    @property
    def key(self) -> Any:
        """What tells the type from others of its class."""
        return *super().key, self.in_byte

    @property
    def mangling_args(self) -> Any:
        """The same in the names of compiled functions, of which LLVM takes two of one name for one function."""
        name, arguments = super().mangling_args
        return name, [*arguments, self.in_byte]


def codes_of(element: Any, in_byte: int, rank: int = 1) -> Flat:
    """The type of an array of codes, of which so many are in a byte where that is more than one."""
    return Flat(element, rank) if in_byte == 1 else Packed(in_byte, rank)


for _kind in (Flat, Packed):
    register_model(_kind)(models.ArrayModel)


@unbox(Flat)  # type: ignore[untyped-decorator]
def _elements(kind: Flat, array: Any, compiler: Any) -> Any:
    builder, context = compiler.builder, compiler.context
    start = builder.bitcast(array, compiler.pyapi.voidptr)

    def field(place: int, of: Any) -> Any:
        return builder.load(builder.bitcast(builder.gep(start, [ir.Constant(I64, place)]), of.as_pointer()))

    asked = ir.Constant(I32, PLAIN | (WRITEABLE if kind.mutable else 0))
    is_other = builder.icmp_unsigned("!=", builder.and_(field(_FLAGS, I32), asked), asked)
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
