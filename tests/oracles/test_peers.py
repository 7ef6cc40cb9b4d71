"""LiteRT, OpenVINO and PyTorch on calls whose results are known; scripts of TensorFlow's graphs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from asked_calls import Ask, asker, halves, linear, some_codes, tensor, values
from folders import SUPPORT
from sample_report import finding, gave, range_call, wrong
from scripts_run import run, scaled

from xverify import contracts
from xverify.contracts import litert, pytorch
from xverify.core.call import LAYOUTS, Call, Tensor
from xverify.core.errors import UsageError
from xverify.engine import select
from xverify.engine.options import Options
from xverify.engine.sweep import sweep
from xverify.oracles import all_oracles, litert_cpu, torch_cpu
from xverify.oracles.arrays import to_array
from xverify.oracles.protocol import Oracle
from xverify.oracles.short_form import ShortCall
from xverify.oracles.tensorflow_graph import CONSTANT, UNKNOWN
from xverify.report.script import script_for
from xverify.report.short_script import short_script

ONNX = "ai.onnx/DequantizeLinear-21"
TENSORFLOW = "tensorflow/Dequantize@installed"
HERE = str(SUPPORT)
PER_TENSOR, PER_CHANNEL, GROUP, QUANTIZED = map(pytorch.edition, pytorch.OPERATORS)


def editions_of(oracle: Oracle, scale: Tensor) -> tuple[str, ...]:
    """The editions under which a peer gets a call with such a scale."""
    by_rank = {0: (PER_TENSOR, QUANTIZED), 1: (PER_CHANNEL, QUANTIZED), 2: (GROUP,)}
    return {"litert": (litert.ID,), "openvino": (ONNX,), "torch": by_rank[scale.codes.ndim]}[oracle.name]


def asked(oracle: Oracle, x: Tensor, scale: Tensor, zero_point: Tensor | None = None, **attributes: int) -> list[Call]:
    """A call in the form of each edition that fits. PyTorch gets a zero point always."""
    if zero_point is None and oracle.name == "torch":
        kind = "int8" if x.dtype.startswith("float") else x.dtype
        zero_point = tensor(kind, np.zeros(scale.shape))
    return [linear(edition, x, scale, zero_point, **attributes) for edition in editions_of(oracle, scale)]


@pytest.fixture(scope="module", params=["litert", "openvino", "torch"])
def peer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Oracle, Ask]]:
    oracle = all_oracles()[request.param]
    for ask in asker(oracle, tmp_path_factory.mktemp(request.param)):
        yield oracle, ask


def test_a_script_of_a_graph_runs_alone(tmp_path: Path) -> None:
    got = gave("float32", [2], ["0.0", "5.0"], ["0x00000000", "0x40a00000"])
    legal = [wrong([1], ("5.0", "0x40a00000"), ("6.0", "0x40c00000", ["exact"]))]
    witness = {"call": range_call(), "got": got, "legal": legal}
    found = finding("violation", "tensorflow-function", TENSORFLOW, "formula-min-combined", "a summary", witness)
    status, text = run(script_for(found), tmp_path)
    assert (status, "got       6.0 (0x40c00000)" in text) == (0, True), text


@pytest.mark.parametrize(
    ("name", "options", "specs", "made"),
    [
        (
            "tensorflow-function",
            "",
            "[None], tf.quint8), tf.TensorSpec([], tf.float32), tf.TensorSpec([], tf.float32",
            "",
        ),
        ("tensorflow-function", UNKNOWN, "None, tf.quint8), tf.TensorSpec(None, tf.float32), tf.TensorSpec(None, ", ""),
        ("tensorflow-function", CONSTANT, "[2], tf.quint8)]", "lambda input: "),
        ("tensorflow-xla", "", "[2], tf.quint8), tf.TensorSpec([], tf.float32)", ", jit_compile=True)"),
    ],
)
def test_the_short_script_of_a_graph(name: str, options: str, specs: str, made: str) -> None:
    got = gave("float32", [2], ["0.0", "5.0"], ["0x00000000", "0x40a00000"])
    legal = [wrong([1], ("5.0", "0x40a00000"), ("6.0", "0x40c00000", ["exact"]))]
    witness = {"call": range_call(), "got": got, "legal": legal}
    subject = {"name": name, "version": "1", "role": "oracle", "options": options}
    found = finding("violation", name, TENSORFLOW, "formula-min-combined", "a summary", witness, subject=subject)
    text = short_script(found)
    assert text is not None
    compile(text, "script", "exec")
    assert f"specs = [tf.TensorSpec({specs}" in text
    assert made in text
    assert 'tf.quantization.dequantize(input, min_range, max_range, mode="MIN_COMBINED")' in text


ZEROS = tensor("int8", [0, 0])
SHORT = [
    (
        PER_TENSOR,
        tensor("float32", 0.5),
        tensor("int8", 0),
        {"output_dtype": "bfloat16"},
        "out_dtype=torch.bfloat16).view(",
    ),
    (PER_CHANNEL, tensor("float32", [1, 2]), None, {"axis": 0}, "torch.from_numpy(scale), None, 0, int(info.min)"),
    (GROUP, tensor("float32", [[1, 2]]), None, {"block_size": 2}, "torch.int8, 2, torch.float32)"),
    (QUANTIZED, tensor("float32", 0.5), tensor("int8", 3), {}, "_make_per_tensor_quantized_tensor("),
    (QUANTIZED, tensor("float32", [1, 2]), ZEROS, {"axis": 0}, "_make_per_channel_quantized_tensor("),
    (
        litert.ID,
        tensor("float32", [1, 2]),
        ZEROS,
        {"axis": 0},
        "scale.ravel().tolist(), zero_point.ravel().tolist(), 0",
    ),
    (litert.ID, tensor("float32", 0.5), None, {}, "schema.TensorType.INT8"),
]


@pytest.mark.parametrize(("edition", "scale", "zero_point", "attributes", "part"), SHORT)
def test_the_short_form_of_a_peer(
    edition: str, scale: Tensor, zero_point: Tensor | None, attributes: dict[str, int | str], part: str
) -> None:
    module, name = (litert_cpu, "litert") if edition == litert.ID else (torch_cpu, "torch")
    call = linear(edition, tensor("int8", [1, 2]), scale, zero_point, **attributes)
    out = str(attributes.get("output_dtype", "float32"))
    form = module.short_form(ShortCall(edition, dict(call.tensors), attributes, name, name, "", out))
    assert form is not None
    text = "\n".join([*form.imports, *form.body])
    compile(text, "script", "exec")
    assert part in text
    assert "y = " in form.body[-1]
    unknown = {**attributes, "saturate": 1}
    odd = replace(call, tensors={**call.tensors, "x": tensor("int4", [1, 2])}, attributes=unknown)
    assert module.short_form(ShortCall(edition, dict(odd.tensors), unknown, name, name, "", out)) is None


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_a_peer_gives_exact_values_on_every_path(peer: tuple[Oracle, Ask], dtype: str) -> None:
    oracle, ask = peer
    for path, shape in product(oracle.paths, ((5,), (2, 3), (1, 2, 1, 4))):
        x = some_codes(dtype, shape)
        for plain in asked(oracle, x, tensor("float32", 0.5)):
            np.testing.assert_array_equal(values(ask(plain, path.options)), halves(x))
        for shifted in asked(oracle, x, tensor("float32", 4), tensor(dtype, 3)):
            expected = (to_array(x).astype(float) - 3) * 4
            np.testing.assert_array_equal(values(ask(shifted, path.options)), expected)


def test_a_peer_scales_each_slice(peer: tuple[Oracle, Ask]) -> None:
    oracle, ask = peer
    x = some_codes("int8", (2, 3, 2))
    scale, zero_point = [1.0, 0.5, 8.0], [0, -3, 7]
    expected = (to_array(x).astype(float) - np.reshape(zero_point, (3, 1))) * np.reshape(scale, (3, 1))
    operands = tensor("float32", scale), tensor("int8", zero_point)
    for path, axis in product(oracle.paths, (1, -2)):
        for call in asked(oracle, x, *operands, axis=axis):
            if call.contract == QUANTIZED and axis < 0:
                assert ask(call).kind == "rejected"
                continue
            np.testing.assert_array_equal(values(ask(call, path.options)), expected)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_peer_reads_every_layout(peer: tuple[Oracle, Ask], layout: str) -> None:
    oracle, ask = peer
    for dtype in ("uint8", "int8"):
        x = some_codes(dtype, (3, 4), layout)
        for call in asked(oracle, x, tensor("float32", 0.5)):
            np.testing.assert_array_equal(values(ask(call)), halves(x))


MORE = {
    "litert": [("int4", "float32"), ("uint4", "float32"), ("int2", "float32"), ("int16", "float32")],
    "openvino": [
        ("int4", "float32"), ("uint4", "float16"), ("int16", "float32"), ("uint16", "float16"), ("int32", "float32"),
        ("uint8", "bfloat16"), ("float8_e4m3fn", "float32"), ("float8_e5m2", "float16"), ("float4_e2m1fn", "float32"),
    ],
    "torch": [
        ("int16", "float32"), ("uint16", "float32"), ("int32", "float32"), ("float8_e4m3fn", "float32"),
        ("float8_e5m2", "float32"),
    ],
}  # fmt: skip


def test_a_peer_reads_more_types(peer: tuple[Oracle, Ask]) -> None:
    oracle, ask = peer
    for dtype, scale in MORE[oracle.name]:
        x = tensor(dtype, [[0, 1, 2, 3], [3, 1, 0, 2]])
        if dtype == "int2":
            x = tensor(dtype, [[0, 1, -2, -1], [1, -1, 0, -2]])
        outcome = ask(replace(asked(oracle, x, tensor(scale, 0.5))[0], attributes={}))
        assert outcome.tensor is not None, (dtype, outcome)
        assert outcome.tensor.dtype == scale
        np.testing.assert_array_equal(values(outcome), halves(x), err_msg=dtype)


def test_a_script_of_a_peer_runs_alone(peer: tuple[Oracle, Ask], tmp_path: Path) -> None:
    oracle, _ = peer
    for path in oracle.paths:
        subject = {"name": oracle.name, "version": "1", "role": "oracle", "options": path.options}
        for given, status in (("2.0", 1), ("1.5", 0)):
            found = scaled(oracle.name, given, subject=subject)
            called = found["witness"]["call"]
            found["contract"] = called["contract"] = editions_of(oracle, tensor("float32", 1))[0]
            called["tensors"]["zero_point"] = {
                "dtype": "int8",
                "shape": [],
                "layout": "C",
                "data": ["0"],
                "hex": ["0x00"],
            }
            text = script_for(found)
            assert "import xverify" not in text
            came = run(text, tmp_path)
            assert came[0] == status, came


def test_zero_points_of_four_bits(peer: tuple[Oracle, Ask]) -> None:
    oracle, ask = peer
    x = tensor("int4", [-8, -1, 0, 7])
    outcome = ask(asked(oracle, x, tensor("float32", 0.5), tensor("int4", -3))[0])
    if oracle.name == "torch":
        assert outcome.kind == "unsupported"
    else:
        np.testing.assert_array_equal(values(outcome), [-2.5, 1, 1.5, 5])


def test_blocks_of_openvino_and_pytorch(peer: tuple[Oracle, Ask]) -> None:
    oracle, ask = peer
    x = tensor("int8", [[1, 2, 3, 4], [5, 6, 7, 8]])
    scale, zero_point = tensor("float32", [[1, 2], [4, 8]]), tensor("int8", [[0, 1], [2, 3]])
    attributes = {"block_size": 2} | ({"axis": 1} if oracle.name == "openvino" else {})
    outcome = ask(asked(oracle, x, scale, zero_point, **attributes)[0])
    if oracle.name == "litert":
        assert (outcome.kind, outcome.error) == ("unsupported", "NotImplementedError")
    else:
        np.testing.assert_array_equal(values(outcome), [[1, 2, 4, 6], [12, 16, 32, 40]])


UNSUPPORTED: dict[str, list[Call]] = {
    "litert": [
        linear(litert.ID, some_codes("float8_e4m3fnuz", (2,)), tensor("float32", 1)),
        linear(litert.ID, some_codes("int8", (2,)), tensor("float16", 1)),
        linear(litert.ID, some_codes("int8", (2,)), tensor("float32", 1), tensor("float32", 0.5)),
        linear(litert.ID, some_codes("int8", (2,)), tensor("float32", 1), tensor("int8", [0])),
        linear(litert.ID, some_codes("int8", (2,)), tensor("float32", [1]), axis=0),
    ],
    "openvino": [],
    "torch": [
        linear(PER_TENSOR, some_codes("int4", (2,)), tensor("float32", 1), tensor("int4", 0)),
        linear(PER_TENSOR, some_codes("int8", (2,)), tensor("float32", [1]), tensor("int8", 0)),
        linear(PER_TENSOR, some_codes("int8", (2,)), tensor("float32", 1)),
        linear(PER_TENSOR, some_codes("int8", (2,)), tensor("float32", 1), tensor("float32", 0.5)),
        linear(PER_TENSOR, some_codes("int8", (2,)), tensor("float32", 1), tensor("int8", 0), axis=0),
        linear(PER_CHANNEL, some_codes("int8", (2,)), tensor("float32", [1, 1])),
        linear(GROUP, some_codes("int8", (2, 4)), tensor("float32", [[1, 1]] * 2)),
        linear(GROUP, some_codes("int8", (2, 4)), tensor("float32", [[1], [1], [1], [1]]), block_size=2),
        linear(QUANTIZED, some_codes("int16", (2,)), tensor("float32", 1), tensor("int16", 0)),
        linear(QUANTIZED, some_codes("int8", (2,)), tensor("float32", 1)),
    ],
}


def test_what_a_peer_has_no_call_for_is_said_to_be_unsupported(peer: tuple[Oracle, Ask]) -> None:
    oracle, ask = peer
    assert [ask(call).error for call in UNSUPPORTED[oracle.name]] == ["NotImplementedError"] * len(
        UNSUPPORTED[oracle.name]
    )


def test_what_a_peer_refuses_is_a_refusal_each_time(peer: tuple[Oracle, Ask]) -> None:
    oracle, ask = peer
    call = {
        "litert": linear(litert.ID, some_codes("int16", (3,)), tensor("float32", 1), tensor("int16", 1)),
        "openvino": linear(ONNX, some_codes("float8_e5m2fnuz", (3,)), tensor("float32", 1)),
        "torch": linear(PER_CHANNEL, some_codes("int8", (3,)), tensor("float32", [1, 1, 1]), axis=3),
    }[oracle.name]
    assert [ask(call).kind for _ in range(2)] == ["rejected"] * 2
    assert ask(asked(oracle, some_codes("int8", (3,)), tensor("float32", 1))[0]).kind == "tensor"


def test_output_types_of_pytorch(peer: tuple[Oracle, Ask]) -> None:
    oracle, ask = peer
    if oracle.name != "torch":
        pytest.skip("only PyTorch's operators name an output type")
    x, scale = some_codes("int8", (7,)), tensor("float32", 0.5)
    for out in ("float16", "bfloat16"):
        outcome = ask(linear(PER_TENSOR, x, scale, tensor("int8", 0), output_dtype=out))
        assert outcome.tensor is not None
        assert outcome.tensor.dtype == out
        np.testing.assert_array_equal(values(outcome), halves(x))


@pytest.mark.parametrize("name", ["litert", "openvino", "torch"])
def test_one_that_is_not_installed_is_named_with_the_line_that_installs_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = f"no-such-distribution-{name}"
    known = all_oracles()
    known[name] = replace(known[name], distribution=missing)
    monkeypatch.setattr(select, "all_oracles", lambda: known)
    chosen, sentences = select.oracles_named([], None)
    assert name not in {oracle.name for oracle in chosen}
    assert f"{name} is left out: {missing} is not installed; pip install {missing}" in sentences
    with pytest.raises(UsageError, match=f"pip install {missing}"):
        select.oracles_named([name], None)


def test_a_cell_that_one_which_no_edition_judges_refuses_whole_is_unsupported(tmp_path: Path) -> None:
    edition = "onednn/DynamicDequantize-1@multiply"
    peer = Oracle("peer", "numpy", (edition,), (), "peer_oracles", "load_unsigned", search_path=(HERE,))
    peer = replace(peer, needs_xverify=True)
    asked = (contracts.get(edition),)
    report = sweep(Options(asked, (all_oracles()["xverify-numpy"], peer), tmp_path, "t", "t", 1, 60.0, 300), print)
    cells = [cell for cell in report["coverage"]["cells"] if cell["subject"] == "peer"]
    cells = [cell for cell in cells if cell["status"] != "unspecified"]
    assert {(cell["x_dtype"], cell["status"]) for cell in cells} == {
        ("int8", "unsupported"),
        ("uint8", "not-judged-agrees"),
    }
    assert [finding for finding in report["findings"] if finding["subject"]["name"] == "peer"] == []
