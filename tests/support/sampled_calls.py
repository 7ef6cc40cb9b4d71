"""Samples of calls for the search of regions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xverify import contracts
from xverify.core.call import Call, Tensor
from xverify.core.dtypes import numpy_dtype
from xverify.strategies.structures import Linear, build
from xverify.verify.legal import legal_set
from xverify.verify.region import Sample

ONNX = "ai.onnx/DequantizeLinear-25"

Predicate = Callable[[Call, np.ndarray], Any]


def sample_of(call: Call, predicate: Predicate) -> Sample:
    """Return a sample whose wrong values are where ``predicate(call, legal result as float64)`` holds."""
    contract = contracts.get(call.contract)
    legal = legal_set(contract, call)
    y = legal.codes(0).view(numpy_dtype(legal.dtype)).astype(np.float64)
    with np.errstate(all="ignore"):
        wrong = np.broadcast_to(np.asarray(predicate(call, y), np.bool_), legal.shape)
    return Sample(contract, call, legal, np.array(wrong))


def numbers(given: Tensor) -> np.ndarray:
    """Return the numbers of a tensor of at least 8 bits."""
    return given.codes.view(numpy_dtype(given.dtype)).astype(np.float64)


def per_tensor(count: int, **changes: Any) -> list[Call]:
    """Return calls of several shapes and scales, from int8 to float32 unless changed."""
    shapes = ((64,), (3, 50), (257,), (5, 3, 17), (100,))
    made = []
    for seed in range(count):
        given = {"x_dtype": "int8", "scale_dtype": "float32", "zero_point_dtype": "int8", **changes}
        made.append(
            build(contracts.get(ONNX), Linear(granularity="per_tensor", shape=shapes[seed % 5], seed=seed, **given))
        )
    return made


def blocked(count: int) -> list[Call]:
    """Return calls blocked along the last axis. Blocks divide it in every second call."""
    made = []
    for seed in range(count):
        shape, size = ((3, 96), 16) if seed % 2 else ((4, 50), 13)
        made.append(
            build(contracts.get(ONNX), Linear("uint8", "float32", "blocked", shape, "uint8", "", -1, size, seed=seed))
        )
    return made


def per_axis(count: int) -> list[Call]:
    return [
        build(contracts.get(ONNX), Linear("int8", "float32", "per_axis", (5 + seed % 4, 30), "int8", "", 0, seed=seed))
        for seed in range(count)
    ]


def last_of_row(n: int) -> Predicate:
    return lambda call, y: np.arange(y.shape[-1]) >= y.shape[-1] - n


def tail_of_row(width: int) -> Predicate:
    return lambda call, y: np.arange(y.shape[-1]) >= y.shape[-1] // width * width


def difference(call: Call) -> np.ndarray:
    return numbers(call.tensors["x"]) - numbers(call.tensors["zero_point"])


TWO_OUTPUTS = [
    *per_tensor(8, scale_dtype="float16", scale_recipe="small"),
    *per_tensor(8, scale_dtype="bfloat16", scale_recipe="small"),
    *per_tensor(8, scale_dtype="float16", scale_recipe="table"),
    *per_tensor(8, scale_dtype="bfloat16", scale_recipe="table"),
]

KNOWN_REGIONS = [
    ("the scale is negative", per_tensor(6) + per_tensor(6, scale_recipe="negative"),
     lambda call, y: numbers(call.tensors["scale"]) < 0),
    ("y is subnormal", per_tensor(18, scale_dtype="float16", scale_recipe="special"),
     lambda call, y: (np.abs(y) < 2.0**-14) & (y != 0)),
    ("the zero point is not 0", per_tensor(5) + per_tensor(5, zero_point_recipe="zero"),
     lambda call, y: numbers(call.tensors["zero_point"]) != 0),
    ("x is negative", per_tensor(2), lambda call, y: numbers(call.tensors["x"]) < 0),
    ("x - zero point is outside the type of x", per_tensor(4), lambda call, y: np.abs(difference(call) + 0.5) > 128),
    ("x = -128", per_tensor(5), lambda call, y: numbers(call.tensors["x"]) == -128),
    ("|x - zero point| >= 100", per_tensor(4), lambda call, y: np.abs(difference(call)) >= 100),
    ("|y| < 0.25", per_tensor(6, scale_recipe="table"), lambda call, y: np.abs(y) < 0.25),
    ("x - zero point < 0", per_tensor(3),
     lambda call, y: difference(call) < 0),
    ("float16 output, |y| < 2^-4", TWO_OUTPUTS,
     lambda call, y: (call.tensors["scale"].dtype == "float16") & (np.abs(y) < 2.0**-4)),
    ("float16 output, y is rounded away from zero", TWO_OUTPUTS,
     lambda call, y: (call.tensors["scale"].dtype == "float16")
     & (np.abs(y) > np.abs(difference(call) * numbers(call.tensors["scale"])))),
    ("float16 output", per_tensor(8) + per_tensor(8, scale_dtype="float16"),
     lambda call, y: call.tensors["scale"].dtype == "float16"),
    ("x is not contiguous", per_tensor(8) + per_tensor(4, layout="reversed") + per_tensor(4, layout="strided"),
     lambda call, y: call.data.layout != "C"),
    ("block_size does not divide the axis", blocked(16), lambda call, y: call.data.shape[-1] == 50),
    ("the last block, a partial one", blocked(8),
     lambda call, y: (np.arange(y.shape[-1]) >= 39) & (call.data.shape[-1] == 50)),
    ("block >= 1", blocked(8), lambda call, y: np.arange(y.shape[-1]) >= (16 if y.shape[-1] == 96 else 13)),
    ("channel = 3", per_axis(12), lambda call, y: np.arange(y.shape[0])[:, None] == 3),
    ("the last channel", per_axis(12), lambda call, y: np.arange(y.shape[0])[:, None] == y.shape[0] - 1),
    ("the last 3 values of a row", per_tensor(8), last_of_row(3)),
    ("the last value of a row", per_tensor(10), last_of_row(1)),
    ("the last n % 16 values of a row of n", [*per_tensor(10), *per_axis(10)], tail_of_row(16)),
    ("odd positions", per_tensor(3), lambda call, y: np.arange(y.size).reshape(y.shape) % 2 == 1),
    ("flat index >= 200", per_tensor(8), lambda call, y: np.arange(y.size).reshape(y.shape) >= 200),
]  # fmt: skip
"""A region's words, calls, and where they are wrong."""
