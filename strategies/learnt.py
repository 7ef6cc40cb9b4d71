"""Limits of a kernel, learnt from the calls that it refuses as not implemented.

A record counts the answered and the refused calls with certain properties. Limits are the fewest restrictions that leave out
the refused calls and no answered one. They only decide which further calls are made. Every answer is judged, also outside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from xverify.contracts.model import Contract, Domain
from xverify.core.call import LAYOUTS, Call
from xverify.strategies.limits import PROPERTIES, CallLimits, Pattern, Value, block_size_of, granularity_of, in_words
from xverify.strategies.repair import Change, Repair
from xverify.strategies.structures import Linear, build, laid_out
from xverify.strategies.walk import scale_outputs, zero_point_choices

NAMES = tuple(name for name, row in PROPERTIES.items() if row.learnt)
"""The properties that are learnt, in the order of a record's key."""

Row = tuple[Value, ...]
"""The values of `NAMES` for a call."""

Records = Mapping[Row, Sequence[int]]
"""The number of answered and of refused calls with these properties."""

PATTERNS = 4
"""The most patterns of two properties that limits leave out."""

COST = 3
"""The number of refused calls that a restriction must leave out for each value that it names."""

LAST_RESORT_COST = 4
"""The factor by which a restriction of `LAST_RESORT` must leave out more."""

MOST_VALUES = 12
"""The most values of a property that are tried."""

MOST_REFUSALS = 3
"""The most kinds of refused calls that words name."""

LAST_RESORT = ("axis from the front", "elements", "element count", "last extent", "axis attribute")
"""Properties that are seldom the reason for a refusal. Many calls differ in them, so they fit by chance."""

TYPES = ("x type", "scale type", "output type", "granularity")
"""The properties that a domain lists."""


def row_of(call: Call) -> Row:
    """The values of the learnt properties of a call."""
    return tuple(PROPERTIES[name].of(call) for name in NAMES)


def holds_for(limits: CallLimits, row: Row) -> bool:
    """True if calls with these properties are within the learnt part of limits."""
    own = dict(zip(NAMES, row, strict=True))
    for name, values in limits.admitted:
        if own.get(name) is not None and own[name] not in values:
            return False
    return not any(all(name in own and own[name] == value for name, value in pattern) for pattern in limits.without)


def learnt_limits(records: Records) -> CallLimits:
    """The limits within which calls are answered.

    A restriction leaves out the values of a property, or a pair of values, that occur in refused calls only. The restriction
    that leaves out the most calls for its number of values comes first. It ends when none leaves out enough.
    """
    answered = [row for row, (count, _) in records.items() if count]
    refused = {row: count for row, (answers, count) in records.items() if count and not answers}
    if not answered or not refused:
        return CallLimits()
    taken = [frozenset(row[index] for row in answered) for index in range(len(NAMES))]
    admitted: dict[str, frozenset[Value]] = {}
    patterns: list[Pattern] = []
    never = _Pairs(answered)
    everything = range(len(NAMES))
    indices = [index for index in everything if NAMES[index] not in LAST_RESORT]
    while refused:
        gains = {index: _gain(index, taken[index], refused) for index in indices}
        index = max(indices, key=gains.__getitem__)
        gain, pair_gain, pair = gains[index], 0.0, None
        if len(patterns) < PATTERNS and gain < _total(refused) / 2:
            pair_gain, pair = never.best(refused, indices)
        if max(gain, pair_gain) <= 0:
            if len(indices) == len(everything):
                break
            indices = list(everything)
            continue
        if pair is None or gain >= pair_gain:
            admitted[NAMES[index]] = taken[index] - {None}
            refused = {row: n for row, n in refused.items() if row[index] in taken[index] or row[index] is None}
        else:
            i, j, value, other_value = pair
            patterns.append(((NAMES[i], value), (NAMES[j], other_value)))
            refused = {row: n for row, n in refused.items() if row[i] != value or row[j] != other_value}
    return CallLimits(tuple(admitted.items()), tuple(patterns))


def _total(refused: Mapping[Row, int]) -> int:
    return sum(refused.values())


