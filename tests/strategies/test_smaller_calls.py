"""Smaller calls stay in their cell, and shrinking finds the minimum."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from walked_calls import EDITIONS, EVERY, forgotten, walked  # noqa: F401

from xverify import contracts
from xverify.arithmetic.linear_operands import ceil_div
from xverify.core.call import Call
from xverify.core.dtypes import tensor
from xverify.strategies import build, smaller_calls
from xverify.strategies.structures import Linear, Range


class Largest:
    """A source of draws that returns the upper bound (or the lower one) of every integer."""

    def __init__(self, largest: bool) -> None:
        self.largest, self.bounds = largest, []

    def integers(self, low: int, high: int) -> st.SearchStrategy[int]:
        self.bounds.append((low, high))
        return st.just(high if self.largest else low)


def drawn(monkeypatch: pytest.MonkeyPatch, call: Call, focus: tuple[int, ...], largest: bool) -> tuple[Call, list]:
    """The call of `smaller_calls` with every draw at its bound, and the bounds."""
    recorder = Largest(largest)
    monkeypatch.setattr("xverify.strategies.smaller.st.integers", recorder.integers)
    once = settings(max_examples=1, database=None, phases=[Phase.generate])
    return find(smaller_calls(call, focus), lambda _: True, settings=once), recorder.bounds


@pytest.mark.parametrize("identity", EDITIONS)
def test_bounds_of_smaller_calls(identity: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws at their upper bounds give the call itself, and draws of 0 give the smallest call."""
    contract = contracts.get(identity)
    for call in [c for c in walked(identity) if c.values < 3000][::389]:
        focus = tuple(extent - 1 for extent in call.data.shape) if call.values else (0,) * len(call.data.shape)
        same, upper = drawn(monkeypatch, call, focus, True)
        small, lower = drawn(monkeypatch, call, focus, False)
        assert same.digest() == call.digest(), f"{call.origin}: {same.data.shape} for {call.data.shape}"
        is_laid_out = any(tensor.layout != "C" for tensor in call.tensors.values())
        draws = 2 * sum(extent > 1 for extent in call.data.shape) + 3 + is_laid_out
        assert upper == upper[:draws] * (len(upper) // draws), "some other number of draws"
        assert lower[:draws] == upper[:draws]
        assert {low for low, _ in upper} == {0}
        block_size = int(call.attributes.get("block_size", 0))
        # In rank 1, a last block of one element comes with the block before it.
        assert small.values <= max(1, block_size) + (block_size > 0 and len(call.data.shape) == 1)
        assert small.values > 0 or not call.values
        assert contract.judge(small).verdict == "allowed", f"{call.origin}: {small.data.shape} {dict(small.attributes)}"


@pytest.mark.parametrize("identity", EDITIONS)
def test_smaller_calls_stay_what_they_were(identity: str) -> None:
    """They are allowed, in the same cell, not larger, and keep the value in focus."""
    contract = contracts.get(identity)
    some = [c for c in walked(identity) if 0 < c.values < 3000][::41]

    @settings(EVERY, max_examples=30)
    @given(st.data())
    def check(data: DataObject) -> None:
        call = data.draw(st.sampled_from(some))
        focus = tuple(data.draw(st.integers(0, extent - 1)) for extent in call.data.shape)
        small = data.draw(smaller_calls(call, focus))
        where = (
            f"{call.data.shape} {dict(call.attributes)} at {focus} became {small.data.shape} {dict(small.attributes)}"
        )
        judgement = contract.judge(small)
        # The shrinker drops a call that is no longer allowed.
        is_cut = contract.domain.whole_blocks and judgement.clauses == (f"{identity}/partial-block",)
        assert judgement.verdict == "allowed" or is_cut, f"{where}: {judgement}"
        assert contract.cell(small) == contract.cell(call), where
        assert small.values <= call.values
        assert int(call.data.codes[focus]) in small.data.codes

    check()


def minimum(call: Call, focus: tuple[int, ...], shows: Callable[[Call], bool]) -> Call:
    """The smallest call that `hypothesis.find` finds, as in the search for findings."""
    assert shows(call)
    phases, healthy = (Phase.generate, Phase.shrink), list(HealthCheck)
    plain = settings(max_examples=320, database=None, deadline=None, phases=phases, suppress_health_check=healthy)
    return find(smaller_calls(call, focus), shows, settings=plain, random=random.Random(1))


ONNX = contracts.get("ai.onnx/DequantizeLinear-21")


def test_one_value_is_found() -> None:
    """A value that is always wrong shrinks to that value alone. Its zero point stays or becomes 0."""
    call = build(ONNX, Linear("uint8", "float32", "per_axis", (4, 80), "uint8", axis=1, layout="F", seed=3))
    focus = (2, 41)
    wrong = int(call.data.codes[focus])
    small = minimum(call, focus, lambda c: bool((c.data.codes == wrong).any()))
    assert small.values == 1
    assert small.data.layout == "C"
    assert small.data.codes.reshape(-1).tolist() == [wrong]
    assert small.tensors["scale"].shape == (1,)
    assert not small.tensors["zero_point"].codes.any()
    assert ONNX.judge(small).verdict == "allowed"


def test_the_operand_whose_layout_matters_is_found() -> None:
    """The other operands get C order."""
    structure = Linear("int8", "float32", "per_axis", (6, 40), "int8", layout="F", parameter_layout="strided")
    call = build(contracts.get("ai.onnx/DequantizeLinear-13"), structure, "test")
    once = settings(database=None, max_examples=300, suppress_health_check=list(HealthCheck))
    for role, layout in (("scale", "strided"), ("x", "F")):
        small = find(
            smaller_calls(call, (3, 7)), lambda c, role=role, odd=layout: c.tensors[role].layout == odd, settings=once
        )
        assert {name: t.layout for name, t in small.tensors.items() if t.layout != "C"} == {role: layout}
        assert small.values == 1


@pytest.mark.parametrize(("size", "lanes"), [(33, 16), (257, 32)])
def test_a_tail_is_found(size: int, lanes: int) -> None:
    """Values after the last whole vector are wrong. One vector and one value remain."""
    call = build(ONNX, Linear("int8", "float32", "per_tensor", (2, size), seed=4))

    def shows(c: Call) -> bool:
        extent = c.data.shape[-1] if c.data.shape else 1
        return extent > lanes and extent % lanes != 0

    small = minimum(call, (1, size - 1), shows)
    assert small.data.shape == (lanes + 1,)


def test_a_blocked_remainder_is_found() -> None:
    """Values of a partial last block are wrong. One row, one whole block and one value remain."""
    structure = Linear("int8", "float32", "blocked", (3, 110), "int8", axis=1, block_size=16, seed=5)
    call = build(ONNX, structure)

    def shows(c: Call) -> bool:
        block, shape = int(c.attributes.get("block_size", 0)), c.data.shape
        if not block or ONNX.judge(c).verdict != "allowed" or not shape:
            return False
        extent = shape[int(c.attributes.get("axis", 1))]
        return ceil_div(extent, block) > 1 and extent % block != 0

    small = minimum(call, (2, 96), shows)
    assert small.values == 17
    assert small.tensors["scale"].size == 2
    assert not small.tensors["zero_point"].codes.any()


def test_a_range_call_is_found() -> None:
    contract = contracts.get("tensorflow/Dequantize@installed")
    call = build(contract, Range("uint8", "SCALED", (5, 7, 3), True, seed=6))
    ends = {"min_range": tensor("float32", -3.0), "max_range": tensor("float32", 5.0)}
    small = minimum(replace(call, tensors={**call.tensors, **ends}), (4, 6, 2), lambda c: c.values > 0)
    assert small.data.shape == ()
    assert [small.tensors[role].same_bits(ends[role]) for role in ends] == [True, True]
