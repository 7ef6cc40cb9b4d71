"""Comparison of a node's result with its legal set, and of two results with each other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify import contracts
from xverify.core.bits import canonical, ulp_distance
from xverify.core.call import Call, Tensor
from xverify.core.dtypes import FLOATS, hexadecimal
from xverify.core.dtypes import values as numbers_of
from xverify.model.sums import Bounds
from xverify.model.tiles import Slices, beside, tiles, whole
from xverify.verify.compare import compare
from xverify.verify.graph_values import Values
from xverify.verify.legal import Legal, legal_set

PIECE = 1 << 19
"""Values that are judged together."""


@dataclass(frozen=True, eq=False)
class Wrong:
    """Elements of a result that are not legal, or that another result does not have."""

    elements: int
    """The number of compared elements."""
    wrong: int = 0
    index: tuple[int, ...] = ()
    """The index of the first wrong one."""
    dtype: str = ""
    got: str = ""
    """Its bits in hex."""
    legal: tuple[str, ...] = ()
    """Its legal bits in hex."""
    ulp: int = 0
    """The largest distance in ULP; -1 if one side is NaN."""
    distance: float | None = None
    """The largest absolute difference between two results; None if it is not finite, or if a text decides."""
    magnitude: float | None = None
    """The largest finite magnitude in the other result; None as for the distance."""
    message: str = ""
    """A sentence, if dtype or shape are wrong."""
    bounds: tuple[float, float] | None = None
    """The bounds of the element `index`, if sums bound the result."""
    sums: str = ""
    """The dtype of these sums."""


class Judge:
    """The judge of the results of one call in several implementations.

    Legal sets are computed once for each piece.

    Args:
        call: The call.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._contract = contracts.get(call.contract)
        self.refusal = self._refusal()
        """The reason why nothing can be judged, as a clause; "" if the call is allowed."""
        self._legal: list[tuple[tuple[slice, ...], Legal]] = []

    def _refusal(self) -> str:
        judgement = self._contract.judge(self._call)
        if judgement.verdict == "allowed":
            return ""
        words = "forbids its call" if judgement.verdict == "forbidden" else "leaves its call open"
        return f"{self._contract.id} {words} ({', '.join(judgement.clauses)})"

    def wrong(self, got: Tensor) -> Wrong:
        """The wrong elements of a result."""
        if not self._legal:
            self._legal = [(index, legal_set(self._contract, piece)) for index, piece in pieces(self._call)]
        dtype, shape = self._legal[0][1].dtype, self._call.data.shape
        if got.dtype != dtype or got.shape != shape:
            return Wrong(
                got.size, got.size, message=f"the result is {got.dtype} {list(got.shape)}, not {dtype} {list(shape)}"
            )
        total = Wrong(got.size)
        for index, legal in self._legal:
            part = Tensor(dtype, np.asarray(got.codes[index]))
            compared = compare(legal, part)
            if count := compared.wrong_values:
                at = np.unravel_index(int(np.flatnonzero(compared.wrong)[0]), legal.shape)
                every = [hexadecimal(dtype, int(codes[at])) for codes in legal.distinct]
                if not total.wrong:
                    first = tuple(int(i) + each.start for i, each in zip(at, index, strict=True))
                    total = replace(
                        total,
                        index=first,
                        dtype=dtype,
                        got=hexadecimal(dtype, int(part.codes[at])),
                        legal=tuple(dict.fromkeys(every)),
                    )
                total = replace(total, wrong=total.wrong + count, ulp=_larger(total.ulp, compared.max_ulp))
        return total


def _larger(a: int, b: int) -> int:
    return -1 if -1 in (a, b) else max(a, b)


def pieces(call: Call) -> Iterator[tuple[Slices, Call]]:
    """An allowed call as calls of at most `PIECE` values, each with its index. Blocks stay whole."""
    shape, scale = call.data.shape, call.tensors["scale"].shape
    has_axis = bool(scale) and call.tensors["scale"].size > 1
    axis = int(call.attributes.get("axis", 1)) % len(shape) if has_axis else -1
    block = int(call.attributes.get("block_size", 0)) if len(scale) == len(shape) else 0
    if call.data.size <= PIECE:
        yield whole(shape), call
        return
    for index in tiles(shape, axis, block, PIECE):
        tensors = {"x": Tensor(call.data.dtype, np.asarray(call.data.codes[index]))}
        for role, tensor in call.tensors.items():
            if role != "x":
                codes = tensor.codes if tensor.size == 1 else tensor.codes[beside(index, scale, axis, block)]
                tensors[role] = Tensor(tensor.dtype, np.asarray(codes))
        yield index, replace(call, tensors=tensors)


