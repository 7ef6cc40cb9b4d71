"""Twins of a call: other calls that must give the same values.

Per tensor is per axis with equal scales, and is one block. A call can be cut along an axis and joined again. Axes can be
merged. Another edition may admit the same call under the same formula. An implementation that gives other values for the
twin follows two readings, and it takes no reference to see that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify import contracts
from xverify.arithmetic.linear_operands import ceil_div
from xverify.contracts.model import Contract
from xverify.core.call import Attribute, Call, Outcome, Tensor
from xverify.core.errors import DocumentError
from xverify.strategies.limits import block_size_of

UNDER = "under:"
"""The beginning of the name of a twin in another edition. The edition's id follows."""

PARAMETERS = ("scale", "zero_point")


@dataclass(frozen=True, eq=False)
class Twin:
    """Another form of a call."""

    name: str
    """The name of the equivalence, which does not depend on the call."""
    kind: str
    """The kind of the equivalence: "granularity", "axes" or "edition"."""
    words: str
    """The form in words that complete "when it is asked ..."."""
    calls: tuple[Call, ...]
    """One call, or the pieces in order."""
    axis: int | None
    """The axis along which pieces are joined. None for one call."""
    shape: tuple[int, ...]
    """The shape of the original call's quantized tensor, and so of the joined result."""


@dataclass(frozen=True, eq=False)
class _Linear:
    """The content of a linear call, without the form that its edition gives it."""

    tensors: Mapping[str, Tensor]
    granularity: str
    axis: int
    """The axis, counted from the front."""
    block_size: int
    out_dtype: str

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of x."""
        return self.tensors["x"].shape

    def each(self, role: str) -> NDArray[Any]:
        """The parameter's code for each value of x, in the shape of x."""
        codes = self.tensors[role].codes
        if self.granularity == "blocked":
            inside = tuple(slice(extent) for extent in self.shape)
            return np.repeat(codes, self.block_size, self.axis)[inside]
        if self.granularity == "per_axis":
            codes = np.expand_dims(codes, [i for i in range(len(self.shape)) if i != self.axis])
        else:
            codes = codes.reshape(())
        return np.broadcast_to(codes, self.shape)

    def regranulated(
        self, granularity: str, axis: int, block_size: int, cut: Callable[[NDArray[Any]], NDArray[Any]]
    ) -> _Linear:
        """The same content in another granularity. ``cut`` makes the parameters from those of each value of x."""
        tensors = dict(self.tensors)
        for role in PARAMETERS:
            if role in tensors:
                tensors[role] = Tensor(tensors[role].dtype, np.array(cut(self.each(role)), order="C"))
        return replace(self, tensors=tensors, granularity=granularity, axis=axis, block_size=block_size)


Pieces = tuple[tuple[Call, ...], int | None]
Make = Callable[[Contract, Call], Pieces | None]


# -- a linear call, read and written ------------------------------------------------------------------------


def _read(contract: Contract, call: Call) -> _Linear:
    cell = contract.cell(call)
    axis = int(call.attributes.get("axis", contract.domain.default_axis or 0))
    rank = len(call.data.shape)
    return _Linear(
        call.tensors,
        cell.granularity,
        axis % rank if cell.granularity != "per_tensor" else 0,
        block_size_of(call),
        cell.out_dtype,
    )


def _written(contract: Contract, content: _Linear, origin: str) -> Call:
    """The call in the form of an edition, with all attributes that it needs."""
    domain, tensors = contract.domain, dict(content.tensors)
    attributes: dict[str, Attribute] = {}
    qtype = "qtype" in domain.attributes
    if content.granularity == "per_tensor":
        # oneDNN's texts want a 1-D tensor of one element, and the others a scalar.
        for role in PARAMETERS:
            if role in tensors:
                tensors[role] = Tensor(tensors[role].dtype, tensors[role].codes.reshape((1,) if qtype else ()))
    else:
        attributes["axis"] = content.axis
        if qtype:
            attributes["qtype"] = "per_channel"
    if content.granularity == "blocked":
        attributes["block_size"] = content.block_size
    if content.out_dtype != tensors["scale"].dtype:
        attributes["output_dtype"] = content.out_dtype
    return Call(contract.id, tensors, attributes, origin)


# -- granularity --------------------------------------------------------------------------------------------


def _per_axis(contract: Contract, call: Call) -> Pieces | None:
    """Per tensor as per axis along the last axis, where neighbouring values have scales of their own."""
    content = _read(contract, call)
    last = len(content.shape) - 1
    if content.granularity != "per_tensor" or last < 0:
        return None
    spread = content.regranulated("per_axis", last, 0, lambda each: _line(each, last))
    return (_written(contract, spread, call.origin),), None


