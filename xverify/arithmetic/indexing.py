"""Indexing mistakes of the linear operators, one line of a table each.

A contract gives each output value its triple (x, zero point, scale). A mistake reads an operand from elsewhere (another
axis, the next block, the other nibble of a byte), as another type of the same width, or from a result that was quantized once
more. The tables come from no implementation. They list what can go wrong with an axis, a block, a byte, a type, a stride and a
graph.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import permutations

import numpy as np

from xverify.arithmetic.gathers import GATHERS, Gather, Index, placement_of
from xverify.arithmetic.reading import Codes, Operands
from xverify.arithmetic.requantize import quantizes, requantized
from xverify.core.call import BEHIND, BITS, Call, Tensor, code_dtype
from xverify.core.dtypes import FLOATS, NAN_AS_NUMBER, QUANTIZED, values
from xverify.core.rounding import cast

Reread = tuple[str, Codes]
Read = Callable[[Call, Operands, str], Reread | None]
"""A function of the call, the right operands and a role. It gives the dtype and codes that a mistake reads for the role.

The codes broadcast to the shape of x. None: the mistake cannot happen for the call.
"""

_PARAMETERS = ("scale", "zero_point")
_DATA = ("x", "zero_point")


@dataclass(frozen=True)
class Misindexing:
    """One mistake: wrong codes for one or several operands."""

    name: str
    """A stable name without spaces."""
    words: str
    """The mistake as a sentence's predicate."""
    roles: tuple[str, ...]
    """The operands that are read wrongly, where the call has them."""
    read: Read = field(repr=False, compare=False)
    """The wrong gather."""

    def operands(self, call: Call, right: Operands) -> Operands | None:
        """The operands with this mistake, of the same shape and output type as ``right``.

        Returns:
            None where the mistake cannot happen for this call, or changes neither a code nor the value of a code.
        """
        reread = {role: self.read(call, right, role) for role in self.roles if role in right.codes}
        return _replaced(right, {role: r for role, r in reread.items() if r is not None and _differs(right, role, r)})


def mistakes(call: Call, right: Operands) -> Iterator[tuple[Misindexing, Operands]]:
    """Every mistake that changes something for this call, with its operands, the likeliest first.

    Of mistakes with equal operands for this call, only the first comes. TensorFlow's formulas index nothing, so their calls
    have no mistakes.
    """
    read: dict[tuple[Read, str], tuple[Reread, bytes] | None] = {}
    seen: set[tuple[tuple[str, str, bytes], ...]] = set()
    for mistake in all_mistakes().values():
        changed = {}
        for role in mistake.roles:
            key = mistake.read, role
            if role in right.codes and key not in read:
                read[key] = _identified(right, role, mistake.read(call, right, role))
            if (identified := read.get(key)) is not None:
                changed[role] = identified
        identity = tuple((role, reread[0], content) for role, (reread, content) in changed.items())
        if not changed or identity in seen:
            continue
        seen.add(identity)
        wrong = _replaced(right, {role: reread for role, (reread, _) in changed.items()})
        assert wrong is not None
        yield mistake, wrong


def misindexing(name: str) -> Misindexing:
    """The mistake of that name.

    Raises:
        KeyError: There is no mistake of that name.
    """
    return all_mistakes()[name]


@cache
def all_mistakes() -> Mapping[str, Misindexing]:
    """Every mistake by name: of several operands, of one operand, then of a graph."""
    whole: list[Misindexing] = []
    alone: list[Misindexing] = []
    for name, words, roles, read in _rows():
        whole.append(Misindexing(name, words, roles, read))
        if len(roles) > 1:
            alone += [
                Misindexing(of_one(name, role), _words_of_one(words, role.replace("_", " ")), (role,), read)
                for role in roles
            ]
    return {mistake.name: mistake for mistake in (*whole, *alone, *_requantizations())}


def of_one(name: str, role: str) -> str:
    """The name of a mistake in one of its operands only."""
    return f"{name}-{role.replace('_', '-')}"


def _words_of_one(words: str, operand: str) -> str:
    """A mistake in words for one operand, such as "takes the first zero point for all channels"."""
    named = re.sub(r"(first|each parameter's|[lk]'s) parameters", rf"\1 {operand}", words)
    named = re.sub(r"parameter(s?)\b", rf"{operand}\1", named)
    return named if named != words else f"{words} ({operand} only)"


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
    """The wrong codes and their bytes after broadcasting, or None if they equal the right ones."""
    if reread is None or not _differs(right, role, reread):
        return None
    return reread, np.broadcast_to(reread[1], right.shape).tobytes()


# -- another gather of a scale or zero point -------------------------------------------------------------