def outside(values: Values, got: Tensor) -> Wrong:
    """The elements of a result that are outside the legal codes of a part's output."""
    shape = values.open.shape
    if got.dtype != values.dtype or got.shape != shape:
        return Wrong(
            got.size, got.size, message=f"the result is {got.dtype} {list(got.shape)}, not {values.dtype} {list(shape)}"
        )
    codes = canonical(got.codes, got.dtype) if got.dtype in FLOATS else got.codes
    is_wrong = ~values.open & ~np.logical_or.reduce([codes == legal for legal in values.codes])
    checked = int(np.count_nonzero(~values.open))
    return _wrong(got, is_wrong, list(values.codes), checked)


def beyond(bounds: Bounds, got: Tensor) -> Wrong:
    """The elements of a result that are beyond their bounds. The index is that of the farthest one."""
    if got.dtype != bounds.dtype or got.shape != bounds.least.shape:
        return Wrong(got.size)
    distance = bounds.beyond(got)
    if not distance.any():
        return Wrong(got.size)
    index = tuple(map(int, np.unravel_index(int(distance.argmax()), got.shape)))
    farthest = float(distance[index])
    return Wrong(
        got.size,
        int(np.count_nonzero(distance)),
        index,
        got.dtype,
        hexadecimal(got.dtype, int(got.codes[index])),
        distance=farthest if math.isfinite(farthest) else None,
        bounds=(float(bounds.least[index]), float(bounds.most[index])),
        sums=bounds.sums,
    )


def between(got: Tensor, other: Tensor) -> Wrong:
    """The elements in which a result differs from another one. Any NaN equals any NaN."""
    if got.dtype != other.dtype or got.shape != other.shape:
        words = f"the result is {got.dtype} {list(got.shape)}, the other one is {other.dtype} {list(other.shape)}"
        return Wrong(got.size, got.size, message=words)
    a, b = canonical(got.codes, got.dtype), canonical(other.codes, other.dtype)
    wrong = _wrong(got, np.asarray(a != b), [b], got.size)
    if not wrong.wrong:
        return wrong
    distance, magnitude = apart(got, other)
    return replace(wrong, distance=distance, magnitude=magnitude)


def apart(a: Tensor, b: Tensor) -> tuple[float | None, float | None]:
    """The largest absolute difference of two tensors, and the largest finite magnitude of the second.

    They have one type and shape. The difference is None where a number differs from an infinity or a NaN.
    """
    numbers, others = numbers_of(a.dtype, a.codes), numbers_of(b.dtype, b.codes)
    differing = canonical(a.codes, a.dtype) != canonical(b.codes, b.dtype)
    with np.errstate(invalid="ignore"):
        largest = float(np.abs(numbers[differing] - others[differing]).max(initial=0))
    finite = others[np.isfinite(others)]
    return largest if math.isfinite(largest) else None, float(np.abs(finite).max(initial=0))


def _wrong(got: Tensor, is_wrong: NDArray[np.bool_], legal: Sequence[NDArray[Any]], elements: int) -> Wrong:
    if not is_wrong.any():
        return Wrong(elements)
    at = np.unravel_index(int(np.flatnonzero(is_wrong)[0]), got.shape)
    every = dict.fromkeys(hexadecimal(got.dtype, int(codes[at])) for codes in legal)
    distances = np.stack([ulp_distance(got.codes[is_wrong], codes[is_wrong], got.dtype) for codes in legal])
    nearest = np.where(distances < 0, np.iinfo(np.int64).max, distances).min(axis=0)
    largest = int(nearest.max())
    ulp = -1 if largest == np.iinfo(np.int64).max else largest
    index, code = tuple(map(int, at)), hexadecimal(got.dtype, int(got.codes[at]))
    return Wrong(elements, int(is_wrong.sum()), index, got.dtype, code, tuple(every), ulp)
