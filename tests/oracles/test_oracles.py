"""Oracles get exactly the bits of a call, and return exactly theirs, for any dtype, shape and layout."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from asked_calls import halves, linear, ranged, some_codes, tensor, values
from folders import SUPPORT
from onnx import numpy_helper

from xverify.contracts import get
from xverify.core.call import BITS, LAYOUTS, Call, Outcome, Tensor, encode_call
from xverify.core.errors import WorkerFailedError
from xverify.engine.probe import Support
from xverify.oracles import OracleFileError, all_oracles, answers, installed_version
from xverify.oracles.arrays import answered, from_array, hand_out, numpy_dtype, pack, to_array
from xverify.oracles.onnx_model import element_type, operator_set
from xverify.oracles.onnxruntime_cpu import read
from xverify.oracles.protocol import Oracle
from xverify.strategies.structures import build
from xverify.strategies.walk import cell_structures
from xverify.workers.worker import Worker

QUANTIZED = (
    "int2", "uint2", "int4", "uint4", "int8", "uint8", "int16", "uint16", "int32",
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
)  # fmt: skip
EXTRAS = ("iree", "litert", "openvino", "torch", "torchao", "tvm")
SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (3,), (0,), (2, 0, 3), (5, 7), (1, 2, 3, 1, 2, 3))


class Workers(dict[str, Worker]):
    """A worker of each oracle, started when first needed."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.directory = directory

    def __missing__(self, name: str) -> Worker:
        self[name] = Worker(all_oracles()[name], self.directory)
        self[name].start()
        return self[name]

    def ask(self, name: str, call: Call, options: str = "") -> Outcome:
        return self[name].ask(encode_call(call), options)


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    started = Workers(tmp_path_factory.mktemp("workers"))
    assert not started["tensorflow"].failed  # the slowest to import: it does so while others are tested
    yield started
    for worker in started.values():
        worker.stop()


def test_every_oracle_describes_itself() -> None:
    found = all_oracles()
    assert set(found) >= {
        "onednn-formula-divide", "onednn-formula-multiply", "onnx-reference", "onnxruntime", "tensorflow",
        "tensorflow-function", "tensorflow-xla", "xverify-numpy", *EXTRAS,
    }  # fmt: skip
    for oracle in found.values():
        assert oracle.paths[0].options == ""
        assert 0.0 < oracle.paths[0].share <= 1.0
        # Those of which a package of the frameworks' size need not be there are extras.
        assert oracle.distribution == "xverify" or installed_version(oracle) or oracle.name in EXTRAS
    assert answers(found["onnxruntime"], "com.microsoft/DequantizeLinear-1@seed")
    assert not answers(found["onednn-formula-divide"], "onednn/DynamicDequantize-1@multiply")
    assert installed_version(Oracle("x", "no-such-distribution", (), (), "x")) is None


@pytest.mark.parametrize("path", ["", "optimization=off", "initializers"])
@pytest.mark.parametrize("dtype", QUANTIZED)
def test_onnxruntime_reads_every_type_in_every_shape(workers: Workers, dtype: str, path: str) -> None:
    for shape in SHAPES:
        x = some_codes(dtype, shape)
        zero_point = None if dtype == "int32" else tensor(dtype, 0)
        call = linear("ai.onnx/DequantizeLinear-25", x, tensor("float32", 0.5), zero_point)
        outcome = workers.ask("onnxruntime", call, path)
        got = values(outcome)
        assert got.shape == shape
        np.testing.assert_array_equal(got, halves(x).astype(np.float32))


@pytest.mark.parametrize("path", ["", "initializers"])
def test_onnxruntime_reads_packed_parameters(workers: Workers, path: str) -> None:
    x = some_codes("int4", (4, 5))
    zero_point = tensor("int4", [-8, 7, 1, 0, -3])
    scale = tensor("float16", [1, 2, 0.5, 4, 8])
    call = linear("ai.onnx/DequantizeLinear-21", x, scale, zero_point, axis=-1)
    outcome = workers.ask("onnxruntime", call, path)
    expected = (to_array(x).astype(float) - to_array(zero_point).astype(float)) * to_array(scale).astype(float)
    np.testing.assert_array_equal(values(outcome), expected)
    assert outcome.tensor is not None
    assert outcome.tensor.dtype == "float16"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["onnxruntime", "onnx-reference"])