def _line(each: NDArray[Any], axis: int) -> NDArray[Any]:
    """The codes along one axis of an array that is constant along all others. For an empty array, zeros."""
    if not each.size:
        return np.zeros(each.shape[axis], each.dtype)
    return np.moveaxis(each, axis, 0).reshape(each.shape[axis], -1)[:, 0]


def _one_block(contract: Contract, call: Call) -> Pieces | None:
    """Per tensor or per axis as one block, along the last axis on which the scale does not depend."""
    content = _read(contract, call)
    free = [i for i in range(len(content.shape)) if content.granularity == "per_tensor" or i != content.axis]
    if content.granularity == "blocked" or not free or 0 in content.shape:
        return None
    axis = free[-1]
    spread = content.regranulated("blocked", axis, content.shape[axis], lambda each: each.take([0], axis))
    return (_written(contract, spread, call.origin),), None


def _blocks_of_one(contract: Contract, call: Call) -> Pieces | None:
    """Any granularity as blocks of one value each, along the first axis."""
    content = _read(contract, call)
    if not content.shape or (content.granularity, content.block_size, content.axis) == ("blocked", 1, 0):
        return None
    spread = content.regranulated("blocked", 0, 1, lambda each: each)
    return (_written(contract, spread, call.origin),), None


# -- axes ---------------------------------------------------------------------------------------------------


def _merged(contract: Contract, call: Call) -> Pieces | None:
    """The call with all axes merged, or those on each side of the axis of the parameters."""
    if contract.domain.family == "range":
        return _with_data_shape(call, (call.values,))
    content = _read(contract, call)
    if content.granularity == "per_tensor":
        return _with_data_shape(call, (call.values,))
    shape = _around(content.shape, content.axis)
    if shape == content.shape:
        return None
    tensors = {"x": _reshaped(content.tensors["x"], shape)}
    for role in PARAMETERS:
        if role in content.tensors:
            old = content.tensors[role]
            tensors[role] = (
                _reshaped(old, _around(old.shape, content.axis)) if content.granularity == "blocked" else old
            )
    merged = replace(content, tensors=tensors, axis=1)
    return (_written(contract, merged, call.origin),), None


