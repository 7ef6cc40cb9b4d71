"""Runs of whole models in implementations: every type comes back by its bits."""

from __future__ import annotations

import models
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from xverify.core.call import Tensor
from xverify.oracles import onnx_reference, onnxruntime_cpu
from xverify.oracles.model_run import MODEL, ModelRun, decode_results, encode_run
from xverify.workers.child import run_call

CASTS = {"b16": "BFLOAT16", "i64": "INT64", "f8": "FLOAT8E4M3FN", "u4": "UINT4", "text": "STRING", "half": "FLOAT16"}


def model(folder):
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s"], ["y"]),
        *(helper.make_node("Cast", ["y"], [n], to=TensorProto.DataType.Value(t)) for n, t in CASTS.items()),
        helper.make_node("Greater", ["y", "s"], ["mask"]),
        helper.make_node("SplitToSequence", ["y"], ["sequence"]),
        helper.make_node("Where", ["choice", "y", "s"], ["chosen"]),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.INT4, ["n"]),
        helper.make_tensor_value_info("choice", TensorProto.BOOL, ["n"]),
    ]
    outputs = ["y", *CASTS, "mask", "sequence", "chosen"]
    path = folder / "types.onnx"
    onnx.save(models.model_of(nodes, inputs, outputs, [models.array("s", np.float32(0.5))]), path)
    return path


@pytest.mark.parametrize("module", [onnxruntime_cpu, onnx_reference])
def test_outputs_of_every_type_come_back_by_their_bits(tmp_path, module):
    inputs = {
        "x": Tensor("int4", np.array([2, 4, 15], np.uint8)),
        "choice": Tensor("uint8", np.array([1, 0, 1], np.uint8)),
    }
    loaded, level = module.load(), module.ORACLES[0].models[0]
    outcome = run_call(loaded, encode_run(ModelRun(str(model(tmp_path)), inputs)), MODEL + level)
    assert outcome.tensor is not None, outcome.message
    results = {name: (tensor.dtype, tensor.codes.tolist()) for name, tensor in decode_results(outcome.tensor).items()}
    narrow = results.pop("u4")
    assert narrow[0] == "uint4"
    assert narrow[1][:2] == [1, 2]
    assert results == {
        "y": ("float32", [0x3F800000, 0x40000000, 0xBF000000]),
        "b16": ("bfloat16", [0x3F80, 0x4000, 0xBF00]),
        "i64": ("int64", [1, 2, 0]),
        "f8": ("float8_e4m3fn", [0x38, 0x40, 0xB0]),
        "half": ("float16", [0x3C00, 0x4000, 0xB800]),
        "mask": ("uint8", [1, 1, 0]),
        "chosen": ("float32", [0x3F800000, 0x3F000000, 0xBF000000]),
    }
    some = run_call(loaded, encode_run(ModelRun(str(model(tmp_path)), inputs, ("mask",))), MODEL + level)
    assert some.tensor is not None
    assert list(decode_results(some.tensor)) == ["mask"]


def test_a_model_that_is_no_model_is_refused(tmp_path):
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    for module in (onnxruntime_cpu, onnx_reference):
        outcome = run_call(
            module.load(), encode_run(ModelRun(str(tmp_path / "bad.onnx"), {})), MODEL + module.ORACLES[0].models[-1]
        )
        assert outcome.kind == "rejected"
        assert outcome.message


def test_an_implementation_without_models_says_so():
    from xverify.oracles import xverify_numpy

    outcome = run_call(xverify_numpy.load(), encode_run(ModelRun("any.onnx", {})), MODEL)
    assert (outcome.kind, outcome.message) == ("unsupported", "it runs no models")