def test_layouts_do_not_change_what_is_read(workers: Workers, name: str, layout: str) -> None:
    for dtype in ("uint8", "int16", "float8_e5m2", "int4"):
        x = some_codes(dtype, (3, 4, 5), layout)
        outcome = workers.ask(name, linear("ai.onnx/DequantizeLinear-21", x, tensor("float32", 0.5)))
        np.testing.assert_array_equal(values(outcome), halves(x))


@pytest.mark.parametrize("dtype", ["int8", "int4", "uint16", "float8_e4m3fn", "float4_e2m1fn"])
def test_the_reference_evaluator_reads_every_type(workers: Workers, dtype: str) -> None:
    for shape in ((), (3,), (2, 0), (5, 7)):
        x = some_codes(dtype, shape)
        for scale in ("float32", "float16", "bfloat16"):
            call = linear("ai.onnx/DequantizeLinear-23", x, tensor(scale, 0.5))
            outcome = workers.ask("onnx-reference", call)
            assert outcome.tensor is not None
            assert outcome.tensor.dtype == scale
            np.testing.assert_array_equal(values(outcome), halves(x).astype(numpy_dtype(scale)).astype(float))


def test_com_microsoft_is_another_operator(workers: Workers) -> None:
    x, scale = some_codes("uint8", (2, 3)), tensor("float32", [1, 2, 4])
    call = linear("com.microsoft/DequantizeLinear-1@installed", x, scale, tensor("uint8", [0, 1, 2]), axis=1)
    got = values(workers.ask("onnxruntime", call))
    np.testing.assert_array_equal(got, (to_array(x).astype(float) - [0, 1, 2]) * [1, 2, 4])
    onnx = linear("ai.onnx/DequantizeLinear-10", x, scale, axis=1)
    assert workers.ask("onnxruntime", onnx).kind == "rejected"
    assert workers.ask("onnxruntime", onnx.under("ai.onnx/DequantizeLinear-13")).kind == "tensor"


def test_output_dtype_is_a_name(workers: Workers) -> None:
    x = some_codes("int8", (5,))
    for name in ("onnxruntime", "onnx-reference"):
        call = linear("ai.onnx/DequantizeLinear-23", x, tensor("float32", 0.5), output_dtype="float16")
        outcome = workers.ask(name, call)
        assert outcome.tensor is not None
        assert outcome.tensor.dtype == "float16"
        np.testing.assert_array_equal(values(outcome), halves(x))


def test_what_a_framework_refuses_is_a_refusal_each_time(workers: Workers) -> None:
    call = linear("ai.onnx/DequantizeLinear-13", tensor("float64", [1]), tensor("float32", 1))
    for _ in range(3):
        outcome = workers.ask("onnxruntime", call)
        assert (outcome.kind, outcome.error) == ("rejected", "InvalidGraph")
        assert outcome.message
    call = linear("ai.onnx/DequantizeLinear-21", some_codes("int8", (3,)), tensor("float32", [1, 2]), axis=0)
    assert workers.ask("onnxruntime", call).kind == "rejected"


