"""Parts of models, and models with more outputs."""

from __future__ import annotations

import os

import models
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from xverify.model import cut
from xverify.model.inputs import drawn
from xverify.model.read import read_model
from xverify.oracles.arrays import to_array


def run(model, inputs, names=None):
    """The outputs of a model by name, without graph optimisation."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = names or [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def arrays(model):
    """Drawn inputs of a model as arrays."""
    kinds = {operand.value: operand.dtype for operand in model.inputs}
    drawn_ones = {name: to_array(tensor) for name, tensor in drawn(model, 3).items()}
    return {name: value.astype(bool) if kinds[name] == "bool" else value for name, value in drawn_ones.items()}


@pytest.mark.parametrize("make", [models.quantized, models.blocked_int4, models.exported, models.nested])
def test_a_part_computes_what_the_model_computes(tmp_path, make):
    """Each part gets the model's own inner values, and has the same results."""
    model = read_model(make(tmp_path))
    inner = [node for node in model.nodes if not node.graph]
    parts = [cut.neighbours(model, node) for node in inner]
    wanted = {operand.value for part in parts if part for operand in (*part.inputs, *part.outputs)}
    path = cut.exposed(model, sorted(wanted), (), tmp_path / "copy")[0]
    inputs = arrays(model)
    values = {**inputs, **run(path, inputs)}
    for node, part in zip(inner, parts, strict=True):
        assert part is not None
        assert part.operators.count("DequantizeLinear") >= 1
        assert part.operands["y"] == node.output
        if all(operand.shape is not None for operand in (*part.inputs, *part.outputs)):
            onnx.checker.check_model(onnx.load_from_string(part.content))
        for name, result in run(part.content, {o.value: values[o.value] for o in part.inputs}).items():
            assert result.tobytes() == values[name].tobytes(), (node.name, name)


def test_a_part_has_the_nodes_that_an_optimiser_fuses(tmp_path):
    model = read_model(models.quantized(tmp_path))
    nodes = {node.name: node for node in model.nodes}
    part = cut.neighbours(model, nodes["x_DequantizeLinear"], before=0)
    assert part is not None
    assert sorted(part.operators) == [
        "Conv",
        "DequantizeLinear",
        "DequantizeLinear",
        "DequantizeLinear",
        "QuantizeLinear",
    ]
    assert [operand.value for operand in part.inputs] == ["x_QuantizeLinear_Output"]
    assert [operand.value for operand in part.outputs] == ["relu_QuantizeLinear_Output"]
    alone = cut.neighbours(model, nodes["x_DequantizeLinear"], 0, 0)
    assert alone is not None
    assert (alone.operators, [o.value for o in alone.outputs]) == (
        ("DequantizeLinear",),
        [nodes["x_DequantizeLinear"].output],
    )


def test_a_part_in_a_subgraph_has_the_constants_of_the_graph_around_it(tmp_path):
    model = read_model(models.nested(tmp_path))
    node = next(node for node in model.nodes if node.name == "in_loop")
    part = cut.neighbours(model, node)
    assert part is not None
    assert (part.operators, [o.value for o in part.inputs]) == (("DequantizeLinear", "Add"), ["x", "total"])
    inputs = {"x": np.array([[4, -8, 0, 1]], np.int8), "total": np.ones((1, 4), np.float32)}
    assert run(part.content, inputs)["next"].tolist() == [[2, -1, 1, 1.25]]


def test_nodes_that_run_in_one_implementation_only_or_by_chance_stay_outside(tmp_path):
    nodes = [
        helper.make_node("RandomNormalLike", ["x"], ["noise"]),
        helper.make_node("QuantizeLinear", ["noise", "s"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s"], ["y"]),
        helper.make_node("Gelu", ["y"], ["z"], domain="com.microsoft"),
    ]
    opsets = [helper.make_opsetid("com.microsoft", 1)]
    inputs = [models.floats("x", [2])]
    path = tmp_path / "model.onnx"
    onnx.save(models.model_of(nodes, inputs, ["z"], [models.array("s", np.float32(1))], opsets=opsets), path)
    model = read_model(path)
    part = cut.neighbours(model, model.nodes[0])
    assert part is not None
    assert part.operators == ("QuantizeLinear", "DequantizeLinear")


# --- large constants ----------------------------------------------------------------------------


def _large(user, shape, scale, input_shape, axis=1, block=0, bias=0, **attributes):
    """A model whose weight is larger than a part may be, with one node that uses it."""
    random = np.random.default_rng(6)
    constants = [
        models.array("w", random.integers(-128, 128, shape, np.int8)),
        models.array("s", random.uniform(0.5, 1, scale).astype(np.float32)),
    ]
    kept = {"block_size": block} if block else {}
    operands = {"Gather": ["y", "x"]}.get(user, ["x", "y"])
    if bias:
        operands.append("b")
        constants.append(models.array("b", random.normal(size=bias).astype(np.float32)))
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["y"], axis=axis, **kept),
        helper.make_node(user, operands, ["z"], **attributes),
    ]
    kind = TensorProto.INT64 if user == "Gather" else TensorProto.FLOAT
    inputs = [helper.make_tensor_value_info("x", kind, input_shape)]
    return models.model_of(nodes, inputs, ["z"], constants)


