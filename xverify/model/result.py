"""The result of checking a model, as data for reports and scripts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from xverify.core.call import Tensor

Check = Literal["alone", "neighbours", "whole"]
"""The way of a check: the node's call alone, with a few nodes around it, or within the whole model."""

Kind = Literal["violation", "crash", "hang", "rejected", "differs"]
"""The kind of a difference.

"violation": a value is outside the legal set of the node's edition. "differs": values that no edition fixes, such as those after
a MatMul, are not the same in two runs; it is no fault. The others are endings of a run.
"""


@dataclass(frozen=True, eq=False)
class Difference:
    """A difference at a node in one implementation, from a check of the model."""

    node: str
    """The name of the node."""
    check: Check
    kind: Kind
    oracle: str
    """The implementation, by its name in a run."""
    level: str
    """The optimisation level, by its name in `xverify.oracles.protocol.Oracle.models`."""
    against: str = ""
    """The run that it differs from, as "onnxruntime graph optimization=off"; "" if the edition's text decides."""
    value: str = ""
    """The name of the value with the first wrong element."""
    index: tuple[int, ...] = ()
    """The index of that element: in the part, if there is one."""
    dtype: str = ""
    got: str = ""
    """Its bits in hex."""
    legal: tuple[str, ...] = ()
    """The legal bits in hex, or those of the other run."""
    wrong: int = 0
    """The number of wrong elements."""
    elements: int = 0
    """The number of compared elements."""
    ulp: int = 0
    """The largest distance in ULP from the nearest legal value; 0 where it is not defined."""
    distance: float | None = None
    """The largest absolute difference from another run; None if there is no other run, or if it is not finite."""
    magnitude: float | None = None
    """The largest finite magnitude of that run's value; None as for the distance."""
    bounds: tuple[float, float] | None = None
    """The least and the largest value of the element for every order of the sums in the part, if its value is beyond these.

    `distance` is then the distance from them.
    """
    sums: str = ""
    """The dtype of these sums."""
    message: str = ""
    """The message of a crash, a hang or a refusal."""
    operators: tuple[str, ...] = ()
    """The operators of the part of the model, in order."""
    part: bytes = b""
    """The smallest part of the model that shows it, as an ONNX model without external data; empty if there is none."""
    inputs: Mapping[str, Tensor] = field(default_factory=dict)
    """The inputs of that part."""
    reduced: Difference | None = None
    """The same difference in that part with smaller inputs and constants, as the script shows it; None if there is none."""
    occurrence: int = 0
    """The run of the node's subgraph, counted from 0. A loop runs it several times."""


StateOf = Literal["ok", "difference", "compared", "not checked"]
"""The state of a check. "compared": the results of several runs were compared, and no text says which of them are legal."""


@dataclass(frozen=True)
class State:
    """The state of a check of a node in one implementation at one level."""

    node: str
    check: Check
    oracle: str
    level: str
    state: StateOf
    reason: str = ""
    """The reason why it was not checked or only compared, as a clause such as "its values have 200 MiB"; "" otherwise."""


@dataclass(frozen=True, eq=False)
class Checked:
    """The result of a check of several nodes."""

    differences: tuple[Difference, ...]
    states: tuple[State, ...]