@pytest.mark.parametrize("mode", ["MIN_COMBINED", "MIN_FIRST", "SCALED"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32"])
def test_tensorflow_reads_every_type_in_every_mode(workers: Workers, dtype: str, mode: str) -> None:
    """Values halfway to the ends of the range. A sweep tests the ends themselves."""
    limits = np.iinfo(numpy_dtype(dtype))
    x = tensor(dtype, [limits.min // 2, limits.max // 2])
    outcome = workers.ask("tensorflow", ranged(x, -1.0 if limits.min else 0.0, 1.0, mode=mode))
    if outcome.kind == "tensor":
        low, high = values(outcome)
        assert abs(high - 0.5) < 0.02
        assert abs(low - (-0.5 if limits.min else 0.0)) < 0.02
    else:
        assert outcome.error.endswith("Error")


def test_tensorflow_attributes_and_layouts(workers: Workers) -> None:
    x = some_codes("uint8", (3, 4), "reversed")
    plain = values(workers.ask("tensorflow", ranged(x, 0.0, 255.0)))
    np.testing.assert_array_equal(plain, to_array(x))
    outcome = workers.ask("tensorflow", ranged(x, 0.0, 255.0, dtype="bfloat16", mode="MIN_COMBINED"))
    assert outcome.tensor is not None
    assert outcome.tensor.dtype == "bfloat16"
    bounds = {name: tensor("float32", v) for name, v in (("min_range", [-1] * 3), ("max_range", [1, 2, 4]))}
    call = Call(
        "tensorflow/Dequantize@installed",
        {"input": some_codes("int8", (3, 4)), **bounds},
        {"mode": "SCALED", "axis": 0, "narrow_range": True},
    )
    assert values(workers.ask("tensorflow", call)).shape == (3, 4)
    for broken in (ranged(some_codes("float32", (2,)), 0, 1), ranged(x, 0, 1, mode="NONE"), ranged(x, 0, 1, axis=7)):
        assert workers.ask("tensorflow", broken).kind == "rejected"


@pytest.mark.parametrize(("name", "factor"), [("multiply", 4.0), ("divide", 0.25)])
def test_the_formulas(workers: Workers, name: str, factor: float) -> None:
    edition, oracle = "onednn/DynamicDequantize-1@" + name, "onednn-formula-" + name
    x, scale = some_codes("uint8", (2, 3)), tensor("float32", [4])
    plain = to_array(x).astype(float)
    got = values(workers.ask(oracle, linear(edition, x, scale, tensor("int32", [1000]))))
    np.testing.assert_array_equal(got, (plain - 1000) * factor)
    per_channel: Mapping[str, Any] = {"qtype": "per_channel", "axis": -2}
    call = linear(edition, x, tensor("float32", [4, 1]), tensor("int8", [-1, 1]), **per_channel)
    np.testing.assert_array_equal(values(workers.ask(oracle, call)), (plain - [[-1], [1]]) * [[factor], [1.0]])
    forbidden = [
        linear(edition, x, tensor("float32", 4)),
        linear(edition, x, tensor("float32", [4, 4])),
        linear(edition, x, tensor("float16", [4])),
        linear(edition, x, scale, tensor("int16", [0])),
        linear(edition, some_codes("int16", (2,)), scale),
        linear(edition, x, tensor("float32", [4, 4]), qtype="per_channel"),
        linear(edition, x, tensor("float32", [4, 4]), qtype="per_channel", axis=2),
        linear(edition, x, scale, qtype="per_group"),
    ]
    assert [workers.ask(oracle, call).kind for call in forbidden] == ["rejected"] * len(forbidden)


def test_the_in_house_kernel_answers_each_family(workers: Workers) -> None:
    x, scale, zero_point = some_codes("uint8", (2, 3)), tensor("float32", [4]), tensor("uint8", [3])
    expected = (to_array(x).astype(float) - 3) * 4
    scalars = tensor("float32", 4), tensor("uint8", 3)
    calls = [
        linear("ai.onnx/DequantizeLinear-23", x, *scalars, output_dtype="float16"),
        linear("com.microsoft/DequantizeLinear-1@installed", x, *scalars),
        linear("onednn/DynamicDequantize-1@multiply", x, scale, zero_point, qtype="per_tensor"),
    ]
    for call in calls:
        np.testing.assert_array_equal(values(workers.ask("xverify-numpy", call)), expected)
    plain = values(workers.ask("xverify-numpy", ranged(x, 0.0, 255.0, mode="MIN_COMBINED", dtype="float32")))
    np.testing.assert_array_equal(plain, to_array(x))
    refused = workers.ask("xverify-numpy", linear("ai.onnx/DequantizeLinear-10", x, tensor("float64", 1)))
    assert refused.kind == "rejected"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_codes_survive_the_way_to_an_array_and_back(layout: str) -> None:
    for dtype, shape in product(sorted(BITS), SHAPES):
        given = some_codes(dtype, shape, layout)
        array = to_array(given)
        assert isinstance(array, np.ndarray)
        assert array.dtype == numpy_dtype(dtype)
        assert array.flags.writeable == (layout != "read-only")
        assert from_array(array).same_bits(given)


def test_what_was_done_to_the_arrays_is_noted() -> None:
    for layout in ("C", "F", "strided", "offset", "reversed"):
        call = linear("ai.onnx/DequantizeLinear-21", some_codes("int8", (3, 4), layout), tensor("float32", 1))
        handed = hand_out(call)
        y = handed["x"].astype(np.float32)
        assert answered(y, call, handed).notes == ()
        assert answered(handed["x"][1:], call, handed).notes == ("output-aliases-input",)
        if layout in ("strided", "offset"):
            handed["x"].base.reshape(-1)[0] ^= 1
            assert answered(y, call, handed).notes == ("input-written",), "beside the elements"
        else:
            handed["x"][0, 0] ^= 1
            assert answered(y, call, handed).notes == ("input-written",)


def described(**changes: Any) -> Oracle:
    return replace(Oracle("toy", "numpy", ("ai.onnx/*",), (), "toy"), **changes)


@pytest.mark.parametrize(
    ("listed", "sentence"),
    [
        (
            (described(contracts="ai.onnx/*"),),
            "oracles/toy.py: contracts of toy must be a tuple such as ('ai.onnx/*',)",
        ),
        ((described(paths=()),), 'oracles/toy.py: the first of the paths of toy must be Path("", share)'),
        ((described(), described()), "oracles/toy.py and oracles/toy.py both define an oracle 'toy'; rename one"),
        (described(), "oracles/toy.py: ORACLES must be a tuple, got Oracle"),
        (("toy",), "oracles/toy.py: ORACLES holds str, expected Oracle"),
        (None, "oracles/toy.py cannot be imported: ModuleNotFoundError: No module named 'xverify.oracles.toy'"),
    ],
)
def test_a_mistake_in_a_description_is_one_sentence(
    listed: Any, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xverify.oracles._modules", lambda: ("toy",))
    if listed is not None:
        monkeypatch.setitem(sys.modules, "xverify.oracles.toy", SimpleNamespace(ORACLES=listed))
    with pytest.raises(OracleFileError) as raised:
        all_oracles()
    assert str(raised.value).startswith(sentence)


def test_an_answer_of_the_wrong_type_ends_the_worker_with_a_sentence(tmp_path: Path) -> None:
    toy = described(module="fake_oracles", load="load_bare", search_path=(str(SUPPORT),), needs_xverify=True)
    worker = Worker(toy, tmp_path)
    worker.start()
    sentence = r"toy could not be run: answer\(\) must return an Outcome or a Tensor, got ndarray"
    with pytest.raises(WorkerFailedError, match=sentence):
        worker.ask(encode_call(linear("ai.onnx/DequantizeLinear-10", some_codes("int8", (2,)), tensor("float32", 1.0))))
    worker.stop()


def test_a_probe_without_supported_cells_names_the_most_frequent_error() -> None:
    contract = get("ai.onnx/DequantizeLinear-10")
    cell = contract.cell(build(contract, next(iter(cell_structures(contract)))))
    assert Support("e", (), (cell,), "ValueError: no").in_words() == "0 of 1 cells; most frequent error: ValueError: no"
    assert Support("e", (cell,), (), "").in_words() == "1 of 1 cells"


def test_results_that_are_no_tensors_of_ours() -> None:
    assert from_array(np.float32(1)).shape == ()
    with pytest.raises(TypeError, match="bool"):
        from_array(np.array([True]))


@pytest.mark.parametrize(("bits", "dtype"), [(2, "uint2"), (4, "uint4"), (6, "float6_e3m2fn"), (8, "uint8")])
def test_packing_puts_low_bits_first(bits: int, dtype: str) -> None:
    codes = some_codes(dtype, (3, 7)).codes
    total = sum(int(code) << (bits * i) for i, code in enumerate(codes.reshape(-1)))
    packed = pack(codes, bits).tobytes()
    assert packed == total.to_bytes(-(-21 * bits // 8), "little")
    assert packed == numpy_helper.from_array(codes.view(numpy_dtype(dtype))).raw_data


def test_types_without_numpy_come_back_from_memory() -> None:
    import onnxruntime as ort

    codes = np.array([[0x3F80, 0x7FC1, 0x8000]], np.uint16)
    number = element_type("bfloat16")
    value = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(codes, number)
    assert read(value).same_bits(Tensor("bfloat16", codes))


def test_editions_and_element_types() -> None:
    assert operator_set("ai.onnx/DequantizeLinear-21") == ("", 21)
    assert operator_set("com.microsoft/DequantizeLinear-1@seed") == ("com.microsoft", 1)
    for dtype in BITS:
        assert element_type(dtype) > 0
    assert np.dtype(ml_dtypes.int4) == numpy_dtype("int4")
