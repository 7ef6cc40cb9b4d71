"""Other ways of asking for the same values: an equal answer is due, whatever the answer is.

Per tensor is per axis with equal scales, and one block; a call can be cut along an axis and put together again; axes can
be merged; an edition that admits the same call under the same formula asks for the same. An implementation that gives
other values for the twin than for the call follows two readings, and no reference is needed to see that.
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

UNDER = "under:"
"""How the name of a twin in another edition begins; the edition's id follows."""

PARAMETERS = ("scale", "zero_point")


@dataclass(frozen=True, eq=False)
class Twin:
    """A call asked in another way.

    name: what the equivalence is called; it does not depend on the call. kind: "granularity", "axes" or
    "edition". words: complete "when it is asked ...". calls: one, or the pieces in order. axis: along which pieces are
    joined, None for one call. shape: of the quantized tensor of the call whose twin this is, and so of the joined result.
    """

    name: str
    kind: str
    words: str
    calls: tuple[Call, ...]
    axis: int | None
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class _Linear:
    """What a linear call asks for, apart from how its edition writes that: axis counts from the front."""

    tensors: Mapping[str, Tensor]
    granularity: str
    axis: int
    block_size: int
    out_dtype: str

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tensors["x"].shape

    def each(self, role: str) -> NDArray[Any]:
        """The parameter's code for every value of x, in the shape of x."""
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
        """The same with parameters that ``cut`` takes from those of every value."""
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
        int(call.attributes.get("block_size", 0)),
        cell.out_dtype,
    )


def _written(contract: Contract, asked: _Linear, origin: str) -> Call:
    """The call as the edition writes it, every attribute that it needs given."""
    domain, tensors = contract.domain, dict(asked.tensors)
    attributes: dict[str, Attribute] = {}
    qtype = "qtype" in domain.attributes
    if asked.granularity == "per_tensor":
        # oneDNN's texts ask for a 1-D tensor of one element, the others for a scalar.
        for role in PARAMETERS:
            if role in tensors:
                tensors[role] = Tensor(tensors[role].dtype, tensors[role].codes.reshape((1,) if qtype else ()))
    else:
        attributes["axis"] = asked.axis
        if qtype:
            attributes["qtype"] = "per_channel"
    if asked.granularity == "blocked":
        attributes["block_size"] = asked.block_size
    if asked.out_dtype != tensors["scale"].dtype:
        attributes["output_dtype"] = asked.out_dtype
    return Call(contract.id, tensors, attributes, origin)


# -- granularity --------------------------------------------------------------------------------------------


def _per_axis(contract: Contract, call: Call) -> Pieces | None:
    """Per tensor as per axis, along the last axis: there each value's neighbour has a scale of its own."""
    asked = _read(contract, call)
    last = len(asked.shape) - 1
    if asked.granularity != "per_tensor" or last < 0:
        return None
    spread = asked.regranulated("per_axis", last, 0, lambda each: _line(each, last))
    return (_written(contract, spread, call.origin),), None


def _line(each: NDArray[Any], axis: int) -> NDArray[Any]:
    """The codes along one axis, of an array that is constant along all others; of an empty one any codes serve."""
    if not each.size:
        return np.zeros(each.shape[axis], each.dtype)
    return np.moveaxis(each, axis, 0).reshape(each.shape[axis], -1)[:, 0]


def _one_block(contract: Contract, call: Call) -> Pieces | None:
    """Per tensor or per axis as one block along the last axis that the scale does not depend on."""
    asked = _read(contract, call)
    free = [i for i in range(len(asked.shape)) if asked.granularity == "per_tensor" or i != asked.axis]
    if asked.granularity == "blocked" or not free or 0 in asked.shape:
        return None
    axis = free[-1]
    spread = asked.regranulated("blocked", axis, asked.shape[axis], lambda each: each.take([0], axis))
    return (_written(contract, spread, call.origin),), None


def _blocks_of_one(contract: Contract, call: Call) -> Pieces | None:
    """Any granularity as blocks of one value each, along the first axis."""
    asked = _read(contract, call)
    if not asked.shape or (asked.granularity, asked.block_size, asked.axis) == ("blocked", 1, 0):
        return None
    spread = asked.regranulated("blocked", 0, 1, lambda each: each)
    return (_written(contract, spread, call.origin),), None


# -- axes ---------------------------------------------------------------------------------------------------


