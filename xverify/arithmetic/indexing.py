"""Indexing mistakes of the linear operators: other gathers of the same tensors, one line of a table each.

A contract gives each output value its triple (x, zero point, scale). A mistake reads some operand from another place
(another axis, the next block, the other nibble of a byte) or as another type of the same width. The tables are not
taken from any implementation: they list what can go wrong with an axis, a block, a byte, a type and a stride.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import permutations

import numpy as np

from xverify.arithmetic.gathers import GATHERS, Gather, Index, placement_of
from xverify.arithmetic.reading import Codes, Operands
from xverify.core.call import BITS, Call
from xverify.core.dtypes import QUANTIZED, values

Reread = tuple[str, Codes]
Read = Callable[[Call, Operands, str], Reread | None]
"""What is read for a role of the operands: a dtype and codes that broadcast to the shape of x; None where the mistake
cannot happen."""

_PARAMETERS = ("scale", "zero_point")
_DATA = ("x", "zero_point")


@dataclass(frozen=True)
class Misindexing:
    """One mistake: ``read`` in place of the right gather, for each of ``roles`` that the call has.

    name: stable, without spaces. words: the mistake as a sentence's predicate.
    """

    name: str
    words: str
    roles: tuple[str, ...]
    read: Read = field(repr=False, compare=False)

    def operands(self, call: Call, right: Operands) -> Operands | None:
        """The operands with this mistake made in them, of the same shape and output type as ``right``.

        None where the mistake cannot happen for this call, or changes neither a code nor what a code means.
        """
        reread = {role: self.read(call, right, role) for role in self.roles if role in right.codes}
        return _replaced(right, {role: r for role, r in reread.items() if r is not None and _differs(right, role, r)})


def mistakes(call: Call, right: Operands) -> Iterator[tuple[Misindexing, Operands]]:
    """Every mistake that changes something for this call, likeliest first, with the operands that it gives.

    Of mistakes that give equal operands (codes broadcast to the shape, and dtypes) only the first is given; they may
    differ for another call. What TensorFlow's formulas take is never indexed: there are none for them.
    """
    read: dict[tuple[Read, str], tuple[Reread, bytes] | None] = {}
    seen: set[tuple[tuple[str, str, bytes], ...]] = set()
    for mistake in known().values():
        changed = {}
        for role in mistake.roles:
            key = mistake.read, role
            if role in right.codes and key not in read:
                read[key] = _identified(right, role, mistake.read(call, right, role))
            if (found := read.get(key)) is not None:
                changed[role] = found
        identity = tuple((role, reread[0], content) for role, (reread, content) in changed.items())
        if not changed or identity in seen:
            continue
        seen.add(identity)
        wrong = _replaced(right, {role: reread for role, (reread, _) in changed.items()})
        assert wrong is not None
        yield mistake, wrong


def misindexing(name: str) -> Misindexing:
    """The mistake of that name. Raises KeyError when there is none."""
    return known()[name]


@cache
def known() -> Mapping[str, Misindexing]:
    """Every mistake by name, likeliest first: each for all the operands that it concerns, then for one of them alone."""
    whole: list[Misindexing] = []
    alone: list[Misindexing] = []
    for name, words, roles, read in _rows():
        whole.append(Misindexing(name, words, roles, read))
        if len(roles) > 1:
            for role in roles:
                text = role.replace("_", " ")
                alone.append(Misindexing(f"{name}-{role.replace('_', '-')}", f"{words} ({text} only)", (role,), read))
    return {mistake.name: mistake for mistake in (*whole, *alone)}


def _replaced(right: Operands, reread: Mapping[str, Reread]) -> Operands | None:
    if not reread:
        return None
    codes = {role: codes for role, (_, codes) in reread.items()}
    dtypes = {role: dtype for role, (dtype, _) in reread.items()}
    return replace(right, codes={**right.codes, **codes}, dtypes={**right.dtypes, **dtypes})


def _differs(right: Operands, role: str, reread: Reread) -> bool:
    dtype, codes = reread
    if dtype == right.dtypes[role]:
        return bool(np.any(codes != right.codes[role]))
    return not np.array_equal(values(dtype, codes), values(right.dtypes[role], right.codes[role]), equal_nan=True)


def _identified(right: Operands, role: str, reread: Reread | None) -> tuple[Reread, bytes] | None:
    """What was read and its broadcast bytes; None where it is what is right."""
    if reread is None or not _differs(right, role, reread):
        return None
    return reread, np.broadcast_to(reread[1], right.shape).tobytes()


# -- another gather of a scale or zero point -------------------------------------------------------------


def _parameter(gather: Gather, call: Call, right: Operands, role: str) -> Reread | None:
    placement = placement_of(call, right, role)
    codes = None if placement is None else gather(placement)
    return None if codes is None else (right.dtypes[role], codes)


def _in_memory_order(call: Call, right: Operands, role: str) -> Reread | None:
    """The parameters of the value that stands, in C order, where the value of x stands in memory."""
    x = call.tensors["x"]
    if placement_of(call, right, role) is None or x.layout in ("C", "read-only"):
        return None
    laid = x.laid_out()
    steps = zip(np.ogrid[tuple(map(slice, laid.shape))], laid.strides, strict=True)
    addresses = sum((index * stride for index, stride in steps), np.zeros(laid.shape, np.int64))
    place = np.unique(addresses, return_inverse=True)[1]
    spread = np.broadcast_to(right.codes[role], right.shape)
    return right.dtypes[role], spread.reshape(-1).take(place).reshape(right.shape)


# -- another type of the same width -----------------------------------------------------------------------

_TYPES_OF_ONE_WIDTH = (
    ("int4", "uint4"),
    ("int2", "uint2"),
    ("int8", "uint8"),
    ("int16", "uint16"),
    ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
    ("float16", "bfloat16"),
)


def _retyped(dtype: str, other: str, call: Call, right: Operands, role: str) -> Reread | None:
    return (other, right.codes[role]) if right.dtypes[role] == dtype else None


def _type_pairs() -> Iterator[tuple[str, str]]:
    for types in _TYPES_OF_ONE_WIDTH:
        yield from permutations(types, 2)


# -- another place in the memory of one operand -----------------------------------------------------------


def _moved(
    place: Callable[[Index], Index], bits: int, padding: bool, call: Call, right: Operands, role: str
) -> Reread | None:
    """The operand as if its element i in flat order were that of number place(i), for types of ``bits`` bits (0: any).

    Past the end is the padding of the last byte, which is 0, or, without ``padding``, the element itself.
    """
    tensor = call.tensors[role]
    if bits not in (0, BITS[tensor.dtype]) or 0 in right.shape:
        return None
    own = np.arange(tensor.size)
    index = place(own)
    outside = (index < 0) | (index >= tensor.size)
    codes = tensor.codes.reshape(-1).take(np.where(outside, own, index))
    if padding:
        codes[outside] = 0
    return _gathered(call, right, role, codes.reshape(tensor.shape))


def _gathered(call: Call, right: Operands, role: str, codes: Codes) -> Reread | None:
    """Changed codes of a whole tensor, gathered rightly."""
    if role != "x" and codes.size == 1:
        return right.dtypes[role], codes.reshape(())
    if role != "x":
        placement = placement_of(call, right, role)
        if placement is None:
            return None
        moved = replace(placement, codes=codes.reshape(placement.codes.shape))
        codes = moved.along(np.arange(placement.extent) // placement.block)
    return right.dtypes[role], codes


_PAIR = "4-bit elements of each byte in the wrong order"
_LAST = "but of an incomplete last byte"
_PACKED: tuple[tuple[str, str, int, bool, Callable[[Index], Index]], ...] = (
    ("nibbles-swapped", f"reads the two {_PAIR}", 4, True, lambda i: i ^ 1),
    ("nibbles-swapped-in-pairs", f"reads the two {_PAIR}, {_LAST}", 4, False, lambda i: i ^ 1),
    ("low-nibble-twice", "reads the first 4-bit element of each byte for both", 4, True, lambda i: i & ~1),
    ("high-nibble-twice", "reads the second 4-bit element of each byte for both", 4, True, lambda i: i | 1),
    ("fours-reversed", "reads the four 2-bit elements of each byte in reverse order", 2, True, lambda i: i ^ 3),
)

_SHIFTED: tuple[tuple[str, str, Callable[[Index], Index]], ...] = (
    ("x-plus-one", "takes each x from the next position in memory", lambda i: i + 1),
    ("x-minus-one", "takes each x from the previous position in memory", lambda i: i - 1),
)


def _layout_ignored(from_start: bool, call: Call, right: Operands, role: str) -> Reread | None:
    """The memory that the tensor lies in (see `lay_out`), read without gaps in C order from the address of its first
    element, or from where the memory starts; None where that runs past the end of the memory."""
    tensor = call.tensors[role]
    laid = tensor.laid_out()
    owner = laid if laid.base is None else laid.base
    memory = owner.ravel(order="K").view(np.uint8)
    first = 0 if from_start else laid.ctypes.data - memory.ctypes.data
    found = memory[first : first + laid.nbytes]
    if found.size < laid.nbytes:
        return None
    return _gathered(call, right, role, found.view(laid.dtype).reshape(tensor.shape))


# -- the table --------------------------------------------------------------------------------------------


def _rows() -> Iterator[tuple[str, str, tuple[str, ...], Read]]:
    """Name, words, the roles that it concerns and how it reads, likeliest first."""
    for name, words, gather in GATHERS:
        yield name, words, _PARAMETERS, partial(_parameter, gather)
    for dtype, other in _type_pairs():
        roles = _DATA if dtype in QUANTIZED else ("scale",)
        yield f"{dtype}-as-{other}", f"reads {dtype} as {other}", roles, partial(_retyped, dtype, other)
    for name, words, bits, padding, place in _PACKED:
        yield name, words, _DATA, partial(_moved, place, bits, padding)
    memory_order = "takes the parameters by the place of x in memory"
    yield "parameters-in-memory-order", memory_order, _PARAMETERS, _in_memory_order
    yield "strides-ignored", "reads x as if its memory were contiguous", ("x",), partial(_layout_ignored, False)
    start = "reads x as if its memory were contiguous and began with its first element"
    yield "strides-and-offset-ignored", start, ("x",), partial(_layout_ignored, True)
    for name, words, place in _SHIFTED:
        yield name, words, ("x",), partial(_moved, place, 0, False)
