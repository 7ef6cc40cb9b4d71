"""Ordinary calls: those whose answers are evidence, counted by rank."""

from __future__ import annotations

import numpy as np
import pytest

from xverify.core.call import Call
from xverify.core.dtypes import tensor
from xverify.verify.ordinary import OrdinaryCalls, oddity_of, together

ONNX = "ai.onnx/DequantizeLinear-25"


def linear(x, scale=1.0) -> Call:
    return Call(ONNX, {"x": tensor("int8", x), "scale": tensor("float32", scale)})


def ranged(low: float, high: float) -> Call:
    ends = {"min_range": tensor("float32", low), "max_range": tensor("float32", high)}
    return Call("tensorflow/Dequantize@seed", {"input": tensor("uint8", [1, 2]), **ends})


@pytest.mark.parametrize(
    ("call", "oddity"),
    [
        (linear([1, 2]), ""),
        (linear([[1, 1], [1, 2]], [-0.5, 1e-40]), ""),
        (linear(np.zeros((0, 2))), "empty"),
        (linear([3]), "constant"),
        (linear([3, 3, 3]), "constant"),
        (linear([1, 2], 0.0), "special"),
        (linear([1, 2], [1.0, np.inf]), "special"),
        (linear([1, 2], np.nan), "special"),
        (ranged(-1.0, 2.0), ""),
        (ranged(2.0, 2.0), "special"),
        (ranged(-np.inf, 2.0), "special"),
    ],
)
def test_an_ordinary_call_has_several_codes_and_finite_parameters(call: Call, oddity: str):
    assert oddity_of(call) == oddity


def counted(*calls: tuple[tuple[int, ...], str]) -> OrdinaryCalls:
    """The counts of calls by shape and kind of outcome."""
    ordinary = OrdinaryCalls()
    for shape, kind in calls:
        ordinary.observe(linear(np.arange(np.prod(shape)).reshape(shape) % 100), kind)
    return ordinary


def test_two_ranks_and_more_than_a_vector_are_enough():
    assert not counted(((64,), "tensor"), ((8, 8), "tensor")).enough
    assert not counted(((65,), "tensor"), ((9,), "tensor")).enough
    assert not counted(((65,), "tensor"), ((2, 3), "rejected")).enough
    assert counted(((65,), "tensor"), ((2, 3), "tensor")).enough
    assert together([counted(((65,), "tensor")), counted(((2, 3), "tensor"))]).enough


def test_a_rank_is_not_implemented_if_it_is_always_refused_and_most_others_are_answered():
    answered, refused = [((65,), "tensor"), ((66,), "tensor")], ((2, 3), "unsupported")
    assert counted(*answered, refused).declared() == {2}
    assert counted(answered[0], answered[0], refused).declared() == set(), "the same call twice may be chance"
    often = [((extent,), "unsupported") for extent in (5, 6, 7)]
    assert counted(*answered, *often, refused).declared() == set(), "the other rank is refused as often"
    assert counted(*answered, ((2, 3), "rejected")).taken == {1, 2}
