"""Reading of models: nodes, constants by parts, and refusals."""

from __future__ import annotations

import os
import subprocess
import sys

import models
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from xverify.core.call import BITS, code_dtype
from xverify.core.errors import DamagedFileError, UsageError
from xverify.model import constants
from xverify.model.constants import HeldConstant, StoredConstant, dtype_of
from xverify.model.read import LARGE, read_model
from xverify.oracles.onnx_model import element_type


def saved(model, folder):
    path = folder / "model.onnx"
    onnx.save(model, path)
    return path


def one_node(opset=21, domain="", constants=(), **attributes):
    """A model of one DequantizeLinear node, whose x and scale are inputs."""
    names = {tensor.name for tensor in constants}
    inputs = [
        helper.make_tensor_value_info(name, number, None)
        for name, number in (("x", TensorProto.INT8), ("s", TensorProto.FLOAT))
        if name not in names
    ]
    node = helper.make_node("DequantizeLinear", ["x", "s"], ["y"], domain=domain, **attributes)
    return models.model_of(
        [node], inputs, ["y"], list(constants), opset, opsets=[helper.make_opsetid("com.microsoft", 1)]
    )


def test_nodes_of_a_model_that_onnxruntime_quantized(tmp_path):
    model = read_model(models.quantized(tmp_path))
    nodes = {node.name: node for node in model.nodes}
    assert len(nodes) == 10
    weight = nodes["conv.weight_DequantizeLinear"]
    assert (weight.contract, dict(weight.attributes)) == ("ai.onnx/DequantizeLinear-21", {"axis": 0})
    assert [(o.dtype, o.shape, o.constant is not None) for o in weight.operands.values()] == [
        ("int8", (4, 3, 3, 3), True),
        ("float32", (4,), True),
        ("int8", (4,), True),
    ]
    x = nodes["relu_DequantizeLinear"].operands["x"]
    assert (x.dtype, x.shape, x.symbols, x.constant) == ("int8", (None, 4, 8, 8), ("batch", "", "", ""), None)


@pytest.mark.parametrize("symmetric", [True, False])
def test_nodes_of_a_model_with_blocked_int4(tmp_path, symmetric):
    path = models.blocked_int4(tmp_path, symmetric)
    (node,) = read_model(path).nodes
    assert dict(node.attributes) == {"axis": 0, "block_size": 16}
    constant = node.operands["x"].constant
    assert constant is not None
    stored = {tensor.name: tensor for tensor in onnx.load(path).graph.initializer}["fc.weight_DQ_Q4"]
    expected = numpy_helper.to_array(stored).view(np.uint8) & 15
    assert constant.dtype == ("int4" if symmetric else "uint4")
    assert (constant.part((slice(1, 3), slice(5, 20))).codes == expected[1:3, 5:20]).all()
    assert ("zero_point" in node.operands) == (not symmetric)


@pytest.mark.parametrize("symmetric", [True, False])
def test_blocked_int4_is_what_the_quantizer_makes(tmp_path, symmetric):
    pytest.importorskip("onnx_ir")
    mine, theirs = (
        onnx.load(make(tmp_path, symmetric)).graph for make in (models.blocked_int4, models.blocked_int4_by_tool)
    )
    assert list(mine.node) == list(theirs.node)
    weights = [{t.name: (t.data_type, list(t.dims), t.raw_data) for t in graph.initializer} for graph in (mine, theirs)]
    assert weights[0] == weights[1]


def test_nodes_of_a_model_in_the_form_of_pytorchs_exporter(tmp_path):
    nodes = read_model(models.exported(tmp_path)).nodes
    assert [node.name for node in nodes] == [
        "node_dequantize_per_tensor",
        "node_dequantize_per_channel",
        "node_dequantize_per_tensor_1",
        "node_fake_quantize_per_tensor_affine",
        "node_fake_quantize_per_channel_affine",
    ]
    assert [node.operands["x"].shape for node in nodes] == [(2, 3, 8, 8), (8, 3, 3, 3), (2, 8, 6, 6), (2, 8), (5, 8)]