def _parameter(gather: Gather, call: Call, right: Operands, role: str) -> Reread | None:
    placement = placement_of(call, right, role)
    codes = None if placement is None else gather(placement)
    return None if codes is None else (right.dtypes[role], codes)


def _handed(call: Call, role: str) -> Tensor:
    """The operand in the layout in which the operator gets it. A node before it has a result without gaps."""
    tensor = call.tensors[role]
    is_result = any(word.startswith(f"{role}<") for word in call.around)
    return replace(tensor, layout="C") if is_result else tensor


def _in_memory_order(call: Call, right: Operands, role: str) -> Reread | None:
    """Parameters by the position of x in memory, read as if it were the position in C order."""
    x = _handed(call, "x")
    if placement_of(call, right, role) is None or x.layout in ("C", "read-only"):
        return None
    laid = x.laid_out()
    steps = zip(np.ogrid[tuple(map(slice, laid.shape))], laid.strides, strict=True)
    addresses = sum((index * stride for index, stride in steps), np.zeros(laid.shape, np.int64))
    rank = np.unique(addresses, return_inverse=True)[1]
    spread = np.broadcast_to(right.codes[role], right.shape)
    return right.dtypes[role], spread.reshape(-1).take(rank).reshape(right.shape)


# -- another type of the same width -----------------------------------------------------------------------

_TYPES_OF_ONE_WIDTH = (
    ("int4", "uint4"),
    ("int2", "uint2"),
    ("int8", "uint8"),
    ("int16", "uint16"),
    ("float6_e2m3fn", "float6_e3m2fn"),
    ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
    ("float16", "bfloat16"),
)


_NEAR_ONE = 1e-6
"""The largest distance from 1 of a scale that is taken as 1. Tests of floats for equality often allow so much."""


def _retyped(dtype: str, other: str, call: Call, right: Operands, role: str) -> Reread | None:
    return (other, right.codes[role]) if right.dtypes[role] == dtype else None


def _widened(call: Call, right: Operands, role: str) -> Reread | None:
    """The memory of a parameter of 16 bits, read as float32 past its end, where every byte is `BEHIND`."""
    tensor = _handed(call, role)
    if tensor.dtype not in ("float16", "bfloat16") or 0 in right.shape:
        return None
    laid = tensor.laid_out()
    owner = laid if laid.base is None else laid.base
    memory = owner.ravel(order="K").view(np.uint8)
    own = memory[laid.ctypes.data - owner.ctypes.data :][: 4 * tensor.size]
    read = np.full(4 * tensor.size, BEHIND, np.uint8)
    read[: own.size] = own
    gathered = _gathered(call, right, role, read.view(np.uint32).reshape(tensor.shape))
    return None if gathered is None else ("float32", gathered[1])


def _magnitude(call: Call, right: Operands, role: str) -> Reread | None:
    """The parameter without its sign, where it has a float type with a sign."""
    dtype = right.dtypes[role]
    if dtype not in FLOATS or 0 in right.shape:
        return None
    return dtype, right.codes[role] & code_dtype(dtype).type((1 << (BITS[dtype] - 1)) - 1)


def _near_one(call: Call, right: Operands, role: str) -> Reread | None:
    """The scale 1 for scales that all lie near it, as by a kernel that leaves out a product with 1."""
    dtype, codes = right.dtypes[role], right.codes[role]
    if dtype not in FLOATS or 0 in right.shape or not (np.abs(values(dtype, codes) - 1.0) <= _NEAR_ONE).all():
        return None
    return dtype, np.full_like(codes, cast(np.asarray(1.0), dtype))


def _swapped(call: Call, right: Operands, role: str) -> Reread | None:
    """The other parameter, where both have a float type."""
    other = "zero_point" if role == "scale" else "scale"
    both = right.dtypes.get(other) in FLOATS and right.dtypes[role] in FLOATS
    return (right.dtypes[other], right.codes[other]) if both else None


def _type_pairs() -> Iterator[tuple[str, str]]:
    for types in _TYPES_OF_ONE_WIDTH:
        yield from permutations(types, 2)


# -- another element of the same operand ------------------------------------------------------------------


def _moved(
    source: Callable[[Index], Index], bits: int, padding: bool, call: Call, right: Operands, role: str
) -> Reread | None:
    """The operand with element source(i) in place of element i, in flat order.

    Only types of ``bits`` bits have this mistake (0: all types). Past the end there is the padding of the last byte, which is
    0. Without ``padding`` the element stays.
    """
    tensor = call.tensors[role]
    if bits not in (0, BITS[tensor.dtype]) or 0 in right.shape:
        return None
    own = np.arange(tensor.size)
    index = source(own)
    outside = (index < 0) | (index >= tensor.size)
    codes = tensor.codes.reshape(-1).take(np.where(outside, own, index))
    if padding:
        codes[outside] = 0
    return _gathered(call, right, role, codes.reshape(tensor.shape))