def _gain(index: int, taken: frozenset[Value], refused: Mapping[Row, int]) -> float:
    """The number of calls that a restriction to the taken values leaves out, less the cost of its values."""
    outside = {row: count for row, count in refused.items() if row[index] not in taken and row[index] is not None}
    if not outside or not taken - {None}:
        return 0  # Where the property applies to no answered call, another property is the reason.
    cost = COST * min(len(taken - {None}), len({row[index] for row in outside}))
    return _total(outside) - cost * (LAST_RESORT_COST if NAMES[index] in LAST_RESORT else 1)


class _Pairs:
    """The pairs of values that occur in answered calls."""

    def __init__(self, answered: Sequence[Row]) -> None:
        every = range(len(NAMES))
        self._indices = [(i, j) for i in every for j in every if i < j]
        self._met = {(i, j, row[i], row[j]) for row in answered for i, j in self._indices}
        self._single = {(i, row[i]) for row in answered for i in every}

    def best(
        self, refused: Mapping[Row, int], indices: Sequence[int]
    ) -> tuple[float, tuple[int, int, Value, Value] | None]:
        """The pair in the most refused calls and in no answered one, and the gain of leaving it out."""
        counts: dict[tuple[int, int, Value, Value], int] = {}
        for row, count in refused.items():
            for key in self._missing(row):
                if key[0] in indices and key[1] in indices:
                    counts[key] = counts.get(key, 0) + count

        def gain(key: tuple[int, int, Value, Value]) -> float:
            resort = NAMES[key[0]] in LAST_RESORT or NAMES[key[1]] in LAST_RESORT
            return counts[key] - 2 * COST * (LAST_RESORT_COST if resort else 1)

        most = max(counts, key=gain, default=None)
        return (0.0, None) if most is None else (gain(most), most)

    def _missing(self, row: Row) -> Iterator[tuple[int, int, Value, Value]]:
        """The pairs of a refused call that no answered call has, although each value occurs in answered calls."""
        for i, j in self._indices:
            each_is_answered = (i, row[i]) in self._single and (j, row[j]) in self._single
            if (
                each_is_answered
                and row[i] is not None
                and row[j] is not None
                and (i, j, row[i], row[j]) not in self._met
            ):
                yield i, j, row[i], row[j]


def refusals_in_words(records: Records) -> list[str]:
    """Words for the refused calls of a kernel, the most frequent first.

    For example "strided x", or "x of int4 with more than one block".
    """
    limits = learnt_limits(records)
    refused = {row: count for row, (answers, count) in records.items() if count and not answers}
    words: list[str] = []
    for name, values in limits.admitted:
        index = NAMES.index(name)
        outside = frozenset(row[index] for row in refused if row[index] not in values) - {None}
        if outside:
            words.append(_outside(name, values, outside))
    words += [in_words(pattern) for pattern in limits.without]
    if not words and any(count for _, count in records.values()):
        words = ["single calls"] if any(answers for answers, _ in records.values()) else ["every call"]
    more = len(words) - MOST_REFUSALS
    return words[:MOST_REFUSALS] + ([f"{more} more kind{'s' * (more > 1)}"] if more > 0 else [])


def _outside(name: str, admitted: frozenset[Value], outside: frozenset[Value]) -> str:
    """The calls outside a limit: the refused values, or all but the admitted ones if there are many."""
    if name == "zero point" and admitted == {"none"}:
        return "zero points"
    short = len(outside) <= 3 and name not in ("elements", "element count", "last extent")
    return PROPERTIES[name].words(outside) if short else f"all but {PROPERTIES[name].words(admitted)}"


# -- calls that show the limits ---------------------------------------------------------------------------------

BLOCK_SIZES = (32, 16, 64, 128, 256)
SEED = 12_000


