"""What a ledger's entry may say of the calls that it is about: a table of facts, and conditions on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import get_args

from xverify.contracts.model import Cell, Granularity
from xverify.core.call import BITS, LAYOUTS, Call, Tensor

Fact = str | int | None
Facts = Mapping[str, Fact]
"""Of one call, per field of `FIELDS`: a word ("" where there is none) or a number (None where there is none)."""


@dataclass(frozen=True)
class Field:
    """A fact of a call and, where it has one, its cell. known: the words that it can be, () for any."""

    of: Callable[[Call, Cell | None], Fact]
    is_number: bool = False
    known: tuple[str, ...] = ()


@dataclass(frozen=True)
class Condition:
    """A field is among some words (globs) or numbers, or lies between least and most, both included."""

    field: str
    among: tuple[str | int, ...] = ()
    least: int | None = None
    most: int | None = None

    def holds(self, given: Facts) -> bool:
        """Whether it holds of these facts; never of a number that is not there."""
        fact = given.get(self.field)
        if fact is None:
            return False
        if isinstance(fact, str):
            return any(matches(fact, str(pattern)) for pattern in self.among)
        if self.among:
            return fact in self.among
        return (self.least is None or self.least <= fact) and (self.most is None or fact <= self.most)


def matches(text: str, pattern: str) -> bool:
    """Whether the text is the pattern, or the pattern is a glob (``*``, ``?``, ``[...]``) of it."""
    # Equal first: a path may hold brackets that are not meant as a glob.
    return text == pattern or fnmatchcase(text, pattern)


def facts(call: Call, cell: Cell | None) -> dict[str, Fact]:
    """The facts of a call. cell: None for a forbidden call, of which less can be said."""
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
    "x_dtype": Field(lambda call, cell: call.data.dtype, known=_DTYPES),
    "scale_dtype": Field(lambda call, cell: cell.scale_dtype if cell else _dtype(_scale(call)), known=_DTYPES),
    "zero_point_dtype": Field(
        lambda call, cell: cell.zero_point_dtype if cell else _dtype(call.tensors.get("zero_point")), known=_DTYPES
    ),
    "out_dtype": Field(lambda call, cell: cell.out_dtype if cell else "", known=_DTYPES),
    "granularity": Field(lambda call, cell: cell.granularity if cell else "", known=(*get_args(Granularity), "")),
    "variant": Field(lambda call, cell: cell.variant if cell else ""),
    "mode": Field(lambda call, cell: _attribute(call, "mode")),
    "qtype": Field(lambda call, cell: _attribute(call, "qtype")),
    "layout": Field(lambda call, cell: call.data.layout, known=_LAYOUTS),
    "scale_layout": Field(lambda call, cell: _layout(_scale(call)), known=_LAYOUTS),
    "zero_point_layout": Field(lambda call, cell: _layout(call.tensors.get("zero_point")), known=_LAYOUTS),
    "rank": Field(lambda call, cell: len(call.data.shape), True),
    "values": Field(lambda call, cell: call.values, True),
    "row_length": Field(lambda call, cell: call.data.shape[-1] if call.data.shape else None, True),
    "axis": Field(lambda call, cell: _number(call, "axis"), True),
    "block_size": Field(lambda call, cell: _number(call, "block_size"), True),
}
"""Every field that a scope may name: types, granularity and variant as a report's cells have them; "layout" of x, values of
x, "row_length" along its last axis; axis and block_size as they were given."""
