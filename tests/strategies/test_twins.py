"""Twins give the same values: a call per axis, in one block, split, merged or in another edition."""

from __future__ import annotations

import numpy as np
import pytest
from answers_to_twins import DIVIDE, MULTIPLY, ONNX, fingerprint, first_reading, linear
from hypothesis import HealthCheck, given, settings
from walked_calls import EDITIONS

from xverify import contracts
from xverify.core.call import Call, Outcome
from xverify.core.dtypes import tensor
from xverify.strategies.calls import calls, invalid_calls
from xverify.strategies.equivalents import joined, twin, twins
from xverify.verify import equivalence


@pytest.mark.parametrize("identity", EDITIONS)
def test_twins_are_allowed_and_every_reading_gives_them_the_same_values(identity):
    contract = contracts.get(identity)
    met = set()

    @settings(max_examples=30, database=None, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(calls(contract))
    def check(call):
        for other in twins(contract, call):
            met.add(other.kind)
            assert all(contracts.get(c.contract).judge(c).verdict == "allowed" for c in other.calls)
            for answer in (fingerprint, first_reading):
                assert equivalence.same(answer(call), joined(other, [answer(c) for c in other.calls])), other.name

    check()
    editions = {"edition"} if identity != DIVIDE else set()
    granularity = {"granularity"} if len(contract.domain.granularities) > 1 and "tensorflow" not in identity else set()
    assert met == {"axes", *editions, *granularity}


@pytest.mark.parametrize("identity", [ONNX + "25", MULTIPLY, "tensorflow/Dequantize@installed"])
def test_calls_that_are_not_allowed_have_no_twins(identity):
    contract = contracts.get(identity)

    @settings(max_examples=30, database=None, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(invalid_calls(contract))
    def check(call):
        assert twins(contract, call) == ()
        assert twin(contract, call, "merged-axes") is None

    check()


def test_a_per_tensor_call_has_every_kind_of_twin():
    call = linear(ONNX + "21", np.arange(12).reshape(3, 4), 0.5)
    by_name = {t.name: t for t in twins(contracts.get(ONNX + "21"), call)}
    assert set(by_name) == {
        "per-axis", "one-block", "blocks-of-one", "merged-axes", "split-first-axis", "split-last-axis",
        *(f"under:{ONNX}{version}" for version in (10, 13, 19, 23, 24, 25, 28)),
        "under:com.microsoft/DequantizeLinear-1@installed", "under:onednn/Dequantize-1@3.5", f"under:{MULTIPLY}",
        "under:litert/Dequantize@spec", "under:onednn/DynamicDequantize-1@3.0", "under:onednn/DynamicDequantize-1@3.7",
        "under:torchao/dequantize_affine@0.18",
    }  # fmt: skip
    shapes = {name: t.calls[0].tensors["scale"].shape for name, t in by_name.items()}
    assert (shapes["per-axis"], shapes["one-block"], shapes["blocks-of-one"]) == ((4,), (3, 1), (3, 4))
    assert (shapes[f"under:{MULTIPLY}"], shapes[f"under:{ONNX}10"]) == ((1,), ())
    assert [c.data.shape for c in by_name["split-first-axis"].calls] == [(1, 4), (2, 4)]
    assert by_name["merged-axes"].calls[0].data.shape == (12,)


def test_attributes_are_translated_between_editions():
    call = linear(ONNX + "13", np.ones((2, 3)), [0.5, 1, 2], tensor("int8", [1, 2, 3]))
    by_name = {t.name: t.calls[0].attributes for t in twins(contracts.get(ONNX + "13"), call)}
    assert by_name["under:com.microsoft/DequantizeLinear-1@seed"] == {"axis": 1}
    assert by_name[f"under:{MULTIPLY}"] == {"axis": 1, "qtype": "per_channel"}
    assert f"under:{DIVIDE}" not in by_name
    assert f"under:{ONNX}10" not in by_name


def test_editions_are_compared_only_where_they_share_a_reading():
    tensors = {"input": tensor("int8", [1, 2]), "min_range": tensor("float32", -1), "max_range": tensor("float32", 3)}
    installed = contracts.get("tensorflow/Dequantize@installed")
    seed = "under:tensorflow/Dequantize@seed"
    names = {
        mode: [t.name for t in twins(installed, Call(installed.id, tensors, {"mode": mode, "narrow_range": narrow}))]
        for mode, narrow in (("MIN_COMBINED", False), ("SCALED", False), ("MIN_FIRST", True))
    }
    assert seed in names["MIN_COMBINED"]
    assert seed not in names["SCALED"]
    assert seed not in names["MIN_FIRST"]


def test_a_blocked_axis_is_cut_between_two_blocks():
    contract, scale = contracts.get(ONNX + "21"), np.arange(1, 5) / 4
    cut = twin(contract, linear(contract.id, np.arange(10), scale, axis=0, block_size=3), "split-first-axis")
    assert [c.data.shape for c in cut.calls] == [(6,), (4,)]
    for piece, part in zip(cut.calls, (scale[:2], scale[2:]), strict=True):
        assert piece.tensors["scale"].same_bits(tensor("float32", part))
    one_block = linear(contract.id, np.arange(3), [1], axis=0, block_size=3)
    assert twin(contract, one_block, "split-first-axis") is None


def test_scales_are_cut_with_the_axis_that_they_run_along_and_only_with_that():
    contract = contracts.get(ONNX + "13")
    call = linear(contract.id, np.ones((4, 3)), [1, 2, 3], tensor("int8", [4, 5, 6]), axis=-1)
    by_name = {t.name: [c.tensors for c in t.calls] for t in twins(contract, call)}
    parts = [(t["scale"], t["zero_point"]) for t in by_name["split-last-axis"]]
    for (scale, zero_point), expected in zip(parts, (slice(1), slice(1, 3)), strict=True):
        assert scale.same_bits(tensor("float32", [1, 2, 3][expected]))
        assert zero_point.same_bits(tensor("int8", [4, 5, 6][expected]))
    assert [t["scale"].shape for t in by_name["split-first-axis"]] == [(3,), (3,)]
    assert [t["x"].shape for t in by_name["split-first-axis"]] == [(3, 3), (1, 3)]


def test_pieces_are_joined_in_order_and_a_piece_without_values_speaks_for_all():
    call = linear(ONNX + "21", np.arange(6).reshape(2, 3), 1.0)
    cut = twin(contracts.get(ONNX + "21"), call, "split-last-axis")
    left, right = (tensor("float32", part) for part in ([[0], [3]], [[1, 2], [4, 5]]))
    whole = joined(cut, [Outcome("tensor", left), Outcome("tensor", right, notes=("input-written",))])
    assert whole.tensor.same_bits(tensor("float32", np.arange(6).reshape(2, 3)))
    assert whole.notes == ("input-written",)
    refused = Outcome("rejected", error="ValueError")
    assert joined(cut, [Outcome("tensor", left), refused]) is refused
    odd = Outcome("tensor", left)
    assert joined(cut, [Outcome("tensor", left), odd]) is odd
    with pytest.raises(ValueError, match="shorter"):
        joined(cut, [Outcome("tensor", left)])
