"""Choose the calls of a corpus: the calls of the gate's walk that show most for their bytes.

Each call has features: its types, its structure, its special values, the clause that forbids it. A greedy search takes the call
with the most features that no chosen call has, for each byte of its line. Features of an earlier tier are met first. What is left
of the budget goes to further calls, in the order of the walk.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.contracts.model import Contract, Judgement
from xverify.core.call import BITS, Call, Tensor, code_dtype
from xverify.core.dtypes import INTEGERS, MANTISSA_BITS, floats, integer_range, integers, is_float
from xverify.engine.gate_plan import Scope, walk_batches
from xverify.verify.legal import Legal, legal_set

SEED = 0
"""The seed of the walk."""

Feature = tuple[object, ...]


@dataclass(frozen=True)
class Size:
    """The limits of a corpus, in bytes on a disk with blocks of 4096 bytes."""

    lines: int
    """All lines of the JSON form."""
    node_tests: int
    """All files and folders of the node tests."""
    manifest: int
    """The manifest, which lists all files."""
    most_values: int
    """The number of values of the largest call that may be chosen."""
    fill: int
    """The length of the longest line that is added after every feature is met."""

    @property
    def total(self) -> int:
        """The limit of the whole corpus."""
        return self.lines + self.node_tests + self.manifest


SIZES: Mapping[str, Size] = {
    "small": Size(1_050_000, 890_000, 60_000, 1_024, 1_000),
    "full": Size(32_000_000, 17_000_000, 1_000_000, 600_000, 6_000),
}
"""The sizes by name. Together, the limits are 2 MB and 50 MB."""

WORTH = 10_000
"""The most bytes that a feature of the second tier may cost. A feature of the first tier may cost anything."""

LONG = 1 << 16
"""The extent from which a tensor is long: an index of 16 bits wraps."""

MANY = 1 << 18
"""The number of elements from which kernels divide a tensor among threads."""

SMALL_CALL = 4_096
"""The number of values up to which the structure of a call is a feature. Longer calls have features of their own."""

FIRST, SECOND, LARGE = 0, 1, 2
"""The tiers, in the order in which they are met."""


@dataclass(frozen=True, eq=False)
class Vector:
    """A call of the corpus, with its legal results or the clauses that forbid it."""

    call: Call
    """The call, with all tensors in C order."""
    id: str
    """The first 16 hex digits of the call's digest."""
    cell: str
    """The types, granularity and variant, joined by "/"; "" for a forbidden call."""
    legal: tuple[NDArray[Any], ...]
    """The distinct legal results; () for a forbidden call. One of them must explain all values."""
    readings: tuple[tuple[str, ...], ...]
    """For each result, the names of the readings that give it."""
    output_dtype: str
    """The dtype of the result, "" for a forbidden call."""
    clauses: tuple[str, ...]
    """The ids of the clauses that forbid the call; () for an allowed one."""
    features: frozenset[tuple[int, Feature]]
    """The features of the call, each with its tier."""


@dataclass(frozen=True)
class Source:
    """Every call that may be chosen."""

    vectors: tuple[Vector, ...]
    counts: Mapping[str, int]
    """The number of calls that are left out, by reason."""


def vectors_of(contract: Contract, size: Size) -> Source:
    """Judge the calls of the walk. Subnormal results must be kept, as in a gate.

    Equal calls that differ only in memory layout are one call, since a corpus holds values.
    """
    strict = replace(contract, denormals="keep")
    seen: set[str] = set()
    vectors: list[Vector] = []
    counts: Counter[str] = Counter({"left open by the text": 0, "equal to another": 0, "too large for the size": 0})
    for call in _calls(contract):
        identity = call.digest()
        judgement = contract.judge(call)
        if identity in seen:
            counts["equal to another"] += 1
        elif judgement.verdict == "unspecified":
            counts["left open by the text"] += 1
        elif max(tensor.size for tensor in call.tensors.values()) > size.most_values:
            counts["too large for the size"] += 1
        elif judgement.verdict == "forbidden":
            vectors.append(_forbidden(call, identity, judgement))
        else:
            vectors.append(_allowed(strict, call, identity))
        seen.add(identity)
    return Source(tuple(vectors), counts)


def _calls(contract: Contract) -> Iterator[Call]:
    for batch in walk_batches(contract, Scope(contract.domain), SEED):
        for case in batch:
            tensors = {role: Tensor(t.dtype, np.asarray(t.codes, order="C")) for role, t in case.call.tensors.items()}
            yield replace(case.call, tensors=tensors, origin="")


