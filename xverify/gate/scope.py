"""The scope of a ledger's entry: facts of a call, and conditions on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import get_args

from xverify.contracts.model import Cell, Granularity
from xverify.core.call import BITS, LAYOUTS, Call, Tensor

Fact = str | int | None
Facts = Mapping[str, Fact]
"""The facts of one call by the names of `FIELDS`. A fact is a word ("" if absent) or a number (None if absent)."""


@dataclass(frozen=True)
class Field:
    """A field that a scope may name."""

    of: Callable[[Call, Cell | None], Fact]
    """The fact of a call and its cell, which is None for a forbidden call."""
    is_number: bool = False
    """True for a number, False for a word."""
    words: tuple[str, ...] = ()
    """The words that the fact can be; () for any."""


@dataclass(frozen=True)
class Condition:
    """A condition on one field: a list of words or numbers, or a range of numbers."""

    field: str
    """A name of `FIELDS`."""
    among: tuple[str | int, ...] = ()
    """The words, which may be globs, or the numbers that satisfy it; () for a range."""
    least: int | None = None
    """The smallest number that satisfies it; None for no bound."""
    most: int | None = None
    """The largest number that satisfies it; None for no bound."""

    def holds(self, call_facts: Facts) -> bool:
        """True if the facts satisfy the condition. A number that is absent satisfies none."""
        fact = call_facts.get(self.field)
        if fact is None:
            return False
        if isinstance(fact, str):
            return any(matches(fact, str(pattern)) for pattern in self.among)
        if self.among:
            return fact in self.among
        return (self.least is None or self.least <= fact) and (self.most is None or fact <= self.most)


def matches(text: str, pattern: str) -> bool:
    """True if the pattern equals the text or is a glob (``*``, ``?``, ``[...]``) that matches it."""
    # Compare first: a path may hold brackets that are not meant as a glob.
    return text == pattern or fnmatchcase(text, pattern)


def facts(call: Call, cell: Cell | None) -> dict[str, Fact]:
    """The facts of a call. The cell is None for a forbidden call, which has fewer facts."""
    return {name: field.of(call, cell) for name, field in FIELDS.items()}


def _scale(call: Call) -> Tensor | None:
    return call.tensors.get("scale") or call.tensors.get("min_range")


def _dtype(tensor: Tensor | None) -> str:
    return "" if tensor is None else tensor.dtype


def _layout(tensor: Tensor | None) -> str:
    return "" if tensor is None else tensor.layout


def _attribute(call: Call, name: str) -> str:
    return str(call.attributes.get(name, ""))


def _number(call: Call, name: str) -> int | None:
    value = call.attributes.get(name)
    return None if value is None or isinstance(value, str) else int(value)


_DTYPES = (*BITS, "")
_LAYOUTS = (*LAYOUTS, "")

FIELDS: Mapping[str, Field] = {
    "x_dtype": Field(lambda call, cell: call.data.dtype, words=_DTYPES),
    "scale_dtype": Field(lambda call, cell: cell.scale_dtype if cell else _dtype(_scale(call)), words=_DTYPES),
    "zero_point_dtype": Field(
        lambda call, cell: cell.zero_point_dtype if cell else _dtype(call.tensors.get("zero_point")), words=_DTYPES
    ),
    "out_dtype": Field(lambda call, cell: cell.out_dtype if cell else "", words=_DTYPES),
    "granularity": Field(lambda call, cell: cell.granularity if cell else "", words=(*get_args(Granularity), "")),
    "variant": Field(lambda call, cell: cell.variant if cell else ""),
    "mode": Field(lambda call, cell: _attribute(call, "mode")),
    "qtype": Field(lambda call, cell: _attribute(call, "qtype")),
    "layout": Field(lambda call, cell: call.data.layout, words=_LAYOUTS),
    "scale_layout": Field(lambda call, cell: _layout(_scale(call)), words=_LAYOUTS),
    "zero_point_layout": Field(lambda call, cell: _layout(call.tensors.get("zero_point")), words=_LAYOUTS),
    "rank": Field(lambda call, cell: len(call.data.shape), True),
    "values": Field(lambda call, cell: call.values, True),
    "row_length": Field(lambda call, cell: call.data.shape[-1] if call.data.shape else None, True),
    "axis": Field(lambda call, cell: _number(call, "axis"), True),
    "block_size": Field(lambda call, cell: _number(call, "block_size"), True),
}
"""The fields that a scope may name.

Types, granularity and variant are those of a report's cells. "layout" is the memory layout of x, "values" the number of its
elements, "row_length" its last extent. "axis" and "block_size" are the call's attributes.
"""
