"""Smaller inputs and constants of the parts of violations."""

from __future__ import annotations

import models
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from wrong_models import flawed

from xverify.core.call import Tensor
from xverify.model import cut
from xverify.model.exact import constants_of
from xverify.model.inputs import drawn
from xverify.model.neighbours import check_neighbours
from xverify.model.read import read_model
from xverify.model.result import Difference
from xverify.model.script import script
from xverify.model.shrink import MOST_RUNS, shrunk
from xverify.model.values import Wrong
from xverify.model.whole import check_whole


def reduced(path, runner, folder, check="whole"):
    """The only violation, and its smallest tensors by name."""
    model = read_model(path)
    if check == "whole":
        result = check_whole(model, model.nodes, [runner], drawn(model, 0), folder)
    else:
        result = check_neighbours(model, model.nodes, [runner], folder, 0)
    (shown,) = [each for each in result.differences if each.kind == "violation"]
    assert shown.reduced is not None
    return shown, {**constants_of(shown.reduced.part), **shown.reduced.inputs}


def sizes(tensors):
    return {name: tensor.shape for name, tensor in tensors.items()}


def test_a_constant_is_cut_to_the_wrong_element_and_its_scale(tmp_path):
    shown, tensors = reduced(models.quantized(tmp_path), flawed("fc.weight_DequantizeLinear"), tmp_path / "checked")
    assert set(sizes(tensors).values()) == {(1, 1), (1,)}
    assert (shown.reduced.got, shown.reduced.legal) == (shown.got, shown.legal)
    assert len(shown.reduced.part) < len(shown.part)


def test_blocks_and_inputs_are_cut_too(tmp_path):
    _, tensors = reduced(models.blocked_int4(tmp_path), flawed("fc_DQ_Q4"), tmp_path / "blocked")
    assert sizes(tensors) == {"fc.weight_DQ_Q4": (1, 1), "fc.weight_DQ_scales": (1, 1)}
    shown, tensors = reduced(models.exported(tmp_path), flawed("node_dequantize_per_tensor_1"), tmp_path / "input")
    assert sizes(tensors)["quantize_per_tensor_1"] == (1, 1, 1, 1)
    assert set(shown.reduced.inputs) == set(shown.inputs) == {"quantize_per_tensor_1"}


def test_a_flaw_that_needs_several_values_keeps_few(tmp_path):
    """The other values are 0. The report keeps the element of the model."""
    flaw = flawed("conv.weight_DequantizeLinear", "late")
    shown, tensors = reduced(models.quantized(tmp_path), flaw, tmp_path / "checked")
    codes = tensors["conv.weight_quantized"].codes
    assert (shown.index, codes.size) == ((3, 2, 2, 2), 4)
    assert codes.reshape(-1)[:-1].tolist() == [0, 0, 0]


@pytest.mark.parametrize("operator", ["Reshape", "Neg"])
def test_values_are_blanked_where_extents_are_fixed(tmp_path, operator):
    """A Reshape to constant extents admits no cut."""
    others = {"Reshape": ["shape"], "Neg": []}[operator]
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s"], ["y"], name="node"),
        helper.make_node(operator, ["y", *others], ["z"]),
        helper.make_node("Identity", ["z"], ["out"]),
    ]
    constants = [models.array("s", np.float32(0.1)), *(models.array(name, np.array([4, 16])) for name in others)]
    inputs = [helper.make_tensor_value_info("x", TensorProto.INT8, [2, 32])]
    onnx.save(models.model_of(nodes, inputs, ["out"], constants), tmp_path / "model.onnx")
    shown, tensors = reduced(tmp_path / "model.onnx", flawed("node", "fused"), tmp_path, "neighbours")
    assert shown.operators == ("DequantizeLinear", operator)
    assert tensors["x"].shape == ((2, 32) if operator == "Reshape" else (1, 1))
    assert np.count_nonzero(tensors["x"].codes) <= 1


def test_the_script_shows_few_values(tmp_path):
    shown, _ = reduced(models.exported(tmp_path), flawed("node_dequantize_per_tensor_1"), tmp_path / "checked")
    text = script(shown.reduced)
    code = int(shown.reduced.inputs["quantize_per_tensor_1"].codes.reshape(-1)[0].view(np.int8))
    assert f"#   quantize_per_tensor_1 = int8[1, 1, 1, 1]: {code}\n" in text
    assert "#   val_6 = float32[]: 0.03\n" in text


def test_the_number_of_runs_is_limited(tmp_path):
    calls = []

    def shows(content, inputs):
        calls.append(inputs)
        return Wrong(64, 1, (1, 31), "float32", "0x1", ("0x0",)) if len(calls) % 2 else None

    model = read_model(models.flows(tmp_path))
    part = cut.neighbours(model, model.nodes[0], 0, 0)
    x = Tensor("int8", np.arange(1 << 20, dtype=np.uint8).reshape(1 << 10, 1 << 10))
    given = Difference(
        "n", "whole", "violation", "fake", "", got="0x1", index=(1, 1000), part=part.content, inputs={"codes": x}
    )
    assert shrunk(given, shows).reduced is not None
    assert len(calls) <= MOST_RUNS
