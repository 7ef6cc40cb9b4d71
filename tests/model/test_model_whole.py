"""The check of nodes within the whole model, and the comparison of two runtimes."""

from __future__ import annotations

from dataclasses import replace

import models
import numpy as np
import onnx
import pytest
from wrong_models import InThisProcess, flawed, oracle, reference

from xverify.contracts import get
from xverify.core.call import Call, Tensor
from xverify.model import values, whole
from xverify.model.inputs import drawn
from xverify.model.read import read_model
from xverify.model.runs import Result, Runner, started
from xverify.model.whole import check_whole, versus
from xverify.oracles import onnxruntime_cpu
from xverify.verify.legal import legal_set

ONNXRUNTIME = onnxruntime_cpu.ORACLES[0]


def checked(path, runners, folder):
    model = read_model(path)
    return model, check_whole(model, model.nodes, runners, drawn(model, 0), folder)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (models.quantized, "conv.weight_DequantizeLinear"),
        (models.blocked_int4, None),
        (models.exported, "node_dequantize_per_tensor_1"),
        (models.nested, "weight"),
    ],
)
def test_only_the_node_with_a_wrong_result_is_named(tmp_path, make, name):
    """The nodes after it get other operands, but they are judged by these."""
    path = make(tmp_path)
    name = name or read_model(path).nodes[0].name
    model, result = checked(path, [reference(), flawed(name)], tmp_path / "checked")
    shown = [each for each in result.differences if each.kind != "differs"]
    assert [(each.node, each.oracle, each.level, each.kind, each.wrong) for each in shown] == [
        (name, "fake", "graph on", "violation", 1)
    ]
    assert shown[0].ulp == 1
    assert int(shown[0].got, 16) ^ int(shown[0].legal[0], 16) == 1
    assert onnx.load_model_from_string(shown[0].part).graph.node[-1].op_type == "DequantizeLinear"
    states = {(each.node, each.oracle, each.level): each.state for each in result.states}
    assert len(states) == 3 * len(model.nodes)
    not_run = {"in_then", "in_loop"} if make is models.nested else set()
    assert {key[0] for key, state in states.items() if state == "not checked"} == not_run
    assert [key for key, state in states.items() if state == "difference"] == [(name, "fake", "graph on")]


@pytest.mark.parametrize(
    ("name", "deed", "run", "wrong"),
    [
        ("yes", "flip", 0, 1), ("each", "flip", 0, 3), ("each", "flip 2", 2, 1), ("each", "large", 2, 2),
        ("zeroth", "flip", 0, 1), ("others", "flip 1", 1, 1), ("others", "large", 1, 2), ("scanned", "large", 2, 2),
    ],
)  # fmt: skip
def test_a_wrong_node_inside_a_subgraph_is_named(tmp_path, name, deed, run, wrong):
    """The iteration is known too. A branch that was not taken is not judged."""
    model = read_model(models.flows(tmp_path))
    x = np.array([[1, 2, 3, 4], [5, 6, 7, 8], [9, 99, 11, 98]], np.uint8)
    inputs = {"x": Tensor("int8", x), "condition": Tensor("uint8", np.array(1, np.uint8))}
    result = check_whole(model, model.nodes, [reference(), flawed(name, deed)], inputs, tmp_path / "checked")
    (shown,) = [each for each in result.differences if each.kind != "differs"]
    assert (shown.node, shown.kind, shown.level, shown.wrong) == (name, "violation", "graph on", wrong)
    assert (shown.occurrence, shown.ulp) == (run, 1)
    if deed != "flip 2" and deed != "flip 1":  # these do not show in a part, which runs once
        (codes,) = shown.inputs.values()
        assert codes.codes.tolist() == (x if name == "yes" else x[run + (name == "others")]).tolist()
    states = {(each.node, each.level): each.state for each in result.states}
    reasons = {each.node: each.reason for each in result.states if each.state == "not checked"}
    assert reasons == {"no": "its branch of the If choice was not taken with these inputs"}
    assert [key for key, state in states.items() if state == "difference"] == [(name, "graph on")]


def test_onnxruntime_is_judged_inside_subgraphs(tmp_path):
    runner = Runner("onnxruntime", ONNXRUNTIME.models, InThisProcess(onnxruntime_cpu.load()))
    model, result = checked(models.flows(tmp_path), [runner], tmp_path / "checked")
    assert result.differences == ()
    checked_nodes = {each.node for each in result.states if each.state == "ok"}
    assert len(checked_nodes) == len(model.nodes) - 1
    assert {each.node for each in result.states if each.state == "not checked"} < {"yes", "no"}


def test_an_output_that_two_levels_give_differently_is_no_fault(tmp_path):
    _, result = checked(
        models.exported(tmp_path), [flawed("node_dequantize_per_channel", "fused")], tmp_path / "checked"
    )
    outputs = [each for each in result.differences if not each.node]
    assert [(each.kind, each.value, each.level, each.against) for each in outputs] == [
        ("differs", "linear", "graph on", "fake graph off")
    ]


