"""TVM, IREE and torchao on calls whose results are known, and what TVM and IREE share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asked_calls import Ask, asker, halves, linear, some_codes, tensor, values

from xverify.contracts import torchao
from xverify.core.call import Call, Tensor
from xverify.environments import cache
from xverify.oracles import all_oracles, iree_cpu, torchao_cpu, tvm_cpu
from xverify.oracles.arrays import to_array
from xverify.oracles.onnx_model import CONSTANTS, STATIC, answer_by_compiling
from xverify.oracles.protocol import Oracle
from xverify.oracles.short_form import ShortCall

ONNX = "ai.onnx/DequantizeLinear-21"


@pytest.fixture(scope="module", params=["iree", "torchao", "tvm"])
def compiler(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Oracle, Ask]]:
    oracle = all_oracles()[request.param]
    for ask in asker(oracle, tmp_path_factory.mktemp(request.param)):
        yield oracle, ask


def test_values_on_every_path(compiler: tuple[Oracle, Ask]) -> None:
    oracle, ask = compiler
    edition = torchao.ID if oracle.name == "torchao" else ONNX
    x = some_codes("int8", (2, 3))
    scale, zero_point = tensor("float32", [1, 0.5, 8]), tensor("int8", [0, -3, 7])
    expected = (to_array(x).astype(float) - [0, -3, 7]) * [1, 0.5, 8]
    for path in oracle.paths:
        assert np.array_equal(values(ask(linear(edition, x, tensor("float32", 0.5)), path.options)), halves(x))
        assert np.array_equal(values(ask(linear(edition, x, scale, zero_point, axis=1), path.options)), expected)
    for path in oracle.surrounded:
        call = Call(ONNX, {"x": x, "scale": tensor("float32", 0.5)}, {}, "", ("x<transpose:1", "y>reshape:0"))
        assert np.array_equal(values(ask(call, path.options)), halves(x))


def test_groups_and_four_bits_of_torchao(tmp_path: Path) -> None:
    for ask in asker(all_oracles()["torchao"], tmp_path):
        x, scale = tensor("int4", [[1, 2, 3, -4], [5, 6, 7, -8]]), tensor("float32", [[1, 2], [4, 8]])
        call = linear(torchao.ID, x, scale, axis=1, block_size=2, output_dtype="bfloat16")
        assert np.array_equal(values(ask(call)), [[1, 2, 6, -8], [20, 24, 56, -64]])


# -- without the frameworks -------------------------------------------------------------------------------


def evaluated() -> tuple[Any, list[list[Any]]]:
    """`answer_by_compiling` with ONNX's evaluator as the compiler, and the shapes of each compiled model."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    shapes: list[list[Any]] = []

    def compiled(model: bytes) -> ReferenceEvaluator:
        proto = onnx.ModelProto.FromString(model)
        declared = [[d.dim_param or d.dim_value for d in i.type.tensor_type.shape.dim] for i in proto.graph.input]
        shapes.append(declared)
        if proto.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.INT16:
            raise ValueError("int16 does not compile")
        return ReferenceEvaluator(proto)

    def run(model: ReferenceEvaluator, fed: Mapping[str, Tensor]) -> Any:
        return model.run(None, {name: to_array(tensor) for name, tensor in fed.items()})[0]

    return answer_by_compiling(compiled, run, 8), shapes


@pytest.mark.parametrize(
    ("path", "due"),
    [
        ("", [[["x_extent_0", "x_extent_1"], ["x_extent_1"]]]),
        (STATIC, [[[2, 3], [3]], [[4, 3], [3]]]),
        (CONSTANTS, [[[2, 3]], [[4, 3]]]),
    ],
)
def test_one_model_serves_the_calls_that_its_path_lets_it_serve(path: str, due: list[Any]) -> None:
    answer, shapes = evaluated()
    for rows in (2, 4):
        x = some_codes("int8", (rows, 3))
        outcome = answer(linear(ONNX, x, tensor("float32", [0.5] * 3), axis=1), path)
        assert np.array_equal(values(outcome), halves(x))
    assert shapes == due


def test_a_model_that_does_not_compile_is_compiled_once() -> None:
    answer, shapes = evaluated()
    call = linear(ONNX, some_codes("int16", (2,)), tensor("float32", 0.5))
    for _ in range(2):
        with pytest.raises(ValueError, match="int16 does not compile"):
            answer(call, "")
    assert len(shapes) == 1
    around = Call(ONNX, call.tensors, {}, "", ("y>identity:0",))
    refused = answer(around, "graph")
    assert (refused.kind, refused.message) == ("unsupported", "int16 does not compile")


@pytest.mark.parametrize(
    ("module", "edition", "path", "parts"),
    [
        (tvm_cpu, ONNX, "", ['["x_extent_0"]', "main(tvm.runtime.tensor(x), tvm.runtime.tensor(scale)).numpy()"]),
        (tvm_cpu, ONNX, CONSTANTS, ['numpy_helper.from_array(scale, "scale")', "main(tvm.runtime.tensor(x)).numpy()"]),
        (iree_cpu, ONNX, STATIC, ["TensorProto.INT8, [2])", ".g(x, scale).to_host()"]),
        (torchao_cpu, torchao.ID, "", ["dequantize_affine(torch.from_numpy(x), (2,), torch.from_numpy(scale), None, "]),
    ],
)
def test_short_forms(module: Any, edition: str, path: str, parts: list[str]) -> None:
    call = linear(edition, tensor("int8", [1, 2]), tensor("float32", 0.5))
    form = module.short_form(ShortCall(edition, dict(call.tensors), {}, "name", "name", path, "float32"))
    text = "\n".join([*form.imports, *form.body]).replace("'", '"')
    compile(text, "script", "exec")
    assert [part for part in parts if part not in text] == []


@pytest.mark.parametrize(
    ("version", "is_made"), [("3.13.0", True), ("3.12.1", True), ("3.11.0", False), ("", False), ("9" * 5000, True)]
)
def test_iree_has_a_short_form_for_bfloat16_where_its_arrays_have_it(version: str, is_made: bool) -> None:
    call = linear(ONNX, tensor("int8", [1, 2]), tensor("bfloat16", 0.5))
    form = iree_cpu.short_form(ShortCall(ONNX, dict(call.tensors), {}, "iree", "iree", "", "bfloat16", None, version))
    assert (form is not None) == is_made
    if form is not None:
        assert 'TensorProto.BFLOAT16, ["x_extent_0"]' in "\n".join(form.body)


def test_sizes_of_groups() -> None:
    sizes = torchao_cpu.group_sizes
    assert [sizes((2, 6), axis, block) for axis, block in ((None, 0), (-1, 0), (1, 3))] == [(2, 6), (2, 1), (1, 3)]
    for axis, block in ((None, 3), (2, 0), (1, -1)):
        with pytest.raises(NotImplementedError):
            sizes((2, 6), axis, block)


def test_a_need_may_have_the_version_of_the_implementation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The runtime of IREE has the version of its compiler."""
    wanted: list[list[str]] = []
    made = cache.Environment("/python", "3.9.0", "iree-base-compiler")
    monkeypatch.setenv("XVERIFY_CACHE", str(tmp_path))
    monkeypatch.setattr(cache, "_made", lambda folder, name, version, needs, say: wanted.append(needs) or made)
    assert cache.environment(made.distribution, "3.9.0", lambda said: None, all_oracles()["iree"].needs) == made
    assert wanted == [["numpy", "ml_dtypes", "iree-base-runtime==3.9.0", "onnx"]]