@pytest.mark.slow
def test_a_model_from_pytorchs_exporter(tmp_path):
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")

    class Network(torch.nn.Module):
        def forward(self, x):
            return torch.relu(torch.fake_quantize_per_tensor_affine(x, 0.01, 5, 0, 255))

    path = tmp_path / "model.onnx"
    torch.onnx.export(Network(), (torch.randn(2, 3),), dynamo=True, opset_version=21).save(path)
    (node,) = read_model(path).nodes
    assert (node.name, node.operands["x"].dtype) == ("node_fake_quantize_per_tensor_affine", "uint8")


def test_nodes_of_subgraphs_and_functions_see_the_constants_around_them(tmp_path):
    model = read_model(models.nested(tmp_path))
    assert {node.name: (node.graph, node.function) for node in model.nodes} == {
        "in_then": (("choice.then_branch",), ""),
        "else.y": (("choice.else_branch",), ""),
        "in_loop": (("loop.body",), ""),
        "inner__1": ((), "Double"),
        "inner__2": ((), "Double"),
        "weight": ((), ""),
    }
    scales = {}
    for node in model.nodes:
        constant = node.operands["scale"].constant
        assert constant is not None
        scales[node.name] = constant.part((slice(None),) * len(constant.shape)).codes.view(np.float32)
        assert node.operands["x"].dtype in ("int8", "int4")
    assert {name: float(scale) for name, scale in scales.items() if not scale.ndim} == {
        "in_then": 0.25, "else.y": 0.5, "in_loop": 0.25, "inner__1": 0.25, "inner__2": 0.5
    }  # fmt: skip
    assert [operand.value for operand in model.inputs] == ["x", "condition", "image"]
    assert model.files == ("nested.data",)


def test_a_function_of_another_opset_has_the_edition_of_that_opset(tmp_path):
    node = helper.make_node("DequantizeLinear", ["a", "b"], ["c"], name="inner")
    function = helper.make_function("local", "Old", ["a", "b"], ["c"], [node], [helper.make_opsetid("", 20)])
    call = helper.make_node("Old", ["x", "s"], ["y"], domain="local")
    inputs = [helper.make_tensor_value_info(name, 3 if name == "x" else 1, [2]) for name in "xs"]
    opsets = [helper.make_opsetid("local", 1)]
    model = models.model_of([call], inputs, ["y"], [], functions=[function], opsets=opsets)
    (node,) = read_model(saved(model, tmp_path)).nodes
    assert (node.contract, node.function, node.operands["x"].dtype) == ("ai.onnx/DequantizeLinear-19", "Old", "")


def test_equal_names_are_told_apart(tmp_path):
    nodes = [helper.make_node("DequantizeLinear", ["x", "s"], [f"y{i}"], name="same") for i in range(3)]
    inputs = [helper.make_tensor_value_info(name, number, [2]) for name, number in (("x", 3), ("s", 1))]
    model = read_model(saved(models.model_of(nodes, inputs, ["y0"], []), tmp_path))
    assert [node.name for node in model.nodes] == ["same", "same#2", "same#3"]


def test_a_node_of_com_microsoft_among_its_operators(tmp_path):
    model = one_node(domain="com.microsoft")
    model.graph.node.append(helper.make_node("Gelu", ["y"], ["z"], domain="com.microsoft"))
    model.graph.node.append(helper.make_node("DequantizeLinear", ["z", "s"], ["last"]))
    first, last = read_model(saved(model, tmp_path)).nodes
    assert first.contract == "com.microsoft/DequantizeLinear-1@installed"
    assert (last.operands["x"].dtype, last.operands["x"].shape) == ("", None)


def test_the_output_type_is_a_name(tmp_path):
    (node,) = read_model(saved(one_node(opset=23, output_dtype=TensorProto.FLOAT16), tmp_path)).nodes
    assert dict(node.attributes) == {"output_dtype": "float16"}
    assert node.contract == "ai.onnx/DequantizeLinear-23"