@pytest.mark.parametrize("deed", ["abort", "hang", "refuse"])
def test_a_run_that_dies_costs_no_other_run(tmp_path, deed):
    path = models.exported(tmp_path)
    with started([oracle("node_dequantize_per_channel", deed)], tmp_path / "workers", seconds=3) as runners:
        _, result = checked(path, runners, tmp_path / "checked")
    kind = {"abort": "crash", "hang": "hang", "refuse": "rejected"}[deed]
    assert [(each.node, each.kind, each.level) for each in result.differences] == [("", kind, "graph on")]
    states = {
        level: {each.state for each in result.states if each.level == level} for level in ("graph off", "graph on")
    }
    assert states == {"graph off": {"ok"}, "graph on": {"not checked"}}
    assert all(each.reason.startswith("the model did not run") for each in result.states if each.level == "graph on")


def test_onnxruntime_at_every_level_agrees_with_the_edition(tmp_path):
    """External data, an If, a Loop and a function are in the model."""
    runner = Runner("onnxruntime", ONNXRUNTIME.models, InThisProcess(onnxruntime_cpu.load()))
    _, result = checked(models.nested(tmp_path), [runner], tmp_path / "checked")
    assert {each.kind for each in result.differences} <= {"differs"}
    assert [each.state for each in result.states if each.node == "weight"] == ["ok"] * len(ONNXRUNTIME.models)


def test_two_runtimes_part_at_the_first_node_with_equal_operands_and_another_result(tmp_path):
    model = read_model(models.quantized(tmp_path))
    runners = [reference(), flawed("relu_DequantizeLinear")]
    names = [node.name for node in model.nodes]
    assert names.index("relu_DequantizeLinear") > 0
    shown = versus(model, model.nodes, runners, drawn(model, 0), tmp_path / "versus")
    assert (shown[0].node, shown[0].kind, shown[0].wrong) == ("relu_DequantizeLinear", "differs", 1)
    assert shown[0].against == "onnx-reference graph"
    assert {each.node for each in shown[1:]} <= {""}
    assert (
        versus(model, model.nodes, [reference(), replace(reference(), name="again")], drawn(model, 0), tmp_path) == []
    )


def test_two_runtimes_are_compared_without_another_run_of_the_unmodified_model(tmp_path):
    model = read_model(models.exported(tmp_path))
    runners, ran = [reference(), flawed("node_dequantize_per_channel", "fused")], {}
    check_whole(model, (), runners, drawn(model, 0), tmp_path, ran)
    idle = [replace(runner, worker=None) for runner in runners]
    assert [each.value for each in versus(model, (), idle, drawn(model, 0), tmp_path, ran)] == ["linear"]


def test_a_runtime_that_does_not_implement_the_model_refuses_it(tmp_path):
    model = read_model(models.exported(tmp_path))
    (shown,) = versus(model, model.nodes, [reference(), flawed("", "lack")], drawn(model, 0), tmp_path)
    assert (shown.kind, shown.oracle, shown.message) == (
        "rejected", "fake", "NotImplementedError: this release has no such level",
    )  # fmt: skip


@pytest.mark.parametrize("block", [0, 4])
def test_a_large_result_is_judged_in_pieces(monkeypatch, block):
    random = np.random.default_rng(0)
    shape = (10, 6)
    scale = random.uniform(0.1, 1, (3, 6) if block else 10).astype(np.float32).view(np.uint32)
    tensors = {"x": Tensor("uint8", random.integers(0, 256, shape, np.uint8)), "scale": Tensor("float32", scale)}
    call = Call("ai.onnx/DequantizeLinear-21", tensors, {"axis": 0, **({"block_size": 4} if block else {})})
    right = legal_set(get(call.contract), call).distinct[0].copy()
    monkeypatch.setattr(values, "PIECE", 13)
    assert len(list(values.pieces(call))) > 2
    assert values.Judge(call).wrong(Tensor("float32", right)).wrong == 0
    right[7, 4] ^= 4
    wrong = values.Judge(call).wrong(Tensor("float32", right))
    assert (wrong.wrong, wrong.index, wrong.ulp, wrong.elements) == (1, (7, 4), 4, 60)


def test_a_model_too_large_for_the_memory_is_not_run(tmp_path, monkeypatch):
    monkeypatch.setattr(whole, "half_of_memory", lambda: 1000)
    _, result = checked(models.exported(tmp_path), [reference()], tmp_path / "checked")
    assert result.differences == ()
    assert {each.state for each in result.states} == {"not checked"}
    assert Result("crash", message="out of memory: it held 3 MiB").died is False


def test_a_distance_has_the_magnitude_of_the_value_beside_it():
    a, b = (Tensor("float32", np.array(row, np.float32).view(np.uint32)) for row in ([-1e-30, 3, 4], [1e-30, 3, 4]))
    wrong = values.between(a, b)
    assert wrong.ulp > 1 << 28
    assert (wrong.distance, wrong.magnitude) == (pytest.approx(2e-30), 4)
    nan = Tensor("float32", np.array([np.nan, 3, 4], np.float32).view(np.uint32))
    assert (values.between(nan, b).distance, values.between(nan, b).magnitude) == (None, 4)
