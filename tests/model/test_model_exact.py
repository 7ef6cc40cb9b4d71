"""The legal values of parts of a model."""

from __future__ import annotations

import models
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from xverify.core.call import Tensor
from xverify.model.exact import evaluate
from xverify.oracles.arrays import to_array

X = np.arange(2 * 4 * 2 * 3, dtype=np.int8).reshape(2, 4, 2, 3) - 20


def evaluated(nodes, constants=(), opset=21, x=X):
    """The values of nodes after a DequantizeLinear of x to y, and what the reference evaluator computes."""
    first = helper.make_node("DequantizeLinear", ["x", "scale"], ["y"])
    inputs = [helper.make_tensor_value_info("x", TensorProto.INT8, x.shape)]
    outputs = list(nodes[-1].output)
    held = [models.array("scale", np.float32(0.5)), *constants]
    content = models.model_of([first, *nodes], inputs, outputs, held, opset).SerializeToString()
    values = evaluate(content, {"x": Tensor("int8", x.view(np.uint8))})
    results = ReferenceEvaluator(onnx.load_model_from_string(content)).run(None, {"x": x})
    return values, dict(zip(outputs, results, strict=True))


def numbers(*values):
    return models.array("n", np.array(values, np.int64))


def node(operator, inputs=("y",), outputs=("z",), **attributes):
    return helper.make_node(operator, list(inputs), list(outputs), **attributes)


MOVED = [
    (node("Transpose", perm=[0, 3, 1, 2]), []),
    (node("Reshape", ("y", "n")), [numbers(0, -1, 3)]),
    (node("Unsqueeze", ("y", "n")), [numbers(0, -1)]),
    (node("Flatten", axis=-2), []),
    (node("Slice", ("y", "a", "b", "n", "s")), [models.array("a", np.array([-1, 1])), models.array("b", np.array([-9, 9])),
                                                numbers(1, 3), models.array("s", np.array([-2, 1]))]),
    (node("Gather", ("y", "n"), axis=1), [numbers(3, 0, -1)]),
    (node("Concat", ("y", "y"), axis=-1), []),
    (node("Split", outputs=("z", "w"), axis=3, num_outputs=2), []),
    (node("Expand", ("y", "n")), [numbers(3, 1, 1, 1, 1)]),
    (node("Tile", ("y", "n")), [numbers(1, 2, 1, 2)]),
    (node("DepthToSpace", blocksize=2, mode="CRD"), []),
    (node("SpaceToDepth", blocksize=2), []),
    (node("Identity"), []),
]  # fmt: skip


@pytest.mark.parametrize(("moving", "constants"), MOVED, ids=lambda value: getattr(value, "op_type", ""))
def test_a_move_gives_what_the_evaluator_gives(moving, constants):
    x = X if moving.op_type != "SpaceToDepth" else X.reshape(1, 2, 4, 6)
    values, results = evaluated([moving], constants, x=x)
    for name, result in results.items():
        assert np.array_equal(to_array(values.values[name].tensor(0)), result)
        assert len(values.values[name].codes) == 1
        assert "x" in values.after[name]
        assert "y" in values.after[name]


SELECTED = [
    (node("Relu"), []),
    (node("Clip", ("y", "", "n")), [models.array("n", np.float32(3))]),
    (node("Max", ("y", "n", "m")), [models.array("n", np.float32(3)), models.array("m", np.float32(4))]),
    (node("Neg"), []),
    (node("Abs"), []),
    (node("MaxPool", kernel_shape=[1, 2], strides=[1, 2]), []),
    (node("QuantizeLinear", ("y", "n", "z0")), [models.array("n", np.float32(0.75)), models.array("z0", np.int8(3))]),
    (node("Cast", to=TensorProto.FLOAT), []),
]


@pytest.mark.parametrize(("selecting", "constants"), SELECTED, ids=lambda value: getattr(value, "op_type", ""))
def test_the_legal_set_of_a_selection_holds_what_the_evaluator_gives(selecting, constants):
    values, results = evaluated([selecting], constants)
    legal, got = values.values["z"], results["z"]
    codes = np.asarray(got).view(legal.codes.dtype)
    assert np.logical_or.reduce([codes == each for each in legal.codes]).all()
    assert not legal.open.any()
    assert not np.logical_or.reduce([(codes ^ 2) == each for each in legal.codes]).any()


def test_whatever_follows_from_a_rounded_value_is_rounded():
    values, _ = evaluated([node("Add", ("y", "y"), ("sum",)), node("Relu", ("sum",))])
    assert values.rounded == {"sum": "Add rounds it", "z": "Add rounds it"}
    assert "y" in values.values
    assert "y" in values.after["z"]
