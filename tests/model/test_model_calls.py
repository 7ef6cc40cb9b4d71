"""The calls of a node alone: constants in parts, and every code for an operand of run time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from xverify import contracts
from xverify.core.call import Call, Tensor
from xverify.core.dtypes import encode
from xverify.model import calls
from xverify.model.calls import calls_of, unknown
from xverify.model.constants import HeldConstant
from xverify.model.nodes import Node, Operand

EDITION = "ai.onnx/DequantizeLinear-21"


def constant(dtype: str, numbers: Any) -> Operand:
    held = HeldConstant(Tensor(dtype, np.asarray(encode(dtype, numbers))))
    return Operand("constant", dtype, held.shape, held)


def node(x: Operand, scale: Operand, zero_point: Operand | None = None, **attributes: int) -> Node:
    operands = {"x": x, "scale": scale, **({} if zero_point is None else {"zero_point": zero_point})}
    return Node("node", EDITION, attributes, operands, "y")


def made(of: Node, most: int = 1 << 30) -> list[Call]:
    listed = [piece.make() for piece in calls_of(of, 0, most).pieces]
    assert {contracts.get(EDITION).judge(call).verdict for call in listed} == {"allowed"}
    return listed


def met(listed: list[Call], axis: int, block: int = 0) -> Counter[tuple[int, int]]:
    """The pairs of a code and a scale along an axis that the calls contain."""
    pairs: Counter[tuple[int, int]] = Counter()
    for call in listed:
        scale = call.tensors["scale"].codes
        if block:
            scale = np.repeat(scale, block, axis)
        elif scale.ndim:
            scale = scale.reshape([-1 if i == axis else 1 for i in range(len(call.data.shape))])
        codes, scales = np.broadcast_arrays(call.data.codes, scale)
        pairs.update(zip(codes.reshape(-1).tolist(), scales.reshape(-1).tolist(), strict=True))
    return pairs


@pytest.mark.parametrize(
    ("shape", "scales", "attributes"),
    [
        ((None, 4), 0.5, {}),
        ((2, 3, 5), [0.5, 0.25, 2.0], {"axis": 1}),
        ((None, None, 3), [0.5, 0.25, 2.0], {"axis": -1}),
        ((3,), [0.5, 0.25, 2.0], {"axis": 0}),
        ((8, 3), [[0.5, 1.0, 3.0], [0.25, 2.0, 5.0]], {"axis": 0, "block_size": 4}),
    ],
)
def test_every_code_of_a_runtime_x_meets_every_scale(shape, scales, attributes):
    listed = made(node(Operand("x", "int8", shape), constant("float32", scales), **attributes))
    axis = attributes.get("axis", 1) % len(shape)
    pairs = met(listed, axis, attributes.get("block_size", 0))
    assert len(pairs) == 256 * np.size(scales)


def test_sixteen_bits_are_met_whole_and_thirty_two_at_their_edges():
    (call,) = made(node(Operand("x", "uint16", (None,)), constant("float32", 0.5)))
    assert np.unique(call.data.codes).size == 1 << 16
    (call,) = made(node(Operand("x", "int32", (None,)), constant("float32", 0.5)))
    assert {0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF} <= set(call.data.codes.reshape(-1).tolist())


@pytest.mark.parametrize(
    ("shape", "scale_shape", "attributes"),
    [((6, 10), (), {}), ((6, 10), (10,), {"axis": 1}), ((7, 9), (3, 9), {"axis": 0, "block_size": 3})],
)
def test_parts_of_a_constant_hold_it_once_with_its_own_scales(monkeypatch, shape, scale_shape, attributes):
    monkeypatch.setattr(calls, "PART", 10)
    codes = np.arange(np.prod(shape)).reshape(shape)
    scales = np.arange(1, 1 + np.prod(scale_shape, dtype=int)).reshape(scale_shape)
    listed = made(node(constant("uint8", codes), constant("float32", scales), **attributes))
    assert len(listed) > 1
    axis, block = attributes.get("axis", 1), attributes.get("block_size", 0)
    whole = Call(
        EDITION, {"x": Tensor("uint8", codes.astype(np.uint8)), "scale": Tensor("float32", encode("float32", scales))}
    )
    expected = np.repeat(whole.tensors["scale"].codes, block, 0)[: shape[0]] if block else whole.tensors["scale"].codes
    assert sum(call.values for call in listed) == codes.size
    for call in listed:
        scale = call.tensors["scale"].codes
        scale = np.repeat(scale, block, axis)[: call.data.shape[0]] if block else scale
        given = np.broadcast_to(scale, call.data.shape)
        for code, got in zip(call.data.codes.reshape(-1).tolist(), given.reshape(-1).tolist(), strict=True):
            assert got == np.broadcast_to(expected, shape).reshape(-1)[code]


def test_a_limit_keeps_the_first_and_the_last_part_and_counts_the_rest(monkeypatch):
    monkeypatch.setattr(calls, "PART", 10)
    weight = node(constant("uint8", np.arange(200).reshape(20, 10)), constant("float32", 0.5))
    listed = calls_of(weight, 0, 50)
    assert (listed.values, listed.of) == (50, 200)
    firsts = [int(piece.make().data.codes[0, 0]) for piece in listed.pieces]
    assert (firsts[0], firsts[-1]) == (0, 190)


def test_runtime_scales_and_zero_points_are_drawn():
    listed = made(node(Operand("x", "int8", None), Operand("s", "float32", ()), Operand("z", "int8", ())))
    assert len({int(call.tensors["scale"].codes) for call in listed}) == calls.DRAWS
    assert {0x00, 0x80, 0x7F} <= {int(call.tensors["zero_point"].codes) for call in listed}


def test_a_node_of_unknown_types_has_a_reason():
    assert unknown(node(Operand("x", "", None), constant("float32", 1.0))) == "the type of its x is unknown"
    assert unknown(node(Operand("x", "int8", None), constant("float32", 1.0))) == ""