def _gathered(call: Call, right: Operands, role: str, codes: Codes) -> Reread | None:
    """Codes of a whole tensor that were changed in memory, gathered rightly."""
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
    """The memory of the tensor (see `lay_out`), read without gaps in C order.

    Reading starts at the first element, or at the start of the memory. None: it would run past the end.
    """
    tensor = _handed(call, role)
    laid = tensor.laid_out()
    owner = laid if laid.base is None else laid.base
    memory = owner.ravel(order="K").view(np.uint8)
    first = 0 if from_start else laid.ctypes.data - memory.ctypes.data
    window = memory[first : first + laid.nbytes]
    if window.size < laid.nbytes:
        return None
    return _gathered(call, right, role, window.view(laid.dtype).reshape(tensor.shape))


def _memory_order(call: Call, right: Operands, role: str) -> Reread | None:
    """The elements of the tensor in the order of their addresses, without gaps."""
    tensor = _handed(call, role)
    laid = tensor.laid_out()
    return _gathered(call, right, role, laid.ravel(order="K").reshape(tensor.shape))


# -- the result quantized once more ----------------------------------------------------------------------


def _quantized_again(dtype: str, keeps_zero_point: bool, call: Call, right: Operands, role: str) -> Reread | None:
    """The operands of the second dequantization. Without a type, it has that of x."""
    target = dtype or right.dtypes["x"]
    if not quantizes(right, target, keeps_zero_point):
        return None
    if role == "x":
        codes = requantized(right, target, keeps_zero_point)
        return None if codes is None else (target, codes)
    kept = right.codes[role]
    return right.dtypes[role], kept if keeps_zero_point else np.zeros((), kept.dtype)


def _requantizations() -> Iterator[Misindexing]:
    """Mistakes of an optimiser that quantizes the result again."""
    again = "quantizes the result again"
    for name, words, dtype, keeps_zero_point in (
        ("requantized", again, "", True),
        ("requantized-without-zero-point", f"{again} without its zero point", "", False),
        ("requantized-to-uint8", f"{again} to uint8 without a zero point", "uint8", False),
        ("requantized-to-int8", f"{again} to int8 without a zero point", "int8", False),
    ):
        yield Misindexing(name, words, _DATA, partial(_quantized_again, dtype, keeps_zero_point))


# -- the table --------------------------------------------------------------------------------------------


def _rows() -> Iterator[tuple[str, str, tuple[str, ...], Read]]:
    """Name, words, roles and gather of every mistake, the likeliest first."""
    for name, words, gather in GATHERS:
        yield name, words, _PARAMETERS, partial(_parameter, gather)
    for dtype, other in _type_pairs():
        roles = _DATA if dtype in QUANTIZED else _PARAMETERS
        yield f"{dtype}-as-{other}", f"reads {dtype} as {other}", roles, partial(_retyped, dtype, other)
    wide = "reads a scale of 16 bits as float32, past the end of its memory"
    yield "16-bit-scale-as-float32", wide, ("scale",), _widened
    for other, (dtype, numbers) in NAN_AS_NUMBER.items():
        words = "reads NaN as " + " or ".join(f"{number:g}" for number in numbers.values())
        yield other, words, _DATA, partial(_retyped, dtype, other)
    yield "parameters-swapped", "takes the scale and the zero point for each other", _PARAMETERS, _swapped
    yield "magnitude", "takes the magnitude of the scale", ("scale",), _magnitude
    yield "scale-near-one", f"takes scales within {_NEAR_ONE:g} of 1 as 1", ("scale",), _near_one
    for name, words, bits, padding, source in _PACKED:
        yield name, words, _DATA, partial(_moved, source, bits, padding)
    memory_order = "takes the parameters by the place of x in memory"
    yield "parameters-in-memory-order", memory_order, _PARAMETERS, _in_memory_order
    yield "strides-ignored", "reads x as if its memory were contiguous", ("x",), partial(_layout_ignored, False)
    start = "reads x as if its memory were contiguous and began with its first element"
    yield "strides-and-offset-ignored", start, ("x",), partial(_layout_ignored, True)
    parameters = "reads the parameters as if their memory were contiguous"
    yield "parameter-strides-ignored", parameters, _PARAMETERS, partial(_layout_ignored, False)
    yield "memory-order", "takes the elements of x in the order of their memory", ("x",), _memory_order
    for name, words, source in _SHIFTED:
        yield name, words, ("x",), partial(_moved, source, 0, False)