@pytest.mark.parametrize(
    ("user", "axis_of_result", "arguments"),
    [
        ("MatMul", 1, ((1024, 2048), (2048,), [2, 1024])),
        ("MatMul", 1, ((1024, 2048), (64, 2048), [2, 1024], 0, 16)),
        ("MatMul", 1, ((1024, 2048), (1024, 128), [2, 1024], 1, 16)),
        ("MatMul", 1, ((1024, 2048), (), [2, 1024])),
        ("Gemm", 1, ((2048, 1024), (2048,), [2, 1024], 0, 0, 2048, "transB")),
        ("Conv", 1, ((2048, 128, 3, 3), (2048,), [1, 128, 4, 4], 0, 0, 2048)),
        ("Gather", 1, ((1024, 2048), (1024,), [3], 0)),
    ],
)
def test_a_large_weight_is_cut_down(tmp_path, user, axis_of_result, arguments):
    attributes = {"transB": 1} if arguments[-1] == "transB" else {}
    model_proto = _large(user, *arguments[: 6 if attributes else None], **attributes)
    path = tmp_path / "model.onnx"
    onnx.save(model_proto, path)
    model = read_model(path)
    part = cut.neighbours(model, model.nodes[0])
    assert part is not None
    assert part.is_cut
    assert part.operators == ("DequantizeLinear", user)
    assert len(part.content) <= cut.LARGEST_PART
    inputs = arrays(model)
    whole, cut_down = run(str(path), inputs)["z"], run(part.content, inputs)["z"]
    extent = cut_down.shape[axis_of_result]
    assert 10 < extent < whole.shape[axis_of_result]
    if user == "Gather":
        assert (cut_down == whole[:, :extent]).all()
    else:  # The order of a sum may depend on the extents.
        np.testing.assert_allclose(cut_down, whole[:, :extent], rtol=1e-3, atol=1e-2)


def test_a_large_weight_whose_user_would_not_follow_is_cut_alone(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(_large("Add", (1024, 2048), (64, 2048), [1024, 2048], 0, 16), path)
    model = read_model(path)
    part = cut.neighbours(model, model.nodes[0])
    assert part is not None
    assert part.operators == ("DequantizeLinear",)
    shapes = {tensor.name: tuple(tensor.dims) for tensor in onnx.load_from_string(part.content).graph.initializer}
    assert shapes["w"][0] == 16 * shapes["s"][0] < 1024
    assert (shapes["w"][1], shapes["s"][1]) == (2048, 2048)


def test_a_part_needs_the_types_of_its_inputs(tmp_path):
    nodes = [
        helper.make_node("Own", ["x"], ["q"], domain="own"),
        helper.make_node("DequantizeLinear", ["q", "s"], ["y"]),
    ]
    opsets = [helper.make_opsetid("own", 1)]
    path = tmp_path / "model.onnx"
    constants = [models.array("s", np.float32(1))]
    onnx.save(models.model_of(nodes, [models.floats("x", [2])], ["y"], constants, opsets=opsets), path)
    model = read_model(path)
    assert cut.neighbours(model, model.nodes[0]) is None


# --- more outputs -------------------------------------------------------------------------------


def test_exposed_values_and_data_that_is_not_copied(tmp_path):
    model = read_model(models.sparse(tmp_path, 1 << 20))
    path = cut.exposed(model, ["y", "z", "w", "x", "unknown", "y"], (), tmp_path / "copy")[0]
    data = path.parent / "weights/sparse.data"
    assert data.stat().st_ino == (tmp_path / "weights/sparse.data").stat().st_ino
    result = run(path, {"x": np.zeros((1, 1024), np.float32)})
    assert list(result) == ["z", "y"]
    assert np.flatnonzero(result["y"]).tolist() == [(1 << 20) - 1]


def test_data_is_copied_where_links_are_not_allowed(tmp_path, monkeypatch):
    def refused(*_):
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refused)
    model = read_model(models.sparse(tmp_path, 1 << 20))
    path = cut.exposed(model, ["y"], (), tmp_path / "copy")[0]
    original = tmp_path / "weights/sparse.data"
    assert (path.parent / "weights/sparse.data").read_bytes() == original.read_bytes()


def test_values_of_functions_are_exposed_in_the_inlined_model(tmp_path):
    model = read_model(models.nested(tmp_path))
    names = [node.output for node in model.nodes if node.function]
    path = cut.exposed(model, names, (), tmp_path / "copy")[0]
    assert set(names) < set(run(path, arrays(model)))
    assert not onnx.load(path, load_external_data=False).functions


def test_large_constants_inside_a_model_with_functions_are_not_copied(tmp_path):
    function = helper.make_function(
        "local",
        "F",
        ["a", "b"],
        ["c"],
        [helper.make_node("DequantizeLinear", ["a", "b"], ["c"])],
        [helper.make_opsetid("", 21)],
    )
    weight = np.arange(1 << 14, dtype=np.int16).view(np.int8).reshape(128, 256)
    nodes = [
        helper.make_node("F", ["w", "s"], ["y"], domain="local"),
        helper.make_node("MatMul", ["x", "y"], ["z"]),
    ]
    proto = models.model_of(
        nodes,
        [models.floats("x", [1, 128])],
        ["z"],
        [numpy_helper.from_array(weight, "w"), models.array("s", np.float32(0.5))],
        functions=[function],
        opsets=[helper.make_opsetid("local", 1)],
    )
    path = tmp_path / "model.onnx"
    onnx.save(proto, path)
    copy = cut.exposed(read_model(path), ["y"], (), tmp_path / "copy")[0]
    assert copy.stat().st_size < 1000
    assert (run(copy, {"x": np.zeros((1, 128), np.float32)})["y"] == weight * np.float32(0.5)).all()