def test_constants_of_constant_nodes(tmp_path):
    model = one_node()
    del model.graph.input[:]
    values = helper.make_tensor("", TensorProto.INT8, [3], [1, -1, 2])
    nodes = [
        helper.make_node("Constant", [], ["stored"], value=values),
        helper.make_node("Identity", ["stored"], ["x"]),
        helper.make_node("Constant", [], ["s"], value_floats=[0.5, 1.0, 2.0]),
        model.graph.node[0],
    ]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    (node,) = read_model(saved(model, tmp_path)).nodes
    x, scale = node.operands["x"].constant, node.operands["scale"].constant
    assert x is not None
    assert scale is not None
    assert x.part((slice(1, 3),)).codes.tolist() == [255, 2]
    assert scale.part((slice(0, 1),)).codes.tolist() == [0x3F000000]


# --- constants in every form --------------------------------------------------------------------

DTYPES = [dtype for dtype in BITS if dtype not in ("float64", "uint32", "uint64")]


def _tensors(dtype, shape):
    """The codes of a tensor, and the tensor in both forms that a model's file has."""
    number = element_type(dtype)
    codes = np.random.default_rng(7).integers(0, 1 << min(BITS[dtype], 62), shape, np.uint64).astype(code_dtype(dtype))
    raw = onnx.TensorProto(name="x", data_type=number, dims=shape)
    bits = np.unpackbits(codes.reshape(-1, 1).view(np.uint8), axis=1, bitorder="little")[:, : BITS[dtype]]
    raw.raw_data = np.packbits(bits.reshape(-1), bitorder="little").tobytes()
    typed = onnx.TensorProto(name="x", data_type=number, dims=shape)
    if dtype == "float32":
        typed.float_data.extend(codes.view(np.float32).reshape(-1))
    elif dtype == "int64":
        typed.int64_data.extend(codes.view(np.int64).reshape(-1))
    elif BITS[dtype] in (2, 4):
        typed.int32_data.extend(raw.raw_data)
    else:
        values = codes.view(dtype) if dtype.startswith("int") else codes
        typed.int32_data.extend(values.reshape(-1).tolist())
    return codes, raw, typed


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_constant_of_each_dtype_in_each_form(tmp_path, dtype):
    shape = (5, 3, 7)
    codes, raw, typed = _tensors(dtype, shape)
    if dtype == "float32":  # A NaN may lose its payload in a list of Python's floats.
        codes = numpy_helper.to_array(typed).view(np.uint32)
        raw = numpy_helper.from_array(codes.view(np.float32), "x")
    index = (slice(1, 4), slice(0, 3), slice(2, 6))
    for tensor in (raw, typed):
        (node,) = read_model(saved(one_node(28, constants=[tensor]), tmp_path)).nodes
        constant = node.operands["x"].constant
        assert isinstance(constant, HeldConstant)
        assert (constant.dtype, constant.shape) == (dtype, shape)
        assert (constant.part(index).codes == codes[index]).all()


@pytest.mark.parametrize("form", ["inline", "external"])
@pytest.mark.parametrize("dtype", ["int8", "float16", "int4", "uint2", "float6_e2m3fn", "int32"])
def test_a_large_constant_stays_in_its_file(tmp_path, monkeypatch, dtype, form):
    shape = (37, 11, 53)
    codes, raw, _ = _tensors(dtype, shape)
    if form == "external":
        (tmp_path / "data").write_bytes(b"!!!" + raw.raw_data)
        models.refer(raw, "data", 3, len(raw.raw_data))
        raw.ClearField("raw_data")
    model = read_model(saved(one_node(28, constants=[raw]), tmp_path))
    assert len(model.proto.SerializeToString()) < LARGE
    constant = model.nodes[0].operands["x"].constant
    assert isinstance(constant, StoredConstant)
    indices = (
        (slice(None),) * 3,
        (slice(3, 9), slice(None), slice(None)),
        (slice(3, 5), slice(2, 10), slice(None)),
        (slice(36, 37), slice(10, 11), slice(50, 53)),
        (slice(0, 2), slice(4, 4), slice(0, 9)),
    )
    for at_once in (constants._AT_ONCE, 8):  # In a few large blocks, or row by row.
        monkeypatch.setattr(constants, "_AT_ONCE", at_once)
        for index in indices:
            part = constant.part(index)
            assert part.shape == codes[index].shape
            assert (part.codes == codes[index]).all()


