"""ONNX backend node tests: a folder for each call, as `onnx.backend.test` reads them.

A folder holds ``model.onnx``, ``data.json`` with tolerances of 0, and ``test_data_set_0`` with the inputs and the output.
A test has one expected output. So only calls with one legal result for each value become tests.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.contracts.model import Contract
from xverify.core.call import BITS
from xverify.oracles.arrays import pack
from xverify.oracles.onnx_model import element_type, model_bytes
from xverify.vectors.choose import Vector

FOLDER = "onnx"
"""The folder of all tests. Its name must not be "node": for that name, the loader of onnx ignores the folder."""

BLOCK = 4096
"""Bytes of a block on a disk."""

DATA_SET = "test_data_set_0"


def has_node_tests(contract: Contract) -> bool:
    """True for ONNX's own editions."""
    return contract.id.startswith("ai.onnx/")


def is_node_test(vector: Vector) -> bool:
    """True for an allowed call each of whose values has one legal result."""
    return len(vector.legal) == 1


def name(vector: Vector) -> str:
    """The name of the test: the types, the granularity, and the id of the call."""
    x, scale, _, _, granularity, _ = vector.cell.split("/")
    return f"test_dequantizelinear_{x}_{scale}_{granularity}_{vector.id}"


def files(vector: Vector) -> dict[str, bytes]:
    """The files of a test, by their path in the folder of the test."""
    call = vector.call
    y = vector.legal[0]
    made = {
        "data.json": (json.dumps({"rtol": 0, "atol": 0}) + "\n").encode(),
        "model.onnx": _with_output(
            model_bytes(call, (), {role: t.shape for role, t in call.tensors.items()}), vector.output_dtype, y.shape
        ),
        f"{DATA_SET}/output_0.pb": _tensor("y", vector.output_dtype, y),
    }
    for number, (role, tensor) in enumerate(call.tensors.items()):
        made[f"{DATA_SET}/input_{number}.pb"] = _tensor(role, tensor.dtype, tensor.codes)
    return made


def disk_bytes(vector: Vector) -> int:
    """The bytes of a test on a disk: whole blocks for each file, and a block for each of its two folders."""
    return sum(-(-len(content) // BLOCK) * BLOCK for content in files(vector).values()) + 2 * BLOCK


def _with_output(model: bytes, dtype: str, shape: tuple[int, ...]) -> bytes:
    """The model with the type of its output, which onnx's runner reads."""
    import onnx
    from onnx import helper

    proto = onnx.ModelProto.FromString(model)
    proto.producer_name = "xverify"
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", element_type(dtype), shape))
    return bytes(proto.SerializeToString(deterministic=True))


def _tensor(role: str, dtype: str, codes: NDArray[Any]) -> bytes:
    from onnx import TensorProto

    little = np.asarray(codes, order="C").astype(codes.dtype.newbyteorder("<"))
    raw = pack(codes, BITS[dtype]) if BITS[dtype] < 8 else little
    proto = TensorProto(name=role, data_type=element_type(dtype), dims=list(codes.shape), raw_data=raw.tobytes())
    return bytes(proto.SerializeToString(deterministic=True))