def _forbidden(call: Call, identity: str, judgement: Judgement) -> Vector:
    ranks = tuple((role, min(len(t.shape), 2), min(t.size, 2)) for role, t in sorted(call.tensors.items()))
    features: set[tuple[int, Feature]] = {(FIRST, ("clause", clause)) for clause in judgement.clauses}
    for clause in judgement.clauses:
        features.add((SECOND, ("clause", clause, ranks, tuple(sorted(call.attributes)))))
        features.add((SECOND, ("clause", clause, call.data.dtype)))
    return Vector(call, identity[:16], "", (), (), "", judgement.clauses, frozenset(features))


def _allowed(contract: Contract, call: Call, identity: str) -> Vector:
    legal = legal_set(contract, call)
    cell = contract.cell(call)
    types = (cell.x_dtype, cell.scale_dtype, cell.zero_point_dtype, cell.out_dtype, cell.granularity, cell.variant)
    readings = tuple(
        tuple(reading.name for reading, result in zip(legal.readings, legal.index, strict=True) if result == index)
        for index in range(len(legal.distinct))
    )
    features = frozenset(_features(contract, call, legal, types))
    return Vector(
        call, identity[:16], "/".join(types), legal.distinct, readings, legal.dtype, (), features
    )  # fmt: skip


# -- features of allowed calls ----------------------------------------------------------------------------


def _features(contract: Contract, call: Call, legal: Legal, types: tuple[str, ...]) -> Iterator[tuple[int, Feature]]:
    granularity = types[4]
    for pair in combinations(enumerate(types), 2):
        yield FIRST, ("types", *pair)
    yield SECOND, ("cell", *types)
    yield SECOND, ("readings", *types, len(legal.distinct))
    small = call.values <= SMALL_CALL
    for feature in _structure(call, granularity):
        yield (FIRST if small else LARGE), feature
    if small:
        for name, value in call.attributes.items():
            yield FIRST, ("attribute", name, value, granularity)
        yield from _numbers(contract, call, legal, types)


def _structure(call: Call, granularity: str) -> Iterator[Feature]:
    """Features of the shapes. For large calls, only those that a small one cannot have."""
    shape, rank = call.data.shape, len(call.data.shape)
    scale = call.tensors.get("scale")
    blocks = scale.shape if scale is not None and granularity == "blocked" else ()
    axis, block_size = call.attributes.get("axis"), call.attributes.get("block_size", 0)
    along = int(axis if isinstance(axis, int) else 1) % max(1, rank)
    if blocks and isinstance(block_size, int) and block_size:
        yield ("block length", min(block_size, shape[along]).bit_length())
    if call.values > SMALL_CALL:
        if call.values > MANY:
            yield ("elements", call.values.bit_length())
        for position, extent in enumerate(reversed(shape)):
            if extent >= LONG:
                along_axis = granularity != "per_tensor" and rank - 1 - along == position
                yield ("long", granularity, position, along_axis)
        for position, extent in enumerate(reversed(blocks)):
            if extent >= LONG // 2:
                yield ("blocks", position)
        if scale is not None and scale.size > LONG:
            yield ("parameters", granularity)
        return
    yield ("rank", granularity, rank, axis)
    for position, extent in enumerate(reversed(shape)):
        yield ("extent", granularity, position, extent.bit_length())
    if shape:
        yield ("rest", granularity, call.data.dtype if BITS[call.data.dtype] < 8 else "", shape[-1] % 8)
    yield ("size", granularity, call.values.bit_length())
    if scale is not None:
        yield ("parameters", granularity, scale.size.bit_length())
    if blocks and isinstance(block_size, int) and block_size:
        rest, count = shape[along] % block_size, blocks[along]
        yield ("block", block_size, "partial" if rest else "whole", min(count, 4))
        yield ("block", along - rank, "partial" if rest else "whole", min(count, 4), rank)


def _numbers(contract: Contract, call: Call, legal: Legal, types: tuple[str, ...]) -> Iterator[tuple[int, Feature]]:
    """Features of the numbers: special values, the codes of small types, and which numbers meet."""
    for role, tensor in call.tensors.items():
        for number_class in np.unique(_classes(tensor.dtype, tensor.codes)).tolist():
            yield FIRST, ("special", role, tensor.dtype, number_class)
        tier = FIRST if tensor is call.data else SECOND
        if BITS[tensor.dtype] <= 8:
            for code in np.unique(tensor.codes).tolist():
                yield tier, ("code", role, tensor.dtype, code)
        elif tensor.dtype in MANTISSA_BITS:
            for exponent in np.unique(tensor.codes >> tensor.codes.dtype.type(MANTISSA_BITS[tensor.dtype])).tolist():
                yield SECOND, ("exponent", role, tensor.dtype, types[3], exponent)
    result = _classes(legal.dtype, legal.distinct[0])
    for number_class in np.unique(result).tolist():
        yield FIRST, ("special", "result", legal.dtype, number_class)
    operands = contract.operands(call)
    meeting = result.astype(np.int64)
    for role, codes in sorted(operands.codes.items()):
        classes = _classes(operands.dtypes[role], codes).astype(np.int64)
        meeting = meeting * 16 + np.broadcast_to(classes, legal.shape)
    for number in np.unique(meeting).tolist():
        yield SECOND, ("meeting", *types[3:], number)
        yield SECOND, ("meeting", types[0], types[1], number)


