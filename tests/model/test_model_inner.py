"""Values of subgraphs as outputs of a model."""

from __future__ import annotations

import models
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from xverify.core.call import Tensor
from xverify.model import cut, inner
from xverify.model.read import read_model
from xverify.oracles import onnx_reference
from xverify.oracles.model_run import ModelRun


def occurrences(model, inputs, folder):
    """The occurrences of x and y of each node in the reference evaluator."""
    wanted = [
        (n.graph, o, t)
        for n in model.nodes
        for o, t in ((n.operands["x"].value, n.operands["x"].dtype), (n.output, "float32"))
    ]
    path, exposed = cut.exposed(model, [], wanted, folder / "copy")
    onnx.checker.check_model(onnx.load(path), full_check=True)
    run = onnx_reference.load().run_model
    assert run is not None
    outputs = run(ModelRun(str(path), inputs), "graph")
    every = {way_and_name: inner.occurrences(each, outputs) for way_and_name, each in exposed.items()}
    return {
        node.name: tuple(every[node.graph, name] for name in (node.operands["x"].value, node.output))
        for node in model.nodes
    }


def test_each_occurrence_has_its_shape_and_values(tmp_path):
    model = read_model(models.flows(tmp_path))
    x = np.arange(12, dtype=np.uint8).reshape(3, 4)
    inputs = {"x": Tensor("int8", x), "condition": Tensor("uint8", np.array(0, np.uint8))}
    found = occurrences(model, inputs, tmp_path)
    rows = {"yes": [], "no": [x], "each": list(x), "zeroth": [x[0]], "others": list(x[1:]), "scanned": list(x)}
    for name, expected in rows.items():
        codes, results = found[name]
        assert codes.total == results.total == len(expected)
        for row, before, after in zip(expected, codes.tensors, results.tensors, strict=True):
            assert (before.dtype, before.codes.tolist()) == ("int8", row.tolist())
            assert (after.codes.view(np.float32) == row.astype(np.float32) * np.float32(0.1)).all()


@pytest.mark.parametrize(
    ("kind", "dtype", "codes"),
    [(TensorProto.FLOAT8E4M3FN, "float8_e4m3fn", [0x81, 0x7E, 0, 0x38]), (TensorProto.INT4, "int4", [0, 7, 8, 15])],
)
def test_types_that_onnx_does_not_concatenate(tmp_path, kind, dtype, codes):
    model = read_model(_conditional(tmp_path, kind, ["If"]))
    given = {"x": Tensor(dtype, np.array(codes, np.uint8)), "condition": Tensor("uint8", np.array(1, np.uint8))}
    found = occurrences(model, given, tmp_path)
    (held,) = found["then0"][0].tensors
    assert (held.dtype, held.codes.tolist()) == (dtype, codes)


def test_nodes_of_one_name_keep_their_graphs_apart(tmp_path):
    model = read_model(_conditional(tmp_path, TensorProto.INT8, ["If", "If"]))
    assert {node.name: node.graph for node in model.nodes} == {
        "then0": ("If.then_branch",),
        "else0": ("If.else_branch",),
        "then1": ("If.then_branch#2",),
        "else1": ("If.else_branch#2",),
    }
    inputs = {"x": Tensor("int8", np.arange(4, dtype=np.uint8)), "condition": Tensor("uint8", np.array(1, np.uint8))}
    found = occurrences(model, inputs, tmp_path)
    assert {name: y.total for name, (_, y) in found.items()} == {"then0": 1, "else0": 0, "then1": 1, "else1": 0}


def test_a_long_loop_keeps_its_first_iterations(tmp_path, monkeypatch):
    monkeypatch.setattr(inner, "MOST_ELEMENTS", 7)
    model = read_model(models.flows(tmp_path))
    inputs = {"x": Tensor("int8", np.zeros((3, 4), np.uint8)), "condition": Tensor("uint8", np.array(0, np.uint8))}
    codes, _ = occurrences(model, inputs, tmp_path)["each"]
    assert (len(codes.tensors), codes.total) == (2, 3)


def test_values_that_cannot_be_outputs_have_a_reason(tmp_path):
    model = read_model(models.flows(tmp_path, opset=10, kind=TensorProto.UINT8))
    reasons = {node.name: inner.obstacle(model.proto, node.graph) for node in model.nodes}
    assert reasons["yes"] == "both branches of the If choice must have the same shapes in opset 10"
    assert reasons["each"] == reasons["scanned"] == ""
    model.proto.graph.node[1].op_type = "Scan"
    assert inner.obstacle(model.proto, ("loop.body", "odd.then_branch")).startswith(
        "inside a subgraph of the Scan loop"
    )
    model.proto.graph.node[1].op_type = "SequenceMap"
    assert inner.obstacle(model.proto, ("loop.body",)).startswith("inside the SequenceMap loop")


def _conditional(folder, kind, names):
    """A model with an If for each name, with a node in both branches."""
    nodes = []
    for number, name in enumerate(names):
        branches = [
            helper.make_graph(
                [helper.make_node("DequantizeLinear", ["x", "scale"], ["y"], name=f"{word}{number}")],
                word,
                [],
                [onnx.ValueInfoProto(name="y")],
            )
            for word in ("then", "else")
        ]
        nodes.append(
            helper.make_node(
                "If", ["condition"], [f"z{number}"], name=name, then_branch=branches[0], else_branch=branches[1]
            )
        )
    inputs = [
        helper.make_tensor_value_info("x", kind, [4]),
        helper.make_tensor_value_info("condition", TensorProto.BOOL, []),
    ]
    model = models.model_of(nodes, inputs, [], [models.array("scale", np.float32(0.5))])
    model.graph.output.extend(models.floats(f"z{number}", [4]) for number in range(len(names)))
    path = folder / "conditional.onnx"
    onnx.save(model, path)
    return path
