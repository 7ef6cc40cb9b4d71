"""Attribution of a graph's wrong values to a rewrite, or to the operator itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from xverify import contracts
from xverify.core.call import Call, Tensor
from xverify.core.surroundings import surround
from xverify.verify.graph_values import graph_legal
from xverify.verify.legal import legal_set
from xverify.verify.rewrites import explain, follows, gives, without_changes

EDITION = contracts.get("ai.onnx/DequantizeLinear-21")

CODES = (0, 1, 3, 97, 98, 99, 100, 101, 103, 128, 150, 198, 200, 253, 254, 255)


def call(*around: str, scale: float = 0.5, codes: tuple[int, ...] = CODES) -> Call:
    x = np.array(codes, np.uint8).reshape(1, 1, 2, -1)
    tensors = {
        "x": Tensor("uint8", x),
        "scale": Tensor("float32", np.asarray(np.float32(scale)).view(np.uint32).reshape(())),
        "zero_point": Tensor("uint8", np.asarray(100, np.uint8)),
    }
    return Call(EDITION.id, tensors, {}, around=around)


def result(made: Call) -> Tensor:
    """A legal result of a call in its graph."""
    legal = graph_legal(EDITION, surround(made)) if made.around else legal_set(EDITION, made)
    return Tensor(legal.dtype, legal.distinct[0])


@pytest.mark.parametrize(
    ("whole", "rewritten", "words"),
    [
        (("y>relu:0",), (), "leaves out Relu"),
        (("y>pair:3", "y>relu:0"), ("y>relu:0",), "leaves out QuantizeLinear and DequantizeLinear"),
        (("y>pair:3", "y>pair:1"), ("y>pair:1",), "leaves out QuantizeLinear and DequantizeLinear"),
        (("y>quantize:3",), ("y>quantize:0",), "leaves out DequantizeLinear and QuantizeLinear"),
        (("y>relu:0", "y>quantize:3"), ("y>relu:0", "y>quantize:0"),
         "takes the scale of an earlier operator for QuantizeLinear"),
    ],
)  # fmt: skip
def test_a_rewrite_is_named(whole: tuple[str, ...], rewritten: tuple[str, ...], words: str) -> None:
    made, got = call(*whole), result(call(*rewritten))
    rewrite = explain(EDITION, made, got)
    assert rewrite is not None
    assert rewrite.words == words
    assert gives(EDITION, made, got, rewrite.name) == rewrite
    assert gives(EDITION, made, result(made), rewrite.name) is None


def test_a_maximum_of_codes_is_wrong_with_a_negative_scale() -> None:
    made = call("y>maxpool:1", scale=-0.5, codes=(0, 3, 100, 101, 128, 200, 254, 255))
    codes = made.tensors["x"].codes.reshape(2, 2, 2).max((0, 2))
    got = np.asarray((codes.astype(np.float32) - 100) * np.float32(-0.5)).reshape(1, 1, 1, 2)
    rewrite = explain(EDITION, made, Tensor("float32", got.view(np.uint32)))
    assert rewrite is not None
    assert rewrite.words == "takes the maximum of codes instead of values"


def test_values_that_no_rewrite_gives_stay_unexplained() -> None:
    made = call("y>relu:0")
    assert explain(EDITION, made, Tensor("float32", result(made).codes + np.uint32(1))) is None


def test_a_graph_follows_from_the_wrong_result_of_its_operator() -> None:
    made = call("y>transpose:0", "y>relu:0")
    assert without_changes(made).around == ("y>transpose:0",)
    wrong = result(replace(made, around=()))
    wrong = Tensor(wrong.dtype, wrong.codes + np.uint32(1))
    numbers = np.maximum(wrong.codes.view(np.float32), 0)
    got = Tensor("float32", np.ascontiguousarray(np.transpose(numbers)).view(np.uint32))
    shape = surround(made).shape
    assert follows(EDITION, made, Tensor("float32", got.codes.reshape(shape)), wrong)
    assert not follows(EDITION, made, result(made), wrong)


def test_a_quantization_that_truncates_is_named() -> None:
    made = call("y>quantize:3")
    quotients = (made.tensors["x"].codes.astype(np.float64) - 100) * 0.5 / 1.5
    got = Tensor("uint8", np.clip(np.trunc(quotients) + 100, 0, 255).astype(np.uint8))
    rewrite = explain(EDITION, made, got)
    assert rewrite is not None
    assert rewrite.words == "truncates in QuantizeLinear"


def test_an_added_pair_is_named() -> None:
    made = call("y>neg:0")
    numbers = np.clip((made.tensors["x"].codes.astype(np.float32) - 100) * np.float32(0.5) / np.float32(0.5), 0, 255)
    got = Tensor("float32", np.asarray(-(numbers * np.float32(0.5))).astype(np.float32).view(np.uint32))
    rewrite = explain(EDITION, made, got)
    assert rewrite is not None
    assert rewrite.words == "quantizes the result again to uint8 without a zero point"
