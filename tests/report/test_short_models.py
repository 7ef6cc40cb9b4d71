"""The ONNX models of short scripts: the checker of onnx takes each, types and shapes included."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto
from walked_calls import about, forgotten  # noqa: F401

from xverify import contracts
from xverify.core.call import Call
from xverify.core.dtypes import tensor
from xverify.core.line import call_to_line
from xverify.core.neighbours import result_dtype
from xverify.core.surroundings import surround
from xverify.oracles import iree_cpu, onnx_reference, onnxruntime_cpu, openvino_cpu, tvm_cpu
from xverify.oracles.onnx_model import CONSTANTS, STATIC, model_lines
from xverify.oracles.short_form import ShortCall
from xverify.report.short_script import operand
from xverify.strategies.surrounded import surrounded_calls

EDITIONS = [name for name in contracts.ids() if name.startswith("ai.onnx/")] + ["com.microsoft/DequantizeLinear-1@seed"]

ASKED = 12
"""About as many calls of each edition's walk are asked, and six times as many in surroundings."""


def short_call(call: Call, path: str) -> ShortCall:
    graph = surround(call) if call.around else None
    tensors = {**graph.inputs, **graph.constants} if graph else dict(call.tensors)
    lone = (call, graph) if graph else None
    return ShortCall(
        call.contract, tensors, dict(call.attributes), "name", "name", path, result_dtype(call), lone, "9.0"
    )


def models(module: Any, call: ShortCall) -> Iterator[onnx.ModelProto]:
    """Yield the model that a short script makes, if there is a script."""
    form = module.short_form(call)
    if form is None:
        return
    first = next(i for i, line in enumerate(form.body) if line.startswith("node"))
    last = next(i for i, line in enumerate(form.body) if line.startswith("model = helper.make_model("))
    lines = [line for name, tensor in call.tensors.items() for line in operand(name, tensor, True)]
    names: dict[str, Any] = {"np": np, "ml_dtypes": ml_dtypes}
    exec(next(line for line in form.imports if line.startswith("from onnx import")), names)
    exec("import base64, zlib\n" + "\n".join([*lines, *form.body[first : last + 1]]), names)
    yield names["model"]


def checked(model: onnx.ModelProto, call: Call) -> None:
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:
        raise AssertionError(f"{call_to_line(call)}\n{error}") from error


WAYS = [
    *((iree_cpu, path) for path in ("", STATIC)),
    *((onnxruntime_cpu, path) for path in ("", "initializers")),
    *((openvino_cpu, path) for path in ("", STATIC, CONSTANTS)),
    *((module, "") for module in (onnx_reference, tvm_cpu)),
]
"""Modules and paths whose scripts make a model of a lone call."""


@pytest.mark.parametrize("edition", EDITIONS)
def test_models_of_lone_calls(edition: str) -> None:
    contract, made = contracts.get(edition), 0
    for call in about(edition, ASKED):
        if contract.judge(call).verdict == "allowed":
            for module, path in WAYS:
                for model in models(module, short_call(call, path)):
                    checked(model, call)
                    made += 1
    assert made > 4 * ASKED


@pytest.mark.parametrize("module", [onnxruntime_cpu, tvm_cpu])
@pytest.mark.parametrize("edition", EDITIONS)
def test_models_of_calls_in_surroundings(edition: str, module: Any) -> None:
    made = 0
    for call in islice(surrounded_calls(contracts.get(edition), 5), 6 * ASKED):
        for model in models(module, short_call(call, "graph")):
            checked(model, call)
            made += 1
            graph = surround(call)
            results = [value.name for value in model.graph.output]
            assert results == [graph.output, *graph.others]
    assert made > ASKED


def test_a_model_whose_types_are_wrong_is_not_taken() -> None:
    """The check can fail."""
    call = next(iter(about(EDITIONS[0], 1)))
    wrong = replace(short_call(call, ""), attributes={})
    (model,) = models(onnx_reference, wrong)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT8
    with pytest.raises(AssertionError, match="type"):
        checked(model, call)


def test_a_type_that_is_any_text_becomes_no_code() -> None:
    """The output's type of a forbidden call in a graph declares the graph's result."""
    operands = {"x": tensor("int8", [1, 2]), "scale": tensor("float32", 0.5)}
    call = Call("ai.onnx/DequantizeLinear-25", operands, {"output_dtype": "int8, []); run("}, around=("y>relu:0",))
    lines = model_lines(short_call(call, ""))
    (declared,) = [line for line in lines if line.startswith("outputs = ")]
    assert declared == 'outputs = [helper.make_tensor_value_info("y_1", TensorProto.UNDEFINED, [2])]'


@pytest.mark.parametrize(("version", "constants"), [("1.19.2", ["x", "zero_point"]), ("1.20.0", []), ("", [])])
def test_what_a_release_of_onnxruntime_cannot_be_fed_is_in_the_model(version: str, constants: list[str]) -> None:
    one = tensor("float8_e4m3fn", [1])
    tensors = {"x": one, "scale": tensor("float32", [2]), "zero_point": one}
    call = replace(short_call(Call("ai.onnx/DequantizeLinear-19", tensors), ""), version=version)
    (model,) = models(onnxruntime_cpu, call)
    form = onnxruntime_cpu.short_form(call)
    assert form is not None
    assert [constant.name for constant in model.graph.initializer] == constants
    assert any("_with_onnx_type" in line for line in form.body) == (not constants)
    assert set(form.operands or ()) == {*constants, "scale", *(() if constants else ("x_bits", "zero_point_bits"))}


def test_a_graph_that_a_release_cannot_be_fed_has_no_short_script() -> None:
    tensors = {"x": tensor("float8_e4m3fn", [1]), "scale": tensor("float32", 2)}
    lone = Call("ai.onnx/DequantizeLinear-19", tensors, around=("y>neg:0",))
    call = short_call(lone, "optimization=all")
    assert onnxruntime_cpu.short_form(call) is not None
    assert onnxruntime_cpu.short_form(replace(call, version="1.19.2")) is None