def _classes(dtype: str, codes: NDArray[Any]) -> NDArray[np.uint8]:
    """A number below 16 for the class of each code: zero, least, largest, subnormal, infinite, NaN, ..."""
    if dtype in INTEGERS:
        values, (low, high) = integers(dtype, codes), integer_range(dtype)
        tests: list[Any] = [values == 0, values == low, values == high, np.abs(values) == 1, values < 0]
    elif is_float(dtype):
        numbers = floats(dtype, codes)
        magnitude, sign, least = np.abs(numbers), np.signbit(numbers), _smallest_normal(dtype)
        without_sign = codes & codes.dtype.type((1 << (BITS[dtype] - 1)) - 1)
        tests = [
            np.isnan(numbers), np.isinf(numbers) & sign, np.isinf(numbers), (magnitude == 0) & sign, magnitude == 0,
            (magnitude < least) & sign, magnitude < least, magnitude == least,
            without_sign == _largest(dtype), magnitude == 1, sign,
        ]  # fmt: skip
    else:
        tests = [codes == 0]
    return np.select(tests, list(range(1, 1 + len(tests))), 0).astype(np.uint8)


def _smallest_normal(dtype: str) -> float:
    """The smallest normal number of a wide type. Narrow types have features for each code instead: 0."""
    if dtype not in MANTISSA_BITS:
        return 0.0
    return float(floats(dtype, np.array([1 << MANTISSA_BITS[dtype]], code_dtype(dtype)))[0])


def _largest(dtype: str) -> int:
    """The code of the largest finite number of a wide type; all bits but the sign of a narrow one."""
    every = (1 << (BITS[dtype] - 1)) - 1
    return every if dtype not in MANTISSA_BITS else (every & ~((1 << MANTISSA_BITS[dtype]) - 1)) - 1


# -- the search -------------------------------------------------------------------------------------------


def choose(vectors: Sequence[Vector], cost: Callable[[Vector], int], budget: int, fill: int) -> list[Vector]:
    """Choose vectors within a budget, in the order in which they are listed.

    Args:
        cost: The bytes of a vector.
        budget: The most bytes of all chosen vectors.
        fill: The most bytes of a vector that is added after all features are met.
    """
    costs = [cost(vector) for vector in vectors]
    numbers: dict[tuple[int, Feature], int] = {}
    features = [[numbers.setdefault(item, len(numbers)) for item in vector.features] for vector in vectors]
    tiers = [tier for tier, _ in numbers]
    chosen: set[int] = set()
    met: set[int] = set()
    left = budget
    for tier in (FIRST, LARGE, SECOND):
        wanted = [[number for number in listed if tiers[number] == tier] for listed in features]
        for index in _greedy(wanted, costs, met, WORTH if tier == SECOND else budget):
            if index not in chosen and costs[index] <= left:
                chosen.add(index)
                met.update(features[index])
                left -= costs[index]
    for index, length in enumerate(costs):
        if index not in chosen and length <= min(fill, left):
            chosen.add(index)
            left -= length
    return [vectors[index] for index in sorted(chosen)]


def _greedy(wanted: Sequence[Sequence[int]], costs: Sequence[int], met: set[int], worth: int) -> Iterator[int]:
    """The index with most unmet features for each byte, again and again.

    The caller adds the features of an index that it takes to ``met``. An index that it does not take does not come again.
    """

    def gain(index: int) -> int:
        return sum(number not in met for number in wanted[index])

    heap = [(-len(listed) / costs[index], index) for index, listed in enumerate(wanted) if listed]
    heapq.heapify(heap)
    while heap:
        _, index = heapq.heappop(heap)
        new = gain(index)
        if not new or costs[index] > worth * new:
            continue
        share = -new / costs[index]
        if heap and share > heap[0][0]:
            heapq.heappush(heap, (share, index))
        else:
            yield index