def ordinary_structures(domain: Domain, granularity: str) -> list[Linear]:
    """Ordinary structures of a granularity: each type of x with each scale and output, in usual forms."""
    if domain.family == "range":
        return []
    forms: list[tuple[tuple[int, ...], int | None, int]] = [((2, 64), None, 0)]
    if granularity == "per_axis":
        forms = [((4, 32), 1, 0), ((4, 32), 0, 0)]
    elif granularity == "blocked":
        forms = [form for size in BLOCK_SIZES for form in (((2, 2 * size), 1, size), ((2 * size, 4), 0, size))]
    every = product(domain.x_dtypes, scale_outputs(domain), forms)
    return [
        Linear(x_dtype, scale, granularity, shape, zero_point, out, axis, size, seed=SEED + number)
        for number, (x_dtype, (scale, out), (shape, axis, size)) in enumerate(every)
        for zero_point in zero_point_choices(domain, x_dtype)
    ]


def variations(call: Call, contract: Contract, limits: CallLimits, records: Records) -> Iterator[Call]:
    """Calls that differ from an answered one in one property, to show which property is refused.

    Args:
        call: A call that the kernel answers.
        contract: The edition, with the domain to draw from.
        limits: Stated limits of all calls.
        records: The calls so far. Only values that occur in refused calls are tried.
    """
    yield from _typed(call, contract, limits)
    accept = Repair(contract, limits)
    for role, tensor in call.tensors.items():
        for layout in LAYOUTS if tensor.shape else ():
            if layout != tensor.layout:
                tensors = {**call.tensors, role: laid_out(tensor.dtype, tensor.codes, layout)}
                changed = replace(call, tensors=tensors, origin=f"variation, {role} {layout}")
                if accept.accepts(changed):
                    yield changed
    refused = [row for row, (answers, count) in records.items() if count and not answers]
    own = row_of(call)
    for name, change in _CHANGES.items():
        index = NAMES.index(name)
        values = {row[index] for row in refused} - {own[index], None}
        if name == "block size":
            values &= {1, 2, 8, *BLOCK_SIZES}
        for value in sorted(values, key=str)[:MOST_VALUES]:
            origin = f"variation, {name} {value}"
            changed_call = accept.changed(replace(call, origin=origin), change(value))
            if changed_call is not None:
                yield changed_call


def _axis_written(value: Value) -> Change:
    return Change("axis form", {"negative": "back", "from the front": "front"}.get(str(value), "absent"))


_CHANGES: Mapping[str, Callable[[Value], Change]] = {
    "block size": lambda value: Change("block size", value),
    "axis from the back": lambda value: Change("axis", value),
    "axis from the front": lambda value: Change("axis", value),
    "whole blocks": lambda value: Change("multiples", (True, 1)) if value else Change("remainder", True),
    "several blocks": lambda value: Change("one block", not value),
    "rank": lambda value: Change("rank", value),
    "elements": lambda value: Change("size", value),
    "last extent": lambda value: Change("last factor", value),
    "axis attribute": _axis_written,
}
"""The change that gives a call a value of a property."""


def _typed(call: Call, contract: Contract, limits: CallLimits) -> Iterator[Call]:
    """Calls of the form of another with other types: of x, of scale and output, of the zero point."""
    domain = contract.domain
    if domain.family == "range":
        return
    x, scale = call.data.dtype, call.tensors["scale"].dtype
    out = str(call.attributes.get("output_dtype", ""))
    zero_point = call.tensors["zero_point"].dtype if "zero_point" in call.tensors else ""
    others: list[tuple[str, str, str, str]] = []
    for dtype in domain.x_dtypes:
        same = zero_point if zero_point in domain.zero_points_for(dtype) else ""
        others += [(dtype, scale, out, dtype if zero_point == x and not same else same)]
    others += [(x, scale_dtype, output, zero_point) for scale_dtype, output in scale_outputs(domain)]
    others += [(x, scale, out, dtype) for dtype in zero_point_choices(domain, x)]
    axis: Any = call.attributes.get("axis")
    size = block_size_of(call)
    accept = Repair(contract, limits)
    for number, (x_dtype, scale_dtype, output, point) in enumerate(dict.fromkeys(others)):
        if (x_dtype, scale_dtype, output, point) == (x, scale, out, zero_point):
            continue
        granularity = granularity_of(call)
        structure = Linear(
            x_dtype, scale_dtype, granularity, call.data.shape, point, output, axis, size, seed=SEED + number
        )
        changed = build(contract, structure, f"variation {number}")
        if accept.accepts(changed):
            yield changed
