"""Limits of a kernel: the calls that it takes, as admitted values of a few properties of a call.

A user states limits, or the gate learns them from the calls that a kernel refuses as not implemented. `PROPERTIES` lists the
properties. One that does not apply to a call, such as the block size of a per-tensor call, is None and always admitted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from xverify.arithmetic.linear_operands import normal_axis
from xverify.core.call import Call, Tensor, lay_out

Value = Hashable
"""A value of a property."""

Pattern = tuple[tuple[str, Value], ...]
"""Properties with one value each. A call has the pattern if it has all of these values."""

SIZES = (0, 1, 2, 4, 16, 64, 256, 1024, 4096, 65536)
"""Upper ends of the classes of sizes, in elements of x. Larger tensors are one more class."""

MOST_FACTOR = 256
"""The largest power of two that the property "last extent" tells apart."""

LONGEST = 3
"""Longer extents are cut to this one to find out if a layout is contiguous. That depends only on which extents are 1."""

MOST_LAID_OUT = 4096
"""Tensors of more elements are not laid out as "broadcast", whose strides depend on the values."""


def granularity_of(call: Call) -> str:
    """The granularity of a linear call by its shapes and attributes.

    It is "per_tensor", "per_axis" or "blocked". A call of a range formula has none: "".
    """
    scale = call.tensors.get("scale")
    if scale is None:
        return ""
    if call.contract.startswith("onednn/") or "qtype" in call.attributes:
        return "per_tensor" if call.attributes.get("qtype", "per_tensor") == "per_tensor" else "per_axis"
    if scale.shape == ():
        return "per_tensor"
    if block_size_of(call) and len(scale.shape) == len(call.data.shape):
        return "blocked"
    return "per_axis" if scale.shape != (1,) or _is_along_axis(call) else "per_tensor"


def _is_along_axis(call: Call) -> bool:
    """True if the scale has one element because the axis has extent 1."""
    shape, axis = call.data.shape, call.attributes.get("axis", 1)
    from_front = normal_axis(axis, len(shape)) if isinstance(axis, int) else None
    return from_front is not None and shape[from_front] == 1


def block_size_of(call: Call) -> int:
    """The attribute block_size; 0 if it is absent or no number."""
    size = call.attributes.get("block_size", 0)
    return size if isinstance(size, int) else 0


def axis_of(call: Call) -> int | None:
    """The axis of the parameters, counted from the back: -1 is the last. None for per-tensor calls.

    An axis outside the rank is 0, which no limit admits.
    """
    if granularity_of(call) in ("", "per_tensor"):
        return None
    rank, axis = len(call.data.shape), call.attributes.get("axis", 1)
    from_front = normal_axis(axis, rank) if isinstance(axis, int) else None
    return 0 if from_front is None else from_front - rank


def _axis_both(call: Call) -> tuple[int, ...] | None:
    """The axis counted from the back and from the front; empty if it is outside the rank."""
    axis = axis_of(call)
    return None if axis is None else (axis, axis + len(call.data.shape)) if axis else ()


def _axis_from_front(call: Call) -> int | None:
    both = _axis_both(call)
    return None if both is None else both[1] if both else -1


def _block_size(call: Call) -> int | None:
    return block_size_of(call) if granularity_of(call) == "blocked" else None


def _whole_blocks(call: Call) -> bool | None:
    size, axis = block_size_of(call), axis_of(call)
    if granularity_of(call) != "blocked" or not axis:
        return None
    return call.data.shape[axis] % size == 0


def _several_blocks(call: Call) -> bool | None:
    size, axis = block_size_of(call), axis_of(call)
    if granularity_of(call) != "blocked" or not axis:
        return None
    return call.data.shape[axis] > size


def _contiguous(role: str, call: Call) -> bool | None:
    tensor = call.data if role == "x" else call.tensors.get(role)
    return None if tensor is None else is_contiguous(tensor)


def is_contiguous(tensor: Tensor) -> bool:
    """True if the elements lie in memory in C order without gaps."""
    if tensor.layout == "C" or tensor.size < 2:
        return True
    if tensor.layout == "broadcast":
        return tensor.size <= MOST_LAID_OUT and bool(tensor.laid_out().flags.c_contiguous)
    return _is_laid_out_contiguously(tuple(min(extent, LONGEST) for extent in tensor.shape), tensor.layout)


@lru_cache(maxsize=4096)
def _is_laid_out_contiguously(shape: tuple[int, ...], layout: str) -> bool:
    return bool(lay_out(np.zeros(shape, np.uint8), layout).flags.c_contiguous)


def _any_layout(layout: str, call: Call) -> bool:
    return any(tensor.layout == layout for tensor in call.tensors.values())


def _aligned(call: Call) -> bool:
    return not _any_layout("misaligned", call)


def _writable(call: Call) -> bool:
    return not _any_layout("read-only", call)


def size_class(call: Call) -> int:
    """The smallest upper end of `SIZES` that holds the elements of x; -1 for larger tensors."""
    return next((most for most in SIZES if call.data.size <= most), -1)


def _last_factor(call: Call) -> int | None:
    """The largest power of two, up to `MOST_FACTOR`, that divides the last extent."""
    shape = call.data.shape
    return math.gcd(shape[-1], MOST_FACTOR) if shape and shape[-1] else None


def _factor(call: Call) -> int | None:
    """The largest power of two, up to `MOST_FACTOR`, that divides the number of elements."""
    return math.gcd(call.data.size, MOST_FACTOR) if call.data.size else None


def _zero_point(call: Call) -> str:
    zero_point = call.tensors.get("zero_point")
    return "none" if zero_point is None else zero_point.dtype


def output_type_of(call: Call) -> str:
    """The type of the result by the attributes; without them the type of the scale, or float32."""
    scale = call.tensors.get("scale")
    explicit = call.attributes.get("output_dtype", call.attributes.get("dtype"))
    return str(explicit) if explicit is not None else "float32" if scale is None else scale.dtype


def _axis_form(call: Call) -> str | None:
    axis = call.attributes.get("axis")
    if granularity_of(call) in ("", "per_tensor"):
        return None
    return "absent" if axis is None else "negative" if isinstance(axis, int) and axis < 0 else "from the front"


@dataclass(frozen=True)
class Property:
    """A property of a call."""

    of: Callable[[Call], Value]
    """The value for a call; None where the property does not apply."""

    words: Callable[[frozenset[Value]], str]
    """Words for calls whose value is among these: "rank 1 to 4"."""

    admits: Callable[[frozenset[Value], Value], bool] = lambda admitted, value: value in admitted
    """admits(admitted, value): True if a call with that value is within the limit."""

    learnt: bool = True
    """True if the gate learns which values a kernel takes."""


def listed(values: Iterable[object]) -> str:
    """Values in a sentence: "16, 32 or 64"."""
    words = [str(value) for value in values]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}" if words else "none"


def _numbers(values: frozenset[Value]) -> list[int]:
    return sorted(value for value in values if isinstance(value, int))


def _span(values: frozenset[Value]) -> str:
    """Numbers in words: "1 to 4", or a list where some are left out."""
    numbers = _numbers(values)
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]} to {numbers[-1]}"
    return listed(numbers)


def _ranks(values: frozenset[Value]) -> str:
    return f"rank{'s' if len(_numbers(values)) > 1 else ''} {_span(values)}"


_FROM_BACK = {-1: "the last", -2: "the second last", -3: "the third last"}


def _axes(values: frozenset[Value]) -> str:
    numbers = sorted(_numbers(values), reverse=True)
    return listed(_FROM_BACK.get(n, f"axis {n}") if n < 0 else f"axis {n}" for n in numbers) + (
        " axis" if numbers and all(n in _FROM_BACK for n in numbers) else ""
    )


def _sizes(values: frozenset[Value]) -> str:
    numbers = _numbers(values)
    if -1 in numbers:
        return f"more than {max((n for n in SIZES if n not in numbers), default=0)} elements"
    return f"at most {max(numbers, default=0)} elements"


def _choice(yes: str, no: str) -> Callable[[frozenset[Value]], str]:
    return lambda values: no if values == {False} else yes


def _plain(before: str = "") -> Callable[[frozenset[Value]], str]:
    return lambda values: before + listed(sorted(map(str, values - {None}))).replace("_", " ")


def _factors(of: str) -> Callable[[frozenset[Value]], str]:
    return lambda values: f"{of} that are multiples of {min(_numbers(values), default=1)}"


def _block_sizes(values: frozenset[Value]) -> str:
    return f"blocks of {_span(values)}"


PROPERTIES: Mapping[str, Property] = {
    "granularity": Property(granularity_of, _plain()),
    "x type": Property(lambda call: call.data.dtype, _plain("x of ")),
    "scale type": Property(
        lambda call: call.tensors["scale"].dtype if "scale" in call.tensors else None, _plain("scale of ")
    ),
    "output type": Property(output_type_of, _plain("output of ")),
    "zero point": Property(
        _zero_point, lambda values: "no zero point" if values == {"none"} else _plain("zero point of ")(values)
    ),
    "block size": Property(_block_size, _block_sizes),
    "axis": Property(
        _axis_both,
        lambda values: f"on {_axes(values)}",
        lambda admitted, value: isinstance(value, tuple) and bool(admitted & {*value}),
        learnt=False,
    ),
    "axis from the back": Property(axis_of, lambda values: f"on {_axes(values)}"),
    "axis from the front": Property(_axis_from_front, lambda values: f"on {_axes(values)}"),
    "whole blocks": Property(_whole_blocks, _choice("whole blocks only", "blocks with a remainder")),
    "several blocks": Property(_several_blocks, _choice("more than one block", "one block only")),
    "rank": Property(lambda call: len(call.data.shape), _ranks),
    "contiguous x": Property(lambda call: _contiguous("x", call), _choice("contiguous x", "strided x")),
    "contiguous scale": Property(lambda call: _contiguous("scale", call), _choice("contiguous scale", "strided scale")),
    "contiguous zero point": Property(
        lambda call: _contiguous("zero_point", call), _choice("contiguous zero point", "strided zero point")
    ),
    "aligned": Property(_aligned, _choice("aligned tensors", "misaligned tensors")),
    "writable": Property(_writable, _choice("writable tensors", "read-only tensors")),
    "elements": Property(size_class, _sizes),
    "element count": Property(_factor, _factors("numbers of elements")),
    "last extent": Property(_last_factor, _factors("last extents")),
    "axis attribute": Property(_axis_form, _plain("axis attribute ")),
}
"""The properties by name, in the order in which words name them."""

CONTIGUOUS = ("contiguous x", "contiguous scale", "contiguous zero point")
"""The properties that say if tensors are contiguous."""


ONLY_TRUE: frozenset[Value] = frozenset([True])


@dataclass(frozen=True)
class CallLimits:
    """The calls that a kernel takes. Without limits, all of them."""

    admitted: tuple[tuple[str, frozenset[Value]], ...] = ()
    """The admitted values of each limited property. None is always admitted."""

    without: tuple[Pattern, ...] = ()
    """Patterns of calls that are left out, such as int4 with more than one block."""

    def holds(self, call: Call) -> bool:
        """True if a call is within the limits."""
        for name, values in self.admitted:
            value = PROPERTIES[name].of(call)
            if value is not None and not PROPERTIES[name].admits(values, value):
                return False
        return not any(all(PROPERTIES[name].of(call) == value for name, value in pattern) for pattern in self.without)

    def values(self, name: str) -> frozenset[Value]:
        """The admitted values of a property; empty if it is not limited."""
        return dict(self.admitted).get(name, frozenset())

    def and_(self, other: CallLimits) -> CallLimits:
        """The calls that are within both limits."""
        both = dict(self.admitted)
        for name, values in other.admitted:
            both[name] = both[name] & values if name in both else values
        return CallLimits(tuple(both.items()), tuple(dict.fromkeys((*self.without, *other.without))))

    def __bool__(self) -> bool:
        """True if some call is outside the limits."""
        return bool(self.admitted or self.without)

    def __str__(self) -> str:
        """The limits in words: "blocks of 32, on the last axis, whole blocks only, ranks 1 to 4"."""
        admitted = dict(self.admitted)
        names = [name for name in PROPERTIES if name in admitted]
        if all(admitted.get(name) == ONLY_TRUE for name in CONTIGUOUS):
            names = [name for name in names if name not in CONTIGUOUS[1:]]
        words = [
            "contiguous tensors"
            if name == CONTIGUOUS[0] and all(admitted.get(other) == ONLY_TRUE for other in CONTIGUOUS)
            else PROPERTIES[name].words(admitted[name])
            for name in names
            if admitted[name] - {None}
        ]
        return ", ".join([*words, *(f"not {in_words(pattern)}" for pattern in self.without)])


def in_words(pattern: Pattern) -> str:
    """A pattern in words: "x of int4 with more than one block"."""
    order = list(PROPERTIES)
    rows = sorted(pattern, key=lambda row: order.index(row[0]))
    return " with ".join(PROPERTIES[name].words(frozenset([value])) for name, value in rows)


def parsed(
    block_sizes: Iterable[str] = (), axes: Iterable[str] = (), ranks: Iterable[str] = (), contiguous: bool = False
) -> CallLimits:
    """Limits from the words of a user.

    Args:
        block_sizes: Block sizes, each 1 or larger.
        axes: Axes of the parameters; a negative one counts from the back.
        ranks: Ranks of x, or ranges of ranks such as "1-4".
        contiguous: True to leave out tensors that are not contiguous.

    Raises:
        ValueError: A word is no such number. The message is one sentence.
    """
    admitted: list[tuple[str, frozenset[Value]]] = []
    sizes = [_number(word, "block size", 1, "a number from 1, such as 32") for word in block_sizes]
    if sizes:
        admitted.append(("block size", frozenset(sizes)))
    numbers = [_number(word, "axis", -(2**31), "a number such as 0, or -1 for the last axis") for word in axes]
    if numbers:
        admitted.append(("axis", frozenset(numbers)))
    spans = [rank for word in ranks for rank in _ranks_of(word)]
    if spans:
        admitted.append(("rank", frozenset(spans)))
    if contiguous:
        admitted += [(name, ONLY_TRUE) for name in CONTIGUOUS]
    return CallLimits(tuple(admitted))


def _number(word: object, what: str, least: int, wanted: str) -> int:
    try:
        number = int(str(word))
    except ValueError:
        number = least - 1
    if number < least or isinstance(word, bool):
        raise ValueError(f"{word!r} is not {'an' if what == 'axis' else 'a'} {what}: write {wanted}")
    return number


def _ranks_of(word: str) -> range:
    first, dash, last = word.partition("-")
    wanted = "a number such as 2, or a range such as 1-4"
    low = _number(first, "rank", 0, wanted)
    high = _number(last, "rank", 0, wanted) if dash else low
    if high < low:
        raise ValueError(f"{word!r} is an empty range of ranks: write the smaller rank first, such as {high}-{low}")
    return range(low, high + 1)