def test_a_model_with_gigabytes_of_data_needs_little_memory(tmp_path):
    path = models.sparse(tmp_path, 4 << 30)
    code = """
import resource, sys, numpy
from pathlib import Path
from xverify.model.cut import exposed, neighbours
from xverify.model.read import read_model
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
import onnx, onnx.inliner, onnx.shape_inference, onnx.helper
model = read_model(Path(sys.argv[1]))
node = model.nodes[0]
constant = node.operands["x"].constant
rows, columns = constant.shape
assert constant.part((slice(rows - 2, rows), slice(columns - 1, columns))).codes.tolist() == [[0], [7]]
assert neighbours(model, node).operators == ("DequantizeLinear", "MatMul")
exposed(model, ["y"], (), Path(sys.argv[2]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    command = [sys.executable, "-c", code, str(path), str(tmp_path / "copy")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert int(done.stdout) < 200 << 10  # KiB, of which onnx itself needs most


def test_a_file_that_became_too_short(tmp_path):
    path = models.sparse(tmp_path, 1 << 20)
    (node,) = read_model(path).nodes
    os.truncate(tmp_path / "weights/sparse.data", 100)
    constant = node.operands["x"].constant
    assert constant is not None
    with pytest.raises(DamagedFileError, match="too short"):
        constant.part((slice(0, 1), slice(0, 1)))


def test_x_has_the_type_of_the_zero_point_after_an_operator_that_onnx_does_not_know(tmp_path):
    nodes = [
        helper.make_node("QLinearAdd", ["a", "s", "z", "a", "s", "z", "s", "z"], ["x"], domain="com.microsoft"),
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info("a", TensorProto.UINT8, ["n"])]
    constants = [models.array("s", np.float32(0.5)), models.array("z", np.uint8(3))]
    model = models.model_of(nodes, inputs, ["y"], constants, opsets=[helper.make_opsetid("com.microsoft", 1)])
    (node,) = read_model(saved(model, tmp_path)).nodes
    assert (node.operands["x"].dtype, node.operands["x"].shape) == ("uint8", None)


# --- refusals -----------------------------------------------------------------------------------


def _newer(model):
    model.opset_import[0].version = onnx.defs.onnx_opset_version() + 1


def _newer_format(model):
    model.ir_version = onnx.IR_VERSION + 1


def _unknown(model):
    model.graph.node[0].op_type = "DequantiseLinear"


def _older(model):
    model.opset_import[0].version = 9


def _one_operand(model):
    del model.graph.node[0].input[1:]


def _short(model):
    model.graph.initializer.append(onnx.TensorProto(name="s", data_type=1, dims=[2], raw_data=b"123"))


def _cyclic(model):
    model.graph.node[0].input[0] = model.graph.node[0].output[0]


def _unmade(model):
    model.graph.node[0].input[0] = "nowhere"


def _made_twice(model):
    model.graph.node.append(model.graph.node[0])


def _worded_axis(model):
    model.graph.node[0].attribute.append(helper.make_attribute("axis", "one"))


def _without_branches(model):
    model.graph.node.append(helper.make_node("If", ["x"], ["chosen"], name="choice"))


def _without_result(model):
    branch = helper.make_graph([], "branch", [], [onnx.ValueInfoProto(name="nowhere")])
    model.graph.node.append(helper.make_node("If", ["x"], ["chosen"], then_branch=branch, else_branch=branch))


def _endless(model):
    model.graph.initializer.append(onnx.TensorProto(name="s", data_type=1, dims=[0, 1 << 60]))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (_cyclic, DamagedFileError, "needs its own result"),
        (_unmade, DamagedFileError, "nothing makes the value 'nowhere'"),
        (_made_twice, DamagedFileError, "is made twice"),
        (_worded_axis, DamagedFileError, "attribute axis of the node .* is no whole number"),
        (_without_branches, DamagedFileError, "the If node choice has no 'else_branch' of type GRAPH"),
        (_without_result, DamagedFileError, "nothing makes the value 'nowhere', an output of the graph 'branch'"),
        (_endless, DamagedFileError, "has extents"),
        (_newer, UsageError, "install a newer onnx"),
        (_newer_format, UsageError, "install a newer onnx"),
        (_unknown, UsageError, "DequantiseLinear node .* opset 21 of ai.onnx does not have"),
        (_older, UsageError, "opset 9 of ai.onnx does not have"),
        (_one_operand, DamagedFileError, "wrong number of inputs"),
        (_short, DamagedFileError, "constant s has 3 bytes, not 8"),
    ],
)
def test_a_model_is_refused_with_one_sentence(tmp_path, change, error, message):
    model = one_node()
    change(model)
    with pytest.raises(error, match=message) as caught:
        read_model(saved(model, tmp_path))
    assert "\n" not in str(caught.value)
    assert "model.onnx" in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"PK\3\4 no model", b"\x08\x0a", bytes(1000), b"\x3a\xff\xff\x03abc"])
def test_a_damaged_file_is_refused(tmp_path, content):
    path = tmp_path / "damaged.onnx"
    path.write_bytes(content)
    with pytest.raises(DamagedFileError, match=r"damaged.onnx is no valid ONNX model: [^\n]*$"):
        read_model(path)


def test_a_name_that_is_no_text_is_refused(tmp_path):
    path = saved(one_node(), tmp_path)
    name = read_model(path).nodes[0].name.encode()
    path.write_bytes(path.read_bytes().replace(name, b"\xff" * len(name)))
    with pytest.raises(DamagedFileError, match="no text in UTF-8"):
        read_model(path)


def test_the_order_of_the_nodes_is_free(tmp_path):
    model = onnx.load(models.long_network(tmp_path, 4))
    nodes = list(reversed(model.graph.node))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    assert len(read_model(saved(model, tmp_path)).nodes) == 4


def test_a_file_that_ends_early_is_refused(tmp_path):
    content = models.long_network(tmp_path, 50).read_bytes()
    path = tmp_path / "short.onnx"
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(DamagedFileError, match="of which the file has"):
        read_model(path)


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("../data", "not inside the model's folder"),
        ("sub/../data", "not inside the model's folder"),
        ("/etc/hostname", "not inside the model's folder"),
        ("link", "not inside the model's folder"),
        ("", "is no file"),
        ("missing", "is no file"),
        ("short", "ends at byte 5003 of .*short, which has 100 bytes"),
    ],
)
def test_external_data_that_cannot_be_read(tmp_path, location, message):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "data").write_bytes(bytes(9000))
    (folder / "link").symlink_to(tmp_path / "data")
    (folder / "short").write_bytes(bytes(100))
    tensor = onnx.TensorProto(name="x", data_type=TensorProto.INT8, dims=[5000])
    models.refer(tensor, location, 3)
    with pytest.raises(DamagedFileError, match=message) as caught:
        read_model(saved(one_node(constants=[tensor]), folder))
    assert "\n" not in str(caught.value)


def test_links_of_a_cache_to_files_beside_each_other(tmp_path):
    blobs, shown = tmp_path / "blobs", tmp_path / "shown"
    blobs.mkdir()
    shown.mkdir()
    path = models.nested(blobs)
    for name in ("nested.onnx", "nested.data"):
        (blobs / name).rename(blobs / f"blob-{name}")
        (shown / name).symlink_to(blobs / f"blob-{name}")
    assert len(read_model(shown / path.name).nodes) == 6


def test_dtypes_that_no_tensor_has():
    assert [dtype_of(n) for n in (TensorProto.BOOL, TensorProto.STRING, 99)] == ["bool", "string", "type99"]


def test_the_digest_is_that_of_the_file(tmp_path):
    first, second = (read_model(saved(one_node(opset=o), tmp_path)).digest for o in (21, 23))
    assert first != second
    assert len(first) == 64
