"""Bounds of the results of operators that sum products, for every order of the sums.

In arithmetic with the unit roundoff u, each order of a sum of n products gives a value with

    |computed - exact| <= gamma(n) * sum |a_i| |b_i|,    gamma(n) = n u / (1 - n u),

with or without a rounding of each product. A result beyond this is no such sum: integers that overflowed, a sum of narrower
numbers, or another algorithm. No text forbids these.

Source: N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, SIAM 2002, sections 3.1 and 4.2
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.core.call import Tensor
from xverify.core.dtypes import MANTISSA_BITS, MIN_EXPONENT, values

Numbers = NDArray[np.float64]

FURTHER = 8
"""Roundings beside those of the sum.

A bias and `FACTORS` need some. So do kernels that sum integers and multiply by the product of two scales: their operands are not
rounded as the results of DequantizeLinear are.
"""

LENGTHS: Mapping[str, Callable[[Mapping[str, Any], Sequence[tuple[int, ...]], tuple[int, ...]], int]] = {
    "MatMul": lambda attributes, shapes, result: shapes[0][-1],
    "Gemm": lambda attributes, shapes, result: shapes[0][0 if attributes.get("transA") else 1],
    "Conv": lambda attributes, shapes, result: prod(shapes[1][1:]),
    "Add": lambda attributes, shapes, result: 2,
    "Mul": lambda attributes, shapes, result: 1,
    "Sum": lambda attributes, shapes, result: len(shapes),
    "GlobalAveragePool": lambda attributes, shapes, result: prod(shapes[0][2:]),
    "ReduceMean": lambda attributes, shapes, result: prod(shapes[0]) // max(1, prod(result)),
    "ReduceSum": lambda attributes, shapes, result: prod(shapes[0]) // max(1, prod(result)),
}
"""The largest number of terms in a sum, by operator: from its attributes and the shapes of its operands and result.

Each operator is linear in each operand. Only the signs of operands and of `FACTORS` make a term negative. So the operator itself
gives the sum of |a| |b| if its operands are magnitudes.
"""

FACTORS = ("alpha", "beta")
"""The attributes that multiply terms."""


@dataclass(frozen=True, eq=False)
class Bounds:
    """The least and the largest value of each element of a tensor."""

    dtype: str
    least: Numbers
    most: Numbers
    sums: str = ""
    """The dtype of the sums; "" if there was none."""

    def beyond(self, got: Tensor) -> Numbers:
        """The distance of each element from its bounds: 0 within or without bounds, infinity for NaN."""
        numbers = values(got.dtype, got.codes)
        with np.errstate(invalid="ignore"):
            distance = np.maximum(0.0, np.maximum(self.least - numbers, numbers - self.most))
        distance = np.where(np.isnan(numbers), np.inf, distance)
        return np.where(np.isfinite(self.least) & np.isfinite(self.most), distance, 0.0)


def summed(node: Any, opset: int, operands: Sequence[Bounds | None]) -> Bounds | None:
    """The bounds of the result of a node that sums products; None for another node.

    Args:
        node: The onnx.NodeProto.
        opset: The version of ONNX's operators.
        operands: The bounds of its operands, None for an absent one. Those of another dtype than the first control the sum.
    """
    present = [each for each in operands if each is not None]
    dtype = present[0].dtype
    if node.op_type not in LENGTHS or dtype not in MANTISSA_BITS:
        return None
    parts = [_parts(each, dtype) for each in operands]
    with np.errstate(all="ignore"):
        exact = _evaluated(node, opset, [part[0] for part in parts])
        size, largest = (_evaluated(node, opset, [part[i] for part in parts], absolute=True) for i in (1, 2))
        count = FURTHER + LENGTHS[node.op_type](_attributes(node), [each.least.shape for each in present], exact.shape)
        products = count * 2.0 ** -(MANTISSA_BITS[dtype] + 1)
        gamma = products / (1 - products) if products < 1 else np.inf
        gamma += 8 * count * 2.0**-53  # for the evaluations here, in float64
        radius = (largest - size) + gamma * largest + count * 2.0 ** MIN_EXPONENT[dtype]
        # Some order of a sum may overflow before its end.
        greatest = 2.0 ** (1 - MIN_EXPONENT[dtype]) * (2 - 2.0 ** -MANTISSA_BITS[dtype])
        is_bounded = largest + radius < greatest
    exact, radius = np.where(is_bounded, exact, 0.0), np.where(is_bounded, radius, np.inf)
    return Bounds(dtype, exact - radius, exact + radius, dtype)


def _parts(operand: Bounds | None, dtype: str) -> tuple[NDArray[Any] | None, ...]:
    """The centers of an operand, their magnitudes, and the largest magnitudes.

    They are equal for an operand that controls the sum, such as axes.
    """
    if operand is None:
        return None, None, None
    if operand.dtype != dtype:
        return (operand.least.astype(np.int64),) * 3
    is_bounded = np.isfinite(operand.least) & np.isfinite(operand.most)
    with np.errstate(invalid="ignore"):
        center = np.where(is_bounded, operand.least / 2 + operand.most / 2, 0.0)
        radius = np.where(is_bounded, operand.most / 2 - operand.least / 2, np.inf)
    # A number below the smallest normal one may count as zero.
    largest = (np.abs(center) + radius) * (1 + 2.0**-50) + 2.0 ** MIN_EXPONENT[dtype]
    return center, np.abs(center), largest


def _attributes(node: Any) -> dict[str, Any]:
    from onnx import helper

    return {each.name: helper.get_attribute_value(each) for each in node.attribute}


def _evaluated(node: Any, opset: int, operands: Sequence[Any], absolute: bool = False) -> Numbers:
    """The result of ONNX's reference evaluator in float64.

    Args:
        absolute: True to take the magnitudes of the factors.
    """
    import onnx
    from onnx.reference import ReferenceEvaluator

    alone = onnx.NodeProto()
    alone.CopyFrom(node)
    alone.input[:] = [f"operand{i}" if operand is not None else "" for i, operand in enumerate(operands)]
    for attribute in alone.attribute:
        if absolute and attribute.name in FACTORS:
            attribute.f = abs(attribute.f)
    fed = {name: operand for name, operand in zip(alone.input, operands, strict=True) if name}
    declared = [
        onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in fed.items()
    ]
    graph = onnx.helper.make_graph([alone], "sum", declared, [onnx.ValueInfoProto(name=alone.output[0])])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    return np.asarray(ReferenceEvaluator(model).run(None, fed)[0], np.float64)
