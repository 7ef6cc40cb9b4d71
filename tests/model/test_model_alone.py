"""The check of each node alone: findings with their nodes, and comparisons of implementations."""

from __future__ import annotations

import numpy as np
import pytest
import wrong_alone
from test_model_calls import constant, node

from xverify.engine.options import Options
from xverify.model.alone import check_alone
from xverify.model.nodes import Node, Operand
from xverify.oracles import onnx_reference

REFERENCE = onnx_reference.ORACLES[0]


def named(name: str, of: Node, contract: str = "") -> Node:
    return Node(name, contract or of.contract, of.attributes, of.operands, f"{name}.y")


NODES = (
    named("weight", node(constant("int8", np.arange(-8, 8).reshape(4, 4)), constant("float32", [1, 2, 3, 4]), axis=0)),
    named("activation", node(Operand("x", "uint8", None), constant("float32", 0.1), constant("uint8", 7))),
    named("twin", node(Operand("x", "uint8", None), constant("float32", 0.1), constant("uint8", 7))),
    named("signed", node(Operand("x", "int8", None), constant("float32", 0.1), constant("int8", 7))),
    named("illegal", node(constant("int8", [[1, 2]]), constant("float32", [1, 2, 3]), axis=1)),
    named("untyped", node(Operand("x", "", None), constant("float32", 0.1))),
)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    options = Options(
        (), (wrong_alone.oracle("uint8"), REFERENCE), tmp_path_factory.mktemp("run"), "test", "xverify model"
    )
    return check_alone(NODES, options, lambda event: None, ("onnx-reference", "careless"))


def test_a_finding_names_the_nodes_that_show_it(alone):
    states = {r.node.name: {name: s.state for name, s in r.statuses.items()} for r in alone.nodes}
    assert states["activation"] == states["twin"] == {"careless": "wrong", "onnx-reference": "ok"}
    assert states["weight"] == states["signed"] == {"careless": "ok", "onnx-reference": "ok"}
    (finding,) = [f for f in alone.report["findings"] if f["verdict"] == "violation"]
    assert finding["subject"]["name"] == "careless"
    assert "zero point" in finding["summary"]
    shown = {r.node.name for r in alone.nodes if finding["id"] in r.statuses["careless"].findings}
    assert shown == {"activation", "twin"}


def test_equal_calls_of_several_nodes_are_made_once(alone):
    assert alone.report["coverage"]["cases"] == 3
    assert [r.values for r in alone.nodes] == [16, 256, 256, 256, 0, 0]


def test_a_node_without_calls_has_a_reason(alone):
    notes = {r.node.name: r.note for r in alone.nodes}
    assert "forbids it by the clause 'granularity'" in notes["illegal"]
    assert notes["untyped"] == "the type of its x is unknown"
    assert {s.state for s in alone.nodes[-1].statuses.values()} == {"unanswered"}


def test_two_implementations_are_compared_with_each_other(alone):
    assert [d.node for d in alone.differences] == ["activation", "twin"]
    first = alone.differences[0]
    assert (first.kind, first.oracle, first.against) == ("differs", "careless", "onnx-reference")
    assert (first.wrong, first.elements, first.value) == (256, 256, "activation.y")
    assert first.index == (0,)
    assert first.part