def _merged(contract: Contract, call: Call) -> Pieces | None:
    """All axes merged into one, or those on either side of the one that quantization runs along."""
    if contract.domain.family == "range":
        return _with_data_shape(call, (call.values,))
    asked = _read(contract, call)
    if asked.granularity == "per_tensor":
        return _with_data_shape(call, (call.values,))
    shape = _around(asked.shape, asked.axis)
    if shape == asked.shape:
        return None
    tensors = {"x": _reshaped(asked.tensors["x"], shape)}
    for role in PARAMETERS:
        if role in asked.tensors:
            old = asked.tensors[role]
            tensors[role] = _reshaped(old, _around(old.shape, asked.axis)) if asked.granularity == "blocked" else old
    merged = replace(asked, tensors=tensors, axis=1)
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
    """Cut in two: between two blocks where the axis has blocks, elsewhere at an odd place, so that no vector width
    divides the first piece."""
    extent = call.data.shape[axis]
    asked = _read(contract, call) if contract.domain.family == "linear" else None
    blocked = asked is not None and asked.granularity == "blocked"
    unit = asked.block_size if asked is not None and blocked and axis == asked.axis else 1
    units = ceil_div(extent, unit)
    place = (units // 2 | 1) if unit == 1 else units // 2
    if units < 2:
        return None
    role = "x" if "x" in call.tensors else "input"
    pieces = []
    for window in (slice(0, place), slice(place, units)):
        tensors = dict(call.tensors)
        tensors[role] = _cut(call.data, axis, slice(window.start * unit, min(window.stop * unit, extent)))
        for name in PARAMETERS:
            if asked is None or name not in tensors:
                continue
            if blocked:
                tensors[name] = _cut(tensors[name], axis, window)
            elif asked.granularity == "per_axis" and axis == asked.axis:
                tensors[name] = _cut(tensors[name], 0, window)
        pieces.append(replace(call, tensors=tensors))
    return tuple(pieces), axis


def _cut(tensor: Tensor, axis: int, window: slice) -> Tensor:
    place = (slice(None),) * axis + (window,)
    return Tensor(tensor.dtype, np.array(tensor.codes[place], order="C"), tensor.layout)


# -- editions -----------------------------------------------------------------------------------------------


@cache
def _editions() -> tuple[Contract, ...]:
    """Every edition that can be read here, in the order of `contracts.ids`."""
    found = []
    for identity in contracts.ids():
        try:
            found.append(contracts.get(identity))
        except DocumentError:
            continue
    return tuple(found)


def _under(contract: Contract, call: Call, other: Contract) -> Call | None:
    """The same application as another edition writes it; None where that edition's readings have none in common with
    this one's, since then the two contradict each other and equal values are not due."""
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
    """Every other way to ask for the values of a call; none for a call that the edition does not allow.

    Each call of a twin is allowed by its own edition. Those in other editions come last, in the order of
    `contracts.ids`, and only where some reading of both editions is proven to be one and the same: oneDNN's two documents
    have none.
    """
    return tuple(_made(contract, call)) if contract.judge(call).verdict == "allowed" else ()


def twin(contract: Contract, call: Call, name: str) -> Twin | None:
    """The twin of that name; None where the call has none (or the name means nothing)."""
    if contract.judge(call).verdict != "allowed":
        return None
    return next(_made(contract, call, name), None)


def joined(twin: Twin, outcomes: Sequence[Outcome]) -> Outcome:
    """The outcomes of a twin's calls as one: the pieces' tensors put together, in the shape of the call whose twin it is.

    A piece that is no tensor, or one of another dtype or shape than its call asks for, is the outcome as it stands.
    ValueError when there is not one outcome for each call.
    """
    first = outcomes[0] if outcomes else None
    for call, outcome in zip(twin.calls, outcomes, strict=True):
        got, due = outcome.tensor, first.tensor if first is not None else None
        if got is None or due is None or got.shape != call.data.shape or got.dtype != due.dtype:
            return outcome
    tensors = [outcome.tensor for outcome in outcomes if outcome.tensor is not None]
    codes = [tensor.codes for tensor in tensors]
    whole = codes[0] if twin.axis is None else np.concatenate(codes, twin.axis)
    notes = tuple(dict.fromkeys(note for outcome in outcomes for note in outcome.notes))
    return Outcome("tensor", Tensor(tensors[0].dtype, whole.reshape(twin.shape)), notes=notes)
