"""The DequantizeLinear nodes of a model: types, shapes, attributes and constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from xverify.core.call import Attribute, Tensor


class Constant(Protocol):
    """A constant of a model. It may be larger than the memory, so it is read by parts."""

    @property
    def dtype(self) -> str:
        """The dtype, by its name in `xverify.core.call.BITS`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""

    def part(self, index: tuple[slice, ...]) -> Tensor:
        """Read the codes of a part.

        Args:
            index: One slice of step 1 for each axis.

        Raises:
            DamagedFileError: The file is too short, or cannot be read.
        """


@dataclass(frozen=True, eq=False)
class Operand:
    """An operand of a node."""

    value: str
    """The name of the value in its graph."""
    dtype: str
    """The dtype, "" if it could not be inferred."""
    shape: tuple[int | None, ...] | None
    """The extents, None for each unknown one; None if the rank is unknown."""
    constant: Constant | None = None
    """The constant, if the operand is an initializer or the output of a Constant node."""
    symbols: tuple[str, ...] = ()
    """The name of each extent, "" for one without a name. Extents of one name are equal. Empty if there are no names."""


@dataclass(frozen=True, eq=False)
class Node:
    """A DequantizeLinear node of a model."""

    name: str
    """Its name, unique in the model. A node without a name has that of its output."""
    contract: str
    """The edition of the model's own opset, such as ai.onnx/DequantizeLinear-21."""
    attributes: Mapping[str, Attribute]
    """Attributes, as in `xverify.core.call.Call`."""
    operands: Mapping[str, Operand]
    """Operands by role: x, scale, zero_point. An absent zero point has no entry."""
    output: str
    """The name of the result in its graph."""
    graph: tuple[str, ...] = ()
    """The way to its graph: () for the model's own graph, ("If_3.then_branch",) for a subgraph."""
    function: str = ""
    """The name of the model's function that it stands in, "" for none. Its values are those of the inlined model."""