def _around(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    before, after = (int(np.prod(part, dtype=np.int64)) for part in (shape[:axis], shape[axis + 1 :]))
    return before, shape[axis], after


def _reshaped(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    return Tensor(tensor.dtype, tensor.codes.reshape(shape), tensor.layout)


def _with_data_shape(call: Call, shape: tuple[int, ...]) -> Pieces | None:
    if call.data.shape == shape:
        return None
    role = "x" if "x" in call.tensors else "input"
    return (replace(call, tensors={**call.tensors, role: _reshaped(call.data, shape)}),), None


def _split_first(contract: Contract, call: Call) -> Pieces | None:
    return _split(contract, call, 0) if call.data.shape else None


def _split_last(contract: Contract, call: Call) -> Pieces | None:
    last = len(call.data.shape) - 1
    return _split(contract, call, last) if last > 0 else None


def _split(contract: Contract, call: Call, axis: int) -> Pieces | None:
    """The call as two pieces.

    An axis with blocks is cut between two of them. Others are cut at an odd index, so that no vector width divides the first
    piece.
    """
    extent = call.data.shape[axis]
    content = _read(contract, call) if contract.domain.family == "linear" else None
    blocked = content is not None and content.granularity == "blocked"
    unit = content.block_size if content is not None and blocked and axis == content.axis else 1
    units = ceil_div(extent, unit)
    middle = (units // 2 | 1) if unit == 1 else units // 2
    if units < 2:
        return None
    role = "x" if "x" in call.tensors else "input"
    pieces = []
    for window in (slice(0, middle), slice(middle, units)):
        tensors = dict(call.tensors)
        tensors[role] = _cut(call.data, axis, slice(window.start * unit, min(window.stop * unit, extent)))
        for name in PARAMETERS:
            if content is None or name not in tensors:
                continue
            if blocked:
                tensors[name] = _cut(tensors[name], axis, window)
            elif content.granularity == "per_axis" and axis == content.axis:
                tensors[name] = _cut(tensors[name], 0, window)
        pieces.append(replace(call, tensors=tensors))
    return tuple(pieces), axis


def _cut(tensor: Tensor, axis: int, window: slice) -> Tensor:
    index = (slice(None),) * axis + (window,)
    return Tensor(tensor.dtype, np.array(tensor.codes[index], order="C"), tensor.layout)


# -- editions -----------------------------------------------------------------------------------------------


@cache
def _editions() -> tuple[Contract, ...]:
    """All editions that can be read here, in the order of `contracts.ids`."""
    editions = []
    for identity in contracts.ids():
        try:
            editions.append(contracts.get(identity))
        except DocumentError:
            continue
    return tuple(editions)


def _under(contract: Contract, call: Call, other: Contract) -> Call | None:
    """The same application in the form of another edition.

    Returns:
        None if the two editions have no reading in common. They contradict each other then, and values may differ.
    """
    if contract.domain.family != other.domain.family or contract.id == other.id:
        return None
    if contract.domain.family == "linear":
        rewritten = _written(other, _read(contract, call), call.origin)
    else:
        defaults = {"narrow_range": False, "dtype": "float32"}
        kept = {name: value for name, value in call.attributes.items() if defaults.get(name) != value}
        rewritten = replace(call, contract=other.id, attributes=kept)
    if other.judge(rewritten).verdict != "allowed" or contract.cell(call).out_dtype != other.cell(rewritten).out_dtype:
        return None
    ours, theirs = contract.operands(call), other.operands(rewritten)
    common = {reading.simplified(ours) for reading in contract.readings(call)} & {
        reading.simplified(theirs) for reading in other.readings(rewritten)
    }
    return rewritten if common else None


# -- the table ----------------------------------------------------------------------------------------------

_LINEAR: Sequence[tuple[str, str, str, Make]] = (
    ("per-axis", "granularity", "per axis, with equal scales and zero points", _per_axis),
    ("one-block", "granularity", "in blocks, one as long as its axis", _one_block),
    ("blocks-of-one", "granularity", "in blocks of one value each", _blocks_of_one),
)
_ANY: Sequence[tuple[str, str, str, Make]] = (
    ("merged-axes", "axes", "with neighbouring axes merged into one", _merged),
    ("split-first-axis", "axes", "in two pieces, cut along the first axis", _split_first),
    ("split-last-axis", "axes", "in two pieces, cut along the last axis", _split_last),
)


def _made(contract: Contract, call: Call, only: str | None = None) -> Iterator[Twin]:
    shape = call.data.shape
    for name, kind, words, make in (*(_LINEAR if contract.domain.family == "linear" else ()), *_ANY):
        pieces = make(contract, call) if only in (None, name) else None
        if pieces is not None and all(contract.judge(piece).verdict == "allowed" for piece in pieces[0]):
            yield Twin(name, kind, words, pieces[0], pieces[1], shape)
    for other in _editions():
        name = UNDER + other.id
        rewritten = _under(contract, call, other) if only in (None, name) else None
        if rewritten is not None:
            yield Twin(name, "edition", name, (rewritten,), None, shape)


def twins(contract: Contract, call: Call) -> tuple[Twin, ...]:
    """All twins of a call. There are none for a call that the edition does not allow.

    Every edition allows the calls of its twins. Twins in other editions come last, in the order of `contracts.ids`. Both
    editions must have a reading in common, so oneDNN's two documents have no such twins.
    """
    return tuple(_made(contract, call)) if contract.judge(call).verdict == "allowed" else ()


def twin(contract: Contract, call: Call, name: str) -> Twin | None:
    """The twin of that name, or None if the call has no such twin."""
    if contract.judge(call).verdict != "allowed":
        return None
    return next(_made(contract, call, name), None)


def joined(twin: Twin, outcomes: Sequence[Outcome]) -> Outcome:
    """Join the outcomes of a twin's calls to one, in the shape of the original call.

    Returns:
        The joined tensor. The outcome of the first piece that is no tensor, or has another dtype or shape than it should.

    Raises:
        ValueError: The numbers of outcomes and calls differ.
    """
    first = outcomes[0] if outcomes else None
    for call, outcome in zip(twin.calls, outcomes, strict=True):
        tensor, first_tensor = outcome.tensor, first.tensor if first is not None else None
        if (
            tensor is None
            or first_tensor is None
            or tensor.shape != call.data.shape
            or tensor.dtype != first_tensor.dtype
        ):
            return outcome
    tensors = [outcome.tensor for outcome in outcomes if outcome.tensor is not None]
    codes = [tensor.codes for tensor in tensors]
    whole = codes[0] if twin.axis is None else np.concatenate(codes, twin.axis)
    notes = tuple(dict.fromkeys(note for outcome in outcomes for note in outcome.notes))
    return Outcome("tensor", Tensor(tensors[0].dtype, whole.reshape(twin.shape)), notes=notes)
