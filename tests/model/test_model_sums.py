"""The bounds of sums, for every order of the terms."""

from __future__ import annotations

from itertools import permutations

import models
import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from xverify.core.call import Tensor
from xverify.core.dtypes import encode, tensor, values
from xverify.model.exact import evaluate
from xverify.model.sums import Bounds, summed


def point(dtype, array):
    """The bounds of known values."""
    numbers = values(dtype, encode(dtype, array))
    return Bounds(dtype, numbers, numbers)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_every_order_of_a_sum_is_within_the_bounds_and_twice_their_width_is_not(dtype):
    random = np.random.default_rng(0)
    a, b = (random.normal(size=shape).astype(dtype) for shape in ((40, 5), (5, 1)))
    bounds = summed(helper.make_node("MatMul", ["a", "b"], ["z"]), 21, [point(dtype, a), point(dtype, b)])
    assert bounds.sums == dtype
    results = []
    for order in permutations(range(5)):
        total = np.zeros((40, 1), dtype)
        for index in order:
            total += a[:, [index]] * b[index]
        results.append(total)
        assert not bounds.beyond(tensor(dtype, total)).any()
    assert len(np.unique(np.stack(results))) > 60, "orders matter"
    width = bounds.most - bounds.least
    assert bounds.beyond(tensor(dtype, bounds.most + width)).all()
    assert (width < 64 * np.finfo(dtype).eps * (np.abs(a) @ np.abs(b))).all()


def test_saturated_sums_of_products_are_beyond_and_integer_sums_are_not():
    """Pairs of products of uint8 and int8 that a 16-bit sum cannot hold."""
    x, w = np.full((1, 4), 255, np.float32) * np.float32(0.1), np.full((4, 1), 127, np.float32) * np.float32(0.3)
    bounds = summed(helper.make_node("MatMul", ["a", "b"], ["z"]), 21, [point("float32", x), point("float32", w)])
    scale = np.float32(0.1) * np.float32(0.3)
    exact = np.float32(4 * 255 * 127) * scale
    assert not bounds.beyond(tensor("float32", exact.reshape(1, 1))).any()
    assert bounds.beyond(tensor("float32", (np.float32(65534) * scale).reshape(1, 1))) > 1800


OPERATORS = [
    ("Gemm", [(3, 4), (5, 4), (5,)], {"transB": 1, "alpha": -0.5, "beta": 2.0}),
    ("Conv", [(1, 4, 6, 6), (2, 2, 3, 3), (2,)], {"group": 2, "pads": [1, 1, 1, 1]}),
    ("GlobalAveragePool", [(1, 3, 6, 6)], {}),
    ("Sum", [(2, 3), (3,), (2, 3)], {}),
    ("Mul", [(2, 3), (3,)], {}),
]


@pytest.mark.parametrize(("operator", "shapes", "attributes"), OPERATORS, ids=lambda value: str(value)[:18])
def test_moved_operands_stay_within_the_bounds_of_their_intervals(operator, shapes, attributes):
    random = np.random.default_rng(1)
    names = [f"i{i}" for i in range(len(shapes))]
    node = helper.make_node(operator, names, ["z"], **attributes)
    centers = [random.normal(size=shape) for shape in shapes]
    bounds = summed(node, 21, [Bounds("float32", center - 0.01, center + 0.01) for center in centers])
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names]
    evaluator = ReferenceEvaluator(models.model_of([node], inputs, ["z"], []))
    reached = []
    for _ in range(50):
        moved = [(center + 0.01 * random.choice([-1, 1], center.shape)).astype(np.float32) for center in centers]
        result = evaluator.run(None, dict(zip(names, moved, strict=True)))[0]
        assert not bounds.beyond(tensor("float32", result)).any()
        reached.append(result)
    assert (np.ptp(np.stack(reached), axis=0) > (bounds.most - bounds.least) / 20).any()


def test_what_may_overflow_or_is_not_known_has_no_bounds():
    node = helper.make_node("MatMul", ["a", "b"], ["z"])
    a, b = np.array([[6e4, 6e4, -6e4], [1, 2, 3]]), np.ones((3, 1))
    bounds = summed(node, 21, [point("float16", a), point("float16", b)])
    assert np.isinf(bounds.least).tolist() == [[True], [False]]
    nan = Bounds("float16", np.where(a > 2, -np.inf, a), np.where(a > 2, np.inf, a))
    assert np.isinf(summed(node, 21, [nan, point("float16", 0 * b)]).most).tolist() == [[True], [True]]
    assert not bounds.beyond(Tensor("float16", np.array([[0], [0x4600]], np.uint16))).any()
    assert bounds.beyond(Tensor("float16", np.array([[0], [0x7E00]], np.uint16)))[1, 0] == np.inf


def test_bounds_go_through_operators_that_compute_exactly():
    random = np.random.default_rng(2)
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s"], ["y"]),
        helper.make_node("MatMul", ["y", "w"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["a"]),
        helper.make_node("Neg", ["a"], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("Reshape", ["r", "shape"], ["f"]),
        helper.make_node("QuantizeLinear", ["f", "t", "z"], ["q"]),
    ]
    constants = [
        models.array("s", np.float32(0.1)),
        models.array("w", random.normal(size=(16, 8)).astype(np.float32)),
        models.array("b", random.normal(size=8).astype(np.float32)),
        models.array("shape", np.array([-1])),
        models.array("t", np.float32(0.2)),
        models.array("z", np.uint8(3)),
    ]
    x = random.integers(-128, 128, (4, 16), np.int8)
    model = models.model_of(nodes, [helper.make_tensor_value_info("x", TensorProto.INT8, [4, 16])], ["q"], constants)
    bounds = evaluate(model.SerializeToString(), {"x": Tensor("int8", x.view(np.uint8))}).bounds["q"]
    result = ReferenceEvaluator(model).run(None, {"x": x})[0]
    assert (bounds.sums, bounds.dtype) == ("float32", "uint8")
    assert not bounds.beyond(Tensor("uint8", result)).any()
    assert np.count_nonzero(bounds.beyond(Tensor("uint8", result + np.uint8(1)))) > 28, "most bounds have one code"
    assert 4 < np.count_nonzero(result == 3) < 28
