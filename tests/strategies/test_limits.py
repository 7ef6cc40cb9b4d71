"""Limits of a kernel: stated in words, held against calls, and learnt from refusals."""

from __future__ import annotations

import pytest
from asked_calls import linear, some_codes

from xverify.core.call import Call
from xverify.strategies.learnt import NAMES, learnt_limits, refusals_in_words, row_of
from xverify.strategies.limits import CallLimits, Value, granularity_of, in_words, parsed

ONNX = "ai.onnx/DequantizeLinear-25"


def blocked(shape=(2, 64), block_size=32, axis=-1, x="int8", layout="C", zero_point=False) -> Call:
    from_front = axis % len(shape)
    blocks = tuple(-(-extent // block_size) if i == from_front else extent for i, extent in enumerate(shape))
    parameters = [some_codes("float32", blocks), *([some_codes(x, blocks)] if zero_point else [])]
    return linear(ONNX, some_codes(x, shape, layout), *parameters, axis=axis, block_size=block_size)


def per_tensor(shape=(4,), x="int8") -> Call:
    return linear(ONNX, some_codes(x, shape), some_codes("float32", ()))


def properties(call: Call) -> dict[str, Value]:
    return dict(zip(NAMES, row_of(call), strict=True))


def test_a_call_has_a_value_for_each_property_that_applies() -> None:
    row = properties(blocked((3, 80), 32, x="int4", layout="strided"))
    assert (row["granularity"], row["rank"], row["axis from the back"], row["block size"]) == ("blocked", 2, -1, 32)
    assert (row["whole blocks"], row["several blocks"], row["contiguous x"], row["zero point"]) == (
        False,
        True,
        False,
        "none",
    )
    assert row["last extent"] == 16
    plain = properties(per_tensor())
    assert plain["block size"] is plain["axis from the back"] is None
    assert granularity_of(linear(ONNX, some_codes("int8", (3, 2)), some_codes("float32", (2,)))) == "per_axis"


@pytest.mark.parametrize(
    ("words", "inside", "outside"),
    [
        ({"block_sizes": ["32"]}, blocked(), blocked(block_size=16)),
        ({"axes": ["-1"]}, blocked(), blocked(axis=0)),
        ({"axes": ["0"]}, blocked((64, 2), axis=-2), blocked()),
        ({"axes": ["0", "-1"]}, blocked((64, 2), axis=0), blocked((2, 64, 2), axis=1)),
        ({"ranks": ["1-2", "4"]}, blocked(), blocked((2, 2, 64))),
        ({"contiguous": True}, blocked(layout="misaligned"), blocked(layout="strided")),
    ],
)
def test_stated_limits_hold(words, inside, outside) -> None:
    limits = parsed(**words)
    assert limits
    assert limits.holds(inside)
    assert not limits.holds(outside)
    assert limits.holds(per_tensor())


def test_an_axis_outside_the_rank_is_within_no_limit() -> None:
    assert not parsed(axes=["-1"]).holds(linear(ONNX, some_codes("int8", (2, 4)), some_codes("float32", (4,)), axis=5))


def test_limits_are_described_in_words() -> None:
    limits = parsed(["32"], ["-1"], ["1-4"], True)
    assert str(limits) == "blocks of 32, on the last axis, ranks 1 to 4, contiguous tensors"
    assert str(parsed(["16", "64"], ["0", "-2"])) == "blocks of 16 or 64, on axis 0 or the second last"
    assert str(CallLimits()) == ""
    pattern = (("several blocks", True), ("x type", "int4"))
    assert in_words(pattern) == "x of int4 with more than one block"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"block_sizes": ["0"]}, "'0' is not a block size: write a number from 1, such as 32"),
        ({"axes": ["last"]}, "'last' is not an axis: write a number such as 0, or -1 for the last axis"),
        ({"ranks": ["4-1"]}, "'4-1' is an empty range of ranks: write the smaller rank first, such as 1-4"),
        ({"ranks": ["1-x"]}, "'x' is not a rank: write a number such as 2, or a range such as 1-4"),
    ],
)
def test_wrong_words_are_refused_with_one_sentence(words, message) -> None:
    with pytest.raises(ValueError, match="^" + message + "$"):
        parsed(**words)


def records(takes, calls: list[Call]) -> dict:
    """Counts of answers and refusals of a kernel that takes the calls for which ``takes`` is true."""
    rows: dict = {}
    for call in calls:
        rows.setdefault(row_of(call), [0, 0])[0 if takes(call) else 1] += 1
    return rows


CALLS = [
    *(
        blocked(shape, size, axis, x, layout, zero_point)
        for shape in ((2, 64), (64, 64), (3, 80), (2, 3, 64), (64,), (3, 32))
        for size in (16, 32)
        for axis in (-1, 0)
        for x in ("int8", "int4")
        for layout in ("C", "strided")
        for zero_point in (False, True)
    ),
    *(per_tensor(shape, x) for shape in ((4,), (2, 3)) for x in ("int8", "int4")),
]  # fmt: skip


def test_the_fewest_restrictions_are_learnt() -> None:
    def takes(call: Call) -> bool:
        row = properties(call)
        return (row["block size"], row["axis from the back"], row["whole blocks"]) == (32, -1, True)

    limits = learnt_limits(records(takes, CALLS))
    assert all(limits.holds(call) == takes(call) for call in CALLS if granularity_of(call) == "blocked")
    assert {name for name, _ in limits.admitted} == {
        "granularity", "block size", "axis from the back", "whole blocks"
    }  # fmt: skip


def test_pairs_are_learnt_where_single_properties_do_not_explain_refusals() -> None:
    def takes(call: Call) -> bool:
        row = properties(call)
        return not (row["x type"] == "int4" and row["several blocks"])

    rows = records(takes, CALLS)
    limits = learnt_limits(rows)
    assert not limits.admitted
    assert all(limits.holds(call) == takes(call) for call in CALLS)
    assert refusals_in_words(rows) == ["x of int4 with more than one block"]


def test_refusals_are_described_by_what_they_have_in_common() -> None:
    assert refusals_in_words(records(lambda call: properties(call)["contiguous x"] is not False, CALLS)) == [
        "strided x"
    ]
    assert refusals_in_words(records(lambda call: True, CALLS)) == []
    assert refusals_in_words(records(lambda call: False, CALLS)) == ["every call"]
