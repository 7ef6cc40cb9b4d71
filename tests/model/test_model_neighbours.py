"""The check of nodes with their neighbours."""

from __future__ import annotations

import models
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from wrong_models import InThisProcess, flawed, oracle, reference

from xverify.model import cut
from xverify.model.neighbours import check_neighbours, make_trial
from xverify.model.read import read_model
from xverify.model.runs import Runner, started
from xverify.oracles import onnxruntime_cpu


def chain(folder, count=1, middle="Relu"):
    """Pairs of QuantizeLinear and DequantizeLinear around an operator, all alike."""
    nodes, value = [], "x"
    for i in range(count):
        nodes += [
            helper.make_node("QuantizeLinear", [value, "s", "z"], [f"q{i}"]),
            helper.make_node("DequantizeLinear", [f"q{i}", "s", "z"], [f"d{i}"], name=f"node{i}"),
            helper.make_node(middle, [f"d{i}"] * (2 if middle == "Add" else 1), [f"m{i}"]),
        ]
        value = f"m{i}"
    nodes += [helper.make_node("QuantizeLinear", [value, "s", "z"], ["out"])]
    constants = [models.array("s", np.float32(0.0234375)), models.array("z", np.uint8(7))]
    path = folder / "chain.onnx"
    onnx.save(models.model_of(nodes, [models.floats("x", [16, 16])], ["out"], constants), path)
    return path


def checked(path, runners, folder):
    model = read_model(path)
    return model, check_neighbours(model, model.nodes, runners, folder, 0)


@pytest.mark.parametrize("name", ["pool_DequantizeLinear", "relu_DequantizeLinear"])
def test_a_wrong_fusion_is_a_violation_of_its_node(tmp_path, name):
    """Each value of the flawed node is wrong, but only where the node's result is no output."""
    _, result = checked(models.quantized(tmp_path), [reference(), flawed(name, "fused")], tmp_path)
    faults = [(each.node, each.oracle, each.level) for each in result.differences if each.kind == "violation"]
    assert faults == [(name, "fake", "graph on")]


def test_a_violation_has_the_part_that_shows_it(tmp_path):
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s"], ["y"], name="node"),
        helper.make_node("Neg", ["y"], ["neg"]),
        helper.make_node("Identity", ["neg"], ["out"]),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.INT8, ["n", 8])]
    onnx.save(models.model_of(nodes, inputs, ["out"], [models.array("s", np.float32(0.1))]), tmp_path / "neg.onnx")
    _, result = checked(tmp_path / "neg.onnx", [reference(), flawed("node", "fused")], tmp_path)
    (shown,) = result.differences
    assert (shown.node, shown.kind, shown.value, shown.wrong) == ("node", "violation", "neg", 16)
    assert shown.operators == ("DequantizeLinear", "Neg")
    assert set(shown.inputs) == {"x"}
    assert onnx.load_model_from_string(shown.part).graph.node[0].name == "node"


def test_the_inputs_make_x_meet_every_code(tmp_path):
    model = read_model(chain(tmp_path))
    part = cut.neighbours(model, model.nodes[0])
    assert part is not None
    trial = make_trial(part, 0)
    met = np.unique(np.concatenate([each.values["q0"].codes.reshape(-1) for each in trial.legal]))
    assert len(met) == 256


def test_equal_parts_are_run_once(tmp_path):
    class Counting(InThisProcess):
        runs = 0

        def submit(self, requests):
            type(self).runs += len(requests)
            super().submit(requests)

    runner = reference()
    counting = Counting(runner.worker._loaded)
    _, result = checked(chain(tmp_path, 12), [Runner("counted", ("graph",), counting)], tmp_path)
    assert {each.state for each in result.states} == {"ok"}
    assert len(result.states) == 12
    assert Counting.runs < 12


def test_a_wrong_fusion_with_a_matmul_is_beyond_every_order_of_its_sums(tmp_path):
    _, result = checked(models.long_network(tmp_path, 4), [flawed("layer0/w", "fused"), reference()], tmp_path)
    assert {each.reason for each in result.states} == {"the output of the part has no legal set: MatMul rounds it"}
    assert {(each.kind, each.oracle, each.level) for each in result.differences} == {("differs", "fake", "graph on")}
    beyond = {each.node: each for each in result.differences if each.bounds}
    assert set(beyond) == {"layer0/x", "layer0/w"}, "both go into the sum"
    shown = beyond["layer0/w"]
    assert shown.operators == ("DequantizeLinear", "DequantizeLinear", "MatMul", "QuantizeLinear")
    least, most = shown.bounds
    assert (shown.dtype, shown.sums) == ("uint8", "float32")
    assert shown.distance == max(least - int(shown.got, 16), int(shown.got, 16) - most) > 10
    plain = [each for each in result.differences if each.node == "layer0/w" and not each.bounds]
    assert [each.against for each in plain] == ["onnx-reference graph"], "the reference evaluator comes first"


def test_onnxruntime_keeps_to_the_edition_between_quantized_neighbours(tmp_path):
    levels = onnxruntime_cpu.ORACLES[0].models
    runner = Runner("onnxruntime", levels, InThisProcess(onnxruntime_cpu.load()))
    _, result = checked(models.quantized(tmp_path), [runner], tmp_path)
    assert [each for each in result.differences if each.kind != "differs"] == []
    assert {each.level for each in result.states if each.state == "ok"} == set(levels)


@pytest.mark.parametrize("deed", ["abort", "refuse"])
def test_a_part_that_ends_the_process_is_a_difference_of_its_nodes(tmp_path, deed):
    with started([oracle("node1", deed)], tmp_path / "workers") as runners:
        _, result = checked(chain(tmp_path, 3, "Add"), runners, tmp_path)
    kinds = {each.node: each.kind for each in result.differences if each.kind != "differs"}
    assert kinds["node1"] == {"abort": "crash", "refuse": "rejected"}[deed]
    assert {each.level for each in result.differences} == {"graph on"}
